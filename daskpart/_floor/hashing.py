"""Numbers scrambled so that equal ones stay equal and neighbours part: the finaliser of splitmix64.

    1 2 3 …  ──+ a multiple of the golden ratio──▶  mixed  ──▶  a draw, a hash, a shard

The same on every machine, in a kernel and over a whole array. Steele, Lea, Flood, "Fast splittable
pseudorandom number generators", 2014. Where a kernel needs one for each number of a row, it mixes
halves of words, by the finaliser of MurmurHash3 (Appleby, 2011): of these a processor takes many at
once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .kernels import kernel

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio: what splitmix64 adds from word to word."""


def mixed(words: Any) -> Any:
    """Scramble words, a uint64 array; `mixed_word` is the same for one of them inside a kernel."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


mixed_word = kernel(mixed)

GOLDEN_HALF = np.uint32(GOLDEN >> np.uint64(32))


@kernel(inline="always")
def mixed_half(half):
    """Scramble a uint32; each step is cut to 32 bits, as numba widens them."""
    half = np.uint32(half ^ (half >> np.uint32(16)))
    half = np.uint32(half * np.uint32(0x85EBCA6B))
    half = np.uint32(half ^ (half >> np.uint32(13)))
    half = np.uint32(half * np.uint32(0xC2B2AE35))
    return np.uint32(half ^ (half >> np.uint32(16)))


def row_keys(n_rows: int, seed: int, first: int = 0) -> NDArray[np.uint64]:
    """Keys of rows numbered from `first` on; all differ, and in their order rows are shuffled."""
    rows = np.arange(first, first + n_rows, dtype=np.uint64)
    return np.asarray(mixed(rows * GOLDEN + mixed(np.array([seed], np.uint64) + GOLDEN)))
