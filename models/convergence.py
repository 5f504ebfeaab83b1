"""When an iteration changes so little that the next ones are not worth their time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .callbacks import EpochCallback


class FitTolerance(EpochCallback):
    """Stop after an iteration that changed the fit by less than a tolerance.

    Parameters
    ----------
    tolerance : float
        Of the absolute change; 0 never stops.
    column : str
        Column of `history_` that holds the change.
    """

    def __init__(self, tolerance: float, column: str = "fit_change") -> None:
        self.tolerance, self.column = tolerance, column

    def start(self, first_epoch: int, max_epochs: int, history: Sequence[dict[str, Any]]) -> bool:
        """Whether the iterations before were enough."""
        return bool(history) and self.reached(history[-1])

    def epoch_done(self, row: dict[str, Any], snapshot: Callable[[], Any]) -> bool:
        """Whether this iteration was enough."""
        return self.reached(row)

    def reached(self, row: dict[str, Any]) -> bool:
        """Whether a row of the history changed too little (NaN, of the first one, did not)."""
        return abs(row[self.column]) < self.tolerance
