"""Every rank runs the text: the driver hands it over, and holds handles of what stays on the ranks.

    driver                         ranks, which live as long as the communicator
    comm.run(text, model, …)       ┌─ rank 0: text(its own communicator, its own model, …) ─┐
         ──── one request ───────▶ │      ⇅ messages                                        │
         ◀─── answers ──────────── └─ rank 3: the same text on its own model ───────────────┘
    handles, plain results, counts, errors

A call on the driver's communicator outside of `run` is a text of one call. A text that fails on one
rank is stopped on all of them, and the communicator goes on: messages carry the number of their
run, so nothing of it is mixed up with the next. A run fails at its end, too, if a rank was sent
what it did not await: as where each takes another rank for the root, and keeps a value of its own.
"""

from __future__ import annotations

import threading
import weakref
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from dask.sizeof import sizeof

from daskpart.collectives.communicator import Communicator, Pending, PerRank, Replicated
from daskpart.collectives.cost_measurement import known_cost_model, remember_cost_model
from daskpart.collectives.counters import RoundRecord
from daskpart.collectives.messages import Exchange
from daskpart.collectives.timeline import Span
from daskpart.collectives.values import is_no_part_of_a_value
from daskpart.errors import InputError, WorkerLostError

from . import handles
from .handles import Held, Number
from .mailbox import RunStopped
from .rank import Answer, Request, RoundShare

_FEW = 100  # values of a list that are looked at, each
_LARGE_BYTES = 100_000  # values beyond this are placed on the workers, not sent with the request


