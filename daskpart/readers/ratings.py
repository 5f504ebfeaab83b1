"""Ratings in lines: MovieLens and its many cousins.

u.data       196\\t242\\t3\\t881250949
ratings.dat  1::1193::5::978300760            -->  user x item, float32, labelled by the ids
ratings.csv  userId,movieId,rating,timestamp
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import xarray

from .dialect import RATINGS
from .relations import read_relation


def read_ratings(
    path: str,
    *,
    columns: Sequence[str | int] | None = None,
    header: bool | None = None,
    text_ids: bool | None = None,
    dtype: np.typing.DTypeLike = np.float32,
    repeats: Literal["last", "sum"] = "last",
) -> xarray.DataArray:
    """Read a file with a rating a line.

    Parameters
    ----------
    path : str
    columns : sequence of 2 or 3 str or int, optional
        Names (in the header) or positions of user, item and rating. By default well-known names,
        else the first three columns; two columns are implicit ratings of 1.
    header : bool, optional
        Whether the first line names the columns. By default it does when nothing in it is a number
        and it names a user and an item, or the next line has a number; where it may be a rating
        too, the error asks.
    text_ids : bool, optional
        Keep ids as text. By default those of a column whose first is no number, or in which one of
        the first 64 KiB has leading zeros, as 007; leading zeros that only come later are lost.
    dtype : dtype, default=float32
    repeats : {"last", "sum"}, default="last"
        What a cell has that occurs more than once: "sum" for events, of which each line is one.

    Returns
    -------
    xarray.DataArray
        ``rating``, dims user and item, over a sparse.COO.
    """
    return read_relation(
        path,
        RATINGS,
        columns=columns,
        header=header,
        text_ids=text_ids,
        dtype=dtype,
        repeats=repeats,
    )
