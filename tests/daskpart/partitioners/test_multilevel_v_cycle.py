"""V-cycles with cost_table: never worse, fixed vertices stay, parts keep to their bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypergraphs import paid, random_nets
from hypothesis import given
from hypothesis import strategies as st

from daskpart.errors import InputError
from daskpart.hypergraph import Hypergraph
from daskpart.partitioners import methods, partition
from daskpart.partitioners.multilevel import MultilevelEngine, rebalanced, refinement, v_cycle
from daskpart.partitioners.objectives import PowerConnectivity


@pytest.fixture(autouse=True, scope="module")
def levels_of_few_vertices():
    """So that few vertices are coarsened, too."""
    patch = pytest.MonkeyPatch()
    patch.setattr(refinement, "COARSEST_PER_PART", 3)
    yield
    patch.undo()


def made(seed: int, n: int, n_nets: int, weighted: bool = False) -> Hypergraph:
    """Random nets of 1 to 6 pins; a quarter of the weights may be 0."""
    rng, weights = np.random.default_rng(seed), (0, 4) if weighted else (1, 2)
    return random_nets(rng, n, n_nets, (1, 7), weights, (0, 5))


@given(st.integers(0, 10**6), st.integers(2, 7), st.sampled_from([1, 2, 3]), st.booleans())
def test_never_worse_and_inside_the_bounds(seed, n_parts, rho, weighted):
    hypergraph = made(seed, 40, 60, weighted)
    rng = np.random.default_rng(seed)
    start = rng.integers(0, n_parts, 40).astype(np.int32)
    fixed = np.where(rng.random(40) < 0.3, start, -1)
    cost_table = PowerConnectivity(rho).cost_table(n_parts)
    weights = np.bincount(start, hypergraph.vertex_weights, minlength=n_parts)
    least, most = int(weights.min()), int(weights.max())
    kept = start.copy()
    part, again = (
        v_cycle(
            hypergraph, start, cost_table, (least, most),
            random_state=seed, fixed=fixed, max_cycles=2,
        )
        for _ in range(2)
    )  # fmt: skip
    np.testing.assert_array_equal(part, again)
    np.testing.assert_array_equal(start, kept)
    np.testing.assert_array_equal(part[fixed >= 0], start[fixed >= 0])
    assert paid(hypergraph, part, cost_table) <= paid(hypergraph, start, cost_table)
    after = np.bincount(part, hypergraph.vertex_weights, minlength=n_parts)
    assert after.min() >= least and after.max() <= most


def test_squares_fall_below_what_connectivity_alone_finds():
    """The slopes of λ^2 make nets of high connectivity dear."""
    hypergraph = Hypergraph.from_nets(
        np.arange(0, 2001, 5), np.random.default_rng(0).zipf(1.4, 2000) % 300, 300
    )
    start = MultilevelEngine().partition(hypergraph, 8, 0.1, 0)
    cost_table = PowerConnectivity(2).cost_table(8)
    least, most = 0, int(1.1 * 300 / 8)
    part = v_cycle(hypergraph, start, cost_table, (least, most), max_cycles=3)
    assert paid(hypergraph, part, cost_table) < paid(hypergraph, start, cost_table)


def test_a_part_that_is_too_heavy_already_grows_no_further():
    hypergraph = made(1, 30, 40)
    start = np.zeros(30, np.int32)
    start[25:] = 1
    part = v_cycle(hypergraph, start, PowerConnectivity(2).cost_table(2), (0, 15))
    assert np.bincount(part, minlength=2)[0] <= 25


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (np.zeros(29, np.int32), "for each of the 30 vertices"),
        (np.full(30, 2, np.int32), "a part, 0 to 1"),
    ],
)
def test_bad_input_is_named(part, message):
    with pytest.raises(InputError, match=message):
        v_cycle(made(0, 30, 20), part, np.arange(3), (0, 30))


def test_nothing_to_do():
    """No vertices, or one part."""
    empty = Hypergraph.from_nets([0], [], 0)
    assert v_cycle(empty, np.zeros(0, np.int32), np.arange(3), (0, 0)).size == 0
    one = made(0, 5, 5)
    part = v_cycle(one, np.zeros(5, np.int32), np.zeros(2, np.int64), (0, 5))
    np.testing.assert_array_equal(part, 0)


def test_partition_ends_with_v_cycles_where_tolls_are_not_even(monkeypatch):
    """Never worse than without, fixed vertices kept; connectivity - 1 is left to the engine."""
    hypergraph = made(3, 200, 400)
    fixed = np.where(np.arange(200) < 12, np.arange(200) % 6, -1)
    cost_table = PowerConnectivity(2).cost_table(6)
    calls = []
    real = methods.v_cycle
    monkeypatch.setattr(methods, "v_cycle", lambda *a, **k: calls.append(a) or real(*a, **k))
    partition(hypergraph, 6, "power", fixed=fixed, random_state=1)
    assert not calls  # of so few pins none is worth its compiling
    monkeypatch.setattr(methods, "V_CYCLE_PINS", hypergraph.n_pins)
    found = partition(hypergraph, 6, "power", fixed=fixed, random_state=1).assignment
    np.testing.assert_array_equal(found[:12], fixed[:12])
    assert calls
    monkeypatch.setattr(methods, "V_CYCLES", 0)
    without = partition(hypergraph, 6, "power", fixed=fixed, random_state=1).assignment
    assert paid(hypergraph, found, cost_table) <= paid(hypergraph, without, cost_table)
    calls.clear()
    partition(hypergraph, 6, "connectivity")
    assert not calls


@given(seed=st.integers(0, 10_000))
def test_too_heavy_parts_are_lightened(seed: int) -> None:
    """Unit weights always can be balanced; fixed vertices stay, and fitting parts as they are."""
    rng = np.random.default_rng(seed)
    pins = rng.integers(0, 60, 150)
    hypergraph = Hypergraph.from_nets(np.arange(0, 151, 3), pins, 60)
    start = rng.integers(0, 2, 60).astype(np.int32)
    fixed = np.where(rng.random(60) < 0.1, start, -1).astype(np.int32)
    found = rebalanced(hypergraph, start, 4, 16, fixed)
    assert np.bincount(found, minlength=4).max() <= 16
    assert np.array_equal(found[fixed >= 0], start[fixed >= 0])
    assert rebalanced(hypergraph, found, 4, 16) is found