class RankedCommunicator(Communicator):
    """The driver's side of ranks that run texts; where they live, a subclass says."""

    ships_texts = True

    def __init__(self, n_ranks: int) -> None:
        super().__init__(n_ranks)
        self._run = 0
        self._n_values = 0
        self._known: weakref.WeakValueDictionary[Number, Held] = weakref.WeakValueDictionary()
        self._dropped: deque[Number] = deque()
        self._afresh = False
        self._broken: str | None = None
        self._one_run_at_a_time = threading.RLock()  # after a failure a run asks for another

    # -- what the transports differ in ---

    @abstractmethod
    def _execute(self, request: Request, own: dict[Number, list[bytes]]) -> list[Answer]:
        """Answers of all ranks, in rank order; the run is stopped on all before this raises."""

    def _placed(self, values: list[Any]) -> list[Any] | None:
        """Futures of large values, put where ranks are; None: of no use."""
        return None

    def _after_failure(self) -> None:
        """Clear away what a failed run left between the ranks, which are idle now."""

    # -- runs ---

    def run(self, text: Callable[..., Any], /, *values: Any, **static: Any) -> Any:
        """Execute an algorithm text on every rank; see `Communicator.run`."""
        self._require_open()
        return self._results(text, values, static)[0]

    def _results(
        self, text: Callable, values: Sequence[Any], static: dict, everyone: bool = False
    ) -> list[Any]:
        """What the text returns: of rank 0, or of every rank."""
        # two at once could come to the ranks in another order each
        if not self._one_run_at_a_time.acquire(blocking=False):
            raise InputError(
                "Ranks run one text at a time: a text uses the communicator that it is given, and "
                "a communicator serves one thread; give each its own."
            )
        try:
            return self._asked(text, values, static, everyone)
        finally:
            self._one_run_at_a_time.release()

    def _asked(
        self, text: Callable, values: Sequence[Any], static: dict, everyone: bool
    ) -> list[Any]:
        if self._broken is not None:
            raise WorkerLostError(f"The ranks are gone: {self._broken} Make a new communicator.")
        given: dict[int, PerRank] = {}
        call = handles.dumps((text, values, static), lambda thing: self._reference(thing, given))
        contents = {handle.content.number: handle.content for handle in given.values()}
        own = {n: held.unsent for n, held in contents.items() if held.unsent is not None}
        self._run += 1
        request = Request(
            run=self._run,
            call=call,
            keys={
                number: [future.key for future in held.placed]
                for number, held in contents.items()
                if held.placed is not None
            },
            dropped=tuple([self._dropped.popleft() for _ in range(len(self._dropped))]),
            everyone=everyone,
            recording=self.timeline is not None,
            cost_model=known_cost_model(self),
            afresh=self._afresh,
        )
        try:
            answers = self._execute(request, own)
        except BaseException:
            self._afresh = True  # and what was spent, the ranks will say when it is asked for
            raise
        for held in contents.values():  # the ranks have them now
            held.unsent = held.placed = None
        disagreement = self._count(answers)
        spent = set().union(*(answer.spent for answer in answers))
        for handle in given.values():
            handle.spent = handle.spent or handle.content.number in spent
        failed = [answer for answer in answers if answer.error is not None]
        self._afresh = bool(failed or disagreement)
        if self._afresh:
            error = self._error_of(failed) if failed else InputError(disagreement)
            if self._broken is None:
                self._after_failure()
            raise error
        if answers[0].cost_model is not None and answers[0].cost_model != request.cost_model:
            remember_cost_model(self, answers[0].cost_model)
        packed = [answer.result for answer in answers if answer.result is not None]
        return [handles.loads(result, self._resolved) for result in packed]

    def _reference(self, thing: Any, given: dict[int, PerRank]) -> Any:
        """What stands for a handle in a request."""
        owner = thing if isinstance(thing, Communicator) else thing.communicator
        if owner is not self:
            raise InputError("A value of another communicator can't be given to this one.")
        if isinstance(thing, Communicator):
            return ("communicator",)
        if isinstance(thing, Replicated):
            return ("replicated", thing.content)
        if isinstance(thing, PerRank):
            if thing.spent:
                raise InputError(
                    "A value was given to update or collect before, which may have overwritten "
                    "it, or was lost in a run that failed; use the value that was returned."
                )
            given[id(thing)] = thing
        return ("value", thing.content.number)

    def _resolved(self, reference: Any) -> Any:
        """The handle of what a text returned."""
        kind, *content = reference
        if kind == "communicator":
            return self
        if kind == "replicated":
            return Replicated(self, content[0])
        held = self._known.get(content[0]) or self._held(content[0])
        if kind == "pending":
            label, index = content[1:]
            return Pending(self, _ON_THE_RANKS, label, index, held)
        return PerRank(self, held)

    def _held(self, number: Number) -> Held:
        self._known[number] = held = Held(number, self._dropped)
        return held

    def _error_of(self, failed: list[Answer]) -> Exception:
        """The error of the lowest rank that failed itself, not because of another."""
        own = [answer for answer in failed if not isinstance(answer.error, RunStopped)]
        if own:
            error, others = own[0].error, [answer.rank for answer in own[1:]]
            assert error is not None
            if others:
                error.add_note(f"also failed: rank(s) {', '.join(map(str, others))}")
            return error
        self._broken = str(failed[0].error)
        return WorkerLostError(f"The run was stopped. {self._broken}")

    def _count(self, answers: Sequence[Answer]) -> str | None:
        """Add up what the ranks say that they sent, and how long they took; where they disagree."""
        for answer in answers:
            self._counters.seconds_computing[answer.rank] += answer.seconds_computing
            self._counters.seconds_blocked[answer.rank] += answer.seconds_blocked
            if self.timeline is not None:
                for span in answer.spans:
                    self.timeline.add(Span(answer.rank, *span))
        shares = [list(answer.shares) for answer in answers]
        known: dict[tuple[int, ...], RoundRecord] = {}
        disagreement = None
        # a failed run has unequal lengths: what was posted on every rank counts
        for places in zip(*[answer.rounds for answer in answers], strict=False):
            if places not in known:
                posted = [shares[r][place] for r, place in enumerate(places)]
                known[places] = _joined(posted)
                disagreement = disagreement or _disagreement(posted)
            self._counters.record(known[places])
        n_rounds = [len(answer.rounds) for answer in answers]
        if disagreement is None and min(n_rounds) < max(n_rounds):
            told = [f"rank {n_rounds.index(n)} in {n}" for n in (max(n_rounds), min(n_rounds))]
            disagreement = f"Ranks disagree on how many rounds there are: {', '.join(told)}."
        return disagreement

    # -- calls outside of run: texts of one call ---

    def _values(self, values: list[Any]) -> PerRank:
        if sum(map(_size_of, values)) > _LARGE_BYTES and (placed := self._placed(values)):
            return self._handed_out(placed=placed)
        # each apart: in one pickle two ranks could come to share an object
        return self._handed_out(unsent=[handles.dumps(value, _refused) for value in values])

    def _handed_out(self, unsent: Any = None, placed: Any = None) -> PerRank:
        """A value that the ranks take with the next run that uses it; see `Held`."""
        self._n_values += 1
        held = self._held((0, self._n_values))
        held.unsent, held.placed = unsent, placed
        return PerRank(self, held)

    def _map(
        self,
        function: Callable,
        state: PerRank | None,
        values: Sequence[Any],
        static: dict,
        pending: Pending | None = None,
    ) -> PerRank:
        if pending is not None:
            return self.run(_call, "collect", pending, state, function, *values, static=static)
        if state is None:
            return self.run(_call, "map", function, *values, static=static)
        return self.run(_call, "update", function, state, *values, static=static)

    def _post(self, pending: Pending, values: PerRank, pack: Callable) -> Held:
        sent = (pending.round, values, pack)
        if isinstance(pending.round, Exchange):
            return self.run(_call, "post_values", *sent, pending.label, pending.index).content
        return self.run(_call, "post", *sent).content

    def _fold(self, values: PerRank, function: Callable, label: str, static: dict) -> Replicated:
        return self.run(_call, "fold", values, function, label, static=static)

    def _assume_replicated(self, values: PerRank) -> Replicated:
        return self.run(_call, "assume_replicated", values)

    def _gather(self, values: PerRank) -> list[Any]:
        return self._results(_own_value, (values,), {}, everyone=True)


