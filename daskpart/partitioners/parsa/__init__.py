"""Parsa: data and parameters of a linear model placed on machines, in time linear in k |E|.

kernels       Algorithm 3: the data of one block, from lists by cost
neighbours    N(U_i) as bits
dealing       block after block, and the three ways to begin
parallel      Algorithm 4: blocks at once, over the parameter server
placement     Algorithm 2: sweeps over the parameters
sources       matrices, files and folders as blocks
run, result   `parsa` and what it gives
"""

from __future__ import annotations

from .neighbours import NeighbourSets
from .placement import Placement, place_parameters
from .result import ParsaResult
from .run import parsa

__all__ = ["NeighbourSets", "ParsaResult", "Placement", "parsa", "place_parameters"]
