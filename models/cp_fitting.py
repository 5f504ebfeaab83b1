"""Drives CP-ALS iteration by iteration: hands out nonzeros and rows, keeps whole iterations.

    CPTrainer ── one attempt ──► Attempt: a communicator, per-rank tensors, factors, Grams
       │                            iterate() ─► ⟨X, X̂⟩, ‖X̂‖², λ       rows() ─► owned rows
       ├─ state kept ◄── gathered when a callback asks, and whenever that costs little
       └─ a worker is lost ─► new communicator, the kept state, the iterations since then again

Gathering all factors takes a share of an iteration, so it is done when the iterations since the
last time took `_KEEP_AFTER` times as long. What is kept is what is left after Ctrl-C, and where a
fit goes on after a loss: the iterations in between are repeated, with the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.collectives import (
    Communicator,
    EmbeddedPlan,
    PerRank,
    allreduce,
    barrier,
    prepare_embedded,
)
from daskpart.errors import DivergenceError, InputError

from .cp_als import (
    INNER,
    SQUARED,
    EmbeddedModes,
    Factors,
    PointToPointModes,
    Update,
    weights_of,
)
from .cp_planning import MethodPlan, choose
from .cp_ranks import RankTensor, RowNumbering, arrange, rows_of_ranks, squared_norm
from .cp_reports import CPCommunicationReport, Traffic
from .cp_state import CPState
from .cp_steps import warm_up
from .training import ResilientTrainer

_KEEP_AFTER = 20.0


@dataclass(frozen=True)
class TrainingSettings:
    """What decides training, once the plan is made."""

    update: Update
    dtype: str
    memory: str


class Attempt:
    """The fit on one communicator, from some state.

    Parameters
    ----------
    comm : Communicator
    plan : MethodPlan
    pieces : sequence of RankNonzeros, or a Dask collection of them
        One a rank.
    settings : TrainingSettings
    start : CPState
    """

    def __init__(
        self,
        comm: Communicator,
        plan: MethodPlan,
        pieces: Any,
        settings: TrainingSettings,
        start: CPState,
    ) -> None:
        self.comm, self._settings = comm, settings
        self._numberings = plan.numberings()
        self._shape = start.shape
        self.tensors = comm.map(
            arrange,
            comm.values(pieces),
            comm.values(rows_of_ranks(self._numberings, start.shape)),
            dtype=settings.dtype,
            n_components=start.n_components,
            memory=settings.memory,
        )
        modes = range(plan.n_modes)
        ids = [comm.map(rows_of_mode, self.tensors, mode=mode) for mode in modes]
        self._modes = _prepared(comm, plan, ids)
        total = allreduce(comm, comm.map(squared_norm, self.tensors))
        self.tensors, total = comm.settle(self.tensors, total)
        self.squared_norm = float(total.result())
        if not np.isfinite(self.squared_norm):
            raise InputError(
                "the values are too large: the sum of their squares overflows. Divide the tensor "
                "by its largest value."
            )
        self.begin_from(start)

    def begin_from(self, start: CPState) -> None:
        """Hand out the factors of a state, and add up their Grams."""
        comm, self.epoch = self.comm, start.epoch
        dtype = self._settings.dtype
        cut = [
            _cut(factor, numbering, dtype)
            for factor, numbering in zip(start.factors, self._numberings, strict=True)
        ]
        self.factors = Factors(
            [comm.values(rows) for rows in cut],
            [comm.values([np.zeros((0, 0))] * comm.n_ranks) for _ in cut],
            comm.values([start.weights] * comm.n_ranks),
        )
        self._modes.first_grams(comm, self.tensors, self.factors)
        nonnegative = self._settings.update.nonnegative
        self._settle(
            comm.map(warm_up_rank, self.tensors, *self.factors.rows, nonnegative=nonnegative)
        )
        barrier(comm)  # so that the first iteration does not count who was longer at its set-up

    def iterate(self) -> NDArray[np.float64]:
        """One iteration; gives squared norms of the last mode, ⟨X, X̂⟩ and ‖X̂‖²."""
        comm = self.comm
        sums = self._modes.iterate(comm, self.tensors, self.factors, self._settings.update)
        agreed = comm.assume_replicated(sums)
        self._settle(agreed)
        self.epoch += 1
        return agreed.result()

    def _settle(self, *more: Any) -> None:
        held = self.factors
        self.comm.settle(*held.rows, *held.grams, held.weights, *more)

    def gathered(self) -> list[NDArray[Any]]:
        """The whole factors, one a mode."""
        comm = self.comm
        rows = comm.gather(comm.map(owned_rows, self.tensors, *self.factors.rows))
        assert rows is not None  # the driver is the root
        whole = []
        for mode, (extent, numbering) in enumerate(zip(self._shape, self._numberings, strict=True)):
            factor = np.empty((extent, rows[0][mode].shape[1]), self._settings.dtype)
            for rank, own in enumerate(rows):
                factor[numbering.owned_by(rank)] = own[mode]
            whole.append(factor)
        return whole


def _prepared(
    comm: Communicator, plan: MethodPlan, ids: Sequence[PerRank]
) -> PointToPointModes | EmbeddedModes:
    if isinstance(plan.expands[0], EmbeddedPlan):
        return EmbeddedModes(
            [prepare_embedded(comm, p, n) for p, n in zip(plan.reduces, ids, strict=True)],  # type: ignore[arg-type]
            [prepare_embedded(comm, p, n) for p, n in zip(plan.expands, ids, strict=True)],  # type: ignore[arg-type]
        )
    pairs = [
        comm.prepare_all([reduce, expand], n)
        for reduce, expand, n in zip(plan.reduces, plan.expands, ids, strict=True)
    ]
    return PointToPointModes([pair[0] for pair in pairs], [pair[1] for pair in pairs])


def _cut(factor: NDArray[Any], numbering: RowNumbering, dtype: str) -> list[NDArray[Any]]:
    """Each rank's rows of a whole factor."""
    given = factor.astype(dtype, copy=False)
    return [given[numbering.of_rank(rank)] for rank in range(len(numbering.n_owned))]


