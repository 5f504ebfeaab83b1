"""Forward and backward through a network on ranks: Algorithms 1 and 2 of the paper.

    enter ─► post ─► local · H_own ─► collect ─► + remote · H_halo ─► leave, σ, dropout, enter ─► …
             └── rows of H that others read travel meanwhile

Source: Demirci, Haldar, Ferhatosmanoglu, "Scalable graph convolutional network training on
distributed-memory systems", VLDB 2022, section 4. What is allreduced is one array an epoch: all ΔW,
and the sums of the loss behind them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.collectives import Communicator, PerRank
from daskpart.collectives.messages import PreparedPlan
from daskpart.models.networks.activations import ACTIVATIONS

from .network import LOSS_ROWS, Network
from .ranks import RankGraph
from .rows import Dropout, Rows


@dataclass(eq=False)
class RankTargets:
    """Labelled vertices of a rank: positions among its own, and what is known of them."""

    training: NDArray[np.int64]
    training_values: NDArray[Any]
    validation: NDArray[np.int64]
    validation_values: NDArray[Any]


@dataclass(eq=False)
class RankData:
    """What stays on a rank for the whole fit.

    Attributes
    ----------
    graph : RankGraph
    rows : Rows
        Features; or their product with Â, where it is kept.
    beside : Rows or None
        Features beside that product, where the layer reads both.
    targets : RankTargets
    """

    graph: RankGraph
    rows: Rows
    beside: Rows | None
    targets: RankTargets


@dataclass(eq=False)
class RankModel:
    """Weights and slots, the same on every rank."""

    weights: list[NDArray[Any]]
    slots: dict[str, NDArray[Any]]

    def copy(self) -> RankModel:
        """A copy that shares nothing."""
        slots = {name: array.copy() for name, array in self.slots.items()}
        return RankModel([weight.copy() for weight in self.weights], slots)


@dataclass(eq=False)
class Boundary:
    """What lies between two layers on a rank.

    Attributes
    ----------
    value : ndarray or None
        σ(Z) of the layer before (Z of the last layer).
    saved : object
        What that layer keeps for its backward.
    inputs : Rows or None
        H of the layer behind: `value`, with entries dropped.
    message : Rows or None
        What that layer sends through Â; what came of it, where that is kept.
    """

    value: Any
    saved: Any
    inputs: Any
    message: Any


@dataclass(eq=False)
class Gradient:
    """What lies between two layers on the way back.

    Attributes
    ----------
    gradient : object
        Of Z, as the layer's `enter_back` left it.
    message : ndarray or None
    weights : list of ndarray
        Gradients of the weights of all layers behind.
    sums : float64 ndarray
        Of the loss.
    """

    gradient: Any
    message: Any
    weights: list[NDArray[Any]]
    sums: NDArray[np.float64]


@dataclass(eq=False)
class Forward:
    """Handles of a forward pass: boundaries 0 … L, and what Â made of each message, if it did."""

    boundaries: list[PerRank]
    totals: list[PerRank | None]


# -- texts ---


def forward(
    comm: Communicator,
    data: PerRank | tuple[PerRank, ...],
    prepared: PreparedPlan | tuple[PreparedPlan, ...],
    model: PerRank,
    *,
    network: Network,
    epoch: int | None,
) -> Forward:
    """All layers (Algorithm 1).

    Parameters
    ----------
    comm : Communicator
    data : PerRank of RankData, or a tuple of one a layer
    prepared : PreparedPlan, or a tuple of one a layer
        Expand of the rows of H.
    model : PerRank of RankModel
    network : Network
    epoch : int or None
        Decides what is dropped; None: nothing.
    """
    done = Forward([], [])
    for boundary, total in passed(comm, data, prepared, model, network=network, epoch=epoch):
        if done.boundaries:
            done.totals.append(total)
        done.boundaries.append(boundary)
    return done


def passed(
    comm: Communicator,
    data: PerRank | tuple[PerRank, ...],
    prepared: PreparedPlan | tuple[PreparedPlan, ...],
    model: PerRank,
    *,
    network: Network,
    epoch: int | None,
) -> Iterator[tuple[PerRank, PerRank | None]]:
    """Boundaries 0 … L as they are made, each with what Â made of the message before it, if it did.

    Parameters are those of `forward`. Who keeps none but the last does without memory for all.
    """
    static: dict[str, Any] = {"network": network, "epoch": epoch}
    boundary = comm.map(first_boundary, of_layer(data, 0), model, **static)
    yield boundary, None
    for place, layer in enumerate(network.layers):
        own, plan, total = of_layer(data, place), of_layer(prepared, place), None
        if layer.n_forward:
            total = layer.aggregate(comm, own, plan, boundary, model, place=place, **static)
        boundary = comm.map(
            next_boundary, own, model, boundary, *([] if total is None else [total]), place=place,
            **static,
        )  # fmt: skip
        yield boundary, total


def backward(
    comm: Communicator,
    data: PerRank | tuple[PerRank, ...],
    prepared: PreparedPlan | tuple[PreparedPlan, ...],
    model: PerRank,
    done: Forward,
    *,
    network: Network,
    epoch: int | None,
) -> PerRank:
    """All layers back (Algorithm 2): each rank's share of all gradients, flat, then loss sums.

    Parameters are those of `forward`; `done` is what it gave.
    """
    last = of_layer(data, len(network.layers) - 1)
    back = comm.map(last_gradient, last, model, done.boundaries[-1], network=network)
    for place in reversed(range(len(network.layers))):
        own, plan = of_layer(data, place), of_layer(prepared, place)
        layer, total, returned = network.layers[place], done.totals[place], None
        if layer.n_backward:
            returned = layer.aggregate_back(
                comm, own, plan, back, total, model, network=network, epoch=epoch, place=place
            )
        before, after = done.boundaries[place], done.boundaries[place + 1]
        back = comm.map(
            previous_gradient, own, model, before, after, back,
            *(each for each in (total, returned) if each is not None),
            network=network, epoch=epoch, place=place, has_total=total is not None,
        )  # fmt: skip
    return comm.map(flat, back, dtype=network.dtype)


def of_layer(held: Any, place: int) -> Any:
    """What a layer works on: its own where each has one, as in mini-batches."""
    return held[place] if isinstance(held, tuple) else held


# -- one rank: between layers ---


def _dropout(network: Network, epoch: int | None, place: int) -> Dropout:
    rate = 0.0 if epoch is None else network.dropout
    return Dropout(rate, network.seed, epoch or 0, place)


def first_boundary(
    data: RankData, model: RankModel, *, network: Network, epoch: int | None
) -> Boundary:
    """Features with entries dropped, and what the first layer sends of them."""
    drop, layer = _dropout(network, epoch, 0), network.layers[0]
    inputs = drop(data.rows, data.graph.own)
    if layer.keeps_product:
        beside = None if data.beside is None else drop(data.beside, data.graph.own)
        return Boundary(None, None, beside, inputs)
    message = layer.enter(inputs, network.of_layer(model.weights, 0))
    return Boundary(None, None, inputs, message)


def next_boundary(
    data: RankData,
    model: RankModel,
    before: Boundary,
    total: Any = None,
    *,
    network: Network,
    epoch: int | None,
    place: int,
) -> Boundary:
    """The end of a layer, and the beginning of the next."""
    layer = network.layers[place]
    total = before.message if total is None else total
    outputs, saved = layer.leave(before.inputs, total, network.of_layer(model.weights, place))
    if layer.is_last:
        return Boundary(outputs, saved, None, None)
    if outputs is total:  # an argument, which is not to be overwritten
        outputs = np.array(outputs)
    value = ACTIVATIONS[network.activation].value(outputs)
    inputs = _dropout(network, epoch, place + 1)(value, data.graph.own[: len(value)])
    weights = network.of_layer(model.weights, place + 1)
    return Boundary(value, saved, inputs, network.layers[place + 1].enter(inputs, weights))


def last_gradient(
    data: RankData, model: RankModel, last: Boundary, *, network: Network
) -> Gradient:
    """The gradient of the loss by the outputs, and what the last layer sends of it."""
    gradient, sums = _of_loss(data.targets, last.value, network)
    place = len(network.layers) - 1
    weights = network.of_layer(model.weights, place)
    ready, message = network.layers[place].enter_back(gradient, last.saved, weights)
    return Gradient(ready, message, [], sums)


def _of_loss(
    targets: RankTargets, outputs: NDArray[Any], network: Network
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """The gradient of the loss by all outputs, and its sums."""
    gradient, sums = np.zeros_like(outputs), np.zeros(network.n_sums)
    for rows, values in _in_blocks(targets.training, targets.training_values):
        of_block, of_rows = network.loss.sums_and_gradient(outputs.take(rows, axis=0), values)
        sums += of_block
        of_rows /= network.n_terms
        gradient[rows] = of_rows
    return gradient, sums


def _in_blocks(*arrays: NDArray[Any]) -> Iterator[tuple[NDArray[Any], ...]]:
    """Arrays in blocks of rows, side by side."""
    for begin in range(0, len(arrays[0]), LOSS_ROWS):
        yield tuple(array[begin : begin + LOSS_ROWS] for array in arrays)


def previous_gradient(
    data: RankData,
    model: RankModel,
    before: Boundary,
    after: Boundary,
    back: Gradient,
    *totals: Any,
    network: Network,
    epoch: int | None,
    place: int,
    has_total: bool,
) -> Gradient:
    """The end of a layer on the way back, and the beginning of the one before it."""
    layer, weights = network.layers[place], network.of_layer(model.weights, place)
    total = totals[0] if has_total else before.message
    returned = totals[-1] if layer.n_backward else None
    into: Any
    into, of_weights = layer.leave_back(
        before.inputs, total, after.saved, back.gradient, returned, weights
    )
    of_weights = [*of_weights, *back.weights]
    if layer.is_first:
        return Gradient(None, None, of_weights, back.sums)
    if into is returned:  # an argument, which is not to be overwritten
        into = np.array(into)
    _dropout(network, epoch, place)(into, data.graph.own[: len(into)], out=into)
    ACTIVATIONS[network.activation].backward(before.value, into)
    earlier = network.of_layer(model.weights, place - 1)
    ready, message = network.layers[place - 1].enter_back(into, before.saved, earlier)
    return Gradient(ready, message, of_weights, back.sums)


def flat(back: Gradient, *, dtype: str) -> NDArray[Any]:
    """All gradients of weights as one array in the order of the weights, then the loss sums."""
    return np.concatenate([*(array.ravel() for array in back.weights), back.sums.astype(dtype)])


def validation_sums(data: RankData, last: Boundary, *, network: Network) -> NDArray[np.float64]:
    """Loss sums of the vertices to validate on."""
    sums = np.zeros(network.n_sums)
    for rows, values in _in_blocks(data.targets.validation, data.targets.validation_values):
        sums += network.loss.sums(last.value[rows], values)
    return sums
