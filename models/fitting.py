"""Drives η-PASGD epoch by epoch: hands out the data, keeps the last whole epoch, goes on after a
loss.

    Trainer ── one attempt ──► Attempt: a communicator, per-rank ratings and models
       │                          run(epoch) ─► totals      rows() ─► Factors after this epoch
       │
       └─ a worker is lost ─► new communicator, models from the last Factors, the same epoch again

The factors after each whole epoch are gathered here. They are the result, the checkpoint, what is
left after Ctrl-C, and what a repeated epoch begins from; so a fit that lost a worker ends with the
same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from daskpart.collectives import Communicator, Counters, allreduce, barrier
from daskpart.errors import DivergenceError

from .learning_rates import LearningRate
from .pasgd import (
    EpochTotals,
    PreparedSchedule,
    RankRatings,
    RowLayout,
    compile_kernels,
    run_epoch,
)
from .planning import FitPlan
from .rank_data import (
    RankRows,
    arrange_ratings,
    count_ratings,
    final_rows,
    resumed_model,
    starting_model,
)
from .reports import CommunicationReport
from .snapshot import Factors
from .training import ResilientTrainer


@dataclass(frozen=True)
class TrainingSettings:
    """What decides training, once the plan is made."""

    layout: RowLayout
    learning_rate: LearningRate
    regularization: float
    init_scale: float
    random_state: int


class Attempt:
    """The fit on one communicator, from some factors (or from the beginning)."""

    def __init__(
        self, comm: Communicator, plan: FitPlan, settings: TrainingSettings, start: Factors | None
    ) -> None:
        self.comm, self._plan, self._settings = comm, plan, settings
        # the shards are let go of as soon as the ratings stand in their order
        shards = comm.values(plan.shards if plan.shards.is_lazy else list(plan.shards.compute()))
        self._ratings = comm.map(
            arrange_ratings,
            shards,
            comm.values(plan.rank_schedules),
            n_components=settings.layout.n_components,
            random_state=settings.random_state,
        )
        numbering = comm.map(_items_of, self._ratings)
        prepared = comm.prepare_all(
            [*plan.reduces, *plan.expands],
            numbering,
            ["reduce"] * len(plan.reduces) + ["expand"] * len(plan.expands),
        )
        used = [entry if entry.plan.total_rows else None for entry in prepared]
        self._schedule = PreparedSchedule(used[: len(plan.reduces)], used[len(plan.reduces) :])
        totals = allreduce(comm, comm.map(count_ratings, self._ratings))
        self._ratings, totals = comm.settle(self._ratings, totals)
        rating_sum, rating_count = totals.result()
        self.n_ratings = int(rating_count)
        overall = float(rating_sum / rating_count) if self.n_ratings else 0.0
        self.mean = start.global_mean if start else (overall if settings.layout.biases else 0.0)
        model = self._first_model(start, overall)
        self._model, _ = comm.settle(model, comm.map(compile_kernels, model, self._ratings))
        barrier(comm)  # so that the first epoch does not count who was longer at its set-up

    def _first_model(self, start: Factors | None, overall: float) -> Any:
        settings = self._settings
        if start is not None:
            rows = _cut(start, self._plan)
            return self.comm.map(
                resumed_model, self.comm.values(rows), layout=settings.layout, mean=self.mean
            )
        # without biases the products themselves must reach the ratings: begin at their mean
        lift = 0.0 if settings.layout.biases else max(overall, 0.0)
        return self.comm.map(
            starting_model,
            self._ratings,
            layout=settings.layout,
            mean=self.mean,
            center=float(np.sqrt(lift / settings.layout.n_components)),
            scale=settings.init_scale,
            random_state=settings.random_state,
        )

    def run(self, rate: float) -> EpochTotals:
        """Train one epoch."""
        self._model, totals = run_epoch(
            self.comm,
            self._model,
            self._ratings,
            self._schedule,
            rate,
            self._settings.regularization,
        )
        return totals

    def rows(self) -> list[RankRows]:
        """The final rows of every rank."""
        gathered = self.comm.gather(self.comm.map(final_rows, self._model, self._ratings))
        assert gathered is not None  # the driver is the root
        return gathered


def _items_of(ratings: RankRatings) -> np.ndarray:
    return ratings.items.copy()


def _cut(factors: Factors, plan: FitPlan) -> list[RankRows]:
    """Each rank's rows of the whole factors, in the local order of its shard."""
    user, item = ("user", "item") if plan.axis == "rows" else ("item", "user")
    rows = []
    for rank in range(plan.settings.n_ranks):
        users, items = plan.shards.rows_of(rank), plan.shards.items_of(rank)
        own = {
            "user": getattr(factors, f"{user}_factors")[users],
            "item": getattr(factors, f"{item}_factors")[items],
        }
        for kind in ("bias", "gradient"):
            own[f"user_{kind}"] = getattr(factors, f"{user}_{kind}")[users]
            own[f"item_{kind}"] = getattr(factors, f"{item}_{kind}")[items]
        rows.append(RankRows(users=users, items=items, **own))
    return rows


