"""Where the messages to one rank wait for it, in the process that it lives in.

    other ranks ──put(call, source)──▶ ┌─────────┐ ──take(call, source)──▶ the rank
                 stop(run, why) ──────▶ └─────────┘ ──RunStopped──▶

A message is known by its call, the number of a run and of a call within it, and by its source: a
rank, or a request to a shard of a parameter server. It carries the label of the call, and messages
of one source arrive in the order in which they were sent; so a rank sees at once when another one
is in another call, or past this one, and says so. Every wait ends: with the message, with the
reason why the run was stopped, or after a time. What arrives for a run that was stopped is dropped,
and of an earlier run what nobody will ask for.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Hashable, Sequence
from time import monotonic
from typing import Any, NamedTuple

from daskpart.errors import InputError


class Call(NamedTuple):
    """A call that sends messages: the same on all ranks."""

    run: int
    number: int
    label: str

    @property
    def key(self) -> tuple[int, int]:
        """By which messages are matched."""
        return self.run, self.number

    def __str__(self) -> str:
        return f"call {self.number} ({self.label})"


class Standing(NamedTuple):
    """Where a rank is in a run, for who looks from outside."""

    waiting: tuple[Call, Hashable] | None  # for what source; None too for what was posted earlier
    sent: dict[int, int]  # messages of this run to each rank
    came: dict[int, int]  # and from each


class RunStopped(RuntimeError):
    """A rank stopped because of what happened to another; the message names both."""


class Mailbox:
    """Messages to one rank; one wait takes at most `timeout` seconds."""

    def __init__(self, rank: int, timeout: float) -> None:
        self.rank, self.timeout = rank, timeout
        self.run = 0  # the present one
        self.waiting: tuple[Call, Hashable] | None = None  # for what source now
        self._arrived: dict[tuple[int, int, Hashable], tuple[str, Any]] = {}
        self._latest: dict[Hashable, Call] = {}  # of each rank
        self._sent: dict[int, int] = {}  # messages of this run to each rank
        self._came: dict[int, dict[int, int]] = {}  # of each run those from each rank
        self._condition = threading.Condition()
        self._posted: Collection[tuple[int, int]] = ()  # calls of earlier runs
        self._stopped: dict[int, str] = {}  # this run or later ones, and why
        self._ended: str | None = None
        self._halted: str | None = None  # why `check` raises

    def begin(self, run: int, posted: Collection[tuple[int, int]] = ()) -> None:
        """A new run; of earlier ones only the messages of some calls are still asked for."""
        with self._condition:
            self.run, self._sent, self._posted = run, {}, posted
            self._came = {each: came for each, came in self._came.items() if each >= run}
            self._stopped = {each: why for each, why in self._stopped.items() if each >= run}
            self._look()
            self._drop()

    def note_sent(self, destinations: Sequence[int]) -> None:
        """The rank is about to send a message to each of some ranks."""
        for destination in destinations:
            self._sent[destination] = self._sent.get(destination, 0) + 1

    def standing(self) -> Standing:
        """Where the rank is in its run."""
        came, waiting = self._came.get(self.run, {}), self.waiting
        if waiting is not None and waiting[0].run != self.run:
            waiting = None  # what is on its way since then is not counted any more
        return Standing(waiting, dict(self._sent), dict(came))

    def put(self, call: Call, source: Hashable, payload: Any) -> None:
        """A message has come."""
        with self._condition:
            if isinstance(source, int) and call.run >= self.run:
                self._count(call.run, source)
            if self._ended is not None or self._is_over(call.key):
                return
            self._arrived[call.run, call.number, source] = call.label, payload
            if isinstance(source, int):
                self._latest[source] = call
            self.waiting = None  # who waits looks again, and may be long in waking up
            self._condition.notify_all()

    def note_came(self, call: Call, source: int) -> None:
        """A message has come to a rank that takes them in by itself, and waits for just this."""
        self._count(call.run, source)
        self._latest[source] = call

    def _count(self, run: int, source: int) -> None:
        came = self._came.setdefault(run, {})
        came[source] = came.get(source, 0) + 1

    def take(self, call: Call, source: Hashable) -> Any:
        """Wait for a message and take it out.

        InputError if the other rank is in another call, or past this one without a message;
        RunStopped if the run was stopped meanwhile; TimeoutError after `timeout` seconds.
        """
        limit = monotonic() + self.timeout
        with self._condition:
            try:
                while (found := self.find(call, source)) is None:
                    self.check()
                    self.waiting = call, source
                    if not self._condition.wait(limit - monotonic()):
                        raise self.too_late(call, source)
            finally:
                self.waiting = None
            return found[0]

    def find(self, call: Call, source: Hashable) -> tuple[Any] | None:
        """The message in a tuple, taken out, if it is here; errors as of `take`."""
        found = self._arrived.pop((call.run, call.number, source), None)
        if found is not None:
            label, payload = found
            if label != call.label:
                other = call._replace(label=label)
                raise InputError(
                    f"Ranks disagree: rank {self.rank} is in {call}, rank {source} in {other}."
                )
            return (payload,)
        latest = self._latest.get(source)
        if latest is not None and latest.key > call.key:
            self.check()  # `stop` may have dropped it
            raise InputError(
                f"Ranks disagree: rank {self.rank} waits in {call} for a message of rank {source}, "
                f"which sent none and is in {latest} already."
            )
        return None

    def too_late(self, call: Call, source: Hashable) -> TimeoutError:
        """The error after the time is over."""
        return TimeoutError(
            f"Rank {self.rank} waited {self.timeout:g} s in {call} for a message of rank {source}, "
            "the timeout of this communicator. If that rank computes for so long, raise the "
            "timeout."
        )

    def check(self) -> None:
        """Raise RunStopped if the run was stopped; takes no lock, as ranks ask all the time."""
        if self._halted is not None:
            raise RunStopped(f"Rank {self.rank} stopped: {self._halted}")

    def stop(self, run: int, reason: str) -> None:
        """Stop a run, also if it has not begun here."""
        with self._condition:
            self._stopped.setdefault(run, reason)
            self._look()  # first: who finds that a message was dropped must see why
            self._drop()
            self._condition.notify_all()

    def end(self, reason: str) -> None:
        """No further run; what has come is dropped."""
        with self._condition:
            self._ended = self._ended or reason
            self._look()
            self._arrived.clear()
            self._condition.notify_all()

    def __len__(self) -> int:
        return len(self._arrived)

    def _drop(self) -> None:
        for place in list(self._arrived):  # `find` may take one out meanwhile, without the lock
            if self._is_over(place[:2]):
                self._arrived.pop(place, None)

    def _is_over(self, call: tuple[int, int]) -> bool:
        """Whether nobody will ask for the messages of a call."""
        run = call[0]
        return run in self._stopped or (run < self.run and call not in self._posted)

    def _look(self) -> None:
        self._halted = self._ended or self._stopped.get(self.run)


def find_deadlock(standings: dict[int, Standing], ended: set[int]) -> str | None:
    """Why a run can't go on, if it can't: a rank waits for one that has ended, or in a circle.

    A rank to which a message of that one is on its way, be it large and slow, does not count.
    Standings are of the ranks that have begun the run, `ended` those whose text has. They may be of
    slightly different times, so only what two looks find alike is sure.
    """
    waiting = {rank: wait for rank in standings if (wait := _in_vain(rank, standings))}
    for first in sorted(waiting):
        seen: list[int] = []
        rank: Any = first
        while rank in waiting and rank not in seen:
            seen.append(rank)
            call, source = waiting[rank]
            if source in ended:
                return (
                    f"Ranks disagree: rank {rank} waits in {call} for a message of rank {source}, "
                    "whose text has ended."
                )
            rank = source
        if rank in seen:
            circle = [(each, *waiting[each]) for each in seen[seen.index(rank) :]]
            told = "; ".join(f"rank {r} waits in {call} for rank {of}" for r, call, of in circle)
            return f"Ranks disagree and wait for each other: {told}."
    return None


def _in_vain(rank: int, standings: dict[int, Standing]) -> tuple[Call, Hashable] | None:
    """What a rank waits for, if it is of a rank that has no message on its way to it."""
    own = standings[rank]
    if own.waiting is None:
        return None
    source: Any = own.waiting[1]
    other = standings.get(source)
    if other is not None and other.sent.get(rank, 0) != own.came.get(source, 0):
        return None
    return own.waiting
