"""What is learnt: estimators, and what belongs to them.

Names are loaded on first use: a worker that runs one kernel does not import scikit-learn.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .callbacks import Checkpoint, EarlyStopping, TrainingProgress
    from .checkpoints import CheckpointWriter
    from .matrix_factorization import MatrixFactorization, plan_report
    from .reports import CommunicationReport, PlanReport
    from .snapshot import Factors

_HOME_OF = {
    "Checkpoint": ".callbacks",
    "CheckpointWriter": ".checkpoints",
    "CommunicationReport": ".reports",
    "EarlyStopping": ".callbacks",
    "Factors": ".snapshot",
    "MatrixFactorization": ".matrix_factorization",
    "PlanReport": ".reports",
    "TrainingProgress": ".callbacks",
    "plan_report": ".matrix_factorization",
}

__all__ = [
    "Checkpoint",
    "CheckpointWriter",
    "CommunicationReport",
    "EarlyStopping",
    "Factors",
    "MatrixFactorization",
    "PlanReport",
    "TrainingProgress",
    "plan_report",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
