"""A progress bar for what turns out to take more than a second."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import Any, TypeVar

import click

_PATIENCE = 1.0  # seconds
Item = TypeVar("Item")


def tracked(items: Sequence[Item], words: str, wanted: bool = True) -> Iterator[Item]:
    """The items one by one; on a terminal a bar tells how far it is, once it takes long."""
    begin, bar = monotonic(), None
    shown = wanted and sys.stderr.isatty()
    try:
        for done, item in enumerate(items):
            if shown and bar is None and done and monotonic() - begin > _PATIENCE:
                bar = _begun(len(items), done, words)
            yield item
            if bar is not None:
                bar.update(1)
    finally:
        if bar is not None:
            bar.__exit__(None, None, None)


def _begun(length: int, done: int, words: str) -> Any:
    bar = click.progressbar(length=length, label=words, file=sys.stderr)
    bar.__enter__()
    bar.update(done)
    return bar
