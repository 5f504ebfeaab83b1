"""`daskpart fit MODEL`: read, plan, say what it will cost, fit, judge, write.

    data ── plan ── fit ── told, model, history, metrics, pictures, report
                     │ Ctrl-C, SIGTERM, SIGHUP, SIGUSR1
                     └─ a whole step is written all the same

One driver for every model: the options are those of its estimator, and what else the command has
to know of a model is a `Model` in the module of that name in this folder, with a template of its
page beside it; of a class that a user has written, `own` reads it off the class.
"""

from __future__ import annotations

import inspect
import shlex
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from daskpart.errors import DaskpartError, DivergenceError, InputError

from .files import check_out, check_plan, say_files, text_file
from .model import WORTH_SAYING, Data, Fit, Model
from .mpi import MpiPlace
from .options import (
    COUNT,
    Command,
    Place,
    choice,
    files_read,
    is_typed,
    number,
    of_estimator,
    output,
    pictures,
)
from .stops import INTERRUPTED, one_ctrl_c_at_a_time
from .terminal import OneLineError, imports_uncollected, say, words_of

if TYPE_CHECKING:
    from .pictures import Album

MODELS = {  # the module of each has the rest, as MODEL
    "mf": "Matrix factorization of ratings.",
    "implicit": "Implicit factorization of clicks, plays, purchases.",
    "cp": "CP decomposition of a sparse tensor.",
    "logistic": "Logistic regression of labelled samples.",
    "svm": "Linear support vector machine of labelled samples.",
    "linear": "Linear regression of samples with targets.",
    "poisson": "Poisson regression of samples with counts.",
    "mlp": "Multi-layer perceptron of labelled samples.",
    "gcn": "Graph convolution of a graph.",
}
_STARTS = """\b
One process:           daskpart fit {name} {example} --ranks 4 --out run
Worker processes:      daskpart fit {name} {example} --ranks 4 --cluster processes --out run
MPI, 4 workers:        mpiexec -n 6 daskpart fit {name} {example} --ranks 4 --cluster mpi --out run
"""


class FitCommand(Command):
    """The command of one model, whose options are made when they are asked for."""

    def __init__(self, name: str) -> None:
        super().__init__(name, short_help=MODELS.get(name), callback=_run_here)
        self._made = False

    @property
    def model(self) -> Model:
        """What is in the module of that name."""
        return import_module(f"{__package__}.{self.name}").MODEL

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The argument, what reads it, the parameters of the estimator, the run."""
        if not self._made:
            with imports_uncollected():
                self._make_params()
            self._made = True
        return super().get_params(ctx)

    def _make_params(self) -> None:
        model = self.model
        self.params = [
            click.Argument(["source"], metavar=model.argument),
            *model.options,
            *of_estimator(model.kind, model.words),
            *_run_options(),
        ]

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The docstring of the model, and how to start it."""
        model = self.model
        starts = _STARTS.format(name=self.name, example=model.example)
        self.help = "\n\n".join(filter(None, (inspect.getdoc(model), model.data, starts)))
        super().format_help_text(ctx, formatter)


def _run_options() -> list[click.Parameter]:
    from .cluster import Cluster

    return [
        click.Option(["--cluster"], type=Cluster(), default="none", show_default=True,
                     metavar=Cluster.letters,
                     help="Where the ranks run; mpi: start it with mpiexec."),
        number("--workers", None, "Workers of the cluster.  [default: as many as ranks]", COUNT),
        output("daskpart-output"),
        click.Option(["--plan"], type=Place(), metavar="FILE.npz",
                     help="Of an earlier run with the same data and options, so that nothing is "
                     "cut; where it is not there, it is made and written."),
        choice("--model-format", ("npz", "zarr"), "npz", "npz, or a zarr folder beside it."),
        pictures(),
    ]  # fmt: skip


