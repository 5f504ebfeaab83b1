"""The interface that algorithm texts are written against: per-rank values, steps, messages.

    algorithm text            one value a rank          transports
    ──────────────            ────────────────          ─────────────────────────────────────────
    state = comm.update(…)     ┌──┬──┬──┬──┐            local   threads of this process
    comm.post / collect        │r0│r1│r2│r3│            graph   a Dask task graph
    comm.fold(…).result()      └──┴──┴──┴──┘            dask, mpi   every rank runs the text

A text is a function ``text(comm, *values, **static)``, and ``comm.run(text, *values, **static)``
executes it. On `local` and `graph` it is called here; where ranks are processes, each of them calls
it with a communicator of its own, and a per-rank value is simply the rank's own. So a text never
looks inside a per-rank value, and what it branches on is plain Python, equal on all ranks, or the
`result()` of a `Replicated`. A call outside of `run` is a text of one call.

Three rules keep the bits the same everywhere. Messages combine in rank order. `map` mutates none
of its arguments and gives back fresh values, no views of them. `update` and `collect` may
overwrite the state they are given: its old handle is spent, and using it again is an error.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from dask.base import is_dask_collection
from numpy.typing import NDArray

from daskpart._floor.blas import one_blas_thread
from daskpart._floor.checks import several
from daskpart._floor.words import counted
from daskpart.errors import InputError

from .counters import Counters
from .from_dask import computed_values
from .hypercube import EmbeddedPlan
from .messages import Exchange, Payload, PreparedPlan, PreparedRound, localise
from .plan import Plan, Round, require_same_ranks
from .routes import prepare_embedding
from .timeline import Timeline, timeline_if_recorded
from .values import Pending, PerRank, Replicated, check_step, duplicate, require_kind

if TYPE_CHECKING:
    from .cost_model import CostModel

Cached = TypeVar("Cached")
Text = TypeVar("Text", bound=Callable[..., Any])
_MOST_CACHED = 64  # plans that a communicator keeps by `cached`


class Communicator(ABC):
    """Ranks that hold values, compute on them, and send each other messages.

    Attributes
    ----------
    n_ranks : int
    timeline : Timeline or None
        When each rank computed, sent and waited, once `record_timeline` was called.
    is_rank : bool
        Whether this is the communicator of one rank, on which a text runs.
    ships_texts : bool
        Whether `run` hands texts over to ranks, each with a communicator of its own.
    cost_model : CostModel or None
        What messages and kernels cost here, once `cost_model_of` measured it.
    n_posted : int
        Rounds of messages so far, as `counters` has them; here and not there, a text can ask.
    """

    n_ranks: int
    is_rank = False
    ships_texts = False
    timeline: Timeline | None
    cost_model: CostModel | None = None

    def __init__(self, n_ranks: int) -> None:
        if isinstance(n_ranks, bool) or not isinstance(n_ranks, (int, np.integer)) or n_ranks < 1:
            raise InputError(f"n_ranks must be a positive integer, got {n_ranks!r}.")
        self.n_ranks = int(n_ranks)
        self.closed = False
        self.timeline = timeline_if_recorded(self.n_ranks)
        self._counters = Counters(self.n_ranks)
        self.n_posted = 0
        self._cache: dict[Hashable, Any] = {}

    def __repr__(self) -> str:
        note = ", closed" if self.closed else ""
        return f"<{type(self).__name__} of {counted(self.n_ranks, 'rank')}{note}>"

    def run(self, text: Callable[..., Any], /, *values: Any, **static: Any) -> Any:
        """Execute an algorithm text: ``text(communicator, *values, **static)``.

        Parameters
        ----------
        text : callable
            A function over per-rank values, at best of a module (one of a notebook travels whole).
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

        Raises
        ------
        InputError
            If ranks disagree in what they call, or in who sends to whom; names both.
        Exception
            What the text raised on the lowest failing rank (on `graph`, on one that failed), with a
            note that names the rank. The communicator stays usable; values that the text has spent
            are lost.
        """
        self._require_open()
        with one_blas_thread:
            return text(self, *values, **static)

    # -- values ---

    def values(self, values: Any) -> PerRank:
        """Hand each rank its own value.

        Parameters
        ----------
        values : sequence of n_ranks objects, or a Dask collection of n_ranks keys
            Never overwritten: the first `update` of a rank works on a copy.
        """
        self._require_open()
        if is_dask_collection(values):
            return self._from_dask(values)
        if isinstance(values, (str, Mapping, Set)):  # else its letters, its keys, in any order
            raise InputError(f"values are a {type(values).__name__}: give a list, by rank.")
        values = several(values, "values", f"a list of {self.n_ranks}")
        if len(values) != self.n_ranks:
            told = f"{self.n_ranks} ranks need as many values, got {len(values)}"
            raise InputError(f"{told}: give one for each of the {self.n_ranks} ranks.")
        return self._values(values)

    def replicated(self, value: Any) -> Replicated:
        """Hand every rank the same small plain value, as it is now."""
        self._require_open()
        return self._replicated(duplicate(value))

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
            What the function raised on the lowest failing rank (on `graph`, on one that failed),
            with a note that names the rank.
        """
        self._check_step(values, static)
        return self._map(function, None, values, static)

    def update(
        self,
        function: Callable[..., Any],
        state: PerRank,
        *values: PerRank | Replicated,
        **static: Any,
    ) -> PerRank:
        """Like `map`, but the function may overwrite its first argument, and gives it back.

        A transport that may run a step twice hands the function a copy (`duplicate`), the others
        the state itself.

        Parameters
        ----------
        function : callable
            ``function(state, *values, **static)`` gives the new state; see `map`.
        state : PerRank
            Spent by this: go on with what comes back.
        *values, **static
            As of `map`; the values are not to be changed.

        Raises
        ------
        InputError, Exception
            As `map`. After an error `state` is lost.
        """
        self._check_step((state, *values), static, 1)
        new_state = self._map(function, state, values, static)
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
            Item ids of the rank in its local order, each once; what it only forwards may be absent.
        label : str, optional
            Name of its rounds in `counters`; default ``plan.kind``.

        Raises
        ------
        InputError
            For a plan of another number of ranks, or an item that a rank does not hold.
        """
        if isinstance(plan, EmbeddedPlan):
            return prepare_embedding(self, plan, numbering, label)
        return self.prepare_all([plan], numbering, [label] if label else None)[0]

    def prepare_all(
        self, plans: Sequence[Plan], numbering: PerRank, labels: Sequence[str] | None = None
    ) -> list[PreparedPlan]:
        """`prepare` many plans over one numbering in a single step.

        Parameters
        ----------
        plans : sequence of Plan
        numbering : PerRank
            As of `prepare`, for all of them.
        labels : sequence of str, optional
            Under which each is counted. Default: its kind.

        Raises
        ------
        InputError
            As `prepare`; also for labels of another number than the plans, or an embedded plan.
        """
        require_same_ranks(plans, self.n_ranks)
        for plan in plans:
            if isinstance(plan, EmbeddedPlan):
                raise InputError(f"{plan!r} has slots of its own: prepare it by itself.")
        names = [plan.kind for plan in plans] if labels is None else list(labels)
        if len(names) != len(plans):
            raise InputError(f"{len(plans)} plans need as many labels, got {len(names)}.")
        slices = self._slices([entry for plan in plans for entry in plan.rounds])
        messages = self.map(localise, slices, numbering)
        prepared, slots = [], itertools.count()
        for plan, name in zip(plans, names, strict=True):
            rounds = [
                PreparedRound(name, index, next(slots), messages, entry)
                for index, entry in enumerate(plan.rounds)
            ]
            prepared.append(PreparedPlan(plan.kind, name, tuple(rounds), plan))
        return prepared

    def post(
        self,
        prepared_round: PreparedRound,
        values: PerRank,
        pack: Callable[[Any, NDArray[np.int64]], NDArray[Any]],
        reduction: str = "",
    ) -> Pending:
        """Send the messages of a round of a plan; computing may go on until `collect`.

        Parameters
        ----------
        prepared_round : PreparedRound
            From ``prepare(…).rounds``.
        values : PerRank
        pack : callable
            ``pack(value, positions)`` gives a fresh array of one row a position; called once a
            message.
        reduction : str
            As of `post_values`.
        """
        require_kind(prepared_round, PreparedRound, "a round of what prepare(plan, …) gave")
        self._check_step((prepared_round.messages, values), {}, 2)
        self.n_posted += 1
        label, index = prepared_round.label, prepared_round.index
        pending = Pending(self, prepared_round, label, index, reduction=reduction)
        pending.content = self._post(pending, values, pack)
        return pending

    def post_values(
        self,
        exchange: Exchange,
        values: PerRank,
        pack: Callable[[Any, int, list[int]], list[Payload]],
        label: str = "values",
        index: int = 0,
        reduction: str = "",
    ) -> Pending:
        """Send messages whose size only the sender knows; computing may go on until `collect`.

        Parameters
        ----------
        exchange : Exchange
            Who sends to whom; equal on all ranks.
        values : PerRank
            Not spent by this.
        pack : callable
            ``pack(value, source, destinations)`` gives a list, for each destination a tuple of one
            or more arrays of any length, shape and dtype (no Python objects). A tuple that several
            ranks get is made ready once. An array that is marked read-only promises that nobody
            overwrites it, and travels uncopied; others are copied.
        label, index : str, int
            The round's name in `counters`. A message counts ``len(first array)`` rows and the bytes
            of all its arrays; an empty message counts as a message.
        reduction : str
            By what name the rows combine, if they do; ranks that disagree on it are told.
        """
        require_kind(exchange, Exchange, "an Exchange")
        self._check_step((values,), {}, 1)
        if exchange.n_ranks != self.n_ranks:
            raise InputError(f"An exchange of {exchange.n_ranks} ranks on {self.n_ranks} ranks.")
        self.n_posted += 1
        pending = Pending(self, exchange, label, index, reduction=reduction)
        pending.content = self._post(pending, values, pack)
        return pending

    def collect(
        self,
        pending: Pending,
        state: PerRank | None,
        combine: Callable[..., Any],
        *values: PerRank | Replicated,
        **static: Any,
    ) -> PerRank:
        """Receive the messages of a round into each rank's state.

        Parameters
        ----------
        pending : Pending
            From `post` or `post_values`; collected once.
        state : PerRank or None
            Spent by this, like in `update`; None where there is nothing to overwrite, like in
            `map`.
        combine : callable
            ``combine(state, inbox, *values, **static)`` gives the new state, without `state` where
            that is None; of a `post` it gets an `Inbox`, of a `post_values` a `ValueInbox`. It is
            called on every rank, with an empty inbox where nothing arrives.
        *values, **static
            As of `map`.

        Raises
        ------
        InputError
            If the messages of a plan to a rank differ in dtype or row shape; names the ranks.
        """
        require_kind(pending, Pending, "what post or post_values gave")
        if pending.communicator is not self:
            raise InputError("These messages were posted on another communicator.")
        if pending.collected:
            raise InputError("These messages were collected before; post them again.")
        of_step = values if state is None else (state, *values)
        self._check_step(of_step, static, int(state is not None))
        new_state = self._map(combine, state, values, static, pending)
        pending.collected = True
        if state is not None:
            state.spent = True
        return new_state

    def fold(
        self, values: PerRank, function: Callable[..., Any], label: str = "allreduce", **static: Any
    ) -> Replicated:
        """``function([value of rank 0, value of rank 1, …], **static)``, given to every rank.

        Counted as a star: each rank but 0 sends its value to rank 0 and gets the result back,
        2·(n_ranks - 1) messages.

        Parameters
        ----------
        values : PerRank
            One value a rank, of any kind that can be pickled.
        function : callable
            Gets all of them, in order of rank; changes none.
        label : str
            Under which the messages are counted.
        **static : object
            Small plain values, the same on every rank.
        """
        self._check_step((values,), static, 1)
        self.n_posted += 2
        return self._fold(values, function, label, static)

    def assume_replicated(self, values: PerRank) -> Replicated:
        """A value that every rank has come to by itself, the same on all of them, as `Replicated`.

        Moves nothing. `values` is spent by this. Whether they are the same is not looked at: a text
        that claims it wrongly gets another result on every transport.
        """
        self._check_step((values,), {}, 1)
        replicated = self._assume_replicated(values)
        values.spent = True
        return replicated

    def gather(self, values: PerRank) -> list[Any] | None:
        """The ranks' values in rank order, as copies: for the driver.

        Inside a text only what rank 0 gets comes back to the driver; other ranks get None.
        """
        self._check_step((values,), {}, 1)
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

    def cached(self, key: Hashable, make: Callable[[], Cached]) -> Cached:
        """What ``make()`` gave under this key on this communicator, made on the first call.

        For plans that are prepared again and again; the key says all that `make` depends on. `make`
        may `map` and `prepare`, but must send no messages. Of many keys the oldest are forgotten.
        """
        if key not in self._cache:
            if len(self._cache) == _MOST_CACHED:
                del self._cache[next(iter(self._cache))]
            self._cache[key] = make()
        return self._cache[key]

    # -- the run ---

    @property
    def counters(self) -> Counters:
        """What was sent and how long it took, measured; as of the last wait for a result."""
        return self._counters

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
        """Leave nothing behind: threads end, futures are released. Values can't be used after."""
        if not self.closed:
            self.closed = True
            self._close()

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # -- what a transport implements; arguments are checked ---

    @abstractmethod
    def _values(self, values: list[Any]) -> PerRank: ...

    @abstractmethod
    def _map(
        self,
        function: Callable,
        state: PerRank | None,
        values: Sequence[Any],
        static: dict,
        pending: Pending | None = None,
    ) -> PerRank:
        """A step: ``function(state, inbox, *values, **static)``, each of the first two if given.

        It may overwrite `state`; the inbox holds the messages of `pending`, waited for.
        """

    @abstractmethod
    def _post(self, pending: Pending, values: PerRank, pack: Callable) -> Any:
        """Send; what it gives becomes the content of the pending messages."""

    @abstractmethod
    def _fold(
        self, values: PerRank, function: Callable, label: str, static: dict
    ) -> Replicated: ...

    @abstractmethod
    def _assume_replicated(self, values: PerRank) -> Replicated: ...

    @abstractmethod
    def _gather(self, values: PerRank) -> list[Any] | None: ...

    # -- and what some do otherwise ---

    def _from_dask(self, collection: Any) -> PerRank:
        """Values of a Dask collection, one key a rank."""
        return self._values(computed_values(collection, self.n_ranks))

    def _replicated(self, value: Any) -> Replicated:
        return Replicated(self, value)

    def _settle(self, values: Sequence[PerRank | Replicated]) -> None:  # noqa: B027
        """Nothing is left to do where every call is done when it returns."""

    def _result(self, content: Any) -> Any:
        return content

    def _close(self) -> None:  # noqa: B027
        """Let go of what the transport holds."""

    def _slices(self, rounds: Sequence[Round]) -> PerRank:
        """Each rank's slice of every round."""
        ranks = range(self.n_ranks)
        return self.values([[entry.of_rank(rank) for entry in rounds] for rank in ranks])

    # -- checks ---

    def _require_open(self) -> None:
        if self.closed:
            raise InputError("This communicator is closed; make a new one.")

    _check_step = check_step


def unchanged(value: Any, *others: Any) -> Any:
    """The value itself, where a step must do nothing."""
    return value


def collective(text: Text) -> Text:
    """Make a text that is called like a function, inside of another text or outside of any.

    Outside, where ranks are processes, all of it is one run, and not one for each call in it.
    """

    @wraps(text)
    def call(communicator: Communicator, *values: Any, **static: Any) -> Any:
        try:
            ships_texts = communicator.ships_texts
        except AttributeError:
            given = type(communicator).__name__
            raise InputError(
                f"{text.__name__} got {given} where its communicator comes: give that first, "
                "of communicator_for(…), or in a text its first argument"
            ) from None
        if ships_texts:
            return communicator.run(call, *values, **static)
        return text(communicator, *values, **static)

    return cast(Text, call)
