"""A multi-layer perceptron on one rank: layers, forward, backward by layer.

    X ─ W0, b0 ─ σ ─ H1 ─ W1, b1 ─ σ ─ … ─ Z ─ loss
    gradient of W0 … ◄─ Δ1 ◄─ gradient of W1, b1 ◄─ Δ2 ◄─ … ◄─ ∂loss/∂Z

Weights and bias of a layer lie in one vector, matrix first, and so does their gradient: what
travels is one vector a layer. Where X is sparse, the gradient of the first layer is, too: only rows
of W0 whose features occur in the batch have entries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from daskpart._floor.blas import one_blas_thread
from daskpart.collectives.stream import Stream, entries_stream
from daskpart.models.networks.activations import ACTIVATIONS
from daskpart.models.networks.losses import Loss
from daskpart.models.samples.rows import in_columns


@dataclass(frozen=True)
class Network:
    """All that is static of a network.

    Parameters
    ----------
    widths : tuple of int
        Features, hidden layers, outputs.
    activation : str
        Of `ACTIVATIONS`, between layers.
    loss : Loss
    dtype : str
        "float32" or "float64", of weights and of all products.
    """

    widths: tuple[int, ...]
    activation: str
    loss: Loss
    dtype: str

    @property
    def n_layers(self) -> int:
        """Layers of weights."""
        return len(self.widths) - 1

    def sizes(self) -> list[int]:
        """Numbers in each layer, its bias among them."""
        return [(above + 1) * below for above, below in pairwise(self.widths)]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of all arrays by name: "0.weight", "0.bias", "1.weight" …"""
        found: dict[str, tuple[int, ...]] = {}
        for place, (above, below) in enumerate(pairwise(self.widths)):
            found |= {f"{place}.weight": (above, below), f"{place}.bias": (below,)}
        return found

    def first_weights(self, seed: int) -> dict[str, NDArray[Any]]:
        """Matrices uniform in ± √(6 / (rows + columns)) (Glorot and Bengio 2010), biases 0."""
        random = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(3,)))
        weights: dict[str, NDArray[Any]] = {}
        for place, (above, below) in enumerate(pairwise(self.widths)):
            bound = np.sqrt(6 / (above + below))
            drawn = random.uniform(-bound, bound, (above, below))
            weights[f"{place}.weight"] = drawn.astype(self.dtype)
            weights[f"{place}.bias"] = np.zeros(below, self.dtype)
        return weights

    def joined(self, named: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """One new vector a layer, from arrays by name."""
        return [
            np.concatenate([named[f"{place}.weight"].ravel(), named[f"{place}.bias"]])
            for place in range(self.n_layers)
        ]

    def pieces(self, vector: NDArray[Any], place: int) -> list[NDArray[Any]]:
        """Matrix and bias of a layer, as views of its vector."""
        below = self.widths[place + 1]
        return [vector[:-below].reshape(-1, below), vector[-below:]]

    def named(self, vectors: Sequence[NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Copies of the arrays by name, from one vector a layer."""
        return {
            f"{place}.{name}": array.copy()
            for place, vector in enumerate(vectors)
            for name, array in zip(("weight", "bias"), self.pieces(vector, place), strict=True)
        }

    def targets(self, target: NDArray[np.float64]) -> NDArray[Any]:
        """Targets as the loss takes them: numbers of classes, or a table in the network's dtype."""
        columns = in_columns(target)
        if self.loss.name == "softmax":
            return columns[:, 0].astype(np.int64)
        return columns.astype(self.dtype)

    @one_blas_thread
    def forward(self, weights: Sequence[NDArray[Any]], inputs: Any) -> list[Any]:
        """Values before each layer, and the outputs last.

        Parameters
        ----------
        weights : sequence of ndarray
            One vector a layer.
        inputs : ndarray or csr_array of shape (n_rows, n_features)
        """
        values: list[Any] = [inputs]
        activated = ACTIVATIONS[self.activation].value
        for place, vector in enumerate(weights):
            matrix, bias = self.pieces(vector, place)
            z = values[-1] @ matrix
            z += bias
            values.append(activated(z) if place < self.n_layers - 1 else z)
        return values

    def back(
        self, vector: NDArray[Any], value: NDArray[Any], slopes: NDArray[Any], place: int
    ) -> NDArray[Any]:
        """Slopes before the layer at `place`, whose input was σ(…) = `value`."""
        matrix, _ = self.pieces(vector, place)
        before: NDArray[Any] = slopes @ matrix.T
        ACTIVATIONS[self.activation].backward(value, before)
        return before


def layer_gradient(value: Any, slopes: NDArray[Any]) -> Stream:
    """Gradient of a layer's vector from its input and the slopes behind it: dense, or entries."""
    if scipy.sparse.issparse(value):
        return _sparse_gradient(value, slopes)
    n_inputs, below = value.shape[1], slopes.shape[1]
    gradient = np.empty((n_inputs + 1) * below, slopes.dtype)
    np.matmul(value.T, slopes, out=gradient[:-below].reshape(n_inputs, below))
    gradient[-below:] = slopes.sum(axis=0)
    size = len(gradient)
    return Stream(size, gradient, None, gradient.dtype.type(0), 0, size, (size,))


def _sparse_gradient(value: Any, slopes: NDArray[Any]) -> Stream:
    """The same of sparse rows: one row of entries for each feature that occurs, and the bias."""
    below = slopes.shape[1]
    touched, columns = np.unique(value.indices, return_inverse=True)
    packed = scipy.sparse.csr_array(
        (value.data, columns.astype(np.int64), value.indptr), shape=(len(slopes), len(touched))
    )
    rows = np.vstack([packed.T @ slopes, slopes.sum(axis=0)[None]]).astype(slopes.dtype)
    size = (value.shape[1] + 1) * below
    first = np.append(touched, value.shape[1]).astype(np.int64) * below
    indices = (first[:, None] + np.arange(below)).ravel()
    kept = rows.ravel() != 0
    return entries_stream(indices[kept], rows.ravel()[kept], size)
