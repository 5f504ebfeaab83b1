"""What a fit will do, before it does it: partition, shards, sub-epochs, messages.

    X ─► Partition ─► Shards (with their Connectivity) ─► SubEpochSchedule ─► reduce and expand
    Plans                                                 η-PASGD, DSGD, GASGD
                                                                              └─► MFPlanReport

Everything here is made once a fit, on the client, from the pattern of the ratings alone.

Source: Abubaker et al., "Minimizing Staleness and Communication Overhead in Distributed SGD for
Collaborative Filtering", §3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from daskpart._floor.kernels import working_clock
from daskpart.collectives import Plan
from daskpart.connectivity import Connectivity
from daskpart.containers.dask_blocks import cut_by_part
from daskpart.containers.matrix import LabelledMatrix
from daskpart.errors import InputError
from daskpart.hypergraph import Hypergraph
from daskpart.models.base.cutting import ROW_CUTS, Cuts, told_of_cut, weighed_partition
from daskpart.models.base.held_out import messages_beside
from daskpart.models.base.plan import (
    ROW_PARTITIONERS,
    FitPlan,
    given_partition,
    refuse_empty,
)
from daskpart.models.base.reports import Expected
from daskpart.partitions import Partition
from daskpart.shards import Shards, shard

from .copies import copies_schedule, hypergraph_of_nonzeros, shards_of_nonzeros
from .held_out import HeldOutPlan
from .kernels.sgd import padded_width
from .negatives import Pairs
from .pasgd import LABELS, RowLayout
from .plan_report import WORD_BYTES, MFPlanReport
from .rank_data import RankSchedule, held_items, own_and_state, rank_schedules
from .schedule import SubEpochSchedule, make_schedule
from .strata import strata_schedule


@dataclass(frozen=True, eq=False, kw_only=True)
class MFPlan(FitPlan):
    """A planned factorization.

    Attributes
    ----------
    kind : {"pasgd", "dsgd", "gasgd"}
        Which schedule.
    eta : int
        Sub-epochs, which end in synchronisations: η, and K under "dsgd".
    axis : {"rows", "columns", "nonzeros"}
        What is split over ranks. Under "columns" the shards hold the transposed ratings, under
        "nonzeros" rows of both sides: see `copies`.
    averaging : {"mean", "ratings"}
    layout : RowLayout
        What travels of a row.
    rating_bytes : int
        That a rank holds of each rating.
    shards : Shards
    schedule : SubEpochSchedule
    reduces, expands : sequence of Plan, one a sub-epoch
    held_out : HeldOutPlan or None
        What validation on the ranks takes beside that.
    negative_bytes : int64 ndarray of shape (n_ranks,), or None
        For BPR: what a rank holds beside its ratings to draw unseen items from.
    """

    kind: str
    eta: int
    axis: str
    averaging: str
    layout: RowLayout
    rating_bytes: int = 12
    shards: Shards = field(repr=False)
    schedule: SubEpochSchedule = field(repr=False)
    reduces: Sequence[Plan] = field(repr=False)
    expands: Sequence[Plan] = field(repr=False)
    held_out: HeldOutPlan | None = field(default=None, repr=False)
    negative_bytes: NDArray[np.int64] | None = field(default=None, repr=False)

    @property
    def connectivity(self) -> Connectivity:
        """Which ranks share which item."""
        return self.shards.connectivity

    @cached_property
    def rank_schedules(self) -> list[RankSchedule]:
        """Each rank's part of the schedule."""
        schedules = rank_schedules(self.schedule, self.reduces, self.averaging)
        if self.held_out is None:
            return schedules
        return [
            replace(schedule, beside=beside)
            for schedule, beside in zip(schedules, self.held_out.beside, strict=True)
        ]

    @cached_property
    def rows_held(self) -> dict[str, list[NDArray[Any]]]:
        """For each side of the ratings the ids that every rank holds, in its local order."""
        ranks = range(self.n_ranks)
        items = [
            held_items(self.shards.items_of(rank), self.rank_schedules[rank]) for rank in ranks
        ]
        if self.axis == "nonzeros":
            return self._both_sides(items)
        (_, split), (_, shared) = own_and_state(self.axis)
        return {split: [self.shards.rows_of(rank) for rank in ranks], shared: items}

    @cached_property
    def rows_answered(self) -> dict[str, list[NDArray[Any]]]:
        """The same for the ids that every rank answers for between epochs."""
        home = [schedule.home for schedule in self.rank_schedules]
        if self.axis == "nonzeros":
            return self._both_sides(home)
        (_, shared) = own_and_state(self.axis)[1]
        return {**self.rows_held, shared: home}

    def _both_sides(self, ids: list[NDArray[Any]]) -> dict[str, list[NDArray[Any]]]:
        n_users = self.shards.shape[0]
        return {
            "user": [each[each < n_users] for each in ids],
            "item": [each[each >= n_users] - n_users for each in ids],
        }

    @property
    def decided(self) -> dict[str, str]:
        """What is split."""
        return {"axis": self.axis}

    def plans(self) -> dict[str, Sequence[Plan]]:
        """The messages of each sub-epoch."""
        return dict(zip(LABELS, (self.reduces, self.expands), strict=True))

    @cached_property
    def _sent(self) -> NDArray[np.int64]:
        """Messages and rows that each rank sends in an epoch, then rows that it receives."""
        return self._sent_by((*self.reduces, *self.expands))

    def _sent_by(self, plans: Sequence[Plan]) -> NDArray[np.int64]:
        counted = [plan.statistics() for plan in plans]
        names = ("messages_sent", "rows_sent", "rows_received")
        return np.array([sum(each.per_rank(name) for each in counted) for name in names])

    def expected(self) -> Expected:
        """What an epoch will send; under "pasgd" eq. 8 in rows, eq. 9 in stale ones."""
        messages, rows, _ = self._sent
        beside = {} if self.held_out is None else messages_beside([self.held_out.expand])
        return Expected(
            rows=rows,
            messages=messages,
            nbytes=int(rows.sum()) * self.layout.words * WORD_BYTES,
            row_labels=LABELS,
            message_labels=LABELS,
            counted={"staleness": self.schedule.staleness},
            beside=beside,
        )

    def memory(self) -> dict[str, NDArray[np.int64]]:
        """Bytes that each rank will hold: ratings, rows of both factors, positions of messages."""
        n_rows = np.sum([[len(ids) for ids in side] for side in self.rows_held.values()], axis=0)
        n_home = np.array([schedule.home.size for schedule in self.rank_schedules])
        ids = 8 * (n_rows + n_home) + 8 * (self.eta + 1)
        row_bytes = WORD_BYTES * (padded_width(self.layout.n_components) + 2)
        _, sent, received = self._sent
        held = {
            "ratings": self.rating_bytes * self.schedule.cell_nonzeros.sum(axis=1) + ids,
            "factors": row_bytes * n_rows,
            "messages": 8 * (sent + received),
        }
        if self.negative_bytes is not None:
            held["unseen items"] = self.negative_bytes
        if self.held_out is not None:
            _, sent, received = self._sent_by([self.held_out.expand])
            held["held out"] = self.held_out.nbytes + 8 * (sent + received)
            if self.held_out.keeps_best:
                answered = [[len(ids) for ids in side] for side in self.rows_answered.values()]
                row_bytes = WORD_BYTES * (self.layout.n_components + 2)
                held["best epoch"] = row_bytes * np.sum(answered, axis=0)
        return held

    def report(self) -> MFPlanReport:
        """What one epoch costs."""
        messages, rows, _ = self._sent
        assert self.partition is not None
        return self._report(
            MFPlanReport,
            eta=self.eta,
            axis=self.axis,
            lambda_histogram=self.connectivity.histogram(),
            volume=int(rows.sum()),
            staleness=self.schedule.staleness,
            messages=int(messages.sum()),
            messages_max_rank=int(messages.max(initial=0)),
            imbalance=self.partition.imbalance,
            cell_imbalance=self.schedule.cell_imbalance,
            row_words=self.layout.words,
            schedule=self.kind,
            validation_volume=0 if self.held_out is None else self.held_out.expand.total_rows,
        )


