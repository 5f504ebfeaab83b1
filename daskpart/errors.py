"""The errors and warnings of daskpart, one small hierarchy.

    DaskpartError
    ├── InputError (ValueError)            what was given cannot be used: the value, what is allowed
    │   ├── ReadError                      a file that cannot be read: the path, the line
    │   └── WorkersBusyError               ranks cannot be started on the workers now
    ├── MissingPackageError (ImportError)  what was asked for needs a package that is not installed
    ├── EngineError (RuntimeError)         a partitioning engine failed
    ├── DivergenceError (ArithmeticError)  training left the finite numbers
    └── WorkerLostError (RuntimeError)     a worker that holds a rank went away
        └── SchedulerLostError             the scheduler does not answer: no cluster is left

This module imports nothing of the house, so every folder may import it.
"""

from __future__ import annotations

import sys
import warnings
from types import FrameType

_PASSED_OVER = {"daskpart", "sklearn", "joblib"}  # the latter call methods of ours for users


class DaskpartError(Exception):
    """Base of every error that daskpart raises on purpose."""


class InputError(DaskpartError, ValueError):
    """A value, an array or an option that cannot be used."""


class ReadError(InputError):
    """A file that cannot be read; the message names the path and, where known, the line.

    Parameters
    ----------
    problem : str
        What is wrong.
    option : str, optional
        The option of `daskpart.read` that helps.
    advice : str, default=""
        What to say by that option; it ends the message.
    in_file : str, default=""
        What ends the message, in place of the advice, for those who cannot give the option.
    """

    def __init__(
        self, problem: str, option: str | None = None, advice: str = "", in_file: str = ""
    ) -> None:
        super().__init__(problem + advice)
        self.problem = problem
        self.option = option
        self.in_file = in_file


class WorkersBusyError(InputError):
    """The workers are in use, on their way or paused, so ranks cannot be started on them now."""


class MissingPackageError(DaskpartError, ImportError):
    """What was asked for needs a package that is not installed; the message says what brings it."""


class EngineError(DaskpartError, RuntimeError):
    """A partitioning engine failed or is not installed."""


class DivergenceError(DaskpartError, ArithmeticError):
    """Training produced NaN or infinity; the last finite state is kept on the estimator."""


class WorkerLostError(DaskpartError, RuntimeError):
    """A worker that holds a rank left while it was needed."""


class SchedulerLostError(WorkerLostError):
    """The scheduler does not answer, so there is no cluster to go on with."""


class DaskpartWarning(UserWarning):
    """Something was adjusted; the message says what was asked and what is done."""


class BalanceWarning(DaskpartWarning):
    """The asked balance cannot be met; the message states the imbalance reached."""


def warn(message: str, category: type[Warning] = DaskpartWarning) -> None:
    """Warn of the line outside daskpart that led here, however deep inside the reason shows.

    Parameters
    ----------
    message : str
    category : type of Warning, default=DaskpartWarning
    """
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame and str(frame.f_globals.get("__name__")).partition(".")[0] in _PASSED_OVER:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
