"""Swaps of small arrays over MPI, made ready once and run many times.

    every round    array ─▶ letter ══ lane ══▶ neighbour        step and array are all that changes
                   merge ◀─ where it arrives ◀═════ its letter

What travels is what other ways of a swap would send, so whether a rank goes this way is its own
affair. Where a message of another form or step is on the lane, it is read in the ordinary way.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskpart.collectives.exchange import Exchange, ValueInbox

from .mpi_group import Lane, Letter
from .mpi_messages import STEP_BYTES, form_of, read_step, write_step
from .spmd_batch import Answer, Command, RoundShare

if TYPE_CHECKING:
    from .mpi import MpiEndpoint


class ShortSwap:
    """One rank's share of the swaps of a batch that are alike: arrays of one shape and dtype.

    Parameters
    ----------
    endpoint : MpiEndpoint
    rank : int
    command : Command
        One of those swaps.
    answer : Answer
        Of the batch.
    turns : list of _Turn
        One a round.
    """

    def __init__(
        self,
        endpoint: MpiEndpoint,
        rank: int,
        command: Command,
        answer: Answer,
        turns: list[_Turn],
    ) -> None:
        self._endpoint, self._rank, self._command = endpoint, rank, command
        self._answer, self._turns = answer, turns

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
        if array.dtype.hasobject or not array.nbytes:
            return None
        exchanges, steps, label = command.detail
        if not _is_simple(endpoint, rank, exchanges):
            return None
        form, turns = form_of("tuple", ((array.dtype, (1, *array.shape)),)), []
        if form.beside:
            return None
        for index, exchange in enumerate(exchanges):
            to, sources = tuple(exchange.destinations[rank]), exchange.sources[rank]
            share = RoundShare(label, index, to, (1,) * len(to), (array.nbytes,) * len(to))
            turn = _Turn(answer.shares.setdefault(share, len(answer.shares)), form.opening)
            for other in to:
                turn = turn._replace(destination=other, letter=endpoint.lane(other).letter(form))
            for other in sources:
                lane = endpoint.lane(other)
                merge = steps.merger(array, rank, other, **(command.static or {}))
                turn = turn._replace(
                    source=other, lane=lane, coming=form.arrays_in(lane.incoming)[0][0, ...],
                    combine=merge.combine or _taken, comes_first=merge.comes_first,
                )  # fmt: skip
            turns.append(turn)
        return cls(endpoint, rank, command, answer, turns)

    def run(self, first_step: int, array: NDArray[Any], begin: float) -> NDArray[Any]:
        """The array that all rounds end with; `begin` is when the swap began."""
        # one loop with few calls: where ranks take turns on a core, a rank finds what it touches
        # no longer in the caches, and that is most of its time
        answer, step, blocked = self._answer, first_step, 0.0
        for (number, opening, destination, letter, source, lane, coming, combine,
             comes_first) in self._turns:  # fmt: skip
            if lane is not None and not lane.expecting:
                lane.start()
                lane.expecting = True
            if letter is not None and letter.request is not None and letter.test():
                write_step(letter.buffer, 0, step)
                letter.places[0][...] = array
                letter.start()
            elif destination is not None:
                self._endpoint.send(step, destination, (array[None],))
            answer.rounds.append(number)
            if lane is not None:
                if not lane.come and not lane.test():
                    waiting = perf_counter()
                    self._endpoint.wait_for(lane, source)
                    blocked += perf_counter() - waiting
                incoming = lane.incoming
                if read_step(incoming)[0] == step and incoming.startswith(opening, STEP_BYTES):
                    lane.expecting = lane.come = False
                    array = combine(coming, array) if comes_first else combine(array, coming)
                else:
                    lane.come = True
                    array = self._merged(array, step, source)
            step += 1
        answer.seconds_blocked += blocked
        answer.seconds_computing += perf_counter() - begin - blocked
        return array

    def _merged(self, array: NDArray[Any], step: int, source: int) -> NDArray[Any]:
        """Merge a message that is of another form, or comes behind others."""
        payload = self._endpoint.receive(step, source)
        inbox = ValueInbox(self._rank, [source], [payload])
        steps, static = self._command.detail[1], self._command.static or {}
        return steps.combine(array, inbox, **static)


class _Turn(NamedTuple):
    """One round of a rank: where a message goes and what with, and where one arrives.

    Attributes
    ----------
    number : int
        Of what it sends, in the answer.
    opening : bytes
        Of the form of what is sent and arrives.
    destination : int or None
        None where nothing goes.
    source : int
    letter : Letter or None
        None also where there are too many.
    lane : Lane or None
        None where nothing comes.
    coming : ndarray or None
        Where the array arrives.
    combine, comes_first
        As of a `Merge`.
    """

    number: int
    opening: bytes
    destination: int | None = None
    letter: Letter | None = None
    source: int = -1
    lane: Lane | None = None
    coming: NDArray[Any] | None = None
    combine: Any = None
    comes_first: bool = False


def _taken(array: NDArray[Any], coming: NDArray[Any]) -> NDArray[Any]:
    """What comes, in place of what is there; fresh."""
    return np.array(coming)


def _is_simple(endpoint: MpiEndpoint, rank: int, exchanges: Sequence[Exchange]) -> bool:
    """Whether every round is at most one message out and one in, of ranks on other workers."""
    return all(
        len(others) <= 1 and endpoint.has_lanes(others)
        for exchange in exchanges
        for others in (exchange.destinations[rank], exchange.sources[rank])
    )
