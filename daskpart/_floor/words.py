"""Names in messages: what rows, columns and modes are called is up to the user."""

from __future__ import annotations

_SIBILANTS = ("s", "x", "z", "ch", "sh")


def plural(name: str) -> str:
    """What many of them are called.

    Examples
    --------
    >>> [plural(name) for name in ("user", "city", "day", "class", "vertex", "index")]
    ['users', 'cities', 'days', 'classes', 'vertices', 'indices']
    """
    if name.endswith("ex"):
        return f"{name[:-2]}ices"
    if name.endswith("y") and name[-2:-1] not in {*"aeiou"}:
        return f"{name[:-1]}ies"
    return f"{name}es" if name.endswith(_SIBILANTS) else f"{name}s"
