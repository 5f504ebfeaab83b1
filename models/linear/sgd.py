"""Data-parallel SGD with sparse updates: the text of an epoch.

    every rank, every step                                       the same on all ranks
    ┌────────────────────────────────────────────┐              ┌────────────────────┐
    │ batch ─► scores ─► slopes ─► entries of g_r│─► Σ over r ─►│ w ← w − η (g + λ w)│
    └────────────────────────────────────────────┘  Aggregator  └────────────────────┘

    overlapped:   post Σ g(t) ── forward of t+1 ── collect ── step t    (stale by one)

Renggli 2017, §2.1 (algorithm 1), §2.4 (TopK). The gradient is the mean over the batches of all
ranks, and every rank moves weights of its own by the same sum, so they stay equal to the bit. One
rank alone sends nothing: it adds its rows to the weights one by one, or by AdaGrad batch by batch.
So it does where TopK leaves nothing out of a gradient, which then is a step of plain SGD.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.lanes import blank_rows
from daskpart.collectives import Communicator, PerRank, allreduce
from daskpart.collectives.sparse_allreduce import equal_shares
from daskpart.collectives.stream import Stream, entries_stream, index_type
from daskpart.collectives.topk import Feedback
from daskpart.models.base.state import Part
from daskpart.models.base.text import Step
from daskpart.models.optimisation.aggregation import Aggregator
from daskpart.models.optimisation.optimisers import BEGAN, SGD, AdaGrad, Optimizer, slots_from
from daskpart.models.optimisation.schedules import Schedule
from daskpart.models.samples.rows import Batches, RankRows, Rows, in_blocks

from .kernels import (
    GRADIENT,
    LAST,
    ROOT,
    WEIGHT,
    accumulate,
    apply_step,
    fold,
    run_adagrad_batches,
    run_batches,
    take_out,
)
from .losses import mean_loss

MEAN_BEGAN = "mean_began"  # among slots: the epochs of other fits, which the mean leaves out
ANEW = "anew"  # among slots, until training begins: whether the weights are of another fit
_FORGETTING = 3  # half of a mean over 100 epochs is of the last 16
_TOO_LARGE = 1e100  # a weight that has diverged, before its square is infinite
NO_INDICES = np.zeros(0, np.uint32)
Steps = TypeVar("Steps", bound="LossSteps")


@dataclass(frozen=True, kw_only=True)
class LossSteps(Batches):
    """Steps along the gradient of a loss, wherever the weights lie; equal on all ranks.

    Attributes
    ----------
    loss : int
        Code of the loss.
    epsilon : float
        Of the Huber loss.
    l2 : float
        Strength of the L2 penalty, of the mean loss.
    intercept : bool
    n_outputs : int
    schedule : Schedule
    curvature : float
        How fast the slope of the loss changes at most, by score.
    """

    loss: int
    epsilon: float
    l2: float
    intercept: bool
    n_outputs: int
    schedule: Schedule
    curvature: float

    def rates(self, first: int, epoch: int) -> NDArray[np.float64]:
        """The rate of each step of an epoch, the first of which has this number.

        Steps follow the mean of their batch. One at the end that has fewer samples goes by as much
        less: else they would count for more than others, and in each epoch they are of the same
        ranks and places.
        """
        begins = self.batch_size * np.arange(self.n_steps)[:, None]
        counts = np.clip(np.array(self.sizes) - begins, 0, self.batch_size).sum(axis=1)
        rates = self.schedule.rates(first, self.n_steps, epoch)
        return rates * (counts / counts.max())


@dataclass(frozen=True, kw_only=True)
class Sgd(LossSteps):
    """What a fit by SGD is, equal on all ranks.

    Attributes
    ----------
    l1 : float
        Strength of the L1 penalty, of the mean loss.
    average, overlap : bool
    optimizer : Optimizer
        Without weight decay.
    aggregator : Aggregator
    """

    l1: float
    average: bool
    overlap: bool
    optimizer: Optimizer
    aggregator: Aggregator

    @property
    def is_lazy(self) -> bool:
        """Whether a step touches only entries of its gradient."""
        return type(self.optimizer) is SGD or self.is_adaptive

    @property
    def is_adaptive(self) -> bool:
        """Whether each weight has a rate of its own."""
        return type(self.optimizer) is AdaGrad

    @property
    def is_alone(self) -> bool:
        """Whether one rank does it without making gradients."""
        return len(self.sizes) == 1 and self.is_lazy and self.aggregator.compressor is None

    @property
    def adds_rows(self) -> bool:
        """Whether one rank adds its rows to the weights wherever a gradient is left whole."""
        return len(self.sizes) == 1 and type(self.optimizer) is SGD


@dataclass(eq=False)
class SgdModel:
    """A rank's weights and what belongs to them, a row an index (`kernels`), and its room."""

    table: NDArray[np.float64]
    mean: NDArray[np.float64]
    scalars: NDArray[np.float64]
    slots: dict[str, NDArray[Any]]
    touched: NDArray[np.uint64] = field(repr=False)
    order: NDArray[np.int64] = field(repr=False)
    began: int
    mean_began: int
    epoch: int = 0
    blocks: NDArray[np.int64] = field(repr=False, default_factory=lambda: np.zeros(0, np.int64))
    gradient: Stream | None = None
    cuts: tuple[int, ...] = ()
    loss: float = 0.0
    penalty: float = 0.0
    finite: bool = True
    entries: int = 0

    def copy(self) -> SgdModel:
        """A copy that shares nothing that changes."""
        return copy.deepcopy(self)

    @property
    def weights(self) -> NDArray[np.float64]:
        """As a view."""
        return self.table[:, WEIGHT]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        held = (self.table, self.mean, self.touched, self.order)
        return sum(array.nbytes for array in (*held, *self.slots.values()))


