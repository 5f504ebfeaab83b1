"""Ask the processor for a row of a matrix before it is needed.

    rating n      … computing on rows i, j …
    rating n + 8  rows i', j' are on their way from memory

SGD jumps from row to row, so the hardware cannot foresee the next one; the list of ratings can.
"""

from __future__ import annotations

from typing import Any

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
        number = ir.IntType(32)
        prefetch = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [byte, number, number, number]),
            "llvm.prefetch.p0i8",
        )
        for_writing, keep_close, data = (ir.Constant(number, value) for value in (1, 3, 1))
        builder.call(prefetch, [address, for_writing, keep_close, data])
        return context.get_dummy_value()

    return types.void(matrix, row, line), generate
