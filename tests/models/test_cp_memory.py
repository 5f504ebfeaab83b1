"""What a rank holds, while it lays out its nonzeros too: twice their bytes and its factors."""

from __future__ import annotations

import numpy as np
import pytest

from daskpart.models.cp.layout.layout import TensorLayout
from daskpart.models.cp.layout.sorting import CHUNK
from daskpart.models.cp.layout.structures import Fibres, SortedNonzeros
from daskpart.models.cp.ranks import RankNonzeros, RankRows, arrange, squared_norm
from daskpart.models.cp.shuffle import collect_rank

N_NONZEROS = 100_000
RANK = 2  # so that factors leave little room for anything else
SHAPES = {
    "matrix": (3000, 2000),
    "wide matrix": (70_000, 2000),
    "long fibres": (300, 6, 400),
    "one long mode": (5000, 5000, 20),
    "short fibres": (900, 800, 1000),
    "short and wide": (70_000, 500, 400),
    "long, order 4": (40, 300, 6, 5),
    "short, order 4": (200, 300, 100, 90),
}
KINDS = {  # with memory="fast"
    "matrix": [SortedNonzeros] * 2,
    "wide matrix": [SortedNonzeros] * 2,
    "long fibres": [Fibres] * 2,
    "one long mode": [Fibres, SortedNonzeros],
    "short fibres": [SortedNonzeros],
    "short and wide": [SortedNonzeros],
    "long, order 4": [Fibres] * 2,
    "short, order 4": [SortedNonzeros],
}


def drawn(case: str) -> np.ndarray:
    """Coordinates, each once, in an order of no use."""
    shape, generator = SHAPES[case], np.random.default_rng(0)
    count = 20_000 if case == "one long mode" else N_NONZEROS
    cells = np.unique(generator.integers(0, np.prod(shape), count))
    if case == "one long mode":  # fibres of 5 along the last one
        pairs = np.unique(generator.integers(0, 5000 * 5000, count))
        first = generator.integers(0, 4, len(pairs))
        cells = ((20 * pairs + first)[:, None] + np.arange(0, 20, 4)).ravel()
    return np.array(np.unravel_index(generator.permutation(cells), shape)).astype(np.int32)


def rows_of(case: str) -> RankRows:
    """All rows, the even ones owned."""
    every = [np.arange(extent, dtype=np.int32) for extent in SHAPES[case]]
    rows = tuple(np.concatenate((all_[::2], all_[1::2])) for all_ in every)
    return RankRows(rows, tuple(len(all_[::2]) for all_ in every), SHAPES[case])


def arranged(case, dtype, memory, coordinates):
    """The rank's tensor and its nonzeros' bytes."""
    rows = rows_of(case)
    given = RankNonzeros(0, coordinates.copy(), np.ones(coordinates.shape[1], dtype))
    held = given.coordinates.nbytes + given.values.nbytes
    return arrange(given, rows, dtype=dtype, memory=memory), held


@pytest.mark.parametrize("memory", ["fast", "small"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", SHAPES)
def test_never_more_than_twice_the_nonzeros_and_the_factors(case, dtype, memory, least_peak):
    coordinates = drawn(case)
    arranged(case, dtype, memory, coordinates[:, :100])  # compiles
    (tensor, held), peak = least_peak(lambda: arranged(case, dtype, memory, coordinates))
    kinds = [type(structure) for structure in tensor.layout.structures]
    assert kinds == KINDS[case][: 2 if memory == "fast" else 1]
    factors = sum(SHAPES[case]) * RANK * np.dtype(dtype).itemsize
    assert peak <= 2 * held + factors + 16 * CHUNK
    assert tensor.layout.nbytes <= 2 * held


@pytest.mark.parametrize("case", ["wide matrix", "short and wide", "long, order 4"])
def test_nonzeros_given_away_make_the_same_layout(case):
    coordinates = drawn(case)
    values = np.arange(1.0, coordinates.shape[1] + 1)
    order = np.random.default_rng(1).permutation(len(values))
    kept = coordinates.copy()
    plain = TensorLayout.build(coordinates, values, SHAPES[case])
    np.testing.assert_array_equal(coordinates, kept)
    frozen = coordinates[:, order].copy()
    frozen.flags.writeable = False  # as some transports hand it over
    all_rows = tuple(np.arange(extent, dtype=np.int32) for extent in SHAPES[case])
    rows = RankRows(all_rows, SHAPES[case], SHAPES[case])
    given = RankNonzeros(0, frozen, values[order])
    tensor = arrange(given, rows, dtype="float64", memory="fast")
    for one, other in zip(plain.structures, tensor.layout.structures, strict=True):
        np.testing.assert_array_equal(one.coordinates, other.coordinates)
        np.testing.assert_array_equal(one.values, other.values)
    assert squared_norm(tensor) == pytest.approx((values**2).sum(), rel=1e-12)
    with pytest.raises(RuntimeError, match="laid out before"):
        arrange(given, rows, dtype="float64", memory="fast")


def test_pieces_of_blocks_are_copied_once(least_peak):
    piece = drawn("matrix")
    pieces = [(piece, np.ones(piece.shape[1], np.float32))] * 3
    rank, peak = least_peak(lambda: collect_rank(1, pieces, "float64"))
    assert peak <= rank.coordinates.nbytes + rank.values.nbytes + CHUNK
    assert rank.values.dtype == np.float64
