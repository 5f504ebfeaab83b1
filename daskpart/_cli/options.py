"""How options of the command are written down: numbers, choices, and several as one decorator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

COUNT = click.IntRange(min=1)
POSITIVE = click.FloatRange(min=0, min_open=True)
SHARE = click.FloatRange(min=0, max=1, max_open=True)
SEED = click.IntRange(min=0)


def options(*given: Any) -> Any:
    """Several click options as one decorator, in the order in which `--help` lists them."""

    def decorate(command: Any) -> Any:
        for option in reversed(given):
            command = option(command)
        return command

    return decorate


def number(name: str, default: Any, words: str, kind: Any) -> Any:
    """An option that takes a number; None as default shows nothing of it."""
    letter = "N" if isinstance(kind, click.IntRange) else "X"
    return click.option(name, type=kind, default=default, show_default=default is not None,
                        metavar=letter, help=words)  # fmt: skip


def choice(name: str, values: tuple[str, ...], default: str | None, words: str) -> Any:
    """An option that takes one of some words."""
    return click.option(name, type=click.Choice(values), default=default,
                        show_default=default is not None, help=words)  # fmt: skip


def output(default: str) -> Any:
    """The option ``--out``, a folder."""
    folder = click.Path(file_okay=False, path_type=Path)
    return click.option("--out", type=folder, default=Path(default), show_default=True,
                        help="Folder for all results; made if absent.")  # fmt: skip


pictures = click.option(
    "--plots/--no-plots", default=True, show_default=True, help="Draw pictures."
)
