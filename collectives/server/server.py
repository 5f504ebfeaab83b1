"""A parameter server: rows that many ranks read and change, each shard beside a rank.

    rank 0            rank 1            rank 2          pull(ids) ─▶ rows
    program           program           program         push(ids, rows)
       │  ╲              │             ╱   │            advance(): the next task
    shard 0 ╲─────────▶ shard 1 ◀─────╱  shard 2
    own rows, own update rule: add, assign, or, proximal step, a function

What a rank touches most should lie on its own shard: a *placement* by a partition of the ids makes
most pulls and pushes local, and the report counts local and remote apart.

**Consistency.** The program of a rank is a sequence of tasks, numbered from 0; `advance` ends one
and starts the next. With a delay τ, *a task t may start only when all pushes of tasks before t - τ
are in*, those of every rank, and its pulls have all of them.

======================  =====  ==================================================================
synchronous             τ = 0  pulls have exactly the pushes of the tasks before. Pushes are
                               applied when a task has ended on every rank, in order of rank: the
                               bits are those of a serial replay, on every transport
bounded delay           τ > 0  pushes are applied as they come; a rank is at most τ tasks ahead of
                               the slowest, and pulls miss pushes of the last τ tasks at most
asynchronous            τ = ∞  pushes are applied as they come, nobody waits
======================  =====  ==================================================================

Tasks may be numbered by rank (every rank has a task t: rounds of data-parallel learning) or through
all ranks (`ServerEndpoint.tasks`: blocks of Parsa; there τ = 0 is one block after another).

M. Li, D. Andersen, A. Smola, "Graph partitioning via parallel submodular approximation to
accelerate distributed machine learning", 2015: the server of §2, the delay of algorithm 4.
"""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskpart._floor.archive import opened_npz
from daskpart._floor.atomic import replacing
from daskpart._floor.checks import whole_number
from daskpart.collectives.communicator import Communicator, PerRank
from daskpart.collectives.transports.time_limits import time_limits
from daskpart.errors import InputError

from .local import LocalServer
from .placement import place_items
from .rules import UpdateRule, rule_of
from .shard import ServerSpec, without_mask
from .traffic import ServerReport

if TYPE_CHECKING:
    from .cluster import ClusterServer


