"""A whole fit: seconds an epoch, memory, and seconds to a test RMSE side by side with LIBMF.

    ours     COO matrix ─► triples, partition, shards, plan, arrangement ─► epochs ─► factors
    LIBMF    array     ─► its own blocks, scaling, shuffling            ─► iterations ─► factors
             └──────────────────────── "fit" seconds ─────────────────────────────┘
                                                            └─ "training" seconds ─┘

Reading the data is in neither. How many epochs a target takes is found before the clock runs, for
both alike: the fewest over the same small grid of learning rates and regularizations.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product
from time import perf_counter

import numpy as np

import daskpart

from . import libmf_peer
from .studies.problem import Problem, matrix, problem

RATES = (0.05, 0.1, 0.2)
REGULARIZATIONS = (0.03, 0.04, 0.05)
MOST_EPOCHS = 20
MORE = 10  # epochs of the longer fit that tells LIBMF's set-up from its training
RANKS = 2  # of ours, and threads of LIBMF


class FitEpoch:
    """Seconds of one epoch of a fit at η = K, messages and counting included."""

    params = (["ml-1m", "power-law-10m"], [1, 2, 4])
    param_names = ("data", "n_ranks")
    timeout = 600

    def setup(self, name: str, n_ranks: int) -> None:
        """The data, and everything compiled."""
        self.chosen = problem(name)
        _model(n_ranks, 1).fit(self.chosen.test)

    def track_seconds_an_epoch(self, name: str, n_ranks: int) -> float:
        """Least of five epochs."""
        return float(_model(n_ranks, 5).fit(self.chosen.train).history_.seconds.min())

    def track_seconds_before_training(self, name: str, n_ranks: int) -> float:
        """Everything of a fit but its epochs: triples, block partition, shards, plan, order."""
        begin = perf_counter()
        model = _model(n_ranks, 1).fit(self.chosen.train)
        return perf_counter() - begin - float(model.history_.seconds.sum())

    track_seconds_an_epoch.unit = "s"  # type: ignore[attr-defined]
    track_seconds_before_training.unit = "s"  # type: ignore[attr-defined]


class FitMemory:
    """Most memory of a fit of 10⁷ ratings on one rank; the difference is what the fit takes."""

    params = ["power-law-10m"]  # noqa: RUF012 - asv's name
    param_names = ("data",)
    timeout = 600

    def setup(self, name: str) -> None:
        """The data, and everything compiled."""
        self.train = problem(name).train
        _model(1, 1).fit(problem(name).test)

    def peakmem_data_only(self, name: str) -> None:
        """What the process holds before: take it off the next."""

    def peakmem_fit(self, name: str) -> None:
        """Two epochs."""
        self.model = _model(1, 2).fit(self.train)


class TimeToRmse:
    """Seconds until the test RMSE is at most a target: 2 ranks beside LIBMF's 2 threads."""

    params = [0.86, 0.85]  # noqa: RUF012 - asv's name
    param_names = ("target",)
    timeout = 1200
    data = "ml-1m"
    n_components = 32

    def track_seconds_to_rmse_ratio(self, target: float) -> float:
        """LIBMF's seconds over ours, whole fits; above 1 we are ahead."""
        own, peer = side_by_side(self.data, target, self.n_components)
        return peer.fit_seconds / own.fit_seconds

    def track_training_seconds_to_rmse_ratio(self, target: float) -> float:
        """The same of training alone, each side's set-up taken off."""
        own, peer = side_by_side(self.data, target, self.n_components)
        return peer.training_seconds / own.training_seconds

    track_seconds_to_rmse_ratio.unit = "ratio"  # type: ignore[attr-defined]
    track_training_seconds_to_rmse_ratio.unit = "ratio"  # type: ignore[attr-defined]


def _model(n_ranks: int, n_epochs: int) -> daskpart.MatrixFactorization:
    return daskpart.MatrixFactorization(
        32, n_ranks=n_ranks, max_iter=n_epochs, partitioner="block", transport="local"
    )


@dataclass(frozen=True)
class Reached:
    """How one side reached a target RMSE.

    Attributes
    ----------
    rate, regularization : float
        The setting with the fewest epochs.
    n_epochs : int
    test_rmse : float
        After the timed fit; the worst of its turns.
    fit_seconds, training_seconds : float
        Least over turns.
    """

    rate: float
    regularization: float
    n_epochs: int
    test_rmse: float
    fit_seconds: float
    training_seconds: float