def bounded(comm: Communicator, rows: PerRank, *, fit: Steps) -> Steps:
    """The fit with a rate that begins where gradient descent falls; a text."""
    return comm.fold(comm.map(squares_of, rows, fit=fit), bounded_by, fit=fit).result()


def squares_of(rows: Rows, *, fit: LossSteps) -> tuple[float, int]:
    """Sum of squares of a rank's values, and its samples."""
    total = 0.0
    for block in in_blocks(rows, fit.block_rows):
        own = block.data[block.pointer[0] : block.pointer[-1]]
        with np.errstate(over="ignore"):  # the fit diverges, which is told
            total += float(np.square(own, dtype=np.float64).sum())
    return total, len(rows)


def bounded_by(squares: list[tuple[float, int]], *, fit: Steps) -> Steps:
    """The same from what `squares_of` gave on each rank.

    The mean of ‖x‖², with a 1 for the intercept, is taken up to a power of two: so it is the same
    however many ranks added it up.
    """
    mean = sum(total for total, _ in squares) / sum(count for _, count in squares)
    steepness = fit.curvature * float(2.0 ** np.ceil(np.log2(1.0 + mean)))
    return replace(fit, schedule=fit.schedule.bounded(1.0 / steepness))


def begin(
    comm: Communicator, rows: PerRank, parts: PerRank, *, fit: Sgd, anew: bool
) -> tuple[PerRank, PerRank, list[int]]:
    """Model and feedback of every rank from the parts of a state, and the bytes they hold.

    Where weights are of another fit, those of features that no sample has are 0 under a penalty,
    which is all that moves them. AdaGrad has no rate to do it by: its step would have no end.
    """
    lacking = None
    if anew and fit.is_adaptive and (fit.l1 or fit.l2):
        lacking = allreduce(comm, comm.map(entries_of_features, parts, rows, fit=fit)).result() == 0
    model = comm.map(first_model, parts, rows, fit=fit, lacking=lacking)
    feedback = comm.map(first_feedback, parts, rows)
    model, feedback = comm.settle(model, feedback)
    return model, feedback, comm.fold(comm.map(bytes_held, model, rows), list).result()


