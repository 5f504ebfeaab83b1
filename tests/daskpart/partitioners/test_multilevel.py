"""Our engine on small random hypergraphs: balance, fixed vertices, determinism, sane cuts."""

from __future__ import annotations

import threading
import time
import warnings
from collections import Counter
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
from hypergraphs import hypergraph_of, nets_of, paid, random_nets
from hypothesis import given, settings
from hypothesis import strategies as st

from daskpart.errors import BalanceWarning, InputError
from daskpart.hypergraph import Hypergraph
from daskpart.partitioners.multilevel import MultilevelEngine, bipartition, direct, refinement
from daskpart.partitioners.multilevel.bipartition import LOOSEST, _loosened, side_limits
from daskpart.partitioners.multilevel.coarsen import coarsen
from daskpart.partitioners.multilevel.community import communities
from daskpart.partitioners.multilevel.compressed import Finest, level_of
from daskpart.partitioners.multilevel.direct import Effort, least_weight
from daskpart.partitioners.multilevel.level import connectivities, contract, with_transpose

ENGINE = MultilevelEngine()


@st.composite
def hypergraphs(draw, light: bool = False) -> Hypergraph:
    """Nets of 0 to n pins, repeated pins, isolated vertices, weights 0, costs up to 2^40."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = draw(st.integers(1, 60))
    largest, n_nets = min(n, draw(st.integers(1, 12))), draw(st.integers(0, 80))
    costs = 0, draw(st.sampled_from([2, 9, 2**40]))
    return random_nets(rng, n, n_nets, (0, largest + 1), (1, 2) if light else (0, 6), costs)


def connectivity_minus_one(hypergraph: Hypergraph, part: np.ndarray) -> int:
    return paid(hypergraph, part, np.maximum(np.arange(part.max() + 2) - 1, 0))


def quietly(call, *arguments):
    """Random weights cannot always be balanced; whether they are is asserted where it matters."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BalanceWarning)
        return call(*arguments)


