"""A vector as a stream: sorted (index, value) pairs, or dense; it switches where that pays.

    range of indices [lower, upper) of a vector of `size`
    sparse   indices 3 7 9        smallest unsigned type that holds `size`
             values  a b c
    dense    values  . . . a . . . b . c      one for each index of the range

Renggli 2017 §4.1.1–4.1.2. There the switch is where the bytes are equal, at a density of
δ = itemsize / (index bytes + itemsize). Here it is given by the caller: the cost model measures it
(`CostModel.switch_density`), because combining sparse vectors costs more than their bytes say.

Streams never change: arrays are marked read-only, so they travel without a copy, and a copy of a
stream is the stream.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.checks import as_array, whole_number
from daskpart.errors import InputError

from .kernels_sparse import compress, mark, place, sparse_kernels, spread
from .large_arrays import copied, empty_array, filled_array, joined
from .reduction import SUM, Reduction

_ACCEPTED = "sparse.COO, scipy.sparse, numpy array, masked array, or (indices, values, size)"


@dataclass(eq=False, slots=True)  # never changed, though not frozen: that is three times as slow
class Stream:
    """A vector, or a range of one, sparse or dense; entries it lacks are `neutral`.

    Made from data by `stream_of`.

    Attributes
    ----------
    size : int
        Of the whole vector.
    values : array
        One for each of `indices`, or for each index in the range.
    indices : unsigned int array, or None
        Rising, each once, within the range; None where the stream is dense.
    neutral : scalar of the values' dtype
    lower, upper : int
        The range, ``[lower, upper)``.
    shape : tuple of int
        What the whole vector is the flattened form of.
    cuts : tuple of int
        Where a sum splits the whole vector among ranks, the same on all of them: the bounds of the
        parts (`sparse_allreduce.equal_shares`); empty for parts of one length.
    """

    size: int
    values: NDArray[Any]
    indices: NDArray[Any] | None
    neutral: Any
    lower: int
    upper: int
    shape: tuple[int, ...] = field(repr=False)
    cuts: tuple[int, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        self.values.setflags(write=False)
        if self.indices is not None:
            self.indices.setflags(write=False)

    @property
    def is_dense(self) -> bool:
        """Whether every index of the range has its value here."""
        return self.indices is None

    @property
    def n_entries(self) -> int:
        """Values held: entries, or the length of the range."""
        return len(self.values)

    @property
    def nbytes(self) -> int:
        """Bytes of what would travel."""
        return self.values.nbytes + (0 if self.indices is None else self.indices.nbytes)

    def __repr__(self) -> str:
        length, dtype = self.upper - self.lower, self.values.dtype
        where = (
            "" if length == self.size else f" in [{self.lower:,}, {self.upper:,}) of {self.size:,}"
        )
        if self.indices is None:
            return f"Stream: {length:,} values of {dtype}, dense{where}"
        return f"Stream: {self.n_entries:,} entries of {dtype} among {length:,} indices{where}"

    def __reduce__(self) -> tuple[Any, ...]:
        content = (self.values, self.indices, self.neutral)
        return Stream, (self.size, *content, self.lower, self.upper, self.shape, self.cuts)

    def copy(self) -> Stream:
        """Itself, as streams never change."""
        return self

    def __deepcopy__(self, memo: Any) -> Stream:
        return self

    def of_range(self, lower: int, upper: int) -> Stream:
        """The part of the indices from `lower` to below `upper`, as a view."""
        if (lower, upper) == (self.lower, self.upper):
            return self
        return self.of_ranges([(lower, upper)])[0]

    def of_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[Stream]:
        """`of_range` for each of several."""
        values, indices = self.values, self.indices
        if indices is None:
            first = self.lower
            return [self.replaced(values[a - first : b - first], None, a, b) for a, b in ranges]
        places = iter(_places(indices, [bound for each in ranges for bound in each]))
        return [
            self.replaced(values[begin:end], indices[begin:end], lower, upper)
            for (lower, upper), begin, end in zip(ranges, places, places, strict=True)
        ]

    def replaced(
        self, values: NDArray[Any], indices: NDArray[Any] | None, lower: int, upper: int
    ) -> Stream:
        """Another content for a range of the same vector, told as in a `Stream`."""
        of_vector = (self.shape, self.cuts)
        return Stream(self.size, values, indices, self.neutral, lower, upper, *of_vector)

    def cut_at(self, cuts: tuple[int, ...]) -> Stream:
        """The same vector, split elsewhere."""
        return self if self.cuts == cuts else replace(self, cuts=cuts)

    def to_dense(self) -> Stream:
        """The same with a value for every index of the range."""
        if self.indices is None:
            return self
        return self.replaced(_dense_of([self]), None, self.lower, self.upper)

    def to_sparse(self) -> Stream:
        """The same as entries; those equal to the neutral element are dropped."""
        if self.indices is not None:
            return self
        indices = empty_array(self.n_entries + 1, index_type(self.size))
        values = empty_array(self.n_entries + 1, self.values.dtype)
        n = compress(self.values, self.lower, self.neutral, indices, values)
        return self.replaced(copied(values[:n]), copied(indices[:n]), self.lower, self.upper)

    def switched(self, density: float) -> Stream:
        """Dense, if at least this share of the range has entries (and there are any)."""
        length = self.upper - self.lower
        if self.indices is None or not self.n_entries or self.n_entries < density * length:
            return self
        return self.to_dense()

    def to_numpy(self) -> NDArray[Any]:
        """A writeable dense array; of `shape` if this is the whole vector."""
        values = copied(self.values) if self.indices is None else _dense_of([self])
        return values.reshape(self.shape) if len(values) == self.size else values

    def to_coo(self) -> Any:
        """The whole vector as a `sparse.COO` of `shape`, with the neutral element as fill value."""
        import sparse

        entries = self.to_sparse()
        assert entries.indices is not None
        places = entries.indices.astype(np.int64)
        where = np.unravel_index(places, self.shape) if self.size else (places,) * len(self.shape)
        return sparse.COO(
            np.array(where, dtype=np.int64).reshape(len(self.shape), -1), entries.values,
            shape=self.shape, has_duplicates=False, sorted=True, fill_value=self.neutral,
        )  # fmt: skip


def entries_stream(indices: NDArray[Any], values: NDArray[Any], size: int) -> Stream:
    """Entries of a sum, known to be rising and within `size`, as a stream: nothing is checked."""
    narrow = indices.astype(index_type(size), copy=False)
    return Stream(size, values, narrow, values.dtype.type(0), 0, size, (size,))


def stream_of(data: Any, *, reduction: Reduction = SUM) -> Stream:
    """A vector as a stream.

    Parameters
    ----------
    data : Stream, sparse.COO, sparse.GCXS, scipy.sparse, numpy array, masked array, or tuple
        A tuple is (indices, values, size), with rising indices, each once. Values are float32,
        float64, integers or bool. What is masked is absent, entries equal to the neutral element
        are dropped, and what has several dimensions is flattened in C order.
    reduction : Reduction
        Its neutral element is what absent entries stand for; a fill value equals it.

    Returns
    -------
    Stream
        Of sparse entries, but where `data` is a dense `Stream`.

    Raises
    ------
    InputError
        For unsorted, repeated or out-of-range indices, a fill value that is not neutral, values of
        another kind, or something else altogether; names the offending value.
    """
    stream = _stream_of(data, reduction)
    values = reduction.alone(stream.values)
    if values is stream.values:
        return stream
    return stream.replaced(values, stream.indices, stream.lower, stream.upper)


def _stream_of(data: Any, reduction: Reduction) -> Stream:
    if isinstance(data, Stream):
        return _with_neutral_of(data, reduction)
    if isinstance(data, tuple):
        return _from_pairs(data, reduction)
    if isinstance(data, np.ma.MaskedArray):
        present = ~np.ma.getmaskarray(data).ravel()
        return _entries(data.shape, np.flatnonzero(present), data.data.ravel()[present], reduction)
    if isinstance(data, np.ndarray):
        neutral = _neutral(data.dtype, reduction)
        return stream_of_all(data, neutral).to_sparse()
    if hasattr(data, "tocoo") or hasattr(data, "linear_loc"):
        return _from_sparse(data, reduction)
    raise InputError(f"A stream is made of {_ACCEPTED}; got {type(data).__name__}.")


def dense_stream_of(data: Any, *, reduction: Reduction = SUM) -> Stream:
    """`stream_of`, and spread out: an array is copied once, entries are written into one."""
    if not isinstance(data, np.ndarray) or isinstance(data, np.ma.MaskedArray):
        return stream_of(data, reduction=reduction).to_dense()
    view = stream_of_all(data, _neutral(data.dtype, reduction))
    given, values = reduction.alone(view.values), empty_array(view.size, view.values.dtype)
    if view.neutral == 0:  # -0.0 becomes 0.0, as where entries are spread: the same bits then
        np.add(given, view.neutral, out=values)
    else:
        values[:] = given
    return view.replaced(values, None, 0, view.size)


def stream_of_all(data: Any, neutral: Any = None) -> Stream:
    """All values of an array or number, of any dtype, as they are; a view where that is possible.

    It needs a neutral element where it is to meet sparse streams.
    """
    array = np.asarray(data)
    flat = np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(-1)
    return Stream(array.size, flat, None, neutral, 0, array.size, array.shape)


@cache
def index_type(size: int) -> np.dtype[Any]:
    """The smallest unsigned type that holds every index of a vector of `size`."""
    for name in ("uint8", "uint16", "uint32"):
        if size <= np.iinfo(name).max + 1:
            return np.dtype(name)
    return np.dtype("uint64")


def combined(streams: Sequence[Stream], reduction: Reduction, density: float) -> Stream:
    """Streams of one range combined, each index in the order of the sequence.

    Dense where entries are at least the share `density` of the range.
    """
    if any(stream.is_dense for stream in streams):
        return _onto_dense(streams, reduction)
    held = [stream for stream in streams if stream.n_entries]
    if len(held) <= 1:
        return (held or streams)[0].switched(density)
    length, entries = held[0].upper - held[0].lower, [stream.n_entries for stream in held]
    limit = density * length
    if max(entries) >= limit:
        return _onto_dense(held, reduction)
    # by twos, entries of the first are passed on again and again; marks are a bit for each index
    by_twos = len(held) == 2 or len(held) * sum(entries) < length // 64
    if not by_twos or sum(entries) >= limit:
        # counted before: merged first and switched then, they would be gone through twice
        touched, n = _marks(held)
        if n >= limit:
            return _onto_dense(held, reduction)
        if not by_twos:
            return _summed(held, reduction, touched, n)
    total = held[0]
    for stream in held[1:]:
        total = _merged(total, stream, reduction)
    return total


def concatenated(streams: Sequence[Stream], density: float) -> Stream:
    """Streams of adjacent ranges, in rising order, as one stream: sparse parts are only copied.

    Dense where the values held, a dense part's all counted, are at least that share of the range.
    """
    first, last = streams[0], streams[-1]
    length = last.upper - first.lower
    entries = sum(stream.n_entries for stream in streams)
    if all(stream.is_dense for stream in streams) or (length and entries >= density * length):
        return first.replaced(_dense_of(streams), None, first.lower, last.upper)
    sparse = [stream.to_sparse() for stream in streams]
    return first.replaced(
        joined([stream.values for stream in sparse]),
        joined([stream.indices for stream in sparse if stream.indices is not None]),
        first.lower,
        last.upper,
    )


def _marks(streams: Sequence[Stream]) -> tuple[NDArray[np.uint64], int]:
    """A bit for each index of the range, set where there are entries; and how many are."""
    lower, upper = streams[0].lower, streams[0].upper
    touched = np.zeros((upper - lower) // 64 + 1, np.uint64)
    return touched, sum(mark(touched, lower, _wide(stream.indices)) for stream in streams)


def _dense_of(streams: Sequence[Stream]) -> NDArray[Any]:
    """Values of adjacent ranges together, dense."""
    if all(stream.is_dense for stream in streams):
        return joined([stream.values for stream in streams])
    first, lower = streams[0], streams[0].lower
    values = filled_array(streams[-1].upper - lower, first.values.dtype, first.neutral)
    for stream in streams:
        if stream.indices is None:
            values[stream.lower - lower : stream.upper - lower] = stream.values
        else:
            place(values, lower, _wide(stream.indices), stream.values)
    return values


def _onto_dense(streams: Sequence[Stream], reduction: Reduction) -> Stream:
    first = streams[0]
    total = first.values if first.is_dense else _dense_of([first])
    for stream in streams[1:]:
        # other functions are for a number here, and not for an array, but where all is dense
        by_arrays = isinstance(reduction.combine, np.ufunc) or first.neutral is None
        if stream.indices is None and by_arrays:
            # into the array at hand where that is one of ours: long new ones cost more than adding
            out = total if total.flags.writeable else None
            total = reduction.combined(total, stream.values, out)
        else:
            total = total if total.flags.writeable else copied(total)
            every = stream.indices is None
            indices = np.arange(stream.lower, stream.upper) if every else _wide(stream.indices)
            scatter = sparse_kernels(reduction.combine).scatter
            scatter(total, stream.lower, indices, stream.values)
    return first.replaced(total, None, first.lower, first.upper)


def _places(indices: NDArray[Any], bounds: list[int]) -> list[int]:
    """Where bounds belong; the end of a range may be too large for the indices' type."""
    limit = 1 << 8 * indices.itemsize
    wanted = np.array([bound if bound < limit else 0 for bound in bounds], indices.dtype)
    found = indices.searchsorted(wanted).tolist()
    return [p if b < limit else len(indices) for b, p in zip(bounds, found, strict=True)]


