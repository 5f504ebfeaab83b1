"""Modules of PyTorch, trained full batch over parts of a graph: exchanges that autograd knows.

    own rows ─► exchange ─► own rows, then those of the halo ─► any layer ─► first n_own rows
    gradient ◄─ of own rows, with what other ranks had of them ◄──── gradient of all rows

Every rank runs the same function on its own vertices. What an exchange moves there and back is
equation 11 (Demirci et al., VLDB 2022) for one layer, so a cut by connectivity is the right one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.checks import one_of, whole_number
from daskpart.collectives import (
    Communicator,
    Counters,
    PerRank,
    PreparedPlan,
    allreduce,
    communicator_for,
    expand,
    reduce,
)
from daskpart.collectives.transports.threads import ThreadsCommunicator
from daskpart.errors import InputError, MissingPackageError
from daskpart.models.base.plan import check_partitioner
from daskpart.partitions import Partition

from .communication import product_plan
from .graph import read_graph
from .kernels import spmm, spmm_transposed
from .operators import operator_of, with_loops
from .plan import PARTITIONERS, vertex_partition
from .ranks import Halves, RankGraph, cut_graph
from .vertex_names import in_order, names_of_rows, that_name


class RunOnParts(NamedTuple):
    """What `run_on_parts` gives.

    Attributes
    ----------
    results : list
        What the function returned, rank by rank.
    partition : Partition
        Of the vertices; rank r has ``partition.members(r)``, rising.
    counters : Counters
        What was sent; label "halo" there, "halo back" for gradients.
    """

    results: list[Any]
    partition: Partition
    counters: Counters


class HaloExchange:
    """Rows of own vertices to rows of own vertices and of the halo, on one rank; differentiable.

    Made by `run_on_parts`. Ranks must call it, and go backward through it, in the same order.

    Parameters
    ----------
    comm : Communicator
        Of one rank.
    graph : RankGraph
        With joined columns.
    there, back : PreparedPlan
        Rows to those that read them, and gradients to the owners.

    Attributes
    ----------
    n_own : int
        Vertices of this rank.
    own, halo : int64 ndarray
        Their ids, rising; and those of the vertices of others that they read.
    """

    def __init__(
        self, comm: Communicator, graph: RankGraph, there: PreparedPlan, back: PreparedPlan
    ) -> None:
        self._comm, self._there, self._back = comm, there, back
        self._halves = graph.forward
        self.own, self.halo = graph.own, graph.forward.halo
        self.n_own = len(self.own)

    def __call__(self, rows: Any) -> Any:
        """Own rows, and behind them those of the halo.

        Parameters
        ----------
        rows : Tensor of shape (n_own, …)

        Returns
        -------
        Tensor of shape (n_own + n_halo, …)
            What `product` takes; sources of `edge_index` are places in it.
        """
        if len(rows) != self.n_own:
            raise InputError(f"{len(rows)} rows, but this rank has {self.n_own} vertices")
        return _functions()[0].apply(rows, self)

    def product(self, rows: Any) -> Any:
        """This rank's rows of Â, times rows of own vertices and of the halo.

        Parameters
        ----------
        rows : Tensor of shape (n_own + n_halo, d)
            Of the type of Â.

        Returns
        -------
        Tensor of shape (n_own, d)

        Raises
        ------
        InputError
            For rows of another number, such as own ones that were not exchanged.
        """
        n_rows = self.n_own + len(self.halo)
        if rows.ndim != 2 or len(rows) != n_rows:
            raise InputError(
                f"rows have shape {tuple(rows.shape)}, and product takes {n_rows}: those of "
                f"{self.n_own} own vertices and {len(self.halo)} of the halo, as the exchange "
                "itself gives them"
            )
        return _functions()[1].apply(rows, self._halves)

    @property
    def edge_index(self) -> Any:
        """Whom own vertices read, and they, as PyTorch Geometric has it; int64, shape (2, m)."""
        indptr, indices, _ = self._halves.local
        readers = np.repeat(np.arange(self.n_own), np.diff(indptr))
        return _torch().from_numpy(np.stack([indices.astype(np.int64), readers]))

    @property
    def edge_weight(self) -> Any:
        """Entries of Â in the order of `edge_index`, of shape (m,)."""
        return _torch().from_numpy(np.array(self._halves.local[2]))

    def total(self, value: float) -> float:
        """The sum of a number over all ranks: a loss, or hits."""
        return float(allreduce(self._comm, PerRank(self._comm, float(value))).result())

    def sum_gradients(self, module: Any) -> None:
        """Add up the gradients of all ranks, in one message; the loss is a sum over vertices.

        Weights that are equal on all ranks stay so, whatever the optimiser.
        """
        torch = _torch()
        weights = [weight for weight in module.parameters() if weight.requires_grad]
        own = [torch.zeros_like(each) if each.grad is None else each.grad for each in weights]
        flat = torch.cat([gradient.reshape(-1) for gradient in own]).numpy()
        summed = allreduce(self._comm, PerRank(self._comm, flat), algorithm="hypercube").result()
        pieces = torch.from_numpy(np.array(summed)).split([weight.numel() for weight in weights])
        for weight, piece in zip(weights, pieces, strict=True):
            weight.grad = piece.reshape(weight.shape)

    def rows_of_all(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Own rows, and those of the halo."""
        whole = np.empty((self.n_own + len(self.halo), *rows.shape[1:]), rows.dtype)
        whole[: self.n_own] = rows
        return expand(self._comm, self._there, PerRank(self._comm, whole)).content

    def gradient_of_own(self, gradient: NDArray[Any]) -> NDArray[Any]:
        """Of own rows, with what other ranks had of them, added in rank order."""
        return reduce(self._comm, self._back, PerRank(self._comm, gradient)).content[: self.n_own]


