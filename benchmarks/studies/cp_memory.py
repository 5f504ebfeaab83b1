"""Peak memory of the ranks of a CP decomposition, over the bytes of their nonzeros."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from benchmarks import data

from .cp_memory_run import saved
from .output import Origin, markdown_table, out_option, write_numbers, write_section

COLUMNS = (
    "data", "type", "memory", "K", "nonzeros by", "MB of nonzeros a rank", "layout",
    "peak while building", "factors", "2 + factors", "kept", "process", "ms an iteration",
)  # fmt: skip
SEEN_IN_RESIDENT_BYTES = 5e7
TYPES = ("float32", "float64")


def lines_of(name: str, path: Path, dtype: str, n_ranks: int, cut: str, rank: int) -> list[list]:
    """A line for each layout, from a process of its own."""
    module = "benchmarks.studies.cp_memory_run"
    arguments = [str(path), dtype, str(n_ranks), cut, str(rank)]
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "MALLOC_MMAP_THRESHOLD_": "100000"},  # what is freed is given back
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{module} {' '.join(arguments)} failed:\n{done.stderr[-4000:]}")
    return [
        line((name, dtype, memory, n_ranks, cut), told)
        for memory, told in json.loads(done.stdout.splitlines()[-1]).items()
    ]


def line(case: tuple, told: dict[str, Any]) -> list:
    """One line of the table."""
    most = 2 + told["factors"]
    seen = told["process"] if told["bytes"] > SEEN_IN_RESIDENT_BYTES else None
    return [
        *case, told["bytes"] / case[3] / 1e6, told["layout"], told["peak"], told["factors"], most,
        told["peak"] <= most, seen, told["ms"],
    ]  # fmt: skip


@click.command()
@click.option(
    "--tensor", "names", multiple=True, show_default=True,
    default=("imdb-reviews", "math-tags", "splatt-med", "splatt-med4"),
)  # fmt: skip
@click.option("--ranks", multiple=True, type=int, default=(1, 4, 8), show_default=True)
@click.option("--rank", default=16, show_default=True, help="R, components.")
@out_option
def main(names: tuple[str, ...], ranks: tuple[int, ...], rank: int, out: Path) -> None:
    """Write the table of peaks."""
    origin, rows = Origin.here(), []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            path = saved(data.tensor(name), Path(folder) / f"{name}.npz")
            for dtype in TYPES:
                for n_ranks, cut in (*((n, "hypercube") for n in ranks), (ranks[-1], "random")):
                    found = lines_of(name, path, dtype, n_ranks, cut, rank)
                    click.echo("\n".join(map(str, found)))
                    rows += found
    kept = sum(row[10] for row in rows)
    body = (
        "Everything a rank holds, over the bytes of its nonzeros (int32 coordinates and values), "
        "what it was given included; of the rank that holds most. Promised: at most twice these "
        f"bytes and its factors (R = {rank}), while it lays them out too. Kept in {kept} of "
        f"{len(rows)} lines.\n\n{markdown_table(COLUMNS, rows)}\n\n"
        "*Layout*: structures, and the sums kept between modes. *Peak while building*: by "
        "tracemalloc, which sees all scratch. *Factors*: the rank's rows of all modes. *Process*: "
        'all K ranks in one process (`transport="local"`), the most resident memory from the '
        "handing out of the nonzeros to the end of 5 iterations, over the bytes of the tensor, "
        "which the caller holds besides; with factors, partial products and messages; for tensors "
        "of 50 MB and more. It stays below 2 and the factors where the tensor is cut; where "
        "nonzeros are dealt out at random nearly every row is shared, and messages take several "
        "times the room of the factors. *Ms*: least of 4 iterations of Algorithm 2, all ranks on "
        "the cores named below.\n\n"
        '`"fast"` holds no more at its peak than `"small"`, which is that of the first '
        'structure; what `"small"` saves is the second structure and the kept sums, from then on.'
    )
    write_numbers(out, "cp_memory", COLUMNS, rows, origin)
    write_section(out, "cp_memory", "Peak memory of a rank of CP-ALS", body, origin)


if __name__ == "__main__":
    main()
