"""`daskpart fit cp`: read, cut, say what it will cost, decompose, write.

tensor ── rank of each nonzero ── plan ── CP-ALS ── model, history, components, report
                                            │ Ctrl-C
                                            └─ a whole iteration is written all the same
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import daskpart
from daskpart.containers.tensor import LabelledTensor
from daskpart.errors import DivergenceError, InputError, WorkerLostError

from .cluster import check_kind, run_on
from .components import CPOutcome, write_all
from .dealing import DEFAULT_RANKS
from .run_checks import check_run
from .tensors import load_tensor, tensor_in_words
from .terminal import (
    COMPILING,
    INTERRUPTED,
    MpiPlace,
    OneLineError,
    explained_if_slow,
    one_ctrl_c_at_a_time,
    say,
)

_TRANSPORT_OF = {"none": "local", "threads": "graph", "processes": "dask", "mpi": "mpi"}


@dataclass(frozen=True)
class FitSettings:
    """The options of `daskpart fit cp`, as given."""

    tensor: str
    format: str | None
    names: str | None
    labels: tuple[str, ...]
    seed: int
    ranks: int | None
    method: str
    partitioner: str
    owners: str
    epsilon: float
    engine: str
    transport: str
    cluster: str
    workers: int | None
    rank: int
    iterations: int
    tolerance: float
    nonnegative: bool
    ridge: float
    init: str
    starts: int
    dtype: str | None
    memory: str
    checkpoint: Path | None
    checkpoint_every: int
    resume: bool
    out: Path
    model_format: str
    plots: bool

    @property
    def n_ranks(self) -> int:
        """K."""
        return self.ranks or DEFAULT_RANKS


def run(settings: FitSettings, place: MpiPlace) -> int:
    """Do the whole job; returns the exit code."""
    check_run(settings)
    check_kind(settings.cluster, place)
    settings.out.mkdir(parents=True, exist_ok=True)  # now, not after hours of training
    prepared = None if settings.cluster == "mpi" else _prepare(settings)
    exit_codes: list[int] = []

    def work(client: Any) -> None:
        ready = _prepare(settings) if prepared is None else prepared
        with one_ctrl_c_at_a_time():
            exit_codes.append(_fit_and_write(settings, *ready))

    run_on(settings.cluster, settings.workers or settings.n_ranks, place, work)
    return exit_codes[0] if exit_codes else 0


def _prepare(settings: FitSettings) -> tuple[LabelledTensor, Any, Any]:
    """Read and cut, and say each: the tensor, the estimator and the plan."""
    tensor = load_tensor(settings.tensor, settings.format, settings.names, settings.labels)
    say(tensor_in_words(tensor, settings.tensor))
    n_ranks = settings.n_ranks
    say(f"cutting for {n_ranks} rank{'s' * (n_ranks > 1)} …")
    model = _estimator(settings)
    transport = settings.transport
    if transport == "auto":
        transport = _TRANSPORT_OF[settings.cluster]
    with explained_if_slow(COMPILING):
        plan = model.plan(tensor, transport=transport)
    say(f"\n{plan.report()}\n")
    return tensor, model, plan


def _estimator(settings: FitSettings) -> Any:
    """The estimator that these options describe."""
    transport = settings.transport
    if settings.cluster == "threads" and transport == "auto":
        transport = "graph"
    return daskpart.CPDecomposition(
        settings.rank,
        max_iter=settings.iterations,
        tol=settings.tolerance,
        method=settings.method,
        n_ranks=settings.n_ranks,
        partitioner=_partitioner(settings),
        owners=settings.owners,
        nonnegative=settings.nonnegative,
        ridge=settings.ridge,
        init=settings.init,
        n_init=settings.starts,
        dtype=settings.dtype,
        memory=settings.memory,
        transport=transport,
        checkpoint_path=settings.checkpoint,
        checkpoint_every=settings.checkpoint_every,
        resume=settings.resume,
        random_state=settings.seed,
    )


def _partitioner(settings: FitSettings) -> Any:
    """The name, or with other than the default imbalance or engine what it stands for."""
    from daskpart.models.cp.cut import PARTITIONERS

    name = settings.partitioner
    changes: dict[str, Any] = {}
    if settings.epsilon != 0.03:
        changes["epsilon"] = settings.epsilon
    if settings.engine != "multilevel":
        changes["engine"] = settings.engine
    return {**PARTITIONERS.get(name, {}), **changes} if changes and name != "random" else name


def _fit_and_write(settings: FitSettings, tensor: LabelledTensor, model: Any, plan: Any) -> int:
    """Fit, write, say where; returns the exit code."""
    started = time.perf_counter()
    ended, exit_code, timeline = _fit(model, tensor, plan, settings)
    seconds = time.perf_counter() - started
    if getattr(model, "state_", None) is None:
        raise OneLineError(f"{ended} before an iteration was kept: nothing written", exit_code)
    outcome = CPOutcome(model, tensor, plan.report(), ended, seconds, timeline)
    say(f"\n{ended} after {model.n_iter_} iterations, {seconds:.1f} s: fit {model.fit_:.6f}")
    for line in outcome.components_in_words():
        say(line)
    say(f"\n{model.comm_report_}\n\nwritten:")
    files = write_all(outcome, vars(settings), settings.out, settings.model_format, settings.plots)
    width = max(len(str(path)) for path, _ in files)
    for path, words in files:
        say(f"  {path!s:{width}}  {words}")
    return exit_code


def _fit(
    model: Any, tensor: LabelledTensor, plan: Any, settings: FitSettings
) -> tuple[str, int, Any]:
    """Decompose; returns how it ended, the exit code, and the timeline of the last iterations.

    A whole iteration is kept in any case.
    """
    from daskpart.models.base.callbacks import TrainingProgress

    from .last_steps import last_steps

    with last_steps(settings.plots) as steps:
        model.set_callbacks(TrainingProgress(force=True, delay=0.0), steps)
        ended, exit_code = _ended(model, tensor, plan, settings.iterations)
    return ended, exit_code, steps.whole()


def _ended(model: Any, tensor: LabelledTensor, plan: Any, n_iterations: int) -> tuple[str, int]:
    """Decompose; returns how it ended and the exit code."""
    try:
        model.fit(tensor, plan=plan)
    except KeyboardInterrupt:
        say("\nCtrl-C: keeping the last kept iteration …")
        return "interrupted", INTERRUPTED
    except InputError:
        raise
    except (DivergenceError, WorkerLostError) as error:
        say(f"\n{error}")
        return "diverged" if isinstance(error, DivergenceError) else "failed", 1
    return "done" if model.n_iter_ >= n_iterations else "converged", 0