def _merged(first: Stream, second: Stream, reduction: Reduction) -> Stream:
    i, j = _wide(first.indices), _wide(second.indices)
    length = first.n_entries + second.n_entries
    indices = empty_array(length, i.dtype)
    values = empty_array(length, first.values.dtype)
    merge = sparse_kernels(reduction.combine).merge
    n = merge(i, first.values, j, second.values, indices, values)
    narrow = indices[:n].astype(index_type(first.size), copy=False)
    return first.replaced(values[:n], narrow, first.lower, first.upper)


def _summed(
    streams: Sequence[Stream], reduction: Reduction, touched: NDArray[np.uint64], n: int
) -> Stream:
    """All at once, from marks of all indices."""
    first, add = streams[0], sparse_kernels(reduction.combine).add_marked
    indices = empty_array(n, _wide(first.indices).dtype)
    before = np.empty(len(touched), indices.dtype)
    spread(touched, first.lower, before, indices)
    values = filled_array(n, first.values.dtype, first.neutral)
    for stream in streams:
        add(values, touched, before, first.lower, _wide(stream.indices), stream.values)
    narrow = indices.astype(index_type(first.size), copy=False)
    return first.replaced(values, narrow, first.lower, first.upper)


def _wide(indices: NDArray[Any] | None) -> NDArray[Any]:
    """Indices of a type that the kernels are compiled for."""
    assert indices is not None
    return indices if indices.dtype.itemsize >= 4 else indices.astype(np.uint32)


