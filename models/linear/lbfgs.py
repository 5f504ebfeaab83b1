"""L-BFGS on the ranks: full gradients by the same sums, everything else on all ranks alike.

    w ─► loss and gradient of own rows ─► Σ over ranks ─► two-loop recursion ─► direction d
    ▲                                                                             │
    └────── w + s d, weak Wolfe conditions on the summed loss ◄── line search ◄───┘

Two loops: Nocedal and Wright 2006, algorithm 7.4; line search: bisection between bounds (Lewis and
Overton 2013, §2), which needs one gradient a try and nearly always takes the first one. Close to
the optimum, where losses differ by rounding only, slopes decide (Hager and Zhang 2005, §1, the
approximate Wolfe conditions). All ranks hold the same sums, so they take the same decisions.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.kernels import kernel
from daskpart.collectives import Communicator, PerRank
from daskpart.collectives.stream import Stream, stream_of_all
from daskpart.models.base.state import Part
from daskpart.models.base.text import Step
from daskpart.models.optimisation.aggregation import SWITCH, Aggregator

from .columns import Columns, add_gradient, column_blocks
from .sgd import bytes_held

DECREASE, CURVATURE = 1e-4, 0.9
ROUNDING = 1e-12  # of a loss, relative
FEW_TRIES, MAX_TRIES = 5, 40
NONE = np.zeros(0)


@dataclass(frozen=True)
class Lbfgs:
    """What a fit by L-BFGS is, equal on all ranks; names as in `Sgd`.

    Attributes
    ----------
    scale_free : bool
        Hold the gradient against its size at weights of 0 where that is below 1: a regression of
        small numbers has small gradients everywhere, one of classes has not.
    n_pairs : int
        Steps that the recursion remembers.
    block_rows : int or None
        Rows of a rank that are in memory at a time; None: all.
    """

    loss: int
    epsilon: float
    l2: float
    intercept: bool
    n_outputs: int
    n_samples: int
    aggregator: Aggregator
    scale_free: bool = False
    n_pairs: int = 10
    block_rows: int | None = None


@dataclass(eq=False)
class LbfgsModel:
    """A rank's weights and what it knows around them.

    Attributes
    ----------
    weights, gradient, loss
        At the last step.
    tried, tried_gradient, tried_loss
        In the line search.
    moves, changes : list of float64 ndarray
        The last steps, and how the gradient changed with each.
    curvatures : list of float
        The product of each of these pairs.
    scale : float
        The tolerance is a share of it: 1, or of a regression less.
    """

    weights: NDArray[np.float64]
    gradient: NDArray[np.float64]
    loss: float
    moves: list[NDArray[np.float64]] = field(repr=False)
    changes: list[NDArray[np.float64]] = field(repr=False)
    curvatures: list[float] = field(repr=False)
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
        vectors = (self.weights, self.gradient, self.direction, self.tried, self.tried_gradient)
        return sum(array.nbytes for array in (*vectors, *self.moves, *self.changes))


def begin(
    comm: Communicator, rows: PerRank, parts: PerRank, *, fit: Lbfgs
) -> tuple[PerRank, list[int]]:
    """The model of every rank from the parts of a state; a new one gets its first gradient."""
    model = comm.map(first_model, parts)
    model = _evaluated(comm, rows, model, fit)
    model = comm.settle(comm.update(keep_first, model, fit=fit))
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
    model = comm.update(set_direction, model, fit=fit)
    loss, slope, step = _known(comm, comm.map(start_of, model))
    low, high, n_tries = 0.0, float("inf"), 0
    found = slope >= 0  # no way down: it is there, as far as can be told
    while not found and n_tries < MAX_TRIES:
        n_tries += 1
        model = comm.update(set_tried, model, step=step)
        model = _evaluated(comm, rows, model, fit)
        tried, tried_slope = _known(comm, comm.map(judgement, model))
        falls = tried <= loss + DECREASE * step * slope
        level = tried <= loss + ROUNDING * abs(loss)
        if not (falls or (level and tried_slope <= (2 * DECREASE - 1) * slope)):
            high = step
        elif tried_slope < CURVATURE * slope:
            low = step
        else:
            found = True
            model = comm.update(accept, model, fit=fit)
            continue
        step = next_step(low, high, n_tries)
    model = comm.settle(model)
    loss, norm, scale, broken = _known(comm, comm.map(measures_of, model))
    moved = slope < 0 and found
    change = norm / scale if moved else 0.0
    measured = {"loss": loss, "change": change, "gradient": norm, "evaluations": n_tries}
    return model, Step(measured, finite=not broken, enough=change < tolerance)


def _evaluated(comm: Communicator, rows: PerRank, model: PerRank, fit: Lbfgs) -> PerRank:
    """The model with loss and gradient at what is tried."""
    model = comm.update(evaluate, model, rows, fit=fit)
    total = fit.aggregator.total(comm, comm.map(share_of, model))
    return comm.update(take_total, model, total, fit=fit)


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


def first_model(part: Part) -> LbfgsModel:
    """A rank's model from its part of a state."""
    weights, slots = np.array(part["weights"]), part["slots"]
    moves = [move.copy() for move in slots.get("moves", ())]
    changes = [change.copy() for change in slots.get("changes", ())]
    return LbfgsModel(
        weights=weights,
        gradient=np.array(slots.get("gradient", NONE)),
        loss=part["loss"],
        scale=float(slots.get("scale", 1.0)),
        moves=moves,
        changes=changes,
        curvatures=[float(m @ c) for m, c in zip(moves, changes, strict=True)],
        tried=weights,
    )


