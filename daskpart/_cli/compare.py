"""`daskpart partition --compare`: several methods on one's data, as a table and a picture."""

from __future__ import annotations

import csv
from functools import partial
from pathlib import Path

from daskpart import plots
from daskpart.data_models import build
from daskpart.partitioners.comparison import Comparison, compare_partitions
from daskpart.report import Report, versions

from .album import Album
from .cut import CutSettings
from .ratings import in_words, load_any
from .terminal import COMPILING, explained_if_slow, say

UNUSED = ("method", "objective", "engine", "output", "memory_limit")  # options that are for one cut


def run(settings: CutSettings) -> None:
    """Read, cut by every method, say, write."""
    data = load_any(settings.data, settings.format)
    words = in_words(data, settings.data)
    say(words)
    say(f"cutting into {settings.parts} parts, by one method after the other …")
    with explained_if_slow(COMPILING):
        model = build(data, settings.model, n_parts=settings.parts, random_state=settings.seed)
        comparison = compare_partitions(
            model,
            settings.parts,
            epsilon=settings.epsilon,
            random_state=settings.seed,
            rho=settings.rho,
        )
    say(repr(comparison))
    settings.out.mkdir(parents=True, exist_ok=True)
    for path, meaning in _write(comparison, settings, words):
        say(f"  {path}  {meaning}")


def _write(comparison: Comparison, settings: CutSettings, words: str) -> list[tuple[Path, str]]:
    table = settings.out / "comparison.csv"
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["method", *comparison.metrics])
        writer.writerows([name, *row.values()] for name, row in comparison.values.items())
    page = Report(f"{Path(settings.data).name} in {settings.parts} parts", words)
    album = Album(settings.out, page, settings.plots)
    page.section("Methods")
    page.grid(
        ["method", *comparison.metrics],
        ([name, *row.values()] for name, row in comparison.values.items()),
    )
    album.draw(
        "comparison",
        (9.4, 4.0),
        partial(plots.partition_comparison, comparison),
        alt="For each metric a bar a method, relative to the first method",
        caption="Every metric as a share of what the first method has; seconds in the key.",
    )
    page.section("Settings")
    page.table({name: value for name, value in vars(settings).items() if name not in UNUSED})
    page.section("Versions")
    page.table(versions())
    report = page.write(settings.out / "report.html")
    return [
        (table, "the table, as text"),
        *((picture, "picture") for picture in album.files),
        (report, "all of it on one page: open in a browser"),
    ]
