"""What is learnt: estimators, and what belongs to them.

Names are loaded on first use: a worker that runs one kernel does not import scikit-learn.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .callbacks import Checkpoint, EarlyStopping, TrainingProgress
    from .checkpoints import CheckpointWriter
    from .convergence import FitTolerance
    from .cp_decomposition import CPDecomposition
    from .cp_forecast import cp_plan_report
    from .cp_reports import CPCommunicationReport, CPPlanReport
    from .cp_state import CPState
    from .matrix_factorization import MatrixFactorization, plan_report
    from .reports import CommunicationReport, PlanReport
    from .snapshot import Factors

_HOME_OF = {
    "CPCommunicationReport": ".cp_reports",
    "CPDecomposition": ".cp_decomposition",
    "CPPlanReport": ".cp_reports",
    "CPState": ".cp_state",
    "Checkpoint": ".callbacks",
    "CheckpointWriter": ".checkpoints",
    "CommunicationReport": ".reports",
    "EarlyStopping": ".callbacks",
    "Factors": ".snapshot",
    "FitTolerance": ".convergence",
    "MatrixFactorization": ".matrix_factorization",
    "PlanReport": ".reports",
    "TrainingProgress": ".callbacks",
    "cp_plan_report": ".cp_forecast",
    "plan_report": ".matrix_factorization",
}

__all__ = [
    "CPCommunicationReport",
    "CPDecomposition",
    "CPPlanReport",
    "CPState",
    "Checkpoint",
    "CheckpointWriter",
    "CommunicationReport",
    "EarlyStopping",
    "Factors",
    "FitTolerance",
    "MatrixFactorization",
    "PlanReport",
    "TrainingProgress",
    "cp_plan_report",
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
