"""`daskpart convert`: data as a hypergraph in the text that another partitioner reads."""

from __future__ import annotations

from pathlib import Path

from daskpart.data_models import build

from .inputs import in_words, load_any
from .terminal import say


def run(source: str, target: Path, model: str, format: str | None) -> None:
    """Read, build the model, write."""
    data = load_any(source, format)
    say(in_words(data, source))
    built = build(data, model)
    built.hypergraph.write(target)
    graph = built.hypergraph
    say(
        f"  {target}  {built.name}: {graph.n_nets:,} nets with {graph.n_pins:,} pins on "
        f"{graph.n_vertices:,} vertices"
    )
