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
