"""A layer that looks at no neighbour, Z = H W + b: the layers in front of APPNP's propagation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from daskpart.models.graph_convolution.rows import transposed_times

from .base import Layer, Weights


@dataclass(frozen=True)
class Dense(Layer):
    """A linear layer; nothing travels, so that H is its own total."""

    hops: int = 0
    can_keep = False

    def leave_back(
        self, inputs: Any, total: Any, saved: Any, gradient: Any, total_back: Any, weights: Weights
    ) -> Any:
        """G Wᵀ; Hᵀ G and the sum of G."""
        into = None if self.is_first else gradient @ weights[0].T
        return into, [transposed_times(inputs, gradient), gradient.sum(axis=0)]
