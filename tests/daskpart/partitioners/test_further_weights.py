"""Several weights a vertex, each of which parts share evenly."""

from __future__ import annotations

import warnings

import dask.array
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import sparse
import xarray as xr
from hypergraphs import random_nets
from hypothesis import given
from hypothesis import strategies as st

import daskpart
from daskpart.connectivity import Connectivity
from daskpart.errors import BalanceWarning, InputError
from daskpart.hypergraph import Hypergraph
from daskpart.models import GCNClassifier
from daskpart.partitioners.balance import columns, heaviest_allowed, most_of_each, stacked
from daskpart.partitioners.multilevel import MultilevelEngine, k_way, refinement, two_way
from daskpart.partitioners.multilevel.compressed import level_of
from daskpart.partitioners.multilevel.fm import rebalance
from daskpart.partitioners.multilevel.level import with_transpose
from daskpart.partitioners.multilevel.two_way import refine, score, two_way_state
from daskpart.partitioners.multilevel.v_cycle import rebalanced
from daskpart.partitions import Partition


def some_nets(seed: int, n: int, n_nets: int) -> Hypergraph:
    return random_nets(np.random.default_rng(seed), n, n_nets, (0, 6), (0, 5))


def random_weights(seed: int, n: int, n_weights: int) -> np.ndarray:
    """Most of them 0, none of them everywhere."""
    rng = np.random.default_rng(seed + 1)
    weights = rng.integers(0, 9, (n, n_weights)) * (rng.random((n, n_weights)) < 0.3)
    weights[0] += 1
    return weights


def several(hypergraph: Hypergraph, weights: np.ndarray) -> Hypergraph:
    """As searches get it."""
    every = [hypergraph.vertex_weights, *weights.T]
    return Hypergraph(
        hypergraph.n_vertices,
        hypergraph.net_pointer,
        hypergraph.pins,
        stacked(every),
        hypergraph.net_costs,
    )


@given(
    seed=st.integers(0, 10_000),
    n=st.integers(8, 90),
    n_parts=st.integers(1, 6),
    n_weights=st.integers(1, 3),
    epsilon=st.floats(0, 0.5),
    objective=st.sampled_from(["connectivity", "power", "cut-net"]),
)
def test_each_weight_is_within_its_bound_or_a_warning_says_that_it_is_not(
    seed, n, n_parts, n_weights, epsilon, objective
):
    hypergraph, weights = some_nets(seed, n, 3 * n), random_weights(seed, n, n_weights)
    options = {"epsilon": epsilon, "random_state": seed, "further_weights": weights}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found, again = (
            daskpart.partition(hypergraph, n_parts, objective, **options) for _ in range(2)
        )
    assert found == again
    assert len(np.unique(found.assignment)) == n_parts
    loads = [np.bincount(found.assignment, each, n_parts) for each in weights.T]
    np.testing.assert_allclose(
        found.info["further_imbalances"], [load.max() / load.mean() - 1 for load in loads]
    )
    heavy = [
        load.max() > heaviest_allowed(int(load.sum()), n_parts, epsilon)
        for load in [found.part_weights, *loads]
    ]
    assert all(each.category is BalanceWarning for each in told)
    words = {str(each.message).split(" was reached")[0].partition(" of ")[2] for each in told}
    names = ["", *(f"further weight {place}" for place in range(n_weights))]
    assert words == {name for name, is_heavy in zip(names, heavy, strict=True) if is_heavy}


