"""Simulated allreduces count what a run counts; the closed form agrees where entries are even."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskpart._floor.words import listed
from daskpart.collectives import (
    LocalCommunicator,
    allreduce,
    expected_allreduces,
    hypercube_allreduce,
    random_vectors,
    simulate_allreduce,
    simulate_sparse_allreduce,
    simulator,
    sparse_allreduce,
)
from daskpart.collectives.simulator import DENSE_ALGORITHMS
from daskpart.collectives.sparse_steps import ALGORITHMS
from daskpart.errors import InputError

QUANTITIES = tuple(f"{what}_{side}" for what in ("messages", "rows", "bytes")
                   for side in ("sent", "received"))  # fmt: skip
_CUBE = "hypercube allreduce"


def vectors_of(n_ranks, size, seed):
    random = np.random.default_rng(seed)
    share = random.choice([0.0, 0.05, 0.4, 1.0], n_ranks)
    return [np.flatnonzero(random.random(size) < share[rank]) for rank in range(n_ranks)]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 13), st.sampled_from(ALGORITHMS), st.integers(0, 300), st.floats(0.01, 1.0),
    st.integers(0, 10**6),
)  # fmt: skip
def test_counts_are_those_of_a_run(n_ranks, algorithm, size, density, seed):
    vectors = vectors_of(n_ranks, size, seed)
    options = {"algorithm": algorithm, "switch_density": density}
    found = simulate_sparse_allreduce(vectors, size, **options)
    with LocalCommunicator(n_ranks, n_threads=1) as communicator:
        given = [(v, np.ones(len(v), np.float32), size) for v in vectors]
        sparse_allreduce(communicator, communicator.values(given), **options)
        counted = communicator.counters.of(algorithm)
        n_rounds = sum(record.label == algorithm for record in communicator.counters.rounds)
    assert found.n_rounds == n_rounds
    for name in QUANTITIES:
        np.testing.assert_array_equal(getattr(found, name), counted[name], err_msg=name)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("n_ranks", [8, 13, 64])
def test_the_closed_form_is_what_even_entries_give(algorithm, n_ranks):
    size, entries = 20_000, 400
    vectors = random_vectors(n_ranks, size, entries)
    expected = {found.algorithm: found for found in expected_allreduces(n_ranks, size, entries)}
    closed = expected[algorithm]
    # the model switches to dense where the bytes are equal, as the default here does
    counted = simulate_sparse_allreduce(vectors, size, algorithm, **closed.options)
    core = 1 << (n_ranks.bit_length() - 1)
    assert counted.n_rounds == closed.n_rounds
    if core == n_ranks:
        assert counted.messages_sent.max() == closed.messages
        assert counted.bytes_sent.mean() == pytest.approx(closed.nbytes, rel=0.05)


def test_hundreds_of_ranks_share_what_they_hold_alike(monkeypatch):
    """512 results of a million entries each would take gigabytes; the time too is the model's."""
    made, combine = [], simulator.combine_step

    def counted(*given, **static):
        made.append(combine(*given, **static))
        return made[-1]

    monkeypatch.setattr(simulator, "combine_step", counted)
    vectors = random_vectors(512, 10**6, 200, spread="power-law")
    found = simulate_sparse_allreduce(vectors, 10**6, "ssar-recursive-doubling")
    assert found.messages_sent.tolist() == [9] * 512
    assert len(made) == 511  # a tree of sums, and not nine of each rank
    union = len(np.unique(np.concatenate(vectors)))
    last_round = found.rounds["rows"][-1]
    assert last_round <= 512 * union
    assert found.seconds == pytest.approx(
        sum(2e-6 * 1 + 1e-10 * b for b in found.rounds["max_bytes"])
    )
    summary = found.to_dict()
    assert json.loads(json.dumps(summary)) == summary
    assert summary["entries"] == sum(map(len, vectors))


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 8, 13])
def test_dense_allreduces(n_ranks):
    """Against runs where there is one, and the textbook's counts elsewhere."""
    values = [np.zeros(40) for _ in range(n_ranks)]
    runs = {"star": (allreduce, "allreduce"), "hypercube": (hypercube_allreduce, _CUBE)}
    for algorithm, (run, label) in runs.items():
        found = simulate_allreduce(n_ranks, 320, algorithm)
        with LocalCommunicator(n_ranks, n_threads=1) as communicator:
            run(communicator, communicator.values(values))
            counted = communicator.counters.of(label)
        for what in ("messages", "bytes"):
            for side in ("sent", "received"):
                name = f"{what}_{side}"
                np.testing.assert_array_equal(getattr(found, name), counted[name])
    ring = simulate_allreduce(n_ranks, 1000 * n_ranks, "ring")
    assert ring.messages_sent.tolist() == [2 * (n_ranks - 1)] * n_ranks
    assert ring.bytes_sent.tolist() == [2000 * (n_ranks - 1)] * n_ranks
    assert ring.seconds == pytest.approx(2 * (n_ranks - 1) * (2e-6 + 1000 * 1e-10))
    if n_ranks in (2, 8):
        halving = simulate_allreduce(n_ranks, 1000 * n_ranks, "rabenseifner")
        assert halving.messages_sent.tolist() == [2 * math.log2(n_ranks)] * n_ranks
        assert halving.bytes_sent.tolist() == [2000 * (n_ranks - 1)] * n_ranks


