"""Small calls over MPI, made ready once and run many times: a program, and detours.

    every call    the machine runs the program ──stops──▶ a detour: that step in the ordinary way
                             ▲                                 │
                             └──────────── goes on ────────────┘

What travels is what other ways of a call would send, so whether a rank goes this way is its own
affair. A detour is taken where the last letter is not sent yet, where a message does not come soon,
and where another one is on the lane: of another form or step.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskpart.collectives.exchange import Exchange, ValueInbox
from daskpart.collectives.swapping import Merge

from .mpi_group import Lane, Letter
from .mpi_machine import Code, machine
from .mpi_messages import Form, form_of
from .mpi_program import Program
from .spmd_batch import Answer, Command, RoundShare
from .ufunc_loop import ufunc_loop

if TYPE_CHECKING:
    from .mpi import MpiEndpoint


class Coming(NamedTuple):
    """A lane, and at which places its message is expected, awaited and used."""

    lane: Lane
    expected: int
    awaited: int
    used: int


class ShortCall:
    """One rank's share of the calls of a batch that are alike.

    Parameters
    ----------
    endpoint : MpiEndpoint
    answer : Answer
        Of the batch.
    """

    def __init__(self, endpoint: MpiEndpoint, answer: Answer) -> None:
        self._endpoint, self._answer = endpoint, answer
        self._program = Program()
        self._detours: dict[int, Callable[[int], int]] = {}  # from a place and step to a place
        self._coming: list[Coming] = []
        self._letters: list[Letter] = []
        self._numbers: list[int] = []  # of what it sends in each round, in the answer
        self._posted: list[int] = []  # of each round the place behind what it sends

    # -- how a program is made ---

    def _add_send(
        self,
        letter: Letter,
        take: Sequence[int],
        later: int,
        destination: int,
        payload: Callable[[], Any],
    ) -> None:
        """Send what `take` copies into the letter; `later` is the round's step after the first."""
        program, request = self._program, self._program.request(letter.request)
        self._letters.append(letter)
        letter.users += 1
        place = program.add(Code.OPEN, request)
        code, *operands = take
        program.add(Code(code), program.address(letter.places[0]), *operands)
        program.add(Code.SEND, request, program.address(letter.buffer), later)
        following = program.next_place

        def detour(step: int) -> int:
            self._endpoint.send(step + later, destination, payload())
            return following

        self._detours[place] = detour

    def _add_expect(self, lane: Lane) -> int:
        return self._program.add(Code.EXPECT, self._program.request(lane.request))

    def _add_wait(self, lane: Lane, source: int) -> int:
        place = self._program.add(Code.WAIT, self._program.request(lane.request))

        def detour(step: int) -> int:
            self._wait(lane, source)
            return place + 1

        self._detours[place] = detour
        return place

    def _add_check(self, lane: Lane, form: Form, later: int, detour: Callable[[int], int]) -> None:
        address = self._program.address
        place = self._program.add(
            Code.CHECK, address(lane.incoming), address(form.opening), len(form.opening), later
        )
        self._detours[place] = detour

    # -- how it is run ---

    def _run(self, step: int) -> None:
        place = self._program.start(step)
        if place >= 0:
            self._go_on(place, step)
        self._answer.rounds += self._numbers

    def _go_on(self, place: int, step: int) -> None:
        """From where the machine stopped to the end."""
        try:
            while place >= 0:
                self._say_what_comes(place)
                self._program.raise_error()
                place = self._program.go_on(self._detours[place](step), step)
            self._say_what_comes(place)
        except BaseException:
            self._answer.rounds += self._numbers[: bisect_right(self._posted, place)]
            raise

    def _say_what_comes(self, place: int) -> None:
        """Tell the lanes what was expected, and has come, when the machine stopped."""
        for coming in self._coming:
            coming.lane.taken()
        for lane, expected, awaited, used in self._coming:
            if expected < place <= used:
                lane.expecting, lane.come = True, awaited < place

    def _wait(self, lane: Lane, source: int) -> None:
        begin = perf_counter()
        try:
            self._endpoint.wait_for(lane, source)
        finally:
            self._note_blocked(perf_counter() - begin)

    def _note_blocked(self, seconds: float) -> None:
        self._answer.seconds_blocked += seconds
        self._answer.seconds_computing -= seconds

    def close(self) -> None:
        """The batch is over."""
        self._note_blocked(self._program.seconds_blocked())
        for letter in self._letters:
            letter.users -= 1


