"""Layers by name. One of your own is a subclass of `Layer`, for ``GCNClassifier(layer=…)``.

A new one of ours is a module here and a line in `LAYERS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from daskpart.errors import InputError

from .appnp import APPNP
from .base import Layer, Weights
from .gat import GAT
from .gcn import GCN
from .gin import GIN
from .sage import SAGE
from .sgc import SGC

LAYERS: Mapping[str, type[Layer]] = {
    "gcn": GCN,
    "sage": SAGE,
    "gin": GIN,
    "gat": GAT,
    "sgc": SGC,
    "appnp": APPNP,
}

__all__ = ["LAYERS", "Layer", "Weights", "kind_of", "make_layers"]


def kind_of(layer: str | type) -> type[Layer]:
    """The class of a layer from a name of `LAYERS`, or as it is given.

    Raises
    ------
    InputError
        For a class that is no layer.
    """
    if isinstance(layer, str):
        return LAYERS[layer]
    if not issubclass(layer, Layer):
        raise InputError(
            f"layer={layer.__name__} is no layer: give a subclass of "
            f"daskpart.models.graph_convolution.layers.Layer, or one of {', '.join(LAYERS)}"
        )
    return layer


def make_layers(
    layer: str | type, widths: Sequence[int], options: Mapping[str, Any], keeps_product: bool
) -> tuple[Layer, ...]:
    """The layers of a network.

    Parameters
    ----------
    layer : str or type
        A name of `LAYERS`, or a subclass of `Layer`.
    widths : sequence of int
        Columns of the features, of the hidden layers, of the output.
    options : dict
        Parameters of the layer.
    keeps_product : bool
        Whether the product of the features with Â is made once.

    Raises
    ------
    InputError
        For options that the layer does not have, or a class that is no layer.
    """
    kind = kind_of(layer)
    strange = sorted(set(options) - set(kind.options))
    if strange:
        known = ", ".join(kind.options) or "none"
        raise InputError(
            f"layer_options: layer={layer!r} has no {', '.join(strange)}; it has {known}"
        )
    last = len(widths) - 2
    return tuple(
        kind.place(
            place,
            last,
            n_inputs=widths[place],
            n_outputs=widths[place + 1],
            is_first=place == 0,
            is_last=place == last,
            keeps_product=keeps_product and place == 0 and kind.can_keep,
            **options,
        )
        for place in range(last + 1)
    )


def shapes_by_name(layers: Sequence[Layer]) -> dict[str, tuple[int, ...]]:
    """Shapes of all weights: "0.weight", "0.bias", "1.weight" …"""
    return {
        f"{place}.{name}": shape
        for place, layer in enumerate(layers)
        for name, shape in layer.shapes.items()
    }
