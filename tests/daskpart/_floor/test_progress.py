"""`tracked`: a bar at a terminal, for what takes long."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from daskpart._floor import progress


class Terminal:
    """Stands for standard error at a terminal."""

    def __init__(self):
        self.written = []

    def isatty(self):
        return True

    def write(self, text):
        self.written.append(text)

    def flush(self):
        """Nothing is kept back."""


def test_a_bar_appears_when_it_takes_long(monkeypatch):
    for patience, wanted, appears in ((0.0, True, True), (60.0, True, False), (0.0, False, False)):
        terminal = Terminal()
        monkeypatch.setattr(progress.sys, "stderr", terminal)
        monkeypatch.setattr(progress, "_PATIENCE", patience)
        assert list(progress.tracked(range(5), "counting", wanted)) == list(range(5))
        assert any("counting" in text for text in terminal.written) == appears


@pytest.fixture
def cell(monkeypatch):
    """What stands under the cell of a notebook, in the order in which it was shown."""
    pytest.importorskip("IPython.display")
    shown = []
    handle = SimpleNamespace(update=lambda data, raw: shown.append(data["text/plain"]))

    def display(data, raw, display_id):
        shown.append(data["text/plain"])
        return handle

    monkeypatch.setattr("IPython.get_ipython", lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setattr("IPython.display.display", display)
    return shown


@pytest.mark.parametrize(("patience", "wanted"), [(0.0, True), (60.0, True), (0.0, False)])
def test_a_notebook_has_the_bar_as_text(monkeypatch, cell, patience, wanted):
    monkeypatch.setattr(progress, "_PATIENCE", patience)
    assert list(progress.tracked(range(5), "counting", wanted)) == list(range(5))
    assert bool(cell) == (wanted and not patience)
    if cell:
        assert cell[0] == "counting" and cell[-1] == f"counting  [{'#' * 36}]  5/5"


def test_what_breaks_off_leaves_the_bar_where_it_was(monkeypatch, cell):
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    items = progress.tracked(range(4), "counting")
    assert [next(items) for _ in range(3)] == [0, 1, 2]
    items.close()
    assert cell[-1] == f"counting  [{'#' * 18}{'-' * 18}]  2/4"


def test_training_in_a_notebook_is_told_without_widgets(cell):
    from daskpart.models.base.progress import Measure, display_for

    display = display_for(None, False, 0.0, [Measure("loss", "loss")])
    display.open(0, 3)
    display._timer.join()  # what waits for the delay
    for epoch in (1, 2, 3):
        display.update({"epoch": epoch, "loss": 1 / epoch})
    display.close()
    assert cell[0] == "fit" and cell[-1] == f"fit  [{'#' * 36}]  3/3  loss 0.3333"
