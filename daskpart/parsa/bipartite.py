"""Which data touch which parameters: a bipartite graph, whole or cut into blocks.

    U  data (examples, rows)          u0   u1   u2   u3        G(U, V, E): an edge where the
                                      | \\  |  / |  / |         feature of the example is stored
    V  parameters (features, columns) v0   v1   v2   v3

    blocks: U spread at random      block 0: u0 u3  with v0 v2 v3 numbered 0 1 2
                                     block 1: u1 u2  with v0 v1 v2 v3

Li, Andersen, Smola, "Graph partitioning via parallel submodular approximation to accelerate
distributed machine learning" (Parsa), sections 2 and 4.2. A block holds all edges of its data and
numbers the parameters that it touches anew, so that what is done with it costs memory for the block
and not for all parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.checks import whole_number
from daskpart._floor.compressed_rows import entries_of_rows
from daskpart._floor.distinct import distinct
from daskpart._floor.tables import ShownAsTable
from daskpart._incidence import group, transpose
from daskpart.containers.matrix import as_matrix
from daskpart.errors import InputError
from daskpart.hypergraph import Hypergraph
from daskpart.readers import libsvm
from daskpart.readers.contents import sparse_inside
from daskpart.readers.ranges import ExamplesFile
from daskpart.readers.streams import location

FileLike = str | PathLike[str] | ExamplesFile
_SPARSE_TOUCH = 8
_LARGEST = int(np.iinfo(np.int32).max)


@dataclass(frozen=True, eq=False)
class Block:
    """Some data with all their edges; parameters are numbered within the block.

    Parameters
    ----------
    data : int32[n]
        Which data of the whole these are, rising.
    pointer : int64[n + 1]
        Data i of the block touches ``local[pointer[i]:pointer[i + 1]]``.
    local : int32[n_edges]
        Positions in `parameters`.
    parameters : int32[m]
        Which parameters of the whole the block touches, rising.
    """

    data: NDArray[np.int32]
    pointer: NDArray[np.int64]
    local: NDArray[np.int32]
    parameters: NDArray[np.int32]

    @property
    def n_data(self) -> int:
        """Number of data."""
        return len(self.data)

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return len(self.local)

    def taken(self, places: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """``(pointer, parameters)`` of some data of the block, with the numbers of the whole."""
        pointer, local = taken_rows(self.pointer, self.local, places)
        return pointer, self.parameters[local]

    def transposed(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """``(pointer int64[m + 1], data int32[n_edges])``: the data that touch each parameter."""
        return transpose(self.pointer, self.local, len(self.parameters))


@dataclass(frozen=True, eq=False, repr=False)
class Bipartite(ShownAsTable):
    """Data nodes U and parameter nodes V in compressed rows; the other direction on first use.

    The constructor trusts its input; the class methods check theirs.

    Parameters
    ----------
    n_parameters : int
        Parameters are 0 … n_parameters - 1; untouched ones are welcome.
    data_pointer : int64[n_data + 1]
        Data u touches ``parameters[data_pointer[u]:data_pointer[u + 1]]``.
    parameters : int32[n_edges]
        Sorted and without repetition within a datum. Data without an edge are welcome.
    """

    n_parameters: int
    data_pointer: NDArray[np.int64]
    parameters: NDArray[np.int32]

    @classmethod
    def from_matrix(cls, matrix: Any) -> Bipartite:
        """Rows are data, columns are parameters; an edge for every stored value, zeros too.

        Parameters
        ----------
        matrix : sparse matrix, sparse.COO, DataFrame, DataArray, Examples, …
            Anything that `daskpart.containers.as_matrix` takes, or what `daskpart.read` gives: of
            examples without their labels, of a graph's Dataset the adjacency.
        """
        labelled = as_matrix(sparse_inside(matrix, "the data"))
        pointer, columns = group(labelled.rows, labelled.columns, labelled.shape[0])
        return cls(labelled.shape[1], pointer, columns)

    @classmethod
    def from_hypergraph(cls, hypergraph: Hypergraph) -> Bipartite:
        """Vertices are data, nets are parameters. Shares the hypergraph's arrays."""
        return cls(hypergraph.n_nets, hypergraph.vertex_pointer, hypergraph.nets)

    @classmethod
    def from_libsvm(cls, path: FileLike, *, n_parameters: int | None = None) -> Bipartite:
        """Read a libsvm file, also compressed: examples are data, features are parameters.

        Values are checked but not held. For files larger than memory: `daskpart.parsa.BlockFolder`.

        Parameters
        ----------
        path : str, path-like or ExamplesFile
            Of one that was surveyed (`daskpart.readers.survey`), a table too, its examples with
            its features.
        n_parameters : int, optional
            To match other data of more features; by default what the file needs.

        Raises
        ------
        ReadError, InputError
            As `daskpart.read`; also for 2³¹ features or more.
        """
        lengths, features = [np.zeros(1, np.int64)], []
        for length, feature in feature_chunks(path):
            lengths.append(length)
            features.append(feature)
        joined = np.concatenate(features)
        first, width = numbering(path, joined.min(initial=1), joined.max(initial=0), n_parameters)
        pointer = np.cumsum(np.concatenate(lengths))
        return cls(width, pointer, sorted_within(pointer, (joined - first).astype(np.int32)))

    @property
    def n_data(self) -> int:
        """Number of data nodes, ``|U|``."""
        return len(self.data_pointer) - 1

    @property
    def n_edges(self) -> int:
        """Number of edges, ``|E|``."""
        return len(self.parameters)

    @cached_property
    def _transposed(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        return transpose(self.data_pointer, self.parameters, self.n_parameters)

    @property
    def parameter_pointer(self) -> NDArray[np.int64]:
        """int64[n_parameters + 1]: v is in data[parameter_pointer[v]:parameter_pointer[v + 1]]."""
        return self._transposed[0]

    @property
    def data(self) -> NDArray[np.int32]:
        """int32[n_edges]: the data that touch each parameter, sorted. Built on first use, kept."""
        return self._transposed[1]

    def hypergraph(self, vertex_weights: NDArray[np.int64] | None = None) -> Hypergraph:
        """The same incidence with data as vertices (by default of weight 1), parameters as nets."""
        ones = np.ones(self.n_data, np.int64)
        weights = ones if vertex_weights is None else vertex_weights
        costs = np.ones(self.n_parameters, np.int64)
        return Hypergraph(self.n_data, self.parameter_pointer, self.data, weights, costs)

    def select(self, data: NDArray[np.int32]) -> Block:
        """These data, rising, as a block."""
        taken = self.data_pointer, self.parameters
        if len(data) < self.n_data:
            taken = taken_rows(*taken, data)
        return block_of(data, taken[0], taken[1], self.n_parameters)

    def blocks(self, n_blocks: int, random_state: int = 0) -> MemoryBlocks:
        """Deal the data at random over `n_blocks` blocks, each built when it is read."""
        return MemoryBlocks(self, whole_number(n_blocks, "n_blocks", least=1), random_state)

    def to_dict(self) -> dict[str, int]:
        """The sizes by name."""
        return {
            "data": self.n_data,
            "parameters": self.n_parameters,
            "edges": self.n_edges,
            "most edges of a datum": int(np.diff(self.data_pointer).max(initial=0)),
        }

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Bipartite):
            return NotImplemented
        same = (
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in ("data_pointer", "parameters")
        )
        return self.n_parameters == other.n_parameters and all(same)

    __hash__ = None  # type: ignore[assignment]


