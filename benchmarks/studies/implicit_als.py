"""Implicit ALS beside the package `implicit`: NDCG@10, seconds an iteration, top-n lists.

Both have the same objective (its alpha is 1 + ours, where all counts are 1), components,
regularization, iterations and threads, and one judge: `daskpart.metrics`, over the whole catalogue.
"""

from __future__ import annotations

import gzip
import json
import lzma
import os
import subprocess
import tempfile
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import click
import numpy as np
import scipy.sparse

import daskpart
from benchmarks import implicit_peer
from benchmarks.data import data_folder

from .output import Origin, markdown_table, out_option, write_numbers, write_section

COLUMNS = (
    "data", "who", "solver", "NDCG@10", "recall@10", "s an iteration", "CPU s an iteration",
    "top-n, s", "top-n, CPU s",
)  # fmt: skip
N, USERS = 20, 10_000


def gowalla(folder: Path) -> tuple[Any, Any]:
    """Check-ins: train and validation, and test, as they were published."""
    sides = {}
    for side in ("train", "valid", "test"):
        users, items = [], []
        with gzip.open(folder / f"gowalla.{side}.txt.gz", "rt") as file:
            for line in file:
                user, *visited = map(int, line.split())
                users += [user] * len(visited)
                items += visited
        sides[side] = _clicks(users, items, (29_858, 40_981))
    return sides["train"] + sides["valid"], sides["test"]


def ml_1m(folder: Path) -> tuple[Any, Any]:
    """Every rating is a click; a fifth is held out."""
    with lzma.open(folder / "ml-1m.ratings.dat.xz", "rt") as file:
        pairs = np.array([line.split("::")[:2] for line in file], np.int64)
    _, items = np.unique(pairs[:, 1], return_inverse=True)
    clicks = _clicks(pairs[:, 0] - 1, items, (6040, items.max() + 1))
    return daskpart.datasets.train_test_split_ratings(clicks, 0.2)


def _clicks(users: Any, items: Any, shape: tuple[int, int]) -> Any:
    return scipy.sparse.csr_array((np.ones(len(users), np.float32), (users, items)), shape=shape)


DATA = {"ml-1m": ml_1m, "gowalla": gowalla}


def ours(train: Any, solver: str, job: dict[str, Any]) -> tuple[Any, dict[str, float]]:
    """A fitted model, and its seconds."""
    model = daskpart.ImplicitFactorization(
        job["components"], alpha=job["alpha"], regularization=job["regularization"],
        max_iter=job["iterations"], solver=solver, n_ranks=job["threads"], partitioner="block",
        transport="local",
    )  # fmt: skip
    plan = model.plan(train)
    seconds, cpu = [], []
    for _ in range(job["turns"]):
        begin = process_time()
        model.fit(train, plan=plan)
        cpu.append((process_time() - begin) / job["iterations"])
        seconds.append(float(model.history_["seconds"].mean()))
    users = np.arange(min(job["users"], train.shape[0]))
    model.recommend(users[:10], N)
    begin, begin_cpu = perf_counter(), process_time()
    model.recommend(users, N)
    return model, {
        "seconds": min(seconds), "cpu": min(cpu),
        "recommend": perf_counter() - begin, "recommend_cpu": process_time() - begin_cpu,
    }  # fmt: skip


def peers(train: Any, python: str, job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What the other Python measured."""
    scipy.sparse.save_npz(folder / "train.npz", scipy.sparse.csr_matrix(train))
    job = {**job, "train": str(folder / "train.npz"), "out": str(folder / "factors")}
    (folder / "job.json").write_text(json.dumps(job))
    ran = subprocess.run(
        [python, str(Path(implicit_peer.__file__).resolve()), str(folder / "job.json")],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(ran.stdout.splitlines()[-1])


@click.command()
@click.option("--data", "names", multiple=True, type=click.Choice([*DATA]), default=tuple(DATA))
@click.option("--peer", help="A Python that has the package implicit; none: ours alone.")
@click.option("--components", default=64, show_default=True)
@click.option("--iterations", default=10, show_default=True)
@click.option("--threads", default=2, show_default=True)
@click.option("--turns", default=3, show_default=True)
@out_option
def main(
    names: tuple[str, ...], peer: str | None, components: int, iterations: int, threads: int,
    turns: int, out: Path,
) -> None:  # fmt: skip
    """Write the table."""
    origin, rows = Origin.here(), []
    job = {
        "components": components, "alpha": 10.0, "regularization": 1.0, "iterations": iterations,
        "threads": threads, "turns": turns, "users": USERS, "n": N,
    }  # fmt: skip
    for name in names:
        train, test = DATA[name](data_folder() / "ratings")
        with tempfile.TemporaryDirectory() as folder:
            measured = peers(train, peer, job, Path(folder)) if peer else {}
            for solver in ("cg", "cholesky"):
                model, own = ours(train, solver, job)
                rows.append(_row(name, "daskpart", solver, model, test, own))
                click.echo(rows[-1])
                if solver in measured:
                    with np.load(Path(folder) / f"factors.{solver}.npz") as factors:
                        model.state_.user_factors = factors["user"]
                        model.state_.item_factors = factors["item"]
                    rows.append(_row(name, "implicit", solver, model, test, measured[solver]))
                    click.echo(rows[-1])
    body = (
        f"{components} components, {threads} ranks (local transport) beside {threads} threads of "
        f"the package implicit, λ = 1, α = 10, {iterations} iterations; ml-1m as clicks with a "
        "fifth held out, gowalla as published. NDCG and recall over the whole catalogue less what "
        f"was seen. Top-n: the best {N} of {USERS:,} users (or all). Least of {turns} turns.\n\n"
        f"{markdown_table(COLUMNS, rows)}"
    )
    write_numbers(out, "implicit_als", COLUMNS, rows, origin)
    write_section(out, "implicit_als", "Implicit ALS beside implicit", body, origin)


def _row(
    name: str, who: str, solver: str, model: Any, test: Any, took: dict[str, float]
) -> list[Any]:
    found = daskpart.metrics.evaluate_ranking(model, test, 10).iloc[0]
    return [
        name, who, solver, round(float(found["ndcg"]), 4), round(float(found["recall"]), 4),
        took["seconds"], took["cpu"], took["recommend"], took["recommend_cpu"],
    ]  # fmt: skip


if __name__ == "__main__":
    main()
