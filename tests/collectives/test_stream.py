"""Streams: what they are made of, how they combine, when they switch, what they refuse."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
import sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_matrix, csr_array

from daskpart.collectives import stream as stream_module
from daskpart.collectives.reduction import ANY, MAX, MIN, SUM, Reduction
from daskpart.collectives.stream import (
    combined,
    concatenated,
    dense_stream_of,
    index_type,
    stream_of,
)
from daskpart.collectives.values import duplicate
from daskpart.errors import InputError

PRODUCT = Reduction("product", np.multiply, 1)
KINDS = [(SUM, "f8"), (SUM, "f4"), (SUM, "i8"), (MIN, "f8"), (MAX, "i8"), (ANY, "?")]


def random_vector(random, size, reduction, dtype):
    """A dense vector, neutral in random places."""
    values = random.integers(-4, 5, size).astype(dtype)
    neutral = np.asarray(reduction.identity_of(np.dtype(dtype))).astype(dtype)
    return np.where(random.random(size) < random.choice([0.0, 0.1, 0.5, 1.0]), values, neutral)


@pytest.mark.parametrize(
    ("size", "name"),
    [(0, "u1"), (256, "u1"), (257, "u2"), (65536, "u2"), (65537, "u4"), (2**32, "u4"),
     (2**32 + 1, "u8")],
)  # fmt: skip
def test_smallest_index_type(size, name):
    assert index_type(size) == np.dtype(name)


def test_inputs_agree():
    dense = np.zeros((3, 5), np.float32)
    dense[0, 2], dense[2, 4], dense[1, 0] = 1.5, -2, 3
    places = np.flatnonzero(dense)
    inputs = [
        dense,
        sparse.COO.from_numpy(dense),
        sparse.GCXS.from_numpy(dense),
        np.ma.MaskedArray(dense + np.float32(7) * (dense == 0), mask=dense == 0),
        csr_array(dense),
    ]
    for data in inputs:
        stream = stream_of(data)
        assert stream.shape == (3, 5) and stream.n_entries == 3 and not stream.is_dense
        np.testing.assert_array_equal(stream.indices, places)
        assert stream.indices.dtype == np.uint8
        assert stream.nbytes == 3 * (4 + 1)
        np.testing.assert_array_equal(stream.to_numpy(), dense)
        back = stream.to_coo()
        assert isinstance(back, sparse.COO) and back.dtype == np.float32
        np.testing.assert_array_equal(back.todense(), dense)
    pairs = stream_of((places, dense.ravel()[places], 15))
    assert pairs.shape == (15,)
    np.testing.assert_array_equal(pairs.to_numpy(), dense.ravel())


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(KINDS), st.integers(0, 300), st.integers(0, 10**6))
def test_an_array_as_it_is_has_the_bits_of_its_entries(kind, size, seed):
    """Also -0.0, which is no entry: absent ones are 0.0."""
    reduction, dtype = kind
    random = np.random.default_rng(seed)
    vector = random_vector(random, 2 * size, reduction, dtype)
    if dtype.startswith("f"):
        vector[random.random(2 * size) < 0.2] = random.choice([-0.0, np.nan, np.inf])
    neutral = np.asarray(reduction.identity_of(vector.dtype)).astype(dtype)
    for array in (vector.reshape(2, size), vector[::2], vector.astype(f">{dtype}")):
        entries, whole = (of(array, reduction=reduction) for of in (stream_of, dense_stream_of))
        flat = array.ravel().astype(dtype)
        np.testing.assert_array_equal(entries.indices, np.flatnonzero(flat != neutral))
        assert entries.values.tobytes() == flat[flat != neutral].tobytes()
        assert whole.is_dense and whole.shape == entries.shape == array.shape
        assert whole.values.tobytes() == entries.to_dense().values.tobytes()
        assert array.flags.writeable and not np.shares_memory(array, whole.values)
        assert dense_stream_of(entries, reduction=reduction).values.tobytes() == (
            whole.values.tobytes()
        )


def test_masked_neutral_entries_are_dropped_and_a_stream_passes():
    stream = stream_of((np.array([1, 4]), np.array([0.0, 2.0]), 6))
    assert stream.indices.tolist() == [4]
    assert stream_of(stream) is stream
    minimum = stream_of(np.array([np.inf, 0.0, 3.0]), reduction=MIN)
    assert minimum.indices.tolist() == [1, 2]
    assert minimum.to_coo().fill_value == np.inf


def test_a_matrix_of_the_caller_stays_as_it_is():
    """pydata/sparse adds up repeated entries, and drops zeros, of a coo_matrix in place."""
    given = coo_matrix(([1.0, 2.0, 3.0, 0.0], ([0] * 4, [1, 1, 2, 3])), shape=(1, 4))
    assert stream_of(given).to_numpy().tolist() == [[0, 3, 3, 0]]
    assert given.data.tolist() == [1, 2, 3, 0]


def test_streams_never_change_and_keep_nothing_of_the_caller():
    values = np.array([1.0, 2.0])
    stream = stream_of((np.array([0, 3]), values, 5))
    values[0] = 9
    assert stream.values[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        stream.values[0] = 9
    assert stream.copy() is stream and duplicate(stream) is stream
    copy = pickle.loads(pickle.dumps(stream))
    assert copy.size == 5 and not copy.values.flags.writeable
    np.testing.assert_array_equal(copy.to_numpy(), stream.to_numpy())


@pytest.mark.parametrize(("reduction", "dtype"), KINDS)
@pytest.mark.parametrize("density", [0.05, 1.0])
def test_combined_equals_the_dense_reference(reduction, dtype, density):
    random = np.random.default_rng(3)
    for size in (1, 40, 5000):
        for n_streams in (1, 2, 3, 6):
            vectors = [random_vector(random, size, reduction, dtype) for _ in range(n_streams)]
            streams = [stream_of(v, reduction=reduction) for v in vectors]
            streams = [s.to_dense() if random.random() < 0.2 else s for s in streams]
            found = combined(streams, reduction, density)
            expected = vectors[0]
            for vector in vectors[1:]:
                expected = reduction.combine(expected, vector)
            assert found.values.dtype == np.dtype(dtype)
            np.testing.assert_array_equal(found.to_numpy(), expected)
            if not found.is_dense:
                assert (np.diff(found.indices.astype(int)) > 0).all()
                assert found.n_entries < density * size or not found.n_entries


def test_any_reduction_that_numba_can_compile():
    left = stream_of(np.array([1.0, 2.0, 5.0, 1.0]), reduction=PRODUCT)
    right = stream_of(np.array([3.0, 1.0, 2.0, 1.0]), reduction=PRODUCT)
    assert combined([left, right], PRODUCT, 1.0).to_numpy().tolist() == [3, 2, 10, 1]
    longest = Reduction("longest", _longer, 0.0)
    left, right = (stream_of(np.array(v), reduction=longest) for v in ([0, -3.0], [1.0, 2.0]))
    assert combined([left, right], longest, 1.0).to_numpy().tolist() == [1, -3]


def _longer(a, b):
    return a if abs(a) >= abs(b) else b


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3000), st.integers(3, 9), st.integers(0, 10**6))
def test_merging_many_keeps_the_order_of_ranks(size, n_streams, seed):
    """Values of very unequal size: another order would give other bits."""
    random = np.random.default_rng(seed)
    scale = 10.0 ** random.integers(-8, 9, (n_streams, size))
    vectors = random.standard_normal((n_streams, size)) * scale
    vectors[random.random((n_streams, size)) < random.choice([0.3, 0.9, 0.999])] = 0
    merged = combined([stream_of(vector) for vector in vectors], SUM, 1.0)
    expected = np.zeros(size)
    for vector in vectors:
        expected = expected + vector
    assert merged.to_numpy().tobytes() == (expected + 0.0).tobytes()


@pytest.mark.parametrize(("apart", "not_asked"), [(3000, "_summed"), (300, "_merged")])
def test_many_merge_by_twos_where_they_are_far_apart(apart, not_asked, monkeypatch):
    """Either way each index combines in the order of ranks."""
    random = np.random.default_rng(apart)
    vectors = np.zeros((5, 30_000))
    vectors[:, ::apart] = random.standard_normal((5, 30_000 // apart))  # where all have entries
    vectors *= 10.0 ** random.integers(-8, 9, vectors.shape)
    vectors[range(5), random.integers(1, apart, 5)] = 1.0
    monkeypatch.setattr(stream_module, not_asked, None)
    merged = combined([stream_of(vector) for vector in vectors], SUM, 1.0)
    expected = np.zeros(30_000)
    for vector in vectors:
        expected = expected + vector
    assert merged.n_entries == np.count_nonzero(vectors.any(axis=0))
    assert merged.to_numpy().tobytes() == (expected + 0.0).tobytes()


@pytest.mark.parametrize("n_streams", [2, 8])
def test_a_sum_that_fills_up_is_dense_at_once(n_streams, monkeypatch):
    """The union is counted before: entries that coincide are no reason to switch."""
    random = np.random.default_rng(n_streams)
    size, k = 400_000, 40_000
    drawn = [np.sort(random.choice(size, k, replace=False)) for _ in range(n_streams)]
    union = len(np.unique(np.concatenate(drawn)))
    streams = [stream_of((indices, np.ones(k, np.float32), size)) for indices in drawn]
    assert stream_module._marks(streams)[1] == union
    merged = combined(streams, SUM, 1.0)
    coinciding = combined([streams[0]] * n_streams, SUM, 0.15)
    assert coinciding.n_entries == k and not coinciding.is_dense
    assert not merged.is_dense and merged.n_entries == union
    for merging in ("_merged", "_summed"):
        monkeypatch.setattr(stream_module, merging, None)  # not asked
    dense = combined(streams, SUM, 0.15)
    assert dense.is_dense
    np.testing.assert_array_equal(dense.values, merged.to_numpy())


def test_dense_streams_are_added_without_touching_them():
    held = [stream_of(np.array([1.0, 2.0 * n])).to_dense() for n in range(3)]
    sparse = stream_of((np.array([1]), np.array([5.0]), 2))
    for order in ([0, 1, 2], [2, 0, 1]):
        streams = [*(held[n] for n in order), sparse, held[0]]
        assert combined(streams, SUM, 1.0).values.tolist() == [4, 11]
        assert combined(streams[::-1], SUM, 1.0).values.tolist() == [4, 11]
    assert [stream.values.tolist() for stream in held] == [[1, 0], [1, 2], [1, 4]]


def test_ranges_join_to_the_whole():
    vector = random_vector(np.random.default_rng(0), 300, SUM, "f8")
    vector[250:] = 0
    for stream in (stream_of(vector), stream_of(vector).to_dense()):
        cuts = [0, 0, 90, 256, 300]
        parts = [stream.of_range(a, b) for a, b in itertools.pairwise(cuts)]
        assert [part.upper - part.lower for part in parts] == [0, 90, 166, 44]
        joined = concatenated(parts, 1.0 if not stream.is_dense else 0.5)
        assert joined.is_dense == stream.is_dense
        np.testing.assert_array_equal(joined.to_numpy(), vector)
    mixed = [parts[0].to_sparse(), parts[1].to_dense(), *(p.to_sparse() for p in parts[2:])]
    for density in (0.01, 1.0):
        found = concatenated(mixed, density)
        assert found.is_dense == (density < 1)
        np.testing.assert_array_equal(found.to_numpy(), vector)


@pytest.mark.parametrize("size", [*range(254, 259), *range(65_535, 65_538)])
def test_ranges_end_where_their_indices_type_does(size):
    """The end of a range may be one more than its indices' type holds."""
    stream = stream_of((np.arange(0, size, 2), np.ones((size + 1) // 2), size))
    bounds = np.sort(np.random.default_rng(size).integers(0, size, 3)).tolist()
    for lower, upper in itertools.combinations([0, *bounds, size - 1, size], 2):
        expected = np.arange(lower + lower % 2, upper, 2)
        np.testing.assert_array_equal(stream.of_range(lower, upper).indices, expected)


@given(st.integers(1, 200), st.integers(1, 5), st.integers(0, 10**6))
def test_a_sum_is_dense_from_just_the_share_on(size, n_streams, seed):
    random = np.random.default_rng(seed)
    present = random.random((n_streams, size)) < random.choice([0.02, 0.2, 0.6])
    n = np.count_nonzero(present.any(axis=0))
    streams = [stream_of(each.astype(float)) for each in present]
    for entries in (n - 0.5, n, n + 0.5):
        density = max(entries, 0.5) / size
        found = combined(streams, SUM, density)
        assert found.is_dense == (n >= density * size)
        assert found.is_dense or found.n_entries == n
        halves = [found.to_sparse().of_range(*each) for each in ((0, size // 2), (size // 2, size))]
        assert concatenated(halves, density).is_dense == (n >= density * size)


def test_where_it_switches():
    stream = stream_of((np.arange(10), np.ones(10), 100))
    assert stream.switched(0.1).is_dense
    assert not stream.switched(0.11).is_dense
    assert stream.to_dense().to_sparse().n_entries == 10
    assert not stream_of(np.zeros(0)).switched(0.1).is_dense


def test_it_says_what_it_holds_in_a_line():
    stream = stream_of((np.arange(10), np.ones(10, np.float32), 1000))
    assert repr(stream) == "Stream: 10 entries of float32 among 1,000 indices"
    assert repr(stream.to_dense()) == "Stream: 1,000 values of float32, dense"
    assert repr(stream.of_range(0, 5)).endswith("among 5 indices in [0, 5) of 1,000")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (([3, 1], [1.0, 2.0], 5), "1 comes after 3, at position 1"),
        (([1, 1], [1.0, 2.0], 5), "1 comes twice, at position 1"),
        (([1, 7], [1.0, 2.0], 5), "Index 7 is outside of a vector of size 5"),
        (([1, 5], [1.0, 2.0], 5), "Index 5 is outside"),
        (([-1, 3], [1.0, 2.0], 5), "Index -1 is outside"),
        (([1], [1.0, 2.0], 5), r"shapes \(1,\) and \(2,\)"),
        (([[1]], [[1.0]], 5), r"must be 1-d and equally many; got shapes \(1, 1\)"),
        (([1.5], [1.0], 5), "Indices must be integers, got dtype float64"),
        (([1], [1.0], -5), "size is -5: it must be at least 0"),
        (([1], [1.0], float("nan")), "size is nan: give a whole number"),
        (([1], [1.0]), "got a tuple of 2"),
        (([1], [1j], 5), "got complex128"),
        (([1], np.ma.array([1.0], mask=True), 5), "hold 1 masked values: fill them"),
        (([1], [[1.0], 2.0], 5), "NumPy makes no array"),
        ("abc", "got str"),
        (sparse.COO.from_numpy(np.ones(3), fill_value=1.0), "fill value is 1.0"),
    ],
)
def test_what_a_stream_refuses(data, message):
    with pytest.raises(InputError, match=message):
        stream_of(data)


def test_a_stream_of_another_reduction_or_of_a_range_is_refused():
    stream = stream_of(np.ones(4))
    with pytest.raises(InputError, match="absent entries are 0"):
        stream_of(stream, reduction=MIN)
    with pytest.raises(InputError, match="range 1 to 3"):
        stream_of(stream.of_range(1, 3))
    with pytest.raises(InputError, match=r"neutral element .* is no int64"):
        stream_of(np.array([1, 2]), reduction=Reduction("odd", np.add, 0.5))


@pytest.mark.parametrize("dtype", [np.float32, np.int8, bool])
@pytest.mark.parametrize(
    "identity", [np.zeros(2), [0], [[0], [0, 1]], "0", None, 1j, np.nan, 1e300, lambda dtype: ()]
)
def test_a_neutral_element_that_is_no_such_number_is_refused(dtype, identity):
    with pytest.raises(InputError, match=r"neutral elements? of odd (is|are) "):
        stream_of(np.ones(3, dtype), reduction=Reduction("odd", np.add, identity))
