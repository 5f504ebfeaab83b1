"""Ridge regression by gradient descent over an allreduce: a whole model on `daskpart.models.base`.

Minimises ‖X w + b − y‖² / n + γ ‖w‖². Rows of X and y lie on ranks; w and b on all of them.
"""

from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np
import scipy.sparse
from sklearn.base import RegressorMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import validate_data

from daskpart.collectives import allreduce
from daskpart.models.base.callbacks import with_callbacks
from daskpart.models.base.estimator import DistributedEstimator
from daskpart.models.base.plan import FitPlan
from daskpart.models.base.problem import Problem
from daskpart.models.base.progress import Measure
from daskpart.models.base.state import State, replicated
from daskpart.models.base.text import Step, Text
from daskpart.partitions import Partition


class Samples(Problem):
    """Checked rows of X and their targets."""

    def __init__(self, X, y):
        self.X, self.y = scipy.sparse.csr_array(X), np.asarray(y, float)
        self.n_features = self.X.shape[1]

    def fingerprint(self):
        return f"{self.X.shape}, sums {self.X.sum()} and {self.y.sum()}"


@dataclass(frozen=True, eq=False, kw_only=True)
class RidgePlan(FitPlan):
    """Who has which rows."""

    def memory(self):
        return {"rows": 12 * self.partition.part_weights}


@dataclass(eq=False, repr=False)
class RidgeState(State):
    """w, and b behind it."""

    weights: np.ndarray = replicated()


class RidgeText(Text):
    """The fit on one communicator."""

    measures_first = True  # the loss of a step is that of the weights before it

    def __init__(self, comm, plan, problem, penalty, tol):
        members = [plan.partition.members(rank) for rank in range(plan.n_ranks)]
        self.session, self.step = comm, descend
        self.fixed = comm.values([(problem.X[own], problem.y[own]) for own in members])
        n = len(problem.y)
        rate = 0.5 / (problem.X.power(2).sum() / n + 1 + penalty)  # below 2 / curvature
        self.static = {"rate": rate, "penalty": penalty, "tol": tol, "n": n}

    def begin_from(self, state):
        weights = self.session.values([state.weights] * self.session.n_ranks)
        self.changing = weights, state.history[-1]["loss"] if state.history else float("inf")

    def gather(self, state):
        parts = self.session.gather(self.session.map(as_part, self.changing[0]))
        return state.assembled(parts, {})


def descend(comm, rows, changing, *, number, rate, penalty, tol, n):
    """One step of gradient descent: the text, run on every rank."""
    weights, before = changing
    sums = allreduce(comm, comm.map(gradient, rows, weights, n=n))
    weights = comm.map(moved, weights, sums, rate=rate, penalty=penalty)
    loss = float(sums.result()[-1])
    measured = {"loss": loss, "loss_change": loss - before}
    step = Step(measured, finite=bool(np.isfinite(loss)), enough=abs(before - loss) < tol)
    return (weights, loss), step


def gradient(rows, weights, *, n):
    """A rank's part of the gradient, and of the loss behind it."""
    X, y = rows
    error = X @ weights[:-1] + weights[-1] - y
    return np.concatenate([2 / n * (X.T @ error), [2 / n * error.sum(), error @ error / n]])


def moved(weights, sums, *, rate, penalty):
    """The weights after a step."""
    return weights - rate * (sums[:-1] + 2 * penalty * np.append(weights[:-1], 0))


def as_part(weights):
    """What a rank gives back."""
    return {"weights": weights.copy()}


class Ridge(RegressorMixin, DistributedEstimator):
    """Linear regression with an L2 penalty."""

    _parameter_constraints: ClassVar[dict] = {
        **DistributedEstimator._parameter_constraints,
        "alpha": [Interval(Real, 0, np.inf, closed="left")],
    }
    _decide_bits = ("alpha",)
    _measures = (Measure("loss", "loss"),)
    _state_class, _tolerance_column = RidgeState, "loss_change"

    def __init__(self, alpha=0.01, *, max_iter=1000, tol=1e-9, n_ranks=None, transport="auto",
                 checkpoint_path=None, resume=False):  # fmt: skip
        self.alpha, self.max_iter, self.tol = alpha, max_iter, tol
        self.n_ranks, self.transport = n_ranks, transport
        self.checkpoint_path, self.resume = checkpoint_path, resume

    @with_callbacks
    def fit(self, X, y, *, plan=None, client=None):
        return self._fit(X, y, plan=plan, client=client)

    def predict(self, X):
        weights = self._fitted().weights
        X = validate_data(self, X, reset=False, accept_sparse="csr")
        return X @ weights[:-1] + weights[-1]

    def _problem(self, X, y, data, random_state):
        return Samples(*validate_data(self, X, y, accept_sparse="csr", y_numeric=True))

    def _make_plan(self, problem, n_ranks, *, transport, random_state, kept):
        n_ranks, counts = min(n_ranks, len(problem.y)), np.diff(problem.X.indptr)
        ranks = (np.arange(len(problem.y)) * n_ranks // len(problem.y)).astype(np.int32)
        partition = Partition(ranks, n_ranks, counts, {})
        return RidgePlan(n_ranks=n_ranks, partition=partition, partitioner="block")

    def _first_state(self, problem, plan):
        return RidgeState(np.zeros(problem.X.shape[1] + 1))

    def _text(self, session, plan, problem, state):
        return RidgeText(session, plan, problem, self.alpha, self.tol)

    def _keep_more(self, problem, plan):
        self.coef_, self.intercept_ = self.state_.weights[:-1], float(self.state_.weights[-1])
