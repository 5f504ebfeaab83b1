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


def _ratings(seed: int, n: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed + 1)
    rows = generator.integers(0, N_USERS, n).astype(np.int32)
    columns = generator.integers(0, N_ITEMS, n).astype(np.int32)
    return rows, columns, generator.normal(3, 1, n).astype(np.float32)


def _run(
    kernel, state, ratings, mean, rate, gamma, biases, weights=None, nonnegative=False,
    n_components=N_COMPONENTS,
):  # fmt: skip
    weights = np.zeros(0, np.float32) if weights is None else weights
    return kernel(
        lanes_of(state["item"].shape[1]),
        *ratings, 0, ratings[0].size, n_components, state["user"], state["item"],
        state["user_bias"], state["item_bias"], state["user_gradient"], state["item_gradient"],
        np.float32(mean), np.float32(rate), np.float32(gamma), biases, weights, nonnegative,
    )  # fmt: skip


def _twin(state, ratings, mean, rate, gamma, biases, adagrad, n_components):
    """Alg. 1 of the paper with the sign of the regularisation mended, in float64."""
    s = {name: array.astype(np.float64) for name, array in state.items()}
    total = 0.0
    for i, j, r in zip(*ratings, strict=True):
        w, h = s["user"][i].copy(), s["item"][j].copy()
        e = r - mean - w @ h - (s["user_bias"][i] + s["item_bias"][j] if biases else 0)
        total += e * e
        rate_i = rate / np.sqrt(s["user_gradient"][i]) if adagrad else rate
        rate_j = rate / np.sqrt(s["item_gradient"][j]) if adagrad else rate
        step_w, step_h = e * h - gamma * w, e * w - gamma * h
        s["user"][i] += rate_i * step_w
        s["item"][j] += rate_j * step_h
        if biases:
            s["user_bias"][i] += rate_i * (e - gamma * s["user_bias"][i])
            s["item_bias"][j] += rate_j * (e - gamma * s["item_bias"][j])
        if adagrad:
            s["user_gradient"][i] += step_w @ step_w / n_components
            s["item_gradient"][j] += step_h @ step_h / n_components
    return s, total


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("adagrad", [True, False])
@pytest.mark.parametrize("n_components", [1, 3, 16, 20, 48, 70, 150])
def test_one_pass_equals_plain_python(n_components, adagrad, biases):
    """Rows that are held whole, and rows with lines behind what is held."""
    state, ratings = _start(n_components, n_components), _ratings(n_components)
    settings = (3.0, 0.05, 0.1, biases)
    expected, squared_error = _twin(state, ratings, *settings, adagrad, n_components)
    kernel = sgd_adagrad if adagrad else sgd_fixed_rate
    measured = _run(kernel, state, ratings, *settings, n_components=n_components)
    assert measured == pytest.approx(squared_error, rel=1e-4)
    for name, array in expected.items():
        np.testing.assert_allclose(state[name], array, rtol=2e-4, atol=2e-5, err_msg=name)


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
    positions = np.array([3, 0])
    rows = (state["item"], state["item_bias"], state["item_gradient"])
    message = pack_rows(*rows, positions, N_COMPONENTS, bias, gradient)
    assert message.shape == (2, N_COMPONENTS + bias + gradient)
    assert message.dtype == np.float32
    target = (other["item"], other["item_bias"], other["item_gradient"])
    untouched = other["item_bias"].copy()
    unpack_rows(message, *target, positions, N_COMPONENTS, bias, gradient)
    np.testing.assert_array_equal(other["item"][positions], state["item"][positions])
    expected_bias = state["item_bias"] if bias else untouched
    np.testing.assert_array_equal(other["item_bias"][positions], expected_bias[positions])


def test_weighted_sum_of_copies():
    total = np.zeros((2, 4), np.float32)
    first, second = np.ones((2, 4), np.float32), np.full((1, 4), 5, np.float32)
    add_weighted(total, np.array([0, 1]), first, np.array([0.25, 1], np.float32))
    add_weighted(total, np.array([0]), second, np.array([0.75], np.float32))
    np.testing.assert_array_equal(total, [[4, 4, 4, 4], [1, 1, 1, 1]])
