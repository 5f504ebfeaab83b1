"""The parameter server as a session of a fit, and the texts on it.

    driver                              ranks, each with its rows and a shard
    begin_from(state)  ── w ────▶       rows laid out once, a solver each; ParameterServer of w
    run(first, last)   ─────────▶       epochs: pull, push, advance
    gather             ◀── w ────       rows of all shards

    solver="server"        `delayed_blocks`   a block of coordinates after the other
    aggregation="server"   `sgd_on_server`    a batch of samples after the other

Which rank has which rows, and which shard which coordinate, is said by the plan: Parsa puts rows
together that touch the same coordinates, and these beside them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.collectives import Communicator, ParameterServer, PerRank
from daskpart.collectives.counters import Counters
from daskpart.errors import InputError
from daskpart.models.base.session import Connection, expected_transport
from daskpart.models.base.text import Step, Text
from daskpart.models.samples.plan import SamplesPlan

from . import delayed_blocks, sgd_on_server
from .delayed_blocks import DelayedBlocks, set_up, update_rule
from .sgd import bounded
from .sgd_on_server import ServerSgd
from .state import LinearState


class ServerConnection(Connection):
    """Opens sessions on the parameter server for one fit."""

    def _session(self, after_loss: bool) -> ServerSession:
        found = expected_transport(self.transport, self.n_ranks, self.client)
        if found == "graph":
            raise InputError(
                "there is no parameter server on transport='graph'; give 'auto', 'local', 'dask' "
                "or 'mpi'"
            )
        share = after_loss or self.transport == "auto"
        return ServerSession(found, self.n_ranks, self.client, share)


class ServerSession:
    """A parameter server that begins with each state, and what it counts.

    Attributes
    ----------
    transport : {"local", "dask", "mpi"}
    n_ranks : int
    oversubscribe : bool
        Whether ranks may share threads of workers.
    counters : Counters
        Of what went between a rank and another one's shard.
    server : ParameterServer or None
    """

    def __init__(self, transport: str, n_ranks: int, client: Any, oversubscribe: bool) -> None:
        self.transport, self.n_ranks, self.client = transport, n_ranks, client
        self.oversubscribe = oversubscribe
        self.counters = Counters(n_ranks)
        self.server: ParameterServer | None = None

    def begin(self, n_items: int, **options: Any) -> ParameterServer:
        """A new server; the one before is closed."""
        self.close()
        self.server = ParameterServer(
            n_items, n_ranks=self.n_ranks, transport=self.transport, client=self.client,
            oversubscribe=self.oversubscribe, **options,
        )  # fmt: skip
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
    """A fit on a parameter server: an epoch is a run of a program on all ranks.

    Parameters
    ----------
    session : ServerSession
    plan : SamplesPlan
    rows_on : callable
        ``rows_on(comm)``: RankRows of each rank, a PerRank.
    fit : DelayedBlocks or ServerSgd
    tolerance : float
    """

    session: ServerSession
    _held: PerRank

    def __init__(
        self,
        session: ServerSession,
        plan: SamplesPlan,
        rows_on: Callable[[Communicator], PerRank],
        fit: Any,
        tolerance: float,
    ) -> None:
        self.session, self._plan, self._rows_on = session, plan, rows_on
        self._fit, self._tolerance, self._loss = fit, tolerance, np.inf
        self._ranks = {"rank": [np.array([rank]) for rank in range(plan.n_ranks)]}

    def _begin(self, n_items: int, **options: Any) -> ParameterServer:
        """A new server, coordinates where the plan puts them."""
        shards = self._plan.shards
        placement = "hashed" if shards is None else shards
        return self.session.begin(n_items, placement=placement, **options)

    @property
    def _server(self) -> ParameterServer:
        assert self.session.server is not None
        return self.session.server

    def run(self, first: int, last: int) -> list[Step]:
        """Do epochs `first` to `last`, fewer if the loss changes too little."""
        steps: list[Step] = []
        for number in range(first, last + 1):
            steps.append(self._epoch(number))
            if steps[-1].enough or not steps[-1].finite:
                break
        return steps

    def _epoch(self, number: int) -> Step:
        loss, more, seconds = self._pass(number)
        counters = self.session.counters
        before = len(counters.rounds)
        self.session.count(seconds)
        change, self._loss = loss - self._loss, loss
        return Step(
            {"loss": loss, "change": change, **more},
            finite=bool(np.isfinite(loss)),
            enough=abs(change) < self._tolerance,
            number=number,
            seconds=float(seconds.max()),
            n_rounds=len(counters.rounds) - before,
        )

    @abstractmethod
    def _pass(self, number: int) -> tuple[float, dict[str, float], NDArray[np.float64]]:
        """One pass over all samples: the loss, what else was measured, and seconds of each rank."""


class BlocksText(ServerText):
    """A fit by delayed block proximal gradient."""

    _fit: DelayedBlocks

    def begin_from(self, state: LinearState) -> None:  # type: ignore[override]
        """A server that holds the weights of a state; every rank with its rows."""
        fit = self._fit
        server = self._begin(
            fit.n_features + 1,
            row_length=fit.n_outputs * (2 if fit.delay else 1),
            update=update_rule(fit.l1, fit.delay),
            delay=fit.delay,
        )
        comm = server.communicator
        solvers, self._scale, touched = comm.run(set_up, self._rows_on(comm), fit=fit)
        if not np.isfinite(self._scale).all():
            raise InputError(
                "features are so large that sums of their squares are infinite: scale them "
                "(MaxAbsScaler)"
            )
        self._held = server.hold(solvers)
        server.set_values(self._first_rows(state, touched))
        self.memory = server.run(delayed_blocks.begin, self._held)
        server.reset_report()
        self._loss = state.loss

    def _first_rows(self, state: LinearState, touched: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Of the server; with a delay the sum of all gradients beside the weights.

        No rank visits a coordinate without entries. Only the penalty moves it: to 0, in one step.
        """
        weights = state.weights.reshape(-1, self._fit.n_outputs).copy()
        if self._fit.l1 or self._fit.l2:
            weights[~touched] = 0.0
        rows = state.slots.get("rows", np.zeros((0, 1)))  # exact, where the data are the same
        if rows.shape != weights.shape or not np.array_equal(rows / self._scale[:, None], weights):
            rows = weights * self._scale[:, None]
        return np.hstack([rows, np.zeros_like(rows)]) if self._fit.delay else rows

    def _pass(self, number: int) -> tuple[float, dict[str, float], NDArray[np.float64]]:
        found = self._server.run(delayed_blocks.epoch, self._held)
        measured = {"staleness": self._server.report.mean_staleness}
        seconds = np.array([of_rank for _, of_rank in found])
        return float(sum(part for part, _ in found)), measured, seconds

    def gather(self, state: LinearState) -> LinearState:  # type: ignore[override]
        """The weights of all shards."""
        rows = self._server.values()[:, : self._fit.n_outputs].copy()
        weights = (rows / self._scale[:, None]).ravel()
        parts = state.cut(self._ranks, self._plan.n_ranks)
        parts[0] |= {"weights": weights, "slots": {"rows": rows}}
        return state.assembled(parts, self._ranks, loss=self._loss)

    def advice(self, step: Step) -> str:
        """What to do when weights diverged."""
        return "the loss became infinite: scale the features (MaxAbsScaler)."