class Trainer(ResilientTrainer):
    """Runs epochs, and keeps the factors after the last whole one.

    Parameters
    ----------
    plan : FitPlan
    settings : TrainingSettings
    connect : callable
        As for `ResilientTrainer`.
    start : Factors or None
        Where to begin; None: from the beginning.
    blank : Factors
        Labels, names and settings that every state of this fit carries.
    score : callable or None
        Gives the validation RMSE of some factors.

    Attributes
    ----------
    factors : Factors or None
        After the last whole epoch.
    """

    def __init__(
        self,
        plan: FitPlan,
        settings: TrainingSettings,
        connect: Callable[[bool], Communicator],
        start: Factors | None,
        blank: Factors,
        score: Callable[[Factors], float] | None,
    ) -> None:
        super().__init__(connect)
        self.plan, self.settings, self.factors = plan, settings, start
        self._blank, self._score = blank, score
        self._memory = _rate_memory(settings.learning_rate, start, blank)
        self._traffic = _Traffic(plan, settings.layout.words)

    @property
    def kept_epoch(self) -> int:
        """Number of the whole epoch that `factors` are of."""
        return self.factors.epoch if self.factors is not None else 0

    def run(self, epoch: int) -> dict[str, Any]:
        """Train epoch number `epoch` (from 1); gives its row of the history.

        Raises
        ------
        DivergenceError
            When a factor is NaN or infinite; `factors` are those of the epoch before.
        WorkerLostError
            When workers were lost too often, or none is left.
        """
        return self._resilient(lambda attempt: self._run_once(attempt, epoch))

    def _begin(self, comm: Communicator) -> Attempt:
        return Attempt(comm, self.plan, self.settings, self.factors)

    def _run_once(self, attempt: Attempt, epoch: int) -> dict[str, Any]:
        rate = self._memory["rate"]
        attempt.comm.counters.reset()
        begin = perf_counter()
        totals = attempt.run(rate)
        seconds = perf_counter() - begin
        if not (totals.finite and np.isfinite(totals.squared_error)):
            raise DivergenceError(
                f"training diverged in epoch {epoch}: factors became NaN or infinite at learning "
                f"rate {rate:g}. Lower initial_learning_rate (or scale the ratings down); the "
                f"factors after epoch {epoch - 1} are kept."
            )
        counters = attempt.comm.counters
        row = {
            "epoch": epoch,
            "seconds": seconds,
            "seconds_computing": float(counters.seconds_computing.mean()),
            "seconds_communicating": float(counters.seconds_blocked.mean()),
            "train_rmse": float(np.sqrt(totals.squared_error / max(1, attempt.n_ratings))),
            "staleness": totals.stale_rows,
            "volume": int(sum(counters.of(label)["rows_sent"].sum() for label in _LABELS)),
            "learning_rate": rate,
        }
        self._keep(attempt, epoch, row, totals, counters)
        return row

    def _keep(
        self,
        attempt: Attempt,
        epoch: int,
        row: dict[str, Any],
        totals: EpochTotals,
        counters: Counters,
    ) -> None:
        """Make this epoch the last whole one: nothing below changes a state that others hold."""
        memory = self.settings.learning_rate.advance(self._memory, epoch, totals.squared_error)
        traffic = self._traffic.plus(counters, totals.stale_rows)
        factors = _assemble(attempt.rows(), self.plan.axis, self._blank, attempt.mean)
        factors.epoch, factors.learning_rate_state = epoch, memory
        row["validation_rmse"] = self._score(factors) if self._score else float("nan")
        factors.history = [*(self.factors.history if self.factors else []), row]
        self.factors, self._memory, self._traffic = factors, memory, traffic

    def last_factors(self) -> Factors:
        """The factors after the last whole epoch, which there is one of."""
        assert self.factors is not None
        return self.factors

    def communication(self) -> CommunicationReport:
        """What the epochs of this fit sent, beside what the equations say."""
        return self._traffic.report(self._transport)


