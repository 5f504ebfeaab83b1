"""A decomposition on ranks: nonzeros laid out, factors handed out, iterations, the state gathered.

    nonzeros, numbering ─► lay_out ─► tensors ─┐
    state ─────────────────────────► begin ────┴─► factors, Grams ─► iteration … ─► owned rows

What an iteration is stands in `als`; here is what the base asks of every model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.collectives import (
    Communicator,
    PerRank,
    PreparedPlan,
    allreduce,
    barrier,
)
from daskpart.collectives.kernels_rows import warm_up as warm_up_addition
from daskpart.models.base.early_stopping import Seen, Watch, seen_before
from daskpart.models.base.memory import bytes_of
from daskpart.models.base.state import Part
from daskpart.models.base.text import Step, Text

from .als import EmbeddedModes, Factors, Iteration, PointToPointModes, Update
from .completion import StoredEntriesModes, warm_up_equations
from .counts import CountModes, counts_of
from .held_out import prepared as prepared_entries
from .held_out import validated
from .kernels.normal_equations import equations_bytes
from .layout.by_row import EntriesByRow
from .logistic import LogisticModes
from .losses import LOGISTIC, OF_LOSS, POISSON, SQUARED_ERROR
from .plan import CPPlan
from .ranks import RankTensor, arrange, rows_of_ranks
from .state import CPState
from .steps import warm_up

# what iterations read: tensors, messages, and what is held out with the messages for that
Fixed = tuple[PerRank, Iteration, tuple[PerRank, list[PreparedPlan]] | None]
# what they change: factors, their fit; of the best iteration (if somebody watches) rows and fit
Changing = tuple[Factors, float, PerRank | None, float, Seen]


class CPText(Text):
    """The fit on one communicator.

    Parameters
    ----------
    comm : Communicator
    plan : CPPlan
    pieces : sequence of RankNonzeros, or a Dask collection of them
        One a rank; used up.
    shape : tuple of int
        Of the tensor.
    update : Update
    dtype : str
        Of the factors.
    tolerance : float
        Of the change of the fit.
    watch : Watch or None
        What says which iteration is the best: each rank keeps the rows that it owns.
    """

    def __init__(
        self,
        comm: Communicator,
        plan: CPPlan,
        pieces: Any,
        shape: tuple[int, ...],
        *,
        update: Update,
        dtype: str,
        tolerance: float,
        watch: Watch | None = None,
    ) -> None:
        self.session, self._plan, self._loss = comm, plan, OF_LOSS[plan.choice.loss]
        self._watch, self.watches = watch, watch is not None
        self._nonnegative, self._dtype = any(update.nonnegative), dtype
        rows = comm.values(rows_of_ranks(plan.numberings, shape))
        self._tensors, ids, of_tensor = comm.run(
            lay_out,
            comm.values(pieces),
            rows,
            n_modes=plan.n_modes,
            dtype=dtype,
            memory=plan.choice.memory,
            by_row=plan.choice.solves_by_row,
            sums=self._loss.own_sums,
        )
        self._loss.check(of_tensor, plan.n_cells)
        self._iteration = prepared(comm, plan, ids, shape)
        self._held_out, n_held_out = None, 0
        if plan.held_out is not None:
            self._held_out = prepared_entries(comm, plan)
            n_held_out = sum(own.entries.values.size for own in plan.held_out.of_ranks)
        self.step = iteration
        self.static = {
            "update": update,
            "of_tensor": of_tensor,
            "tolerance": tolerance,
            "n_held_out": n_held_out,
            "loss": plan.choice.loss,
            "watch": watch,
        }

    def begin_from(self, state: CPState) -> None:  # type: ignore[override]
        """Hand out the factors of a state, and add up their Grams."""
        comm, plan = self.session, self._plan
        modes = self._iteration.at(state, self.static["of_tensor"])
        self.fixed: Fixed = (self._tensors, modes, self._held_out)
        both = zip(state.dims, plan.numberings, strict=True)
        held = {dim: numbering.of_ranks() for dim, numbering in both}
        of_best = None
        if self._watch is not None and state.best:
            of_best = comm.values(state.at_best().cut(self._answered(state), plan.n_ranks))
        factors, best, self.memory = comm.run(
            begin,
            self.fixed,
            comm.values(state.cut(held, plan.n_ranks)),
            of_best,
            n_modes=plan.n_modes,
            dtype=self._dtype,
            nonnegative=self._nonnegative,
            loss=plan.choice.loss,
            watched=self._watch is not None,
        )
        best_fit, seen = state.at_best().fit, seen_before(self._watch, state)
        rows = state.compared
        before = rows[-1]["fit"] if rows else float("nan")
        self.changing: Changing = (factors, before, best, best_fit, seen)

    def gather(self, state: CPState) -> CPState:  # type: ignore[override]
        """The factors as they are on the ranks, and those of the best iteration."""
        comm, answered = self.session, self._answered(state)
        factors, fit, best, best_fit, seen = self.changing
        parts = comm.gather(comm.map(owned_part, self._tensors, factors.weights, *factors.rows))
        new = state.assembled(parts, answered, fit=fit, intercept=self.fixed[1].intercept)
        return new.with_best(
            seen.step, lambda: new.assembled(comm.gather(best), answered, fit=best_fit).answers
        )

    def _answered(self, state: CPState) -> dict[str, list[NDArray[Any]]]:
        """The rows of each mode that every rank answers for."""
        both = zip(state.dims, self._plan.numberings, strict=True)
        return {dim: numbering.first_groups() for dim, numbering in both}

    def advice(self, step: Step) -> str:
        """What to do when factors diverged."""
        return f"factors became NaN or infinite. {self._loss.advice}"


def prepared(
    comm: Communicator, plan: CPPlan, ids: list[PerRank], shape: tuple[int, ...]
) -> Iteration:
    """An iteration and the messages of each mode, ready to run."""
    made = PointToPointModes if plan.method == "p2p" else EmbeddedModes
    reduces, expands = (
        [comm.prepare(each, held) for each, held in zip(plans, ids, strict=True)]
        for plans in (plan.reduces, plan.expands)
    )
    if plan.choice.loss == POISSON:
        unknown = plan.choice.missing == "unknown"
        return CountModes(
            made(reduces, expands, plan.updated, counts_of), shape, plan.n_cells, unknown
        )
    if plan.choice.loss == LOGISTIC:
        return LogisticModes(made(reduces, expands, plan.updated, np.sqrt))
    modes = made(reduces, expands, plan.updated)
    return StoredEntriesModes(modes) if plan.choice.missing == "unknown" else modes


# -- texts ---


def lay_out(
    comm: Communicator,
    pieces: PerRank,
    rows: PerRank,
    *,
    n_modes: int,
    dtype: str,
    memory: str,
    by_row: bool,
    sums: Callable[[RankTensor], NDArray[np.float64]],
) -> tuple[PerRank, list[PerRank], list[float]]:
    """Nonzeros laid out, the rows of each mode on every rank, and the sums of all their values."""
    tensors = comm.map(arrange, pieces, rows, dtype=dtype, memory=memory, by_row=by_row)
    ids = [comm.map(rows_of_mode, tensors, mode=mode) for mode in range(n_modes)]
    total = allreduce(comm, comm.map(sums, tensors))
    tensors, *ids, total = comm.settle(tensors, *ids, total)
    return tensors, ids, total.result().tolist()


def begin(
    comm: Communicator,
    fixed: Fixed,
    parts: PerRank,
    best: PerRank | None,
    *,
    n_modes: int,
    dtype: str,
    nonnegative: bool,
    loss: str,
    watched: bool,
) -> tuple[Factors, PerRank | None, list[int]]:
    """Factors of a state and their Grams, kernels compiled; the best rows; bytes of each rank."""
    tensors, modes, held_out = fixed
    factors = Factors(
        [comm.map(rows_of_part, parts, mode=mode, dtype=dtype) for mode in range(n_modes)],
        [comm.map(no_gram, tensors) for _ in range(n_modes)],
        comm.map(weights_of_part, parts),
    )
    factors = modes.first_grams(comm, tensors, factors)
    warm = comm.map(warm_up_rank, tensors, *factors.rows, nonnegative=nonnegative, loss=loss)
    if watched and best is None:
        best = comm.map(owned_part, tensors, factors.weights, *factors.rows)
    beside = [] if held_out is None else [held_out[0]]
    beside += [] if best is None else [best]
    n_bytes = comm.map(
        bytes_held, tensors, *factors.rows, *beside, n_modes=n_modes, n_made=OF_LOSS[loss].n_made
    )
    held = comm.fold(n_bytes, list)
    comm.settle(*factors.handles(), *beside, warm, held)
    barrier(comm)  # so that the first iteration does not count who was longer at its set-up
    return factors, best, held.result()


def iteration(
    comm: Communicator,
    fixed: Fixed,
    changing: Changing,
    *,
    number: int,
    update: Update,
    of_tensor: Sequence[float],
    tolerance: float,
    n_held_out: int,
    loss: str,
    watch: Watch | None,
) -> tuple[Changing, Step]:
    """One iteration, the fit after it, and whether that changed little enough to stop."""
    (tensors, modes, held_out), (factors, before, best, best_fit, seen) = fixed, changing
    factors, per_rank = modes.iterate(comm, tensors, factors, update)
    agreed = comm.assume_replicated(per_rank)
    comm.settle(*factors.handles(), agreed)
    sums = agreed.result()
    fit = modes.fit(sums, of_tensor)
    measured = {"fit": fit, "fit_change": fit - before}
    finite = bool(np.isfinite(sums).all())
    if held_out is not None and finite:
        error = validated(
            comm, factors, held_out, n_held_out=n_held_out, loss=loss, intercept=modes.intercept
        )
        if loss == SQUARED_ERROR:
            measured["validation_rmse"] = float(np.sqrt(error))
        else:
            measured["validation_loss"] = error
    if watch is not None:
        seen = watch.after(seen, number, measured)
        if seen.step == number:
            best = comm.map(owned_part, tensors, factors.weights, *factors.rows)
            best, best_fit = comm.settle(best), fit
    step = Step(
        measured,
        finite=finite,
        enough=abs(fit - before) < tolerance or (watch is not None and watch.ran_out(seen)),
    )
    return (factors, fit, best, best_fit, seen), step


# -- steps on one rank ---


def rows_of_mode(tensor: RankTensor, *, mode: int) -> NDArray[np.int32]:
    """Global indices of a rank's factor rows."""
    return tensor.rows[mode].copy()


