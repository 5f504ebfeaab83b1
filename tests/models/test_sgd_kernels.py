"""The inner loop against a plain-Python twin in double precision, and the packing of rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskpart.models.matrix_factorization.kernels.sgd import (
    add_weighted,
    counting_sort,
    lanes_of,
    pack_rows,
    padded_width,
    sgd_adagrad,
    sgd_fixed_rate,
    unpack_rows,
)

N_USERS, N_ITEMS, N_COMPONENTS = 7, 5, 3


def _start(seed: int, n_components: int = N_COMPONENTS) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    width = padded_width(n_components)
    state = {
        "user": np.zeros((N_USERS, width), np.float32),
        "item": np.zeros((N_ITEMS, width), np.float32),
        "user_bias": generator.normal(size=N_USERS).astype(np.float32),
        "item_bias": generator.normal(size=N_ITEMS).astype(np.float32),
        "user_gradient": np.ones(N_USERS, np.float32),
        "item_gradient": np.ones(N_ITEMS, np.float32),
    }
    scale = (N_COMPONENTS / n_components) ** 0.25  # of a product, whatever its length
    for name, n_rows in (("user", N_USERS), ("item", N_ITEMS)):
        state[name][:, :n_components] = scale * generator.normal(size=(n_rows, n_components))
    return state


def _ratings(seed: int, n: int = 40, logistic=None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed + 1)
    rows = generator.integers(0, N_USERS, n).astype(np.int32)
    columns = generator.integers(0, N_ITEMS, n).astype(np.int32)
    values = generator.normal(3, 1, n).astype(np.float32)
    return rows, columns, values if logistic is None else (values > 3).astype(np.float32)


def _run(
    kernel, state, ratings, mean, rate, gamma, biases, weights=None, nonnegative=False,
    n_components=N_COMPONENTS, logistic=None,
):  # fmt: skip
    weights = np.zeros(0, np.float32) if weights is None else weights
    return kernel(
        lanes_of(state["item"].shape[1]),
        *ratings, 0, ratings[0].size, n_components, state["user"], state["item"],
        state["user_bias"], state["item_bias"], state["user_gradient"], state["item_gradient"],
        np.float32(mean), np.float32(rate), np.float32(gamma), biases, weights, nonnegative,
        logistic,
    )  # fmt: skip


def _twin(state, ratings, weights, mean, rate, gamma, biases, adagrad, n_components, logistic):
    """Alg. 1 of the paper with the sign of the regularisation mended, in float64."""
    s = {name: array.astype(np.float64) for name, array in state.items()}
    total = 0.0
    for i, j, r, c in zip(*ratings, weights, strict=True):
        w, h = s["user"][i].copy(), s["item"][j].copy()
        predicted = mean + w @ h + (s["user_bias"][i] + s["item_bias"][j] if biases else 0)
        if logistic:
            total += c * np.log(1 + np.exp(predicted if r == 0 else -predicted))
            e = r - 1 / (1 + np.exp(-predicted))
        else:
            e = r - predicted
            total += c * e * e
        rate_i = rate / np.sqrt(s["user_gradient"][i]) if adagrad else rate
        rate_j = rate / np.sqrt(s["item_gradient"][j]) if adagrad else rate
        step_w, step_h = c * (e * h - gamma * w), c * (e * w - gamma * h)
        s["user"][i] += rate_i * step_w
        s["item"][j] += rate_j * step_h
        if biases:
            s["user_bias"][i] += rate_i * c * (e - gamma * s["user_bias"][i])
            s["item_bias"][j] += rate_j * c * (e - gamma * s["item_bias"][j])
        if adagrad:
            s["user_gradient"][i] += step_w @ step_w / n_components
            s["item_gradient"][j] += step_h @ step_h / n_components
    return s, total


@pytest.mark.parametrize("logistic", [None, True])
@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("adagrad", [True, False])
@pytest.mark.parametrize("n_components", [1, 3, 16, 20, 48, 70, 150])
@pytest.mark.parametrize("weighted", [False, True])
def test_one_pass_equals_plain_python(weighted, n_components, adagrad, biases, logistic):
    """Rows that are held whole, and rows with lines behind what is held."""
    state = _start(n_components, n_components)
    ratings = _ratings(n_components, logistic=logistic)
    settings = (0.3 if logistic else 3.0, 0.05, 0.1, biases)
    drawn = np.random.default_rng(0).uniform(0.5, 2, ratings[0].size).astype(np.float32)
    weights = drawn if weighted else np.ones_like(drawn)
    expected, loss = _twin(state, ratings, weights, *settings, adagrad, n_components, logistic)
    kernel = sgd_adagrad if adagrad else sgd_fixed_rate
    measured = _run(
        kernel, state, ratings, *settings, weights if weighted else None,
        n_components=n_components, logistic=logistic,
    )  # fmt: skip
    assert measured == pytest.approx(loss, rel=1e-4)
    for name, array in expected.items():
        np.testing.assert_allclose(state[name], array, rtol=2e-4, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("adagrad", [True, False])
@pytest.mark.parametrize("answer", [0.0, 1.0])
def test_a_step_on_yes_or_no_goes_down_the_gradient(answer, adagrad):
    """c (−ln σ(± r̂) + γ/2 ‖…‖²) by finite differences, against a step of a small rate."""
    mean, gamma, c, rate = 0.4, 0.3, 1.7, 1e-3
    start = _start(1)
    w, h = (start[side][0, :N_COMPONENTS].astype(float) for side in ("user", "item"))
    at = np.concatenate((w, h, [start["user_bias"][0], start["item_bias"][0]])).astype(float)

    def objective(x):
        score = mean + x[:3] @ x[3:6] + x[6] + x[7]
        return c * (np.log1p(np.exp(score if answer == 0 else -score)) + gamma / 2 * x @ x)

    gradient = [(objective(at + d) - objective(at - d)) / 2e-5 for d in 1e-5 * np.eye(8)]
    one = np.zeros(1, np.int32), np.zeros(1, np.int32), np.full(1, answer, np.float32)
    kernel = sgd_adagrad if adagrad else sgd_fixed_rate
    loss = _run(
        kernel, start, one, mean, rate, gamma, True, np.full(1, c, np.float32), logistic=True
    )
    moved = np.concatenate(
        (start["user"][0, :3], start["item"][0, :3], start["user_bias"][:1], start["item_bias"][:1])
    )
    np.testing.assert_allclose((at - moved) / rate, gradient, atol=5e-3)
    assert loss == pytest.approx(objective(at) - c * gamma / 2 * at @ at, rel=1e-5)


def test_scores_that_say_all_cost_no_infinity():
    """exp(200) is beyond float32; the loss is 200 and the step that of e = ± 1."""
    for mean, answer in ((200.0, 0.0), (-200.0, 1.0)):
        start = {name: np.zeros_like(array) for name, array in _start(0).items()}
        one = np.zeros(1, np.int32), np.zeros(1, np.int32), np.full(1, answer, np.float32)
        assert _run(sgd_fixed_rate, start, one, mean, 0.1, 0.0, True, logistic=True) == 200
        assert start["user_bias"][0] == pytest.approx(0.1 if answer else -0.1)
        one[2][0] = 1 - answer
        assert _run(sgd_fixed_rate, start, one, mean, 0.1, 0.0, True, logistic=True) == 0


def test_regularisation_pulls_towards_zero():
    """With e = 0 a step must shrink the rows; the paper's printed sign would grow them."""
    state = _start(0)
    before = np.abs(state["user"][0]).sum()
    error_free = state["user"][0] @ state["item"][0]
    ratings = (
        np.zeros(1, np.int32), np.zeros(1, np.int32), np.array([error_free], np.float32),
    )  # fmt: skip
    _run(sgd_fixed_rate, state, ratings, 0.0, 0.1, 0.5, False)
    assert np.abs(state["user"][0]).sum() < before