class ParameterServer:
    """Rows on shards, one shard a rank, and programs that pull and push them.

    Parameters
    ----------
    n_items : int
        Rows; their ids are 0 to n_items - 1.
    n_ranks : int, optional
        Ranks that run programs, and as many shards. Default: the parts of `placement`.
    row_length : int, optional
        Numbers in a row. Default: rows are single numbers.
    dtype : dtype
        float32, float64, integer or bool. Sets of up to 64 parts fit one ``uint64`` as bits. Sums
        of integers wrap around, as numpy's do: take a dtype that holds them.
    placement : "hashed", int array of shape (n_items,), or Partition
        The shard of each id.
    update : {"add", "assign", "or"}, UpdateRule, or callable
        What a push does; a callable ``f(current_rows, pushed_rows)`` gives the new rows. See
        `proximal_step`.
    delay : int or math.inf
        τ in tasks: 0 is synchronous, ``math.inf`` asynchronous.
    initial : scalar or array of shape (n_items,) or (n_items, row_length)
        The rows at first.
    transport : {"auto", "local", "dask", "mpi"}
        "local": threads of this process. "dask": long tasks on the workers of a Dask cluster; rows
        travel from worker to worker. "mpi": the same on workers that are ranks of an MPI job, of
        dask-mpi; rows travel over Dask's connections there too. "auto" is "dask" if there is a
        client, with several ranks a thread of a worker if need be.
    client : distributed.Client, optional
        Default: the current one.
    schedule : "in turn", "stalest" or int sequence, optional
        On the local transport, the order of the calls, which makes runs repeatable: in turn, as of
        ranks that are equally fast; stalest, where pulls miss as many pushes as the delay allows;
        or the rank of each call, as `schedule` gives it after a run. Default: as they come.
    timeout : float, optional
        Seconds that a rank waits at most for rows or other ranks; default: Dask's setting
        ``daskpart.timeout``, or 600.
    start_seconds : float, optional
        Seconds to wait until a cluster has workers enough, and until they are free; default: Dask's
        setting ``daskpart.start-seconds``, or 30.
    oversubscribe : bool
        Whether ranks of "dask" and "mpi" may share threads of workers where there are too few; else
        that is an InputError.

    Raises
    ------
    InputError
        For a value that cannot be used; names it. Also if the workers are busy for too long.

    Examples
    --------
    Two ranks count words; every rank has its own part of the text.

    >>> def count(endpoint, words):
    ...     endpoint.push(words, np.ones(len(words), int))
    ...     endpoint.advance()  # a new task: with a delay of 0 all of the last one is in
    ...     return endpoint.pull([0, 1, 2]).tolist()
    >>> with ParameterServer(3, n_ranks=2, dtype=int) as server:
    ...     server.run(count, [np.array([0, 2, 2]), np.array([1, 2])])
    [[1, 1, 3], [1, 1, 3]]
    """

    def __init__(
        self,
        n_items: int,
        *,
        n_ranks: int | None = None,
        row_length: int | None = None,
        dtype: Any = np.float64,
        placement: Any = "hashed",
        update: str | Callable[..., Any] | UpdateRule = "add",
        delay: float = 0,
        initial: ArrayLike = 0,
        transport: str = "auto",
        client: Any = None,
        schedule: str | Sequence[int] | None = None,
        timeout: float | None = None,
        start_seconds: float | None = None,
        oversubscribe: bool = False,
    ) -> None:
        ranks = getattr(placement, "n_parts", None) if n_ranks is None else n_ranks
        n_ranks = whole_number(ranks, "n_ranks", 1)
        n_items = whole_number(n_items, "n_items", 1)
        row_shape = () if row_length is None else (whole_number(row_length, "row_length", 1),)
        kind = _checked_dtype(dtype)
        self._spec = ServerSpec(
            place_items(placement, n_items, n_ranks),
            row_shape,
            kind,
            rule_of(update, kind),
            _checked_delay(delay),
        )
        timeout, start_seconds = time_limits(timeout, start_seconds)
        pieces = self._cut(initial, "initial")
        self._transport = _transport_of(
            self._spec, pieces, transport, client, schedule, timeout, start_seconds, oversubscribe
        )
        self._report = ServerReport(self._transport.places)
        self._closed = False
        self._one_at_a_time = threading.Lock()

    # -- what it is ---

    @property
    def n_items(self) -> int:
        """Number of rows."""
        return self._spec.directory.n_items

    @property
    def n_ranks(self) -> int:
        """Ranks, and as many shards."""
        return self._spec.n_ranks

    @property
    def placement(self) -> NDArray[np.int32]:
        """int32[n_items]: the shard of each id."""
        return self._spec.directory.owner

    @property
    def delay(self) -> float:
        """τ in tasks."""
        return self._spec.delay

    @property
    def mode(self) -> str:
        """The consistency mode in words: "synchronous", "bounded delay" or "asynchronous"."""
        if self.delay == 0:
            return "synchronous"
        return "asynchronous" if self.delay == math.inf else "bounded delay"

    @property
    def report(self) -> ServerReport:
        """Traffic, local and remote apart, staleness and waiting, over all runs."""
        return self._report

    @property
    def schedule(self) -> NDArray[np.int32] | None:
        """Rank of each call of the last run on the local transport; None on others.

        A pull or push is one call, `advance` two (the end of a task, the start of the next), the
        end of a program one.
        """
        return self._transport.history

    # -- what it does ---

    def run(
        self, program: Callable[..., Any], *per_rank: Sequence[Any], **shared: Any
    ) -> list[Any]:
        """Run a program on every rank and wait for all of them.

        Parameters
        ----------
        program : callable
            ``program(endpoint, *values of the rank, **shared)``, with a `ServerEndpoint`.
        *per_rank : sequence of n_ranks objects, or what `hold` gave
            One value for each rank.
        **shared : object
            The same for all ranks.

        Returns
        -------
        list
            What the program gave back on each rank.

        Raises
        ------
        Exception
            What the program raised on the lowest failing rank, with a note that names the rank.
            The rows are then as they were before the run.
        WorkerLostError
            If a worker was lost: its shard is gone; make a new server from the last rows that were
            saved.
        """
        columns = [
            values if isinstance(values, PerRank) else self._column(values, place)
            for place, values in enumerate(per_rank)
        ]
        with self._alone():
            results, *counted = zip(*self._transport.run(program, columns, shared), strict=True)
        self._report.add_run(*counted)
        return list(results)

    @property
    def communicator(self) -> Communicator:
        """A communicator of the server's ranks, to make there what they hold."""
        return self._transport.communicator

    def hold(self, values: Sequence[Any] | PerRank) -> PerRank:
        """Hand out one value a rank that stays there for several runs.

        Parameters
        ----------
        values : sequence of n_ranks objects, or PerRank
            A program may change its rank's: the next run finds it as it was left, also after a
            program that raised. A PerRank is of `communicator`, and spent: nothing moves.

        Returns
        -------
        PerRank
            For `run`, instead of a sequence.
        """
        column = values if isinstance(values, PerRank) else self._column(values, 0)
        with self._alone():
            return self._transport.hold(column)

    def values(self) -> NDArray[Any]:
        """All rows, brought here: array of shape (n_items,) or (n_items, row_length)."""
        with self._alone():
            return self._spec.directory.joined(self._transport.values())

    def set_values(self, values: ArrayLike) -> None:
        """Replace all rows; a scalar, or an array of the shape that `values()` gives."""
        pieces = self._cut(values, "values")
        with self._alone():
            self._transport.set_values(pieces)

    def reset_report(self) -> None:
        """Begin to count from zero."""
        self._report = ServerReport(self._transport.places)

    def save(self, path: str | PathLike[str]) -> None:
        """Write rows and placement to one `.npz` file (no pickle); see `load`."""
        with replacing(path) as file:
            np.savez_compressed(
                file, values=self.values(), placement=self.placement, n_ranks=self.n_ranks
            )

    @classmethod
    def load(cls, path: str | PathLike[str], **options: Any) -> ParameterServer:
        """A new server with the rows, their dtype and the placement that `save` wrote.

        Parameters
        ----------
        path : str or path
        **options
            As for a new server. The update rule is not in the file; with another number of ranks,
            or another placement, give that too.

        Raises
        ------
        ReadError
            The file is absent, damaged or something else.
        """
        with opened_npz(path) as file:
            values, placement, n_ranks = file["values"], file["placement"], int(file["n_ranks"])
        options.setdefault("placement", placement)
        if not hasattr(options["placement"], "n_parts"):
            options.setdefault("n_ranks", n_ranks)
        row_length = values.shape[1] if values.ndim == 2 else None
        return cls(
            len(values), row_length=row_length, dtype=values.dtype, initial=values, **options
        )

    def close(self) -> None:
        """End the ranks on a cluster and let go of the rows; may be called again."""
        if not self._closed:
            self._closed = True
            self._transport.close()

    def __enter__(self) -> ParameterServer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        row = f"{self._spec.row_shape[0]} × " if self._spec.row_shape else ""
        delay = f", τ = {self.delay:g}" if self.mode == "bounded delay" else ""
        return (
            f"ParameterServer: {self.n_items:,} rows of {row}{self._spec.dtype} on {self.n_ranks} "
            f"shards, update {self._spec.rule.name!r}, {self.mode}{delay}"
            f"{', closed' if self._closed else ''}"
        )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if self._closed:
            raise InputError("This server is closed; make a new one.")
        if not self._one_at_a_time.acquire(blocking=False):
            raise InputError(
                "A server does one thing at a time: inside a program use its endpoint, in another "
                "thread a server of its own."
            )
        try:
            yield
        finally:
            self._one_at_a_time.release()

    def _column(self, values: Sequence[Any], place: int) -> list[Any]:
        column = list(values)
        if len(column) != self.n_ranks:
            raise InputError(
                f"per-rank values {place} are {len(column)}: give one for each of the "
                f"{self.n_ranks} ranks"
            )
        return column

    def _cut(self, values: ArrayLike, what: str) -> list[NDArray[Any]]:
        """Checked rows, cut into the rows of each shard."""
        spec, given = self._spec, without_mask(values, what)
        if given.ndim == 0 and given.dtype.kind in "biuf" and not given:
            given = np.zeros((), spec.dtype)  # 0 is of every dtype
        shape = (self.n_items, *spec.row_shape)
        if given.shape not in ((), shape):
            raise InputError(f"{what} of shape {given.shape}: give a number or shape {shape}")
        if given.dtype.kind == "f" and np.isnan(given).any():
            raise InputError(f"{what} hold {int(np.isnan(given).sum())} NaN: give numbers")
        spec.require_fit(given, what)
        if not given.ndim:
            counts = spec.directory.counts
            return [np.full((n, *spec.row_shape), given, spec.dtype) for n in counts]
        return [piece.astype(spec.dtype, copy=False) for piece in spec.directory.cut(given)]


