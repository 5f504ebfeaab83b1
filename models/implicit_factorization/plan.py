"""What a fit will send, before it does: users cut, an owner an item, the expands of both sides.

    events ─► Partition of the users ─► which ranks have events on an item ─► its owner
                                                │                               │
    rank k    events of its users, by user   ◄──┘   events of its items, by item ◄┘
    expand    W rows: owner of the user ─► owners of its items
              H rows: owner of the item ─► owners of its users

Each event lies on two ranks, or twice on one: by user and by item.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.compressed_rows import entries_of_rows
from daskpart._floor.kernels import working_clock
from daskpart._floor.sums import sums_by_key
from daskpart._floor.words import counted, plural
from daskpart.collectives import Plan, expand_plan
from daskpart.connectivity import Connectivity
from daskpart.containers.matrix import LabelledMatrix
from daskpart.containers.numbering import Numbering, number_owned
from daskpart.errors import InputError
from daskpart.models.base.cutting import ROW_CUTS, Cuts, told_of_cut, weighed_partition
from daskpart.models.base.plan import (
    ROW_PARTITIONERS,
    FitPlan,
    given_partition,
    refuse_empty,
)
from daskpart.models.base.reports import Expected, PlanReport, bytes_words
from daskpart.partitions import Partition

from .als import OTHER, SIDES, Events

LABEL = "expand"


@dataclass(frozen=True, eq=False, kw_only=True)
class ImplicitPlan(FitPlan):
    """A planned factorization of implicit feedback.

    Attributes
    ----------
    n_components : int
    row_work : int
        What a row to solve for is worth in events.
    connectivities : dict of str to Connectivity
        Of each side: which ranks hold a row of it, with its owner.
    expands : dict of str to Plan
        Of each side.
    """

    n_components: int
    row_work: int
    connectivities: dict[str, Connectivity] = field(repr=False)
    expands: dict[str, Plan] = field(repr=False)

    @cached_property
    def numberings(self) -> dict[str, Numbering]:
        """Rows of each side on every rank: owned, then those that come by an expand."""
        return {side: number_owned(each) for side, each in self.connectivities.items()}

    def plans(self) -> dict[str, Sequence[Plan]]:
        """The messages of an iteration, the allreduces of Grams aside."""
        return {LABEL: [self.expands[side] for side in SIDES]}

    def _per_rank(self, what: str) -> NDArray[np.int64]:
        each = [self.expands[side].statistics().per_rank(what) for side in SIDES]
        return np.sum(each, axis=0).astype(np.int64)

    def expected(self) -> Expected:
        """Rows and messages of both expands."""
        rows = self._per_rank("rows_sent")
        return Expected(
            rows=rows,
            messages=self._per_rank("messages_sent"),
            nbytes=int(rows.sum()) * 4 * self.n_components,
            row_labels=(LABEL,),
            message_labels=(LABEL,),
        )

    def memory(self) -> dict[str, NDArray[np.int64]]:
        """Bytes that each rank will hold at most.

        Events twice, rows of both factors; and of one of them the rows that leave and arrive.
        """
        held = [np.diff(self.numberings[side].pointer) for side in SIDES]
        owned = [self.numberings[side].sizes[:, 0] for side in SIDES]
        traffic = [self.expands[side].traffic() for side in SIDES]
        on_way = np.array([each.sum(axis=0) + each.sum(axis=1) for each in traffic])
        row_bytes = 4 * self.n_components
        found = {
            "events": 8 * self.events.sum(axis=0) + 8 * (np.sum(owned, axis=0) + 2),
            "factors": row_bytes * np.sum(held, axis=0),
            "messages": 8 * on_way.sum(axis=0) + row_bytes * on_way.max(axis=0),
        }
        return {name: each for name, each in found.items() if each.any()}

    @cached_property
    def events(self) -> NDArray[np.int64]:
        """Events that each rank has by user, and by item: int64 of shape (2, n_ranks)."""
        others = [self.connectivities[OTHER[side]] for side in SIDES]
        return np.stack([sums_by_key(each.parts, each.counts, self.n_ranks) for each in others])

    @cached_property
    def work(self) -> NDArray[np.int64]:
        """The same, and for each row to solve for as many more as it is worth."""
        owned = [self.numberings[side].sizes[:, 0] for side in SIDES]
        return self.events + self.row_work * np.array(owned)

    def report(self) -> ImplicitPlanReport:
        """What an iteration costs."""
        messages = self._per_rank("messages_sent")
        return self._report(
            ImplicitPlanReport,
            "iteration",
            n_components=self.n_components,
            volume=[self.expands[side].total_rows for side in SIDES],
            messages=int(messages.sum()),
            messages_max_rank=int(messages.max(initial=0)),
            imbalance=(self.work.max(axis=1) / self.work.mean(axis=1) - 1).tolist(),
        )


@dataclass(eq=False, repr=False, kw_only=True)
class ImplicitPlanReport(PlanReport):
    """What one iteration of implicit ALS costs on a partition; known before any training.

    Attributes
    ----------
    n_components : int
    volume : list of int
        Rows of users and of items that travel in an iteration.
    messages, messages_max_rank : int
        Messages of the expands: of all ranks, and of the busiest one.
    imbalance : list of float
        Work of the heaviest rank over the mean, less 1: by user, and by item.
    """

    n_components: int
    volume: list[int]
    messages: int
    messages_max_rank: int
    imbalance: list[float]

    def title(self) -> str:
        """One line that says what this is about."""
        ranks = counted(self.n_ranks, "rank")
        return f"Plan: users over {ranks} by {self.partitioner!r}, items to sharers"

    def rows(self) -> dict[str, str]:
        """Name → value in plain words, in the order shown."""
        total = sum(self.volume)
        gram = 8 * self.n_components**2
        return {
            "volume": f"{total:,} rows an iteration = {bytes_words(4 * self.n_components * total)}"
            f" ({self.volume[0]:,} of users, {self.volume[1]:,} of items)",
            "Grams": f"2 allreduces of {bytes_words(gram)} an iteration",
            "messages": f"{self.messages:,} an iteration, at most {self.messages_max_rank:,} by a "
            "rank",
            "imbalance": f"heaviest rank {self.imbalance[0]:.1%} above the mean by user, "
            f"{self.imbalance[1]:.1%} by item",
            **super().rows(),
        }


def plan_fit(
    matrix: LabelledMatrix,
    n_ranks: int,
    *,
    partitioner: Any,
    n_components: int,
    row_work: int,
    random_state: int,
    steps: int,
    transport: str,
    kept: Any = None,
) -> ImplicitPlan:
    """Cut the users, choose owners of items, lay out both expands.

    A row to solve for is worth `row_work` events: ranks have as much to do, and not as many events.

    Raises
    ------
    InputError
        When a rank would get no users.
    """

    def cut(chosen: dict[str, Any]) -> Partition:
        return _cut(matrix, n_ranks, row_work, **{"random_state": random_state, **chosen})

    def nbytes(parts: Partition) -> float:
        both = _connectivities(matrix, parts, row_work).values()
        return 4.0 * n_components * sum(each.rank_volume().total_rows for each in both)

    begin = working_clock()
    parts = given_partition(
        partitioner, matrix.shape[0], n_ranks, lambda: np.diff(matrix.row_pointer()),
        "the matrix", "rows",
    )  # fmt: skip
    if parts is None and partitioner == "auto":
        cuts = Cuts(lambda name: cut(ROW_CUTS[name]), nbytes, lambda: matrix.nnz)
        parts = weighed_partition(cuts, n_ranks, steps, transport, kept)
    elif parts is None:
        parts = cut(ROW_PARTITIONERS[partitioner] if isinstance(partitioner, str) else partitioner)
    seconds = working_clock() - begin
    users, items = plural(matrix.row_name), plural(matrix.column_name)
    parts.check_fits(matrix.shape[0], "the matrix", users)
    if parts.info.get("model") == "row-net":
        raise InputError(f"the partition is one of {items} (model row-net): partition the {users}")
    refuse_empty(parts, users)
    connectivities = _connectivities(matrix, parts, row_work)
    return ImplicitPlan(
        n_ranks=n_ranks,
        random_state=random_state,
        partition=parts,
        **told_of_cut(parts, partitioner),
        seconds=seconds,
        n_components=n_components,
        row_work=row_work,
        connectivities=connectivities,
        expands={side: expand_plan(each) for side, each in connectivities.items()},
    )


def _connectivities(
    matrix: LabelledMatrix, parts: Partition, row_work: int
) -> dict[str, Connectivity]:
    """Which rank needs which row of either side, and who solves for it."""
    n_ranks, assignment = parts.n_parts, parts.assignment.astype(np.int32)
    work = np.bincount(matrix.columns, minlength=matrix.shape[1]) + row_work
    items = Connectivity.from_pairs(
        matrix.columns, assignment[matrix.rows], matrix.shape[1], n_ranks
    ).with_packed_owners(work)
    assert items.owners is not None
    users = Connectivity.from_pairs(
        matrix.rows, items.owners[matrix.columns], matrix.shape[0], n_ranks
    ).with_owners(assignment)
    return {"user": users, "item": items}


def _cut(matrix: LabelledMatrix, n_ranks: int, row_work: int, **arguments: Any) -> Partition:
    """Users dealt out by their work; by events where a model is named."""
    from daskpart.data_models import column_net
    from daskpart.partitioners import looks_at_nets, partition  # ranks cut nothing

    if "model" in arguments:
        return partition(matrix, n_ranks, **arguments)
    model = column_net(matrix, nets=looks_at_nets(arguments.get("method", "auto")))
    return partition(model.with_row_work(row_work), n_ranks, **arguments)


def events_of_ranks(
    matrix: LabelledMatrix, plan: ImplicitPlan, alpha: float
) -> list[dict[str, Events]]:
    """What each rank works on: the events of its users by user, those of its items by item."""
    sides = {"user": matrix, "item": matrix.transposed()}
    found: list[dict[str, Events]] = [{} for _ in range(plan.n_ranks)]
    for side, data in sides.items():
        own, other = plan.numberings[side], plan.numberings[OTHER[side]]
        pointer, place = data.row_pointer(), np.empty(data.shape[1], np.int32)
        for rank, held in enumerate(found):
            starts, chosen = entries_of_rows(pointer, own.first_group(rank))
            place[other.of_rank(rank)] = np.arange(len(other.of_rank(rank)), dtype=np.int32)
            weights = (alpha * data.values[chosen]).astype(np.float32)
            held[side] = Events(starts, place[data.columns[chosen]], weights)
    return found
