"""Linear models: an epoch beside scikit-learn's, and sums of sparse against dense gradients.

1   SGDClassifier, liblinear, ours on 1 and 2 ranks, in one run             seconds, test score
2   the same and dask-ml to one test loss, 1 % above that at the optimum    seconds, epochs
3   N = 10⁶, 10⁷ features, a batch of 1000 a rank, 4 ranks                  bytes, ms of a sum
4   a libsvm file by ranges, on 1 and 2 worker processes                    MB/s

Ours by AdaGrad, as it is by default, and by plain SGD. dask-ml runs in an environment of its own
(``--dask-ml PYTHON``); it takes dense arrays, so it gets a9a alone.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

import click
import numpy as np
import scipy.sparse

from benchmarks import data
from benchmarks.twins.linear import pieces
from daskpart import LinearSVC, LogisticRegression
from daskpart.collectives import Communicator, PerRank, communicator_for
from daskpart.collectives.stream import Stream
from daskpart.models.linear import sgd as steps
from daskpart.models.optimisation.aggregation import Aggregator
from daskpart.models.samples.files import FileSamples
from daskpart.models.samples.problem import encoded
from daskpart.readers import survey

from .clusters import has_mpiexec, in_mpi_job, on_dask_workers
from .output import Origin, markdown_table, out_option, verdict, write_numbers, write_section

COLUMNS = ("data", "what", "seconds of the fit", "seconds an epoch", "training loss", "test score")
TO_LOSS_COLUMNS = ("data", "what", "seconds to the loss", "epochs", "test loss")
READ_COLUMNS = ("worker processes", "MB of text", "MB/s, surveyed", "MB/s, read by ranks")
SUM_COLUMNS = (
    "features", "aggregation", "density of a sum", "MB a step", "ms of the sum, in this process",
    "ms of the sum, MPI", "ms a step, in this process",
)  # fmt: skip
SUMS = ("dense", "auto")
SUM_TURNS, SUM_RANKS = 11, 4
OPTIMIZERS = {"AdaGrad": "auto", "plain SGD": "sgd"}
DASK_ML = Path(__file__).with_name("dask_ml_run.py")
DASK_ML_SOLVERS = ("lbfgs", "admm")
DASK_ML_SECONDS = 300  # of a fit
ENOUGH = 1.01  # of the loss at the optimum
BATCH = 128  # of all ranks
LONG = 10.0  # seconds of a fit that is done once
Fitted = tuple[float, float, Any]


def contestants(epochs: int, n_samples: int) -> dict[str, Callable[[], Any]]:
    """What is compared, by name; all minimise the same objective with C = 1."""
    from sklearn.linear_model import LogisticRegression as Theirs
    from sklearn.linear_model import SGDClassifier

    def hinge(optimizer: str, n_ranks: int) -> Callable[[], Any]:
        return lambda: LinearSVC(
            loss="hinge", solver="sgd", n_ranks=n_ranks, transport="local", max_iter=epochs, tol=0,
            batch_size=BATCH // n_ranks, optimizer=optimizer,
        )  # fmt: skip

    ours = {
        f"LinearSVC, hinge, {name}, {_ranks(n_ranks)}": hinge(optimizer, n_ranks)
        for name, optimizer in OPTIMIZERS.items()
        for n_ranks in (1, 2)
    }

    return {
        "SGDClassifier, hinge": lambda: SGDClassifier(
            alpha=1 / n_samples, max_iter=epochs, tol=None, random_state=0, average=True
        ),
        **ours,
        "liblinear, log": lambda: Theirs(solver="liblinear"),
        "lbfgs of scikit-learn, log": Theirs,
        "LogisticRegression, L-BFGS, 1 rank": lambda: LogisticRegression(
            n_ranks=1, transport="local"
        ),
        "LogisticRegression, L-BFGS, 2 ranks": lambda: LogisticRegression(
            n_ranks=2, transport="local"
        ),
    }


def _ranks(n_ranks: int) -> str:
    return f"{n_ranks} rank{'s'[: n_ranks - 1]}"


def beside(name: str, epochs: int, turns: int) -> tuple[list[list], Fitted]:
    """One line for each, the least seconds of several turns in turn; and liblinear's fit."""
    (X, y), (held, held_y) = data.samples(name)
    few = np.linspace(0, len(y) - 1, 200).astype(int)
    found: dict[str, list[Fitted]] = {}
    for turn in range(turns + 1):  # the first one compiles
        for what, make in contestants(epochs, len(y)).items():
            if not turn:
                make().fit(X[few], y[few])
                continue
            if what in found and found[what][0][0] > LONG:
                continue
            begin = perf_counter()
            model = make().fit(X, y)
            seconds = perf_counter() - begin
            history = getattr(model, "history_", None)
            n_iter = int(np.max(model.n_iter_))
            each = seconds / n_iter if history is None else float(history["seconds"].median())
            found.setdefault(what, []).append((seconds, each, model))
    rows = []
    for what, fits in found.items():
        seconds, each = (min(fit[place] for fit in fits) for place in (0, 1))
        model = fits[-1][2]
        loss = _loss(model, X, y, "hinge" if "hinge" in what else "log")
        rows.append([name, what, seconds, each, loss, float(model.score(held, held_y))])
    return rows, found["liblinear, log"][-1]


