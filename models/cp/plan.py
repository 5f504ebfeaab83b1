"""What a CP fit will do, before it does it: nonzeros dealt to ranks, owners, every message.

    X ─► NonzeroCut (`cut`) ─► owners ─► reduce and expand of each mode, embedded or not

With method="auto" both ways are planned, each with the cut that suits it, and the one with the
smaller predicted time on the transport is taken (α seconds a message, β a byte).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.sums import sums_by_key
from daskpart.collectives import (
    Plan,
    concurrent_volume,
    embed,
    expand_plan,
    hypercube_allreduce_plan,
    rows_for_payload,
)
from daskpart.collectives.plan import Round
from daskpart.connectivity import Connectivity
from daskpart.containers.numbering import Numbering, number_owned
from daskpart.containers.tensor import LabelledTensor
from daskpart.errors import InputError, warn
from daskpart.models.base.held_out import messages_beside
from daskpart.models.base.memory import bytes_of
from daskpart.models.base.plan import ALPHA_BETA, FitPlan
from daskpart.models.base.reports import Expected

from .cut import NonzeroCut, cuts_of_methods, owned
from .held_out import HeldOutPlan
from .kernels.normal_equations import equations_bytes
from .layout.by_row import bytes_by_row
from .layout.layout import MEMORY
from .losses import LOGISTIC, OF_LOSS, POISSON, SQUARED_ERROR
from .report import LABELS, CPPlanReport, counted_plan

METHODS = ("auto", "p2p", "emb-naive", "emb")
_SUM_BYTES = 8  # norms and Grams travel as float64


@dataclass(frozen=True)
class PlanSettings:
    """What decides a plan; see `CPDecomposition` for the meaning of each.

    `transport` is the one whose α and β predict. For ``partitioner="auto"`` also how many
    iterations are run, and what it came to when the fit began. `fixed` are the places of the modes
    that keep their factors.
    """

    n_ranks: int
    method: str
    partitioner: Any
    owners: str
    random_state: int
    n_components: int
    itemsize: int
    alpha_beta: tuple[float, float] | None = None
    memory: str = "fast"
    missing: str = "zero"
    loss: str = SQUARED_ERROR
    steps: int = 1
    transport: str = "local"
    kept_cut: str | None = None
    fixed: tuple[int, ...] = ()

    @property
    def methods(self) -> tuple[str, ...]:
        """Those that are planned: of "auto" both, to `choose` from."""
        return ("p2p", "emb") if self.method == "auto" else (self.method,)

    @property
    def row_bytes(self) -> int:
        """Bytes of a factor row."""
        return self.n_components * self.itemsize

    @property
    def reduce_bytes(self) -> int:
        """Bytes of what a reduce sends of a row: its MTTKRP or ratios, or its normal equations.

        Ratios go with what they are divided by where absent entries are unknown.
        """
        if self.solves_by_row:
            return equations_bytes(self.n_components)
        return self.row_bytes if self.missing == "zero" else 2 * self.row_bytes

    @property
    def solves_by_row(self) -> bool:
        """Whether each factor row has normal equations of its own."""
        return self.missing == "unknown" and self.loss != POISSON

    @property
    def sum_bytes(self) -> int:
        """Bytes of the allreduce of norms: R of them, and of least squares ⟨X, X̂⟩ and ‖X̂‖²."""
        more = 2 if self.loss == SQUARED_ERROR else 0
        return (self.n_components + more) * _SUM_BYTES

    @property
    def loss_bytes(self) -> int:
        """Bytes of the allreduce of what the loss is made of; of least squares it rides along."""
        if self.loss == SQUARED_ERROR:
            return 0
        both = self.loss == POISSON and self.missing == "unknown"  # Σ x̂ too
        return (1 + both) * _SUM_BYTES

    @property
    def gram_bytes(self) -> int:
        """Bytes of the allreduce of a Gram, where an iteration adds them up; else 0."""
        has_grams = self.missing == "zero" and self.loss == SQUARED_ERROR
        return has_grams * self.n_components**2 * _SUM_BYTES


@dataclass(frozen=True, eq=False, kw_only=True)
class CPPlan(FitPlan):
    """All messages of an iteration under one method.

    Attributes
    ----------
    method : {"p2p", "emb-naive", "emb"}
    parts : ndarray of int32, shape (nnz,), or None
        Rank of each nonzero; None where the nonzeros are dealt on the workers.
    connectivities : tuple of Connectivity
        Of each mode, with owners.
    reduces, expands : tuple of Plan
        Of each mode; of fixed ones nothing is sent.
    choice : PlanSettings
    dims : tuple of str
        Names of the modes.
    imbalance_told : str
        The warnings of who cut the nonzeros, for the one who takes this plan of several; or "".
    held_out : HeldOutPlan or None
        What validation on the ranks takes beside an iteration.
    """

    method: str
    parts: NDArray[np.int32] | None = field(repr=False)
    connectivities: tuple[Connectivity, ...] = field(repr=False)
    reduces: tuple[Plan, ...] = field(repr=False)
    expands: tuple[Plan, ...] = field(repr=False)
    choice: PlanSettings = field(repr=False)
    dims: tuple[str, ...] = ()
    imbalance_told: str = ""
    held_out: HeldOutPlan | None = field(default=None, repr=False)

    @property
    def n_modes(self) -> int:
        """M."""
        return len(self.connectivities)

    @property
    def updated(self) -> list[int]:
        """The modes that are not fixed."""
        return [mode for mode in range(self.n_modes) if mode not in self.choice.fixed]

    @cached_property
    def numberings(self) -> list[Numbering]:
        """The factor rows of each mode on every rank."""
        return [number_owned(connectivity) for connectivity in self.connectivities]

    @property
    def transport(self) -> str:
        """Whose α and β predict."""
        return self.choice.transport

    @property
    def alpha_beta(self) -> tuple[float, float]:
        """Seconds a message and a byte: those given, or those of the transport."""
        return self.choice.alpha_beta or ALPHA_BETA[self.transport]

    @property
    def decided(self) -> dict[str, str]:
        """How messages travel."""
        return {"method": self.method}

    @property
    def cut(self) -> NDArray[np.int32]:
        """The rank of each nonzero; InputError where they were dealt on the workers."""
        if self.parts is None:
            raise InputError("the nonzeros were dealt on the workers: such a plan is not saved")
        return self.parts

    def plans(self) -> dict[str, Sequence[Plan]]:
        """The messages of each mode."""
        return dict(zip(LABELS, (self.reduces, self.expands), strict=True))

    def expected(self) -> Expected:
        """What an iteration will send: rows with those of payload, messages with allreduces."""
        both = [plan.statistics() for plan in (*self.reduces, *self.expands)]
        rows = np.sum([each.per_rank("rows_sent") for each in both], axis=0)
        messages = np.sum([each.per_rank("messages_sent") for each in both], axis=0)
        return Expected(
            rows=rows,
            messages=messages + self._allreduce_messages(),
            nbytes=self._nbytes(),
            row_labels=LABELS,
            beside={} if self.held_out is None else messages_beside(self.held_out.expands),
        )

    def _nbytes(self) -> int:
        """Bytes of all messages of an iteration."""
        of_rows = sum(plan.total_rows * row_bytes for plan, row_bytes in self._row_bytes())
        dense = hypercube_allreduce_plan(self.n_ranks).total_messages
        return of_rows + dense * sum(self._allreduce_sizes)

    def _row_bytes(self) -> Iterator[tuple[Plan, int]]:
        """Each plan of an iteration, and bytes of a row that goes by it."""
        for plan in self.reduces:
            yield plan, self.choice.reduce_bytes
        for plan in self.expands:
            yield plan, self.choice.row_bytes

    def _allreduce_messages(self) -> NDArray[np.int64]:
        """Messages of a rank in an iteration beside those of reduces and expands."""
        dense = hypercube_allreduce_plan(self.n_ranks).statistics().per_rank("messages_sent")
        return len(self._allreduce_sizes) * dense

    @property
    def _allreduce_sizes(self) -> list[int]:
        """Bytes of the allreduces of an iteration that are not the payload of rows."""
        choice = self.choice
        of_mode = [choice.sum_bytes, choice.gram_bytes]
        sizes = len(self.updated) * of_mode if self.method == "p2p" else []  # else payload of rows
        return [size for size in (*sizes, choice.loss_bytes) if size]

    @property
    def nonzeros(self) -> NDArray[np.int64]:
        """Of each rank."""
        first = self.connectivities[0]
        return sums_by_key(first.parts, first.counts, self.n_ranks)

    @property
    def n_cells(self) -> float:
        """Cells that are known: all, or the stored entries."""
        if self.choice.missing == "unknown":
            return float(self.nonzeros.sum())
        return float(np.prod([float(each.n_items) for each in self.connectivities]))

    @property
    def owned(self) -> NDArray[np.int64]:
        """Factor rows of all modes that each rank solves for."""
        return np.sum([self.numberings[mode].sizes[:, 0] for mode in self.updated], axis=0)

    def memory(self) -> dict[str, NDArray[np.int64]]:
        """Bytes that each rank will hold: its nonzeros as laid out, at most, and factor rows."""
        choice = self.choice
        rows = [np.diff(numbering.pointer) for numbering in self.numberings]
        factors = np.asarray((choice.row_bytes + 4) * sum(rows), np.int64)
        if choice.solves_by_row:
            of_entries = bytes_by_row(self.n_modes, choice.itemsize) * self.nonzeros
            held = {
                "entries": of_entries + 8 * (sum(rows) + self.n_modes),
                "factors": factors,
                "equations": choice.reduce_bytes * np.max(rows, axis=0),
            }
        else:
            most = MEMORY[choice.memory] * (4 * self.n_modes + choice.itemsize)
            held = {"nonzeros": most * self.nonzeros, "factors": factors}
        if self.held_out is not None:
            held["held out"] = np.array([bytes_of(own) for own in self.held_out.of_ranks])
            if self.held_out.keeps_best:
                kept = sum(numbering.sizes[:, 0] for numbering in self.numberings)
                held["best iteration"] = choice.row_bytes * kept + 8 * choice.n_components
        if made := OF_LOSS[choice.loss].made:
            held[made] = OF_LOSS[choice.loss].n_made * choice.itemsize * self.nonzeros
        return held

    def report(self) -> CPPlanReport:
        """What an iteration costs."""
        choice, pairs = self.choice, zip(self.reduces, self.expands, strict=True)
        counts = np.array([[counted_plan(plan) for plan in pair] for pair in pairs])
        messages, rows, payload = np.moveaxis(counts, 2, 0)  # of each mode, operation and rank
        return self._report(
            CPPlanReport,
            "iteration",
            method=self.method,
            owners=choice.owners,
            n_components=choice.n_components,
            dims=self.dims,
            messages=messages,
            rows_sent=rows,
            payload_rows=int(payload.max(axis=2).sum()),
            payload_volume=int(payload.sum()),
            total_bytes=self._nbytes(),
            allreduce_messages=int(self._allreduce_messages().max()),
            concurrent=np.array([concurrent_volume(expand) for expand in self.expands]),
            nonzeros=self.nonzeros,
            owned=self.owned,
            row_bytes=choice.row_bytes,
            reduce_bytes=choice.reduce_bytes,
            alpha=self.alpha_beta[0],
            beta=self.alpha_beta[1],
            predicted_seconds=self.predicted_seconds(*self.alpha_beta),
            validation_volume=0
            if self.held_out is None
            else sum(plan.total_rows for plan in self.held_out.expands),
        )

    def predicted_seconds(self, alpha: float, beta: float) -> float:
        """Seconds of the messages of an iteration when one of b bytes takes α + βb.

        Parameters
        ----------
        alpha, beta : float
            As of `Plan.predicted_seconds`.
        """
        total = sum(
            plan.predicted_seconds(alpha, beta, row_bytes) for plan, row_bytes in self._row_bytes()
        )
        dense = hypercube_allreduce_plan(self.n_ranks)
        return total + sum(
            dense.predicted_seconds(alpha, beta, size) for size in self._allreduce_sizes
        )


def warn_of_little_known(
    plan: CPPlan, ridge: Sequence[float], fixed: Mapping[int, NDArray[Any]]
) -> None:
    """Warn of indices without entries, and of a ridge that weighs more than the entries.

    Columns of the other factors have length 1, so the diagonals of N, of all rows of a mode, are in
    the mean the share of cells that are stored; of yes and no at most a quarter of it. Those of
    `fixed` factors have any length, by whose square it is more.
    """
    logistic = plan.choice.loss == LOGISTIC
    predicted, weight = ("the share of yes", 0.25) if logistic else ("0", 1.0)
    for mode in plan.updated:
        dim, connectivity = plan.dims[mode], plan.connectivities[mode]
        n_empty = int(np.count_nonzero(np.diff(connectivity.pointer) == 0))
        if n_empty:
            warn(
                f"{n_empty} of {connectivity.n_items} indices of {dim} have no entry to learn "
                f"from: their factor rows are 0, and {predicted} is what is predicted of them"
            )
    n_cells = np.prod([float(connectivity.n_items) for connectivity in plan.connectivities])
    lengths = np.prod([np.square(factor).sum(axis=0) for factor in fixed.values()], axis=0)
    share = weight * plan.nonzeros.sum() / n_cells * np.mean(lengths)
    most = max(ridge[mode] for mode in plan.updated)
    if most > share:
        warn(
            f"ridge={most:g} outweighs the entries: factors are normalised, and few cells "
            f"are stored, so these weigh {share:.1g} in the mean; give a ridge far below that"
        )


def plan_fit(tensor: LabelledTensor, settings: PlanSettings) -> list[CPPlan]:
    """Deal out the nonzeros and lay out every message of an iteration.

    Parameters
    ----------
    tensor : LabelledTensor
    settings : PlanSettings
        Checked.

    Returns
    -------
    list of CPPlan
        One; under ``method="auto"`` one for "p2p" and one for "emb", to `choose` from.
    """

    return [
        plan_method(cut, replace(settings, method=method), tensor.dims)
        for method, cut in cuts_of_methods(tensor, settings).items()
    ]


def plan_method(cut: NonzeroCut, settings: PlanSettings, dims: Sequence[str]) -> CPPlan:
    """Owners and messages of one method, from which rank touches which row."""
    method = settings.method
    modes = owned(cut.connectivities, settings)
    nothing = Round.from_transfers(settings.n_ranks, *3 * [np.empty(0, np.int64)])
    direct = [
        Plan("expand", connectivity.n_items, (nothing,))
        if mode in settings.fixed
        else expand_plan(connectivity)
        for mode, connectivity in enumerate(modes)
    ]

    def expands(payload_bytes: int) -> list[Plan]:
        """Those of all modes; embedded ones have room for as much in each message."""
        if method == "p2p":
            return direct
        rows = rows_for_payload(payload_bytes, settings.row_bytes) if payload_bytes else 0
        room: dict[str, Any] = {"aware": method == "emb", "payload_rows": rows}
        return [
            plan if mode in settings.fixed else embed(plan, **room)
            for mode, plan in enumerate(direct)
        ]

    return CPPlan(
        n_ranks=settings.n_ranks,
        random_state=settings.random_state,
        partitioner=cut.partitioner,
        weighed=cut.weighed,
        seconds=cut.seconds,
        method=method,
        parts=cut.parts,
        connectivities=tuple(modes),
        reduces=tuple(plan.reversed() for plan in expands(settings.gram_bytes)),
        expands=tuple(expands(settings.sum_bytes)),
        choice=settings,
        dims=tuple(dims),
        imbalance_told=cut.imbalance_told,
    )


def choose(plans: Sequence[CPPlan]) -> CPPlan:
    """The plan whose messages take least time; of equal ones the first."""
    return min(plans, key=lambda plan: plan.predicted_seconds(*plan.alpha_beta))
