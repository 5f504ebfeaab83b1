"""Ask the processor for a row of a matrix before it is needed.

    rating n      … computing on rows i, j …
    rating n + 8  rows i', j' are on their way from memory

SGD jumps from row to row, so the hardware cannot foresee the next one; the list of ratings can.
"""

from __future__ import annotations

from typing import Any

import numba  # noqa: F401 - before its parts, see test_packaging
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_FLOATS_PER_CACHE_LINE = 16


@intrinsic
def prefetch_line(typing_context: Any, matrix: Any, row: Any, line: Any) -> Any:
    """Fetch cache line number `line` of ``matrix[row]`` (float32, C order) for writing."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array_type, row_type, line_type = signature.args
        matrix_value, row_value, line_value = arguments
        array = context.make_array(array_type)(context, builder, matrix_value)
        width = cgutils.unpack_tuple(builder, array.shape)[1]
        word = ir.IntType(64)
        row_number = context.cast(builder, row_value, row_type, types.int64)
        line_number = context.cast(builder, line_value, line_type, types.int64)
        offset = builder.mul(line_number, ir.Constant(word, _FLOATS_PER_CACHE_LINE))
        offset = builder.add(builder.mul(row_number, width), offset)
        byte = ir.IntType(8).as_pointer()
        address = builder.bitcast(builder.gep(array.data, [offset]), byte)
        request(builder, address, writing=True)
        return context.get_dummy_value()

    return types.void(matrix, row, line), generate


@intrinsic
def prefetch_byte(typing_context: Any, address: Any) -> Any:
    """Fetch the cache line of an address (an integer) for reading."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        request(builder, pointer)
        return context.get_dummy_value()

    return types.void(types.int64), generate


def request(builder: Any, pointer: Any, *, writing: bool = False, level: int = 1) -> None:
    """Emit the request for a cache line, into the cache of `level`, 1 or 2."""
    number = ir.IntType(32)
    of = ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number])
    function = cgutils.get_or_insert_function(builder.module, of, "llvm.prefetch.p0")
    access, locality, data = (ir.Constant(number, n) for n in (int(writing), 4 - level, 1))
    builder.call(function, [pointer, access, locality, data])
