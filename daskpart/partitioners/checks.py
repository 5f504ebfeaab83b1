"""What `partition` asks of its arguments, and the error that says so where it is not met."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskpart._floor.checks import (
    amounts,
    as_array,
    finite_number,
    several,
    whole_number,
    whole_numbers,
)
from daskpart._floor.words import counted
from daskpart.errors import EngineError, InputError
from daskpart.hypergraph import Hypergraph

from .objectives import Objective

LARGEST_EPSILON = 1e6


def checked_n_parts(n_parts: int, n_vertices: int) -> int:
    """A number of parts from 1 to the number of vertices."""
    n_parts = whole_number(n_parts, "n_parts", least=1)
    if n_vertices == 0:
        raise InputError("there are no vertices: nothing to share out")
    if n_parts > n_vertices:
        raise InputError(
            f"n_parts is {n_parts}, but there are only {n_vertices} vertices to share out: "
            f"give 1 to {n_vertices}"
        )
    return n_parts


def check_prices(hypergraph: Hypergraph, objective: Objective, n_parts: int) -> None:
    """Refuse a cost table that is none, and net costs that times it do not fit in 64 bits."""
    table = np.asarray(objective.cost_table(n_parts))
    formed = table.shape == (n_parts + 1,) and table.dtype == np.int64
    if not formed or table[:2].any() or (np.diff(table) < 0).any():
        raise InputError(
            f"cost_table({n_parts}) of the objective {objective.name!r} is {table!r}: give an "
            f"int64[{n_parts + 1}] that begins with 0, 0 and never falls"
        )
    most = hypergraph.net_costs.sum(dtype=np.float64) * float(table[-1])
    if most >= 2.0**63:
        raise InputError(
            f"the net costs may come to {most:.3g} with {n_parts} parts, too much for "
            "64-bit sums: divide them by a common number, or use a smaller rho"
        )


def checked_epsilon(epsilon: float) -> float:
    """A finite ε of at least 0, with which weights still fit in 64 bits."""
    return finite_number(epsilon, "epsilon", most=LARGEST_EPSILON)


def checked_epsilons(epsilon: float | Sequence[float]) -> float | list[float]:
    """One ε for all weights of a vertex, or a list with one for each."""
    if isinstance(epsilon, str) or not isinstance(epsilon, Sequence | np.ndarray):
        return checked_epsilon(epsilon)
    return [checked_epsilon(each) for each in several(epsilon, "epsilon", "a number, or several")]


def check_epsilon_of_each(epsilon: float | list[float], n_weights: int) -> None:
    """Refuse a list that has not one ε for each weight."""
    if isinstance(epsilon, list) and len(epsilon) != n_weights:
        raise InputError(
            f"epsilon has {counted(len(epsilon), 'number')}, but a vertex has "
            f"{counted(n_weights, 'weight')}: give one number for all, or one for the weight of "
            "the model and then one for each of further_weights"
        )


def checked_fixed(fixed: ArrayLike, n_vertices: int, n_parts: int) -> NDArray[np.int32]:
    """The part of each fixed vertex, -1 for a free one, as int32[n_vertices]."""
    parts = whole_numbers(fixed, "fixed part")
    if len(parts) != n_vertices:
        raise InputError(f"{len(parts)} fixed parts were given for {n_vertices} vertices")
    wrong = np.flatnonzero((parts < -1) | (parts >= n_parts))
    if len(wrong):
        raise InputError(
            f"vertex {wrong[0]} is fixed in part {parts[wrong[0]]}: "
            f"give 0 to {n_parts - 1}, or -1 where it is free"
        )
    return parts.astype(np.int32)


def checked_further_weights(weights: ArrayLike, first: NDArray) -> list[NDArray[np.int64]]:
    """Each further weight of the vertices, int64[n_vertices], beside their first one."""
    given = as_array(weights, "further weights")
    if given.dtype == object:  # a frame of columns of several types; each number has one of its own
        given = as_array(given.tolist(), "further weights")
    n_vertices = len(first)
    if given.ndim not in (1, 2) or not given.size:
        raise InputError(
            f"further_weights are of shape {given.shape}: give one weight a vertex, or a column "
            "for each weight"
        )
    if len(given) != n_vertices:
        raise InputError(
            f"{len(given)} further weights were given, {n_vertices} are needed: give them in the "
            f"shape ({n_vertices},) or ({n_vertices}, n), not {given.shape}"
        )
    checked = []
    for place, each in enumerate(given.reshape(len(given), -1).T):
        try:
            checked.append(amounts(each, n_vertices, "further weight"))
        except InputError as error:
            where = f"column {place} of further_weights: " if given.ndim == 2 else ""
            raise InputError(f"{where}{error}") from None
    empty = [place for place, each in enumerate(checked) if not each.any()]
    if empty:
        raise InputError(f"further weight {empty[0]} is 0 for every vertex: leave it out")
    if (1 + len(checked)) * max(int(each.sum()) for each in (first, *checked)) >= 2**63:
        raise InputError("all weights together may come to 2^63 or more: scale them down")
    return checked


def check_even(even: bool) -> None:
    """Refuse even=False where there are further weights."""
    if not even:
        raise InputError(
            "even=False empties parts, so that others need all the room that they have: leave it "
            "out where there are further_weights"
        )


def checked_answer(answer: NDArray, n_vertices: int, n_parts: int, name: str) -> NDArray[np.int32]:
    """What an engine answered, if it is a part for each vertex (else an EngineError)."""
    if answer.shape != (n_vertices,) or not np.isin(answer, np.arange(n_parts)).all():
        raise EngineError(
            f"engine {name!r} answered an array of shape {answer.shape} and type {answer.dtype}: "
            f"{n_vertices} parts, each 0 to {n_parts - 1}, were asked"
        )
    return answer.astype(np.int32, copy=False)