def _rate_memory(rate: LearningRate, start: Factors | None, blank: Factors) -> dict[str, float]:
    """Where the rate goes on; from its beginning if the user has changed it since."""
    chosen = ("learning_rate", "initial_learning_rate")
    if start is None or any(start.settings.get(n) != blank.settings.get(n) for n in chosen):
        return rate.start()
    return start.learning_rate_state


_LABELS = ("reduce", "expand")


class _Traffic:
    """Sums of the counters of whole epochs."""

    def __init__(self, plan: FitPlan, row_words: int) -> None:
        n_ranks = plan.settings.n_ranks
        self._plan, self._row_words = plan, row_words
        self._n_epochs = self._stale_rows = self._rows = self._bytes = self._messages = 0
        self._computing, self._blocked = np.zeros(n_ranks), np.zeros(n_ranks)
        self._pairs = np.zeros((n_ranks, n_ranks), np.int64)

    def plus(self, counters: Counters, stale_rows: int) -> _Traffic:
        """These sums and one more epoch."""
        after = _Traffic(self._plan, self._row_words)
        counts = [counters.of(label) for label in _LABELS]
        after._n_epochs = self._n_epochs + 1
        after._stale_rows = self._stale_rows + stale_rows
        for name, field in (("_rows", "rows"), ("_bytes", "bytes"), ("_messages", "messages")):
            seen = sum(int(count[f"{field}_sent"].sum()) for count in counts)
            setattr(after, name, getattr(self, name) + seen)
        after._computing = self._computing + counters.seconds_computing
        after._blocked = self._blocked + counters.seconds_blocked
        after._pairs = self._pairs + sum(
            counters.traffic(label) for label in _LABELS if label in counters.labels
        )
        return after

    def report(self, transport: str) -> CommunicationReport:
        plan, epochs = self._plan, max(1, self._n_epochs)
        eta = plan.settings.eta
        return CommunicationReport(
            n_ranks=plan.settings.n_ranks,
            eta=eta,
            n_epochs=self._n_epochs,
            transport=transport,
            row_words=self._row_words,
            measured_volume=self._rows / epochs,
            expected_volume=plan.connectivity.pasgd_volume(eta),
            measured_words=self._bytes / 4 / epochs,
            measured_staleness=self._stale_rows / epochs,
            expected_staleness=plan.connectivity.pasgd_staleness(eta),
            measured_messages=self._messages / epochs,
            expected_messages=plan.n_messages,
            measured_bytes=self._bytes / epochs,
            seconds_computing=self._computing,
            seconds_blocked=self._blocked,
            traffic=self._pairs / epochs,
        )


def _assemble(rows: list[RankRows], axis: str, blank: Factors, mean: float) -> Factors:
    """Whole factors from the ranks' rows; rows that no rank answers for stay zero."""
    factors = blank.copy()
    factors.global_mean = mean
    user, item = ("user", "item") if axis == "rows" else ("item", "user")
    for part in rows:
        for name, ids, own in ((user, part.users, "user"), (item, part.items, "item")):
            getattr(factors, f"{name}_factors")[ids] = getattr(part, own)
            getattr(factors, f"{name}_bias")[ids] = getattr(part, f"{own}_bias")
            getattr(factors, f"{name}_gradient")[ids] = getattr(part, f"{own}_gradient")
    return factors
