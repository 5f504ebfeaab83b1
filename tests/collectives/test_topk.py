"""TopK and ApproximateTopK: what is sent, what is kept, and when it is plain SGD."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskpart.collectives import LocalCommunicator
from daskpart.collectives.sparse_allreduce import sparse_allreduce
from daskpart.collectives.stream import stream_of
from daskpart.collectives.topk import (
    ApproximateTopK,
    Feedback,
    TopK,
    start_feedback,
    topk_allreduce,
)
from daskpart.errors import InputError

OPTIONS = {"algorithm": "ssar-split-allgather", "switch_density": 0.3}
SIZE, N_RANKS, N_STEPS = 400, 4, 3


@settings(max_examples=80, deadline=None)
@given(
    st.integers(0, 20) | st.integers(80, 300),
    st.integers(1, 100) | st.integers(64, 80),  # more than 64 are found by another way
    st.sampled_from([None, 1, 7, 64, 100]),
    st.integers(0),
)
def test_exactly_the_k_largest(size, k, bucket, seed):
    """Against a sort; small integers, so that magnitudes are often equal."""
    values = np.random.default_rng(seed).integers(-5, 6, size).astype(float)
    found = TopK(k, bucket).selected(values)
    expected = []
    for begin in range(0, size, bucket or max(size, 1)):
        part = np.abs(values[begin : begin + (bucket or size)])
        order = sorted(range(len(part)), key=lambda i: (-part[i], i))[:k]
        expected += sorted(begin + i for i in order if part[i] > 0)
    assert found.tolist() == expected


@pytest.mark.parametrize(
    "compressor", [TopK(9), TopK(2, bucket=10), ApproximateTopK(9), ApproximateTopK(2, bucket=10)]
)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_what_is_sent_and_what_is_kept_is_everything(compressor, dtype):
    random = np.random.default_rng(0)
    feedback = Feedback.zeros(50, dtype)
    for _ in range(5):
        gradient = random.standard_normal(50).astype(dtype)
        before = gradient.copy(), feedback.residual.copy()
        sent, after = compressor.compress(gradient, feedback)
        np.testing.assert_array_equal(gradient, before[0])
        np.testing.assert_array_equal(feedback.residual, before[1])
        of_dense, kept = compressor.compress(stream_of(gradient).to_dense(), feedback)
        np.testing.assert_array_equal(of_dense.to_numpy(), sent.to_numpy())
        np.testing.assert_array_equal(kept.residual, after.residual)
        dense = sent.to_numpy()
        assert dense.dtype == after.residual.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(dense + after.residual, gradient + before[1])
        assert not (dense * after.residual).any()
        assert after.step == feedback.step + 1
        feedback = after


VECTORS = {
    "even": np.random.default_rng(1).uniform(0.5, 1.0, 300),
    "one is huge": np.concatenate([[1e6], np.random.default_rng(2).standard_normal(299)]),
    "power law": np.random.default_rng(3).pareto(0.8, 300) + 1e-3,
    "half are zero": np.random.default_rng(4).standard_normal(300) * (np.arange(300) % 2),
}


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("k", [1, 20, 140])
def test_k_are_kept_in_expectation(name, k):
    values = VECTORS[name]
    compressor = ApproximateTopK(k)
    chances = compressor.probabilities(values)
    assert chances.sum() == pytest.approx(k, rel=1e-12)
    assert chances.min() >= 0 and chances.max() <= 1
    order = np.argsort(np.abs(values))
    assert (np.diff(chances[order]) >= -1e-12).all()  # the larger, the likelier
    counts = [len(compressor.selected(values, Feedback(values, step=t))) for t in range(400)]
    deviation = np.sqrt((chances * (1 - chances)).sum() / len(counts))
    assert abs(np.mean(counts) - k) <= 5 * deviation + 1e-9


def test_k_of_each_bucket_are_kept_in_expectation():
    values = VECTORS["power law"]
    chances = ApproximateTopK(3, bucket=64).probabilities(values)
    for begin in range(0, 300, 64):
        assert chances[begin : begin + 64].sum() == pytest.approx(3, rel=1e-12)
    assert ApproximateTopK(3).probabilities(np.zeros(0)).shape == (0,)


def test_draws_differ_by_rank_and_step_and_repeat_by_seed():
    values = VECTORS["even"]
    one = ApproximateTopK(30, random_state=5)
    drawn = [one.selected(values, Feedback(values, r, s)).tolist() for r in (0, 1) for s in (0, 1)]
    assert len({tuple(d) for d in drawn}) == 4
    again = ApproximateTopK(30, random_state=5.0).selected(values, Feedback(values, 1, 1))
    assert again.tolist() == drawn[3]


def sparse_gradient(weights, rank, *, step):
    """At most 12 nonzeros, by a rule that depends on the weights."""
    random = np.random.default_rng([rank, step])
    places = random.choice(len(weights), 12, replace=False)
    gradient = np.zeros_like(weights)
    gradient[places] = weights[places] - random.standard_normal(12).astype(weights.dtype)
    return gradient


def descend(weights, total):
    return weights - np.float32(0.1) * total.to_numpy()


def train(communicator, compressor):
    """Data-parallel SGD; without a compressor, plain."""
    ranks = communicator.values(list(range(communicator.n_ranks)))
    weights = communicator.values([np.ones(SIZE, np.float32)] * communicator.n_ranks)
    feedback = start_feedback(communicator, SIZE)
    for step in range(N_STEPS):
        gradients = communicator.map(sparse_gradient, weights, ranks, step=step)
        if compressor is None:
            total = sparse_allreduce(communicator, gradients, **OPTIONS)
        else:
            total, feedback = topk_allreduce(
                communicator, compressor, gradients, feedback, **OPTIONS
            )
        weights = communicator.map(descend, weights, total)
    return communicator.gather(weights), communicator.gather(feedback)


@pytest.mark.parametrize(
    "compressor", [TopK(12), TopK(12, bucket=100), ApproximateTopK(12)], ids=repr
)
def test_sparse_gradients_give_plain_sgd_bit_for_bit(make_communicator, compressor):
    plain, _ = train(LocalCommunicator(N_RANKS, n_threads=1), None)
    found, feedback = train(make_communicator(N_RANKS), compressor)
    assert not any(of_rank.residual.any() for of_rank in feedback)
    for rank in range(N_RANKS):
        assert found[rank].tobytes() == plain[rank].tobytes()


def test_fewer_entries_give_another_descent_that_keeps_the_rest():
    """The test above can fail: with k = 3 the weights differ, and residuals fill."""
    plain, _ = train(LocalCommunicator(N_RANKS, n_threads=1), None)
    found, feedback = train(LocalCommunicator(N_RANKS, n_threads=1), TopK(3))
    assert found[0].tobytes() != plain[0].tobytes()
    assert all(of_rank.residual.any() for of_rank in feedback)


def quadratic_gradient(weights, target):
    return weights - target


def test_error_feedback_reaches_the_optimum():
    """Dense gradients, k of 40 entries a step: slower, but to the same point."""
    random = np.random.default_rng(0)
    targets = [random.standard_normal(40).astype(np.float32) for _ in range(N_RANKS)]
    for compressor in (TopK(4), ApproximateTopK(8)):
        with LocalCommunicator(N_RANKS, n_threads=1) as communicator:
            goals = communicator.values(targets)
            weights = communicator.values([np.zeros(40, np.float32)] * N_RANKS)
            feedback = start_feedback(communicator, 40)
            for _ in range(300):
                gradients = communicator.map(quadratic_gradient, weights, goals)
                total, feedback = topk_allreduce(
                    communicator, compressor, gradients, feedback, **OPTIONS
                )
                weights = communicator.map(_small_step, weights, total)
            found = communicator.gather(weights)[0]
        assert np.abs(found - np.mean(targets, axis=0)).mean() < 0.1


def _small_step(weights, total):
    return weights - np.float32(0.02) * total.to_numpy()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TopK(0), "k is 0: it must be at least 1"),
        (lambda: TopK(2.5), "k is 2.5"),
        (lambda: start_feedback(LocalCommunicator(1), -1), "size is -1: it must be at least 0"),
        (lambda: start_feedback(LocalCommunicator(1), None), "size is None"),
        (lambda: TopK(2, bucket=-1), "bucket is -1: it must be at least 1"),
        (lambda: ApproximateTopK(3, random_state=-1), "random_state is -1"),
        (lambda: TopK(2).compress(np.ones(3), Feedback.zeros(4, "f8", 2)), "Rank 2 .* size 3"),
        (lambda: TopK(2).compress(np.ones(4), Feedback.zeros(4, "f4")), "float64, .* float32"),
        (lambda: TopK(2).compress(np.ones(4, int), Feedback.zeros(4, int)), "Gradients are floats"),
        (
            lambda: TopK(2).compress(np.array([1, np.nan]), Feedback.zeros(2, "f8", 3)),
            "1 values of the gradient of rank 3 are not finite",
        ),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(InputError, match=message):
        make()
