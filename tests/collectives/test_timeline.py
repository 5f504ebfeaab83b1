"""Timelines: what they hold agrees with the counters on every transport; how they print."""

from __future__ import annotations

import time

import numpy as np
import pytest
from exchange_text import N_ITEMS, assert_same_bits, random_connectivity, run_exchange
from hypothesis import given
from hypothesis import strategies as st

from daskpart.collectives import (
    Counters,
    LocalCommunicator,
    Timeline,
    allreduce,
    barrier,
    record_timelines,
)
from daskpart.collectives.timeline import BLOCKED, COMPUTING, KINDS, SENDING, Span, name_of, now
from daskpart.collectives.transports.measures import Measures, Note
from daskpart.errors import InputError, ReadError


def slow_on_rank_1(rank):
    time.sleep(0.4 if rank == 1 else 0.0)  # long beside what a busy machine delays
    return rank


def late_sum(comm, ranks):
    return allreduce(comm, comm.map(slow_on_rank_1, ranks))


def spans_of(timeline, kind):
    return [span for span in timeline.spans if KINDS[span.kind] == kind]


def test_the_waiting_stands_where_it_was(make_communicator):
    """Ranks 0 and 2 wait for rank 1 while it computes, and the picture shows it."""
    communicator = make_communicator(3)
    assert communicator.timeline is None
    allreduce(communicator, communicator.values([1, 1, 1])).result()
    timeline = communicator.record_timeline()
    assert communicator.record_timeline() is timeline
    assert communicator.run(late_sum, communicator.values([0, 1, 2])).result() == 3
    assert {span.name for span in spans_of(timeline, "computing")} >= {"slow_on_rank_1"}
    slow = max(spans_of(timeline, "computing"), key=lambda span: span.end - span.begin)
    assert (slow.rank, slow.name) == (1, "slow_on_rank_1")
    for rank in (0, 2):
        waits = [s for s in spans_of(timeline, "blocked") if s.rank == rank]
        overlap = sum(min(s.end, slow.end) - max(s.begin, slow.begin) for s in waits
                      if s.end > slow.begin and s.begin < slow.end)  # fmt: skip
        assert overlap > 0.1
    assert 0.4 <= timeline.duration < 20


def slow_sum(values):
    time.sleep(0.2)
    return sum(values)


def test_a_fold_is_computed_by_rank_0_and_waited_for_by_the_others(make_communicator):
    communicator = make_communicator(3)
    timeline = communicator.record_timeline()
    assert communicator.run(fold_slowly, communicator.values([1, 2, 3])).result() == 6
    computed = {span.rank for span in spans_of(timeline, "computing") if span.name == "slow_sum"}
    assert computed == {0}
    for rank in (1, 2):
        waits = [span for span in spans_of(timeline, "blocked") if span.rank == rank]
        assert sum(span.end - span.begin for span in waits) > 0.1
    assert communicator.counters.seconds_computing[0] > 0.1


def fold_slowly(comm, values):
    return comm.fold(values, slow_sum)


def test_sums_are_those_of_the_counters(make_communicator):
    communicator = make_communicator(3)
    timeline = communicator.record_timeline()
    connectivity = random_connectivity(N_ITEMS, 3, seed=0)
    found = run_exchange(communicator, connectivity)
    with LocalCommunicator(3, n_threads=1) as unrecorded:
        assert_same_bits(run_exchange(unrecorded, connectivity), found)
    communicator.close()  # the counts of the last tasks come with it
    counters = communicator.counters
    computing = timeline.seconds("computing")
    sending, blocked = timeline.seconds("sending"), timeline.seconds("blocked")
    # packing counts as computing; handing over what was packed may, or may not
    assert (computing <= counters.seconds_computing + 1e-4).all()
    assert (computing + sending >= counters.seconds_computing - 1e-4).all()
    np.testing.assert_allclose(blocked, counters.seconds_blocked, atol=5e-3)
    names = {span.name for span in spans_of(timeline, "sending")}
    assert names == {"reduce", "expand"}
    nbytes = np.zeros(3)
    for span in spans_of(timeline, "sending"):
        nbytes[span.rank] += span.nbytes
    rounds = [counters.of(label)["bytes_sent"] for label in ("reduce", "expand")]
    np.testing.assert_array_equal(nbytes, sum(rounds))


def test_every_communicator_made_inside_is_recorded():
    with record_timelines() as timelines:
        for n_ranks in (2, 3):
            with LocalCommunicator(n_ranks) as communicator:
                barrier(communicator)
                communicator.map(slow_on_rank_1, communicator.values([0] * n_ranks))
    assert [timeline.n_ranks for timeline in timelines] == [2, 3]
    assert all(timeline.spans for timeline in timelines)
    with LocalCommunicator(2) as communicator:
        assert communicator.timeline is None


@st.composite
def timelines(draw):
    n_ranks = draw(st.integers(1, 4))
    timeline = Timeline(n_ranks)
    for rank in range(n_ranks):
        clock = draw(st.floats(0, 5))
        for _ in range(draw(st.integers(0, 5))):
            begin = clock + draw(st.floats(0, 2))
            clock = begin + draw(st.floats(0.001, 2))
            kind = draw(st.sampled_from([COMPUTING, SENDING, BLOCKED]))
            timeline.add(Span(rank, kind, draw(st.sampled_from("abc")), begin, clock, 8))
    return timeline


