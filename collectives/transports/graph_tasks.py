"""Tasks of the graph transport: how they are written down, pinned and collected, and what they do.

    (update-…-4, rank)                  state of a rank
    (pack-…-5, source, destination)     one message, made where the source lives
    (combine-…-6, rank)                 all messages to a rank, combined where it lives

The second part of a key is the rank whose worker runs the task. The pin is an annotation of the
layer, and arrays' optimisation would drop it: so ranks live in a collection of their own
(`RankCollection`) that is only culled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import contextmanager
from typing import Any

from dask.base import DaskMethodsMixin
from dask.core import flatten
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.threaded import get as threaded_get

from daskpart._floor.rank_tasks import DataNode, List, PinnedTask, RankPlacement, Task, TaskRef
from daskpart.collectives.communicator import duplicate
from daskpart.collectives.counters import value_bytes
from daskpart.collectives.exchange import Payload, ValueInbox, make_payload, payload_size
from daskpart.collectives.prepared import open_inbox, pack_message
from daskpart.collectives.timeline import now

from .ledger import Message, record

Mark = tuple[str, int]  # of a step: the run and the step's number


class RankCollection(DaskMethodsMixin):
    """A Dask collection of one value a key, whose pins survive.

    Parameters
    ----------
    graph : HighLevelGraph
    keys : list of keys
    """

    __dask_scheduler__ = staticmethod(threaded_get)

    def __init__(self, graph: HighLevelGraph, keys: list) -> None:
        self.dask = graph
        self.keys = keys

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


def pinned_graph(
    tasks: dict, placement: RankPlacement | None, known: dict | None = None
) -> HighLevelGraph:
    """One layer of tasks, pinned where there is a placement, beside a layer of known values."""
    pins = {"workers": placement, "allow_other_workers": False} if placement else None
    layers = {"ranks": MaterializedLayer(tasks, annotations=pins)}
    dependencies: dict[str, set[str]] = {"ranks": set()}
    if known:
        layers["settled"] = MaterializedLayer(known)
        dependencies = {"ranks": {"settled"}, "settled": set()}
    return HighLevelGraph(layers, dependencies)


def data_node(key: Any, value: Any) -> DataNode:
    """A value that stands in the graph."""
    return DataNode(key, value)


# -- how tasks are written down ---


def step_task(
    key: tuple, step: Callable, mark: Mark, function: Callable, static: dict, inputs: Iterable
) -> Task:
    """A task of `run_map` or `run_update`; inputs are keys."""
    return PinnedTask(key, step, mark, key[1], function, static, *map(TaskRef, inputs))


def pack_task(
    key: tuple, mark: Mark, pack: Callable, slot: int, index: int, messages: Any, value: Any
) -> Task:
    """A task of `run_pack`: the index-th message out of the rank's messages in a slot."""
    return PinnedTask(key, run_pack, mark, pack, slot, index, TaskRef(messages), TaskRef(value))


def combine_task(
    key: tuple,
    mark: Mark,
    combine: Callable,
    static: dict,
    slot: int,
    messages: Any,
    payloads: Iterable,
    inputs: Iterable,
) -> Task:
    """A task of `run_combine`; payloads in rising order of their sources."""
    arrived = List(*map(TaskRef, payloads))  # a bare list would not be seen as dependencies
    references = map(TaskRef, inputs)
    return PinnedTask(
        key, run_combine, mark, combine, static, slot, TaskRef(messages), arrived, *references
    )


def pack_values_task(key: tuple, mark: Mark, pack: Callable, value: Any) -> Task:
    """A task of `run_pack_values`: the message that the key names."""
    return PinnedTask(key, run_pack_values, mark, pack, key[1], key[2], TaskRef(value))


def combine_values_task(
    key: tuple,
    mark: Mark,
    combine: Callable,
    static: dict,
    sources: list[int],
    payloads: Iterable,
    inputs: Iterable,
) -> Task:
    """A task of `run_combine_values`; payloads in the order of their sources."""
    arrived = List(*map(TaskRef, payloads))
    references = map(TaskRef, inputs)
    return PinnedTask(
        key, run_combine_values, mark, combine, static, key[1], tuple(sources), arrived, *references
    )


def fold_task(key: tuple, mark: Mark, function: Callable, static: dict, inputs: Iterable) -> Task:
    """A task of `run_fold` over the values of all ranks."""
    return PinnedTask(key, run_fold, mark, function, static, List(*map(TaskRef, inputs)))


# -- what tasks do, on a worker ---


def run_map(mark: Mark, rank: int, function: Callable, static: dict, *values: Any) -> Any:
    """``function(*values, **static)`` on one rank."""
    with _measured(mark, rank):
        return function(*values, **static)


def run_update(
    mark: Mark, rank: int, function: Callable, static: dict, state: Any, *values: Any
) -> Any:
    """Like `run_map`, on a copy of the state: Dask may need the old one again."""
    own = duplicate(state)
    with _measured(mark, rank):
        return function(own, *values, **static)


def run_pack(mark: Mark, pack: Callable, slot: int, index: int, messages: list, value: Any) -> Any:
    """Make one message."""
    own = messages[slot]
    destination, positions = own.destinations[index], own.out_positions[index]
    begin = now()
    with _naming(own.rank):
        payload = pack_message(value, positions, pack, own.rank, destination)
    _record_message(mark, own.rank, destination, (len(payload), payload.nbytes), begin)
    return payload


def run_combine(
    mark: Mark,
    combine: Callable,
    static: dict,
    slot: int,
    messages: list,
    payloads: list,
    state: Any,
    *values: Any,
) -> Any:
    """Combine all messages to a rank into a copy of its state."""
    own = messages[slot]
    new_state = duplicate(state)
    with _measured(mark, own.rank):
        return combine(new_state, open_inbox(own, list(payloads)), *values, **static)


def run_pack_values(
    mark: Mark, pack: Callable, source: int, destination: int, value: Any
) -> Payload:
    """Make one message of an exchange."""
    begin = now()
    with _naming(source):
        payload = make_payload(value, pack, source, destination)
    _record_message(mark, source, destination, payload_size(payload), begin)
    return payload


def run_combine_values(
    mark: Mark,
    combine: Callable,
    static: dict,
    rank: int,
    sources: tuple[int, ...],
    payloads: list,
    state: Any,
    *values: Any,
) -> Any:
    """Combine the messages of an exchange into a copy of a rank's state."""
    inbox = ValueInbox(rank, list(sources), list(payloads))
    new_state = duplicate(state)
    with _measured(mark, rank):
        return combine(new_state, inbox, *values, **static)


def run_fold(mark: Mark, function: Callable, static: dict, values: list) -> Any:
    """Fold the values of all ranks; notes the star of messages that this stands for."""
    run, step = mark
    result = function(list(values), **static)
    back = value_bytes(result)
    for rank, value in enumerate(values):
        if rank:
            record(run, (step, rank, 0), Message(0, value_bytes(value)))
            record(run, (step + 1, 0, rank), Message(0, back))
    return result


@contextmanager
def _measured(mark: Mark, rank: int) -> Any:
    begin = now()
    with _naming(rank):
        yield
    run, step = mark
    record(run, (step, rank), (begin, now()))


def _record_message(
    mark: Mark, source: int, destination: int, size: tuple[int, int], begin: float
) -> None:
    run, step = mark
    record(run, (step, source, destination), Message(*size, begin, now()))


@contextmanager
def _naming(rank: int) -> Any:
    try:
        yield
    except Exception as error:
        error.add_note(f"on rank {rank}")
        raise
