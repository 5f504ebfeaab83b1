"""What a batch is made of: commands to the ranks, and their answers, which are counted here.

driver ──[Command, Command, …]──▶ every rank ──Answer──▶ counters, timeline
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from distributed.protocol.pickle import dumps

from daskpart.collectives.counters import Counters
from daskpart.collectives.prepared import PreparedRound
from daskpart.collectives.timeline import Span, Timeline
from daskpart.collectives.traffic import RoundRecord

HANDED_OUT = ("hold", "fetch_value")  # kinds of commands whose values come from the driver
KINDS = (
    *HANDED_OUT, "connect", "record", "map", "update", "post", "collect", "exchange",
    "post_values", "collect_values", "swap", "fold", "agreed", "gather",
)  # fmt: skip
OVERWRITING = ("update", "collect", "exchange", "collect_values", "agreed")


class Command(NamedTuple):
    """One communicator call.

    Attributes
    ----------
    kind : one of KINDS
        Name of the method of `Rank` that executes it.
    step : int
        Number of the call, and of the value that it makes; rises through the whole run.
    inputs : tuple of int
        Numbers of the values it takes; of those in `OVERWRITING` the first is overwritten.
    function : callable or None
    static : dict or None
    detail : object
        For messages ``(number of the messages, slot, label, index, step of the post)``, where None
        is this very step; of an "exchange", a post and its collect at once, ``(number of the
        messages, slot, label, index, pack)``; for values ``(destinations of each rank, label,
        index)`` and ``(sources of each rank, label, step of the post)``; for a swap ``(exchanges,
        steps, label)``, whose messages have this step and those after it; for a fold its label; for
        "fetch_value" the keys of the ranks' values on their workers; for "hold" a plain value.
    dropped : tuple of int
        Numbers of values that nobody needs any more; they go before the command is executed.
    """

    kind: str
    step: int
    inputs: tuple[int, ...] = ()
    function: Callable[..., Any] | None = None
    static: dict[str, Any] | None = None
    detail: Any = None
    dropped: tuple[int, ...] = ()


def packed_commands(commands: list[Command]) -> bytes:
    """A batch for the ranks: field by field, which is quicker than call by call."""
    return dumps(tuple(zip(*commands, strict=True)))


def unpacked_commands(packed: bytes) -> list[Command]:
    """The way back of `packed_commands`."""
    return [*map(Command._make, zip(*pickle.loads(packed), strict=True))]


class RoundShare(NamedTuple):
    """What one rank sent in one round, to each destination."""

    label: str
    round_index: int
    destinations: tuple[int, ...]
    rows: tuple[int, ...]
    nbytes: tuple[int, ...]


@dataclass
class Answer:
    """What a rank says at the end of a batch.

    Attributes
    ----------
    done : int
        Commands executed; all, or those before the one that failed.
    error : Exception or None
    gathered : dict from value number to value
        What was asked for; on rank 0 also what the folds gave.
    rounds : list of int
        One a round that was posted: its share's number in `shares`. All ranks execute the same
        calls, so place i is the same round on every rank.
    """

    rank: int
    done: int = 0
    error: Exception | None = None
    gathered: dict[int, Any] = field(default_factory=dict)
    rounds: list[int] = field(default_factory=list)
    shares: dict[RoundShare, int] = field(default_factory=dict)
    seconds_computing: float = 0.0
    seconds_blocked: float = 0.0
    spans: list[tuple] = field(default_factory=list)  # kind, name, begin, end, bytes

    def sent(self, share: RoundShare) -> None:
        """Note what was sent in a round; the same things are sent again and again."""
        self.rounds.append(self.shares.setdefault(share, len(self.shares)))


class Repeated:
    """Details of the calls of a batch: for calls that are alike the very same objects.

    So they are sent once, and a rank sees at a glance that nothing has changed.
    """

    def __init__(self) -> None:
        self._known: dict[tuple, tuple[dict[str, Any] | None, tuple]] = {}

    def same(self, detail: tuple, static: dict[str, Any]) -> tuple[dict[str, Any] | None, tuple]:
        """The static arguments and the detail of a call, or those of one before of the same."""
        key = (*map(id, detail), *static, *map(id, static.values()))
        return self._known.setdefault(key, (static or None, detail))  # which keeps the ids taken

    def forget(self) -> None:
        """The batch is over."""
        self._known.clear()


def addressed(prepared_round: PreparedRound) -> tuple[int, int, str, int]:
    """Where ranks find their messages of a round, and what it is called."""
    number = prepared_round.messages.content.number
    return number, prepared_round.slot, prepared_round.label, prepared_round.index


def count_answers(
    counters: Counters, answers: list[Answer], timeline: Timeline | None = None
) -> None:
    """Add up what the ranks say that they sent, and how long they took."""
    for answer in answers:
        counters.seconds_computing[answer.rank] += answer.seconds_computing
        counters.seconds_blocked[answer.rank] += answer.seconds_blocked
        if timeline is not None:
            for span in answer.spans:
                timeline.add(Span(answer.rank, *span))
    shares = [list(answer.shares) for answer in answers]
    known: dict[tuple[int, ...], RoundRecord] = {}
    # a failed batch has unequal lengths: what was posted on every rank counts
    for numbers in zip(*[answer.rounds for answer in answers], strict=False):
        if numbers not in known:
            known[numbers] = _joined([shares[r][n] for r, n in enumerate(numbers)])
        counters.record(known[numbers])


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
