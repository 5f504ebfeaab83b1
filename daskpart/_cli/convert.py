"""`daskpart convert`: data as a hypergraph in the text that another partitioner reads, or a graph
and its parts as another library trains on them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from daskpart.data_models import DataModel, build
from daskpart.errors import InputError
from daskpart.hypergraph import Hypergraph
from daskpart.layouts import write_layout
from daskpart.readers.detection import suffix_format

from .files import check_target, place_for
from .inputs import in_words, load_any, load_graph_matrix, load_parts, sizes_of
from .terminal import say

_WRITTEN = ("hgr", "patoh", "metis")


def run(
    source: str,
    target: Path,
    model: str,
    format: str | None,
    to: str | None,
    partition: Path | None,
) -> None:
    """Read, build the model or take the parts, write."""
    if (to is None) != (partition is None):
        raise InputError("--to needs --partition, and --partition needs --to")
    if to is not None and partition is not None:
        matrix, parts = load_graph_matrix(source, format), load_parts(partition)
        say(f"{source}: {matrix.nnz:,} edges of {matrix.shape[0]:,} vertices")
        write_layout(matrix, parts, target, to)
        say(f"  {target}  {to}: {parts.n_vertices:,} vertices in {parts.n_parts} parts")
        return
    if target.is_dir() or suffix_format(str(target)) not in _WRITTEN:
        what = "is a folder" if target.is_dir() else "tells no format that is written"
        raise InputError(f"{target} {what}: name a file that ends in .hgr, .u or .graph")
    check_target(target, source)
    data = load_any(source, format, model)
    say(in_words(data, source))
    if model == "auto" and not isinstance(data, DataModel):
        if suffix_format(str(target)) == "metis":
            model = "graph"  # of a column-net whose nets are pairs it would be a graph of rows
            if len(set(data.shape)) > 1:
                told = " × ".join(map(str, data.shape))
                raise InputError(
                    f"{target.name} is to be a graph, and {source} is {told}: write .hgr or .u"
                )
    built = build(data, model)
    graph = _with_pins(built.hypergraph)
    graph.write(place_for(target))
    say(f"  {target}  {built.name}: {sizes_of(graph, built.name)}")
    if graph.n_nets < built.hypergraph.n_nets:
        n_left_out = built.hypergraph.n_nets - graph.n_nets
        say(f"  left out: {n_left_out:,} nets without pins, which no cut touches")


def _with_pins(graph: Hypergraph) -> Hypergraph:
    """Without empty nets: KaHyPar and Mt-KaHyPar refuse a file that has one."""
    filled = np.diff(graph.net_pointer) > 0
    pointer = np.append(0, graph.net_pointer[1:][filled])
    return replace(graph, net_pointer=pointer, net_costs=graph.net_costs[filled])
