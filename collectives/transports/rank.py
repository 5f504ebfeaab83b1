"""The communicator of one rank: the text runs here, on the rank's own values.

    request (text, values, static) ──▶ RankCommunicator ──▶ text(self, …) ──▶ answer
                                            ⇅ Endpoint: send, receive
                                         other ranks, which run the same text

A per-rank value is simply the rank's own; an `Endpoint` is the one thing that differs between
transports. Calls that send messages are numbered, and all ranks make the same calls: so a message
is known by its call, and ranks that disagree are told (`mailbox`).
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple, Protocol

from daskpart._floor.blas import one_blas_thread
from daskpart._floor.words import words_of
from daskpart.collectives.communicator import Communicator, Pending, PerRank, Replicated
from daskpart.collectives.cost_model import CostModel
from daskpart.collectives.counters import Counters, value_bytes
from daskpart.collectives.messages import Exchange, RankExchange, RankMessages
from daskpart.collectives.plan import Round
from daskpart.collectives.reduction import Reduction
from daskpart.collectives.timeline import BLOCKED, COMPUTING, SENDING, name_of, time_of
from daskpart.collectives.values import duplicate
from daskpart.errors import InputError

from . import handles
from .handles import Number
from .mailbox import Call, Mailbox, RunStopped


class Endpoint(Protocol):
    """How one rank's messages travel; transports inherit what they have nothing to do for."""

    def connect(self) -> None:
        """Do what all ranks must do together before the first message, where there is something."""
        return

    def send(self, call: Call, destinations: Sequence[int], payload: Any) -> None:
        """Send an array, a tuple of arrays or a small object to some ranks, without waiting.

        Nobody changes it any more.
        """

    def receive(self, call: Call, source: int) -> Any:
        """Wait for a message; errors as of `Mailbox.take`."""

    def all_sent(self) -> bool:
        """Whether nothing that was sent needs this process any more; helps it on."""
        return True

    def close(self, whole: bool) -> None:
        """Let go of what the endpoints of a process share; called once, of the last rank to end.

        `whole` says whether the communicator was closed, and not broken off.
        """
        return


@dataclass(frozen=True)
class Request:
    """One run, as the driver asks for it."""

    run: int
    call: bytes  # (text, values, static), pickled with `handles.dumps`
    # of values that lie on the ranks' workers: a Dask key a rank
    keys: dict[Number, list[Any]] = field(default_factory=dict)
    dropped: tuple[Number, ...] = ()  # values that nobody needs any more
    everyone: bool = False  # whether the driver wants the result of every rank, not only of rank 0
    recording: bool = False  # whether times are noted for a timeline
    cost_model: CostModel | None = None
    # the run before failed, so ranks may have cached different things, and hold what it gave
    afresh: bool = False


class RoundShare(NamedTuple):
    """What one rank sent in one round, to each destination, and whom it has messages of."""

    label: str
    round_index: int
    sources: tuple[int, ...]
    destinations: tuple[int, ...]
    rows: tuple[int, ...]
    nbytes: tuple[int, ...]


@dataclass
class Answer:
    """What a rank says at the end of a run."""

    rank: int
    result: Any = None  # what the text returned, pickled; of rank 0, or of everyone
    error: Exception | None = None
    spent: set[Number] = field(default_factory=set)  # of the driver's values, by the text
    # of each round that was posted its share's place in `shares`: all ranks make the same calls, so
    # place i is the same round on every rank
    rounds: list[int] = field(default_factory=list)
    shares: dict[RoundShare, int] = field(default_factory=dict)
    seconds_computing: float = 0.0
    seconds_blocked: float = 0.0
    spans: list[tuple] = field(default_factory=list)  # kind, name, begin, end, bytes
    cost_model: CostModel | None = None

    @property
    def failure(self) -> str | None:
        """Why the others must stop, if the text failed by itself."""
        if self.error is None or isinstance(self.error, RunStopped):
            return None
        return f"rank {self.rank} failed: {words_of(self.error)}"


