"""Optimisers: their formulas, their slots, and what they leave alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskpart.errors import InputError
from daskpart.models.optimisation.optimisers import OPTIMIZERS, SGD, Adam, Momentum


def run(optimizer, start, gradients, rate=0.1):
    weights = [start.copy()]
    slots = optimizer.first_slots(weights)
    for number, gradient in enumerate(gradients, start=1):
        optimizer.update(weights, [gradient], slots, rate=rate, number=number)
    return weights[0], slots


@pytest.fixture
def steps():
    random = np.random.default_rng(3)
    return random.normal(size=(4, 2)), random.normal(size=(5, 4, 2))


def test_momentum_is_a_sum_of_past_gradients(steps):
    start, gradients = steps
    expected, velocity = start.copy(), np.zeros_like(start)
    for gradient in gradients:
        velocity = 0.9 * velocity + gradient
        expected = expected - 0.1 * velocity
    found, slots = run(Momentum(), start, gradients)
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    np.testing.assert_allclose(slots["velocity.0"], velocity, rtol=1e-14)
    assert run(Momentum(momentum=0.0), start, gradients)[0].tobytes() == (
        run(SGD(), start, gradients)[0].tobytes()
    )


def test_nesterov_looks_ahead(steps):
    start, gradients = steps
    first = run(Momentum(nesterov=True), start, gradients[:1])[0]
    np.testing.assert_allclose(first, start - 0.1 * 1.9 * gradients[0], rtol=1e-14)


def test_adagrad_divides_by_the_root_of_summed_squares(steps):
    start, gradients = steps
    expected, squares = start.copy(), np.zeros_like(start)
    for gradient in gradients:
        squares = squares + gradient**2
        expected = expected - 0.1 * gradient / (np.sqrt(squares) + 1e-10)
    found = run(OPTIMIZERS["adagrad"](), start, gradients)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_adam_is_algorithm_1_of_its_paper(steps):
    start, gradients = steps
    expected, mean, squares = start.copy(), np.zeros_like(start), np.zeros_like(start)
    for number, gradient in enumerate(gradients, start=1):
        mean = 0.9 * mean + 0.1 * gradient
        squares = 0.999 * squares + 0.001 * gradient**2
        corrected = mean / (1 - 0.9**number), squares / (1 - 0.999**number)
        expected = expected - 0.1 * corrected[0] / (np.sqrt(corrected[1]) + 1e-8)
    np.testing.assert_allclose(run(Adam(), start, gradients)[0], expected, rtol=1e-10)


@given(name=st.sampled_from([*OPTIMIZERS]), decay=st.floats(0, 1), single=st.booleans())
def test_weight_decay_adds_to_the_gradient(name, decay, single):
    random = np.random.default_rng(5)
    dtype = np.float32 if single else np.float64
    start = random.normal(size=6).astype(dtype)
    gradient = random.normal(size=6).astype(dtype)
    kept = gradient.copy()
    decayed, _ = run(OPTIMIZERS[name](weight_decay=decay), start, [gradient])
    added, _ = run(OPTIMIZERS[name](), start, [gradient + dtype(decay) * start])
    assert decayed.dtype == dtype
    assert decayed.tobytes() == added.tobytes()
    assert gradient.tobytes() == kept.tobytes()


def test_each_weight_may_have_its_own_decay():
    weights = [np.ones(2), np.ones(3)]
    optimizer = SGD(weight_decay=(0.5, 0.0))
    optimizer.update(weights, [np.zeros(2), np.zeros(3)], {}, rate=1.0, number=1)
    assert weights[0].tolist() == [0.5, 0.5]
    assert weights[1].tolist() == [1.0, 1.0, 1.0]
    assert SGD(weight_decay=[0.5, 0]) == optimizer  # a list was broadcast over the columns
    with pytest.raises(InputError, match=r"weight_decay has 2 numbers: .* each of the 1 weights"):
        optimizer.first_slots(weights[:1])
    for wrong, words in (("0.5", "a number of weight_decay is '0'"), (-1, "-1"), ([None], "None")):
        with pytest.raises(InputError, match=words):
            Adam(weight_decay=wrong)


@pytest.mark.parametrize(
    ("make", "name"), [(Momentum, "momentum"), (Adam, "beta1"), (Adam, "beta2")]
)
def test_what_would_never_forget_is_refused(make, name):
    with pytest.raises(InputError, match=f"{name} is 1: give a number below 1"):
        make(**{name: 1})


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_numbers_of_numpy_are_kept_as_those_of_python(name):
    """A saved model has no others."""
    given = OPTIMIZERS[name]().to_dict()
    made = OPTIMIZERS[name](**{key: np.asarray(value)[()] for key, value in given.items()})
    kept = made.to_dict()
    assert kept == given
    assert [type(each) for each in kept.values()] == [type(each) for each in given.values()]


@pytest.mark.parametrize(
    ("name", "rate"), [("sgd", 0.05), ("momentum", 0.05), ("adagrad", 1.0), ("adam", 0.05)]
)
def test_a_bowl_is_descended(name, rate):
    weights = [np.array([3.0, -2.0])]
    optimizer = OPTIMIZERS[name]()
    slots = optimizer.first_slots(weights)
    for number in range(1, 400):
        optimizer.update(weights, [2 * weights[0]], slots, rate=rate, number=number)
    assert np.abs(weights[0]).max() < 1e-2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_adam_in_one_pass_has_the_bits_of_arrays(dtype, order):
    random = np.random.default_rng(0)
    adam, one = Adam(weight_decay=0.01), dtype
    weight = np.asarray(random.standard_normal((31, 7)), dtype, order=order)
    mean, squares = (np.zeros_like(weight) for _ in range(2))
    given = [weight.copy(order="K")]
    slots = adam.first_slots(given)
    for number in range(1, 5):
        gradient = random.standard_normal(weight.shape).astype(dtype)
        adam.update(given, [gradient], slots, rate=0.01, number=number)
        gradient = gradient + one(0.01) * weight
        mean = one(adam.beta1) * mean + one(1 - adam.beta1) * gradient
        squares = one(adam.beta2) * squares + one(1 - adam.beta2) * (gradient * gradient)
        divisor = np.sqrt(squares) * one(1 / np.sqrt(1 - adam.beta2**number)) + one(adam.epsilon)
        weight = weight - one(0.01 / (1 - adam.beta1**number)) * (mean / divisor)
        np.testing.assert_array_equal(given[0], weight)
        np.testing.assert_array_equal(slots["squares.0"], squares)
