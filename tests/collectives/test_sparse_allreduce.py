"""Every algorithm gives what a serial sum gives, the same bits everywhere, within table 3.1."""

from __future__ import annotations

import math
from functools import partial

import dask.array as da
import numpy as np
import pytest
import sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from daskpart.collectives import (
    ANY,
    MAX,
    MIN,
    SUM,
    CostModel,
    LocalCommunicator,
    Reduction,
    simulate_sparse_allreduce,
)
from daskpart.collectives.cost_model import Choice, Problem
from daskpart.collectives.sparse_allreduce import (
    equal_shares,
    post_sparse_allreduce,
    sparse_allreduce,
)
from daskpart.collectives.sparse_steps import ALGORITHMS, factorizations
from daskpart.collectives.stream import stream_of
from daskpart.collectives.transports import measures
from daskpart.errors import InputError

SIZE = 2000
SWITCH = 0.1
ONE_OF_EACH_KIND = ("ssar-recursive-doubling", "dsar-split-allgather-ring", "butterfly")
COUNTS = ("messages_sent", "rows_sent", "rows_received", "bytes_sent", "bytes_received")


def unequal_vectors(n_ranks, size=SIZE, seed=0):
    """Very unequal numbers of entries, one rank without any, values of very unequal size."""
    random = np.random.default_rng(seed)
    vectors = []
    for rank in range(n_ranks):
        n = 0 if rank == 1 else int(size * 0.4 ** (rank % 5 + 1))
        indices = np.sort(random.choice(size, n, replace=False))
        values = random.standard_normal(n) * 10.0 ** random.integers(-6, 7, n)
        vectors.append((indices, values, size))
    return vectors


def serial_sum(vectors, size=SIZE):
    total = np.zeros(size)
    for indices, values, _ in vectors:
        total[indices] += values
    return total


def run(communicator, vectors, **options):
    """The streams of all ranks, and what was counted."""
    options.setdefault("switch_density", SWITCH)
    communicator.counters.reset()
    result = sparse_allreduce(communicator, communicator.values(vectors), **options)
    streams = communicator.gather(result)
    counted = communicator.counters.of(options["algorithm"])
    return streams, {name: counted[name].tolist() for name in COUNTS}


def bits(stream):
    return stream.values.tobytes(), None if stream.is_dense else stream.indices.tobytes()


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4, 5, 8])
def test_same_bits_and_counts_on_every_transport(make_communicator, n_ranks, request):
    name = request.node.name
    few = "graph-processes" in name or ("dask-processes" in name and n_ranks != 5)
    vectors = unequal_vectors(n_ranks)
    expected = serial_sum(vectors)
    communicator = make_communicator(n_ranks)
    with LocalCommunicator(n_ranks, n_threads=1) as simulator:
        for algorithm in ONE_OF_EACH_KIND if few else ALGORITHMS:
            streams, counts = run(communicator, vectors, algorithm=algorithm)
            np.testing.assert_allclose(streams[0].to_numpy(), expected, rtol=1e-9, atol=1e-9)
            assert len({bits(stream) for stream in streams}) == 1, algorithm
            reference, reference_counts = run(simulator, vectors, algorithm=algorithm)
            assert bits(reference[0]) == bits(streams[0]), algorithm
            assert counts == reference_counts, algorithm


def cut_elsewhere(communicator, streams, cuts, **options):
    """The sums of all ranks of streams that are split at `cuts`, and what was counted."""
    communicator.counters.reset()
    values = communicator.values([stream.cut_at(cuts) for stream in streams])
    pending = post_sparse_allreduce(communicator, values, agreed=True, **options)
    totals = communicator.gather(pending.collect())
    return totals, communicator.counters.of(options["algorithm"])


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 13), st.sampled_from(ALGORITHMS), st.integers(1, 200), st.floats(0.01, 1.0),
    st.integers(0, 10**6),
)  # fmt: skip
def test_a_sum_has_the_same_bits_wherever_it_is_cut(n_ranks, algorithm, size, switch, seed):
    vectors = unequal_vectors(n_ranks, size, seed)
    like = stream_of(unequal_vectors(1, size, seed + 1)[0])
    cuts = equal_shares(like, n_ranks)
    options = {"algorithm": algorithm, "switch_density": switch}
    with LocalCommunicator(n_ranks, n_threads=1) as communicator:
        whole, _ = run(communicator, vectors, **options)
        streams, counted = cut_elsewhere(communicator, map(stream_of, vectors), cuts, **options)
    for stream in streams:
        assert stream.to_numpy().tobytes() == whole[0].to_numpy().tobytes()
    simulated = simulate_sparse_allreduce(
        [indices for indices, _, _ in vectors], size, cuts=cuts, dtype=np.float64, **options
    )
    for name in COUNTS:
        np.testing.assert_array_equal(getattr(simulated, name), counted[name], err_msg=name)


