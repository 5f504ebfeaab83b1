"""What travels between parts: plans of messages, and the communicators that run them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .communicator import Communicator, Pending, PerRank, Replicated
from .cost_measurement import cost_model_of
from .cost_model import CostModel
from .counters import Counters, PlanStatistics, RoundRecord
from .dense import allgather, alltoall, broadcast, reduce_scatter
from .embedded import expand_allreduce, reduce_allreduce
from .hypercube import (
    EmbeddedPlan,
    concurrent_volume,
    embed,
    hypercube_allreduce_plan,
    rows_for_payload,
)
from .hypercube_dense import hypercube_allreduce
from .messages import Exchange, Inbox, PreparedPlan, PreparedRound, ValueInbox
from .operations import allreduce, barrier, expand, reduce
from .plan import Plan, RankRound, Round
from .point_to_point import expand_plan, reduce_plan
from .reduction import (
    ANY,
    MAX,
    MIN,
    SUM,
    Reduction,
    combine_rows,
    contributions,
    pack_rows,
    place_rows,
)
from .server import (
    ParameterServer,
    PendingPull,
    ServerEndpoint,
    ServerReport,
    UpdateRule,
    proximal_step,
)
from .simulator import (
    Simulation,
    expected_allreduces,
    random_vectors,
    simulate,
    simulate_allreduce,
    simulate_sparse_allreduce,
)
from .sparse_allreduce import post_sparse_allreduce, sparse_allreduce
from .stream import Stream, stream_of
from .timeline import Timeline, record_timelines
from .topk import ApproximateTopK, Feedback, TopK, start_feedback, topk_allreduce
from .transports import communicator_for
from .transports.local import LocalCommunicator

if TYPE_CHECKING:
    from .transports.dask_comm import DaskCommunicator
    from .transports.graph import GraphCommunicator
    from .transports.mpi import MpiCommunicator

__all__ = [
    "ANY",
    "MAX",
    "MIN",
    "SUM",
    "ApproximateTopK",
    "Communicator",
    "CostModel",
    "Counters",
    "DaskCommunicator",
    "EmbeddedPlan",
    "Exchange",
    "Feedback",
    "GraphCommunicator",
    "Inbox",
    "LocalCommunicator",
    "MpiCommunicator",
    "ParameterServer",
    "Pending",
    "PendingPull",
    "PerRank",
    "Plan",
    "PlanStatistics",
    "PreparedPlan",
    "PreparedRound",
    "RankRound",
    "Reduction",
    "Replicated",
    "Round",
    "RoundRecord",
    "ServerEndpoint",
    "ServerReport",
    "Simulation",
    "Stream",
    "Timeline",
    "TopK",
    "UpdateRule",
    "ValueInbox",
    "allgather",
    "allreduce",
    "alltoall",
    "barrier",
    "broadcast",
    "combine_rows",
    "communicator_for",
    "concurrent_volume",
    "contributions",
    "cost_model_of",
    "embed",
    "expand",
    "expand_allreduce",
    "expand_plan",
    "expected_allreduces",
    "hypercube_allreduce",
    "hypercube_allreduce_plan",
    "pack_rows",
    "place_rows",
    "post_sparse_allreduce",
    "proximal_step",
    "random_vectors",
    "record_timelines",
    "reduce",
    "reduce_allreduce",
    "reduce_plan",
    "reduce_scatter",
    "rows_for_payload",
    "simulate",
    "simulate_allreduce",
    "simulate_sparse_allreduce",
    "sparse_allreduce",
    "start_feedback",
    "stream_of",
    "topk_allreduce",
]

_ON_FIRST_USE = {  # they import distributed, which is slow
    "DaskCommunicator": "dask_comm",
    "GraphCommunicator": "graph",
    "MpiCommunicator": "mpi",
}


def __getattr__(name: str) -> Any:
    if name in _ON_FIRST_USE:
        module = import_module(f".transports.{_ON_FIRST_USE[name]}", __name__)
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
