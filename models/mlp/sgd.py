"""Data-parallel SGD of a perceptron: the sum of a layer travels while the layer before is computed.

    backward of layer 2 │ backward of layer 1 │ backward of layer 0
                        post Σ g2 ············│····················· collect, step of layer 2
                                              post Σ g1 ··········· collect, step of layer 1

A sum in several rounds goes one round on after each backward. Nothing is stale: all sums of a batch
are collected before the next batch. Each layer is compressed by itself and keeps its own residual.

Renggli 2017, §2.4 (TopK with error feedback) and §4.3, §5.4 (by layer, in buckets, non-blocking).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from daskpart._floor.compressed_rows import compressed_rows
from daskpart.collectives import Communicator, PerRank, allreduce
from daskpart.collectives.sparse_allreduce import equal_shares
from daskpart.collectives.stream import Stream, entries_stream
from daskpart.collectives.topk import Feedback
from daskpart.models.base.state import Part
from daskpart.models.base.text import Step
from daskpart.models.optimisation.aggregation import Aggregator
from daskpart.models.optimisation.optimisers import BEGAN, Optimizer, are_bounded, slots_from
from daskpart.models.optimisation.schedules import Schedule
from daskpart.models.samples.rows import Batches, RankRows, Rows, StoredRows

from .network import Network, layer_gradient

FULL = 0.1  # share of entries from which rows are kept dense: a dense product is quicker


@dataclass(frozen=True, kw_only=True)
class Training(Batches):
    """What a fit is, equal on all ranks.

    Attributes
    ----------
    network : Network
    alpha : float
        Of the penalty ½ α ‖W‖² on the mean loss; biases are left out.
    schedule : Schedule
    optimizer : Optimizer
        Of one layer: its matrix, with the decay α, and its bias.
    aggregators : tuple of Aggregator
        One a layer.
    passing : tuple of int
        Bytes of each rank that come and go; see `memory`.
    """

    network: Network
    alpha: float
    schedule: Schedule
    optimizer: Optimizer
    aggregators: tuple[Aggregator, ...]
    passing: tuple[int, ...]

    @property
    def n_terms(self) -> int:
        """Of the loss of a sample, which is their mean: its columns if it has several targets."""
        return 1 if self.network.loss.name == "softmax" else self.network.widths[-1]


@dataclass(frozen=True, eq=False)
class Inputs:
    """A rank's samples as the network takes them.

    Attributes
    ----------
    rank : int
    X : ndarray or csr_array
    targets : ndarray
        Numbers of classes, or of shape (n_rows, n_outputs).
    weight, places
        See `RankRows`.
    """

    rank: int
    X: Any = field(repr=False)
    targets: NDArray[Any] = field(repr=False)
    weight: NDArray[np.float64] = field(repr=False)
    places: NDArray[np.int64] | None = field(repr=False)

    def __len__(self) -> int:
        return len(self.targets)

    def between(self, begin: int, end: int) -> Inputs:
        """Consecutive samples, as a view; of all these themselves."""
        if begin == 0 and end == len(self):
            return self
        X, own = self.X, slice(begin, end)
        if isinstance(X, np.ndarray):
            X = X[own]
        else:
            pointer = X.indptr[begin : end + 1]
            stored = slice(int(pointer[0]), int(pointer[-1]))
            arrays = X.data[stored], X.indices[stored], pointer - pointer[0]
            X = scipy.sparse.csr_array(arrays, shape=(end - begin, X.shape[1]))
        return Inputs(self.rank, X, self.targets[own], self.weight[own], self.places)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        X = self.X
        held = [X] if isinstance(X, np.ndarray) else [X.data, X.indices, X.indptr]
        return sum(array.nbytes for array in (*held, self.targets, self.weight))


@dataclass(eq=False)
class RankModel:
    """Weights, slots and what a step makes, on one rank."""

    weights: list[NDArray[Any]]
    slots: list[dict[str, NDArray[Any]]]
    order: NDArray[np.int64] = field(repr=False)
    began: int
    epoch: int = 0
    blocks: NDArray[np.int64] = field(repr=False, default_factory=lambda: np.zeros(0, np.int64))
    values: list[Any] = field(default_factory=list, repr=False)
    slopes: Any = None
    gradient: Stream | None = None
    cuts: dict[int, tuple[int, ...]] = field(default_factory=dict)
    sums: NDArray[np.float64] = field(default_factory=lambda: np.zeros(2))
    entries: int = 0
    began_finite: bool = True
    broken: bool = False

    def copy(self) -> RankModel:
        """A copy that shares nothing that changes."""
        return copy.deepcopy(self)

    @property
    def nbytes(self) -> int:
        """Bytes of what stays between steps."""
        slots = [array for layer in self.slots for array in layer.values()]
        return sum(array.nbytes for array in (*self.weights, *slots, self.order))


# the loss of batches goes up and down, so whether it still falls is told by the least of ten epochs
LOOKS_BACK = 10

Changing = tuple[PerRank, list[PerRank], int, float, NDArray[np.float64]]


def with_epoch(least: NDArray[np.float64], loss: float) -> tuple[NDArray[np.float64], float]:
    """Least losses after each of the last epochs, and by how much the least fell in these.

    NaN where there were fewer epochs than that is looked back to.
    """
    now = min(loss, float(least[-1])) if len(least) else loss
    change = now - float(least[0]) if len(least) == LOOKS_BACK else float("nan")
    return np.append(least, now)[-LOOKS_BACK:], change


# -- texts ---


def is_full(n_stored: int, n_samples: int, n_features: int) -> bool:
    """Whether rows with so many entries are kept dense."""
    return n_stored >= FULL * n_samples * n_features


def laid_out(comm: Communicator, rows: PerRank, *, fit: Training) -> PerRank:
    """Samples of every rank as the network takes them: dense where many entries are there.

    Of all ranks, so that it does not depend on their number, nor on where rows are.
    """
    stored = comm.fold(comm.map(entries_of, rows), sum).result()
    dense = is_full(stored, fit.n_samples, fit.network.widths[0])
    inputs: PerRank = comm.settle(comm.map(inputs_of, rows, fit=fit, dense=dense))
    return inputs


def begin(
    comm: Communicator, inputs: PerRank, parts: PerRank, *, fit: Training
) -> tuple[PerRank, list[PerRank], list[int]]:
    """Model and feedback of every rank from the parts of a state, and the bytes they hold."""
    model = comm.map(first_model, parts, fit=fit)
    feedback = [
        comm.map(first_feedback, parts, inputs, layer=layer, fit=fit)
        for layer in range(fit.network.n_layers)
    ]
    model, *feedback = comm.settle(model, *feedback)
    held = comm.fold(comm.map(bytes_held, model, inputs, *feedback, fit=fit), list).result()
    return model, feedback, held


def epoch(
    comm: Communicator,
    inputs: PerRank,
    changing: Changing,
    *,
    number: int,
    fit: Training,
    tolerance: float,
) -> tuple[Changing, Step]:
    """One pass over the samples."""
    model, feedback, steps, _, least = changing
    n_steps = fit.n_steps
    rates = fit.schedule.rates(steps + 1, n_steps, number)
    model = comm.update(begin_epoch, model, number=number, fit=fit)
    aggregators = list(fit.aggregators)
    for step in range(n_steps):
        model = comm.update(forward, model, inputs, step=step, fit=fit)
        how = {"rate": float(rates[step]), "number": steps + step + 1, "fit": fit}
        model, feedback = _backward(comm, model, feedback, aggregators, how)
    model, *feedback = comm.settle(model, *feedback)
    summed = allreduce(comm, comm.map(measures_of, model, fit=fit)).result()
    loss = float(summed[0] / (fit.n_samples * fit.n_terms) + summed[2] / comm.n_ranks)
    least, change = with_epoch(least, loss)
    measured = {
        "loss": loss,
        "change": change,
        "density": float(summed[3] / comm.n_ranks / n_steps),
        "learning_rate": float(rates[-1]),
    }
    if fit.network.loss.score_name == "accuracy":
        measured["score"] = float(summed[1] / (fit.n_samples * fit.n_terms))
    finite = bool(np.isfinite(loss)) and not summed[4]
    done = Step(measured, finite=finite, enough=abs(change) < tolerance, began_finite=not summed[5])
    return (model, feedback, steps + n_steps, loss, least), done


def _backward(
    comm: Communicator,
    model: PerRank,
    feedback: list[PerRank],
    aggregators: list[Aggregator],
    how: dict[str, Any],
) -> tuple[PerRank, list[PerRank]]:
    """Layer by layer: gradient, its sum under way, the sums before one round on; then the steps."""
    fit, kept = how["fit"], list(feedback)
    under_way: list[tuple[int, Any]] = []
    for layer in reversed(range(fit.network.n_layers)):
        model = comm.update(backward, model, layer=layer, fit=fit)
        for _, pending in under_way:
            pending.collect_next()
        gradients = comm.map(gradient_of, model)
        pending, kept[layer], aggregators[layer] = aggregators[layer].post(
            comm, gradients, feedback[layer]
        )
        under_way.append((layer, pending))
    for layer, pending in under_way:
        model = comm.update(move, model, pending.collect(), layer=layer, **how)
    return model, kept


# -- steps on one rank ---


def entries_of(rows: Rows) -> int:
    """Stored values of a rank's rows."""
    return rows.nnz


