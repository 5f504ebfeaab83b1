"""Words that several estimators share, written once and put into the docstring of each."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import indent
from typing import TypeVar

Kind = TypeVar("Kind", bound=type)


def with_shared_words(parameters: str, attributes: str) -> Callable[[Kind], Kind]:
    """Fill in ``{shared parameters}`` and ``{shared attributes}``, lines of a class's docstring."""

    def filled(kind: Kind) -> Kind:
        words = kind.__doc__ or ""
        for name, shared in (("parameters", parameters), ("attributes", attributes)):
            words = words.replace(f"    {{shared {name}}}\n", indent(shared, "    "))
        kind.__doc__ = words
        return kind

    return filled
