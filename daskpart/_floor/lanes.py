"""Rows of a dense matrix as vector registers: sums that never leave the processor.

    address of a row ─► │ u_0 │ u_1 │ u_2 │ … │ u_{width-1} │  Lanes, one value to numba and LLVM
                          └ only the first `count` are read or written, the others are 0

A plain loop over a row keeps its sum in memory, and waits some ten cycles for it at every nonzero;
`Lanes` stay in registers from the first nonzero of a row to the last. The width is part of the
type, so each width is compiled once; `count` masks the end of a row, which costs nothing where the
processor has mask registers (AVX-512), so that any number of components runs at full speed. Where
it has none, `load_all` is faster.

Addresses are plain numbers: whoever calls keeps the arrays alive and in C order.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numba  # noqa: F401 - before its parts, see test_packaging
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.extending import intrinsic, register_model
from numpy.typing import NDArray

from daskpart._floor.kernels import kernel
from daskpart._floor.prefetch import prefetch_byte, request

_BYTES_PER_CACHE_LINE = 64
_WIDTHS = (8, 16, 32)


@cache
def template_of(dtype: Any, width: int) -> tuple[Any, ...]:
    """What tells a kernel the type of its lanes: as many zeros, in a tuple."""
    return (np.dtype(dtype).type(0),) * width


def aligned_rows(n_rows: int, n_components: int, dtype: Any) -> NDArray:
    """An array for rows, not set, that begins with a cache line, which numpy's own rarely do.

    Where a row is a whole number of cache lines, none is then spread over one line more: MTTKRP is
    up to a third faster.
    """
    dtype = np.dtype(dtype)
    n_bytes = n_rows * n_components * dtype.itemsize
    room = np.empty(n_bytes + _BYTES_PER_CACHE_LINE, np.uint8)
    start = -room.ctypes.data % _BYTES_PER_CACHE_LINE
    return room[start : start + n_bytes].view(dtype).reshape(n_rows, n_components)


def blank_rows(n_rows: int, n_components: int, dtype: Any) -> NDArray:
    """`aligned_rows` of zeros."""
    rows = aligned_rows(n_rows, n_components, dtype)
    rows[:] = 0
    return rows


def is_spread(rows: NDArray) -> bool:
    """Whether the rows touch more cache lines than they need to."""
    whole_lines = rows.strides[0] % _BYTES_PER_CACHE_LINE == 0
    return whole_lines and rows.ctypes.data % _BYTES_PER_CACHE_LINE != 0


def panels(rows: NDArray) -> Iterator[tuple[tuple, int, int]]:
    """Cut the columns of `rows`, float32 or float64 of shape (n, R), into panels of lanes.

    Yields
    ------
    template : tuple of zeros
        Its length is the width of the lanes, its type theirs.
    count : int
        Columns of the panel.
    offset : int
        Bytes from the first column to the panel's first.
    """
    n_components = rows.shape[1]
    width = next((width for width in _WIDTHS if n_components <= width), _WIDTHS[-1])
    template = template_of(rows.dtype, width)
    for column in range(0, n_components, width):
        yield template, min(width, n_components - column), column * rows.itemsize


class Lanes(types.Type):
    """`width` floats of type `scalar` in registers."""

    def __init__(self, scalar: types.Float, width: int) -> None:
        self.scalar, self.width = scalar, width
        super().__init__(name=f"Lanes({scalar}, {width})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, lanes: Lanes) -> None:
        scalar = manager.lookup(lanes.scalar).get_value_type()
        super().__init__(manager, lanes, ir.VectorType(scalar, lanes.width))


def _vector_name(vector: ir.VectorType) -> str:
    return f"v{vector.count}f{64 if vector.element == ir.DoubleType() else 32}"


def _pointer(builder: Any, vector: ir.VectorType, address: Any) -> Any:
    return builder.inttoptr(address, vector.as_pointer())


def _in_every_lane(builder: Any, scalar: Any, vector: ir.VectorType) -> Any:
    empty = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(empty, scalar, ir.Constant(ir.IntType(32), 0))
    places = ir.VectorType(ir.IntType(32), vector.count)
    return builder.shuffle_vector(first, empty, ir.Constant(places, [0] * vector.count))


def _mask(builder: Any, vector: ir.VectorType, count: Any) -> Any:
    numbers = ir.VectorType(ir.IntType(64), vector.count)
    lanes = ir.Constant(numbers, list(range(vector.count)))
    return builder.icmp_signed("<", lanes, _in_every_lane(builder, count, numbers))


def _alignment(lanes: Lanes) -> ir.Constant:
    return ir.Constant(ir.IntType(32), lanes.scalar.bitwidth // 8)


@intrinsic
def zeros(typing_context: Any, template: Any) -> Any:
    """Lanes of 0, as many and of the type of the numbers in the tuple `template`."""
    lanes = Lanes(template.dtype, template.count)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return ir.Constant(context.get_value_type(lanes), None)

    return lanes(template), generate


@intrinsic
def load(typing_context: Any, like: Any, address: Any, count: Any) -> Any:
    """The first `count` lanes from `address` on, then zeros; of the type of `like`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = context.get_value_type(like)
        mask = _mask(builder, vector, arguments[2])
        pointer = _pointer(builder, vector, arguments[1])
        of = [pointer.type, ir.IntType(32), mask.type, vector]
        name = f"llvm.masked.load.{_vector_name(vector)}.p0"
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(vector, of), name)
        nothing = ir.Constant(vector, None)
        return builder.call(function, [pointer, _alignment(like), mask, nothing])

    return like(like, types.int64, types.int64), generate


