"""The input of `daskpart fit cp`: a tensor from a file, with names for modes and indices.

X.tns.gz ── --names user,artist,tag ── --labels artist=artists.map.gz ──► LabelledTensor
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from daskpart.containers.tensor import LabelledTensor, as_tensor
from daskpart.errors import InputError, ReadError
from daskpart.hypergraph import Hypergraph
from daskpart.readers import read
from daskpart.readers.contents import sparse_inside
from daskpart.readers.streams import opened


def load_tensor(
    source: str, format: str | None, names: str | None, labels: Sequence[str]
) -> LabelledTensor:
    """Read a tensor and name its modes.

    Parameters
    ----------
    source : str
        Path.
    format : str, optional
        Told from the file without it.
    names : str, optional
        Names of the modes, with commas between them.
    labels : sequence of str
        ``mode=file`` each: a text file with one label a line, in order of the indices.

    Raises
    ------
    InputError
        Absent or damaged files, another number of names, or fewer labels than indices.
    """
    if not Path(source).expanduser().exists():
        raise InputError(f"{source}: no such file; give a tensor (.tns, also compressed)")
    try:
        data = sparse_inside(read(source, format), source)
    except ReadError as error:
        raise ReadError(str(error).replace("format=", "--format ")) from error
    if isinstance(data, Hypergraph):
        raise InputError(f"{source} holds a hypergraph; this command takes a tensor or a matrix")
    tensor = _named(as_tensor(data), names)
    known = dict(tensor.labels)
    for entry in labels:
        mode, path = _mode_and_path(entry, tensor)
        known[mode] = _read_labels(path, tensor.shape[tensor.dims.index(mode)], mode)
    return replace(tensor, labels=known)


def tensor_in_words(tensor: LabelledTensor, source: str) -> str:
    """What was read, as one line."""
    sizes = " × ".join(
        f"{extent:,} {dim}" for extent, dim in zip(tensor.shape, tensor.dims, strict=True)
    )
    density = tensor.nnz / float(np.prod(tensor.shape, dtype=np.float64))
    return f"{source}: {tensor.nnz:,} nonzeros in {sizes} (density {density:.2g})"


def _named(tensor: LabelledTensor, names: str | None) -> LabelledTensor:
    if names is None:
        return tensor
    dims = tuple(name.strip() for name in names.split(","))
    if len(dims) != tensor.n_modes or len(set(dims)) != len(dims) or not all(dims):
        raise InputError(
            f"--names {names} gives {len(dims)} name(s); the tensor has {tensor.n_modes} modes, "
            "each needs a name of its own, with commas between them"
        )
    labels = {new: tensor.labels[old] for new, old in zip(dims, tensor.dims, strict=True)
              if old in tensor.labels}  # fmt: skip
    return replace(tensor, dims=dims, labels=labels)


def _mode_and_path(entry: str, tensor: LabelledTensor) -> tuple[str, Path]:
    mode, equals, path = entry.partition("=")
    if not equals or mode not in tensor.dims:
        raise InputError(
            f"--labels {entry}: give MODE=FILE, with a mode out of {', '.join(tensor.dims)}"
        )
    return mode, Path(path).expanduser()


def _read_labels(path: Path, extent: int, mode: str) -> np.ndarray:
    with opened(path) as stream:
        lines = stream.read().decode("utf-8", "replace").splitlines()
    if len(lines) < extent:
        raise InputError(f"{path}: {len(lines)} lines, but {mode} has {extent} indices")
    return np.array(lines[:extent])
