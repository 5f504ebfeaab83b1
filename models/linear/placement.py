"""Rows placed on ranks by the features that they have, so that a rank needs few of them.

    random         ▓░▒▓ ░▒▓░ …     every rank touches nearly all features
    parsa          ▓▓▓▓ ░░░░ …     in one pass over the rows; also of a file, block by block
    connectivity   ▓▓▓▓ ░░░░ …     multilevel, of the hypergraph with a net a feature

Fewer features a rank are fewer entries in the gradient of its batch, and fewer rows of a parameter
server that lie elsewhere. M. Li, D. Andersen, A. Smola (Parsa), 2015, §2.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskpart import parsa
from daskpart._floor.distinct import distinct
from daskpart.errors import InputError
from daskpart.models.samples.files import FileSamples
from daskpart.models.samples.problem import LazySamples, Samples
from daskpart.partitioners import partition as make_partition
from daskpart.partitions import Partition

PARTITIONERS = ("auto", "random", "parsa", "connectivity")
_FILE_LIMIT = "1 GiB"  # of the blocks in which Parsa looks at a file


class Placed(NamedTuple):
    """Rows on ranks, and features on shards where they were placed too.

    Attributes
    ----------
    partition : Partition
    shards : int32 ndarray of shape (n_features + 1,), or None
        Of each feature; the intercept is the last.
    touched : int64 ndarray of shape (n_ranks,)
        Distinct features of each rank's rows.
    """

    partition: Partition
    shards: NDArray[np.int32] | None
    touched: NDArray[np.int64]

    @property
    def seconds(self) -> float:
        """Time the partitioner took."""
        return float(self.partition.info.get("seconds", 0.0))


def placed_rows(problem: Samples, name: str, n_ranks: int, random_state: int) -> Placed:
    """Place rows by "parsa" or "connectivity".

    Raises
    ------
    InputError
        For samples that would have to come here to be looked at.
    """
    if isinstance(problem, LazySamples):
        raise InputError(
            f"partitioner={name!r} looks at all rows, and those of a Dask collection stay on the "
            "workers: give partitioner='random', or what compute() returns"
        )
    is_file = isinstance(problem, FileSamples)
    data: Any = problem.file if isinstance(problem, FileSamples) else problem.X
    if name == "connectivity":
        if is_file:
            raise InputError(
                "partitioner='connectivity' takes samples in memory: of a file give 'parsa' or "
                "'random'"
            )
        partition = make_partition(problem.X, n_ranks, random_state=random_state)
        return Placed(partition, None, touched_features(problem, partition))
    found = parsa.partition(
        data,
        n_ranks,
        memory_limit=_FILE_LIMIT if is_file else None,
        random_state=random_state,
        compare=False,
    )
    shards = np.zeros((problem.n_features or 0) + 1, np.int32)
    shards[: found.n_parameters] = found.placement.assignment
    return Placed(found.partition, shards, found.neighbours.sizes)


def random_rows(n_samples: int, n_ranks: int, random_state: int) -> Partition:
    """As many rows for each rank, by chance."""
    ranks = np.empty(n_samples, np.int32)
    order = np.random.default_rng(random_state).permutation(n_samples)
    ranks[order] = np.arange(n_samples) * n_ranks // n_samples
    return Partition(ranks, n_ranks)


def touched_features(problem: Any, partition: Partition) -> NDArray[np.int64]:
    """Distinct features of each rank's rows."""
    each = (problem.X[partition.members(rank)].indices for rank in range(partition.n_parts))
    return np.array([len(distinct(indices, problem.n_features)) for indices in each])
