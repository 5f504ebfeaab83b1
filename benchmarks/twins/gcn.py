"""Graph convolution in plain mpi4py: Algorithms 1 and 2 of Demirci et al., with the steps of ours.

    rows that others read ─► Isend     own columns of Â meanwhile     ─► rows of the halo
    gradients of all weights ─► one allreduce ─► a step of the optimiser on every rank

Layers of one hop. Source: Demirci, Haldar, Ferhatosmanoglu, "Scalable graph convolutional network
training on distributed-memory systems", VLDB 2022.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskpart.collectives import LocalCommunicator
from daskpart.collectives.messages import RankMessages
from daskpart.models.graph_convolution.network import Network
from daskpart.models.graph_convolution.passes import (
    RankData,
    RankModel,
    first_boundary,
    flat,
    last_gradient,
    next_boundary,
    previous_gradient,
)
from daskpart.models.graph_convolution.plan import GCNPlan
from daskpart.models.graph_convolution.products import (
    add_remote_product,
    local_product,
    message_of,
)
from daskpart.models.graph_convolution.text import laid_out, stepped
from daskpart.models.optimisation.optimisers import Optimizer

from .messages import Swap, allreduce

if TYPE_CHECKING:
    from mpi4py import MPI


@dataclass(frozen=True)
class Piece:
    """What one rank begins with."""

    data: RankData
    model: RankModel
    forward: RankMessages
    backward: RankMessages
    network: Network
    optimizer: Optimizer
    rate: float


def pieces(plan: GCNPlan, problem: Any, optimizer: Optimizer, rate: float) -> list[Piece]:
    """One a rank, cut as ours are."""
    with LocalCommunicator(plan.n_ranks) as communicator:
        prepared, data = laid_out(communicator, plan, problem)
        halves = [communicator.gather(each.rounds[0].messages) or [] for each in prepared]
        slots = [each.rounds[0].slot for each in prepared]
        held = communicator.gather(data) or []
    weights = list(plan.network.first_weights().values())
    return [
        Piece(
            own,
            RankModel(
                [weight.copy() for weight in weights],
                {name: slot.copy() for name, slot in optimizer.first_slots(weights).items()},
            ),
            halves[0][rank][slots[0]],
            halves[1][rank][slots[1]],
            plan.network,
            optimizer,
            rate,
        )
        for rank, own in enumerate(held)
    ]


def train(world: MPI.Comm, piece: Piece, n_steps: int) -> tuple[list[float], dict[str, Any]]:
    """Seconds of each epoch, and the weights."""
    run = _Training(world, piece)
    run.gradient(0)  # compiles
    world.Barrier()
    seconds = []
    for number in range(1, n_steps + 1):
        begin = perf_counter()
        gradient = allreduce(world, run.gradient(number))
        stepped(
            piece.model, gradient,
            optimizer=piece.optimizer, rate=piece.rate, number=number, n_steps=1,
        )  # fmt: skip
        if not np.isfinite(gradient[-2]):
            raise FloatingPointError("the loss became NaN or infinite")
        seconds.append(perf_counter() - begin)
    named = zip(piece.network.names, piece.model.weights, strict=True)
    return seconds, {name: (np.arange(len(weight)), weight) for name, weight in named}


class _Training:
    """A rank with room for the rows that arrive, layer by layer and direction by direction."""

    def __init__(self, world: MPI.Comm, piece: Piece) -> None:
        self._piece = piece
        dtype, layers = piece.network.dtype, piece.network.layers
        self._there = [
            Swap(world, piece.forward, (layer.width,), dtype) if layer.n_forward else None
            for layer in layers
        ]
        self._back = [
            Swap(world, piece.backward, (layer.width,), dtype) if layer.n_backward else None
            for layer in layers
        ]

    def gradient(self, number: int) -> NDArray[Any]:
        """This rank's share of all gradients, and of the loss: forward and backward once."""
        piece, network = self._piece, self._piece.network
        data, model = piece.data, piece.model
        static: dict[str, Any] = {"network": network, "epoch": number}
        boundaries, totals = [first_boundary(data, model, **static)], []
        for place, swap in enumerate(self._there):
            total = None if swap is None else self._product(swap, boundaries[-1], back=False)
            totals.append(total)
            boundaries.append(
                next_boundary(data, model, boundaries[-1], total, place=place, **static)
            )
        back = last_gradient(data, model, boundaries[-1], network=network)
        for place in reversed(range(len(network.layers))):
            swap, total = self._back[place], totals[place]
            returned = None if swap is None else self._product(swap, back, back=True)
            given = [each for each in (total, returned) if each is not None]
            back = previous_gradient(
                data, model, boundaries[place], boundaries[place + 1], back, *given, place=place,
                has_total=total is not None, **static,
            )  # fmt: skip
        return flat(back, dtype=network.dtype)

    def _product(self, swap: Swap, message: Any, *, back: bool) -> NDArray[Any]:
        rows = message_of(message)
        swap.post(lambda positions: rows.take(positions, axis=0))
        total = local_product(self._piece.data, message, back=back)
        return add_remote_product(total, swap.collect(), self._piece.data, back=back)
