"""Loops of ufuncs: only NumPy's own, of one dtype. What they compute: mpi_machine_job.py."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from daskpart.collectives.transports import ufunc_loop as module
from daskpart.collectives.transports.ufunc_loop import ufunc_loop


def test_gives_addresses():
    loop = ufunc_loop(np.add, np.dtype(float))
    assert loop is not None and loop.function > 0
    assert loop == ufunc_loop(np.add, np.dtype("f8"))
    assert loop != ufunc_loop(np.add, np.dtype("f4"))


@pytest.mark.parametrize(
    ("ufunc", "dtype"),
    [
        (np.frompyfunc(max, 2, 1), float),  # runs Python
        (lambda a, b: a, float),
        (max, float),
        (np.negative, float),
        (np.divmod, float),
        (np.logical_or, float),  # gives bool
        (np.true_divide, int),
        (np.add, object),
        (np.add, "m8[s]"),
        (np.add, ">f8"),
        (np.add, "U3"),
        (np.hypot, int),
        (None, float),
    ],
)
def test_refuses_what_is_not_plain(ufunc, dtype):
    assert ufunc_loop(ufunc, np.dtype(dtype)) is None


def test_refuses_another_layout(monkeypatch):
    """Where the fields are not those that Python tells, nothing is taken from them."""

    class Shifted(ctypes.Structure):
        _fields_ = (("more", ctypes.c_int64), *module._UfuncObject._fields_)

    monkeypatch.setattr(module, "_UfuncObject", Shifted)
    assert ufunc_loop(np.add, np.dtype(float)) is None