def epoch(
    comm: Communicator,
    rows: PerRank,
    changing: tuple[PerRank, PerRank, int, float],
    *,
    number: int,
    fit: Sgd,
    tolerance: float,
) -> tuple[tuple[PerRank, PerRank, int, float], Step]:
    """One pass over the samples."""
    model, feedback, steps, before = changing
    n_steps = fit.n_steps
    rates = fit.rates(steps + 1, number)
    model = comm.update(begin_epoch, model, number=number, fit=fit)
    if fit.is_alone:
        model = comm.update(run_alone, model, rows, rates=rates, fit=fit)
        density = float("nan")
    else:
        pending, aggregator = None, fit.aggregator
        for step in range(n_steps):
            model = comm.update(forward, model, rows, step=step, fit=fit)
            gradients = comm.map(gradient_of, model)
            if pending is not None:  # the sum of the step before came while this one was computed
                model = _moved(comm, model, rows, pending, rates, step - 1, steps, fit)
            pending, feedback, aggregator = aggregator.post(comm, gradients, feedback)
            if not fit.overlap:
                model = _moved(comm, model, rows, pending, rates, step, steps, fit)
                pending = None
        if pending is not None:
            model = _moved(comm, model, rows, pending, rates, n_steps - 1, steps, fit)
    model = comm.update(end_epoch, model, fit=fit)
    model, feedback = comm.settle(model, feedback)
    summed = allreduce(comm, comm.map(measures_of, model)).result()
    n_ranks = comm.n_ranks
    loss = float(summed[0] / fit.n_samples + summed[1] / n_ranks)
    if not fit.is_alone:
        density = float(summed[2] / n_ranks / n_steps)
    finite, reached, change = bool(np.isfinite(loss)) and not summed[3], loss, loss - before
    if fit.average:  # what tells whether it is enough is the mean, which the steps do not use
        reached, change = before, float("nan")
        if finite and tolerance and _is_looked_at(number + 1):
            reached = float(allreduce(comm, comm.map(loss_at_mean, model, rows, fit=fit)).result())
            change = reached - before
    measured = {
        "loss": loss,
        "change": change,
        "density": density,
        "learning_rate": float(fit.schedule.rates(steps + n_steps, 1, number)[0]),
    }
    done = Step(measured, finite=finite, enough=abs(change) < tolerance)
    return (model, feedback, steps + n_steps, reached), done


def _is_looked_at(epoch: int) -> bool:
    """Whether the loss at the mean is computed before an epoch, 2, 4, 8 …: it costs half of one.

    So with a tolerance of 0, where nothing depends on it, it never is.
    """
    return epoch & (epoch - 1) == 0


def _moved(
    comm: Communicator,
    model: PerRank,
    rows: PerRank,
    pending: Any,
    rates: NDArray[np.float64],
    step: int,
    before: int,
    fit: Sgd,
) -> PerRank:
    return comm.update(
        move, model, pending.collect(), rows,
        rate=float(rates[step]), step=step, number=before + step + 1, fit=fit,
    )  # fmt: skip


# -- steps on one rank ---


def entries_of_features(part: Part, rows: Rows, *, fit: Sgd) -> NDArray[np.int64]:
    """How many entries of each feature a rank has."""
    n_features = len(part["weights"]) // fit.n_outputs - 1
    found = np.zeros(n_features, np.int64)
    for block in in_blocks(rows, fit.block_rows):
        own = block.indices[block.pointer[0] : block.pointer[-1]]
        found += np.bincount(own, minlength=n_features)
    return found


