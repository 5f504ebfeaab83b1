"""CP-ALS in plain mpi4py: Algorithms 1 and 2 of Abubaker et al., with the steps of `models.cp`.

    Algorithm 1   reduce and expand by Isend and Irecv, λ and Grams by allreduces of their own
    Algorithm 2   one message a round to the neighbour in the hypercube:

        ┌ dense sums (λ, or a Gram), float64 ┬ rows that start, pass or end here ┐   one buffer

What a plan fixes is worked out once: which row goes to which slot, which rows meet a copy that
waits, which of them end here. Source: Abubaker, Karsavuran, Aykanat, "Scalable Unsupervised ML:
Latency Hiding in Distributed Sparse Tensor Decomposition".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskpart.collectives import EmbeddedPlan, LocalCommunicator, Plan
from daskpart.collectives.messages import RankMessages
from daskpart.collectives.routes import Arrivals, RankRoutes
from daskpart.models.cp.als import (
    Update,
    column_sums,
    fit_of,
    normalise,
    norms_of,
    owned_gram,
    partial_products,
    solve_owned,
)
from daskpart.models.cp.plan import CPPlan
from daskpart.models.cp.ranks import (
    RankNonzeros,
    RankRows,
    RankTensor,
    arrange,
    rows_of_ranks,
    split_nonzeros,
    squared_norm,
)
from daskpart.models.cp.text import warm_up_rank

from .messages import Swap, allreduce, messages_of_ranks, wait

if TYPE_CHECKING:
    from mpi4py import MPI


@dataclass(frozen=True)
class Piece:
    """What one rank begins with; `reduces` and `expands` have one entry a mode."""

    nonzeros: RankNonzeros
    rows: RankRows
    factors: list[NDArray[Any]]
    reduces: list[Any]
    expands: list[Any]
    memory: str


@dataclass(frozen=True)
class Embedded:
    """One rank's part of an embedded plan: its routes, and its messages, a round each, in slots."""

    routes: RankRoutes
    rounds: list[RankMessages]


def pieces(plan: CPPlan, tensor: Any, factors: Sequence[NDArray[Any]]) -> list[Piece]:
    """One a rank; `factors` are the whole ones to begin from, in the dtype of the fit."""
    rows = rows_of_ranks(plan.numberings, tensor.shape)
    assert plan.parts is not None
    nonzeros = split_nonzeros(tensor, plan.parts, plan.n_ranks)
    cut = _embedded_of_ranks if isinstance(plan.expands[0], EmbeddedPlan) else _direct_of_ranks
    reduces, expands = [
        [cut(each, [own.rows[mode] for own in rows]) for mode, each in enumerate(plans)]
        for plans in (plan.reduces, plan.expands)
    ]
    return [
        Piece(
            nonzeros[rank],
            own,
            [factor[held].copy() for factor, held in zip(factors, own.rows, strict=True)],
            reduces=[of_ranks[rank] for of_ranks in reduces],
            expands=[of_ranks[rank] for of_ranks in expands],
            memory=plan.choice.memory,
        )
        for rank, own in enumerate(rows)
    ]


def _direct_of_ranks(plan: Plan, ids: Sequence[NDArray[Any]]) -> list[RankMessages]:
    return [halves[0] for halves in messages_of_ranks([plan], ids)]


def _embedded_of_ranks(plan: Plan, ids: Sequence[NDArray[Any]]) -> list[Embedded]:
    assert isinstance(plan, EmbeddedPlan) and plan.aware
    with LocalCommunicator(len(ids)) as communicator:
        prepared = communicator.prepare(plan, communicator.values(ids))
        routes = communicator.gather(prepared.routes) or []
        rounds = communicator.gather(prepared.rounds[0].messages) or []
    return [Embedded(*pair) for pair in zip(routes, rounds, strict=True)]


def train(world: MPI.Comm, piece: Piece, n_steps: int) -> tuple[list[float], dict[str, Any]]:
    """Seconds of each iteration, and the ids and rows that this rank owns."""
    embedded = isinstance(piece.reduces[0], Embedded)
    run = (_Algorithm2 if embedded else _Algorithm1)(world, piece)
    warm_up_rank(run.tensor, *run.rows, nonnegative=False)
    world.Barrier()
    seconds, fit = [], 0.0
    for _ in range(n_steps):
        begin = perf_counter()
        sums = run.iterate()
        fit = fit_of(sums, run.squared_norm)
        seconds.append(perf_counter() - begin)
        if not np.isfinite(sums).all():
            raise FloatingPointError("factors became NaN or infinite")
    owned: dict[str, Any] = {
        f"factor {mode}": (run.tensor.rows[mode][:n_owned], rows[:n_owned])
        for mode, (rows, n_owned) in enumerate(zip(run.rows, run.tensor.n_owned, strict=True))
    }
    owned["fit"] = np.zeros(1, int), np.array([fit])
    return seconds, owned