def _loss(model: Any, X: Any, y: np.ndarray, kind: str) -> float:
    """Mean loss and penalty, of C = 1."""
    margins = (2 * y - 1) * model.decision_function(X)
    each = np.maximum(0, 1 - margins) if kind == "hinge" else np.logaddexp(0, -margins)
    return float(each.mean() + (model.coef_**2).sum() / (2 * len(y)))


class LossPath(NamedTuple):
    """How the loss of held-out samples fell: after so many seconds; one point of a whole fit."""

    data: str
    what: str
    seconds: np.ndarray
    loss: np.ndarray

    def row(self, enough: float) -> list:
        """The line of the table: where it came below a loss, else where it ended."""
        there = np.flatnonzero(self.loss <= enough)
        last = int(there[0]) if len(there) else len(self.loss) - 1
        epochs = last + 1 if len(self.loss) > 1 else None
        return [self.data, self.what, float(self.seconds[last]), epochs, float(self.loss[last])]


def paths(name: str, most: int, optimum: Fitted, python: str | None) -> list[LossPath]:
    """Loss of held-out samples over seconds; the first one is that of the optimum, liblinear's."""
    from sklearn.linear_model import SGDClassifier

    (X, y), (held, held_y) = data.samples(name)

    def test_loss(scores: Any) -> float:
        return float(np.logaddexp(0, -(2 * held_y - 1) * scores).mean())

    def path(what: str, points: list[tuple[float, float]]) -> LossPath:
        seconds, losses = zip(*points, strict=True)
        return LossPath(name, what, np.cumsum(seconds), np.array(losses))

    def timed(fit: Callable[[], Any]) -> tuple[float, Any]:
        begin = perf_counter()
        model = fit()
        return perf_counter() - begin, model

    seconds, _, exact = optimum
    found = [path("liblinear", [(seconds, test_loss(exact.decision_function(held)))])]
    theirs = SGDClassifier(loss="log_loss", alpha=1 / len(y), average=True, random_state=0)
    points = []
    for _ in range(most):
        seconds, _ = timed(lambda: theirs.partial_fit(X, y, classes=[0, 1]))
        points.append((seconds, test_loss(theirs.decision_function(held))))
    found.append(path("SGDClassifier, averaged", points))
    ours = {name: {"solver": "sgd", "optimizer": kind} for name, kind in OPTIMIZERS.items()}
    for how, options in {**ours, "L-BFGS": {"solver": "lbfgs"}}.items():
        for n_ranks in (1, 2):
            model = LogisticRegression(
                **options, n_ranks=n_ranks, batch_size=BATCH // n_ranks, tol=0, transport="local",
                max_iter=2 * most if options["solver"] == "lbfgs" else most,
            ).fit(X, y, eval_set=(held, held_y))  # fmt: skip
            columns = (model.history_[column] for column in ("seconds", "validation_loss"))
            points = list(zip(*columns, strict=True))
            found.append(path(f"ours, {how}, {_ranks(n_ranks)}", points))
    weights = [] if name != "a9a" or python is None else dask_ml(python, X.toarray(), y)
    return found + [
        path(what, [(seconds, test_loss(held @ flat[:-1] + flat[-1]))])
        for what, seconds, flat in weights
    ]


