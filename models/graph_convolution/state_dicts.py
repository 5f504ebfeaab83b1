"""Weights trained elsewhere: names and layouts of PyTorch Geometric and DGL, as ours.

    ours                PyTorch Geometric         DGL
    gcn   weight        lin.weight (turned)       weight
          bias          bias                      bias
    sage  weight        lin_l.weight (turned)     fc_neigh.weight (turned)
          self_weight   lin_r.weight (turned)     fc_self.weight (turned)
          bias          lin_l.bias                bias, or fc_self.bias
    gat   weight        lin.weight (turned)       fc.weight (turned)
          attention_left   att_dst                attn_r
          attention_right  att_src                attn_l
          bias          bias                      bias (of several output heads: their mean)

PyTorch Geometric before 2.5 calls lin.weight of gat lin_src.weight, and has it a second time as
lin_dst.weight; where the two differ the layer reads a bipartite graph, and is none of ours.

"Turned": it is (columns out, columns in) there. Layers come in the order of the dict, by what
stands before these names ("conv1.", "layers.0.").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.errors import InputError

_TURNED = {
    "lin.weight", "lin_src.weight", "lin_dst.weight", "lin_l.weight", "lin_r.weight", "fc.weight",
    "fc_neigh.weight", "fc_self.weight",
}  # fmt: skip
_NAMES: Mapping[str, Mapping[str, str]] = {
    "gcn": {"lin.weight": "weight", "weight": "weight", "bias": "bias"},
    "sage": {
        "lin_l.weight": "weight", "lin_r.weight": "self_weight", "lin_l.bias": "bias",
        "fc_neigh.weight": "weight", "fc_self.weight": "self_weight", "fc_self.bias": "bias",
        "bias": "bias",
    },
    "gat": {
        "lin.weight": "weight", "lin_src.weight": "weight", "lin_dst.weight": "weight",
        "att_dst": "attention_left", "att_src": "attention_right", "fc.weight": "weight",
        "attn_r": "attention_left", "attn_l": "attention_right", "bias": "bias",
    },
}  # fmt: skip
_ORDER = ("weight", "self_weight", "attention_left", "attention_right", "bias")


def coefs_from_state_dict(state: Mapping[str, Any], layer: str = "gcn") -> dict[str, NDArray[Any]]:
    """Weights for `GCNClassifier.set_coefs` from a state dict.

    Parameters
    ----------
    state : dict of str to array
        ``{name: tensor.numpy() for name, tensor in model.state_dict().items()}``.
    layer : {"gcn", "sage", "gat"}, default="gcn"

    Returns
    -------
    dict of str to ndarray
        "0.weight", "0.bias", "1.weight" …

    Raises
    ------
    InputError
        For another layer, or names that are not of it; for a layer with a weight of its own for
        each side of a bipartite graph.
    """
    if layer not in _NAMES:
        raise InputError(f"layer={layer!r}: state dicts are read of {', '.join(_NAMES)}")
    known = _NAMES[layer]
    found: dict[str, dict[str, NDArray[Any]]] = {}
    for name, value in state.items():
        ending = next(
            (each for each in sorted(known, key=len, reverse=True)
             if name == each or name.endswith(f".{each}")), None
        )  # fmt: skip
        if ending is None:
            raise InputError(
                f"{name!r} is no weight of a {layer} layer; known are those that end in "
                f"{', '.join(known)}"
            )
        array = np.asarray(value)
        array = array.T if ending in _TURNED else array
        array = array[0] if known[ending].startswith("attention") and array.ndim == 3 else array
        own = found.setdefault(name[: len(name) - len(ending)], {})
        if not np.array_equal(own.get(known[ending], array), array):
            raise InputError(
                f"{name!r} differs from what the layer has as {known[ending]} already: of a layer "
                "for bipartite graphs, where here vertices of one kind read each other"
            )
        own[known[ending]] = array
    if layer == "gat" and any(name.endswith("attn_l") for name in state):
        last = [*found.values()][-1]  # DGL adds the bias to each head, then their mean is taken
        if "bias" in last and "attention_left" in last:
            heads = last["attention_left"].shape
            if last["bias"].size == heads[0] * heads[1]:
                last["bias"] = last["bias"].reshape(heads).mean(axis=0)
    return {
        f"{place}.{name}": np.ascontiguousarray(weights[name])
        for place, weights in enumerate(found.values())
        for name in _ORDER
        if name in weights
    }