def inputs_of(rows: Rows, *, fit: Training, dense: bool) -> Inputs | StoredRows[Inputs]:
    """A rank's rows in the network's dtype; those on disk as they are read."""
    as_inputs = partial(_in_memory, network=fit.network, dense=dense)
    return rows.encoded(as_inputs) if isinstance(rows, StoredRows) else as_inputs(rows)


def _in_memory(rows: RankRows, *, network: Network, dense: bool) -> Inputs:
    shape = len(rows.pointer) - 1, network.widths[0]  # in the order in which they were given
    X: Any = compressed_rows(rows.data, rows.indices, rows.pointer, shape)
    X = X.astype(network.dtype, copy=False)
    if dense:
        X = X.toarray()
    return Inputs(rows.rank, X, network.targets(rows.target), rows.weight, rows.places)


def first_model(part: Part, *, fit: Training) -> RankModel:
    """A rank's model from its part of a state."""
    network = fit.network
    weights = network.joined(part["weights"])
    slots = []
    for place, vector in enumerate(weights):
        own = fit.optimizer.first_slots(network.pieces(vector, place))
        for name in own:
            if f"{place}.{name}" in part["slots"]:
                own[name] = np.array(part["slots"][f"{place}.{name}"])
        slots.append(own)
    began = int(part["slots"].get(BEGAN, 0))
    return RankModel(weights, slots, np.zeros(0, np.int64), began)


