"""Hypercube plans: a sparse expand or reduce rides inside the rounds of a dense allreduce.

    item of owner 1, touched by 1, 2, 6, 7              5 ranks: rank 4 folds onto rank 0

    round 0 (bit 0)    001 ──▶ 000                      fold in     4 ──▶ 0
    round 1 (bit 1)    001 ──▶ 011    000 ──▶ 010       bits 0, 1   among 0, 1, 2, 3
    round 2 (bit 2)    011 ──▶ 111    010 ──▶ 110       fold out    0 ──▶ 4

Left: Fig. 1 of Abubaker et al. (latency hiding in sparse tensor decomposition), here their §4.
K = 2^D ranks are the corners of a hypercube; in round d every rank exchanges one message with the
rank whose number differs in bit d. An expand goes in increasing order of bits (E-cube routing); the
reduce is the expand reversed, so it goes in decreasing order, and what a rank sends in one it
receives in the other (Theorem 1). Ranks 0 and 3 above only forward: they need room for the row.

    naive (§4.1)   each (row, destination) pair travels alone, one row often in a message
    aware (§4.2)   a row is in a message at most once; on a reduce, copies that meet are combined

As the messages of a dense allreduce travel anyway, each rank handles ⌈log2 K⌉ messages an expand
or reduce, however sparse, and the small dense payload (column norms, a Gram matrix) needs none of
its own. For other K the ranks from 2^⌊log2 K⌋ on fold onto a partner in one more round before and
one after.

Concurrent volume (§5): copies of one row that move in the same round count once. With K a power of
two and the owner among the sharers it is the number of bits in which the sharers differ,
popcount(OR & ~AND), whichever of them is the owner. An owner elsewhere counts like one more sharer
(so it may add bits, never take any away). A fold is one more round in which a row may move.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.archive import opened_npz
from daskpart._floor.checks import require_like, whole_number
from daskpart._floor.distinct import distinct
from daskpart.errors import InputError

from .plan import Plan, Round
from .sparse_steps import Step, pairs_of, steps_of


@dataclass(frozen=True, repr=False)
class EmbeddedPlan(Plan):
    """A one-round plan that goes through the rounds of a hypercube; made by `embed`.

    Its rounds are over *routed rows*: the items themselves where the embedding is aware, else one
    row a transfer, numbered in order of (owner, sharer, item). Payload rows follow them.

    Attributes
    ----------
    carried : Plan
        The point-to-point plan whose rows arrive.
    aware : bool
    payload_rows : int
        Rows of dense payload in every message.
    every_message : bool
        Whether messages without rows are kept.
    """

    carried: Plan = field(kw_only=True)
    aware: bool = field(kw_only=True)
    payload_rows: int = field(kw_only=True)
    every_message: bool = field(kw_only=True)

    def reversed(self) -> EmbeddedPlan:
        """The dual embedding: Theorem 1 holds by construction."""
        opposite = super().reversed()
        return replace(
            self, kind=opposite.kind, rounds=opposite.rounds, carried=self.carried.reversed()
        )

    @property
    def n_routed(self) -> int:
        """Routed rows, without the payload rows."""
        return self.n_items - self.payload_rows

    @property
    def forward_rows(self) -> NDArray[np.int64]:
        """Rows that each rank only forwards, int64[n_ranks]: the size of its forward buffer.

        Equal for an expand and its reduce: duality halves the storage (§4.3).
        """
        outward = "received" if self.kind == "expand" else "sent"
        routed, direct = self.statistics(), self.carried.statistics()
        passing = routed.per_rank(f"rows_{outward}") - direct.per_rank(f"rows_{outward}")
        return passing - self.payload_rows * routed.per_rank(f"messages_{outward}")

    def items_of(self, routed: NDArray[np.int32]) -> NDArray[np.int32]:
        """Items of routed rows; payload rows are left out."""
        rows = routed[routed < self.n_routed]
        return rows if self.aware else _outward(self.carried).rounds[0].items[rows]

    def carried_rows(self) -> Round:
        """The round of `carried` with routed rows instead of items."""
        if self.aware:
            return self.carried.rounds[0]
        entry = _outward(self.carried).rounds[0]
        numbers = np.arange(entry.n_rows, dtype=np.int32)
        numbered = Round(entry.n_ranks, entry.source, entry.destination, entry.pointer, numbers)
        return numbered if self.kind == "expand" else numbered.reversed()

    def _arrays(self) -> dict[str, Any]:
        """The carried plan, as which `Plan.load` reads it, and how it is embedded."""
        how = np.array([self.aware, self.payload_rows, self.every_message], np.int64)
        return {**self.carried._arrays(), "embedding": how}

    @classmethod
    def load(cls, path: str | Path) -> EmbeddedPlan:
        """Read a plan that `save` wrote."""
        plan = load_plan(path)
        if not isinstance(plan, EmbeddedPlan):
            raise InputError(f"{path} holds a plan that is not embedded; use Plan.load.")
        return plan

    def __repr__(self) -> str:
        name = "aware" if self.aware else "naive"
        return super().__repr__().replace("Plan(", f"EmbeddedPlan({name} ", 1)


def load_plan(path: str | Path) -> Plan:
    """Read a plan that `save` wrote, an embedded one as such; ReadError for a damaged file."""
    plan = Plan.load(path)
    with opened_npz(path) as stored:
        if "embedding" not in stored:
            return plan
        aware, payload_rows, every_message = stored["embedding"].tolist()
    return embed(
        plan, aware=bool(aware), payload_rows=payload_rows, every_message=bool(every_message)
    )


def embed(
    plan: Plan, *, aware: bool = True, payload_rows: int = 0, every_message: bool = True
) -> EmbeddedPlan:
    """Route a point-to-point plan through the rounds of a hypercube allreduce.

    Parameters
    ----------
    plan : Plan
        An expand or reduce of one round.
    aware : bool
        Whether a row is in a message at most once (§4.2); else each transfer travels alone (§4.1).
    payload_rows : int
        Rows of dense payload that ride in every message; see `rows_for_payload`.
    every_message : bool
        Keep messages without rows, as an allreduce sends them. False: only what carries rows, as
        every message does where there are payload rows.

    Returns
    -------
    EmbeddedPlan
        ⌈log2 K⌉ rounds for K a power of two, else ⌊log2 K⌋ + 2. With every message kept, a rank
        sends and receives one message a round for K a power of two.

    Raises
    ------
    InputError
        For a plan of several rounds or of another kind, or an aware embedding of a plan in which
        an item has more than one owner.
    """
    require_like(plan, "plan", ("rounds", "kind"), "a Plan, such as an expand_plan")
    is_direct = len(plan.rounds) == 1 and plan.kind in ("expand", "reduce")
    if not is_direct or isinstance(plan, EmbeddedPlan):
        raise InputError(
            f"Only a point-to-point expand or reduce (one round) can be embedded; got {plan!r}."
        )
    payload_rows = whole_number(payload_rows, "payload_rows", 0)
    every_message = bool(every_message) or payload_rows > 0
    outward = _outward(plan)
    entry = outward.rounds[0]
    sender = np.repeat(entry.source, entry.lengths).astype(np.int64)
    receiver = np.repeat(entry.destination, entry.lengths).astype(np.int64)
    if aware:
        _check_one_owner(outward, sender)
    routed = entry.items.astype(np.int64) if aware else np.arange(entry.n_rows)
    n_routed = plan.n_items if aware else entry.n_rows
    rounds = []
    for sources, destinations, moves, message in _hops(plan.n_ranks, sender, receiver):
        pointer, items = _contents(message, routed[moves], len(sources), n_routed, payload_rows)
        keep = (np.diff(pointer) > 0) | every_message
        pointer = np.concatenate((pointer[:-1][keep], pointer[-1:]))
        rounds.append(Round(plan.n_ranks, sources[keep], destinations[keep], pointer, items))
    embedded = EmbeddedPlan(
        "expand", n_routed + payload_rows, tuple(rounds), carried=outward, aware=bool(aware),
        payload_rows=payload_rows, every_message=every_message,
    )  # fmt: skip
    return embedded if plan.kind == "expand" else embedded.reversed()


def hypercube_allreduce_plan(n_ranks: int) -> Plan:
    """Plan of a dense allreduce by recursive doubling: one value, item 0, in every message.

    Parameters
    ----------
    n_ranks : int
        Any number; ranks from 2^⌊log2 n_ranks⌋ on fold onto a partner.

    Returns
    -------
    Plan
        Of kind "allreduce".
    """
    n_ranks = whole_number(n_ranks, "n_ranks", 1)
    rounds = [
        Round.from_transfers(n_ranks, source, destination, np.zeros_like(source))
        for source, destination in (pairs_of(step, n_ranks) for step in _steps(n_ranks))
    ]
    return Plan("allreduce", 1, tuple(rounds))


def _steps(n_ranks: int) -> tuple[Step, ...]:
    """Of a single rank: a fold of nobody, so that there is a round."""
    return steps_of("ssar-recursive-doubling", n_ranks) or (Step("fold", n_ranks),)


def concurrent_volume(plan: Plan) -> int:
    """Rows that move, where copies of one row in the same round count once (§5).

    Parameters
    ----------
    plan : Plan
        Any plan; the payload of an embedded one is left out.

    Returns
    -------
    int
        In rows.
    """
    if isinstance(plan, EmbeddedPlan):
        n_items, items = plan.carried.n_items, [plan.items_of(entry.items) for entry in plan.rounds]
    else:
        n_items, items = plan.n_items, [entry.items for entry in plan.rounds]
    return sum(len(distinct(each, n_items)) for each in items)


def rows_for_payload(payload_bytes: int, row_bytes: int) -> int:
    """Rows of `row_bytes` bytes that hold a dense payload and its 8 bytes of description.

    Parameters
    ----------
    payload_bytes, row_bytes : int
        Bytes of the payload of a rank, and of one row of the plan.

    Returns
    -------
    int
        For `embed(…, payload_rows=)`.
    """
    payload_bytes = whole_number(payload_bytes, "payload_bytes", 0)
    row_bytes = whole_number(row_bytes, "row_bytes", 1)
    return -(-(payload_bytes + 8) // row_bytes)


def _outward(plan: Plan) -> Plan:
    return plan if plan.kind == "expand" else plan.reversed()


def _check_one_owner(outward: Plan, sender: NDArray[np.int64]) -> None:
    items = outward.rounds[0].items
    owner = np.full(outward.n_items, -1, dtype=np.int64)
    owner[items] = sender
    several = owner[items] != sender
    if several.any():
        raise InputError(
            f"Item {items[several][0]} has more than one owner, ranks {sender[several][0]} and "
            f"{owner[items[several][0]]}; an aware embedding needs one, or use aware=False."
        )


def _hops(
    n_ranks: int, sender: NDArray[np.int64], receiver: NDArray[np.int64]
) -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_], NDArray[np.int64]]]:
    """Of each round the messages, which transfers move, and in which of the messages."""
    steps = _steps(n_ranks)
    size = steps[0].n_parts
    start, end = sender % size, receiver % size
    for step in steps:
        if step.kind == "fold":
            moves, here = sender >= size, start
        elif step.kind == "unfold":
            moves, here = receiver >= size, end
        else:
            below = step.span - 1  # these bits are the receiver's already
            moves, here = (start ^ end) & step.span != 0, (end & below) | (start & ~below)
        yield *pairs_of(step, n_ranks), moves, here[moves]


def _contents(
    message: NDArray[np.int64], routed: NDArray[np.int64], n_messages: int, n_routed: int,
    payload_rows: int,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:  # fmt: skip
    """Pointer and items of messages: each row once a message, the payload rows behind them."""
    n_items = n_routed + payload_rows
    payload = n_items * np.arange(n_messages)[:, None] + np.arange(n_routed, n_items)
    key = np.concatenate((message * n_items + routed, payload.ravel()))
    key.sort()
    key = key[np.diff(key, prepend=-1) != 0]
    of_message, items = np.divmod(key, max(n_items, 1))
    return np.searchsorted(of_message, np.arange(n_messages + 1)), items.astype(np.int32)
