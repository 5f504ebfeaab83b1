"""Rows, targets and weights of a fit: checked, not yet encoded, and some of them held out.

    X, y, sample_weight ─► Given ─┬─► to learn from           Samples
                                  └─► a share, by the seed    Samples, for `validation_loss`

Held out before anything is counted: classes and their weights are of what is learnt from, as they
are where the user holds out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskpart.errors import InputError
from daskpart.readers import ExamplesFile

from .files import classes_of


class Given(NamedTuple):
    """What is learnt from, or measured by.

    Attributes
    ----------
    X : csr_array, ndarray, Dask array or ExamplesFile
    y : ndarray, or what stands beside a file
    weight : float64 ndarray, or what stands beside a file
    names : ndarray of object, or None
        Of the features of a Dask collection, for errors in chunks.
    """

    X: Any
    y: Any
    weight: Any
    names: NDArray[Any] | None = None

    def split(self, share: float, random_state: int) -> tuple[Given, Given]:
        """The rest, and a share of the samples.

        Raises
        ------
        InputError
            Where that is less than one sample.
        """
        if isinstance(self.X, ExamplesFile):
            files = self.X.split(share, random_state=[random_state, 1])
            return self._replace(X=files[0]), self._replace(X=files[1])
        rest, held = split_rows(len(self.y), share, random_state)
        return self._at(rest), self._at(held)

    def _at(self, rows: NDArray[np.int64]) -> Given:
        return self._replace(X=self.X[rows], y=self.y[rows], weight=self.weight[rows])

    def refuse_classes_beyond(self, classes: NDArray[Any]) -> None:
        """Refuse samples held out of a class that is none of those left to learn (InputError)."""
        own = classes_of(self.X) if isinstance(self.X, ExamplesFile) else classes_in(self.y)
        strange = np.setdiff1d(own, classes)
        if len(strange):
            raise InputError(
                f"all samples of class {strange.tolist()[0]!r} were drawn by validation_fraction, "
                "so none is left to learn it from: give a smaller share or another random_state, "
                "or eval_set=(X, y) of your own"
            )


def classes_in(y: NDArray[Any]) -> NDArray[Any]:
    """The labels of y, rising, each once (TypeError where they cannot be put in order)."""
    import pandas as pd  # here, as ranks import this module

    # NumPy sorts objects by comparisons in Python: of all of them, not of those that differ
    return np.unique(pd.unique(y) if y.dtype == object else y)


def split_rows(
    n_samples: int, share: float, random_state: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows to learn from, and a share of all, in order (InputError where that is none)."""
    n_held = int(n_samples * share)
    if not n_held:
        raise InputError(
            f"validation_fraction={share:g} of {n_samples:,} samples is less than one: give a "
            "larger share, or 0"
        )
    # its own seed: another one draws what the command line holds out to judge by
    order = np.random.default_rng([random_state, 1]).permutation(n_samples)
    return np.sort(order[n_held:]), np.sort(order[:n_held])
