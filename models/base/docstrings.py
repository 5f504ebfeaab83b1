"""Words that several estimators share, written once and put into the docstring of each."""

from __future__ import annotations

from collections.abc import Callable
from inspect import cleandoc
from typing import TypeVar

Kind = TypeVar("Kind", bound=type)
Fit = TypeVar("Fit", bound=Callable)

_WORDS_OF_FIT = """\
plan : FitPlan, optional
    Of these data, from `plan`: nothing is cut again.
client : distributed.Client, optional
    Default: the current one.

Returns
-------
self

Raises
------
InputError
    For bad parameters or data; before anything is computed.
DivergenceError
    When what is learned became NaN or infinite; that of the last good step is kept.
KeyboardInterrupt
    After Ctrl-C, with what a whole step left kept.
"""


def with_shared_words(parameters: str, attributes: str) -> Callable[[Kind], Kind]:
    """Fill in ``{shared parameters}`` and ``{shared attributes}``, lines of a class's docstring."""

    def filled(kind: Kind) -> Kind:
        words = cleandoc(kind.__doc__ or "")
        for name, shared in (("parameters", parameters), ("attributes", attributes)):
            words = words.replace(f"{{shared {name}}}", shared.rstrip())
        kind.__doc__ = words
        return kind

    return filled


def with_words_of_fit(fit: Fit) -> Fit:
    """Fill in ``{words of fit}``: the last parameters, what is returned, what is raised."""
    fit.__doc__ = cleandoc(fit.__doc__ or "").replace("{words of fit}", _WORDS_OF_FIT.rstrip())
    return fit
