"""A layer that looks at no neighbour, Z = H W + b: the layers in front of APPNP's propagation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from daskpart.models.graph_convolution.rows import Rows, times, transposed_times

from .base import Layer, Weights


@dataclass(frozen=True)
class Dense(Layer):
    """A linear layer; nothing travels."""

    hops: int = 0
    can_keep = False

    @property
    def leaving_values(self) -> int:
        """H W."""
        return self.n_outputs

    def enter(self, inputs: Rows, weights: Weights) -> Rows:
        """Nothing is sent."""
        return inputs

    def leave(self, inputs: Rows, total: Rows, weights: Weights) -> tuple[NDArray[Any], Any]:
        """H W + b."""
        return times(inputs, weights[0]) + weights[1], None

    def enter_back(self, gradient: Any, saved: Any, weights: Weights) -> Any:
        """Nothing is sent."""
        return gradient, gradient

    def leave_back(
        self, inputs: Any, total: Any, saved: Any, gradient: Any, total_back: Any, weights: Weights
    ) -> Any:
        """G Wᵀ; Hᵀ G and the sum of G."""
        into = None if self.is_first else gradient @ weights[0].T
        return into, [transposed_times(inputs, gradient), gradient.sum(axis=0)]
