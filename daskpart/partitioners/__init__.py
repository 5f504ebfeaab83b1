"""Partitioners, each usable alone, behind one function.

partition(data, n_parts, objective="power")

method      what it does                                           objectives
random      shuffled, balanced by weight                            –
block       contiguous, balanced by weight                          –
metis       METIS on the graph or on the star expansion             connectivity, cut-net
direct      K-way by the engine, then the polish                    any
recursive   n_parts - 1 bipartitions, then the polish               any
parsa       each vertex to the lightest part, by new nets; polish   any
hypercube   bipartitions that decide one bit of the rank each       concurrent volume
auto        direct for 'connectivity', recursive for the others
"""

from __future__ import annotations

from .engine import Engine, get_engine
from .methods import METHODS, Method, Task, looks_at_nets
from .objectives import ConnectivityMinusOne, CutNet, Objective, PowerConnectivity
from .partitioning import partition
from .refinement import refine

__all__ = [
    "METHODS",
    "ConnectivityMinusOne",
    "CutNet",
    "Engine",
    "Method",
    "Objective",
    "PowerConnectivity",
    "Task",
    "get_engine",
    "looks_at_nets",
    "partition",
    "refine",
]
