"""Graph convolution: Z = Â H W + b with Â = D^−1/2 (A + I) D^−1/2 (Kipf and Welling, ICLR 2017).

A is a graph without loops; one that has some keeps their weights, and I is added elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from .base import Layer


@dataclass(frozen=True)
class GCN(Layer):
    """As the base has it, with one hop."""
