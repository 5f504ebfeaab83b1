"""The folder between the processes of a comparison, and the twins' turn, which reads it.

    NN/problem    what ours is given              NN/ours     its result
    NN/piece-R    what rank R's twin is given     NN/twin-R   its rows of the result

An MPI rank imports this and the twins, and none of the estimators.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from daskpart._floor.blas import one_blas_thread

Arrays = dict[str, np.ndarray]


def twin(world: Any, folder: str, n_steps: int) -> list[list[float]]:
    """Seconds of the steps of every problem in the folder; runs on every MPI rank."""
    return [_twin_of(world, path, n_steps) for path in files(folder)]


def _twin_of(world: Any, path: Path, n_steps: int) -> list[float]:
    train, piece = read(path / f"piece-{world.rank}")
    with one_blas_thread:  # as ranks have
        seconds, arrays = train(world, piece, n_steps)
    write(path / f"twin-{world.rank}", arrays)
    return seconds


def files(folder: str) -> list[Path]:
    """The folders of the problems, in their order."""
    return sorted(path for path in Path(folder).iterdir() if path.is_dir())


def read(path: Path) -> Any:
    """What another process has written."""
    return pickle.loads(path.read_bytes())


def write(path: Path, content: Any) -> None:
    """Write for another process."""
    path.write_bytes(pickle.dumps(content, 5))
