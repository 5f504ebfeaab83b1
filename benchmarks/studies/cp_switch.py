"""From which length of fibres on it pays to gather them, without sums kept between modes."""

from __future__ import annotations

from time import process_time

import numpy as np

from daskpart.models.cp.layout.sorting import Nonzeros
from daskpart.models.cp.layout.structures import Fibres, SortedNonzeros

SWITCH_COLUMNS = (
    "mean length", "type", "R", "sorted nonzeros, ms", "fibres, ms", "sorted / fibres",
)  # fmt: skip
SHAPE = (20_000, 8_000, 8_000)
N_NONZEROS = 300_000
LENGTHS = (1, 2, 3, 4, 6, 8, 16)


def made_nonzeros(length: float) -> np.ndarray:
    """Coordinates whose fibres along the last mode have about this mean length."""
    generator, n_fibres = np.random.default_rng(0), int(N_NONZEROS / length)
    ends = [generator.integers(0, extent, n_fibres) for extent in SHAPE[:2]]
    more = generator.integers(0, n_fibres, N_NONZEROS - n_fibres)
    which = np.concatenate([np.arange(n_fibres), more])
    leaves = generator.integers(0, SHAPE[2], N_NONZEROS)
    drawn = np.array([ends[0][which], ends[1][which], leaves])
    return np.unique(drawn, axis=1).astype(np.int32)


def switch_point(turns: int) -> list[list]:
    """One line a length, type and R: least CPU time of both structures, in turns."""
    rows = []
    for length in LENGTHS:
        coordinates = made_nonzeros(length)
        for dtype in (np.float64, np.float32):
            values = np.ones(coordinates.shape[1], dtype)
            given = Nonzeros(coordinates, values)
            by_order = SortedNonzeros.build(given, SHAPE, (0, 1, 2))
            by_fibre = Fibres.build(given, SHAPE, 2)
            for rank in (16, 32):
                pair = [_least_ms(by, rank, turns) for by in (by_order, by_fibre)]
                mean = len(values) / by_fibre.n_fibres
                rows.append([mean, np.dtype(dtype).name, rank, *pair, pair[0] / pair[1]])
    return rows


def _least_ms(structure: SortedNonzeros | Fibres, rank: int, turns: int) -> float:
    dtype = structure.values.dtype
    generator = np.random.default_rng(0)
    factors = [generator.random((extent, rank)).astype(dtype) for extent in SHAPE]
    results = [np.zeros_like(factor) for factor in factors]
    least = [np.inf, np.inf]
    for _ in range(turns):
        for mode in (0, 1):
            begin = process_time()
            structure.add(mode, factors, results[mode])
            least[mode] = min(least[mode], process_time() - begin)
    return 1e3 * sum(least)