def _transport_of(
    spec: ServerSpec,
    pieces: list[NDArray[Any]],
    transport: str,
    client: Any,
    schedule: str | Sequence[int] | None,
    timeout: float,
    start_seconds: float,
    oversubscribe: bool,
) -> LocalServer | ClusterServer:
    """The transport by name."""
    if transport not in ("auto", "local", "dask", "mpi"):
        raise InputError(f"transport={transport!r}; allowed are auto, local, dask, mpi.")
    if schedule is not None and transport in ("dask", "mpi"):
        raise InputError("A schedule orders the calls of the local transport: transport='local'.")
    if transport == "auto" and schedule is None and client is None:
        transport = "dask" if _has_client() else "local"
    if transport == "local" or schedule is not None:
        return LocalServer(spec, pieces, schedule, timeout)
    from .cluster import ClusterServer

    kind = "mpi" if transport == "mpi" else "dask"
    share = oversubscribe or transport == "auto"
    return ClusterServer(spec, pieces, kind, client, timeout, start_seconds, share)


def _has_client() -> bool:
    """Whether this process has a client; one that has not imported distributed has none."""
    if "distributed" not in sys.modules:
        return False
    from daskpart.collectives.transports.cluster import current_client

    return current_client() is not None


def _checked_delay(delay: Any) -> float:
    """τ as a float: a whole number of tasks, or infinity."""
    ok = isinstance(delay, int | float | np.number) and not isinstance(delay, bool)
    if not ok or not delay >= 0 or (delay != math.inf and delay != int(delay)):
        raise InputError(
            f"delay is {delay!r}: give a whole number of tasks, 0 (synchronous) or more, or "
            "math.inf (asynchronous)"
        )
    return float(delay)


def _checked_dtype(dtype: Any) -> np.dtype[Any]:
    """A dtype that rows can have, in the byte order of this machine."""
    try:
        checked = np.dtype(dtype).newbyteorder("=")
    except TypeError as error:
        raise InputError(f"dtype is {dtype!r}: {error}") from error
    if checked.kind not in "biuf" or (checked.kind == "f" and checked.itemsize not in (4, 8)):
        raise InputError(f"dtype is {checked}: rows are float32, float64, integers or bool")
    return checked
