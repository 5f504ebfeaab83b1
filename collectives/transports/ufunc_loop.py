"""The loop of a NumPy ufunc, for machine code: the one that NumPy runs, so the bits are the same.

    np.add, float64  ──▶  loop(arguments, sizes, strides, data)          no interpreter, no checks

NumPy's C interface describes `PyUFuncObject`; its first fields have been the same since NumPy 1.0.
They are compared with what Python says about the ufunc, and if they differ there is no loop.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np

_PLAIN_KINDS = "biufc"


class _UfuncObject(ctypes.Structure):
    """The first fields of a PyUFuncObject."""

    _fields_ = (
        ("head", ctypes.c_byte * object.__basicsize__),
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
        ("reserved", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("types", ctypes.POINTER(ctypes.c_ubyte)),
    )


class UfuncLoop(NamedTuple):
    """Addresses of a loop and of what it gets as its last argument."""

    function: int
    data: int


def ufunc_loop(ufunc: object, dtype: np.dtype[Any]) -> UfuncLoop | None:
    """The loop for two arrays of a dtype that gives a third; None where there is none.

    Parameters
    ----------
    ufunc : object
        Only NumPy's own have a loop here: those of others may need the interpreter.
    dtype : dtype
    """
    known = vars(np).get(getattr(ufunc, "__name__", ""))
    if known is not ufunc or not isinstance(ufunc, np.ufunc):
        return None
    if dtype.kind not in _PLAIN_KINDS or not dtype.isnative or (ufunc.nin, ufunc.nout) != (2, 1):
        return None
    fields = _UfuncObject.from_address(id(ufunc))
    said = (fields.nin, fields.nout, fields.nargs, fields.ntypes, fields.name)
    if said != (2, 1, 3, len(ufunc.types), ufunc.__name__.encode()):
        return None
    for place, types in enumerate(ufunc.types):
        if types == f"{dtype.char}{dtype.char}->{dtype.char}":
            numbers = fields.types[3 * place : 3 * place + 3]
            function = fields.functions[place]
            if list(numbers) != [dtype.num] * 3 or not function:
                return None
            return UfuncLoop(function, fields.data[place] or 0)
    return None
