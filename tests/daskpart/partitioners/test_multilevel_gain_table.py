"""K parts under moves: slots, penalties and benefits, dense and folded, against a recount."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskpart._floor.kernels import kernel
from daskpart.hypergraph import Hypergraph
from daskpart.partitioners.multilevel import MultilevelEngine, fm, k_way, refinement
from daskpart.partitioners.multilevel.compressed import level_of
from daskpart.partitioners.multilevel.gain_table import best_move, entry, move_part, with_gain_table
from daskpart.partitioners.multilevel.k_way import KWayState, find, k_way_state, pins_in
from daskpart.partitioners.multilevel.level import Level, with_transpose

N = 40
EVERYTHING = 1 << 20  # entries: more than any table here has


@pytest.fixture(autouse=True, scope="module")
def nets_of_five_pins_are_long():
    """So that both kinds are there: those that are searched for a last pin and those that know."""
    patch = pytest.MonkeyPatch()
    patch.setattr(k_way, "SHORT", 4)
    yield
    patch.undo()


def made(seed: int, most_cost: int = 4) -> Level:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 12, 60)
    pins = rng.integers(0, N - 3, sizes.sum())  # three vertices have no nets
    pointer = np.concatenate([[0], np.cumsum(sizes)])
    costs = rng.integers(1, most_cost, sizes.size)
    return with_transpose(
        level_of(Hypergraph.from_nets(pointer, pins, N, rng.integers(1, 4, N), costs))
    )


def state(level: Level, seed: int, n_parts: int, most: int):
    part = np.random.default_rng(seed).integers(0, n_parts, N).astype(np.int32)
    held = np.zeros(N, np.bool_)
    held[:3] = True
    return with_gain_table(level, k_way_state(level, part, n_parts, held, 2), most)


def recount(level: Level, part: np.ndarray, n_parts: int):
    """Pins of every net in every part, penalty of every vertex, benefit of both."""
    net = np.repeat(np.arange(level.net_costs.size), np.diff(level.net_pointer))
    pins_in = np.zeros((level.net_costs.size, n_parts), np.int64)
    np.add.at(pins_in, (net, part[level.pins]), 1)
    penalty, benefit = np.zeros(N, np.int64), np.zeros((N, n_parts), np.int64)
    stays = pins_in[net, part[level.pins]] > 1
    np.add.at(penalty, level.pins[stays], level.net_costs[net[stays]])
    np.add.at(benefit, level.pins, (pins_in[net] > 0) * level.net_costs[net, None])
    return pins_in, penalty, benefit


@kernel
def pins_of(parts, net, part):
    slot = find(parts, net, part)
    return pins_in(parts, slot) if slot >= 0 else 0


@kernel
def bond_in_table(level, parts, vertex, part):
    return parts.benefit[entry(level, parts, vertex, part)]


@kernel
def weighed(level, parts, vertex, limits):
    return best_move(level, parts, vertex, limits)


def assert_slots(level: Level, parts: KWayState, counts: np.ndarray) -> None:
    """The slots of every net tell its pins in every part; of many, in the first and the last."""
    n_parts = counts.shape[1]
    looked_at = np.unique(np.r_[: min(n_parts, 20), max(n_parts - 20, 0) : n_parts])
    for net in range(level.net_costs.size):
        found = [pins_of(parts, net, part) for part in looked_at.tolist()]
        assert found == counts[net, looked_at].tolist()


@pytest.mark.parametrize(("n_parts", "name_bytes"), [(8, 2), (512, 2), (65_536, 4)])
def test_names_of_parts_and_of_a_vacant_slot_fit(n_parts, name_bytes):
    level = made(n_parts)
    part = np.random.default_rng(0).integers(max(n_parts - 9, 0), n_parts, N)
    parts = k_way_state(level, part, n_parts, np.zeros(N, np.bool_), 0)
    assert parts.part.itemsize == parts.slot_part.itemsize == name_bytes
    assert_slots(level, parts, recount(level, part, n_parts)[0])


@given(st.integers(0, 10_000), st.sampled_from([2, 5, 17]), st.booleans())
def test_slots_losses_and_bonds_follow_moves(seed, n_parts, dense):
    """Exactly, but a folded entry may be larger than the largest benefit that it stands for."""
    level = made(seed)
    parts = state(level, seed, n_parts, EVERYTHING if dense else 0)
    rng = np.random.default_rng(seed)
    for vertex, there in zip(rng.integers(0, N, 60), rng.integers(0, n_parts, 60), strict=True):
        if parts.part[vertex] != there:
            move_part(level, parts, np.int64(vertex), np.int64(there))
    counts, penalty, benefit = recount(level, parts.part, n_parts)
    assert_slots(level, parts, counts)
    np.testing.assert_array_equal(parts.penalty, penalty)
    weights = np.bincount(parts.part, level.weights[:, 0], minlength=n_parts)
    np.testing.assert_array_equal(parts.weight[:, 0], weights)
    if dense:
        np.testing.assert_array_equal(parts.benefit.reshape(N, n_parts), benefit)
        return
    assert parts.benefit.size == level.pins.size
    for vertex in np.flatnonzero(np.diff(level.vertex_pointer)):
        for part in set(range(n_parts)) - {int(parts.part[vertex])}:
            assert bond_in_table(level, parts, vertex, part) >= benefit[vertex, part]


@given(st.integers(0, 10_000), st.sampled_from([2, 5, 17]))
def test_a_folded_table_finds_the_moves_of_a_dense_one(seed, n_parts):
    """And weighing a vertex makes its entries the largest benefits to parts with room."""
    level = made(seed)
    dense, folded = (state(level, seed, n_parts, most) for most in (EVERYTHING, 0))
    limits = np.full((n_parts, 1), int(1.1 * dense.weight.max()), np.int64)
    folded.benefit[:] += 5
    for vertex in range(N):
        move = weighed(level, dense, vertex, limits)
        assert move == weighed(level, folded, vertex, limits)
        begin, end = level.vertex_pointer[vertex : vertex + 2]
        row = dense.benefit[vertex * n_parts : (vertex + 1) * n_parts].copy()
        row[dense.part[vertex]] = 0
        row[(limits - dense.weight < level.weights[vertex])[:, 0]] = 0
        if move[0] >= 0 and end > begin:
            assert folded.benefit[begin:end].max() == row.max()


def cost(level: Level, part: np.ndarray, n_parts: int) -> int:
    return int((level.net_costs * (np.sum(recount(level, part, n_parts)[0] > 0, 1) - 1)).sum())


@given(st.integers(0, 10_000), st.sampled_from([2, 5, 17]), st.booleans())
def test_what_a_search_saves_is_what_the_parts_cost_less(seed, n_parts, dense):
    level = made(seed)
    part = np.random.default_rng(seed).integers(0, n_parts, N).astype(np.int32)
    parts = k_way_state(level, part, n_parts, np.zeros(N, np.bool_), 2)
    limits = np.full((n_parts, 1), int(1.2 * parts.weight.max()), np.int64)
    before = cost(level, parts.part, n_parts)
    saved = fm._propagate_once(level, parts, np.arange(N, dtype=np.int32), limits)
    assert saved == before - cost(level, parts.part, n_parts) >= 0
    parts = with_gain_table(level, parts, EVERYTHING if dense else 0)
    for _ in range(3):
        before = cost(level, parts.part, n_parts)
        fm._seed(level, parts, limits)
        saved = fm._search(level, parts, limits, 8, fm.WIDEST)
        assert saved == before - cost(level, parts.part, n_parts) >= 0


@given(st.integers(0, 10_000), st.sampled_from([3, 8]), st.sampled_from([4, 2**40]))
def test_a_search_by_a_folded_table_is_never_worse_and_keeps_balance(seed, n_parts, most_cost):
    """For benefits of 4 and of 8 bytes; the same again from the same start."""
    level = made(seed, most_cost)
    part = np.random.default_rng(seed).integers(0, n_parts, N).astype(np.int32)
    weights = np.bincount(part, level.weights[:, 0], minlength=n_parts).astype(np.int64)
    bounds, free = refinement.Bounds(0, np.full((n_parts, 1), weights.max())), np.zeros(N, np.bool_)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(refinement, "SMALL_TABLE", 0)
        patch.setattr(refinement, "DENSE_TABLE", 0)
        better, again = (
            refinement.improve(level, part.copy(), bounds, free, np.random.default_rng(seed))
            for _ in range(2)
        )
    np.testing.assert_array_equal(better, again)
    assert np.bincount(better, level.weights[:, 0], minlength=n_parts).max() <= weights.max()
    assert cost(level, better, n_parts) < cost(level, part, n_parts)


@pytest.mark.parametrize("n_parts", [4, 40])
def test_tables_of_either_type_give_the_same_cut(monkeypatch, n_parts):
    """Of large levels two bytes an entry where costs are small; others compile once."""
    rng = np.random.default_rng(n_parts)
    pins, costs = rng.integers(0, 900, 4000), rng.integers(1, 9, 1000)
    nets = Hypergraph.from_nets(np.arange(0, 4001, 4), pins, 900, None, costs)
    found, kinds = [], []
    dear = replace(nets, net_costs=costs << 13)  # a power of two changes no comparison
    for each, large in ((nets, k_way.LARGE), (nets, 0), (dear, 0)):
        monkeypatch.setattr(k_way, "LARGE", large)
        part = np.asarray(MultilevelEngine().partition(each, n_parts), np.int32)
        level = with_transpose(level_of(each))
        kinds.append(k_way_state(level, part, n_parts, np.zeros(900, np.bool_), 0).penalty.dtype)
        found.append(part)
    assert kinds == [np.int32, np.int16, np.int32]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
