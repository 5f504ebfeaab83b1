"""One iteration of weighted ALS on ranks: users from items, then items from users.

    rank k     events of its users (rows)            events of its items (columns), once more
    HᵀH        allreduce of F × F                    WᵀW        allreduce
    W rows     solved from the H rows held           H rows     solved from the W rows held
    expand     owner of the user ─► ranks whose      expand     owner of the item ─► ranks whose
               items it has events on                           users have events on it

A row is solved by one rank from all of its events, in the order of the other side's ids, so what
depends on the number of ranks is the order in which Grams are added up, and nothing else.

Source: Hu, Koren, Volinsky, "Collaborative Filtering for Implicit Feedback Datasets" (2008).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.compressed_rows import entries_of_rows
from daskpart.collectives import Communicator, Inbox, PerRank, PreparedPlan, allreduce, expand

from .kernels.solving import (
    gram_of,
    solve_by_blocks,
    solve_by_gradients,
    solve_exactly,
    squares_of_rows,
)

SIDES = ("user", "item")
OTHER = {"user": "item", "item": "user"}
SWEEPS = 4  # of coordinate descent: the next iteration goes on from there
# what takes a row as long as F events, as a share; in round figures of one CPU
_ROW_SHARES = {"cg": 1 / 4, "subspace": 1 / 2, "cholesky": 1}
LARGE = 2.0**24  # a confidence by which float32 rounds off that of what is not stored, 1


@dataclass(frozen=True)
class Solve:
    """How rows are solved.

    Attributes
    ----------
    solver : {"cg", "cholesky", "subspace"}
    n_steps : int
        Of conjugate gradients.
    block_size : int
        Coordinates that "subspace" solves at a time.
    regularization, exponent : float
        λ of a row is regularization · events^exponent.
    n_sweeps : int
        0: rows may have any sign. Else, with "cholesky", they are at 0 or above, by so many sweeps
        of coordinate descent from the row as it was.
    """

    solver: str
    n_steps: int
    block_size: int
    regularization: float
    exponent: float
    n_sweeps: int

    def row_work(self, n_components: int) -> int:
        """What a row is worth in events, for who balances ranks: its own F x F system."""
        return round(_ROW_SHARES[self.solver] * n_components)

    @np.errstate(over="ignore")  # a fit that diverges is told at the end
    def __call__(
        self,
        events: Events,
        other: NDArray[Any],
        gram: NDArray[np.float64],
        rows: NDArray[Any],
    ) -> float:
        """Solve the rows of `events` in place; returns their part of the objective.

        `other` and `rows` are float32; with "cholesky" both may be float64.
        """
        if not self.n_sweeps and events.large.size:
            return self._large_apart(events, other, gram, rows)
        fixed = (*events.arrays, other, gram.astype(np.float32), *self.ridge)
        if self.solver == "cg":
            return float(solve_by_gradients(*fixed, self.n_steps, rows))
        if self.solver == "subspace":
            found = solve_by_blocks(*fixed, self.block_size, rows)
        else:
            found = solve_exactly(*events.arrays, other, gram, *self.ridge, self.n_sweeps, rows)
        singular = np.flatnonzero(np.isnan(rows[: events.n_owned, 0]))
        if singular.size:  # to the rounding of float32: λ is weak, or the confidences are far apart
            found += self._in_double(events, singular, other, gram, rows)
        return found

    @property
    def ridge(self) -> tuple[float, float]:
        """What kernels take for λ."""
        return self.regularization, self.exponent

    def _large_apart(
        self, events: Events, other: NDArray[Any], gram: NDArray[np.float64], rows: NDArray[Any]
    ) -> float:
        """Rows of large confidences exactly, the others as ever.

        Conjugate gradients would take steps that are rounding alone from some 10⁹ on, and overflow
        from 10¹⁰ on; by blocks the objective would rise.
        """
        large = events.large
        others = np.delete(np.arange(events.n_owned), large)
        few = rows[others]
        found = self(events.of_rows(others), other, gram, few)
        rows[others] = few
        return found + self._in_double(events, large, other, gram, rows)

    def _in_double(
        self,
        events: Events,
        chosen: NDArray[np.intp],
        other: NDArray[Any],
        gram: NDArray[np.float64],
        rows: NDArray[Any],
    ) -> float:
        """Solve some rows exactly in float64, in place; returns their part of the objective."""
        some = events.of_rows(chosen)
        solved = np.empty((chosen.size, rows.shape[1]))
        exact = other.astype(np.float64)
        found: float = solve_exactly(*some.arrays, exact, gram, *self.ridge, 0, solved)
        rows[chosen] = solved
        return found


@dataclass(frozen=True)
class Events:
    """What the rows of one side that a rank owns have events on.

    Attributes
    ----------
    pointer : int64 ndarray of shape (n_owned + 1,)
    columns : int32 ndarray of shape (nnz,)
        Local positions of the other side's rows, in rising order of their ids.
    weights : float32 ndarray of shape (nnz,)
        e = c − 1 = α · count.
    """

    pointer: NDArray[np.int64]
    columns: NDArray[np.int32]
    weights: NDArray[np.float32]

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """What kernels take first."""
        return self.pointer, self.columns, self.weights

    @cached_property
    def large(self) -> NDArray[np.intp]:
        """Rows with an event from `LARGE` on."""
        return self.rows_from(LARGE)

    def rows_from(self, weight: float) -> NDArray[np.intp]:
        """Rows with an event of this weight or a larger one."""
        at = np.flatnonzero(self.weights >= weight)
        return np.unique(np.searchsorted(self.pointer, at, side="right") - 1)

    def of_rows(self, rows: NDArray[np.intp]) -> Events:
        """The events of some rows."""
        pointer, at = entries_of_rows(self.pointer, rows)
        return Events(pointer, self.columns[at], self.weights[at])

    @property
    def n_owned(self) -> int:
        """Rows that the rank owns."""
        return self.pointer.size - 1


@dataclass
class RankFactors:
    """Rows of both sides that one rank holds, owned ones first.

    Attributes
    ----------
    user, item : float32 ndarray of shape (rows held, F)
    events : dict of str to Events
        Of each side; fixed.
    objective : float
        The rank's part, of the last iteration.
    """

    user: NDArray[np.float32]
    item: NDArray[np.float32]
    events: dict[str, Events]
    objective: float = 0.0

    def copy(self) -> RankFactors:
        """A copy that shares no array that an iteration changes."""
        return replace(self, user=self.user.copy(), item=self.item.copy())


def iterate(
    comm: Communicator, plans: dict[str, PreparedPlan], factors: PerRank, solve: Solve
) -> PerRank:
    """Solve users, then items; the text of one iteration."""
    for side, other in (SIDES, SIDES[::-1]):
        gram = allreduce(comm, comm.map(owned_gram, factors, side=other), algorithm="hypercube")
        factors = comm.update(solve_side, factors, gram, side=side, solve=solve)
        pack = partial(packed, side=side)
        factors = expand(comm, plans[side], factors, pack, placed, side=side)
    return factors


# -- steps on one rank ---


def owned_gram(factors: RankFactors, *, side: str) -> NDArray[np.float64]:
    """HᵀH over the rank's owned rows, float64 of shape (F, F)."""
    rows = getattr(factors, side)
    gram = np.empty((rows.shape[1], rows.shape[1]))
    gram_of(rows, factors.events[side].n_owned, gram)
    if not np.isfinite(gram).all():
        gram[:] = np.nan  # infinities of two ranks have no sum
    return gram


