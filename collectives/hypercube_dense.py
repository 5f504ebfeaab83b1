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

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.errors import InputError

from .communicator import Communicator, PerRank, collective
from .hypercube import hypercube_edges
from .large_arrays import empty_array
from .messages import Exchange, Payload, ValueInbox
from .reduction import SUM, Reduction


@collective
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
        For long arrays, from some 300 kB on: twice the messages, fewer bytes.

    Returns
    -------
    PerRank
        Arrays, or plain numbers if the ranks gave numbers.

    Raises
    ------
    InputError
        If the ranks disagree on shape or dtype; names two that do.
    """
    algorithm = _halving if halving else _doubling
    return algorithm(communicator, values, reduction, label)


@cache
def _neighbours(n_ranks: int) -> tuple[Exchange, ...]:
    """Who swaps with whom in every round; other K: the first folds, the last unfolds."""
    return tuple(Exchange(n_ranks, *edges) for edges in hypercube_edges(n_ranks))


def _n_corners(n_ranks: int) -> int:
    return 1 << (n_ranks.bit_length() - 1)


# -- doubling: between two rounds a rank has one array, the value so far ---


def _doubling(
    communicator: Communicator, values: PerRank, reduction: Reduction, label: str
) -> PerRank:
    n_corners = _n_corners(communicator.n_ranks)
    state = communicator.map(np.array, values)
    for index, exchange in enumerate(_neighbours(communicator.n_ranks)):
        pending = communicator.post_values(exchange, state, _pack_whole, label, index)
        state = communicator.collect(
            pending, state, _combine_whole, reduction=reduction, n_corners=n_corners
        )
    return communicator.map(_as_given, state, values)


def _pack_whole(array: NDArray[Any], source: int, destination: int) -> Payload:
    array.flags.writeable = False  # so that messages take it uncopied
    return (array[None],)


def _combine_whole(
    array: NDArray[Any], inbox: ValueInbox, *, reduction: Reduction, n_corners: int
) -> NDArray[Any]:
    if not inbox.sources:
        return array
    source, other = inbox.sources[0], inbox.payloads[0][0][0]
    _require_alike(array, other, (inbox.rank, source), reduction, (array.shape, other.shape))
    if inbox.rank >= n_corners:  # folded onto a partner, which tells the result
        return other
    pair = (other, array) if source < inbox.rank else (array, other)
    return _combined(*pair, reduction=reduction)


# -- halving: first down to one piece a rank, then up again ---


@dataclass(eq=False, slots=True)
class _Piece:
    """What a rank has between two rounds of halving.

    Attributes
    ----------
    shape : tuple of int
        Of the value that is reduced.
    flat : 1-d array
        The piece of the value that the rank holds now; never changed once it was sent.
    bounds : tuple of (int, int)
        Where it begins and ends in the value, now and before each half was given away.
    whole : 1-d array or None
        On the way up: room for the value, which pieces are put into.
    """

    shape: tuple[int, ...]
    flat: NDArray[Any]
    bounds: tuple[tuple[int, int], ...]
    whole: NDArray[Any] | None = None

    def copy(self) -> _Piece:
        """Its own to be overwritten."""
        return replace(self, whole=None if self.whole is None else self.whole.copy())


def _halving(
    communicator: Communicator, values: PerRank, reduction: Reduction, label: str
) -> PerRank:
    n_ranks = communicator.n_ranks
    rounds = _neighbours(n_ranks)
    folds = _n_corners(n_ranks) < n_ranks
    inner = rounds[1:-1] if folds else rounds
    steps = [(exchange, _pack_half, _keep_half) for exchange in inner]
    steps += [(exchange, _pack_piece, _join_pieces) for exchange in inner[::-1]]
    if folds:
        first, last = (rounds[0], _pack_value, _fold_in), (rounds[-1], _pack_value, _take_result)
        steps = [first, *steps, last]
    state = communicator.map(_first_piece, values)
    for index, (exchange, pack, combine) in enumerate(steps):
        pending = communicator.post_values(exchange, state, pack, label, index)
        state = communicator.collect(pending, state, combine, reduction=reduction)
    return communicator.map(_end, state, values)


def _first_piece(value: Any) -> _Piece:
    # not copied: a neighbour answers only when it has what was sent, so when this is over nothing
    # is on its way
    array = np.asarray(value).view()
    array.flags.writeable = False
    return _Piece(array.shape, array.reshape(-1), ((0, array.size),))


def _halves(bounds: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
    begin, end = bounds
    middle = begin + (end - begin) // 2
    return (begin, middle), (middle, end)


def _pack_half(piece: _Piece, source: int, destination: int) -> Payload:
    middle = len(piece.flat) // 2
    half = piece.flat[middle:] if destination > source else piece.flat[:middle]
    return half, np.array(piece.shape, np.int64)


def _keep_half(piece: _Piece, inbox: ValueInbox, *, reduction: Reduction) -> _Piece:
    """Keep one half of what is held, combined with the neighbour's."""
    if not inbox.sources:
        return piece
    other, shape = inbox.payloads[0]
    source, upper = inbox.sources[0], inbox.sources[0] < inbox.rank
    middle = len(piece.flat) // 2
    own = piece.flat[middle:] if upper else piece.flat[:middle]
    shapes = (piece.shape, tuple(shape.tolist()))
    _require_alike(own, other, (inbox.rank, source), reduction, shapes)
    kept = _combined(*((other, own) if upper else (own, other)), reduction=reduction)
    kept.flags.writeable = False
    bounds = (*piece.bounds, _halves(piece.bounds[-1])[upper])
    return _Piece(piece.shape, kept, bounds)


