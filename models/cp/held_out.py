"""Entries held out of a decomposition, on the ranks: who measures which, and what travels for it.

    held-out entry     ─► the rank that owns its row of the longest mode that is not fixed
    after an iteration, for each other mode
                       owner of a row ──► that rank, where it has no copy               (expand)
    Σ (x − x̂)², or of another loss, of each rank ──► every rank                         (star)

Copies that training needs are as the owner's are by then, so only rows without an entry of that
rank travel. Rows of fixed modes are handed out with the entries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.distinct import distinct
from daskpart.collectives import Communicator, Inbox, PerRank, Plan, PreparedPlan, pack_rows
from daskpart.collectives.plan import Round
from daskpart.containers.dask_blocks import cut_by_part
from daskpart.containers.numbering import Numbering
from daskpart.models.base.held_out import LABEL, mean_loss

from .als import Factors
from .entries import Entries, values_of
from .losses import OF_LOSS

if TYPE_CHECKING:
    from .plan import CPPlan


@dataclass(frozen=True, eq=False)
class RankEntries:
    """Entries that one rank measures, and the factor rows that it needs for it.

    Attributes
    ----------
    entries : Entries
        Positions among the rows below.
    beside : tuple of ndarray of int32, one a mode
        Indices of the rows that arrive after an iteration, rising: these come first.
    own : tuple of int array, one a mode
        Where the others are in the rank's factor rows.
    known : dict of int to ndarray of shape (rows, R)
        By fixed modes all rows, which no iteration changes; of these none arrive.
    """

    entries: Entries
    beside: tuple[NDArray[np.int32], ...]
    own: tuple[NDArray[np.int64], ...]
    known: dict[int, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class HeldOutPlan:
    """What measuring held-out entries takes.

    Attributes
    ----------
    of_ranks : sequence of RankEntries
    expands : tuple of Plan, one a mode
    keeps_best : bool
        Whether each rank keeps the rows of the best iteration, too.
    """

    of_ranks: Sequence[RankEntries]
    expands: tuple[Plan, ...]
    keeps_best: bool


def with_held_out(
    plan: CPPlan, entries: Entries, fixed: Mapping[int, NDArray[Any]], keeps_best: bool
) -> CPPlan:
    """A plan whose ranks also measure held-out entries; iterations are as before.

    `fixed` are the factors that stay, by mode.
    """
    ranks = range(plan.n_ranks)
    owners = [_owners(numbering) for numbering in plan.numberings]
    longest = max(plan.updated, key=lambda mode: len(owners[mode]))
    rank = owners[longest][entries.positions[longest]]
    chosen = [own for (own,) in cut_by_part(rank, plan.n_ranks, np.arange(len(rank)))]
    positions = [np.empty((plan.n_modes, own.size), np.int32) for own in chosen]
    beside: list[list[NDArray[np.int32]]] = [[] for _ in ranks]
    at: list[list[NDArray[np.int64]]] = [[] for _ in ranks]
    known: list[dict[int, NDArray[Any]]] = [{} for _ in ranks]
    expands = []
    for mode, (numbering, owner) in enumerate(zip(plan.numberings, owners, strict=True)):
        place = np.empty(len(owner), np.int64)
        for each, own in enumerate(chosen):
            held = numbering.of_rank(each)
            place[:] = -1
            place[held] = np.arange(held.size)
            order = distinct(entries.positions[mode, own], len(owner))
            arrive, there = order[:0], order[:0]
            if mode in fixed:
                known[each][mode] = fixed[mode][order]
            else:
                has = place[order] >= 0
                arrive, there = order[~has], order[has]
                order = np.concatenate((arrive, there))
            beside[each].append(arrive.astype(np.int32))
            at[each].append(place[there])
            place[order] = np.arange(order.size)
            positions[each][mode] = place[entries.positions[mode, own]]
        arriving = [rows[mode] for rows in beside]
        items = np.concatenate(arriving)
        to = np.repeat(ranks, [rows.size for rows in arriving])
        transfers = Round.from_transfers(plan.n_ranks, owner[items], to, items)
        expands.append(Plan("expand", len(owner), (transfers,)))
    of_ranks = [
        RankEntries(Entries(found, entries.values[own]), tuple(rows), tuple(places), of_fixed)
        for found, own, rows, places, of_fixed in zip(
            positions, chosen, beside, at, known, strict=True
        )
    ]
    return replace(plan, held_out=HeldOutPlan(of_ranks, tuple(expands), keeps_best))


def _owners(numbering: Numbering) -> NDArray[np.int64]:
    owned = numbering.first_groups()
    owners = np.empty(sum(map(len, owned)), np.int64)
    for rank, rows in enumerate(owned):
        owners[rows] = rank
    return owners


def prepared(comm: Communicator, plan: CPPlan) -> tuple[PerRank, list[PreparedPlan]]:
    """Entries handed out, and the messages of each mode ready to run."""
    assert plan.held_out is not None
    of_ranks = plan.held_out.of_ranks
    expands = []
    for mode, (numbering, expand) in enumerate(
        zip(plan.numberings, plan.held_out.expands, strict=True)
    ):
        rows = [
            np.concatenate((numbering.of_rank(rank), own.beside[mode]))
            for rank, own in enumerate(of_ranks)
        ]
        expands.append(comm.prepare(expand, comm.values(rows), LABEL))
    return comm.values(of_ranks), expands


def validated(
    comm: Communicator,
    factors: Factors,
    held_out: tuple[PerRank, list[PreparedPlan]],
    *,
    n_held_out: int,
    loss: str,
    intercept: float,
) -> float:
    """Bring the rows that are needed, and measure the mean of `loss_of`; a text.

    `intercept` is what the decomposition adds to: of yes and no; of other values 0.
    """
    entries, expands = held_out
    needed = []
    for mode, (rows, plan) in enumerate(zip(factors.rows, expands, strict=True)):
        pending = comm.post(plan.rounds[0], rows, pack_rows)
        own = comm.map(needed_rows, rows, entries, mode=mode)
        needed.append(comm.collect(pending, own, placed, rows))
    sums = comm.map(loss_of, entries, factors.weights, *needed, loss=loss, intercept=intercept)
    return mean_loss(comm, comm.settle(sums), n_held_out)


# -- steps on one rank ---


def needed_rows(rows: NDArray[Any], held_out: RankEntries, *, mode: int) -> NDArray[Any]:
    """The rows of a mode that a rank needs, those that arrive still blank."""
    if mode in held_out.known:
        return held_out.known[mode]
    n_beside, own = held_out.beside[mode].size, held_out.own[mode]
    needed = np.zeros((n_beside + own.size, rows.shape[1]), rows.dtype)
    needed[n_beside:] = rows[own]
    return needed


def placed(needed: NDArray[Any], inbox: Inbox, rows: NDArray[Any]) -> NDArray[Any]:
    """With the rows that arrived, which are numbered behind the rank's own."""
    for positions, payload in zip(inbox.positions, inbox.payloads, strict=True):
        needed[positions - len(rows)] = payload
    return needed


def loss_of(
    held_out: RankEntries,
    weights: NDArray[np.float64],
    *needed: NDArray[Any],
    loss: str,
    intercept: float,
) -> float:
    """Over a rank's held-out entries the sum of their losses."""
    entries = held_out.entries
    fitted = values_of(weights, needed, entries.positions) + intercept
    return float(OF_LOSS[loss].of_each(entries.values, fitted).sum())
