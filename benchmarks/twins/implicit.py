"""Implicit ALS in plain mpi4py, with the steps of `models.implicit_factorization`.

for each side    Gram of the other side's own rows by one allreduce; own rows solved; rows that
                 others have events on sent to them
at the end       one allreduce: objective, whether all is finite
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from daskpart.collectives.messages import RankMessages
from daskpart.models.implicit_factorization.als import (
    SIDES,
    Events,
    RankFactors,
    Solve,
    compile_kernels,
    count,
    owned_gram,
    solve_side,
)
from daskpart.models.implicit_factorization.plan import ImplicitPlan, events_of_ranks
from daskpart.models.implicit_factorization.text import rows_of_part

from .messages import Swap, allreduce, messages_of_ranks

if TYPE_CHECKING:
    from mpi4py import MPI


@dataclass(frozen=True)
class Piece:
    """What one rank begins with."""

    part: Any
    events: dict[str, Events]
    expands: dict[str, RankMessages]
    owned: dict[str, np.ndarray]
    solve: Solve


def pieces(plan: ImplicitPlan, matrix: Any, model: Any, state: Any) -> list[Piece]:
    """One a rank; `state` is where the fit of `model` begins."""
    n_ranks, numberings = plan.n_ranks, plan.numberings
    held = {side: numberings[side].of_ranks() for side in SIDES}
    messages = {side: messages_of_ranks([plan.expands[side]], held[side]) for side in SIDES}
    parts = state.cut(held, n_ranks)
    return [
        Piece(
            parts[rank],
            events,
            {side: messages[side][rank][0] for side in SIDES},
            {side: numberings[side].first_group(rank) for side in SIDES},
            model._solving(),
        )
        for rank, events in enumerate(events_of_ranks(matrix, plan, model.alpha))
    ]


def train(world: MPI.Comm, piece: Piece, n_steps: int) -> tuple[list[float], dict[str, Any]]:
    """Seconds of each iteration, and the ids and rows that this rank answers for."""
    factors = rows_of_part(piece.part, piece.events)
    width = (factors.user.shape[1],)
    swaps = {side: Swap(world, piece.expands[side], width, np.float32) for side in SIDES}
    compile_kernels(factors, solve=piece.solve)
    world.Barrier()
    seconds = []
    for _ in range(n_steps):
        begin = perf_counter()
        for side, other in (SIDES, SIDES[::-1]):
            gram = allreduce(world, owned_gram(factors, side=other))
            factors = solve_side(factors, gram, side=side, solve=piece.solve)
            _send_rows(swaps[side], getattr(factors, side))
        _, wrong = allreduce(world, count(factors))
        seconds.append(perf_counter() - begin)
        if wrong:
            raise FloatingPointError("factors became NaN or infinite")
    return seconds, {
        f"{side}_factors": (piece.owned[side], _owned(factors, side)) for side in SIDES
    }


def _send_rows(swap: Swap, rows: np.ndarray) -> None:
    inbox = swap(lambda at: rows[at])
    for positions, message in zip(inbox.positions, inbox.payloads, strict=True):
        rows[positions] = message


def _owned(factors: RankFactors, side: str) -> np.ndarray:
    return getattr(factors, side)[: factors.events[side].n_owned].copy()
