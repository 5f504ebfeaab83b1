"""`tracked`: a bar at a terminal, for what takes long."""

from __future__ import annotations

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