def _torch() -> Any:
    """PyTorch, which need not be installed for anything else."""
    try:
        import torch
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            "daskpart.torch needs torch: pip install 'daskpart[torch]'"
        ) from error
    return torch


@cache
def _functions() -> tuple[Any, Any]:
    """Exchange and product as autograd functions; made when PyTorch is first needed."""
    torch = _torch()
    function: Any = torch.autograd.Function

    class Exchange(function):
        @staticmethod
        def forward(ctx: Any, rows: Any, exchange: HaloExchange) -> Any:
            ctx.exchange = exchange
            return torch.from_numpy(exchange.rows_of_all(rows.detach().numpy()))

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> tuple[Any, None]:
            # a copy: the owners add to it, and torch may use it elsewhere
            return torch.from_numpy(ctx.exchange.gradient_of_own(gradient.numpy().copy())), None

    class Product(function):
        @staticmethod
        def forward(ctx: Any, rows: Any, halves: Halves) -> Any:
            ctx.halves = halves
            H = rows.detach().contiguous().numpy()
            out = np.zeros((halves.n_own, H.shape[1]), H.dtype)
            spmm(*halves.local, H, out)
            return torch.from_numpy(out)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> tuple[Any, None]:
            G = gradient.contiguous().numpy()
            halves: Halves = ctx.halves
            into = np.zeros((halves.n_own + halves.n_halo, G.shape[1]), G.dtype)
            spmm_transposed(*halves.local, G, into)
            return torch.from_numpy(into), None

    return Exchange, Product


