"""What there is to cut in what a reader gives: examples without their labels, edges of a graph."""

from __future__ import annotations

from typing import Any

from daskpart.errors import InputError

from .libsvm import Examples


def sparse_inside(data: Any, source: str) -> Any:
    """The sparse matrix or tensor in what `daskpart.read` gave, or the hypergraph itself.

    Raises
    ------
    InputError
        A Dataset without ``adjacency``.
    """
    if isinstance(data, Examples):
        return data.data
    if hasattr(data, "data_vars"):
        if "adjacency" in data:
            return data["adjacency"]
        names = [str(name) for name in data.data_vars]
        raise InputError(
            f"{source} holds {', '.join(names)}: which one is to be cut? Give it alone, like "
            f"data[{names[0]!r}]"
            if names
            else f"{source} is a Dataset without a variable: there is nothing to cut"
        )
    return data
