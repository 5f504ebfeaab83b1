"""Matrix Market (.mtx): a banner, a line of sizes, an entry a line, indices from 1.

    %%MatrixMarket matrix coordinate real symmetric      field: real, integer, pattern
    % remarks                                            symmetry: general, symmetric,
    3 3 2            rows, columns, entries                        skew-symmetric
    1 1 0.5
    3 1 2            of a symmetric matrix the other triangle is left out

What the first lines announce is checked against what the file holds before any array of that size
is made. R. F. Boisvert, R. Pozo, K. A. Remington, "The Matrix Market exchange formats", 1996.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from daskpart.containers.coordinates import index_dtype
from daskpart.errors import ReadError

from .assembly import check_extent
from .scanning import Rows, read_rows
from .streams import BYTE_ORDER_MARK, opened

_TYPES = {
    "real": np.dtype(np.float64),
    "double": np.dtype(np.float64),
    "integer": np.dtype(np.int64),
    "unsigned-integer": np.dtype(np.uint64),
    "pattern": None,
}
_LONGEST_LINE = 1 << 20
_MIRRORED = {"general": 0, "symmetric": 1, "hermitian": 1, "skew-symmetric": -1}


class _Entries(NamedTuple):
    rows: NDArray[np.signedinteger]
    columns: NDArray[np.signedinteger]
    values: NDArray


def read_mtx(path: str) -> sp.csr_array:
    """Read a Matrix Market file.

    Returns
    -------
    scipy.sparse.csr_array
        Patterns are ones; symmetric files are unfolded; explicit zeros stay; repeated cells are
        summed, as the format's own readers do.

    Raises
    ------
    ReadError
        What the format does not allow, with the line; a dense array, or complex values.
    """
    header = _header(path)
    width = 2 if header.dtype is None else 3
    pieces, n_found, last_rows = [], 0, None
    for rows in read_rows(path, "", n_columns=width, skip_lines=header.n_lines):
        if not len(rows.numbers):
            continue
        pieces.append(_entries(rows, width, header))
        n_new = len(pieces[-1].rows)
        if n_found + n_new > header.n_entries:
            rows.fail(
                header.n_entries - n_found,
                f"expected no more than the {header.n_entries} entries that line "
                f"{header.n_lines} announces",
            )
        n_found, last_rows = n_found + n_new, rows
    if n_found < header.n_entries:
        last_line = header.n_lines if last_rows is None else last_rows.lines[-1]
        raise ReadError(
            f"{path}, line {last_line}: the file ends after {n_found} entries; line "
            f"{header.n_lines} announces {header.n_entries}"
        )
    for extent, what in zip(header.shape, ("rows", "columns"), strict=True):
        check_extent(path, extent, n_found, what)
    return _assembled(path, pieces, header)


class _Header(NamedTuple):
    dtype: np.dtype | None  # None: no values
    mirrored: int  # 1: as it is, -1: with the other sign, 0: not at all
    shape: tuple[int, int]
    n_entries: int
    n_lines: int


def _header(path: str) -> _Header:
    """The banner, the remarks, and the line of sizes."""
    with opened(path) as stream:
        banner = stream.readline(_LONGEST_LINE).removeprefix(BYTE_ORDER_MARK)
        dtype, mirrored = _kind(path, banner)
        number, words = 1, list[bytes]()
        while not words:
            line, number = stream.readline(_LONGEST_LINE), number + 1
            if not line:
                raise ReadError(f"{path}: there is no line of rows, columns and entries in it")
            words = line.partition(b"%")[0].split()
    if len(words) != 3 or not all(word.isdigit() and len(word) < 16 for word in words):
        raise ReadError(
            f"{path}, line {number}: expected rows, columns and entries, three whole numbers; "
            f"found {_shown(line)}"
        )
    n_rows, n_columns, n_entries = map(int, words)
    if mirrored and n_rows != n_columns:
        raise ReadError(
            f"{path}, line {number}: a symmetric matrix is square, this one is {n_rows} x "
            f"{n_columns}"
        )
    return _Header(dtype, mirrored, (n_rows, n_columns), n_entries, number)


def _kind(path: str, banner: bytes) -> tuple[np.dtype | None, int]:
    """The type of the values, and how the upper triangle mirrors the lower."""
    if not banner:
        raise ReadError(f"{path}: the file is empty")
    words = banner.decode("utf-8", "replace").lower().split()
    if words[:2] != ["%%matrixmarket", "matrix"] or len(words) != 5:
        raise ReadError(
            f"{path}, line 1: expected a Matrix Market file, which begins with a line like "
            f"'%%MatrixMarket matrix coordinate real general'; found {_shown(banner)}"
        )
    layout, field, symmetry = words[2:]
    if layout == "array":
        raise ReadError(
            f"{path}: a dense Matrix Market array, in which zeros cannot be told from unknown "
            "values; write it in coordinate form"
        )
    known = layout == "coordinate" and field in _TYPES and symmetry in _MIRRORED
    if not known or (symmetry == "skew-symmetric" and field in ("pattern", "unsigned-integer")):
        raise ReadError(
            f"{path}, line 1: {_shown(banner)} cannot be read; the layout can be coordinate, the "
            "field real, integer or pattern, the symmetry general, symmetric or (of values with a "
            "sign) skew-symmetric"
        )
    return _TYPES[field], _MIRRORED[symmetry]


def _shown(line: bytes) -> str:
    return repr(line[:60].decode("utf-8", "replace").rstrip())


def _entries(rows: Rows, width: int, header: _Header) -> _Entries:
    """The entries of a chunk, counted from 0."""
    row, column = (
        rows.positions(np.s_[mode::width], f"{what} index", 1, extent).astype(index_dtype(extent))
        - 1
        for mode, (extent, what) in enumerate(zip(header.shape, ("row", "column"), strict=True))
    )
    if header.dtype is None:
        return _Entries(row, column, np.ones(len(row)))
    return _Entries(row, column, rows.values(np.s_[2::3], "value", header.dtype))


def _assembled(path: str, pieces: list[_Entries], header: _Header) -> sp.csr_array:
    dtype = np.dtype(np.float64) if header.dtype is None else header.dtype
    none = _Entries(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, dtype))
    rows, columns, values = (
        np.concatenate(parts) for parts in zip(*(pieces or [none]), strict=True)
    )
    if header.mirrored:
        apart = rows != columns
        rows, columns, values = (
            np.concatenate([rows, columns[apart]]),
            np.concatenate([columns, rows[apart]]),
            np.concatenate([values, header.mirrored * values[apart]]),
        )
    with np.errstate(over="ignore"):  # refused below
        matrix = sp.coo_array((values, (rows, columns)), shape=header.shape).tocsr()
    if matrix.nnz < len(values) and not np.isfinite(matrix.data).all():
        raise ReadError(f"{path}: the values of a cell sum to more than float64 can hold")
    return matrix
