"""A perceptron on ranks: rows laid out, weights handed out, epochs, the state.

What an epoch is stands in `sgd`; here is what the base asks of every model.
"""

from __future__ import annotations

import numpy as np

from daskpart.collectives import Communicator, PerRank
from daskpart.models.base.text import Step, Text

from . import sgd
from .sgd import Training
from .state import MLPState


class MLPText(Text):
    """The fit on one communicator.

    Parameters
    ----------
    comm : Communicator
    rows : PerRank of RankRows
    fit : Training
    tolerance : float
    """

    measures_first = True

    def __init__(self, comm: Communicator, rows: PerRank, fit: Training, tolerance: float) -> None:
        self.session, self._fit = comm, fit
        self.fixed, self.step = comm.run(sgd.laid_out, rows, fit=fit), sgd.epoch
        self.static = {"fit": fit, "tolerance": tolerance}
        self._ranks = {"rank": [np.array([rank]) for rank in range(comm.n_ranks)]}

    def begin_from(self, state: MLPState) -> None:  # type: ignore[override]
        """Hand out the weights of a state."""
        comm = self.session
        cut = state.cut(self._ranks, comm.n_ranks)
        parts = comm.values([{**part, "steps": state.steps} for part in cut])
        model, feedback, self.memory = comm.run(sgd.begin, self.fixed, parts, fit=self._fit)
        self.changing = (model, feedback, state.steps, state.loss, state.least)

    def gather(self, state: MLPState) -> MLPState:  # type: ignore[override]
        """The weights as they are on the ranks."""
        comm, (model, feedback, steps, loss, least) = self.session, self.changing
        parts = comm.gather(comm.map(sgd.part_of, model, *feedback, fit=self._fit))
        return state.assembled(parts, self._ranks, steps=steps, loss=loss, least=least)

    def advice(self, step: Step) -> str:
        """What to do when weights diverged."""
        return (
            "weights became NaN or infinite. Lower learning_rate_init, scale the features "
            "(StandardScaler, MaxAbsScaler), or take optimizer='adam'."
        )