class MemoryBlocks:
    """Blocks of a graph that is in memory whole; see `daskpart.parsa.BlockFolder` for disk.

    Parameters
    ----------
    graph : Bipartite
    n_blocks : int
        At least 1. With 1 the block is the whole.
    random_state : int, default=0
        Decides which block each datum goes to.
    """

    def __init__(self, graph: Bipartite, n_blocks: int, random_state: int = 0) -> None:
        self.graph = graph
        self.n_blocks = n_blocks
        self.n_data, self.n_parameters = graph.n_data, graph.n_parameters
        self.n_edges = graph.n_edges
        block_of_data = random_blocks(np.random.default_rng(random_state), n_blocks, graph.n_data)
        everyone = np.arange(graph.n_data, dtype=np.int32)
        self._pointer, self._members = group(block_of_data, everyone, n_blocks)

    @property
    def starts(self) -> NDArray[np.int64]:
        """int64[n_blocks + 1]: how many data the blocks before each block have."""
        return self._pointer

    def read(self, block: int) -> Block:
        """Build one block."""
        return self.graph.select(self._members[self._pointer[block] : self._pointer[block + 1]])


def random_blocks(rng: np.random.Generator, n_blocks: int, n_data: int) -> NDArray[np.int32]:
    """The block of each of the next `n_data` data.

    The draws are the same however the data are cut into calls, so a graph in memory and a file that
    is read in chunks are spread alike.
    """
    return (rng.random(n_data) * n_blocks).astype(np.int32)


