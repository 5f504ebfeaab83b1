"""Training on mini-batches: each rank draws its own, asks others for what it reads, then steps.

    every rank, layer by layer from the last down          then as in a full batch
        edges into own targets, drawn                          forward  ─► backward
        indices ─► owners: they are of the batch, too          allreduce ─► step

What a mini-batch is stands in `sampling`. Only indices and rows travel, from rank to rank; the
driver says which epochs to run. Gradients of the halo's rows go back to their owners, since nobody
but the reader knows which entries of a column were drawn: so the way back is the way there, and
what a mini-batch moves is known once its indices are exchanged.

One mini-batch of all labelled vertices and all neighbours is the same in every epoch, and is drawn
once: a full batch, but for the vertices whose values no label reads.

Source: Demirci, Haldar, Ferhatosmanoglu, "Scalable graph convolutional network training on
distributed-memory systems", VLDB 2022, section 4.3.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.collectives import Communicator, Exchange, PerRank
from daskpart.collectives.messages import PreparedPlan, RankMessages
from daskpart.data_models import LayerSampler, VertexSampler
from daskpart.models.base.early_stopping import Watch
from daskpart.models.base.memory import bytes_of
from daskpart.models.base.text import Step
from daskpart.models.optimisation.learning_rates import LearningRate
from daskpart.models.optimisation.optimisers import Optimizer

from .batch_plan import BatchPlan, adjacency_of
from .first_product import exchange_of
from .network import Network
from .passes import RankData
from .problem import GraphProblem
from .ranks import halo_of
from .sampling import (
    Batches,
    RankRows,
    batch_data,
    batch_messages,
    drawn_from,
    first_targets,
    order_of_epoch,
    pack_asked,
    rows_asked_for,
    sampled_edges,
    with_readers,
)
from .text import (
    Changing,
    GCNText,
    Prepared,
    end_of_epoch,
    layer_sizes,
    measured_pass,
    models_of,
    one_step,
)

# what the passes work on, messages there and back by layer, the edges of each graph
Batch = tuple[tuple[PerRank, ...], tuple[tuple[PreparedPlan, ...], ...], list[PerRank]]
Fixed = tuple[PerRank, Prepared, PerRank, Batch | None]


class BatchText(GCNText):
    """The fit on mini-batches; parameters are those of `GCNText`.

    Parameters
    ----------
    plan : BatchPlan
    """

    def __init__(
        self,
        comm: Communicator,
        plan: BatchPlan,
        problem: GraphProblem,
        optimizer: Optimizer,
        rate: LearningRate,
        watch: Watch | None = None,
    ) -> None:
        super().__init__(comm, plan, problem, optimizer, rate, watch)
        rows = comm.map(
            drawn_from, self._data, comm.values(seeds_of_ranks(plan, problem, self.own))
        )
        self._begin, self.step = begin, epoch
        self.fixed = (self._data, self._prepared, rows, None)
        of_batches = {"batches": plan.batches, "exchange": exchange_of(plan.backward)}
        self._of_begin |= of_batches
        self.static |= of_batches
        if plan.batches.is_always_the_same:
            self.fixed = (*self.fixed[:3], comm.run(the_batch, self.fixed, **of_batches))


def seeds_of_ranks(
    plan: BatchPlan, problem: GraphProblem, orders: Sequence[NDArray[np.int64]]
) -> list[tuple[NDArray[Any], ...]]:
    """For each rank, which has its vertices in some order, what `sampling.drawn_from` takes."""
    sampler = plan.batches.sampler
    given: list[tuple[NDArray[Any], ...]] = []
    may_begin = np.ones(problem.n_vertices, bool)
    if not isinstance(sampler, VertexSampler):
        may_begin = problem.training
    numbers = np.cumsum(may_begin) - 1
    probabilities = np.empty(0)
    if isinstance(sampler, LayerSampler):
        sampler = replace(sampler, size=plan.batches.size, seeds=np.flatnonzero(may_begin))
        probabilities = sampler.probabilities(adjacency_of(problem))
    for rank, own in enumerate(orders):
        halo = halo_of(plan.forward, rank)
        seeds = np.flatnonzero(may_begin[own])
        of_rank = (
            probabilities[np.concatenate([own, halo])] if probabilities.size else probabilities
        )
        given.append((seeds, numbers[own[seeds]], of_rank))
    return given


def begin(
    comm: Communicator,
    fixed: Fixed,
    parts: PerRank,
    weights: PerRank | None,
    *,
    network: Network,
    batches: Batches,
    exchange: Exchange,
) -> tuple[PerRank, PerRank | None, list[int]]:
    """The model of a state and its best weights, after a pass that changes nothing; bytes held."""
    data, whole, rows, kept = fixed
    order = comm.map(order_of_epoch, rows, batches=batches, number=0)
    batch, prepared, edges = kept or mini_batch(
        comm, fixed, order, batches=batches, exchange=exchange, number=0, batch=0
    )
    model, best = models_of(comm, parts, weights)
    messages = [each.rounds[0].messages for each in whole]
    stays, drawn = [data, rows, order, *messages], [*edges, *dict.fromkeys(batch[1:])]
    model, best, held = measured_pass(
        comm, batch, prepared, model, best, *stays, *drawn, network=network
    )
    if network.n_validation:
        used = [model, *(each for each in (best,) if each is not None)]
        if kept:
            used += [batch[0], *drawn, *(each[0].rounds[0].messages for each in prepared)]
        counted = comm.map(bytes_validating, *stays, *used, network=network)
        held = np.maximum(held, comm.fold(counted, list).result()).tolist()
    return model, best, held


def epoch(
    comm: Communicator,
    fixed: Fixed,
    changing: Changing,
    *,
    number: int,
    network: Network,
    batches: Batches,
    exchange: Exchange,
    optimizer: Optimizer,
    rate: LearningRate,
    watch: Watch | None,
) -> tuple[Any, Step]:
    """A step for each mini-batch; then what is validated, on the whole graph.

    The loss of a mini-batch is divided by its share of the labelled vertices in the mean, so that
    gradients are right in the mean, and those of an epoch add up to the mean loss of all.
    """
    (data, prepared, rows, kept), (model, best, memory, seen) = fixed, changing
    n_batches = batches.n_batches
    part = replace(network, n_terms=network.n_terms / n_batches)
    order = comm.map(order_of_epoch, rows, batches=batches, number=number)
    asked = comm.map(rows_to_validate, rows, times=network.n_validating)
    sums: Any = 0.0  # with the first batch an array
    began_finite = True
    for batch in range(n_batches):
        own, plans, edges = kept or mini_batch(
            comm, fixed, order, batches=batches, exchange=exchange, number=number, batch=batch
        )
        at = (number - 1) * n_batches + batch + 1
        memory = {**memory, "rate": rate.at(memory, at, number)}
        model, of_batch = one_step(
            comm, own, plans, model, network=part, number=at, optimizer=optimizer,
            rate=memory["rate"], n_steps=n_batches,
        )  # fmt: skip
        asked = comm.settle(comm.map(rows_asked_for, asked, *edges, times=batches.times))
        if not batch:
            began_finite = bool(np.isfinite(of_batch).all())
        sums = sums + of_batch
        del own, plans, edges  # else they are there beside the next, or the validation
    changed, step = end_of_epoch(
        comm, (data, prepared), (model, best, memory, seen), sums, number=number, network=network,
        rate=rate, watch=watch,
    )  # fmt: skip
    counted = {"rows asked for": comm.fold(asked, sum).result()}
    return changed, replace(step, counted=counted, began_finite=began_finite)


def the_batch(comm: Communicator, fixed: Fixed, *, batches: Batches, exchange: Exchange) -> Batch:
    """The mini-batch that every epoch has, where it is always the same; a text."""
    order = comm.map(order_of_epoch, fixed[2], batches=batches, number=0)
    own, prepared, edges = mini_batch(
        comm, fixed, order, batches=batches, exchange=exchange, number=0, batch=0
    )
    settled = comm.settle(*own, *edges)
    return settled[: len(own)], prepared, list(settled[len(own) :])


def mini_batch(
    comm: Communicator,
    fixed: Fixed,
    order: PerRank,
    *,
    batches: Batches,
    exchange: Exchange,
    number: int,
    batch: int,
) -> Batch:
    """What the passes work on, a part of a rank's data and messages for each layer; and the edges.

    Parameters
    ----------
    comm : Communicator
    fixed : handles
        Data, prepared plans of a product with all of Â, `sampling.RankRows`.
    order : PerRank of EpochOrder
    batches : Batches
    exchange : Exchange
        From readers to owners.
    number, batch : int
        The epoch, and the mini-batch in it, from 0.
    """
    data, whole, rows, _ = fixed
    messages = whole[0].rounds[0].messages
    before, found = comm.map(first_targets, order, batch=batch), []
    for index in range(batches.n_graphs):
        edges = comm.map(
            sampled_edges, rows, order, before, messages, batches=batches, number=number,
            batch=batch, index=index,
        )  # fmt: skip
        pending = comm.post_values(exchange, edges, pack_asked, label="indices", index=index)
        before = comm.collect(pending, edges, with_readers, messages)
        found.append(before)
    of_graphs, plans = [], []
    for index, edges in enumerate(found):
        first = index == batches.graph_of[0]
        of_graphs.append(
            comm.map(
                batch_data, data, rows, edges, batches=batches, with_features=first,
                with_targets=index == 0,
            )
        )  # fmt: skip
        halves = comm.map(batch_messages, edges, rows, messages)
        plans.append([_prepared(each, halves, slot) for slot, each in enumerate(whole)])
    of_layers = [plans[index] for index in batches.graph_of]
    both = tuple(zip(*of_layers, strict=True))
    return tuple(of_graphs[index] for index in batches.graph_of), both, found


def _prepared(whole: PreparedPlan, messages: PerRank, slot: int) -> PreparedPlan:
    return PreparedPlan(
        whole.kind, whole.label, (replace(whole.rounds[0], messages=messages, slot=slot),)
    )


def bytes_validating(
    data: RankData, rows: RankRows, order: Any, there: list[RankMessages], *used: Any,
    network: Network,
) -> int:  # fmt: skip
    """Bytes that are on a rank at most while it validates."""
    made = network.validation_bytes(layer_sizes(data, there, network))
    return bytes_of(data, rows, order, there, *used) + int(made)


def rows_to_validate(rows: RankRows, *, times: int) -> int:
    """Rows that a rank gets in so many products with all of Â."""
    return times * (len(rows.ids) - rows.n_own)