def first_model(
    part: Part, rows: Rows, *, fit: Sgd, lacking: NDArray[np.bool_] | None = None
) -> SgdModel:
    """A rank's model from its part of a state; weights of features that are `lacking` are 0."""
    weights = part["weights"]
    if lacking is not None:
        weights = weights.copy()
        weights[: -fit.n_outputs][np.repeat(lacking, fit.n_outputs)] = 0.0
    size, none = len(weights), np.zeros(0)
    n_features = size // fit.n_outputs - 1
    mean = np.array(part["mean"]) if fit.average else none
    if fit.average and not len(mean):
        mean = weights.copy()
    slots = {name: np.array(slot) for name, slot in part["slots"].items()}
    began, mean_began = (int(slots.pop(name, 0)) for name in (BEGAN, MEAN_BEGAN))
    slots.pop(ANEW, None)
    table = blank_rows(size, _n_columns(fit), np.float64)
    table[:, WEIGHT] = weights
    if fit.is_adaptive:
        table[:, ROOT] = slots.pop("roots", 0.0)
    elif not fit.is_lazy and not slots:
        slots = fit.optimizer.first_slots(_pieces(weights, fit.n_outputs))
    return SgdModel(
        table=table,
        mean=mean,
        scalars=np.array([1.0, 0.0]),
        slots=slots,
        touched=np.zeros(n_features // 64 + 1, np.uint64),
        order=np.zeros(0, np.int64),
        began=began,
        mean_began=mean_began,
    )


def _n_columns(fit: Sgd) -> int:
    """Of the table of a model."""
    if fit.is_adaptive:
        return ROOT + 1
    if fit.l1:
        return LAST + 1
    return WEIGHT + 1 if fit.is_alone else GRADIENT + 1


def first_feedback(part: Part, rows: Rows) -> Feedback:
    """What a rank has not sent, from its part of a state."""
    residual = np.array(part["residual"][0], rows.dtype)
    return Feedback(residual, rows.rank, int(part["steps"]))


def bytes_held(model: Any, rows: Rows) -> int:
    """Of a rank."""
    return model.nbytes + rows.nbytes


def begin_epoch(model: SgdModel, *, number: int, fit: Sgd) -> SgdModel:
    """Begin to measure anew."""
    model.epoch, model.blocks = number, fit.blocks(number)
    model.loss, model.entries, model.cuts = 0.0, 0, ()
    return model


def run_alone(model: SgdModel, rows: Rows, *, rates: NDArray[np.float64], fit: Sgd) -> SgdModel:
    """All steps of an epoch."""
    for place, block in enumerate(model.blocks.tolist()):
        own = fit.rows_of_block(rows, block)
        order = fit.order(own, model.epoch, block)
        of_block = rates[place * fit.block_steps : (place + 1) * fit.block_steps]
        model.loss += run_steps_alone(model, own, order, of_block, fit)
    return model


def run_steps_alone(
    model: SgdModel, own: RankRows, order: NDArray[np.int64], rates: NDArray[np.float64], fit: Sgd
) -> float:
    """A step for each of the rates over rows of a block; gives the sum of losses before it."""
    scores, size = np.empty((fit.batch_size, fit.n_outputs)), len(model.table)
    shared = (
        *own.arrays, order, fit.batch_size, rates, fit.loss, fit.epsilon, fit.l1, fit.l2,
        fit.intercept, model.table, model.scalars,
    )  # fmt: skip
    if not fit.is_adaptive:
        return float(run_batches(*shared, scores))
    # room for entries of every weight: pages that none reaches cost nothing
    room = np.empty(size, _index_type(size)), np.empty(size, own.dtype)
    return float(run_adagrad_batches(*shared, scores[0], model.touched, *room))


def _index_type(size: int) -> np.dtype[Any]:
    """Of entries in kernels: 32 bits at least, so that few kinds are compiled."""
    return max(index_type(size), np.dtype(np.uint32))


def forward(model: SgdModel, rows: Rows, *, step: int, fit: Sgd) -> SgdModel:
    """The gradient of a rank's batch, its share of the mean over all ranks."""
    own, batch = fit.batch(rows, model, step)
    gradient, loss = gradient_stream(
        own, batch, 1.0 / fit.count(step), fit, model.table, model.scalars, model.touched,
        rows.dtype,
    )  # fmt: skip
    model.gradient = gradient.cut_at(model.cuts)
    model.loss += loss
    return model


def gradient_stream(
    rows: RankRows, batch: NDArray[np.int64], share: float, fit: Sgd, table: NDArray[Any],
    scalars: NDArray[Any], touched: NDArray[Any], dtype: Any,
) -> tuple[Stream, float]:  # fmt: skip
    """Gradient of some rows of a block as a stream, and the sum of their losses."""
    n_outputs, size = fit.n_outputs, len(table)
    n_touched, loss = accumulate(
        *rows.arrays, batch, share, fit.loss, fit.epsilon, fit.l1, fit.l2, fit.intercept, table,
        scalars, np.empty(n_outputs), touched,
    )  # fmt: skip
    indices = np.empty(n_touched * n_outputs, _index_type(size))
    values = np.empty(n_touched * n_outputs, dtype)
    n = take_out(table, touched, n_outputs, indices, values)
    return entries_stream(indices[:n], values[:n], size), loss


def gradient_of(model: SgdModel) -> Stream:
    """What the rank adds to the sum."""
    assert model.gradient is not None
    return model.gradient


def _is_same(own: Stream, total: Stream) -> bool:
    """Whether nothing was left out of a gradient, nor added to it."""
    entries = [int(np.count_nonzero(each.values)) for each in (own, total)]  # quick, where it was
    return entries[0] == entries[1] and np.array_equal(own.to_numpy(), total.to_numpy())


def move(
    model: SgdModel, total: Stream, rows: Rows, *, rate: float, step: int, number: int, fit: Sgd
) -> SgdModel:
    """A step along the sum."""
    own, model.gradient = model.gradient, None
    model.cuts = equal_shares(total, len(fit.sizes))
    if not fit.is_lazy:
        gradient = total.to_numpy().astype(np.float64, copy=False)
        model.entries += int(np.count_nonzero(gradient))
        decay = _pieces(fit.l2 * model.weights, fit.n_outputs)[0]
        gradient[: len(decay)] += decay
        fit.optimizer.update(
            _pieces(model.weights, fit.n_outputs), _pieces(gradient, fit.n_outputs), model.slots,
            rate=rate, number=number - model.began,
        )  # fmt: skip
        return model
    if fit.adds_rows and own is not None and _is_same(own, total):
        model.entries += int(np.count_nonzero(total.values))
        block = fit.rows_of_block(rows, int(model.blocks[step // fit.block_steps]))
        run_steps_alone(model, block, fit.of_step(model.order, step), np.array([rate]), fit)
        return model
    indices = NO_INDICES
    if total.indices is not None:
        indices = total.indices.astype(_index_type(total.size), copy=False)
    model.entries += apply_step(
        indices, total.values, rate, fit.l1, fit.l2, fit.n_outputs, model.table, model.scalars
    )
    return model


def _pieces(vector: NDArray[Any], n_outputs: int) -> list[NDArray[Any]]:
    """Features and intercepts, as views."""
    behind = len(vector) - n_outputs
    return [vector[:behind], vector[behind:]]


def end_epoch(model: SgdModel, *, fit: Sgd) -> SgdModel:
    """Bring all weights up to date, and take them into the mean.

    The mean forgets where it began: of t epochs the last weighs (1 + η) / (t + η), with η = 3
    (Shamir and Zhang 2013, "Stochastic gradient descent for non-smooth optimization: convergence
    results and optimal averaging schemes", §4).
    """
    share = (1 + _FORGETTING) / (model.epoch - model.mean_began + _FORGETTING)
    size, square, largest = fold(
        fit.l1, fit.l2, fit.n_outputs, model.table, model.scalars, model.mean, share
    )
    model.finite = largest < _TOO_LARGE
    model.penalty = fit.l1 * size + 0.5 * fit.l2 * square if model.finite else 0.0
    return model


def measures_of(model: SgdModel) -> NDArray[np.float64]:
    """Sum of losses, penalty, density of the sums, whether something is not finite."""
    density = model.entries / len(model.weights)
    return np.array([model.loss, model.penalty, density, float(not model.finite)])


def loss_at_mean(model: SgdModel, rows: Rows, *, fit: Sgd) -> float:
    """A rank's part of the loss with the penalty, at the mean weights; no L1 term goes with it."""
    each = model.mean.reshape(-1, fit.n_outputs)
    total = 0.0
    for block in in_blocks(rows, fit.block_rows):
        scores = block.matrix(len(each) - 1) @ each[:-1] + each[-1]
        mass = float(block.weight.sum())
        if mass:  # of rows that weigh nothing, or none, there is no mean
            loss = mean_loss(fit.loss, fit.epsilon, scores, block.target, block.weight)
            total += mass / fit.n_samples * loss
    own = model.mean[: -fit.n_outputs]
    return total + 0.5 * fit.l2 * float(own @ own) / len(fit.sizes)


def part_of(model: SgdModel, feedback: Feedback) -> Part:
    """What a rank gives back: rank 0 what is replicated, each its residual."""
    residual = {"residual": feedback.residual[None].copy()}
    if feedback.rank:
        return residual
    roots = {"roots": model.table[:, ROOT]} if model.table.shape[1] > ROOT else {}
    roots |= slots_from(model.began)
    if model.mean_began:
        roots[MEAN_BEGAN] = np.array(model.mean_began)
    return {
        **residual,
        "weights": model.weights.copy(),
        "mean": model.mean.copy(),
        "slots": {name: slot.copy() for name, slot in (model.slots | roots).items()},
    }
