"""NumPy archives (.npz), told by their keys.

    scipy.sparse.save_npz                     -->  csr_array
    sparse.save_npz                           -->  sparse.COO of any order
    adj_indptr, feat_indptr, labels, ...      -->  xarray.Dataset of a graph to learn on

An archive says how large its arrays are, and where the entries of a matrix lie. Both are checked
before NumPy makes room for the one, and compiled code follows the other.
"""

from __future__ import annotations

import io
import math
import zipfile
from typing import Any

import numpy as np
import scipy.sparse as sp
import sparse
import xarray
from numpy.typing import NDArray

from daskpart._floor.words import listed
from daskpart.containers.coordinates import index_dtype
from daskpart.errors import DaskpartError, ReadError

from .assembly import assemble, cast_values, check_extent, expected_value
from .streams import unpacked

_SPLITS = {"train": "train_idx", "validation": "val_idx", "test": "test_idx"}
_BEST_COMPRESSION = 1100  # deflate makes a byte of at most 1032; LZMA and bzip2 are not NumPy's
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def read_npz(path: str) -> sp.csr_array | sparse.COO | xarray.Dataset:
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
    content = unpacked(path)
    if not zipfile.is_zipfile(content):
        raise ReadError(f"{path}: not an archive that can be read: it is no zip")
    try:
        _check_sizes(content, path)
        content.seek(0)
        with np.load(content, allow_pickle=False) as archive:
            keys = set(archive.files)
            content.seek(0)
            if "adj_indptr" in keys:
                return _graph(archive, path)
            if "format" in keys and "fill_value" not in keys:
                return _finite(_matrix(content, path), path)
            if "fill_value" in keys:
                return _finite(_tensor(content, path), path)
    except DaskpartError:
        raise
    except Exception as error:  # whatever three libraries say to damaged bytes
        raise ReadError(f"{path}: not an archive that can be read: {error}") from error
    raise ReadError(
        f"{path}: expected the keys of scipy.sparse.save_npz, of sparse.save_npz, or of a graph "
        f"(adj_indptr, adj_indices, ...); found {listed(sorted(keys))}"
    )


def _check_sizes(content: io.BytesIO, path: str) -> None:
    """Refuse arrays that are announced larger than the bytes which are there can make them."""
    with zipfile.ZipFile(content) as archive:
        names = archive.namelist()
        if names and not any(name.endswith(".npy") for name in names):
            raise ReadError(
                f"{path}: a zip of {listed(names)}: unpack it, and give the file inside"
            )
        for member in archive.infolist():
            packed = min(member.compress_size, content.getbuffer().nbytes)
            ratio = 1 if member.compress_type == zipfile.ZIP_STORED else _BEST_COMPRESSION
            if member.file_size > ratio * packed:
                raise ValueError(f"{member.filename} is said to hold {member.file_size} bytes")
            with archive.open(member) as file:
                version = np.lib.format.read_magic(file)
                shape, _, dtype = _HEADERS[version](file)
            if not dtype.hasobject and math.prod(shape) * dtype.itemsize > member.file_size:
                raise ValueError(f"{member.filename} is said to have the shape {shape}")


def _matrix(content: io.BytesIO, path: str) -> sp.csr_array:
    matrix: Any = sp.load_npz(content)
    if matrix.ndim != 2:
        raise ReadError(f"{path}: expected a matrix, found an array of the shape {matrix.shape}")
    for extent, what in zip(matrix.shape, ("rows", "columns"), strict=True):
        check_extent(path, extent, matrix.data.size, what)
    if hasattr(matrix, "check_format"):
        _check_pointer(matrix)
    if matrix.format in ("bsr", "dia"):  # the padding of blocks and diagonals is stored as zeros
        matrix = matrix.tocsr()
        matrix.eliminate_zeros()
    return sp.csr_array(matrix if matrix.format == "csr" else matrix.tocoo())


def _finite(matrix: sp.csr_array | sparse.COO, path: str) -> sp.csr_array | sparse.COO:
    if matrix.dtype.kind not in "biuf":
        raise ReadError(f"{path}: expected real numbers, found values of type {matrix.dtype}")
    bad = np.flatnonzero(~np.isfinite(matrix.data))
    if len(bad):
        raise ReadError(
            f"{path}: expected finite values, found {len(bad)} that are not, the first "
            f"({matrix.data[bad[0]]}) at entry {bad[0]}"
        )
    return matrix


