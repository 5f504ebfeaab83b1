"""The cost model: union sizes, prices that follow the steps, choices that follow the constants."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from functools import partial

import numpy as np
import pytest

from daskpart.collectives import GraphCommunicator, LocalCommunicator, cost_measurement
from daskpart.collectives.cost_measurement import cost_model_of
from daskpart.collectives.cost_model import (
    AT_HAND,
    LONG_BYTES,
    NEAR,
    PLAINEST,
    SHORT_BYTES,
    CostModel,
    Problem,
    expected_union,
    preferred,
)
from daskpart.collectives.sparse_allreduce import (
    best_algorithm,
    post_sparse_allreduce,
    sparse_allreduce,
)
from daskpart.collectives.sparse_steps import ALGORITHMS, steps_of
from daskpart.collectives.stream import stream_of
from daskpart.errors import InputError

NOTHING = CostModel(*[0.0] * 9)
TYPICAL = CostModel(
    start=1e-4, round=1e-5, message=2e-6, byte=1e-9, merged_entry=3e-9, gathered_entry=4e-9,
    scattered_entry=2e-9, dense_element=3e-10, copied_byte=1e-10,
)  # fmt: skip


def random_vectors(n_ranks, size, k, seed=0):
    random = np.random.default_rng(seed)
    return [
        (np.sort(random.choice(size, k, replace=False)), random.standard_normal(k), size)
        for _ in range(n_ranks)
    ]


@pytest.mark.parametrize(("size", "k", "n_ranks"), [(512, 16, 8), (5000, 50, 30), (64, 64, 3)])
def test_union_is_the_closed_form_and_what_samples_show(size, k, n_ranks):
    found = expected_union(size, k / size, n_ranks)
    series = sum(
        (-1) ** (i - 1) * math.comb(n_ranks, i) * (k / size) ** i for i in range(1, n_ranks + 1)
    )
    assert found == pytest.approx(size * series, rel=1e-6)
    sampled = [
        len(set(np.concatenate([v[0] for v in random_vectors(n_ranks, size, k, seed)]).tolist()))
        for seed in range(30)
    ]
    assert found == pytest.approx(np.mean(sampled), rel=0.05)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("n_ranks", [2, 8, 6])
def test_messages_and_bytes_are_those_that_travel(algorithm, n_ranks):
    """With only α, or only β, the prediction is a count: of the busiest rank, in expectation."""
    size, k = 40_000, 900
    with LocalCommunicator(n_ranks, n_threads=1) as communicator:
        values = communicator.values(random_vectors(n_ranks, size, k))
        sparse_allreduce(communicator, values, algorithm=algorithm, switch_density=0.8)
        counted = communicator.counters.of(algorithm)
    problem, steps = Problem(n_ranks, size, k, "f8"), steps_of(algorithm, n_ranks)
    messages = replace(NOTHING, message=1.0).seconds_of(problem, steps)
    nbytes = replace(NOTHING, byte=1.0).seconds_of(problem, steps)
    if n_ranks == 6:  # folded: no rank takes part in every step
        assert messages >= counted["messages_sent"].max()
        assert nbytes >= 0.9 * counted["bytes_sent"].max()
    else:
        assert messages == counted["messages_sent"].max()
        assert nbytes == pytest.approx(counted["bytes_sent"].max(), rel=0.05)


@pytest.mark.parametrize(
    ("constant", "algorithm", "count"),
    [
        ("merged_entry", "ssar-recursive-doubling", 2 * 10 + 2 * expected_union(1000, 0.01, 2)),
        ("merged_entry", "ssar-split-allgather", 0),
        ("gathered_entry", "ssar-split-allgather", 4 * 10 / 4),
        ("scattered_entry", "dsar-split-allgather-ring", expected_union(250, 0.01, 4)),
        ("scattered_entry", "dense-ring", 10),
        ("dense_element", "dense-recursive-doubling", 2 * 1000),
        ("dense_element", "dense-rabenseifner", 500 + 250),
        ("dense_element", "dense-ring", 3 * 250),
        ("dense_element", "dsar-split-allgather-ring", 0),
    ],
)
def test_with_only_a_price_of_work_the_prediction_is_how_much_a_rank_does(
    constant, algorithm, count
):
    """4 ranks of 10 entries among 1000, which stay sparse where nothing else is said."""
    model = replace(NOTHING, **{constant: 1.0})
    seconds = model.seconds_of(Problem(4, 1000, 10), steps_of(algorithm, 4), switch=1.0)
    assert seconds == pytest.approx(count)


def test_choices_follow_the_constants():
    latency = replace(TYPICAL, message=1.0, round=1.0)
    assert latency.best(Problem(8, 10**6, 10**3)).algorithm.endswith("recursive-doubling")
    bandwidth = replace(TYPICAL, message=0.0, round=0.0, byte=1.0)
    few = bandwidth.best(Problem(8, 10**6, 10))  # (P - 1) k against P k of table 3.1
    assert few.algorithm == "ssar-recursive-doubling"
    many = bandwidth.best(Problem(8, 10**6, 10**5))
    assert many.algorithm in ("ssar-split-allgather", "butterfly")
    dense = bandwidth.best(Problem(8, 10**6, 9 * 10**5))
    assert dense.algorithm.startswith(("dense", "dsar", "butterfly", "ssar-split"))
    layered = replace(TYPICAL, message=1e-4, round=0.0).best(Problem(12, 10**6, 10**5))
    assert layered.algorithm == "butterfly" and math.prod(layered.degrees) == 12
    assert len(layered.degrees) > 1


def test_predict_gives_every_algorithm_its_best_options():
    seconds = TYPICAL.predict(64, 10**6, 10**4)
    assert list(seconds) == list(ALGORITHMS)
    assert all(value > 0 for value in seconds.values())
    best = TYPICAL.best(Problem(64, 10**6, 10**4))
    assert best.seconds == seconds[best.algorithm] <= NEAR * min(seconds.values())
    assert TYPICAL.predict(512, 10**7, 10**4)["dense-ring"] > seconds["dense-ring"]
    assert TYPICAL.predict(1, 10, 3)["butterfly"] == TYPICAL.start


def test_recursive_doubling_is_taken_unless_another_is_clearly_quicker():
    near = {PLAINEST: 1.14, "butterfly": 1.0, "dense-ring": 9.0}
    assert preferred(near) == PLAINEST
    assert preferred({**near, PLAINEST: 1.16}) == "butterfly"
    assert preferred({"butterfly": 2.0, "dense-ring": 1.0}) == "dense-ring"
    for entries in np.geomspace(10, 10**6, 40).astype(int):
        problem = Problem(8, 10**6, int(entries))
        best, choices = TYPICAL.best(problem), TYPICAL.choices(problem)
        assert best in choices and best.seconds <= NEAR * choices[0].seconds
        assert best.algorithm == PLAINEST or best == choices[0]


def test_long_arrays_have_prices_of_their_own():
    model = replace(TYPICAL, copied_byte=1.0, long_copied_byte=3.0)
    lengths = (10, SHORT_BYTES, (SHORT_BYTES * LONG_BYTES) ** 0.5, LONG_BYTES, 10**12)
    assert [model.at("copied_byte", n) for n in lengths] == pytest.approx([1, 1, 2, 3, 3])
    assert model.at("byte", 10**12) == TYPICAL.byte  # as for short ones
    copied = replace(NOTHING, copied_byte=1.0, long_copied_byte=3.0)
    for size, price in ((SHORT_BYTES // 4, 1.0), (LONG_BYTES, 3.0), (100, 0.0)):
        seconds = copied.predict(2, size, size)["dsar-split-allgather-ring"]
        # half a vector is filled, both halves are joined, 4 bytes an element
        assert seconds == pytest.approx(price * (4 * size * 1.5 - 2 * AT_HAND))


def test_lone_entries_of_a_merge_of_many():
    model = replace(NOTHING, gathered_entry=1.0, lone_gathered_entry=5.0)
    assert model.gathered(100, 1e-6) == pytest.approx(500, rel=1e-3)
    assert 100 < model.gathered(100, 0.5) < 115
    assert replace(model, lone_gathered_entry=None).gathered(100, 0.001) == 100
    sparse = model.seconds_of(Problem(4, 10**8, 400), steps_of("ssar-split-allgather", 4))
    assert sparse == pytest.approx(5 * 400, rel=1e-3)  # of a quarter of the range, from 4 ranks


def test_a_range_turns_dense_once():
    """The price of the switch is that of a dense vector, and of writing all entries into it."""
    scattered = replace(NOTHING, scattered_entry=1.0, merged_entry=1.0, dense_element=0.1)
    problem = Problem(4, 1000, 100)
    assert scattered.switch_density(1000, "f4") == pytest.approx(0.05)
    for algorithm, entries in (("ssar-split-allgather", 100), ("ssar-recursive-doubling", 200)):
        seconds = scattered.seconds_of(problem, steps_of(algorithm, 4))
        added = 0 if algorithm == "ssar-split-allgather" else 0.1 * 1000  # the second swap
        assert seconds == pytest.approx(entries + added)
    dsar, ssar = (steps_of(f"{kind}", 4) for kind in ALGORITHMS[2:0:-1])
    assert scattered.seconds_of(problem, dsar) == scattered.seconds_of(problem, ssar)


def test_the_choice_knows_from_which_density_on_ranges_turn_dense():
    """Priced as if they turned dense earlier, entries were sent as a dense vector."""
    split = ("ssar-split-allgather", "dsar-split-allgather-doubling")
    problem = Problem(4, 10**6, 10**5, "f4")
    assert TYPICAL.switch_density(10**6, "f4") < 0.34 < 0.5  # the sum has 0.34 of all
    assert TYPICAL.best(problem, split).algorithm == split[1]
    assert TYPICAL.best(problem, split, 0.5).algorithm == split[0]


def test_the_choice_is_that_for_the_entries_which_ranks_hold_in_the_mean():
    with LocalCommunicator(4, n_threads=1) as communicator:
        for counts in ((64, 0, 128, 64), (1024, 1024, 2048, 0)):
            vectors = [(np.arange(k), np.ones(k, np.float32), 4096) for k in counts]
            streams = communicator.map(stream_of, communicator.values(vectors))
            found = best_algorithm(communicator, streams, TYPICAL, ALGORITHMS, None)
            assert found == TYPICAL.best(Problem(4, 4096, sum(counts) / 4, np.float32))


def test_switch_density_is_between_bytes_and_work():
    """δ of §3.3.2 where bytes are all that counts; a few percent where combining is."""
    bytes_only = replace(NOTHING, byte=1.0)
    assert bytes_only.switch_density(10**6, "f4") == pytest.approx(0.5)
    assert bytes_only.switch_density(1000, "f8") == pytest.approx(0.8)
    work_only = replace(NOTHING, merged_entry=8.0, dense_element=1.0)
    assert work_only.switch_density(10**6, "f4") == pytest.approx(1 / 16)
    assert 1 / 16 < TYPICAL.switch_density(10**6, "f4") < 0.5
    both = replace(NOTHING, byte=1.0, long_byte=3.0, merged_entry=10.0)
    assert both.switch_density(1000, "f4") == pytest.approx(4 / (6 + 2 * 10))
    assert both.switch_density(LONG_BYTES // 4, "f4") == pytest.approx(3 * 4 / (3 * 8 + 2 * 10))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((0, 10, 1), "n_ranks is 0: it must be at least 1"),
        ((2, -1, 0), "size is -1: it must be at least 0"),
        ((2, 10, math.nan), "entries is nan: give a finite number of at least 0"),
        ((2, 10, 11), "11 entries do not fit a vector of size 10"),
    ],
)
def test_bad_problems(given, message):
    with pytest.raises(InputError, match=message):
        TYPICAL.predict(*given)


@pytest.mark.parametrize("seconds", [-1e-6, math.nan, "fast"])
def test_constants_are_seconds(seconds):
    for name in ("message", "long_byte"):
        with pytest.raises(InputError, match=f"{name} is {seconds!r}: give a finite number"):
            CostModel(**{name: seconds})


def timed(now, step, nanoseconds):
    """A step that moves a clock by as many nanoseconds as its arguments say."""

    def with_time(*arguments, **static):
        now[0] += 1e-9 * nanoseconds(*arguments)
        return step(*arguments, **static)

    return with_time


@pytest.mark.parametrize("n_ranks", [1, 2, 5])
def test_measuring_finds_what_a_unit_of_each_work_takes(monkeypatch, n_ranks):
    """By a clock that moves in steps alone, by ns a unit; ranks in turn wait for each other."""
    entries, short = cost_measurement._ENTRIES, SHORT_BYTES // 4
    units = {  # of a call on vectors of the short length, and nanoseconds of each
        "merged_entry": (2 * entries, 8), "gathered_entry": (4 * entries, 5),
        "lone_gathered_entry": (4 * entries, 7), "scattered_entry": (4 * entries, 3),
        "dense_element": (short, 2), "copied_byte": (SHORT_BYTES, 1),
    }  # fmt: skip
    slower = {"scattered_entry": 4 / 3}  # on long vectors
    empty, round_, message, byte, long_byte = 5000, 3000, 2000, 1, 1.5
    now = [0.0]

    def work(vectors, *, seconds, slower):
        times = len(vectors.dense) / short
        now[0] += seconds * times * (slower if times > 1 else 1)
        return vectors.dense[:1]

    def sending(array, source, destinations):
        each = long_byte if len(array) > cost_measurement._LARGE_BYTES // n_ranks else byte
        return len(destinations) * (message + each * len(array))

    for name, (n_units, each) in units.items():
        replaced = partial(work, seconds=n_units * each * 1e-9, slower=slower.get(name, 1))
        monkeypatch.setitem(cost_measurement._WORKS, name, replaced)
    for name, nanoseconds in {
        "_repeat": lambda *_: empty, "unchanged": lambda *_: empty, "_pack_all": sending,
        "_combine_streams": lambda *_: round_, "_pack_stream": lambda _, __, to: message * len(to),
    }.items():  # fmt: skip
        step = timed(now, getattr(cost_measurement, name), nanoseconds)
        monkeypatch.setattr(cost_measurement, name, step)
    monkeypatch.setattr(cost_measurement, "perf_counter", lambda: now[0])
    monkeypatch.setattr(cost_measurement, "_LONG_BYTES", 4 * SHORT_BYTES)
    monkeypatch.setattr(cost_measurement, "_LARGE_BYTES", 1000)
    monkeypatch.setattr(cost_measurement, "_known", {})  # nobody else is told what was found
    with LocalCommunicator(n_ranks, n_threads=1) as communicator:
        found = asdict(cost_model_of(communicator))
    expected = {
        "merged_entry": 8, "gathered_entry": 5, "lone_gathered_entry": 7, "scattered_entry": 3,
        "long_scattered_entry": 4, "dense_element": 2, "long_dense_element": 2, "copied_byte": 1,
        "long_copied_byte": 1, "start": 2 * empty,
    }  # fmt: skip
    if n_ranks > 1:
        short_bytes, long_bytes = 1000 // n_ranks, 4 * SHORT_BYTES
        expected |= {"round": round_, "message": message}
        expected["byte"] = byte * (short_bytes - 8) / short_bytes
        expected["long_byte"] = (long_byte * long_bytes - 8 * byte) / long_bytes
    assert found.keys() == expected.keys() | {"round", "message", "byte", "long_byte"}
    for name, seconds in found.items():
        assert seconds == pytest.approx(n_ranks * 1e-9 * expected.get(name, 0)), name


@pytest.mark.parametrize("scheduler", [None, "threads"])
def test_constants_are_measured_once_and_choose(scheduler, rough_cost_model):
    make = LocalCommunicator if scheduler is None else GraphCommunicator
    options = {} if scheduler is None else {"scheduler": scheduler}
    with make(4, **options) as communicator:
        model = cost_model_of(communicator)
        assert cost_model_of(communicator) is model
        with make(4, **options) as other, make(3, **options) as smaller:
            assert cost_model_of(other) is model  # the same machine, as many ranks
            assert cost_model_of(smaller) is not model
            assert cost_model_of(other, again=True) is not model
        model = cost_model_of(communicator)
        assert all(0 <= value < 1 for value in asdict(model).values())
        assert 0 < model.switch_density(10**6, "f4") <= 0.5
        vectors = random_vectors(4, 500, 16)
        pending = post_sparse_allreduce(communicator, communicator.values(vectors))
        assert pending.algorithm == model.best(Problem(4, 500, 16, "f8")).algorithm
        stream = communicator.gather(pending.collect())[0]
    expected = np.zeros(500)
    for indices, values, _ in vectors:
        expected[indices] += values
    np.testing.assert_allclose(stream.to_numpy(), expected, atol=1e-12)


def test_auto_takes_the_given_model():
    vectors = random_vectors(8, 4000, 32)
    with LocalCommunicator(8, n_threads=1) as communicator:
        values = communicator.values(vectors)
        for model in (replace(TYPICAL, message=1.0, round=1.0), replace(TYPICAL, byte=1.0)):
            pending = post_sparse_allreduce(communicator, values, model=model)
            assert pending.algorithm == model.best(Problem(8, 4000, 32, "f8")).algorithm
            pending.collect()


def test_the_constants_are_shown():
    assert "merged entry" in repr(TYPICAL) and len(repr(TYPICAL).splitlines()) == 11
    assert TYPICAL._repr_html_().count("<tr>") == 10
