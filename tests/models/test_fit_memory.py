"""A fit that foresees more memory than there is says so before it takes any."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from distributed.system import MEMORY_LIMIT

import daskpart.models.base.memory as foreseen
from daskpart import LogisticRegression
from daskpart._floor import rank_tasks
from daskpart._floor.rank_tasks import known_workers
from daskpart.errors import DaskpartWarning

N_FEATURES = 1 << 27


def test_lbfgs_of_many_features_warns_before_it_begins(monkeypatch):
    """Here the warning is an error, so the 33 GB that it tells of are never asked for."""
    monkeypatch.setattr(foreseen, "memory_limits", lambda transport, client: [1e9, 1e9])
    X = scipy.sparse.csr_array(([1.0, 1.0], [0, N_FEATURES - 1], [0, 1, 2]), (2, N_FEATURES))
    model = LogisticRegression(n_ranks=2, transport="local")
    with pytest.raises(DaskpartWarning, match=r"about 34\.4 GB .* weights, and may take 2\.0 GB"):
        model.fit(X, [0, 1])


def test_a_rank_that_no_worker_has_room_for_is_told_though_all_together_have_it(monkeypatch):
    monkeypatch.setattr(foreseen, "memory_limits", lambda transport, client: [1e9, 2e9, 2e9])
    memory = {"ratings": np.array([1, 2, 0]) << 30, "factors": np.array([1, 1, 0]) << 20}
    with pytest.raises(DaskpartWarning, match=r"rank 1 will hold about 2\.1 GB, and no worker may"):
        foreseen.warn_of_memory(memory, "dask", None)
    memory["ratings"][1] >>= 1
    foreseen.warn_of_memory(memory, "dask", None)


def test_a_fit_that_any_machine_has_room_for_takes_no_look(monkeypatch):
    monkeypatch.setattr(foreseen, "memory_limits", lambda transport, client: [0.0])
    foreseen.warn_of_memory({"weights": np.full(4, 1 << 20)}, "local", None)


def test_a_worker_without_a_limit_may_take_anything(monkeypatch):
    workers = {"a": {"memory_limit": 0}, "b": {"memory_limit": 5}, "c": {"memory_limit": None}}
    monkeypatch.setattr(foreseen, "client_for", lambda transport, client: client)
    monkeypatch.setattr(rank_tasks, "known_workers", lambda client: workers)
    assert foreseen.memory_limits("dask", object()) == [np.inf, 5, np.inf]


def test_ranks_may_take_what_their_workers_may(quiet_client):
    limits = [worker["memory_limit"] for worker in known_workers(quiet_client).values()]
    assert foreseen.memory_limits("dask", quiet_client) == limits and min(limits) > 0
    assert foreseen.memory_limits("local", quiet_client) == [MEMORY_LIMIT]