@pytest.mark.parametrize("n_ranks", [4, 8, 16])
def test_ranks_add_up_as_many_entries_each_where_frequent_ones_come_first(n_ranks):
    """Twice the same sum, the second time cut by the first: no rank waits for a loaded one."""
    random, size = np.random.default_rng(n_ranks), 5000
    held = [np.unique((size * random.random(900) ** 5).astype(int)) for _ in range(n_ranks)]
    streams = [stream_of((each, np.ones(len(each)), size)) for each in held]
    options = {"algorithm": "ssar-split-allgather", "switch_density": 1.0}
    with LocalCommunicator(n_ranks, n_threads=1) as communicator:
        (total, *_), equal = cut_elsewhere(communicator, streams, (), **options)
        (again, *_), cut = cut_elsewhere(
            communicator, streams, equal_shares(total, n_ranks), **options
        )
    assert again.to_numpy().tobytes() == total.to_numpy().tobytes()
    core = 1 << (n_ranks.bit_length() - 1)
    cuts = equal_shares(again, n_ranks)
    shares = np.diff(np.searchsorted(again.indices, cuts))
    assert len(cuts) == core + 1
    assert cuts[0] == 0
    assert cuts[-1] == size
    assert shares.max() - shares.min() <= 1
    assert cut["rows_sent"].max() < 0.8 * equal["rows_sent"].max()


def test_a_dense_sum_is_cut_into_ranges_of_one_length():
    assert equal_shares(stream_of(np.ones(9)).to_dense(), 4) == ()
    assert equal_shares(stream_of(([3, 7], [1.0, 1.0], 9)), 4) == ()  # fewer entries than parts
    assert equal_shares(stream_of(([3, 7, 8], [1.0, 1.0, 1.0], 9)), 3) == (0, 7, 9)


@pytest.mark.parametrize("algorithm", ["ssar-split-allgather", "auto"])
def test_cuts_that_ranks_have_not_agreed_on_are_let_go(algorithm):
    with LocalCommunicator(2) as communicator:
        streams = [stream_of(np.arange(9.0)).cut_at((0, cut, 9)) for cut in (3, 7)]
        pending = post_sparse_allreduce(
            communicator, communicator.values(streams), algorithm=algorithm, switch_density=1.0,
            among=("ssar-split-allgather",),
        )  # fmt: skip
        for stream in communicator.gather(pending.collect()):
            np.testing.assert_array_equal(stream.to_numpy(), 2 * np.arange(9.0))


