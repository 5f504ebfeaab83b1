"""The collectives, written once over any `Communicator`.

    expand      owner → sharers            rows of the plan, one message a pair of ranks and round
    reduce      sharers → owner            the same backwards
    allreduce   every rank ↔ every rank    one value, by a star or a hypercube
    barrier     an allreduce of nothing

By an embedded plan rows go through the rounds of a hypercube (`embedded`). η-PASGD §3.2–3.4 for
expand and reduce.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from daskpart._floor.checks import one_of

from .communicator import Communicator, PerRank, Replicated, collective
from .embedded import run_embedded
from .hypercube_dense import hypercube_allreduce
from .messages import PreparedPlan, require_prepared
from .reduction import SUM, Reduction, combine_rows, pack_rows, place_rows, require_reduction
from .routes import PreparedEmbedding


@collective
def expand(
    communicator: Communicator,
    prepared: PreparedPlan,
    values: PerRank,
    pack: Callable = pack_rows,
    place: Callable = place_rows,
    **static: Any,
) -> PerRank:
    """Send every item's row from its owner to the ranks that share it.

    Parameters
    ----------
    communicator : Communicator
    prepared : PreparedPlan
        An expand plan after `Communicator.prepare`; embedded or not, the new states are the same.
    values : PerRank
        State of each rank; spent, as in `Communicator.update`.
    pack : callable
        ``pack(state, positions)`` gives one row a position. Default: rows of an array. Called once
        for all rows that start here; on the graph transport once a message.
    place : callable
        ``place(state, inbox, **static)`` gives the new state. Default: overwrite rows of an array.
    **static
        The same on every rank; handed to `place`.

    Returns
    -------
    PerRank
        The new states. Cost: ``prepared.plan.total_messages`` messages in ``len(rounds)`` rounds.
    """
    require_prepared(prepared, "expand")
    return _run(communicator, prepared, values, pack, place, static, SUM)


@collective
def reduce(
    communicator: Communicator,
    prepared: PreparedPlan,
    values: PerRank,
    pack: Callable = pack_rows,
    combine: Callable | None = None,
    *,
    reduction: Reduction = SUM,
    **static: Any,
) -> PerRank:
    """Send every sharer's row of an item to its owner, which combines them in rank order.

    By an aware embedding, copies that meet on the way are combined there by `reduction`, the lower
    rank's first, and the owner's inbox holds one row an item and rank of the last hop.

    Parameters
    ----------
    communicator, values, pack
        As for `expand`.
    prepared : PreparedPlan
        A reduce plan after `Communicator.prepare`.
    combine : callable, optional
        ``combine(state, inbox, **static)`` gives the new state, with the owner's own row at its own
        rank's position (see `contributions`). Default: rows of an array, by `reduction`.
    reduction : Reduction
    **static
        The same on every rank; handed to `combine`.

    Returns
    -------
    PerRank
        The new states. Cost: as of `expand`.
    """
    require_prepared(prepared, "reduce")
    combine = combine or partial(combine_rows, reduction=reduction)
    return _run(communicator, prepared, values, pack, combine, static, reduction)


def _run(
    communicator: Communicator,
    prepared: PreparedPlan,
    values: PerRank,
    pack: Callable,
    end: Callable,
    static: dict[str, Any],
    reduction: Reduction,
) -> PerRank:
    if isinstance(prepared, PreparedEmbedding):
        return run_embedded(communicator, prepared, values, pack, end, static, reduction)[0]
    combines = reduction.name if prepared.kind == "reduce" else ""
    for prepared_round in prepared.rounds:
        pending = communicator.post(prepared_round, values, pack, combines)
        values = communicator.collect(pending, values, end, **static)
    return values


def allreduce(
    communicator: Communicator,
    values: PerRank,
    reduction: Reduction = SUM,
    algorithm: str = "star",
) -> Replicated:
    """Combine one value a rank; every rank holds the result.

    Parameters
    ----------
    communicator : Communicator
    values : PerRank of numbers or arrays
        Equal in shape and dtype on all ranks. Pack the small sums of a step into one array:
        a message costs far more than its bytes.
    reduction : Reduction
    algorithm : {"star", "hypercube"}
        "star" combines in rank order at rank 0: 2·(n_ranks - 1) messages in all, 2 of them on the
        way of any result, so the best choice for small values on few ranks. "hypercube" is
        `hypercube_allreduce`: ⌈log2 n_ranks⌉ messages a rank, no rank is hot, and values combine in
        the order of the hypercube, so the last bits may differ from those of the star.

    Returns
    -------
    Replicated
        Its `result()` is an array, or a plain number if the ranks gave numbers.

    Raises
    ------
    InputError
        For an unknown algorithm, or ranks that disagree on shape or dtype; names two that do.
    """
    require_reduction(reduction)
    if one_of(algorithm, "algorithm", ("star", "hypercube")) == "hypercube":
        return communicator.assume_replicated(hypercube_allreduce(communicator, values, reduction))
    return communicator.fold(values, reduction.fold)


@collective
def barrier(communicator: Communicator) -> None:
    """Wait until every rank has come here; moves no rows.

    Parameters
    ----------
    communicator : Communicator
    """
    zeros = communicator.values([0] * communicator.n_ranks)
    communicator.fold(zeros, SUM.fold, label="barrier").result()
