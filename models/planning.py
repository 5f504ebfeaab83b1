"""What a fit will do, before it does it: partition, shards, sub-epochs, messages.

    X ─► Partition ─► Shards (with their Connectivity) ─► SubEpochSchedule ─► reduce and expand
    Plans
                                                                              └─► PlanReport

Everything here is made once a fit, on the client, from the pattern of the ratings alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np

from daskpart.collectives import Plan
from daskpart.connectivity import Connectivity
from daskpart.containers.matrix import as_matrix
from daskpart.errors import DaskpartWarning, InputError
from daskpart.partitioners import partition as make_partition
from daskpart.partitions import Partition
from daskpart.shards import Shards, shard

from .rank_data import RankSchedule, rank_schedules
from .reports import PlanReport
from .schedule import SubEpochSchedule, make_schedule

PARTITIONERS = ("power", "connectivity", "cut-net", "metis", "random", "block")
AXES = ("rows", "columns", "auto")


@dataclass(frozen=True)
class PlanSettings:
    """What decides a plan; see `MatrixFactorization` for the meaning of each."""

    n_ranks: int
    eta: int
    partitioner: str | Partition
    rho: float
    epsilon: float
    engine: Any
    axis: str
    averaging: str
    random_state: int


@dataclass(frozen=True)
class FitPlan:
    """A planned fit.

    Attributes
    ----------
    axis : {"rows", "columns"}
        What is split over ranks. Under "columns" the shards hold the transposed ratings.
    shards : Shards
    schedule : SubEpochSchedule
    reduces, expands : sequence of Plan, one a sub-epoch
    settings : PlanSettings
    seconds : float
        Time the partitioner took.
    """

    axis: str
    shards: Shards
    schedule: SubEpochSchedule
    reduces: Sequence[Plan]
    expands: Sequence[Plan]
    settings: PlanSettings
    seconds: float

    @property
    def partition(self) -> Partition:
        """Which rank holds which row (or column)."""
        return self.shards.partition

    @property
    def connectivity(self) -> Connectivity:
        """Which ranks share which item."""
        return self.shards.connectivity

    @property
    def n_messages(self) -> int:
        """Messages that carry rows in one epoch."""
        return sum(plan.total_messages for plan in (*self.reduces, *self.expands))

    @cached_property
    def rank_schedules(self) -> list[RankSchedule]:
        """Each rank's part of the schedule."""
        return rank_schedules(
            self.schedule, self.reduces, self.connectivity, self.settings.averaging
        )

    def report(self, row_words: int) -> PlanReport:
        """What one epoch costs; `row_words` is the length of a row on the wire."""
        n_ranks, eta = self.settings.n_ranks, self.settings.eta
        sent = np.zeros(n_ranks, np.int64)
        for plan in (*self.reduces, *self.expands):
            for messages in plan.rounds:
                sent += np.bincount(messages.source, minlength=n_ranks)
        return PlanReport(
            n_ranks=n_ranks,
            eta=eta,
            axis=self.axis,
            partitioner=_partitioner_name(self.settings.partitioner),
            lambda_histogram=self.connectivity.histogram(),
            volume=self.connectivity.pasgd_volume(eta),
            staleness=self.connectivity.pasgd_staleness(eta),
            messages=self.n_messages,
            messages_max_rank=int(sent.max(initial=0)),
            imbalance=self.partition.imbalance,
            cell_imbalance=self.schedule.cell_imbalance,
            row_words=row_words,
            seconds=self.seconds,
        )


def check_plan_settings(settings: PlanSettings) -> PlanSettings:
    """The settings with η clipped to the number of ranks.

    Raises
    ------
    InputError
        For n_ranks < 1, η < 1, or an unknown partitioner, axis or averaging.
    """
    if settings.n_ranks < 1:
        raise InputError(f"n_ranks={settings.n_ranks} must be at least 1")
    if settings.eta < 1:
        raise InputError(f"eta={settings.eta} must be at least 1 (synchronisations an epoch)")
    for name, allowed in (("axis", AXES), ("averaging", ("mean", "ratings"))):
        if getattr(settings, name) not in allowed:
            known = ", ".join(map(repr, allowed))
            given = getattr(settings, name)
            raise InputError(f"{name}={given!r} is unknown; choose one of {known}")
    _check_partitioner(settings)
    if settings.eta <= settings.n_ranks:
        return settings
    warnings.warn(
        f"eta={settings.eta} is more than n_ranks={settings.n_ranks}; {settings.n_ranks} is used, "
        "which already leaves no staleness",
        DaskpartWarning,
        stacklevel=3,
    )
    return PlanSettings(**{**vars(settings), "eta": settings.n_ranks})


