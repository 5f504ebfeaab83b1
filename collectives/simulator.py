"""What plans and allreduces would cost on any number of ranks, counted in one process.

    plan, dense allreduce   rounds read off the plan, or off the algorithm's steps
    sparse allreduce        the entries of every message, by merging the ranks' real indices
                rank 0 ─┐ swap         what several ranks come to hold alike is merged and held
                rank 1 ─┴─▶ one union   once, so memory is that of the input, not of all results
    expected                the closed form of `cost_model`, for entries that are spread evenly

            ──rounds──▶  messages, rows, bytes of every rank  ──α, β──▶  clocks of the ranks

    rank 0  ──α+βb──▶ ──α+βb──▶ │ wait     │ round 1 …
    rank 1  ──────α+βb──────▶ │ wait       │ round 1 …
                               ↑ a message is there when its sender is done with it

Time is that of the α–β model (`counters`), in two ways: with rounds in lock-step; and without,
where a rank sends its messages one after another in order of destinations, receives meanwhile, and
goes on as soon as its own are there. Rounds are added up as they come, so thousands of them on
thousands of ranks take little memory. Of sparse vectors only the indices matter, so they are
presence bits; this redoes Renggli 2017 §5 ("Scalability") for ranks that a machine does not have.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from daskpart._floor import words
from daskpart._floor.checks import checked_seed, finite_number, one_of, several, whole_number
from daskpart._floor.tables import html_lines, readable, text_lines
from daskpart.errors import InputError

from .cost_model import CostModel, Problem
from .counters import (
    COUNTS,
    QUANTITIES,
    SIDES,
    RoundRecord,
    busy_seconds,
    star_rounds,
    summary,
    summary_table,
)
from .hypercube import EmbeddedPlan, concurrent_volume
from .messages import ValueInbox
from .plan import Plan
from .reduction import ANY
from .sparse_allreduce import checked_switch
from .sparse_exchange import combine_step, pack_step
from .sparse_steps import LOCAL_KINDS, Step, core_of, pairs_of, range_sent, steps_of
from .stream import Stream, index_type, stream_of

ALPHA, BETA = 2e-6, 1e-10  # 2 µs and 10 GB/s: of the order of MPI in a cluster
DENSE_ALGORITHMS = {
    "star": "",
    "hypercube": "dense-recursive-doubling",
    "rabenseifner": "dense-rabenseifner",
    "ring": "dense-ring",
}
_SHOWN_ROUNDS = 16


@dataclass(frozen=True, eq=False)
class Simulation:
    """Counts and times of rounds of messages; from `simulate` and its kin.

    Attributes
    ----------
    name, n_ranks : str, int
    labels : list of (str, int)
        What a round belongs to, and its number in it, one a round.
    messages_sent, messages_received, rows_sent, rows_received : int64 array of shape (n_ranks,)
        Rows of plans; messages of a dense, entries of a sparse allreduce.
    bytes_sent, bytes_received : float64 array of shape (n_ranks,)
    rounds : dict of str to array of shape (n_rounds,)
        "messages", "rows", "bytes" of all ranks, "max_messages", "max_rows", "max_bytes" of the
        busiest rank (the larger of what it sends and receives), "seconds" in lock-step.
    alpha, beta : float
        Seconds a message, seconds a byte.
    seconds_of_rank : float64 array of shape (n_ranks,)
        When each rank is done, without lock-step.
    facts : dict
        What else there is to say, such as the concurrent volume of plans.
    """

    name: str
    n_ranks: int
    labels: list[tuple[str, int]]
    messages_sent: NDArray[np.int64]
    messages_received: NDArray[np.int64]
    rows_sent: NDArray[np.int64]
    rows_received: NDArray[np.int64]
    bytes_sent: NDArray[np.float64]
    bytes_received: NDArray[np.float64]
    rounds: dict[str, NDArray[Any]]
    alpha: float
    beta: float
    seconds_of_rank: NDArray[np.float64]
    facts: dict[str, Any]

    @property
    def n_rounds(self) -> int:
        """Rounds in all."""
        return len(self.labels)

    @property
    def seconds(self) -> float:
        """Time with rounds in lock-step."""
        return float(self.rounds["seconds"].sum())

    @property
    def seconds_without_lock_step(self) -> float:
        """Time until the last rank is done, each going on as soon as it can."""
        return float(self.seconds_of_rank.max())

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers: total, mean and maximum over ranks, and one entry a round."""
        return {
            "name": self.name,
            "n_ranks": self.n_ranks,
            "n_rounds": self.n_rounds,
            **{name: summary(getattr(self, name)) for name in QUANTITIES},
            "alpha": self.alpha,
            "beta": self.beta,
            "seconds": self.seconds,
            "seconds_without_lock_step": self.seconds_without_lock_step,
            **self.facts,
            "rounds": [
                {"of": label, "round": index}
                | {name: values[place].item() for name, values in self.rounds.items()}
                for place, (label, index) in enumerate(self.labels)
            ],
        }

    def _tables(self) -> tuple[list[list[str]], list[list[str]]]:
        rounds = [["round", "messages", "rows", "max rows", "seconds"]]
        for place, (label, index) in enumerate(self.labels[:_SHOWN_ROUNDS]):
            counts = [f"{self.rounds[name][place]:,}" for name in ("messages", "rows", "max_rows")]
            rounds.append([f"{label} {index}", *counts, f"{self.rounds['seconds'][place]:.3g}"])
        if self.n_rounds > _SHOWN_ROUNDS:
            rounds.append([f"{self.n_rounds - _SHOWN_ROUNDS} more", "", "", "", ""])
        return summary_table({name: getattr(self, name) for name in QUANTITIES}), rounds

    def _heading(self) -> list[str]:
        facts = ", ".join(
            f"{name.replace('_', ' ')} {readable(fact)}" for name, fact in self.facts.items()
        )
        size = f"{words.counted(self.n_ranks, 'rank')}, {words.counted(self.n_rounds, 'round')}"
        return [
            f"{self.name}: {size}",
            f"{self.seconds:.3g} s in lock-step, {self.seconds_without_lock_step:.3g} s without "
            f"(α {self.alpha:g} s, β {self.beta:g} s/byte)",
            *([facts] if facts else []),
        ]

    def __repr__(self) -> str:
        tables = [line for table in self._tables() for line in text_lines(table)]
        return "Simulation of " + "\n  ".join([*self._heading(), *tables])

    def _repr_html_(self) -> str:
        heading = "<br>".join(html.escape(line) for line in self._heading())
        return f"<p>{heading}</p>" + "".join(map(html_lines, self._tables()))


