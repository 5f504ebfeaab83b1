"""Words of messages: what rows, columns and modes are called is up to the user."""

from __future__ import annotations

import os
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

_MOST_NAMES = 12  # of a list in a message
_SIBILANTS = ("s", "x", "z", "ch", "sh")


def plural(name: str) -> str:
    """What many of them are called; a name that is no English word, or of many, is left as it is.

    Examples
    --------
    >>> [plural(name) for name in ("user", "city", "day", "class", "batch", "epoch", "vertex")]
    ['users', 'cities', 'days', 'classes', 'batches', 'epochs', 'vertices']
    >>> [plural(name) for name in ("movies", "商品", "mode_0", "sex", "status")]
    ['movies', '商品', 'mode_0', 'sexes', 'statuses']
    """
    is_plural = name.endswith("s") and not name.endswith(("ss", "us"))
    if is_plural or not name.isascii() or (name and not name[-1].isalpha()):
        return name
    if name.endswith(("vertex", "index")):
        return f"{name[:-2]}ices"
    if name.endswith("y") and name[-2:-1] not in {*"aeiou"}:
        return f"{name[:-1]}ies"
    hisses = name.endswith(_SIBILANTS) and not name.endswith("epoch")
    return f"{name}es" if hisses else f"{name}s"


def counted(n: int, name: str) -> str:
    """So many of them: "1 epoch", "1,200 epochs"."""
    return f"{n:,} {name if n == 1 else plural(name)}"


def in_digits(number: Any) -> str:
    """A number with all of its digits, so that what is not 1 does not look like it.

    Examples
    --------
    >>> in_digits(2.0), in_digits(1 - 1e-12)
    ('2', '0.999999999999')
    """
    return str(number).removesuffix(".0")


def words_of(error: BaseException) -> str:
    """The type of an error and what it says; the type alone where to say it raises another one."""
    kind = type(error).__name__
    try:
        return f"{kind}: {error}"
    except Exception:
        return f"{kind}, whose words cannot be told"


def from_to(least: int, most: int) -> str:
    """A range of amounts: "187 to 1,200", or one where both are the same."""
    return f"{most:,}" if least == most else f"{least:,} to {most:,}"


def listed(names: Iterable[Any], wanted: str | None = None) -> str:
    """Names for a message: those like `wanted` first, and not more than a line of them.

    Examples
    --------
    >>> listed(["user", "item", "rating"])
    "'user', 'item', 'rating'"
    >>> listed([f"column{n}" for n in range(80)], wanted="colum7")[:36]
    "'column7', 'column79', 'column78', '"
    """
    every = list(names)
    first = every
    if len(every) > _MOST_NAMES:
        alike = get_close_matches(wanted, every, n=_MOST_NAMES) if wanted else []
        first = (alike + [name for name in every if name not in alike])[:_MOST_NAMES]
    more = len(every) - len(first)
    return ", ".join(map(repr, first)) + (f" and {more} more" if more else "")


def not_read(data: Any, as_what: str, accepted: str) -> str:
    """What to say of a container that cannot be read; frames of other libraries go by pandas."""
    instead, kind = "", type(data).__qualname__
    kinds = [kind.__name__ for kind in type(data).__mro__]
    if "Delayed" in kinds:  # first, as it has any attribute that one asks for
        instead = "its compute(), "
    elif "Future" in kinds:
        instead = "its result(), "
    elif isinstance(data, str | os.PathLike):
        instead = "daskpart.read(path), "
    elif isinstance(data, dict) and all(isinstance(name, str) for name in data):
        instead = "pandas.DataFrame(it) if it holds columns, "
    elif hasattr(data, "adjacency") and hasattr(data, "nodes"):
        instead = "networkx.to_scipy_sparse_array(graph), "
    elif hasattr(data, "data_vars"):  # an xarray.Dataset, whose to_pandas() takes no matrices
        instead = "one of its variables, "
        kind += f" of {listed(data.data_vars) or 'no variable'}"
    elif isinstance(data, tuple) and hasattr(data, "data"):  # Examples of a reader
        instead = "its data, "
    elif "LazyFrame" in kinds:  # of polars
        instead = "its collect(), "
    elif hasattr(data, "to_pandas"):
        instead = "its to_pandas(), "
    elif hasattr(data, "toPandas"):  # of Spark, where any attribute is a column
        instead = "its toPandas(), "
    article = "an" if kind[0].lower() in "aeio" else "a"
    return f"cannot read {article} {kind} as a {as_what}; give {instead}{accepted}"
