"""Swaps of small arrays over MPI, made ready once and run many times.

    every round    array ─▶ letter ══ lane ══▶ neighbour        step and array are all that changes
                   merge ◀─ where it arrives ◀═════ its letter

What travels is what other ways of a swap would send, so whether a rank goes this way is its own
affair. Where a message of another form or step is on the lane, it is read in the ordinary way.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from daskpart.collectives.exchange import Exchange, ValueInbox
from daskpart.collectives.swapping import Merge

from .mpi_group import Lane, Letter
from .mpi_messages import Form, form_of, has_start
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
    like : ndarray
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
        like: NDArray[Any],
        answer: Answer,
        turns: list[_Turn],
    ) -> None:
        self._endpoint, self._rank, self._answer, self._turns = endpoint, rank, answer, turns
        self._command, self._dtype, self._shape = command, like.dtype, like.shape

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
        if not all(isinstance(value, Hashable) for value in (command.static or {}).values()):
            return None  # such as arrays, which do not say whether they are equal
        exchanges, steps, label = command.detail
        if not _is_simple(endpoint, rank, exchanges):
            return None
        form, turns = form_of("tuple", ((array.dtype, (1, *array.shape)),)), []
        if form.beside:
            return None
        for index, exchange in enumerate(exchanges):
            to, sources = tuple(exchange.destinations[rank]), exchange.sources[rank]
            share = RoundShare(label, index, to, (1,) * len(to), (array.nbytes,) * len(to))
            turn = _Turn(answer.shares.setdefault(share, len(answer.shares)), form)
            for other in to:
                turn.send_to(other, endpoint.lane(other))
            for other in sources:
                merge = steps.merger(array, rank, other, **(command.static or {}))
                turn.receive_from(other, endpoint.lane(other), merge)
            turns.append(turn)
        return cls(endpoint, rank, command, array, answer, turns)

    def serves(self, command: Command, array: NDArray[Any]) -> bool:
        """Whether this is the way for another swap of the batch."""
        return (
            command.detail == self._command.detail
            and command.static == self._command.static
            and array.shape == self._shape
            and array.dtype == self._dtype
        )

    def run(self, first_step: int, array: NDArray[Any], begin: float) -> NDArray[Any]:
        """The array that all rounds end with; `begin` is when the swap began."""
        rounds, step, blocked = self._answer.rounds, first_step, 0.0
        for turn in self._turns:
            lane = turn.lane
            if lane is not None:
                lane.expect()
            if turn.destination is not None and not turn.sent(step, array):
                self._endpoint.send(step, turn.destination, (array[None],))
            rounds.append(turn.number)
            if lane is not None:
                if not lane.has_come():
                    waiting = perf_counter()
                    self._endpoint.wait_for(lane, step, turn.source)
                    blocked += perf_counter() - waiting
                if lane.come and turn.is_ours(step):
                    array = turn.merge(array, turn.array)
                    lane.taken()
                else:
                    array = self._merged(array, step, turn.source)
            step += 1
        answer = self._answer
        answer.seconds_blocked += blocked
        answer.seconds_computing += perf_counter() - begin - blocked
        return array

    def _merged(self, array: NDArray[Any], step: int, source: int) -> NDArray[Any]:
        """Merge a message that is of another form, or came before."""
        payload = self._endpoint.receive(step, source)
        inbox = ValueInbox(self._rank, [source], [payload])
        steps, static = self._command.detail[1], self._command.static or {}
        return steps.combine(array, inbox, **static)


class _Turn:
    """One round of a rank: where a message goes and what with, and where one arrives.

    Parameters
    ----------
    number : int
        Of what it sends, in the answer.
    form : Form
        Of what is sent and arrives.
    """

    __slots__ = ("array", "destination", "form", "lane", "letter", "merge", "number", "source")

    def __init__(self, number: int, form: Form) -> None:
        self.number, self.form = number, form
        self.destination: int | None = None
        self.letter: Letter | None = None  # None where nothing goes, or there are too many
        self.lane: Lane | None = None  # None where nothing comes

    def send_to(self, destination: int, lane: Lane) -> None:
        """Make ready to send."""
        self.destination, self.letter = destination, lane.letter(self.form)

    def receive_from(self, source: int, lane: Lane, merge: Merge) -> None:
        """Make ready to find arrays where messages arrive."""
        self.source, self.lane, self.merge = source, lane, merge
        self.array = self.form.arrays_in(lane.incoming)[0][0, ...]

    def sent(self, step: int, array: NDArray[Any]) -> bool:
        """Whether the message could be begun to be sent with what is ready."""
        return self.letter is not None and self.letter.send(step, (array,))

    def is_ours(self, step: int) -> bool:
        """Whether what has come is the message of this step, and of the expected form."""
        assert self.lane is not None
        return has_start(self.lane.incoming, step, self.form)


def _is_simple(endpoint: MpiEndpoint, rank: int, exchanges: Sequence[Exchange]) -> bool:
    """Whether every round is at most one message out and one in, of ranks on other workers."""
    return all(
        len(others) <= 1 and endpoint.has_lanes(others)
        for exchange in exchanges
        for others in (exchange.destinations[rank], exchange.sources[rank])
    )