def plan_fit(
    matrix: Any,
    n_ranks: int,
    *,
    schedule: str = "pasgd",
    eta: int,
    partitioner: Any,
    axis: str,
    averaging: str,
    layout: RowLayout,
    random_state: int,
    steps: int = 1,
    transport: str = "local",
    kept: Any = None,
) -> MFPlan:
    """Partition the ratings and lay out every message of an epoch.

    Parameters
    ----------
    matrix : LabelledMatrix or lazy Dask collection
        Ratings; under ``axis="auto"`` both directions are planned, and the one that moves fewer
        rows is taken.
    n_ranks, schedule, eta, partitioner, axis, averaging, random_state
        As for `MatrixFactorization`, checked.
    layout : RowLayout
    steps, transport, kept : int, str, State or None
        How often an epoch is run, over what, and what it goes on from: for ``partitioner="auto"``,
        see `cutting`.

    Raises
    ------
    InputError
        When a rank would get no rows.
    """
    axes: tuple[str, ...] = (axis,)
    if axis == "auto":
        lengths = {"rows": matrix.shape[0], "columns": matrix.shape[1]}
        # where neither has a row for each rank, the first is refused
        axes = tuple(name for name, n in lengths.items() if n >= n_ranks) or ("rows",)

    def weigh(data: Any) -> Partition:
        """The partition that makes a fit shortest."""
        pattern = cache(
            lambda: data if isinstance(data, Hypergraph) else Hypergraph.column_net(data)
        )

        def make(name: str) -> Partition:
            what = data if name == "block" else pattern()
            return _cut(what, n_ranks, random_state=random_state, **ROW_CUTS[name])

        def nbytes(parts: Partition) -> float:
            sharing = Connectivity.from_partition(pattern(), parts)
            return float(_volume(sharing, schedule, eta) * WORD_BYTES * layout.words)

        cuts = Cuts(make, nbytes, lambda: pattern().n_pins)
        return weighed_partition(cuts, n_ranks, steps, transport, kept)

    if schedule == "gasgd":
        axes = ("nonzeros",)
    laid_out = [
        _laid_out(matrix, each, n_ranks, schedule, eta, partitioner, random_state, weigh)
        for each in axes
    ]
    volumes = [
        sum(plan.total_rows for plan in (*each["reduces"], *each["expands"])) for each in laid_out
    ]
    best = int(np.argmin(volumes))
    parts = _of_ratings(laid_out[best]["shards"].partition, axes[best])
    return MFPlan(
        n_ranks=n_ranks,
        random_state=random_state,
        partition=parts,
        **told_of_cut(parts, partitioner),
        kind=schedule,
        eta=laid_out[best]["schedule"].n_sub_epochs,
        axis=axes[best],
        averaging=averaging,
        layout=layout,
        **laid_out[best],
    )


