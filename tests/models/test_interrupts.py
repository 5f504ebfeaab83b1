"""Ctrl-C in the middle of a step: it ends, and nothing of it is lost; pressed twice it stops."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest
from fit_tools import At

import daskpart
from daskpart.errors import DivergenceError, WorkerLostError
from daskpart.models.base import interrupts
from daskpart.models.base.callbacks import EpochCallback
from daskpart.models.base.interrupts import interrupts_at_the_end
from daskpart.models.base.trainer import Trainer


def press():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.01)  # so that the handler has run


@pytest.fixture(autouse=True)
def pythons_own_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_the_first_waits_for_the_end():
    done = []
    with pytest.raises(KeyboardInterrupt), interrupts_at_the_end():
        press()
        done.append("the step")
    assert done == ["the step"]
    with pytest.raises(KeyboardInterrupt):
        press()  # as ever


def test_it_waits_also_where_it_comes_amid_a_print(monkeypatch):
    class Writing(io.RawIOBase):
        def writable(self):
            return True

        def write(self, data):
            if not done:
                done.append("a line")
                press()
            return len(data)

    done = []
    lines = io.TextIOWrapper(io.BufferedWriter(Writing()), line_buffering=True)
    monkeypatch.setattr(sys, "stderr", lines)
    with pytest.raises(KeyboardInterrupt), interrupts_at_the_end():
        print("progress", file=sys.stderr)
        done.append("the step")
    assert done == ["a line", "the step"]


def test_the_second_comes_through(monkeypatch):
    done = []
    with pytest.raises(KeyboardInterrupt), interrupts_at_the_end():
        press()
        press()  # at once: mpiexec passes on what all got already
        done.append("the step")
    assert done.pop() == "the step"
    monkeypatch.setattr(interrupts, "PAUSE", 0.0)
    with pytest.raises(KeyboardInterrupt), interrupts_at_the_end():
        press()
        press()
        done.append("never")
    assert not done


def test_it_comes_also_after_an_error():
    with pytest.raises(KeyboardInterrupt), interrupts_at_the_end() as interrupted:
        assert not interrupted()
        press()
        assert interrupted()
        raise WorkerLostError("the workers got it, too")


def test_a_fit_that_loses_workers_by_it_ends(monkeypatch):
    """In place of going on, on a cluster that may have no worker left."""
    ratings = daskpart.datasets.power_law_ratings(30, 20, 300, random_state=0)
    begun, run = [], Trainer._run

    def gone(*arguments):
        raise WorkerLostError("the workers got it, too")

    def lost(trainer, text, last):
        begun.append(trainer.kept.epoch)
        if len(begun) == 3:
            press()
            monkeypatch.setattr(text, "gather", gone)  # what the ranks held is gone with them
            gone()
        return run(trainer, text, last)

    monkeypatch.setattr(Trainer, "_run", lost)
    model = daskpart.MatrixFactorization(4, n_ranks=2, max_iter=10**6, partitioner="block")
    with pytest.raises(KeyboardInterrupt):
        model.fit(ratings, client=None)
    assert len(begun) == 3 and model.n_iter_ == begun[-1] > 0


def test_other_handlers_are_asked_and_threads_left_alone():
    caught = []
    signal.signal(signal.SIGINT, lambda number, frame: caught.append(number))
    with interrupts_at_the_end():
        press()
        assert caught == []
    assert caught == [signal.SIGINT]

    def elsewhere():
        with interrupts_at_the_end():
            pass

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGINT) not in (signal.default_int_handler, None)


def test_a_fit_keeps_every_step_that_was_done():
    ratings = daskpart.datasets.power_law_ratings(300, 200, 20_000, random_state=0)
    model = daskpart.MatrixFactorization(8, n_ranks=2, max_iter=10**6, partitioner="block")
    timer = threading.Timer(0.1, press)
    model.set_callbacks(At(4, timer.start))
    with pytest.raises(KeyboardInterrupt):
        model.fit(ratings, client=None)
    timer.join()
    assert model.state_.epoch == model.history_["epoch"].iloc[-1] == model.n_iter_ > 3
    whole = daskpart.MatrixFactorization(
        8, n_ranks=2, max_iter=model.n_iter_, partitioner="block"
    ).fit(ratings)
    assert whole.state_.user_factors.tobytes() == model.state_.user_factors.tobytes()


@pytest.mark.parametrize("epochs", [0, 2])
def test_a_fit_that_diverges_as_it_is_interrupted_keeps_no_nan(epochs, monkeypatch):
    """The state is what it is where nobody interrupts."""
    ratings = daskpart.datasets.power_law_ratings(30, 20, 300, random_state=0)
    refuse = Trainer._refuse_divergence

    def fitted(ends_by):
        model = daskpart.MatrixFactorization(4, n_ranks=2, max_iter=2, partitioner="block")
        model.fit(ratings, client=None)
        rate = 50.0 if epochs == 0 else 0.5
        model.set_params(warm_start=True, max_iter=50)
        model.set_params(learning_rate="constant", initial_learning_rate=rate)
        with pytest.raises(ends_by), np.errstate(all="ignore"):
            model.fit(ratings, client=None)
        return model

    def pressed(trainer, text, steps):
        if not steps[-1].finite:
            press()
        refuse(trainer, text, steps)

    usual = fitted(DivergenceError)
    monkeypatch.setattr(Trainer, "_refuse_divergence", pressed)
    interrupted = fitted(KeyboardInterrupt)
    assert (usual.n_iter_ > 2) == (epochs > 0) and interrupted.n_iter_ == usual.n_iter_
    assert interrupted.state_.is_finite()
    assert interrupted.state_.user_factors.tobytes() == usual.state_.user_factors.tobytes()


class Fails(EpochCallback):
    """As one that writes to a full disk."""

    def epoch_done(self, row, snapshot):
        if row["epoch"] == 3:
            raise OSError("no space is left")
        return False


@pytest.mark.parametrize("transport", ["local", "graph"])
def test_an_error_of_a_callback_keeps_the_last_whole_step_too(transport):
    ratings = daskpart.datasets.power_law_ratings(60, 40, 800, random_state=0)
    given = {"n_components": 4, "n_ranks": 2, "transport": transport, "partitioner": "block"}
    model = daskpart.MatrixFactorization(max_iter=6, **given)
    with pytest.raises(OSError, match="no space is left"):
        model.set_callbacks(Fails()).fit(ratings)
    expected = daskpart.MatrixFactorization(max_iter=3, **given).fit(ratings)
    assert model.n_iter_ == len(model.history_) == 3
    np.testing.assert_array_equal(model.item_factors_, expected.item_factors_)
