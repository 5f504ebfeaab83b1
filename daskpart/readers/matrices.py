"""Matrices whose indices are positions: Matrix Market and NumPy archives.

.mtx  pattern, symmetric, explicit zeros        -->  csr_array
.npz  scipy.sparse.save_npz                     -->  csr_array
      sparse.save_npz                           -->  sparse.COO of any order
      adj_indptr, feat_indptr, labels, ...      -->  xarray.Dataset of a graph to learn on
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse as sp
import sparse
import xarray

from daskpart.errors import ReadError

from .scanning import read_rows
from .streams import head, opened

_UNREADABLE = (
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    OSError,
    EOFError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)
_SPLITS = {"train": "train_idx", "validation": "val_idx", "test": "test_idx"}


def read_mtx(path: Path) -> sp.csr_array:
    """Read a Matrix Market file.

    Returns
    -------
    scipy.sparse.csr_array
        Patterns are ones; symmetric files are unfolded; explicit zeros stay; repeated cells are
        summed, as the format's own readers do.
    """
    head(path, 1)  # an empty file gets its own message
    with opened(path) as stream:
        try:
            matrix = scipy.io.mmread(stream)
        except (ValueError, OverflowError, StopIteration) as error:
            line = re.match(r"Line (\d+): (.*)", str(error))
            where = f"{path}, line {line[1]}: {line[2]}" if line else f"{path}: {error}"
            raise ReadError(f"{where} (expected a Matrix Market file)") from error
    if not sp.issparse(matrix):
        raise ReadError(
            f"{path}: a dense Matrix Market array, in which zeros cannot be told from unknown "
            "values; write it in coordinate form"
        )
    if not np.isfinite(matrix.data).all():
        _fail_at_line(path)
    return sp.csr_array(sp.coo_array(matrix))


def _fail_at_line(path: Path) -> None:
    """Find the line of the value that is not finite."""
    for rows in read_rows(path, "", skip_header=True):
        bad = np.flatnonzero(~np.isfinite(rows.tokens))
        if len(bad):
            row = int(np.searchsorted(rows.pointer, bad[0], side="right")) - 1
            rows.fail(row, f"expected a finite value, found {rows.tokens[bad[0]]}")


def read_npz(path: Path) -> sp.csr_array | sparse.COO | xarray.Dataset:
    """Read a NumPy archive; what it holds is told by its keys.

    Returns
    -------
    scipy.sparse.csr_array
        Written by `scipy.sparse.save_npz`, any format.
    sparse.COO
        Written by `sparse.save_npz` (COO or GCXS).
    xarray.Dataset
        A graph (`adj_indptr`): ``adjacency`` (node, neighbour), and where present ``features``
        (node, feature), both sparse.COO float32; ``label`` (node) int64, -1 unlabelled; masks
        ``train``, ``validation``, ``test`` (node).
    """
    with opened(path) as stream:
        content = io.BytesIO(stream.read())
    if not content.getbuffer().nbytes:
        raise ReadError(f"{path}: the file is empty")
    if not zipfile.is_zipfile(content):
        raise ReadError(f"{path}: not an archive that can be read: it is no zip")
    content.seek(0)
    try:
        with np.load(content, allow_pickle=False) as archive:
            keys = set(archive.files)
            content.seek(0)
            if "adj_indptr" in keys:
                return _graph(archive, path)
            if "format" in keys and "fill_value" not in keys:
                return _finite(sp.csr_array(sp.load_npz(content)), path)
            if "fill_value" in keys:
                return _finite(_tensor(content, path), path)
    except _UNREADABLE as error:
        if isinstance(error, ReadError):
            raise
        raise ReadError(f"{path}: not an archive that can be read: {error}") from error
    raise ReadError(
        f"{path}: expected the keys of scipy.sparse.save_npz, of sparse.save_npz, or of a graph "
        f"(adj_indptr, adj_indices, ...); found {sorted(keys)}"
    )


def _finite(matrix: sp.csr_array | sparse.COO, path: Path) -> sp.csr_array | sparse.COO:
    bad = np.flatnonzero(~np.isfinite(matrix.data))
    if len(bad):
        raise ReadError(
            f"{path}: expected finite values, found {len(bad)} that are not, the first "
            f"({matrix.data[bad[0]]}) at entry {bad[0]}"
        )
    return matrix


def _tensor(content: io.BytesIO, path: Path) -> sparse.COO:
    array = sparse.load_npz(content)
    if array.fill_value != 0:
        raise ReadError(
            f"{path}: expected the fill value 0 (absent = unknown), found {array.fill_value}"
        )
    return array if isinstance(array, sparse.COO) else array.tocoo()


def _graph(archive: np.lib.npyio.NpzFile, path: Path) -> xarray.Dataset:
    n_nodes = int(archive["n_nodes"]) if "n_nodes" in archive else len(archive["adj_indptr"]) - 1
    variables: dict = {
        "adjacency": (("node", "neighbour"), _from_csr(archive, "adj", (n_nodes, n_nodes)))
    }
    if "feat_indptr" in archive:
        shape = tuple(archive["feat_shape"].tolist())
        variables["features"] = (("node", "feature"), _from_csr(archive, "feat", shape))
    if "labels" in archive:
        variables["label"] = ("node", archive["labels"].astype(np.int64))
    for name, key in _SPLITS.items():
        if key in archive:
            mask = np.zeros(n_nodes, bool)
            mask[archive[key]] = True
            variables[name] = ("node", mask)
    return xarray.Dataset(variables, attrs={"source": str(path)})


def _from_csr(archive: np.lib.npyio.NpzFile, prefix: str, shape: tuple[int, int]) -> sparse.COO:
    indices = archive[f"{prefix}_indices"]
    key = f"{prefix}_data"
    data = archive[key].astype(np.float32) if key in archive else np.ones(len(indices), np.float32)
    matrix = sp.csr_array((data, indices, archive[f"{prefix}_indptr"]), shape=shape)
    matrix.sum_duplicates()
    rows = np.repeat(np.arange(shape[0], dtype=np.int32), np.diff(matrix.indptr))
    coords = np.stack([rows, matrix.indices.astype(np.int32)])
    return sparse.COO(coords, matrix.data, shape=shape, sorted=True, has_duplicates=False)
