"""A libsvm file larger than the memory of a rank: read by ranges and trained on, under a limit.

    3 GB of text ─▶ 4 worker processes, 1 GiB each ─▶ rows dealt out, kept on disk ─▶ SGD by blocks
                                                                            the server by pieces

A worker that passes 95 % of its limit is killed by its nanny, so a fit that ends has kept to it.
The greatest resident memory of each process is told by the kernel.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import click
import numpy as np

import daskpart
from benchmarks.measuring import peak_since
from daskpart.readers import survey

from .output import Origin, markdown_table, out_option, write_numbers, write_section

COLUMNS = (
    "solver", "text, MB", "samples", "features", "stored values", "ranks", "limit a rank, MB",
    "process before, MB", "rows of a rank, MB", "held by a rank, MB", "most resident, MB",
    "epochs", "loss", "accuracy",
)  # fmt: skip
SOLVERS = {
    "sgd": {"batch_size": 1000},
    "server": {"l1_ratio": 1.0},
}
N_FEATURES, N_ENTRIES, N_LINES, N_BLOCKS = 1_000_000, 100, 3000, 12


def block_of_lines(random: np.random.Generator, truth: np.ndarray) -> bytes:
    """Some samples with features by a power law, of which `truth` decides the class."""
    lines = []
    for _ in range(N_LINES):
        features = np.unique((N_FEATURES * random.power(0.3, N_ENTRIES)).astype(np.int64))
        values = random.integers(100, 1000, len(features))
        label = 1 if truth[features] @ values > 0 else -1
        pairs = zip((features + 1).tolist(), values.tolist(), strict=True)
        lines.append(f"{label} " + " ".join(f"{j}:0.{x}" for j, x in pairs) + "\n")
    return "".join(lines).encode()


def write_file(path: Path, n_bytes: float) -> None:
    """Samples in random order of a few blocks."""
    random = np.random.default_rng(0)
    truth = random.normal(size=N_FEATURES)
    blocks = [block_of_lines(random, truth) for _ in range(N_BLOCKS)]
    with open(path, "wb") as file:
        while file.tell() < n_bytes:
            file.write(blocks[random.integers(N_BLOCKS)])


def warm_up(folder: Path, solver: str) -> None:
    """Load what a worker needs, compiled kernels too."""
    few = folder / f"few-{os.getpid()}.libsvm"
    few.write_text("".join(f"{1 - 2 * (row % 2)} {row % 7 + 1}:1\n" for row in range(40)))
    fit(survey(few, dtype=np.float32), solver, n_ranks=2, epochs=1, transport="local")


def fit(file: Any, solver: str, n_ranks: int, epochs: int, **options: Any) -> Any:
    """SGD with sparse sums, or delayed blocks on the parameter server."""
    return daskpart.LogisticRegression(
        solver=solver, n_ranks=n_ranks, max_iter=epochs, tol=0, **SOLVERS[solver], **options
    ).fit(file)


def measure(path: Path, solver: str, n_ranks: int, limit: float, epochs: int) -> list:
    """A line of the table."""
    from dask import config
    from distributed import Client, LocalCluster

    folder = path.parent
    warm_up(folder, solver)  # so that workers find kernels compiled: the compiler takes memory, too
    spilling = {f"distributed.worker.memory.{name}": False for name in ("target", "spill", "pause")}
    with (
        config.set(spilling),
        LocalCluster(
            n_workers=n_ranks, threads_per_worker=1, memory_limit=int(1e6 * limit),
            dashboard_address=":0",
        ) as cluster,
        Client(cluster) as client,
    ):  # fmt: skip
        client.run(warm_up, folder, solver)
        processes = client.run(os.getpid)
        before = max(client.run(peak_since, 0).values())
        file = survey(path, dtype=np.float32, labels=(-1, 1))
        model = fit(file, solver, n_ranks, epochs, transport="dask")
        peaks = client.run(peak_since, 0)
        if client.run(os.getpid) != processes:
            raise RuntimeError("workers passed the limit, and were started anew")
    X, y = daskpart.read(_first_lines(path, folder), n_features=file.n_features)
    return [
        solver, path.stat().st_size / 1e6, *file.shape, file.nnz, n_ranks, limit, before / 1e6,
        float(max(model.plan_report_.memory["samples"])) / 1e6,
        max(model.comm_report_.memory) / 1e6, max(peaks.values()) / 1e6, model.n_iter_,
        float(model.history_["loss"].iloc[-1]), float(model.score(X, y)),
    ]  # fmt: skip


def _first_lines(path: Path, folder: Path) -> Path:
    few = folder / "first.libsvm"
    with open(path, "rb") as file:
        few.write_bytes(b"".join(file.readline() for _ in range(N_LINES)))
    return few


@click.command()
@click.option("--megabytes", default=3000.0, show_default=True, help="Of text.")
@click.option("--ranks", default=4, show_default=True)
@click.option("--limit", default=1073.0, show_default=True, help="Of a rank, in MB.")
@click.option("--epochs", default=2, show_default=True)
@click.option("--solver", "solvers", multiple=True, default=tuple(SOLVERS), show_default=True)
@out_option
def main(
    megabytes: float, ranks: int, limit: float, epochs: int, solvers: tuple[str, ...], out: Path
) -> None:
    """Write the lines of what the ranks held."""
    origin = Origin.here()
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "examples.libsvm"
        write_file(path, 1e6 * megabytes)
        for solver in solvers:
            lines.append(measure(path, solver, ranks, limit, epochs))
            click.echo(lines[-1])
    body = (
        "A generated libsvm file, larger than the limit of all its readers one by one: surveyed, "
        "read and fitted by `LogisticRegression(solver='sgd', batch_size=1000)`, and by "
        "`solver='server', l1_ratio=1`, a worker process a rank. The nanny of a worker "
        "kills it at 95 % of the limit; none was. *Process before*: at most, with all libraries "
        "and compiled kernels, before the file. *Rows of a rank*: its share as CSR, float32 and "
        "int32, with weights; of the server scores and classes, too. As that is more than a "
        "quarter of the limit, the rank keeps it on its disk: text is read 4 MB a round and rank. "
        "Of SGD rows go to the ranks of the global shuffle as they are read, and wait there in "
        "files; an epoch reads blocks of 32 MB, in another order each time, and shuffles the rows "
        "of a block. Of the server they stay where they are read; a million entries at a time are "
        "cut into pieces by the blocks of coordinates, and an epoch reads these in turn. *Held by "
        "a rank*: a block or a piece, the weights, room for gradients, and of the server scores, "
        "classes and weights of all rows. The order does not depend on where rows are, so the "
        "coefficients are those of a fit in memory, to the bit.\n\n"
        f"{markdown_table(COLUMNS, lines)}"
    )
    write_numbers(out, "linear_memory", COLUMNS, lines, origin)
    write_section(out, "linear_memory", "A file larger than the memory of a rank", body, origin)


if __name__ == "__main__":
    main()
