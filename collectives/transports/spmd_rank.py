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
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.collectives.communicator import duplicate
from daskpart.collectives.counters import value_bytes
from daskpart.collectives.exchange import ValueInbox, make_payload, payload_size
from daskpart.collectives.prepared import RankMessages, open_inbox, pack_message
from daskpart.collectives.timeline import (
    BLOCKED,
    COMPUTING,
    SENDING,
    name_of,
    time_of,
)

from .mailbox import Mailbox, RunStopped
from .spmd_batch import HANDED_OUT, KINDS, Answer, Command, RoundShare
from .spmd_endpoint import Endpoint
from .spmd_rows import not_in_place, only_places_rows, rooms_in_place, rows_in_place


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
        self._short_ways: dict[int, tuple] = {}
        self._methods: dict[str, Callable[[Command, dict[int, Any]], None]] = {
            kind: getattr(self, f"_{kind}") for kind in KINDS
        }

    def execute(self, commands: list[Command], own: dict[int, Any]) -> Answer:
        """Run a batch; `own` are the rank's values of its "hold" commands.

        Never raises what a step raised: it is in the answer.
        """
        self._answer = answer = Answer(self.rank)
        self._short_ways.clear()  # keys and numbers are those of one batch
        mailbox, methods = self._mailbox, self._methods
        try:
            for command in commands:
                if mailbox.halted is not None:
                    mailbox.check()
                if command.dropped:
                    self._drop(command.dropped)
                methods[command.kind](command, own)
                answer.done += 1
            self._endpoint.flush()
        except RunStopped as error:
            answer.error = error
        except Exception as error:
            error.add_note(f"on rank {self.rank}")
            answer.error = error
        if answer.error is not None:
            self._keep_given(commands[answer.done :], own)
        for *_, way in self._short_ways.values():
            if way is not None:
                way.close()
        return answer

    def _keep_given(self, commands: list[Command], own: dict[int, Any]) -> None:
        """Of a batch that failed, take what was handed out: that needs nobody else."""
        for command in commands:
            self._drop(command.dropped)
            if command.kind in HANDED_OUT:
                with suppress(KeyError):  # what was scattered has gone with its worker
                    self._methods[command.kind](command, own)

    def _drop(self, numbers: tuple[int, ...]) -> None:
        for number in numbers:
            self._values.pop(number, None)
        if self._borrowed:
            self._borrowed.difference_update(numbers)

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
        nowhere = [None] * len(messages.destinations)
        self._send_rows(value, messages, command.function, nowhere, (command.step, label, index))

    def _collect(self, command: Command, own: dict[int, Any]) -> None:
        numbered, slot, label, _, step = command.detail
        messages: RankMessages = self._values[numbered][slot]
        payloads = [self._receive(step, source, label) for source in messages.sources]
        inbox = open_inbox(messages, payloads)
        state, *values = self._state_and_values(command)
        self._values[command.step] = self._called(command, state, inbox, *values)

    def _exchange(self, command: Command, own: dict[int, Any]) -> None:
        numbered, slot, label, index, pack = command.detail
        messages: RankMessages = self._values[numbered][slot]
        begin = perf_counter()
        state, *values = self._state_and_values(command)
        if not self._recording and only_places_rows(state, command):
            short = self._short_way(command, state, self._endpoint.short_exchange, messages)
            if short is not None:
                self._values[command.step] = short.run(command.step, state, begin)
                return
        assert command.function is not None
        rows = rows_in_place(state, messages, pack)
        self._send_rows(state, messages, pack, rows, (command.step, label, index))
        rooms = rooms_in_place(state, messages, command.function)
        payloads = [
            self._receive(
                command.step, source, label, None if room is None else partial(tuple, [room])
            )
            for source, room in zip(messages.sources, rooms, strict=True)
        ]
        begin = perf_counter()
        self._endpoint.give_back()
        self._answer.seconds_blocked += self._note(BLOCKED, label, begin)
        inbox = not_in_place(open_inbox(messages, payloads), rooms)
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
        begin = perf_counter()
        _, step, inputs, _, static, detail, _ = command
        exchanges, steps, label = detail
        value = self._values[inputs[0]]
        if steps.merger is not None and not self._recording:
            array = value if type(value) is np.ndarray else steps.begin(value)
            short = self._short_way(command, array, self._endpoint.short_swap)
            if short is not None:
                array = short.run(step, array, begin)
                self._values[step] = array if type(value) is np.ndarray else steps.end(array, value)
                return
        state = steps.begin(value)
        self._answer.seconds_computing += self._note(COMPUTING, steps.begin, begin)
        for index, exchange in enumerate(exchanges):
            place = (step + index, label, index)
            self._send_values(state, steps.pack, exchange.destinations[self.rank], place, True)
            room = None if steps.room is None else partial(steps.room, state, self.rank)
            inbox = self._received_values(exchange.sources[self.rank], place[0], label, room)
            state = self._timed(steps.combine, state, inbox, **(static or {}))
        begin = perf_counter()
        self._endpoint.give_back()
        self._answer.seconds_blocked += self._note(BLOCKED, label, begin)
        self._values[step] = self._timed(steps.end, state, value)

    def _short_way(
        self, command: Command, array: NDArray[Any], ready: Callable[..., Any], *more: Any
    ) -> Any:
        """The quicker way for calls like this on arrays like this one, if there is one.

        Calls of the very same detail have the same static arguments too, see `Repeated`.
        """
        known = self._short_ways.get(id(command.detail))
        if known is not None:
            function, shape, dtype, way = known
            if function is command.function and shape == array.shape and dtype == array.dtype:
                return way
            if way is not None:
                way.close()
        way = ready(command, array, self._answer, *more)
        known = command.function, array.shape, array.dtype, way
        self._short_ways[id(command.detail)] = known
        return way

    def _send_rows(
        self,
        value: Any,
        messages: RankMessages,
        pack: Callable,
        rows: Sequence[NDArray[Any] | None],
        place: tuple[int, str, int],
    ) -> None:
        """A message of rows to each destination, packed or as they lie; `place` as below."""
        step, label, index = place
        sizes: list[tuple[int, int]] = []
        begin = perf_counter()
        for destination, positions, lying in zip(
            messages.destinations, messages.out_positions, rows, strict=True
        ):
            lent = lying is not None and self._endpoint.lends(destination)
            packing = perf_counter()
            payload = (
                lying if lent else pack_message(value, positions, pack, self.rank, destination)
            )
            assert payload is not None
            self._answer.seconds_computing += perf_counter() - packing
            sizes.append((len(payload), payload.nbytes))
            self._endpoint.send(step, destination, payload, lent)
        self._sent(label, index, messages.destinations, sizes, begin)

    def _send_values(
        self,
        value: Any,
        pack: Callable,
        destinations: list[int],
        place: tuple[int, str, int],
        lending: bool = False,
    ) -> None:
        """Messages of any size; `place` is their step, label and index."""
        step, label, index = place
        sizes: list[tuple[int, int]] = []
        begin = perf_counter()
        for destination in destinations:
            lent = lending and self._endpoint.lends(destination)
            packing = perf_counter()
            payload = make_payload(value, pack, self.rank, destination, lent)
            self._answer.seconds_computing += perf_counter() - packing
            sizes.append(payload_size(payload))
            self._endpoint.send(step, destination, payload, lent)
        self._sent(label, index, destinations, sizes, begin)

    def _sent(
        self,
        label: str,
        index: int,
        destinations: Sequence[int],
        sizes: Sequence[tuple[int, int]],
        begin: float,
    ) -> None:
        """Note a round that was sent, by rows and bytes of each message."""
        rows, nbytes = zip(*sizes, strict=True) if sizes else ((), ())
        self._answer.sent(RoundShare(label, index, tuple(destinations), rows, nbytes))
        self._note(SENDING, label, begin, sum(nbytes))

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
        there: tuple[Sequence[int], int] = ((), 0)  # destinations and bytes of each
        back: tuple[Sequence[int], int] = ((), 0)
        if self.rank == 0:
            values = [value, *(self._receive(step, source, label) for source in others)]
            assert command.function is not None
            result = command.function(values, **(command.static or {}))
            for destination in others:
                self._endpoint.send(step, destination, result)
            back = (others, value_bytes(result))
            self._answer.gathered[step] = result
        else:
            # a copy: the text may overwrite its value before rank 0 has read this
            self._endpoint.send(step, 0, duplicate(value))
            there = ((0,), value_bytes(value))
            result = self._receive(step, 0, label)
        for index, (destinations, nbytes) in enumerate((there, back)):
            n = len(destinations)
            share = RoundShare(label, index, tuple(destinations), (0,) * n, (nbytes,) * n)
            self._answer.sent(share)
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
        begin = perf_counter()
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
        begin = perf_counter()
        try:
            return function(*arguments, **static)
        finally:
            self._answer.seconds_computing += self._note(COMPUTING, function, begin)

    def _note(self, kind: int, name: str | Callable, begin: float, nbytes: int = 0) -> float:
        """What the rank did since `begin`, for the timeline; how long it was."""
        end = perf_counter()
        if self._recording:
            words = name if isinstance(name, str) else name_of(name)
            self._answer.spans.append((kind, words, time_of(begin), time_of(end), nbytes))
        return end - begin
