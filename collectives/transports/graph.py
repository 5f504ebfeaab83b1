"""Ranks as Dask tasks: every step adds tasks, nothing runs until a result is asked for.

    state(r) ──▶ pack(r→d) ─────────▶ combine(d) ──▶ …      one task a message, one a combine
       │              on the worker of r  │  on the worker of d
       └──────────────────────────────────┘

`settle`, `gather` and `result` submit what is asked for, together with whatever the text still
holds a handle to on the way there, wait for it, and cut the graph behind it: an epoch that settles
once keeps its graph as small as one epoch. The same on the threaded scheduler (no client), a
LocalCluster, a dask-mpi job.
"""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import dask
import numpy as np

from daskpart._floor.checks import one_of
from daskpart._floor.rank_tasks import (
    DataNode,
    List,
    PinnedTask,
    RankCollection,
    RankPlacement,
    TaskRef,
)
from daskpart.collectives.communicator import (
    Communicator,
    Pending,
    PerRank,
    Replicated,
    unchanged,
)
from daskpart.collectives.from_dask import collection_keys
from daskpart.collectives.messages import Exchange
from daskpart.collectives.timeline import name_of, now
from daskpart.collectives.values import duplicate
from daskpart.errors import InputError, WorkerLostError

from . import graph_tasks as tasks
from . import measures
from .cluster import Cluster, usable_client
from .placement import place_ranks


class Node:
    """Tasks of one step, and the nodes that they build on; after settling, their results.

    node ──parents──▶ node ──parents──▶ node (settled: holds futures, its way there is forgotten)
    """

    __slots__ = ("__weakref__", "handle", "held", "keys", "parents", "tasks")

    def __init__(self, keys: list, own_tasks: dict, parents: Iterable[Node]) -> None:
        self.keys = keys
        self.tasks = own_tasks
        self.parents = tuple(parents)
        self.held: list[Any] | None = None  # futures, or plain values without a client
        self.handle: Callable[[], Any] | None = None

    @property
    def in_use(self) -> bool:
        """Whether the text may still ask for this."""
        handle = self.handle() if self.handle is not None else None
        if isinstance(handle, Pending):
            return not handle.collected
        return handle is not None and not handle.spent