# -- steps on one rank ---


def rows_of_mode(tensor: RankTensor, *, mode: int) -> NDArray[np.int32]:
    """Global indices of a rank's factor rows."""
    return tensor.rows[mode].copy()


def owned_rows(tensor: RankTensor, *rows: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """The rows that a rank answers for, one array a mode."""
    return tuple(own[:n_owned].copy() for own, n_owned in zip(rows, tensor.n_owned, strict=True))


def warm_up_rank(tensor: RankTensor, *rows: NDArray[Any], nonnegative: bool) -> None:
    """Compile on this worker what an iteration runs, so that iterations measure training.

    What the MTTKRP compiles depends on the layout, so it runs as it will.
    """
    for mode in range(len(rows)):
        tensor.layout.mttkrp(mode, rows)
    warm_up(tensor.layout.dtype, nonnegative)


# -- the driver ---


class CPTrainer(ResilientTrainer):
    """Runs iterations, and keeps the state after a whole one.

    Parameters
    ----------
    plans : sequence of MethodPlan
        One, or several to choose from when the transport is known.
    pieces_of : callable
        ``pieces_of(plan)`` gives each rank its nonzeros: a list, or a Dask collection.
    settings : TrainingSettings
    connect : callable
        As for `ResilientTrainer`.
    start : CPState
        Where to begin.
    chosen : str
        Under this name the settings of every state say which method was chosen.

    Attributes
    ----------
    kept : CPState
        After some whole iteration.
    plan : MethodPlan or None
        The chosen one; None before the first iteration.
    """

    def __init__(
        self,
        plans: Sequence[MethodPlan],
        pieces_of: Callable[[MethodPlan], Any],
        settings: TrainingSettings,
        connect: Callable[[bool], Communicator],
        start: CPState,
        chosen: str = "chosen_method",
    ) -> None:
        super().__init__(connect)
        self.plan = plans[0] if len(plans) == 1 else None
        self._plans, self._pieces_of, self._settings = plans, pieces_of, settings
        self._chosen = chosen
        self._keep_start(start)

    def begin_again(self, start: CPState) -> None:
        """Forget what was done and begin from another state, on the same communicator."""
        self._keep_start(start)
        if self._attempt is not None:
            self._attempt.begin_from(start)

    def _keep_start(self, start: CPState) -> None:
        self.kept = start
        self._history = list(start.history)
        self._weights = start.weights
        self._traffic: Traffic | None = None
        self._keeping, self._unkept = 0.0, 0.0  # seconds of the last gather, and since then

    @property
    def kept_epoch(self) -> int:
        """Iterations done when `kept` was."""
        return self.kept.epoch

    def run(self, epoch: int) -> dict[str, Any]:
        """Do iteration number `epoch` (from 1), and those before it that a loss undid.

        Returns
        -------
        dict
            Its row of the history.

        Raises
        ------
        DivergenceError
            When a factor is NaN or infinite; `kept` is of an earlier iteration.
        WorkerLostError
            When workers were lost too often, or none is left.
        """
        return self._resilient(lambda attempt: self._run_to(attempt, epoch))

    def state(self) -> CPState:
        """The state after the last whole iteration."""
        last = max(self.kept.epoch, len(self._history) and self._history[-1]["epoch"])

        def keep(attempt: Attempt) -> CPState:
            if attempt.epoch < last:
                self._run_to(attempt, last)
            if self.kept.epoch < last:
                self._keep(attempt)
            return self.kept

        return self.kept if self.kept.epoch == last else self._resilient(keep)

    def communication(self) -> CPCommunicationReport:
        """What the iterations of this fit sent, beside what was planned."""
        assert self.plan is not None
        traffic = self._traffic or Traffic(self.plan.settings.n_ranks)
        return traffic.report(self.plan, self._transport)

    def _begin(self, comm: Communicator) -> Attempt:
        if self.plan is None:
            self.plan = choose(self._plans, self._transport)
        pieces = self._pieces_of(self.plan)
        return Attempt(comm, self.plan, pieces, self._settings, self.kept)

    def _run_to(self, attempt: Attempt, epoch: int) -> dict[str, Any]:
        while attempt.epoch < epoch:
            row = self._iterate(attempt)
        if self._unkept >= _KEEP_AFTER * self._keeping:
            self._keep(attempt)
        return row

    def _iterate(self, attempt: Attempt) -> dict[str, Any]:
        counters, number = attempt.comm.counters, attempt.epoch + 1
        counters.reset()
        begin = perf_counter()
        sums = attempt.iterate()
        seconds = perf_counter() - begin
        if not np.isfinite(sums).all():
            raise DivergenceError(
                f"the decomposition diverged in iteration {number}: factors became NaN or "
                f"infinite. Add a ridge, or scale the tensor; the factors after iteration "
                f"{self.kept.epoch} are kept."
            )
        self._weights, self._unkept = weights_of(sums), self._unkept + seconds
        known = [row for row in self._history if row["epoch"] < number]
        fit = fit_of(sums, attempt.squared_norm)
        row = {
            "epoch": number,
            "fit": fit,
            "fit_change": fit - (known[-1]["fit"] if known else float("nan")),
            "seconds": seconds,
            "seconds_computing": float(counters.seconds_computing.mean()),
            "seconds_communicating": float(counters.seconds_blocked.mean()),
            "volume": int(sum(counters.of(label)["rows_sent"].sum() for label in _SPARSE)),
            "messages": int(counters.messages_sent.sum()),
        }
        if not self._history or self._history[-1]["epoch"] < number:  # not done before a loss
            assert self.plan is not None
            before = self._traffic or Traffic(self.plan.settings.n_ranks)
            self._traffic = before.plus(counters)
        self._history = [*known, row]
        return row

    def _keep(self, attempt: Attempt) -> None:
        begin = perf_counter()
        factors = attempt.gathered()
        self._keeping, self._unkept = perf_counter() - begin, 0.0
        assert self.plan is not None
        self.kept = replace(
            self.kept,
            settings={**self.kept.settings, self._chosen: self.plan.method},
            weights=self._weights,
            factors=factors,
            epoch=attempt.epoch,
            fit=self._history[-1]["fit"],
            history=list(self._history),
        )


_SPARSE = ("reduce", "expand")


def fit_of(sums: NDArray[np.float64], squared_norm: float) -> float:
    """1 − ‖X − X̂‖/‖X‖, from ⟨X, X̂⟩ and ‖X̂‖²."""
    residual = squared_norm - 2 * sums[INNER] + sums[SQUARED]
    return 1.0 - float(np.sqrt(max(residual, 0.0) / squared_norm))
