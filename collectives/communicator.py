"""The interface that algorithm texts are written against: per-rank values, steps, messages.

    algorithm text            one value a rank          transports
    ──────────────            ────────────────          ──────────────────────────────────────
    state = comm.update(…)     ┌──┬──┬──┬──┐            local   threads of this process
    comm.post / collect        │r0│r1│r2│r3│            graph   a Dask task graph
    comm.fold(…).result()      └──┴──┴──┴──┘

One text runs on every transport. Where ranks are processes that each run the text (SPMD), a
per-rank value is simply the rank's own; so a text never looks inside a per-rank value, and what
it branches on is plain Python or the `result()` of a `Replicated`, which is equal on all ranks.

Three rules keep the bits the same everywhere. Messages combine in rank order. `map` mutates none
of its arguments and gives back fresh values, no views of them. `update` and `collect` may
overwrite the state they are given: its old handle is spent, and using it again is an error.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.errors import InputError

from .counters import Counters
from .exchange import Exchange, PendingValues, ValueInbox
from .per_rank import Pending, PerRank, Replicated, duplicate, require_step
from .plan import Plan, Round, require_same_ranks
from .prepared import (
    Inbox,
    PreparedPlan,
    PreparedRound,
    localise,
    slices_of_ranks,
)
from .swapping import SwapSteps
from .timeline import Timeline, timeline_if_recorded
from .transport_interface import Transport

__all__ = [
    "Communicator",
    "Exchange",
    "Inbox",
    "Pending",
    "PendingValues",
    "PerRank",
    "PreparedPlan",
    "Replicated",
    "Round",
    "ValueInbox",
    "duplicate",
]


class Communicator(Transport):
    """Ranks that hold values, compute on them, and send each other messages.

    Attributes
    ----------
    n_ranks : int
    is_root : bool
        Whether this process is the one that `gather` gives values to.
    timeline : Timeline or None
        When each rank computed, sent and waited, once `record_timeline` was called.
    """

    n_ranks: int
    is_root: bool = True
    timeline: Timeline | None

    def __init__(self, n_ranks: int) -> None:
        if isinstance(n_ranks, bool) or not isinstance(n_ranks, (int, np.integer)) or n_ranks < 1:
            raise InputError(f"n_ranks must be a positive integer, got {n_ranks!r}.")
        self.n_ranks = int(n_ranks)
        self.closed = False
        self.timeline = timeline_if_recorded(self.n_ranks)

    # -- values ---

    def values(self, values: Any) -> PerRank:
        """Hand each rank its own value.

        Parameters
        ----------
        values : sequence of n_ranks objects, or a Dask collection of n_ranks keys
            Never overwritten: the first `update` of a rank works on a copy.
        """
        self._require_open()
        return self._values(values)

    def replicated(self, value: Any) -> Replicated:
        """Hand every rank the same small plain value."""
        self._require_open()
        return self._replicated(value)

    def map(
        self, function: Callable[..., Any], *values: PerRank | Replicated, **static: Any
    ) -> PerRank:
        """On each rank ``function(*the rank's values, **static)``.

        Parameters
        ----------
        function : callable
            Must not mutate its arguments, nor give back views of them. A module-level function, so
            that it can travel to other processes.
        *values : PerRank or Replicated
        **static : object
            Small plain values, the same on every rank.

        Raises
        ------
        InputError
            If a value is of another communicator, spent, or not a per-rank value at all.
        Exception
            What the function raised on the lowest failing rank, with a note that names the rank.
        """
        self._check_step(values, static)
        return self._map(function, values, static)

    def update(
        self,
        function: Callable[..., Any],
        state: PerRank,
        *values: PerRank | Replicated,
        **static: Any,
    ) -> PerRank:
        """Like `map`, but the function may overwrite its first argument, and gives it back.

        The handle `state` is spent by this. A transport that may run a step twice hands the
        function a copy (`duplicate`), the others the state itself.
        """
        self._check_step((state, *values), static)
        new_state = self._update(function, state, values, static)
        state.spent = True
        return new_state

    # -- messages ---

    def prepare(self, plan: Plan, numbering: PerRank, label: str | None = None) -> PreparedPlan:
        """Translate a plan's items into positions in each rank's local order.

        Parameters
        ----------
        plan : Plan
            For as many ranks as the communicator has.
        numbering : PerRank of int arrays
            Item ids of the rank in its local order, each once.
        label : str, optional
            Name of its rounds in `counters`; default ``plan.kind``.

        Raises
        ------
        InputError
            For a plan of another number of ranks, or an item that a rank does not hold.
        """
        return self.prepare_all([plan], numbering, [label or plan.kind])[0]

    def prepare_all(
        self, plans: Sequence[Plan], numbering: PerRank, labels: Sequence[str] | None = None
    ) -> list[PreparedPlan]:
        """`prepare` many plans over one numbering in a single step."""
        require_same_ranks(plans, self.n_ranks)
        names = [plan.kind for plan in plans] if labels is None else list(labels)
        if len(names) != len(plans):
            raise InputError(f"{len(plans)} plans need as many labels, got {len(names)}.")
        messages = self.map(localise, self.values(slices_of_ranks(plans)), numbering)
        prepared, slot = [], 0
        for plan, name in zip(plans, names, strict=True):
            rounds = [
                PreparedRound(entry, name, index, slot + index, messages)
                for index, entry in enumerate(plan.rounds)
            ]
            slot += len(rounds)
            prepared.append(PreparedPlan(plan, name, tuple(rounds)))
        return prepared

    def post(
        self,
        prepared_round: PreparedRound,
        values: PerRank,
        pack: Callable[[Any, NDArray[np.int64]], NDArray[Any]],
    ) -> Pending:
        """Send the messages of a round; computing may go on until `collect`.

        Parameters
        ----------
        prepared_round : PreparedRound
            From ``prepare(…).rounds``.
        values : PerRank
        pack : callable
            ``pack(value, positions)`` gives a fresh array of one row a position; called once a
            message.
        """
        self._check_step((prepared_round.messages, values), {})
        return Pending(self, prepared_round, self._post(prepared_round, values, pack))

    def collect(
        self,
        pending: Pending,
        state: PerRank,
        combine: Callable[..., Any],
        *values: PerRank | Replicated,
        **static: Any,
    ) -> PerRank:
        """Receive the messages of a round into each rank's state.

        Parameters
        ----------
        pending : Pending
            From `post`; collected once.
        state : PerRank
            Spent by this, like in `update`.
        combine : callable
            ``combine(state, inbox, *values, **static)`` gives the new state. It is called on every
            rank, with an empty inbox where nothing arrives.

        Raises
        ------
        InputError
            If the messages to a rank differ in dtype or row shape; names the ranks.
        """
        self._check_pending(pending)
        self._check_step((state, *values), static)
        new_state = self._collect(pending, state, combine, values, static)
        state.spent = pending.collected = True
        return new_state

    def post_values(
        self,
        exchange: Exchange,
        values: PerRank,
        pack: Callable[[Any, int, int], tuple[NDArray[Any], ...]],
        label: str = "values",
        index: int = 0,
    ) -> PendingValues:
        """Send messages whose size only the sender knows; computing may go on until collected.

        Parameters
        ----------
        exchange : Exchange
            Who sends to whom; equal on all ranks.
        values : PerRank
            Not spent by this.
        pack : callable
            ``pack(value, source, destination)`` gives a tuple of one or more arrays of any length,
            shape and dtype (no Python objects), called once a message. An array that is marked
            read-only promises that nobody overwrites it, and travels uncopied; others are copied.
        label, index : str, int
            The round's name in `counters`. A message counts ``len(first array)`` rows and the bytes
            of all its arrays; an empty message counts as a message.
        """
        self._check_step((values,), {})
        self._check_exchange(exchange)
        content = self._post_values(exchange, values, pack, label, index)
        return PendingValues(self, exchange, content)

    def collect_values(
        self,
        pending: PendingValues,
        state: PerRank,
        combine: Callable[..., Any],
        *values: PerRank | Replicated,
        **static: Any,
    ) -> PerRank:
        """Receive the messages of `post_values`; `state` is spent, as by `collect`.

        ``combine(state, inbox, *values, **static)`` gets a `ValueInbox`: the arrays that each
        source packed, read-only, in rising order of sources; empty where nothing arrives.
        """
        self._check_pending(pending)
        self._check_step((state, *values), static)
        new_state = self._collect_values(pending, state, combine, values, static)
        state.spent = pending.collected = True
        return new_state

    def swap(
        self,
        exchanges: Sequence[Exchange],
        values: PerRank,
        steps: SwapSteps,
        label: str = "values",
        **static: Any,
    ) -> PerRank:
        """Several exchanges in a row on a state of their own, as one call.

        ``steps.begin`` makes the state of each rank's value, each exchange packs messages of it and
        combines those that arrive into it (with `static`), ``steps.end`` makes the result. The same
        as calls one by one, and quicker where a call has its price. `values` are not spent.
        """
        self._check_step((values,), static)
        for exchange in exchanges:
            self._check_exchange(exchange)
        return self._swap(exchanges, values, steps, label, static)

    def fold(
        self, values: PerRank, function: Callable[..., Any], label: str = "allreduce", **static: Any
    ) -> Replicated:
        """``function([value of rank 0, value of rank 1, …], **static)``, given to every rank.

        Counted as a star: each rank but 0 sends its value to rank 0 and gets the result back,
        2·(n_ranks - 1) messages.
        """
        self._check_step((values,), static)
        return self._fold(values, function, label, static)

    def agreed(self, values: PerRank) -> Replicated:
        """A value that every rank has come to by itself, the same on all of them, as `Replicated`.

        Moves nothing. `values` is spent by this. Whether they are the same is not looked at: a text
        that claims it wrongly gets another result on every transport.
        """
        self._check_step((values,), {})
        replicated = self._agreed(values)
        values.spent = True
        return replicated

    def gather(self, values: PerRank) -> list[Any] | None:
        """The ranks' values in rank order at the root, as copies; None on other ranks."""
        self._check_step((values,), {})
        return self._gather(values)

    def settle(self, *values: PerRank | Replicated) -> Any:
        """Finish what was asked for so far, and let go of what led to it.

        A lazy transport computes the given values and holds them from now on; for the others this
        is the identity. Algorithm texts call it once an epoch.

        Returns
        -------
        PerRank or Replicated, or a tuple of them
            What was given.
        """
        self._check_step(values, {})
        self._settle(values)
        return values[0] if len(values) == 1 else values

    # -- the run ---

    def run(self, text: Callable[..., Any], *values: Any, **static: Any) -> Any:
        """Execute an algorithm text: ``text(communicator, *values, **static)``.

        Parameters
        ----------
        text : callable
            A module-level function over per-rank values. On `local` and `graph` it is called here;
            where ranks are processes, each of them calls it with a communicator of its own.
        *values : object
            Per-rank and replicated values, prepared plans, or tuples, lists, dicts and dataclasses
            that hold some.
        **static : object
            Plain values, the same on every rank.

        Returns
        -------
        object
            What the text returns: per-rank and replicated values stay on the ranks, plain values
            (equal on all ranks) come back.
        """
        self._require_open()
        return text(self, *values, **static)

    @property
    @abstractmethod
    def counters(self) -> Counters:
        """What was sent and how long it took, measured."""

    def record_timeline(self) -> Timeline:
        """Note from now on when each rank computes, sends and waits.

        Returns
        -------
        Timeline
            Fills as results come in: on a transport that is lazy, at `settle` and `result`.
        """
        self._require_open()
        self.timeline = self.timeline or Timeline(self.n_ranks)
        return self.timeline

    def close(self) -> None:
        """Leave nothing behind: threads end, futures are cancelled. Values can't be used after."""
        if not self.closed:
            self.closed = True
            self._close()

    def __enter__(self) -> Communicator:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _require_open(self) -> None:
        if self.closed:
            raise InputError("This communicator is closed; make a new one.")

    def _check_pending(self, pending: Pending | PendingValues) -> None:
        if pending.communicator is not self:
            raise InputError("These messages were posted on another communicator.")
        if pending.collected:
            raise InputError("These messages were collected before; post them again.")

    def _check_exchange(self, exchange: Exchange) -> None:
        if exchange.n_ranks != self.n_ranks:
            raise InputError(f"An exchange of {exchange.n_ranks} ranks on {self.n_ranks} ranks.")

    def _check_step(self, values: Sequence[Any], static: dict[str, Any]) -> None:
        self._require_open()
        require_step(self, values, static)
