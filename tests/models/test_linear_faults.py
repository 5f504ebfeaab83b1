"""Fits from files and on the parameter server that lose a worker, are stopped, or go on later."""

from __future__ import annotations

import os
import signal
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from fit_tools import At, assert_same_states, interrupt
from sklearn.datasets import dump_svmlight_file

import daskpart
from daskpart.errors import DaskpartWarning, SchedulerLostError
from daskpart.models.base import trainer
from daskpart.readers import survey

FITS = {
    "SGD": {"solver": "sgd", "batch_size": 20, "top_k": 6},
    "L-BFGS": {"solver": "lbfgs"},
    "server": {"solver": "server", "l1_ratio": 0.5, "n_blocks": 3},
    "SGD on a server": {"solver": "sgd", "aggregation": "server", "batch_size": 20, "top_k": 6},
}


def write_examples(path: Path) -> Path:
    """Three classes, one after the other."""
    random = np.random.default_rng(0)
    X = scipy.sparse.random(120, 30, 0.2, "csr", random_state=random)
    y = np.sort((X @ random.normal(size=(30, 3))).argmax(axis=1))
    dump_svmlight_file(X, y, str(path), zero_based=False)
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_examples(tmp_path_factory.mktemp("data") / "x.libsvm")


def make(kind: str, **more: Any) -> daskpart.LogisticRegression:
    options = {"n_ranks": 2, "max_iter": 6, "tol": 0.0, "transport": "local", **FITS[kind], **more}
    return daskpart.LogisticRegression(**options)


@pytest.mark.parametrize("kind", FITS)
@pytest.mark.parametrize("partitioner", ["random", "parsa"])
def test_a_resumed_fit_of_a_file_has_the_bits_of_an_unbroken_one(path, tmp_path, kind, partitioner):
    make_one = partial(make, kind, partitioner=partitioner)
    kept = {"checkpoint_path": tmp_path / "run.npz"}
    whole = make_one().fit(survey(path))
    make_one(**kept, max_iter=2).fit(survey(path))
    resumed = make_one(**kept, resume=True).fit(survey(path))
    assert_same_states(resumed, whole)
    assert resumed.n_iter_ == 6
    assert resumed.state_.residual.any() == ("top_k" in FITS[kind])


@pytest.mark.parametrize("kind", FITS)
def test_ctrl_c_keeps_the_epochs_that_were_done(path, kind):
    model = make(kind, max_iter=50).set_callbacks(At(3, interrupt))
    with pytest.raises(KeyboardInterrupt):
        model.fit(survey(path))
    assert model.n_iter_ == 3
    assert_same_states(model, make(kind, max_iter=3).fit(survey(path)))


@pytest.mark.cluster
@pytest.mark.parametrize("kind", ["SGD", "server", "SGD on a server"])
def test_a_worker_that_dies_does_not_change_the_result(path, own_client, kind):
    """The trainer begins anew from the epoch kept last; of the server, shards are made anew.

    L-BFGS, whose state is as that of a resumed fit, is spared the start of another worker. What
    lay on the disk of the one that died is read from the file again.
    """
    victim = next(iter(own_client.run(os.getpid).values()))

    def kill() -> None:
        os.kill(victim, signal.SIGKILL)
        time.sleep(0.2)

    model = make(kind, transport="auto").set_callbacks(At(3, kill))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(survey(path, on_disk=True, client=own_client), client=own_client)
    lost = [each for each in told if issubclass(each.category, DaskpartWarning)]
    assert any("The fit goes on from the end of" in str(each.message) for each in lost)
    assert_same_states(model, make(kind).fit(survey(path)))


def test_a_lost_scheduler_ends_the_fit_and_keeps_what_was_done(path, monkeypatch):
    """There is no cluster to go on with, so nothing is begun anew."""
    make_text = daskpart.LogisticRegression._text

    def breaking(self: Any, *arguments: Any, **named: Any) -> Any:
        text = make_text(self, *arguments, **named)
        run = text.run

        def run_at_first(first: int, last: int) -> Any:
            if last > 3:
                raise SchedulerLostError("The scheduler does not answer any more.")
            return run(first, last)

        text.run = run_at_first
        return text

    monkeypatch.setattr(daskpart.LogisticRegression, "_text", breaking)
    monkeypatch.setattr(trainer, "KEEP_AFTER", 0.0)  # the state is gathered after each run
    model = make("SGD", max_iter=50).set_callbacks(At(3, lambda: None))
    with pytest.raises(SchedulerLostError, match="does not answer"):
        model.fit(survey(path))
    assert model.n_iter_ == 3


@pytest.mark.cluster
def test_with_a_delay_too_the_server_goes_on_without_a_lost_shard(
    path, own_client, kill_in_next_run
):
    model = make("server", transport="dask", delay=1, max_iter=40)
    model.set_callbacks(At(2, kill_in_next_run))
    with pytest.warns(DaskpartWarning, match="The fit goes on from the end of"):
        model.fit(survey(path, client=own_client), client=own_client)
    assert model.n_iter_ == 40
    best = make("server", max_iter=40).fit(survey(path)).history_["loss"].iloc[-1]
    assert model.history_["loss"].iloc[-1] == pytest.approx(best, rel=0.05)
