"""Peak memory of our engine over the bytes of the pins, direct K-way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from benchmarks.partition_engine import EPSILON, SEED

from . import partition_engine
from .output import Origin, markdown_table, out_option, write_numbers, write_section

INSTANCES = (
    "ml-1m", "gowalla", "coauthor-physics", "bundle1.mtx", "ibm14", "threads-math-sx",
    "imdb-bigrams",
)  # fmt: skip
MOST = 6
COLUMNS = (
    "instance", "vertices", "pins", "K", "MB of pins", "peak MB", "peak / pins",
    "peak / hypergraph", "kept", "CPU s",
)  # fmt: skip


def measure(name: str, path: Path, n_parts: int) -> list:
    """One line of the table, from a process of its own that reads the hypergraph at `path`."""
    module = "benchmarks.studies.engine_memory_run"
    done = subprocess.run(
        [sys.executable, "-m", module, str(path), str(n_parts)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"},  # what is freed is given back
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{module} of {name}, {n_parts} parts, failed:\n{done.stderr[-4000:]}")
    told = json.loads(done.stdout.splitlines()[-1])
    ratio = told["peak"] / told["pins"]
    return [
        name,
        told["vertices"],
        told["pins"] // 4,
        n_parts,
        told["pins"] / 1e6,
        told["peak"] / 1e6,
        round(ratio, 2),
        round(told["peak"] / told["input"], 2),
        ratio <= MOST,
        round(told["seconds"], 2),
    ]


@click.command()
@click.option("--data", "names", multiple=True, default=INSTANCES, show_default=True)
@click.option("--parts", multiple=True, type=int, default=(8, 64, 512), show_default=True)
@out_option
def main(names: tuple[str, ...], parts: tuple[int, ...], out: Path) -> None:
    """Write the table of peaks."""
    origin, rows = Origin.here(), []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            path = Path(folder) / f"{name}.npz"
            try:
                partition_engine.hypergraph_of(name).save(path)
            except NotImplementedError as absent:
                raise click.ClickException(str(absent)) from None
            for n_parts in parts:
                rows.append(measure(name, path, n_parts))
                click.echo(rows[-1])
    kept = sum(row[8] for row in rows)
    body = (
        f"What the engine adds to a process that holds the hypergraph, at most (resident memory of "
        f"a process of its own; direct K-way, ε = {EPSILON}, seed {SEED}). Wanted: at most {MOST} "
        f"times the pins at 4 bytes each; kept in {kept} of {len(rows)} lines.\n\n"
        f"{markdown_table(COLUMNS, rows)}\n\n"
        "*Peak / hypergraph*: over the bytes of pins, net pointer, weights and costs together. "
        "However many parts there are, the table of gains has 3.5 entries a pin at most, of 4 "
        "bytes each, or of 2 on levels of four million pins and more where no vertex has nets that "
        "cost more than 32,767 together (below, a second type would take longer to compile than "
        "all of the search): a table of an entry for every vertex and part is kept where it is no "
        "larger, else it is folded to one entry a pin. Most is taken where vertices or nets have "
        "few pins: on a netlist, of four pins a vertex and net, what the search on the finest "
        "level keeps of every vertex and net weighs more than the pins; on threads, of three pins "
        "a net, the coarsest level has most of the pins, and is cut while finer ones wait."
    )
    write_numbers(out, "engine_memory", COLUMNS, rows, origin)
    write_section(out, "engine_memory", "Peak memory of our engine", body, origin)


if __name__ == "__main__":
    main()
