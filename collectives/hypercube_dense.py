"""The dense allreduce on a hypercube: all ranks end with the same bits.

    doubling, log2 K rounds                             halving, 2·log2 K rounds
    bit 0    0 ◀─▶ 1    2 ◀─▶ 3   a0+a1   a2+a3         each sends half of what it has, keeps half;
    bit 1    0 ◀─▶ 2    1 ◀─▶ 3   (a0+a1)+(a2+a3)       then the same way back, to join the pieces

In a round a rank and its neighbour swap what they have and combine it, the lower rank's value
first: both compute the same expression. Halving computes that expression too, element by element,
so its bits are those of doubling; a rank sends 2N(K - 1)/K values in place of N·log2 K, which pays
for long arrays. Other K: the ranks beyond the largest power of two add theirs to a partner's
first, and are told the result last. Against the star of `allreduce` (2·(K - 1) messages, all of
them at rank 0) no rank is hot.

Renggli, "Efficient Sparse AllReduce for Scalable Machine Learning" (2017), §3.3.1, calls the two
recursive doubling and Rabenseifner's algorithm.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.errors import InputError

from .communicator import Communicator, PerRank
from .exchange import Exchange, Payload, ValueInbox
from .hypercube import hypercube_edges
from .reduction import SUM, Reduction


def hypercube_allreduce(
    communicator: Communicator,
    values: PerRank,
    reduction: Reduction = SUM,
    label: str = "hypercube allreduce",
    *,
    halving: bool = False,
) -> PerRank:
    """Combine one value a rank; every rank holds the result, the same to the bit.

    Parameters
    ----------
    communicator : Communicator
    values : PerRank of numbers or arrays
        Equal in shape and dtype on all ranks.
    reduction : Reduction
        Values combine in the order of the hypercube, so the last bits may differ from those of
        `allreduce`, which combines one rank after another.
    label : str
        Name of the rounds in `counters`. A message of doubling counts as one row; of halving only
        messages and bytes mean something.
    halving : bool
        For long arrays, from some 10 kB on: twice the messages, fewer bytes.

    Returns
    -------
    PerRank
        Arrays, or plain numbers if the ranks gave numbers.

    Raises
    ------
    InputError
        If the ranks disagree on shape or dtype; names two that do.
    """
    kinds, exchanges = _rounds(communicator.n_ranks, halving)
    held = communicator.map(_begin, values, kinds=kinds)
    held = communicator.swap(exchanges, held, _pack, _combine, label, reduction=reduction)
    return communicator.map(_end, held, values)


@cache
def _rounds(n_ranks: int, halving: bool) -> tuple[tuple[str, ...], tuple[Exchange, ...]]:
    """Kind of every round, and who sends to whom in it."""
    swaps = [Exchange(n_ranks, *edges) for edges in hypercube_edges(n_ranks)]
    if n_ranks == 1:
        return (), ()
    folds, fold_in, fold_out = [], swaps[:0], swaps[:0]
    if n_ranks & (n_ranks - 1):
        folds, fold_in, fold_out, swaps = ["fold"], swaps[:1], swaps[-1:], swaps[1:-1]
    kinds, ways = ["swap"] * len(swaps), swaps
    if halving:
        kinds, ways = ["down"] * len(swaps) + ["up"] * len(swaps), swaps + swaps[::-1]
    unfolds = ["unfold"] * len(folds)
    return (*folds, *kinds, *unfolds), (*fold_in, *ways, *fold_out)


@dataclass(frozen=True, eq=False)
class _Held:
    """What a rank has between two rounds; its arrays never change.

    Attributes
    ----------
    whole_shape : tuple of int
        Of the value that is reduced.
    array : ndarray
        The value so far; while pieces are split and joined, nothing but them counts.
    kinds : tuple of str
        The rounds still to come.
    pieces : tuple of 1-d arrays
        Of halving: neighbouring pieces of the value, in order.
    """

    whole_shape: tuple[int, ...]
    array: NDArray[Any]
    kinds: tuple[str, ...]
    pieces: tuple[NDArray[Any], ...] = field(default=())

    def copy(self) -> _Held:
        """Itself, as it never changes."""
        return self


def _begin(value: Any, *, kinds: tuple[str, ...]) -> _Held:
    # Doubling: a copy, as a message may leave after the text has changed its value. Halving: the
    # neighbour answers a message only when it has it, so none is on its way when this is over.
    array = np.asarray(value).view() if "down" in kinds else np.array(value)
    held = _Held(array.shape, _frozen(array), kinds)
    return replace(held, pieces=(array.reshape(-1),)) if "down" in kinds else held


def _pack(held: _Held, source: int, destination: int) -> Payload:
    kind = held.kinds[0]
    if kind == "up":
        return held.pieces
    if kind == "down":
        return _half(held.pieces[0], destination > source), np.array(held.whole_shape, np.int64)
    return (held.array[None],)


def _combine(held: _Held, inbox: ValueInbox, *, reduction: Reduction) -> _Held:
    kind, rest = held.kinds[0], held.kinds[1:]
    if inbox.sources:
        payload, above = inbox.payloads[0], inbox.sources[0] > inbox.rank
        if kind == "up":
            pieces = (*held.pieces, *payload) if above else (*payload, *held.pieces)
            held = replace(held, pieces=pieces if len(pieces) < 16 else (np.concatenate(pieces),))
        elif kind == "down":
            own = _half(held.pieces[0], not above)
            shapes = held.whole_shape, tuple(payload[1].tolist())
            own = _frozen(_combined(own, payload[0], inbox, reduction, shapes))
            held = replace(held, pieces=(own,))
        elif kind == "unfold":
            held = replace(held, array=payload[0][0])
        else:
            other = payload[0][0]
            shapes = held.whole_shape, other.shape
            held = replace(held, array=_combined(held.array, other, inbox, reduction, shapes))
            if rest[:1] == ("down",):
                held = replace(held, pieces=(held.array.reshape(-1),))
    if kind == "up" and rest[:1] != ("up",) and held.pieces:
        held = replace(held, array=_joined(held), pieces=())
    if rest:
        _frozen(held.array)
    return replace(held, kinds=rest)


def _combined(
    own: NDArray[Any],
    other: NDArray[Any],
    inbox: ValueInbox,
    reduction: Reduction,
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
) -> NDArray[Any]:
    """The lower rank's values first, in the dtype that both have."""
    source, rank = inbox.sources[0], inbox.rank
    if shapes[0] != shapes[1] or own.dtype != other.dtype:
        sides = sorted([(rank, shapes[0], own.dtype), (source, shapes[1], other.dtype)])
        raise InputError(
            f"Ranks {sides[0][0]} and {sides[1][0]} disagree in an allreduce ({reduction.name}): "
            f"shape {sides[0][1]} and dtype {sides[0][2]} against {sides[1][1]} and {sides[1][2]}."
        )
    low, high = (other, own) if source < rank else (own, other)
    return np.asarray(reduction.combine(low, high), dtype=own.dtype)


def _half(piece: NDArray[Any], upper: bool) -> NDArray[Any]:
    middle = len(piece) // 2
    return piece[middle:] if upper else piece[:middle]


def _joined(held: _Held) -> NDArray[Any]:
    return np.concatenate(held.pieces).reshape(held.whole_shape)


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Marked as never changing, so that messages take it uncopied."""
    array.flags.writeable = False
    return array


def _end(held: _Held, given: Any) -> Any:
    if not isinstance(given, np.ndarray):
        return held.array.item()
    # what arrived, or was sent, belongs to another rank too
    return held.array if held.array.flags.writeable else held.array.copy()