@intrinsic
def store(typing_context: Any, address: Any, lanes: Any, count: Any) -> Any:
    """Write the first `count` lanes to `address`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = context.get_value_type(lanes)
        mask = _mask(builder, vector, arguments[2])
        pointer = _pointer(builder, vector, arguments[0])
        of = [vector, pointer.type, ir.IntType(32), mask.type]
        name = f"llvm.masked.store.{_vector_name(vector)}.p0"
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), of), name
        )
        builder.call(function, [arguments[1], pointer, _alignment(lanes), mask])
        return context.get_dummy_value()

    return types.void(types.int64, lanes, types.int64), generate


@intrinsic
def load_all(typing_context: Any, like: Any, address: Any) -> Any:
    """All lanes from `address` on: cheaper than `load` where a processor has no mask registers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = context.get_value_type(like)
        lanes = builder.load(_pointer(builder, vector, arguments[1]))
        lanes.align = like.scalar.bitwidth // 8
        return lanes

    return like(like, types.int64), generate


@intrinsic
def store_all(typing_context: Any, address: Any, lanes: Any) -> Any:
    """Write all lanes to `address`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = context.get_value_type(lanes)
        stored = builder.store(arguments[1], _pointer(builder, vector, arguments[0]))
        stored.align = lanes.scalar.bitwidth // 8
        return context.get_dummy_value()

    return types.void(types.int64, lanes), generate


@intrinsic
def bytes_of(typing_context: Any, lanes: Any) -> Any:
    """Bytes that all lanes take, known when compiling."""
    n_bytes = lanes.width * lanes.scalar.bitwidth // 8

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return ir.Constant(ir.IntType(64), n_bytes)

    return types.int64(lanes), generate


@intrinsic
def ask_for(typing_context: Any, like: Any, address: Any) -> Any:
    """Have all cache lines of lanes at `address` fetched into the second level.

    The first level takes fewer requests at a time, so asking for long rows there takes longer.
    """
    n_bytes = like.width * like.scalar.bitwidth // 8
    # the last byte too: what does not begin with a line ends in one more
    offsets = [*range(0, n_bytes, _BYTES_PER_CACHE_LINE), n_bytes - 1]

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        for offset in offsets:
            byte = builder.add(arguments[1], ir.Constant(ir.IntType(64), offset))
            request(builder, builder.inttoptr(byte, ir.IntType(8).as_pointer()), level=2)
        return context.get_dummy_value()

    return types.void(like, types.int64), generate


@intrinsic
def ask_for_two(typing_context: Any, like: Any, address: Any, apart: Any) -> Any:
    """`ask_for` lanes at `address` and lanes that begin `apart` bytes after, at most their size."""
    n_bytes = like.width * like.scalar.bitwidth // 8
    lines = range(0, n_bytes, _BYTES_PER_CACHE_LINE)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, first, apart = arguments
        last = builder.add(first, apart)
        places = [(first, offset) for offset in lines]
        if n_bytes >= _BYTES_PER_CACHE_LINE:  # shorter ones lie in two lines together
            places += [(last, offset) for offset in lines]
        for start, offset in [*places, (last, n_bytes - 1)]:
            byte = builder.add(start, ir.Constant(ir.IntType(64), offset))
            request(builder, builder.inttoptr(byte, ir.IntType(8).as_pointer()), level=2)
        return context.get_dummy_value()

    return types.void(like, types.int64, types.int64), generate


@intrinsic
def keep_rolled(typing_context: Any) -> Any:
    """Have no loop of this kernel unrolled: for inner loops over few numbers, a dozen say.

    LLVM makes two loops of one, over fours and over what is left, and the processor guesses wrong
    at the end of both.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.function.attributes.add("optsize")
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def sum_of(typing_context: Any, lanes: Any) -> Any:
    """Sum over the lanes, halves on halves."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = context.get_value_type(lanes)
        of = ir.FunctionType(vector.element, [vector.element, vector])
        name = "llvm.vector.reduce.fadd." + _vector_name(vector)
        function = cgutils.get_or_insert_function(builder.module, of, name)
        nothing = ir.Constant(vector.element, 0.0)
        return builder.call(function, [nothing, arguments[0]], fastmath=["reassoc"])

    return lanes.scalar(lanes), generate


@intrinsic
def add_scaled(typing_context: Any, total: Any, scale: Any, lanes: Any) -> Any:
    """total + scale · lanes, `scale` a number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = context.get_value_type(lanes)
        of = ir.FunctionType(vector, [vector, vector, vector])
        name = "llvm.fmuladd." + _vector_name(vector)
        function = cgutils.get_or_insert_function(builder.module, of, name)
        scales = _in_every_lane(builder, arguments[1], vector)
        return builder.call(function, [scales, arguments[2], arguments[0]])

    return total(total, lanes.scalar, lanes), generate


@intrinsic
def multiply(typing_context: Any, a: Any, b: Any) -> Any:
    """a · b, lane by lane."""
    return a(a, b), lambda context, builder, signature, arguments: builder.fmul(*arguments)


@intrinsic
def add(typing_context: Any, a: Any, b: Any) -> Any:
    """a + b, lane by lane."""
    return a(a, b), lambda context, builder, signature, arguments: builder.fadd(*arguments)


@kernel(inline="always")
def prefetch_bytes(address, n_bytes):
    """Ask for the cache lines of `n_bytes` from `address` on."""
    for line in range((n_bytes + _BYTES_PER_CACHE_LINE - 1) // _BYTES_PER_CACHE_LINE):
        prefetch_byte(address + line * _BYTES_PER_CACHE_LINE)


@kernel(inline="always")
def add_row(zero, address, lanes, count):
    """Add lanes to a row in memory."""
    store(address, add(load(zero, address, count), lanes), count)
