"""`daskpart fit mf`: read, hold out, cut, say what it will cost, train, judge, write.

ratings ─┬─ held out ───────────────────────────────┐
         └─ train ── partition ── plan ── fit ──── test RMSE ── model, history, report
                                          │ Ctrl-C
                                          └─ the last whole epoch is written all the same
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import daskpart
from daskpart.containers import LabelledMatrix
from daskpart.errors import DivergenceError, InputError
from daskpart.partitions import Partition

from .cluster import check_kind, run_on
from .cut import Cut, measure, sentences
from .judging import judge
from .ratings import Split, hold_out, in_words, load
from .terminal import INTERRUPTED, MpiPlace, OneLineError, say
from .writing import Outcome, write_all

PARTITIONERS: dict[str, dict[str, Any]] = {
    "power": {"objective": "power"},
    "connectivity": {"objective": "connectivity"},
    "cut-net": {"objective": "cut-net"},
    "metis": {"method": "metis"},
    "random": {"method": "random"},
    "block": {"method": "block"},
}


@dataclass(frozen=True)
class FitSettings:
    """The options of `daskpart fit mf`, as given."""

    ratings: str
    format: str | None
    test_fraction: float
    seed: int
    ranks: int
    eta: int | None
    partitioner: str
    rho: float
    epsilon: float
    engine: str
    axis: str
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
        if self.resume and self.checkpoint is None:
            raise InputError("--resume needs --checkpoint PATH: where the state was kept")
        if self.patience is not None and not self.validation_fraction:
            raise InputError("--patience needs --validation-fraction above 0: what is watched")
        if self.workers is not None and self.cluster in ("none", "mpi"):
            raise InputError(
                "--workers goes with --cluster threads or processes; under mpiexec -n P there are "
                "P - 2 workers"
            )
        if self.transport == "local" and self.cluster != "none":
            raise InputError(
                f"--transport local stays in one process; with --cluster {self.cluster} use graph"
            )


@dataclass(frozen=True)
class Prepared:
    """What training starts from: a partition of the training ratings, and what it will cost."""

    split: Split
    cut: Cut
    axis: str
    plan: Any


def run(settings: FitSettings, place: MpiPlace) -> int:
    """Do the whole job; returns the exit code."""
    settings.check()
    check_kind(settings.cluster, place)
    prepared = None if settings.cluster == "mpi" else _prepare(settings)
    exit_codes: list[int] = []

    def work(client: Any) -> None:
        ready = _prepare(settings) if prepared is None else prepared
        exit_codes.append(_train_and_write(settings, ready))

    run_on(settings.cluster, settings.workers or settings.ranks, place, work)
    return exit_codes[0] if exit_codes else 0


def _prepare(settings: FitSettings) -> Prepared:
    """Read, hold out, cut; say each."""
    ratings = load(settings.ratings, settings.format)
    say(in_words(ratings, settings.ratings))
    split = hold_out(ratings, settings.test_fraction, settings.validation_fraction, settings.seed)
    say(split.in_words())
    say(f"cutting for {settings.ranks} rank{'s' * (settings.ranks > 1)} …")
    axis, cut = _cut(settings, split.train)
    for sentence in sentences(cut):
        say(sentence)
    plan = daskpart.plan_report(
        split.train,
        settings.ranks,
        settings.eta,
        partitioner=cut.partition,
        random_state=settings.seed,
        axis=axis,
        n_components=settings.components,
        biases=settings.biases,
        learning_rate=settings.learning_rate,
    )
    say(f"\n{plan}\n")
    return Prepared(split, cut, axis, plan)


def _cut(settings: FitSettings, train: LabelledMatrix) -> tuple[str, Cut]:
    """The partition along the asked axis; for "auto" the one that moves fewer rows."""
    asked = ("rows", "columns") if settings.axis == "auto" else (settings.axis,)
    cuts = []
    for axis in asked:
        matrix = train if axis == "rows" else train.transposed()
        cuts.append(measure(matrix, _partition(settings, matrix)))
    eta = min(settings.eta or settings.ranks, settings.ranks)
    volumes = [cut.connectivity.pasgd_volume(eta) for cut in cuts]
    best = volumes.index(min(volumes))
    return asked[best], cuts[best]


def _partition(settings: FitSettings, matrix: LabelledMatrix) -> Partition:
    if settings.partitioner in PARTITIONERS:
        return daskpart.partition(
            matrix,
            settings.ranks,
            epsilon=settings.epsilon,
            random_state=settings.seed,
            rho=settings.rho,
            engine=settings.engine,
            **PARTITIONERS[settings.partitioner],
        )
    path = Path(settings.partitioner)
    if not path.is_file():
        raise InputError(
            f"--partitioner {settings.partitioner}: neither one of {', '.join(PARTITIONERS)} "
            "nor a file that 'daskpart partition' wrote"
        )
    given = Partition.load(path)
    given.check_fits(matrix.shape[0], "the ratings")
    return given


def _without_times(partition: Partition) -> Partition:
    """The partition as a resumed run makes it again: how long it took is no part of it."""
    kept = {name: told for name, told in partition.info.items() if "seconds" not in name}
    return Partition(partition.assignment, partition.n_parts, partition.weights, kept)


def _estimator(settings: FitSettings, prepared: Prepared) -> Any:
    """The estimator that these options describe."""
    transport = settings.transport
    if settings.cluster != "none" and transport == "auto":
        transport = "graph"
    return daskpart.MatrixFactorization(
        settings.components,
        n_ranks=settings.ranks,
        eta=settings.eta,
        partitioner=_without_times(prepared.cut.partition),
        axis=prepared.axis,
        transport=transport,
        learning_rate=settings.learning_rate,
        initial_learning_rate=settings.initial_learning_rate,
        regularization=settings.regularization,
        biases=settings.biases,
        max_epochs=settings.epochs,
        averaging=settings.averaging,
        patience=settings.patience,
        random_state=settings.seed,
        checkpoint_path=settings.checkpoint,
        checkpoint_every=settings.checkpoint_every,
        resume=settings.resume,
    )


def _train_and_write(settings: FitSettings, prepared: Prepared) -> int:
    """Fit, judge, write, say where; returns the exit code."""
    from daskpart.models.callbacks import TrainingProgress

    model = _estimator(settings, prepared)
    model.set_callbacks(TrainingProgress(force=True, delay=0.0))
    started = time.perf_counter()
    ended, exit_code = "done", 0
    try:
        model.fit(prepared.split.train, validation=prepared.split.validation)
        if len(model.history_) < settings.epochs:
            ended = "stopped early"
    except KeyboardInterrupt:
        ended, exit_code = "interrupted", INTERRUPTED
    except DivergenceError as error:
        ended, exit_code = "diverged", 1
        say(str(error))
    seconds = time.perf_counter() - started
    if not _has_an_epoch(model):
        raise OneLineError(f"{ended} before the first epoch was whole: nothing written", exit_code)
    judgement = judge(model, prepared.split)
    outcome = Outcome(model, prepared.split, prepared.cut, prepared.plan, judgement, ended, seconds)
    _tell(settings, outcome)
    return exit_code


def _has_an_epoch(model: Any) -> bool:
    return getattr(model, "factors_", None) is not None and len(model.history_) > 0


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