@given(
    seed=st.integers(0, 10_000),
    n_parts=st.integers(2, 6),
    shares=st.lists(st.floats(0, 0.8), min_size=2, max_size=4),
)
def test_each_weight_may_have_an_epsilon_of_its_own(seed, n_parts, shares):
    hypergraph = some_nets(seed, 60, 180)
    weights = random_weights(seed, 60, len(shares) - 1)
    options = {"random_state": seed, "further_weights": weights}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = daskpart.partition(hypergraph, n_parts, epsilon=shares, **options)
    heavy = set()
    for place, (each, share) in enumerate(zip([None, *weights.T], shares, strict=True)):
        load = found.part_weights if each is None else np.bincount(found.assignment, each, n_parts)
        if load.max() > heaviest_allowed(int(load.sum()), n_parts, share):
            heavy.add(f"further weight {place - 1}" if place else "")
    words = {str(each.message).split(" was reached")[0].partition(" of ")[2] for each in told}
    assert words == heavy
    assert found.info["epsilon"] == shares
    alike = [
        daskpart.partition(hypergraph, n_parts, epsilon=each, **options).assignment
        for each in (0.8, np.full(len(shares), 0.8))
    ]
    np.testing.assert_array_equal(*alike)


def test_a_loose_weight_leaves_more_room_to_the_cut_and_the_tight_one_is_kept():
    model = daskpart.data_models.column_net_self_loops(grid(40))
    in_corner = np.arange(1600) < 400
    moved = []
    for epsilon in ([0.03, 0.03], [0.03, 1.0]):
        found = daskpart.partition(model, 4, epsilon=epsilon, further_weights=in_corner)
        assert found.imbalance <= 0.03
        assert found.info["further_imbalances"][0] <= epsilon[1] + 1e-9
        pairs = Connectivity.from_partition(model.hypergraph, found)
        moved.append(pairs.connectivity_minus_one())
    assert moved[1] < 0.9 * moved[0]


@pytest.mark.parametrize(
    ("epsilon", "further", "words"),
    [
        ([0.1, 0.1], None, "epsilon has 2 numbers, but a vertex has 1 weight: give one number"),
        ([0.1], np.ones(30), "epsilon has 1 number, but a vertex has 2 weights: give one number"),
        ([], np.ones(30), "epsilon has 0 numbers"),
        ([0.1, -1], np.ones(30), "epsilon is -1: give a finite number of at least 0"),
        ("ab", np.ones(30), "epsilon is 'ab': give a finite number"),
    ],
)
def test_an_epsilon_of_another_number_of_weights_is_refused(epsilon, further, words):
    with pytest.raises(InputError, match=words):
        daskpart.partition(some_nets(0, 30, 60), 3, epsilon=epsilon, further_weights=further)


def test_an_engine_refuses_them_too():
    """It told of shapes that cannot be broadcast."""
    with pytest.raises(InputError, match="epsilon has 2 numbers, but a vertex has 1 weight:"):
        MultilevelEngine().partition(some_nets(0, 30, 60), 3, epsilon=[0.1, 0.2])


def test_one_epsilon_in_a_list_is_that_of_the_one_weight():
    nets = some_nets(1, 60, 200)
    for method in ("direct", "recursive"):
        one, listed = (
            daskpart.partition(nets, 4, method=method, epsilon=each) for each in (0.1, [0.1])
        )
        np.testing.assert_array_equal(one.assignment, listed.assignment)


def grid(n: int) -> scipy.sparse.csr_array:
    number = np.arange(n * n).reshape(n, n)
    ends = np.concatenate([number[:, :-1].ravel(), number[:-1].ravel()])
    others = np.concatenate([number[:, 1:].ravel(), number[1:].ravel()])
    shape = (n * n, n * n)
    edges = scipy.sparse.coo_array((np.ones(len(ends)), (ends, others)), shape=shape)
    return (edges + edges.T).tocsr()


@pytest.mark.parametrize("n_parts", [2, 8])
@pytest.mark.parametrize("where", ["corner", "slope"])
def test_what_sits_in_one_corner_is_shared_at_a_modest_price(n_parts, where):
    """All parts get their share of it; without being asked, one or two would have it all."""
    graph, (row, column) = grid(80), np.divmod(np.arange(6400), 80)
    in_corner = (row < 27) & (column < 27)
    labelled = in_corner if where == "corner" else np.arange(6400) % 97 < row * 12 // 80
    model = daskpart.data_models.column_net_self_loops(graph)
    plain = daskpart.partition(model, n_parts)
    shared = daskpart.partition(model, n_parts, further_weights=labelled)
    counts = np.bincount(shared.assignment[labelled], minlength=n_parts)
    assert counts.max() <= heaviest_allowed(int(labelled.sum()), n_parts, 0.03)
    assert shared.imbalance <= 0.03
    assert np.bincount(plain.assignment[labelled]).max() > 1.2 * counts.max()
    moved = [
        Connectivity.from_partition(model.hypergraph, each).connectivity_minus_one()
        for each in (plain, shared)
    ]
    assert moved[1] < 1.8 * moved[0]


