"""The whole state of an implicit factorization between two iterations: both factors, no biases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from daskpart.models.matrix_factorization.state import MFState


@dataclass(eq=False, repr=False)
class ImplicitState(MFState):
    """Factors whose products are preferences: near 1 for what a user has, near 0 for the rest.

    The fields are those of `MFState`; biases and means stay 0, and nobody reads the gradient sums.
    """

    _unit: ClassVar[str] = "iteration"