def _check_partitioner(settings: PlanSettings) -> None:
    partitioner = settings.partitioner
    if isinstance(partitioner, Partition):
        if partitioner.n_parts != settings.n_ranks:
            raise InputError(
                f"the partition has {partitioner.n_parts} parts, n_ranks is {settings.n_ranks}: "
                "give a partition with one part a rank"
            )
        if settings.axis == "auto":
            raise InputError('axis="auto" cannot choose for a given partition; say rows or columns')
    elif partitioner not in PARTITIONERS:
        known = ", ".join(map(repr, PARTITIONERS))
        raise InputError(
            f"partitioner={partitioner!r} is unknown; choose one of {known}, or give a Partition"
        )


def plan_fit(X: Any, settings: PlanSettings) -> FitPlan:
    """Partition the ratings and lay out every message of an epoch.

    Parameters
    ----------
    X : LabelledMatrix or lazy Dask collection
        Ratings; under ``axis="auto"`` both directions are planned, and the one that moves fewer
        rows is taken.
    settings : PlanSettings
        As `check_plan_settings` gave it back.

    Raises
    ------
    InputError
        When a rank would get no rows.
    """
    axes = ("rows", "columns") if settings.axis == "auto" else (settings.axis,)
    split = [_split(X, axis, settings) for axis in axes]
    volumes = [shards.connectivity.pasgd_volume(settings.eta) for shards, _ in split]
    best = int(np.argmin(volumes))
    shards, seconds = split[best]
    schedule = make_schedule(shards.connectivity, settings.eta, settings.random_state)
    sub_epochs = range(settings.eta)
    return FitPlan(
        axis=axes[best],
        shards=shards,
        schedule=schedule,
        reduces=[schedule.reduce_plan(t) for t in sub_epochs],
        expands=[schedule.expand_plan(t) for t in sub_epochs],
        settings=settings,
        seconds=seconds,
    )


def _split(X: Any, axis: str, settings: PlanSettings) -> tuple[Shards, float]:
    """Shards of X split along `axis`, and the partitioner's seconds."""
    data = X if axis == "rows" else transposed(X)
    begin = perf_counter()
    parts = _partitioned(data, settings)
    seconds = perf_counter() - begin
    empty = np.flatnonzero(np.bincount(parts.assignment, minlength=parts.n_parts) == 0)
    if empty.size:
        named = ", ".join(map(str, empty[:5]))
        raise InputError(
            f"{empty.size} of {parts.n_parts} ranks have no {axis} (rank {named}"
            f"{', …' if empty.size > 5 else ''}); take fewer ranks or another partition"
        )
    return shard(data, parts, random_state=settings.random_state), seconds


def transposed(X: Any) -> Any:
    """X with users and items exchanged."""
    return X.transposed() if hasattr(X, "transposed") else X.T


def _partitioned(data: Any, settings: PlanSettings) -> Partition:
    given = settings.partitioner
    if isinstance(given, Partition):
        given.check_fits(data.shape[0], "the matrix", "rows")
        return given
    if data.shape[0] < settings.n_ranks:
        raise InputError(
            f"{settings.n_ranks} ranks need as many rows to share out; there are {data.shape[0]}"
        )
    choice: dict[str, Any] = {"epsilon": settings.epsilon, "random_state": settings.random_state}
    if given in ("random", "block", "metis"):
        return make_partition(data, settings.n_ranks, method=given, **choice)
    choice |= {"objective": given, "engine": settings.engine}
    if given == "power":
        choice["rho"] = settings.rho
    return make_partition(data, settings.n_ranks, **choice)


def _partitioner_name(partitioner: str | Partition) -> str:
    return partitioner if isinstance(partitioner, str) else "given partition"


def is_lazy(X: Any) -> bool:
    """Whether X is a Dask collection, whose ratings stay where they are."""
    inner = getattr(X, "data", X) if hasattr(X, "coords") and hasattr(X, "dims") else X
    return hasattr(inner, "__dask_graph__") and inner.__dask_graph__() is not None


def as_ratings(X: Any) -> Any:
    """X as plans take it: lazy Dask collections as they are, all else as a LabelledMatrix."""
    return X if is_lazy(X) else as_matrix(X)