class ShortSwap(ShortCall):
    """Swaps of arrays of one shape and dtype; see `ShortCall`.

    Parameters
    ----------
    endpoint : MpiEndpoint
    answer : Answer
    rank : int
    command : Command
        One of those swaps.
    like : ndarray
        Such an array.
    """

    def __init__(
        self,
        endpoint: MpiEndpoint,
        answer: Answer,
        rank: int,
        command: Command,
        like: NDArray[Any],
    ) -> None:
        super().__init__(endpoint, answer)
        self._rank, self._command = rank, command
        self._first, self._other = np.empty_like(like, order="C"), np.empty_like(like, order="C")
        self._result = self._first

    @classmethod
    def ready(
        cls,
        endpoint: MpiEndpoint,
        rank: int,
        command: Command,
        array: NDArray[Any],
        answer: Answer,
    ) -> ShortSwap | None:
        """Made ready; None where the array, or who sends to whom, is not of the simple kind."""
        run = machine()
        if run is None or type(array) is not np.ndarray or array.dtype.hasobject:
            return None
        form = form_of("tuple", ((array.dtype, (1, *array.shape)),))
        if not array.nbytes or form.beside:
            return None
        if not all(_is_simple(endpoint, rank, exchange) for exchange in command.detail[0]):
            return None
        call = cls(endpoint, answer, rank, command, array)
        for index in range(len(command.detail[0])):
            if not call._add_round(index, form):
                call.close()
                return None
        call._program.finish(run)
        return call

    def run(self, first_step: int, array: NDArray[Any], begin: float) -> NDArray[Any]:
        """The array that all rounds end with; `begin` is when the swap began."""
        self._first[...] = array
        try:
            self._run(first_step)
            return self._result.copy()
        finally:
            self._answer.seconds_computing += perf_counter() - begin

    def _add_round(self, index: int, form: Form) -> bool:
        """Whether it could be: no lane is in an unusual state, and there is a letter."""
        (exchanges, steps, label), array = self._command.detail, self._result
        exchange = exchanges[index]
        to, sources = tuple(exchange.destinations[self._rank]), exchange.sources[self._rank]
        share = RoundShare(label, index, to, (1,) * len(to), (array.nbytes,) * len(to))
        self._numbers.append(self._answer.shares.setdefault(share, len(self._answer.shares)))
        lanes = [self._endpoint.lane(source) for source in sources]
        if any(lane.expecting for lane in lanes):
            return False
        places = [self._add_expect(lane) for lane in lanes]
        for destination in to:
            letter = self._endpoint.lane(destination).letter(form)
            if letter is None:
                return False
            take = Code.TAKE, self._program.address(array), array.nbytes
            self._add_send(letter, take, index, destination, partial(_message, array))
        self._posted.append(self._program.next_place)
        for lane, expected, source in zip(lanes, places, sources, strict=True):
            awaited = self._add_wait(lane, source)
            merge = steps.merger(array, self._rank, source, **(self._command.static or {}))
            result = self._other if array is self._first else self._first
            self._add_check(lane, form, index, self._merge_other(array, result, source, index))
            coming = form.arrays_in(lane.incoming)[0][0, ...]
            used = self._add_merge(merge, array, coming, result)
            self._coming.append(Coming(lane, expected, awaited, used))
            self._result = result
        return True

    def _add_merge(
        self,
        merge: Merge,
        array: NDArray[Any],
        coming: NDArray[Any],
        result: NDArray[Any],
    ) -> int:
        """Make what the rank has and what has come one; the place where that is done."""
        program = self._program
        own, others, to = map(program.address, (array, coming, result))
        if merge.combine is None:
            return program.add(Code.PLACE, others, to, array.nbytes)
        loop = ufunc_loop(merge.ufunc, array.dtype)
        if loop is not None:
            pair = (others, own) if merge.comes_first else (own, others)
            words = np.array([*pair, to, array.size, *[array.itemsize] * 3], np.int64)
            return program.add(Code.COMBINE, loop.function, loop.data, program.address(words))
        place = program.add(Code.STOP)

        def detour(step: int) -> int:
            result[...] = merge(array, coming)
            return place + 1

        self._detours[place] = detour
        return place

    def _merge_other(
        self, array: NDArray[Any], result: NDArray[Any], source: int, later: int
    ) -> Callable[[int], int]:
        """A detour to merge a message that is of another form, or comes behind others."""
        following = self._program.next_place + 2  # behind the check and the merge

        def detour(step: int) -> int:
            payload = self._endpoint.receive(step + later, source)
            inbox = ValueInbox(self._rank, [source], [payload])
            steps, static = self._command.detail[1], self._command.static or {}
            result[...] = steps.combine(array, inbox, **static)
            return following

        return detour


def _message(array: NDArray[Any]) -> tuple[NDArray[Any]]:
    """A row of its own, which is copied into the message."""
    return (array[None],)


def _is_simple(endpoint: MpiEndpoint, rank: int, exchange: Exchange) -> bool:
    """Whether a round is at most one message out and one in, of ranks on other workers."""
    ends = exchange.destinations[rank], exchange.sources[rank]
    return all(len(others) <= 1 and endpoint.has_lanes(others) for others in ends)
