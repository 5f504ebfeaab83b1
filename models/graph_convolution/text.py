"""A training on ranks: graph and features laid out, weights handed out, epochs, weights gathered.

    features ─► post ─► kept product ─┐
    state ────────────────────────────┴─► forward ─► backward ─► allreduce ─► step ─► … ─► weights

What a pass is stands in `passes`; here is what the base asks of every model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from daskpart.collectives import (
    Communicator,
    Exchange,
    PerRank,
    allreduce,
    barrier,
)
from daskpart.collectives.messages import PreparedPlan, RankMessages
from daskpart.models.base.early_stopping import Seen, Watch, seen_before
from daskpart.models.base.memory import bytes_of
from daskpart.models.base.text import Step, Text
from daskpart.models.optimisation.learning_rates import LearningRate
from daskpart.models.optimisation.optimisers import BEGAN, Optimizer, are_bounded

from .first_product import exchange_of, with_product
from .network import LayerSizes, Network
from .passes import (
    RankData,
    RankModel,
    RankTargets,
    backward,
    forward,
    of_layer,
    passed,
    validation_sums,
)
from .plan import LABELS, GCNPlan
from .problem import GraphProblem
from .ranks import cut_graph, near_neighbours
from .rows import SparseRows
from .state import GCNState

Prepared = tuple[PreparedPlan, PreparedPlan]
# what epochs change: the model, the best weights (if somebody watches), memory of the rate, `Seen`
Changing = tuple[PerRank, PerRank | None, dict[str, float], Seen]


class GCNText(Text):
    """The fit on one communicator.

    Parameters
    ----------
    comm : Communicator
    plan : GCNPlan
    problem : GraphProblem
    optimizer : Optimizer
    rate : LearningRate
    watch : Watch or None
        What says which epoch is the best: each rank keeps its weights.

    Attributes
    ----------
    own : list of int64 ndarray
        The vertices of each rank, in the order in which it has them.
    """

    watches = True
    measures_first = True

    def __init__(
        self,
        comm: Communicator,
        plan: GCNPlan,
        problem: GraphProblem,
        optimizer: Optimizer,
        rate: LearningRate,
        watch: Watch | None = None,
    ) -> None:
        self.session, self._plan = comm, plan
        self._rate, self._watch = rate, watch
        self.own = orders_of_ranks(plan, problem)
        self._prepared, self._data = laid_out(comm, plan, problem, self.own)
        self.fixed: Any = (self._data, self._prepared)
        self.step = epoch
        self._begin: Callable[..., Any] = begin
        self._of_begin: dict[str, Any] = {"network": plan.network}
        self.static = {**self._of_begin, "optimizer": optimizer, "rate": rate, "watch": watch}

    def begin_from(self, state: GCNState) -> None:  # type: ignore[override]
        """Hand out the weights of a state; compile, by a pass that changes nothing."""
        comm, n_ranks = self.session, self._plan.n_ranks
        memory, best = dict(state.learning_rate_state) or self._rate.start(), None
        if self._watch is not None:
            best = comm.values([[*state.at_best().weights.values()]] * n_ranks)
        model, best, self.memory = comm.run(
            self._begin, self.fixed, comm.values(state.cut({}, n_ranks)), best, **self._of_begin
        )
        self.changing: Changing = (model, best, memory, seen_before(self._watch, state))

    def gather(self, state: GCNState) -> GCNState:  # type: ignore[override]
        """The weights, of rank 0, and those of the best epoch."""
        comm, names = self.session, self._plan.network.names
        model, best, memory, seen = self.changing
        # every rank has the same: that of one is brought
        found = comm.assume_replicated(comm.map(RankModel.copy, model)).result()
        weights = dict(zip(names, found.weights, strict=True))
        new = replace(state, weights=weights, slots=found.slots, learning_rate_state=dict(memory))

        def best_weights() -> dict[str, Any]:
            kept = comm.assume_replicated(comm.map(copied, best)).result()
            return {"weights": dict(zip(names, kept, strict=True))}

        return new.with_best(seen.step, best_weights)

    def advice(self, step: Step) -> str:
        """What to do when weights diverged."""
        return (
            "the loss or weights became NaN or infinite. Lower initial_learning_rate, or scale the "
            "features, or the numbers that are to be predicted."
        )


# -- set-up ---


def orders_of_ranks(plan: GCNPlan, problem: GraphProblem) -> list[NDArray[np.int64]]:
    """The vertices of each rank, in the order in which it has them in a fit."""
    assert plan.partition is not None
    return near_neighbours(problem.pattern, plan.partition, problem.has_symmetric_pattern)


def laid_out(
    comm: Communicator,
    plan: GCNPlan,
    problem: GraphProblem,
    own: Sequence[NDArray[np.int64]] | None = None,
) -> tuple[Prepared, PerRank]:
    """Messages prepared, and what stays on each rank.

    Its vertices are in the order of `own`; None: of `orders_of_ranks`.
    """
    own = orders_of_ranks(plan, problem) if own is None else own
    network, back = plan.network, None if plan.is_symmetric else plan.backward
    graphs = cut_graph(
        problem.operator(network), own, plan.forward, back, joined=network.joins_columns
    )
    problem.let_go()  # else it would be here, beside the ranks', as long as the fit takes
    held = [
        comm.values([part.columns_of(part.forward) for part in graphs]),
        comm.values([part.columns_of(part.backward) for part in graphs]),
    ]
    prepared = tuple(map(comm.prepare, (plan.forward, plan.backward), held, LABELS))
    X = problem.inputs(network)
    data = comm.run(
        lay_out,
        prepared[0],
        comm.values(graphs),
        comm.values([X[part.own] for part in graphs]),
        comm.values([targets_of(problem, part.own) for part in graphs]),
        network=network,
        exchange=exchange_of(plan.forward) if scipy.sparse.issparse(X) else None,
        n_columns_at_once=plan.n_columns_at_once,
    )
    return prepared, data  # type: ignore[return-value]


def targets_of(problem: GraphProblem, own: NDArray[np.int64]) -> RankTargets:
    """Labelled vertices among those of a rank."""
    training = np.flatnonzero(problem.training[own])
    validation = np.flatnonzero(problem.validation[own])
    values = problem.targets.values[own]
    return RankTargets(training, values[training], validation, values[validation])


def lay_out(
    comm: Communicator,
    prepared: PreparedPlan,
    graphs: PerRank,
    features: PerRank,
    targets: PerRank,
    *,
    network: Network,
    exchange: Exchange | None,
    n_columns_at_once: int,
) -> PerRank:
    """Features as the epochs read them: as they are, or their product with Â, made once; a text."""
    first, data = network.layers[0], comm.map(with_features, graphs, features, targets)
    if first.keeps_product:
        data = with_product(
            comm, prepared, data, layer=first, n_columns_at_once=n_columns_at_once,
            exchange=exchange,
        )  # fmt: skip
    return comm.settle(data)


def begin(
    comm: Communicator,
    fixed: tuple[PerRank, Prepared],
    parts: PerRank,
    weights: PerRank | None,
    *,
    network: Network,
) -> tuple[PerRank, PerRank | None, list[int]]:
    """The model of a state and its best weights, after a pass that changes nothing; bytes held."""
    model, best = models_of(comm, parts, weights)
    return measured_pass(comm, *fixed, model, best, network=network)


def models_of(
    comm: Communicator, parts: PerRank, weights: PerRank | None
) -> tuple[PerRank, PerRank | None]:
    """The model of a state, and where weights of the best epoch lie, the ranks' own."""
    best = None if weights is None else comm.map(copied, weights)
    return comm.map(model_of_part, parts), best


