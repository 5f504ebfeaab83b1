"""The timeline of a fit's last epochs or iterations, for its report.

    epoch  1    2    …   48   49   50
           ─ dropped ──│ ███▒·██▒·███▒·     what the picture shows: compiled, caches warm

A long fit makes millions of spans, and a picture of it would be one colour: what is older goes as
soon as a newer epoch is whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from daskpart.collectives.timeline import Timeline, record_timelines
from daskpart.models.base.callbacks import EpochCallback

_KEPT = 3  # epochs: one could be odd, and of more no picture shows the rounds


class LastSteps(EpochCallback):
    """Told of each epoch, keeps the spans of the last ones.

    Parameters
    ----------
    timelines : list of Timeline
        As `record_timelines` yields them: one a communicator, the newest last.
    kept : int
        Epochs.
    """

    def __init__(self, timelines: Sequence[Timeline], kept: int = _KEPT) -> None:
        self.timelines, self.kept = timelines, kept
        self._ends: list[int] = []  # of the kept epochs: how many spans there were
        self._of: Timeline | None = None
        self.dropped = False  # whether the fit is longer than what was kept

    def epoch_done(self, row: dict[str, Any], snapshot: Callable[[], Any]) -> bool:
        """Drop the spans of the epoch that is now too old."""
        if not self.timelines:
            return False
        if self._of is not self.timelines[-1]:  # another start of the same fit
            self._of, self._ends, self.dropped = self.timelines[-1], [], False
        spans = self._of.spans
        self._ends.append(len(spans))
        if len(self._ends) > self.kept:
            dropped = self._ends.pop(0)
            self.dropped = True
            del spans[:dropped]
            self._ends = [end - dropped for end in self._ends]
        return False

    def whole(self) -> Timeline | None:
        """The last whole epochs; None if no span was recorded."""
        if self._of is None or not self._ends or not self._ends[-1]:
            return None
        kept = Timeline(self._of.n_ranks)
        kept.spans = self._of.spans[: self._ends[-1]]
        return kept


@contextmanager
def last_steps(wanted: bool) -> Iterator[LastSteps]:
    """Record the fit inside; its estimator must be told of the callback that this yields."""
    if not wanted:
        yield LastSteps([])
        return
    with record_timelines() as timelines:
        yield LastSteps(timelines)
