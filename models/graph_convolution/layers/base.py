"""A layer: what it sends, what it does with its own rows and with those that arrive, its backward.

    forward    H ─ enter ─► message ─ Â ─► total ─ leave ─► Z
    backward   G ─ enter_back ─► message ─ Âᵀ ─► total ─ leave_back ─► gradient of H, of the weights

In a mini-batch a layer makes Z for the first rows of H only, those that the layer behind reads.
What goes through Â is H or H·W, whichever is narrower, and in the backward direction, as
Âᵀ (G Wᵀ) = (Âᵀ G) Wᵀ, G·Wᵀ or G. The methods here are those of one rank, on its own rows; messages
and the product with Â are those of `products`. A first layer that multiplies by Â first needs no
message in the backward direction, and with the product kept (``total`` is a constant) none at all.

Source: Demirci, Haldar, Ferhatosmanoglu, "Scalable graph convolutional network training on
distributed-memory systems", VLDB 2022, equations 1 to 5.
"""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from daskpart.models.graph_convolution.products import propagate
from daskpart.models.graph_convolution.rows import Rows, times, transposed_times

Weights = list[NDArray[Any]]


@dataclass(frozen=True)
class Layer(ABC):
    """The base of the layers: Z = Â^hops H W + b; `GCN` is this with one hop.

    One with parameters of its own checks them in ``__post_init__``: fits refuse bad ones by it.

    Parameters
    ----------
    n_inputs, n_outputs : int
        Columns of H and of Z.
    is_first : bool
        The gradient of its input is not wanted.
    is_last : bool
    keeps_product : bool
        Its product with Â is made once a fit; first layers only.
    hops : int
        Products with Â; 0: a layer that sends nothing.

    Attributes
    ----------
    operator : str
        Which matrix Â is: a kind of `operators.operator_of`.
    teleport : float
        Share of the message that comes back after each hop (APPNP).
    epsilon : float
        What a vertex weighs beside 1 in its own sum (GIN).
    """

    n_inputs: int
    n_outputs: int
    is_first: bool = False
    is_last: bool = False
    keeps_product: bool = False
    hops: int = 1

    operator: ClassVar[str] = "normalised"
    can_keep: ClassVar[bool] = True  # the product with features, where it is first
    reads_inputs: ClassVar[bool] = False  # H beside its product
    returns_halo: ClassVar[bool] = False  # backward, rows of the halo go back to their owners
    options: ClassVar[tuple[str, ...]] = ()  # parameters that `layer_options` may set
    teleport: ClassVar[float] = 0.0
    epsilon: ClassVar[float] = 0.0

    @classmethod
    def place(cls, place: int, last: int, **parameters: Any) -> Layer:
        """The layer at a place of a network; most are the same at every place."""
        return cls(**parameters)

    # -- weights ---

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name → shape of each weight."""
        return {"weight": (self.n_inputs, self.n_outputs), "bias": (self.n_outputs,)}

    def first_weights(self, random: np.random.Generator, dtype: str) -> Weights:
        """Matrices uniform in ± √(6 / (rows + columns)) (Glorot and Bengio 2010), zeros else."""
        drawn = []
        for name, shape in self.shapes.items():
            bound = np.sqrt(6 / self.rows_and_columns(name)) if len(shape) > 1 else 0.0
            drawn.append(random.uniform(-bound, bound, shape).astype(dtype))
        return drawn

    def rows_and_columns(self, name: str) -> int:
        """How many both are of a matrix of weights, which its first values are drawn by."""
        return sum(self.shapes[name])

    # -- what travels ---

    @property
    def transforms_first(self) -> bool:
        """Whether H·W goes through Â, and not H."""
        if self.keeps_product or not self.hops:
            return False
        # a first layer that multiplies by Â first saves the message of the backward direction
        return self.n_inputs > self.n_outputs * (2 if self.is_first else 1)

    @property
    def width(self) -> int:
        """Columns of a message."""
        return self.n_outputs if self.transforms_first else self.n_inputs

    @property
    def n_forward(self) -> int:
        """Messages of each pair of ranks in the forward direction."""
        return 0 if self.keeps_product else self.hops

    @property
    def n_backward(self) -> int:
        """Messages of each pair of ranks in the backward direction."""
        return 0 if self.is_first and not self.transforms_first else self.hops

    @property
    def kept_values(self) -> tuple[int, int]:
        """Numbers that are made and kept of each row of H, and of each of Z; for the forecast."""
        of_input = self.n_outputs if self.transforms_first else 0
        return of_input, (self.width if self.n_forward else 0) + self.n_outputs

    @property
    def halo_values(self) -> int:
        """Numbers that are kept of each vertex of the halo."""
        return 0

    @property
    def entry_values(self) -> int:
        """Numbers that are kept of each entry of Â."""
        return 0

    @property
    def passing_entry_values(self) -> int:
        """Numbers that are made of each entry of Â on the way back, and dropped."""
        return 0

    @property
    def leaving_values(self) -> int:
        """Numbers that are made of each row of Z beside it, and dropped."""
        return 0

    @property
    def message_values(self) -> int:
        """Numbers a vertex of the message back, where it is not the gradient itself."""
        return 0 if self.transforms_first or not self.n_backward else self.n_inputs

    # -- one rank, forward ---

    def enter(self, inputs: Rows, weights: Weights) -> Rows:
        """The message: one row a vertex."""
        return times(inputs, weights[0]) if self.transforms_first else inputs

    def leave(self, inputs: Rows, total: Rows, weights: Weights) -> tuple[NDArray[Any], Any]:
        """Z, and what `leave_back` needs besides inputs and total.

        Parameters
        ----------
        inputs : Rows
            H; None under a kept product that does without.
        total : Rows
            What Â made of the message: a row for each of the first rows of H, in a full batch of
            all.
        weights : list of ndarray
        """
        if self.transforms_first:
            return total + weights[-1], None
        product = times(total, weights[0])
        product += weights[-1]
        return product, None

    # -- one rank, backward ---

    def enter_back(
        self, gradient: NDArray[Any], saved: Any, weights: Weights
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """The gradient that `leave_back` needs, and the message of the backward direction.

        Parameters
        ----------
        gradient : ndarray
            Of Z.
        saved : object
            From `leave`.
        weights : list of ndarray
        """
        return gradient, self.narrowed(gradient, weights[0])

    def narrowed(self, gradient: NDArray[Any], weight: NDArray[Any]) -> NDArray[Any]:
        """G, or G·Wᵀ where that is what went through Â forward."""
        if self.transforms_first or not self.n_backward:
            return gradient
        return times(gradient, weight.T)

    def leave_back(
        self,
        inputs: Rows,
        total: Rows,
        saved: Any,
        gradient: NDArray[Any],
        total_back: NDArray[Any] | None,
        weights: Weights,
    ) -> tuple[NDArray[Any] | None, Weights]:
        """The gradient of H (None for a first layer), and of each weight.

        Parameters
        ----------
        inputs, total, saved
            Of `leave`.
        gradient : ndarray
            Of `enter_back`; a row for each of the first rows of H.
        total_back : ndarray or None
            What Âᵀ made of the message, a row for each of H; None where nothing was sent.
        weights : list of ndarray
        """
        into, of_weight = self.product_back(inputs, total, gradient, total_back, weights[0])
        return into, [of_weight, gradient.sum(axis=0)]

    def product_back(
        self,
        inputs: Rows,
        total: Rows,
        gradient: NDArray[Any],
        total_back: NDArray[Any] | None,
        weight: NDArray[Any],
    ) -> tuple[NDArray[Any] | None, NDArray[Any]]:
        """Gradients of H and of W in Â H W."""
        if not self.transforms_first:
            return total_back, transposed_times(total, gradient)
        assert total_back is not None
        into = None if self.is_first else times(total_back, weight.T)
        return into, transposed_times(inputs, total_back)

    # -- texts: the products with Â, on all ranks ---

    def aggregate(
        self,
        comm: Any,
        data: Any,
        prepared: Any,
        before: Any,
        model: Any,
        *,
        network: Any,
        epoch: int | None,
        place: int,
    ) -> Any:
        """Handle of what Â makes of the messages of the boundary `before`; see `passes`."""
        return propagate(comm, data, prepared, before, hops=self.hops, teleport=self.teleport)

    def aggregate_back(
        self,
        comm: Any,
        data: Any,
        prepared: Any,
        back: Any,
        total: Any,
        model: Any,
        *,
        network: Any,
        epoch: int | None,
        place: int,
    ) -> Any:
        """Handle of what Âᵀ makes of the messages of the gradient `back`."""
        return propagate(
            comm, data, prepared, back, hops=self.hops, teleport=self.teleport, back=True,
            returned=network.returns_halo,
        )  # fmt: skip
