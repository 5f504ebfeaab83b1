"""Several workers assign blocks at once; the neighbour sets lie on a parameter server.

    worker 0   block 0 ─ pull ─ assign ─ push ┐     block 2 …      shards: S_i as bits,
    worker 1   block 1 ─ pull ─ assign ─ push ┘─▶   block 3 …      a push is an "or"

A worker pulls the rows of the parameters that its block touches, assigns its data by Algorithm 3,
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

from daskpart.collectives.server import ParameterServer, ServerEndpoint, ServerReport

from .assignment import AssignedBlock, Blocks, Parallel, Settings, assign_block
from .bipartite import Block
from .block_folder import BlockFolder


class _OwnBlocks:
    """The blocks of one worker, of a graph in memory."""

    def __init__(self, blocks: Blocks, worker: int, n_workers: int) -> None:
        self._own = {j: blocks.read(j) for j in range(worker, blocks.n_blocks, n_workers)}

    def read(self, block: int) -> Block:
        return self._own[block]


def assign_in_parallel(
    blocks: Blocks, settings: Settings, sets: NDArray[np.uint8], parallel: Parallel
) -> tuple[list[AssignedBlock], ServerReport]:
    """One pass over all blocks by several workers.

    Parameters
    ----------
    blocks, settings
        As of `assign_in_order`. Blocks on disk must lie where every worker can read them.
    sets : uint8[n_parameters, bytes]
        Bits of the S_i at first; not changed.
    parallel : Parallel

    Returns
    -------
    assigned : list of AssignedBlock
        By number.
    report : ServerReport
        The traffic.
    """
    shares = [
        blocks if isinstance(blocks, BlockFolder) else _OwnBlocks(blocks, worker, parallel.workers)
        for worker in range(parallel.workers)
    ]
    with ParameterServer(
        blocks.n_parameters,
        n_ranks=parallel.workers,
        row_length=sets.shape[1],
        dtype=np.uint8,
        update="or",
        delay=parallel.delay,
        initial=sets,
        transport=parallel.transport,
        client=parallel.client,
        schedule=parallel.schedule,
    ) as server:
        found = server.run(_work, shares, settings=settings, starts=blocks.starts)
        return sorted(chain(*found), key=lambda assigned: assigned.number), server.report


def _work(
    endpoint: ServerEndpoint, share: Any, *, settings: Settings, starts: NDArray[np.int64]
) -> list[AssignedBlock]:
    """What one worker does."""
    assigned = []
    for number in endpoint.tasks(len(starts) - 1):
        block = share.read(number)
        rows = endpoint.pull(block.parameters)
        known = rows.copy()
        assigned.append(assign_block(block, number, int(starts[number]), rows, settings))
        new = rows & ~known
        changed = np.flatnonzero(new.any(axis=1))
        endpoint.push(block.parameters[changed], new[changed])
    return assigned