def measured_pass(
    comm: Communicator,
    data: PerRank | tuple[PerRank, ...],
    prepared: Any,
    model: PerRank,
    best: PerRank | None,
    *beside: PerRank,
    network: Network,
) -> tuple[PerRank, PerRank | None, list[int]]:
    """A pass that changes nothing: both models, and the bytes that ranks hold, `beside` with them.

    What a pass works on is as in `passes.forward`.
    """
    to_readers, back = prepared
    done = forward(comm, data, to_readers, model, network=network, epoch=0)
    shares = backward(comm, data, back, model, done, network=network, epoch=0)
    used = [each for each in (*done.totals, best) if each is not None]
    places = range(len(network.layers))
    datas = [of_layer(data, place) for place in places]
    there, back = ([of_layer(each, place).rounds[0].messages for place in places]
                   for each in prepared)  # fmt: skip
    passing = comm.map(passing_bytes, *datas, *there, network=network)
    counted = comm.map(
        bytes_held, passing, datas[0], there[0], back[0], model, shares, *done.boundaries, *used,
        *beside,
    )  # fmt: skip
    held = comm.fold(counted, list)
    model, held = comm.settle(model, held)
    best = best if best is None else comm.settle(best)
    barrier(comm)  # so that the first epoch does not count who was longer at its set-up
    return model, best, held.result()


