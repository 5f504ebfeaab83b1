"""Lists of names in error messages, short enough to read."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

_MOST_NAMES = 12


def listed(names: Sequence[str], wanted: str | None = None) -> str:
    """Names for a message: those like `wanted` first, and not more than a line of them.

    Examples
    --------
    >>> listed(["user", "item", "rating"])
    "'user', 'item', 'rating'"
    >>> listed([f"column{n}" for n in range(80)], wanted="colum7")[:36]
    "'column7', 'column79', 'column78', '"
    """
    first = list(names)
    if len(first) > _MOST_NAMES:
        alike = get_close_matches(wanted, first, n=_MOST_NAMES) if wanted else []
        first = (alike + [name for name in first if name not in alike])[:_MOST_NAMES]
    more = len(names) - len(first)
    return ", ".join(map(repr, first)) + (f" and {more} more" if more else "")
