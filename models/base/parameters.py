"""Parameters of an estimator as scikit-learn checks them, and no bool where a number is meant.

patience=True     1 to Python, and so to scikit-learn: refused, as no number was said
verbose=True      a bool is allowed: taken
"""

from __future__ import annotations

from math import inf
from numbers import Integral, Real
from typing import Any

from sklearn.utils._param_validation import Interval, InvalidParameterError

from daskpart.errors import InputError

COUNT = Interval(Integral, 1, None, closed="left")
AT_LEAST_0 = Interval(Real, 0, inf, closed="left")
POSITIVE = Interval(Real, 0, inf, closed="neither")
SHARE = Interval(Real, 0, 1, closed="left")  # of what some is held out of, or dropped from
RANKS = Interval(Integral, 1, 1 << 16, closed="both")  # of more the plan alone fills the memory
_TAKE_BOOLS = ("boolean", "verbose")


def check_parameters(estimator: Any) -> None:
    """Refuse parameters that their constraints do not allow (InputError)."""
    try:
        estimator._validate_params()
    except InvalidParameterError as error:
        raise InputError(str(error)) from None
    for name, allowed in estimator._parameter_constraints.items():
        given = getattr(estimator, name, None)
        takes_bools = any(isinstance(each, str) and each in _TAKE_BOOLS for each in allowed)
        if isinstance(given, bool) and not takes_bools:
            raise InputError(f"{name} is {given}, which is no number: give one")
