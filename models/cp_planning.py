"""What a CP fit will do, before it does it: nonzeros dealt to ranks, owners, every message.

    X ─► rank of each nonzero ─► Connectivity of each mode ─► owners ─► reduce and expand of each
                                                                        mode, embedded or not

With method="auto" both ways are planned, each with the cut that suits it, and the one with the
smaller predicted time is taken when the transport is known (α seconds a message, β a byte).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.collectives import (
    Plan,
    embed,
    expand_plan,
    hypercube_allreduce_plan,
    rows_for_payload,
)
from daskpart.connectivity import Connectivity
from daskpart.containers.tensor import LabelledTensor
from daskpart.errors import InputError

from .cp_parts import (
    OWNERS,
    check_partitioner,
    mode_connectivities,
    nonzero_parts,
    owned,
    partitioner_for,
    partitioner_name,
)
from .cp_ranks import RowNumbering, number_rows

METHODS = ("auto", "p2p", "emb-naive", "emb")
_SUM_BYTES = 8  # norms and Grams travel as float64

# seconds a message and seconds a byte: the hypercube allreduce of 4 workers on 2 cores, a round
ALPHA_BETA = {
    "local": (3e-5, 2e-10),
    "graph": (2e-2, 4e-9),
    "dask": (1.2e-3, 2e-9),
    "mpi": (1e-4, 4e-10),
}


@dataclass(frozen=True)
class PlanSettings:
    """What decides a plan; see `CPDecomposition` for the meaning of each."""

    n_ranks: int
    method: str
    partitioner: Any
    owners: str
    epsilon: float
    engine: Any
    random_state: int
    n_components: int
    itemsize: int
    alpha_beta: tuple[float, float] | None = None

    @property
    def row_bytes(self) -> int:
        """Bytes of a factor row."""
        return self.n_components * self.itemsize

    @property
    def sum_bytes(self) -> int:
        """Bytes of the allreduce of norms: R of them, ⟨X, X̂⟩ and ‖X̂‖²."""
        return (self.n_components + 2) * _SUM_BYTES

    @property
    def gram_bytes(self) -> int:
        """Bytes of the allreduce of a Gram."""
        return self.n_components**2 * _SUM_BYTES


@dataclass(frozen=True, eq=False)
class MethodPlan:
    """All messages of an iteration under one method.

    Attributes
    ----------
    method : {"p2p", "emb-naive", "emb"}
    partitioner : str
        Its name.
    parts : ndarray of int32, shape (nnz,), or None
        Rank of each nonzero; None where the nonzeros are dealt on the workers.
    connectivities : tuple of Connectivity
        Of each mode, with owners.
    reduces, expands : tuple of Plan
        Of each mode.
    settings : PlanSettings
    seconds : float
        Time the partitioner took.
    """

    method: str
    partitioner: str
    parts: NDArray[np.int32] | None = field(repr=False)
    connectivities: tuple[Connectivity, ...] = field(repr=False)
    reduces: tuple[Plan, ...] = field(repr=False)
    expands: tuple[Plan, ...] = field(repr=False)
    settings: PlanSettings = field(repr=False)
    seconds: float = 0.0

    @property
    def n_modes(self) -> int:
        """M."""
        return len(self.connectivities)

    def numberings(self) -> list[RowNumbering]:
        """The factor rows of each mode on every rank."""
        return [number_rows(connectivity) for connectivity in self.connectivities]

    def predicted_seconds(self, alpha: float, beta: float) -> float:
        """Time of the messages of an iteration when one of b bytes takes α + βb."""
        settings = self.settings
        total = sum(
            plan.predicted_seconds(alpha, beta, settings.row_bytes)
            for plan in (*self.reduces, *self.expands)
        )
        if self.method != "p2p":
            return total  # norms and Grams are payload of these plans
        dense = hypercube_allreduce_plan(settings.n_ranks)
        sizes = (settings.sum_bytes, settings.gram_bytes)
        return total + self.n_modes * sum(
            dense.predicted_seconds(alpha, beta, size) for size in sizes
        )


def check_plan_settings(settings: PlanSettings) -> None:
    """Refuse what is unknown or contradicts itself (InputError)."""
    for name, allowed in (("method", METHODS), ("owners", OWNERS)):
        given = getattr(settings, name)
        if given not in allowed:
            known = ", ".join(map(repr, allowed))
            raise InputError(f"{name}={given!r} is unknown; choose one of {known}")
    check_partitioner(settings.partitioner, settings.n_ranks)
    pair = settings.alpha_beta
    if pair is not None and (len(pair) != 2 or min(pair) < 0 or not np.isfinite(pair).all()):
        raise InputError(
            f"alpha_beta={pair!r} must be two numbers of at least 0: seconds a message and "
            "seconds a byte"
        )


def plan_fit(tensor: LabelledTensor, settings: PlanSettings) -> list[MethodPlan]:
    """Deal out the nonzeros and lay out every message of an iteration.

    Parameters
    ----------
    tensor : LabelledTensor
    settings : PlanSettings
        As `check_plan_settings` let them pass.

    Returns
    -------
    list of MethodPlan
        One; under ``method="auto"`` one for "p2p" and one for "emb", to `choose` from.
    """
    methods = ("p2p", "emb") if settings.method == "auto" else (settings.method,)
    cuts: dict[str, tuple[NDArray[np.int32], list[Connectivity], float]] = {}
    plans = []
    for method in methods:
        chosen = partitioner_for(settings.partitioner, method, settings.n_ranks)
        name = partitioner_name(chosen)
        if name not in cuts:
            cuts[name] = _cut(tensor, settings, chosen)
        parts, connectivities, seconds = cuts[name]
        plan = plan_method(connectivities, replace(settings, method=method), name, parts)
        plans.append(replace(plan, seconds=seconds))
    return plans


def plan_method(
    connectivities: Sequence[Connectivity],
    settings: PlanSettings,
    partitioner: str,
    parts: NDArray[np.int32] | None = None,
) -> MethodPlan:
    """Owners and messages of one method, from which rank touches which row."""
    method = settings.method
    modes = owned(connectivities, settings.owners, method, settings.random_state)
    direct = [expand_plan(mode) for mode in modes]
    if method == "p2p":
        expands: list[Plan] = direct
        reduces: list[Plan] = [plan.reversed() for plan in direct]
    else:
        aware = method == "emb"
        norms = rows_for_payload(settings.sum_bytes, settings.row_bytes)
        gram = rows_for_payload(settings.gram_bytes, settings.row_bytes)
        expands = [embed(plan, aware=aware, payload_rows=norms) for plan in direct]
        reduces = [embed(plan, aware=aware, payload_rows=gram).reversed() for plan in direct]
    return MethodPlan(
        method, partitioner, parts, tuple(modes), tuple(reduces), tuple(expands), settings
    )


def choose(plans: Sequence[MethodPlan], transport: str) -> MethodPlan:
    """The plan whose messages take least time on a transport; of equal ones the first."""
    given = plans[0].settings.alpha_beta
    alpha, beta = ALPHA_BETA[transport] if given is None else given
    return min(plans, key=lambda plan: plan.predicted_seconds(alpha, beta))


def _cut(
    tensor: LabelledTensor, settings: PlanSettings, partitioner: Any
) -> tuple[NDArray[np.int32], list[Connectivity], float]:
    begin = perf_counter()
    parts = nonzero_parts(
        tensor,
        settings.n_ranks,
        partitioner,
        epsilon=settings.epsilon,
        engine=settings.engine,
        n_components=settings.n_components,
        random_state=settings.random_state,
    )
    seconds = perf_counter() - begin
    found = mode_connectivities(tensor.coordinates, parts, tensor.shape, settings.n_ranks)
    return parts, found, seconds
