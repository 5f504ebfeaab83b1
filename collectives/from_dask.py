"""A Dask collection as per-rank values: its keys, one a rank, and what they hold, brought here."""

from __future__ import annotations

from typing import Any

import dask
from dask.core import flatten

from daskpart.errors import InputError


def collection_keys(collection: Any, n_ranks: int) -> list[Any]:
    """Keys of a collection in order; InputError unless there is one a rank."""
    keys = list(flatten(collection.__dask_keys__()))
    if len(keys) != n_ranks:
        raise InputError(
            f"{n_ranks} ranks need as many values, got {len(keys)} (the keys of a "
            f"{type(collection).__name__}); cut it into one chunk a rank."
        )
    return keys


def computed_values(collection: Any, n_ranks: int) -> list[Any]:
    """What the keys hold, computed on the current scheduler and brought to this process."""
    keys = collection_keys(collection, n_ranks)
    (persisted,) = dask.persist(collection)
    held = dict(persisted.__dask_graph__())
    client = getattr(held[keys[0]], "client", None)  # with a client they are futures
    if client is None:
        return list(dask.get(held, keys))
    return client.gather([held[key] for key in keys])
