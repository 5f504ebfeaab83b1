"""LIBMF (PyPI `libmf`) as a peer: how fast it trains, and how good its factors are.

The package's own `predict` permutes its input, so factors are read from its memory. Its wheel is
built without SIMD; LIBMF_OBJ=/path/to/libmf.so makes the package load a library that you built with
AVX, and the tables say which of the two was used.
"""

from __future__ import annotations

import contextlib
import io
import os
import warnings
from time import perf_counter
from typing import Any

import numpy as np

from .data import Triples


def load() -> Any:
    """The module `libmf.mf`.

    Raises
    ------
    NotImplementedError
        Where the package is not installed, which asv takes as "skip".
    """
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")  # its source compares strings with `is`
            from libmf import mf
    except ImportError as error:
        raise NotImplementedError("pip install libmf to compare with LIBMF") from error
    return mf


def build_name() -> str:
    """Which build of LIBMF is measured."""
    return "own build by LIBMF_OBJ" if os.environ.get("LIBMF_OBJ") else "wheel of PyPI, no SIMD"


def fit(triples: Triples, n_components: int, n_iterations: int, n_threads: int = 1) -> Any:
    """Train with L2 0.05 and LIBMF's own adaptive rate from 0.1; gives the model and seconds."""
    mf = load()
    data = np.column_stack(triples).astype(np.float32)
    model = mf.MF(
        k=n_components, nr_threads=n_threads, nr_iters=n_iterations, nr_bins=20, quiet=True,
        eta=0.1, lambda_p1=0.0, lambda_q1=0.0, lambda_p2=0.05, lambda_q2=0.05,
    )  # fmt: skip
    begin = perf_counter()
    model.fit(data)
    return model.model, perf_counter() - begin


def rmse(model: Any, triples: Triples) -> float:
    """RMSE of LIBMF's factors on some ratings; unknown users and items get its mean."""
    user = np.ctypeslib.as_array(model.P, (model.m, model.k))
    item = np.ctypeslib.as_array(model.Q, (model.n, model.k))
    rows, columns, values = triples
    known = (rows < model.m) & (columns < model.n)
    predicted = np.full(values.size, model.b, np.float64)
    predicted[known] = np.einsum("ij,ij->i", user[rows[known]], item[columns[known]])
    predicted = np.where(np.isfinite(predicted), predicted, model.b)
    return float(np.sqrt(np.mean((values - predicted) ** 2)))


def seconds_per_iteration(triples: Triples, n_components: int, n_threads: int = 1) -> float:
    """Seconds of one pass: the difference of a long and a short fit, so set-up cancels."""
    short, long = 3, 13
    seconds = [fit(triples, n_components, n, n_threads)[1] for n in (short, long)]
    return (seconds[1] - seconds[0]) / (long - short)
