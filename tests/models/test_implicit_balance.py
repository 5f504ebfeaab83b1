"""Users are cut by the work that they make: their events, and a row to solve for."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import daskpart
from daskpart.errors import InputError

F = 64
RANDOM = np.random.default_rng(2)
# 60 users with 200 events each, 1500 with 4 to 12: equal events are few users, or very many
LENGTHS = np.concatenate([np.full(60, 200), RANDOM.integers(4, 13, 1500)])
USERS = np.repeat(np.arange(len(LENGTHS)), LENGTHS)
ITEMS = np.concatenate([RANDOM.choice(400, n, replace=False) for n in LENGTHS])
EVENTS = scipy.sparse.csr_array((np.ones(len(USERS), np.float32), (USERS, ITEMS)))
WORTH = {"cg": F // 4, "subspace": F // 2, "cholesky": F}


def planned(partitioner, solver="cholesky", n_ranks=4, random_state=0):
    return daskpart.ImplicitFactorization(
        F, n_ranks=n_ranks, solver=solver, partitioner=partitioner, transport="local",
        random_state=random_state,
    ).plan(EVENTS)  # fmt: skip


@pytest.mark.parametrize("partitioner", ["connectivity", "block", "random", "auto"])
@pytest.mark.parametrize("solver", sorted(WORTH))
def test_users_are_cut_by_their_work(solver: str, partitioner: str) -> None:
    plan = planned(partitioner, solver)
    np.testing.assert_array_equal(plan.partition.weights, LENGTHS + WORTH[solver])
    work = np.bincount(plan.partition.assignment, LENGTHS + WORTH[solver], 4)
    assert plan.report().imbalance[0] == pytest.approx(work.max() / work.mean() - 1)
    assert plan.report().imbalance[0] < 0.06


def test_a_named_model_balances_events_alone() -> None:
    plan = planned({"model": "column-net"})
    np.testing.assert_array_equal(plan.partition.weights, LENGTHS)


def test_another_seed_is_another_cut() -> None:
    one, again, other = (planned("random", random_state=seed).partition for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.assignment, again.assignment)
    assert (one.assignment != other.assignment).any()


def test_items_are_owned_by_their_work() -> None:
    plan = planned("connectivity")
    owned = np.array([len(plan.numberings["item"].first_group(rank)) for rank in range(4)])
    np.testing.assert_array_equal(plan.work[1], plan.events[1] + F * owned)
    assert plan.report().imbalance[1] < 0.06


def test_what_is_no_partition_of_users_is_refused() -> None:
    """Where there are as many items, the length of one of these says nothing."""
    square = scipy.sparse.random_array((40, 40), density=0.2, rng=0)
    parts = daskpart.partition(square, 2, model="row-net", random_state=0)
    for partitioner in (parts, {"model": "row-net"}, {"model": "fine-grain"}):
        model = daskpart.ImplicitFactorization(2, n_ranks=2, partitioner=partitioner)
        with pytest.raises(
            InputError, match=r"is one of items|assigns 320 vertices.* has 40 users"
        ):
            model.set_params(transport="local").fit(square)
