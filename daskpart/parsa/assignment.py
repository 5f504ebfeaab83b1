"""Parsa over blocks, one after another, with the neighbour sets carried on.

    S_i ──rows of the block's V──▶ Algorithm 3 ──grown rows──▶ S_i     block 0, 1, 2, …
                                        │
                                        └─▶ parts of the block's data, N(U_ij) of the block

Initialisations (Parsa, section 4.4):

    empty         S_i = ∅ before the first block
    individual    a extra passes: before block j of a later pass, S_i is the union of what the parts
                  of the blocks just before it need; what block j itself brought is dropped, as it
                  would be assigned to its old parts again
    global        S_i of a small sample, which is partitioned first
    incremental   S_i of an old result; new data join it
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.checks import checked_delay, one_of
from daskpart.errors import InputError

from .bipartite import Block, block_of
from .kernels import assign_data
from .neighbours import NeighbourSets, own_bits


class Blocks(Protocol):
    """A graph in blocks: `daskpart.parsa.MemoryBlocks` or `daskpart.parsa.BlockFolder`."""

    n_blocks: int
    n_data: int
    n_parameters: int
    n_edges: int

    @property
    def starts(self) -> NDArray[np.int64]:
        """How many data the blocks before each block have; int64[n_blocks + 1]."""

    def read(self, block: int) -> Block:
        """One block."""


@dataclass(frozen=True)
class Settings:
    """What is the same for all blocks.

    Parameters
    ----------
    n_parts : int
    weights : None, "edges" or int64[n_data]
        What makes a part heavy: its number of data, their edges, or these weights.
    offset : int
        How many data were assigned before the first block: the part that is served first goes
        round.
    compared : bool
        Whether random parts are assigned beside, to compare with.
    random_state : int
        Of the random parts.
    """

    n_parts: int
    weights: NDArray[np.int64] | str | None = None
    offset: int = 0
    compared: bool = True
    random_state: int = 0

    def weights_of(self, block: Block) -> NDArray[np.int64]:
        """The weights of a block's data."""
        if self.weights is None:
            return np.ones(block.n_data, np.int64)
        return np.diff(block.pointer) if isinstance(self.weights, str) else self.weights[block.data]

    def random_parts(self, number: int, n_data: int, first_part: int) -> NDArray[np.int32]:
        """Random parts for a block, as many data for each as can be."""
        rng = np.random.default_rng([self.random_state, number])
        return ((rng.permutation(n_data) + first_part) % self.n_parts).astype(np.int32)


@dataclass(frozen=True, eq=False)
class AssignedBlock:
    """A block after its data were assigned.

    Attributes
    ----------
    number : int
    data, assignment : int32[n]
        Which data, and the part of each.
    weights : int64[n]
        What each weighs.
    parameters : int32[m]
    own : uint8[m, bytes]
        Which parts need each of the parameters for this block alone.
    by_chance : uint8[m, bytes] or None
        The same of random parts.
    """

    number: int
    data: NDArray[np.int32]
    assignment: NDArray[np.int32]
    weights: NDArray[np.int64]
    parameters: NDArray[np.int32]
    own: NDArray[np.uint8]
    by_chance: NDArray[np.uint8] | None


@dataclass(frozen=True)
class Parallel:
    """Who works on the blocks.

    Parameters
    ----------
    workers : int
        At least 1; 1 needs no server.
    delay : int or math.inf
        τ: how many blocks before the present one may still be worked on.
    transport : "auto", "local", "dask" or "mpi"
    client : distributed.Client, optional
    schedule : None, "in turn" or int sequence
        As of `ParameterServer`.
    """

    workers: int = 1
    delay: float = 0
    transport: str = "auto"
    client: Any = None
    schedule: Any = None

    def __post_init__(self) -> None:
        checked_delay(self.delay)
        one_of(self.transport, "transport", ("auto", "local", "dask", "mpi"))

    def check(self, n_blocks: int, extra_passes: int) -> None:
        """Refuse more workers than blocks, and what only one worker can do."""
        if self.workers > n_blocks:
            raise InputError(
                f"workers is {self.workers}, but there are only {n_blocks} blocks: each worker "
                "needs a block of its own"
            )
        if self.workers > 1 and extra_passes:
            raise InputError(
                "extra_passes drop what a block brought before, which the shared sets of several "
                "workers cannot: use sample=… to start from, or workers=1"
            )


