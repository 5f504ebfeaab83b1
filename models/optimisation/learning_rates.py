"""Learning rates over epochs: constant, 1/t decay, bold driver, and AdaGrad's fixed base rate.

A rate's memory is a small dict of floats (`start`, `advance`), so that a checkpoint holds it and
every rank of a run computes the same next rate from the same summed error. Of a `Schedule` the rate
depends on step and epoch alone (`at`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isnan, nan
from typing import Any

from .schedules import Schedule, schedule_of

DEFAULT_RATES = {"adagrad": 0.1, "constant": 0.01, "decay": 0.02, "bold-driver": 0.01}
_DECAY = 0.1
_GROWTH, _CUT = 1.05, 0.5
_SCHEDULED = ("invscaling", "step")
OF_NETWORKS = ("constant", "decay", "bold-driver", *_SCHEDULED)


@dataclass(frozen=True)
class LearningRate:
    """How the rate moves from epoch to epoch.

    Parameters
    ----------
    name : {"adagrad", "constant", "decay", "bold-driver", "invscaling", "step"}
        "adagrad": the base rate stays, each row divides it by the root of its summed squared
        gradients. "decay": initial / (1 + 0.1 · epoch). "bold-driver": 5 % up after an epoch whose
        training error fell, halved after one whose error did not (Gemulla et al. 2011, §5.1); as it
        was after the first on other data, whose error is compared with nothing.
    initial : float
        Rate of the first epoch, above 0.
    power : float
        Of "invscaling"; see `schedules`, also for "step".
    """

    name: str
    initial: float
    power: float = 0.5

    @property
    def per_row(self) -> bool:
        """Whether rows keep a sum of squared gradients."""
        return self.name == "adagrad"

    @property
    def schedule(self) -> Schedule | None:
        """What the rate follows, if it depends on step and epoch alone."""
        if self.name not in _SCHEDULED:
            return None
        return schedule_of(self.name, self.initial, power=self.power)

    def at(self, memory: dict[str, float], step: int, epoch: int) -> float:
        """The rate of a step; steps and epochs of the fit are counted from 1."""
        if self.schedule is None:
            return memory["rate"]
        return float(self.schedule.rates(step, 1, epoch)[0])

    def start(self) -> dict[str, float]:
        """The memory before the first epoch."""
        return {"rate": self.initial, "error": float("inf")}

    def advance(self, memory: dict[str, float], epoch: int, error: float) -> dict[str, float]:
        """The memory after `epoch` (from 1), which ended with the summed squared `error`."""
        rate = memory["rate"]
        if self.name == "decay":
            rate = self.initial / (1 + _DECAY * epoch)
        elif self.name == "bold-driver" and not isnan(memory["error"]):
            rate *= _GROWTH if error < memory["error"] else _CUT
        return {"rate": rate, "error": error}


def in_another_fit(
    state: Any, settings: Mapping[str, Any], names: Iterable[str]
) -> dict[str, float]:
    """What another fit that goes on keeps of a memory.

    Parameters
    ----------
    state : State
        Of the last fit, with its ``learning_rate_state``.
    settings : dict
        Of this one.
    names : iterable of str
        Settings that make the rate: a rate that is new begins anew.

    Returns
    -------
    dict
        Without the error, which says nothing of other data, unless only the ranks are others;
        empty: begin anew.
    """
    memory = state.learning_rate_state
    if not memory or any(state.settings.get(name) != settings[name] for name in names):
        return {}
    same = state.is_of(state.on_own_ranks(settings))
    return dict(memory) if same else {**memory, "error": nan}


def learning_rate(name: str, initial: float | None) -> LearningRate:
    """The learning rate of a name of `DEFAULT_RATES`, which `initial` None takes its value from."""
    return LearningRate(name, DEFAULT_RATES[name] if initial is None else float(initial))
