"""The face of every engine: what it refuses, what it promises, and that both engines keep it."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from daskpart.errors import BalanceWarning, InputError
from daskpart.hypergraph import Hypergraph
from daskpart.partitioners.engine import Engine, get_engine, warn_if_unbalanced

needs_mtkahypar = pytest.mark.skipif(
    importlib.util.find_spec("mtkahypar") is None, reason="mtkahypar is not installed"
)
ENGINES = ["multilevel", pytest.param("mtkahypar", marks=needs_mtkahypar)]


def two_cliques(heavy: int = 1) -> Hypergraph:
    """Vertices 0-3 and 4-7, all pairs joined at cost 10, and one net of cost 1 across."""
    nets = [
        (a, b) for side in (0, 4) for a in range(side, side + 4) for b in range(a + 1, side + 4)
    ]
    pins = np.array([*np.ravel(nets), 3, 4])
    weights = [heavy] + [1] * 7
    pointer = np.arange(0, len(pins) + 1, 2)
    return Hypergraph.from_nets(pointer, pins, 8, weights, [10] * len(nets) + [1])


@pytest.mark.parametrize("name", ENGINES)
def test_names_give_engines(name):
    engine = get_engine(name)
    assert isinstance(engine, Engine)
    assert engine.name == name
    assert get_engine(engine) is engine


@pytest.mark.parametrize("wrong", ["patoh", None, 3, object()])
def test_unknown_engines_are_refused(wrong):
    with pytest.raises(InputError, match="'multilevel', 'mtkahypar'"):
        get_engine(wrong)


@pytest.mark.parametrize("name", ENGINES)
def test_two_cliques_are_told_apart(name):
    engine = get_engine(name)
    side = engine.bipartition(two_cliques(), np.array([4, 4]), 0.0, None, 1)
    assert side.dtype == np.int8
    assert sorted([side[:4].tolist(), side[4:].tolist()]) == [[0] * 4, [1] * 4]
    part = engine.partition(two_cliques(), 2, 0.0, 1)
    assert part.dtype == np.int32
    assert sorted([part[:4].tolist(), part[4:].tolist()]) == [[0] * 4, [1] * 4]


@pytest.mark.parametrize("name", ENGINES)
def test_fixed_vertices_of_weight_zero_hold(name):
    """The anchors of the hypercube mapping: weightless, and each must decide its clique's side."""
    cliques = two_cliques()
    weights = cliques.vertex_weights.copy()
    weights[[0, 7]] = 0
    anchored = Hypergraph.from_nets(
        cliques.net_pointer, cliques.pins, 8, weights, cliques.net_costs
    )
    for left, right in ((0, 7), (7, 0)):
        fixed = np.full(8, -1, np.int8)
        fixed[left], fixed[right] = 0, 1
        side = get_engine(name).bipartition(anchored, np.array([3, 3]), 0.0, fixed, 1)
        assert np.all(side[:4] == side[0])
        assert (side[left], side[right]) == (0, 1)


@pytest.mark.parametrize("name", ENGINES)
def test_uneven_targets(name):
    side = get_engine(name).bipartition(two_cliques(), np.array([2, 6]), 0.0, None, 1)
    assert np.bincount(side, minlength=2).tolist() == [2, 6]


@pytest.mark.parametrize("name", ENGINES)
def test_a_vertex_too_heavy_is_a_warning_that_states_the_imbalance(name):
    with pytest.warns(BalanceWarning, match=r"weighs 100.*more than its target of 53\.5"):
        part = get_engine(name).partition(two_cliques(heavy=100), 2, 0.03, 1)
    assert set(part.tolist()) <= {0, 1}


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("costs", [[2**40] * 12 + [1], [2**61] + [1] * 12])
def test_costs_beyond_int32(name, costs):
    """λ^ρ outgrows 32 bits; Mt-KaHyPar gets scaled costs."""
    cliques = two_cliques()
    dear = Hypergraph.from_nets(cliques.net_pointer, cliques.pins, 8, None, costs)
    side = get_engine(name).bipartition(dear, np.array([4, 4]), 0.0, None, 1)
    assert np.bincount(side).tolist() == [4, 4]
    assert side[0] == side[1]


@pytest.mark.parametrize("name", ENGINES)
def test_what_cannot_be_cut_is_refused(name):
    engine, cliques = get_engine(name), two_cliques()
    for n_parts in (0, -1, 9):
        with pytest.raises(InputError, match="n_parts"):
            engine.partition(cliques, n_parts, 0.03, 0)
    for epsilon in (-0.1, np.nan):
        with pytest.raises(InputError, match="epsilon"):
            engine.partition(cliques, 2, epsilon, 0)
        with pytest.raises(InputError, match="epsilon"):
            engine.bipartition(cliques, np.array([4, 4]), epsilon, None, 0)
    for targets in ([4, 5], [-1, 9], [8]):
        with pytest.raises(InputError, match="targets"):
            engine.bipartition(cliques, np.array(targets), 0.03, None, 0)
    for fixed in (np.zeros(7, np.int8), np.full(8, 2)):
        with pytest.raises(InputError, match="fixed"):
            engine.bipartition(cliques, np.array([4, 4]), 0.03, fixed, 0)


@pytest.mark.parametrize("name", ENGINES)
def test_nets_that_join_nothing(name):
    """Empty nets, single pins and isolated vertices: only the balance is left to find."""
    bare = Hypergraph.from_nets([0, 0, 1, 1], [2], 6)
    part = get_engine(name).partition(bare, 3, 0.0, 0)
    assert np.bincount(part).tolist() == [2, 2, 2]


@pytest.mark.parametrize("name", ENGINES)
def test_as_many_parts_as_vertices_and_only_one(name):
    engine, cliques = get_engine(name), two_cliques()
    assert sorted(engine.partition(cliques, 8, 0.0, 0).tolist()) == list(range(8))
    assert engine.partition(cliques, 1, 0.0, 0).tolist() == [0] * 8


def test_the_warning_knows_whole_numbers():
    """Five vertices in two parts: 3 and 2 is as good as it gets, so it is no reason to warn."""
    warn_if_unbalanced(np.array([3, 2]), np.array([2.5, 2.5]), 0.0)
    with pytest.warns(BalanceWarning, match="part 1 weighs 4, 60.0% more"):
        warn_if_unbalanced(np.array([1, 4]), np.array([2.5, 2.5]), 0.0)


def test_the_warning_begins_where_the_room_ends():
    targets = np.array([100, 100])
    warn_if_unbalanced(np.array([90, 110]), targets, 0.1)
    with pytest.warns(BalanceWarning, match="part 1 weighs 111, 11.0% more"):
        warn_if_unbalanced(np.array([89, 111]), targets, 0.1)
    with pytest.warns(BalanceWarning, match="part 1 weighs 1, inf% more than its target of 0"):
        warn_if_unbalanced(np.array([199, 1]), np.array([200, 0]), 0.1)