@dataclass(frozen=True)
class _Job:
    """What was asked for."""

    model: Model
    source: str
    reading: dict[str, Any]
    parameters: dict[str, Any]
    cluster: str
    workers: int | None
    plan: Path | None
    out: Path
    model_format: str
    plots: bool

    @property
    def settings(self) -> dict[str, Any]:
        """For the page and metrics.json."""
        run = {name: getattr(self, name) for name in ("cluster", "workers", "plan", "out", "plots")}
        return {"data": self.source, **self.reading, **self.parameters, **run}


def _run_here(**given: Any) -> None:
    """Sort the options, check, do the job, exit with its code."""
    ctx = click.get_current_context()
    assert isinstance(ctx.command, FitCommand)
    model = ctx.command.model
    reading = {str(each.name): given.pop(str(each.name)) for each in model.options}
    run = {str(each.name): given.pop(str(each.name)) for each in _run_options()}
    source = given.pop("source")
    typed = {name for name in given if is_typed(name)}
    if "checkpoint_every" in typed and given["checkpoint_path"] is None:
        raise InputError("--checkpoint-every needs --checkpoint-path, to know where to write")
    model.adjust(given, typed)
    partitioner = given.get("partitioner")  # a model of the user need not have one
    if given.get("n_ranks", 1) is None:
        given["n_ranks"] = getattr(partitioner, "n_parts", run["workers"])
    estimator = model.kind(**given)
    model.check(source, reading, estimator)
    ctx.exit(_run(_Job(model, source, reading, given, **run), estimator, ctx.obj))


def _run(job: _Job, estimator: Any, place: MpiPlace) -> int:
    """Do the whole job; returns the exit code."""
    from .cluster import begin_to_import, check_cluster, is_there_before, run_on

    estimator._check_parameters()
    estimator._check_checkpoints()
    check_cluster(job.cluster, job.workers, estimator.transport, place)
    _check_output(job)
    # else that is told after hours of training
    written = {"plan": job.plan, "checkpoint_path": job.parameters.get("checkpoint_path")}
    check_out(job.out, *_sources(job), **written)
    planned = None if is_there_before(job.cluster) else _plan(job, estimator, None)
    exit_codes: list[int] = []

    def work(client: Any) -> None:
        if planned is None:  # workers are there, and idle until there is a plan
            begin_to_import(client, job.model.imports, job.model.folder)
        ready = planned or _plan(job, estimator, client)
        with one_ctrl_c_at_a_time():
            exit_codes.append(_fit_and_write(job, estimator, *ready))

    n_workers = job.workers or (planned[1].n_ranks if planned else 1)
    run_on(job.cluster, n_workers, place, work)
    return exit_codes[0] if exit_codes else 0


def _sources(job: _Job) -> Iterator[str]:
    """All files that are read."""
    yield job.source
    yield from files_read()
    for value in job.reading.values():
        for each in value if isinstance(value, tuple | list) else [value]:
            yield str(each).rpartition("=")[2]  # of a mode: MODE=FILE


def _check_output(job: _Job) -> None:
    if job.plan is not None:
        check_plan(job.plan)
    if job.model_format == "zarr" and find_spec("zarr") is None:
        raise InputError("--model-format zarr needs: pip install 'daskpart[io]'")
    folders = [("model", "model.json", "no saved model")]
    if job.model_format == "zarr":
        folders.append(("factors.zarr", "header/zarr.json", "not what daskpart writes there"))
    for name, sign, words in folders:
        folder = job.out / name
        if folder.exists() and not (folder / sign).is_file():
            raise InputError(
                f"{folder} is there and is {words}, and would be replaced: give another --out"
            )