@pytest.mark.parametrize("n_parts", [2, 4, 8])
def test_as_many_vertices_and_entries_each_cost_little_more_than_entries_alone(n_parts):
    """Parts full of entries next to parts full of vertices: only exchanges lower the cut then."""
    imports = daskpart.datasets.load_python_source()["imports"]
    model = daskpart.data_models.column_net_self_loops(imports)
    ones = np.ones(model.hypergraph.n_vertices, np.int64)
    plain, shared = (
        daskpart.partition(model, n_parts, further_weights=each) for each in (None, ones)
    )
    sizes = np.bincount(shared.assignment, minlength=n_parts)
    assert sizes.max() <= heaviest_allowed(len(ones), n_parts, 0.03)
    moved = [
        Connectivity.from_partition(model.hypergraph, each).connectivity_minus_one()
        for each in (plain, shared)
    ]
    assert moved[1] < 1.2 * moved[0]


@given(
    seed=st.integers(0, 10_000),
    n_parts=st.integers(2, 5),
    n_weights=st.integers(1, 3),
    order=st.sampled_from(["random", "by weight"]),
)
def test_where_parts_of_the_same_weights_exist_all_bounds_are_kept(seed, n_parts, n_weights, order):
    rng = np.random.default_rng(seed)
    weights = np.tile(rng.integers(1, 10, (30, n_weights)), (n_parts, 1))  # of each part, alike
    n = len(weights)
    near = np.lexsort(weights.T) if order == "by weight" else rng.permutation(n)
    pins = near[(np.repeat(rng.integers(0, n, 2 * n), 3) + rng.integers(0, 12, 6 * n)) % n]
    nets = Hypergraph.from_nets(np.arange(0, 6 * n + 1, 3), pins, n, weights[:, 0])
    further = {"further_weights": weights[:, 1:]} if n_weights > 1 else {}
    found = daskpart.partition(nets, n_parts, method="direct", epsilon=0.05, **further)
    for each in weights.T:
        load = np.bincount(found.assignment, each, n_parts)
        assert load.max() <= heaviest_allowed(int(each.sum()), n_parts, 0.05)
    if n_weights == 2:
        flat = daskpart.partition(nets, n_parts, epsilon=0.05, further_weights=weights[:, 1])
        np.testing.assert_array_equal(flat.assignment, found.assignment)


