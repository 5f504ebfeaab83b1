"""What a network is trained on: a graph, features, and labels of some vertices; all checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from daskpart._floor.checksum import checksum
from daskpart._floor.sums import sums_by_key
from daskpart.errors import InputError
from daskpart.models.base.problem import Problem
from daskpart.partitions import Partition

from .layers import Layer
from .network import Network
from .operators import operator_of, refuse_beyond, with_loops
from .targets import Targets

FIRST_PRODUCTS = ("auto", "kept", "each")
_MUCH_FILL = 8  # nonzeros of a kept product over those of features and graph
_N_MULTIPLIED = 512  # rows of a rank by which its share of a kept product is forecast


@dataclass(eq=False)
class GraphProblem(Problem):
    """A graph with features and labels.

    Attributes
    ----------
    adjacency : scipy CSR array of shape (n, n)
    features : ndarray or scipy CSR array of shape (n, d), or None
        None: the identity, so that each vertex has a row of weights of its own.
    targets : Targets
    training, validation : ndarray of bool, shape (n,)
        Labelled vertices.
    names : ndarray of shape (n,) or None
        Of the vertices.
    """

    adjacency: Any
    features: Any
    targets: Targets
    training: NDArray[np.bool_]
    validation: NDArray[np.bool_]
    names: NDArray[Any] | None = None
    _operators: dict[Any, Any] = field(default_factory=dict)

    @property
    def n_vertices(self) -> int:
        """n."""
        return int(self.adjacency.shape[0])

    @property
    def n_inputs(self) -> int:
        """Columns of the features."""
        return self.n_vertices if self.features is None else int(self.features.shape[1])

    @property
    def n_features(self) -> int | None:  # type: ignore[override]
        """Of the features that were given."""
        return None if self.features is None else self.n_inputs

    @cached_property
    def pattern(self) -> Any:
        """A + I as ones, int8 CSR: who reads whom."""
        return with_loops(self.adjacency)

    @cached_property
    def has_symmetric_pattern(self) -> bool:
        """Whether every edge goes both ways."""
        transposed = self.pattern.T.tocsr()
        transposed.sort_indices()
        return np.array_equal(self.pattern.indptr, transposed.indptr) and np.array_equal(
            self.pattern.indices, transposed.indices
        )

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether every edge goes both ways with one weight."""
        return self.has_symmetric_pattern and (self.adjacency != self.adjacency.T).nnz == 0

    def operator(self, network: Network) -> Any:
        """Â of a network, a scipy CSR array."""
        kind, dtype, epsilon = network.operator, network.dtype, network.layers[-1].epsilon
        key = (kind, dtype, epsilon)
        if key not in self._operators:
            self._operators[key] = operator_of(kind, self.adjacency, dtype, epsilon)
        return self._operators[key]

    def let_go(self) -> None:
        """Free what was made of the adjacency: ranks have theirs, and it can be made again."""
        self._operators.clear()
        self.__dict__.pop("pattern", None)

    # -- features ---

    def inputs(self, network: Network) -> Any:
        """Features as the first layer takes them: ndarray, or scipy CSR array.

        InputError where the dtype of the network does not hold them.
        """
        first = network.layers[0]
        X: Any = self.features
        if X is None:
            X = scipy.sparse.eye_array(self.n_vertices, format="csr")
        refuse_beyond(network.dtype, X.data if _is_sparse(X) else X, "features")
        if _is_sparse(X):
            sends = first.hops and not first.keeps_product and not first.transforms_first
            return (X.toarray() if sends else scipy.sparse.csr_array(X)).astype(network.dtype)
        return np.ascontiguousarray(X, network.dtype)

    def keeps_product(self, kind: type[Layer], hops: int, asked: str) -> bool:
        """Whether the first layer's product with Â is made once, not in every epoch.

        Under "auto" it is, unless features are sparse and the product is much fuller than they:
        then it takes more time than it saves. What is decided follows from the data alone, not from
        the ranks, as dropout is applied to what is kept.
        """
        if not kind.can_keep or asked == "each":
            return False
        sparse = self.features is None or _is_sparse(self.features)
        if asked == "kept" or not sparse:
            return True
        before = int(self._row_counts().sum()) + self.pattern.nnz
        return int(self._most_in_product(hops).sum()) <= _MUCH_FILL * before

    def _row_counts(self) -> NDArray[np.int64]:
        if self.features is None:
            return np.ones(self.n_vertices, np.int64)
        return np.diff(self.features.indptr).astype(np.int64)

    def _most_in_product(self, hops: int) -> NDArray[np.int64]:
        """Nonzeros that each row of Âʰ X has at most: as many if no two came to one place."""
        counts, pattern = self._row_counts(), self.pattern.astype(np.int64)
        for _ in range(hops):
            counts = np.minimum(pattern @ counts, self.n_inputs)
        return counts

    # -- for the plan ---

    def entries_of_ranks(self, partition: Partition, operator: str) -> NDArray[np.int64]:
        """Nonzeros of the rows of Â that each rank has."""
        matrix = self.adjacency if operator == "mean" else self.pattern
        return _summed(np.diff(matrix.indptr), partition)

    def feature_bytes(
        self, partition: Partition, network: Network
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Bytes of features, or of what is kept of them, on each rank; and of these, of values.

        Those of a sparse product are about so many.
        """
        first, itemsize = network.layers[0], np.dtype(network.dtype).itemsize
        X: Any = self.inputs(network)
        own = np.bincount(partition.assignment, minlength=partition.n_parts)
        if not _is_sparse(X):
            copies = 1 + (first.keeps_product and first.reads_inputs)
            held = copies * itemsize * self.n_inputs * own
            return held, held
        counts = [np.diff(X.indptr)] if first.reads_inputs or not first.keeps_product else []
        entries = [_summed(each, partition) for each in counts]
        if first.keeps_product:
            entries.append(self._entries_of_product(partition, network, X))
        n_entries = np.sum(entries, axis=0)
        return (4 + itemsize) * n_entries + 4 * len(entries) * (own + 1), itemsize * n_entries

    def _entries_of_product(
        self, partition: Partition, network: Network, X: Any
    ) -> NDArray[np.int64]:
        """Nonzeros of Âʰ X on each rank, told by some rows where a rank has many.

        To make all of it here would take as long as it takes the ranks together.
        """
        hops, ranks = network.layers[0].hops, range(partition.n_parts)
        most = self._most_in_product(hops)
        chosen = [_some_rows(partition.members(rank), most) for rank in ranks]
        rows, weights = (np.concatenate(each) for each in zip(*chosen, strict=True))
        operator = self.operator(network).astype(np.float32)
        product = operator[rows]
        for _ in range(hops - 1):
            product = product @ operator
        ones = scipy.sparse.csr_array((np.ones(X.nnz, np.float32), X.indices, X.indptr), X.shape)
        found = weights * np.diff((product @ ones).indptr)
        return np.bincount(partition.assignment[rows], found, len(ranks)).astype(np.int64)

    def row_work(self, network: Network) -> int:
        """What a vertex weighs beside its nonzeros; see `Network.row_work`."""
        sparse = self.features is None or _is_sparse(self.features)
        return network.row_work(self._row_counts().mean() if sparse else self.n_inputs)

    @property
    def bytes_of_label(self) -> int:
        """Bytes of the label of a vertex, with its place."""
        return 8 + self.targets.values.nbytes // self.n_vertices

    def label_bytes(self, partition: Partition) -> NDArray[np.int64]:
        """Bytes of the labels that each rank has, and of their places."""
        return _summed(self.bytes_of_label * (self.training | self.validation), partition)

    # -- the same data ---

    @cached_property
    def _fingerprint(self) -> str:
        X = self.features
        arrays = [self.adjacency.indptr, self.adjacency.indices, self.adjacency.data]
        if _is_sparse(X):
            arrays += [X.indptr, X.indices, X.data]
        elif X is not None:
            arrays.append(X)
        found = checksum(*arrays, self.targets.values, self.training, self.validation)
        features = "" if X is None else f" with {X.shape[1]} features"
        return (
            f"{self.n_vertices} vertices{features}, {int(self.training.sum())} of them to train "
            f"on, {self.adjacency.nnz} edges, checksum {found:08x}"
        )

    def fingerprint(self) -> str:
        """A short text that differs for other data."""
        return self._fingerprint


def split_labelled(
    targets: Targets, validation: NDArray[np.bool_] | None, fraction: float, seed: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Labelled vertices to train on, and to validate on.

    Raises
    ------
    InputError
        Where one side would be empty, or a class has no vertex to train on.
    """
    labelled = targets.labelled
    if validation is not None:
        held = validation & labelled
        if not held.any():
            raise InputError("no vertex of validation_mask is labelled: give labels for them in y")
    elif fraction:
        random = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(4,)))
        held = labelled & (random.random(len(labelled)) < fraction)
    else:
        return labelled, np.zeros(len(labelled), bool)
    training = labelled & ~held
    if not training.any() or not held.any():
        raise InputError(
            f"of {int(labelled.sum())} labelled vertices {int(held.sum())} are held out to "
            "validate: neither side may be empty"
        )
    if targets.kind == "classes":
        counts = np.bincount(targets.values[training], minlength=targets.n_outputs)
        there = np.bincount(targets.values[labelled], minlength=targets.n_outputs)
        lacking = np.flatnonzero((counts == 0) & (there > 0))
        if lacking.size:
            assert targets.classes is not None
            raise InputError(
                f"class {targets.classes[lacking[0]]} has no labelled vertex to "
                "train on: label one, or hold out fewer"
            )
    return training, held


def _some_rows(
    own: NDArray[np.int64], most: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Rows that stand for all of a rank, and of how many nonzeros of these each of theirs tells.

    They are chosen evenly along the nonzeros that rows have at most: long rows by what they matter.
    """
    if len(own) <= _N_MULTIPLIED:
        return own, np.ones(len(own))
    before = np.cumsum(most[own])
    places = (np.arange(_N_MULTIPLIED) + 0.5) * (before[-1] / _N_MULTIPLIED)
    rows = own[np.minimum(np.searchsorted(before, places, side="right"), len(own) - 1)]
    return rows, before[-1] / (_N_MULTIPLIED * np.maximum(most[rows], 1))


def _is_sparse(X: Any) -> bool:
    return bool(scipy.sparse.issparse(X))


def _summed(counts: NDArray[Any], partition: Partition) -> NDArray[np.int64]:
    return sums_by_key(partition.assignment, counts, partition.n_parts)