def _plan(job: _Job, estimator: Any, client: Any) -> tuple[Data, Any]:
    """Read and plan, and say each."""
    from daskpart._floor.kernels import compile_seconds

    from .cluster import expected_transport, tell_shared_threads

    decided = {**job.parameters, **job.reading, "random_state": estimator.random_state}
    data = job.model.load(job.source, decided)
    for line in data.words:
        say(line)
    transport, compiled = expected_transport(job.cluster, estimator.transport), compile_seconds()
    where = {"transport": transport, "client": client, **data.more}
    if job.plan is not None and job.plan.exists():
        say(f"planning: as {job.plan} says, laying out the messages …")
        plan = estimator.load_plan(job.plan, data.X, **where)
    else:
        say("planning: cutting the data, laying out the messages …")
        plan = estimator.plan(data.X, **where)
        if job.plan is not None:
            plan.save(job.plan)
    say(f"\n{plan.report()}")
    tell_shared_threads(client, plan.n_ranks)
    if compile_seconds() - compiled >= WORTH_SAYING:
        say(f"  (with {compile_seconds() - compiled:.1f} s of compiling, once)")
    say()
    return data, plan


def _fit_and_write(job: _Job, estimator: Any, data: Data, plan: Any) -> int:
    """Fit, judge, write, say where; returns the exit code."""
    from daskpart._floor.kernels import compile_seconds
    from daskpart.models.base.callbacks import TrainingProgress

    from .last_steps import last_steps
    from .pictures import begin_to_import

    if job.plots:
        begin_to_import()
    started, compiled = time.perf_counter(), compile_seconds()
    with last_steps(job.plots) as steps:
        estimator.set_callbacks(TrainingProgress(force=True, delay=0.0), steps)
        ended, exit_code = _fit(estimator, data, plan)
    compiling = compile_seconds() - compiled
    seconds = time.perf_counter() - started - compiling
    if getattr(estimator, "state_", None) is None:
        step = plan.report().unit
        raise OneLineError(f"{ended} before one {step} was kept: nothing written", exit_code)
    fit = Fit(estimator, data, plan, ended, seconds, compiling, steps.whole(), steps.dropped)
    fit.judgement = job.model.judge(fit)
    say(f"\n{ended} after {fit.done}, {fit.spent}")
    fit.sentences = [*fit.best, *job.model.told(fit)]
    for line in fit.sentences:
        say(line)
    say(f"\n{estimator.comm_report_}\n")
    files = _write(job, fit)
    say("written:")
    say_files(files, job.out)
    return exit_code


def _fit(estimator: Any, data: Data, plan: Any) -> tuple[str, int]:
    """Fit, and keep a whole step in any case; returns how it ended and the exit code."""
    try:
        estimator.fit(data.X, plan=plan, **data.more)
    except KeyboardInterrupt:
        say("\ninterrupted: keeping the last whole step …")
        return "interrupted", INTERRUPTED
    except (DaskpartError, OSError) as error:  # lost workers, a disk that is full, a path in use
        if estimator.__dict__.get("state_") is None:
            raise
        say(f"\n{words_of(error)}")
        return "diverged" if isinstance(error, DivergenceError) else "failed", 1
    return "done" if estimator.n_iter_ >= estimator.max_iter else "stopped early", 0


# -- what is written ---


def _write(job: _Job, fit: Fit) -> list[tuple[Path, str]]:
    """Write every result; returns each file and what it is."""
    from .page import versions, write_json
    from .pictures import Album

    out, model = job.out, fit.model
    out.mkdir(parents=True, exist_ok=True)
    model.save(out / "model")
    files = [(out / "model", f"the model: {job.model.module}.{job.model.estimator}.load")]
    if job.model_format == "zarr":
        model.state_.save(out / "factors.zarr")
        files.append((out / "factors.zarr", "its factors, for zarr tools"))
    if (partition := job.model.partition(fit)) is not None:
        partition.save(out / "partition.npz")
        words = "which rank holds what was cut: daskpart.Partition.load"
        files.append((out / "partition.npz", words))
    tables = {"history.csv": (model.history_, f"one line per {fit.step}"), **job.model.tables(fit)}
    for name, (table, words) in tables.items():
        with text_file(out / name) as file:
            table.to_csv(file, index=False)
        files.append((out / name, words))
    metrics = {
        **fit.judgement,
        "ended": fit.ended,
        f"{fit.step}s": model.n_iter_,
        f"best_{fit.step}": model.best_iteration_,
        "training_seconds": fit.training_seconds,
        "fit_seconds": fit.seconds,
        "compile_seconds": fit.compiling,
        "plan": fit.plan.report().to_dict(),
        "communication": model.comm_report_.to_dict(),
        "settings": job.settings,
        "versions": versions(),
    }
    files.append((write_json(out / "metrics.json", metrics), "all numbers"))
    album = Album(out, job.plots)
    if album.draws:
        job.model.draw(fit, album)
        _draw_run(fit, album)
    return [*files, *_write_page(job, fit, album)]


