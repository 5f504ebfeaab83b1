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
    gin   weight        nn.0.weight (turned)      apply_func.0.weight (turned)
          inner_bias    nn.0.bias                 apply_func.0.bias
          outer_weight  nn.2.weight (turned)      apply_func.2.weight (turned)
          bias          nn.2.bias                 apply_func.2.bias
    sgc   weight        lin.weight (turned)       fc.weight (turned)
          bias          lin.bias                  fc.bias
    appnp weight, bias  of each torch.nn.Linear before the product, in both (turned)

An MLP of PyTorch Geometric's own class, without normalisation, says nn.lins.0 and nn.lins.1.
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
    "gin": {
        f"{mlp}.{place}.{name}": ours
        for mlp, second in (("nn", 2), ("nn.lins", 1), ("apply_func", 2))
        for place, names in ((0, ("weight", "inner_bias")), (second, ("outer_weight", "bias")))
        for name, ours in zip(("weight", "bias"), names, strict=True)
    },
    "sgc": {"lin.weight": "weight", "lin.bias": "bias", "fc.weight": "weight", "fc.bias": "bias"},
    "appnp": {"weight": "weight", "bias": "bias"},
}  # fmt: skip
_ORDER = (
    *("weight", "self_weight", "inner_bias", "outer_weight", "attention_left", "attention_right"),
    "bias",
)


def coefs_from_state_dict(state: Mapping[str, Any], layer: str = "gcn") -> dict[str, NDArray[Any]]:
    """Weights for `GCNClassifier.set_coefs` from a state dict.

    Parameters
    ----------
    state : dict of str to array
        ``{name: tensor.numpy() for name, tensor in model.state_dict().items()}``.
    layer : {"gcn", "sage", "gat", "gin", "sgc", "appnp"}, default="gcn"

    Returns
    -------
    dict of str to ndarray
        "0.weight", "0.bias", "1.weight" …

    Raises
    ------
    InputError
        For another layer, or names that are not of it; for a layer with a weight of its own for
        each side of a bipartite graph; for an eps of gin other than 0, which is no weight here.
    """
    if layer not in _NAMES:
        raise InputError(f"layer={layer!r}: state dicts are read of {', '.join(_NAMES)}")
    known = _NAMES[layer]
    found: dict[str, dict[str, NDArray[Any]]] = {}
    for name, value in state.items():
        if layer == "gin" and name.split(".")[-1] == "eps":
            _refuse_epsilon(name, float(np.asarray(value).item()))
            continue
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
        # of torch.nn.Linear; GraphConv and older GCNConv have a plain weight that is not
        turned = ending.endswith("weight") and (ending != "weight" or layer == "appnp")
        array = array.T if turned else array
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


def _refuse_epsilon(name: str, epsilon: float) -> None:
    """Refuse an ε that the weights would be given without (InputError)."""
    if epsilon:
        raise InputError(
            f"{name!r} is {epsilon:g}: give the model layer_options={{'epsilon': {epsilon:g}}}, "
            "and leave the names that end in eps out of the state dict"
        )