# what a pending round is at the driver: the ranks hold it
_ON_THE_RANKS = Exchange.from_pairs(1, [])


def _call(comm: Communicator, method: str, *arguments: Any, static: dict | None = None) -> Any:
    """The text of one call."""
    return getattr(comm, method)(*arguments, **(static or {}))


def _own_value(comm: Communicator, values: PerRank) -> Any:
    return values.content


def _size_of(value: Any) -> int:
    """Bytes of a value, about; Dask's `sizeof` does not look into dataclasses."""
    if is_dataclass(value) and not isinstance(value, type):
        return sum(_size_of(getattr(value, each.name)) for each in fields(value))
    if isinstance(value, (tuple, list)) and len(value) <= _FEW:  # long ones are of small things
        return sum(map(_size_of, value))
    return sizeof(value)


def _refused(thing: Any) -> Any:
    raise is_no_part_of_a_value(thing)


def blamed(answers: list[Answer], reason: str) -> list[Answer]:
    """Answers of ranks that the driver stopped because they could not go on, with this error."""
    for answer in answers:
        if isinstance(answer.error, RunStopped):
            answer.error = InputError(reason)
            break
    return answers


def _joined(shares: list[RoundShare]) -> RoundRecord:
    """A round, of what each rank sent."""
    first = shares[0]
    return RoundRecord(
        first.label,
        first.round_index,
        [rank for rank, share in enumerate(shares) for _ in share.destinations],
        [other for share in shares for other in share.destinations],
        [rows for share in shares for rows in share.rows],
        [nbytes for share in shares for nbytes in share.nbytes],
    )


def _disagreement(shares: list[RoundShare]) -> str | None:
    """A message of a round that only one of its two ranks knows of, in words."""
    sent = {(rank, other) for rank, share in enumerate(shares) for other in share.destinations}
    awaited = {(other, rank) for rank, share in enumerate(shares) for other in share.sources}
    for source, destination in sorted(sent ^ awaited):
        where = f"Ranks disagree in {shares[0].label} {shares[0].round_index}"
        if (source, destination) in sent:
            return f"{where}: rank {source} sent to rank {destination}, which awaits nothing."
        return f"{where}: rank {destination} awaits a message of rank {source}, which sent none."
    return None
