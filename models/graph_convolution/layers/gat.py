"""Graph attention: Z = Σ_j a_ij H_j W + b, a the softmax over i's neighbours of a learnt score.

    M = H W ─ post ─► own scores ─ collect ─► scores of the halo ─► attention ─► Σ a M
    gradient of M, also of the halo's rows ─ post ─► owners add them up

Several heads stand side by side; behind the last layer their mean is taken. What travels back are
the gradients of the rows that travelled there, over the same pairs of ranks, so the volume of an
undirected graph is that of equation 11 (Demirci et al., VLDB 2022, §4.4).

Source: Veličković et al., "Graph attention networks", ICLR 2018.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.checks import finite_number, whole_number
from daskpart.collectives.messages import Inbox
from daskpart.errors import InputError
from daskpart.models.graph_convolution.kernels import (
    edge_softmax,
    edge_softmax_backward,
    sddmm,
    spmm,
    spmm_transposed,
)
from daskpart.models.graph_convolution.products import add_returned, halo_rows, pack_message
from daskpart.models.graph_convolution.rows import Dropout, Rows, transposed_times

from .base import Layer, Weights

_OF_ATTENTION = 128  # masks of edges are drawn apart from those of rows


@dataclass(frozen=True)
class GAT(Layer):
    """Attention over the neighbours and the vertex itself.

    Parameters
    ----------
    heads : int
        They share `n_outputs` of a hidden layer between them.
    output_heads : int
        Of the last layer, each of `n_outputs` columns.
    slope : float
        Of the LeakyReLU of the scores, below 0.
    attention_dropout : float
        Share of the attention that is put to 0 in training, drawn by edge and head.
    """

    operator: ClassVar[str] = "pattern"
    can_keep: ClassVar[bool] = False
    returns_halo: ClassVar[bool] = True
    options: ClassVar[tuple[str, ...]] = ("heads", "output_heads", "slope", "attention_dropout")
    heads: int = 8
    output_heads: int = 1
    slope: float = 0.2
    attention_dropout: float = 0.0

    def __post_init__(self) -> None:
        for name in ("heads", "output_heads"):
            object.__setattr__(self, name, whole_number(getattr(self, name), name, 1))
        object.__setattr__(self, "slope", finite_number(self.slope, "slope", -math.inf))
        dropout = finite_number(self.attention_dropout, "attention_dropout", most=1)
        object.__setattr__(self, "attention_dropout", dropout)
        if dropout == 1:
            raise InputError("attention_dropout is 1: nothing would be left, give a share below 1")
        if not self.is_last and self.n_outputs % self.heads:
            raise InputError(
                f"a hidden layer of width {self.n_outputs} cannot be shared by {self.heads} heads: "
                "give a multiple, or other heads in layer_options"
            )

    @property
    def n_heads(self) -> int:
        """Of this layer."""
        return self.output_heads if self.is_last else self.heads

    @property
    def width(self) -> int:
        """Columns of a message: of all heads."""
        return self.n_outputs * self.output_heads if self.is_last else self.n_outputs

    @property
    def transforms_first(self) -> bool:
        """Always: scores are made of H·W."""
        return True

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """W, what the reading and the read vertex add to a score, and a bias."""
        of_head = (self.n_heads, self.width // self.n_heads)
        return {
            "weight": (self.n_inputs, self.width),
            "attention_left": of_head,
            "attention_right": of_head,
            "bias": (self.n_outputs,),
        }

    def rows_and_columns(self, name: str) -> int:
        """Of a head alone: each has matrices of its own, which stand side by side."""
        return self.width // self.n_heads + (self.n_inputs if name == "weight" else 1)

    @property
    def kept_values(self) -> tuple[int, int]:
        """The message, a copy of it before the halo, and scores; what is attended to, and Z."""
        return 2 * self.width + 2 * self.n_heads, self.width + self.n_outputs

    @property
    def halo_values(self) -> int:
        """Rows of the halo stay for the backward, with their scores."""
        return self.width + self.n_heads

    @property
    def entry_values(self) -> int:
        """The attention of each entry."""
        return self.n_heads

    @property
    def passing_entry_values(self) -> int:
        """The gradient of the attention; and of both what dropout left."""
        return self.n_heads * (3 if self.attention_dropout else 1)

    @property
    def leaving_values(self) -> int:
        """Behind the last layer the mean of all heads."""
        return self.n_outputs if self.is_last else 0

    @property
    def message_values(self) -> int:
        """Behind the last layer the gradient of each head."""
        return self.width if self.is_last else 0

    def leave(self, inputs: Rows, total: Any, weights: Weights) -> tuple[NDArray[Any], Any]:
        """All heads, or their mean behind the last layer."""
        outputs = total.outputs
        if self.is_last:
            outputs = outputs.reshape(len(outputs), self.n_heads, self.n_outputs).mean(axis=1)
        return outputs + weights[3], None

    def enter_back(self, gradient: Any, saved: Any, weights: Weights) -> Any:
        """The gradient of Z, and of each head."""
        if not self.is_last:
            return gradient, gradient
        return gradient, np.tile(gradient / gradient.dtype.type(self.n_heads), self.n_heads)

    def leave_back(
        self, inputs: Any, total: Any, saved: Any, gradient: Any, total_back: Any, weights: Weights
    ) -> Any:
        """Through M to H and W."""
        rows = total_back.message
        into = None if self.is_first else rows @ weights[0].T
        return into, [
            transposed_times(inputs, rows), total_back.left, total_back.right,
            gradient.sum(axis=0),
        ]  # fmt: skip

    def aggregate(
        self, comm: Any, data: Any, prepared: Any, before: Any, model: Any, *, network: Any,
        epoch: int | None, place: int,
    ) -> Any:  # fmt: skip
        """Attention over the rows of all ranks; a text."""
        static = {"layer": self, "network": network, "place": place}
        pending = [comm.post(each, before, pack_message) for each in prepared.rounds]
        own = comm.map(own_scores, before, model, **static)
        (only,) = pending
        return comm.collect(only, own, attend, data, before, model, epoch=epoch, **static)

    def aggregate_back(
        self, comm: Any, data: Any, prepared: Any, back: Any, total: Any, model: Any, *,
        network: Any, epoch: int | None, place: int,
    ) -> Any:  # fmt: skip
        """The gradient of M, its rows of the halo returned to their owners; a text."""
        static = {"layer": self, "network": network, "place": place}
        returned = comm.map(attend_back, data, back, total, model, epoch=epoch, **static)
        (only,) = (comm.post(each, returned, pack_message) for each in prepared.rounds)
        return comm.collect(only, returned, add_returned_rows, data)


@dataclass(eq=False)
class Attention:
    """What a rank attended to.

    Attributes
    ----------
    rows : ndarray of shape (n_own + n_halo, width)
        M of own vertices, then of the halo.
    left, right : ndarrays of shape (n_rows, heads) and (n_own + n_halo, heads)
    entries : ndarray of shape (nnz, heads)
        The attention.
    outputs : ndarray of shape (n_rows, width)
    """

    rows: NDArray[Any]
    left: NDArray[Any]
    right: NDArray[Any]
    entries: NDArray[Any]
    outputs: NDArray[Any]

    def copy(self) -> Attention:
        """A copy that shares nothing."""
        return Attention(*(array.copy() for array in vars(self).values()))


@dataclass(eq=False)
class AttentionBack:
    """Gradients on their way back: of M (own, then halo), and a rank's share of both vectors."""

    message: NDArray[Any]
    left: NDArray[Any]
    right: NDArray[Any]

    def copy(self) -> AttentionBack:
        """A copy that shares nothing."""
        return AttentionBack(*(array.copy() for array in vars(self).values()))


