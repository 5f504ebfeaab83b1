"""What a fit will do, before it does it: partition, shards, sub-epochs, messages.

    X ─► Partition ─► Shards (with their Connectivity) ─► SubEpochSchedule ─► reduce and expand
    Plans
                                                                              └─► MFPlanReport

Everything here is made once a fit, on the client, from the pattern of the ratings alone.

Source: Abubaker et al., "Minimizing Staleness and Communication Overhead in Distributed SGD for
Collaborative Filtering", §3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.kernels import working_clock
from daskpart.collectives import Plan
from daskpart.connectivity import Connectivity
from daskpart.errors import InputError
from daskpart.hypergraph import Hypergraph
from daskpart.models.base.cutting import weighed_cut
from daskpart.models.base.plan import FitPlan, given_assignment, partitioner_name
from daskpart.models.base.reports import Expected, PlanReport, bytes_words
from daskpart.partitioners import partition as make_partition
from daskpart.partitions import Partition
from daskpart.shards import Shards, shard

from .kernels.sgd import padded_width
from .pasgd import LABELS, RowLayout
from .rank_data import RankSchedule, rank_schedules
from .schedule import SubEpochSchedule, make_schedule

# what a name of a partitioner stands for: arguments of `daskpart.partition`
PARTITIONERS: dict[str, dict[str, Any]] = {
    "power": {"objective": "power", "rho": 2},
    "auto": {},
    "connectivity": {"objective": "connectivity"},
    "cut-net": {"objective": "cut-net"},
    "metis": {"method": "metis"},
    "random": {"method": "random"},
    "block": {"method": "block"},
}
_WORD_BYTES = 4


@dataclass(frozen=True, eq=False, kw_only=True)
class MFPlan(FitPlan):
    """A planned factorization.

    Attributes
    ----------
    eta : int
        η, synchronisations an epoch.
    axis : {"rows", "columns"}
        What is split over ranks. Under "columns" the shards hold the transposed ratings.
    averaging : {"mean", "ratings"}
    layout : RowLayout
        What travels of a row.
    shards : Shards
    schedule : SubEpochSchedule
    reduces, expands : sequence of Plan, one a sub-epoch
    """

    eta: int
    axis: str
    averaging: str
    layout: RowLayout
    shards: Shards = field(repr=False)
    schedule: SubEpochSchedule = field(repr=False)
    reduces: Sequence[Plan] = field(repr=False)
    expands: Sequence[Plan] = field(repr=False)

    @property
    def connectivity(self) -> Connectivity:
        """Which ranks share which item."""
        return self.shards.connectivity

    @cached_property
    def rank_schedules(self) -> list[RankSchedule]:
        """Each rank's part of the schedule."""
        return rank_schedules(self.schedule, self.reduces, self.connectivity, self.averaging)

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
        sums = np.zeros((3, self.n_ranks), np.int64)
        for plan in (*self.reduces, *self.expands):
            for each in plan.rounds:
                np.add.at(sums[0], each.source, 1)
                np.add.at(sums[1], each.source, each.lengths)
                np.add.at(sums[2], each.destination, each.lengths)
        return sums

    def expected(self) -> Expected:
        """What an epoch will send: eq. 8 in rows, eq. 9 in stale ones."""
        messages, rows, _ = self._sent
        return Expected(
            rows=rows,
            messages=messages,
            nbytes=int(rows.sum()) * self.layout.words * _WORD_BYTES,
            row_labels=LABELS,
            message_labels=LABELS,
            counted={"staleness": self.connectivity.pasgd_staleness(self.eta)},
        )

    def memory(self) -> dict[str, NDArray[np.int64]]:
        """Bytes that each rank will hold: ratings, rows of both factors, positions of messages."""
        connectivity = self.connectivity
        n_items = np.bincount(connectivity.parts, minlength=self.n_ranks)
        assert self.partition is not None
        n_users = np.bincount(self.partition.assignment, minlength=self.n_ranks)
        ids = 8 * (n_users + n_items) + 8 * (self.eta + 1)
        row_bytes = _WORD_BYTES * (padded_width(self.layout.n_components) + 2)
        _, sent, received = self._sent
        return {
            "ratings": 12 * self.shards.nnz_per_part + ids,
            "factors": row_bytes * (n_users + n_items),
            "messages": 8 * (sent + received),
        }

    def report(self) -> MFPlanReport:
        """What one epoch costs."""
        messages = self._sent[0]
        assert self.partition is not None
        return MFPlanReport(
            n_ranks=self.n_ranks,
            unit="epoch",
            partitioner=self.partitioner,
            memory=self.memory(),
            seconds=self.seconds,
            eta=self.eta,
            axis=self.axis,
            lambda_histogram=self.connectivity.histogram(),
            volume=self.connectivity.pasgd_volume(self.eta),
            staleness=self.connectivity.pasgd_staleness(self.eta),
            messages=int(messages.sum()),
            messages_max_rank=int(messages.max(initial=0)),
            imbalance=self.partition.imbalance,
            cell_imbalance=self.schedule.cell_imbalance,
            row_words=self.layout.words,
        )