def test_4096_ranks():
    found = {name: simulate_allreduce(4096, 80_000, name) for name in ("hypercube", "rabenseifner")}
    assert found["hypercube"].messages_sent.tolist() == [12] * 4096
    assert found["hypercube"].seconds == pytest.approx(12 * (2e-6 + 8e-6))
    assert found["rabenseifner"].messages_sent.tolist() == [24] * 4096
    expected = expected_allreduces(4096, 10**7, 10**5)
    assert [entry.algorithm for entry in expected] == list(ALGORITHMS)
    assert min(expected, key=lambda entry: entry.seconds).seconds > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: simulate_allreduce(4, 8, "tree"), listed(DENSE_ALGORITHMS)),
        (lambda: simulate_allreduce(4, 8, ["ring"]), "algorithm is \\['ring'\\]: use one of"),
        (lambda: simulate_allreduce(0, 8), "n_ranks is 0"),
        (lambda: simulate_allreduce(4, -1), "n_bytes is -1"),
        (lambda: simulate_allreduce(4, 8, alpha=-1.0), "alpha is -1.0"),
        (lambda: simulate_sparse_allreduce([], 8, "butterfly"), "n_ranks"),
        (lambda: simulate_sparse_allreduce([np.array([9])], 8, "butterfly"), "Index 9 is outside"),
        (
            lambda: simulate_sparse_allreduce([np.array([1])], 8, "butterfly", switch_density=2.0),
            "switch_density is a share",
        ),
        (
            lambda: simulate_sparse_allreduce([np.array([1])], 8, "butterfly", switch_density="x"),
            "switch_density is a share",
        ),
        (lambda: simulate_sparse_allreduce([np.array([1])], "8", "butterfly"), "size is '8'"),
        (lambda: simulate_sparse_allreduce(None, 8, "butterfly"), "vectors is None"),
        *(
            (
                lambda cuts=cuts: simulate_sparse_allreduce(
                    [np.array([1])] * 2, 8, "ssar-split-allgather", cuts=cuts
                ),
                "give 3 bounds that rise from 0 to 8",
            )
            for cuts in ((0, 8), (0, 2, 4, 8), (0, 9, 8), (1, 2, 8), (0, 2, 7))
        ),
        (lambda: random_vectors(2, 4, 5), "5 entries do not fit"),
        (lambda: random_vectors(2, 4, 2, spread="odd"), "use one of 'even', 'power-law'"),
        (lambda: expected_allreduces(2, 4, 2, beta=math.nan), "beta is nan"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_numbers_of_numpy_are_numbers():
    """Those of 32 bits overflow where a vector is cut into ranges."""
    plain = expected_allreduces(8, 10**9, 10**6)
    assert expected_allreduces(np.int64(8), np.int32(10**9), np.int32(10**6)) == plain
