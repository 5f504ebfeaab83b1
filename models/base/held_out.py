"""What is held out of a fit, measured on the ranks; its messages count apart from training.

after a step    rows that predictions need ──► the ranks that lack them      (sparse expand)
                Σ (x − x̂)² of each rank ──► every rank                      (star, rank order)
"""

from __future__ import annotations

from collections.abc import Sequence

from daskpart.collectives import SUM, Communicator, PerRank, Plan

LABEL = "validation"  # of those messages, in `counters`


def mean_loss(comm: Communicator, sums: PerRank, n_held_out: int) -> float:
    """The mean of squared errors, or of other losses, from each rank's sum of them, a float."""
    total = comm.fold(sums, SUM.fold, label=LABEL)
    return float(total.result()) / n_held_out


def messages_beside(expands: Sequence[Plan]) -> dict[str, tuple[int, int]]:
    """Messages and rows of a step, all ranks together, as `Expected.beside`."""
    of_sums = 2 * (expands[0].n_ranks - 1)
    messages, rows = (
        sum(getattr(plan, f"total_{what}") for plan in expands) for what in ("messages", "rows")
    )
    return {LABEL: (messages + of_sums, rows)}