@dataclass(frozen=True)
class Expected:
    """A sparse allreduce of evenly spread entries by the closed form; see `expected_allreduces`."""

    algorithm: str
    n_rounds: int
    messages: float  # sent by a rank
    nbytes: float
    seconds: float
    options: dict[str, Any]  # ``group`` or ``degrees``, where the algorithm has them


def simulate(
    plans: Plan | Iterable[Plan],
    *,
    row_bytes: float,
    alpha: float = ALPHA,
    beta: float = BETA,
    name: str | None = None,
) -> Simulation:
    """Count and time a plan, or several that run one after another.

    Parameters
    ----------
    plans : Plan or iterable of Plan
        Of any kind, for the same number of ranks; up to thousands of ranks.
    row_bytes : float
        Bytes a row, for example 4 × the number of factors.
    alpha, beta : float
        Seconds a message, seconds a byte. Default: 2 µs and 0.1 ns (10 GB/s), of the order of MPI
        in a cluster.
    name : str, optional
        Heading of the report. Default: the kinds of the plans.

    Returns
    -------
    Simulation
        Its facts are ``n_items`` of all plans, ``row_bytes``, the ``concurrent_volume`` (rows that
        move, copies of one row in the same round counted once), and ``forward_rows_max``, the
        largest number of rows that a rank must hold only to forward them.

    Raises
    ------
    InputError
        For no plans, plans for different numbers of ranks, or negative costs.
    """
    held = [plans] if isinstance(plans, Plan) else several(plans, "plans", "a Plan or several")
    if not held or not all(isinstance(plan, Plan) for plan in held):
        raise InputError("simulate takes a Plan or several; got none, or something else.")
    sizes = sorted({plan.n_ranks for plan in held})
    if len(sizes) > 1:
        raise InputError(f"Plans that run one after another need the same ranks; got {sizes}.")
    finite_number(row_bytes, "row_bytes")
    return _counted(
        name or " + ".join(dict.fromkeys(plan.kind for plan in held)),
        (record for plan in held for record in plan.records(float(row_bytes))),
        sizes[0],
        alpha,
        beta,
        n_items=sum(plan.n_items for plan in held),
        row_bytes=float(row_bytes),
        concurrent_volume=sum(map(concurrent_volume, held)),
        forward_rows_max=max(
            int(plan.forward_rows.max()) if isinstance(plan, EmbeddedPlan) else 0 for plan in held
        ),
    )