def rows_of_part(part: Part, *, mode: int, dtype: str) -> NDArray[Any]:
    """A rank's rows of one factor, as its own."""
    return np.array(part["factors"][mode], dtype)


def weights_of_part(part: Part) -> NDArray[np.float64]:
    """λ of a state, as a rank's own."""
    return part["weights"].copy()


def no_gram(tensor: RankTensor) -> NDArray[np.float64]:
    """What stands for a Gram that was not added up yet."""
    return np.zeros((0, 0))


def owned_part(tensor: RankTensor, weights: NDArray[np.float64], *rows: NDArray[Any]) -> Part:
    """What a rank answers for: its owned rows of each mode; and λ."""
    owned = [own[:n_owned].copy() for own, n_owned in zip(rows, tensor.n_owned, strict=True)]
    return {"factors": owned, "weights": weights.copy()}


def bytes_held(tensor: RankTensor, *held: Any, n_modes: int, n_made: int) -> int:
    """Bytes of a rank's nonzeros and factor rows, and what it holds for validation.

    Where rows have equations of their own, those of the mode with most rows, too, and what is made
    of each value, so many numbers: they come and go.
    """
    n_bytes = bytes_of(tensor, *held)
    if isinstance(tensor.layout, EntriesByRow):
        rows = held[:n_modes]
        n_bytes += max(map(len, rows)) * equations_bytes(rows[0].shape[1])
    return n_bytes + n_made * tensor.layout.values.nbytes


def warm_up_rank(
    tensor: RankTensor, *rows: NDArray[Any], nonnegative: bool, loss: str = SQUARED_ERROR
) -> None:
    """Compile on this worker what an iteration runs, so that iterations measure training.

    What the MTTKRP compiles depends on the layout, so it runs as it will.
    """
    if isinstance(tensor.layout, EntriesByRow):
        warm_up_equations(tensor.layout.dtype, len(rows), nonnegative)
        if loss == LOGISTIC:
            tensor.layout.reconstruct(rows, np.ones(rows[0].shape[1]))
        return
    for mode in range(len(rows)):
        if loss == POISSON:
            tensor.layout.ratios(mode, rows, np.ones(rows[0].shape[1]))
        else:
            tensor.layout.mttkrp(mode, rows)
    warm_up(tensor.layout.dtype, nonnegative)
    warm_up_addition(tensor.layout.dtype)
