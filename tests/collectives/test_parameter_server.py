"""The parameter server in one process: what pulls see in each mode, replays, traffic, bad input."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import signal
import threading
import time
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from exchange_text import WordlessError, blas_threads, fail_without_words
from hypothesis import given, settings
from hypothesis import strategies as st
from server_programs import (
    N_ITEMS,
    N_TASKS,
    assert_never_too_stale,
    draws,
    fail_on,
    log_tasks,
    move_values,
    no_eights,
    no_sevens,
    numbered_tasks,
    push_seven,
    push_seven_and_go_on,
    replay,
    wait_long,
)

from daskpart.collectives import ParameterServer, ServerReport, proximal_step
from daskpart.collectives.server import endpoint as endpoint_file
from daskpart.collectives.server.shard import FINISHED, Shard
from daskpart.collectives.server.traffic import RankOutcome, RankTraffic
from daskpart.errors import InputError, ReadError


def local(n_items=N_ITEMS, **options):
    return ParameterServer(n_items, transport="local", **{"n_ranks": 3, **options})


# what pulls see


@given(
    n_ranks=st.integers(1, 6),
    width=st.sampled_from([None, 1, 3]),
    schedule=st.sampled_from([None, "in turn"]),
    seed=st.integers(0, 9),
)
@settings(deadline=None, max_examples=25)
def test_synchronous_gives_the_bits_of_a_serial_replay(n_ranks, width, schedule, seed):
    random = np.random.default_rng(seed)
    initial = random.standard_normal((N_ITEMS, *(() if width is None else (width,))))
    placement = random.integers(0, n_ranks, N_ITEMS)
    expected, values = replay(n_ranks, initial)
    with local(
        n_ranks=n_ranks, row_length=width, placement=placement, initial=initial, schedule=schedule
    ) as server:
        seen = server.run(move_values, range(n_ranks), width=width)
        assert seen == expected
        assert server.values().tobytes() == values.tobytes()
        assert server.mode == "synchronous"
        assert server.report.max_staleness == 0


@pytest.mark.parametrize("delay", [0, 1, 3])
def test_staleness_never_exceeds_the_delay(delay):
    with local(n_ranks=4, dtype=int, delay=delay) as server:
        seen = server.run(log_tasks, slow=2, seconds=0.004)
        worst = assert_never_too_stale(seen, delay)
        assert worst <= server.report.max_staleness <= delay
        assert (server.values()[:4] == 6).all()


def test_without_bound_nobody_waits():
    done = threading.Event()

    def program(endpoint):
        if endpoint.rank == 1:
            assert done.wait(30)  # the slowest of all ranks
        seen = log_tasks(endpoint, slow=None)
        done.set()
        return seen

    with local(n_ranks=2, dtype=int, delay=math.inf) as server:
        seen = server.run(program)
        assert server.mode == "asynchronous"
        assert [counts[1] for _, counts in seen[0]] == [0] * 6
        assert [counts[0] for _, counts in seen[1]] == [6] * 6
        assert server.report.counts["clocks"].sum() == 2  # the ends of the programs alone


def test_a_rank_waits_for_the_slowest():
    gate, passed = threading.Event(), []

    def program(endpoint):
        if endpoint.rank == 1:
            gate.wait(10)
        for _ in range(4):
            endpoint.advance()
            if endpoint.rank == 0:
                passed.append(endpoint.task)

    with local(n_ranks=2, delay=2) as server:
        run = threading.Thread(target=server.run, args=(program,))
        run.start()
        limit = time.monotonic() + 5
        while len(passed) < 2 and time.monotonic() < limit:
            time.sleep(0.005)
        time.sleep(0.1)
        assert passed == [1, 2]  # task 3 needs rank 1 to be done with task 0
        gate.set()
        run.join(10)
        assert passed == [1, 2, 3, 4]


@pytest.mark.parametrize("n_ranks", [1, 3, 4])
def test_tasks_numbered_through_run_one_after_another_without_delay(n_ranks):
    with local(1, n_ranks=n_ranks, dtype=int) as server:
        seen = server.run(numbered_tasks, n_tasks=11)
        assert {t: s for of_rank in seen for t, s in of_rank.items()} == {t: t for t in range(11)}


@pytest.mark.parametrize("delay", [1, 2, 5])
def test_tasks_numbered_through_miss_the_last_ones_at_most(delay):
    with local(1, n_ranks=4, dtype=int, delay=delay, schedule="stalest") as server:
        seen = server.run(numbered_tasks, n_tasks=20)
        missed = {t: t - s for of_rank in seen for t, s in of_rank.items()}
        assert 1 <= max(missed.values()) <= delay
        assert 1 <= server.report.max_staleness <= delay


@given(
    delay=st.sampled_from([0, 1, 2, 5, math.inf]),
    n_ranks=st.integers(1, 6),
    schedule=st.sampled_from([None, "in turn", "stalest"]),
    steps=st.lists(st.integers(1, 3), max_size=5),
)
@settings(deadline=None, max_examples=25)
def test_no_push_is_lost_whatever_the_mode(delay, n_ranks, schedule, steps):
    def program(endpoint):
        for task, step in enumerate(steps):
            ids = draws(endpoint.rank, task)[0]
            endpoint.pull(ids)
            endpoint.push(ids, ids + 1)
            endpoint.advance(to=endpoint.task + step)

    with local(n_ranks=n_ranks, dtype=int, delay=delay, schedule=schedule) as server:
        server.run(program)
        pushed = [draws(rank, task)[0] for rank in range(n_ranks) for task in range(len(steps))]
        ids = np.concatenate([*pushed, np.empty(0, np.int64)])
        assert (server.values() == np.bincount(ids, ids + 1, minlength=N_ITEMS)).all()
        assert server.report.rows.sum() == 2 * len(ids)
        assert server.report.max_staleness <= delay


def test_a_pull_fetches_ahead():
    def program(endpoint):
        ahead = endpoint.post_pull([0, 1], task=1)
        endpoint.push([endpoint.rank], [5])
        early = endpoint.pull([0, 1])
        with pytest.raises(InputError, match=r"waits for all pushes before task 1.*advance first"):
            endpoint.collect(ahead)
        endpoint.advance()
        found = endpoint.collect(ahead)
        with pytest.raises(InputError, match="collected already"):
            endpoint.collect(ahead)
        with pytest.raises(InputError, match="task is 0: it must be at least 1"):
            endpoint.post_pull([0], task=0)
        return early.tolist(), found.tolist()

    with local(2, n_ranks=2, dtype=int) as server:
        assert server.run(program) == [([0, 0], [5, 5])] * 2


# schedules


@pytest.mark.parametrize("delay", [1, 3])
def test_stalest_is_as_stale_as_the_delay_allows(delay):
    with local(n_ranks=3, dtype=int, delay=delay, schedule="stalest") as server:
        seen = server.run(log_tasks)
        assert assert_never_too_stale(seen, delay) == server.report.max_staleness == delay


@given(delay=st.sampled_from([1, 2, math.inf]), n_ranks=st.integers(1, 5))
@settings(deadline=None, max_examples=15)
def test_a_schedule_makes_a_run_again(delay, n_ranks):
    with local(n_ranks=n_ranks, delay=delay) as server:
        seen = server.run(move_values, range(n_ranks))
        values, schedule = server.values(), server.schedule
    with local(n_ranks=n_ranks, delay=delay, schedule=schedule) as again:
        assert again.run(move_values, range(n_ranks)) == seen
        assert again.values().tobytes() == values.tobytes()
        assert (again.schedule == schedule).all()


def test_in_turn_is_always_the_same_order():
    runs = []
    for schedule in ("in turn", "in turn", []):
        with local(n_ranks=4, delay=2, schedule=schedule) as server:
            server.run(move_values, range(4))
            runs.append((server.schedule.tolist(), server.values().tolist()))
    assert runs[0] == runs[1] == runs[2]
    assert runs[0][0][:5] == [0, 1, 2, 3, 0]
    # of each task a pull, a push, its end and the start of the next; and the end of the program
    assert np.bincount(runs[0][0]).tolist() == [4 * N_TASKS + 1] * 4


def test_a_schedule_that_breaks_the_delay_is_refused():
    # rank 0: pull, push, end of task 0, start of 1: that must wait for rank 1
    with (
        local(n_ranks=2, schedule=[0, 0, 0, 0]) as server,
        pytest.raises(InputError, match=r"schedule\[3\] is rank 0.*breaks the delay"),
    ):
        server.run(log_tasks)
    with (
        local(n_ranks=2, delay=math.inf, schedule=[0] * 9) as server,
        pytest.raises(InputError, match=r"schedule\[1\] is rank 0, whose program has ended"),
    ):
        server.run(log_tasks, n_tasks=0)
    with pytest.raises(InputError, match=r"schedule\[1\] is 7: ranks are 0 to 2"):
        local(schedule=[0, 7])


# traffic


def test_traffic_is_counted_by_rank_and_shard():
    placement = np.array([0, 0, 1, 1, 2, 2])

    def program(endpoint):
        endpoint.pull([0, 2, 3, 2])
        endpoint.push([4], [[1, 2]])
        endpoint.advance()
        endpoint.pull([])

    with local(6, row_length=2, dtype=np.float32, placement=placement) as server:
        server.run(program)
        report = server.report
        assert report.counts["pulls"].tolist() == [[1, 1, 0]] * 3
        assert report.counts["rows_pulled"].tolist() == [[1, 3, 0]] * 3
        assert report.counts["pushes"].tolist() == [[0, 0, 1]] * 3
        assert report.bytes.tolist() == [[12, 36, 12]] * 3  # 4 an id and 8 a row
        assert report.counts["clocks"].tolist() == [[0, 2, 2], [2, 0, 2], [2, 2, 0]]
        found = report.to_dict()
        assert found["rows, local"] == 1 + 3 + 1
        assert found["rows, remote"] == 15 - 5
        assert found["messages, remote"] == 15 - 2 - 2 - 1
        assert found["remote rows of the busiest shard"] == 6
        assert found["share of rows that is remote"] == 10 / 15
        assert found["clock messages, remote"] == 12 and found["clock bytes, remote"] == 8 * 12
        assert "rows, remote" in repr(report) and "rows, remote" in report._repr_html_()
        assert (report.traffic() == report.rows).all()
        assert (report.traffic("pulls") == report.counts["pulls"]).all()
        with pytest.raises(InputError, match="quantity is 'parcels': use one of 'messages'"):
            report.traffic("parcels")
        assert report.staleness == {0: 6}  # an empty pull asks no shard
        server.run(program)
        assert server.report.rows.sum() == 30 and server.report.runs == 2
        assert report.staleness == {0: 12}
        server.reset_report()
        assert server.report.rows.sum() == 0


def test_a_report_adds_up_runs():
    report = ServerReport(["here", "here", "there"])
    assert report.to_dict()["share of rows that is remote"] == report.mean_staleness == 0
    for staleness in ({3: 1}, {1: 2, 0: 1}):
        outcomes = []
        for rank in range(3):
            traffic = RankTraffic(3)
            for shard in range(3):
                traffic.count(shard, pulls=1, pushes=rank, rows_pulled=[1, 3, 5][shard], bytes=8)
            traffic.seconds_blocked = rank
            outcomes.append(RankOutcome(None, traffic, Counter(staleness if rank == 1 else {0: 1})))
        report.add_run(outcomes)
    assert report.is_local.tolist() == [[True, True, False]] * 2 + [[False, False, True]]
    assert list(report.staleness.items()) == [(0, 5), (1, 2), (3, 1)]
    assert report.seconds_blocked.tolist() == [0, 2, 4]
    found = report.to_dict()
    assert (found["staleness, mean"], found["staleness, maximum"]) == (5 / 8, 3)
    assert found["seconds blocked, mean"] == 2
    assert found["remote rows of the busiest rank"] == 2 * 5
    assert found["remote rows of the busiest shard"] == 2 * (5 + 5)
    assert found["messages, remote"] == 2 * (2 + 3 + 2 * 4)


def test_each_wait_for_rows_or_for_a_task_counts_as_blocked(monkeypatch):
    monkeypatch.setattr(endpoint_file, "perf_counter", itertools.count().__next__)

    def program(endpoint):
        endpoint.pull([0])
        endpoint.push([0], [1])
        endpoint.advance()
        endpoint.collect(endpoint.post_pull([0]))

    with local(n_ranks=1) as server:
        for n_runs in (1, 2):
            server.run(program)
            assert server.report.seconds_blocked.tolist() == [3 * n_runs]


def test_every_id_where_it_is_placed():
    random = np.random.default_rng(0)
    for placement in ("hashed", random.integers(0, 5, 400)):
        with local(400, n_ranks=5, placement=placement, initial=np.arange(400.0)) as server:
            assert server.placement.max() < 5
            server.run(lambda endpoint: endpoint.pull(np.flatnonzero(server.placement == 3)))
            assert (server.report.rows.sum(axis=0)[[0, 1, 2, 4]] == 0).all()
            for rank, ids in enumerate(server.run(lambda endpoint: endpoint.own_ids)):
                assert ids.tolist() == np.flatnonzero(server.placement == rank).tolist()
            assert (server.values() == np.arange(400)).all()
    with local(100_000, n_ranks=7) as server:
        shares = np.bincount(server.placement, minlength=7) / 100_000
        assert np.abs(shares - 1 / 7).max() < 0.005


# life


def test_values_are_kept_over_runs_and_in_files(tmp_path):
    with local(5, row_length=2, initial=np.arange(10).reshape(5, 2), dtype=np.float32) as server:
        server.run(lambda endpoint: endpoint.push([endpoint.rank], [[1, 1]]))
        server.run(lambda endpoint: endpoint.push([endpoint.rank], [[1, 1]]))
        values = server.values()
        assert values.tolist() == [[2, 3], [4, 5], [6, 7], [6, 7], [8, 9]]
        server.save(tmp_path / "rows.npz")
        server.set_values(0)
        assert (server.values() == 0).all()
    loaded = ParameterServer.load(tmp_path / "rows.npz", transport="local", n_ranks=3)
    assert loaded.values().tobytes() == values.tobytes() and loaded.values().dtype == np.float32
    assert (loaded.placement == server.placement).all()
    assert ParameterServer.load(tmp_path / "rows.npz", transport="local").n_ranks == 3
    other = ParameterServer.load(
        tmp_path / "rows.npz", transport="local", n_ranks=2, placement="hashed"
    )
    assert (other.values() == values).all() and other.n_ranks == 2
    assert "5 rows of 2 × float32 on 2 shards" in repr(other)
    parts = SimpleNamespace(n_parts=4, assignment=np.arange(5) % 4)
    moved = ParameterServer.load(tmp_path / "rows.npz", transport="local", placement=parts)
    assert moved.n_ranks == 4 and (moved.values() == values).all()
    with local(2, placement=[1, 0]) as small:
        small.save(tmp_path / "few.npz")
    assert ParameterServer.load(tmp_path / "few.npz", transport="local").n_ranks == 3
    with pytest.raises(ReadError, match=r"no_rows\.npz cannot be read"):
        ParameterServer.load(tmp_path / "no_rows.npz", transport="local")
    server.close()
    with pytest.raises(InputError, match="closed"):
        server.values()


@pytest.mark.parametrize("delay", [0, 1, math.inf])
@pytest.mark.parametrize("schedule", [None, "in turn"])
def test_a_failing_rank_leaves_the_rows_as_they_were(delay, schedule):
    with local(dtype=int, initial=3, delay=delay, schedule=schedule) as server:
        with pytest.raises(ArithmeticError, match="went to infinity") as caught:
            server.run(fail_on, culprit=1)
        assert "on rank 1" in caught.value.__notes__
        assert (server.values() == 3).all()
        server.run(log_tasks)
        assert (server.values()[:3] == 9).all()
    assert not [t for t in threading.enumerate() if t.name.startswith("server rank")]


@pytest.mark.parametrize("delay", [0, 1])
@pytest.mark.parametrize("schedule", [None, "in turn"])
@pytest.mark.parametrize("program", [push_seven, push_seven_and_go_on])
def test_a_failing_rule(delay, schedule, program):
    with local(dtype=int, update=no_sevens, delay=delay, schedule=schedule) as server:
        with pytest.raises(ArithmeticError, match="seven") as caught:
            server.run(program, pusher=2)
        # without delay a rule is applied when the last rank comes to the end of the task
        assert caught.value.__notes__ in (
            [f"on rank {r}"] for r in (range(3) if delay == 0 else [2])
        )
        assert (server.values() == 0).all()


def push_and_fail_without_words(endpoint, value):
    endpoint.push([0], [value])
    endpoint.advance()
    fail_without_words(value)
    endpoint.advance()


def test_a_shard_passes_over_what_comes_late():
    """Of a run that failed, or is over: on a cluster it may be on its way still."""
    with local(1, dtype=int, n_ranks=2, delay=math.inf) as server:
        shard = Shard(np.array([4]), server._spec)
    slots = np.array([0], np.int32)

    def seen_after(kind, run, *rest):
        pulled = []
        shard.take(run, 1, pulled.append, kind, *rest)
        shard.take(run, 0, pulled.append, "pull", 0, 0, slots)
        return shard.values.tolist(), [rows.tolist() for rows in pulled]

    push = 0, slots, np.array([1])
    assert seen_after("push", 1, *push) == ([5], [[5]])
    shard.undo(1)
    assert seen_after("push", 1, *push) == ([4], [])
    assert seen_after("push", 2, *push) == ([5], [[5]])
    assert seen_after("push", 3, *push) == ([6], [[6]])
    assert seen_after("push", 2, *push) == ([6], [])
    assert not shard.settled
    shard.take(3, 1, None, "clock", FINISHED)
    assert not shard.settled
    shard.take(3, 0, None, "clock", FINISHED)
    assert shard.settled
    shard.undo(4)  # its ranks failed before this shard heard of it
    assert seen_after("push", 4, *push) == ([6], [])
    shard.undo(5)
    assert shard.values.tolist() == [6]
    given = np.array([8])
    shard.set_values(given)
    assert seen_after("push", 6, *push) == ([9], [[9]])
    assert given.tolist() == [8]  # on a cluster others may hold it


def test_a_shard_is_settled_once_all_rules_were_applied():
    """Its rank looks at it without the lock, and ends then."""

    def look(current, pushed):
        seen.append(shard.settled)
        return pushed

    with local(1, n_ranks=1, update=look) as server:
        shard, seen = Shard(np.zeros(1), server._spec), []
    shard.take(1, 0, None, "push", 0, np.array([0], np.int32), np.ones(1))
    shard.take(1, 0, None, "clock", FINISHED)
    assert seen == [False] and shard.settled


def test_a_shard_takes_nothing_more_of_a_run_whose_rule_failed():
    with local(1, dtype=int, n_ranks=1, delay=1, update=no_sevens) as server:
        shard = Shard(np.array([4]), server._spec)
    slots = np.array([0], np.int32)
    with pytest.raises(ArithmeticError):
        shard.take(1, 0, None, "push", 0, slots, np.array([7]))
    shard.take(1, 0, None, "push", 0, slots, np.array([1]))
    shard.take(1, 0, None, "clock", FINISHED)
    assert shard.values.tolist() == [4] and not shard.settled


def messages_to_a_shard(random, n_ranks, n_slots):
    """(rank, kind, clock, rest): of each rank in order, of all in any order."""
    of_ranks = []
    for rank in range(n_ranks):
        clock, own = 0, []
        for kind in random.choice(["pull", "push", "clock"], 8):
            slots = random.permutation(n_slots)[: random.integers(0, n_slots + 1)].astype(np.int32)
            clock += random.integers(1, 3) if kind == "clock" else 0
            rest = {
                "pull": (clock + random.integers(0, 3), slots),
                "push": (slots, random.normal(0, 9, len(slots))),
                "clock": (),
            }
            own.append((rank, kind, clock, rest[kind]))
        of_ranks.append([*own, (rank, "clock", FINISHED, ())])
    turns = random.permutation(np.repeat(np.arange(n_ranks), 9))
    return [of_ranks[rank].pop(0) for rank in turns]


def rows_after(initial, pushes, update):
    """Serially, by their definitions: of the pushes (task, slots, rows) the last one stands, or
    those of a task make a proximal step of 1/2 with an l1 of 2."""
    values = initial.copy()
    if update == "assign":
        for _, slots, rows in pushes:
            values[slots] = rows
        return values
    for _, of_task in itertools.groupby(pushes, key=lambda push: push[0]):
        gradient, touched = np.zeros(len(values)), np.zeros(len(values), bool)
        for _, slots, rows in of_task:
            gradient[slots] += rows
            touched[slots] = True
        moved = values - gradient / 2
        values[touched] = (np.sign(moved) * np.maximum(np.abs(moved) - 1, 0))[touched]
    return values


@pytest.mark.parametrize(
    ("update", "delay"),
    [("assign", 0), ("assign", 1), ("assign", 2), ("assign", math.inf), ("proximal", 0)],
)
@given(n_ranks=st.integers(1, 4), seed=st.integers(0, 999))
@settings(deadline=None, max_examples=20)
def test_a_shard_is_its_definition_in_any_order_of_messages(update, delay, n_ranks, seed):
    """With a delay of 0 pushes stand in order of task and rank, whichever came first."""
    initial = np.arange(4.0)
    rule = proximal_step(0.5, 2.0) if update == "proximal" else update
    with local(4, n_ranks=n_ranks, delay=delay, update=rule) as server:
        shard = Shard(initial, server._spec)
    messages = messages_to_a_shard(np.random.default_rng(seed), n_ranks, len(initial))
    clocks, pushes, waiting, staleness = [0] * n_ranks, [], [], Counter()
    answers, expected = {}, {}
    for number, (rank, kind, clock, rest) in enumerate(messages):
        reply = lambda rows, number=number: answers.setdefault(number, rows.tolist())  # noqa: E731
        shard.take(1, rank, reply, kind, clock, *rest)
        clocks[rank] = clock
        if kind == "push":
            pushes.append((clock, rank, *rest))
        if kind == "pull":
            waiting.append((number, *rest))
        oldest, applied = min(clocks), pushes
        if delay == 0:
            applied = sorted((p for p in pushes if p[0] < oldest), key=lambda push: push[:2])
        values = rows_after(initial, [(task, *rows) for task, _, *rows in applied], update)
        for pull, task, slots in [w for w in waiting if oldest >= w[1] - delay]:
            expected[pull] = values[slots].tolist()
            staleness[max(0, task - oldest)] += len(slots) > 0
        waiting = [w for w in waiting if w[0] not in expected]
        assert answers == expected
        assert shard.values.tolist() == values.tolist()
        assert shard.settled == (oldest == FINISHED)
    assert shard.staleness == +staleness


def test_an_error_that_cannot_say_what_it_is():
    with local(dtype=int, timeout=5.0) as server:
        with pytest.raises(WordlessError) as caught:
            server.run(push_and_fail_without_words, [0, 1, 2])
        assert "on rank 1" in caught.value.__notes__


def test_ctrl_c():
    with local(dtype=int) as server:
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            server.run(wait_long, seconds=0.3)
        timer.join()
        assert len(server.schedule) < 90  # of 183 calls: nobody went on to the end
        assert (server.values() == 0).all()
    assert not [t for t in threading.enumerate() if t.name.startswith("server rank")]


@pytest.mark.parametrize("delay", [0, 1, math.inf])
def test_a_rule_that_exits_ends_the_run_though_the_program_goes_on(delay):
    def push(endpoint):
        with contextlib.suppress(SystemExit):
            endpoint.push([0], [8])

    with local(dtype=int, update=no_eights, delay=delay) as server:
        with pytest.raises(SystemExit):
            server.run(push)
        assert (server.values() == 0).all()


def test_programs_have_one_blas_thread():
    with local() as server:
        assert server.run(lambda endpoint: blas_threads(endpoint.rank)) == [1] * 3


def test_a_program_that_exits():
    def leave(endpoint):
        raise SystemExit(3)

    with local() as server, pytest.raises(SystemExit):
        server.run(leave)


def test_a_timeout_ends_every_wait():
    begin = time.monotonic()
    with (
        local(n_ranks=2, timeout=0.1) as server,
        pytest.raises(TimeoutError, match=r"Rank 0 waited 0.1 s"),
    ):
        server.run(wait_long, seconds=0.5)
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize(
    "options", [{"dtype": int}, {"dtype": bool, "update": "or"}, {"row_length": 2}]
)
def test_an_empty_push_changes_nothing(options):
    def push_nothing(endpoint):
        endpoint.push([], [])
        endpoint.advance()
        return endpoint.pull([]).shape

    with local(N_ITEMS, **options) as server:
        width = () if "row_length" not in options else (2,)
        assert server.run(push_nothing) == [(0, *width)] * 3
        assert not server.values().any()
