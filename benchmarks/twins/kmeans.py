"""k-means in plain mpi4py: Lloyd's algorithm over points that every rank keeps, one allreduce each.

`sums_of_clusters` and `means` are the steps; the text over a `Communicator` calls the same two.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .messages import allreduce

if TYPE_CHECKING:
    from mpi4py import MPI


@dataclass(frozen=True)
class Piece:
    """What one rank begins with."""

    points: NDArray[np.float64]
    centres: NDArray[np.float64]


def pieces(points: NDArray[np.float64], n_clusters: int, n_ranks: int) -> list[Piece]:
    """Points cut into as many runs as there are ranks; the first points are the first centres."""
    return [Piece(own, points[:n_clusters]) for own in np.array_split(points, n_ranks)]


def train(world: MPI.Comm, piece: Piece, n_steps: int) -> tuple[list[float], dict[str, Any]]:
    """Seconds of each iteration, and the centres."""
    centres = piece.centres
    world.Barrier()
    seconds = []
    for _ in range(n_steps):
        begin = perf_counter()
        total = allreduce(world, sums_of_clusters(piece.points, centres))
        centres = means(total, centres)
        mean_distance(total)
        seconds.append(perf_counter() - begin)
    return seconds, {"centres": (np.arange(len(centres)), centres)}


def sums_of_clusters(
    points: NDArray[np.float64], centres: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Of each cluster: the sum of its points, their number, the sum of squared distances."""
    distances = ((points[:, None] - centres) ** 2).sum(axis=2)
    members = distances.argmin(axis=1) == np.arange(len(centres))[:, None]
    counts, squares = members.sum(axis=1), members @ distances.min(axis=1)
    return np.column_stack((members @ points, counts, squares))


def means(total: NDArray[np.float64], centres: NDArray[np.float64]) -> NDArray[np.float64]:
    """The new centres; of a cluster without points it stays where it was."""
    counts = total[:, -2:-1]
    return np.where(counts > 0, total[:, :-2] / np.maximum(counts, 1), centres)


def mean_distance(total: NDArray[np.float64]) -> float:
    """Mean squared distance of a point to its centre."""
    counts, squares = total[:, -2:].sum(axis=0)
    return float(squares / counts)
