"""Libraries that multiply and train on graphs, as peers: torch, PyTorch Geometric, DGL.

They need not be installed where daskpart is: DASKPART_PEERS=/path/to/site-packages names a folder
whose packages are taken where this environment has none of that name.
"""

from __future__ import annotations

import importlib
import os
import sys
import types
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np


def load(name: str) -> Any:
    """The module of a peer: "torch", "torch_geometric.nn", "dgl".

    Raises
    ------
    NotImplementedError
        Where it is not installed or does not load, with the reason; asv takes it as "skip".
    """
    folder = os.environ.get("DASKPART_PEERS")
    if folder and folder not in sys.path:
        sys.path.append(folder)
    if name == "dgl":
        # its library for sampling is built for few versions of torch; full batches do without
        sys.modules.setdefault("dgl.graphbolt", types.ModuleType("dgl.graphbolt"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except Exception as error:  # an ImportError, or what a library raises that finds no own parts
        first = str(error).strip().splitlines()[:1]
        raise NotImplementedError(f"{name}: {type(error).__name__} {first}") from error


def skipped(names: tuple[str, ...]) -> dict[str, str]:
    """Name → why, of the peers that do not load."""
    found = {}
    for name in names:
        try:
            load(name)
        except NotImplementedError as reason:
            found[name] = str(reason)
    return found


def torch_csr(matrix: Any) -> Any:
    """A sparse CSR tensor with int32 indices."""
    torch = load("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "in beta state"
        return torch.sparse_csr_tensor(
            torch.from_numpy(np.array(matrix.indptr, np.int32)),
            torch.from_numpy(np.array(matrix.indices, np.int32)),
            torch.from_numpy(np.array(matrix.data)),
            size=matrix.shape,
        )


def torch_product(matrix: Any, rows: np.ndarray, n_threads: int = 1) -> Callable[[], Any]:
    """What multiplies a sparse matrix by dense rows in torch."""
    torch = load("torch")
    torch.set_num_threads(n_threads)
    left, right = torch_csr(matrix), torch.from_numpy(rows)
    return lambda: left @ right


def epoch(
    peer: str,
    adjacency: Any,
    X: np.ndarray,
    y: np.ndarray,
    hidden: int,
    n_threads: int = 1,
    layer: str = "gcn",
) -> Callable[[], None]:
    """A full-batch epoch of a network of two layers: forward, backward, a step of Adam.

    Parameters
    ----------
    peer : {"DGL", "PyG", "torch CSR"}
        DGL's and PyG's own GraphConv and GCNConv, the latter by its edge index with the
        normalisation cached; or torch.sparse by hand, which has no "gat".
    adjacency : scipy CSR array
        Unweighted and undirected, without loops.
    X : float32 ndarray of shape (n, d)
    y : int64 ndarray of shape (n,)
        All vertices are trained on.
    hidden : int
    n_threads : int
    layer : {"gcn", "gat"}
        Of a hidden layer of "gat", `HEADS` heads share the columns.
    """
    torch = load("torch")
    torch.set_num_threads(n_threads)
    torch.manual_seed(0)
    features, labels = torch.from_numpy(X), torch.from_numpy(y)
    widths = (X.shape[1], hidden, int(y.max()) + 1)
    layers, call = _LAYERS[peer](torch, adjacency, widths, layer)
    step = torch.optim.Adam(layers.parameters(), lr=0.01, weight_decay=5e-4)

    def one_epoch() -> None:
        step.zero_grad()
        values = torch.nn.functional.dropout(features, 0.5)
        values = torch.relu(call(layers[0], values))
        outputs = call(layers[1], torch.nn.functional.dropout(values, 0.5))
        torch.nn.functional.cross_entropy(outputs, labels).backward()
        step.step()

    return one_epoch


def sampled_epoch(
    adjacency: Any,
    X: np.ndarray,
    y: np.ndarray,
    hidden: int,
    batch_size: int,
    fanouts: Sequence[int],
    n_threads: int = 1,
    layer: str = "sage",
) -> Callable[[], None]:
    """An epoch of mini-batches of DGL: its NeighborSampler, and a network of two layers on blocks.

    Parameters
    ----------
    batch_size : int
        Seeds of a mini-batch: all vertices are trained on.
    fanouts : sequence of int
        Neighbours of each vertex, by layer.
    layer : {"sage", "gcn", "gat"}
    adjacency, X, y, hidden, n_threads
        As of `epoch`.
    """
    torch, dgl = load("torch"), load("dgl")
    nn, loading = load("dgl.nn.pytorch"), load("dgl.dataloading")
    torch.set_num_threads(n_threads)
    torch.manual_seed(0)
    ends = adjacency.tocoo()
    graph = dgl.graph((ends.col.astype(np.int64), ends.row.astype(np.int64)))
    widths = (X.shape[1], hidden, int(y.max()) + 1)
    if layer == "sage":
        made = [nn.SAGEConv(*pair, "mean") for pair in pairwise(widths)]
    elif layer == "gat":
        made = [nn.GATConv(*sizes) for sizes in _heads(widths)]
    else:
        made = [nn.GraphConv(*pair) for pair in pairwise(widths)]
    if layer != "sage":
        graph = dgl.add_self_loop(graph)
    features, labels = torch.from_numpy(X), torch.from_numpy(y)
    layers = torch.nn.ModuleList(made)
    step = torch.optim.Adam(layers.parameters(), lr=0.01, weight_decay=5e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it would bind threads to cores
        batches = loading.DataLoader(
            graph, torch.arange(len(y)), loading.NeighborSampler(list(fanouts)), shuffle=True,
            batch_size=batch_size, num_workers=0, use_prefetch_thread=False,
        )  # fmt: skip

    def one_epoch() -> None:
        dropout = torch.nn.functional.dropout
        for sources, seeds, (first, last) in batches:
            values = layers[0](first, dropout(features[sources], 0.5))
            outputs = layers[1](last, dropout(torch.relu(values.flatten(1)), 0.5)).flatten(1)
            step.zero_grad()
            torch.nn.functional.cross_entropy(outputs, labels[seeds]).backward()
            step.step()

    return one_epoch


def _torch_layers(
    torch: Any, adjacency: Any, widths: tuple[int, ...], layer: str
) -> tuple[Any, Any]:
    from .data import normalised

    if layer != "gcn":
        raise NotImplementedError(f"torch CSR has no {layer}")

    matrix = torch_csr(normalised(adjacency))
    layers = torch.nn.ModuleList(torch.nn.Linear(*pair) for pair in pairwise(widths))
    # the bias goes through Â too, which takes no more time
    return layers, lambda layer, values: matrix @ layer(values)


def _heads(widths: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """Columns in, columns of a head, and heads of both layers of a GAT."""
    inputs, hidden, outputs = widths
    return [(inputs, hidden // HEADS, HEADS), (hidden, outputs, 1)]


def _pyg_layers(torch: Any, adjacency: Any, widths: tuple[int, ...], layer: str) -> tuple[Any, Any]:
    nn = load("torch_geometric.nn")
    ends = adjacency.tocoo()
    edges = torch.from_numpy(np.stack([ends.col, ends.row]).astype(np.int64))
    if layer == "gat":
        made = [nn.GATConv(*pair, heads=heads) for *pair, heads in _heads(widths)]
    else:
        made = [nn.GCNConv(*pair, cached=True) for pair in pairwise(widths)]
    layers = torch.nn.ModuleList(made)
    return layers, lambda layer, values: layer(values, edges)


def _dgl_layers(torch: Any, adjacency: Any, widths: tuple[int, ...], layer: str) -> tuple[Any, Any]:
    dgl = load("dgl")
    nn = load("dgl.nn.pytorch")
    ends = adjacency.tocoo()
    graph = dgl.add_self_loop(
        dgl.graph((ends.col.astype(np.int32), ends.row.astype(np.int32)), idtype=torch.int32)
    )
    if layer == "gat":
        layers = torch.nn.ModuleList(nn.GATConv(*sizes) for sizes in _heads(widths))
        return layers, lambda layer, values: layer(graph, values).flatten(1)  # heads side by side
    layers = torch.nn.ModuleList(nn.GraphConv(*pair) for pair in pairwise(widths))
    return layers, lambda layer, values: layer(graph, values)


_LAYERS = {"DGL": _dgl_layers, "PyG": _pyg_layers, "torch CSR": _torch_layers}
PEERS = tuple(_LAYERS)
HEADS = 8
