"""Activations and their derivatives, which are told from the activated value alone.

relu  max(z, 0)    tanh  tanh z    logistic  1 / (1 + e⁻ᶻ)    elu  z or eᶻ − 1    identity  z
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit


class Activation(NamedTuple):
    """σ, which overwrites its input; σ', which takes the value and overwrites its gradient."""

    value: Callable[[NDArray[Any]], NDArray[Any]]
    backward: Callable[[NDArray[Any], NDArray[Any]], None]


def _relu(z: NDArray[Any]) -> NDArray[Any]:
    return np.maximum(z, 0, out=z)


def _relu_backward(value: NDArray[Any], gradient: NDArray[Any]) -> None:
    gradient *= value > 0


def _tanh(z: NDArray[Any]) -> NDArray[Any]:
    return np.tanh(z, out=z)


def _tanh_backward(value: NDArray[Any], gradient: NDArray[Any]) -> None:
    gradient *= 1 - value * value


def _logistic(z: NDArray[Any]) -> NDArray[Any]:
    return expit(z, out=z)


def _logistic_backward(value: NDArray[Any], gradient: NDArray[Any]) -> None:
    gradient *= value * (1 - value)


def _elu(z: NDArray[Any]) -> NDArray[Any]:
    below = np.expm1(np.minimum(z, 0))
    np.maximum(z, 0, out=z)
    z += below
    return z


def _elu_backward(value: NDArray[Any], gradient: NDArray[Any]) -> None:
    gradient *= np.where(value > 0, 1, value + 1)


def _identity_backward(value: NDArray[Any], gradient: NDArray[Any]) -> None:
    pass


ACTIVATIONS: Mapping[str, Activation] = {
    "relu": Activation(_relu, _relu_backward),
    "tanh": Activation(_tanh, _tanh_backward),
    "logistic": Activation(_logistic, _logistic_backward),
    "elu": Activation(_elu, _elu_backward),
    "identity": Activation(lambda z: z, _identity_backward),
}
