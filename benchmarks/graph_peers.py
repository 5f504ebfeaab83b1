"""Libraries that multiply and train on graphs, as peers: torch, PyTorch Geometric, DGL.

They need not be installed where daskpart is: DASKPART_PEERS=/path/to/site-packages names a folder
whose packages are taken where this environment has none of that name.
"""

from __future__ import annotations

import importlib
import os
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np


def load(name: str) -> Any:
    """The module of a peer: "torch", "torch_geometric.nn", "dgl".

    Raises
    ------
    NotImplementedError
        Where it is not installed or does not load, with the reason; asv takes it as "skip".
    """
    folder = os.environ.get("DASKPART_PEERS")
    if folder and folder not in sys.path:
        sys.path.append(folder)
    if name == "dgl":
        # its library for sampling is built for few versions of torch; full batches do without
        sys.modules.setdefault("dgl.graphbolt", types.ModuleType("dgl.graphbolt"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except Exception as error:  # an ImportError, or what a library raises that finds no own parts
        first = str(error).strip().splitlines()[:1]
        raise NotImplementedError(f"{name}: {type(error).__name__} {first}") from error


def skipped(names: tuple[str, ...]) -> dict[str, str]:
    """Name → why, of the peers that do not load."""
    found = {}
    for name in names:
        try:
            load(name)
        except NotImplementedError as reason:
            found[name] = str(reason)
    return found


def torch_csr(matrix: Any) -> Any:
    """A sparse CSR tensor with int32 indices."""
    torch = load("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "in beta state"
        return torch.sparse_csr_tensor(
            torch.from_numpy(np.array(matrix.indptr, np.int32)),
            torch.from_numpy(np.array(matrix.indices, np.int32)),
            torch.from_numpy(np.array(matrix.data)),
            size=matrix.shape,
        )


def torch_product(matrix: Any, rows: np.ndarray, n_threads: int = 1) -> Callable[[], Any]:
    """What multiplies a sparse matrix by dense rows in torch."""
    torch = load("torch")
    torch.set_num_threads(n_threads)
    left, right = torch_csr(matrix), torch.from_numpy(rows)
    return lambda: left @ right