def first_feedback(part: Part, inputs: Any, *, layer: int, fit: Training) -> Feedback:
    """What a rank has not sent of a layer, from its part of a state."""
    sizes = fit.network.sizes()
    begin = sum(sizes[:layer])
    residual = np.array(part["residual"][0, begin : begin + sizes[layer]], fit.network.dtype)
    return Feedback(residual, inputs.rank, int(part["steps"]))


def bytes_held(model: RankModel, inputs: Any, *feedback: Feedback, fit: Training) -> int:
    """What stays on a rank, and what passes meanwhile."""
    residuals = sum(each.residual.nbytes for each in feedback)
    return model.nbytes + inputs.nbytes + residuals + fit.passing[feedback[0].rank]


def begin_epoch(model: RankModel, *, number: int, fit: Training) -> RankModel:
    """Shuffle the blocks, and begin to measure anew."""
    model.epoch, model.blocks = number, fit.blocks(number)
    n_sums = fit.network.loss.n_sums(fit.network.widths[-1])
    model.sums, model.entries, model.cuts = np.zeros(n_sums), 0, {}
    return model


@np.errstate(over="ignore", invalid="ignore")  # a fit that diverges is told at the end
def forward(
    model: RankModel, inputs: Inputs | StoredRows[Inputs], *, step: int, fit: Training
) -> RankModel:
    """Values of a rank's batch, its loss, and the slopes of its share of the mean of all ranks."""
    own, batch = fit.batch(inputs, model, step)
    targets, weight = own.targets[batch], own.weight[batch]
    network = fit.network
    *model.values, outputs = network.forward(model.weights, own.X[batch])
    sums, slopes = network.loss.sums_and_gradient(outputs, targets, weight)
    model.sums += sums
    if not step:
        model.began_finite = bool(np.isfinite(sums).all())
    share = weight / (fit.count(step) * fit.n_terms)
    slopes *= share[:, None].astype(slopes.dtype)
    model.slopes = slopes
    return model