@pytest.mark.parametrize("algorithm", ONE_OF_EACH_KIND)
def test_true_and_false_have_a_largest_and_a_smallest(algorithm):
    vectors = [([1, 3], np.array([True, False]), 5), ([1], np.array([True]), 5)]
    with LocalCommunicator(2) as communicator:
        for reduction, expected in ((MAX, [0, 1, 0, 0, 0]), (MIN, [1, 1, 1, 0, 1])):
            streams, _ = run(communicator, vectors, algorithm=algorithm, reduction=reduction)
            np.testing.assert_array_equal(streams[0].to_numpy(), np.array(expected, bool))


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 13), st.sampled_from(ALGORITHMS), st.integers(0, 60), st.floats(0.01, 1.0),
    st.integers(0, 10**6),
)  # fmt: skip
def test_any_number_of_ranks_any_size(n_ranks, algorithm, size, switch, seed):
    """Integers, so that equal means equal; sizes below the number of ranks, all-empty ranks."""
    random = np.random.default_rng(seed)
    vectors = random.integers(-9, 9, (n_ranks, size))
    vectors[random.random(vectors.shape) < random.choice([0.0, 0.5, 0.95, 1.0])] = 0
    with LocalCommunicator(n_ranks, n_threads=1) as communicator:
        streams, _ = run(communicator, list(vectors), algorithm=algorithm, switch_density=switch)
    for stream in streams:
        assert stream.values.dtype == vectors.dtype
        np.testing.assert_array_equal(stream.to_numpy(), vectors.sum(axis=0))


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 9), st.sampled_from([name for name in ALGORITHMS if name.startswith("dense")]),
    st.sampled_from([SUM, MIN, MAX]), st.integers(0, 60), st.integers(0, 10**6),
)  # fmt: skip
def test_arrays_taken_as_they_are_give_the_bits_of_entries(
    n_ranks, algorithm, reduction, size, seed
):
    """Dense algorithms form no entries; what they give is that of entries, also of -0.0."""
    random = np.random.default_rng(seed)
    arrays = list(random.standard_normal((n_ranks, size)) * 10.0 ** random.integers(-9, 9, size))
    for array in arrays:
        array[random.random(size) < random.choice([0.0, 0.5, 1.0])] = -0.0
    given, options = [array.copy() for array in arrays], {"algorithm": algorithm}
    with LocalCommunicator(n_ranks, n_threads=1) as communicator:
        streams = [stream_of(array, reduction=reduction) for array in arrays]
        expected, counts = run(communicator, streams, reduction=reduction, **options)
        found, same_counts = run(communicator, arrays, reduction=reduction, **options)
    for one, other in zip(expected, found, strict=True):
        assert bits(one) == bits(other)
    assert counts == same_counts
    assert [array.tobytes() for array in arrays] == [array.tobytes() for array in given]
    assert not any(np.shares_memory(array, found[0].values) for array in arrays)


@pytest.mark.parametrize(
    ("reduction", "dtype"), [(SUM, "f4"), (MIN, "f8"), (MAX, "i8"), (ANY, "?")]
)
def test_reductions_and_types(reduction, dtype):
    random = np.random.default_rng(5)
    neutral = np.asarray(reduction.identity_of(np.dtype(dtype))).astype(dtype)
    vectors = random.integers(-5, 6, (5, 300)).astype(dtype)
    vectors[random.random(vectors.shape) < 0.8] = neutral
    with LocalCommunicator(5) as communicator:
        for algorithm in ALGORITHMS:
            streams, _ = run(communicator, list(vectors), algorithm=algorithm, reduction=reduction)
            found = streams[4].to_numpy()
            assert found.dtype == np.dtype(dtype)
            np.testing.assert_array_equal(found, reduction.combine.reduce(vectors, axis=0))


def test_n_dimensional_input_comes_back_in_shape():
    random = np.random.default_rng(0)
    arrays = [sparse.random((6, 7, 8), 0.1, random_state=random) for _ in range(3)]
    with LocalCommunicator(3) as communicator:
        streams, _ = run(communicator, arrays, algorithm="butterfly")
    expected = sum(array.todense() for array in arrays)
    np.testing.assert_allclose(streams[1].to_coo().todense(), expected)
    assert streams[1].to_coo().shape == streams[1].to_numpy().shape == (6, 7, 8)


def disjoint(n_ranks, k, size):
    """K = kP, and every rank has as much in every range."""
    step = size // (n_ranks * k)
    places = [np.arange(k) * n_ranks * step + rank * step for rank in range(n_ranks)]
    return [(place, np.ones(k), size) for place in places]


