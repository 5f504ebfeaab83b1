"""What a group of nonzeros weighs when a tensor is cut: its nonzeros, and the row of its slice."""

from __future__ import annotations

import numpy as np
import pytest
import sparse

import daskpart

R = 16
RANDOM = np.random.default_rng(5)
# half the nonzeros lie in a few full slices, half in slices of three
FULL = np.stack([RANDOM.integers(0, 20, 6000), RANDOM.integers(0, 60, 6000)])
THIN = np.stack([RANDOM.integers(20, 2000, 6000), RANDOM.integers(60, 120, 6000)])
PLACES = np.concatenate([FULL, THIN], axis=1)
TENSOR = sparse.COO(
    np.concatenate([PLACES, RANDOM.integers(0, 9, (1, 12_000))]), np.ones(12_000), (2000, 120, 9)
)


def planned(partitioner, method="p2p", n_ranks=4):
    return daskpart.CPDecomposition(
        R, n_ranks=n_ranks, method=method, partitioner=partitioner, transport="local"
    ).plan(TENSOR)


@pytest.mark.parametrize(
    ("partitioner", "method"), [("medium-grain", "p2p"), ("hypercube", "emb"), ({}, "emb")]
)
def test_rows_are_balanced_with_the_nonzeros(partitioner, method) -> None:
    named = {"model": "medium-grain", "method": "hypercube" if method == "emb" else "recursive"}
    of_paper, plan = planned(named, method), planned(partitioner, method)
    nonzeros = np.bincount(of_paper.parts, minlength=4)
    assert nonzeros.max() < 1.05 * nonzeros.mean()  # as it asks for, so rows fall as they do
    assert of_paper.report().imbalance > 0.2
    assert plan.report().imbalance < 0.1


def test_the_report_counts_rows_as_r_nonzeros() -> None:
    plan = planned("random")
    report = plan.report()
    owned = [sum(len(n.first_group(rank)) for n in plan.numberings) for rank in range(4)]
    assert report.owned.tolist() == owned
    np.testing.assert_array_equal(report.work, report.nonzeros + R * report.owned)
    assert report.imbalance == report.work.max() / report.work.mean() - 1
    assert f"{report.owned.mean():,.0f} rows to solve for" in repr(report)


@pytest.mark.parametrize("method", ["p2p", "emb"])
def test_groups_share_further_weights_whatever_the_method(method) -> None:
    """A cut for a hypercube, which "emb" has by default, knows one weight."""
    model = daskpart.data_models.medium_grain(TENSOR)
    counts = np.bincount(model.vertex_of, TENSOR.coords[2] == 0).astype(np.int64)
    plan = planned({"further_weights": counts}, method)
    found = np.bincount(plan.parts[TENSOR.coords[2] == 0])
    assert found.max() <= 1.03 * found.mean() + 1


def test_each_weight_that_is_beyond_its_bound_is_told() -> None:
    n_vertices = daskpart.data_models.medium_grain(TENSOR).hypergraph.n_vertices
    heavy = np.ones((n_vertices, 2), np.int64)
    heavy[0] = 5 * n_vertices
    with pytest.warns(daskpart.errors.BalanceWarning) as told:
        planned({"further_weights": heavy})
    assert len(told) == 1
    for place in range(2):
        assert f"of further weight {place} was reached" in str(told[0].message)
