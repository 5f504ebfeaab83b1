"""A decomposition on ranks: nonzeros laid out, factors handed out, iterations, the state gathered.

    nonzeros, numbering ─► lay_out ─► tensors ─┐
    state ─────────────────────────► begin ────┴─► factors, Grams ─► iteration … ─► owned rows

What an iteration is stands in `als`; here is what the base asks of every model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.collectives import (
    Communicator,
    EmbeddedPlan,
    PerRank,
    allreduce,
    barrier,
    prepare_embedded,
)
from daskpart.errors import InputError
from daskpart.models.base.state import Part
from daskpart.models.base.text import Step, Text, run_steps

from .als import (
    INNER,
    SQUARED,
    EmbeddedModes,
    Factors,
    Modes,
    PointToPointModes,
    Update,
)
from .completion import StoredEntriesModes, warm_up_equations
from .layout.by_row import EntriesByRow
from .plan import CPPlan
from .ranks import RankTensor, arrange, rows_of_ranks, squared_norm
from .state import CPState
from .steps import warm_up


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
    ) -> None:
        self.session, self._plan = comm, plan
        self._update, self._dtype, self._tolerance = update, dtype, tolerance
        rows = comm.values(rows_of_ranks(plan.numberings, shape))
        self._tensors, ids, self._squared_norm = comm.run(
            lay_out,
            comm.values(pieces),
            rows,
            n_modes=plan.n_modes,
            dtype=dtype,
            memory=plan.choice.memory,
            missing=plan.choice.missing,
        )
        if not np.isfinite(self._squared_norm):
            raise InputError(
                "the values are too large: the sum of their squares overflows. Divide the tensor "
                "by its largest value."
            )
        if not self._squared_norm:
            raise InputError(
                "the values are too small: the sum of their squares is 0 in floating point. Divide "
                "the tensor by its largest value."
            )
        self._modes = prepared(comm, plan, ids)

    def begin_from(self, state: CPState) -> None:  # type: ignore[override]
        """Hand out the factors of a state, and add up their Grams."""
        plan = self._plan
        held = {
            dim: [numbering.of_rank(rank) for rank in range(plan.n_ranks)]
            for dim, numbering in zip(state.dims, plan.numberings, strict=True)
        }
        self._factors, self.memory = self.session.run(
            begin,
            (self._tensors, self._modes),
            self.session.values(state.cut(held, plan.n_ranks)),
            n_modes=plan.n_modes,
            dtype=self._dtype,
            nonnegative=any(self._update.nonnegative),
        )
        self._fit = state.fit

    def run(self, first: int, last: int) -> list[Step]:
        """Do iterations `first` to `last`, fewer if the fit changes by less than the tolerance."""
        (self._factors, self._fit), steps = self.session.run(
            run_steps,
            (self._tensors, self._modes),
            (self._factors, self._fit),
            step=iteration,
            first=first,
            last=last,
            update=self._update,
            squared_norm=self._squared_norm,
            tolerance=self._tolerance,
        )
        return steps

    def gather(self, state: CPState) -> CPState:  # type: ignore[override]
        """The factors as they are on the ranks."""
        comm, factors = self.session, self._factors
        parts = comm.gather(comm.map(owned_part, self._tensors, factors.weights, *factors.rows))
        answered = {
            dim: [numbering.first_group(rank) for rank in range(self._plan.n_ranks)]
            for dim, numbering in zip(state.dims, self._plan.numberings, strict=True)
        }
        return state.assembled(parts, answered, fit=self._fit)

    def advice(self, step: Step) -> str:
        """What to do when factors diverged."""
        return "factors became NaN or infinite. Add a ridge, or scale the tensor."


def prepared(comm: Communicator, plan: CPPlan, ids: list[PerRank]) -> Modes | StoredEntriesModes:
    """An iteration, ready to run."""
    modes = prepared_messages(comm, plan, ids)
    return StoredEntriesModes(modes) if plan.choice.missing == "unknown" else modes


def prepared_messages(comm: Communicator, plan: CPPlan, ids: list[PerRank]) -> Modes:
    """The messages of each mode, ready to run."""
    if isinstance(plan.expands[0], EmbeddedPlan):
        return EmbeddedModes(
            [prepare_embedded(comm, p, n) for p, n in zip(plan.reduces, ids, strict=True)],  # type: ignore[arg-type]
            [prepare_embedded(comm, p, n) for p, n in zip(plan.expands, ids, strict=True)],  # type: ignore[arg-type]
        )
    pairs = [
        comm.prepare_all([reduce, expand], n)
        for reduce, expand, n in zip(plan.reduces, plan.expands, ids, strict=True)
    ]
    return PointToPointModes([pair[0] for pair in pairs], [pair[1] for pair in pairs])


# -- texts ---


def lay_out(
    comm: Communicator,
    pieces: PerRank,
    rows: PerRank,
    *,
    n_modes: int,
    dtype: str,
    memory: str,
    missing: str,
) -> tuple[PerRank, list[PerRank], float]:
    """Nonzeros laid out, the rows of each mode on every rank, and ‖X‖²."""
    tensors = comm.map(arrange, pieces, rows, dtype=dtype, memory=memory, missing=missing)
    ids = [comm.map(rows_of_mode, tensors, mode=mode) for mode in range(n_modes)]
    total = allreduce(comm, comm.map(squared_norm, tensors))
    tensors, *ids, total = comm.settle(tensors, *ids, total)
    return tensors, ids, float(total.result())


def begin(
    comm: Communicator,
    fixed: tuple[PerRank, Any],
    parts: PerRank,
    *,
    n_modes: int,
    dtype: str,
    nonnegative: bool,
) -> tuple[Factors, list[int]]:
    """Factors of a state and their Grams, kernels compiled; and the bytes that each rank holds."""
    tensors, modes = fixed
    factors = Factors(
        [comm.map(rows_of_part, parts, mode=mode, dtype=dtype) for mode in range(n_modes)],
        [comm.map(no_gram, tensors) for _ in range(n_modes)],
        comm.map(weights_of_part, parts),
    )
    factors = modes.first_grams(comm, tensors, factors)
    warm = comm.map(warm_up_rank, tensors, *factors.rows, nonnegative=nonnegative)
    held = comm.fold(comm.map(bytes_held, tensors, *factors.rows), list)
    comm.settle(*factors.handles(), warm, held)
    barrier(comm)  # so that the first iteration does not count who was longer at its set-up
    return factors, held.result()


def iteration(
    comm: Communicator,
    fixed: tuple[PerRank, Any],
    changing: tuple[Factors, float],
    *,
    number: int,
    update: Update,
    squared_norm: float,
    tolerance: float,
) -> tuple[tuple[Factors, float], Step]:
    """One iteration, the fit after it, and whether that changed little enough to stop."""
    (tensors, modes), (factors, before) = fixed, changing
    factors, per_rank = modes.iterate(comm, tensors, factors, update)
    agreed = comm.assume_replicated(per_rank)
    comm.settle(*factors.handles(), agreed)
    sums = agreed.result()
    fit = fit_of(sums, squared_norm)
    step = Step(
        {"fit": fit, "fit_change": fit - before},
        finite=bool(np.isfinite(sums).all()),
        enough=abs(fit - before) < tolerance,
    )
    return (factors, fit), step


def fit_of(sums: NDArray[np.float64], squared_norm: float) -> float:
    """1 − ‖X − X̂‖/‖X‖, from ⟨X, X̂⟩ and ‖X̂‖²."""
    residual = squared_norm - 2 * sums[INNER] + sums[SQUARED]
    return 1.0 - float(np.sqrt(max(residual, 0.0) / squared_norm))


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


def bytes_held(tensor: RankTensor, *rows: NDArray[Any]) -> int:
    """Bytes of a rank's nonzeros and factor rows."""
    return tensor.nbytes + sum(own.nbytes for own in rows)


def warm_up_rank(tensor: RankTensor, *rows: NDArray[Any], nonnegative: bool) -> None:
    """Compile on this worker what an iteration runs, so that iterations measure training.

    What the MTTKRP compiles depends on the layout, so it runs as it will.
    """
    if isinstance(tensor.layout, EntriesByRow):
        warm_up_equations(tensor.layout, rows, nonnegative)
        return
    for mode in range(len(rows)):
        tensor.layout.mttkrp(mode, rows)
    warm_up(tensor.layout.dtype, nonnegative)