def simulate_allreduce(
    n_ranks: int,
    n_bytes: int,
    algorithm: str = "hypercube",
    *,
    alpha: float = ALPHA,
    beta: float = BETA,
) -> Simulation:
    """Count and time a dense allreduce.

    Parameters
    ----------
    n_ranks, n_bytes : int
        Ranks, up to thousands, and bytes of the array that each gives.
    algorithm : {"hypercube", "rabenseifner", "ring", "star"}
        "hypercube" is recursive doubling (`hypercube_allreduce`), "rabenseifner" halves and joins
        again, "ring" passes pieces round, "star" is everything to rank 0 and back (`allreduce`).
    alpha, beta : float
        Seconds a message, seconds a byte.

    Returns
    -------
    Simulation

    Examples
    --------
    >>> from daskpart.collectives import simulate_allreduce
    >>> int(simulate_allreduce(4096, 80_000).messages_sent.max())
    12
    """
    n_ranks = whole_number(n_ranks, "n_ranks", 1)
    n_bytes = whole_number(n_bytes, "n_bytes", 0, 2**62)
    one_of(algorithm, "algorithm", DENSE_ALGORITHMS)
    rounds: Iterable[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]
    if algorithm == "star":
        lengths = np.full(n_ranks - 1, n_bytes)
        rounds = [(*ends, lengths) for ends in star_rounds(n_ranks)]
    else:
        rounds = _dense_rounds(steps_of(DENSE_ALGORITHMS[algorithm], n_ranks), n_ranks, n_bytes)
    records = (
        RoundRecord(algorithm, index, source, destination, 1, nbytes.astype(np.float64))
        for index, (source, destination, nbytes) in enumerate(rounds)
    )
    name = f"allreduce ({algorithm}) of {n_bytes} bytes"
    return _counted(name, records, n_ranks, alpha, beta, n_bytes=n_bytes)


def simulate_sparse_allreduce(
    vectors: Sequence[NDArray[Any]],
    size: int,
    algorithm: str,
    *,
    dtype: DTypeLike = np.float32,
    group: int | None = None,
    degrees: Sequence[int] | None = None,
    switch_density: float | None = None,
    cuts: Sequence[int] = (),
    alpha: float = ALPHA,
    beta: float = BETA,
) -> Simulation:
    """Count and time a sparse allreduce of given vectors.

    Parameters
    ----------
    vectors : sequence of int arrays
        Indices of the entries of each rank, rising, each once.
    size : int
        N, length of the vectors.
    algorithm, group, degrees
        As of `sparse_allreduce`.
    dtype : numpy dtype
        Of the values that would travel.
    switch_density : float, optional
        Share of entries from which a range travels dense. Default: where the bytes are equal.
    cuts : sequence of int, optional
        Bounds of the ranges of "ssar-split-allgather", as of `equal_shares`; other algorithms do
        not look at them. Default: ranges of one length.
    alpha, beta : float
        Seconds a message, seconds a byte.

    Returns
    -------
    Simulation
        Its messages, rows (entries) and bytes are those that `sparse_allreduce` counts on a
        communicator of as many ranks, apart from the sizes that it agrees on first.

    Raises
    ------
    InputError
        For vectors that `stream_of` refuses, or options that `sparse_allreduce` would.
    """
    vectors = several(vectors, "vectors", "the indices of each rank")
    n_ranks, size = whole_number(len(vectors), "n_ranks", 1), whole_number(size, "size", 0, 2**62)
    item = np.dtype(dtype).itemsize
    pair = item + index_type(size).itemsize
    # dense where the bytes are equal, if nothing is said
    switch = checked_switch(item / pair if switch_density is None else switch_density)
    bounds = [*cuts]
    spans = bounds == sorted(bounds) and (*bounds[:1], *bounds[-1:]) == (0, size)
    if bounds and not (spans and len(bounds) == core_of(n_ranks) + 1):
        raise InputError(
            f"cuts={bounds}: give {core_of(n_ranks) + 1} bounds that rise from 0 to {size}."
        )
    steps = steps_of(algorithm, n_ranks, group, degrees)
    streams = [
        stream_of((indices, np.ones(len(indices), bool), size), reduction=ANY).cut_at(tuple(cuts))
        for indices in vectors
    ]
    records = (
        RoundRecord(algorithm, index, source, destination, rows, rows * row_bytes)
        for index, (source, destination, rows, row_bytes) in enumerate(
            _sparse_rounds(steps, streams, switch, float(item), float(pair))
        )
    )
    name, entries = f"sparse allreduce ({algorithm})", sum(map(len, vectors))
    return _counted(name, records, n_ranks, alpha, beta, size=size, entries=entries)


