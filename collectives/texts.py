"""Texts that are called like functions: the collectives are such.

allreduce(comm, values)      inside a text     the text itself
                             outside of any    comm.run(…), where ranks are processes
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from daskpart.errors import InputError

from .communicator import Communicator

Text = TypeVar("Text", bound=Callable[..., Any])


def collective(text: Text) -> Text:
    """Make a text that is called like a function, inside of another text or outside of any.

    Outside, where ranks are processes, all of it is one run, and not one for each call in it.
    """

    @wraps(text)
    def call(communicator: Communicator, *values: Any, **static: Any) -> Any:
        try:
            ships_texts = communicator.ships_texts
        except AttributeError:
            given = type(communicator).__name__
            raise InputError(
                f"{text.__name__} got {given} where its communicator comes: give that first, "
                "of communicator_for(…), or in a text its first argument"
            ) from None
        if ships_texts:
            return communicator.run(call, *values, **static)
        return text(communicator, *values, **static)

    return cast(Text, call)
