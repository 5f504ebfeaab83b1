"""Counters, and the measures of many processes that fill them exactly once."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest
import sparse

from daskpart.collectives import (
    Counters,
    GraphCommunicator,
    LocalCommunicator,
    RoundRecord,
)
from daskpart.collectives.counters import summary, value_bytes
from daskpart.collectives.transports.measures import Measures, Note
from daskpart.collectives.transports.threads import ThreadsCommunicator
from daskpart.errors import InputError


def filled():
    counters = Counters(3)
    counters.record_round("reduce", 0, np.array([1, 2]), np.array([0, 0]), [4, 5], [40, 50])
    counters.record_round("expand", 0, np.array([0]), np.array([2]), [7], [70])
    return counters


def test_a_round_that_comes_again_counts_again():
    record = RoundRecord("expand", 1, [0, 2], [1, 1], [3, 4], [30, 40])
    one, other = Counters(3), Counters(3)
    for _ in range(4):
        one.record(record)
        other.record_round("expand", 1, [0, 2], [1, 1], [3, 4], [30, 40])
    assert one.to_dict() == other.to_dict()
    assert one.traffic(quantity="rows").tolist() == [[0, 12, 0], [0, 0, 0], [0, 16, 0]]
    assert [r.totals(3)["rows_received"].tolist() for r in one.rounds] == [[0, 7, 0]] * 4
    one.record(record)  # what was looked at before counts once
    assert one.rows_received.tolist() == [0, 35, 0]


def test_equal_rounds_of_other_names_are_apart():
    counters, names = Counters(2), [("expand", 0), ("reduce", 0), ("expand", 1), ("expand", 0)]
    for label, index in names:
        counters.record_round(label, index, [0], [1], [3], [30])
    assert [(record.label, record.index) for record in counters.rounds] == names
    counters.of("expand")["rows_sent"][:] = 0  # the caller's own
    assert counters.of("expand")["rows_sent"].tolist() == [9, 0]


def test_amounts_that_are_no_whole_numbers_and_many_ranks():
    record = RoundRecord("expand", 0, [0, 19], [1, 1], [0.5, 1.75], 8)
    assert record.totals(20)["rows_received"].tolist() == [0, 2.25, *[0] * 18]
    assert summary(np.array([1, 2, 6])) == {"total": 9, "mean": 3.0, "max": 6}
    counters = Counters(20)
    counters.record_round("expand", 0, [0, 19], [1, 1], [2, 3], [8, 8])
    assert repr(counters).splitlines()[-1].split()[:4] == ["all", "2", "2", "5"]  # not of 16 ranks


def test_totals_labels_and_traffic():
    counters = filled()
    assert counters.messages_sent.tolist() == [1, 1, 1]
    assert counters.messages_received.tolist() == [2, 0, 1]
    assert counters.rows_sent.tolist() == [7, 4, 5]
    assert counters.bytes_received.tolist() == [90, 0, 70]
    assert counters.labels == ["reduce", "expand"]
    assert counters.of("reduce")["bytes_sent"].tolist() == [0, 40, 50]
    assert counters.of("reduce")["rows_received"].tolist() == [9, 0, 0]
    assert counters.of("nothing")["rows_sent"].tolist() == [0, 0, 0]
    assert counters.traffic().tolist() == [[0, 0, 7], [4, 0, 0], [5, 0, 0]]
    assert counters.traffic("expand").tolist() == [[0, 0, 7], [0, 0, 0], [0, 0, 0]]
    assert counters.traffic("nothing").sum() == 0
    assert counters.traffic(quantity="bytes").tolist() == [[0, 0, 70], [40, 0, 0], [50, 0, 0]]
    assert counters.traffic("reduce", "messages").tolist() == [[0, 0, 0], [1, 0, 0], [1, 0, 0]]
    with pytest.raises(InputError, match="use one of 'messages', 'rows', 'bytes'"):
        counters.traffic(quantity="words")
    record = counters.rounds[0]
    assert (record.label, record.index) == ("reduce", 0)
    assert record.totals(3)["messages_received"].tolist() == [2, 0, 0]


def test_printing_and_reset():
    counters = filled()
    text = repr(counters)
    assert "3 ranks, 2 rounds" in text and "bytes sent" in text
    assert text.splitlines()[-1].split()[:7] == ["all", "3", "3", "16", "16", "160", "160"]
    page = ElementTree.fromstring(f"<div>{counters._repr_html_()}</div>")
    totals, pairs = page.iter("table")
    assert len(totals.findall("tr")) == 5
    cells = [[cell.text for cell in line.findall("td")] for line in pairs.findall("tr")[1:]]
    assert cells == [["0", "0", "0", "70"], ["1", "40", "0", "0"], ["2", "50", "0", "0"]]
    assert counters.to_dict()["rows_sent"] == [7, 4, 5]
    counters.seconds_computing += 1
    counters.seconds_blocked += 2
    counters.reset()
    assert counters.to_dict()["rows_sent"] == [0, 0, 0]
    assert counters.to_dict()["seconds_computing"] == counters.to_dict()["seconds_blocked"]
    assert counters.seconds_blocked.tolist() == [0, 0, 0]
    assert counters.rounds == [] and counters.labels == []


def test_measures_arrive_in_pieces_and_twice():
    measures = Measures(Counters(3))
    measures.expect(4, "reduce", 0, np.array([1, 2]), np.array([0, 0]))
    measures.expect_star(5, "allreduce")
    one, star = Note(rows=4, nbytes=40), Note(nbytes=8)
    other, computing = Note(10.5, 10.75, rows=5, nbytes=50), Note(10.0, 10.5, "multiply")
    measures.add({(4, 1, 0): one, (3, 1): computing})
    assert measures.counters.rounds == []
    measures.add({(4, 2, 0): other, (3, 1): computing, (4, 1, 0): one})
    measures.add({(4, 2, 0): other, (4, 1, 0): one})
    assert measures.counters.bytes_sent.tolist() == [0, 40, 50]
    assert measures.counters.seconds_computing.tolist() == [0.0, 0.5, 0.25]
    measures.add_wait(10.0, 12.0)
    measures.add_wait(12.0, 13.0)
    assert measures.counters.seconds_blocked.tolist() == [3.0, 2.5, 2.75]
    measures.add({(5, 1, 0): star, (5, 2, 0): star, (6, 0, 1): star, (6, 0, 2): star})
    assert measures.counters.messages_sent.tolist() == [2, 2, 2]
    assert measures.counters.labels == ["reduce", "allreduce"]


def test_a_round_without_messages():
    counters = filled()
    counters.record(RoundRecord("expand", 1, np.array([]), np.array([]), np.array([]), 0))
    assert counters.rows_sent.tolist() == [7, 4, 5] and counters.rows_sent.dtype == np.int64
    assert counters.traffic().tolist() == [[0, 0, 7], [4, 0, 0], [5, 0, 0]]
    assert "3 ranks, 3 rounds" in repr(counters)


def test_bytes_of_a_tuple_are_those_of_its_parts():
    """As of a fold whose function gives several results, of any lengths."""
    parts = np.zeros(3), np.zeros((2, 2), np.float32), 5
    assert value_bytes(parts) == 24 + 16 + 8
    assert value_bytes([parts, np.zeros(1)]) == 56


def test_a_fold_takes_what_numpy_refuses_to_make_dense():
    given = [sparse.COO([[rank]], [1.0], shape=(4,)) for rank in range(3)]
    for Transport in (LocalCommunicator, ThreadsCommunicator, GraphCommunicator):
        with Transport(3) as communicator:
            total = communicator.fold(communicator.values(given), sum).result()
            assert total.todense().tolist() == [1, 1, 1, 0]
            sent = [given[0].nbytes, total.nbytes]  # of each rank but 0, and back
            assert communicator.counters.bytes_sent.tolist() == [2 * sent[1], sent[0], sent[0]]