# -- from what a user holds ---


def _from_sparse(data: Any, reduction: Reduction) -> Stream:
    import sparse

    if not hasattr(data, "fill_value"):  # of scipy
        # a copy: pydata/sparse adds up what stands twice in the caller's own coo_matrix
        data = sparse.COO.from_scipy_sparse(data.copy() if data.format == "coo" else data)
    coo = data if hasattr(data, "linear_loc") else data.tocoo()
    neutral = _neutral(coo.dtype, reduction)
    if coo.fill_value != neutral:
        raise InputError(
            f"The fill value is {coo.fill_value}, but the neutral element of {reduction.name} is "
            f"{neutral}; absent entries must be neutral."
        )
    return _entries(coo.shape, coo.linear_loc(), coo.data, reduction)


def _from_pairs(data: tuple, reduction: Reduction) -> Stream:
    if len(data) != 3:
        raise InputError(f"Pairs are (indices, values, size); got a tuple of {len(data)}.")
    indices, values = (as_array(each, "pairs") for each in data[:2])
    size = whole_number(data[2], "size", 0, 2**62)
    if indices.ndim != 1 or indices.shape != values.shape:
        raise InputError(
            f"Indices and values must be 1-d and equally many; got shapes {indices.shape} and "
            f"{values.shape}."
        )
    if indices.size and not np.issubdtype(indices.dtype, np.integer):
        raise InputError(f"Indices must be integers, got dtype {indices.dtype}.")
    return _entries((size,), indices, values, reduction)


