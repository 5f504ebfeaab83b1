"""The text of k-means: what ours runs on every rank."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from daskpart.collectives import Communicator, PerRank, barrier
from daskpart.collectives.operations import allreduce

from .kmeans import mean_distance, means, sums_of_clusters


def lloyd(
    comm: Communicator, points: PerRank, *, centres: np.ndarray, n_steps: int
) -> tuple[list[float], np.ndarray]:
    """The twin's steps, and an allreduce on the hypercube."""
    barrier(comm)
    now, seconds = comm.replicated(centres), []
    for _ in range(n_steps):
        begin = perf_counter()
        total = allreduce(comm, comm.map(sums_of_clusters, points, now), algorithm="hypercube")
        now = comm.assume_replicated(comm.map(means, total, now))
        mean_distance(total.result())
        seconds.append(perf_counter() - begin)
    return seconds, now.result()
