"""Exchanges of few rows over MPI, made ready once and run many times.

    state ──rows──▶ letter ══ lane ══▶ every destination       step and rows are all that changes
          ◀─rows── where they arrive ◀═════ their letters

All messages have arrived before the first row is placed: where one is not as expected, all are read
in the ordinary way.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskpart.collectives.prepared import RankMessages, open_inbox

from .mpi_machine import Code, machine
from .mpi_messages import Form, form_of
from .mpi_short import Coming, ShortCall
from .spmd_batch import Answer, Command, RoundShare

if TYPE_CHECKING:
    from .mpi import MpiEndpoint


_TAKE, _PLACE = (Code.TAKE, Code.TAKE_ROWS), (Code.PLACE, Code.PLACE_ROWS)


class ShortExchange(ShortCall):
    """Exchanges of the same rows of states of one shape and dtype; see `ShortCall`.

    Parameters
    ----------
    endpoint : MpiEndpoint
    answer : Answer
    command : Command
        One of those exchanges; see `spmd_rows.only_places_rows`.
    like : ndarray
        Such a state.
    messages : RankMessages
    """

    def __init__(
        self,
        endpoint: MpiEndpoint,
        answer: Answer,
        command: Command,
        like: NDArray[Any],
        messages: RankMessages,
    ) -> None:
        super().__init__(endpoint, answer)
        _, _, label, index, _ = command.detail
        self._messages, self._place = messages, command.function
        self._state: Callable[[], NDArray[Any] | None] = _nothing  # whose address the program has
        self._row_bytes = like.dtype.itemsize * int(np.prod(like.shape[1:]))
        rows = tuple(map(len, messages.out_positions))
        nbytes = tuple([n * self._row_bytes for n in rows])
        share = RoundShare(label, index, tuple(messages.destinations), rows, nbytes)
        self._numbers = [answer.shares.setdefault(share, len(answer.shares))]

    @classmethod
    def ready(
        cls,
        endpoint: MpiEndpoint,
        command: Command,
        state: NDArray[Any],
        answer: Answer,
        messages: RankMessages,
    ) -> ShortExchange | None:
        """Made ready; None where the rows are too many, or go to a rank of this worker."""
        run = machine()
        if run is None or state.dtype.hasobject or not state.ndim:
            return None
        if not endpoint.has_lanes([*messages.destinations, *messages.sources]):
            return None
        for positions in (*messages.out_positions, *messages.in_positions):
            if positions.max(initial=-1) >= len(state) or _form(state, positions).beside:
                return None
        call = cls(endpoint, answer, command, state, messages)
        if not call._add_all(state):
            call.close()
            return None
        call._program.finish(run)
        return call

    def run(self, step: int, state: NDArray[Any], begin: float) -> NDArray[Any]:
        """The state with the rows that came, in place; `begin` is when the exchange began."""
        try:
            if self._state() is not state:
                self._state = weakref.ref(state)
                self._program.set_memory(state.ctypes.data)
            self._run(step)
            return state
        finally:
            self._answer.seconds_computing += perf_counter() - begin

    def _add_all(self, state: NDArray[Any]) -> bool:
        """Whether it could be: no lane is in an unusual state, and there are letters."""
        messages, lanes = self._messages, [*map(self._endpoint.lane, self._messages.sources)]
        if any(lane.expecting for lane in lanes):
            return False
        expected = [self._add_expect(lane) for lane in lanes]
        for destination, positions, run in zip(
            messages.destinations, messages.out_positions, messages.out_runs, strict=True
        ):
            letter = self._endpoint.lane(destination).letter(_form(state, positions))
            if letter is None:
                return False
            payload = partial(self._rows, positions)
            self._add_send(letter, self._copy(_TAKE, positions, run), 0, destination, payload)
        self._posted = [self._program.next_place]
        awaited = [*map(self._add_wait, lanes, messages.sources)]
        forms = [_form(state, positions) for positions in messages.in_positions]
        for lane, form in zip(lanes, forms, strict=True):
            self._add_check(lane, form, 0, self._place_others)
        for lane, form, positions, run, begin, end in zip(
            lanes, forms, messages.in_positions, messages.in_runs, expected, awaited, strict=True
        ):
            code, *operands = self._copy(_PLACE, positions, run)
            (coming,) = form.arrays_in(lane.incoming)
            used = self._program.add(Code(code), self._program.address(coming), *operands)
            self._coming.append(Coming(lane, begin, end, used))
        self._end = self._program.next_place
        return True

    def _copy(
        self, codes: tuple[Code, Code], positions: NDArray[np.int64], run: slice | None
    ) -> tuple[int, ...]:
        """An instruction to copy these rows, but for the address of the message."""
        of_run, of_rows = codes
        if run is not None:
            return of_run, run.start * self._row_bytes, len(positions) * self._row_bytes
        address = self._program.address(np.ascontiguousarray(positions, np.int64))
        return of_rows, address, len(positions), self._row_bytes

    def _rows(self, positions: NDArray[np.int64]) -> NDArray[Any]:
        """To be sent in the ordinary way."""
        state = self._state()
        assert state is not None  # the caller's
        return state[positions]

    def _place_others(self, step: int) -> int:
        """A detour to place the rows of messages one of which is of another form or step."""
        payloads = [self._endpoint.receive(step, source) for source in self._messages.sources]
        assert self._place is not None
        self._place(self._state(), open_inbox(self._messages, payloads))
        return self._end


def _nothing() -> None:
    """Where no state was taken up yet."""


def _form(state: NDArray[Any], positions: NDArray[np.int64]) -> Form:
    return form_of("array", ((state.dtype, (len(positions), *state.shape[1:])),))