class GraphCommunicator(Communicator):
    """Ranks on the workers of a Dask cluster, or on Dask's threads.

    Parameters
    ----------
    n_ranks : int
        May exceed the number of workers.
    client : distributed.Client, optional
        Default: the current one, if any; without one the graph runs on Dask's threads.
    placement : sequence of str, optional
        Worker address of each rank. Default: round-robin over the workers in order of their names.
    scheduler : {"threads", "synchronous"}, optional
        Run in this process although there is a client.

    Raises
    ------
    InputError
        If the placement does not fit the ranks or the cluster, or the client is none, as its
        address, or is asynchronous or closed.
    """

    def __init__(
        self,
        n_ranks: int,
        client: Any = None,
        placement: Sequence[str] | None = None,
        scheduler: str | None = None,
    ) -> None:
        super().__init__(n_ranks)
        if scheduler is not None:
            one_of(scheduler, "scheduler", ("threads", "synchronous"))
        client = None if scheduler else usable_client(client)
        self.scheduler = None if client is not None else scheduler or "threads"
        self.run_id = uuid.uuid4().hex[:12]
        self._cluster = None
        if client is not None:
            self._cluster = Cluster(client, place_ranks(client, n_ranks, placement))
        elif placement is not None:
            raise InputError(
                "placement= needs a Dask client; without one ranks share this process."
            )
        self._pins = RankPlacement(self._cluster.placement) if self._cluster else None
        self._measures = measures.Measures(self._counters)
        self._step = 0
        self._settled: weakref.WeakSet[Node] = weakref.WeakSet()

    @property
    def placement(self) -> tuple[str, ...] | None:
        """Worker address of each rank; None without a client."""
        return self._cluster.placement if self._cluster else None

    def collection(self, values: PerRank) -> RankCollection:
        """The lazy values as a Dask collection of one key a rank, to look at or to compute."""
        self._check_step((values,), {}, 1)
        return RankCollection(self._graph([values.content]), list(values.content.keys))

    # -- steps: only the graph grows ---

    def _values(self, values: list[Any]) -> PerRank:
        if self._cluster is None:
            return self._known(self._keys("values"), values)
        held = self._cluster.scatter(values)
        return self._known([future.key for future in held], held)

    def _from_dask(self, collection: Any) -> PerRank:
        if self._cluster is None:
            return super()._from_dask(collection)
        keys = collection_keys(collection, self.n_ranks)
        held = self._cluster.persist(collection)
        # a step, to keep them where their ranks live
        return self._map(unchanged, None, [self._known(keys, held)], {})

    def _replicated(self, value: Any) -> Replicated:
        key = (self._name("replicated"), 0)
        return self._handle(Replicated, Node([key], {key: DataNode(key, value)}, ()))

    def _map(
        self,
        function: Callable,
        state: PerRank | None,
        values: Sequence[Any],
        static: dict,
        pending: Pending | None = None,
    ) -> PerRank:
        inputs = values if state is None else (state, *values)
        parents = [value.content for value in inputs]
        keys = self._keys(name_of(function))
        mark = (self.run_id, self._step)
        arriving: list[List | None] = [None] * self.n_ranks
        if pending is not None:
            posted: Node = pending.content
            messages: list[list[TaskRef]] = [[] for _ in keys]
            for key in posted.keys:  # in rising order of sources
                messages[key[2]].append(TaskRef(key))
            _, halves, slot, of_halves = _halves(pending)
            arriving = [
                List(half, slot, List(*refs)) for half, refs in zip(halves, messages, strict=True)
            ]
            parents += [posted, *of_halves]
        own = {
            key: PinnedTask(
                key, tasks.run_step, mark, rank, function, static,
                state is not None, arriving[rank], *inputs_of(inputs, rank),
            )
            for rank, key in enumerate(keys)
        }  # fmt: skip
        return self._handle(PerRank, Node(keys, own, parents))

    def _post(self, pending: Pending, values: PerRank, pack: Callable) -> Node:
        held: Node = values.content
        whole, halves, slot, of_halves = _halves(pending)
        name = self._name("pack")
        mark, own = (self.run_id, self._step), {}
        # messages stand by source: the place of each among those of its source
        places = np.arange(len(whole.source)) - np.searchsorted(whole.source, whole.source)
        columns = (whole.source, whole.destination, places)
        for source, destination, index in np.column_stack(columns).tolist():
            key = (name, source, destination)
            own[key] = PinnedTask(
                key, tasks.run_pack, mark, pack, index, halves[source], slot,
                TaskRef(held.keys[source]),
            )  # fmt: skip
        self._measures.expect(
            self._step, pending.label, pending.index, whole.source, whole.destination
        )
        node = Node(list(own), own, [*of_halves, held])
        node.handle = weakref.ref(pending)
        return node

    def _fold(self, values: PerRank, function: Callable, label: str, static: dict) -> Replicated:
        key = (self._name(label), 0)
        mark = (self.run_id, self._step)
        every = List(*map(TaskRef, values.content.keys))  # a bare list is no dependency
        task = PinnedTask(key, tasks.run_fold, mark, function, static, every)
        self._measures.expect_star(self._step, label)
        self._step += 1  # the way back is a round of its own
        return self._handle(Replicated, Node([key], {key: task}, [values.content]))

    def _assume_replicated(self, values: PerRank) -> Replicated:
        return self._handle(Replicated, values.content)  # each rank goes on with its own

    # -- running ---

    def _settle(self, values: Sequence[PerRank | Replicated]) -> None:
        self._settle_nodes([value.content for value in values])

    def _settle_nodes(self, stack: list[Node]) -> None:
        wanted = {id(node) for node in stack}
        nodes, seen = [], set()
        while stack:  # what is asked for, and what is still in use on the way there
            node = stack.pop()
            if id(node) in seen or node.held is not None:
                continue
            seen.add(id(node))
            stack.extend(node.parents)
            if node.in_use or id(node) in wanted:
                nodes.append(node)
        if nodes:
            self._run(nodes)

    def _run(self, nodes: list[Node]) -> None:
        begin = now()
        keys = [key for node in nodes for key in node.keys]
        if self._cluster is None:
            graph = self._graph(nodes)
            results = dask.base.get_scheduler(scheduler=self.scheduler)(graph, keys)
        else:
            results = self._cluster.begin(self._graph(nodes, with_known=False), keys)
            try:
                self._cluster.wait(results)
            except BaseException:
                self._cluster.release(results)
                raise
        position = 0
        for node in nodes:  # they keep their results, and forget the way to them
            node.held = list(results[position : position + len(node.keys)])
            node.tasks, node.parents = {}, ()
            position += len(node.keys)
            self._settled.add(node)
        take, run = measures.take, self.run_id
        cluster = self._cluster
        found = cluster.call(take, run, workers=cluster.workers) if cluster else [take(run)]
        self._take_in(found)
        self._measures.add_wait(begin, now(), self.timeline)

    def _graph(self, nodes: Iterable[Node], with_known: bool = True) -> Any:
        own: dict = {}
        known: dict = {}
        stack, seen = list(nodes), set()
        while stack:
            node = stack.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            own.update(node.tasks)
            stack.extend(node.parents)
            if node.held is not None and with_known:
                for key, value in zip(node.keys, node.held, strict=True):
                    known[key] = value if self._cluster else DataNode(key, value)
        return tasks.pinned_graph(own, self._pins, known)

    def _gather(self, values: PerRank) -> list[Any]:
        self._settle_nodes([values.content])
        held = values.content.held
        if self._cluster is None:
            return [duplicate(value) for value in held]
        return self._cluster.gather(held)

    def _result(self, content: Node) -> Any:
        self._require_open()  # `_close` let go of it
        self._settle_nodes([content])
        assert content.held is not None
        first = content.held[:1]  # of what all ranks agreed on, that of rank 0
        return first[0] if self._cluster is None else self._cluster.gather(first)[0]

    def _take_in(self, found: list[dict]) -> None:
        for measured in found:
            self._measures.add(measured, self.timeline)

    def _close(self) -> None:
        held = [future for node in self._settled for future in node.held or ()]
        for node in list(self._settled):
            node.held = []
        if self._cluster is None:
            self._take_in([measures.take(self.run_id, True)])
        elif self._cluster.client.status == "running":
            self._cluster.release(held)
            with suppress(WorkerLostError):  # as far as the cluster answers
                left = self._cluster.left()
                self._take_in(self._cluster.call(measures.take, self.run_id, True, workers=left))

    # -- names and handles ---

    def _name(self, what: str) -> str:
        self._step += 1
        return f"{what}-{self.run_id}-{self._step}"

    def _keys(self, what: str) -> list[tuple]:
        name = self._name(what)
        return [(name, rank) for rank in range(self.n_ranks)]

    def _handle(self, kind: Any, node: Node) -> Any:
        handle = kind(self, node)
        node.handle = weakref.ref(handle)
        return handle

    def _known(self, keys: list, held: list) -> PerRank:
        node = Node(keys, {}, ())
        node.held = held
        self._settled.add(node)
        return self._handle(PerRank, node)


def inputs_of(values: Iterable[PerRank | Replicated], rank: int) -> list[TaskRef]:
    """A rank's inputs; of what all ranks agreed on, its own."""
    keys = [value.content.keys for value in values]
    return [TaskRef(of_ranks[rank if len(of_ranks) > 1 else 0]) for of_ranks in keys]


def _halves(pending: Pending) -> tuple[Any, list[Any], int, list[Node]]:
    """A round, halves of rounds by rank, its place among them, and nodes that they come of."""
    entry = pending.round
    if isinstance(entry, Exchange):
        return entry, [[half] for half in entry.of_ranks], 0, []
    node: Node = entry.messages.content
    return entry.round, [TaskRef(key) for key in node.keys], entry.slot, [node]
