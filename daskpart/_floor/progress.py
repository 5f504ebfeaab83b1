"""A progress bar for what turns out to take more than a second, at a terminal or in a notebook."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import Any, TypeVar

import click

_PATIENCE = 1.0  # seconds
_BETWEEN = 0.1  # seconds, from one picture in a notebook to the next
_BAR = 36  # columns
Item = TypeVar("Item")


def tracked(items: Sequence[Item], words: str, wanted: bool = True) -> Iterator[Item]:
    """The items one by one; a terminal or notebook is told how far it is, once it takes long."""
    begin, bar = monotonic(), None
    shown = wanted and (in_notebook() or sys.stderr.isatty())
    try:
        for done, item in enumerate(items):
            if shown and bar is None and done and monotonic() - begin > _PATIENCE:
                bar = _begun(len(items), words)
                bar.move(done)
            yield item
            if bar is not None:
                bar.move(done + 1)
    finally:
        if bar is not None:
            bar.close()


def _begun(length: int, words: str) -> NotebookBar | _TerminalBar:
    return NotebookBar(length, words) if in_notebook() else _TerminalBar(length, words)


class _TerminalBar:
    def __init__(self, length: int, words: str) -> None:
        self._bar = click.progressbar(length=length, label=words, file=sys.stderr)
        self._bar.__enter__()

    def move(self, done: int) -> None:
        self._bar.update(done - self._bar.pos)

    def close(self) -> None:
        self._bar.render_finish()


def in_notebook() -> bool:
    """Whether a kernel of Jupyter runs this, which shows more than text that goes on."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None


class NotebookBar:
    """A bar under the cell at hand, as text: it needs no widgets, and is saved with the notebook.

    Parameters
    ----------
    length : int
        Steps in all.
    words : str
        What is done.
    """

    def __init__(self, length: int, words: str) -> None:
        from IPython.display import display

        self._length, self._words, self._line = length, words, ""
        self._shown_at = monotonic()
        self._handle: Any = display({"text/plain": words}, raw=True, display_id=True)

    def move(self, done: int, note: str = "") -> None:
        """So many steps are done; a note behind them."""
        full = _BAR * done // max(self._length, 1)
        bar = "#" * full + "-" * (_BAR - full)
        self._line = f"{self._words}  [{bar}]  {done}/{self._length}  {note}".rstrip()
        if monotonic() - self._shown_at > _BETWEEN:
            self._show()

    def close(self) -> None:
        """Leave it as it is now."""
        self._show()

    def _show(self) -> None:
        self._shown_at = monotonic()
        self._handle.update({"text/plain": self._line}, raw=True)