def evaluate(model: LbfgsModel, rows: Columns, *, fit: Lbfgs) -> LbfgsModel:
    """Loss and gradient of a rank's rows at what is tried: the loss as the last entry."""
    share, loss = 1.0 / fit.n_samples, 0.0
    summed = np.zeros(len(model.tried) + 1)
    for block in column_blocks(rows, fit.block_rows):
        scores = np.empty((len(block.target), fit.n_outputs))
        loss += add_gradient(
            *block.arrays, share, fit.loss, fit.epsilon, fit.intercept, model.tried, scores, summed
        )
    summed[-1] = loss * share
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
    own = model.tried[: len(model.tried) - fit.n_outputs]
    model.share, model.tried_gradient = None, summed[:-1]
    model.tried_gradient[: len(own)] += fit.l2 * own
    model.tried_loss = float(summed[-1] + 0.5 * fit.l2 * (own @ own))
    return model


def keep_first(model: LbfgsModel, *, fit: Lbfgs) -> LbfgsModel:
    """What was found at the first weights; a state that goes on has it, to the bit."""
    if not len(model.gradient):
        model.gradient, model.loss = model.tried_gradient, model.tried_loss
        if fit.scale_free and not model.weights.any():
            own = model.gradient[: len(model.gradient) - fit.n_outputs]
            model.scale = min(1.0, float(np.abs(own).max(initial=0.0))) or 1.0
    return model


def set_direction(model: LbfgsModel, *, fit: Lbfgs) -> LbfgsModel:
    """−H g by the two-loop recursion: each loop goes once through moves and changes."""
    direction, moves, changes = -model.gradient, model.moves, model.changes
    model.direction = direction
    if not moves:
        return model
    weights = np.zeros(len(moves))
    product = moves[-1] @ direction
    for i in reversed(range(len(moves))):
        weights[i] = product / model.curvatures[i]
        product = moved(direction, -weights[i], changes[i], moves[i - 1] if i else changes[0])
    scale = model.curvatures[-1] / (changes[-1] @ changes[-1])
    direction *= scale
    product *= scale
    for i in range(len(moves)):
        weight = weights[i] - product / model.curvatures[i]
        product = moved(direction, weight, moves[i], changes[min(i + 1, len(moves) - 1)])
    return model


@kernel(fastmath={"reassoc", "contract"})
def moved(vector: NDArray[Any], step: float, along: NDArray[Any], beside: NDArray[Any]) -> float:
    """Move a vector by `step` along another; its product with a third then."""
    product = 0.0
    for i in range(len(vector)):
        vector[i] += step * along[i]
        product += vector[i] * beside[i]
    return product


def start_of(model: LbfgsModel) -> NDArray[np.float64]:
    """Loss and slope along the direction, and the first step to try."""
    slope = float(model.gradient @ model.direction)
    step = 1.0
    if not len(model.moves) and slope:
        step = min(1.0, 1.0 / np.sqrt(-slope))  # the direction is the gradient
    return np.array([model.loss, slope, step])


def set_tried(model: LbfgsModel, *, step: float) -> LbfgsModel:
    """Where to look next."""
    model.tried = model.weights + step * model.direction
    return model


def judgement(model: LbfgsModel) -> NDArray[np.float64]:
    """Loss and slope there."""
    return np.array([model.tried_loss, model.tried_gradient @ model.direction])


def accept(model: LbfgsModel, *, fit: Lbfgs) -> LbfgsModel:
    """Go there, and remember how the gradient changed."""
    move = model.tried - model.weights
    change = model.tried_gradient - model.gradient
    curvature = float(move @ change)
    if curvature > 0:
        model.moves = [*model.moves, move][-fit.n_pairs :]
        model.changes = [*model.changes, change][-fit.n_pairs :]
        model.curvatures = [*model.curvatures, curvature][-fit.n_pairs :]
    model.weights, model.gradient = model.tried, model.tried_gradient
    model.loss = model.tried_loss
    return model


def measures_of(model: LbfgsModel) -> NDArray[np.float64]:
    """Loss, largest entry of the gradient, what it is held against, whether one is broken."""
    norm = np.abs(model.gradient).max(initial=0.0)
    return np.array([model.loss, norm, model.scale, float(not np.isfinite(model.loss + norm))])


def part_of(model: LbfgsModel, rows: Columns) -> Part:
    """What a rank gives back: rank 0 all of it."""
    residual = {"residual": np.zeros((1, 0), rows.dtype)}
    if rows.rank:
        return residual
    slots = {"gradient": model.gradient.copy(), "scale": np.array(model.scale)}
    if model.moves:
        slots |= {"moves": np.array(model.moves), "changes": np.array(model.changes)}
    return {**residual, "weights": model.weights.copy(), "slots": slots, "loss": model.loss}
