"""The Dask collection of shards: one `Shard` a key ``(name, rank)``.

A collection of our own, for the annotations that pin tasks to workers are lost in dask.array layers
(dask#7036). Its optimization culls and does nothing else; `daskpart.shards` draws the picture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import dask.threaded
import numpy as np
import numpy.typing as npt
import sparse
from dask.base import DaskMethodsMixin, get_scheduler, tokenize
from dask.core import flatten
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

from daskpart._floor.checks import whole_number
from daskpart._floor.rank_tasks import (
    DataNode,
    RankPlacement,
    Task,
    TaskRef,
    known_workers,
    scattered,
)
from daskpart._floor.sums import sums_by_key
from daskpart._floor.tables import html_lines, readable
from daskpart.connectivity import Connectivity
from daskpart.containers.matrix import LabelledMatrix, from_triples
from daskpart.containers.numbering import Numbering, number_touched
from daskpart.errors import InputError

from .rank_shard import Shard

if TYPE_CHECKING:
    import dask.array as da

    from daskpart.partitions import Partition


_MOST_LINES = 16
_HEADS = ("rank", "rows", "nonzeros", "bytes", "local", "owned", "nonlocal", "placement")


class Shards(DaskMethodsMixin):
    """A matrix held as one `Shard` a part; a Dask collection. Made by `daskpart.shard`.

    Attributes
    ----------
    partition : Partition
    connectivity : Connectivity
        Which part touches which column, with owners.
    shape : tuple of two int
        Of the matrix as it was given.
    axis : "rows" or "columns"
        What the partition splits. Under "columns" each shard holds columns of the matrix as its
        rows, and everything here but `shape`, `to_coo` and `to_matrix` speaks of the transpose.
    dtype : dtype
        Of the values.
    placement : tuple of str or None
        Address of each part's worker, where it was given to `persist`.
    labels : mapping
        ``row_labels``, ``column_labels``, ``row_name`` and ``column_name`` of the container.
    """

    __dask_scheduler__ = staticmethod(dask.threaded.get)

    def __init__(
        self,
        partition: Partition,
        connectivity: Connectivity,
        shape: tuple[int, int],
        dtype: Any,
        *,
        axis: Literal["rows", "columns"] = "rows",
        labels: Mapping[str, Any] | None = None,
        name: str | None = None,
        graph: HighLevelGraph | None = None,
        held: list[Shard] | None = None,
        numbering: Numbering | None = None,
        placement: tuple[str, ...] | None = None,
    ) -> None:
        self.partition = partition
        self.connectivity = connectivity
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.axis = axis
        self.labels = dict(labels or {})
        self.placement = placement
        self._numbering = number_touched(connectivity) if numbering is None else numbering
        self._held = held
        self._name = name
        self._graph = graph

    # what it is

    @property
    def n_parts(self) -> int:
        """Number of parts, and of shards."""
        return self.partition.n_parts

    @property
    def is_lazy(self) -> bool:
        """Whether the shards are tasks or lie on workers, rather than in this process."""
        return self._held is None

    @property
    def name(self) -> str:
        """First half of every key ``(name, rank)``."""
        if self._name is None:
            self._name = f"shards-{tokenize(self._held)}"
        return self._name

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Local, owned and nonlocal columns of each part, int64 of shape (n_parts, 3)."""
        return self._numbering.sizes

    @property
    def nnz_per_part(self) -> npt.NDArray[np.int64]:
        """Stored values of each part, int64 of shape (n_parts,)."""
        return sums_by_key(self.connectivity.parts, self.connectivity.counts, self.n_parts)

    @property
    def bytes_per_part(self) -> npt.NDArray[np.int64]:
        """Bytes of each shard, int64 of shape (n_parts,)."""
        ids = np.diff(self.partition.part_pointer) + self.sizes.sum(axis=1)
        return 8 * ids + self.nnz_per_part * (8 + self.dtype.itemsize)

    def rows_of(self, rank: int) -> npt.NDArray[np.int64]:
        """Global ids of the rows of one part, rising; nothing is computed."""
        return self.partition.members(rank)

    def items_of(self, rank: int) -> npt.NDArray[np.int64]:
        """Global ids of the columns that one part touches, in its local order: `Shard.items`."""
        return self._numbering.of_rank(whole_number(rank, "part", 0, self.n_parts - 1))

    # as a Dask collection

    def __dask_graph__(self) -> HighLevelGraph:
        if self._graph is None:
            assert self._held is not None
            keys = [(self.name, rank) for rank in range(self.n_parts)]
            nodes = {key: DataNode(key, held) for key, held in zip(keys, self._held, strict=True)}
            self._graph = HighLevelGraph.from_collections(self.name, nodes)
        return self._graph

    @property
    def dask(self) -> HighLevelGraph:
        """The task graph."""
        return self.__dask_graph__()

    def __dask_keys__(self) -> list[tuple[str, int]]:
        return [(self.name, rank) for rank in range(self.n_parts)]

    def __dask_layers__(self) -> tuple[str, ...]:
        return (self.name,)

    def __dask_tokenize__(self) -> tuple[str, str]:
        return (type(self).__name__, self.name)

    @staticmethod
    def __dask_optimize__(graph: Any, keys: Any, **_: Any) -> HighLevelGraph:
        if not isinstance(graph, HighLevelGraph):
            graph = HighLevelGraph.from_collections("shards", graph)
        return graph.cull(set(flatten(keys)))  # no more: pins live on the layers

    def __dask_postcompute__(self) -> tuple[Any, tuple[()]]:
        return list, ()

    def __dask_postpersist__(self) -> tuple[Any, tuple[()]]:
        return self._rebuild, ()

    def _rebuild(self, graph: Any, *, rename: Mapping[str, str] | None = None) -> Shards:
        name = (rename or {}).get(self.name, self.name)
        if not isinstance(graph, HighLevelGraph):  # futures, or all tasks of `dask.optimize`
            graph = HighLevelGraph.from_collections(name, dict(graph))
        return self._with_graph(name, graph)

    def _with_graph(
        self, name: str, graph: HighLevelGraph, placement: tuple[str, ...] | None = None
    ) -> Shards:
        return Shards(
            self.partition,
            self.connectivity,
            self.shape,
            self.dtype,
            axis=self.axis,
            labels=self.labels,
            name=name,
            graph=graph,
            numbering=self._numbering,
            placement=placement or self.placement,
        )

    def __len__(self) -> int:
        return self.n_parts

    # to where it is needed

    def compute(self, **kwargs: Any) -> list[Shard]:
        """Give the shards, one a part, in this process. Where they are here already, no task runs.

        Parameters
        ----------
        **kwargs
            As `dask.compute` takes them, such as ``scheduler="sync"``.
        """
        if self._held is not None:
            return list(self._held)
        # not dask.compute: on a cluster that would first bring all shards to one worker
        get = get_scheduler(scheduler=kwargs.pop("scheduler", None), collections=[self])
        keys = self.__dask_keys__()
        return list(get(self.__dask_optimize__(self.__dask_graph__(), keys), keys, **kwargs))

    def persist(
        self, client: Any = None, placement: Sequence[str] | None = None, **kwargs: Any
    ) -> Shards:
        """Compute the shards where they shall stay.

        Parameters
        ----------
        client : distributed.Client, optional
            Whose workers shall hold the shards; by default what Dask takes (the current client,
            or threads).
        placement : sequence of str, optional
            Address of the worker of each part; needs a client. Without it the scheduler chooses.
        **kwargs
            As `dask.persist` takes them.

        Returns
        -------
        Shards
            On a client at once: the futures may still be running.

        Raises
        ------
        InputError
            `placement` has no client, the wrong length, or names a worker that is not there (Dask
            would wait for it for ever).
        """
        if placement is None and client is None:
            return super().persist(**kwargs)
        if client is None:
            raise InputError("a placement was given without a client; give the client as well")
        from daskpart._sparse_fixes import protect

        protect(client)
        if placement is None:
            return client.persist(self, **kwargs)
        addresses = self._checked_placement(client, placement)
        if self._held is None:
            return client.persist(self._pinned(addresses), **kwargs)
        # scattered, not put in the graph: the scheduler need not see the data
        futures = {
            key: scattered(client, held, address)
            for key, held, address in zip(self.__dask_keys__(), self._held, addresses, strict=True)
        }
        graph = HighLevelGraph.from_collections(self.name, futures)
        return self._with_graph(self.name, graph, addresses)

    def _checked_placement(self, client: Any, placement: Sequence[str]) -> tuple[str, ...]:
        addresses = tuple(str(address) for address in placement)
        if len(addresses) != self.n_parts:
            raise InputError(
                f"a placement of {len(addresses)} workers was given for {self.n_parts} parts; "
                "give one address a part (addresses may repeat)"
            )
        there = known_workers(client)
        missing = sorted(set(addresses) - set(there))
        if missing:
            raise InputError(
                f"the placement names {missing[0]!r}, which is no worker of this client; "
                f"its workers are {sorted(there)}"
            )
        return addresses

    def _pinned(self, addresses: tuple[str, ...]) -> Shards:
        graph = self.__dask_graph__()
        pins = {"workers": RankPlacement(addresses), "allow_other_workers": False}
        shards = MaterializedLayer(dict(graph.layers[self.name]), annotations=pins)
        layers = {**graph.layers, self.name: shards}
        return self._with_graph(
            self.name, HighLevelGraph(layers, dict(graph.dependencies)), addresses
        )

    # as other containers

    @property
    def array(self) -> da.Array:
        """The matrix as a Dask array of `sparse.COO`: one chunk a part, rows in order of the parts.

        Columns are in their original order. Pins do not survive in a Dask array.
        """
        import dask.array

        if dask.array.array_expr_enabled():
            raise InputError(
                "shards.array needs Dask arrays without query planning; "
                "set array.query-planning to false before dask.array is imported"
            )
        n_columns = self.connectivity.n_items
        name = f"shard-array-{tokenize(self)}"
        tasks = {
            (name, rank, 0): Task((name, rank, 0), Shard.to_block, TaskRef(key), n_columns)
            for rank, key in enumerate(self.__dask_keys__())
        }
        heights = tuple(np.diff(self.partition.part_pointer).tolist())
        return dask.array.Array(
            HighLevelGraph.from_collections(name, tasks, dependencies=[self]),
            name,
            chunks=(heights, (n_columns,)),
            meta=sparse.COO(np.empty((2, 0), np.int32), np.empty(0, self.dtype), shape=(0, 0)),
        )

    def to_matrix(self, **kwargs: Any) -> LabelledMatrix:
        """Give the whole matrix, in its original order and with its labels, in this process."""
        shards = self.compute(**kwargs)
        rows = np.concatenate([part.rows[part.row_index] for part in shards])
        columns = np.concatenate([part.items[part.column_index] for part in shards])
        values = np.concatenate([part.values for part in shards])
        if self.axis == "columns":
            rows, columns = columns, rows
        return from_triples(rows, columns, values, self.shape, **self.labels)

    def to_coo(self, **kwargs: Any) -> sparse.COO:
        """Give the whole matrix as one `sparse.COO` in its original order, in this process."""
        return self.to_matrix(**kwargs).to_coo()

    # how it shows itself

    def __repr__(self) -> str:
        where = "tasks or on workers" if self.is_lazy else "in memory"
        return (
            f"Shards of a {self.shape[0]} x {self.shape[1]} matrix: {self.n_parts} parts of its "
            f"{self.axis}, {int(self.nnz_per_part.sum())} nonzeros, {where}"
        )

    def _repr_html_(self) -> str:
        return _table(self)


def _table(shards: Shards) -> str:
    """One line a part: sizes, columns of each kind, and where it is."""
    rows = np.diff(shards.partition.part_pointer)
    columns = np.column_stack((rows, shards.nnz_per_part, shards.bytes_per_part, shards.sizes))
    lines = [[*_HEADS]]
    for rank, numbers in enumerate(columns[:_MOST_LINES].tolist()):
        place = shards.placement[rank] if shards.placement else "–"
        lines.append([readable(cell) for cell in (rank, *numbers, place)])
    if shards.n_parts > _MOST_LINES:
        left_out = f"… {shards.n_parts - _MOST_LINES} more"
        lines.append([left_out, *[""] * (len(_HEADS) - 1)])
    return html_lines(lines, repr(shards))