def run_on_parts(
    function: Callable[..., Any],
    graph: Any,
    *arrays: Any,
    n_ranks: int,
    partitioner: Any = "connectivity",
    operator: str = "normalised",
    symmetrize: bool = False,
    dtype: str = "float32",
    transport: str = "local",
    client: Any = None,
    random_state: int = 0,
    **static: Any,
) -> RunOnParts:
    """Cut a graph, and run ``function(exchange, *own rows of the arrays, **static)`` on every rank.

    Parameters
    ----------
    function : callable
        Its first argument is a `HaloExchange`.
    graph : container
        As `GCNClassifier.fit` takes it.
    *arrays : ndarray, Series, DataFrame or DataArray of shape (n, …)
        One row a vertex, in the order of the graph or named by an index, as features of
        `GCNClassifier` are; each rank gets its own rows.
    n_ranks : int
    partitioner
        As for `GCNClassifier`.
    operator : {"normalised", "mean", "sum", "pattern"}, default="normalised"
        Â: D^−1/2 (A + I) D^−1/2, I where A has no loop; D^−1 A; A + I; or ones at all edges and on
        the diagonal.
    symmetrize : bool, default=False
        Whether an edge counts both ways; where both are there, with the larger weight.
    dtype : {"float32", "float64"}, default="float32"
        Of the entries of Â.
    transport : {"local", "dask", "mpi"}, default="local"
        "local": a thread of this process for each rank.
    client : distributed.Client, optional
        For the other two; default: the current one.
    random_state : int, default=0
        Of the partition.
    **static : object
        The same for every rank, each with a copy of its own: a module travels with its weights.

    Returns
    -------
    RunOnParts
        A tuple: `results`, what the function returned, rank by rank; `partition` of the vertices,
        rank r has ``partition.members(r)``; `counters` of what was sent, under the labels "halo"
        and "halo back".

    Raises
    ------
    InputError
        For a graph that cannot be read, arrays of another length, or a word that is not allowed.
    MissingPackageError
        Where PyTorch is not installed.
    """
    _torch()
    n_ranks = whole_number(n_ranks, "n_ranks", least=1)
    check_partitioner(partitioner, [*PARTITIONERS], n_ranks)
    one_of(transport, "transport", ("local", "dask", "mpi"))
    one_of(dtype, "dtype", ("float32", "float64"))
    rows, named = [np.asarray(array) for array in arrays], [*map(names_of_rows, arrays)]
    n, names = (len(rows[0]), named[0]) if rows else (None, None)
    read = read_graph(graph, n, names, symmetrize)
    adjacency = read.adjacency
    lengths = {len(array) for array in rows} - {adjacency.shape[0]}
    if lengths:
        raise InputError(
            f"the graph has {adjacency.shape[0]} vertices, an array has {min(lengths)} rows: give "
            "one row for each vertex"
        )
    for place, given in enumerate(named):
        own = that_name(given, read.names, len(rows[place]))
        order = in_order(read.names, own, "rows of an array")
        rows[place] = rows[place] if order is None else rows[place][order]
    matrix = operator_of(operator, adjacency, dtype)
    pattern = with_loops(adjacency)
    partition = vertex_partition(pattern, n_ranks, partitioner, random_state)
    plan = product_plan(pattern, partition, "expand")
    members = [partition.members(rank) for rank in range(n_ranks)]
    graphs = cut_graph(matrix, members, plan, None, joined=True)
    local = transport == "local"
    with (
        ThreadsCommunicator(n_ranks)
        if local
        else communicator_for(transport, n_ranks, client) as comm
    ):
        numbering = comm.values([part.columns_of(part.forward) for part in graphs])
        there = comm.prepare(plan, numbering, "halo")
        back = comm.prepare(plan.reversed(), numbering, "halo back")
        held = comm.values([(part, [array[part.own] for array in rows]) for part in graphs])
        results = comm.run(_on_rank, held, there, back, function=function, static=static)
        return RunOnParts(comm.gather(results) or [], partition, comm.counters)


def _on_rank(
    comm: Communicator, held: PerRank, there: PreparedPlan, back: PreparedPlan, *,
    function: Callable[..., Any], static: dict[str, Any],
) -> PerRank:  # fmt: skip
    graph, rows = held.content
    exchange = HaloExchange(comm, graph, there, back)
    return PerRank(comm, function(exchange, *map(_tensor, rows), **static))


def _tensor(array: NDArray[Any]) -> Any:
    return _torch().from_numpy(np.array(array))