@contextmanager
def levels_of_few_vertices():
    """So that few vertices are coarsened, too."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"COARSEST": 8, "MIDDLE": 16, "CLUSTERS": 8}.items():
            patch.setattr(bipartition, name, value)
        yield


@pytest.mark.parametrize("how", [nullcontext, levels_of_few_vertices])
@given(hypergraphs(), st.floats(0, 0.5), st.floats(0.2, 0.8), st.integers(0, 5), st.data())
def test_two_sides(how, hypergraph, epsilon, share, seed, data):
    """Fixed vertices stay, a seed repeats itself, the balance is off by one vertex at most."""
    n, total = hypergraph.n_vertices, int(hypergraph.vertex_weights.sum())
    targets = np.array([int(share * total), total - int(share * total)])
    fixed = np.array(
        data.draw(st.lists(st.sampled_from([-1] * 8 + [0, 1]), min_size=n, max_size=n))
    )
    with how():
        side, again = (
            quietly(ENGINE.bipartition, hypergraph, targets, epsilon, fixed, seed) for _ in range(2)
        )
    np.testing.assert_array_equal(side, again)
    assert side.dtype == np.int8 and set(side.tolist()) <= {0, 1}
    np.testing.assert_array_equal(side[fixed >= 0], fixed[fixed >= 0])
    if np.all(fixed < 0):
        weights = np.bincount(side, hypergraph.vertex_weights, minlength=2)
        slack = hypergraph.vertex_weights.max(initial=0)
        assert np.all(weights <= side_limits(targets, epsilon) + slack)


@given(hypergraphs(light=True), st.floats(0, 0.5), st.integers(0, 5), st.data())
def test_unit_weights_are_always_balanced(hypergraph, epsilon, seed, data):
    """No warning (they are errors here): parts of at most (1 + ε) n / K, rounded up."""
    n = hypergraph.n_vertices
    n_parts = data.draw(st.integers(1, n))
    part = ENGINE.partition(hypergraph, n_parts, epsilon, seed)
    sizes = np.bincount(part, minlength=n_parts)
    assert sizes.size == n_parts
    assert sizes.max() <= max((1 + epsilon) * n / n_parts, -(-n // n_parts))
    np.testing.assert_array_equal(part, ENGINE.partition(hypergraph, n_parts, epsilon, seed))


@given(hypergraphs(), st.integers(0, 5), st.data())
def test_any_number_of_parts(hypergraph, seed, data):
    n_parts = data.draw(st.integers(1, hypergraph.n_vertices))
    part = quietly(ENGINE.partition, hypergraph, n_parts, 0.03, seed)
    assert part.dtype == np.int32 and part.shape == (hypergraph.n_vertices,)
    assert part.min() >= 0 and part.max() < n_parts


@settings(max_examples=15)
@given(hypergraphs(light=True), st.integers(2, 6), st.integers(0, 5))
def test_never_worse_than_contiguous_blocks(hypergraph, n_parts, seed):
    n = hypergraph.n_vertices
    if n < n_parts:
        return
    blocks = np.arange(n) * n_parts // n
    part = ENGINE.partition(hypergraph, n_parts, 0.1, seed)
    assert connectivity_minus_one(hypergraph, part) <= connectivity_minus_one(hypergraph, blocks)


def grid(side: int) -> Hypergraph:
    """A side × side torus-free grid: one two-pin net for each edge."""
    index = np.arange(side * side).reshape(side, side)
    across = np.stack([index[:, :-1].ravel(), index[:, 1:].ravel()], axis=1)
    down = np.stack([index[:-1].ravel(), index[1:].ravel()], axis=1)
    pins = np.concatenate([across, down]).ravel()
    return Hypergraph.from_nets(np.arange(0, pins.size + 1, 2), pins, side * side)


@pytest.mark.parametrize(("n_parts", "straight"), [(2, 40), (4, 80)])
def test_a_grid_is_cut_almost_straight(n_parts, straight):
    """Many levels deep, and the best cuts are known: straight lines."""
    part = ENGINE.partition(grid(40), n_parts, 0.03, 0)
    assert connectivity_minus_one(grid(40), part) <= 1.5 * straight


def test_seeds_matter_and_input_stays_as_it_was():
    hypergraph = grid(20)
    for array in (hypergraph.pins, hypergraph.net_costs, hypergraph.vertex_weights):
        array.flags.writeable = False
    first, other = (ENGINE.partition(hypergraph, 5, 0.03, seed) for seed in (0, 1))
    assert not np.array_equal(first, other)


def test_net_sizes_of_every_kind_together():
    """One net over everything, identical nets, and nets wider than a search goes."""
    rng = np.random.default_rng(0)
    n = 900
    wide = [np.arange(n), np.arange(600), np.arange(300, 900)]
    small = [np.arange(3 * i, 3 * i + 3) for i in range(n // 3)]
    nets = wide + small * 2 + [rng.choice(n, 2) for _ in range(50)]
    pointer = np.concatenate([[0], np.cumsum([net.size for net in nets])])
    hypergraph = Hypergraph.from_nets(pointer, np.concatenate(nets), n)
    part = ENGINE.partition(hypergraph, 7, 0.03, 0)
    assert np.bincount(part).max() <= 1.03 * n / 7 + 1
    # the 300 triples can all stay whole; the wide nets cost 6 + up to 6 + up to 6, the pairs 50
    assert connectivity_minus_one(hypergraph, part) <= 18 + 50


def test_without_room_for_the_dense_table(monkeypatch):
    """A folded table finds as good a cut: four squares, or nearly."""
    monkeypatch.setattr(refinement, "SMALL_TABLE", 0)
    monkeypatch.setattr(refinement, "DENSE_TABLE", 0)
    part = ENGINE.partition(grid(40), 4, 0.03, 1)
    assert np.bincount(part).max() <= 1.03 * 400
    assert connectivity_minus_one(grid(40), part) <= 1.5 * 80


def hubs_and_leaves(n_hubs: int, n_leaves: int) -> Hypergraph:
    """Every pair of hubs shares a net, every leaf shares one with a random hub."""
    rng = np.random.default_rng(0)
    pairs = np.stack(np.triu_indices(n_hubs, 1), axis=1)
    leaves = np.stack([rng.integers(0, n_hubs, n_leaves), n_hubs + np.arange(n_leaves)], axis=1)
    pins = np.concatenate([pairs, leaves]).ravel()
    return Hypergraph.from_nets(np.arange(0, pins.size + 1, 2), pins, n_hubs + n_leaves)


def test_a_core_is_kept_together():
    """300 hubs, 2,100 leaves, 8 parts: whoever halves the hubs pays for half of their pairs."""
    hypergraph = hubs_and_leaves(300, 2100)
    part = ENGINE.partition(hypergraph, 8, 0.03, 0)
    assert np.bincount(part[:300]).max() == 300
    assert connectivity_minus_one(hypergraph, part) <= 2100


def test_clusters_form_around_hubs_that_are_full():
    """Leaves of one hub merge with each other once the hub is full, or coarsening would stall."""
    level = level_of(hubs_and_leaves(20, 4000))
    rng = np.random.default_rng(0)
    steps, coarsest, _ = coarsen(level, np.zeros(len(level.weights), np.int32), 40, 200, rng)
    assert coarsest.weights.size <= 250
    assert coarsest.weights.max() <= 40
    assert coarsest.weights.sum() == 4020
    assert len(steps) <= 6


@settings(max_examples=15)
@given(
    seed=st.integers(0, 10_000),
    n_communities=st.integers(1, 4),
    cap=st.integers(3, 60),
    fewest=st.integers(1, 150),
    even=st.booleans(),
)
def test_clusters_stay_in_their_communities_and_nets_cost_what_they_did(
    seed, n_communities, cap, fewest, even
):
    """Whatever the parts of the coarsest level, the finest one pays the same for them."""
    rng = np.random.default_rng(seed)
    level = level_of(random_nets(rng, 200, 260, (0, 7), (0, 4), (0, 5)))
    community = rng.integers(0, n_communities, 200).astype(np.int32)
    steps, coarsest, below = coarsen(level, community, cap, fewest, rng, even)
    place = np.arange(200)
    for step in steps:
        place = step.target[place].astype(np.int64)
    np.testing.assert_array_equal(below[place], community)
    weights = np.bincount(place, level.weights[:, 0])
    np.testing.assert_array_equal(coarsest.weights[:, 0], weights)
    assert weights[np.bincount(place) > 1].max(initial=0) <= cap
    assert len(weights) >= fewest
    part = rng.integers(0, 3, len(weights)).astype(np.int32)
    paid_for = [
        int(each.net_costs @ (connectivities(each.net_pointer, each.pins, parts, 3) - 1))
        for each, parts in ((coarsest, part), (level, part[place]))
    ]
    assert paid_for[0] == paid_for[1]


@given(seed=st.integers(0, 10_000), n_coarse=st.integers(1, 20))
def test_nets_are_merged_as_in_plain_python(seed, n_coarse):
    """Those that meet the same coarse vertices become one; some vertices are dropped."""
    rng = np.random.default_rng(seed)
    nets = random_nets(rng, 30, 60, (0, 7), (0, 4), (0, 5))
    target = rng.integers(-1, n_coarse, 30).astype(np.int32)
    wanted: Counter[tuple[int, ...]] = Counter()
    for net, cost in zip(nets_of(nets), nets.net_costs.tolist(), strict=True):
        met = tuple(sorted({*target[net].tolist()} - {-1}))
        wanted[met] += cost if len(met) > 1 else 0
    merged = contract(level_of(nets), target, n_coarse)
    sizes = np.diff(merged.net_pointer)
    met = [tuple(sorted(net.tolist())) for net in np.split(merged.pins, merged.net_pointer[1:-1])]
    found = dict(zip(met, merged.net_costs.tolist(), strict=False)) if sizes.size else {}
    assert found == +wanted and len(found) == sizes.size
    assert (np.diff(sizes) >= 0).all()
    kept = target >= 0
    weights = np.bincount(target[kept], nets.vertex_weights[kept], n_coarse)
    np.testing.assert_array_equal(merged.weights[:, 0], weights)


def test_more_effort_is_not_worse():
    """The best of several, better here; a seed still fixes it."""
    high = MultilevelEngine(effort="high")
    part = high.partition(grid(14), 3, 0.03, 0)
    np.testing.assert_array_equal(part, high.partition(grid(14), 3, 0.03, 0))
    plain = ENGINE.partition(grid(14), 3, 0.03, 0)
    assert connectivity_minus_one(grid(14), part) < connectivity_minus_one(grid(14), plain)
    with pytest.raises(InputError, match="effort is 'most': use one of 'default', 'high'"):
        MultilevelEngine(effort="most")


BOTH = np.array([[200], [200]])
LIMITS, FREE = side_limits(BOTH, 0.05), np.full(400, -1, np.int8)
THREE = refinement.Bounds(0, np.full((3, 1), 140))


def starts(level, number, rng, patch):
    patch.setattr(bipartition, "STARTS", number)
    return bipartition._start(level, FREE, BOTH, LIMITS, rng)


def runs(level, number, rng, patch):
    patch.setattr(bipartition, "RUNS", bipartition.RUNS[:number])
    return bipartition._solve_middle(level, np.zeros(400, np.int32), BOTH, LIMITS, rng, True)


def cycles(level, number, rng, patch):
    return bipartition.bipartition_level(level, BOTH, LIMITS, FREE, rng, number - 1)


def tries(level, number, rng, patch):
    return direct._cut_coarsest([level], THREE, rng, Effort(1, number, 0, 0))


@pytest.mark.parametrize("attempt", [starts, runs, cycles, tries])
def test_of_several_attempts_the_best_is_kept(attempt):
    """More of them, from the same seed, are never worse."""
    most, gained = THREE.most if attempt is tries else LIMITS, 0
    for seed in range(3):
        nets = random_nets(np.random.default_rng(seed), 400, 700, (2, 6))
        level, found = with_transpose(level_of(nets)), []
        for number in (1, 3):
            with pytest.MonkeyPatch.context() as patch:
                part = attempt(level, number, np.random.default_rng(seed), patch)
            found.append(refinement.score(level, part.astype(np.int32), most))
        assert found[0] >= found[1]
        gained += found[0] > found[1]
    assert gained


@pytest.mark.parametrize("n_parts", [3, 5, 8, 11])
def test_a_bipartition_that_takes_all_its_room_leaves_enough_to_those_below(monkeypatch, n_parts):
    def heavy_left(level, targets, limits, *rest):
        return (np.arange(len(level.weights)) >= limits[0, 0]).astype(np.int8)

    monkeypatch.setattr(direct, "bipartition_level", heavy_left)
    most = 1.3 * 400 // n_parts
    whole = direct._piece(level_of(grid(20)), np.arange(400), (0, n_parts))
    part = direct._recurse(whole, [most], np.random.default_rng(0), direct.DEFAULT_EFFORT)
    sizes = np.bincount(part, minlength=n_parts)
    assert most / 1.1 < sizes.max() <= most


def test_of_several_partitions_the_best_is_combined_with_the_others(monkeypatch):
    nets = random_nets(np.random.default_rng(0), 400, 700, (2, 6))
    level, solve, solved, joined = level_of(nets), direct._solve, [], []
    monkeypatch.setattr(direct, "_solve", lambda *given: solved.append(solve(*given)) or solved[-1])
    monkeypatch.setattr(
        direct, "combine", lambda _, best, other, *more: joined.append(other) or best
    )
    rng = np.random.default_rng(0)
    best = direct._best_of(Finest(nets), 3, THREE, rng, Effort(4, 1, 0, 0))
    found = [refinement.score(level, part, THREE.most) for part in (best, *joined)]
    assert found == sorted(refinement.score(level, part, THREE.most) for part in solved)
    assert len(set(found)) > 1


@pytest.mark.slow
def test_other_threads_run_while_it_solves():
    """The GIL is released in every kernel: a heartbeat every 10 ms is never late for long."""
    hypergraph = grid(150)
    ENGINE.partition(grid(10), 4, 0.03, 0)
    solver = threading.Thread(target=ENGINE.partition, args=(hypergraph, 8, 0.03, 0))
    stalls = []
    solver.start()
    while solver.is_alive():
        before = time.perf_counter()
        time.sleep(0.01)
        stalls.append(time.perf_counter() - before)
    assert len(stalls) > 5
    assert max(stalls) < 0.5


def test_communities_do_not_depend_on_the_unit_of_the_costs():
    rng = np.random.default_rng(0)
    pins = np.concatenate([20 * (net % 3) + rng.integers(0, 60, 40) for net in range(30)])
    found = [
        communities(level_of(Hypergraph.from_nets(np.arange(0, 1201, 40), pins, 100, None, costs)))
        for costs in ([1] * 30, [2**26] * 30)  # all of them fit in 32 bits, a net's edges do not
    ]
    assert np.array_equal(*found)


def test_communities_stay_within_what_hangs_together():
    """Ten blocks of 40 vertices, 30 nets of eight in each, and five nets between blocks."""
    rng = np.random.default_rng(0)
    inside = [
        40 * block + rng.choice(40, 8, replace=False) for block in range(10) for _ in range(30)
    ]
    between = [rng.choice(400, 2, replace=False) for _ in range(5)]
    found = communities(level_of(hypergraph_of(inside + between, 400)))
    usual = [np.bincount(block).argmax() for block in found.reshape(10, 40)]
    assert len(set(usual)) == 10
    assert np.mean(found == np.repeat(usual, 40)) > 0.9


@given(seed=st.integers(0, 10_000), n_parts=st.integers(2, 5))
def test_combining_two_partitions_is_never_worse(seed: int, n_parts: int) -> None:
    rng = np.random.default_rng(seed)
    level = level_of(grid(12))
    first, other = rng.permuted(np.tile(np.arange(144, dtype=np.int32) % n_parts, (2, 1)), axis=1)
    bounds = refinement.Bounds(0, np.full((n_parts, 1), 144 // n_parts + 3))
    before = refinement.score(level, first, bounds.most)
    better = refinement.combine(level, first.copy(), other, bounds, rng)
    assert refinement.score(level, better, bounds.most) <= before
    assert np.bincount(better, minlength=n_parts).max() <= bounds.most[0, 0]
    same = refinement.combine(level, first.copy(), first, bounds, np.random.default_rng(0))
    assert refinement.score(level, same, bounds.most) <= before


@given(seed=st.integers(0, 10_000), n_parts=st.integers(1, 300), epsilon=st.floats(0, 0.25))
def test_parts_of_few_vertices_may_be_lighter(seed: int, n_parts: int, epsilon: float) -> None:
    weights = np.random.default_rng(seed).integers(0, 30, 2000)
    mean = weights.sum() / n_parts
    least = least_weight(weights, n_parts, epsilon)
    assert int(mean / 2) <= least <= (1 - 2 * epsilon) * mean
    gone = 8 * weights.sum() / np.count_nonzero(weights)  # eight vertices may leave a mean part
    assert least <= max(mean - gone, mean / 2)
    assert least == int(mean / 2) or least + 1 > min((1 - 2 * epsilon) * mean, mean - gone)


def test_a_coarse_level_loosens_limits_by_its_heaviest_cluster_but_not_by_a_heavy_vertex() -> None:
    limits = np.array([[210], [190]])
    for heaviest, more in ((3, 3), (150, 400 // LOOSEST)):
        weights = np.full(400 - heaviest + 1, 1, np.int64)
        weights[0] = heaviest
        level = level_of(Hypergraph.from_nets([0, 2], [0, 1], weights.size, weights))
        np.testing.assert_array_equal(_loosened(level, limits), limits + more)


def test_a_part_of_heavy_vertices_is_relieved_by_making_room() -> None:
    weights = np.array([30] * 4 + [9] * 20)
    pairs = np.stack([np.arange(24), np.roll(np.arange(24), 1)], axis=1)
    hypergraph = Hypergraph.from_nets(np.arange(0, 49, 2), pairs.ravel(), 24, weights)
    part = np.repeat(np.arange(3, dtype=np.int32), [4, 10, 10])  # 120, 90, 90: no 30 fits elsewhere
    bounds, free = refinement.Bounds(0, np.full((3, 1), 104)), np.zeros(24, np.bool_)
    rng = np.random.default_rng(0)
    better = refinement.improve(level_of(hypergraph), part.copy(), bounds, free, rng)
    assert np.bincount(better, weights, minlength=3).max() <= 104