def _tensor(content: io.BytesIO, path: str) -> sparse.COO:
    array = sparse.load_npz(content)
    known = array.fill_value == array.fill_value  # NaN, which xarray fills with, is not
    if array.fill_value != 0 and known:
        raise ReadError(
            f"{path}: expected the fill value 0 or NaN (absent = unknown), found "
            f"{array.fill_value}: write coords and data with fill_value=0"
        )
    indices = array.coords if isinstance(array, sparse.COO) else _uncompressed(array)
    for mode, (index, extent) in enumerate(zip(indices, array.shape, strict=True)):
        if index.dtype.kind not in "iu" or (
            len(index) and not 0 <= index.min() <= index.max() < extent
        ):
            raise ValueError(f"coordinates of mode {mode} are not whole numbers below {extent}")
        if array.ndim == 2:  # a matrix, as scipy writes one
            check_extent(path, extent, array.nnz, ("rows", "columns")[mode])
    return assemble(list(indices), array.data, array.shape, path, repeats="sum")


def _uncompressed(array: sparse.GCXS) -> list[NDArray]:
    """The coordinates of a GCXS array: a CSR matrix of some modes by the others."""
    if array.ndim == 1:
        return [array.indices]
    modes = [list(array.compressed_axes)]
    modes.append([mode for mode in range(array.ndim) if mode not in modes[0]])
    extents = [[array.shape[mode] for mode in side] for side in modes]
    matrix = _checked_csr(
        array.data, array.indices, array.indptr, (math.prod(extents[0]), math.prod(extents[1]))
    )
    indices: list[NDArray] = [array.indices] * array.ndim
    for side, index, lengths in zip(modes, matrix.tocoo().coords, extents, strict=True):
        for mode, coordinate in zip(side, np.unravel_index(index, lengths), strict=True):
            indices[mode] = coordinate
    return indices


def _checked_csr(
    values: NDArray, indices: NDArray, pointer: NDArray, shape: tuple[int, int]
) -> sp.csr_array:
    matrix = sp.csr_array((values, indices, pointer), shape=shape)
    _check_pointer(matrix)
    return matrix


def _check_pointer(matrix: Any) -> None:
    """Refuse indices and pointers that SciPy's compiled code would follow out of its arrays."""
    matrix.check_format(full_check=True)
    if (np.diff(matrix.indptr) < 0).any():  # not looked at there where the last one is 0
        raise ValueError("index pointer values must form a non-decreasing sequence")


def _graph(archive: np.lib.npyio.NpzFile, path: str) -> xarray.Dataset:
    n_nodes = int(archive["n_nodes"]) if "n_nodes" in archive else len(archive["adj_indptr"]) - 1
    variables: dict = {
        "adjacency": (("node", "neighbour"), _block(archive, "adj", (n_nodes, n_nodes), path))
    }
    if "feat_indptr" in archive:
        shape = tuple(archive["feat_shape"].tolist())
        variables["features"] = (("node", "feature"), _block(archive, "feat", shape, path))
    if "labels" in archive:
        labels = archive["labels"]
        if labels.dtype.kind not in "iu":
            raise ValueError(f"labels are of type {labels.dtype}, not whole numbers")
        variables["label"] = ("node", labels.astype(np.int64))
    for name, key in _SPLITS.items():
        if key in archive:
            if archive[key].min(initial=0) < 0:
                raise ValueError(f"{key} holds negative numbers")
            mask = np.zeros(n_nodes, bool)
            mask[archive[key]] = True
            variables[name] = ("node", mask)
    return xarray.Dataset(variables, attrs={"source": path})


def _block(
    archive: np.lib.npyio.NpzFile, prefix: str, shape: tuple[int, int], path: str
) -> sparse.COO:
    """A matrix of the archive in compressed rows, repeated cells added up."""
    indices = archive[f"{prefix}_indices"]
    key = f"{prefix}_data"
    values = np.ones(len(indices), np.float32)
    if key in archive:
        given = archive[key]
        values, good = cast_values(given.astype(np.float64), values.dtype)
        if not good.all():
            first = int(np.argmin(good))
            raise ReadError(
                f"{path}: {expected_value('value', values.dtype)}, found {given[first]} at entry "
                f"{first} of {key}"
            )
    matrix = _checked_csr(values, indices, archive[f"{prefix}_indptr"], shape)
    matrix.sum_duplicates()
    coords = np.stack(matrix.tocoo().coords).astype(index_dtype(max(shape)))
    block = sparse.COO(coords, matrix.data, shape=shape, sorted=True, has_duplicates=False)
    return _finite(block, path)
