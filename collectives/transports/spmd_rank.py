"""One rank of an SPMD run: it executes the communicator calls of the text on its own values.

    batch of calls (the same for every rank)        this rank
    ───────────────────────────────────────         ─────────────────────────────────────
    update  apply_ratings  5 ◀ 3, 4                  values[5] = apply_ratings(values[3], …)
    post    pack           6 ◀ 5                     one message to each destination
    collect average        7 ◀ 5, messages of 6      waits for its sources, in rank order
    fold    sum            8 ◀ 7                     to rank 0 and back

Values have numbers, which the driver gives. Between messages nobody but the rank itself is
involved; what it sends and receives goes through an `Endpoint`, the one thing that differs between
transports.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

import numpy as np
from distributed.protocol.pickle import dumps

from daskpart.collectives.communicator import duplicate
from daskpart.collectives.counters import value_bytes
from daskpart.collectives.exchange import ValueInbox, make_payload, payload_size
from daskpart.collectives.prepared import RankMessages, open_inbox, pack_message
from daskpart.collectives.timeline import (
    BLOCKED,
    COMPUTING,
    SENDING,
    name_of,
    now,
)

from .mailbox import Mailbox, RunStopped
from .spmd_batch import HANDED_OUT, Answer, Command, RoundShare


class Endpoint(Protocol):
    """How one rank's messages travel."""

    def connect(self) -> None:
        """Do what all ranks must do together, where there is something."""

    def lends(self, destination: int) -> bool:
        """Whether what goes there may be sent with `lent`."""

    def send(self, step: int, destination: int, payload: Any, lent: bool = False) -> None:
        """Send an array, a tuple of arrays or a small object without waiting.

        Nobody changes it any more, or, if it is lent, not before `give_back`.
        """

    def receive(self, step: int, source: int, room: Callable[[], Any] | None = None) -> Any:
        """Wait for a message, at most until the deadline.

        `room` gives arrays that it may be received into, see `SwapSteps`.
        """

    def give_back(self) -> None:
        """Wait until nothing that was lent is needed any more."""

    def flush(self) -> None:
        """Wait until nothing that was sent needs this process any more."""

    def close(self, whole: bool) -> None:
        """Let go of what the worker's endpoints share; called once, of the last rank to end.

        `whole` says whether the run was closed, and not broken off.
        """


