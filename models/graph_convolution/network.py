"""A network: its layers, what lies between them, its loss; a frozen description for the text.

    features ─ layer ─ σ ─ dropout ─ layer ─ … ─ loss

Weights are one flat list over all layers, named "0.weight", "0.bias", "1.weight" …
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskpart.errors import InputError
from daskpart.models.networks.losses import Loss

from .layers import Layer, Weights, shapes_by_name

# of a column in a product with Â, whose rows come from all over memory: the share of it that a
# multiply-add with weights takes, and how many of it a number of attention takes (its powers above
# all); in round figures, as CPUs differ
DENSE, ATTENTION = 0.5, 10
LOSS_ROWS = 8192  # of outputs whose loss is taken at a time: what is made of them stays in a cache

# parameters that outputs depend on
ANSWERED_BY = ("hidden", "layer", "layer_options", "activation", "symmetrize")


class LayerSizes(NamedTuple):
    """What a layer works on; numbers, or arrays of shape (n_ranks,).

    Attributes
    ----------
    n_own, n_rows : int
        Vertices of a rank, and those among them that rows are made for: in a full batch all.
    n_halo, n_sent : int
        Vertices of others that it reads, rows that it sends.
    n_entries : int
        Nonzeros of its rows of Â.
    """

    n_own: Any
    n_rows: Any
    n_halo: Any
    n_sent: Any
    n_entries: Any


@dataclass(frozen=True)
class Network:
    """All that is static of a fit.

    Parameters
    ----------
    layers : tuple of Layer
    activation : str
        Of `activations.ACTIVATIONS`.
    dropout : float
        Of the inputs of each layer, while training.
    loss : Loss
    dtype : str
    seed : int
    n_terms, n_validation : int
        Labelled values (vertices, times columns where each has its own) that are trained on, and
        validated on. In a mini-batch `n_terms` is its share of them, which need not be whole.
    is_sampled : bool
        Whether it is trained on mini-batches.
    spreads : pair of tuple of float
        For R²: the sum of squares of each column of the targets around its mean, over the vertices
        that are trained on, and over those that are validated on.
    """

    layers: tuple[Layer, ...]
    activation: str
    dropout: float
    loss: Loss
    dtype: str
    seed: int
    n_terms: float
    n_validation: int = 0
    is_sampled: bool = False
    spreads: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())

    @property
    def operator(self) -> str:
        """The matrix that all layers multiply by."""
        return next(layer.operator for layer in self.layers if layer.hops)

    @property
    def returns_halo(self) -> bool:
        """Whether gradients of the halo's rows go back to their owners."""
        return self.is_sampled or self.joins_columns

    @property
    def joins_columns(self) -> bool:
        """Whether layers read own vertices and the halo as one; see `ranks.Halves`."""
        return any(layer.returns_halo for layer in self.layers)

    @property
    def halo_values(self) -> int:
        """Numbers that layers keep of each vertex of the halo."""
        return sum(layer.halo_values for layer in self.layers)

    @property
    def entry_values(self) -> int:
        """Numbers that layers keep of each entry of Â."""
        return sum(layer.entry_values for layer in self.layers)

    @property
    def names(self) -> list[str]:
        """Of all weights."""
        return list(shapes_by_name(self.layers))

    def of_layer(self, weights: Sequence[Any], place: int) -> Weights:
        """The weights of one layer."""
        begin = sum(len(layer.shapes) for layer in self.layers[:place])
        return list(weights[begin : begin + len(self.layers[place].shapes)])

    def of_fit(self, weights: Mapping[str, NDArray[Any]]) -> Network:
        """The same as a fit left it: parameters may have been set anew since then.

        Raises
        ------
        InputError
            Where the parameters make other layers than the fit had.
        """
        if list(weights) != self.names:
            raise InputError(
                f"the parameters make a network of {', '.join(self.names)}; the model was fitted "
                f"with others, and has {', '.join(weights)}: set them back, or fit it anew"
            )
        return replace(self, dtype=next(iter(weights.values())).dtype.name)

    def first_weights(self) -> dict[str, NDArray[Any]]:
        """Weights before the first step, by name."""
        random = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(3,)))
        drawn = [each for layer in self.layers for each in layer.first_weights(random, self.dtype)]
        return dict(zip(self.names, drawn, strict=True))

    def decays(self, weight_decay: float | Sequence[float]) -> tuple[float, ...]:
        """Weight decay of each weight: of matrices, one number a layer or one for all."""
        given = np.broadcast_to(np.asarray(weight_decay, float), (len(self.layers),))
        return tuple(
            float(given[place]) if len(shape) > 1 else 0.0
            for place, layer in enumerate(self.layers)
            for shape in layer.shapes.values()
        )

    def widths(self, backward: bool) -> list[int]:
        """Columns of every message of a pair of ranks in one pass, hop by hop."""
        return [
            layer.width
            for layer in self.layers
            for _ in range(layer.n_backward if backward else layer.n_forward)
        ]

    @property
    def passes(self) -> tuple[list[int], list[int]]:
        """Columns of every message of an epoch: forward (with those of validation), backward."""
        forward = self.widths(backward=False)
        return forward * (2 if self.n_validation else 1), self.widths(backward=True)

    @property
    def n_validating(self) -> int:
        """Products of an epoch's validation that send rows."""
        return len(self.widths(backward=False)) if self.n_validation else 0

    def row_work(self, n_features: float) -> int:
        """What the weights have to do with a vertex in an epoch, in nonzeros of its row of Â.

        Each matrix multiplies its rows for the output, for its own gradient and, but in the first
        layer, for the gradient of the input.

        Parameters
        ----------
        n_features : float
            Stored features of a vertex, on average.
        """
        of_row = 0.0
        for layer in self.layers:
            stored = n_features / layer.n_inputs if layer.is_first else 1.0
            matrices = [shape for shape in layer.shapes.values() if len(shape) > 1]
            n_products = 2 if layer.is_first else 3
            of_row += stored * n_products * sum(int(np.prod(shape)) for shape in matrices)
        columns = sum(self.widths(backward=False)) + sum(self.widths(backward=True))
        of_entry = columns + ATTENTION * self.entry_values
        return round(DENSE * of_row / max(of_entry, 1))

    @property
    def n_sums(self) -> int:
        """Numbers that the loss and the score of some vertices are made of."""
        return self.loss.n_sums(self.layers[-1].n_outputs)

    @property
    def n_weights(self) -> int:
        """Numbers in all weights."""
        return sum(int(np.prod(shape)) for layer in self.layers for shape in layer.shapes.values())

    def made_bytes(self, sizes: Sequence[LayerSizes]) -> list[Any]:
        """Bytes that each layer makes on a rank, and holds for its backward.

        Its input with entries dropped (of the first layer see `features`), its message where that
        is not the input, what Â made of it, and its output.
        """
        found = []
        for place, (layer, size) in enumerate(zip(self.layers, sizes, strict=True)):
            of_input, of_output = layer.kept_values
            of_input += layer.n_inputs if self.dropout and place else 0
            values = of_input * size.n_own + of_output * size.n_rows
            found.append(np.dtype(self.dtype).itemsize * values)
        return found

    def passing_bytes(self, sizes: Sequence[LayerSizes], n_trained: Any) -> Any:
        """What is there for a while on the way back, beside what the forward pass left.

        At the loss, its gradient and what that is made of. Then layer by layer the gradient of Z,
        the message that was made of it, and what Âᵀ makes of that; while it is made, rows on their
        way (those that arrive are put together), and afterwards gradient and message of the layer
        before. Beside all of it gradients of weights, which are put together at the end.

        Parameters
        ----------
        sizes : sequence of LayerSizes
            Of each layer.
        n_trained : int, or int64 ndarray of shape (n_ranks,)
            Vertices that a rank trains on.
        """
        of_loss = sizes[-1].n_rows + 2 * np.minimum(n_trained, LOSS_ROWS)
        found = self.layers[-1].n_outputs * of_loss
        for place, (layer, size) in enumerate(zip(self.layers, sizes, strict=True)):
            width = layer.width if layer.n_backward else 0
            there = (layer.n_outputs + layer.message_values) * size.n_rows + width * size.n_own
            on_way = width * (size.n_sent + 2 * size.n_halo)
            on_way = on_way + layer.passing_entry_values * size.n_entries
            before = layer.n_inputs + self.layers[place - 1].message_values if place else 0
            found = np.maximum(found, there + np.maximum(on_way, before * size.n_own))
        return np.dtype(self.dtype).itemsize * (found + self.n_weights)

    def validation_bytes(self, size: LayerSizes) -> Any:
        """What is there at most while the whole graph passes without dropout, a layer at a time.

        Of a layer its input (of the first one see `features`), its message where that is not the
        input, and what Â makes of it; while it is made, rows that arrive, with those that are sent
        and then put together; and afterwards its output, with what that is made of, and then with
        the message of the next.

        Parameters
        ----------
        size : LayerSizes
            Of all layers.
        """
        found, left = 0, 0  # left: of a vertex, by the layer before
        for layer, behind in zip(self.layers, (*self.layers[1:], None), strict=True):
            of_input, of_output = layer.kept_values
            total = layer.width if layer.n_forward else 0
            there = (left + of_input + total) * size.n_own
            there = there + layer.halo_values * size.n_halo + layer.entry_values * size.n_entries
            on_way = total * (size.n_halo + np.maximum(size.n_sent, size.n_halo))
            if layer.teleport:  # shares of message and product, once all is there
                on_way = np.maximum(on_way, 2 * total * size.n_own)
            if layer.n_forward > 1:  # the product before
                on_way = on_way + total * size.n_own
            left = of_output - total
            message = behind.width if behind and behind.transforms_first else 0
            made = (left + max(layer.leaving_values, message)) * size.n_own
            found = np.maximum(found, there + np.maximum(on_way, made))
        return np.dtype(self.dtype).itemsize * found
