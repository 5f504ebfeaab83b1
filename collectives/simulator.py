"""What a plan or a dense allreduce would cost on any number of ranks, counted in one process.

    plan   ──rounds──▶  messages, rows, bytes of every rank and round  ──α, β──▶  seconds

Nothing is sent: everything is read off the plan or the algorithm, so 4096 ranks take a moment.
`simulation` says what is counted and how the time comes about; `sparse_simulator` does the same for
sparse allreduces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.errors import InputError

from .hypercube import EmbeddedPlan, concurrent_volume
from .plan import Plan
from .simulation import Simulation, Tally, require_costs
from .sparse_steps import Step, steps_of

ALPHA, BETA = 2e-6, 1e-10  # 2 µs and 10 GB/s: of the order of MPI in a cluster
DENSE_ALGORITHMS = {
    "star": "",
    "hypercube": "dense-recursive-doubling",
    "rabenseifner": "dense-rabenseifner",
    "ring": "dense-ring",
}


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
    alpha : float
        Seconds a message. Default: 2 µs, of the order of MPI in a cluster.
    beta : float
        Seconds a byte. Default: 0.1 ns, that is 10 GB/s.
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
    held = [plans] if isinstance(plans, Plan) else list(plans)
    if not held or not all(isinstance(plan, Plan) for plan in held):
        raise InputError("simulate takes a Plan or several; got none, or something else.")
    sizes = sorted({plan.n_ranks for plan in held})
    if len(sizes) > 1:
        raise InputError(f"Plans that run one after another need the same ranks; got {sizes}.")
    require_costs(row_bytes=row_bytes)
    tally = Tally(sizes[0], alpha, beta)
    for plan in held:
        for index, entry in enumerate(plan.rounds):
            rows = entry.lengths
            tally.add(plan.kind, index, entry.source, entry.destination, rows, row_bytes * rows)
    return tally.result(
        name or " + ".join(dict.fromkeys(plan.kind for plan in held)),
        n_items=sum(plan.n_items for plan in held),
        row_bytes=float(row_bytes),
        concurrent_volume=sum(map(concurrent_volume, held)),
        forward_rows_max=int(_forward_rows(held).max()),
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
    n_ranks : int
        Up to thousands.
    n_bytes : int
        Of the array that each rank gives.
    algorithm : {"hypercube", "rabenseifner", "ring", "star"}
        "hypercube" is recursive doubling (`hypercube_allreduce`), "rabenseifner" halves and joins
        again, "ring" passes pieces round, "star" is everything to rank 0 and back (`allreduce`).
    alpha, beta : float
        Seconds a message, seconds a byte.

    Examples
    --------
    >>> from daskpart.collectives import simulate_allreduce
    >>> simulate_allreduce(4096, 80_000).messages_sent.max()
    12
    """
    require_ranks(n_ranks)
    if isinstance(n_bytes, bool) or n_bytes < 0:
        raise InputError(f"n_bytes={n_bytes!r}; it must be a whole number from 0 on.")
    if algorithm not in DENSE_ALGORITHMS:
        raise InputError(f"algorithm={algorithm!r}; allowed are {', '.join(DENSE_ALGORITHMS)}.")
    tally = Tally(n_ranks, alpha, beta)
    if algorithm == "star":
        others = np.arange(1, n_ranks)
        for index, ends in enumerate(((others, 0 * others), (0 * others, others))):
            tally.add(algorithm, index, *ends, 1, n_bytes)
    else:
        steps = steps_of(DENSE_ALGORITHMS[algorithm], n_ranks)
        for index, messages in enumerate(dense_messages(steps, n_ranks, int(n_bytes))):
            source, destination, nbytes = messages
            tally.add(algorithm, index, source, destination, 1, nbytes)
    return tally.result(f"allreduce ({algorithm}) of {n_bytes} bytes", n_bytes=int(n_bytes))


def dense_messages(
    steps: Sequence[Step], n_ranks: int, size: int
) -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]]:
    """Sources, destinations and values of each step's messages, when all ranks are dense.

    Parameters
    ----------
    steps : sequence of Step
        Those without messages are passed over.
    n_ranks : int
    size : int
        Values of the whole vector.
    """
    for step in steps:
        if step.kind in ("dense", "unring"):
            continue
        if step.kind in ("fold", "unfold"):
            folded = np.arange(step.n_parts, n_ranks)
            ends = (folded, folded - step.n_parts)
            source, destination = ends if step.kind == "fold" else ends[::-1]
            yield source, destination, np.full(len(folded), size)
            continue
        ranks = np.arange(step.n_parts)
        if step.kind == "swap":
            yield ranks, ranks ^ step.span, np.full(step.n_parts, size)
        elif step.kind.startswith("ring"):
            moved = ranks - step.degree - (step.kind == "ring-down")
            yield ranks, (ranks + 1) % step.n_parts, _block_sizes(step, moved, size)
        else:
            source, destination = _team_messages(step, ranks)
            held = destination if step.kind == "split" else source
            yield source, destination, _block_sizes(step, held, size)


def require_ranks(n_ranks: int) -> None:
    """Raise InputError unless this is a number of ranks."""
    if isinstance(n_ranks, bool) or not isinstance(n_ranks, (int, np.integer)) or n_ranks < 1:
        raise InputError(f"n_ranks must be a positive integer, got {n_ranks!r}.")


def _team_messages(
    step: Step, ranks: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every rank to all others of its team, in order of (source, destination)."""
    reach = step.span * step.degree
    first = ranks // reach * reach + ranks % step.span
    members = first[:, None] + step.span * np.arange(step.degree)
    others = members != ranks[:, None]
    return np.repeat(ranks, step.degree - 1), members[others]


def _block_sizes(step: Step, ranks: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Values of the range that each rank holds when it holds `step.span` of the parts."""
    first = (ranks % step.n_parts) // step.span * step.span
    return size * (first + step.span) // step.n_parts - size * first // step.n_parts


def _forward_rows(plans: Sequence[Plan]) -> NDArray[np.int64]:
    most = np.zeros(plans[0].n_ranks, dtype=np.int64)
    for plan in plans:
        if isinstance(plan, EmbeddedPlan):
            np.maximum(most, plan.forward_rows, out=most)
    return most
