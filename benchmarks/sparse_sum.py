"""Adding sparse vectors, one thread: GB/s of the kernels against a copy of the same bytes.

The peers scipy (CSR) and pydata/sparse add the same two vectors. Bytes are those of the entries
read and written, so a copy of as many is the bound. The outputs of the kernels are kept between
runs; `stream` makes new ones each time, as a collective does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter

import numpy as np
import sparse
from scipy.sparse import csr_array

from daskpart.collectives import SUM, Stream, stream_of
from daskpart.collectives.kernels_sparse import mark, sparse_kernels, spread
from daskpart.collectives.stream import combined

KERNELS = sparse_kernels(np.add)


class SparseSum:
    """Two vectors of `n_entries` float32 values among `size` indices."""

    params = (
        [(10**7, 100_000), (2_000_000, 1_000_000), (10**8, 5_000_000)],
        ["merge", "marked", "scatter", "dense", "stream", "copy", "scipy", "pydata-sparse"],
    )
    param_names = ("size_entries", "how")
    timeout = 600

    def setup(self, size_entries: tuple[int, int], how: str) -> None:
        self.size, n_entries = size_entries
        self.streams = [_random_stream(self.size, n_entries, seed) for seed in (0, 1)]
        self.length = sum(stream.n_entries for stream in self.streams)
        self.run = self.ready(how)
        self.run()  # compiles

    def time_sum(self, size_entries: tuple[int, int], how: str) -> None:
        """One sum."""
        self.run()

    def track_gigabytes_a_second(self, size_entries: tuple[int, int], how: str) -> float:
        """Bytes of the entries read and written, over the time."""
        return 8 * (self.length + self.n_sum) / _seconds(self.run) / 1e9

    def track_ratio_to_copy(self, size_entries: tuple[int, int], how: str) -> float:
        """Time over that of copying the entries, side by side."""
        return _ratio(self.run, self.ready("copy"))

    track_gigabytes_a_second.unit = "GB/s"  # type: ignore[attr-defined]
    track_ratio_to_copy.unit = "ratio"  # type: ignore[attr-defined]

    @property
    def n_sum(self) -> int:
        """Entries of the sum."""
        return combined(self.streams, SUM, 1.0).n_entries

    def ready(self, how: str) -> Callable[[], object]:
        """The sum as a call without arguments; what it needs is made here."""
        first, second = self.streams
        assert first.indices is not None and second.indices is not None
        out = np.zeros(self.length, np.uint32), np.zeros(self.length, np.float32)
        joined = [np.concatenate(pair) for pair in ((first.indices, second.indices),
                                                    (first.values, second.values))]  # fmt: skip
        if how == "merge":
            pairs = first.indices, first.values, second.indices, second.values
            return lambda: KERNELS.merge(*pairs, *out)
        if how == "marked":
            return partial(_marked, self.streams, *out)
        if how == "copy":
            return lambda: [np.copyto(to, source) for to, source in zip(out, joined, strict=True)]
        if how == "stream":
            return lambda: combined(self.streams, SUM, 1.0)
        return _dense_or_peer(how, first, second)


def _marked(streams: list[Stream], indices: np.ndarray, values: np.ndarray) -> None:
    """As vectors of more than two ranks are added; the marks are new each time."""
    touched = np.zeros(streams[0].size // 64 + 1, np.uint64)
    before = np.empty(len(touched), indices.dtype)
    for stream in streams:
        mark(touched, 0, stream.indices)
    spread(touched, 0, before, indices)
    values.fill(0)
    for stream in streams:
        KERNELS.add_marked(values, touched, before, 0, stream.indices, stream.values)


def _dense_or_peer(how: str, first: Stream, second: Stream) -> Callable[[], object]:
    if how in ("scatter", "dense"):
        total = first.to_numpy()
        if how == "scatter":
            return lambda: KERNELS.scatter(total, 0, second.indices, second.values)
        other = second.to_numpy()
        return lambda: np.add(total, other, out=total)
    if how == "scipy":
        rows = [_as_row(stream) for stream in (first, second)]
        return lambda: rows[0] + rows[1]
    arrays = [stream.to_coo() for stream in (first, second)]
    assert isinstance(arrays[0], sparse.COO)
    return lambda: arrays[0] + arrays[1]


def _random_stream(size: int, n_entries: int, seed: int) -> Stream:
    random = np.random.default_rng(seed)
    indices = np.unique(random.integers(0, size, n_entries))
    return stream_of((indices, random.random(len(indices), np.float32) + 1, size))


def _as_row(stream: Stream) -> csr_array:
    assert stream.indices is not None
    pointer = np.array([0, stream.n_entries], np.int32)
    parts = (stream.values, stream.indices.astype(np.int32), pointer)
    return csr_array(parts, shape=(1, stream.size))


def _seconds(run: Callable[[], object], turns: int = 5) -> float:
    seconds = []
    for _ in range(turns):
        begin = perf_counter()
        run()
        seconds.append(perf_counter() - begin)
    return min(seconds)


def _ratio(run: Callable[[], object], reference: Callable[[], object]) -> float:
    pairs = [(_seconds(run, 1), _seconds(reference, 1)) for _ in range(7)]
    return float(np.median([own / other for own, other in pairs]))