def random_vectors(
    n_ranks: int, size: int, entries: int, *, spread: str = "even", random_state: int = 0
) -> list[NDArray[np.int64]]:
    """Indices of so many entries a rank.

    Parameters
    ----------
    n_ranks, size, entries : int
    spread : {"even", "power-law"}
        Every index as likely as another; or index i with a weight of 1/(i + 1), so that the ranks'
        entries coincide often (and a rank has fewer than asked for).
    random_state : int

    Returns
    -------
    list of int arrays
        Indices of each rank, rising.
    """
    n_ranks = whole_number(n_ranks, "n_ranks", 1)
    Problem(n_ranks, size, whole_number(entries, "entries", 0))  # checks that they fit
    random_state = checked_seed(random_state)
    one_of(spread, "spread", ("even", "power-law"))
    vectors = []
    for rank in range(n_ranks):
        random = np.random.default_rng([random_state, rank])
        if spread == "even":
            vectors.append(np.sort(random.choice(size, entries, replace=False, shuffle=False)))
        else:
            drawn = np.exp(random.random(entries) * np.log(size + 1)).astype(np.int64) - 1
            vectors.append(np.unique(np.minimum(drawn, size - 1)))
    return vectors


def expected_allreduces(
    n_ranks: int,
    size: int,
    entries: float,
    *,
    dtype: DTypeLike = np.float32,
    alpha: float = ALPHA,
    beta: float = BETA,
) -> list[Expected]:
    """Every sparse allreduce of evenly spread entries, with its best options, by the closed form.

    Parameters
    ----------
    n_ranks, size : int
        P, any number, and N.
    entries : float
        k, entries a rank.
    dtype : numpy dtype
    alpha, beta : float
        Seconds a message, seconds a byte; nothing else costs time.

    Returns
    -------
    list of Expected
        In the order of `sparse_steps.ALGORITHMS`.
    """
    finite_number(alpha, "alpha")
    finite_number(beta, "beta")
    problem, found = Problem(n_ranks, size, entries, dtype), []
    for choice in CostModel(message=alpha, byte=beta).best_of_each(problem).values():
        steps = steps_of(choice.algorithm, problem.n_ranks, choice.group, choice.degrees)
        options = {"group": choice.group, "degrees": choice.degrees}
        n_rounds = sum(step.kind not in LOCAL_KINDS for step in steps)
        messages = CostModel(message=1.0).seconds_of(problem, steps)
        nbytes = CostModel(byte=1.0).seconds_of(problem, steps)
        given = {name: value for name, value in options.items() if value is not None}
        found.append(Expected(choice.algorithm, n_rounds, messages, nbytes, choice.seconds, given))
    return found


