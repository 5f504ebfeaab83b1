"""Exchanges of few rows over MPI, made ready once and run many times.

    state ──rows──▶ letter ══ lane ══▶ every destination       step and rows are all that changes
          ◀─rows── where they arrive ◀═════ their letters

As for short swaps, what travels is what other ways of an exchange would send.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskpart.collectives.prepared import RankMessages, open_inbox

from .mpi_group import Lane
from .mpi_messages import Form, form_of, has_start
from .spmd_batch import Answer, Command, RoundShare

if TYPE_CHECKING:
    from .mpi import MpiEndpoint

Positions = slice | NDArray[np.int64]


class ShortExchange:
    """One rank's share of the exchanges of a batch that are alike: the same rows of such a state.

    Parameters
    ----------
    endpoint : MpiEndpoint
    command : Command
        One of those exchanges; see `spmd_rows.only_places_rows`.
    like : ndarray
        Such a state.
    answer : Answer
        Of the batch.
    messages : RankMessages
    """

    def __init__(
        self,
        endpoint: MpiEndpoint,
        command: Command,
        like: NDArray[Any],
        answer: Answer,
        messages: RankMessages,
    ) -> None:
        _, _, label, index, _ = command.detail
        self._endpoint, self._answer, self._messages = endpoint, answer, messages
        self._combine = command.function
        self._out = [
            _Out(endpoint.lane(other), other, _form(like, positions), _shortest(positions, run))
            for other, positions, run in zip(
                messages.destinations, messages.out_positions, messages.out_runs, strict=True
            )
        ]
        self._in = [
            _In(endpoint.lane(other), other, _form(like, positions), _shortest(positions, run))
            for other, positions, run in zip(
                messages.sources, messages.in_positions, messages.in_runs, strict=True
            )
        ]
        rows = tuple(map(len, messages.out_positions))
        row_bytes = like.dtype.itemsize * int(np.prod(like.shape[1:]))
        nbytes = tuple([n * row_bytes for n in rows])
        share = RoundShare(label, index, tuple(messages.destinations), rows, nbytes)
        self._number = answer.shares.setdefault(share, len(answer.shares))

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
        if state.dtype.hasobject or not state.ndim:
            return None
        if not endpoint.has_lanes([*messages.destinations, *messages.sources]):
            return None
        for positions in (*messages.out_positions, *messages.in_positions):
            if positions.max(initial=-1) >= len(state) or _form(state, positions).beside:
                return None
        return cls(endpoint, command, state, answer, messages)

    def run(self, step: int, state: NDArray[Any], begin: float) -> NDArray[Any]:
        """The state with the rows that came, in place; `begin` is when the exchange began."""
        endpoint, answer, blocked, simple = self._endpoint, self._answer, 0.0, True
        for coming in self._in:
            coming.lane.expect()
        for out in self._out:
            letter, rows = out.letter, state[out.positions]
            if letter is None or not letter.send(step, (rows,)):
                endpoint.send(step, out.destination, np.array(rows))  # a slice would change
        answer.rounds.append(self._number)
        for coming in self._in:
            lane = coming.lane
            if not lane.come and not lane.test():
                waiting = perf_counter()
                endpoint.wait_for(lane, coming.source)
                blocked += perf_counter() - waiting
            lane.come = True
            simple = simple and has_start(lane.incoming, step, coming.form)
        if not simple:
            state = self._placed(state, step)
        else:
            for coming in self._in:
                state[coming.positions] = coming.array
                coming.lane.taken()
        answer.seconds_blocked += blocked
        answer.seconds_computing += perf_counter() - begin - blocked
        return state

    def _placed(self, state: NDArray[Any], step: int) -> NDArray[Any]:
        """Place the rows of messages one of which is of another form, or comes behind others."""
        payloads = [self._endpoint.receive(step, source) for source in self._messages.sources]
        assert self._combine is not None
        return self._combine(state, open_inbox(self._messages, payloads))


class _Out:
    """Where rows go, what with, and which."""

    __slots__ = ("destination", "letter", "positions")

    def __init__(self, lane: Lane, destination: int, form: Form, positions: Positions) -> None:
        self.destination, self.positions = destination, positions
        self.letter = lane.letter(form)  # None where there are too many


class _In:
    """Where rows arrive, and where they belong."""

    __slots__ = ("array", "form", "lane", "positions", "source")

    def __init__(self, lane: Lane, source: int, form: Form, positions: Positions) -> None:
        self.lane, self.source, self.form, self.positions = lane, source, form, positions
        (self.array,) = form.arrays_in(lane.incoming)


def _shortest(positions: NDArray[np.int64], run: slice | None) -> Positions:
    """A slice is quicker than an array."""
    return positions if run is None else run


def _form(state: NDArray[Any], positions: NDArray[np.int64]) -> Form:
    return form_of("array", ((state.dtype, (len(positions), *state.shape[1:])),))
