"""What is learnt: estimators, and what belongs to them.

Names are loaded on first use: a worker that runs one kernel does not import scikit-learn.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .base.callbacks import (
        Checkpoint,
        EarlyStopping,
        EpochCallback,
        Tolerance,
        TrainingProgress,
    )
    from .base.checkpoints import CheckpointWriter
    from .base.estimator import DistributedEstimator
    from .base.plan import FitPlan
    from .base.reports import CommunicationReport, PlanReport
    from .base.state import State
    from .base.text import Text
    from .cp.diagnostics import CPDiagnostics, core_consistency, factor_match_score
    from .cp.estimator import CPDecomposition
    from .cp.plan import CPPlan
    from .cp.report import CPPlanReport
    from .cp.state import CPState
    from .graph_convolution.batch_plan import BatchPlan, BatchPlanReport
    from .graph_convolution.estimator import GCNClassifier, GCNRegressor
    from .graph_convolution.plan import GCNPlan, GCNPlanReport
    from .graph_convolution.state import GCNState
    from .implicit_factorization.estimator import ImplicitFactorization
    from .implicit_factorization.plan import ImplicitPlan, ImplicitPlanReport
    from .implicit_factorization.state import ImplicitState
    from .linear.estimator import (
        LinearRegression,
        LinearSVC,
        LogisticRegression,
        PoissonRegressor,
    )
    from .linear.state import LinearState
    from .matrix_factorization.estimator import MatrixFactorization
    from .matrix_factorization.plan import MFPlan
    from .matrix_factorization.plan_report import MFPlanReport
    from .matrix_factorization.state import MFState
    from .mlp.estimator import MLPClassifier, MLPRegressor
    from .mlp.state import MLPState
    from .optimisation.optimisers import SGD, AdaGrad, Adam, Momentum, Optimizer
    from .samples.plan import SamplesPlan, SamplesPlanReport

_HOME_OF = {
    "AdaGrad": ".optimisation.optimisers",
    "Adam": ".optimisation.optimisers",
    "BatchPlan": ".graph_convolution.batch_plan",
    "BatchPlanReport": ".graph_convolution.batch_plan",
    "CPDecomposition": ".cp.estimator",
    "CPDiagnostics": ".cp.diagnostics",
    "CPPlan": ".cp.plan",
    "CPPlanReport": ".cp.report",
    "CPState": ".cp.state",
    "Checkpoint": ".base.callbacks",
    "CheckpointWriter": ".base.checkpoints",
    "CommunicationReport": ".base.reports",
    "DistributedEstimator": ".base.estimator",
    "EarlyStopping": ".base.callbacks",
    "EpochCallback": ".base.callbacks",
    "FitPlan": ".base.plan",
    "GCNClassifier": ".graph_convolution.estimator",
    "GCNPlan": ".graph_convolution.plan",
    "GCNPlanReport": ".graph_convolution.plan",
    "GCNRegressor": ".graph_convolution.estimator",
    "GCNState": ".graph_convolution.state",
    "ImplicitFactorization": ".implicit_factorization.estimator",
    "ImplicitPlan": ".implicit_factorization.plan",
    "ImplicitPlanReport": ".implicit_factorization.plan",
    "ImplicitState": ".implicit_factorization.state",
    "LinearRegression": ".linear.estimator",
    "LinearSVC": ".linear.estimator",
    "LinearState": ".linear.state",
    "LogisticRegression": ".linear.estimator",
    "MFPlan": ".matrix_factorization.plan",
    "MFPlanReport": ".matrix_factorization.plan_report",
    "MFState": ".matrix_factorization.state",
    "MLPClassifier": ".mlp.estimator",
    "MLPRegressor": ".mlp.estimator",
    "MLPState": ".mlp.state",
    "MatrixFactorization": ".matrix_factorization.estimator",
    "Momentum": ".optimisation.optimisers",
    "Optimizer": ".optimisation.optimisers",
    "PlanReport": ".base.reports",
    "PoissonRegressor": ".linear.estimator",
    "SGD": ".optimisation.optimisers",
    "SamplesPlan": ".samples.plan",
    "SamplesPlanReport": ".samples.plan",
    "State": ".base.state",
    "Text": ".base.text",
    "Tolerance": ".base.callbacks",
    "TrainingProgress": ".base.callbacks",
    "core_consistency": ".cp.diagnostics",
    "factor_match_score": ".cp.diagnostics",
}

__all__ = [
    "SGD",
    "AdaGrad",
    "Adam",
    "BatchPlan",
    "BatchPlanReport",
    "CPDecomposition",
    "CPDiagnostics",
    "CPPlan",
    "CPPlanReport",
    "CPState",
    "Checkpoint",
    "CheckpointWriter",
    "CommunicationReport",
    "DistributedEstimator",
    "EarlyStopping",
    "EpochCallback",
    "FitPlan",
    "GCNClassifier",
    "GCNPlan",
    "GCNPlanReport",
    "GCNRegressor",
    "GCNState",
    "ImplicitFactorization",
    "ImplicitPlan",
    "ImplicitPlanReport",
    "ImplicitState",
    "LinearRegression",
    "LinearSVC",
    "LinearState",
    "LogisticRegression",
    "MFPlan",
    "MFPlanReport",
    "MFState",
    "MLPClassifier",
    "MLPRegressor",
    "MLPState",
    "MatrixFactorization",
    "Momentum",
    "Optimizer",
    "PlanReport",
    "PoissonRegressor",
    "SamplesPlan",
    "SamplesPlanReport",
    "State",
    "Text",
    "Tolerance",
    "TrainingProgress",
    "core_consistency",
    "factor_match_score",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
