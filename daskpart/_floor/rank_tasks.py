"""Dask tasks that belong to a rank: how they are written down, and the workers they are pinned to.

    key (name, rank)  ──RankPlacement──►  address of the rank's worker

The one file that imports `dask.task_spec`, which is new and may move. It imports nothing of the
house but errors, so every folder may import it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import Context
from typing import Any

from dask.base import DaskMethodsMixin
from dask.core import flatten
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.task_spec import DataNode, List, Task, TaskRef
from dask.threaded import get as threaded_get

from daskpart.errors import SchedulerLostError

__all__ = [
    "DataNode",
    "List",
    "PinnedTask",
    "RankCollection",
    "RankPlacement",
    "Task",
    "TaskRef",
    "known_workers",
    "scattered",
]

_ANSWER_SECONDS = 30.0  # as long as Dask takes to find that nobody is there


class PinnedTask(Task):
    """A task whose key names its rank, so it must not be fused into another."""

    __slots__ = ()

    @property
    def block_fusion(self) -> bool:
        """Keep the key."""
        return True


class RankCollection(DaskMethodsMixin):
    """A Dask collection of one value a key, whose pins survive."""

    __dask_scheduler__ = staticmethod(threaded_get)

    def __init__(self, graph: HighLevelGraph, keys: list) -> None:
        self.dask = graph
        self.keys = keys

    def __repr__(self) -> str:
        return f"{type(self).__name__}<npartitions={len(self.keys)}>"

    def __dask_graph__(self) -> HighLevelGraph:
        return self.dask

    def __dask_keys__(self) -> list:
        return self.keys

    def __dask_layers__(self) -> tuple[str, ...]:
        return tuple(self.dask.layers)

    def __dask_tokenize__(self) -> tuple:
        return (type(self).__name__, tuple(self.keys))

    def __dask_postcompute__(self) -> tuple:
        return list, ()

    def __dask_postpersist__(self) -> tuple:
        return _rebuild, (self.keys,)

    @staticmethod
    def __dask_optimize__(graph: HighLevelGraph, keys: Any, **_: Any) -> HighLevelGraph:
        return graph.cull(set(flatten(keys)))  # no more: pins live on the layers


def _rebuild(graph: dict, keys: list, *, rename: dict[str, str] | None = None) -> RankCollection:
    layer = MaterializedLayer(dict(graph))
    return RankCollection(HighLevelGraph({"settled": layer}, {"settled": set()}), keys)


class RankPlacement:
    """From a task's key ``(name, rank, …)`` to the worker of its rank; travels as plain strings."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self.addresses = tuple(addresses)

    def __call__(self, key: tuple) -> list[str]:
        return [self.addresses[key[1]]]


def scattered(client: Any, values: Any, address: str, **options: Any) -> Any:
    """`Client.scatter` to this worker, also inside of a task, as a job of joblib is one.

    There Dask keeps all on the worker of the task, whichever was named. It knows the task by the
    context, so it gets another one.
    """
    return Context().run(client.scatter, values, workers=[address], hash=False, **options)


def known_workers(client: Any) -> dict[str, dict[str, Any]]:
    """What the scheduler knows of each worker, by its address; asked for now.

    Not `Client.scheduler_info`: it answers from an attribute that a periodic call of the client
    overwrites with an answer without workers, so once in a while there are none in it.

    Raises
    ------
    SchedulerLostError
        If no answer comes in half a minute, or the client has been closed, as with its cluster.
    """
    scheduler = client.scheduler
    try:
        if scheduler is None:
            raise ConnectionError("the client is closed")
        asked = {"n_workers": -1, "callback_timeout": _ANSWER_SECONDS}
        return client.sync(scheduler.identity, **asked)["workers"]
    except OSError as error:  # also a TimeoutError
        raise SchedulerLostError(
            f"The scheduler does not answer any more ({str(error) or 'silence'}): start a cluster, "
            "connect a new client, and go on from a checkpoint with resume=True."
        ) from error
