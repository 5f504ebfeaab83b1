"""What an iteration of a decomposition would move, known without computing one.

tensor ─► plan_fit ─► CPPlanReport        messages, rows, concurrent volume, predicted seconds
"""

from __future__ import annotations

from typing import Any

from .cp_checks import check_settings
from .cp_decomposition import CPDecomposition
from .cp_planning import ALPHA_BETA, MethodPlan, choose
from .cp_reports import CPPlanReport, report_plan
from .cp_sources import source_of


def cp_plan_report(
    X: Any,
    n_ranks: int,
    method: str = "emb",
    partitioner: Any = "auto",
    *,
    rank: int = 16,
    **parameters: Any,
) -> CPPlanReport:
    """What one iteration of a decomposition would move, without computing one.

    Parameters
    ----------
    X : container
        As for `CPDecomposition.fit`.
    n_ranks, method, partitioner, rank, **parameters
        As for `CPDecomposition`; thousands of ranks are fine.

    Returns
    -------
    CPPlanReport
        Messages, volume (largest and total), concurrent volume, per rank and mode, and the
        predicted time at `alpha_beta` (default: MPI of one machine).
    """
    model = CPDecomposition(
        rank, n_ranks=n_ranks, method=method, partitioner=partitioner, **parameters
    )
    return planned(model, X, "mpi")[1]


def planned(model: CPDecomposition, X: Any, transport: str) -> tuple[MethodPlan, CPPlanReport]:
    """The plan that a fit would follow on a transport, and its report.

    Parameters
    ----------
    model : CPDecomposition
    X : container
        As for its `fit`.
    transport : {"local", "graph", "dask", "mpi"}
        Whose α and β choose the method, where the model leaves that open.
    """
    check_settings(model)
    source = source_of(X)
    plan = choose(source.plan(model.plan_settings(source)), transport)
    pair = model.alpha_beta or ALPHA_BETA[transport]
    return plan, report_plan(plan, tuple(source.dims), pair)