@np.errstate(over="ignore", invalid="ignore")  # a fit that diverges is told at the end
def backward(model: RankModel, *, layer: int, fit: Training) -> RankModel:
    """Gradient of a layer, and the slopes before it."""
    value = model.values.pop()
    model.gradient = layer_gradient(value, model.slopes)
    if not np.isfinite(model.gradient.values).all():  # the epoch ends, and says that it diverged
        size, model.broken = model.gradient.size, True
        none = np.zeros(0, model.gradient.values.dtype)
        model.gradient = entries_stream(np.zeros(0, np.int64), none, size)
    model.gradient = model.gradient.cut_at(model.cuts.get(layer, ()))
    if layer:
        model.slopes = fit.network.back(model.weights[layer], value, model.slopes, layer)
    return model


def gradient_of(model: RankModel) -> Stream:
    """What the rank adds to the sum."""
    assert model.gradient is not None
    return model.gradient


@np.errstate(over="ignore", invalid="ignore")  # a fit that diverges is told at the end
def move(
    model: RankModel, total: Stream, *, layer: int, rate: float, number: int, fit: Training
) -> RankModel:
    """A step of a layer along the sum."""
    model.gradient = model.slopes = None
    model.cuts[layer] = equal_shares(total, len(fit.sizes))
    model.entries += int(np.count_nonzero(total.values))
    pieces = fit.network.pieces
    gradient, weights = total.to_numpy(), model.weights[layer]
    fit.optimizer.update(
        pieces(weights, layer), pieces(gradient, layer), model.slots[layer],
        rate=rate, number=number - model.began,
    )  # fmt: skip
    return model


@np.errstate(over="ignore", invalid="ignore")
def measures_of(model: RankModel, *, fit: Training) -> NDArray[np.float64]:
    """Sums of losses and hits, penalty, density of the sums; what is not finite: all, the start."""
    matrices = [fit.network.pieces(own, place)[0] for place, own in enumerate(model.weights)]
    squares = sum(float(np.square(each, dtype=np.float64).sum()) for each in matrices)
    density = model.entries / sum(map(len, model.weights))
    broken = model.broken or not are_bounded(model.weights)
    penalty = 0.0 if broken else 0.5 * fit.alpha * squares
    not_finite = float(broken), float(not model.began_finite)
    return np.array([*model.sums[:2], penalty, density, *not_finite])


def part_of(model: RankModel, *feedback: Feedback, fit: Training) -> Part:
    """What a rank gives back: rank 0 what is replicated, each its residual."""
    whole = np.concatenate([each.residual for each in feedback])
    if feedback[0].rank:
        return {"residual": whole[None]}
    slots = {
        f"{place}.{name}": array.copy()
        for place, layer in enumerate(model.slots)
        for name, array in layer.items()
    }
    slots |= slots_from(model.began)
    return {"residual": whole[None], "weights": fit.network.named(model.weights), "slots": slots}