def _laid_out(
    matrix: Any,
    axis: str,
    n_ranks: int,
    kind: str,
    eta: int,
    partitioner: Any,
    random_state: int,
    weigh: Callable,
) -> dict[str, Any]:
    """Fields of a plan that cuts along `axis`: the messages of every sub-epoch."""
    data = cut = _along(matrix, axis)
    if axis == "nonzeros":
        if not isinstance(matrix, LabelledMatrix):
            raise InputError('schedule="gasgd" cuts single ratings, which it needs in memory')
        cut = hypergraph_of_nonzeros(matrix)
    begin = working_clock()
    parts = _partitioned(cut, axis, n_ranks, partitioner, random_state, weigh)
    seconds = working_clock() - begin
    refuse_empty(parts, axis)
    shards = _shards(data, axis, parts, random_state)
    if kind == "gasgd":
        schedule = copies_schedule(shards.connectivity, eta)
    elif kind == "dsgd":
        schedule = strata_schedule(shards.connectivity)
    else:
        schedule = make_schedule(shards.connectivity, eta, random_state)
    every = range(schedule.n_sub_epochs)
    return {
        "shards": shards,
        "schedule": schedule,
        "reduces": [schedule.reduce_plan(t) for t in every],
        "expands": [schedule.expand_plan(t) for t in every],
        "seconds": seconds,
    }


def rank_weights(plan: MFPlan, weights: LabelledMatrix | None) -> list[np.ndarray] | None:
    """The weights of each rank's ratings, in the order of its shard."""
    if weights is None:
        return None
    data = _along(weights, plan.axis)
    cut = _shards(data, plan.axis, plan.shards.partition, plan.random_state)
    return [each.values for each in cut.compute()]