class SgdServerText(ServerText):
    """A fit by SGD whose weights lie on a parameter server."""

    _fit: ServerSgd

    def begin_from(self, state: LinearState) -> None:  # type: ignore[override]
        """A server that holds the weights of a state; every rank with its rows."""
        fit = self._fit
        server = self._begin(fit.n_features + 1, row_length=fit.n_outputs, delay=fit.delay)
        comm = server.communicator
        rows = self._rows_on(comm)
        self._fit = comm.run(bounded, rows, fit=fit)
        parts = [
            {"residual": part["residual"], "steps": state.steps}
            for part in state.cut(self._ranks, comm.n_ranks)
        ]
        solvers = comm.map(sgd_on_server.solver_of, rows, comm.values(parts))
        self._held = server.hold(solvers)
        server.set_values(state.weights.reshape(-1, fit.n_outputs))
        self.memory = server.run(sgd_on_server.bytes_held, self._held)
        server.reset_report()
        self._steps, self._loss = state.steps, state.loss

    def _pass(self, number: int) -> tuple[float, dict[str, float], NDArray[np.float64]]:
        fit, server = self._fit, self._server
        rates = fit.rates(self._steps + 1, number)
        losses, seconds, squares = 0.0, np.zeros(self._plan.n_ranks), [0.0]
        for begin, end in fit.spans(rates):
            own = rates[begin:end]
            found = server.run(
                sgd_on_server.epoch, self._held, number=number, first=begin, rates=own, fit=fit
            )
            losses += sum(part for part, _ in found)
            seconds += [of_rank for _, of_rank in found]
            stale = server.report.mean_staleness  # of the last shrinking no pull is stale
            squares = server.run(sgd_on_server.shrink, scale=float(fit.scales(own)[-1]))
        self._steps += fit.n_steps
        loss = losses / fit.n_samples + 0.5 * fit.l2 * sum(squares)
        rate = float(fit.schedule.rates(self._steps, 1, number)[0])
        return float(loss), {"learning_rate": rate, "staleness": stale}, seconds

    def gather(self, state: LinearState) -> LinearState:  # type: ignore[override]
        """The weights of all shards, and what each rank has not sent."""
        parts = self._server.run(sgd_on_server.part_of, self._held)
        parts[0] |= {"weights": self._server.values().ravel(), "mean": np.zeros(0), "slots": {}}
        return state.assembled(parts, self._ranks, steps=self._steps, loss=self._loss)

    def advice(self, step: Step) -> str:
        """What to do when weights diverged."""
        return (
            "the loss became infinite. Lower eta0, scale the features (StandardScaler, "
            "MaxAbsScaler), or take a smaller delay."
        )
