"""`daskpart partition --method parsa --memory-limit …`: files larger than memory, block by block.

The data are never held whole, so there is no picture of the matrix and no metric but Parsa's own.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

from daskpart._floor.tables import fixed
from daskpart._floor.words import counted, from_to
from daskpart.errors import InputError
from daskpart.parsa import ParsaResult, partition
from daskpart.parsa.sources import checked_limit
from daskpart.readers.detection import detect
from daskpart.readers.streams import is_address, location

from .cut import CutSettings
from .files import check_out, check_target, say_files, write_asked, write_table
from .page import write_json, write_page
from .pictures import Album
from .terminal import say

UNUSED = ("model", "objective", "epsilon", "engine", "rho", "start", "refine", "further_weights")


def run(settings: CutSettings, memory_limit: str) -> None:
    """Deal the data over blocks on disk, place them and the parameters, say and write it."""
    if settings.method != "parsa":
        raise InputError(
            f"--memory-limit needs --method parsa, not {settings.method}: the others hold all data"
        )
    checked_limit(memory_limit)  # before the file is looked at
    path = location(settings.data)
    if not is_address(path) and not os.path.exists(path):
        raise InputError(f"{path}: no such file; --memory-limit is for libsvm files")
    found = "libsvm" if os.path.isdir(path) else detect(path)  # a folder: of blocks of such a file
    if found != "libsvm" or settings.format not in (None, "libsvm"):
        raise InputError(
            f"{path}: --memory-limit is for libsvm files, this one is read whole as "
            f"{settings.format or found}: leave out --memory-limit"
        )
    check_out(settings.out, settings.data, output=settings.output)
    if settings.output is not None:
        check_target(settings.output, settings.data)
    parts = counted(settings.parts, "part")
    say(f"dealing {os.path.basename(path)} over blocks, then into {parts} …")
    result = partition(
        path, settings.parts, memory_limit=memory_limit, random_state=settings.random_state
    )
    for sentence in sentences(result):
        say(sentence)
    settings.out.mkdir(parents=True, exist_ok=True)
    say_files(_write(result, settings, memory_limit), settings.out)


def sentences(result: ParsaResult) -> list[str]:
    """The result in plain words."""
    told = result.to_dict()
    sizes = result.partition.part_weights
    size = from_to(int(sizes.min()), int(sizes.max()))
    return [
        f"{told['data']:,} examples with {told['edges']:,} values of {told['parameters']:,} "
        f"features, read in {counted(told['blocks'], 'block')}.",
        f"{counted(result.n_parts, 'part')} of {size} examples; a part needs "
        f"{told['memory, maximum']:,} features at most (random parts: "
        f"{told['random: memory, maximum']:,}).",
        f"A part fetches and serves {told['traffic, maximum']:,} at most (random parts: "
        f"{told['random: traffic, maximum']:,}). Found in {fixed(told['seconds'], 2)} s.",
    ]


def _write(result: ParsaResult, settings: CutSettings, memory_limit: str) -> list[tuple[Path, str]]:
    """Write everything; returns each file and what it is."""
    whole, partition = settings.out / "parsa.npz", settings.out / "partition.npz"
    result.save(whole)
    result.partition.save(partition)
    tables = [
        write_table(settings.out / name, [what, "part"], enumerate(parts.tolist()))
        for name, what, parts in (
            ("assignment.csv", "row", result.partition.assignment),
            ("owners.csv", "column", result.owners),
        )
    ]
    used = {name: value for name, value in vars(settings).items() if name not in UNUSED}
    asked = {**used, "memory_limit": memory_limit}
    metrics = {"settings": asked, "metrics": result.to_dict()}
    files = [
        (whole, "all of the result: daskpart.parsa.ParsaResult.load"),
        (partition, "the parts of the rows: daskpart.Partition.load"),
        (tables[0], "part of each row, as text; rows are counted from 0"),
        (tables[1], "part that keeps each column, as text, counted from 0; -1: no part needs it"),
        (write_json(settings.out / "metrics.json", metrics), "every number"),
    ]
    if settings.output is not None:
        files.append(write_asked(result.partition, settings.output, "row"))
    return [*files, *_report(result, settings, asked)]


def _report(
    result: ParsaResult, settings: CutSettings, asked: dict[str, Any]
) -> list[tuple[Path, str]]:
    album = Album(settings.out, settings.plots)
    if album.draws:
        _draw(album, result)
    return write_page(
        "parsa.html",
        album,
        title=f"{Path(settings.data).name} in {counted(result.n_parts, 'part')}",
        lead=sentences(result)[0],
        sentences=sentences(result)[1:],
        metrics=result.to_dict(),
        settings=asked,
        file=repr(str((settings.out / "parsa.npz").resolve())),
    )


def _draw(album: Album, result: ParsaResult) -> None:
    from daskpart import plots

    def draw_needs(ax: Any) -> None:
        plots.part_weights(result.neighbours.sizes, ax=ax).set_ylabel("features needed")

    album.draw(
        "parts",
        (9.4, 3.4),
        partial(plots.connectivity_histogram, result.connectivity(), item="feature"),
        draw_needs,
        alt="Left: how many features are needed by how many parts. Right: how many each part needs",
        caption="Left: features by the number of parts that need one. Right: features that each "
        "part needs: what it holds in memory.",
    )
