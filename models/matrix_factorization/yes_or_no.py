"""Ratings that are yes or no: what they may be, and where scores of them begin.

    1, True           ─► 1   yes    −ln σ(r̂)          σ(r̂) = 1 / (1 + exp(−r̂)) is the probability
    0, False; or −1   ─► 0   no     −ln σ(−r̂)         of yes, and r̂ its log-odds

0 and −1 in the same ratings would be two things, so one of them is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import logit

from daskpart._floor.words import in_digits
from daskpart.containers.coordinates import entry_words
from daskpart.containers.matrix import Columns, LabelledMatrix, as_matrix
from daskpart.errors import InputError


def as_answers(X: Any, columns: Columns = (None, None, None)) -> LabelledMatrix:
    """Ratings of any container that are yes or no, as 1 and 0, float32.

    Raises
    ------
    InputError
        For a rating that is neither, and for 0 beside −1; names the entry.
    """
    matrix = as_matrix(X, columns)
    names, labels = (matrix.row_name, matrix.column_name), (matrix.row_labels, matrix.column_labels)
    refuse_odd([odd_entries(matrix.values, (matrix.rows, matrix.columns), names, labels)])
    return replace(matrix, values=ones_for_yes(matrix.values))


def ones_for_yes(values: np.ndarray) -> np.ndarray:
    """1 for yes and 0 for no, float32."""
    return (values == 1).astype(np.float32)


def odd_entries(
    values: np.ndarray,
    indices: Sequence[np.ndarray],
    names: Sequence[str],
    labels: Sequence[np.ndarray | None] = (),
) -> list[str]:
    """The first rating that is none of 1, 0 and −1, the first 0, the first −1, in words or ""."""
    no, minus = values == 0, values == -1
    found = []
    for kind in (~((values == 1) | no | minus), no, minus):
        first = int(np.argmax(kind)) if kind.any() else -1
        where = "" if first < 0 else entry_words(first, indices, names, labels)
        found.append(where and f"{in_digits(values[first])} at {where}")
    return found


def refuse_odd(found: Sequence[Sequence[str]]) -> None:
    """Refuse what `odd_entries` found on some ranks (InputError)."""
    other, no, minus = (next(filter(None, each), "") for each in zip(*found, strict=True))
    if other:
        raise InputError(
            'loss="logistic" takes ratings that are yes (1 or True) or no (0, False or −1), and '
            f"there is {other}: say yourself where a yes begins, as by values >= 4, or take "
            'loss="squared"'
        )
    if no and minus:
        raise InputError(
            f'loss="logistic" takes no as 0 or as −1, and there is {no}, and {minus}: leave out '
            "what is not known, and give one number for no"
        )


def log_odds(share: float) -> float:
    """The score of which every prediction is `share`, that of the ratings which are yes.

    Raises
    ------
    InputError
        Where all are yes, or all no.
    """
    if not 0 < share < 1:
        raise InputError(
            f'all ratings say {"yes" if share else "no"}, and loss="logistic" tells one from the '
            "other: store both, a no as 0 or −1 (what is not stored is unknown, and comparing a "
            "sparse array stores no False). For what users took to alone take "
            'loss="bpr", or ImplicitFactorization'
        )
    return float(logit(share))
