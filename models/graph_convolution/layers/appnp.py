"""Personalised PageRank after a plain network: Z⁰ = H W + b, Zᵏ⁺¹ = (1 − α) Â Zᵏ + α Z⁰.

Klicpera, Bojchevski, Günnemann, "Predict then propagate", ICLR 2019. The layers before it are
dense. What is applied is a polynomial of Â, so backward the same one of Âᵀ is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray

from daskpart._floor.checks import finite_number, whole_number
from daskpart.models.graph_convolution.rows import Rows, times, transposed_times

from .base import Layer, Weights
from .dense import Dense


@dataclass(frozen=True)
class APPNP(Layer):
    """The last layer: a matrix, then `hops` products with Â.

    Parameters
    ----------
    teleport : float
        α, in (0, 1].
    """

    options: ClassVar[tuple[str, ...]] = ("hops", "teleport")
    can_keep: ClassVar[bool] = False
    hops: int = 10
    teleport: float = 0.1  # type: ignore[misc]

    def __post_init__(self) -> None:
        object.__setattr__(self, "hops", whole_number(self.hops, "hops", 1))
        teleport = finite_number(self.teleport, "teleport", above=True, most=1)
        object.__setattr__(self, "teleport", teleport)

    @classmethod
    def place(cls, place: int, last: int, **parameters: Any) -> Layer:
        """Itself at the end, dense layers before."""
        if place == last:
            return cls(**parameters)
        kept = {name: parameters[name] for name in parameters if name not in cls.options}
        return Dense(**kept)

    @property
    def transforms_first(self) -> bool:
        """Always: what travels are outputs."""
        return True

    @property
    def kept_values(self) -> tuple[int, int]:
        """Z⁰; and Z, which is what came of it."""
        return self.width, self.n_outputs

    def enter(self, inputs: Rows, weights: Weights) -> Rows:
        """Z⁰."""
        return times(inputs, weights[0]) + weights[1]

    def leave(self, inputs: Rows, total: Rows, weights: Weights) -> tuple[NDArray[Any], Any]:
        """Z is the total."""
        return total, None  # type: ignore[return-value]

    def leave_back(
        self, inputs: Any, total: Any, saved: Any, gradient: Any, total_back: Any, weights: Weights
    ) -> Any:
        """Gradients through Z⁰."""
        into = None if self.is_first else total_back @ weights[0].T
        return into, [transposed_times(inputs, total_back), total_back.sum(axis=0)]
