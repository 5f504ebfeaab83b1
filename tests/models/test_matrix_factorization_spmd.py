"""The same fit as SPMD over Dask comms: the bits of one process, on good days and bad ones."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import replace

import dask
import dask.array
import numpy as np
import pytest
from fit_tools import At, assert_same

import daskpart
from daskpart.containers.matrix import as_matrix
from daskpart.errors import DaskpartWarning, DivergenceError, InputError
from daskpart.models.base.callbacks import EpochCallback

pytestmark = pytest.mark.cluster
OPTIONS = {"eta": 2, "max_iter": 3, "partitioner": "random"}


def model(transport="dask", n_ranks=4, **changes):
    return daskpart.MatrixFactorization(
        4, n_ranks=n_ranks, transport=transport, **(OPTIONS | changes)
    )


@pytest.mark.parametrize("n_ranks", [1, 3, 8])
def test_the_bits_of_local(ratings, client, n_ranks):
    eta = min(2, n_ranks)
    local, spmd = (model(kind, n_ranks, eta=eta).fit(ratings) for kind in ("local", "dask"))
    assert_same(local, spmd)
    assert spmd.comm_report_.transport == "dask"
    assert spmd.comm_report_.matches
    np.testing.assert_array_equal(local.comm_report_.traffic, spmd.comm_report_.traffic)
    assert not client.futures  # nothing is left behind


def answers_of(ratings):
    """Yes and no, 1 and −1, lazily; and the same at once."""
    matrix = as_matrix(ratings)
    signs = replace(matrix, values=np.sign(matrix.values - matrix.values.mean()))
    return dask.array.from_array(signs.to_coo(), chunks=(30, 50)), signs.to_coo()


@pytest.mark.parametrize("transport", ["dask", "graph"])
def test_yes_and_no_have_the_bits_of_local(ratings, client, transport):
    parts = daskpart.partition(ratings, 4, method="random")
    options = {"loss": "logistic", "partitioner": parts}
    lazy, held = answers_of(ratings)
    expected = model("local", **options).fit(held, validation=held[:80])
    fitted = model(transport, **options).fit(lazy, validation=held[:80])
    assert_same(expected, fitted)
    for column in ("train_loss", "validation_loss"):
        np.testing.assert_array_equal(expected.history_[column], fitted.history_[column])
    with pytest.raises(InputError, match=r"there is -?2 at user \d+, item \d+"):
        model(transport, **options).fit(lazy + lazy)


def test_auto_and_lazy_ratings(ratings, client):
    import dask.array as da

    lazy = da.from_array(as_matrix(ratings).to_coo(), chunks=(30, 50))
    parts = daskpart.partition(ratings, 4, method="random")
    expected = model("local", partitioner=parts).fit(ratings)
    fitted = model("auto", partitioner=parts).fit(lazy)
    assert fitted.comm_report_.transport == "dask"
    assert_same(expected, fitted)


def test_resumed_fits(ratings, client, tmp_path):
    """A fit that stopped on one transport goes on, on another, to the same bits."""
    whole = model("local", max_iter=4).fit(ratings)
    options = {"checkpoint_path": tmp_path / "run.npz"}
    model("dask", max_iter=2, **options).fit(ratings)
    assert_same(whole, model("dask", max_iter=4, resume=True, **options).fit(ratings))


def test_two_fits_at_once(ratings, client):
    expected, fitted = model("local").fit(ratings), [model(), model()]
    threads = [threading.Thread(target=m.fit, args=(ratings,)) for m in fitted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    for one in fitted:
        assert_same(expected, one)


def test_divergence_and_too_many_ranks(ratings, client):
    wild = model(learning_rate="constant", initial_learning_rate=1e6)
    with pytest.raises(DivergenceError, match="diverged in epoch"), np.errstate(all="ignore"):
        wild.fit(ratings)
    with (
        dask.config.set({"daskpart.start-seconds": 0.3}),
        pytest.raises(InputError, match=r"9 ranks need as many threads.*has 8"),
    ):
        model(n_ranks=9).fit(ratings)


class Interrupt(EpochCallback):
    """Ctrl-C, a moment after the first epoch, for this process and `others`."""

    def __init__(self, *others):
        self.processes = (*others, os.getpid())

    def epoch_done(self, row, snapshot):
        if row["epoch"] == 1:
            threading.Timer(0.02, self.press).start()
        return False

    def press(self):
        for process in self.processes:
            os.kill(process, signal.SIGINT)


def test_ctrl_c_keeps_whole_epochs(ratings, client):
    interrupted = model(max_iter=10_000)
    interrupted.set_callbacks(Interrupt())
    with pytest.raises(KeyboardInterrupt):
        interrupted.fit(ratings)
    assert 1 <= interrupted.n_iter_ < 10_000
    assert_same(model("local", max_iter=interrupted.n_iter_).fit(ratings), interrupted)
    assert_same(model("local").fit(ratings), model().fit(ratings))  # the cluster is usable


def test_ctrl_c_of_a_terminal_leaves_the_workers_there(ratings, own_client):
    """It goes to the whole group of processes, as that of Jupyter does."""
    processes = own_client.run(os.getpid)
    interrupted = model(max_iter=10_000)
    interrupted.set_callbacks(Interrupt(*processes.values()))
    with pytest.raises(KeyboardInterrupt):
        interrupted.fit(ratings, client=own_client)
    assert_same(model("local", max_iter=interrupted.n_iter_).fit(ratings), interrupted)
    assert_same(model("local").fit(ratings), model().fit(ratings, client=own_client))
    assert own_client.run(os.getpid) == processes
    answers = set(
        own_client.run(lambda: signal.getsignal(signal.SIGINT) is signal.SIG_IGN).values()
    )
    assert answers == {False}  # as it was before


def test_a_killed_worker_does_not_change_the_result(ratings, own_client, kill_in_next_run):
    """The fit goes on, on the workers that are left."""
    expected = model("local", max_iter=30).fit(ratings)
    survivor = model("auto", max_iter=30)
    survivor.set_callbacks(At(4, kill_in_next_run))
    with pytest.warns(DaskpartWarning, match="goes on from the end of epoch"):
        survivor.fit(ratings, client=own_client)
    assert_same(expected, survivor)
    assert survivor.comm_report_.transport == "dask"
    assert survivor.history_["epoch"].tolist() == list(range(1, 31))
