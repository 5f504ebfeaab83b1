"""A fitted model answers as it was fitted: parameters that are set behind it are of its next fit.

fit, activation="relu"  ─►  settings of its state  ─┐
set_params(activation="tanh")                       └─►  predict: "relu"
"""

from __future__ import annotations

from copy import copy
from typing import Any, TypeVar

from .settings import described

_Model = TypeVar("_Model", bound=Any)


def as_fitted(model: _Model, *names: str) -> _Model:
    """A copy of a fitted model that has some parameters as its fit had them.

    Parameters
    ----------
    model : DistributedEstimator
    *names : str
        Parameters that its answers depend on; the settings of its state have them.
    """
    settings, found = model._fitted().settings, copy(model)
    for name in names:
        if name in settings and settings[name] != described(getattr(model, name)):
            setattr(found, name, settings[name])
    return found