@given(timelines(), st.integers(1, 50))
def test_shares_add_up_to_the_seconds(timeline, n_columns):
    shares = timeline.shares(n_columns)
    assert shares.shape == (timeline.n_ranks, 3, n_columns)
    assert (shares > -1e-9).all() and (shares.sum(axis=1) < 1 + 1e-9).all()
    for place, kind in enumerate(KINDS):
        found = shares[:, place].sum(axis=1) * timeline.duration / n_columns
        np.testing.assert_allclose(found, timeline.seconds(kind), atol=1e-6)


@given(timelines(), st.floats(0, 6), st.floats(0, 6))
def test_a_part_of_a_timeline(timeline, begin, length):
    part = timeline.between(begin, begin + length)
    assert part.duration <= length + 1e-9
    whole = sum(timeline.seconds(kind).sum() for kind in KINDS)
    pieces = [timeline.between(0, begin), timeline.between(begin, begin + 1e6)]
    parts = sum(piece.seconds(kind).sum() for piece in pieces for kind in KINDS)
    assert parts == pytest.approx(whole, abs=1e-6)


def small():
    timeline = Timeline(2)
    timeline.add(Span(0, COMPUTING, "multiply", 100.0, 103.0))
    timeline.add(Span(0, BLOCKED, "expand", 103.0, 104.0))
    timeline.add(Span(1, SENDING, "<expand>", 100.0, 102.0, 640))
    return timeline


def test_a_part_begins_as_long_after_the_first_span():
    assert small().between(1, 2).spans == [
        Span(0, COMPUTING, "multiply", 101.0, 102.0),
        Span(1, SENDING, "<expand>", 101.0, 102.0, 640),
    ]


def test_spans_of_one_name_add_up_and_those_at_once_share_their_time():
    timeline = Timeline(1)
    for name, begin, end in (("f", 0, 2), ("g", 0, 3), ("f", 2, 4)):
        timeline.add(Span(0, COMPUTING, name, begin, end))
    timeline.add(Span(0, BLOCKED, "g", 0, 3))
    assert list(timeline.by_name().items()) == [
        (("computing", "f"), 4), (("computing", "g"), 3), (("blocked", "g"), 3),
    ]  # fmt: skip
    np.testing.assert_allclose(timeline.shares(4)[0].sum(axis=0), 1)


def test_the_clock_shows_the_time_of_day():
    assert abs(now() - time.time()) < 60


def test_it_prints():
    timeline = small()
    text = repr(timeline)
    assert text.startswith("Timeline: 2 ranks, 4 s; all ranks together computing 3 s, sending 2 s")
    first, second = text.splitlines()[1:3]
    assert first == "  rank 0  " + "█" * 48 + "·" * 16
    assert second == "  rank 1  " + "▒" * 32
    many = Timeline(100)
    many.add(Span(99, COMPUTING, "f", 0.0, 1.0))
    assert "84 more ranks" in repr(many)
    assert repr(Timeline(1)).startswith("Timeline: 1 rank, 0 s")
    assert next(iter(timeline.by_name().items())) == (("computing", "multiply"), 3.0)
    assert timeline.to_dict()["seconds_sending"] == [0.0, 2.0]
    with pytest.raises(InputError, match="use one of 'computing', 'sending', 'blocked'"):
        timeline.seconds("idle")


def test_saved_and_loaded(tmp_path):
    timeline = small()
    timeline.save(tmp_path / "run.npz")
    assert Timeline.load(tmp_path / "run.npz").spans == timeline.spans
    Timeline(3).save(tmp_path / "empty.npz")
    assert Timeline.load(tmp_path / "empty.npz").n_ranks == 3
    (tmp_path / "other.npz").write_bytes(b"no")
    with pytest.raises(ReadError, match=r"other.npz cannot be read"):
        Timeline.load(tmp_path / "other.npz")


def test_tasks_of_many_processes():
    """Names, messages and what is left of a wait; a task that ran twice counts once."""
    measures, timeline = Measures(Counters(2)), Timeline(2)
    measures.expect(4, "expand", 0, np.array([0]), np.array([1]))
    for _ in range(2):
        computing, message = Note(10.0, 11.0, "multiply"), Note(12.0, 12.5, rows=2, nbytes=16)
        measures.add({(3, 0): computing, (4, 0, 1): message}, timeline)
    measures.add_wait(9.0, 13.0, timeline)
    assert timeline.spans == [
        Span(0, COMPUTING, "multiply", 10.0, 11.0),
        Span(0, SENDING, "expand", 12.0, 12.5, 16),
        Span(0, BLOCKED, "waiting", 9.0, 10.0),
        Span(0, BLOCKED, "waiting", 11.0, 12.0),
        Span(0, BLOCKED, "waiting", 12.5, 13.0),
        Span(1, BLOCKED, "waiting", 9.0, 13.0),
    ]


def test_names_of_functions():
    from functools import partial

    assert name_of(partial(partial(slow_on_rank_1), rank=1)) == "slow_on_rank_1"
    assert name_of(lambda: None) == "lambda"
