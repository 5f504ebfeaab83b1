"""Tables of any library as those of pandas, and their columns as NumPy has them.

polars, pyarrow, DuckDB …   by Arrow's stream, which each of them offers
Dask                        computed, or as they are where some columns are enough
pandas, and all else        as they are
"""

from __future__ import annotations

from typing import Any

import numpy as np

from daskpart._floor.checks import needs_pyarrow

from .coordinates import is_a


def is_dask_frame(data: Any) -> bool:
    """Whether `data` is a Dask DataFrame."""
    return is_a(data, "dask.dataframe", "DataFrame")


def from_arrow(data: Any) -> Any:
    """A table of polars, pyarrow or DuckDB as a `pandas.DataFrame`; anything else as it is.

    Raises
    ------
    InputError
        When pyarrow is not installed.
    """
    if not _is_arrow_table(data):
        return data
    import pandas

    frames: Any = pandas.DataFrame  # of whose from_arrow the stubs do not know
    with needs_pyarrow(f"reading a {type(data).__qualname__} of {type(data).__module__}"):
        return frames.from_arrow(data)


def is_table(data: Any) -> bool:
    """Whether `data` is a DataFrame of pandas, or what `from_arrow` makes one of."""
    return is_a(data, "pandas", "DataFrame") or _is_arrow_table(data)


def column_from_arrow(data: Any) -> Any:
    """A single column of polars or pyarrow as an array; anything else as it is."""
    return np.asarray(data) if _speaks_arrow(data) and not _has_columns(data) else data


def _speaks_arrow(data: Any) -> bool:
    """Whether a library that is not known here offers Arrow's stream, or array."""
    known = (("pandas", "DataFrame"), ("pandas", "Series"), ("xarray", "DataArray"),
             ("xarray", "Dataset"))  # fmt: skip
    if any(is_a(data, *kind) for kind in known):
        return False
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def _is_arrow_table(data: Any) -> bool:
    return _speaks_arrow(data) and _has_columns(data)


def _has_columns(data: Any) -> bool:
    """Whether what speaks Arrow is a table."""
    return hasattr(data, "columns") or hasattr(data, "column_names")


def table_in_memory(data: Any) -> Any:
    """A table of Dask, or one that `from_arrow` takes, or a column of Dask, as those of pandas."""
    if is_dask_frame(data) or is_a(data, "dask.dataframe", "Series"):
        return data.compute()
    return from_arrow(data)
