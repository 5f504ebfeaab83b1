"""GraphSAGE with the mean of neighbours: Z = H W_self + D^−1 A H W + b (Hamilton et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from daskpart.models.graph_convolution.rows import Rows, first_rows, times, transposed_times

from .base import Layer, Weights


@dataclass(frozen=True)
class SAGE(Layer):
    """The mean of the neighbours and the vertex itself, each with a matrix of its own."""

    operator: ClassVar[str] = "mean"
    reads_inputs: ClassVar[bool] = True

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The weight of the neighbours, of the vertex itself, and a bias."""
        shape = (self.n_inputs, self.n_outputs)
        return {"weight": shape, "self_weight": shape, "bias": (self.n_outputs,)}

    @property
    def leaving_values(self) -> int:
        """What the vertex itself adds."""
        return self.n_outputs

    def leave(self, inputs: Rows, total: Rows, weights: Weights) -> tuple[NDArray[Any], Any]:
        """Z."""
        outputs, _ = super().leave(inputs, total, weights)
        outputs += times(first_rows(inputs, len(outputs)), weights[1])
        return outputs, None

    def leave_back(
        self, inputs: Any, total: Any, saved: Any, gradient: Any, total_back: Any, weights: Weights
    ) -> Any:
        """Both ways into H are added up."""
        into, of_weight = self.product_back(inputs, total, gradient, total_back, weights[0])
        if into is not None:
            if into is total_back:  # an argument, which is not to be overwritten
                into = np.array(into)
            into[: len(gradient)] += gradient @ weights[1].T
        of_self = transposed_times(first_rows(inputs, len(gradient)), gradient)
        return into, [of_weight, of_self, gradient.sum(axis=0)]