def rank_seen(plan: MFPlan, seen: csr_array | None) -> list[Pairs] | None:
    """Users and items of a pattern, by global ids, for the rank of each user."""
    if seen is None:
        return None
    assert plan.partition is not None
    pairs = seen.tocoo()
    rank = plan.partition.assignment[pairs.row]
    return cut_by_part(rank, plan.n_ranks, pairs.row, pairs.col)


def _along(matrix: Any, axis: str) -> Any:
    """The ratings as they are split: with users and items exchanged where "columns" are."""
    if axis != "columns":
        return matrix
    return matrix.transposed() if hasattr(matrix, "transposed") else matrix.T


def _shards(data: Any, axis: str, parts: Partition, random_state: int) -> Shards:
    """Each rank's ratings, of what `_along` gave."""
    if axis == "nonzeros":
        return shards_of_nonzeros(data, parts, random_state)
    return shard(data, parts, random_state=random_state)


def _partitioned(
    data: Any, axis: str, n_ranks: int, partitioner: Any, random_state: int, weigh: Callable
) -> Partition:
    n_vertices = data.n_vertices if isinstance(data, Hypergraph) else data.shape[0]

    def weights() -> NDArray[np.int64]:
        if hasattr(data, "rows"):
            return np.bincount(data.rows, minlength=n_vertices)
        return np.ones(n_vertices, np.int64)

    given = given_partition(partitioner, n_vertices, n_ranks, weights, "the matrix", axis)
    if given is not None:
        return _of_rows(given, axis)
    if isinstance(partitioner, str) and partitioner == "auto":
        return weigh(data)
    arguments = ROW_PARTITIONERS[partitioner] if isinstance(partitioner, str) else partitioner
    return _cut(data, n_ranks, **{"random_state": random_state, **arguments})


def _cut(data: Any, n_ranks: int, **arguments: Any) -> Partition:
    from daskpart.partitioners import partition  # here, as ranks import this module and cut nothing

    return partition(data, n_ranks, **arguments)


def _of_rows(partition: Partition, axis: str) -> Partition:
    """A given partition as one of the rows of what is split, which "columns" has transposed."""
    if partition.info.get("model") != "row-net":
        return partition
    if axis == "rows":
        raise InputError(
            'the partition is one of columns (model row-net): give axis="columns", or partition '
            "the rows"
        )
    return _turned(partition, "column-net")


def _of_ratings(partition: Partition, axis: str) -> Partition:
    """That of what is split as one of the ratings, whose columns are cut by "columns"."""
    return _turned(partition, "row-net") if axis == "columns" else partition


def _turned(partition: Partition, model: str) -> Partition:
    """The same parts, of the transposed matrix."""
    info = {**partition.info, "model": model}
    return replace(
        partition, info=info | {"shape": info["shape"][::-1]} if "shape" in info else info
    )


def _volume(sharing: Connectivity, schedule: str, eta: int) -> int:
    """Rows that an epoch sends."""
    if schedule == "dsgd":  # all rows visit all ranks, however users are dealt out
        return sharing.n_parts * sharing.n_items
    if schedule == "gasgd":
        return 2 * eta * sharing.connectivity_minus_one()
    return sharing.pasgd_volume(eta)


def with_negatives(plan: MFPlan, seen: csr_array | None) -> MFPlan:
    """The plan of a fit by BPR, which draws from the items of each cell what users have not.

    Parameters
    ----------
    plan : MFPlan
    seen : csr_array or None
        What users had in an earlier fit.
    """
    assert plan.partition is not None
    owners, n_ranks = plan.partition.assignment, plan.n_ranks
    n_users = np.bincount(owners, minlength=n_ranks)
    n_candidates = np.bincount(plan.schedule.incidence.parts, minlength=n_ranks)
    n_seen: Any = 0
    if seen is not None:  # what a rank holds no row of is left out
        pairs = seen.tocoo()
        ranks = owners[pairs.row]
        n_seen = np.bincount(ranks[plan.schedule.holds(pairs.col, ranks)], minlength=n_ranks)
    of_cells = 8 * (plan.eta + 1) + 4 * plan.eta
    nbytes = 4 * (n_candidates + n_seen) + 8 * (n_users + 1) + of_cells
    # and each rating once more, among what its user has
    return replace(plan, rating_bytes=plan.rating_bytes + 4, negative_bytes=nbytes)
