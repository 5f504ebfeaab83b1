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

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from daskpart.errors import InputError

from .communicator import Communicator, PerRank
from .exchange import Exchange, Payload, ValueInbox
from .hypercube import hypercube_edges
from .reduction import SUM, Reduction
from .swapping import Merge, SwapSteps


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
    exchanges, steps = _rounds(communicator.n_ranks, halving)
    return communicator.swap(exchanges, values, steps, label, reduction=reduction)


@cache
def _rounds(n_ranks: int, halving: bool) -> tuple[tuple[Exchange, ...], SwapSteps]:
    """Who sends to whom in every round, and what a rank does."""
    swaps = [Exchange(n_ranks, *edges) for edges in hypercube_edges(n_ranks)]
    n_corners = 1 << (n_ranks.bit_length() - 1)
    if not halving:
        merger = partial(_merger, n_corners=n_corners)
        combine = partial(_combine_whole, merger=merger)
        return tuple(swaps), SwapSteps(np.array, _pack_whole, combine, _given, merger)
    fold = n_corners < n_ranks  # a round before and one after
    inner = swaps[1:-1] if fold else swaps
    kinds = ["fold"] * fold + ["down"] * len(inner) + ["up"] * len(inner) + ["unfold"] * fold
    rounds = (*swaps[:fold], *inner, *inner[::-1], *swaps[len(swaps) - fold :])
    begin = partial(_begin, kinds=tuple(kinds))
    return rounds, SwapSteps(begin, _pack, _combine, _end, room=_room)


# -- doubling: between two rounds a rank has one array, the value so far ---


def _pack_whole(array: NDArray[Any], source: int, destination: int) -> Payload:
    array.flags.writeable = False  # so that messages take it uncopied
    return (array[None],)


def _combine_whole(
    array: NDArray[Any], inbox: ValueInbox, *, merger: Callable, reduction: Reduction
) -> NDArray[Any]:
    if not inbox.sources:
        return array
    source, other = inbox.sources[0], inbox.payloads[0][0][0]
    _require_alike(array, other, (inbox.rank, source), reduction, (array.shape, other.shape))
    return merger(array, inbox.rank, source, reduction=reduction)(array, other)


def _merger(
    array: NDArray[Any], rank: int, source: int, *, reduction: Reduction, n_corners: int
) -> Merge:
    """How a rank merges what it has with what comes: arrays of one shape and dtype."""
    if rank >= n_corners:  # folded onto a partner, which tells the result
        return Merge(None, comes_first=False)
    combine = reduction.combine
    if not _keeps(combine, array.dtype):
        return Merge(partial(_combined, reduction=reduction), comes_first=source < rank)
    whole = combine if array.ndim else partial(_combined, reduction=reduction)  # else a scalar
    return Merge(whole, comes_first=source < rank, ufunc=combine)


def _keeps(combine: Callable, dtype: np.dtype[Any]) -> TypeGuard[np.ufunc]:
    """Whether two arrays of this dtype surely combine to a third."""
    if not isinstance(combine, np.ufunc) or combine.nin != 2:
        return False
    return combine.resolve_dtypes((dtype, dtype, None))[-1] == dtype


# -- halving ---


@dataclass(eq=False, slots=True)
class _Held:
    """What a rank has between two rounds of halving.

    Attributes
    ----------
    shape : tuple of int
        Of the value that is reduced.
    array : ndarray
        The value so far, never changed; while pieces are split and joined, nothing but they count.
    kinds : tuple of str
        The rounds still to come.
    pieces : tuple of 1-d arrays
        Neighbouring pieces of the value, in order, never changed.
    bounds : tuple of (int, int)
        Where they begin and end in the value, now and before each half was given away.
    whole : 1-d array or None
        Where messages arrive in place: the value to be. It holds the pieces, then there is one.
    """

    shape: tuple[int, ...]
    array: NDArray[Any]
    kinds: tuple[str, ...]
    pieces: tuple[NDArray[Any], ...] = ()
    bounds: tuple[tuple[int, int], ...] = ()
    whole: NDArray[Any] | None = None

    def copy(self) -> _Held:
        """Its own to be overwritten; only where nothing arrives in place, so there is no whole."""
        return _Held(self.shape, self.array, self.kinds, self.pieces, self.bounds)

    def split(self, array: NDArray[Any]) -> None:
        """Begin to halve a value."""
        self.pieces, self.bounds = (array.reshape(-1),), ((0, array.size),)

    def half(self, upper: bool) -> tuple[int, int]:
        """Bounds of one half of what is held."""
        begin, end = self.bounds[-1]
        middle = begin + (end - begin) // 2
        return (middle, end) if upper else (begin, middle)

    def given_away(self, place: int = -1) -> tuple[int, int]:
        """Bounds of the half that was given away last, or at another place."""
        (begin, end), (own_begin, own_end) = self.bounds[place - 1], self.bounds[place]
        return (own_end, end) if own_begin == begin else (begin, own_begin)


