"""Sparse allreduces on hundreds of ranks, counted or expected, in one process.

    counted     the entries of every message, by merging the ranks' real indices step by step
                rank 0 ─┐ swap         what several ranks come to hold alike is merged and held
                rank 1 ─┴─▶ one union   once, so memory is that of the input, not of all results
    expected    messages, bytes and seconds by the closed form of `cost_model`, for entries that
                are spread evenly; no vectors, any number of ranks

Only indices matter, so vectors are presence bits. Redoes Renggli 2017 §5 ("Scalability") for ranks
that a machine does not have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from daskpart.errors import InputError

from .cost_model import Choice, CostModel, Problem
from .messages import ValueInbox
from .reduction import ANY
from .simulation import Simulation, Tally, require_costs
from .simulator import ALPHA, BETA, dense_messages, require_ranks
from .sparse_exchange import LOCAL_KINDS, combine_step, exchange_of, pack_step
from .sparse_steps import ALGORITHMS, Step, steps_of
from .stream import Stream, index_type
from .stream_inputs import stream_of


@dataclass(frozen=True)
class Expected:
    """A sparse allreduce of evenly spread entries by the closed form; see `expected_allreduces`.

    Attributes
    ----------
    algorithm : str
    n_rounds : int
    messages, nbytes : float
        Sent by a rank.
    seconds : float
    options : dict
        ``group`` or ``degrees``, where the algorithm has them.
    """

    algorithm: str
    n_rounds: int
    messages: float
    nbytes: float
    seconds: float
    options: dict[str, Any]


def simulate_sparse_allreduce(
    vectors: Sequence[NDArray[Any]],
    size: int,
    algorithm: str,
    *,
    dtype: DTypeLike = np.float32,
    group: int | None = None,
    degrees: Sequence[int] | None = None,
    switch_density: float | None = None,
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
    algorithm : str
        One of `sparse_steps.ALGORITHMS`.
    dtype : numpy dtype
        Of the values that would travel.
    group, degrees
        As of `sparse_allreduce`.
    switch_density : float, optional
        Share of entries from which a range travels dense. Default: where the bytes are equal.
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
    n_ranks = len(vectors)
    require_ranks(n_ranks)
    item = np.dtype(dtype).itemsize
    density = _equal_bytes(size, item) if switch_density is None else float(switch_density)
    if not 0.0 < density <= 1.0:
        raise InputError(f"switch_density is a share, above 0 and at most 1; got {density!r}.")
    steps = steps_of(algorithm, n_ranks, group, degrees)
    streams = [
        stream_of((indices, np.ones(len(indices), bool), size), reduction=ANY)
        for indices in vectors
    ]
    tally = Tally(n_ranks, alpha, beta)
    pair = item + index_type(size).itemsize
    for index, (source, destination, rows, sparse) in enumerate(_rounds(steps, streams, density)):
        nbytes = rows * np.where(sparse, pair, item)
        tally.add(algorithm, index, source, destination, rows, nbytes)
    entries = sum(map(len, vectors))
    return tally.result(f"sparse allreduce ({algorithm})", size=int(size), entries=entries)


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
    """
    require_ranks(n_ranks)
    Problem(n_ranks, size, entries)  # checks that they fit
    if spread not in ("even", "power-law"):
        raise InputError(f"spread={spread!r}; allowed are even, power-law.")
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
    n_ranks : int
        P, any number.
    size : int
        N.
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
    require_costs(alpha=alpha, beta=beta)
    problem = Problem(n_ranks, size, entries, dtype)
    return [_expected(choice, problem) for choice in best_choices(problem, alpha, beta).values()]


def best_choices(problem: Problem, alpha: float, beta: float) -> dict[str, Choice]:
    """Each algorithm with the options that cost least under the α–β model."""
    found: dict[str, Choice] = {}
    for choice in _costs(message=alpha, byte=beta).choices(problem):
        found.setdefault(choice.algorithm, choice)
    return {algorithm: found[algorithm] for algorithm in ALGORITHMS}


def _expected(choice: Choice, problem: Problem) -> Expected:
    steps = steps_of(choice.algorithm, problem.n_ranks, choice.group, choice.degrees)
    options = {"group": choice.group, "degrees": choice.degrees}
    return Expected(
        choice.algorithm,
        sum(step.kind not in LOCAL_KINDS for step in steps),
        _costs(message=1.0).seconds_of(problem, steps),
        _costs(byte=1.0).seconds_of(problem, steps),
        choice.seconds,
        {name: value for name, value in options.items() if value is not None},
    )


def _costs(message: float = 0.0, byte: float = 0.0) -> CostModel:
    """The α–β model as a cost model: nothing else costs anything."""
    return CostModel(0.0, 0.0, message, byte, 0.0, 0.0, 0.0, 0.0, 0.0)


def _equal_bytes(size: int, item: int) -> float:
    return item / (item + index_type(size).itemsize)


def _rounds(
    steps: Sequence[Step], streams: list[Stream], density: float
) -> Iterator[tuple[Any, Any, NDArray[np.int64], NDArray[np.bool_]]]:
    """Sources, destinations, entries of each message, and whether it is sparse; round by round."""
    n_ranks, size = len(streams), streams[0].size
    held = list(streams)
    for place, step in enumerate(steps):
        if step.kind == "dense" or all(stream.is_dense for stream in held):
            for source, destination, rows in dense_messages(steps[place:], n_ranks, size):
                yield source, destination, rows, np.zeros(len(rows), bool)
            return
        exchange = exchange_of(step, n_ranks)
        pairs = list(zip(exchange.source.tolist(), exchange.destination.tolist(), strict=True))
        payloads = {(s, d): pack_step(held[s], s, d, step) for s, d in pairs}
        messages = [payloads[pair] for pair in pairs]
        yield (
            exchange.source,
            exchange.destination,
            np.array([len(message[0]) for message in messages], np.int64),
            np.array([len(message) == 2 for message in messages], bool),
        )
        held = _combined(step, held, exchange.sources, payloads, density)


def _combined(
    step: Step,
    held: list[Stream],
    sources: list[list[int]],
    payloads: dict[tuple[int, int], Any],
    density: float,
) -> list[Stream]:
    """The ranks' vectors after a step; ranks that combine the same arrays share the result."""
    shared: dict[tuple[int, ...], Stream] = {}
    after = []
    for rank, own in enumerate(held):
        inbox = ValueInbox(rank, sources[rank], [payloads[s, rank] for s in sources[rank]])
        arrays = {s: payload[0] for s, payload in zip(inbox.sources, inbox.payloads, strict=True)}
        ordered = sorted([*arrays.items(), (rank, own.values)], key=lambda pair: pair[0])
        key = tuple(id(array) for _, array in ordered)
        if key not in shared:
            found = combine_step(own, inbox, step=step, reduction=ANY, switch=density)
            assert isinstance(found, Stream)  # a ring begins when all are dense
            shared[key] = found
        after.append(shared[key])
    return after
