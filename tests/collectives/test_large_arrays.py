"""Arrays whose memory is used again: never while anybody sees it."""

from __future__ import annotations

import gc
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from daskpart.collectives import large_arrays
from daskpart.collectives.large_arrays import (
    copied,
    empty_array,
    filled_array,
    free_kept_memory,
    joined,
)


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    monkeypatch.setattr(large_arrays, "_LEAST", 1 << 16)
    free_kept_memory()
    yield
    free_kept_memory()


def address(array):
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("length", [0, 1, 100_000, 10_000_000])
@pytest.mark.parametrize("dtype", ["?", "u4", "f8", "M8[s]", "O"])
def test_arrays_are_like_those_of_numpy(length, dtype):
    length = length if dtype != "O" else min(length, 100_000)
    array = empty_array(length, dtype)
    assert (array.shape, array.dtype, array.flags.writeable) == ((length,), np.dtype(dtype), True)
    assert array.flags.aligned and array.flags.c_contiguous
    for value in (0, 1):
        expected = np.full(length, value, dtype)
        np.testing.assert_array_equal(filled_array(length, dtype, value), expected)


def test_copies_and_joined_arrays():
    whole = np.arange(300_000.0).reshape(100, 3000)
    for array in (whole, whole.T, whole[::2, ::3], whole[:0], whole[3]):
        copy = copied(array)
        np.testing.assert_array_equal(copy, array)
        assert copy.flags.c_contiguous and not np.shares_memory(copy, array)
    parts = [whole[0], whole[1, :0], whole[2:60].ravel()]
    np.testing.assert_array_equal(joined(parts), np.concatenate(parts))


def test_memory_is_used_again_when_the_last_view_is_dropped():
    array = empty_array(100_000, np.float64)
    where = address(array)
    view = array[5:].view(np.uint8)[3:]
    buffer = pickle.PickleBuffer(array[:20]).raw()  # what is on its way holds it, too
    del array
    assert address(empty_array(100_000, np.float64)) != where
    del view
    assert address(empty_array(100_000, np.float64)) != where
    del buffer
    gc.collect()
    found = [empty_array(90_000, np.float64) for _ in range(3)]
    assert where in map(address, found)
    assert not any(np.shares_memory(a, b) for a, b in ((0, 1), (0, 2), (1, 2)) for a, b in
                   [(found[a], found[b])])  # fmt: skip


def test_a_few_are_kept_of_each_size_until_they_are_let_go_of():
    held = [empty_array(length, np.float64) for length in (10_000, 20_000) for _ in range(20)]
    array = held[-1]
    del held
    assert [len(kept) for kept in large_arrays._kept.values()] == [large_arrays._KEPT] * 2
    free_kept_memory()
    del array  # it was in use
    assert not any(large_arrays._kept.values())


def test_threads_never_share_an_array():
    def work(seed):
        held = []
        for turn in range(200):
            array = empty_array(20_000 + 100 * (turn % 7), np.float64)
            array.fill(seed + turn)
            held.append((array, seed + turn))
            if turn % 3 == 2:
                held.pop(0)
            assert all((kept == value).all() for kept, value in held[-4:])
            held = held[-6:]
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(0, 4000, 1000)))