def identical(n_ranks, k, size):
    """K = k."""
    return [(np.arange(k) * (size // k), np.ones(k), size)] * n_ranks


@pytest.mark.parametrize("n_ranks", [2, 4, 8, 16])
def test_messages_and_volumes_of_table_3_1(n_ranks):
    """Rows sent by the busiest rank, at both ends of the overlap; entries as the thesis counts."""
    k, size, p, log = 64, 2**14, n_ranks, int(math.log2(n_ranks))
    join = 3 * (log // 2) + log % 2  # messages of two doublings at once, where the thesis has log
    bounds = {  # messages, rows if the entries coincide, rows if none do
        "ssar-recursive-doubling": (log, log * k, (p - 1) * k),
        "ssar-split-allgather": (p - 1 + join, 2 * k * (p - 1) / p, k * (p - 1) / p + (p - 1) * k),
        "dsar-split-allgather-doubling": (p - 1 + join, *[(k + size) * (p - 1) / p] * 2),
        "dsar-split-allgather-ring": (2 * (p - 1), *[(k + size) * (p - 1) / p] * 2),
        "dense-rabenseifner": (2 * log, *[2 * size * (p - 1) / p] * 2),
        "dense-ring": (2 * (p - 1), *[2 * size * (p - 1) / p] * 2),
        "dense-recursive-doubling": (log, *[log * size] * 2),
    }
    with LocalCommunicator(n_ranks, n_threads=1) as communicator:
        for algorithm, (messages, *rows) in bounds.items():
            for make, most in zip((identical, disjoint), rows, strict=True):
                vectors = make(n_ranks, k, size)
                streams, counts = run(
                    communicator, vectors, algorithm=algorithm, switch_density=0.6
                )
                np.testing.assert_array_equal(streams[0].to_numpy(), serial_sum(vectors, size))
                assert counts["messages_sent"] == [messages] * n_ranks, algorithm
                assert counts["rows_sent"] == [most] * n_ranks, (algorithm, make)
        assert 2 * (k + size) * (p - 1) / p >= bounds["dense-ring"][1]  # lemma 3.3


def test_early_switching_sends_less_than_a_split_of_all_in_messages():
    """g - 1 + log2(P/g) + log2 P messages; dense from the group on."""
    vectors = unequal_vectors(16)
    with LocalCommunicator(16, n_threads=1) as communicator:
        for group in (2, 4, 8, 16):
            _, counts = run(communicator, vectors, algorithm="dsar-early-switching", group=group)
            assert counts["messages_sent"] == [group - 1 + int(math.log2(16 // group)) + 4] * 16
            labels = [r.label for r in communicator.counters.rounds]
            assert labels.count("dsar-early-switching") == 1 + int(math.log2(16 // group)) + 4


def test_every_layering_of_the_butterfly():
    vectors = unequal_vectors(12)
    with LocalCommunicator(12, n_threads=1) as communicator:
        for degrees in factorizations(12):
            streams, counts = run(communicator, vectors, algorithm="butterfly", degrees=degrees)
            np.testing.assert_allclose(streams[7].to_numpy(), serial_sum(vectors), atol=1e-9)
            assert counts["messages_sent"] == [2 * sum(d - 1 for d in degrees)] * 12


def test_the_sizes_are_agreed_on_first():
    """Two small messages a rank, before the first entry moves."""
    with LocalCommunicator(4, n_threads=1) as communicator:
        run(communicator, unequal_vectors(4), algorithm="ssar-split-allgather")
        labels = [record.label for record in communicator.counters.rounds]
        assert labels[:2] == ["sparse allreduce: sizes"] * 2
        assert set(labels[2:]) == {"ssar-split-allgather"}


def double(value):
    return 2 * value


def test_computing_goes_on_between_post_and_collect(make_communicator):
    communicator = make_communicator(4)
    vectors = unequal_vectors(4)
    pending = post_sparse_allreduce(
        communicator, communicator.values(vectors), algorithm="butterfly", switch_density=SWITCH
    )
    assert pending.algorithm == "butterfly"
    doubled = communicator.map(double, communicator.values([1, 2, 3, 4]))
    result = pending.collect()
    assert communicator.gather(doubled) == [2, 4, 6, 8]
    stream = communicator.gather(result)[3]
    np.testing.assert_allclose(stream.to_numpy(), serial_sum(vectors), atol=1e-9)
    with pytest.raises(InputError, match="collected before"):
        pending.collect()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((np.array([1]), np.ones(1), SIZE + 1), r"Ranks 0 and 2 disagree.*\(2000,\).*\(2001,\)"),
        ((np.array([1]), np.ones(1, np.float32), SIZE), "Ranks 0 and 2.*float64.*float32"),
        (np.zeros((SIZE, 1)), r"Ranks 0 and 2 disagree.*\(2000,\).*\(2000, 1\)"),
        ((np.array([5, 3]), np.ones(2), SIZE), "3 comes after 5"),
        ((np.array([5, 5]), np.ones(2), SIZE), "5 comes twice"),
    ],
)
def test_ranks_that_disagree_are_named(make_communicator, change, message):
    communicator = make_communicator(4)
    vectors = unequal_vectors(4)
    vectors[2] = change
    with pytest.raises(InputError, match=message) as caught:
        communicator.gather(
            sparse_allreduce(
                communicator, communicator.values(vectors), algorithm="ssar-split-allgather",
                switch_density=SWITCH,
            )
        )  # fmt: skip
    if "comes" in message:
        assert "on rank 2" in "".join(caught.value.__notes__)
    assert "ssar-split-allgather" not in communicator.counters.labels  # nothing half-applied


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "fastest"}, "algorithm='fastest'; allowed are auto, ssar-rec"),
        ({"algorithm": "butterfly", "degrees": (2, 3)}, "product must be the number of ranks, 4"),
        ({"algorithm": "butterfly", "degrees": (4, 1)}, "at least 2"),
        ({"algorithm": "dsar-early-switching", "group": 3}, "powers of two from 2 to 4"),
        ({"algorithm": "dense-ring", "group": 2}, "group=2 is for dsar-early-switching"),
        ({"algorithm": "dense-ring", "degrees": (4,)}, "are for butterfly"),
        ({"degrees": (2, 2)}, "'auto' chooses both"),
        ({"algorithm": "dense-ring", "switch_density": 0.0}, "share, above 0 and at most 1"),
        ({"algorithm": "dense-ring", "switch_density": math.nan}, "got nan"),
        ({"algorithm": "dense-ring", "switch_density": "half"}, "got 'half'"),
        ({"switch_density": "half"}, "got 'half'"),
        ({"model": "fast"}, "Got str: give a CostModel"),
        ({"algorithm": "butterfly", "degrees": 4}, "degrees is 4: give a sequence of whole"),
        ({"algorithm": "butterfly", "degrees": (2.5, 2)}, "a degree is 2.5"),
    ],
)
def test_bad_options(options, message):
    with LocalCommunicator(4, n_threads=1) as communicator:
        values = communicator.values(unequal_vectors(4))
        with pytest.raises(InputError, match=message):
            sparse_allreduce(communicator, values, **{"switch_density": SWITCH, **options})


def test_a_choice_among_nothing_that_there_is():
    with LocalCommunicator(2, n_threads=1) as communicator:
        values = communicator.values([np.ones(3)] * 2)
        for among in ((), ("butterfly", "fastest")):
            with pytest.raises(InputError, match="name some of ssar-rec"):
                post_sparse_allreduce(communicator, values, among=among, model=CostModel())


@pytest.mark.parametrize("dtypes", [(">f8", "<f8"), (np.longlong, np.int64)])
def test_numbers_are_of_one_kind_however_they_lie_in_memory(dtypes):
    """The other order of bytes; a second C type of 8 bytes."""
    vectors = [(np.array([1, 3]), np.array([2, 5], dtype), 6) for dtype in map(np.dtype, dtypes)]
    with LocalCommunicator(2, n_threads=1) as communicator:
        values = communicator.values(vectors)
        total = sparse_allreduce(
            communicator, values, algorithm="ssar-recursive-doubling", switch_density=1.0
        )
        assert communicator.gather(total)[0].to_numpy().tolist() == [0, 4, 0, 10, 0, 0]


def array_of(vectors, as_sparse=True):
    blocks = np.zeros((len(vectors), SIZE))
    for row, (indices, values, _) in zip(blocks, vectors, strict=True):
        row[indices] = values
    x = da.from_array(blocks, chunks=(1, -1))
    return x.map_blocks(sparse.COO.from_numpy) if as_sparse else x


@pytest.mark.parametrize("algorithm", ["auto", *ONE_OF_EACH_KIND])
@pytest.mark.parametrize("as_sparse", [True, False])
def test_lazily_on_a_dask_array(algorithm, as_sparse):
    vectors = unequal_vectors(5)
    x = array_of(vectors, as_sparse)
    total = sparse_allreduce(x, algorithm=algorithm, switch_density=SWITCH)
    assert isinstance(total, da.Array)
    assert (total.shape, total.chunks, total.dtype) == (x.shape, x.chunks, x.dtype)
    assert isinstance(total._meta, sparse.COO if as_sparse else np.ndarray)
    again = sparse_allreduce(x, algorithm=algorithm, switch_density=SWITCH)
    assert again.name == total.name
    for scheduler in ("threads", "synchronous"):
        block = total.blocks[3].compute(scheduler=scheduler)
        block = block.todense() if as_sparse else block
        np.testing.assert_allclose(block[0], serial_sum(vectors), atol=1e-9)
    mean = (total[0] / 5).sum().compute(scheduler="threads")
    assert (mean.todense() if hasattr(mean, "todense") else mean) == pytest.approx(
        serial_sum(vectors).sum() / 5, rel=1e-6, abs=1e-6
    )
    assert not any(run.startswith(measures.UNMEASURED) for run in measures._notes)


@pytest.mark.cluster
def test_a_dask_array_on_a_cluster(quiet_client):
    vectors = unequal_vectors(4)
    total = sparse_allreduce(array_of(vectors), algorithm="butterfly", switch_density=SWITCH)
    block = quiet_client.compute(total.blocks[2], sync=True)
    np.testing.assert_allclose(block.todense()[0], serial_sum(vectors), atol=1e-9)


def _longer(a, b):
    return a if abs(a) >= abs(b) else b


@pytest.mark.parametrize("algorithm", ONE_OF_EACH_KIND)
@pytest.mark.parametrize("n_entries", [3, 60])
def test_a_reduction_of_numbers(algorithm, n_entries):
    """Its function can't be called with arrays, which ranges become that are dense."""
    longest = Reduction("longest", _longer, 0.0)
    vectors = np.zeros((4, 100))
    random = np.random.default_rng(n_entries)
    for vector in vectors:
        vector[random.choice(100, n_entries, replace=False)] = random.standard_normal(n_entries)
    expected = vectors[np.abs(vectors).argmax(0), np.arange(100)]
    with LocalCommunicator(4) as communicator:
        values = communicator.values([stream_of(v, reduction=longest) for v in vectors])
        found = sparse_allreduce(
            communicator, values, longest, algorithm=algorithm, switch_density=SWITCH
        )
        for stream in communicator.gather(found):
            np.testing.assert_array_equal(stream.to_numpy(), expected)


def _of_no_kernel(a, b):
    return {a: b}.get(a, [])


@pytest.mark.parametrize("combine", [_of_no_kernel, max, partial(max, 0.0)])
def test_a_reduction_that_numba_does_not_compile_is_told(combine):
    with LocalCommunicator(2) as communicator:
        values = communicator.values([np.ones(4)] * 2)
        own = Reduction("own", combine, 0.0)
        with pytest.raises(InputError, match=r"combine=.* that numba can compile"):
            sparse_allreduce(
                communicator, values, own, algorithm="butterfly", switch_density=SWITCH
            )


@pytest.mark.parametrize("algorithm", ONE_OF_EACH_KIND)
def test_two_reductions_of_one_name_on_one_dask_array(algorithm):
    """Computed together, neither is taken for the other."""
    blocks = np.random.default_rng(2).integers(0, 4, (3, 40)).astype(float)
    x = da.from_array(blocks, chunks=(1, -1))
    own = [Reduction("mine", combine, 0.0) for combine in (np.add, np.maximum)]
    totals = [
        sparse_allreduce(x, reduction=each, algorithm=algorithm, switch_density=SWITCH)
        for each in own
    ]
    found = da.compute(*totals, scheduler="synchronous")
    np.testing.assert_array_equal(found[0][0], blocks.sum(0))
    np.testing.assert_array_equal(found[1][0], blocks.max(0))


def test_what_differs_has_another_name_in_a_graph():
    """Else Dask takes one for the other where both are computed."""
    x = da.from_array(np.eye(4), chunks=(1, -1))
    changes = [{}, {"reduction": MAX}, {"switch_density": 0.25}, {"model": CostModel(message=1.0)}]
    changes += [{"algorithm": name} for name in ONE_OF_EACH_KIND[:2]]
    given = {"algorithm": "butterfly", "switch_density": SWITCH}
    totals = [sparse_allreduce(x, **{**given, **change}) for change in changes]
    totals.append(sparse_allreduce(x + 1, **given))
    assert len({total.name for total in totals}) == len(totals)


@pytest.mark.parametrize("options", [{"group": 2}, {"degrees": (4,)}])
def test_the_choice_on_a_dask_array_is_for_the_density_that_is_expected(monkeypatch, options):
    algorithm = "dsar-early-switching" if "group" in options else "butterfly"
    asked = []
    choice = Choice(algorithm, 1.0, **options)
    monkeypatch.setattr(CostModel, "best", lambda *given: (asked.append(given), choice)[1])
    x = da.zeros((4, 8, 5), chunks=(1, -1, -1), dtype=np.float32)
    model = CostModel(message=1.0)
    found = sparse_allreduce(x, expected_density=0.25, model=model)
    assert asked == [(model, Problem(4, 40, 10.0, np.float32))]
    assert found.name == sparse_allreduce(x, algorithm=algorithm, model=model, **options).name


def test_blocks_of_another_sparse_form():
    """The result says what its blocks are, and they are that."""
    x = da.from_array(np.eye(3), chunks=(1, -1)).map_blocks(sparse.GCXS.from_numpy)
    total = sparse_allreduce(x, algorithm="butterfly", switch_density=SWITCH)
    assert isinstance(total._meta, sparse.COO) and total._meta.dtype == x.dtype
    assert isinstance(total.blocks[0].compute(scheduler="synchronous"), sparse.COO)
    np.testing.assert_array_equal(total.compute(scheduler="synchronous").todense(), np.ones((3, 3)))


def test_arrays_that_do_not_fit():
    x = da.zeros((4, 6), chunks=(1, 3))
    with pytest.raises(InputError, match=r"cut into \(4, 2\) blocks"):
        sparse_allreduce(x)
    with pytest.raises(InputError, match=r"chunks of the first axis are \(3, 1\)"):
        sparse_allreduce(da.zeros((4, 6), chunks=(3, -1)))
    with pytest.raises(InputError, match="group=2 goes with the algorithm"):
        sparse_allreduce(da.from_array(np.zeros((4, 2)), chunks=(1, 2)), group=2)
    for wrong in (2, "much"):
        with pytest.raises(InputError, match=f"expected_density is {wrong!r}: give a"):
            sparse_allreduce(da.zeros((4, 6), chunks=(1, -1)), expected_density=wrong)
    with pytest.raises(InputError, match="got complex128"):  # at once, and not of a task
        sparse_allreduce(da.zeros((2, 6), chunks=(1, -1), dtype=complex))
    with pytest.raises(InputError, match=r"fill value is 0\.0, but the neutral element of max"):
        sparse_allreduce(da.from_array(sparse.zeros((2, 6)), chunks=(1, -1)), reduction=MAX)
    with pytest.raises(InputError, match="Got str: give a CostModel"):
        sparse_allreduce(x, model="fast")
    with pytest.raises(InputError, match="reduction is 'sum'"):
        sparse_allreduce(da.zeros((2, 6), chunks=(1, -1)), reduction="sum")
    with pytest.raises(InputError, match="got list and NoneType"):
        sparse_allreduce([1, 2])
    with pytest.raises(InputError, match="needs the ranks' values"), LocalCommunicator(2) as ranks:
        sparse_allreduce(ranks)
