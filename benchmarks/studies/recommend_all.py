"""Everybody's top n: seconds and memory of `recommend_all`, beside the package `implicit`.

    made factors, M × F and N × F ─┬─ ours       blocks of users, two threads
                                   └─ implicit   its own batches, two threads   (another Python)

No list is kept together: each block is counted and let go, as `to_parquet` would do.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import click
import dask
import numpy as np
import psutil

import daskpart
from benchmarks import recommend_peer
from daskpart.models.implicit_factorization.state import ImplicitState

from .output import Origin, markdown_table, out_option, write_numbers, write_section

COLUMNS = ("lengths of items", "who", "s", "CPU s", "MiB above the factors")


def made_factors(
    n_users: int, n_items: int, n_components: int, spread: float = 4.0
) -> dict[str, np.ndarray]:
    """Normal factors; the longest items `spread` times the shortest, as popular ones are longer."""
    random = np.random.default_rng(0)
    found = {
        side: random.standard_normal((n, n_components), np.float32)
        for side, n in (("user", n_users), ("item", n_items))
    }
    found["item"] *= spread ** random.uniform(-0.5, 0.5, (n_items, 1)).astype(np.float32)
    return found


class PeakMemory:
    """Resident bytes of this process above those at the begin, looked at 200 times a second."""

    def __enter__(self) -> PeakMemory:
        process = psutil.Process()
        self.before, self.above, self._stop = process.memory_info().rss, 0, threading.Event()

        def look() -> None:
            while not self._stop.wait(5e-3):
                self.above = max(self.above, process.memory_info().rss - self.before)

        self._thread = threading.Thread(target=look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._stop.set()
        self._thread.join()


def ours(factors: dict[str, np.ndarray], job: dict[str, Any]) -> dict[str, float]:
    """Seconds, CPU seconds and bytes of our own."""
    model = daskpart.ImplicitFactorization(factors["user"].shape[1])
    model.state_ = ImplicitState(factors["user"], factors["item"], *map(_zeros, factors.values()))
    few = daskpart.ImplicitFactorization(factors["user"].shape[1])  # imports, compiles
    rows = [np.zeros((10, factors["user"].shape[1]), np.float32)] * 2
    few.state_ = ImplicitState(*rows, *map(_zeros, rows))
    few.recommend_all(2, exclude_seen=False).compute(scheduler="threads")
    with PeakMemory() as memory, dask.config.set(scheduler="threads", num_workers=job["threads"]):
        begin, begin_cpu = perf_counter(), process_time()
        table = model.recommend_all(job["n"], exclude_seen=False)
        lines = sum(table.map_partitions(len, meta=("lines", int)).compute())
        took = {"seconds": perf_counter() - begin, "cpu": process_time() - begin_cpu}
    if lines != len(factors["user"]) * job["n"]:
        raise RuntimeError(f"{lines} lines came out")
    return {**took, "memory": float(memory.above)}


def _zeros(rows: np.ndarray) -> np.ndarray:
    return np.zeros(len(rows), np.float32)


def peers(factors: dict[str, np.ndarray], python: str, job: dict[str, Any]) -> dict[str, float]:
    """What the other Python measured."""
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "factors.npz", **factors)
        asked = {**job, "factors": str(Path(folder) / "factors.npz")}
        (Path(folder) / "job.json").write_text(json.dumps(asked))
        ran = subprocess.run(
            [python, str(Path(recommend_peer.__file__).resolve()), f"{folder}/job.json"],
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
    return json.loads(ran.stdout.splitlines()[-1])


@click.command()
@click.option("--peer", help="A Python that has the package implicit; none: ours alone.")
@click.option("--users", default=100_000, show_default=True)
@click.option("--items", default=100_000, show_default=True)
@click.option("--components", default=64, show_default=True)
@click.option("-n", default=20, show_default=True)
@click.option("--threads", default=2, show_default=True)
@click.option("--turns", default=2, show_default=True)
@out_option
def main(
    peer: str | None, users: int, items: int, components: int, n: int, threads: int, turns: int,
    out: Path,
) -> None:  # fmt: skip
    """Write the table."""
    origin, job, rows = Origin.here(), {"n": n, "threads": threads}, []
    for spread, words in ((4.0, "0.5 to 2 times √F"), (1.0, "√F, about alike")):
        factors = made_factors(users, items, components, spread)
        found: dict[str, list[dict[str, float]]] = {"daskpart": [], "implicit": []}
        for _ in range(turns):
            found["daskpart"].append(ours(factors, job))
            if peer:
                found["implicit"].append(peers(factors, peer, job))
        for who, took in found.items():
            if took:
                least = [min(each[name] for each in took) for name in ("seconds", "cpu")]
                most = max(each["memory"] for each in took)
                rows.append([words, who, *least, most / 2**20])
                click.echo(rows[-1])
    body = (
        f"The best {n} of {items:,} items for each of {users:,} users, {components} components, "
        f"{threads} threads, nothing excluded. Factors are made: normal rows. Items of which the "
        "length of the factors already says that they cannot be among the best are not multiplied, "
        "so it matters how much lengths differ: in the first lines as given, in the last ones only "
        f"by chance. Least seconds and most memory of {turns} turns, ours and the package "
        "implicit's in turn; memory is what resident bytes rise by while it runs.\n\n"
        f"{markdown_table(COLUMNS, rows)}"
    )
    write_numbers(out, "recommend_all", COLUMNS, rows, origin)
    write_section(out, "recommend_all", "Everybody's top n", body, origin)


if __name__ == "__main__":
    main()