def solve_side(
    factors: RankFactors, gram: NDArray[np.float64], *, side: str, solve: Solve
) -> RankFactors:
    """Solve the owned rows of a side, in place."""
    other, rows = OTHER[side], getattr(factors, side)
    events = factors.events[side]
    found = solve(events, getattr(factors, other), gram, rows)
    if side == "user":  # the objective after the items has their penalty in it, this one's not
        found = squares_of_rows(events.pointer, *solve.ridge, rows)
        factors.objective = 0.0
    factors.objective += found
    return factors


def packed(factors: RankFactors, positions: NDArray[np.int64], *, side: str) -> NDArray[np.float32]:
    """Rows of a side that travel."""
    return getattr(factors, side)[positions]


def placed(factors: RankFactors, inbox: Inbox, *, side: str) -> RankFactors:
    """Rows that arrived, in their places."""
    rows = getattr(factors, side)
    for positions, message in zip(inbox.positions, inbox.payloads, strict=True):
        rows[positions] = message
    return factors


def count(factors: RankFactors) -> NDArray[np.float64]:
    """What a rank adds to the measures of an iteration: objective, whether rows are not finite."""
    wrong = sum(not np.isfinite(getattr(factors, side)).all() for side in SIDES)
    return np.array([factors.objective, float(wrong)])


def compile_kernels(factors: RankFactors, *, solve: Solve) -> None:
    """Compile on this worker what an iteration runs, on no rows."""
    rows = np.zeros((1, factors.user.shape[1]), np.float32)
    gram = np.zeros((rows.shape[1], rows.shape[1]))
    gram_of(rows, 0, gram)
    nothing = Events(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))
    solve(nothing, rows, gram, rows)
    squares_of_rows(nothing.pointer, *solve.ridge, rows)