def test_padding_stays_zero():
    state = _start(3)
    _run(sgd_adagrad, state, _ratings(3), 3.0, 0.05, 0.1, True)
    assert not state["user"][:, N_COMPONENTS:].any()
    assert not state["item"][:, N_COMPONENTS:].any()


@given(st.integers(1, 200))
def test_padded_width_is_whole_cache_lines(n_components):
    width = padded_width(n_components)
    assert width % 16 == 0
    assert n_components <= width < n_components + 16


@given(st.lists(st.integers(0, 6), max_size=50), st.integers(0, 2**32 - 1))
def test_counting_sort_is_stable(keys, seed):
    keys = np.array(keys, np.int64)
    sequence = np.random.default_rng(seed).permutation(keys.size)
    ordered, pointer = counting_sort(keys, 7, sequence)
    np.testing.assert_array_equal(ordered, sequence[np.argsort(keys[sequence], kind="stable")])
    np.testing.assert_array_equal(np.diff(pointer), np.bincount(keys, minlength=7))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("gradient", [True, False])
def test_rows_travel_unchanged(bias, gradient):
    state, other = _start(5), _start(6)
    state["item_gradient"] += np.arange(N_ITEMS, dtype=np.float32) + 1
    positions = np.array([3, 0])
    rows = (state["item"], state["item_bias"], state["item_gradient"])
    message = pack_rows(*rows, positions, N_COMPONENTS, bias, gradient)
    assert message.shape == (2, N_COMPONENTS + bias + gradient)
    assert message.dtype == np.float32
    target = (other["item"], other["item_bias"], other["item_gradient"])
    untouched = {name: array.copy() for name, array in other.items()}
    unpack_rows(message, *target, positions, N_COMPONENTS, bias, gradient)
    np.testing.assert_array_equal(other["item"][positions], state["item"][positions])
    for name, travels in (("item_bias", bias), ("item_gradient", gradient)):
        expected = (state if travels else untouched)[name]
        np.testing.assert_array_equal(other[name][positions], expected[positions])


def test_weighted_sum_of_copies():
    total = np.zeros((2, 4), np.float32)
    first, second = np.ones((2, 4), np.float32), np.full((1, 4), 5, np.float32)
    add_weighted(total, np.array([0, 1]), first, np.array([0.25, 1], np.float32))
    add_weighted(total, np.array([0]), second, np.array([0.75], np.float32))
    np.testing.assert_array_equal(total, [[4, 4, 4, 4], [1, 1, 1, 1]])
