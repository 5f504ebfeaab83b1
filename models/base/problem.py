"""The data of a fit, checked: in this process, or as a Dask collection whose blocks stay away."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Any

import numpy as np
from scipy.sparse import coo_array, issparse

from daskpart.errors import InputError


class Problem(ABC):
    """What a model is fitted to.

    Attributes
    ----------
    n_features : int or None
        For `n_features_in_`.
    """

    n_features: int | None = None

    @abstractmethod
    def fingerprint(self) -> str:
        """A short text that differs for other data, as far as can be known without computing."""

    def identity(self) -> dict[str, Any]:
        """What of the data must be equal for a resumed fit to be the same fit, as JSON."""
        return {"data": self.fingerprint()}

    def fingerprint_of_validation(self) -> str:
        """A short text that differs for other data to measure by; "" if `fingerprint` tells."""
        return ""


def check_components(state: Any, n_components: int) -> None:
    """Check that a state has as many components as the fit that goes on from it (InputError)."""
    if state.n_components != n_components:
        raise InputError(
            f"the last fit had {state.n_components} components, n_components is {n_components}: "
            "set it back, or begin anew by fit with warm_start=False"
        )


def is_lazy(X: Any) -> bool:
    """Whether X is a Dask collection, or a DataArray over one: its blocks stay where they are."""
    inner = getattr(X, "data", X) if hasattr(X, "coords") and hasattr(X, "dims") else X
    return hasattr(inner, "__dask_graph__") and inner.__dask_graph__() is not None


def add_place(error: ValueError, X: Any, y: Any = None) -> None:
    """Note where the first number is that scikit-learn refused as NaN or infinite, if one is."""
    for name, given in (("X", X), ("y", y)):
        if not str(error).startswith(f"Input {name} contains"):
            continue
        with suppress(TypeError, ValueError):  # of what is no array of numbers
            if issparse(given):
                entries: Any = coo_array(given)  # type: ignore[call-overload]
                values, places = entries.data, np.array(entries.coords)
                first = places[:, np.argmin(np.isfinite(values))]
            else:
                values = np.asarray(given, np.float64)
                first = np.argwhere(~np.isfinite(values))[0]
            error.add_note(f"The first is {name}[{', '.join(map(str, first))}].")