class _Iteration:
    """What both algorithms share: tensor, factors, Grams, and the solution of one mode."""

    def __init__(self, world: MPI.Comm, piece: Piece) -> None:
        self.world, self.rows = world, piece.factors
        dtype = self.rows[0].dtype
        self.tensor: RankTensor = arrange(
            piece.nonzeros, piece.rows, dtype=dtype.name, memory=piece.memory
        )
        # in rank order; since Python 3.12 `sum` corrects its rounding
        self.squared_norm = float(reduce(add, world.allgather(squared_norm(self.tensor)))[0])
        self.n_modes, n_components = len(self.rows), self.rows[0].shape[1]
        self.weights = np.ones(n_components)
        self.grams = [np.zeros((n_components, n_components))] * self.n_modes

    def solve(self, mode: int, products: NDArray[Any]) -> NDArray[np.float64]:
        """Solve the owned rows; this rank's sums over them."""
        others = [gram for place, gram in enumerate(self.grams) if place != mode]
        given = self.tensor, *others
        rows = self.rows[mode]
        solve_owned(rows, products, self.weights, *given, mode=mode, update=Update())
        last = mode == self.n_modes - 1
        return column_sums(rows, products, *given, mode=mode, last=last)

    def own_gram(self, mode: int) -> NDArray[np.float64]:
        return owned_gram(self.rows[mode], self.tensor, mode=mode)


class _Algorithm1(_Iteration):
    def __init__(self, world: MPI.Comm, piece: Piece) -> None:
        super().__init__(world, piece)
        like = (self.weights.shape, self.rows[0].dtype)
        self._reduces = [_Reduce(Swap(world, half, *like)) for half in piece.reduces]
        self._expands = [Swap(world, half, *like) for half in piece.expands]
        self.grams = [allreduce(world, self.own_gram(mode)) for mode in range(self.n_modes)]

    def iterate(self) -> NDArray[np.float64]:
        for mode, rows in enumerate(self.rows):
            products = partial_products(self.tensor, *self.rows, mode=mode)
            self._reduces[mode](products)
            sums = self.solve(mode, products)
            self._expands[mode].post(rows.__getitem__)
            sums = allreduce(self.world, sums)
            self.weights = norms_of(sums)
            inbox = self._expands[mode].collect()
            for positions, arrived in zip(inbox.positions, inbox.payloads, strict=True):
                rows[positions] = arrived
            normalise(rows, self.weights)
            self.grams[mode] = allreduce(self.world, self.own_gram(mode))
        return sums


class _Reduce:
    """Add up the copies of the owned rows in rank order; where each goes is worked out once."""

    def __init__(self, swap: Swap) -> None:
        self._swap, inbox = swap, swap.inbox
        self._touched, self._places = _meeting(inbox.rank, inbox.sources, inbox.positions)

    def __call__(self, rows: NDArray[Any]) -> None:
        inbox = self._swap(rows.__getitem__)
        _add_up(rows, inbox.payloads, self._touched, self._places)


Places = list[tuple[int | None, NDArray[np.int64]]]  # None: the rank's own


def _meeting(
    rank: int, sources: Sequence[int], positions: Sequence[NDArray[np.int64]]
) -> tuple[NDArray[np.int64], Places]:
    """Rows that have several copies, and the place of each contributor's, in rank order."""
    if not sources:
        return np.empty(0, np.int64), []
    touched = np.unique(np.concatenate(positions))
    places: Places = [(i, np.searchsorted(touched, at)) for i, at in enumerate(positions)]
    before = sum(source < rank for source in sources)
    return touched, [*places[:before], (None, np.arange(len(touched))), *places[before:]]


def _add_up(
    rows: NDArray[Any],
    arrived: Sequence[NDArray[Any]],
    touched: NDArray[np.int64],
    places: Places,
) -> None:
    total = np.zeros((len(touched), *rows.shape[1:]), rows.dtype)
    for index, place in places:
        if index is None:
            total += rows[touched]
        else:
            total[place] += arrived[index]
    rows[touched] = total


class _Algorithm2(_Iteration):
    def __init__(self, world: MPI.Comm, piece: Piece) -> None:
        super().__init__(world, piece)
        n_components = len(self.weights)
        like = (n_components, self.rows[0].dtype)
        gram, sums = (n_components, n_components), (n_components + 2,)
        self._reduces = [_EmbeddedReduce(world, each, gram, like) for each in piece.reduces]
        self._expands = [_EmbeddedExpand(world, each, sums, like) for each in piece.expands]
        for mode in range(1, self.n_modes):  # that of the last mode comes in the first iteration
            nothing = np.zeros_like(self.rows[mode])
            self.grams[mode - 1] = self._reduces[mode](nothing, self.own_gram(mode - 1))

    def iterate(self) -> NDArray[np.float64]:
        for mode, rows in enumerate(self.rows):
            products = partial_products(self.tensor, *self.rows, mode=mode)
            before = (mode - 1) % self.n_modes
            self.grams[before] = self._reduces[mode](products, self.own_gram(before))
            sums = self._expands[mode](rows, self.solve(mode, products))
            self.weights = norms_of(sums)
            normalise(rows, self.weights)
        return sums


