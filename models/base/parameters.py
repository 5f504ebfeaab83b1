"""Parameters of an estimator as scikit-learn checks them: ranges, and those that all models share.

A bool stands for no number:

patience=True     1 to Python, and so to scikit-learn: refused, as no number was said
verbose=True      a bool is allowed: taken
"""

from __future__ import annotations

import os
from math import inf
from numbers import Integral, Real
from typing import Any, ClassVar

from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, InvalidParameterError, StrOptions

from daskpart.collectives.transports import TRANSPORTS
from daskpart.errors import InputError

COUNT = Interval(Integral, 1, None, closed="left")
AT_LEAST_0 = Interval(Real, 0, inf, closed="left")
POSITIVE = Interval(Real, 0, inf, closed="neither")
SHARE = Interval(Real, 0, 1, closed="left")  # of what some is held out of, or dropped from
RANKS = Interval(Integral, 1, 1 << 16, closed="both")  # of more the plan alone fills the memory
_TAKE_BOOLS = ("boolean", "verbose")
# as factorizations and graph networks say, linear models, perceptrons
_RATES = ("initial_learning_rate", "eta0", "learning_rate_init")


class SharedParameters(BaseEstimator):
    """The parameters of all models; each offers in its ``__init__`` what means something to it.

    Parameters
    ----------
    max_iter : int
        Most steps.
    n_ranks : int or None
        None: as many as a given partition has parts, as the checkpoint has that is resumed from,
        as the workers have threads, or as this process has cores.
    transport : {"auto", "local", "graph", "dask", "mpi"}
    warm_start : bool
        Begin at the state of the last fit.
    tol : float
        Of the column `_tolerance_column`; the text stops by it, and the loop.
    patience : int or None
        Stop after so many steps without a better value of what `_watch` looks at, and answer with
        the best step.
    checkpoint_path : path or None
    checkpoint_every : int
    resume : bool
        Begin at the newest checkpoint, which may be of another number of ranks.
    random_state : int, RandomState or None
    verbose : int
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_ranks": [RANKS, None],
        "transport": [StrOptions(set(TRANSPORTS))],
        "max_iter": [COUNT],
        "checkpoint_path": [str, os.PathLike, None],
        "checkpoint_every": [COUNT],
        "resume": ["boolean"],
        "warm_start": ["boolean"],
        "tol": [AT_LEAST_0],
        "patience": [COUNT, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    # what holds where a model's ``__init__`` does not offer the parameter
    max_iter: int = 1
    n_ranks: int | None = None
    transport: str = "auto"
    warm_start: bool = False
    tol: float = 0.0
    patience: int | None = None
    checkpoint_path: str | os.PathLike | None = None
    checkpoint_every: int = 1
    resume: bool = False
    random_state: Any = 0
    verbose: int = 0

    def _set_parameters(self, given: dict[str, Any]) -> None:
        """Keep the arguments of ``__init__``, its ``locals()``, under their names."""
        for name in self._get_param_names():
            setattr(self, name, given[name])


def _with_the_rate(message: str, estimator: Any) -> str:
    """What is refused; of a number as `learning_rate`, which here says how the rate moves, more."""
    rate = next((name for name in _RATES if hasattr(estimator, name)), None)
    is_number = isinstance(getattr(estimator, "learning_rate", None), Real)
    if is_number and rate is not None and message.startswith("The 'learning_rate' parameter"):
        return f"{message} The rate itself is {rate}."
    return message


def check_parameters(estimator: Any) -> None:
    """Refuse parameters that their constraints do not allow (InputError)."""
    try:
        estimator._validate_params()
    except InvalidParameterError as error:
        raise InputError(_with_the_rate(str(error), estimator)) from None
    for name, allowed in estimator._parameter_constraints.items():
        given = getattr(estimator, name, None)
        takes_bools = any(isinstance(each, str) and each in _TAKE_BOOLS for each in allowed)
        if isinstance(given, bool) and not takes_bools:
            raise InputError(f"{name} is {given}, which is no number: give one")
