"""L-BFGS on the ranks: full gradients by the same sums, steps and changes cut over the ranks.

    w ─► loss and gradient of own rows ─► Σ over ranks ─► two-loop recursion ─► direction d
    ▲                                                                             │
    └────── w + s d, weak Wolfe conditions on the summed loss ◄── line search ◄───┘

    of the pairs (step, change of the gradient) each rank has a slice of the coordinates:
    products of own slices ─► Σ over ranks ─► two loops over numbers ─► own slice of d ─► allgather

Two loops: Nocedal and Wright 2006, algorithm 7.4, on the products of all vectors with each other
(Chen, Wang and Zhou 2014, "Large-scale L-BFGS using MapReduce"); line search: bisection between
bounds (Lewis and Overton 2013, §2), which needs one gradient a try and nearly always takes the
first one. Close to the optimum, where losses differ by rounding only, slopes decide (Hager and
Zhang 2005, §1, the approximate Wolfe conditions). All ranks hold the same sums, so they take the
same decisions. An L1 term keeps steps within an orthant (`orthants`).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.kernels import kernel
from daskpart.collectives import Communicator, PerRank, allgather, allreduce
from daskpart.collectives.stream import Stream, stream_of_all
from daskpart.models.base.state import Part
from daskpart.models.base.text import Step
from daskpart.models.optimisation.aggregation import SWITCH, Aggregator

from .columns import Columns, add_gradient, column_blocks
from .losses import HUBER
from .orthants import keep_signs, orthant_of, pseudo_gradient
from .sgd import bytes_held

DECREASE, CURVATURE = 1e-4, 0.9
ROUNDING = 1e-12  # of a loss, relative
LEAST_SHARE = 1e-8  # of what the gradient is held against, in the largest of its entries
FEW_TRIES, MAX_TRIES = 5, 40
LEAST_TOLERANCE = float(np.finfo(np.float64).tiny)  # that ends a fit which finds no step
N_PAIRS = 10  # steps that the recursion remembers
LARGEST = 1e300  # of what a rank adds to a sum: many of them are still finite together
NONE = np.zeros(0)
_CACHED = 1024  # values of each vector that are gone through at a time


@dataclass(frozen=True)
class Lbfgs:
    """What a fit by L-BFGS is, equal on all ranks; names as in `Sgd`.

    Attributes
    ----------
    scale_free : bool
        Hold the gradient against its size at weights of 0 where that is below 1: a regression of
        small numbers has small gradients everywhere, one of classes has not.
    block_rows : int or None
        Rows of a rank that are in memory at a time; None: all.
    """

    loss: int
    epsilon: float
    l1: float
    l2: float
    intercept: bool
    n_outputs: int
    n_samples: int
    aggregator: Aggregator
    scale_free: bool
    block_rows: int | None


@dataclass(eq=False)
class LbfgsModel:
    """A rank's weights and what it knows around them.

    Attributes
    ----------
    weights, gradient, loss
        At the last step.
    pseudo : float64 ndarray like weights
        The pseudo-gradient there: without an L1 term the gradient.
    direction, tried, tried_gradient, tried_loss
        In the line search.
    pairs : float64 ndarray of shape (2 · N_PAIRS, values of the rank's slice)
        Of the last steps: each step in a row, and N_PAIRS further how the gradient changed with it.
    own : slice
        The rank's share of a vector.
    order : list of int
        Rows of the steps, from the oldest to the newest.
    products : float64 ndarray of shape (2 · N_PAIRS, 2 · N_PAIRS + 1)
        Of all pairs with each other and, last, with the gradient; of whole vectors.
    scale : float
        The tolerance is a share of it: 1, or of a regression less.
    share : Stream or None
        What the rank adds to gradient and loss, until it is sent.
    """

    weights: NDArray[np.float64]
    gradient: NDArray[np.float64]
    pseudo: NDArray[np.float64]
    loss: float
    pairs: NDArray[np.float64] = field(repr=False)
    own: slice
    order: list[int]
    products: NDArray[np.float64] = field(repr=False)
    direction: NDArray[np.float64] = field(repr=False, default_factory=lambda: NONE)
    tried: NDArray[np.float64] = field(repr=False, default_factory=lambda: NONE)
    tried_gradient: NDArray[np.float64] = field(repr=False, default_factory=lambda: NONE)
    tried_loss: float = float("inf")
    scale: float = 1.0
    share: Stream | None = None

    def copy(self) -> LbfgsModel:
        """A copy that shares nothing that changes."""
        return copy.deepcopy(self)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        vectors = [self.weights, self.gradient, self.direction, self.tried, self.tried_gradient]
        if self.pseudo is not self.gradient:
            vectors.append(self.pseudo)
        return self.pairs.nbytes + sum(array.nbytes for array in vectors)


def slice_of(size: int, rank: int, n_ranks: int) -> slice:
    """A rank's share of a vector: all are of one length, but the last ones may be cut off."""
    length = -(-size // n_ranks)
    return slice(min(rank * length, size), min((rank + 1) * length, size))


def begin(
    comm: Communicator, rows: PerRank, parts: PerRank, *, fit: Lbfgs, scales: bool
) -> tuple[PerRank, list[int]]:
    """The model of every rank from the parts of a state; a new one gets its first gradient.

    With `scales` it looks at weights of 0 first: those it begins with are of other data.
    """
    ranks = comm.values(list(range(comm.n_ranks)))
    model = comm.map(first_model, parts, ranks, n_ranks=comm.n_ranks, fit=fit)
    if scales:
        model = comm.update(try_zeros, model)
        model = comm.update(keep_scale, _evaluated(comm, rows, model, fit), fit=fit)
    model = _evaluated(comm, rows, model, fit)
    model = comm.update(keep_first, model, fit=fit)
    products = allreduce(comm, comm.map(all_products, model))
    model = comm.settle(comm.update(take_products, model, products))
    return model, comm.fold(comm.map(bytes_held, model, rows), list).result()


def iteration(
    comm: Communicator,
    rows: PerRank,
    model: PerRank,
    *,
    number: int,
    fit: Lbfgs,
    tolerance: float,
) -> tuple[PerRank, Step]:
    """One step of L-BFGS."""
    model = _with_direction(comm, model, fit)
    loss, slope, step, before = _known(comm, comm.map(start_of, model))
    low, high, n_tries = 0.0, float("inf"), 0
    finite = np.isfinite(slope)  # minus infinity where a square of the gradient is too large
    found = slope >= 0 or not finite  # no way down: it is there, as far as can be told
    while not found and n_tries < MAX_TRIES:
        n_tries += 1
        model = comm.update(set_tried, model, step=step, fit=fit)
        model = _evaluated(comm, rows, model, fit)
        tried, tried_slope = _known(comm, comm.map(judgement, model, fit=fit))
        falls = tried <= loss + DECREASE * step * slope
        level = tried <= loss + ROUNDING * abs(loss)
        if not (falls or (level and tried_slope <= (2 * DECREASE - 1) * slope)):
            high = step
        elif tried_slope < CURVATURE * slope:
            low = step
        else:
            found = True
            model = comm.update(accept, model, fit=fit)
            model = comm.update(remember, model, allreduce(comm, comm.map(new_products, model)))
            continue
        step = next_step(low, high, n_tries)
    model, loss_before = comm.settle(model), loss
    loss, norm, scale, broken = _known(comm, comm.map(measures_of, model))
    moved = slope < 0 and found
    if tolerance <= LEAST_TOLERANCE:  # else it circles about the optimum, in the last digits
        moved = moved and (loss < loss_before or norm < before)
    change = norm / scale if moved else 0.0
    measured = {"loss": loss, "change": change, "gradient": norm, "evaluations": n_tries}
    return model, Step(measured, finite=finite and not broken, enough=change < tolerance)


def _evaluated(comm: Communicator, rows: PerRank, model: PerRank, fit: Lbfgs) -> PerRank:
    """The model with loss and gradient at what is tried."""
    model = comm.update(evaluate, model, rows, fit=fit)
    pending, _ = fit.aggregator.begin(comm, comm.map(share_of, model))
    return comm.update(take_total, model, pending.collect(), fit=fit)


def _with_direction(comm: Communicator, model: PerRank, fit: Lbfgs) -> PerRank:
    own = comm.map(own_direction, model, n_ranks=comm.n_ranks)
    return comm.update(take_direction, model, allgather(comm, own), fit=fit)


def _known(comm: Communicator, numbers: PerRank) -> list[float]:
    """Numbers that all ranks have come to alike."""
    return comm.assume_replicated(numbers).result().tolist()


def next_step(low: float, high: float, n_tries: int) -> float:
    """The step to try between the bounds found so far.

    Where features are counted in millions, the first step is too long by that and more, where they
    are millionths, too short. So steps change by ever larger factors, and where the bounds lie far
    apart, the next is in the middle of their powers.
    """
    factor = 2.0 ** max(1, n_tries - FEW_TRIES)
    if high == float("inf"):
        return factor * low
    if not low:
        return high / factor
    return (low + high) / 2 if high <= 4 * low else float(np.sqrt(low * high))


# -- steps on one rank ---


def first_model(part: Part, rank: int, *, n_ranks: int, fit: Lbfgs) -> LbfgsModel:
    """A rank's model from its part of a state."""
    weights, slots = np.array(part["weights"]), part["slots"]
    own = slice_of(len(weights), rank, n_ranks)
    pairs = np.zeros((2 * N_PAIRS, own.stop - own.start))
    # in the same rows as before: sums over them have the order of the rows
    order = slots.get("rows", np.arange(len(slots.get("moves", ())))).tolist()
    if order:
        pairs[order] = slots["moves"][:, own]
        pairs[[N_PAIRS + row for row in order]] = slots["changes"][:, own]
    return LbfgsModel(
        weights=weights,
        gradient=np.array(slots.get("gradient", NONE)),
        pseudo=NONE,
        loss=part["loss"],
        scale=float(slots.get("scale", 1.0)),
        pairs=pairs,
        own=own,
        order=order,
        products=np.zeros((2 * N_PAIRS, 2 * N_PAIRS + 1)),
        tried=weights,
    )


def evaluate(model: LbfgsModel, rows: Columns, *, fit: Lbfgs) -> LbfgsModel:
    """Loss and gradient of a rank's rows at what is tried: the loss as the last entry."""
    share, loss = 1.0 / fit.n_samples, 0.0
    summed = np.zeros(len(model.tried) + 1)
    weights, gradient = (each.reshape(-1, fit.n_outputs) for each in (model.tried, summed[:-1]))
    for block in column_blocks(rows, fit.block_rows):
        loss += add_gradient(block, share, fit.loss, fit.epsilon, fit.intercept, weights, gradient)
    summed[-1] = loss * share
    if not (-LARGEST < summed.min() and summed.max() < LARGEST):  # nor NaN: the step was too long
        summed[:] = 0.0  # infinities of two ranks have no sum
        summed[-1] = np.inf
    sparse = np.count_nonzero(summed) < SWITCH * len(summed)
    model.share = stream_of_all(summed, np.float64(0))
    if sparse:
        model.share = model.share.to_sparse()
    return model


def share_of(model: LbfgsModel) -> Stream:
    """What the rank adds to the sum."""
    assert model.share is not None
    return model.share


def take_total(model: LbfgsModel, total: Stream, *, fit: Lbfgs) -> LbfgsModel:
    """Loss and gradient of all ranks, with the penalty."""
    summed = total.to_numpy()
    own = model.tried[: n_penalised(model, fit)]
    model.share, model.tried_gradient = None, summed[:-1]
    model.tried_gradient[: len(own)] += fit.l2 * own
    model.tried_loss = float(summed[-1] + 0.5 * fit.l2 * (own @ own))
    if fit.l1:
        model.tried_loss += fit.l1 * float(np.abs(own).sum())
    return model


def keep_first(model: LbfgsModel, *, fit: Lbfgs) -> LbfgsModel:
    """What was found at the first weights; a state that goes on has it, to the bit."""
    if not len(model.gradient):
        model.gradient, model.loss = model.tried_gradient, model.tried_loss
        if fit.scale_free and not model.weights.any():
            model = keep_scale(model, fit=fit)
    return with_pseudo(model, fit)


def n_penalised(model: LbfgsModel, fit: Lbfgs) -> int:
    """All weights but the intercepts, which are last."""
    return len(model.weights) - fit.n_outputs


def with_pseudo(model: LbfgsModel, fit: Lbfgs) -> LbfgsModel:
    """The pseudo-gradient at the weights."""
    penalised = n_penalised(model, fit)
    model.pseudo = pseudo_gradient(model.gradient, model.weights, fit.l1, penalised)
    return model


def try_zeros(model: LbfgsModel) -> LbfgsModel:
    """Weights of 0 are tried next."""
    model.tried = np.zeros_like(model.weights)
    return model


def keep_scale(model: LbfgsModel, *, fit: Lbfgs) -> LbfgsModel:
    """The largest gradient at weights of 0, which were tried; the weights are tried next."""
    sizes = np.abs(model.tried_gradient)
    largest = float(sizes[: n_penalised(model, fit)].max(initial=0.0))
    if fit.loss == HUBER:
        # far from all targets all slopes are the bound, which centred features sum to rounding;
        # an intercept has these slopes for its gradient
        largest = max(largest, LEAST_SHARE * float(sizes.max(initial=0.0)))
    model.scale = min(1.0, largest) or 1.0
    model.tried = model.weights
    return model


def all_products(model: LbfgsModel) -> NDArray[np.float64]:
    """Products of the rank's slices, of all pairs with each other and with the gradient."""
    products = np.zeros(model.products.shape)
    for row in model.order:
        products[:, [row, N_PAIRS + row, -1]] = products_with(model, row)
    return products


def products_with(model: LbfgsModel, row: int) -> NDArray[np.float64]:
    """Products of the slices of all pairs with those of one, and with that of the gradient."""
    products = np.zeros((len(model.pairs), 3))
    change = model.pairs[N_PAIRS + row]
    add_products(model.pairs, model.pairs[row], change, model.pseudo[model.own], products)
    return products


def new_products(model: LbfgsModel) -> NDArray[np.float64]:
    """The same with the newest pair."""
    return products_with(model, model.order[-1])


def take_products(model: LbfgsModel, products: NDArray[np.float64]) -> LbfgsModel:
    """Products of whole vectors: the sums over the ranks."""
    model.products = products
    return model


def remember(model: LbfgsModel, new: NDArray[np.float64]) -> LbfgsModel:
    """The products of a new pair; one that does not curve upwards, as floats tell, is forgotten."""
    newest = model.order[-1]
    products = model.products.copy()
    for row, column in ((newest, 0), (N_PAIRS + newest, 1)):
        products[:, row] = products[row, :-1] = new[:, column]
    products[:, -1] = new[:, -1]
    model.products = products
    divisors = products[N_PAIRS + newest, [newest, N_PAIRS + newest]]
    if divisors.min() < np.finfo(np.float64).tiny:
        model.order = model.order[:-1]
    return model


def own_direction(model: LbfgsModel, *, n_ranks: int) -> NDArray[np.float64]:
    """The rank's slice of −H g, as long as that of rank 0."""
    of_gradient, of_pairs = two_loops(model.products, model.order)
    length = model.pairs.shape[1]
    direction = np.zeros(-(-len(model.weights) // n_ranks))
    direction[:length] = of_gradient * model.pseudo[model.own]
    moves, changes = np.split(model.pairs, 2)
    add_combination(moves, changes, of_pairs, direction[:length])
    return direction


def take_direction(model: LbfgsModel, slices: NDArray[np.float64], *, fit: Lbfgs) -> LbfgsModel:
    """The slices of all ranks; with an L1 term 0 where they do not lead down."""
    model.direction = slices.ravel()[: len(model.weights)]
    if fit.l1:
        model.direction, own = model.direction.copy(), slice(n_penalised(model, fit))
        keep_signs(model.direction[own], -np.sign(model.pseudo[own]))
    return model


def two_loops(products: NDArray[np.float64], order: list[int]) -> tuple[float, NDArray[np.float64]]:
    """−H g as a combination of the gradient and of the pairs; parameters as of `LbfgsModel`."""
    n_pairs = len(products) // 2
    of_gradient, of_pairs = -1.0, np.zeros(2 * n_pairs)

    def product(row: int) -> float:
        return float(of_gradient * products[row, -1] + products[row, :-1] @ of_pairs)

    weights = np.zeros(n_pairs)
    for i in reversed(order):
        weights[i] = product(i) / products[i, n_pairs + i]
        of_pairs[n_pairs + i] -= weights[i]
    for i in order[-1:]:
        scale = products[i, n_pairs + i] / products[n_pairs + i, n_pairs + i]
        of_gradient, of_pairs = scale * of_gradient, scale * of_pairs
    for i in order:
        of_pairs[i] += weights[i] - product(n_pairs + i) / products[i, n_pairs + i]
    return of_gradient, of_pairs


@kernel(fastmath=True)
def add_products(
    rows: NDArray[Any], a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], products: NDArray[Any]
) -> None:
    """Add the products of rows with three vectors, which are read once."""
    for begin in range(0, len(a), _CACHED):
        end = begin + _CACHED
        part_a, part_b, part_c = a[begin:end], b[begin:end], c[begin:end]
        for i in range(len(rows)):
            row, with_a, with_b, with_c = rows[i, begin:end], 0.0, 0.0, 0.0
            for p in range(len(row)):
                with_a += row[p] * part_a[p]
                with_b += row[p] * part_b[p]
                with_c += row[p] * part_c[p]
            products[i, 0] += with_a
            products[i, 1] += with_b
            products[i, 2] += with_c


@kernel(fastmath=True)
def add_combination(
    moves: NDArray[Any], changes: NDArray[Any], weights: NDArray[Any], total: NDArray[Any]
) -> None:
    """Add rows of two matrices up, each times its weight."""
    for begin in range(0, len(total), _CACHED):
        part = total[begin : begin + _CACHED]
        for i in range(len(moves)):
            move, change = moves[i, begin : begin + _CACHED], changes[i, begin : begin + _CACHED]
            of_move, of_change = weights[i], weights[len(moves) + i]
            for p in range(len(part)):
                part[p] += of_move * move[p] + of_change * change[p]


def start_of(model: LbfgsModel) -> NDArray[np.float64]:
    """Loss, slope along the direction, the first step to try, largest entry of the gradient."""
    with np.errstate(over="ignore", invalid="ignore"):  # it is told
        slope = float(model.pseudo @ model.direction)
    step = 1.0
    if not model.order and slope:
        step = min(1.0, 1.0 / np.sqrt(-slope))  # the direction is the gradient
    return np.array([model.loss, slope, step, largest_slope(model)])


def largest_slope(model: LbfgsModel) -> float:
    """Largest entry of the (pseudo-)gradient."""
    return float(np.abs(model.pseudo).max(initial=0.0))


def set_tried(model: LbfgsModel, *, step: float, fit: Lbfgs) -> LbfgsModel:
    """Where to look next: with an L1 term within the orthant."""
    model.tried = model.weights + step * model.direction
    if fit.l1:
        own = slice(n_penalised(model, fit))
        keep_signs(model.tried[own], orthant_of(model.weights[own], model.pseudo[own]))
    return model


def judgement(model: LbfgsModel, *, fit: Lbfgs) -> NDArray[np.float64]:
    """Loss and slope there: with an L1 term along the way within the orthant."""
    penalised = n_penalised(model, fit)
    slopes = pseudo_gradient(model.tried_gradient, model.tried, fit.l1, penalised)
    if fit.l1:
        slopes[:penalised][model.tried[:penalised] == 0] = 0  # at its border they stay
    with np.errstate(over="ignore", invalid="ignore"):  # then the step was too long
        return np.array([model.tried_loss, slopes @ model.direction])


def accept(model: LbfgsModel, *, fit: Lbfgs) -> LbfgsModel:
    """Go there; the step and how the gradient changed take the place of the oldest pair."""
    own, free = model.own, set(range(N_PAIRS)) - set(model.order)
    row = min(free) if free else model.order[0]
    model.order = [each for each in model.order if each != row] + [row]
    np.subtract(model.tried[own], model.weights[own], out=model.pairs[row])
    change = model.pairs[N_PAIRS + row]
    np.subtract(model.tried_gradient[own], model.gradient[own], out=change)
    model.weights, model.gradient = model.tried, model.tried_gradient
    model.loss = model.tried_loss
    return with_pseudo(model, fit)


def measures_of(model: LbfgsModel) -> NDArray[np.float64]:
    """Loss, largest entry of the (pseudo-)gradient, what it is held against, if one is broken."""
    norm = largest_slope(model)
    return np.array([model.loss, norm, model.scale, float(not np.isfinite(model.loss + norm))])


def part_of(model: LbfgsModel, rows: Columns) -> Part:
    """What a rank gives back: its slice of the pairs, rank 0 all else."""
    rows_of_pairs = [*model.order, *(N_PAIRS + row for row in model.order)]
    part: Part = {
        "residual": np.zeros((1, 0), rows.dtype),
        "pairs": model.pairs[rows_of_pairs].reshape(2, len(model.order), model.pairs.shape[1]),
    }
    if rows.rank:
        return part
    slots = {"gradient": model.gradient.copy(), "scale": np.array(model.scale)}
    if model.order:
        slots["rows"] = np.array(model.order)
    return {**part, "weights": model.weights.copy(), "slots": slots, "loss": model.loss}


def slots_of_pairs(parts: list[Part]) -> dict[str, NDArray[np.float64]]:
    """Whole steps and changes from the slices of all ranks, which are taken out of their parts."""
    moves, changes = np.concatenate([part.pop("pairs") for part in parts], axis=2)
    return {"moves": moves, "changes": changes} if len(moves) else {}
