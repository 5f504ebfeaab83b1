"""Sums of gradients: what the ranks agree on once an epoch, and what travels at each step."""

from __future__ import annotations

import numpy as np
import pytest

from daskpart.collectives import LocalCommunicator
from daskpart.collectives.stream import stream_of
from daskpart.errors import InputError
from daskpart.models.optimisation.aggregation import NAMES, Aggregator

N = 1000


def gradients(n_ranks: int, step: int, share: float = 0.1) -> list[np.ndarray]:
    random = np.random.default_rng([n_ranks, step])
    return [
        np.where(random.random(N) < share, random.integers(1, 9, N), 0.0) for _ in range(n_ranks)
    ]


@pytest.mark.parametrize("n_ranks", [2, 3, 4])
@pytest.mark.parametrize("name", NAMES)
def test_ranks_agree_with_the_first_sum_alone(name, n_ranks):
    aggregator = Aggregator(name)
    labels = []
    with LocalCommunicator(n_ranks) as comm:
        for step in range(3):
            held = gradients(n_ranks, step)
            streams = comm.values([stream_of(gradient) for gradient in held])
            comm.counters.reset()
            pending, _, aggregator = aggregator.post(comm, streams, comm.values([None] * n_ranks))
            for total in comm.gather(pending.collect()):
                assert np.array_equal(total.to_numpy(), sum(held))
            labels.append([record.label for record in comm.counters.rounds])
    assert labels[0][:2] == ["sparse allreduce: sizes"] * 2
    assert labels[1] == labels[2] == labels[0][2:]


@pytest.mark.parametrize("name", ["auto", "dense", "ssar-split-allgather"])
def test_ranks_that_disagree_are_told_with_the_first_sum(name):
    with LocalCommunicator(2) as comm:
        streams = comm.values([stream_of(np.ones(size)) for size in (3, 4)])
        with pytest.raises(InputError, match=r"shape \(3,\).*shape \(4,\)"):
            Aggregator(name).post(comm, streams, streams)
