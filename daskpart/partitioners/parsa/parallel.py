"""Several workers deal blocks at once; the neighbour sets lie on a parameter server.

    worker 0   block 0 ─ pull ─ deal ─ push ┐     block 2 …      shards: S_i as bits,
    worker 1   block 1 ─ pull ─ deal ─ push ┘─▶   block 3 …      a push is an "or"

A worker pulls the rows of the parameters that its block touches, deals the block by Algorithm 3,
and pushes only the bits that are new. It may start block j only when all pushes of blocks before j
- τ are in: τ = 0 is one block after another, with the same result to the bit as in one process.

Algorithm 4 of Li, Andersen, Smola (Parsa), section 4.3. Blocks belong to workers in turn (block j
to worker j mod n), so nobody needs to hand them out.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.bipartite import Block
from daskpart.blocks import BlockFolder
from daskpart.collectives.server import ParameterServer, ServerEndpoint, ServerReport

from .dealing import Blocks, Crew, Dealing, DealtBlock, deal_block


class _OwnBlocks:
    """The blocks of one worker, of a graph in memory."""

    def __init__(self, blocks: Blocks, worker: int, n_workers: int) -> None:
        self._own = {j: blocks.read(j) for j in range(worker, blocks.n_blocks, n_workers)}

    def read(self, block: int) -> Block:
        return self._own[block]


def deal_in_parallel(
    blocks: Blocks, dealing: Dealing, sets: NDArray[np.uint8], crew: Crew
) -> tuple[list[DealtBlock], ServerReport]:
    """One pass over all blocks by several workers.

    Parameters
    ----------
    blocks, dealing
        As of `deal_in_turn`. Blocks on disk must lie where every worker can read them.
    sets : uint8[n_parameters, bytes]
        Bits of the S_i at first; not changed.
    crew : Crew

    Returns
    -------
    dealt : list of DealtBlock
        By number.
    report : ServerReport
        The traffic.
    """
    shares = [
        blocks if isinstance(blocks, BlockFolder) else _OwnBlocks(blocks, worker, crew.workers)
        for worker in range(crew.workers)
    ]
    with ParameterServer(
        blocks.n_parameters,
        n_ranks=crew.workers,
        row_length=sets.shape[1],
        dtype=np.uint8,
        update="or",
        delay=crew.delay,
        initial=sets,
        transport=crew.transport,
        client=crew.client,
        schedule=crew.schedule,
    ) as server:
        found = server.run(_work, shares, dealing=dealing, starts=blocks.starts)
        return sorted(chain(*found), key=lambda dealt: dealt.number), server.report


def _work(
    endpoint: ServerEndpoint, share: Any, *, dealing: Dealing, starts: NDArray[np.int64]
) -> list[DealtBlock]:
    """What one worker does."""
    dealt = []
    for number in endpoint.tasks(len(starts) - 1):
        block = share.read(number)
        rows = endpoint.pull(block.parameters)
        known = rows.copy()
        dealt.append(deal_block(block, number, int(starts[number]), rows, dealing))
        new = rows & ~known
        changed = np.flatnonzero(new.any(axis=1))
        endpoint.push(block.parameters[changed], new[changed])
    return dealt
