"""`daskpart fit mf`: read, hold out, cut, say what it will cost, train, judge, write.

ratings ─┬─ held out ───────────────────────────────┐
         └─ train ── partition ── plan ── fit ──── test RMSE ── model, history, report
                                          │ Ctrl-C
                                          └─ the last whole epoch is written all the same
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import daskpart
from daskpart.errors import DivergenceError, InputError, WorkerLostError

from .cluster import check_kind, run_on
from .cut import sentences
from .dealing import Deal, deal, planned_ranks
from .judging import judge
from .ratings import Split, hold_out, in_words, load
from .run_checks import check_run
from .terminal import (
    COMPILING,
    INTERRUPTED,
    MpiPlace,
    OneLineError,
    explained_if_slow,
    one_ctrl_c_at_a_time,
    say,
)
from .writing import Outcome, write_all


@dataclass(frozen=True)
class FitSettings:
    """The options of `daskpart fit mf`, as given."""

    ratings: str
    format: str | None
    test_fraction: float
    seed: int
    ranks: int | None
    eta: int | None
    partitioner: str
    rho: float
    epsilon: float
    engine: str
    axis: str | None
    transport: str
    cluster: str
    workers: int | None
    components: int
    epochs: int
    learning_rate: str
    initial_learning_rate: float | None
    regularization: float
    biases: bool
    averaging: str
    validation_fraction: float
    patience: int | None
    checkpoint: Path | None
    checkpoint_every: int
    resume: bool
    out: Path
    model_format: str
    plots: bool

    def check(self) -> None:
        """Refuse what contradicts itself, before anything is read.

        Raises
        ------
        InputError
        """
        check_run(self)
        if self.patience is not None and not self.validation_fraction:
            raise InputError("--patience needs --validation-fraction above 0: what is watched")


@dataclass(frozen=True)
class Prepared:
    """What training starts from: a partition of the training ratings, and what it will cost."""

    split: Split
    deal: Deal
    model: Any
    plan: Any
    report: Any


def run(settings: FitSettings, place: MpiPlace) -> int:
    """Do the whole job; returns the exit code."""
    settings.check()
    check_kind(settings.cluster, place)
    n_workers = settings.workers or planned_ranks(settings)
    settings.out.mkdir(parents=True, exist_ok=True)  # now, not after hours of training
    prepared = None if settings.cluster == "mpi" else _prepare(settings)
    exit_codes: list[int] = []

    def work(client: Any) -> None:
        ready = _prepare(settings) if prepared is None else prepared
        with one_ctrl_c_at_a_time():
            exit_codes.append(_train_and_write(settings, ready))

    run_on(settings.cluster, n_workers, place, work)
    return exit_codes[0] if exit_codes else 0


def _prepare(settings: FitSettings) -> Prepared:
    """Read, hold out, cut; say each."""
    ratings = load(settings.ratings, settings.format)
    say(in_words(ratings, settings.ratings))
    if ratings.values.min() == ratings.values.max():
        say(f"note: all values are {ratings.values[0]:g}, so there is nothing to predict")
    split = hold_out(ratings, settings.test_fraction, settings.validation_fraction, settings.seed)
    say(split.in_words())
    n_ranks = planned_ranks(settings)
    say(f"cutting for {n_ranks} rank{'s' * (n_ranks > 1)} …")
    with explained_if_slow(COMPILING):
        dealt = deal(settings, split.train)
    for sentence in sentences(dealt.cut)[:2]:  # what travels is the plan's to say
        say(sentence)
    model = _estimator(settings, dealt)
    plan = model.plan(split.train)
    seconds = dealt.cut.partition.info.get("seconds", 0.0)
    report = replace(plan.report(), partitioner=settings.partitioner, seconds=seconds)
    say(f"\n{report}\n")
    return Prepared(split, dealt, model, plan, report)


def _estimator(settings: FitSettings, dealt: Deal) -> Any:
    """The estimator that these options describe."""
    transport = settings.transport
    if settings.cluster == "threads" and transport == "auto":
        transport = "graph"
    return daskpart.MatrixFactorization(
        settings.components,
        n_ranks=dealt.n_ranks,
        eta=dealt.eta,
        partitioner=dealt.cut.partition,
        axis=dealt.axis,
        transport=transport,
        learning_rate=settings.learning_rate,
        initial_learning_rate=settings.initial_learning_rate,
        regularization=settings.regularization,
        biases=settings.biases,
        max_iter=settings.epochs,
        averaging=settings.averaging,
        patience=settings.patience,
        random_state=settings.seed,
        checkpoint_path=settings.checkpoint,
        checkpoint_every=settings.checkpoint_every,
        resume=settings.resume,
    )


def _train_and_write(settings: FitSettings, prepared: Prepared) -> int:
    """Fit, judge, write, say where; returns the exit code."""
    model = prepared.model
    started = time.perf_counter()
    ended, exit_code, timeline = _fit(prepared, settings)
    seconds = time.perf_counter() - started
    if getattr(model, "state_", None) is None:
        raise OneLineError(f"{ended} before the first epoch was whole: nothing written", exit_code)
    outcome = Outcome(
        model,
        prepared.split,
        replace(prepared.deal.cut, connectivity=model.connectivity_),  # it knows the owners
        prepared.report,
        judge(model, prepared.split),
        ended,
        seconds,
        timeline,
    )
    _tell(settings, outcome)
    return exit_code


def _fit(prepared: Prepared, settings: FitSettings) -> tuple[str, int, Any]:
    """Train; returns how it ended, the exit code, and the timeline of the last epochs.

    The last whole epoch is kept in any case.
    """
    from daskpart.models.base.callbacks import TrainingProgress

    from .last_steps import last_steps

    with last_steps(settings.plots) as steps:
        prepared.model.set_callbacks(TrainingProgress(force=True, delay=0.0), steps)
        ended, exit_code = _ended(prepared, settings.epochs)
    return ended, exit_code, steps.whole()


def _ended(prepared: Prepared, n_epochs: int) -> tuple[str, int]:
    """Train; returns how it ended and the exit code."""
    model, split = prepared.model, prepared.split
    try:
        model.fit(split.train, validation=split.validation, plan=prepared.plan)
    except KeyboardInterrupt:
        say("\nCtrl-C: keeping the last whole epoch …")
        return "interrupted", INTERRUPTED
    except (DivergenceError, WorkerLostError) as error:
        say(f"\n{error}")
        return "diverged" if isinstance(error, DivergenceError) else "failed", 1
    return "done" if len(model.history_) >= n_epochs else "stopped early", 0


def _tell(settings: FitSettings, outcome: Outcome) -> None:
    """Write everything, and say what came of it and where it is."""
    say(f"\n{outcome.ended} after {outcome.n_epochs} epochs, {outcome.seconds:.1f} s")
    if outcome.judgement is not None:
        for sentence in outcome.judgement.sentences(outcome.split):
            say(sentence)
    say(f"\n{outcome.model.comm_report_}\n\nwritten:")
    files = write_all(outcome, vars(settings), settings.out, settings.model_format, settings.plots)
    width = max(len(str(path)) for path, _ in files)
    for path, words in files:
        say(f"  {path!s:{width}}  {words}")