def _write_page(job: _Job, fit: Fit, album: Album) -> list[tuple[Path, str]]:
    from .page import write_page

    measured, name = fit.model.comm_report_, Path(job.source).name
    command = click.get_current_context().command
    assert isinstance(command, FitCommand)
    what, sent = measured.sent
    traffic = {
        "rank": range(measured.n_ranks),
        f"{what} sent per {fit.step}": sent.sum(axis=1),
        f"{what} received per {fit.step}": sent.sum(axis=0),
        "seconds computing, all": measured.seconds_computing,
        "seconds blocked, all": measured.seconds_blocked,
    }
    content = {
        "title": f"{str(command.short_help).partition(' of ')[0]} of {name}",
        "lead": fit.data.words[0],
        "numbers": {},
        **job.model.page(fit),
    }
    content["numbers"] |= {f"{fit.step}s": fit.model.n_iter_, "ranks": measured.n_ranks}
    return write_page(
        job.model.template,
        album,
        **content,
        step=fit.step,
        done=fit.done,
        spent=fit.spent,
        ending=fit.ending,
        sentences=fit.sentences,
        history=fit.model.history_,
        measured=measured,
        planned=fit.plan.report(),
        sent=what,
        traffic_heads=list(traffic),
        traffic_lines=list(zip(*(list(column) for column in traffic.values()), strict=True)),
        shares=_shares(fit),
        module=job.model.module,
        estimator=job.model.estimator,
        folder=repr(str((job.out / "model").resolve())),
        command=shlex.join(["daskpart", *sys.argv[1:]]),
        settings=job.settings,
    )


def _shares(fit: Fit) -> str:
    from daskpart.collectives.timeline import KINDS

    if fit.timeline is None:
        return ""
    shares = fit.timeline.shares(200).mean(axis=(0, 2))
    told = ", ".join(f"{kind} {share:.0%}" for kind, share in zip(KINDS, shares, strict=True))
    return f"{fit.timed}, {fit.timeline.duration:.3g} s, mean of the ranks: {told}."


def _draw_run(fit: Fit, album: Album) -> None:
    """Who sent how much to whom, and who worked when."""
    from daskpart import plots

    what, sent = fit.model.comm_report_.sent
    if sent.any():
        album.draw(
            "traffic",
            (5.6, 4.4),
            partial(plots.traffic, fit.model.comm_report_),
            alt=f"{what.capitalize()} sent from each rank to each other rank",
            caption=f"{what.capitalize()} per {fit.step} from the rank of the line to the rank of "
            "the column.",
        )
    if fit.timeline is not None:
        album.draw(
            "timeline",
            (9.4, 1.4 + 0.28 * min(fit.timeline.n_ranks, 20)),
            partial(plots.timeline, fit.timeline),
            alt="When each rank computed, sent and was blocked",
            caption=f"{fit.timed}. Blocked is a rank that waits for others; white is time "
            "in which nothing was asked of it. With the local transport ranks take turns, and each "
            "is drawn as if it had a core of its own.",
        )
