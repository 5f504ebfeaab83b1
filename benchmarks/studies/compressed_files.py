"""Seconds to survey and to read a compressed libsvm file on ranks, beside those of unpacking it.

    text ─▶ .gz │ .xz │ .bz2        unpack alone    survey (one task)    read (each rank its range)

The reading is that of a fit: every rank unpacks up to the end of its range, and parses that.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import click
import numpy as np

from daskpart.collectives import communicator_for
from daskpart.models.samples.files import FileSamples
from daskpart.models.samples.problem import encoded
from daskpart.readers import survey

from .clusters import on_dask_workers
from .linear_memory import write_file
from .output import Origin, markdown_table, out_option, write_numbers, write_section

OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
NAMES = {"": "text", ".gz": "gzip", ".xz": "xz", ".bz2": "bzip2"}


def packed(path: Path, suffix: str) -> Path:
    """The file, compressed as each module does by itself."""
    target = Path(f"{path}{suffix}")
    if suffix:
        with open(path, "rb") as source, OPENERS[suffix](target, "wb") as file:
            shutil.copyfileobj(source, file, 1 << 20)
    return target


def seconds_to_unpack(path: Path) -> float:
    """To a file beside it, by one process; of text none."""
    if path.suffix not in OPENERS:
        return 0.0
    begin = perf_counter()
    with OPENERS[path.suffix](path, "rb") as source, open(path.with_name("unpacked"), "wb") as file:
        shutil.copyfileobj(source, file, 1 << 22)
    return perf_counter() - begin


def seconds_to_read(client: Any, path: str, n_ranks: int) -> tuple[float, float]:
    """To survey a file, and to have its rows on the ranks as a fit has them."""
    begin = perf_counter()
    samples = FileSamples(survey(path, client=client), encoded, 1, np.array([-1.0, 1.0]))
    surveyed = perf_counter()
    with communicator_for("dask", n_ranks, client=client) as comm:
        ready = perf_counter()
        samples.rows_on(comm, 0)
        return surveyed - begin, perf_counter() - ready


def turns_on(client: Any, paths: Sequence[str], n_ranks: int, turns: int) -> list[list[float]]:
    """Of each file the least seconds of some turns, to survey and to read."""
    seconds_to_read(client, paths[0], n_ranks)  # so that all is loaded
    found = [[seconds_to_read(client, path, n_ranks) for _ in range(turns)] for path in paths]
    return [np.min(each, axis=0).tolist() for each in found]


@click.command()
@click.option("--megabytes", default=100.0, show_default=True, help="Of text.")
@click.option("--ranks", multiple=True, default=(2, 4), show_default=True)
@click.option("--turns", default=2, show_default=True)
@out_option
def main(megabytes: float, ranks: tuple[int, ...], turns: int, out: Path) -> None:
    """Write a line a format."""
    origin = Origin.here()
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "examples.libsvm"
        write_file(text, 1e6 * megabytes)
        paths = [packed(text, suffix) for suffix in NAMES]
        sizes = [path.stat().st_size / 1e6 for path in paths]
        unpacking = [min(seconds_to_unpack(path) for _ in range(turns)) for path in paths]
        found = [
            on_dask_workers(turns_on, n_ranks, [str(path) for path in paths], n_ranks, turns)
            for n_ranks in ranks
        ]
    columns = (
        "format", "MB", "unpack, s", "survey, s", *(f"read by {n} ranks, s" for n in ranks)
    )  # fmt: skip
    lines = [
        [name, size, alone, min(each[0] for each in of_file), *(each[1] for each in of_file)]
        for name, size, alone, of_file in zip(
            NAMES.values(), sizes, unpacking, zip(*found, strict=True), strict=True
        )
    ]
    body = (
        f"A generated libsvm file of {megabytes:g} MB of text, compressed as Python's modules do "
        f"by themselves; the least of {turns} turns, files in the system's cache. *Unpack*: by "
        "one process, to a file. *Survey*: `survey(path, client=client)`, a task. *Read*: on "
        "worker processes of one thread, a rank each, as a fit reads it; each rank unpacks up "
        f"to the end of its range.\n\n{markdown_table(columns, lines)}"
    )
    write_numbers(out, "compressed_files", columns, lines, origin)
    write_section(out, "compressed_files", "Compressed files", body, origin)


if __name__ == "__main__":
    main()
