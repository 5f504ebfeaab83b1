"""Learning rates over steps: constant, 1/t, 1/√t, step decay, and scikit-learn's "optimal".

    constant     η0                                  invscaling   η0 / t^power    (1: 1/t, ½: 1/√t)
    step         η0 / 2^⌊(epoch − 1) / 10⌋           optimal      1 / (λ (t0 + t))

t counts steps from 1. A rate depends on the numbers of step and epoch alone, so every rank has it,
and a fit that goes on from a checkpoint has the rate of one that was never interrupted. (Rates that
follow the error are in `learning_rates`.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from daskpart.errors import InputError

SCHEDULES = ("optimal", "constant", "invscaling", "step")
_FACTOR, _EVERY = 0.5, 10  # of "step": what the rate is multiplied by, after so many epochs


@dataclass(frozen=True)
class Schedule:
    """How the rate moves from step to step; made by `schedule_of`.

    Parameters
    ----------
    name : {"optimal", "constant", "invscaling", "step"}
    initial : float
        η0, or of "optimal" t0.
    power : float
        Of "invscaling".
    strength : float
        λ, of "optimal".
    """

    name: str
    initial: float
    power: float = 0.5
    strength: float = 0.0

    def bounded(self, largest: float) -> Schedule:
        """The schedule whose "optimal" begins at `largest` at most; others are as they were asked.

        Gradient descent falls up to the rate 1 / curvature. A step of many samples is as good as
        exact, and above that rate it climbs.
        """
        if self.name != "optimal":
            return self
        return replace(self, initial=max(self.initial, 1.0 / (largest * self.strength)))

    def rates(self, first: int, n_steps: int, epoch: int) -> NDArray[np.float64]:
        """The rates of the steps `first` (from 1) to ``first + n_steps - 1``, all of one epoch."""
        t = np.arange(first, first + n_steps, dtype=np.float64)
        if self.name == "optimal":
            return 1.0 / (self.strength * (self.initial + t - 1))
        if self.name == "invscaling":
            return self.initial / t**self.power
        if self.name == "step":
            return np.full(n_steps, self.initial * _FACTOR ** ((epoch - 1) // _EVERY))
        return np.full(n_steps, self.initial)


def schedule_of(
    name: str,
    initial: float,
    *,
    power: float = 0.5,
    strength: float = 0.0,
    steepest: Callable[[float], float] = lambda typical: 1.0,
) -> Schedule:
    """The named schedule.

    Parameters
    ----------
    name : str
        One of `SCHEDULES`.
    initial : float
        η0; not used by "optimal", which finds its own beginning (Bottou 2012, §5.2: weights of
        typical size should not be left by the first step).
    power
        See `Schedule`.
    strength : float
        λ of the L2 term, for "optimal".
    steepest : callable
        ``steepest(w)``: size of the slope of the loss at a score of −w for a target of 1.

    Raises
    ------
    InputError
        For "optimal" without an L2 term.
    """
    if name == "optimal":
        if not strength > 0:
            raise InputError(
                "learning_rate='optimal' needs an L2 term to take its size from; choose "
                "'invscaling', or regularise"
            )
        typical = sqrt(1.0 / sqrt(strength))
        initial = max(1.0, steepest(typical)) / (typical * strength)
    return Schedule(name, float(initial), power, strength)