def _counted(
    name: str, records: Iterable[RoundRecord], n_ranks: int, alpha: float, beta: float, **facts: Any
) -> Simulation:
    """Add rounds up as they come; the messages of each in order of (source, destination)."""
    alpha, beta = finite_number(alpha, "alpha"), finite_number(beta, "beta")
    clock, labels = np.zeros(n_ranks), []
    sums: dict[str, NDArray[Any]] = {
        name: np.zeros(n_ranks, np.float64 if name.startswith("bytes") else np.int64)
        for name in QUANTITIES
    }
    rounds: dict[str, list[float]] = {
        name: [] for name in (*COUNTS, *(f"max_{count}" for count in COUNTS), "seconds")
    }
    for record in records:
        labels.append((record.label, record.index))
        source, destination, *amounts = record.columns()
        totals = record.totals(n_ranks)
        for quantity, counted in totals.items():
            sums[quantity] += counted
        for count, of_each in zip(COUNTS, amounts, strict=True):
            larger = np.maximum(*(totals[f"{count}_{side}"] for side in SIDES))
            rounds[count].append(of_each.sum().item())
            rounds[f"max_{count}"].append(larger.max().item())
        busy = busy_seconds(totals, "bytes", alpha, beta)
        rounds["seconds"].append(busy.max().item())
        spent = np.concatenate(([0.0], np.cumsum(alpha + beta * amounts[-1])))
        first = np.searchsorted(source, np.arange(n_ranks))  # messages stand by source
        there = clock[source] + spent[1:] - spent[first[source]]
        clock = clock + busy
        np.maximum.at(clock, destination, there)
    arrays = {name: np.array(values) for name, values in rounds.items()}
    return Simulation(
        name, n_ranks, labels, **sums, rounds=arrays, alpha=float(alpha), beta=float(beta),
        seconds_of_rank=clock, facts=facts,
    )  # fmt: skip


def _dense_rounds(
    steps: Sequence[Step], n_ranks: int, size: int, cuts: Sequence[int] = ()
) -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]]:
    """Sources, destinations and values of each step's messages, when all ranks are dense."""
    for step in steps:
        if step.kind not in LOCAL_KINDS:
            source, destination = pairs_of(step, n_ranks)
            lower, upper = range_sent(step, size, source, destination, cuts)
            yield source, destination, np.broadcast_to(upper - lower, len(source))


def _sparse_rounds(
    steps: Sequence[Step],
    streams: list[Stream],
    switch: CostModel | float,
    item: float,
    pair: float,
) -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[np.int64], Any]]:
    """Sources, destinations, entries of each message, and bytes an entry; round by round."""
    n_ranks, size, held = len(streams), streams[0].size, streams
    for place, step in enumerate(steps):
        if step.kind == "dense" or all(stream.is_dense for stream in held):
            cuts = held[0].cuts
            for source, destination, rows in _dense_rounds(steps[place:], n_ranks, size, cuts):
                yield source, destination, rows, item
            return
        source, destination = pairs_of(step, n_ranks)
        inboxes = [ValueInbox(rank, [], []) for rank in range(n_ranks)]
        messages = []
        pairs = zip(source.tolist(), destination.tolist(), strict=True)
        for sender, of_sender in groupby(pairs, itemgetter(0)):
            receivers = [receiver for _, receiver in of_sender]
            packed = pack_step(held[sender], sender, receivers, step)
            for receiver, message in zip(receivers, packed, strict=True):
                inboxes[receiver].sources.append(sender)  # they rise
                inboxes[receiver].payloads.append(message)
            messages.extend(packed)
        rows = np.array([len(message[0]) for message in messages], np.int64)
        row_bytes = np.array([pair if len(message) == 2 else item for message in messages])
        yield source, destination, rows, row_bytes
        shared: dict[tuple[int, ...], Stream] = {}  # ranks that combine the same have one result
        held = [
            _combined(step, own, inbox, switch, shared)
            for own, inbox in zip(held, inboxes, strict=True)
        ]


def _combined(
    step: Step,
    own: Stream,
    inbox: ValueInbox,
    switch: CostModel | float,
    shared: dict[tuple, Stream],
) -> Stream:
    arrays = {inbox.rank: own.values}
    arrays |= {s: payload[0] for s, payload in zip(inbox.sources, inbox.payloads, strict=True)}
    key = tuple(id(arrays[rank]) for rank in sorted(arrays))
    if key not in shared:
        found = combine_step(inbox, own, step=step, reduction=ANY, switch=switch)
        assert isinstance(found, Stream)  # a ring begins when all are dense
        shared[key] = found
    return shared[key]
