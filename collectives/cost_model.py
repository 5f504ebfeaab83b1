"""Seconds of a sparse allreduce before it runs: an α–β–γ model, and the choice it makes.

    time    =  start + the sum of its steps
    a step  =  α_round + α · messages + β · bytes + γ · entries combined

All per rank, while every rank does the same: the constants are measured so (`cost_measurement`),
and hold for as many ranks on the same machine. Merging is bound by the processor, all else by
memory, and most of that by new arrays: the system gives them out page by page, those of some MB in
larger pages, and short ones stay in the caches. So these constants are measured with short arrays
and with long ones; in between they go with the logarithm of the length.

How many entries a range of n indices has after m ranks were combined is the closed form of
Renggli 2017 §3.2.1 for entries spread evenly,

    E = n (1 − (1 − k/N)^m)

which is the most that any spread gives on average; where entries of ranks coincide (power laws) the
true figure is lower, so sparse algorithms do better than predicted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from daskpart._floor.checks import finite_number, whole_number
from daskpart._floor.tables import html_lines, text_lines
from daskpart.errors import InputError

from .sparse_steps import ALGORITHMS, Step, factorizations, steps_of
from .stream import index_type

PLAINEST = "ssar-recursive-doubling"
NEAR = 1.15  # times the least predicted time, up to which the plainest algorithm is taken
SHORT_BYTES, LONG_BYTES = 1 << 20, 40_000_000  # of arrays that constants are measured with
AT_HAND = 1 << 17  # bytes of new memory that cost nothing: they were freed just before
_DECADES = math.log(LONG_BYTES / SHORT_BYTES)
_MOST_LAYERINGS = 200  # a butterfly of so many ranks has hundreds of layerings; few differ


def expected_union(n: float, density: float, n_ranks: float) -> float:
    """Entries among n indices after `n_ranks` vectors of that density are combined (§3.2.1)."""
    return -n * np.expm1(n_ranks * np.log1p(-min(density, 1.0))) if density < 1.0 else float(n)


@dataclass(frozen=True)
class Problem:
    """What is to be reduced: vectors of length `size` (N) with `entries` a rank (k, the mean)."""

    n_ranks: int
    size: int
    entries: float
    dtype: DTypeLike = np.float32

    def __post_init__(self) -> None:
        for name, least in (("n_ranks", 1), ("size", 0)):
            # as Python's, which have no end: those of numpy overflow where ranges are cut
            number = whole_number(getattr(self, name), name, least, 2**63 - 1)
            object.__setattr__(self, name, number)
        finite_number(self.entries, "entries")
        if self.entries > self.size:
            raise InputError(f"{self.entries} entries do not fit a vector of size {self.size}.")

    @property
    def density(self) -> float:
        """k/N of the mean rank."""
        return self.entries / self.size if self.size else 0.0


@dataclass(frozen=True)
class Choice:
    """An algorithm with its options, and the seconds predicted for it."""

    algorithm: str
    seconds: float
    group: int | None = None
    degrees: tuple[int, ...] | None = None


@dataclass(frozen=True)
class CostModel:
    """Measured constants, all in seconds, of one rank while all ranks do the same; 0 by default.

    Attributes
    ----------
    start : float
        Making the streams, and agreeing on their sizes; the same for every algorithm.
    round : float
        A step of an algorithm with no message.
    message, byte : float
        α: a message, whatever its size. β: a byte sent.
    merged_entry, gathered_entry, scattered_entry : float
        γ of an entry going into a merge of two sparse vectors, of many, into a dense vector.
    dense_element : float
        γ of an element of a dense vector that is combined with another.
    copied_byte : float
        A byte of a new array that is copied from others, or filled.
    lone_gathered_entry : float, optional
        γ of an entry going into a merge of many that is alone among 64 indices, a word of the bit
        map; by default as of any other.
    long_byte, long_scattered_entry, long_dense_element, long_copied_byte : float, optional
        The same for arrays of `LONG_BYTES` and more; by default as for short ones.
    """

    start: float = 0.0
    round: float = 0.0
    message: float = 0.0
    byte: float = 0.0
    merged_entry: float = 0.0
    gathered_entry: float = 0.0
    scattered_entry: float = 0.0
    dense_element: float = 0.0
    copied_byte: float = 0.0
    lone_gathered_entry: float | None = None
    long_byte: float | None = None
    long_scattered_entry: float | None = None
    long_dense_element: float | None = None
    long_copied_byte: float | None = None

    def __post_init__(self) -> None:
        for name, seconds in vars(self).items():
            if seconds is not None:
                finite_number(seconds, name)

    def __repr__(self) -> str:
        return "\n  ".join(["CostModel, seconds of one rank", *text_lines(self._table())])

    def _repr_html_(self) -> str:
        return html_lines(self._table(), "CostModel, seconds of one rank")

    def _table(self) -> list[list[str]]:
        measured = {name: seconds for name, seconds in asdict(self).items() if seconds is not None}
        lines = [[name.replace("_", " "), f"{seconds:.2e}"] for name, seconds in measured.items()]
        return [["what", "seconds"], *lines]

    def at(self, name: str, nbytes: float) -> float:
        """A constant that depends on the length of arrays, for one of so many bytes."""
        short, long = getattr(self, name), getattr(self, f"long_{name}")
        if long is None:
            return short
        share = math.log(max(nbytes, SHORT_BYTES) / SHORT_BYTES) / _DECADES
        return short + min(share, 1.0) * (long - short)

    def gathered(self, n_entries: float, density: float) -> float:
        """Seconds of a merge of many vectors at once, with so many entries all together.

        `density` is the share of all indices that the union has.
        """
        entry, lone = self.gathered_entry, self.lone_gathered_entry
        crowd = max(64 * density, 1e-9)
        share = -np.expm1(-crowd) / crowd  # words of the bit map that have entries, an entry
        return float(n_entries * (entry + share * ((entry if lone is None else lone) - entry)))

    def switch_density(self, size: int, dtype: DTypeLike) -> float:
        """Share of entries from which a dense vector is cheaper to send and combine.

        Two sparse vectors of as many entries, and two dense ones, cost the same where
        entries · (bytes · β + 2 γ_merge) = n · (bytes · β + γ_dense).
        With β alone this is the δ of Renggli (2017); with γ alone his observation that combining
        sparse vectors stops to pay at some percent (§5.2.5). `size` is n, the length of the vector.
        """
        item = np.dtype(dtype).itemsize
        pair, length = item + index_type(size).itemsize, item * size
        moved = self.at("byte", length) + self.at("copied_byte", length)
        dense = item * moved + self.at("dense_element", length)
        sparse = pair * moved + 2 * self.merged_entry
        return min(dense / sparse, item / pair) if sparse else item / pair

    def seconds_of(
        self, problem: Problem, steps: Sequence[Step], switch: float | None = None
    ) -> float:
        """Predicted seconds of the steps of an algorithm; `switch` as in `best`."""
        walk = _Walk(self, problem, switch)
        return float(self.start + sum(walk.seconds(step) for step in steps))

    def choices(self, problem: Problem, switch: float | None = None) -> list[Choice]:
        """Every algorithm with every option worth a look, fastest first; `switch` as in `best`."""
        found = [
            Choice(
                algorithm,
                self.seconds_of(problem, steps_of(algorithm, problem.n_ranks, **options), switch),
                **options,
            )
            for algorithm in ALGORITHMS
            for options in _options(algorithm, problem.n_ranks)
        ]
        return sorted(found, key=lambda choice: choice.seconds)  # stable: the same on every rank

    def best_of_each(self, problem: Problem) -> dict[str, Choice]:
        """Each algorithm with the options that cost least."""
        found = {choice.algorithm: choice for choice in reversed(self.choices(problem))}
        return {algorithm: found[algorithm] for algorithm in ALGORITHMS}

    def best(
        self, problem: Problem, among: tuple[str, ...] = ALGORITHMS, switch: float | None = None
    ) -> Choice:
        """The choice to take, see `preferred`; kept for problems asked again.

        Parameters
        ----------
        problem : Problem
        among : tuple of str
            Algorithms to choose from.
        switch : float, optional
            Share of entries from which a range will be dense; default `switch_density`.
        """
        return _best(self, problem, among, switch)

    def predict(
        self, n_ranks: int, size: int, entries: float, dtype: DTypeLike = np.float32
    ) -> dict[str, float]:
        """Seconds of each algorithm, with its best options.

        Parameters
        ----------
        n_ranks : int
            P.
        size : int
            N.
        entries : float
            k, entries a rank.
        dtype : numpy dtype
        """
        best = self.best_of_each(Problem(n_ranks, size, entries, dtype))
        return {algorithm: choice.seconds for algorithm, choice in best.items()}


def preferred(seconds: Mapping[str, float]) -> str:
    """The algorithm to take, by the predicted seconds of each: the quickest or the plainest.

    Recursive doubling has the fewest steps. Each step waits for the slowest rank, which has no
    price in the model, so a few percent less by prediction are no gain.
    """
    quickest = min(seconds, key=lambda algorithm: seconds[algorithm])
    return PLAINEST if seconds.get(PLAINEST, np.inf) <= NEAR * seconds[quickest] else quickest


@lru_cache(maxsize=4096)
def _best(
    model: CostModel, problem: Problem, among: tuple[str, ...], switch: float | None
) -> Choice:
    if not among or not set(among) <= set(ALGORITHMS):
        raise InputError(f"among={among!r}; name some of {', '.join(ALGORITHMS)}.")
    choices = reversed(model.choices(problem, switch))  # the last of each has the best options
    best = {choice.algorithm: choice for choice in choices if choice.algorithm in among}
    return best[preferred({algorithm: choice.seconds for algorithm, choice in best.items()})]


def _options(algorithm: str, n_ranks: int) -> list[dict[str, Any]]:
    if algorithm == "dsar-early-switching":
        sizes = [1 << t for t in range(1, n_ranks.bit_length() - 1)]  # all of them is dsar-split
        return [{"group": size} for size in sizes] or [{}]
    if algorithm == "butterfly" and n_ranks > 1:
        return [{"degrees": degrees} for degrees in factorizations(n_ranks)[:_MOST_LAYERINGS]]
    return [{}]


class _Walk:
    """Goes through the steps with what a rank expects to hold: a range of n indices."""

    def __init__(self, model: CostModel, problem: Problem, switch: float | None) -> None:
        self.model, self.problem = model, problem
        self.item = np.dtype(problem.dtype).itemsize
        self.pair = self.item + index_type(problem.size).itemsize
        if switch is None:
            switch = model.switch_density(problem.size, problem.dtype)
        self.switch = switch
        self.n = float(problem.size)
        self.n_combined = 1.0  # ranks whose vectors are in it
        self.is_dense = False

    def seconds(self, step: Step) -> float:
        """Of the next step."""
        model, degree, n_ranks = self.model, step.degree, self.problem.n_ranks
        if step.kind == "dense":
            seconds = 0.0 if self.is_dense else self._scattering(self._values())
            self.is_dense = True
            return seconds
        if step.kind == "unring":
            return self._copying(self.problem.size * self.item)
        messages, work = 1, 0.0
        if step.kind == "split":
            self.n /= degree
            messages = degree - 1
            nbytes = messages * self._bytes()
            work = self._combining(degree, degree)
        elif step.kind == "join":
            messages, held = degree - 1, self._bytes()
            nbytes = messages * held
            work = self._copying(degree * held)
            self.n *= degree
        elif step.kind.startswith("ring"):
            part = self.problem.size / step.n_parts
            nbytes = part * self.item
            work = self._adding(part) if step.kind == "ring-down" else 0.0
        else:
            nbytes = self._bytes()
            if step.kind != "unfold":
                more = 2 if step.kind == "swap" else n_ranks / step.n_parts
                work = self._combining(2, more)
        sending = nbytes * model.at("byte", nbytes / messages)
        return model.round + messages * model.message + sending + work

    def _values(self) -> float:
        """Values that the range holds now."""
        if self.is_dense:
            return self.n
        return expected_union(self.n, self.problem.density, self.n_combined)

    def _bytes(self) -> float:
        return self._values() * (self.item if self.is_dense else self.pair)

    def _combining(self, degree: int, more: float) -> float:
        """Seconds to combine `degree` such ranges, of `more` times as many ranks then."""
        values, was_dense = self._values(), self.is_dense
        self.n_combined *= more
        if was_dense:
            return (degree - 1) * self._adding(self.n)
        union = self._values()
        self.is_dense = union >= self.switch * self.n
        if self.is_dense:
            return self._scattering(degree * values)
        merged = self._copying(self.pair * union)  # written to new arrays
        if degree == 2:
            return 2 * values * self.model.merged_entry + merged
        return self.model.gathered(degree * values, union / self.n) + merged

    def _scattering(self, entries: float) -> float:
        """Seconds to make the range dense, and to put so many entries into it."""
        nbytes = self.n * self.item
        return self._copying(nbytes) + entries * self.model.at("scattered_entry", nbytes)

    def _adding(self, n: float) -> float:
        return n * self.model.at("dense_element", n * self.item)

    def _copying(self, nbytes: float) -> float:
        return max(nbytes - AT_HAND, 0.0) * self.model.at("copied_byte", nbytes)
