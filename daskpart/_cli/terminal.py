"""What a person at a terminal sees: plain lines, one clean line for an error."""

from __future__ import annotations

import contextlib
import errno
import gc
import io
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import click

from daskpart.errors import DaskpartError, DaskpartWarning, InputError

from .options import in_options

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # no fault of what was given


def let_output_lack_letters() -> None:
    """Print "?" for what standard output cannot encode, as Latin-1 has no η: no reason to end."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")


def answer(words: str) -> None:
    """Print what was asked for, at once: without who reads it there is no use in going on."""
    click.echo(words)


def say(words: str = "") -> None:
    """Print one line on standard output, at once.

    Where nobody reads it any more the work goes on: what is written to files would be lost with who
    listens, as `| head` stops to, and Ctrl-C ends `| tee log` too.
    """
    try:
        click.echo(words)
    except OSError:
        _drop_output()


def _drop_output() -> None:
    """Whoever read it has gone (`| head`), or its disk is full: what is still buffered, too."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say_aside(words: str) -> None:
    """Print one line beside the results, on standard error, if anybody reads it."""
    with contextlib.suppress(OSError):
        click.echo(f"note: {words}", err=True)


def words_of(error: Exception) -> str:
    """What an error says; one of the system without its number."""
    if not isinstance(error, OSError) or error.errno is None:
        return in_options(str(error))
    place = f"{error.filename}: " if error.filename else ""
    return f"{place}{error.strerror}"


class OneLineError(click.ClickException):
    """An error as one line, with the exit code that fits it."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]


@contextlib.contextmanager
def imports_uncollected() -> Iterator[None]:
    """Nobody looks for cycles inside, nor ever again in what was made there: modules stay."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextlib.contextmanager
def errors_as_one_line() -> Iterator[None]:
    """Turn the errors that a user can mend into one line without a traceback."""
    try:
        yield
    except InputError as error:
        is_full = isinstance(error.__cause__, OSError) and error.__cause__.errno in _FULL
        raise OneLineError(str(error), 1 if is_full else 2) from error
    except DaskpartError as error:
        raise OneLineError(str(error), 1) from error
    except BrokenPipeError:
        _drop_output()
        raise click.exceptions.Exit(1) from None
    except MemoryError as error:
        raise OneLineError(f"there is not enough memory: {error}", 1) from error
    except OSError as error:
        if error.errno is None or isinstance(error, ConnectionError):
            raise
        raise OneLineError(words_of(error), 1) from error


@contextlib.contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Print warnings for users as a plain line, those of other libraries once; others keep Python's
    form, for who writes programs."""
    usual, said = warnings.showwarning, set()

    def show(message: Warning | str, category: type[Warning], *rest: Any) -> None:
        words = str(message)
        if not issubclass(category, UserWarning):
            usual(message, category, *rest)
        elif issubclass(category, DaskpartWarning) or words not in said:
            said.add(words)
            say_aside(in_options(words))

    with warnings.catch_warnings():
        warnings.simplefilter("always", DaskpartWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        yield
