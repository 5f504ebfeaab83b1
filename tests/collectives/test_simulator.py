"""The simulator against a message-by-message clock, the plan's own model, and counted runs."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from connectivity_cases import embedded
from exchange_text import items_of_ranks, random_connectivity
from hypothesis import given
from hypothesis import strategies as st

from daskpart.collectives import (
    LocalCommunicator,
    concurrent_volume,
    expand_plan,
    hypercube_allreduce_plan,
    pack_rows,
    place_rows,
    reduce_plan,
    simulate,
)
from daskpart.errors import InputError

ALPHA, BETA, ROW_BYTES = 3.0, 0.25, 8


@st.composite
def plans(draw):
    connectivity = random_connectivity(12, draw(st.integers(1, 9)), draw(st.integers(0, 99)))
    expand = expand_plan(connectivity)
    aware = embedded(connectivity, payload_rows=draw(st.integers(0, 2)))
    naive = embedded(connectivity, aware=False)
    allreduce = hypercube_allreduce_plan(connectivity.n_parts)
    chosen = st.sampled_from([expand, expand.reversed(), aware, aware.reversed(), naive, allreduce])
    return draw(st.lists(chosen, min_size=1, max_size=4))


def clock_by_messages(given, alpha, beta):
    """When each rank is done, one message after another."""
    clock = [0.0] * given[0].n_ranks
    for plan in given:
        for entry in plan.rounds:
            sending, leaves = clock.copy(), clock.copy()
            receiving = clock.copy()
            for source, destination, rows in zip(
                entry.source.tolist(), entry.destination.tolist(), entry.lengths, strict=True
            ):
                cost = alpha + beta * ROW_BYTES * rows
                sending[source] += cost
                receiving[destination] += cost
                leaves[destination] = max(leaves[destination], sending[source])
            clock = [max(times) for times in zip(leaves, sending, receiving, strict=True)]
    return clock


@given(plans())
def test_clocks_and_counts(given_plans):
    found = simulate(given_plans, row_bytes=ROW_BYTES, alpha=ALPHA, beta=BETA)
    np.testing.assert_allclose(found.seconds_of_rank, clock_by_messages(given_plans, ALPHA, BETA))
    in_lock_step = sum(plan.predicted_seconds(ALPHA, BETA, ROW_BYTES) for plan in given_plans)
    assert found.seconds == pytest.approx(in_lock_step)
    assert found.seconds_of_rank.max() <= found.seconds * (1 + 1e-12)
    rounds = [entry for plan in given_plans for entry in plan.rounds]
    assert found.n_rounds == len(rounds) == len(found.labels)
    assert found.facts["concurrent_volume"] == sum(map(concurrent_volume, given_plans))
    summary = found.to_dict()
    assert summary["messages_sent"]["total"] == sum(p.total_messages for p in given_plans)
    assert summary["rows_received"]["total"] == sum(p.total_rows for p in given_plans)
    assert summary["bytes_sent"]["total"] == ROW_BYTES * summary["rows_sent"]["total"]
    assert [entry["rows"] for entry in summary["rounds"]] == [entry.n_rows for entry in rounds]
    assert sum(entry["seconds"] for entry in summary["rounds"]) == pytest.approx(found.seconds)
    assert json.loads(json.dumps(summary)) == summary


def test_a_run_counts_what_the_simulator_says():
    connectivity = random_connectivity(40, 7, seed=1)
    plan = reduce_plan(connectivity)
    with LocalCommunicator(7, n_threads=1) as communicator:
        items = communicator.values(items_of_ranks(connectivity))
        rows = communicator.map(_two_columns, items)
        prepared = communicator.prepare(plan, items)
        pending = communicator.post(prepared.rounds[0], rows, pack_rows)
        communicator.collect(pending, rows, place_rows)
        found = simulate(plan, row_bytes=16)
        for side in ("sent", "received"):
            measured = getattr(communicator.counters, f"bytes_{side}")
            np.testing.assert_array_equal(getattr(found, f"bytes_{side}"), measured)


def _two_columns(items):
    return np.ones((len(items), 2))


def test_ranks_do_not_wait_for_those_they_do_not_hear_from():
    """Rank 2 sends a long message to 3; 0 and 1 swap short ones twice and are done before."""
    sets = [{0, 1}, *[{2, 3}] * 50]
    shared = SimpleNamespace(
        pointer=np.cumsum([0, *map(len, sets)]),
        parts=np.array([part for touching in sets for part in sorted(touching)], dtype=np.int32),
        owners=np.array([0] + [2] * 50),
        n_parts=4,
    )
    plan = expand_plan(shared)
    found = simulate([plan, plan.reversed()], row_bytes=1, alpha=1.0, beta=1.0)
    assert found.seconds_of_rank.tolist() == [4.0, 4.0, 102.0, 102.0]
    assert found.seconds == 102.0
    assert found.labels == [("expand", 0), ("reduce", 0)]


def test_a_cp_iteration_on_4096_ranks():
    """Three modes, expand and reduce embedded: 72 messages a rank (Table 2), and it is quick."""
    random = np.random.default_rng(0)
    modes = []
    for _ in range(3):
        pairs = np.unique(random.integers(0, 5_000 * 4096, 20_000))
        item, part = np.divmod(pairs, 4096)
        pointer = np.searchsorted(item, np.arange(5_001))
        shared = SimpleNamespace(
            pointer=pointer, parts=part.astype(np.int32), owners=None, n_parts=4096
        )
        plan = embedded(shared, random.integers(0, 4096, 5_000), payload_rows=1)
        modes += [plan.reversed(), plan]
    found = simulate(modes, row_bytes=64)
    assert found.messages_sent.tolist() == [72] * 4096
    assert found.n_rounds == 72
    assert found.facts["forward_rows_max"] > 0
    direct = simulate([plan.carried for plan in modes], row_bytes=64, name="point to point")
    assert direct.facts["forward_rows_max"] == 0
    assert direct.to_dict()["rows_sent"]["total"] < found.to_dict()["rows_sent"]["total"]


def test_it_prints():
    plan = embedded(random_connectivity(20, 8, seed=0))
    found = simulate([plan, plan.reversed()] * 4, row_bytes=128, name="MovieLens")
    text = repr(found)
    assert text.startswith("Simulation of MovieLens: 8 ranks, 24 rounds")
    for line in ("messages sent", "bytes received", "expand 0", "reduce 2", "8 more"):
        assert line in text
    assert "concurrent volume" in text and "row bytes 128, " in text  # no 128.0
    assert found._repr_html_().count("<table>") == 2
    assert "MovieLens" in found._repr_html_()
    assert "&lt;b&gt;" in simulate(plan, row_bytes=1, name="<b>")._repr_html_()
    assert repr(simulate(plan, row_bytes=1)).startswith("Simulation of expand: 8 ranks")


def test_bad_input():
    four, five = (expand_plan(random_connectivity(5, n, seed=0)) for n in (4, 5))
    with pytest.raises(InputError, match=r"same ranks; got \[4, 5\]"):
        simulate([four, five], row_bytes=1)
    with pytest.raises(InputError, match="takes a Plan or several"):
        simulate([], row_bytes=1)
    with pytest.raises(InputError, match="takes a Plan or several"):
        simulate([four, "five"], row_bytes=1)
    with pytest.raises(InputError, match="plans is 4: give a Plan or several"):
        simulate(4, row_bytes=1)
    for name in ("row_bytes", "alpha", "beta"):
        costs = {"row_bytes": 1, "alpha": 1, "beta": 1, name: -1}
        with pytest.raises(InputError, match=f"{name} is -1: give a finite number of at least 0"):
            simulate(four, **costs)
    with pytest.raises(InputError, match="alpha is None"):
        simulate(four, row_bytes=1, alpha=None)