def _scores(rows: NDArray[Any], vector: NDArray[Any]) -> NDArray[Any]:
    """What each row adds to a score, head by head."""
    return np.einsum("nhf,hf->nh", rows.reshape(len(rows), *vector.shape), vector)


def own_scores(before: Any, model: Any, *, layer: GAT, network: Any, place: int) -> Attention:
    """Scores of own vertices, while messages travel."""
    _, left, right, _ = network.of_layer(model.weights, place)
    rows, none = before.message, np.zeros((0, 0), before.message.dtype)
    return Attention(none, _scores(rows, left), _scores(rows, right), none, none)


def attend(
    own: Attention, inbox: Inbox, data: Any, before: Any, model: Any, *, layer: GAT, network: Any,
    epoch: int | None, place: int,
) -> Attention:  # fmt: skip
    """The attention of own vertices to those that they read, and the sum that it weighs."""
    halves, rows = data.graph.forward, before.message
    right = own.right
    if halves.n_halo:
        halo = halo_rows(inbox)
        vector = network.of_layer(model.weights, place)[2]
        rows = np.concatenate([rows, halo])
        right = np.concatenate([right, _scores(halo, vector)])
    else:
        rows = rows.copy()
    indptr, indices, _ = halves.local
    left = own.left[: halves.n_rows]
    entries = edge_softmax(indptr, indices, left, right, layer.slope)
    outputs = np.zeros((halves.n_rows, rows.shape[1]), rows.dtype)
    left_of = _dropped(entries, data.graph, layer, network, epoch, place)
    spmm(indptr, indices, left_of, rows, outputs)
    return Attention(rows, left, right, entries, outputs)