def _begin(value: Any, *, kinds: tuple[str, ...]) -> _Held:
    if "down" not in kinds:  # of one rank: its own value
        return _Held(np.shape(value), np.array(value), kinds)
    # the neighbour answers a message only when it has it, so none is on its way when this is over
    array = _frozen(np.asarray(value).view())
    held = _Held(array.shape, array, kinds)
    held.split(array)
    return held


def _pack(held: _Held, source: int, destination: int) -> Payload:
    kind = held.kinds[0]
    if kind == "up":
        # not marked as never changing: it is part of the result
        return held.pieces if held.whole is None else (held.whole[slice(*held.bounds[-1])],)
    if kind == "down":
        return _half(held.pieces[0], destination > source), np.array(held.shape, np.int64)
    return (held.array[None],)


def _room(held: _Held, rank: int, source: int) -> tuple[NDArray[Any] | None, ...] | None:
    """Where a half that comes can lie in the whole value."""
    kind = held.kinds[0]
    if kind not in ("down", "up"):
        return None
    if held.whole is None:
        held.whole = np.empty(held.bounds[0][1], held.pieces[0].dtype)
        if kind == "up":
            np.concatenate(held.pieces, out=held.whole[slice(*held.bounds[-1])])
    if kind == "up":
        return (held.whole[slice(*held.given_away())],)
    begin, end = held.half(upper=source < rank)
    if len(held.bounds) > 1:  # its place holds our own half: it goes where nothing is until the end
        free = held.given_away(1)[0]
        begin, end = free, free + end - begin
    return held.whole[begin:end], None


def _combine(held: _Held, inbox: ValueInbox, *, reduction: Reduction) -> _Held:
    kind, held.kinds = held.kinds[0], held.kinds[1:]
    if inbox.sources:
        payload, above = inbox.payloads[0], inbox.sources[0] > inbox.rank
        if kind == "up":
            _join(held, payload, above)
        elif kind == "down":
            _halve(held, payload, inbox, reduction)
        elif kind == "unfold":
            held.array = payload[0][0]
        else:
            own, other = held.array, payload[0][0]
            ranks, shapes = (inbox.rank, inbox.sources[0]), (held.shape, other.shape)
            _require_alike(own, other, ranks, reduction, shapes)
            pair = (own, other) if above else (other, own)
            held.array = _combined(*pair, reduction=reduction)
            if held.kinds[:1] == ("down",):
                held.split(held.array)
    if kind == "up" and held.kinds[:1] != ("up",) and held.pieces:
        flat = np.concatenate(held.pieces) if held.whole is None else held.whole
        held.array, held.pieces, held.whole = flat.reshape(held.shape), (), None
    if held.kinds:
        _frozen(held.array)
    return held


def _halve(held: _Held, payload: Payload, inbox: ValueInbox, reduction: Reduction) -> None:
    """Keep one half of what is held, combined with the neighbour's."""
    upper = inbox.sources[0] < inbox.rank
    own, shapes = _half(held.pieces[0], upper), (held.shape, tuple(payload[1].tolist()))
    _require_alike(own, payload[0], (inbox.rank, inbox.sources[0]), reduction, shapes)
    held.bounds += (held.half(upper),)
    out = None if held.whole is None else held.whole[slice(*held.bounds[-1])]
    pair = (payload[0], own) if upper else (own, payload[0])
    held.pieces = (_frozen(_combined(*pair, reduction=reduction, out=out)),)


def _join(held: _Held, payload: Payload, above: bool) -> None:
    """Take back the half that was given away, now combined."""
    given = held.given_away()
    held.bounds = held.bounds[:-1]
    if held.whole is None:
        pieces = (*held.pieces, *payload) if above else (*payload, *held.pieces)
        held.pieces = pieces if len(pieces) < 16 else (np.concatenate(pieces),)
        return
    if payload[0].base is not held.whole:  # it did not arrive in place
        np.concatenate(payload, out=held.whole[slice(*given)])
    held.pieces = (_frozen(held.whole[slice(*held.bounds[-1])]),)


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


def _combined(
    low: NDArray[Any],
    high: NDArray[Any],
    *,
    reduction: Reduction,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Values of the lower rank and of the higher one, in the dtype that both have."""
    if out is None:
        return np.asarray(reduction.combine(low, high), dtype=low.dtype)
    if isinstance(reduction.combine, np.ufunc):
        return reduction.combine(low, high, out=out)
    out[...] = reduction.combine(low, high)
    return out


def _half(piece: NDArray[Any], upper: bool) -> NDArray[Any]:
    middle = len(piece) // 2
    return piece[middle:] if upper else piece[:middle]


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Marked as never changing, so that messages take it uncopied."""
    array.flags.writeable = False
    return array


def _end(held: _Held, given: Any) -> Any:
    return _given(held.array, given)


def _given(array: NDArray[Any], given: Any) -> Any:
    """The result in the form in which the value was given."""
    if not isinstance(given, np.ndarray):
        return array.item()
    # what arrived, or was sent, belongs to another rank too
    return array if array.flags.writeable else array.copy()