# -- an epoch ---


def epoch(
    comm: Communicator,
    fixed: tuple[PerRank, Prepared],
    changing: Changing,
    *,
    number: int,
    network: Network,
    optimizer: Optimizer,
    rate: LearningRate,
    watch: Watch | None,
) -> tuple[Any, Step]:
    """One epoch: forward, backward, one allreduce, a step; then what is validated."""
    model, best, memory, seen = changing
    memory = {**memory, "rate": rate.at(memory, number, number)}
    model, sums = one_step(
        comm, *fixed, model, network=network, number=number, optimizer=optimizer,
        rate=memory["rate"],
    )  # fmt: skip
    return end_of_epoch(
        comm, fixed, (model, best, memory, seen), sums, number=number, network=network, rate=rate,
        watch=watch,
    )  # fmt: skip


def one_step(
    comm: Communicator,
    data: PerRank | tuple[PerRank, ...],
    prepared: Any,
    model: PerRank,
    *,
    network: Network,
    number: int,
    optimizer: Optimizer,
    rate: float,
    n_steps: int = 1,
) -> tuple[PerRank, NDArray[np.float64]]:
    """Forward, backward, one allreduce, a step: the model after it, and the sums of the loss.

    What a pass works on is as in `passes.forward`; `number` counts the steps of the fit from 1, of
    which an epoch has `n_steps`.
    """
    to_readers, back = prepared
    done = forward(comm, data, to_readers, model, network=network, epoch=number)
    shares = backward(comm, data, back, model, done, network=network, epoch=number)
    gradient = allreduce(comm, shares, algorithm="hypercube")
    model = comm.update(
        stepped, model, gradient, optimizer=optimizer, rate=rate, number=number, n_steps=n_steps
    )
    model, gradient = comm.settle(model, gradient)
    del done, shares  # else they are there beside those of the validation
    return model, gradient.result()[-network.n_sums :].astype(np.float64)


def end_of_epoch(
    comm: Communicator,
    fixed: tuple[PerRank, Prepared],
    changing: Changing,
    sums: NDArray[np.float64],
    *,
    number: int,
    network: Network,
    rate: LearningRate,
    watch: Watch | None,
) -> tuple[Any, Step]:
    """Validate, and keep what is the best; what the epoch measured, with the sums of its losses."""
    (data, (to_readers, _)), (model, best, memory, seen) = fixed, changing
    loss = float(sums[0] / network.n_terms)
    bounded = comm.assume_replicated(comm.map(has_bounded_weights, model)).result()
    finite, validation = bounded and bool(np.isfinite(loss)), (float("nan"), float("nan"))
    if network.n_validation:
        last = boundary_at(comm, data, to_readers, model, network=network)
        sums_of_ranks = comm.map(validation_sums, data, last, network=network)
        found = allreduce(comm, sums_of_ranks).result()
        validation = (
            float(found[0] / network.n_validation),
            network.loss.score(found, network.n_validation, network.spreads[1]),
        )
        finite = finite and bool(np.isfinite(validation[0]))
    measured = {
        "loss": loss,
        "score": network.loss.score(sums, int(network.n_terms), network.spreads[0]),
        "validation_loss": validation[0],
        "validation_score": validation[1],
        "learning_rate": memory["rate"],
    }
    if watch is not None and best is not None:
        seen = watch.after(seen, number, measured)
        if seen.step == number:
            best = comm.settle(comm.update(with_weights_of, best, model))
    step = Step(
        measured,
        finite=finite,
        enough=watch is not None and watch.ran_out(seen),
    )
    return (model, best, rate.advance(memory, number, loss), seen), step