@given(
    seed=st.integers(0, 10_000),
    factors=st.lists(st.integers(1, 50), min_size=1, max_size=3),
    n_parts=st.integers(1, 9),
    epsilon=st.floats(0, 0.3),
)
def test_the_bounds_of_scaled_weights_are_those_of_the_weights(seed, factors, n_parts, epsilon):
    """Also where they are all multiples of a number: then so is what a part may weigh."""
    weights = random_weights(seed, 40, len(factors)) * factors
    every = [np.ones(40, np.int64), *weights.T]
    scaled = stacked(every)
    np.testing.assert_array_equal(scaled[:, 0], scaled[:, 1:].sum(axis=1))
    most = most_of_each(scaled, n_parts, epsilon)
    assert most[0] == scaled[:, 0].sum()
    for each, column, bound in zip(every, scaled.T[1:], most[1:], strict=True):
        scale = int(column.sum()) // int(each.sum())
        np.testing.assert_array_equal(column, each * scale)
        unit = int(np.gcd.reduce(each))
        assert bound == heaviest_allowed(int(each.sum()) // unit, n_parts, epsilon) * unit * scale


def excess(part: np.ndarray, weights: np.ndarray, most: np.ndarray) -> int:
    loads = np.stack([np.bincount(part, each, len(most)) for each in weights.T], axis=1)
    return int(np.maximum(loads - most, 0).sum())


@given(seed=st.integers(0, 10_000), n_parts=st.integers(2, 6), n_weights=st.integers(1, 3))
def test_no_step_of_the_search_over_parts_makes_them_heavier_than_allowed(seed, n_parts, n_weights):
    nets = several(some_nets(seed, 60, 200), random_weights(seed, 60, n_weights))
    start = np.random.default_rng(seed).integers(0, n_parts, 60).astype(np.int32)
    level, weights = with_transpose(level_of(nets)), columns(nets)
    most = np.tile(most_of_each(weights, n_parts, 0.1), (n_parts, 1))
    parts = k_way.k_way_state(level, start.copy(), n_parts, np.zeros(60, np.bool_), 0)
    before = excess(start, weights, most)
    rebalance(level, parts, most)
    after = excess(parts.part.astype(np.int32), weights, most)
    assert after <= before
    loads = np.stack([np.bincount(parts.part, each, n_parts) for each in weights.T], axis=1)
    np.testing.assert_array_equal(parts.weight, loads)
    bounds, free = refinement.Bounds(0, np.maximum(most, loads)), np.zeros(60, np.bool_)
    rng = np.random.default_rng(seed)
    better = parts.part.astype(np.int32)
    for _ in range(4):  # what is good already is not made worse either
        start = refinement.score(level, better, bounds.most)
        better = refinement.improve(level, better.copy(), bounds, free, rng)
        assert refinement.score(level, better, bounds.most) <= start
        assert excess(better, weights, bounds.most) == 0


@given(seed=st.integers(0, 10_000), n_weights=st.integers(1, 3), share=st.floats(0.2, 0.8))
def test_a_pass_over_two_sides_never_adds_to_what_is_too_heavy(seed, n_weights, share):
    nets = several(some_nets(seed, 60, 200), random_weights(seed, 60, n_weights))
    level, weights = with_transpose(level_of(nets)), columns(nets)
    side = (np.random.default_rng(seed).random(60) < share).astype(np.int8)
    limits = np.tile(most_of_each(weights, 2, 0.05), (2, 1))
    before = excess(side, weights, limits)
    sides = two_way_state(level, side.copy())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(two_way, "PASSES", 1)
        for _ in range(6):  # what is good already is not made worse either
            start = score(level, sides, limits)
            refine(level, sides, np.full(60, -1, np.int8), limits)
            assert score(level, sides, limits) <= start
    assert score(level, sides, limits)[0] == excess(sides.side, weights, limits) <= before
    loads = np.stack([np.bincount(sides.side, each, 2) for each in weights.T], axis=1)
    np.testing.assert_array_equal(sides.weight, loads)
    anew = two_way_state(level, sides.side.copy())
    for name in ("pins_in", "lone", "gain", "reach"):
        np.testing.assert_array_equal(getattr(sides, name), getattr(anew, name), name)


def test_a_further_weight_like_the_first_changes_no_bound():
    nets = some_nets(3, 500, 2000)
    found = daskpart.partition(nets, 5, further_weights=nets.vertex_weights)
    assert found.info["further_imbalances"] == [found.imbalance]
    assert found.imbalance <= 0.03


def test_reports_tell_each_imbalance_and_refining_forgets_them(tmp_path):
    nets, labelled = some_nets(4, 300, 900), np.arange(300) < 60
    found = daskpart.partition(nets, 4, further_weights=labelled)
    found.save(tmp_path / "parts.npz")
    loaded = daskpart.Partition.load(tmp_path / "parts.npz")
    assert loaded.report().to_dict()["imbalance of further weight 0"] == 0
    refined = daskpart.refine(nets, found)
    assert "further_imbalances" not in refined.info


@given(
    seed=st.integers(0, 10_000),
    n_parts=st.integers(2, 6),
    n_weights=st.integers(1, 3),
    metric=st.sampled_from(["connectivity", "cut-net", "power", "max-connectivity"]),
)
def test_refining_keeps_each_weight_within_its_bound_or_that_of_the_start(
    seed, n_parts, n_weights, metric
):
    hypergraph, weights = some_nets(seed, 60, 180), random_weights(seed, 60, n_weights)
    start = np.random.default_rng(seed).integers(0, n_parts, 60).astype(np.int32)
    epsilon = [0.1, *np.linspace(0, 0.5, n_weights)]
    given_parts = Partition(start, n_parts, hypergraph.vertex_weights)
    found = daskpart.refine(
        hypergraph, given_parts, metric, epsilon=epsilon, further_weights=weights
    )
    assert found.info["metric_after"] <= found.info["metric_before"]
    reached = []
    for each, share in zip([hypergraph.vertex_weights, *weights.T], epsilon, strict=True):
        before, load = (np.bincount(part, each, n_parts) for part in (start, found.assignment))
        assert load.max() <= max(heaviest_allowed(int(each.sum()), n_parts, share), before.max())
        reached.append(load.max() / load.mean() - 1)
    np.testing.assert_allclose(found.info["further_imbalances"], reached[1:])


@pytest.mark.parametrize(
    ("metric", "options", "words"),
    [
        ("max-volume", {}, "metric 'max-volume' is lowered by moves that look at one weight"),
        ("power", {"even": False}, "even=False empties parts"),
        ("power", {"epsilon": [0.1]}, "epsilon has 1 number, but a vertex has 2 weights"),
    ],
)
def test_refining_refuses_what_it_cannot_keep(metric, options, words):
    nets = some_nets(0, 30, 60)
    with pytest.raises(InputError, match=words):
        daskpart.refine(
            nets, daskpart.partition(nets, 3), metric, further_weights=[1] * 30, **options
        )


def test_a_comparison_takes_them_for_one_of_its_methods():
    nets, labelled = some_nets(5, 300, 900), np.arange(300) < 60
    three = {"further_weights": np.stack([labelled, ~labelled], 1), "epsilon": (0.03, 0.1, 0.2)}
    two = {"further_weights": labelled, "refine": "connectivity"}
    methods = {"one": {}, "two": two, "three": three}
    table = daskpart.compare_partitions(nets, 3, methods, progress=False)
    counts = np.bincount(table.partitions["two"].assignment[labelled], minlength=3)
    assert counts.max() <= heaviest_allowed(60, 3, 0.03)


def test_a_graph_network_trains_on_parts_with_as_many_labelled_vertices_each():
    graph, label = grid(20), np.full(400, -1)
    label[:40] = np.arange(40) % 2
    cut = {"further_weights": label >= 0}
    model = GCNClassifier(n_ranks=4, partitioner=cut, max_iter=3, random_state=0)
    model.fit(None, label, graph=graph)
    parts = model.partition_.assignment
    assert np.bincount(parts[label >= 0], minlength=4).tolist() == [10, 10, 10, 10]


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.zeros(30), "further weight 0 is 0 for every vertex: leave it out"),
        (np.stack([np.ones(30), np.zeros(30)], 1), "further weight 1 is 0 for every vertex"),
        (-np.ones(30), "further weight 0 is -1: further weights are 0 or more"),
        (np.full(30, 0.5), "further weight 0 is 0.5: further weights are whole numbers"),
        (np.full(30, np.nan), "further weight 0 is nan"),
        (np.ones(29), "29 further weights were given, 30 are needed"),
        (np.ones((2, 30)), r"2 further weights were given, .* \(30, n\), not \(2, 30\)"),
        (np.stack([np.ones(30), -np.ones(30)], 1), "column 1 of further_weights: further weight 0"),
        (pd.DataFrame({"a": [1] * 30, "b": ["x"] * 30}), "further weights are of type"),
        (np.ones((30, 2, 1)), r"further_weights are of shape \(30, 2, 1\): give one weight"),
        (np.ones((30, 0)), r"further_weights are of shape \(30, 0\)"),
        (np.full((30, 3), 2**57), r"all weights together may come to 2\^63 or more"),
        (["a"] * 30, "further weights are of type"),
    ],
)
def test_weights_that_are_none_are_refused(weights, words):
    with pytest.raises(InputError, match=words):
        daskpart.partition(some_nets(0, 30, 60), 3, further_weights=weights)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "recursive"}, "further_weights need method='direct', not 'recursive'"),
        ({"method": "random"}, "further_weights need method='direct', not 'random'"),
        ({"fixed": [-1] * 30}, "fixed and further_weights exclude each other"),
        ({"even": False}, "even=False empties parts"),
    ],
)
def test_what_knows_one_weight_only_is_refused(options, words):
    with pytest.raises(InputError, match=words):
        daskpart.partition(some_nets(0, 30, 60), 3, further_weights=[1] * 30, **options)