def _pack_piece(piece: _Piece, source: int, destination: int) -> Payload:
    return (piece.flat,)


def _join_pieces(piece: _Piece, inbox: ValueInbox, *, reduction: Reduction) -> _Piece:
    """Take back the half that was given away, now combined."""
    if not inbox.sources:
        return piece
    (begin, end), whole = piece.bounds[-1], piece.whole
    if whole is None:
        whole = empty_array(piece.bounds[0][1], piece.flat.dtype)
        whole[begin:end] = piece.flat
    given_away = _halves(piece.bounds[-2])[inbox.sources[0] > inbox.rank]
    whole[slice(*given_away)] = inbox.payloads[0][0]
    # not marked as never changing, so messages copy it: it is part of the result
    return _Piece(piece.shape, whole[slice(*piece.bounds[-2])], piece.bounds[:-1], whole)


def _pack_value(piece: _Piece, source: int, destination: int) -> Payload:
    return (piece.flat.reshape(piece.shape)[None],)


def _fold_in(piece: _Piece, inbox: ValueInbox, *, reduction: Reduction) -> _Piece:
    """Combine the whole value of a rank beyond the hypercube with the own."""
    if not inbox.sources:
        return piece
    other = inbox.payloads[0][0][0]
    ranks, shapes = (inbox.rank, inbox.sources[0]), (piece.shape, other.shape)
    _require_alike(piece.flat, other, ranks, reduction, shapes)
    flat = _combined(piece.flat, other.reshape(-1), reduction=reduction)
    flat.flags.writeable = False
    return replace(piece, flat=flat)


def _take_result(piece: _Piece, inbox: ValueInbox, *, reduction: Reduction) -> _Piece:
    return replace(piece, flat=inbox.payloads[0][0].reshape(-1)) if inbox.sources else piece


def _end(piece: _Piece, given: Any) -> Any:
    return _as_given(piece.flat.reshape(piece.shape), given)


# -- what both share ---


def _require_alike(
    own: NDArray[Any],
    other: NDArray[Any],
    ranks: tuple[int, int],
    reduction: Reduction,
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    """`ranks` are own and other, `shapes` those of the whole values."""
    if shapes[0] != shapes[1] or own.dtype != other.dtype:
        sides = sorted([(ranks[0], shapes[0], own.dtype), (ranks[1], shapes[1], other.dtype)])
        raise InputError(
            f"Ranks {sides[0][0]} and {sides[1][0]} disagree in an allreduce ({reduction.name}): "
            f"shape {sides[0][1]} and dtype {sides[0][2]} against {sides[1][1]} and {sides[1][2]}."
        )


def _combined(low: NDArray[Any], high: NDArray[Any], *, reduction: Reduction) -> NDArray[Any]:
    """Values of the lower rank and of the higher one, in the dtype that both have."""
    return np.asarray(reduction.combine(low, high), dtype=low.dtype)


def _as_given(array: NDArray[Any], given: Any) -> Any:
    """The result in the form in which the value was given."""
    if not isinstance(given, np.ndarray):
        return array.item()
    # what arrived, or was sent, belongs to another rank too
    return array if array.flags.writeable else array.copy()