def plan_fit(
    matrix: Any,
    n_ranks: int,
    *,
    eta: int,
    partitioner: Any,
    axis: str,
    averaging: str,
    layout: RowLayout,
    random_state: int,
    steps: int = 1,
    transport: str = "local",
) -> MFPlan:
    """Partition the ratings and lay out every message of an epoch.

    Parameters
    ----------
    matrix : LabelledMatrix or lazy Dask collection
        Ratings; under ``axis="auto"`` both directions are planned, and the one that moves fewer
        rows is taken.
    n_ranks, eta, partitioner, axis, averaging, random_state
        As for `MatrixFactorization`, checked.
    layout : RowLayout
    steps, transport : int, str
        How often an epoch is run, and over what: for ``partitioner="auto"``, see `cutting`.

    Raises
    ------
    InputError
        When a rank would get no rows.
    """
    axes = ("rows", "columns") if axis == "auto" else (axis,)
    weigh = partial(
        weighed_partition, eta=eta, row_bytes=_WORD_BYTES * layout.words, steps=steps,
        transport=transport,
    )  # fmt: skip
    split = [_split(matrix, each, n_ranks, partitioner, random_state, weigh) for each in axes]
    volumes = [shards.connectivity.pasgd_volume(eta) for shards, _ in split]
    best = int(np.argmin(volumes))
    shards, seconds = split[best]
    schedule = make_schedule(shards.connectivity, eta, random_state)
    return MFPlan(
        n_ranks=n_ranks,
        random_state=random_state,
        partition=shards.partition,
        partitioner=shards.partition.info.get("weighed", partitioner_name(partitioner)),
        seconds=seconds,
        eta=eta,
        axis=axes[best],
        averaging=averaging,
        layout=layout,
        shards=shards,
        schedule=schedule,
        reduces=[schedule.reduce_plan(t) for t in range(eta)],
        expands=[schedule.expand_plan(t) for t in range(eta)],
    )


def _split(
    matrix: Any, axis: str, n_ranks: int, partitioner: Any, random_state: int, weigh: Callable
) -> tuple[Shards, float]:
    """Shards of the ratings split along `axis`, and the partitioner's seconds."""
    data = matrix if axis == "rows" else transposed(matrix)
    begin = working_clock()
    parts = _partitioned(data, axis, n_ranks, partitioner, random_state, weigh)
    seconds = working_clock() - begin
    empty = np.flatnonzero(np.bincount(parts.assignment, minlength=parts.n_parts) == 0)
    if empty.size:
        named = ", ".join(map(str, empty[:5]))
        raise InputError(
            f"{empty.size} of {parts.n_parts} ranks have no {axis} (rank {named}"
            f"{', …' if empty.size > 5 else ''}); take fewer ranks or another partition"
        )
    return shard(data, parts, random_state=random_state), seconds


def transposed(matrix: Any) -> Any:
    """The ratings with users and items exchanged."""
    return matrix.transposed() if hasattr(matrix, "transposed") else matrix.T


def _partitioned(
    data: Any, axis: str, n_ranks: int, partitioner: Any, random_state: int, weigh: Callable
) -> Partition:
    if isinstance(partitioner, Partition):
        partitioner.check_fits(data.shape[0], "the matrix", axis)
        return _of_rows(partitioner, axis)
    if not isinstance(partitioner, str | Mapping):
        assignment = given_assignment(partitioner, data.shape[0], n_ranks, axis)
        weights = np.ones(assignment.size, np.int64)
        if hasattr(data, "rows"):
            weights = np.bincount(data.rows, minlength=assignment.size)
        return Partition(assignment, n_ranks, weights, {})
    if data.shape[0] < n_ranks:
        raise InputError(
            f"{n_ranks} ranks need as many rows to share out; there are {data.shape[0]}"
        )
    if isinstance(partitioner, str) and partitioner == "auto":
        return weigh(data, n_ranks, random_state)
    arguments = PARTITIONERS[partitioner] if isinstance(partitioner, str) else partitioner
    return make_partition(data, n_ranks, **{"random_state": random_state, **arguments})


def _of_rows(partition: Partition, axis: str) -> Partition:
    """A given partition as one of the rows of what is split, which "columns" has transposed."""
    if partition.info.get("model") != "row-net":
        return partition
    if axis == "rows":
        raise InputError(
            'the partition is one of columns (model row-net): give axis="columns", or partition '
            "the rows"
        )
    shape = partition.info.get("shape")
    info = {**partition.info, "model": "column-net"}
    return replace(partition, info=info if shape is None else {**info, "shape": shape[::-1]})


def weighed_partition(
    data: Any,
    n_ranks: int,
    random_state: int,
    *,
    eta: int,
    row_bytes: int,
    steps: int,
    transport: str,
) -> Partition:
    """The partition that makes a fit shortest; ``info["weighed"]`` says why."""
    options = {
        "block": {"method": "block"},
        "pilot": {"method": "parsa"},
        "multilevel": PARTITIONERS["power"],
    }

    pattern = Hypergraph.column_net(data)

    def cut(name: str) -> tuple[Partition, float]:
        parts = make_partition(pattern, n_ranks, random_state=random_state, **options[name])
        volume = Connectivity.from_partition(pattern, parts).pasgd_volume(eta)
        return parts, float(volume * row_bytes)

    parts, reason = weighed_cut(cut, pattern.n_pins, n_ranks, steps, transport)
    return replace(parts, info={**parts.info, "weighed": f"auto, {reason}"})