def feature_chunks(
    source: FileLike,
) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
    """How many features each example of a file has, and which, some examples at a time.

    Features of a path are as they are written: see `numbering`.
    """
    if isinstance(source, ExamplesFile):
        return source.feature_chunks()
    return libsvm.feature_chunks(location(source))


def totals(chunks: Iterable[tuple[NDArray[np.int64], NDArray[Any]]]) -> tuple[int, int, int, int]:
    """Data, edges, and the smallest and largest index (1 and 0 without) of `feature_chunks`."""
    n_data, n_edges, least, most = 0, 0, 1, 0
    for lengths, features in chunks:
        n_data, n_edges = n_data + len(lengths), n_edges + len(features)
        least = min(least, int(features.min(initial=1)))
        most = max(most, int(features.max(initial=0)))
    return n_data, n_edges, least, most


def numbering(source: FileLike, least: int, most: int, wanted: int | None) -> tuple[int, int]:
    """The number of the first feature in `feature_chunks`, and how many features there are.

    Parameters
    ----------
    source : str, path-like or ExamplesFile
    least, most : int
        As of `totals`.
    wanted : int or None
        How many features there shall be.
    """
    if isinstance(source, ExamplesFile):
        path, first, needed = source.path, 0, source.n_features
    else:
        path = str(source)
        first, needed = libsvm.numbering(path, int(least), int(most), libsvm.Wanted())
    width = libsvm.checked_width(path, needed, wanted, "n_parameters")
    if width > _LARGEST:
        raise InputError(
            f"{path}: {width} features; at most {_LARGEST} can be numbered. Number the features "
            "that occur anew"
        )
    return first, width


def block_of(
    data: NDArray[np.int32],
    pointer: NDArray[np.int64],
    parameters: NDArray[np.int32],
    n_parameters: int,
) -> Block:
    """A block from edges that still have the numbers of the whole."""
    touched = distinct(parameters, n_parameters)
    if _SPARSE_TOUCH * len(parameters) < n_parameters:  # less memory than a place a parameter
        local = np.searchsorted(touched, parameters).astype(np.int32)
    else:
        place = np.empty(n_parameters, np.int32)
        place[touched] = np.arange(len(touched))
        local = place[parameters]
    return Block(data, pointer, local, touched.astype(np.int32))


def sorted_within(pointer: NDArray[np.int64], parameters: NDArray[np.int32]) -> NDArray[np.int32]:
    """The same edges with the parameters of each datum rising."""
    falls = np.diff(parameters) <= 0
    starts = pointer[(pointer > 0) & (pointer < len(parameters))]
    falls[starts - 1] = False  # from one datum to the next
    if not falls.any():
        return parameters
    owner = np.repeat(np.arange(len(pointer) - 1), np.diff(pointer))
    return parameters[np.lexsort((parameters, owner))]


def taken_rows(
    pointer: NDArray[np.int64], parameters: NDArray[Any], rows: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Compressed rows of these rows alone."""
    taken_pointer, place = entries_of_rows(pointer, rows)
    return taken_pointer, parameters[place].astype(np.int32, copy=False)
