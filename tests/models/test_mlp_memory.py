"""Memory of a perceptron's ranks: the forecast knows gradients and the state on its way."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest
import scipy.sparse

import daskpart
from daskpart.models.mlp.text import MLPText

RANDOM = np.random.default_rng(0)
X = scipy.sparse.random_array((600, 5000), density=0.01, rng=RANDOM, format="csr")
Y = RANDOM.integers(0, 3, 600)


def fitted(n_ranks=1, hidden_layer_sizes=(100,), X=X, **options):
    chosen = {"transport": "local", "max_iter": 2, "tol": 0.0} | options
    return daskpart.MLPClassifier(hidden_layer_sizes, n_ranks=n_ranks, **chosen).fit(X, Y)


@pytest.mark.parametrize(
    "options", [{}, {"optimizer": "sgd"}, {"top_k": 4}, {"hidden_layer_sizes": (50, 30)}]
)
@pytest.mark.parametrize("n_ranks", [1, 3])
def test_what_is_counted_is_the_forecast(options, n_ranks):
    report = fitted(n_ranks, **options).comm_report_
    np.testing.assert_allclose(report.memory, report.expected_memory, rtol=0.05)


@pytest.mark.parametrize("density", [0.05, 0.12, 1.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_that_are_kept_dense_are_forecast_so(density, dtype):
    rows = scipy.sparse.random_array(
        (600, 2000), density=density, rng=RANDOM, format="csr", dtype=dtype
    )
    report = fitted(2, hidden_layer_sizes=(8,), X=rows).comm_report_
    np.testing.assert_allclose(report.memory, report.expected_memory, rtol=0.05)


@pytest.mark.parametrize("options", [{"optimizer": "sgd"}, {"optimizer": "adagrad"}])
def test_gradients_are_in_the_forecast(options, monkeypatch):
    """Of one rank, which is in this process, less the state that is kept beside it."""
    peaks, run = [], MLPText.run

    def measured(self, first, last):
        before = sum(self.memory) - self._fit.passing[0]
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        steps = run(self, first, last)
        peaks.append(before + tracemalloc.get_traced_memory()[1] - held)
        return steps

    fitted(**options)  # kernels are compiled
    monkeypatch.setattr(MLPText, "run", measured)
    tracemalloc.start()
    try:
        forecast = fitted(**options).plan_report_.memory_of_ranks[0]
    finally:
        tracemalloc.stop()
    assert 0.7 * forecast < max(peaks) < 1.2 * forecast


def test_the_state_on_its_way_is_in_the_forecast():
    """Copies of weights and slots, of rank 0, and the message that they are packed into."""
    found = fitted(3, X=X[:, :2000])
    memory = found.plan_report_.memory["gradients, or the state on its way"]
    state = found.state_
    packed = len(pickle.dumps({"weights": state.weights, "slots": state.slots}))
    assert memory[0] == pytest.approx(2 * packed, rel=0.01)
    assert (memory[1:] < memory[0]).all() and (memory[1:] > 8 * 2000 * 100).all()