@dataclass(eq=False, repr=False, kw_only=True)
class MFPlanReport(PlanReport):
    """What one epoch of η-PASGD costs on a partition; known before any training.

    Attributes
    ----------
    eta : int
        η, synchronisations an epoch.
    axis : str
        What is split over ranks: "rows" (users; item rows travel) or "columns" (the dual).
    lambda_histogram : ndarray of int64
        ``lambda_histogram[λ]``: items that λ ranks share; index 0: items without ratings.
    volume : int
        Rows sent an epoch, eq. 8.
    staleness : int
        Rows updated from a stale copy an epoch, eq. 9.
    messages, messages_max_rank : int
        Messages sent an epoch: by all ranks, and by the busiest one.
    imbalance : float
        Ratings of the heaviest rank over the mean, less 1.
    cell_imbalance : float
        The same for (rank, sub-epoch) cells: what waiting at the sub-epochs' ends costs.
    row_words : int
        Words a row takes on the wire.
    """

    eta: int
    axis: str
    lambda_histogram: np.ndarray
    volume: int
    staleness: int
    messages: int
    messages_max_rank: int
    imbalance: float
    cell_imbalance: float
    row_words: int

    _derived = ("lambda_max", "connectivity_minus_one", "sum_of_squares", "bytes_per_epoch")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.lambda_histogram = np.asarray(self.lambda_histogram, np.int64)

    @property
    def lambda_max(self) -> int:
        """λ_max: ranks that share the most shared item; η beyond it changes nothing."""
        used = np.flatnonzero(self.lambda_histogram)
        return int(used[-1]) if used.size else 0

    @property
    def connectivity_minus_one(self) -> int:
        """Σ (λ − 1) over the items in use, eq. 5."""
        counts = self.lambda_histogram
        return int((counts[1:] * np.arange(counts.size - 1)).sum())

    @property
    def sum_of_squares(self) -> int:
        """Σ λ² over the items with λ > 1: the power of connectivity with ρ = 2, eq. 11."""
        counts = self.lambda_histogram[2:]
        return int((counts * np.arange(2, counts.size + 2) ** 2).sum())

    @property
    def bytes_per_epoch(self) -> int:
        """Payload of all messages of an epoch."""
        return int(self.volume) * int(self.row_words) * _WORD_BYTES

    @property
    def how(self) -> str:
        """In some words how the ratings are split and rows are sent."""
        return f"{self.axis} by {self.partitioner!r}, η = {self.eta},"

    def title(self) -> str:
        """One line that says what this is about."""
        times = "once" if self.eta == 1 else f"{self.eta} times"
        return (
            f"Plan: {self.axis} over {self.n_ranks} ranks by {self.partitioner!r}, "
            f"synchronised {times} an epoch"
        )

    def rows(self) -> dict[str, str]:
        """Name → value in plain words, in the order shown."""
        mover = "items" if self.axis == "rows" else "users"
        local = int(self.lambda_histogram[1:2].sum())
        return {
            "volume": f"{self.volume:,} rows an epoch = {bytes_words(self.bytes_per_epoch)} "
            f"({self.row_words} words a row)",
            "staleness": _staleness_words(self.staleness, self.eta, self.lambda_max),
            "messages": f"{self.messages:,} an epoch, at most {self.messages_max_rank:,} by a rank",
            f"shared {mover}": f"{self._shared():,}; {local:,} stay on one rank",
            "connectivity λ": self._histogram_words(),
            "λ_max": f"{self.lambda_max}",
            "Σ (λ − 1)": f"{self.connectivity_minus_one:,}",
            "Σ λ² of shared": f"{self.sum_of_squares:,}",
            "imbalance": f"heaviest rank {self.imbalance:.1%} above the mean, "
            f"(rank, sub-epoch) cells {self.cell_imbalance:.1%}",
            **super().rows(),
        }

    def _shared(self) -> int:
        return int(self.lambda_histogram[2:].sum())

    def _histogram_words(self) -> str:
        """Bins 1, 2, 3–4, 5–8, … so that 512 ranks fit on a line."""
        words, low, high = [], 1, 1
        while low < self.lambda_histogram.size:
            count = int(self.lambda_histogram[low : high + 1].sum())
            last = min(high, self.lambda_histogram.size - 1)
            name = f"{low}" if low == last else f"{low}–{last}"
            if count:
                words.append(f"{name}: {count:,}")
            low, high = high + 1, 2 * high
        return " | ".join(words) or "no ratings"


def _staleness_words(staleness: float, eta: int, lambda_max: int) -> str:
    if not staleness:
        return "0: every update sees the newest row"
    return f"{staleness:,} rows an epoch come from a stale copy (0 from η = {lambda_max} on)"
