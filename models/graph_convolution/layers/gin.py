"""Graph isomorphism network: Z = MLP((1 + ε) H + A H) (Xu et al., ICLR 2019), ε a constant.

The first matrix of the MLP is linear in what Â = A + (1 + ε) I gives, so it may be applied first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.checks import finite_number
from daskpart.models.graph_convolution.rows import Rows

from .base import Layer, Weights


@dataclass(frozen=True)
class GIN(Layer):
    """A sum over neighbours and the vertex itself, then two matrices with a ReLU between.

    Parameters
    ----------
    epsilon : float
        ε.
    """

    operator: ClassVar[str] = "sum"
    options: ClassVar[tuple[str, ...]] = ("epsilon",)
    epsilon: float = 0.0  # type: ignore[misc]

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", finite_number(self.epsilon, "epsilon", -math.inf))

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Both matrices of the MLP, and their biases."""
        inner = self.n_outputs
        return {
            "weight": (self.n_inputs, inner),
            "inner_bias": (inner,),
            "outer_weight": (inner, self.n_outputs),
            "bias": (self.n_outputs,),
        }

    @property
    def kept_values(self) -> tuple[int, int]:
        """The values between both matrices, too."""
        of_input, of_output = super().kept_values
        return of_input, of_output + self.n_outputs

    @property
    def leaving_values(self) -> int:
        """Z before its bias."""
        return self.n_outputs

    def leave(self, inputs: Rows, total: Rows, weights: Weights) -> tuple[NDArray[Any], Any]:
        """Z, and the values between both matrices."""
        between, _ = super().leave(inputs, total, weights[:2])
        np.maximum(between, 0, out=between)
        return between @ weights[2] + weights[3], between

    def enter_back(self, gradient: Any, saved: Any, weights: Weights) -> Any:
        """Gradients of Z and of the values between, and the message."""
        inner = (gradient @ weights[2].T) * (saved > 0)
        return (gradient, inner), self.narrowed(inner, weights[0])

    def leave_back(
        self, inputs: Any, total: Any, saved: Any, gradient: Any, total_back: Any, weights: Weights
    ) -> Any:
        """Gradients of H and of all four weights."""
        outer, inner = gradient
        into, of_weight = self.product_back(inputs, total, inner, total_back, weights[0])
        return into, [of_weight, inner.sum(axis=0), saved.T @ outer, outer.sum(axis=0)]
