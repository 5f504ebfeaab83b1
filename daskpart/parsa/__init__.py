"""Parsa: data and parameters of a linear model placed on machines, in time linear in k |E|.

    from daskpart import parsa
    result = parsa.partition("examples.libsvm.xz", 8, memory_limit="500 MB")

bipartite     which data touch which parameters, in memory
block_folder  the same on disk, in blocks that are read one at a time
kernels       Algorithm 3: the data of one block, from lists by cost
neighbours    N(U_i) as bits
assignment    block after block, and the three ways to begin
parallel      Algorithm 4: blocks at once, over the parameter server
placement     Algorithm 2: sweeps over the parameters
sources       matrices, files and folders as blocks
run, result   `partition` and what it gives
"""

from __future__ import annotations

from .bipartite import Bipartite, Block, MemoryBlocks
from .block_folder import BlockFolder
from .neighbours import NeighbourSets
from .placement import Placement, place_parameters
from .result import ParsaResult
from .run import partition

__all__ = [
    "Bipartite",
    "Block",
    "BlockFolder",
    "MemoryBlocks",
    "NeighbourSets",
    "ParsaResult",
    "Placement",
    "partition",
    "place_parameters",
]
