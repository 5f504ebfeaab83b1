"""Losses over the labelled vertices: sums of a rank, the gradient, what they mean together.

    softmax   one class a vertex       − log softmax(z)[y]
    sigmoid   any classes a vertex     − y log p − (1 − y) log(1 − p), p = 1 / (1 + e^−z)
    squared   numbers                  (z − y)²

A loss is the mean over labelled vertices (and their columns), so a rank needs to know how many
there are on all ranks. Each rank gives two sums, which travel behind the gradients.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Loss(ABC):
    """The base of the losses.

    Parameters
    ----------
    variance : float
        Mean squared distance of the targets to their mean, for R²; other losses do without.
    """

    name: ClassVar[str]
    score_name: ClassVar[str] = "accuracy"
    variance: float = 1.0

    @abstractmethod
    def sums(self, outputs: NDArray[Any], targets: NDArray[Any]) -> NDArray[np.float64]:
        """Summed loss, and summed hits (a loss of numbers: the loss again)."""

    @abstractmethod
    def gradient(self, outputs: NDArray[Any], targets: NDArray[Any]) -> NDArray[Any]:
        """Of the summed loss by the outputs, of their shape."""

    def predicted(self, outputs: NDArray[Any]) -> NDArray[Any]:
        """Probabilities, or the numbers themselves."""
        return outputs

    def score(self, sums: NDArray[np.float64], n_terms: int) -> float:
        """Accuracy, or R²."""
        return float(sums[1] / max(n_terms, 1))


@dataclass(frozen=True)
class SoftmaxLoss(Loss):
    """Cross-entropy of one class a vertex; targets are class numbers."""

    name = "softmax"

    def sums(self, outputs: NDArray[Any], targets: NDArray[Any]) -> NDArray[np.float64]:
        """− Σ log p[y], and how many are right."""
        logs = _log_softmax(outputs)
        chosen = logs[np.arange(len(targets)), targets].sum(dtype=np.float64)
        return np.array([-chosen, (outputs.argmax(axis=1) == targets).sum()], np.float64)

    def gradient(self, outputs: NDArray[Any], targets: NDArray[Any]) -> NDArray[Any]:
        """P − one-hot(y)."""
        logs = _log_softmax(outputs)
        gradient = np.exp(logs, out=logs)
        gradient[np.arange(len(targets)), targets] -= 1
        return gradient

    def predicted(self, outputs: NDArray[Any]) -> NDArray[Any]:
        """Probabilities of the classes."""
        return np.exp(_log_softmax(outputs.astype(np.float64)))


@dataclass(frozen=True)
class SigmoidLoss(Loss):
    """Cross-entropy of every class by itself; targets are 0 and 1."""

    name = "sigmoid"

    def sums(self, outputs: NDArray[Any], targets: NDArray[Any]) -> NDArray[np.float64]:
        """Σ log(1 + eᶻ) − y z, and how many are right."""
        losses = np.logaddexp(0, outputs) - targets * outputs
        right = ((outputs > 0) == (targets > 0)).sum()
        return np.array([losses.sum(dtype=np.float64), right], np.float64)

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

    def sums(self, outputs: NDArray[Any], targets: NDArray[Any]) -> NDArray[np.float64]:
        """Σ (z − y)², twice."""
        total = np.square(outputs - targets).sum(dtype=np.float64)
        return np.array([total, total])

    def gradient(self, outputs: NDArray[Any], targets: NDArray[Any]) -> NDArray[Any]:
        """2 (z − y)."""
        return 2 * (outputs - targets)

    def score(self, sums: NDArray[np.float64], n_terms: int) -> float:
        """1 − mean squared error / variance."""
        return 1 - float(sums[1] / max(n_terms, 1)) / self.variance if self.variance else 0.0


def _log_softmax(outputs: NDArray[Any]) -> NDArray[Any]:
    logs = outputs - outputs.max(axis=1, keepdims=True)
    logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
    return logs
