"""A parameter server on a Dask cluster: shards and programs live in the ranks of an SPMD run.

    client                            workers
    DaskCommunicator ── hold ──▶      rank r: its shard               (`shard_host`)
                     ── map ───▶      rank r: its program ◀─▶ all shards
                     ◀─ gather ─      results, traffic

The communicator starts the ranks, watches them and ends them; rows travel beside its own messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.collectives.communicator import PerRank
from daskpart.collectives.server.endpoint import ServerEndpoint
from daskpart.collectives.server.shard import ServerSpec
from daskpart.collectives.server.traffic import RankTraffic
from daskpart.collectives.server.transport import RunOutcome
from daskpart.errors import InputError, WorkerLostError

from .cluster import current_client
from .dask_comm import DaskCommunicator
from .mailbox import RunStopped
from .rank_cluster import WorkersBusyError, has_threads_for
from .shard_host import DaskLink, ShardHost


class DaskServer:
    """Shards on the workers of a cluster; see `server.transport.ServerTransport`.

    Parameters
    ----------
    spec : ServerSpec
    pieces : list of array
        Rows of each shard.
    client : distributed.Client or None
        None: the current one.
    deadline, start_seconds : float
    """

    history: NDArray[Any] | None = None

    def __init__(
        self,
        spec: ServerSpec,
        pieces: list[NDArray[Any]],
        client: Any,
        deadline: float,
        start_seconds: float,
    ) -> None:
        client = client or current_client()
        if client is not None and not has_threads_for(client, spec.n_ranks):
            raise InputError(
                f"{spec.n_ranks} ranks of a server need as many threads of workers, the cluster "
                f"has {sum(dict(client.nthreads()).values())}: use fewer ranks, workers with more "
                "threads, or transport='local'."
            )
        try:
            self._communicator = DaskCommunicator(
                spec.n_ranks, client, timeout=deadline, start_seconds=start_seconds
            )
        except WorkersBusyError as error:
            error.add_note("a parameter server knows transport='local' besides, and no graph")
            raise
        self._runs = 0
        self.places = self._communicator.placement
        try:
            self._ranks = self._communicator.values(list(range(spec.n_ranks)))
            self._open(spec, pieces)
        except BaseException:
            self.close()
            raise

    def _open(self, spec: ServerSpec, pieces: list[NDArray[Any]]) -> None:
        """Shards on their workers; the placement of the ids goes to each worker once."""
        places, directory = self.places, spec.directory
        owners = [
            directory.owner if places.index(place) == rank else None
            for rank, place in enumerate(places)
        ]
        rest = {field.name: getattr(spec, field.name) for field in fields(spec)[1:]}
        self._communicator.settle(
            self._ranks, self._on_ranks(_open_host, self._communicator.values(owners), rest=rest)
        )
        opened = self._on_ranks(_open_shard, self._communicator.values(pieces))
        self._communicator.settle(opened)

    def run(self, program: Callable, columns: list[list[Any]], shared: dict) -> RunOutcome:
        """The program as one step of every rank."""
        self._runs += 1
        values = [self._communicator.values(column) for column in columns]
        call = {"program": program, "shared": shared, "run": self._runs}
        try:
            answers = self._gathered(self._on_ranks(_run, *values, **call))
        except WorkerLostError as error:
            error.add_note(
                "its shards are gone; make a new server of the rows that were saved last"
            )
            raise
        except BaseException:
            with suppress(WorkerLostError):
                self._communicator.settle(self._on_ranks(_undo, run=self._runs))
            raise
        self._on_ranks(_end, run=self._runs)  # goes with the next batch
        results, traffic, staleness = zip(*answers, strict=True)
        return RunOutcome(list(results), list(traffic), list(staleness))

    def values(self) -> list[NDArray[Any]]:
        """Rows of each shard, brought here."""
        return self._gathered(self._on_ranks(_values))

    def set_values(self, pieces: list[NDArray[Any]]) -> None:
        """Other rows for each shard."""
        placed = self._on_ranks(_set_values, self._communicator.values(pieces))
        self._communicator.settle(placed)

    def close(self) -> None:
        """End the ranks."""
        self._communicator.close()

    def _gathered(self, values: PerRank) -> list[Any]:
        gathered = self._communicator.gather(values)
        assert gathered is not None  # the driver is the root
        return gathered

    def _on_ranks(self, step: Callable, *values: PerRank, **static: Any) -> PerRank:
        run_id = self._communicator.run_id
        return self._communicator.map(step, self._ranks, *values, run_id=run_id, **static)


# -- steps of a rank, on its worker ---


def _open_host(rank: int, owner: NDArray[np.int32] | None, *, run_id: str, rest: dict) -> None:
    if owner is not None:
        ShardHost.open(run_id, owner, rest)


def _open_shard(rank: int, values: NDArray[Any], *, run_id: str) -> None:
    ShardHost.of(run_id).add(rank, values.copy())


def _run(
    rank: int, *values: Any, run_id: str, program: Callable, shared: dict, run: int
) -> tuple[Any, RankTraffic, Counter[int]]:
    host = ShardHost.of(run_id)
    traffic, link = RankTraffic(host.spec.n_ranks), DaskLink(rank, host, run)
    endpoint = ServerEndpoint(rank, host.spec, link, traffic)
    try:
        result = program(endpoint, *values, **shared)
        endpoint.finish()
        link.wait_for_all()
    except RunStopped as stop:
        raise host.errors.get(run, stop) from None  # an update on this worker is the cause
    return result, traffic, host.shards[rank].taken_staleness()


def _end(rank: int, *, run_id: str, run: int) -> None:
    ShardHost.of(run_id).end_run(rank, run)


def _undo(rank: int, *, run_id: str, run: int) -> None:
    ShardHost.of(run_id).undo(rank, run)


def _values(rank: int, *, run_id: str) -> NDArray[Any]:
    return ShardHost.of(run_id).shards[rank].values


def _set_values(rank: int, values: NDArray[Any], *, run_id: str) -> None:
    ShardHost.of(run_id).shards[rank].values = values.copy()
