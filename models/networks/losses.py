"""Losses of a network: sums of a rank, the gradient, what they mean together.

    softmax   one class a row       − log softmax(z)[y]
    sigmoid   any classes a row     − y log p − (1 − y) log(1 − p), p = 1 / (1 + e^−z)
    squared   numbers               (z − y)²

A loss is the mean over rows with a target (and their columns), so a rank needs to know how many
there are on all ranks. Each rank gives sums, which are added up over the ranks: of the losses, and
of what the score is made of.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Loss(ABC):
    """The base of the losses."""

    name: ClassVar[str]
    score_name: ClassVar[str] = "accuracy"

    def n_sums(self, n_outputs: int) -> int:
        """How many sums there are, of so many outputs."""
        return 2

    @abstractmethod
    def terms(
        self, outputs: NDArray[Any], targets: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Losses, and hits (a loss of numbers: the losses again), a row each."""

    def sums(
        self, outputs: NDArray[Any], targets: NDArray[Any], weight: NDArray[Any] | None = None
    ) -> NDArray[np.float64]:
        """Summed loss, and summed hits, of rows that count as much as their weights say."""
        terms = self.terms(outputs, targets)
        if weight is not None:
            terms = terms[0].T * weight, terms[1].T * weight
        return np.array([each.sum(dtype=np.float64) for each in terms])

    @abstractmethod
    def gradient(self, outputs: NDArray[Any], targets: NDArray[Any]) -> NDArray[Any]:
        """Of the summed loss by the outputs, of their shape."""

    def sums_and_gradient(
        self, outputs: NDArray[Any], targets: NDArray[Any]
    ) -> tuple[NDArray[np.float64], NDArray[Any]]:
        """Both, where they can share work."""
        return self.sums(outputs, targets), self.gradient(outputs, targets)

    def predicted(self, outputs: NDArray[Any]) -> NDArray[Any]:
        """Probabilities, or the numbers themselves."""
        return outputs

    def score(
        self, sums: NDArray[np.float64], n_terms: int, spreads: Sequence[float] = ()
    ) -> float:
        """Accuracy, or R².

        Parameters
        ----------
        sums : float64 ndarray
            Of all ranks.
        n_terms : int
            Summed losses.
        spreads : sequence of float
            For R²: the sum of squares of each column of the targets around its mean.
        """
        return float(sums[1] / max(n_terms, 1))


@dataclass(frozen=True)
class SoftmaxLoss(Loss):
    """Cross-entropy of one class a row; targets are class numbers.

    Parameters
    ----------
    class_weights : tuple of float
        By how much the loss of a row of each class is multiplied, not the hits; (): by nothing.
    """

    name = "softmax"

    class_weights: tuple[float, ...] = ()

    def terms(
        self, outputs: NDArray[Any], targets: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """− w[y] log p[y], and whether it is right."""
        return self._terms(*_log_softmax(outputs), targets)

    def gradient(self, outputs: NDArray[Any], targets: NDArray[Any]) -> NDArray[Any]:
        """w[y] (P − one-hot(y))."""
        return self._gradient(_log_softmax(outputs)[0], targets)

    def sums_and_gradient(
        self, outputs: NDArray[Any], targets: NDArray[Any]
    ) -> tuple[NDArray[np.float64], NDArray[Any]]:
        """Both of one log softmax."""
        logs, best = _log_softmax(outputs)
        terms = self._terms(logs, best, targets)
        sums = np.array([each.sum(dtype=np.float64) for each in terms])
        return sums, self._gradient(logs, targets)

    def _terms(
        self, logs: NDArray[Any], best: NDArray[np.int64], targets: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        losses = -logs[np.arange(len(targets)), targets]
        if self.class_weights:
            losses *= self._weights(targets, logs.dtype)
        return losses, best == targets

    def _gradient(self, logs: NDArray[Any], targets: NDArray[Any]) -> NDArray[Any]:
        gradient = np.exp(logs, out=logs)
        gradient[np.arange(len(targets)), targets] -= 1
        if self.class_weights:
            gradient *= self._weights(targets, logs.dtype)[:, None]
        return gradient

    def _weights(self, targets: NDArray[Any], dtype: Any) -> NDArray[Any]:
        return np.array(self.class_weights, dtype)[targets]

    def predicted(self, outputs: NDArray[Any]) -> NDArray[Any]:
        """Probabilities of the classes."""
        return np.exp(_log_softmax(outputs.astype(np.float64))[0])


@dataclass(frozen=True)
class SigmoidLoss(Loss):
    """Cross-entropy of every class by itself; targets are 0 and 1."""

    name = "sigmoid"

    def terms(
        self, outputs: NDArray[Any], targets: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """log(1 + eᶻ) − y z, and whether it is right."""
        losses = np.logaddexp(0, outputs) - targets * outputs
        return losses, (outputs > 0) == (targets > 0)

    def gradient(self, outputs: NDArray[Any], targets: NDArray[Any]) -> NDArray[Any]:
        """p − y."""
        return self.predicted(outputs) - targets

    def predicted(self, outputs: NDArray[Any]) -> NDArray[Any]:
        """Probabilities of the classes."""
        return 1 / (1 + np.exp(-np.clip(outputs, -60, 60)))


@dataclass(frozen=True)
class SquaredLoss(Loss):
    """Squared error; targets are numbers."""

    name = "squared"
    score_name = "r2"

    def terms(
        self, outputs: NDArray[Any], targets: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """(z − y)², twice."""
        losses = np.square(outputs - targets)
        return losses, losses

    def n_sums(self, n_outputs: int) -> int:
        """That of all, and that of each column."""
        return 1 + n_outputs

    def sums(
        self, outputs: NDArray[Any], targets: NDArray[Any], weight: NDArray[Any] | None = None
    ) -> NDArray[np.float64]:
        """Summed loss, then that of each column."""
        columns = np.square(outputs - targets).T
        if weight is not None:
            columns = columns * weight
        sums = columns.sum(dtype=np.float64), *columns.sum(axis=1, dtype=np.float64)
        return np.array(sums)

    def gradient(self, outputs: NDArray[Any], targets: NDArray[Any]) -> NDArray[Any]:
        """2 (z − y)."""
        return 2 * (outputs - targets)

    def score(
        self, sums: NDArray[np.float64], n_terms: int, spreads: Sequence[float] = ()
    ) -> float:
        """R², the mean over columns; of a constant column 1 where all is right, else 0."""
        columns = zip(sums[1:].tolist(), spreads, strict=True)
        return float(np.mean([1 - wrong / of if of else float(not wrong) for wrong, of in columns]))


def _log_softmax(outputs: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Of each row, and the place of its largest output."""
    best = outputs.argmax(axis=1)
    logs = outputs - np.take_along_axis(outputs, best[:, None], axis=1)
    logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
    return logs, best