class Rank:
    """The values of one rank, and the calls on them.

    Parameters
    ----------
    rank, n_ranks : int
    endpoint : Endpoint
    mailbox : Mailbox
        Says when a batch is stopped.
    fetch : callable
        Gives a value that lies on this worker under a Dask key.
    """

    def __init__(
        self,
        rank: int,
        n_ranks: int,
        endpoint: Endpoint,
        mailbox: Mailbox,
        fetch: Callable[[Any], Any],
    ) -> None:
        self.rank, self.n_ranks = rank, n_ranks
        self._endpoint, self._mailbox, self._fetch = endpoint, mailbox, fetch
        self._values: dict[int, Any] = {}
        self._borrowed: set[int] = set()  # others hold these objects: copy before overwriting
        self._answer = Answer(rank)
        self._recording = False

    def execute(self, commands: list[Command], own: dict[int, Any]) -> Answer:
        """Run a batch; `own` are the rank's values of its "hold" commands.

        Never raises what a step raised: it is in the answer.
        """
        self._answer = answer = Answer(self.rank)
        try:
            for command in commands:
                self._mailbox.check()
                getattr(self, f"_{command.kind}")(command, own)
                answer.done += 1
            self._endpoint.flush()
        except RunStopped as error:
            answer.error = error
        except Exception as error:
            error.add_note(f"on rank {self.rank}")
            answer.error = error
        if answer.error is not None:
            self._keep_given(commands[answer.done :], own)
        return answer

    def _keep_given(self, commands: list[Command], own: dict[int, Any]) -> None:
        """Of a batch that failed, take what was handed out: that needs nobody else."""
        for command in commands:
            if command.kind in HANDED_OUT or command.kind == "drop":
                with suppress(KeyError):  # what was scattered has gone with its worker
                    getattr(self, f"_{command.kind}")(command, own)

    # -- one method a kind of command ---

    def _connect(self, command: Command, own: dict[int, Any]) -> None:
        self._endpoint.connect()

    def _record(self, command: Command, own: dict[int, Any]) -> None:
        self._recording = True

    def _hold(self, command: Command, own: dict[int, Any]) -> None:
        self._values[command.step] = own.pop(command.step, command.detail)

    def _fetch_value(self, command: Command, own: dict[int, Any]) -> None:
        self._values[command.step] = self._fetch(command.detail[self.rank])
        self._borrowed.add(command.step)

    def _drop(self, command: Command, own: dict[int, Any]) -> None:
        for number in command.inputs:
            self._values.pop(number, None)
            self._borrowed.discard(number)

    def _map(self, command: Command, own: dict[int, Any]) -> None:
        values = [self._values[number] for number in command.inputs]
        self._values[command.step] = self._called(command, *values)

    def _update(self, command: Command, own: dict[int, Any]) -> None:
        self._values[command.step] = self._called(command, *self._state_and_values(command))

    def _post(self, command: Command, own: dict[int, Any]) -> None:
        numbered, slot, label, index, _ = command.detail
        messages: RankMessages = self._values[numbered][slot]
        value = self._values[command.inputs[0]]
        assert command.function is not None
        share = RoundShare(command.step, label, index, messages.destinations, [], [])
        begin = now()
        for destination, positions in zip(
            messages.destinations, messages.out_positions, strict=True
        ):
            packing = now()
            payload = pack_message(value, positions, command.function, self.rank, destination)
            self._answer.seconds_computing += now() - packing
            share.rows.append(len(payload))
            share.nbytes.append(payload.nbytes)
            self._endpoint.send(command.step, destination, payload)
        self._answer.rounds.append(share)
        self._note(SENDING, label, begin, sum(share.nbytes))

    def _collect(self, command: Command, own: dict[int, Any]) -> None:
        numbered, slot, label, _, step = command.detail
        messages: RankMessages = self._values[numbered][slot]
        payloads = [self._receive(step, source, label) for source in messages.sources]
        inbox = open_inbox(messages, payloads)
        state, *values = self._state_and_values(command)
        self._values[command.step] = self._called(command, state, inbox, *values)

    def _post_values(self, command: Command, own: dict[int, Any]) -> None:
        destinations, label, index = command.detail
        value = self._values[command.inputs[0]]
        assert command.function is not None
        place = (command.step, label, index)
        self._send_values(value, command.function, destinations[self.rank], place)

    def _collect_values(self, command: Command, own: dict[int, Any]) -> None:
        sources, label, step = command.detail
        inbox = self._received_values(sources[self.rank], step, label)
        state, *values = self._state_and_values(command)
        self._values[command.step] = self._called(command, state, inbox, *values)

    def _swap(self, command: Command, own: dict[int, Any]) -> None:
        exchanges, steps, label = command.detail
        value, static = self._values[command.inputs[0]], command.static or {}
        state = self._timed(steps.begin, value)
        for index, exchange in enumerate(exchanges):
            place = (command.step + index, label, index)
            self._send_values(state, steps.pack, exchange.destinations[self.rank], place, True)
            room = None if steps.room is None else partial(steps.room, state, self.rank)
            inbox = self._received_values(exchange.sources[self.rank], place[0], label, room)
            state = self._timed(steps.combine, state, inbox, **static)
        begin = now()
        self._endpoint.give_back()
        self._answer.seconds_blocked += self._note(BLOCKED, label, begin)
        self._values[command.step] = self._timed(steps.end, state, value)

    def _send_values(
        self,
        value: Any,
        pack: Callable,
        destinations: list[int],
        place: tuple[int, str, int],
        lending: bool = False,
    ) -> None:
        """Messages of any size; `place` is their step, label and index."""
        share = RoundShare(*place, destinations, [], [])
        begin = now()
        for destination in destinations:
            lent = lending and self._endpoint.lends(destination)
            packing = now()
            payload = make_payload(value, pack, self.rank, destination, lent)
            self._answer.seconds_computing += now() - packing
            rows, nbytes = payload_size(payload)
            share.rows.append(rows)
            share.nbytes.append(nbytes)
            self._endpoint.send(share.step, destination, payload, lent)
        self._answer.rounds.append(share)
        self._note(SENDING, share.label, begin, sum(share.nbytes))

    def _received_values(
        self, sources: list[int], step: int, label: str, room: Callable[[int], Any] | None = None
    ) -> ValueInbox:
        payloads = [
            self._receive(step, source, label, None if room is None else partial(room, source))
            for source in sources
        ]
        for array in itertools.chain.from_iterable(payloads):
            array.flags.writeable = False  # as it was packed
        return ValueInbox(self.rank, sources, payloads)

    def _fold(self, command: Command, own: dict[int, Any]) -> None:
        value, others = self._values[command.inputs[0]], range(1, self.n_ranks)
        step, label = command.step, command.detail
        there: tuple[list[int], list[int]] = ([], [])  # destinations and bytes
        back: tuple[list[int], list[int]] = ([], [])
        if self.rank == 0:
            values = [value, *(self._receive(step, source, label) for source in others)]
            assert command.function is not None
            result = command.function(values, **(command.static or {}))
            for destination in others:
                self._endpoint.send(step, destination, result)
            back = (list(others), [value_bytes(result)] * len(others))
            self._answer.gathered[step] = result
        else:
            # a copy: the text may overwrite its value before rank 0 has read this
            self._endpoint.send(step, 0, duplicate(value))
            there = ([0], [value_bytes(value)])
            result = self._receive(step, 0, label)
        for index, (destinations, nbytes) in enumerate((there, back)):
            rows = [0] * len(destinations)
            self._answer.rounds.append(RoundShare(step, label, index, destinations, rows, nbytes))
        self._values[command.step] = result

    def _agreed(self, command: Command, own: dict[int, Any]) -> None:
        (value,) = self._state_and_values(command)
        self._values[command.step] = value
        if self.rank == 0:
            self._answer.gathered[command.step] = value

    def _gather(self, command: Command, own: dict[int, Any]) -> None:
        number = command.inputs[0]
        self._answer.gathered[number] = self._values[number]

    # -- what they share ---

    def _receive(
        self, step: int, source: int, label: str, room: Callable[[], Any] | None = None
    ) -> Any:
        begin = now()
        try:
            return self._endpoint.receive(step, source, room)
        finally:
            self._answer.seconds_blocked += self._note(BLOCKED, label, begin)

    def _state_and_values(self, command: Command) -> list[Any]:
        number, *others = command.inputs
        values = [self._values[other] for other in others]
        state = self._values.pop(number)
        if number in self._borrowed:
            self._borrowed.discard(number)
            state = duplicate(state)
        return [state, *values]

    def _called(self, command: Command, *arguments: Any) -> Any:
        assert command.function is not None
        return self._timed(command.function, *arguments, **(command.static or {}))

    def _timed(self, function: Callable, *arguments: Any, **static: Any) -> Any:
        begin = now()
        try:
            return function(*arguments, **static)
        finally:
            self._answer.seconds_computing += self._note(COMPUTING, function, begin)

    def _note(self, kind: int, name: str | Callable, begin: float, nbytes: int = 0) -> float:
        """What the rank did since `begin`, for the timeline; how long it was."""
        end = now()
        if self._recording:
            words = name if isinstance(name, str) else name_of(name)
            self._answer.spans.append((kind, words, begin, end, nbytes))
        return end - begin


def pickled_object(value: Any) -> bytes:
    """A value that is no array, for a message; numbers the short way."""
    if isinstance(value, int | float | complex | np.generic):
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    return dumps(value)
