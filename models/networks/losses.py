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

from daskpart._floor.kernels import kernel


@dataclass(frozen=True)
class Loss(ABC):
    """The base of the losses."""

    name: ClassVar[str]
    score_name: ClassVar[str] = "accuracy"

    def n_sums(self, n_outputs: int) -> int:
        """How many sums there are, of so many outputs."""
        return 2

    def sums(
        self, outputs: NDArray[Any], targets: NDArray[Any], weight: NDArray[Any] | None = None
    ) -> NDArray[np.float64]:
        """Summed loss, and summed hits, of rows that count as much as their weights say."""
        return self.sums_and_gradient(outputs, targets, weight)[0]

    @abstractmethod
    def sums_and_gradient(
        self, outputs: NDArray[Any], targets: NDArray[Any], weight: NDArray[Any] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[Any]]:
        """Sums of rows by their weights; and without weights the gradient by the outputs."""

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

    def sums_and_gradient(
        self, outputs: NDArray[Any], targets: NDArray[Any], weight: NDArray[Any] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[Any]]:
        """Of − w[y] log p[y]. The gradient, w[y] (P − one-hot(y)), is of the same powers of e."""
        best, powers = _powers(outputs)
        losses, weights = np.empty(len(outputs), outputs.dtype), self.class_weights
        _to_gradient(powers, outputs, best, targets, np.array(weights, outputs.dtype), losses)
        return _summed(losses, best == targets, weight), powers

    def predicted(self, outputs: NDArray[Any]) -> NDArray[Any]:
        """Probabilities of the classes."""
        powers = _powers(outputs.astype(np.float64))[1]
        return powers / powers.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class SigmoidLoss(Loss):
    """Cross-entropy of every class by itself; targets are 0 and 1."""

    name = "sigmoid"

    def sums(
        self, outputs: NDArray[Any], targets: NDArray[Any], weight: NDArray[Any] | None = None
    ) -> NDArray[np.float64]:
        """Of log(1 + eᶻ) − y z; and of a row that is right in all columns a hit for each of them.

        So hits over losses are the share of such rows, which scikit-learn calls accuracy.
        """
        losses = np.logaddexp(0, outputs) - targets * outputs
        right = ((outputs > 0) == (targets > 0)).all(axis=1)
        return _summed(losses, right * targets.shape[1], weight)

    def sums_and_gradient(
        self, outputs: NDArray[Any], targets: NDArray[Any], weight: NDArray[Any] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[Any]]:
        """The gradient is p − y."""
        return self.sums(outputs, targets, weight), self.predicted(outputs) - targets

    def predicted(self, outputs: NDArray[Any]) -> NDArray[Any]:
        """Probabilities of the classes."""
        return 1 / (1 + np.exp(-np.clip(outputs, -60, 60)))


@dataclass(frozen=True)
class SquaredLoss(Loss):
    """Squared error; targets are numbers."""

    name = "squared"
    score_name = "r2"

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

    def sums_and_gradient(
        self, outputs: NDArray[Any], targets: NDArray[Any], weight: NDArray[Any] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[Any]]:
        """The gradient is 2 (z − y)."""
        return self.sums(outputs, targets, weight), 2 * (outputs - targets)

    def score(
        self, sums: NDArray[np.float64], n_terms: int, spreads: Sequence[float] = ()
    ) -> float:
        """R², the mean over columns; of a constant column 1 where all is right, else 0."""
        columns = zip(sums[1:].tolist(), spreads, strict=True)
        return float(np.mean([1 - wrong / of if of else float(not wrong) for wrong, of in columns]))


def _summed(
    losses: NDArray[Any], hits: NDArray[Any], weight: NDArray[Any] | None
) -> NDArray[np.float64]:
    """Sums over rows, by their weights."""
    if weight is not None:
        losses, hits = losses.T * weight, hits.T * weight
    return np.array([each.sum(dtype=np.float64) for each in (losses, hits)])


def _powers(outputs: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """The place of each row's largest output z, and e to the others less that one."""
    best = outputs.argmax(axis=1)
    powers = outputs - np.take_along_axis(outputs, best[:, None], axis=1)
    return best, np.exp(powers, out=powers)


@kernel(fastmath={"reassoc"})
def _to_gradient(powers, outputs, best, targets, weights, losses):
    """Make the powers of each row the gradient of its loss."""
    for i in range(powers.shape[0]):
        total, target = powers.dtype.type(0), targets[i]
        for j in range(powers.shape[1]):
            total += powers[i, j]
        weight = weights[target] if weights.size else powers.dtype.type(1)
        losses[i] = weight * (np.log(total) - (outputs[i, target] - outputs[i, best[i]]))
        share = weight / total
        for j in range(powers.shape[1]):
            powers[i, j] *= share
        powers[i, target] -= weight
