"""Results that print themselves: text, HTML and JSON from a title and rows of words.

class PlanReport(Printable)        title()  rows()  ──►  repr, _repr_html_, to_dict, from_dict
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Self

import numpy as np

from daskpart._floor.tables import html_table, text_table


class Printable:
    """Text, HTML and JSON of a dataclass that offers a title, rows of words and derived values."""

    _derived: tuple[str, ...] = ()

    def title(self) -> str:
        """One line that says what this is about."""
        raise NotImplementedError

    def rows(self) -> dict[str, str]:
        """Name → value in plain words, in the order shown."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return text_table(self.title(), self.rows())

    def _repr_html_(self) -> str:
        return html_table(self.title(), self.rows())

    def to_dict(self) -> dict[str, Any]:
        """All fields and derived values as JSON takes them (arrays as lists)."""
        names = [each.name for each in fields(self)]  # type: ignore[arg-type]
        return {name: _jsonable(getattr(self, name)) for name in (*names, *self._derived)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The report that `to_dict` described."""
        names = [each.name for each in fields(cls)]  # type: ignore[arg-type]
        return cls(**{name: values[name] for name in names})


def _jsonable(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def number_words(value: float) -> str:
    """A count: thousands grouped, two digits where it is not whole."""
    return f"{int(value):,}" if float(value).is_integer() else f"{value:,.2f}"


def spread_words(seconds: np.ndarray) -> str:
    """Mean and maximum over ranks."""
    if not seconds.size:
        return "0.00 s"
    return f"{seconds.mean():.2f} s a rank on average, {seconds.max():.2f} s at most"


def share_words(part: np.ndarray, rest: np.ndarray) -> str:
    """The share that some seconds are of these and the others."""
    total = float(part.sum() + rest.sum())
    return f", {part.sum() / total:.0%} of the time" if total else ""


def bytes_words(value: float) -> str:
    """An amount of bytes in the unit that fits."""
    amount = float(value)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:,.0f} {unit}" if unit == "B" else f"{amount:,.1f} {unit}"
        amount /= 1000
    return f"{amount:,.1f} GB"
