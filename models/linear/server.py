"""The parameter server as a session of a fit, and the text of `solver="server"` on it.

    driver                              ranks, each with its rows and a shard
    begin_from(state)  ── w ────▶       ParameterServer(initial=w), rows handed out once
    run(first, last)   ─────────▶       epochs of `delayed_blocks`: push, advance, pull
    gather             ◀── w ────       rows of all shards

Which rank has which rows, and which shard which coordinate, is said by the plan: Parsa puts rows
together that touch the same coordinates, and these beside them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from daskpart import parsa
from daskpart.collectives import ParameterServer
from daskpart.collectives.counters import Counters
from daskpart.errors import InputError
from daskpart.models.base.session import expected_transport
from daskpart.models.base.text import Step, Text
from daskpart.partitions import Partition

from . import delayed_blocks
from .delayed_blocks import Penalty, solvers_of, update_rule
from .plan import LinearPlan
from .problem import Samples
from .state import LinearState

PARTITIONERS = ("parsa", "random")


@dataclass(frozen=True, eq=False, kw_only=True)
class ServerPlan(LinearPlan):
    """Rows on ranks, coordinates on their shards.

    Attributes
    ----------
    placement : int32 ndarray of shape (n_features + 1,), or None
        The shard of each coordinate; the intercept's is the last. None: by a hash.
    """

    placement: NDArray[np.int32] | None = field(default=None, repr=False)

    @property
    def cut(self) -> None:
        """Rows and coordinates are placed again, the same by the same seed."""


def server_plan(problem: Samples, n_ranks: int, partitioner: str, random_state: int) -> ServerPlan:
    """Place rows and coordinates.

    Parameters
    ----------
    problem : Samples
    n_ranks : int
    partitioner : {"parsa", "random"}
    random_state : int

    Returns
    -------
    ServerPlan
    """
    n_samples, n_features = problem.X.shape
    placement, seconds = None, 0.0
    if partitioner == "parsa" and n_ranks > 1:
        found = parsa.partition(problem.X, n_ranks, random_state=random_state)
        partition = found.partition
        placement = np.append(found.placement.assignment, np.int32(0))
        seconds = float(found.report.get("seconds", 0.0))
    else:
        order = np.random.default_rng(random_state).permutation(n_samples)
        ranks = np.empty(n_samples, np.int32)
        ranks[order] = np.arange(n_samples) * n_ranks // n_samples
        partition = Partition(ranks, n_ranks)
    members = [partition.members(rank) for rank in range(n_ranks)]
    nnz = np.array([problem.X[own].nnz for own in members])
    return ServerPlan(
        n_ranks=n_ranks,
        partition=partition,
        partitioner=partitioner,
        seconds=seconds,
        members=members,
        weight_bytes=40 * (n_features + 1),
        row_bytes=12 * nnz + 24 * np.array(list(map(len, members))),
        placement=placement,
    )


class ServerConnection:
    """Opens sessions on the parameter server for one fit."""

    def __init__(self, transport: str, n_ranks: int, client: Any) -> None:
        self.transport, self.n_ranks, self.client = transport, n_ranks, client

    def open(self, after_loss: bool) -> ServerSession:
        """A session on the workers that are there now."""
        found = expected_transport(self.transport, self.n_ranks, self.client)
        if found == "graph":
            raise InputError(
                "solver='server' needs a thread of a worker for each rank: there is no server on "
                f"transport='graph', and too few workers for {self.n_ranks} ranks otherwise. Give "
                "transport='local' or fewer ranks"
            )
        return ServerSession(found, self.n_ranks, self.client)

    def can_go_back(self) -> bool:
        """It never goes elsewhere."""
        return False


class ServerSession:
    """A parameter server that begins with each state, and what it counts.

    Attributes
    ----------
    transport : {"local", "dask", "mpi"}
    n_ranks : int
    counters : Counters
        Of what went between a rank and another one's shard.
    server : ParameterServer or None
    """

    def __init__(self, transport: str, n_ranks: int, client: Any) -> None:
        self.transport, self.n_ranks, self.client = transport, n_ranks, client
        self.counters = Counters(n_ranks)
        self.server: ParameterServer | None = None

    def begin(self, n_items: int, **options: Any) -> ParameterServer:
        """A new server; the one before is closed."""
        self.close()
        self.server = ParameterServer(
            n_items, n_ranks=self.n_ranks, transport=self.transport, client=self.client, **options
        )
        return self.server

    def count(self, seconds: NDArray[np.float64]) -> None:
        """Move what the server counted into the counters; `seconds` that each rank's run took."""
        assert self.server is not None
        report = self.server.report
        remote = ~np.eye(self.n_ranks, dtype=bool)
        messages = np.where(remote, report.messages, 0)
        rows, nbytes = report.rows, report.bytes
        for number in range(int(messages.max(initial=0))):
            ranks, shards = np.nonzero(messages > number)
            amounts = (rows[ranks, shards], nbytes[ranks, shards])
            if number:  # rows and bytes of all messages of a pair count with its first
                amounts = (np.zeros_like(amounts[0]), np.zeros_like(amounts[1]))
            self.counters.record_round("server", number, ranks, shards, *amounts)
        blocked = report.seconds_blocked
        self.counters.seconds_blocked = self.counters.seconds_blocked + blocked
        self.counters.seconds_computing = self.counters.seconds_computing + seconds - blocked
        self.server.reset_report()

    def close(self) -> None:
        """End the server."""
        if self.server is not None:
            self.server.close()
            self.server = None


