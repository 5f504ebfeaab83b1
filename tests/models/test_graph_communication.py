"""Rows that are read against all rows: the same weights bit by bit, every row counted."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import daskpart
from daskpart.errors import InputError
from daskpart.models.graph_convolution.communication import forecast, product_plan
from daskpart.partitions import Partition

N = 60
EDGES = scipy.sparse.random_array((N, N), density=0.06, rng=np.random.default_rng(1)).tocsr()


def fitted(communication: str, n_ranks: int, graph=EDGES, **more) -> daskpart.GCNClassifier:
    random = np.random.default_rng(0)
    X, y = random.normal(size=(N, 7)), random.integers(0, 3, N)
    model = daskpart.GCNClassifier(
        5, communication=communication, n_ranks=n_ranks, transport="local", max_iter=3,
        partitioner="block", first_product="each", **more,
    )  # fmt: skip
    return model.fit(X, y, graph=graph)


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("layer", ["gcn", "sage"])
def test_a_broadcast_gives_the_same_bits_and_sends_all_rows(n_ranks: int, layer: str) -> None:
    expand, broadcast = (fitted(way, n_ranks, layer=layer) for way in ("expand", "broadcast"))
    for name, weight in expand.coefs_.items():
        np.testing.assert_array_equal(weight, broadcast.coefs_[name])
    report = broadcast.plan_report_
    assert report.communication == "broadcast"
    assert report.rows_of_product == report.rows_of_transposed == N * (n_ranks - 1)
    assert report.volume >= expand.plan_report_.volume
    # what was counted while it ran
    assert (broadcast.history_["volume"] == report.volume).all()
    assert (expand.history_["volume"] == expand.plan_report_.volume).all()


def test_the_quicker_way_is_taken_and_both_forecasts_are_told() -> None:
    report = fitted("auto", 4).plan_report_
    assert report.communication == "expand"
    assert 0 < report.forecasts["expand"] < report.forecasts["broadcast"]
    assert "broadcast" in repr(report)
    assert set(report.to_dict()["forecasts"]) == {"expand", "broadcast"}


@pytest.mark.parametrize("n_ranks", [1, 2, 5])
def test_the_forecast_is_that_of_the_plan(n_ranks: int) -> None:
    """A broadcast is forecast in closed form, without its plan."""
    pattern = (EDGES + scipy.sparse.eye_array(N)).tocsr()
    partition = Partition(np.arange(N) * n_ranks // N, n_ranks)
    plan = product_plan(pattern, partition, "broadcast")
    n_own = np.bincount(partition.assignment, minlength=n_ranks)
    expand = product_plan(pattern, partition, "expand")
    found = forecast([(expand, [3, 5])], n_own, 4, 1e-4, 1e-9)
    for name, each in {"expand": expand, "broadcast": plan}.items():
        wanted = sum(each.predicted_seconds(1e-4, 1e-9, 4 * width) for width in (3, 5))
        assert found[name] == pytest.approx(wanted)


def test_another_word_is_refused() -> None:
    with pytest.raises((InputError, ValueError), match="communication"):
        fitted("gossip", 2)
