"""Swaps of small arrays over MPI, made ready once and run many times.

    every round    array ─▶ letter ══ lane ══▶ neighbour        step and array are all that changes
                   merge ◀─ where it arrives ◀═════ its letter

What travels is what other ways of a swap would send, so whether a rank goes this way is its own
affair. Where a message of another form or step is on the lane, it is read in the ordinary way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskpart.collectives.exchange import Exchange

from .mpi_group import Lane, Letter
from .mpi_messages import Outgoing, array_in, form_of, has_form, step_in
from .spmd_batch import Answer

if TYPE_CHECKING:
    from .mpi import MpiEndpoint

SHORT_BYTES = 4096


class _Arrival(NamedTuple):
    """Where messages of the expected form arrive on a lane."""

    lane: Lane
    source: int
    form: bytes
    step: NDArray[np.int64]
    array: NDArray[Any]


class _Departure(NamedTuple):
    """Where a message goes, and what it is sent with if there is something ready."""

    destination: int
    letter: Letter | None


class ShortSwap:
    """One rank's share of a swap of arrays of one shape and dtype.

    Parameters
    ----------
    endpoint : MpiEndpoint
    rank : int
    turns : list of pairs of _Departure and _Arrival
        One a round; None where nothing goes or comes.
    """

    def __init__(
        self,
        endpoint: MpiEndpoint,
        rank: int,
        turns: list[tuple[_Departure | None, _Arrival | None]],
    ) -> None:
        self._endpoint, self._rank, self._turns = endpoint, rank, turns

    @classmethod
    def ready(
        cls, endpoint: MpiEndpoint, rank: int, exchanges: Sequence[Exchange], array: NDArray[Any]
    ) -> ShortSwap | None:
        """Made ready; None where the array, or who sends to whom, is not of the simple kind."""
        if array.dtype.hasobject or not 0 < array.nbytes <= SHORT_BYTES:
            return None
        turns: list[tuple[_Departure | None, _Arrival | None]] = []
        row = array[None]
        message = Outgoing((row,))
        for exchange in exchanges:
            destinations, sources = exchange.destinations[rank], exchange.sources[rank]
            if len(destinations) > 1 or len(sources) > 1:
                return None
            if not endpoint.has_lanes([*destinations, *sources]):
                return None
            departure = arrival = None
            for other in destinations:
                departure = _Departure(other, endpoint.lane(other).letter(message, row))
            for other in sources:
                lane = endpoint.lane(other)
                places = (
                    step_in(lane.incoming),
                    array_in(lane.incoming, message.header, row)[0, ...],
                )
                arrival = _Arrival(lane, other, form_of(message), *places)
            turns.append((departure, arrival))
        return cls(endpoint, rank, turns)

    def run(
        self,
        first_step: int,
        array: NDArray[Any],
        merge: Callable[..., NDArray[Any]],
        static: dict[str, Any],
        posted: Sequence[int],
        answer: Answer,
    ) -> NDArray[Any]:
        """The array that all rounds end with; `posted` are the numbers of their shares."""
        for index, (departure, arrival) in enumerate(self._turns):
            step = first_step + index
            if arrival is not None:
                arrival.lane.expect()
            if departure is not None:
                destination, letter = departure
                if letter is None or not letter.send(step, array):
                    self._endpoint.send(step, destination, (array[None],))
            answer.rounds.append(posted[index])
            if arrival is not None:
                begin = perf_counter()
                other = self._received(step, arrival)
                come = perf_counter()
                array = merge(array, other, self._rank, arrival.source, **static)
                answer.seconds_blocked += come - begin
                answer.seconds_computing += perf_counter() - come
        return array

    def _received(self, step: int, arrival: _Arrival) -> NDArray[Any]:
        lane, source, form, arrived_step, array = arrival
        if self._endpoint.wait_for(lane, step, source) and arrived_step[0] == step:
            if has_form(lane.incoming, form):
                own = array.copy()
                lane.taken()
                return own
        return self._endpoint.receive(step, source)[0][0]