class ServerText(Text):
    """A fit by delayed block proximal gradient.

    Parameters
    ----------
    session : ServerSession
    plan : ServerPlan
    problem : Samples
    penalty : Penalty
    intercept : bool
    delay : float
    n_blocks : int
    tolerance : float
    """

    def __init__(
        self,
        session: ServerSession,
        plan: ServerPlan,
        problem: Samples,
        *,
        penalty: Penalty,
        intercept: bool,
        delay: float,
        n_blocks: int,
        tolerance: float,
    ) -> None:
        self.session, self._plan, self._penalty = session, plan, penalty
        self._delay, self._tolerance = delay, tolerance
        self._solvers, self._scale = solvers_of(
            scipy.sparse.csr_array(problem.X), problem.target, problem.weight, plan.members,
            n_blocks=n_blocks, delay=delay, intercept=intercept, penalty=penalty,
        )  # fmt: skip
        self._loss = np.inf

    def begin_from(self, state: LinearState) -> None:  # type: ignore[override]
        """A server that holds the weights of a state; every rank with its rows."""
        initial = state.slots.get("rows", np.zeros(0))  # exact, where the data are the same
        if not np.array_equal(initial / self._scale if len(initial) else initial, state.weights):
            initial = state.weights * self._scale
        if self._delay:
            initial = np.column_stack([initial, np.zeros(len(initial))])
        server = self.session.begin(
            len(initial),
            row_length=2 if self._delay else None,
            placement="hashed" if self._plan.placement is None else self._plan.placement,
            update=update_rule(self._penalty, self._delay),
            delay=self._delay,
            initial=initial,
        )
        self._held = server.hold(self._solvers)
        self.memory = server.run(delayed_blocks.begin, self._held)
        server.reset_report()
        self._loss = state.loss

    def run(self, first: int, last: int) -> list[Step]:
        """Do epochs `first` to `last`, fewer if the loss changes too little."""
        steps: list[Step] = []
        for number in range(first, last + 1):
            steps.append(self._epoch(number))
            if steps[-1].enough or not steps[-1].finite:
                break
        return steps

    def _epoch(self, number: int) -> Step:
        session, server = self.session, self.session.server
        assert server is not None
        found = server.run(delayed_blocks.epoch, self._held, penalty=self._penalty)
        seconds = np.array([of_rank for _, of_rank in found])
        session.count(seconds)
        loss = float(sum(part for part, _ in found))
        change, self._loss = loss - self._loss, loss
        return Step(
            {"loss": loss, "change": change},
            finite=bool(np.isfinite(loss)),
            enough=abs(change) < self._tolerance,
            number=number,
            seconds=float(seconds.max()),
        )

    def gather(self, state: LinearState) -> LinearState:  # type: ignore[override]
        """The weights of all shards."""
        assert self.session.server is not None
        rows = self.session.server.values()
        rows = rows[:, 0].copy() if self._delay else rows
        nothing = {"rank": [np.array([rank]) for rank in range(self._plan.n_ranks)]}
        parts = state.cut(nothing, self._plan.n_ranks)
        parts[0] |= {"weights": rows / self._scale, "slots": {"rows": rows}}
        return state.assembled(parts, nothing, loss=self._loss)

    def advice(self, step: Step) -> str:
        """What to do when weights diverged."""
        return "the loss became infinite: scale the features (MaxAbsScaler)."
