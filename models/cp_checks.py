"""Parameters of a CP decomposition, checked before anything is read or computed."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

from daskpart.collectives.transports import TRANSPORTS
from daskpart.errors import InputError

from .cp_starts import check_init
from .tensor_layout import MEMORY

_CHOICES = {"transport": TRANSPORTS, "memory": MEMORY, "dtype": (None, "float32", "float64")}


def check_settings(model: Any) -> None:
    """Refuse parameters of a `CPDecomposition` that cannot be used.

    Raises
    ------
    InputError
        Names the parameter, what was given and what is allowed.
    """
    for name in ("rank", "n_iter", "n_init", "checkpoint_every"):
        _check_count(name, getattr(model, name))
    if model.n_ranks is not None:
        _check_count("n_ranks", model.n_ranks)
    for name in ("tol", "ridge"):
        value = getattr(model, name)
        if not isinstance(value, int | float | np.number) or not 0 <= value < float("inf"):
            raise InputError(f"{name}={value!r} must be a finite number of at least 0")
    for name, allowed in _CHOICES.items():
        if getattr(model, name) not in allowed:
            known = ", ".join(map(repr, allowed))
            raise InputError(f"{name}={getattr(model, name)!r} is unknown; choose one of {known}")
    check_init(model.init, model.rank, model.n_init, model.nonnegative)
    if model.resume and model.checkpoint_path is None:
        raise InputError("resume=True needs checkpoint_path, to know where to begin")
    going_on = model.checkpoint_path is not None or model.warm_start
    if model.n_init > 1 and going_on:
        raise InputError(
            f"n_init={model.n_init} begins several times: it goes neither with checkpoint_path nor "
            "with warm_start"
        )


def _check_count(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(f"{name}={value!r} must be a whole number of at least 1")


def default_ranks(transport: str) -> int:
    """The largest power of two up to the threads of the workers, or the cores of this process."""
    client = None
    if transport != "local" and "distributed" in sys.modules:
        from daskpart.collectives.transports.cluster import current_client

        client = current_client()
    if client is not None:
        n_threads = sum(dict(client.nthreads()).values())
    elif hasattr(os, "sched_getaffinity"):
        n_threads = len(os.sched_getaffinity(0))
    else:
        n_threads = os.cpu_count() or 1
    return 1 << (max(n_threads, 1).bit_length() - 1)
