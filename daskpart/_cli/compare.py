"""`daskpart partition --compare`: several methods on one's data, as a table and a picture."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from daskpart._floor.words import counted
from daskpart.data_models import build
from daskpart.partitioners.comparison import Comparison, compare_partitions
from daskpart.partitions import WITHOUT_ROWS

from .cut import CutSettings
from .files import check_out, say_files, write_table
from .inputs import in_words, load_any
from .page import write_page
from .pictures import Album
from .terminal import say

WORDS = {
    "connectivity": "Σ (λ − 1): rows that an expand sends; λ: number of parts that share one",
    "power": "Σ λ^ρ over the shared rows",
    "max-connectivity": "the largest λ",
    "max-volume": "rows that the busiest rank sends and receives in an expand",
    "concurrent-volume": "rows in a hypercube exchange, copies that move together counted once",
    "imbalance": "heaviest part over the mean part, less 1",
    "seconds": "of cutting",
}
WITH_COSTS = "a shared row counts times the cost of its net, but for max-connectivity"
NO_ROWS = "here {}, none of which travels: --model column-net-self-loops counts rows that do"
UNUSED = (
    *("method", "objective", "engine", "output", "memory_limit", "start", "refine"),
    "further_weights",
)


def run(settings: CutSettings) -> None:
    """Read, cut by every method, say, write."""
    check_out(settings.out, settings.data)
    data = load_any(settings.data, settings.format, settings.model)
    words = in_words(data, settings.data)
    say(words)
    say(f"cutting into {counted(settings.parts, 'part')}, by one method after the other …")
    seed = settings.random_state
    model = build(data, settings.model, n_parts=settings.parts, random_state=seed)
    comparison = compare_partitions(
        model, settings.parts, epsilon=settings.epsilon, random_state=seed, rho=settings.rho
    )
    say(repr(comparison))
    explained = {name: WORDS[name] for name in comparison.metrics}
    if model.name in WITHOUT_ROWS:
        explained["rows"] = NO_ROWS.format(WITHOUT_ROWS[model.name])
    if (model.hypergraph.net_costs != 1).any():
        explained["costs"] = WITH_COSTS
    say("\n".join(f"  {name}: {meaning}" for name, meaning in explained.items()))
    settings.out.mkdir(parents=True, exist_ok=True)
    say_files(_write(comparison, settings, words, explained), settings.out)


def _write(
    comparison: Comparison, settings: CutSettings, words: str, explained: dict[str, str]
) -> list[tuple[Path, str]]:
    heads = ["method", *comparison.metrics]
    lines = [[name, *row.values()] for name, row in comparison.values.items()]
    table = write_table(settings.out / "comparison.csv", heads, lines)
    album = Album(settings.out, settings.plots)
    if album.draws:
        from daskpart import plots

        album.draw(
            "comparison",
            (9.4, 4.0),
            partial(plots.partition_comparison, comparison),
            alt="For each metric a bar a method, relative to the first method",
            caption="Every metric as a share of what the first method has; seconds in the key.",
        )
    page = write_page(
        "comparison.html",
        album,
        title=f"{Path(settings.data).name} in {counted(settings.parts, 'part')}",
        lead=words,
        heads=heads,
        lines=lines,
        words=explained,
        settings={name: value for name, value in vars(settings).items() if name not in UNUSED},
    )
    return [(table, "the table, as text"), *page]
