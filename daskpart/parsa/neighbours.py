"""Which parameters each part needs, N(U_i), as bits: a row of k bits for each parameter.

    parameter   parts       bits (k = 3, one byte)     |N(U_0)| = 2
    v0          {0, 2}      00000101                   |N(U_1)| = 1
    v1          {0}         00000001                   |N(U_2)| = 1
    v2          {1}         00000010

⌈k / 8⌉ bytes a parameter: an eighth of what a byte for each part and parameter would take, and for
k ≤ 64 no more than one compressed (parameter, part) pair and its pointer. The bits of a parameter
lie side by side, since Parsa asks for a parameter and all or one of its parts. They are also the
rows that parallel Parsa pulls and pushes, with "or" as the update.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.kernels import kernel
from daskpart.connectivity import Connectivity
from daskpart.errors import InputError

from .bipartite import Block
from .kernels import add_neighbours

_BITS_OF_BYTES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")


def sizes_of(bits: NDArray[np.uint8], n_parts: int) -> NDArray[np.int64]:
    """How many parameters each part needs, int64[n_parts]."""
    of_bytes = [np.bincount(column, minlength=256) @ _BITS_OF_BYTES for column in bits.T]
    return np.concatenate(of_bytes)[:n_parts]


@kernel
def parts_of(bits: NDArray, parameter: int, parts: NDArray) -> int:
    """Write the parts that need a parameter, rising, into `parts`; how many they are."""
    found = 0
    for byte in range(bits.shape[1]):
        left, part = bits[parameter, byte], 8 * byte
        while left:
            if left & 1:
                parts[found] = part
                found += 1
            left >>= 1
            part += 1
    return found


@kernel
def _pairs(bits: NDArray, n_pairs: int) -> tuple[NDArray, NDArray]:
    pointer = np.zeros(len(bits) + 1, np.int64)
    parts = np.empty(n_pairs, np.int32)
    for parameter in range(len(bits)):
        start = pointer[parameter]
        pointer[parameter + 1] = start + parts_of(bits, parameter, parts[start:])
    return pointer, parts


@dataclass(frozen=True, eq=False)
class NeighbourSets:
    """N(U_i) for every part.

    Parameters
    ----------
    bits : uint8[n_parameters, ceil(n_parts / 8)]
        Parameter v is in N(U_i) where bit ``i % 8`` of ``bits[v, i // 8]`` is set.
    n_parts : int
    """

    bits: NDArray[np.uint8]
    n_parts: int

    @classmethod
    def empty(cls, n_parameters: int, n_parts: int) -> NeighbourSets:
        """No part needs anything."""
        return cls(np.zeros((n_parameters, -(-n_parts // 8)), np.uint8), n_parts)

    @property
    def n_parameters(self) -> int:
        """Number of parameters, untouched ones included."""
        return len(self.bits)

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """``|N(U_i)|``, int64[n_parts]: the memory footprint of each part in parameters."""
        return sizes_of(self.bits, self.n_parts)

    def add(self, block: Block, assignment: NDArray[np.int32]) -> None:
        """Put in what the data of a block need, int32[block.n_data] being their parts."""
        self.include(block.parameters, own_bits(block, assignment, self.n_parts))

    def include(self, parameters: NDArray[np.int32], bits: NDArray[np.uint8]) -> None:
        """Put in bits of some parameters, each named once."""
        self.bits[parameters] |= bits
        self.__dict__.pop("sizes", None)

    def widened(self, n_parameters: int) -> NeighbourSets:
        """A copy with room for more parameters, which no part needs yet.

        Raises
        ------
        InputError
            Fewer parameters than there are.
        """
        if n_parameters < self.n_parameters:
            raise InputError(
                f"the data have {n_parameters} parameters, the neighbour sets "
                f"{self.n_parameters}: number them alike, in a matrix of as many columns or with "
                f"n_parameters={self.n_parameters} of Bipartite.from_libsvm or BlockFolder.write"
            )
        wide = NeighbourSets.empty(n_parameters, self.n_parts)
        wide.bits[: self.n_parameters] = self.bits
        return wide

    def connectivity(self, owners: NDArray[np.int32] | None = None) -> Connectivity:
        """Parameter → parts in compressed rows; every pair counts 1, as edges are not kept."""
        pointer, parts = _pairs(self.bits, int(self.sizes.sum()))
        ones = np.ones(len(parts), np.int64)
        costs = np.ones(self.n_parameters, np.int64)
        return Connectivity(pointer, parts, ones, self.n_parts, costs, owners)


def own_bits(block: Block, assignment: NDArray[np.int32], n_parts: int) -> NDArray[np.uint8]:
    """Bits of what the data of one block need, by the block's own numbers of the parameters."""
    own = np.zeros((len(block.parameters), -(-n_parts // 8)), np.uint8)
    add_neighbours(block.pointer, block.local, assignment, own)
    return own