def _entries(
    shape: tuple[int, ...], indices: NDArray[Any], values: NDArray[Any], reduction: Reduction
) -> Stream:
    size = math.prod(shape)
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    neutral = _neutral(values.dtype, reduction)
    _require_rising(indices, size)
    kept = values != neutral
    narrow = indices[kept].astype(index_type(size))
    return Stream(size, values[kept], narrow, neutral, 0, size, tuple(map(int, shape)))


def _require_rising(indices: NDArray[Any], size: int) -> None:
    if not indices.size:
        return
    if indices.min() < 0 or indices.max() >= size:
        wrong = indices[(indices < 0) | (indices >= size)][0]
        raise InputError(f"Index {wrong} is outside of a vector of size {size}.")
    falls = np.flatnonzero(indices[1:] <= indices[:-1])
    if falls.size:
        place = int(falls[0])
        before, after = indices[place], indices[place + 1]
        what = f"{before} comes twice" if before == after else f"{after} comes after {before}"
        raise InputError(
            f"Indices must rise, each once; {what}, at position {place + 1}. Sort them and combine "
            "repeated ones first."
        )


def _neutral(dtype: np.dtype[Any], reduction: Reduction) -> Any:
    if dtype.kind not in "fiub" or (dtype.kind == "f" and dtype.itemsize not in (4, 8)):
        raise InputError(f"Values must be float32, float64, integers or bool; got {dtype}.")
    what = f"neutral element of {reduction.name}"
    neutral = as_array(reduction.identity_of(dtype), f"the {what}")
    if neutral.ndim or neutral.dtype.kind not in "fiub":
        raise InputError(f"The {what} is {neutral!r}: give one number.")
    with np.errstate(invalid="ignore", over="ignore"):  # what comes of it is another number
        converted = neutral.astype(dtype)
    if converted != neutral:
        raise InputError(f"The {what} is {neutral}, which is no {dtype}.")
    return converted[()]


def _with_neutral_of(stream: Stream, reduction: Reduction) -> Stream:
    neutral = _neutral(stream.values.dtype, reduction)
    if stream.neutral != neutral:
        raise InputError(
            f"A stream whose absent entries are {stream.neutral} can't be combined by "
            f"{reduction.name}, whose neutral element is {neutral}."
        )
    if (stream.lower, stream.upper) != (0, stream.size):
        raise InputError(
            f"A stream of the range {stream.lower} to {stream.upper} is not a whole vector of "
            f"size {stream.size}."
        )
    return stream
