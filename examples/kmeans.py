"""k-means as an algorithm text of one's own: the same on every transport.

    python kmeans.py --transport local --ranks 4            (see transports.py)

Every rank makes points of its own and keeps them; only sums travel.
"""

from __future__ import annotations

import numpy as np
from transports import options, run

from daskpart.collectives import Communicator, PerRank, allreduce, broadcast

N_CLUSTERS, N_POINTS = 5, 2000


# -- the text ---


def kmeans(
    comm: Communicator, points: PerRank, *, n_clusters: int, tolerance: float = 1e-6
) -> tuple[np.ndarray, float]:
    """Centres by Lloyd's algorithm, and the mean squared distance to the nearest of them."""
    first = broadcast(comm, comm.map(first_points, points, n_clusters=n_clusters))
    centres = comm.assume_replicated(first).result()
    before, distance = np.inf, np.finfo(float).max
    while before - distance > tolerance * distance:
        sums = comm.map(sums_of_clusters, points, centres=centres)
        total = allreduce(comm, sums, algorithm="hypercube").result()
        counts, squares = total[:, -2:-1], total[:, -1]
        # of a cluster without points the centre stays where it was
        centres = np.where(counts > 0, total[:, :-2] / np.maximum(counts, 1), centres)
        before, distance = distance, float(squares.sum() / counts.sum())
    return centres, distance


def first_points(points: np.ndarray, *, n_clusters: int) -> np.ndarray:
    return points[:n_clusters].copy()


def sums_of_clusters(points: np.ndarray, *, centres: np.ndarray) -> np.ndarray:
    """Of each cluster: the sum of its points, their number, the sum of squared distances."""
    distances = ((points[:, None] - centres) ** 2).sum(axis=2)
    members = distances.argmin(axis=1) == np.arange(len(centres))[:, None]
    counts, squares = members.sum(axis=1), members @ distances.min(axis=1)
    return np.column_stack((members @ points, counts, squares))


# -- before and after it ---


def own_points(rank: int) -> np.ndarray:
    """Points round the corners of a polygon; a rank's number makes them differ."""
    random = np.random.default_rng(rank)
    angles = 2 * np.pi * random.integers(0, N_CLUSTERS, N_POINTS) / N_CLUSTERS
    corners = 10 * np.column_stack((np.cos(angles), np.sin(angles)))
    return corners + random.normal(size=(N_POINTS, 2))


def main(comm: Communicator) -> None:
    points = comm.map(own_points, comm.values(range(comm.n_ranks)))
    centres, distance = comm.run(kmeans, points, n_clusters=N_CLUSTERS)
    print(f"{N_POINTS * comm.n_ranks} points, mean squared distance {distance:.15f}")
    for x, y in centres[np.lexsort(centres.T)]:
        print(f"  centre {x:.15f} {y:.15f}")
    print(comm.counters)


if __name__ == "__main__":
    chosen = options("k-means of points that every rank makes for itself.")
    run(main, chosen.transport, chosen.ranks)