def test_an_epsilon_that_bounds_nothing_fits_beside_large_weights():
    weights = np.stack([np.arange(30) % 7 << 40, np.full(30, 2**33)], 1)
    nets, asked = some_nets(0, 30, 60), {"epsilon": 1e6, "further_weights": weights}
    assert len(np.unique(daskpart.partition(nets, 3, **asked).assignment)) == 3


def test_options_that_exclude_further_weights_are_refused_before_data_are_read():
    with pytest.raises(InputError, match="even=False empties parts"):
        daskpart.partition("missing.mtx", 3, further_weights=[1] * 30, even=False)


@pytest.mark.parametrize(
    "held_by",
    [
        np.ndarray.tolist,
        lambda weights: weights.astype(np.float16),
        lambda weights: pd.DataFrame({"labelled": weights[:, 0] == 1, "memory": weights[:, 1]}),
        lambda weights: pd.DataFrame(weights, dtype="Int64"),
        pl.DataFrame,
        xr.DataArray,
        dask.array.from_array,
    ],
)
def test_weights_may_be_held_by_anything_that_has_columns(held_by):
    nets, weights = some_nets(0, 30, 60), np.stack([np.arange(30) < 9, np.arange(30)], 1) * 1
    found, expected = (
        daskpart.partition(nets, 3, epsilon=0.2, further_weights=each)
        for each in (held_by(weights), weights)
    )
    assert found == expected