class RankCommunicator(Communicator):
    """One rank of a run; what a text gets as its first argument.

    `mailbox` says when a run is stopped, `fetch` gives what lies on this worker under a Dask key.
    """

    is_rank = True

    def __init__(
        self,
        rank: int,
        n_ranks: int,
        endpoint: Endpoint,
        mailbox: Mailbox,
        fetch: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(n_ranks)
        self.rank, self.timeline = rank, None
        self.endpoint, self._mailbox, self._fetch = endpoint, mailbox, fetch
        self._held: dict[Number, PerRank | Replicated | Pending] = {}
        self._run = self._n_calls = 0
        self._answer = Answer(rank)
        self._recording = False

    def execute(self, request: Request, own: dict[Number, bytes]) -> Answer:
        """Run a text; `own` are values that come with it, and what it raises is in the answer."""
        self._answer = answer = Answer(self.rank)
        self._run, self._n_calls, self._recording = request.run, 0, request.recording
        self.cost_model = request.cost_model
        if request.afresh:
            self._cache.clear()
        self._let_go(request)
        given: dict[Number, PerRank] = {}
        try:
            self._take_in(request, own)
            text, values, static = handles.loads(request.call, lambda ref: self._given(ref, given))
            with one_blas_thread:
                result = text(self, *values, **static)
            pickled = self._pickled(result)
            if request.everyone or self.rank == 0:
                answer.result = pickled
        except RunStopped as error:
            answer.error = error
        except BaseException as error:
            if not isinstance(error, Exception):  # of sys.exit, say: the rank must answer still
                error = RuntimeError(f"the text ended with {words_of(error)}")
            error.add_note(f"on rank {self.rank}")
            answer.error = error
        answer.spent = {number for number, value in given.items() if value.spent}
        for number in answer.spent:
            del self._held[number]
        answer.cost_model = self.cost_model
        return answer

    def _let_go(self, request: Request) -> None:
        """Begin a run with what is still held."""
        dropped_numbers = list(request.dropped)
        if request.afresh:  # of what the failed run gave back the driver has no handles
            dropped_numbers += [number for number in self._held if number[0] == request.run - 1]
        for number in dropped_numbers:
            self._held.pop(number, None)
        pending = [value for value in self._held.values() if isinstance(value, Pending)]
        posted = {each.content.key for each in pending if not each.collected}
        self._mailbox.begin(request.run, posted)

    def _take_in(self, request: Request, own: dict[Number, bytes]) -> None:
        for number, pickled in own.items():
            # arrays that are read-only at the driver are so here: `update` works on a copy
            self._held[number] = PerRank(self, pickle.loads(pickled), borrowed=True)
        for number, keys in request.keys.items():
            assert self._fetch is not None
            # the worker holds it too
            self._held[number] = PerRank(self, self._fetch(keys[self.rank]), borrowed=True)

    def _given(self, reference: Any, given: dict[Number, PerRank]) -> Any:
        """What a reference of the driver stands for."""
        kind, *content = reference
        if kind == "communicator":
            return self
        if kind == "replicated":
            return Replicated(self, content[0])
        number = content[0]
        if number not in self._held:
            raise InputError(
                "This value was overwritten by update or collect, or lost in a run that failed; "
                "make it again."
            )
        value = self._held[number]
        if isinstance(value, PerRank):
            given[number] = value
        return value

    def _pickled(self, result: Any) -> bytes:
        """What a text returns; what is per rank stays here, under a number."""
        numbers = {id(value): number for number, value in self._held.items()}
        n_made = 0

        def refer(value: Any) -> Any:
            nonlocal n_made
            if isinstance(value, Communicator):
                return ("communicator",)
            if isinstance(value, Replicated):
                return ("replicated", value.content)
            if id(value) not in numbers:
                numbers[id(value)] = self._run, n_made
                self._held[self._run, n_made] = value
                n_made += 1
            number = numbers[id(value)]
            if isinstance(value, Pending):
                return ("pending", number, value.label, value.index)
            return ("value", number)

        try:
            return handles.dumps(result, refer)
        except InputError:
            raise
        except Exception as error:
            raise InputError(
                f"What rank {self.rank} gave back cannot be pickled: {error}"
            ) from error

    # -- the interface ---

    def close(self) -> None:
        """Refused: whoever made the communicator closes it (InputError)."""
        raise InputError("A text runs on this communicator: close it where it was made.")

    @property
    def counters(self) -> Counters:
        """Only the driver's communicator adds up what all ranks sent."""
        raise InputError("Counters are at the driver: look at them when the run is over.")

    def _values(self, values: list[Any]) -> PerRank:
        return PerRank(self, values[self.rank], borrowed=True)

    def _from_dask(self, collection: Any) -> PerRank:
        raise InputError("A Dask collection is handed out before the run, at the driver.")

    def _slices(self, rounds: Sequence[Round]) -> PerRank:
        return PerRank(self, [entry.of_rank(self.rank) for entry in rounds])

    def _map(
        self,
        function: Callable,
        state: PerRank | None,
        values: Sequence[Any],
        static: dict,
        pending: Pending | None = None,
    ) -> PerRank:
        arguments = [value.content for value in values]
        if pending is None:
            self._mailbox.check()
        else:
            half = self._half(pending)
            payloads = self._receive(pending.content, half.sources, pending.label)
            arguments.insert(0, half.incoming(payloads))
        if state is not None:
            arguments.insert(0, _own(state))
        return PerRank(self, self._timed(function, arguments, static))

    def _post(self, pending: Pending, values: PerRank, pack: Callable) -> Call:
        call = self._next_call(f"{pending.label} {pending.index}", pending.reduction)
        begin = perf_counter()
        half = self._half(pending)
        rows: list[int] = []
        sizes: list[int] = []
        for destinations, payload, n_rows, nbytes in half.messages(values.content, pack):
            rows.extend([n_rows] * len(destinations))
            sizes.extend([nbytes] * len(destinations))
            self._send(call, destinations, payload)
        ends = tuple(half.sources), tuple(half.destinations)
        self._count(RoundShare(pending.label, pending.index, *ends, tuple(rows), tuple(sizes)))
        self._answer.seconds_computing += self._note(SENDING, pending.label, begin, sum(sizes))
        return call

    def _half(self, pending: Pending) -> RankMessages | RankExchange:
        if isinstance(pending.round, Exchange):
            return pending.round.of_ranks[self.rank]
        return pending.round.messages.content[pending.round.slot]

    def _fold(self, values: PerRank, function: Callable, label: str, static: dict) -> Replicated:
        how = _name_of_fold(function)
        there, back = self._next_call(f"{label} 0", how), self._next_call(f"{label} 1", how)
        others = tuple(range(1, self.n_ranks))
        if self.rank == 0:
            # a copy: what the function gives may be one of the values, and be on its way for long
            every = [duplicate(values.content), *self._receive(there, others, label)]
            result = self._timed(function, [every], static)
            if others:
                self._send(back, others, result)
            self._count(RoundShare(label, 0, others, (), (), ()))
            sizes = (value_bytes(result),) * len(others)
            self._count(RoundShare(label, 1, (), others, (0,) * len(others), sizes))
        else:
            # a copy: the text may overwrite its value before rank 0 has read this
            self._send(there, (0,), duplicate(values.content))
            self._count(RoundShare(label, 0, (), (0,), (0,), (value_bytes(values.content),)))
            self._count(RoundShare(label, 1, (0,), (), (), ()))
            (result,) = self._receive(back, (0,), label)
        return Replicated(self, result)

    def _assume_replicated(self, values: PerRank) -> Replicated:
        return Replicated(self, _own(values))

    def _gather(self, values: PerRank) -> list[Any] | None:
        call = self._next_call("gather")
        if self.rank:
            self._send(call, (0,), duplicate(values.content))
            return None
        others = range(1, self.n_ranks)
        return [duplicate(values.content), *self._receive(call, others, "gather")]

    # -- what they share ---

    def _next_call(self, label: str, how: str = "") -> Call:
        """A call as it is known to other ranks, with the name of how it combines, if it does."""
        self._mailbox.check()
        self._n_calls += 1
        return Call(self._run, self._n_calls, f"{label}: {how}" if how else label)

    def _send(self, call: Call, destinations: Sequence[int], payload: Any) -> None:
        self._mailbox.note_sent(destinations)
        self.endpoint.send(call, destinations, payload)

    def _receive(self, call: Call, sources: Sequence[int], label: str) -> list[Any]:
        """A message of each of some ranks."""
        if not sources:
            return []
        begin = perf_counter()
        try:
            return [self.endpoint.receive(call, source) for source in sources]
        finally:
            self._answer.seconds_blocked += self._note(BLOCKED, label, begin)

    def _timed(self, function: Callable, arguments: Sequence[Any], static: dict) -> Any:
        begin = perf_counter()
        try:
            return function(*arguments, **static)
        finally:
            self._answer.seconds_computing += self._note(COMPUTING, function, begin)

    def _count(self, share: RoundShare) -> None:
        """Note what was sent in a round; the same things are sent again and again."""
        shares = self._answer.shares
        self._answer.rounds.append(shares.setdefault(share, len(shares)))

    def _note(self, kind: int, name: str | Callable, begin: float, nbytes: int = 0) -> float:
        """What the rank did since `begin`, for the timeline; how long it was."""
        end = perf_counter()
        if self._recording:
            words = name if isinstance(name, str) else name_of(name)
            self._answer.spans.append((kind, words, time_of(begin), time_of(end), nbytes))
        return end - begin


def _own(state: PerRank) -> Any:
    """A state to be overwritten: a copy, where others hold the original."""
    return duplicate(state.content) if state.borrowed else state.content


def _name_of_fold(function: Callable) -> str:
    reduction = getattr(function, "__self__", None)  # of `Reduction.fold`
    return reduction.name if isinstance(reduction, Reduction) else name_of(function)