def assign_block(
    block: Block, number: int, n_before: int, sets: NDArray[np.uint8], settings: Settings
) -> AssignedBlock:
    """Assign the data of one block by Algorithm 3; `sets`, the bits of its parameters, grow."""
    first_part = (n_before + settings.offset) % settings.n_parts
    weights = settings.weights_of(block)
    assignment = assign_data(
        block.pointer,
        block.local,
        *block.transposed(),
        np.argsort(np.diff(block.pointer), kind="stable"),
        weights if weights.any() else np.ones_like(weights),
        sets,
        settings.n_parts,
        first_part,
    )
    by_chance = None
    if settings.compared:
        drawn = settings.random_parts(number, block.n_data, first_part)
        by_chance = own_bits(block, drawn, settings.n_parts)
    own = own_bits(block, assignment, settings.n_parts)
    return AssignedBlock(number, block.data, assignment, weights, block.parameters, own, by_chance)


def assign_in_order(
    blocks: Blocks, settings: Settings, sets: NDArray[np.uint8]
) -> Iterator[AssignedBlock]:
    """One pass over all blocks; `sets`, the bits of all parameters, grow."""
    for number in range(blocks.n_blocks):
        block = blocks.read(number)
        rows = sets[block.parameters]
        assigned = assign_block(block, number, int(blocks.starts[number]), rows, settings)
        sets[block.parameters] = rows
        yield assigned


def assign_again(
    blocks: Blocks,
    settings: Settings,
    base: NDArray[np.uint8],
    extra_passes: int,
    window: int,
) -> Iterator[AssignedBlock]:
    """`extra_passes` further passes: the individual initialisation. Yields the last pass.

    Parameters
    ----------
    blocks, settings
        As of `assign_in_order`.
    base : uint8[n_parameters, bytes]
        What every S_i has from the start.
    extra_passes : int
        At least 1.
    window : int
        How many blocks just before each block count, at most all others.
    """
    recent: deque[AssignedBlock] = deque(maxlen=window)
    for assigned in assign_in_order(blocks, settings, base.copy()):
        recent.append(assigned)
    place_of = np.full(len(base), -1, np.int64)  # of a parameter among those of the block
    for turn in range(extra_passes):
        for number in range(blocks.n_blocks):
            block = blocks.read(number)
            rows = base[block.parameters]
            place_of[block.parameters] = np.arange(len(rows))
            for before in recent:
                place = place_of[before.parameters]
                rows[place[place >= 0]] |= before.own[place >= 0]
            place_of[block.parameters] = -1
            assigned = assign_block(block, number, int(blocks.starts[number]), rows, settings)
            recent.append(assigned)
            if turn == extra_passes - 1:
                yield assigned


def sets_of_sample(
    blocks: Blocks, settings: Settings, share: float, random_state: int
) -> NeighbourSets:
    """S_i of a random sample of the data: the global initialisation.

    Parameters
    ----------
    blocks, settings
        As of `assign_in_order`.
    share : float
        Of all data; blocks are read until there are so many.
    random_state : int
    """
    rng = np.random.default_rng(random_state)
    wanted = max(1, round(share * blocks.n_data))
    pointers, parameters, data = [np.zeros(1, np.int64)], [], []
    for number in range(blocks.n_blocks):
        block = blocks.read(number)
        places = np.sort(rng.permutation(block.n_data)[:wanted])
        pointer, touched = block.taken(places)
        pointers.append(np.diff(pointer))
        parameters.append(touched)
        data.append(block.data[places])
        wanted -= len(places)
        if not wanted:
            break
    pointer = np.cumsum(np.concatenate(pointers))
    sample = block_of(
        np.concatenate(data), pointer, np.concatenate(parameters), blocks.n_parameters
    )
    sets = NeighbourSets.empty(blocks.n_parameters, settings.n_parts)
    rows = sets.bits[sample.parameters]
    assign_block(sample, 0, 0, rows, replace(settings, compared=False))
    sets.bits[sample.parameters] = rows
    return sets
