"""Seconds of an epoch on a cluster, from its plan: computing by the slowest cell, messages by α–β.

    seconds = Σ_t [ max_k nonzeros(k, t) / updates per second
                    + seconds of reduce(t) + seconds of expand(t) ]

A message of b bytes takes α + βb; a rank sends one message after another and receives one after
another, the two at the same time; a sub-epoch ends when its slowest rank does
(`Plan.predicted_seconds`).
"""

from __future__ import annotations

from dataclasses import dataclass

from daskpart.models.matrix_factorization.pasgd import RowLayout
from daskpart.models.matrix_factorization.plan import MFPlan

SECONDS_A_BYTE = 1e-10  # 10 GB/s


@dataclass(frozen=True)
class EpochSeconds:
    """Seconds of one epoch, by what they are spent on."""

    computing: float
    communicating: float

    @property
    def total(self) -> float:
        """Nothing overlaps."""
        return self.computing + self.communicating


def epoch_seconds(
    plan: MFPlan, n_components: int, updates_per_second: float, alpha: float
) -> EpochSeconds:
    """The model above for one epoch of a planned fit.

    Parameters
    ----------
    plan : MFPlan
    n_components : int
        A row travels with its bias and its gradient sum.
    updates_per_second : float
        Ratings that one rank processes in a second.
    alpha : float
        Seconds a message.
    """
    row_bytes = 4 * RowLayout(n_components, biases=True, gradients=True).words
    slowest = plan.schedule.cell_nonzeros.max(axis=0).sum()
    messages = sum(
        each.predicted_seconds(alpha, SECONDS_A_BYTE, row_bytes)
        for each in (*plan.reduces, *plan.expands)
    )
    return EpochSeconds(float(slowest) / updates_per_second, float(messages))
