"""Hypergraphs of data: seconds and memory to make, write, read and, on Dask, measure them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import scipy.sparse
import sparse

import daskpart
from daskpart import data_models
from daskpart.connectivity import Connectivity
from daskpart.hypergraph import Hypergraph
from daskpart.partitions import Partition

from .data import ratings, tensor


def rating_matrix() -> scipy.sparse.csr_array:
    """The ratings of gowalla as a matrix."""
    users, items, values = ratings("gowalla")
    shape = int(users.max()) + 1, int(items.max()) + 1
    return scipy.sparse.coo_array((values, (users, items)), shape=shape).tocsr()


class TensorModels:
    """A tensor of 5 million nonzeros as a hypergraph."""

    params = ("fine-grain", "medium-grain")
    param_names = ("model",)

    def setup(self, model: str) -> None:
        """The tensor, and the kernels compiled."""
        self.tensor = tensor("imdb-reviews")
        data_models.build(sparse.random((5, 4, 3), nnz=9, random_state=0), model)

    def time_build(self, model: str) -> None:
        """Counting passes over the coordinates."""
        data_models.build(self.tensor, model)

    def peakmem_input_only(self, model: str) -> None:
        """What the process holds without the hypergraph: take it off the next."""

    def peakmem_build(self, model: str) -> None:
        """Tensor and hypergraph."""
        self.model = data_models.build(self.tensor, model)


class Files:
    """A hypergraph written as another partitioner's text, and read again."""

    params = ("ratings.hgr", "ratings.u", "ratings.hgr.gz")
    param_names = ("name",)

    def setup(self, name: str) -> None:
        """The file."""
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / name
        self.hypergraph = Hypergraph.column_net(rating_matrix())
        self.hypergraph.write(self.path)
        daskpart.read(self.path)

    def teardown(self, name: str) -> None:
        """Remove it."""
        self.folder.cleanup()

    def time_write(self, name: str) -> None:
        """Numbers to text, compressed where the name says so."""
        self.hypergraph.write(self.path)

    def time_read(self, name: str) -> None:
        """Text to numbers, checked."""
        daskpart.read(self.path)


class Chunks:
    """The connectivity of a Dask array, in chunks of a tenth of the rows."""

    def setup(self) -> None:
        """Chunks and a random partition."""
        matrix = sparse.COO.from_scipy_sparse(rating_matrix())
        height = -(-matrix.shape[0] // 10)
        self.array = da.from_array(matrix, chunks=(height, matrix.shape[1]))
        parts = np.random.default_rng(0).integers(0, 16, matrix.shape[0])
        self.partition = Partition(parts, 16)
        self.time_connectivity()

    def time_connectivity(self) -> None:
        """Pairs of each chunk, merged, one thread."""
        with dask.config.set(scheduler="sync"):
            Connectivity.from_dask(self.array, self.partition)
