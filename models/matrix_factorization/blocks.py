"""Work on all rows of a factor, a block at a time, by Dask: on the workers, or threads here.

    items, level ──► every worker, once
    block of rows ─► a task ─► its part of the result                 lazily, in order

With a client the items are sent to all workers, and each block of rows to one of them; a task holds
its block, the items and a tile, so memory is bounded by the block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import dask
import numpy as np

from daskpart.models.base.session import client_for

BLOCK_ROWS = 4096


def over_blocks(
    function: Callable[..., Any],
    blocks: Iterable[tuple[Any, ...]],
    shared: tuple[Any, ...],
    client: Any = None,
    **static: Any,
) -> list[Any]:
    """``function(*block, *shared, **static)`` of each block, as `dask.delayed` values.

    Parameters
    ----------
    function : callable
        Of a module.
    blocks : iterable of tuple
        What each task has for itself.
    shared : tuple
        What all of them have.
    client : distributed.Client, optional
        Default: the current one; without any, tasks run where `dask.compute` is called.
    """
    client = client_for("auto", client)
    lazy = dask.delayed(function, pure=False)
    if client is None:
        held = [dask.delayed(each, traverse=False) for each in shared]
        return [lazy(*block, *held, **static) for block in blocks]
    everywhere = client.scatter(list(shared), broadcast=True, hash=False)
    own = [client.scatter(list(block), hash=False) for block in blocks]
    return [lazy(*block, *everywhere, **static) for block in own]


def computed(tasks: list[Any], client: Any = None) -> list[Any]:
    """All results, in order."""
    client = client_for("auto", client)
    return list(dask.compute(*tasks) if client is None else client.gather(client.compute(tasks)))


def row_blocks(n_rows: int, length: int = BLOCK_ROWS) -> list[np.ndarray]:
    """Positions 0 … n_rows − 1 in blocks."""
    return [np.arange(begin, min(begin + length, n_rows)) for begin in range(0, n_rows, length)]
