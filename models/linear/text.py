"""A linear model on ranks: rows laid out, weights handed out, epochs or iterations, the state.

What an epoch is stands in `sgd`, what an iteration is in `lbfgs`; here is what the base asks of
every model.
"""

from __future__ import annotations

import numpy as np

from daskpart.collectives import Communicator, PerRank
from daskpart.models.base.text import Step, Text

from . import lbfgs, sgd
from .columns import by_columns
from .lbfgs import Lbfgs
from .sgd import Sgd
from .state import LinearState


class LinearText(Text):
    """The fit on one communicator.

    Parameters
    ----------
    comm : Communicator
    rows : PerRank of RankRows
    fit : Sgd or Lbfgs
    tolerance : float
    """

    def __init__(
        self, comm: Communicator, rows: PerRank, fit: Sgd | Lbfgs, tolerance: float
    ) -> None:
        self.session = comm
        if isinstance(fit, Sgd):
            self.fixed, self.step = rows, sgd.epoch
            self._fit = comm.run(sgd.bounded, rows, fit=fit)
        else:
            self.fixed = comm.settle(comm.map(by_columns, rows, n_outputs=fit.n_outputs))
            self._fit, self.step = fit, lbfgs.iteration
        self.static = {"fit": self._fit, "tolerance": tolerance}
        self._ranks = {"rank": [np.array([rank]) for rank in range(comm.n_ranks)]}

    def begin_from(self, state: LinearState) -> None:  # type: ignore[override]
        """Hand out the weights of a state."""
        comm = self.session
        known = {name: getattr(state, name) for name in ("steps", "loss")}
        cut = state.cut(self._ranks, comm.n_ranks)
        parts = comm.values([{**part, **known} for part in cut])
        if isinstance(self._fit, Lbfgs):
            anew = "gradient" not in state.slots
            scales = self._fit.scale_free and anew and bool(state.weights.any())
            self.changing, self.memory = comm.run(
                lbfgs.begin, self.fixed, parts, fit=self._fit, scales=scales
            )
            return
        model, feedback, self.memory = comm.run(
            sgd.begin, self.fixed, parts, fit=self._fit, anew=sgd.ANEW in state.slots
        )
        self.changing = (model, feedback, state.steps, state.loss)

    def gather(self, state: LinearState) -> LinearState:  # type: ignore[override]
        """The weights as they are on the ranks."""
        comm = self.session
        if isinstance(self._fit, Lbfgs):
            parts = comm.gather(comm.map(lbfgs.part_of, self.changing, self.fixed))
            parts[0]["slots"] |= lbfgs.slots_of_pairs(parts)
            more = {"loss": parts[0].pop("loss")}
        else:
            model, feedback, steps, loss = self.changing
            parts = comm.gather(comm.map(sgd.part_of, model, feedback))
            more = {"steps": steps, "loss": loss}
        return state.assembled(parts, self._ranks, **more)

    def advice(self, step: Step) -> str:
        """What to do when weights diverged."""
        scale = "scale the features (StandardScaler, MaxAbsScaler)"
        if isinstance(self._fit, Lbfgs):
            return (
                "the loss, its gradient or the square of that is too large for a number. Scale y "
                f"where it is large, and {scale}."
            )
        return (
            f"weights became NaN or infinite. Lower eta0, {scale}, or take optimizer='adagrad' "
            "or solver='lbfgs'."
        )
