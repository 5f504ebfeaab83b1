"""What logistic regression sends, by aggregation: figures 5.8 to 5.12 of Renggli (2017).

    5.8, 5.9    seconds of the sums of an epoch by strategy, on two sets of data, over ranks
    5.10        the same on two networks
    5.12        in how many batches of an epoch each feature occurs; and the density of a sum

A batch of 1000 samples a rank touches some features; these indices are real, and who would send how
much by each algorithm is counted by the simulator, for any number of ranks. Ranges are cut by the
sum of a step before, as in a fit. On the fewer ranks the model is also trained: what it sent stands
beside, and the seconds of an epoch on MPI ranks. (An SVM sends the same: figure 5.11.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np
import scipy.sparse

from benchmarks import data
from daskpart import LogisticRegression
from daskpart.collectives.cost_model import expected_union
from daskpart.collectives.simulator import simulate_sparse_allreduce
from daskpart.collectives.sparse_allreduce import equal_shares
from daskpart.collectives.stream import entries_stream
from daskpart.models.optimisation.aggregation import SWITCH
from daskpart.models.samples.rows import members_of_ranks

from .clusters import has_mpiexec, in_mpi_job
from .output import Origin, markdown_table, out_option, verdict, write_numbers, write_section

DENSE = "dense-rabenseifner"
STRATEGIES = (
    DENSE, "dense-ring", "ssar-recursive-doubling", "ssar-split-allgather",
    "dsar-split-allgather-doubling",
)  # fmt: skip
NETWORKS = {  # α seconds a message, β seconds a byte
    "fast (2 µs, 10 GB/s)": (2e-6, 1e-10),
    "slow (50 µs, 1 GB/s)": (5e-5, 1e-9),
}
COLUMNS = (
    "data", "features", "ranks", "strategy", "density of a rank, %", "density of the sum, %",
    "MB a rank and step", "less than dense by", "network", "ms of the sums an epoch",
    "quicker than dense by",
)  # fmt: skip
AGGREGATIONS = ("dense", "ssar-split-allgather", "ssar-recursive-doubling")  # that are trained
EPOCHS = 5  # on MPI ranks, the first of them apart
TRAINED = (
    "data", "ranks", "aggregation", "MB an epoch, trained", "MB an epoch, simulated",
    "ms an epoch, MPI ranks", "quicker than dense by",
)  # fmt: skip
BALANCED = (
    "data", "samples a rank", "ranks", "entries of the fullest range of one length, %",
    "rows that the busiest rank sends", "where ranges are cut by entries", "fewer by",
)  # fmt: skip
LEAST = ("data", "ranks", "strategy", *COLUMNS[4:8])


@dataclass(frozen=True)
class Data:
    """Samples, of which only the pattern matters."""

    name: str
    X: Any  # csr_matrix
    batch_size: int  # of a rank

    @property
    def size(self) -> int:
        """Coordinates: features, and the intercept."""
        return self.X.shape[1] + 1

    def batch(self, random: np.random.Generator) -> np.ndarray:
        """Indices of the gradient of a batch."""
        rows = random.choice(self.X.shape[0], self.batch_size, replace=False)
        return self.touched(rows)

    def touched(self, rows: np.ndarray) -> np.ndarray:
        """Indices of the gradient of some rows, the intercept's last."""
        return np.append(np.unique(self.X[rows].indices), self.size - 1).astype(np.int64)


def bigrams(batch_size: int) -> Data:
    """Reviews of films by their words and pairs of words."""
    (X, _), _ = data.samples("imdb-bigrams")
    return Data("imdb-bigrams", X, batch_size)


def power_law(n_features: int, n_samples: int, batch_size: int, length: int = 100) -> Data:
    """Samples of 100 features each, drawn by a power law; frequent ones anywhere."""
    random = np.random.default_rng(0)
    drawn = (n_features * random.power(0.15, n_samples * length)).astype(np.int64)
    columns = random.permutation(n_features)[drawn]
    pointer = np.arange(0, len(columns) + 1, length)
    X = scipy.sparse.csr_matrix(
        (np.ones(len(columns), np.float32), columns, pointer), shape=(n_samples, n_features)
    )
    X.sum_duplicates()
    return Data(f"power law, N = 10^{round(np.log10(n_features))}", X, batch_size)


