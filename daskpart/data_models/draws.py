"""Draws that a seed and the numbers of vertices decide alone, so that every rank draws the same.

    key_of(seed, epoch, batch)  ─►  key
    key, vertex                 ─►  place in a shuffle of all vertices      (shuffled)
    key, vertex                 ─►  drawn with a probability or not         (drawn_with)
    key, target, neighbour      ─►  among the few of the target or not      (few_neighbours)

No generator is advanced, so nobody needs to know what was drawn for others before. The shuffle is a
Feistel network over the next even number of bits, walked until it is below n (Black and Rogaway,
"Ciphers with arbitrary finite domains", CT-RSA 2002): a place costs the same for any n.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.hashing import GOLDEN, mixed, mixed_word
from daskpart._floor.kernels import kernel

_ROUNDS = 4


def key_of(*numbers: int) -> np.uint64:
    """A key for each tuple of whole numbers from 0."""
    key = np.zeros(1, np.uint64)
    for number in numbers:
        key = mixed((key + np.array([number], np.uint64)) * GOLDEN + GOLDEN)
    return np.uint64(key[0])


def shuffled(numbers: NDArray[np.int64], n: int, key: np.uint64) -> NDArray[np.int64]:
    """Where a shuffle of 0 … n − 1 puts some of them; different numbers, different places."""
    half = max(4, (int(n - 1).bit_length() + 1) // 2)
    places = np.empty(len(numbers), np.int64)
    _shuffle(numbers.astype(np.uint64), np.uint64(half), np.uint64(n), key, places)
    return places


@kernel
def _shuffle(numbers, half, n, key, places):
    low = (np.uint64(1) << half) - np.uint64(1)
    for i in range(numbers.size):
        word = numbers[i]
        while True:
            left, right = word >> half, word & low
            for turn in range(_ROUNDS):
                salt = (np.uint64(turn) << np.uint64(32)) | right
                left, right = right, left ^ (mixed_word(key + salt * GOLDEN) & low)
            word = (left << half) | right
            if word < n:
                break
        places[i] = np.int64(word)


def drawn_with(
    probabilities: NDArray[np.float64], ids: NDArray[np.int64], key: np.uint64
) -> NDArray[np.bool_]:
    """Which vertices are drawn, each by itself with its probability."""
    words = mixed(key + ids.astype(np.uint64) * GOLDEN)
    return (words >> np.uint64(11)) * 2.0**-53 < probabilities


def few_neighbours(
    pointer: NDArray[np.int64],
    neighbours: NDArray[np.int32],
    targets: NDArray[np.int64],
    ids: NDArray[np.int64],
    most: int,
    key: np.uint64,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """`most` neighbours of each target, or all; drawn evenly.

    Parameters
    ----------
    pointer, neighbours : ndarrays
        Rows of a graph.
    targets : int ndarray
        Rows to draw for.
    ids : int64 ndarray
        What the vertex at each place of the rows and columns is called; drawn is by these.
    most : int
    key : uint64

    Returns
    -------
    entries : int64 ndarray
        Places in `neighbours`.
    counts : int64 ndarray
        How many of them each target has.
    """
    degrees = pointer[targets + 1] - pointer[targets]
    most = min(most, int(degrees.max(initial=0)))  # "all of them" may be any large number
    counts = np.minimum(degrees, most)
    entries = np.empty(int(counts.sum()), np.int64)
    smallest, places = np.empty(most, np.uint64), np.empty(most, np.int64)
    _few(pointer, neighbours, targets, ids, smallest, places, key, entries)
    return entries, counts


@kernel
def _few(pointer, neighbours, targets, ids, smallest, places, key, entries):
    """Those whose words are smallest; held with their places in the order of the words."""
    most, found = smallest.size, 0
    for target in targets:
        begin, end = pointer[target], pointer[target + 1]
        if end - begin <= most:
            for place in range(begin, end):
                entries[found] = place
                found += 1
            continue
        row, n_held = mixed_word(key + np.uint64(ids[target]) * GOLDEN), 0
        for place in range(begin, end):
            word = mixed_word(row + np.uint64(ids[neighbours[place]]) * GOLDEN)
            if n_held < most or word < smallest[most - 1]:
                slot = min(n_held, most - 1)
                while slot > 0 and smallest[slot - 1] > word:
                    smallest[slot], places[slot] = smallest[slot - 1], places[slot - 1]
                    slot -= 1
                smallest[slot], places[slot] = word, place
                n_held = min(n_held + 1, most)
        for held in range(most):  # in the order of the row
            slot = found + held
            while slot > found and entries[slot - 1] > places[held]:
                entries[slot] = entries[slot - 1]
                slot -= 1
            entries[slot] = places[held]
        found += most
