"""Reports: derived values from the definitions, words for people, JSON for machines."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskpart.models.base.reports import CommunicationReport
from daskpart.models.matrix_factorization.plan_report import MFPlanReport


def plan(**changes) -> MFPlanReport:
    return MFPlanReport(
        **{
            "n_ranks": 8,
            "unit": "epoch",
            "memory": {"ratings": np.full(8, 5_000_000), "factors": np.arange(8)},
            "eta": 4,
            "axis": "rows",
            "partitioner": "power",
            "lambda_histogram": np.array([1, 500, 20, 0, 3, 0, 0, 2]),
            "volume": 12_345,
            "staleness": 6,
            "messages": 210,
            "messages_max_rank": 40,
            "imbalance": 0.0123,
            "cell_imbalance": 0.15,
            "row_words": 33,
            "seconds": 1.5,
            **changes,
        }
    )


def communication(**changes) -> CommunicationReport:
    return CommunicationReport(
        **{
            "unit": "epoch",
            "how": "rows by 'power', η = 2,",
            "transport": "local",
            "n_ranks": 2,
            "n_steps": 3,
            "measured_messages": [2.0, 2.0],
            "expected_messages": [2, 2],
            "measured_rows": [600.0, 400.0],
            "expected_rows": [600, 400],
            "measured_bytes": 40_000.0,
            "expected_bytes": 40_000,
            "measured_counts": {"staleness": 0.0},
            "expected_counts": {"staleness": 0},
            "seconds_computing": [1.0, 2.0],
            "seconds_blocked": [1.0, 0.0],
            "traffic": [[0, 600], [400, 0]],
            "memory": [3_000_000, 2_000_000],
            "expected_memory": [3_100_000, 2_100_000],
            **changes,
        }
    )


@given(connectivity=st.lists(st.integers(0, 9), max_size=30))
def test_metrics_follow_from_the_histogram(connectivity):
    report = plan(lambda_histogram=np.bincount(connectivity, minlength=1))
    assert report.lambda_max == max(connectivity, default=0)
    assert report.sum_of_squares == sum(x * x for x in connectivity if x > 1)
    assert report.connectivity_minus_one == sum(x - 1 for x in connectivity if x)


def test_a_plan_prints_in_plain_words():
    text = repr(plan())
    assert text.startswith("Plan: rows over 8 ranks by 'power', synchronised 4 times an epoch\n")
    assert "12,345 rows an epoch = 1.6 MB (33 words a row)" in text
    assert "6 rows an epoch come from a stale copy (0 from η = 7 on)" in text
    assert "210 an epoch, at most 40 by a rank" in text
    assert "25; 500 stay on one rank" in text
    assert "1: 500 | 2: 20 | 3–4: 3 | 5–7: 2" in text
    assert "heaviest rank 1.2% above the mean, (rank, sub-epoch) cells 15.0%" in text
    assert "every update sees the newest row" in repr(plan(staleness=0))
    assert "synchronised once an epoch" in repr(plan(eta=1))
    assert "shared users" in repr(plan(axis="columns"))


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 5, 8, 512])
def test_the_histogram_line_counts_every_item_once(n_ranks):
    histogram = np.ones(n_ranks + 1, int)
    line = plan(lambda_histogram=histogram).rows()["connectivity λ"]
    assert sum(int(piece.split(": ")[1]) for piece in line.split(" | ")) == n_ranks
    assert len(line) < 120


def test_a_bin_of_one_connectivity_is_named_by_it():
    assert plan(lambda_histogram=[0, 1, 3, 116]).rows()["connectivity λ"] == "1: 1 | 2: 3 | 3: 116"


def test_communication_says_whether_it_went_as_planned():
    text = repr(communication())
    assert "2 ranks, 3 epochs over the 'local' transport" in text
    assert "1,000 measured, 1,000 planned" in text and "differs" not in text
    assert "40.0 kB" in text and "rank 0 → 1: 600 rows an epoch" in text
    assert "0.50 s a rank on average, 1.00 s at most, 25% of the time" in text
    assert "3.0 MB at most, 3.1 MB planned" in text
    assert communication().matches


@pytest.mark.parametrize(
    "change",
    [
        {"measured_rows": [400.0, 600.0]},
        {"measured_rows": [599.5, 400.0]},
        {"measured_bytes": 36_000.0},
        {"measured_counts": {"staleness": 1.0}},
        {"measured_messages": [2.0, 3.0]},
    ],
)
def test_one_difference_is_seen(change):
    report = communication(**change)
    assert not report.matches
    assert repr(report).count("← differs") == 1 and "NO" in repr(report)


def test_where_data_decide_nothing_was_planned():
    report = communication(
        expected_messages=[], expected_rows=[], expected_bytes=None, expected_counts={}
    )
    assert report.matches and "planned" not in repr(report).replace("MB planned", "")


def test_a_fit_with_nothing_left_to_train_is_no_difference():
    report = communication(n_steps=0, measured_rows=[0, 0], transport="no")
    assert report.matches and "no epoch was done" in repr(report)
    assert "transport" not in repr(report)


def test_one_rank_alone_sends_nothing():
    report = communication(
        n_ranks=1,
        measured_rows=[0],
        expected_rows=[0],
        measured_messages=[0],
        expected_messages=[0],
        measured_bytes=0.0,
        expected_bytes=0,
        seconds_computing=[0.0],
        seconds_blocked=[0.0],
        traffic=[[0]],
    )
    assert report.matches and "no rows travelled" in repr(report)


def test_memory_is_of_the_fullest_rank():
    report = plan()
    assert report.memory_of_ranks.tolist() == [5_000_000 + rank for rank in range(8)]
    assert "5.0 MB at most (rank 7: ratings 5.0 MB, factors 7 B)" in repr(report)
    uneven = plan(memory={"ratings": [5, 1, 1, 1, 1, 1, 1, 1], "factors": [0, 3, 3, 9, 0, 0, 0, 0]})
    assert "10 B at most (rank 3: ratings 1 B, factors 9 B)" in repr(uneven)


def test_the_most_messages_may_be_of_another_rank_than_the_most_rows():
    report = communication(
        measured_messages=[7, 2],
        expected_messages=[7, 2],
        measured_rows=[30, 40],
        expected_rows=[30, 40],
    )
    words = report.rows()["most of one rank"]
    assert words == "7 messages (rank 0), 40 rows (rank 1) an epoch"


@pytest.mark.parametrize("report", [plan(), communication()])
def test_json_round_trip_and_html(report):
    values = json.loads(json.dumps(report.to_dict()))
    again = type(report).from_dict(values)
    assert repr(again) == repr(report) and again.to_dict() == report.to_dict()
    assert report._repr_html_().startswith("<table>")
    strange = type(report).from_dict({**values, "partitioner": "<b>", "transport": "<b>"})
    assert "<b>" not in strange._repr_html_()


def test_derived_values_are_in_the_dict():
    assert plan().to_dict()["lambda_max"] == 7
    assert plan().to_dict()["bytes_per_epoch"] == 12_345 * 33 * 4
    assert communication().to_dict()["matches"] is True


def test_a_short_time_is_no_zero():
    found = communication(seconds_computing=[4e-4, 5e-4], seconds_blocked=[0.0, 4e-5]).rows()
    assert found["computing"] == "0.00045 s a rank on average, 0.0005 s at most"
    assert found["blocked"] == "2e-05 s a rank on average, 4e-05 s at most, 4% of the time"
    assert plan(seconds=0.0002).rows()["partitioning took"] == "0.0002 s"