def dask_ml(python: str, X: np.ndarray, y: np.ndarray) -> list[tuple[str, float, np.ndarray]]:
    """Name, seconds and weights of dask-ml's logistic regression, fitted by another Python."""
    found = []
    with TemporaryDirectory() as folder:
        path = Path(folder) / "samples.npz"
        np.savez(path, X=X, y=y)
        for solver in DASK_ML_SOLVERS:
            try:
                done = subprocess.run(
                    [python, str(DASK_ML), str(path), solver], capture_output=True, text=True,
                    check=True, timeout=DASK_ML_SECONDS,
                    env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                click.echo(f"dask-ml by {solver} is left out: it takes over {DASK_ML_SECONDS} s")
                continue
            except subprocess.CalledProcessError as error:
                click.echo(f"dask-ml by {solver} is left out: {error.stderr[-500:]}")
                continue
            told = json.loads(done.stdout.splitlines()[-1])
            name = f"dask-ml {told['version']}, {solver}, dense"
            found.append((name, told["seconds"], np.array(told["weights"])))
    return found


def draw(found: list[LossPath], path: Path) -> None:
    """A panel a data set: loss over seconds."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(each.data for each in found))
    figure = Figure(figsize=(4.6 * len(names), 3.8), layout="constrained")
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    for panel, name in zip(panels, names, strict=True):
        own = [each for each in found if each.data == name]
        panel.axhline(ENOUGH * own[0].loss[0], color="0.6", linestyle=":")
        for each in own:
            style, size = ("o-", 3) if len(each.loss) > 1 else ("D", 6)
            panel.plot(
                each.seconds, each.loss, style, markersize=size, linewidth=1, label=each.what
            )
        panel.set(xscale="log", yscale="log", title=name, xlabel="seconds")
    panels[0].set_ylabel("test loss")
    panels[0].legend(fontsize=7)  # what takes dense arrays is there alone
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def reading(megabytes: float, processes: Sequence[int]) -> list[list]:
    """MB/s of a file in the cache of the system: looked through, and read to rows on ranks."""
    from .linear_memory import write_file

    rows = []
    with TemporaryDirectory() as folder:
        path = Path(folder) / "examples.libsvm"
        write_file(path, 1e6 * megabytes)
        n_bytes = path.stat().st_size / 1e6
        for n_ranks in processes:
            seconds = on_dask_workers(seconds_to_read, n_ranks, path, n_ranks)
            rows.append([n_ranks, n_bytes, *(n_bytes / best for best in seconds)])
    return rows


def seconds_to_read(client: Any, path: Path, n_ranks: int) -> list[float]:
    """To look a file through, and to read it to rows on ranks; the least of three turns."""
    best = [np.inf, np.inf]
    for _ in range(3):  # the first one compiles
        begin = perf_counter()
        file = survey(path, client=client)
        middle = perf_counter()
        samples = FileSamples(file, encoded, 1, np.array([-1.0, 1.0]))
        with communicator_for("dask", n_ranks, client) as comm:
            ready = perf_counter()
            comm.fold(comm.map(len, samples.rows_on(comm, 0)), sum).result()
            best = [min(best[0], middle - begin), min(best[1], perf_counter() - ready)]
    return best


def power_law(n_features: int, n_samples: int) -> tuple[Any, np.ndarray]:
    """Samples of 100 features by a power law, and labels by chance."""
    random = np.random.default_rng(0)
    lengths = np.full(n_samples, 100)
    columns = (n_features * random.power(0.15, lengths.sum())).astype(np.int64)
    pointer = np.concatenate([[0], np.cumsum(lengths)])
    X = scipy.sparse.csr_matrix(
        (random.random(len(columns)), columns, pointer), shape=(n_samples, n_features)
    )
    X.sum_duplicates()
    return X, random.integers(0, 2, n_samples)


def learner(n_ranks: int, **options: Any) -> LogisticRegression:
    """What adds up gradients of 1000 samples a rank."""
    return LogisticRegression(
        solver="sgd", n_ranks=n_ranks, batch_size=1000, tol=0, transport="local", **options
    )


def gradients(n_features: int, n_samples: int, n_ranks: int) -> list[Stream]:
    """What each rank has to add in the first step."""
    found = []
    for rank, piece in enumerate(pieces(learner(n_ranks), *power_law(n_features, n_samples))):
        part = {**piece.state.cut({"rank": [np.array([r]) for r in range(n_ranks)]}, n_ranks)[rank]}
        model = steps.first_model({**part, "mass": 0.0, "count": 0.0}, piece.rows, fit=piece.sgd)
        model = steps.begin_epoch(model, number=1, fit=piece.sgd)
        model = steps.forward(model, piece.rows, step=0, fit=piece.sgd)
        found.append(steps.gradient_of(model))
    return found


def added_up(comm: Communicator, held: PerRank, *, names: Sequence[str]) -> dict[str, float]:
    """Seconds of a sum by each strategy, in turn, the median of several; a text."""
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(SUM_TURNS):
        for name in names:
            comm.fold(comm.map(_size, held), len).result()  # all begin together
            begin = perf_counter()
            pending, _ = Aggregator(name).begin(comm, held)
            total = pending.collect()
            comm.fold(comm.map(_size, total), len).result()
            seconds[name].append(perf_counter() - begin)
    return {name: statistics.median(found[1:]) for name, found in seconds.items()}


def _size(stream: Stream) -> int:
    return stream.n_entries


def seconds_of_sums(
    client: Any, n_features: int, n_samples: int, n_ranks: int, transport: str
) -> dict[str, float]:
    """Of the gradients of one step."""
    with communicator_for(transport, n_ranks, client) as comm:
        held = comm.values(gradients(n_features, n_samples, n_ranks))
        found: dict[str, float] = comm.run(added_up, held, names=SUMS)
        return found


def sums(n_features: int, n_samples: int) -> list[list]:
    """Dense against sparse sums of batches of 1000 a rank, of power-law features."""
    n_ranks = SUM_RANKS
    shape = n_features, n_samples, n_ranks
    alone = seconds_of_sums(None, *shape, "local")
    by_mpi = in_mpi_job(seconds_of_sums, n_ranks, *shape, "mpi") if has_mpiexec() else {}
    X, y = power_law(n_features, n_samples)
    rows = []
    for name in SUMS:
        model = learner(n_ranks, max_iter=3, aggregation=name).fit(X, y)
        n_steps = -(-n_samples // (1000 * n_ranks))
        last = model.history_.iloc[-1]
        rows.append([n_features, name, float(last["density"]), last["bytes"] / 1e6 / n_steps,
                     1e3 * alone[name], 1e3 * by_mpi[name] if by_mpi else None,
                     1e3 * float(model.history_["seconds"].min()) / n_steps])  # fmt: skip
    return rows


def _about_dask_ml(python: str | None, reached: list[list]) -> str:
    if python is None:
        return "dask-ml was not asked: no environment with it was given."
    asked = " ".join(row[1] for row in reached if "dask-ml" in row[1])
    missing = [solver for solver in DASK_ML_SOLVERS if solver not in asked]
    told = "dask-ml, in an environment of its own, has dense arrays in two chunks: a9a alone"
    if missing:
        told += f"; by {', '.join(missing)} it failed, or took more than {DASK_ML_SECONDS} s"
    return f"{told}."


def asked(read: list[list]) -> str:
    """What was asked of reading by several ranks, and where it holds."""
    one = next((row for row in read if row[0] == 1), None)
    found = [] if one is None else [
        (f"{what}, {row[0]} processes", row[0] * one[place] / row[place])
        for row in read if row[0] > 1
        for place, what in ((2, "surveyed"), (3, "read by ranks"))
    ]  # fmt: skip
    words = "P processes in at most 1.3 times a P-th of the seconds of one"
    return verdict(words, found, lambda ratio: ratio <= 1.3)


@click.command()
@click.option(
    "--data", "names", multiple=True, default=("a9a", "imdb-bow", "imdb-bigrams"), show_default=True
)
@click.option("--size", "sizes", multiple=True, type=int, default=(10**6, 10**7), show_default=True)
@click.option("--samples", default=12_000, show_default=True, help="Of the made data.")
@click.option("--epochs", default=5, show_default=True, help="Of SGD.")
@click.option("--megabytes", default=400.0, show_default=True, help="Of the file that is read.")
@click.option("--processes", multiple=True, default=(1, 2), show_default=True, help="That read.")
@click.option("--most", default=20, show_default=True, help="Epochs to a test loss, at most.")
@click.option("--turns", default=2, show_default=True)
@click.option("--dask-ml", "python", help="Python of an environment that has dask-ml.")
@out_option
def main(
    names: tuple[str, ...], sizes: tuple[int, ...], samples: int, epochs: int, megabytes: float,
    processes: tuple[int, ...], most: int, turns: int, python: str | None, out: Path,
) -> None:  # fmt: skip
    """Write all tables."""
    origin = Origin.here()
    fits: list[list] = []
    found: dict[str, list[LossPath]] = {}
    for name in names:
        rows, optimum = beside(name, epochs, turns)
        fits += rows
        found[name] = paths(name, most, optimum, python)
    reached = [each.row(ENOUGH * own[0].loss[0]) for own in found.values() for each in own]
    draw([each for own in found.values() for each in own], out / "linear_models.png")
    read = reading(megabytes, processes)
    added = [row for size in sizes for row in sums(size, samples)]
    body = (
        f"All with C = 1; {epochs} epochs of AdaGrad (what `LinearSVC` and `LogisticRegression` "
        "do by default where solver='sgd'), of plain SGD (optimizer='sgd') and of SGDClassifier, "
        f"all averaged; of ours in steps of {BATCH} samples of all ranks, of "
        "SGDClassifier of one. From Python, set-up included in the seconds of the fit. Least of "
        f"{turns} turns, one after the other in one run; of a fit longer than {LONG:g} s the first."
        "\n\n"
        f"{markdown_table(COLUMNS, fits)}\n\n"
        f"Until the loss of the test set is 1 % above that of liblinear's optimum, or {most} "
        f"epochs or {2 * most} iterations are done; of ours and of SGDClassifier the seconds of "
        "the epochs alone, of the others those of the fit. A test loss may be less than that of "
        "the optimum, which is of the training set; the dotted line is at the 1 %. "
        f"{_about_dask_ml(python, reached)}\n\n"
        f"{markdown_table(TO_LOSS_COLUMNS, reached)}\n\n"
        "![Test loss over seconds](linear_models.png)\n\n"
        "A generated libsvm file, on worker processes: looked through by `survey`, and read by "
        "ranks, each its range, to rows dealt out over the ranks:\n\n"
        f"{markdown_table(READ_COLUMNS, read)}\n\n{asked(read)}\n\n"
        f"A step of SGD on {SUM_RANKS} ranks of this process, a batch of 1000 a rank, 100 features "
        "a sample by a power law: all values of the gradients sent, or entries by the algorithm "
        "that the ranks choose. Of the sum alone the median of "
        f"{SUM_TURNS - 1} turns: on ranks of this process, one after the other, where messages "
        "cost nothing, and on MPI ranks, which share the cores. The rest of a step is computing: "
        "the gradient of the batch, and the step of all weights that the sum touches, on each "
        f"rank.\n\n{markdown_table(SUM_COLUMNS, added)}"
    )
    columns = ("data, features or processes", "what", "one", "two", "three", "four", "five")
    padded = [[*row, *[""] * (7 - len(row))] for row in (*fits, *reached, *read, *added)]
    write_numbers(out, "linear_models", columns, padded, origin)
    write_section(out, "linear_models", "Linear models, beside scikit-learn", body, origin)


if __name__ == "__main__":
    main()