def _dropped(
    entries: NDArray[Any], graph: Any, layer: GAT, network: Any, epoch: int | None, place: int
) -> NDArray[Any]:
    """Numbers of edges with those of some put to 0: the same of an edge on any rank."""
    rate = 0.0 if epoch is None else layer.attention_dropout
    drop = Dropout(rate, network.seed, epoch or 0, _OF_ATTENTION + place)
    indptr, indices, _ = graph.forward.local
    return drop.of_entries(indptr, indices, entries, graph.columns_of(graph.forward))


def attend_back(
    data: Any, back: Any, total: Attention, model: Any, *, layer: GAT, network: Any,
    epoch: int | None, place: int,
) -> AttentionBack:  # fmt: skip
    """A rank's share of the gradients of M, for own vertices and those of the halo."""
    _, left, right, _ = network.of_layer(model.weights, place)
    halves = data.graph.forward
    (indptr, indices, _), n_rows = halves.local, halves.n_rows
    gradient = np.ascontiguousarray(back.message)
    of_entries = np.empty_like(total.entries)
    sddmm(indptr, indices, gradient, total.rows, of_entries)
    of_entries = _dropped(of_entries, data.graph, layer, network, epoch, place)
    into_left, into_right = np.zeros_like(total.left), np.zeros_like(total.right)
    edge_softmax_backward(
        indptr, indices, total.left, total.right, total.entries, of_entries, into_left, into_right,
        layer.slope,
    )  # fmt: skip
    rows = np.zeros_like(total.rows)
    entries = _dropped(total.entries, data.graph, layer, network, epoch, place)
    spmm_transposed(indptr, indices, entries, gradient, rows)
    heads = rows.reshape(len(rows), *left.shape)
    heads += into_right[:, :, None] * right
    heads[:n_rows] += into_left[:, :, None] * left
    read = total.rows.reshape(heads.shape)
    of_left = np.einsum("nh,nhf->hf", into_left, read[:n_rows])
    return AttentionBack(rows, of_left, np.einsum("nh,nhf->hf", into_right, read))


def add_returned_rows(returned: AttentionBack, inbox: Inbox, data: Any) -> AttentionBack:
    """Own rows of the gradient of M with what other ranks had of them."""
    rows = add_returned(returned.message[: data.graph.forward.n_own].copy(), inbox)
    return AttentionBack(rows, returned.left, returned.right)
