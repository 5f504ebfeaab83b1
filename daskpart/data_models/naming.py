"""Data models by name, and which one is meant where none is named.

    matrix, graph                column-net     rows are dealt out: examples, users, vertices
    tensor of order 3 and more   medium-grain   balances like single nonzeros, with fewer vertices

A square matrix is not taken for a graph: whether its rows and columns are the same things only its
owner knows. The fine grain can cut a little less, but has a vertex for each nonzero.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.checks import one_of
from daskpart.containers.tensor import LabelledTensor
from daskpart.errors import InputError
from daskpart.hypergraph import Hypergraph

from .matrix_models import bipartite, column_net, column_net_self_loops, graph, row_net
from .model import DataModel
from .stochastic import stochastic
from .tensor_grains import fine_grain, medium_grain

if TYPE_CHECKING:
    from daskpart.partitions import Partition

MODELS: dict[str, Callable[..., DataModel]] = {
    "column-net": column_net,
    "row-net": row_net,
    "column-net-self-loops": column_net_self_loops,
    "graph": graph,
    "bipartite": bipartite,
    "fine-grain": fine_grain,
    "medium-grain": medium_grain,
}
_OF_TENSORS = ("fine-grain", "medium-grain")
NAMES = ("auto", *MODELS, "stochastic")


def build(
    data: Any,
    model: str = "auto",
    *,
    n_parts: int = 2,
    random_state: int = 0,
    nets: bool = True,
) -> DataModel:
    """The named model of data in any container.

    Parameters
    ----------
    data : container, path, Hypergraph or DataModel
        Matrices as `daskpart.containers.as_matrix` takes them, tensors as `as_tensor` there does; a
        path goes through `daskpart.read`, and what that gives can be given itself. A hypergraph or
        a data model is what it is, whatever `model` says.
    model : str, default="auto"
        One of `NAMES`. auto: "medium-grain" for order 3 and more, else "column-net".
    n_parts, random_state : int
        Of the model "stochastic", which depends on them; `stochastic` has further options.
    nets : bool, default=True
        False: only the vertices, where the model can do without; see `column_net`.

    Returns
    -------
    DataModel

    Raises
    ------
    InputError
        An unknown model, or data that it does not take.
    """
    one_of(model, "model", NAMES)
    from daskpart.readers.contents import sparse_inside

    source = "the data"
    if isinstance(data, str | os.PathLike):
        from daskpart.readers import read

        source, data = str(data), read(data)
    data = sparse_inside(data, source)
    if isinstance(data, DataModel):
        return data
    if isinstance(data, Hypergraph):
        return DataModel(data, "hypergraph")
    if model == "auto":
        model = "medium-grain" if _order(data) > 2 else "column-net"
    if model == "stochastic":
        return stochastic(data, n_parts, random_state=random_state)
    if model not in _OF_TENSORS and _order(data) > 2:
        raise InputError(
            f"model {model!r} takes a matrix, the data has {_order(data)} modes: use one of "
            f"{', '.join(map(repr, _OF_TENSORS))}"
        )
    build_named = MODELS[model]
    without_nets = not nets and "nets" in signature(build_named).parameters
    return build_named(data, nets=False) if without_nets else build_named(data)


def rebuild(
    data: Any, partition: Partition, model: str = "auto", *, random_state: int = 0
) -> DataModel:
    """The model that a partition was made with, built again of the same data.

    Parameters
    ----------
    data : as for `build`
        A data model or a hypergraph is what it is.
    partition : Partition
        Its `info` tells what it was made with, if anything.
    model : str, default="auto"
        Another model than that one; auto: that one.
    random_state : int, default=0
        Of the model "stochastic", where the partition does not say its own.

    Returns
    -------
    DataModel

    Raises
    ------
    InputError
        The model was made with options that `info` does not tell enough of, such as a sampler.
    """
    info = partition.info
    if model == "auto" and info.get("model") in NAMES:
        model = info["model"]
    if model != info.get("model"):
        return build(data, model, n_parts=partition.n_parts, random_state=random_state)
    seed = info.get("seed", info.get("random_state", random_state))
    built = build(data, model, n_parts=partition.n_parts, random_state=seed)
    if built is data:
        return built
    row_length = info.get("row_length", 1)
    if built.tensor is not None and row_length != 1:
        built = MODELS[model](built.tensor, row_length=row_length)
    for name, value in built.facts.items():
        if info.get(name, value) != value:
            raise InputError(
                f"the partition was made with a model {model!r} of {name} {info[name]}, built "
                f"again it has {value}: give the DataModel that was cut as the data"
            )
    return built


def nonzero_parts(data: Any, partition: Partition) -> NDArray[np.int32]:
    """The part of each stored value of `data`, int32[nnz]; see `Partition.nonzero_parts`."""
    name = partition.info.get("model")
    if name not in NAMES:
        raise InputError(
            f"this partition was made of a {name or 'hypergraph'}: where the stored values of the "
            "data went only the model of the data knows (DataModel.nonzero_parts)"
        )
    # mini-batches decide which nets there are; vertices are rows all the same
    alike = "column-net-self-loops" if name == "stochastic" else name
    return replace(build(data, alike), name=name).nonzero_parts(partition)


def _order(data: Any) -> int:
    return data.n_modes if isinstance(data, LabelledTensor) else int(getattr(data, "ndim", 2))
