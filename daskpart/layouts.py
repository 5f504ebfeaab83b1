"""A graph and its parts in the layouts that other libraries train and partition from.

    write_layout(A, partition, "cut", "dgl")        DGL: chunked graph and partition assignment
    write_layout(A, partition, "cut", "pyg")        PyTorch Geometric: `torch_geometric.distributed`
    write_layout(A, partition, "cut", "parmetis")   ParMETIS: distributed CSR, a file a rank

Row i of A says whom vertex i reads, so the entry (i, j) is the edge j → i there, and lies with the
part of i, as in all three. Edges are numbered in the order of A's rows.

    dgl       metadata.json  edges/…csv  edge_data/…npy      in-dir of tools/dispatch_data.py
              partition/node.txt  partition_meta.json        its partitions-dir
    pyg       META.json  node_map.pt  edge_map.pt  part_0/graph.pt  node_feats.pt  edge_feats.pt
    parmetis  rank0.npz: vtxdist, xadj, adjncy, vwgt, adjwgt (the arguments of ParMETIS_V3_PartKway)
              and vertices, which vertex of A each of its rows is

Where vertices have names, names.txt holds that of vertex 0, of vertex 1 and so on, one a line.

Sources: DGL user guide, §7.1.2 (chunked graph format); `torch_geometric.distributed.Partitioner`;
Karypis, Schloegel, ParMETIS manual 4.0, §4.2.1.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from ._floor.atomic import kept_words, partial_of, remove, remove_left_behind
from ._floor.checks import one_of, path_text, require_partition
from .containers.dask_blocks import cut_by_part
from .containers.matrix import as_graph_matrix
from .errors import InputError
from .partitions import Partition
from .writers import write_parts, write_rows

LAYOUTS = ("dgl", "pyg", "parmetis")
_NODE, _EDGE = "node", "node:edge:node"


def write_layout(
    graph: Any, partition: Partition, folder: str | PathLike[str], layout: str
) -> Path:
    """Write a graph and its parts for another library.

    Parameters
    ----------
    graph : container of shape (n, n)
        Anything that `daskpart.partition` takes as a matrix.
    partition : Partition
        Of its n rows.
    folder : path-like
        Made if it is not there. Files in it of the same names are replaced when all are written;
        names.txt, and the rank….npz of more parts, which would be read as of this graph, go.
    layout : {"dgl", "pyg", "parmetis"}
        "pyg" needs torch.

    Returns
    -------
    pathlib.Path
        The folder.

    Raises
    ------
    InputError
        The graph is not square, the partition does not fit, a part is empty, the name of a
        vertex has a line break, or torch is missing.
    OSError
        When the disk refuses.
    """
    one_of(layout, "layout", LAYOUTS)
    require_partition(partition)
    place = Path(path_text(folder, "folder")).expanduser()
    if place.exists() and not place.is_dir():
        raise InputError(f"{place} is a file: give a folder")
    instead = "a graph has as many columns as rows; for other data write a hypergraph (.hgr)"
    entries = as_graph_matrix(graph, f"{layout} needs", instead)
    n = entries.shape[0]
    partition.check_fits(n, "the graph", "rows")
    empty = np.flatnonzero(np.bincount(partition.assignment, minlength=partition.n_parts) == 0)
    if empty.size:
        raise InputError(f"part {empty[0]} is empty: these layouts have a rank for every part")
    values = np.asarray(entries.values, np.float64)
    matrix = scipy.sparse.csr_array((values, (entries.rows, entries.columns)), shape=(n, n))
    matrix.sort_indices()
    names = _checked_names(entries.row_labels)
    with _filling(place) as beside:
        if layout == "dgl":
            _write_dgl(matrix, partition, beside, place.resolve().name)
        elif layout == "pyg":
            _write_pyg(matrix, partition, beside)
        else:
            _write_parmetis(matrix, partition, beside)
        if names is not None:
            text = "".join(f"{name}\n" for name in names)
            (beside / "names.txt").write_text(text, encoding="utf-8", newline="\n")
    return place


@contextmanager
def _filling(place: Path) -> Iterator[Path]:
    """An empty folder whose files go to `place` when the context is left without an error.

    A folder that is there may hold files of others: it stays, and its files change one by one.
    """
    place = place.resolve()
    target = place / "layout" if place.exists() else place
    beside = partial_of(target)
    try:
        beside.mkdir(parents=True)
        remove_left_behind(target)
        yield beside
        if not place.exists():
            os.replace(beside, place)
            return
        written = [path.relative_to(beside) for path in beside.rglob("*") if path.is_file()]
        for path in written:
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            os.replace(beside / path, place / path)
        of_before = [place / "names.txt"]
        if Path("rank0.npz") in written:
            of_before += [r for r in place.glob("rank*.npz") if r.stem[len("rank") :].isdecimal()]
        for path in of_before:
            if path.relative_to(place) not in written:
                path.unlink(missing_ok=True)
    except OSError as error:
        words = f"{error.strerror or error}; {kept_words(place)}"
        raise OSError(error.errno, words, os.fspath(place)) from error
    finally:
        remove(beside)


def _checked_names(labels: Any) -> list[str] | None:
    """The names of the vertices; one with a line break would be two lines of names.txt."""
    if labels is None:
        return None
    names = [str(name) for name in labels.tolist()]
    for name in names:
        if len(name.splitlines()) > 1 or name.endswith(("\n", "\r")):
            raise InputError(
                f"the vertex {name!r} has a line break in its name, and names.txt holds a name a "
                "line: rename it"
            )
    return names


def _edges(matrix: Any) -> tuple[Any, Any]:
    """Source and destination of each edge, in the order of the rows."""
    n = matrix.shape[0]
    return matrix.indices.astype(np.int64), np.repeat(np.arange(n), np.diff(matrix.indptr))


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")


# -- DGL ---


def _write_dgl(matrix: Any, partition: Partition, place: Path, name: str) -> None:
    """A chunk for each part: the edges into its vertices."""
    for folder in ("edges", "edge_data", "partition"):
        (place / folder).mkdir()
    source, destination = _edges(matrix)
    has_weights = bool((matrix.data != 1).any())
    part_of_edge = partition.assignment[destination]
    pieces = cut_by_part(part_of_edge, partition.n_parts, source, destination, matrix.data)
    edges, weights = [], []
    for part, (*ends, data) in enumerate(pieces):
        edges.append(f"edges/part{part}.csv")
        write_rows(np.stack(ends, axis=1), place / edges[-1])
        if has_weights:
            weights.append(f"edge_data/weight-part{part}.npy")
            np.save(place / weights[-1], data.astype(np.float32))
    of_edges = {"weight": {"format": {"name": "numpy"}, "data": weights}}
    metadata = {
        "graph_name": name,
        "node_type": [_NODE],
        "num_nodes_per_type": [matrix.shape[0]],
        "edge_type": [_EDGE],
        "num_edges_per_type": [int(matrix.nnz)],
        "edges": {_EDGE: {"format": {"name": "csv", "delimiter": " "}, "data": edges}},
        "node_data": {},
        "edge_data": {_EDGE: of_edges} if has_weights else {},
    }
    _write_json(place / "metadata.json", metadata)
    write_parts(partition.assignment, place / "partition" / f"{_NODE}.txt")
    # DGL knows two names, "random" and "metis"
    meta = {"version": "1.0.0", "num_parts": partition.n_parts, "algo_name": "metis"}
    _write_json(place / "partition" / "partition_meta.json", meta)


# -- PyTorch Geometric ---


def _write_pyg(matrix: Any, partition: Partition, place: Path) -> None:
    try:
        import torch
    except ImportError as error:
        raise InputError("layout 'pyg' is files of torch: pip install torch") from error
    source, destination = _edges(matrix)
    has_weights = bool((matrix.data != 1).any())
    node_map = partition.assignment.astype(np.int64)
    edge_map = node_map[destination]
    numbers = np.arange(matrix.nnz)
    pieces = cut_by_part(partition.assignment[destination], partition.n_parts, numbers)
    for part, (edges,) in enumerate(pieces):  # sorted by destination, as is_sorted says
        folder = place / f"part_{part}"
        folder.mkdir()
        graph = {
            "edge_id": torch.from_numpy(edges),
            "row": torch.from_numpy(source[edges]),
            "col": torch.from_numpy(destination[edges]),
            "size": matrix.shape,
        }
        torch.save(graph, folder / "graph.pt")
        nodes = torch.from_numpy(partition.members(part))
        torch.save({"global_id": nodes, "feats": {"x": None}}, folder / "node_feats.pt")
        of_edges = {}
        if has_weights:
            weights = torch.from_numpy(matrix.data[edges].astype(np.float32)[:, None])
            of_edges = {"global_id": torch.from_numpy(edges), "feats": {"edge_attr": weights}}
        torch.save(of_edges, folder / "edge_feats.pt")
    torch.save(torch.from_numpy(node_map), place / "node_map.pt")
    torch.save(torch.from_numpy(edge_map), place / "edge_map.pt")
    meta = {
        "num_parts": partition.n_parts,
        "node_types": None,
        "edge_types": None,
        "node_offset": None,
        "is_hetero": False,
        "is_sorted": True,
    }
    _write_json(place / "META.json", meta)


# -- ParMETIS ---


def _write_parmetis(matrix: Any, partition: Partition, place: Path) -> None:
    """Undirected and without loops, as ParMETIS has graphs; vertices renumbered part by part."""
    order = np.argsort(partition.assignment, kind="stable")
    counts = np.bincount(partition.assignment, minlength=partition.n_parts)
    begins = np.concatenate(([0], np.cumsum(counts)))
    pattern = scipy.sparse.csr_array(
        (np.ones(matrix.nnz, np.int64), matrix.indices, matrix.indptr), shape=matrix.shape
    )
    # the weight of an edge: how many of its two directions the graph has
    both = scipy.sparse.coo_array(pattern + pattern.T)
    keeps = both.row != both.col
    ends = both.row[keeps], both.col[keeps]
    undirected = scipy.sparse.csr_array((both.data[keeps], ends), shape=matrix.shape)
    renumbered: Any = undirected[order][:, order]
    renumbered.sort_indices()
    weights = partition.weights[order]
    for rank in range(partition.n_parts):
        begin, end = begins[rank], begins[rank + 1]
        first, last = renumbered.indptr[begin], renumbered.indptr[end]
        np.savez(
            place / f"rank{rank}.npz",
            vtxdist=begins.astype(np.int64),
            xadj=(renumbered.indptr[begin : end + 1] - first).astype(np.int64),
            adjncy=renumbered.indices[first:last].astype(np.int64),
            vwgt=weights[begin:end],
            adjwgt=renumbered.data[first:last],
            vertices=order[begin:end],
        )