def test_the_model_of_a_tensor_tells_which_nonzeros_a_weight_is_of():
    tensor = sparse.random((30, 40, 50), nnz=900, random_state=0)
    model = daskpart.data_models.medium_grain(tensor)
    early = tensor.coords[0] < 10
    counts = np.bincount(model.vertex_of, early)
    found = daskpart.partition(model, 3, further_weights=counts)
    parts = model.nonzero_parts(found)
    assert np.bincount(parts[early]).max() <= heaviest_allowed(int(early.sum()), 3, 0.03)
    assert found == daskpart.partition(tensor, 3, further_weights=counts)


def test_of_no_vertices_none_is_moved():
    nets = Hypergraph.from_nets([0], [], 0)
    assert rebalanced(nets, np.zeros(0, np.int32), 2, 1).size == 0


def test_an_engine_that_knows_one_weight_only_is_refused():
    class Other:
        name = "other"

        def bipartition(self, *_):
            raise AssertionError

        partition = bipartition

    with pytest.raises(InputError, match="further_weights need engine='multilevel': 'other'"):
        daskpart.partition(some_nets(0, 30, 60), 3, further_weights=[1] * 30, engine=Other())


def test_part_of_weightless_vertices_counts_vertices_and_the_further_weight():
    nets = Hypergraph.from_nets([0, 2, 4], [0, 1, 2, 3], 12, np.zeros(12))
    labelled = np.arange(12) < 4
    found = daskpart.partition(nets, 4, further_weights=labelled)
    assert np.bincount(found.assignment).tolist() == [3, 3, 3, 3]
    assert np.bincount(found.assignment[labelled]).tolist() == [1, 1, 1, 1]
    assert Partition.imbalance.fget(found) == 0  # nothing weighs