Shape = tuple[int, ...]
Like = tuple[int, np.dtype[Any]]


class _Round:
    """One message each way between neighbours: dense sums, then rows, in one buffer."""

    def __init__(
        self, world: MPI.Comm, half: RankMessages, n_slots: int, sums: Shape, like: Like
    ) -> None:
        self._world = world
        (self.neighbour,), (out,), (into,) = half.sources, half.out_positions, half.in_positions
        self.out = out[: np.searchsorted(out, n_slots)]  # behind it the plan's rows of payload
        self.into = into[: np.searchsorted(into, n_slots)]
        self._sent, self._own_sums, self._own_rows = _buffer(sums, len(self.out), like)
        self._room, self.sums, self.rows = _buffer(sums, len(self.into), like)

    def swap(self, slots: NDArray[Any], sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """Exchange; gives the sums combined, `rows` are the neighbour's."""
        self._own_sums[...] = sums
        np.take(slots, self.out, axis=0, out=self._own_rows)
        receive = self._world.Irecv(self._room, self.neighbour)
        wait([receive, self._world.Isend(self._sent, self.neighbour)])
        return sums + self.sums


def _buffer(sums: Shape, n_rows: int, like: Like) -> tuple[NDArray[Any], ...]:
    """A message, and views of its two parts."""
    (width, dtype), head = like, 8 * int(np.prod(sums))
    whole = np.empty(head + n_rows * width * dtype.itemsize, np.uint8)
    rows = whole[head:].view(dtype).reshape(n_rows, width)
    return whole, whole[:head].view(np.float64).reshape(sums), rows


class _Embedding:
    """The slots of one mode on one rank, and the rounds between them.

    `sums` is the shape of what is added up; `like` says how long a row is, and of which dtype.
    """

    def __init__(self, world: MPI.Comm, part: Embedded, sums: Shape, like: Like) -> None:
        routes, width, n_slots = part.routes, like[0], len(part.routes.routed)
        self.slots = np.empty((n_slots, width), like[1])
        self.start_slots = routes.start_slots
        self.start_positions = routes.start_positions
        self.rounds = [_Round(world, half, n_slots, sums, like) for half in part.rounds]


class _EmbeddedExpand(_Embedding):
    def __init__(self, world: MPI.Comm, part: Embedded, sums: Shape, like: Like) -> None:
        super().__init__(world, part, sums, like)
        self._ends = np.concatenate([np.empty(0, np.int64), *part.routes.end_slots])
        self._end_positions = np.concatenate([np.empty(0, np.int64), *part.routes.end_positions])

    def __call__(self, rows: NDArray[Any], sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """Owned rows to all that share them, in place; the sums of all ranks."""
        self.slots[self.start_slots] = rows[self.start_positions]
        for each in self.rounds:
            sums = each.swap(self.slots, sums)
            self.slots[each.into] = each.rows
        rows[self._end_positions] = self.slots[self._ends]
        return sums


class _EmbeddedReduce(_Embedding):
    """Rows that meet a copy on the way are added to it; those that end here wait for the end."""

    def __init__(self, world: MPI.Comm, part: Embedded, sums: Shape, like: Like) -> None:
        super().__init__(world, part, sums, like)
        (of_rounds,) = zip(*part.routes.arrivals, strict=True)  # one source a round
        self._steps: list[tuple[_Round, Arrivals]] = list(zip(self.rounds, of_rounds, strict=True))
        ending = sorted(
            (each.neighbour, index, arrivals.ending_positions)
            for index, (each, arrivals) in enumerate(self._steps)
            if len(arrivals.ending)
        )  # each round has a neighbour of its own
        self._rounds_of_ends = [index for _, index, _ in ending]
        sources, positions_of = [e[0] for e in ending], [e[2] for e in ending]
        self._touched, self._places = _meeting(part.routes.rank, sources, positions_of)

    def __call__(self, rows: NDArray[Any], sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """Copies of rows to their owners, who add them to theirs, in place; the sums of all."""
        slots = self.slots
        slots[self.start_slots] = rows[self.start_positions]
        arrived = []
        for each, arrivals in self._steps:
            sums, rows_of = each.swap(slots, sums), each.rows
            slots[arrivals.first_slots] = rows_of[arrivals.first]
            slots[arrivals.meeting_slots] += rows_of[arrivals.meeting]
            arrived.append(rows_of[arrivals.ending])
        of_sources = [arrived[index] for index in self._rounds_of_ends]
        _add_up(rows, of_sources, self._touched, self._places)
        return sums