def lines_of(held: Data, n_ranks: int) -> list[list]:
    """A line a strategy and network."""
    random = np.random.default_rng(n_ranks)
    before = [held.batch(random) for _ in range(n_ranks)]
    cuts = cuts_after(held.size, before)
    vectors = [held.batch(random) for _ in range(n_ranks)]
    union = len(np.unique(np.concatenate(vectors)))
    n_steps = -(-held.X.shape[0] // (held.batch_size * n_ranks))
    densities = [100 * float(np.mean(list(map(len, vectors)))) / held.size, 100 * union / held.size]
    rows = []
    for network, (alpha, beta) in NETWORKS.items():
        found = {
            strategy: sent(held.size, vectors, strategy, alpha, beta, cuts)
            for strategy in STRATEGIES
        }
        dense_bytes, dense_seconds = found[DENSE]
        rows += [
            [held.name, held.X.shape[1], n_ranks, strategy, *densities, nbytes / 1e6,
             dense_bytes / nbytes, network, 1e3 * seconds * n_steps, dense_seconds / seconds]
            for strategy, (nbytes, seconds) in found.items()
        ]  # fmt: skip
    return rows


def cuts_after(size: int, vectors: Sequence[np.ndarray]) -> tuple[int, ...]:
    """Where the step after these vectors is cut; a sum from `SWITCH` on is dense."""
    touched = np.unique(np.concatenate(vectors))
    total = entries_stream(touched, np.ones(len(touched), np.float32), size)
    return equal_shares(total.switched(SWITCH), len(vectors))


def sent(
    size: int, vectors: Sequence[np.ndarray], strategy: str, alpha: float, beta: float,
    cuts: Sequence[int] = (),
) -> tuple[float, float]:  # fmt: skip
    """Mean bytes of a rank, and seconds of a sum of float32 values."""
    n_ranks = len(vectors)
    if strategy.startswith("dense"):  # whatever the vectors are: 2 (P − 1)/P of all values
        nbytes = 2 * (n_ranks - 1) / n_ranks * size * 4
        rounds = n_ranks - 1 if strategy == "dense-ring" else np.log2(n_ranks)
        return nbytes, 2 * rounds * alpha + beta * nbytes
    found = simulate_sparse_allreduce(
        vectors, size, strategy, switch_density=SWITCH, alpha=alpha, beta=beta, cuts=cuts
    )
    return float(found.bytes_sent.mean()), found.seconds


def balanced(held: Data, n_ranks: int) -> list:
    """What ranges that are cut by the sum of a step before do for the busiest rank."""
    random = np.random.default_rng(n_ranks)
    before, vectors = ([held.batch(random) for _ in range(n_ranks)] for _ in range(2))
    bounds = held.size * np.arange(1, n_ranks) // n_ranks
    entries = np.bincount(np.searchsorted(bounds, np.concatenate(vectors), "right"))
    rows = [
        int(simulate_sparse_allreduce(
            vectors, held.size, STRATEGIES[3], switch_density=SWITCH, cuts=cuts
        ).rows_sent.max())
        for cuts in ((), cuts_after(held.size, before))
    ]  # fmt: skip
    share = 100 * float(entries.max() / entries.sum())
    return [held.name, held.batch_size, n_ranks, share, *rows, rows[0] / rows[1]]


def whole_steps(held: Data, n_ranks: int) -> tuple[Any, np.ndarray]:
    """Samples that are whole steps of all ranks, and classes."""
    of_a_step = held.batch_size * n_ranks
    n_samples = held.X.shape[0] // of_a_step * of_a_step
    return held.X[:n_samples].astype(np.float32), np.arange(n_samples) % 2


def learner(held: Data, n_ranks: int, aggregation: str, **options: Any) -> LogisticRegression:
    """The model that is trained."""
    return LogisticRegression(
        solver="sgd", n_ranks=n_ranks, batch_size=held.batch_size, tol=0, aggregation=aggregation,
        shuffle=False, **options,
    )  # fmt: skip


def seconds_over_mpi(
    client: Any, paths: list[str], batch_size: int, n_ranks: int
) -> list[list[float]]:
    """Median seconds of an epoch by each of `AGGREGATIONS`; samples lie in a file for each data."""
    found, options = [], {"transport": "mpi", "max_iter": EPOCHS + 1}
    for path in paths:
        held = Data(path, scipy.sparse.load_npz(path), batch_size)
        X, y = whole_steps(held, n_ranks)
        models = [learner(held, n_ranks, name, **options) for name in AGGREGATIONS]
        found.append([
            float(model.fit(X, y, client=client).history_["seconds"].iloc[1:].median())
            for model in models
        ])  # fmt: skip
    return found


def seconds_of_job(sets: Sequence[Data], n_ranks: int) -> list[Any]:
    """For each data what `seconds_over_mpi` finds, all in one job; None each without mpiexec."""
    if not has_mpiexec():
        return [[None] * len(AGGREGATIONS)] * len(sets)
    with TemporaryDirectory() as folder:
        paths = [f"{folder}/{place}.npz" for place in range(len(sets))]
        for held, path in zip(sets, paths, strict=True):
            scipy.sparse.save_npz(path, held.X, compressed=False)
        return in_mpi_job(seconds_over_mpi, n_ranks, paths, sets[0].batch_size, n_ranks)


def trained(held: Data, n_ranks: int, seconds: Sequence[float | None]) -> list[list]:
    """What an epoch of the model sent, beside the simulation of the same batches; its time."""
    batch, rows = held.batch_size, []
    X, y = whole_steps(held, n_ranks)
    members = members_of_ranks(len(y), n_ranks, batch, None)
    steps = [
        [held.touched(own[begin : begin + batch]) for own in members]
        for begin in range(0, len(y) // n_ranks, batch)
    ]
    for aggregation, one in zip(AGGREGATIONS, seconds, strict=True):
        model = learner(held, n_ranks, aggregation, max_iter=1, transport="local").fit(X, y)
        strategy = {"dense": DENSE}.get(aggregation, aggregation)
        cuts = [(), *(cuts_after(held.size, step) for step in steps[:-1])]
        simulated = sum(
            sent(held.size, step, strategy, 0.0, 0.0, of_step)[0]
            for step, of_step in zip(steps, cuts, strict=True)
        )
        rows.append([
            held.name, n_ranks, aggregation, model.history_["bytes"].iloc[0] / 1e6,
            n_ranks * simulated / 1e6, None if one is None else 1e3 * one,
            None if one is None or seconds[0] is None else seconds[0] / one,
        ])  # fmt: skip
    return rows


def least(lines: list[list]) -> list[list]:
    """A line for each data and number of ranks: the sparse strategy of the fewest bytes."""
    best: dict[tuple[str, int], list] = {}
    for line in lines:
        key = line[0], line[2]
        if not line[3].startswith("dense") and line[6] < best.get(key, [np.inf] * 7)[6]:
            best[key] = line
    return [[*key, line[3], *line[4:8]] for key, line in best.items()]


def asked(rows: list[list]) -> str:
    """What was asked of the bytes at a million features, and where it holds."""
    found = [(f"P = {row[1]}", row[-1]) for row in rows if row[0] == "power law, N = 10^6"]
    words = "at N = 10^6 a third of the bytes of dense sums, or less"
    return verdict(words, found, lambda factor: factor >= 3)


def occurrences(held: Data, n_batches: int) -> np.ndarray:
    """In how many batches each feature occurs, the most frequent first; zeros left out."""
    counts = np.zeros(held.size, np.int64)
    for number in range(n_batches):
        counts[held.batch(np.random.default_rng([number, 7]))] += 1
    return np.sort(counts[counts > 0])[::-1]


def unions(held: Data, ranks: Sequence[int]) -> tuple[list[float], list[float]]:
    """Density of the sum over ranks, and that of entries that are spread evenly."""
    random, touched = np.random.default_rng(5), np.zeros(held.size, bool)
    lengths, found = [], []
    for rank in range(max(ranks)):
        own = held.batch(random)
        touched[own] = True
        lengths.append(len(own))
        if rank + 1 in ranks:
            found.append(float(touched.mean()))
    density = float(np.mean(lengths)) / held.size
    return found, [expected_union(1.0, density, n_ranks) for n_ranks in ranks]


def draw(sets: Sequence[Data], lines: list[list], ranks: Sequence[int], path: Path) -> None:
    """Seconds by strategy over ranks, a row a network; then the analysis of figure 5.12."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6 * max(len(sets), 2), 10.4), layout="constrained")
    panels = figure.subplots(3, max(len(sets), 2), squeeze=False)
    for row, network in enumerate(NETWORKS):
        for place, held in enumerate(sets):
            ax = panels[row][place]
            for strategy in STRATEGIES:
                own = [each for each in lines if each[0] == held.name and each[3] == strategy]
                own = [each for each in own if each[8] == network]
                style = "--" if strategy.startswith("dense") else "-"
                ax.plot([e[2] for e in own], [e[9] for e in own], f"o{style}", label=strategy)
            ax.set(xscale="log", yscale="log", xlabel="ranks P", ylabel="ms of the sums an epoch")
            ax.set_xticks(list(ranks), [str(n) for n in ranks])
            ax.set_xticks([], minor=True)
            ax.set_title(f"{held.name}, {network}", fontsize=10)
    left, right, *rest = panels[2]
    for place, held in enumerate(sets):
        counts = occurrences(held, 25)
        places = np.unique(np.geomspace(1, len(counts), 400).astype(int))
        left.plot(places / held.size, counts[places - 1], label=held.name)
        measured, even = unions(held, ranks)
        right.plot(ranks, measured, "o-", color=f"C{place}", label=held.name)
        right.plot(ranks, even, ":", color=f"C{place}", label="the same, spread evenly")
    left.set(xscale="log", xlabel="features, the most frequent first (share of N)",
             ylabel="batches of 25 that touch it")  # fmt: skip
    left.set_title("as 5.12: which features a batch touches", fontsize=10)
    right.set(xscale="log", yscale="log", xlabel="ranks P", ylabel="density of the sum")
    right.set_xticks(list(ranks), [str(n) for n in ranks])
    right.set_xticks([], minor=True)
    right.set_title("density of the sum of P ranks", fontsize=10)
    left.legend(fontsize=8)
    beside = rest[0] if rest else right
    beside.legend(*right.get_legend_handles_labels(), fontsize=8, loc="upper left")
    strategies = panels[0][0].get_legend_handles_labels()
    figure.legend(*strategies, loc="outside upper center", ncols=len(STRATEGIES))
    for ax in (*rest, *(panels[row][place] for row in (0, 1) for place in range(len(sets), 2))):
        ax.set_axis_off()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


@click.command()
@click.option("--ranks", multiple=True, type=int, default=(4, 8, 32, 128), show_default=True)
@click.option("--size", "sizes", multiple=True, type=int, default=(10**6, 10**7), show_default=True)
@click.option("--samples", default=25_000, show_default=True, help="Of the made data.")
@click.option("--batch", default=1000, show_default=True, help="Samples of a rank in a step.")
@click.option("--train", multiple=True, type=int, default=(4, 8), show_default=True,
              help="Ranks on which the model is trained, too.")  # fmt: skip
@out_option
def main(
    ranks: tuple[int, ...],
    sizes: tuple[int, ...],
    samples: int,
    batch: int,
    train: tuple[int, ...],
    out: Path,
) -> None:
    """Write the tables and the picture."""
    origin = Origin.here()
    sets = [bigrams(batch), *(power_law(size, samples, batch) for size in sizes)]
    lines = []
    for held in sets:
        for n_ranks in ranks:
            click.echo(f"{held.name}, {n_ranks} ranks …")
            lines += lines_of(held, n_ranks)
    even = [balanced(bigrams(max(batch // 4, 1)), n_ranks) for n_ranks in train]
    jobs = {n_ranks: seconds_of_job(sets[:2], n_ranks) for n_ranks in train}
    beside = [
        row
        for place, held in enumerate(sets[:2])
        for n_ranks in train
        for row in trained(held, n_ranks, jobs[n_ranks][place])
    ]
    draw(sets, lines, ranks, out / "linear_aggregation.png")
    shown = [line[:8] + line[9:] for line in lines if line[8] == next(iter(NETWORKS))]
    columns = COLUMNS[:8] + COLUMNS[9:]
    body = (
        f"Batches of {batch:,} samples a rank, float32 gradients; where there are fewer samples "
        "than a step of all ranks takes, each rank draws its own. Bytes are those of real indices, "
        "counted by the simulator; seconds those of the α–β model of a "
        f"{next(iter(NETWORKS))} network, messages only, times the steps of an epoch. An SVM sends "
        "the same.\n\n"
        "![Seconds by strategy, and which features occur](linear_aggregation.png)\n\n"
        f"The sparse strategy of the fewest bytes:\n\n{markdown_table(LEAST, least(lines))}\n\n"
        f"{asked(least(lines))}\n\n"
        f"All of them:\n\n{markdown_table(columns, shown)}\n\n"
        "Trained, beside the simulation of the same batches (bytes of all ranks; those that were "
        "trained agree on sizes, too); and the median of "
        f"{EPOCHS} epochs of training on MPI ranks, which share the cores of this machine where "
        f"they are more:\n\n{markdown_table(TRAINED, beside)}\n\n"
        f"The busiest rank of ssar-split-allgather:\n\n{markdown_table(BALANCED, even)}\n\n"
        "Figures 5.8 to 5.12 of Renggli (2017). Where a few features are in every batch (the steep "
        "left of the third row), the sum fills up slower than evenly spread entries would. "
        "imdb-bigrams has its frequent features first: the ranges of ssar-split-allgather are cut "
        "so that they held as many entries each of the sum before; those of "
        "dsar-split-allgather-doubling, which end dense, are of one length, and there the rank "
        "that adds up the first range has most to do. Ranges turn "
        f"dense from a density of {SWITCH:g} on, where the bytes are equal."
    )
    write_numbers(out, "linear_aggregation", COLUMNS, lines, origin)
    write_section(out, "linear_aggregation", "Logistic regression, by aggregation", body, origin)


if __name__ == "__main__":
    main()
