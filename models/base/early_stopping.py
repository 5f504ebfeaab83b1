"""Early stopping: which step is the best so far, and whether patience has run out.

    row of the history ─► Watch.after ─► Seen: the best values, the best step, how many came since

Whoever must know counts with this: texts that validate on their ranks, the trainer, callbacks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .state import State


@dataclass(frozen=True)
class Seen:
    """What a watch has seen of some steps.

    Attributes
    ----------
    values : tuple of float
        The best so far of each column; empty: nothing was measured yet.
    step : int
        The best step.
    since : int
        Steps since a value was better than all before; of several columns, or as good.
    """

    values: tuple[float, ...] = ()
    step: int = 0
    since: int = 0


@dataclass(frozen=True)
class Watch:
    """What early stopping looks at.

    A column must get better. Of several the best step is the last at which none was worse than ever
    before, and patience bears steps at which none is as good: of a share of few samples most steps
    repeat one (Veličković et al., "Graph attention networks", ICLR 2018, by their program).

    Attributes
    ----------
    patience : int
        Steps without a better value that are borne.
    lowest, highest : tuple of str
        Columns of the history in which less is better, and more.
    min_delta : float
        A value is better by more than this.
    """

    patience: int
    lowest: tuple[str, ...] = ()
    highest: tuple[str, ...] = ()
    min_delta: float = 0.0

    def measures(self, row: Mapping[str, Any]) -> bool:
        """Whether a row has the columns, as numbers."""
        values = [row.get(column) for column in (*self.lowest, *self.highest)]
        return not any(value is None or math.isnan(value) for value in values)

    def after(self, seen: Seen, step: int, row: Mapping[str, Any]) -> Seen:
        """What was seen after one more step; one that was not measured does not count."""
        if not self.measures(row):
            return seen
        values = tuple(float(row[column]) for column in (*self.lowest, *self.highest))
        if not seen.values:
            return Seen(values, step)
        signs = [-1] * len(self.lowest) + [1] * len(self.highest)
        gains = [s * (v - best) for s, v, best in zip(signs, values, seen.values, strict=True)]
        better = [gain > self.min_delta for gain in gains]
        if not any(better) and (len(gains) == 1 or max(gains) < 0):
            return replace(seen, since=seen.since + 1)
        pairs = zip(better, values, seen.values, strict=True)
        best = tuple(value if is_better else old for is_better, value, old in pairs)
        return Seen(best, step if min(gains) >= 0 else seen.step)

    def over(self, history: Iterable[Mapping[str, Any]], behind: int = 0) -> Seen:
        """What was seen over the rows of a history behind step `behind`."""
        seen = Seen()
        for row in history:
            if row["epoch"] > behind:
                seen = self.after(seen, int(row["epoch"]), row)
        return seen

    def ran_out(self, seen: Seen) -> bool:
        """Whether patience has run out."""
        return seen.since >= self.patience


def seen_before(watch: Watch | None, state: State) -> Seen:
    """What was seen of the steps that led to a state; nothing where nobody watches."""
    return Seen() if watch is None else watch.over(state.history, state.watched_behind)
