"""Every sparse allreduce as a list of steps: one nested butterfly, cut and joined in layers.

    ranks 0 … 7, N cut into 8 ranges          down, degrees 4 · 2       up, degrees 2 · 2 · 2

    split   down by degree d: teams of d ranks that hold the same range cut it into d parts, each
            sends part j to its member j, and combines what it gets in rank order
    join    up by degree d: the same teams send each other what they have, and concatenate
    swap    partners at distance 1, 2, 4, … exchange all they have, and combine
    ring    P − 1 rounds, each to the next neighbour
    fold    ranks beyond the largest power of two give theirs to a partner first, and get the
            result last (Renggli 2017 §3.1.4)

    ssar-recursive-doubling         swap 1, 2, … Q/2                               fig. 3.9
    ssar-split-allgather            split Q, join 4 · 4 · …                        fig. 3.11
    dsar-split-allgather-doubling   split Q, dense, join 4 · 4 · …                 §3.3.4
    dsar-split-allgather-ring       split P, dense, ring                           §3.3.4
    dsar-early-switching            split g, dense, split 2 · …, join 2 · 2 · …    fig. 3.12
    dense-recursive-doubling        dense, swap 1, 2, …                            §3.3.1
    dense-rabenseifner              dense, split 2 · 2 · …, join 2 · 2 · …         fig. 3.8
    dense-ring                      dense, ring down, ring up                      fig. 3.7
    butterfly                       split d1 · d2 · …, join … · d2 · d1            Kylix, §1.1

Q is the largest power of two within P, the number of ranks. Where the thesis doubles after a split
(join 2 · 2 · …) two doublings are done at once, and one by itself if their number is odd: the same
bytes in half of the rounds and with less copying, for three messages in place of two. The same
list is run on a communicator (`sparse_allreduce`), priced (`cost_model`) and simulated
(`simulator`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.checks import several, whole_number
from daskpart.errors import InputError

ALGORITHMS = (
    "ssar-recursive-doubling",
    "ssar-split-allgather",
    "dsar-split-allgather-doubling",
    "dsar-split-allgather-ring",
    "dsar-early-switching",
    "dense-recursive-doubling",
    "dense-rabenseifner",
    "dense-ring",
    "butterfly",
)
LOCAL_KINDS = ("dense", "unring")  # steps without messages


@dataclass(frozen=True)
class Step:
    """One step on all ranks."""

    # "split", "join", "swap", "fold", "unfold", "ring-down", "ring-up"; without messages "dense"
    # and "unring"
    kind: str
    n_parts: int  # ranks that take part, and ranges that the vector is cut into
    degree: int = 1  # size of a team; of a ring step, its number
    span: int = 1  # ranges that a rank holds after a split, before a join; distance of a swap
    # of splits and joins by 2: the first split is between neighbours, not between ranks that are
    # P/2 apart, so that values combine in the order of swaps; ranges are then in order of the
    # ranks' bits, read backwards
    nearest_first: bool = False
    # ranges are cut where the vector says (`Stream.cuts`), if it does, so that each holds as many
    # entries; they are else as long as each other
    by_entries: bool = False


def require_free_choice(group: int | None, degrees: Sequence[int] | None) -> None:
    """Raise InputError where "auto" is to choose options that are given."""
    for name, value in (("group", group), ("degrees", degrees)):
        if value is not None:
            raise InputError(
                f"{name}={value!r} goes with the algorithm that takes it; 'auto' chooses both: "
                "name the algorithm, or leave it out."
            )


def steps_of(
    algorithm: str, n_ranks: int, group: int | None = None, degrees: Sequence[int] | None = None
) -> tuple[Step, ...]:
    """The steps of one of `ALGORITHMS`; InputError for another, or options that do not fit.

    `group` is of "dsar-early-switching", ranks of a group: a power of two, by default 8, or what
    fits; `degrees` are of "butterfly", those of the layers, whose product is `n_ranks`: by default
    its prime factors, largest first.
    """
    if algorithm not in ALGORITHMS:
        raise InputError(f"algorithm={algorithm!r}; allowed are auto, {', '.join(ALGORITHMS)}.")
    if group is not None and algorithm != "dsar-early-switching":
        raise InputError(f"group={group!r} is for dsar-early-switching, not for {algorithm}.")
    if degrees is not None and algorithm != "butterfly":
        raise InputError(f"degrees={degrees!r} are for butterfly, not for {algorithm}.")
    layers = _checked_degrees(n_ranks, degrees) if algorithm == "butterfly" else ()
    return _steps(algorithm, n_ranks, _checked_group(n_ranks, group), layers)


@cache  # who adds up vectors step after step asks for the same again and again
def _steps(algorithm: str, n_ranks: int, group: int, degrees: tuple[int, ...]) -> tuple[Step, ...]:
    core = core_of(n_ranks)
    dense = [Step("dense", core)] if algorithm.startswith("dense") else []
    if algorithm == "butterfly":
        return *_splits(n_ranks, degrees), *_joins(n_ranks, degrees)
    ring = [*_ring(n_ranks, "ring-up"), Step("unring", n_ranks)] if n_ranks > 1 else []
    if algorithm == "dense-ring":
        return *dense, *_ring(n_ranks, "ring-down"), *ring
    if algorithm == "dsar-split-allgather-ring":
        return *_splits(n_ranks, [n_ranks]), Step("dense", n_ranks), *ring
    steps = _core_steps(algorithm, core, group)
    if core == n_ranks:
        return *dense, *steps
    return *dense, Step("fold", core), *steps, Step("unfold", core)


def core_of(n_ranks: int) -> int:
    """The largest power of two within the number of ranks."""
    return 1 << (n_ranks.bit_length() - 1)


def pairs_of(step: Step, n_ranks: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Sources and destinations of a step's messages, in order of (source, destination)."""
    ranks, folded = np.arange(step.n_parts), np.arange(step.n_parts, n_ranks)
    if step.kind == "fold":
        return folded, folded - step.n_parts
    if step.kind == "unfold":
        return folded - step.n_parts, folded
    if step.kind == "swap":
        return ranks, ranks ^ step.span
    if step.kind.startswith("ring"):
        return ranks, (ranks + 1) % step.n_parts
    if step.nearest_first:
        return ranks, ranks ^ (step.n_parts // step.span // 2)
    reach = step.span * step.degree  # a team: ranks that cut, or join, the same range
    first = ranks // reach * reach + ranks % step.span
    members = first[:, None] + step.span * np.arange(step.degree)
    return np.repeat(ranks, step.degree - 1), members[members != ranks[:, None]]


def range_sent(
    step: Step, size: int, source: Any, destination: Any, cuts: Sequence[int]
) -> tuple[Any, Any]:
    """The range of a vector of `size` that a message carries, of one message or of arrays."""
    if step.kind in ("fold", "unfold", "swap"):
        return 0, size
    if step.kind.startswith("ring"):
        source = source - step.degree - (step.kind == "ring-down")
    return range_of(step, size, destination if step.kind == "split" else source, cuts)


def range_of(step: Step, size: int, rank: Any, cuts: Sequence[int] = ()) -> tuple[Any, Any]:
    """The range that a rank, or each of an array, holds when it holds `step.span` of the parts.

    `cuts` are the bounds of the parts, for steps that are `by_entries`.
    """
    place = rank % step.n_parts
    if step.nearest_first:
        place = _bits_backwards(place, step.n_parts)
    first = place // step.span * step.span
    if step.by_entries and len(cuts) == step.n_parts + 1:
        bounds = np.asarray(cuts) if isinstance(first, np.ndarray) else cuts
        return bounds[first], bounds[first + step.span]
    return size * first // step.n_parts, size * (first + step.span) // step.n_parts


def _bits_backwards(rank: Any, n_ranks: int) -> Any:
    place = 0 * rank
    for bit in range(n_ranks.bit_length() - 1):
        place = 2 * place + (rank >> bit) % 2
    return place


def factorizations(number: int) -> list[tuple[int, ...]]:
    """All ordered ways to write a number as a product of factors of 2 and more."""
    if number == 1:
        return [()]
    return [
        (first, *rest)
        for first in range(2, number + 1)
        if number % first == 0
        for rest in factorizations(number // first)
    ]


def _core_steps(algorithm: str, core: int, group: int) -> list[Step]:
    twos = [2] * (core.bit_length() - 1)
    if algorithm.endswith("recursive-doubling"):
        return [Step("swap", core, 2, 1 << t) for t in range(len(twos))]
    if algorithm == "dense-rabenseifner":
        return _splits(core, twos) + _joins(core, twos)
    if algorithm == "dsar-early-switching":
        splits = _splits(core, [group, *[2] * ((core // group).bit_length() - 1)])
        return [*splits[:1], Step("dense", core), *splits[1:], *_joins(core, twos)]
    fours = [4] * (len(twos) // 2) + [2] * (len(twos) % 2)
    split, join = _splits(core, [core]), _joins(core, fours)
    if algorithm.startswith("dsar"):
        return [*split, Step("dense", core), *join]
    return [replace(step, by_entries=True) for step in (*split, *join)]


def _splits(n_parts: int, degrees: Sequence[int]) -> list[Step]:
    steps, span = [], n_parts
    for degree in degrees:
        span //= degree
        if degree > 1:
            steps.append(Step("split", n_parts, degree, span))
    return steps


def _joins(n_parts: int, degrees: Sequence[int]) -> list[Step]:
    return [
        Step("join", n_parts, step.degree, step.span)
        for step in reversed(_splits(n_parts, degrees))
    ]


def _ring(n_ranks: int, kind: str) -> list[Step]:
    return [Step(kind, n_ranks, number) for number in range(n_ranks - 1)]


def _checked_group(n_ranks: int, group: int | None) -> int:
    core = core_of(n_ranks)
    if group is None:
        return min(8, core)
    if isinstance(group, bool) or group not in [1 << t for t in range(1, core.bit_length())]:
        raise InputError(
            f"group={group!r}; allowed are powers of two from 2 to {core}, the largest one within "
            "the number of ranks."
        )
    return int(group)


def _checked_degrees(n_ranks: int, degrees: Sequence[int] | None) -> tuple[int, ...]:
    if degrees is None:
        return tuple(sorted(_prime_factors(n_ranks), reverse=True))
    given = several(degrees, "degrees", "a sequence of whole numbers")
    layers = tuple(whole_number(degree, "a degree", 2) for degree in given)
    if math.prod(layers) != n_ranks:
        raise InputError(
            f"degrees={list(layers)}: their product must be the number of ranks, {n_ranks}."
        )
    return layers


def _prime_factors(number: int) -> list[int]:
    factors, divisor = [], 2
    while number > 1:
        while number % divisor == 0:
            factors.append(divisor)
            number //= divisor
        divisor += 1
    return factors
