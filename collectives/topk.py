"""TopK with error feedback: send the largest entries of a gradient, keep the rest for later.

    gradient + residual    ‥3‥-7‥1‥‥2‥
    sent (k = 2)           ‥3‥-7‥‥‥‥‥‥     a Stream, for a sparse allreduce
    residual after         ‥‥‥‥‥‥1‥‥2‥     added to the next gradient: nothing is lost

Renggli 2017 §2.4, algorithm 3. `TopK` sends exactly the k largest magnitudes, of the whole gradient
or of every bucket; `ApproximateTopK` draws each entry by the probability of §2.4.1, so that k are
sent in expectation and only two norms look at the whole vector. A gradient with at most k nonzeros
is sent whole: then this is plain SGD, bit for bit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from daskpart._floor.checks import whole_number
from daskpart.errors import InputError

from .communicator import Communicator, PerRank, collective
from .kernels_sparse import largest_of_buckets
from .reduction import SUM
from .sparse_allreduce import sparse_allreduce
from .stream import Stream, stream_of

_FEW = 64  # of so many, each candidate finds its place among the others one by one


@dataclass(frozen=True, eq=False)
class Feedback:
    """What a rank has not sent yet.

    Attributes
    ----------
    residual : float array of shape (size,)
    rank : int
        Ranks draw differently.
    step : int
        Gradients compressed so far; steps draw differently.
    """

    residual: NDArray[Any] = field(repr=False)
    rank: int = 0
    step: int = 0

    @classmethod
    def zeros(cls, size: int, dtype: DTypeLike = np.float32, rank: int = 0) -> Feedback:
        """Of a rank that has sent everything of gradients of this size and dtype."""
        return cls(np.zeros(size, dtype), rank)


class Compressor(Protocol):
    """What `topk_allreduce` takes: `TopK`, `ApproximateTopK`, or your own.

    ``compress(gradient, feedback)`` gives what to send, and the feedback after; it changes neither
    argument.
    """

    def compress(self, gradient: Any, feedback: Feedback) -> tuple[Stream, Feedback]: ...


class _Selection(ABC):
    """What `TopK` and `ApproximateTopK` share: they say which entries are `selected`."""

    k: int
    bucket: int | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", whole_number(self.k, "k", 1))
        if self.bucket is not None:
            object.__setattr__(self, "bucket", whole_number(self.bucket, "bucket", 1))

    def compress(self, gradient: Any, feedback: Feedback) -> tuple[Stream, Feedback]:
        """Gradient and residual added; what is selected as a stream, the rest as residual."""
        values = _added(gradient, feedback)
        chosen = self.selected(values, feedback)
        cuts = gradient.cuts if isinstance(gradient, Stream) else ()
        sent = stream_of((chosen, values[chosen], len(values))).cut_at(cuts)
        values[chosen] = 0
        return sent, Feedback(values, feedback.rank, feedback.step + 1)

    def _buckets(self, values: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
        """Where each begins, and its values."""
        length = self.bucket or max(len(values), 1)
        for begin in range(0, len(values), length):
            yield begin, values[begin : begin + length]

    @abstractmethod
    def selected(self, values: NDArray[Any], feedback: Feedback | None = None) -> NDArray[np.int64]:
        """Indices of what is sent of gradient and residual added, rising.

        The rank and step of `feedback` count where chance has a part in it.
        """


@dataclass(frozen=True)
class TopK(_Selection):
    """The k largest magnitudes, exactly.

    Parameters
    ----------
    k : int
        Entries sent; of each bucket if there are buckets. Among equal magnitudes the lower index
        goes first.
    bucket : int, optional
        Length of a bucket (the last one may be shorter). Default: the whole gradient. Buckets
        spread what is sent over the layers of a model.

    Raises
    ------
    InputError
        If k or bucket is not positive.
    """

    k: int
    bucket: int | None = None

    def selected(self, values: NDArray[Any], feedback: Feedback | None = None) -> NDArray[np.int64]:
        """Indices of what is sent, rising; never a zero."""
        if self.k <= _FEW:
            length = self.bucket or max(len(values), 1)
            most = -(-len(values) // length) * min(self.k, length)
            chosen = np.empty(most, np.int64)
            return chosen[: largest_of_buckets(values, length, self.k, chosen)].copy()
        parts = [begin + _largest(of, self.k) for begin, of in self._buckets(values)]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)


@dataclass(frozen=True)
class ApproximateTopK(_Selection):
    """Each entry by chance, the larger the likelier; k in expectation.

    Parameters
    ----------
    k : int
        Entries selected in expectation, where the gradient has more than k nonzeros. Selected
        zeros have nothing to send.
    random_state : int
        With the rank and the step it fixes what is drawn.
    bucket : int, optional
        As of `TopK`: k are selected of each bucket.

    Raises
    ------
    InputError
        If k or bucket is not positive, or random_state no count.
    """

    k: int
    random_state: int = 0
    bucket: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        seed = whole_number(self.random_state, "random_state", 0, 2**63)
        object.__setattr__(self, "random_state", seed)

    def probabilities(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Of each entry (§2.4.1); their sum is k, or all nonzeros are certain if they are fewer."""
        parts = [self._of_bucket(of) for _, of in self._buckets(values)]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _of_bucket(self, values: NDArray[Any]) -> NDArray[np.float64]:
        magnitudes = np.abs(values).astype(np.float64)
        total, largest = magnitudes.sum(), magnitudes.max(initial=0.0)
        if np.count_nonzero(magnitudes) <= self.k:
            return (magnitudes > 0).astype(np.float64)
        if self.k * largest <= total:
            return self.k * magnitudes / total
        # every entry is lifted by so much that the largest one is certain
        lift = (self.k * largest - total) / (len(values) - self.k)
        return np.minimum(self.k * (magnitudes + lift) / (total + len(values) * lift), 1.0)

    def selected(self, values: NDArray[Any], feedback: Feedback | None = None) -> NDArray[np.int64]:
        """Indices of what is drawn for the rank and step of the feedback, rising."""
        rank, step = (0, 0) if feedback is None else (feedback.rank, feedback.step)
        random = np.random.default_rng([self.random_state, rank, step])
        return np.flatnonzero(random.random(len(values)) < self.probabilities(values))


