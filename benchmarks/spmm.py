"""Products over the edges of a graph: sparse times dense, and attention, on one thread.

The peers multiply the same normalised adjacency by the same rows, float32 with int32 indices. The
rows begin with a cache line, as those of a layer's dense product do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from daskpart._floor.lanes import aligned_rows
from daskpart.models.graph_convolution.kernels import (
    edge_softmax,
    edge_softmax_backward,
    sddmm,
    spmm,
    spmm_transposed,
)
from daskpart.models.graph_convolution.ranks import near_neighbours
from daskpart.partitions import Partition

from . import graph_peers
from .data import normalised, undirected

GRAPHS = ["arxiv-like", "coauthor-physics"]


class Product:
    """out += Â H."""

    params = (
        GRAPHS, [16, 64, 128],
        [
            "ours", "ours, neighbours near", "ours, transposed", "ours, as one row", "scipy CSR",
            "torch CSR",
        ],
    )  # fmt: skip
    param_names = ("graph", "columns", "how")
    timeout = 600

    def setup(self, name: str, columns: int, how: str) -> None:
        self.matrix = normalised(undirected(name))
        random = np.random.default_rng(0)
        shape = self.matrix.shape[0], columns
        self.rows, self.out = (aligned_rows(*shape, np.float32) for _ in range(2))
        random.random(dtype=np.float32, out=self.rows)
        self.out[:] = 0
        self.run = self.ready(how)
        self.run()  # compiles

    def ready(self, how: str) -> Callable[[], Any]:
        """What multiplies once."""
        matrix, rows, out = self.matrix, self.rows, self.out
        entries = matrix.indptr, matrix.indices, matrix.data
        joined = np.array([0, matrix.nnz]), *entries[1:]
        if how == "torch CSR":
            return graph_peers.torch_product(matrix, rows)
        if how == "ours, neighbours near":
            return lambda near=self.near: spmm(near.indptr, near.indices, near.data, rows, out)
        return {
            "ours": lambda: spmm(*entries, rows, out),
            "ours, transposed": lambda: spmm_transposed(*entries, rows, out),
            "ours, as one row": lambda: spmm(*joined, rows, out[:1]),
            "scipy CSR": lambda: matrix @ rows,
        }[how]

    @cached_property
    def near(self) -> Any:
        """The matrix with its vertices in the order in which a rank has them in a fit."""
        one_part = Partition(np.zeros(self.matrix.shape[0], np.int32), 1)
        (own,) = near_neighbours(self.matrix, one_part, symmetric=True)
        near = self.matrix[own][:, own]
        near.sort_indices()
        return near

    def time_product(self, name: str, columns: int, how: str) -> None:
        """Once."""
        self.run()

    @property
    def n_bytes(self) -> int:
        """A row for each entry, the entries, and the result read and written."""
        row = self.rows.strides[0]
        return self.matrix.nnz * (8 + row) + self.matrix.shape[0] * (4 + 2 * row)


class Attention:
    """Eight heads of eight columns, as GAT has them."""

    params = (GRAPHS, ["softmax", "softmax, backward", "product", "product, backward"])
    param_names = ("graph", "step")
    timeout = 600
    n_heads = 8

    def setup(self, name: str, step: str) -> None:
        matrix = normalised(undirected(name))
        self.entries = matrix.indptr, matrix.indices
        random, n = np.random.default_rng(0), matrix.shape[0]
        self.scores = random.normal(size=(n, self.n_heads)).astype(np.float32)
        self.rows = random.normal(size=(n, 8 * self.n_heads)).astype(np.float32)
        self.attention = edge_softmax(*self.entries, self.scores, self.scores)
        self.of_attention = random.normal(size=self.attention.shape).astype(np.float32)
        self.out, self.into = np.zeros_like(self.rows), np.zeros_like(self.scores)
        self.time_step(name, step)  # compiles

    def time_step(self, name: str, step: str) -> None:
        """One of the steps of a layer."""
        if step == "softmax":
            edge_softmax(*self.entries, self.scores, self.scores)
        elif step == "softmax, backward":
            edge_softmax_backward(
                *self.entries, self.scores, self.scores, self.attention, self.of_attention,
                self.into, self.into,
            )  # fmt: skip
        elif step == "product":
            spmm(*self.entries, self.attention, self.rows, self.out)
        else:
            sddmm(*self.entries, self.rows, self.rows, self.of_attention)
            spmm_transposed(*self.entries, self.attention, self.rows, self.out)
