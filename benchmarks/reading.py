"""Seconds to read a million ratings, by format, and to make ratings up.

Files are written in setup from power-law ratings, so every machine measures the same bytes:
20,000 users, 4,000 items, 10^6 ratings in steps of a half, with a time stamp each.
"""

from __future__ import annotations

import gzip
import lzma
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse as sp

import daskpart
from daskpart.datasets import load_python_source, power_law_ratings, train_test_split_ratings

N_USERS, N_ITEMS, N_RATINGS = 20_000, 4_000, 1_000_000


def _columns() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Users, items (1-based) and ratings in the order of a log: by time, not by user."""
    matrix = power_law_ratings(N_USERS, N_ITEMS, N_RATINGS, 0).data
    order = np.random.default_rng(0).permutation(matrix.nnz)
    users, items = matrix.coords[:, order] + 1
    return users, items, np.clip(np.round(2 * matrix.data[order]) / 2, 0.5, 5.0)


def _lines(pattern: str) -> bytes:
    return "".join(
        pattern % row for row in zip(*(column.tolist() for column in _columns()), strict=True)
    ).encode()


def _matrix() -> sp.coo_array:
    users, items, ratings = _columns()
    return sp.coo_array((ratings, (users - 1, items - 1)))


def _examples() -> bytes:
    matrix = _matrix().tocsr()
    rows = np.split(np.char.mod("%d:", matrix.indices + 1), matrix.indptr[1:-1])
    values = np.split(matrix.data, matrix.indptr[1:-1])
    lines = (
        "1 " + " ".join(f"{index}{value:g}" for index, value in zip(*row, strict=True))
        for row in zip(rows, values, strict=True)
    )
    return "\n".join(lines).encode()


FILES: dict[str, Callable[[], bytes]] = {
    "u.data": lambda: _lines("%d\t%d\t%g\t881250949\n"),
    "ratings.dat": lambda: _lines("%d::%d::%g::881250949\n"),
    "ratings.csv": lambda: b"userId,movieId,rating,timestamp\n" + _lines("%d,%d,%g,881250949\n"),
    "ratings.csv.gz": lambda: gzip.compress(FILES["ratings.csv"](), 6),
    "ratings.csv.xz": lambda: lzma.compress(FILES["ratings.csv"](), preset=1),
    "x.tns": lambda: _lines("%d %d %g\n"),
    "x.edges": lambda: _lines("%d %d %g\n"),
    "x.libsvm": _examples,
}


class Reading:
    """`daskpart.read` of 10^6 ratings: seconds, and the most memory held."""

    params = [*FILES, "x.mtx", "x.npz"]  # noqa: RUF012 - asv's name
    param_names = ["file"]  # noqa: RUF012
    timeout = 120

    def setup(self, name: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._path = Path(self._folder.name) / name
        if name == "x.mtx":
            scipy.io.mmwrite(self._path, _matrix())
        elif name == "x.npz":
            sp.save_npz(self._path, _matrix())
        else:
            self._path.write_bytes(FILES[name]())
        daskpart.read(self._path)  # imports

    def teardown(self, name: str) -> None:
        self._folder.cleanup()

    def time_read(self, name: str) -> None:
        daskpart.read(self._path)

    def peakmem_read(self, name: str) -> None:
        daskpart.read(self._path)


class Making:
    """What is computed: the standard library, and ratings of the size of MovieLens 10M."""

    timeout = 120

    def setup(self) -> None:
        self._ratings = power_law_ratings(70_000, 10_000, 100_000, 0)

    def time_python_source(self) -> None:
        load_python_source(cache=False)

    def time_ten_million_ratings(self) -> None:
        power_law_ratings(70_000, 10_000, 10_000_000, 0)

    def time_split(self) -> None:
        train_test_split_ratings(self._ratings)
