"""What users call: rows on shards, runs of programs, what was counted; see the package."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskpart._floor.archive import opened_npz
from daskpart._floor.atomic import replacing
from daskpart._floor.checks import as_array, checked_delay, one_of, whole_number
from daskpart.collectives.communicator import Communicator, PerRank, unchanged
from daskpart.collectives.transports import client_if_any
from daskpart.collectives.transports.time_limits import time_limits
from daskpart.errors import InputError

from .local import LocalServer
from .placement import place_items
from .rules import UpdateRule, rule_of
from .shard import ServerSpec
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
    timeout, start_seconds : float, optional
        Seconds that a rank waits at most for rows or other ranks (once its program has ended, it
        waits for those of the others without limit); and that are waited until a cluster has
        workers enough, and until they are free. Default: Dask's settings ``daskpart.timeout``, or
        600, and ``daskpart.start-seconds``, or 30.
    oversubscribe : bool
        Whether ranks of "dask" and "mpi" may share threads of workers where there are too few; else
        that is an InputError.

    Attributes
    ----------
    n_items, n_ranks : int
    placement : int32 array of shape (n_items,)
    delay : float
    mode : {"synchronous", "bounded delay", "asynchronous"}
    report : ServerReport
        Traffic, local and remote apart, staleness and waiting, over all runs.
    communicator : Communicator
        Of the server's ranks, to make there what they hold.

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
        self._spec = spec = ServerSpec(
            place_items(placement, n_items, n_ranks),
            row_shape,
            kind,
            rule_of(update, kind),
            checked_delay(delay),
        )
        self.n_items, self.n_ranks, self.delay = n_items, n_ranks, spec.delay
        self.placement = spec.directory.owner
        bounds = {0.0: "synchronous", math.inf: "asynchronous"}
        self.mode = bounds.get(self.delay, "bounded delay")
        timeout, start_seconds = time_limits(timeout, start_seconds)
        pieces = self._cut(initial, "initial")
        one_of(transport, "transport", ("auto", "local", "dask", "mpi"))
        if schedule is not None and transport in ("dask", "mpi"):
            raise InputError(
                "A schedule orders the calls of the local transport: transport='local'."
            )
        is_auto = transport == "auto" and schedule is None
        if is_auto:
            client = client_if_any(client)
        self._transport: LocalServer | ClusterServer
        if transport in ("dask", "mpi") or (is_auto and client is not None):
            from .cluster import ClusterServer

            self._transport = ClusterServer(
                spec, pieces, transport, client,
                timeout=timeout, start_seconds=start_seconds,
                oversubscribe=oversubscribe or is_auto,
            )  # fmt: skip
        else:
            self._transport = LocalServer(spec, pieces, schedule, timeout)
        self.communicator: Communicator = self._transport.communicator
        self.report = ServerReport(self._transport.places)
        self._one_at_a_time = threading.Lock()

    @property
    def schedule(self) -> NDArray[np.int32] | None:
        """Rank of each call of the last run on the local transport; None on others.

        A pull or push is one call, `advance` two (the end of a task, the start of the next), the
        end of a program one.
        """
        return self._transport.history

    def run(
        self, program: Callable[..., Any], *per_rank: Sequence[Any] | PerRank, **shared: Any
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
        with self._alone():
            columns = [self._per_rank(values, place) for place, values in enumerate(per_rank)]
            outcomes = self._transport.run(program, columns, shared)
        self.report.add_run(outcomes)
        return [outcome.result for outcome in outcomes]

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
        with self._alone():
            return self.communicator.update(unchanged, self._per_rank(values, 0))

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
        self.report = ServerReport(self._transport.places)

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
        self.communicator.close()

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
            f"{', closed' if self.communicator.closed else ''}"
        )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if self.communicator.closed:
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

    def _per_rank(self, values: Sequence[Any] | PerRank, place: int) -> PerRank:
        if isinstance(values, PerRank):
            self.communicator._check_step((values,), {})
            return values
        try:
            return self.communicator.values(values)
        except InputError as error:
            raise InputError(f"per-rank values {place}: {error}") from None

    def _cut(self, values: ArrayLike, what: str) -> list[NDArray[Any]]:
        """Checked rows, cut into the rows of each shard."""
        spec, given = self._spec, as_array(values, what)
        if given.ndim == 0 and given.dtype.kind in "biuf" and not given:
            given = np.zeros((), spec.dtype)  # 0 is of every dtype
        shape = (self.n_items, *spec.row_shape)
        if given.shape not in ((), shape):
            raise InputError(f"{what} of shape {given.shape}: give a number or shape {shape}")
        if given.dtype.kind == "f" and np.isnan(given).any():
            raise InputError(f"{what} hold {int(np.isnan(given).sum())} NaN: give numbers")
        spec.require_fit(given, what)
        if not given.ndim:
            counts = np.bincount(self.placement, minlength=self.n_ranks)
            return [np.full((n, *spec.row_shape), given, spec.dtype) for n in counts]
        pieces = [given[ids] for ids in spec.directory.ids_of_shards]
        return [piece.astype(spec.dtype, copy=False) for piece in pieces]


def _checked_dtype(dtype: Any) -> np.dtype[Any]:
    """A dtype that rows can have, in the byte order of this machine."""
    try:
        checked = np.dtype(dtype).newbyteorder("=")
    except TypeError as error:
        raise InputError(f"dtype is {dtype!r}: {error}") from error
    if checked.kind not in "biuf" or (checked.kind == "f" and checked.itemsize not in (4, 8)):
        raise InputError(f"dtype is {checked}: rows are float32, float64, integers or bool")
    return checked