@collective
def topk_allreduce(
    communicator: Communicator,
    compressor: Compressor,
    gradients: PerRank,
    feedback: PerRank,
    **options: Any,
) -> tuple[PerRank, PerRank]:
    """The sum over all ranks of what they send, on every rank, and what they kept.

    Parameters
    ----------
    communicator : Communicator
    compressor : TopK, ApproximateTopK, or alike
    gradients : PerRank
        1-d float arrays, or what `stream_of` takes; of equal size and dtype. Not spent.
    feedback : PerRank of Feedback
        See `start_feedback`. Not spent.
    **options
        Of `sparse_allreduce`.

    Returns
    -------
    total : PerRank of Stream
    feedback : PerRank of Feedback
        For the next step.
    """
    sent, feedback = topk_select(communicator, compressor, gradients, feedback)
    return sparse_allreduce(communicator, sent, SUM, **options), feedback


def topk_select(
    communicator: Communicator, compressor: Compressor, gradients: PerRank, feedback: PerRank
) -> tuple[PerRank, PerRank]:
    """What each rank sends, a `Stream`, and the feedback after: `topk_allreduce` without the sum.

    Parameters are those of `topk_allreduce`.
    """
    pairs = communicator.map(compressor.compress, gradients, feedback)
    return communicator.map(itemgetter(0), pairs), communicator.map(itemgetter(1), pairs)


def start_feedback(communicator: Communicator, size: int, dtype: DTypeLike = np.float32) -> PerRank:
    """A `Feedback` a rank for gradients of a size, before the first step.

    Parameters
    ----------
    communicator : Communicator
    size : int
        Numbers of a gradient.
    dtype : dtype
        float32 or float64, as the gradients.

    Returns
    -------
    PerRank of Feedback
        With residuals of zero.
    """
    size = whole_number(size, "size", 0, 2**62)
    ranks = communicator.values(list(range(communicator.n_ranks)))
    return communicator.map(partial(Feedback.zeros, size, np.dtype(dtype)), ranks)


def _added(gradient: Any, feedback: Feedback) -> NDArray[Any]:
    """Gradient plus residual, as a new array."""
    stream = stream_of(gradient)
    residual = feedback.residual
    if stream.size != len(residual) or stream.values.dtype != residual.dtype:
        raise InputError(
            f"Rank {feedback.rank} has a gradient of size {stream.size} and dtype "
            f"{stream.values.dtype}, but a residual of size {len(residual)} and {residual.dtype}."
        )
    if stream.values.dtype.kind != "f":
        raise InputError(f"Gradients are floats; rank {feedback.rank} has {stream.values.dtype}.")
    wrong = np.count_nonzero(~np.isfinite(stream.values))
    if wrong:
        raise InputError(f"{wrong} values of the gradient of rank {feedback.rank} are not finite.")
    if stream.indices is None:
        return residual + stream.values
    values = residual.copy()
    values[stream.indices.astype(np.int64)] += stream.values
    return values


def _largest(values: NDArray[Any], k: int) -> NDArray[np.int64]:
    """Indices of the k largest magnitudes that are not zero, rising."""
    places = np.flatnonzero(values)
    if len(places) <= k:
        return places
    magnitudes = np.abs(values[places])
    threshold = np.partition(magnitudes, len(magnitudes) - k)[len(magnitudes) - k]
    above = magnitudes > threshold
    equal = np.flatnonzero(magnitudes == threshold)[: k - np.count_nonzero(above)]
    above[equal] = True
    return places[above]