def infer(
    comm: Communicator,
    data: PerRank,
    prepared: PreparedPlan,
    model: PerRank,
    *,
    network: Network,
    place: int = -1,
) -> PerRank:
    """Values behind a layer for each rank's own vertices, without dropout; a text."""
    boundary = boundary_at(comm, data, prepared, model, network=network, place=place)
    return comm.settle(comm.map(value_of, boundary))


def boundary_at(
    comm: Communicator,
    data: PerRank,
    prepared: PreparedPlan,
    model: PerRank,
    *,
    network: Network,
    place: int = -1,
) -> PerRank:
    """What lies behind a layer, without dropout; none before it is kept."""
    at = range(len(network.layers) + 1)[place]
    layers = passed(comm, data, prepared, model, network=network, epoch=None)
    boundary, _ = next(islice(layers, at, None))
    return boundary


# -- steps on one rank ---


def stepped(
    model: RankModel,
    flat: NDArray[Any],
    *,
    optimizer: Optimizer,
    rate: float,
    number: int,
    n_steps: int,
) -> RankModel:
    """The model after a step along the gradient of all ranks."""
    number -= n_steps * int(model.slots.get(BEGAN, 0))  # moments began at zero behind these
    gradients, begin = [], 0
    for weight in model.weights:
        gradients.append(flat[begin : begin + weight.size].reshape(weight.shape))
        begin += weight.size
    optimizer.update(model.weights, gradients, model.slots, rate=rate, number=number)
    return model


def has_bounded_weights(model: RankModel) -> bool:
    """Whether weights are such that outputs can be finite."""
    return are_bounded(model.weights)


def model_of_part(part: dict[str, Any]) -> RankModel:
    """The weights of a state, as a rank's own."""
    return RankModel([*part["weights"].values()], part["slots"]).copy()


def with_weights_of(best: list[NDArray[Any]], model: RankModel) -> list[NDArray[Any]]:
    """The weights of a model, written over those that were the best."""
    for own, weight in zip(best, model.weights, strict=True):
        own[...] = weight
    return best


def copied(weights: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """Weights that share nothing with those."""
    return [weight.copy() for weight in weights]


def value_of(boundary: Any) -> NDArray[Any]:
    """Values between two layers."""
    return boundary.value.copy()


def passing_bytes(*given: Any, network: Network) -> int:
    """Bytes that pass on the way back; given the data of all layers, then messages there."""
    data, messages = given[: len(given) // 2], given[len(given) // 2 :]
    sizes = [layer_sizes(*each, network) for each in zip(data, messages, strict=True)]
    return int(network.passing_bytes(sizes, len(data[-1].targets.training)))


def layer_sizes(data: RankData, there: list[RankMessages], network: Network) -> LayerSizes:
    """Sizes of what a layer works on; entries where layers keep something of each."""
    halves, n_sent = data.graph.forward, sum(map(len, there[0].out_positions))
    n_entries = len(halves.local[1]) if network.joins_columns else 0
    return LayerSizes(halves.n_own, halves.n_rows, halves.n_halo, n_sent, n_entries)


def bytes_held(passing: int, *made: Any) -> int:
    """Bytes that stay on a rank until the end of an epoch, and those that pass meanwhile."""
    # without dropout the first layer reads the features themselves: what is there twice counts once
    return bytes_of(*made) + passing


# -- features ---


def with_features(graph: Any, features: Any, targets: RankTargets) -> RankData:
    """A rank's data with plain features."""
    rows = SparseRows.of(features) if scipy.sparse.issparse(features) else features
    return RankData(graph, rows, None, targets)
