"""Data models: what becomes a vertex and what a net, so that a small cut is little traffic.

model           of        vertices (weight)            nets (cost)
fine-grain      tensors   nonzeros (1)                 every index of every mode (R)
medium-grain    tensors   groups of nonzeros (size)    every index of every mode (R)
"""

from __future__ import annotations

from .model import DataModel
from .tensor_grains import fine_grain, medium_grain

__all__ = ["DataModel", "fine_grain", "medium_grain"]