@cache
def side_by_side(
    name: str, target: float, n_components: int, turns: int = 15, partitioner: str = "block"
) -> tuple[Reached, Reached]:
    """Ours and LIBMF's way to a target, timed in turn.

    Raises
    ------
    NotImplementedError
        Where one of them does not get there on the grid, or LIBMF is not installed.
    """
    chosen = problem(name)
    own_setting = _fewest(own_epochs(chosen, n_components, target, partitioner), "ours", target)
    peer_setting = _fewest(libmf_epochs(chosen, n_components, target), "LIBMF", target)
    own, peer = [], []
    for _ in range(turns):
        peer.append(_timed_libmf(chosen, n_components, *peer_setting))
        own.append(_timed_own(chosen, n_components, partitioner, *own_setting))
    return _own_reached(own_setting, own), _libmf_reached(peer_setting, peer)


Setting = tuple[float, float, int]


def _fewest(found: list[Setting], who: str, target: float) -> Setting:
    if not found:
        raise NotImplementedError(f"{who}: RMSE {target} not reached in {MOST_EPOCHS} epochs")
    return min(found, key=lambda setting: setting[2])


def own_epochs(
    chosen: Problem, n_components: int, target: float, partitioner: str
) -> list[Setting]:
    """(rate, regularization, epochs) of each setting of the grid that reaches the target."""
    found = []
    for rate, regularization in product(RATES, REGULARIZATIONS):
        model = _own(n_components, partitioner, rate, regularization, MOST_EPOCHS)
        history = model.fit(chosen.train, validation=chosen.test).history_
        reached = np.flatnonzero(history.validation_rmse <= target)
        if reached.size:
            found.append((rate, regularization, int(reached[0]) + 1))
    return found


def libmf_epochs(chosen: Problem, n_components: int, target: float) -> list[Setting]:
    """The same of LIBMF; it cannot be asked in between, so it is fitted anew for each number."""
    found: list[Setting] = []
    most = MOST_EPOCHS
    for rate, regularization in product(RATES, REGULARIZATIONS):
        for n_epochs in range(1, most + 1):
            model, _ = _libmf(chosen, n_components, rate, regularization, n_epochs)
            if libmf_peer.rmse(model, chosen.test_triples) <= target:
                found.append((rate, regularization, n_epochs))
                most = n_epochs  # more would not be the fewest
                break
    return found


def _own(
    n_components: int, partitioner: str, rate: float, regularization: float, n_epochs: int
) -> daskpart.MatrixFactorization:
    return daskpart.MatrixFactorization(
        n_components, n_ranks=RANKS, partitioner=partitioner, transport="local",
        initial_learning_rate=rate, regularization=regularization, max_iter=n_epochs,
    )  # fmt: skip


def _timed_own(
    chosen: Problem, n_components: int, partitioner: str, rate: float, regularization: float,
    n_epochs: int,
) -> tuple[float, float, float]:  # fmt: skip
    model = _own(n_components, partitioner, rate, regularization, n_epochs)
    train = matrix(chosen.train_triples, chosen.shape)
    begin = perf_counter()
    model.fit(train)
    seconds = perf_counter() - begin
    users, items, values = chosen.test_triples
    errors = values - model.predict(np.column_stack([users, items]))
    return seconds, float(model.history_.seconds.sum()), float(np.sqrt(np.mean(errors**2)))


def _libmf(
    chosen: Problem, n_components: int, rate: float, regularization: float, n_epochs: int
) -> tuple[object, float]:
    mf = libmf_peer.load()
    data = np.column_stack(chosen.train_triples).astype(np.float32)
    model = mf.MF(
        k=n_components, nr_threads=RANKS, nr_iters=n_epochs, nr_bins=20, quiet=True, eta=rate,
        lambda_p1=0.0, lambda_q1=0.0, lambda_p2=regularization, lambda_q2=regularization,
    )  # fmt: skip
    begin = perf_counter()
    model.fit(data)
    return model.model, perf_counter() - begin


def _timed_libmf(
    chosen: Problem, n_components: int, rate: float, regularization: float, n_epochs: int
) -> tuple[float, float, float]:
    model, seconds = _libmf(chosen, n_components, rate, regularization, n_epochs)
    error = libmf_peer.rmse(model, chosen.test_triples)
    _, longer = _libmf(chosen, n_components, rate, regularization, n_epochs + MORE)
    return seconds, longer, error


def _own_reached(setting: Setting, turns: list[tuple[float, float, float]]) -> Reached:
    fit_seconds, training_seconds, errors = zip(*turns, strict=True)
    return Reached(*setting, max(errors), min(fit_seconds), min(training_seconds))


def _libmf_reached(setting: Setting, turns: list[tuple[float, float, float]]) -> Reached:
    """Its training alone by the difference of a longer fit: set-up is inside its `fit`."""
    fit_seconds, longer_seconds, errors = zip(*turns, strict=True)
    an_epoch = (min(longer_seconds) - min(fit_seconds)) / MORE
    return Reached(*setting, max(errors), min(fit_seconds), an_epoch * setting[2])
