"""`mixed` is splitmix64's finaliser, in a kernel as over an array."""

from __future__ import annotations

import numpy as np

from daskpart._floor.hashing import GOLDEN, mixed, mixed_word


def test_the_words_of_the_reference():
    """The first outputs of splitmix64 from state 0, as its authors' C prints them."""
    with np.errstate(over="ignore"):
        found = mixed(np.arange(1, 4, dtype=np.uint64) * GOLDEN)
    assert [hex(word) for word in found.tolist()] == [
        "0xe220a8397b1dcdaf",
        "0x6e789e6aa1b965f4",
        "0x6c45d188009454f",
    ]
    assert [int(mixed_word(word)) for word in np.arange(1, 4, dtype=np.uint64) * GOLDEN] == [
        int(word) for word in found
    ]


def test_different_words_stay_different():
    assert len(np.unique(mixed(np.arange(10_000, dtype=np.uint64)))) == 10_000
