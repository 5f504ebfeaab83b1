"""From a shard to what a rank trains on: ratings in their order, rows to average, first factors.

    Shard (rows, items, nonzeros)  ──┐
    RankSchedule (item → sub-epoch) ─┴─► RankRatings: nonzeros by cell (k, t), then by cache block

Inside a cell the ratings are shuffled and then gathered into blocks of users × items, neighbours in
local order, whose rows fit the cache together. Block sizes are constants, not the cache of the
machine at hand, because the order of ratings decides the bits of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from daskpart._floor.distinct import distinct
from daskpart._floor.hashing import GOLDEN, mixed_word
from daskpart._floor.kernels import kernel
from daskpart.collectives import Plan
from daskpart.containers.coordinates import index_dtype
from daskpart.containers.dask_blocks import cut_by_part
from daskpart.models.base.state import Part

from .kernels.sgd import counting_sort, padded_width
from .negatives import Pairs, negatives_of, triple_weights
from .pasgd import Average, RankModel, RankRatings, RowLayout, blank_model
from .scaling import split_unit
from .schedule import SubEpochSchedule, items_of_pairs
from .yes_or_no import odd_entries, ones_for_yes

ItemWeights = tuple[np.ndarray, tuple[np.ndarray, ...]]

USER_BLOCK_BYTES = 64 * 1024
ITEM_BLOCK_BYTES = 128 * 1024


@dataclass(frozen=True)
class RankSchedule:
    """One rank's part of the schedule, in global item ids.

    Attributes
    ----------
    n_sub_epochs : int
    items : ndarray of int32
        The items that the rank holds at some time, rising.
    sub_epoch : ndarray of int32 or None
        When the rank works on each of them; None: always, on a share of its ratings.
    averages : tuple, one entry a sub-epoch
        The items that the rank averages, rising, and the weights as in `pasgd.Average`; None where
        there are none.
    home : ndarray of int32
        Items whose final rows the rank holds between epochs, rising.
    triple_weights : ndarray of float64, shape (n_sub_epochs,)
        For BPR: see `negatives`.
    beside : ndarray of int32
        Items that the rank holds for validation alone: see `held_out`.
    """

    n_sub_epochs: int
    items: np.ndarray
    sub_epoch: np.ndarray | None
    averages: tuple[ItemWeights | None, ...]
    home: np.ndarray
    triple_weights: np.ndarray
    beside: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))


def rank_schedules(
    schedule: SubEpochSchedule, reduces: Sequence[Plan], averaging: str
) -> list[RankSchedule]:
    """Cut a schedule into the ranks' parts.

    Parameters
    ----------
    schedule : SubEpochSchedule
    reduces : sequence of Plan
        Its reduce plan for each sub-epoch.
    averaging : {"mean", "ratings"}
        Whether copies weigh alike, or by the ratings that each rank applied to them.
    """
    n_ranks, connectivity = schedule.n_ranks, schedule.incidence
    shares = _Shares(schedule, averaging)
    averages: list[list[ItemWeights | None]] = [[] for _ in range(n_ranks)]
    for plan in reduces:
        (messages,) = plan.rounds
        receivers = set(messages.destination.tolist())
        for rank in range(n_ranks):
            averages[rank].append(shares.of(messages.of_rank(rank)) if rank in receivers else None)
    item_of_pair = items_of_pairs(connectivity)
    held = cut_by_part(connectivity.parts, n_ranks, np.arange(connectivity.parts.size))
    weights = triple_weights(schedule)
    used = np.flatnonzero(schedule.home >= 0).astype(np.int32)
    homes = cut_by_part(schedule.home[used], n_ranks, used)
    return [
        RankSchedule(
            schedule.n_sub_epochs,
            item_of_pair[pairs],
            None if schedule.sub_epoch is None else schedule.sub_epoch[pairs],
            tuple(averages[rank]),
            home,
            weights[rank],
        )
        for rank, ((pairs,), (home,)) in enumerate(zip(held, homes, strict=True))
    ]


class _Shares:
    """The weight of each rank's copy in the average of its group."""

    def __init__(self, schedule: SubEpochSchedule, averaging: str) -> None:
        self._n_ranks = schedule.n_ranks
        size = schedule.group_size
        item = np.repeat(schedule.group_item.astype(np.int64), size)
        key = item * schedule.n_ranks + schedule.group_ranks
        self._order = np.argsort(key, kind="stable")
        self._key = key[self._order]
        if averaging == "mean":
            self._share = np.repeat(1.0 / size, size).astype(np.float32)
        else:
            # pairs of the incidence stand in order of (item, rank), which is the order of the
            # sorted keys; each is in one group, or in one of every sub-epoch
            counts, count = schedule.incidence.counts, np.empty(key.size)
            count[self._order] = np.repeat(counts, key.size // max(1, counts.size))
            total = np.add.reduceat(count, schedule.group_pointer[:-1]) if size.size else count
            total = np.maximum(total, 1.0)  # of rows that only pass through there are no ratings
            self._share = (count / np.repeat(total, size)).astype(np.float32)

    def of(self, messages: Any) -> ItemWeights:
        """Items that the receiver of `messages` averages, and the weights of each copy."""
        n_items = int(messages.in_items.max(initial=-1)) + 1
        items = distinct(messages.in_items, n_items).astype(np.int32)
        copies = {int(messages.rank): items}
        for m, source in enumerate(messages.sources):
            copies[int(source)] = messages.in_items[
                messages.in_pointer[m] : messages.in_pointer[m + 1]
            ]
        return items, tuple(self._of_pairs(copies[rank], rank) for rank in sorted(copies))

    def _of_pairs(self, items: np.ndarray, rank: int) -> np.ndarray:
        key = items.astype(np.int64) * self._n_ranks + rank
        return self._share[self._order[np.searchsorted(self._key, key)]]


def arrange_ratings(
    shard: Any,
    schedule: RankSchedule,
    weights: np.ndarray | None = None,
    seen_before: Pairs | None = None,
    *,
    n_components: int,
    random_state: int,
    first_item: int = 0,
    triples: bool = False,
) -> RankRatings:
    """Put a shard's ratings into the order in which SGD takes them.

    Parameters
    ----------
    shard : Shard
    schedule : RankSchedule
    weights : ndarray of shape (nnz,), optional
        Of the shard's ratings.
    seen_before : (ndarray of int, ndarray of int), optional
        Users and items, by global ids, that BPR must not take for unseen either; those that the
        rank has not are left out.
    n_components : int
        Sets how many rows fit a cache block.
    random_state : int
        Each rank shuffles by a stream of its own, so the order depends on nothing but seed, rank
        and data.
    first_item : int
        Of `RankRatings`.
    triples : bool
        Whether they are seen items, for BPR.
    """
    items = held_items(shard.items, schedule)
    n_trained = items.size - schedule.beside.size  # the order of training knows of no others
    position_of = Positions(items)
    generator = np.random.default_rng(np.random.SeedSequence(random_state, spawn_key=(shard.rank,)))
    row_bytes = 4 * padded_width(n_components)
    n_rows = n_trained if first_item else shard.rows.size, n_trained
    n_user_blocks = _n_blocks(n_rows[0], USER_BLOCK_BYTES // row_bytes)
    n_item_blocks = _n_blocks(n_rows[1], ITEM_BLOCK_BYTES // row_bytes)
    n_blocks = n_user_blocks * n_item_blocks
    rows, columns = shard.row_index, shard.column_index
    # of few bytes, as the keys: they are as many as the ratings, which a rank holds besides
    shuffled = generator.permutation(rows.size).astype(index_dtype(rows.size), copy=False)
    keys = _cells(columns, schedule, position_of, n_trained, n_blocks, shuffled)
    # from the cell to the cache block in place: a rank holds no more than it must
    blocks = (rows, n_rows[0], n_user_blocks), (columns, n_rows[1], n_item_blocks)
    for positions, n_of_side, n_of_blocks in blocks:
        keys *= n_of_blocks
        keys += _blocks(n_of_side, n_of_blocks, keys.dtype)[positions]
    order, pointer = counting_sort(keys, schedule.n_sub_epochs * n_blocks, shuffled)
    del keys, shuffled
    averages = tuple(
        None if part is None else Average(position_of(part[0]), part[1])
        for part in schedule.averages
    )
    return RankRatings(
        users=shard.rows,
        items=items,
        rows=rows[order].astype(np.int32, copy=False),
        columns=columns[order].astype(np.int32, copy=False),
        values=_as_float32(shard.values[order]),
        cell_pointer=pointer[::n_blocks],
        averages=averages,
        home=position_of(schedule.home),
        n_beside=schedule.beside.size,
        first_item=first_item,
        weights=np.zeros(0, np.float32) if weights is None else _as_float32(weights[order]),
        negatives=negatives_of(
            shard,
            position_of(schedule.items),
            schedule,
            random_state,
            None if seen_before is None else _local_pairs(seen_before, shard.rows, items),
        )
        if triples
        else None,
    )


def _local_pairs(pairs: Pairs, users: np.ndarray, items: np.ndarray) -> Pairs:
    """Local positions of the pairs whose user and item a rank has."""
    held = np.isin(pairs[0], users) & np.isin(pairs[1], items)
    return Positions(users)(pairs[0][held]), Positions(items)(pairs[1][held])


def held_items(touched: np.ndarray, schedule: RankSchedule) -> np.ndarray:
    """Items of a rank in its local order: of its ratings, passing through, for validation alone."""
    if touched.size < schedule.items.size:
        passing = np.setdiff1d(schedule.items, touched, assume_unique=True)
        touched = np.concatenate((touched, passing))
    return np.concatenate((touched, schedule.beside)) if schedule.beside.size else touched


def _as_float32(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # what became infinite is refused with the sums of all ranks
        return values.astype(np.float32, copy=False)


class Positions:
    """Global ids → positions in a rank's local order."""

    def __init__(self, ids: np.ndarray) -> None:
        self._order = np.argsort(ids, kind="stable")
        self._sorted = ids[self._order]

    def __call__(self, wanted: np.ndarray) -> np.ndarray:
        return self._order[np.searchsorted(self._sorted, wanted)]


def _cells(
    columns: np.ndarray,
    schedule: RankSchedule,
    position_of: Positions,
    n_trained: int,
    n_blocks: int,
    shuffled: np.ndarray,
) -> np.ndarray:
    """The sub-epoch of each rating, in a type for the keys of all their blocks."""
    dtype = index_dtype(schedule.n_sub_epochs * n_blocks)
    if schedule.sub_epoch is None:
        ends = np.arange(schedule.n_sub_epochs + 1) * columns.size // schedule.n_sub_epochs
        cells = np.empty(columns.size, dtype)
        each = np.arange(schedule.n_sub_epochs, dtype=dtype)
        cells[shuffled] = np.repeat(each, np.diff(ends))
        return cells
    sub_epoch = np.empty(n_trained, dtype)
    sub_epoch[position_of(schedule.items)] = schedule.sub_epoch
    return sub_epoch[columns]


def _n_blocks(n_rows: int, rows_per_block: int) -> int:
    return max(1, -(-n_rows // max(1, rows_per_block)))


def _blocks(n_rows: int, n_blocks: int, dtype: np.dtype) -> np.ndarray:
    """Cut rows into runs of about the same length: the block of each row."""
    return (np.arange(n_rows) * n_blocks // max(1, n_rows)).astype(dtype)


@kernel
def _starting_rows(ids, n_components, center, scale, seed, rows):
    """Fill rows with center ± scale, uniform; depends on seed, id and component alone."""
    for r in range(ids.size):
        for f in range(n_components):
            place = np.uint64(ids[r] * n_components + f + 1)
            word = mixed_word(np.uint64(seed) + place * GOLDEN)
            unit = float(word >> np.uint64(11)) / 9007199254740992.0
            rows[r, f] = center + scale * (2.0 * unit - 1.0)


def fill_starting_rows(rows: np.ndarray, side: str, random_state: int, scale: float) -> None:
    """Fill all rows of a side, in place: uniform in ± scale, by side, seed and position alone."""
    seed = _seeds_of_sides(random_state)[int(side == "item")]
    _starting_rows(np.arange(len(rows)), rows.shape[1], 0.0, scale, seed, rows)


def _seeds_of_sides(random_state: int) -> np.ndarray:
    """Of users and of items: else those of one number would begin with the same row."""
    return np.random.SeedSequence(random_state).generate_state(2, np.uint64)


def starting_model(
    ratings: RankRatings,
    *,
    layout: RowLayout,
    mean: float,
    center: float,
    scale: float,
    random_state: int,
    nonnegative: bool = False,
) -> RankModel:
    """First factors of a rank: each row is drawn from the seed and its own global id.

    So they are the same under every partition, and nothing need be sent. Users without a rating
    start, and stay, at zero; so do items that are there for validation alone, until they are sent.

    Parameters
    ----------
    center, scale : float
        Components are uniform in center ± scale.
    nonnegative : bool
        Whether those below 0 have their sign changed.
    """
    model = blank_model(layout, ratings.users.size, ratings.items.size, mean)
    seeds = _seeds_of_sides(random_state)
    for (own, held, ids, _), seed in zip(sides(ratings), seeds, strict=True):
        rows = np.zeros((ids.size, model.item.shape[1]), np.float32)
        _starting_rows(ids, layout.n_components, center, scale, seed, rows)
        getattr(model, own)[held] = np.abs(rows) if nonnegative else rows
    model.item[ratings.items.size - ratings.n_beside :] = 0
    if not ratings.first_item:
        rated = np.zeros(ratings.users.size, bool)
        rated[ratings.rows] = True
        model.user[~rated] = 0
    return model


def resumed_model(
    ratings: RankRatings, part: Part, *, layout: RowLayout, mean: float, axis: str, unit: float
) -> RankModel:
    """The model of a rank that begins from its part of a state, in its local order.

    The state is in the units of the ratings, the model in `unit`: see `scaling`.
    """
    model = blank_model(layout, ratings.users.size, ratings.items.size, mean)
    units = factor_units(unit)
    for (own, held, _, _), (_, name) in zip(sides(ratings), own_and_state(axis), strict=True):
        getattr(model, own)[held, : layout.n_components] = part[f"{name}_factors"] / units[name]
        getattr(model, f"{own}_bias")[held] = part[f"{name}_bias"] / np.float32(unit)
        getattr(model, f"{own}_gradient")[held] = part[f"{name}_gradient"]
    return model


def final_rows(model: RankModel, ratings: RankRatings, *, axis: str, unit: float) -> Part:
    """The rows that this rank answers for between epochs: its users and its home items."""
    part = {}
    units = factor_units(unit)
    for (own, _, _, rows), (_, name) in zip(sides(ratings), own_and_state(axis), strict=True):
        factors = getattr(model, own)[rows, : model.layout.n_components]
        part[f"{name}_factors"] = factors * units[name]
        part[f"{name}_bias"] = getattr(model, f"{own}_bias")[rows] * np.float32(unit)
        part[f"{name}_gradient"] = getattr(model, f"{own}_gradient")[rows].copy()
    return part


def sides(ratings: RankRatings) -> tuple[tuple[str, Any, np.ndarray, Any], ...]:
    """Of what is split and of what is shared: the arrays of the model that have the rows, positions
    there, their ids, and positions of those that the rank answers for between epochs."""
    first, items, home = ratings.first_item, ratings.items, ratings.home
    if not first:
        every = slice(None)
        return ("user", every, ratings.users, every), ("item", every, items, home)
    users, later = np.flatnonzero(items < first), np.flatnonzero(items >= first)
    return (
        ("item", users, items[users], home[items[home] < first]),
        ("item", later, items[later] - first, home[items[home] >= first]),
    )


def factor_units(unit: float) -> dict[str, np.float32]:
    """What the rows of each side of the ratings are multiplied by."""
    return dict(zip(("user", "item"), map(np.float32, split_unit(unit)), strict=True))


def own_and_state(axis: str) -> tuple[tuple[str, str], tuple[str, str]]:
    """What is split over ranks is "user" there, whichever side of the ratings it is."""
    names = ("item", "user") if axis == "columns" else ("user", "item")
    return ("user", names[0]), ("item", names[1])


def odd_answers(ratings: RankRatings, *, axis: str) -> list[str]:
    """What `yes_or_no.odd_entries` finds, in positions of the whole."""
    (_, split), (_, shared) = own_and_state(axis)
    ids = {
        split: (ratings.items if ratings.first_item else ratings.users)[ratings.rows],
        shared: ratings.items[ratings.columns] - ratings.first_item,
    }
    return odd_entries(ratings.values, (ids["user"], ids["item"]), ("user", "item"))


def with_answers(ratings: RankRatings) -> RankRatings:
    """The same ratings as 1 for yes and 0 for no, to be trained on by the logistic loss."""
    return replace(ratings, values=ones_for_yes(ratings.values), logistic=True)


def in_unit(ratings: RankRatings, *, unit: float) -> RankRatings:
    """The same ratings with their values divided by a power of two."""
    return replace(ratings, values=ratings.values / np.float32(unit))
