"""How training shows itself: a bar where somebody looks, lines in a log, or nothing.

    terminal, rich there                fit ━━━━━━━━━━╸      12/20  train 0.8312  validation 0.8904
    terminal, no rich; notebook         fit  [######----]    12/20  train 0.8312  …
    forced, not a terminal              epoch 12/20  train RMSE 0.8312  validation RMSE 0.8904
                                        (of many quick epochs some dozens)
    otherwise                           (nothing)

All wait `delay` seconds before the first sign, so that short fits stay quiet.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TextIO

from daskpart._floor.progress import NotebookBar, in_notebook
from daskpart._floor.tables import fixed

_LEAST, _VAST = 1e-3, 1e9
_BAR = 36  # columns
_FIRST, _LINES = 10, 50  # of a fit with more than so many epochs the first, and about as many more
_QUIET_SECONDS = 30.0  # who reads a log would think that it hangs


@dataclass(frozen=True)
class Measure:
    """A column of `history_` that is shown.

    Attributes
    ----------
    column : str
    words : str
        What a bar calls it.
    unit : str
        What a line adds to the words.
    digits : str
        A format.
    step : str
        What a step is called.
    """

    column: str
    words: str
    unit: str = ""
    digits: str = ".4f"
    step: str = "epoch"


def describe(row: dict[str, Any], last_epoch: int, measures: Sequence[Measure]) -> str:
    """One line of words for a row of `history_`."""
    name = measures[0].step if measures else "epoch"
    return "  ".join([f"{name} {row['epoch']}/{last_epoch}", *_values(row, measures, True)])


def _values(row: dict[str, Any], measures: Sequence[Measure], units: bool) -> list[str]:
    words = []
    for measure in measures:
        value = row.get(measure.column)
        if value is not None and value == value:
            unit = f" {measure.unit}" if units and measure.unit else ""
            words.append(f"{measure.words}{unit} {_number(value, measure.digits)}")
    if row.get("seconds") is not None:
        words.append(f"{fixed(row['seconds'], 1)} s")
    return words


def _number(value: float, digits: str) -> str:
    """In that format, but for what it has no digits for, or hundreds: losses end and diverge so."""
    is_plain = not value or _LEAST <= abs(value) < _VAST
    return f"{value:{digits}}" if is_plain else f"{value:.4g}"


class Display:
    """Shows nothing; the base of those that do.

    Calls come from one thread, `_show` also from the timer that ends the delay.
    """

    def __init__(self, file: TextIO, delay: float, measures: Sequence[Measure]) -> None:
        self.file, self.delay, self.measures = file, delay, measures
        self.first_epoch = self.last_epoch = 0
        self.epoch = 0
        self.words = ""

    def open(self, first_epoch: int, last_epoch: int) -> None:
        """Training is about to begin."""
        self.first_epoch, self.epoch, self.last_epoch = first_epoch, first_epoch, last_epoch

    def update(self, row: dict[str, Any]) -> None:
        """An epoch is done."""

    def close(self) -> None:
        """Training is over."""


class Lines(Display):
    """A line an epoch, for logs; of many that are quick not all, but the first and the last."""

    def open(self, first_epoch: int, last_epoch: int) -> None:
        """Start the clock of the delay."""
        super().open(first_epoch, last_epoch)
        self._visible_from = time.monotonic() + self.delay
        self._each = max(-(-last_epoch // _LINES), 1)
        self._left_out: dict[str, Any] | None = None
        self._printed_at = self._visible_from

    def update(self, row: dict[str, Any]) -> None:
        """Print the line, if it is due."""
        if time.monotonic() < self._visible_from:
            return
        epoch = int(row["epoch"])
        few = epoch <= self.first_epoch + _FIRST
        quiet = time.monotonic() - self._printed_at > _QUIET_SECONDS
        if few or quiet or epoch % self._each == 0 or epoch == self.last_epoch:
            self._print(row)
        else:
            self._left_out = row

    def close(self) -> None:
        """Print the last one, of a fit that ended before it was due."""
        if self._left_out is not None:
            self._print(self._left_out)

    def _print(self, row: dict[str, Any]) -> None:
        self._left_out, self._printed_at = None, time.monotonic()
        with suppress(OSError):  # who read it may have gone: no reason to end
            print(describe(row, self.last_epoch, self.measures), file=self.file, flush=True)


class Bar(Display):
    """A bar that appears after the delay, even in the middle of a long first epoch."""

    def open(self, first_epoch: int, last_epoch: int) -> None:
        """Start the timer that shows the bar."""
        super().open(first_epoch, last_epoch)
        self._lock = threading.Lock()
        self._shown = False
        self._timer = threading.Timer(self.delay, self._appear)
        self._timer.daemon = True
        self._timer.start()

    def update(self, row: dict[str, Any]) -> None:
        """Move the bar."""
        with self._lock:
            self.epoch, self.words = (
                int(row["epoch"]),
                "  ".join(_values(row, self.measures, False)),
            )
            if self._shown:
                self._move()

    def close(self) -> None:
        """Leave the bar as it is."""
        self._timer.cancel()
        with self._lock:
            if self._shown:
                self._leave()
            self._shown = False

    def _appear(self) -> None:
        with self._lock:
            if self._timer.finished.is_set():
                return  # closed while this thread waited for the lock
            self._show()
            self._move()
            self._shown = True

    def _fitting(self, others: int, n_columns: int) -> tuple[int, str]:
        """Columns for the bar, and the words as far as they go into one line of the terminal.

        The bar gives way first. `others` are the columns of what else is in the line, but for how
        many epochs are done.
        """
        room = max(n_columns - others - 1 - 2 * len(str(self.last_epoch)), 0)
        return min(max(room - len(self.words), 1), _BAR), self.words[: max(room - 1, 0)]

    def _show(self) -> None:
        raise NotImplementedError

    def _move(self) -> None:
        raise NotImplementedError

    def _leave(self) -> None:
        raise NotImplementedError


class RichBar(Bar):
    """The bar by rich, in a terminal."""

    def __init__(self, console: Any, delay: float, measures: Sequence[Measure]) -> None:
        super().__init__(console.file, delay, measures)
        self._console = console

    def _show(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.progress import TimeElapsedColumn as Elapsed

        self._bar, words = BarColumn(), TextColumn("{task.fields[words]}", markup=False)
        columns = (TextColumn("fit"), self._bar, MofNCompleteColumn(), Elapsed(), words)
        self._progress = Progress(*columns, console=self._console)
        self._task = self._progress.add_task("fit", total=self.last_epoch, words="")
        self._move()
        self._progress.start()

    def _move(self) -> None:
        others = len("fit   0:00:00 ")
        self._bar.bar_width, words = self._fitting(others, self._console.width)
        self._progress.update(self._task, completed=self.epoch, words=words)

    def _leave(self) -> None:
        self._progress.stop()


class ClickBar(Bar):
    """The bar by click, where rich is not installed."""

    def _show(self) -> None:
        import click

        self._bar: Any = click.progressbar(
            length=self.last_epoch, label="fit", show_pos=True, show_percent=False, file=self.file,
            width=self._width()[0], item_show_func=lambda words: words,
        )  # fmt: skip
        self._bar.__enter__()

    def _move(self) -> None:
        self._bar.width, words = self._width()
        self._bar.update(self.epoch - self._bar.pos, words)

    def _width(self) -> tuple[int, str]:
        # what fills the last column goes on in the next line
        return self._fitting(len("fit  []  00:00:00    "), shutil.get_terminal_size().columns - 1)

    def _leave(self) -> None:
        self._bar.render_finish()


class InNotebook(Bar):
    """The bar under the cell of a notebook."""

    def _show(self) -> None:
        self._bar = NotebookBar(self.last_epoch, "fit")

    def _move(self) -> None:
        self._bar.move(self.epoch, self.words)

    def _leave(self) -> None:
        self._bar.close()


def display_for(
    file: TextIO | None, force: bool, delay: float, measures: Sequence[Measure]
) -> Display:
    """Choose the display for `file` (None: standard error)."""
    stream = sys.stderr if file is None else file
    if file is None and in_notebook():
        return InNotebook(stream, delay, measures)
    if _is_terminal(stream):
        console = _rich_console(stream)
        if console is None:
            return ClickBar(stream, delay, measures)
        return RichBar(console, delay, measures)
    return Lines(stream, delay, measures) if force else Display(stream, delay, measures)


def _is_terminal(stream: TextIO) -> bool:
    return bool(getattr(stream, "isatty", lambda: False)())


def _rich_console(stream: TextIO) -> Any:
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(file=stream)
