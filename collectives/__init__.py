"""What travels between parts: plans of messages, and the communicators that run them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .communicator import Communicator, Pending, PerRank, Replicated
from .counters import Counters
from .operations import allreduce, barrier, expand, reduce
from .plan import Plan, RankRound, Round
from .plan_statistics import PlanStatistics
from .point_to_point import expand_plan, reduce_plan
from .prepared import Inbox, PreparedPlan, PreparedRound
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
from .transports import communicator_for
from .transports.local import LocalCommunicator

if TYPE_CHECKING:
    from .transports.graph import GraphCommunicator

__all__ = [
    "ANY",
    "MAX",
    "MIN",
    "SUM",
    "Communicator",
    "Counters",
    "GraphCommunicator",
    "Inbox",
    "LocalCommunicator",
    "Pending",
    "PerRank",
    "Plan",
    "PlanStatistics",
    "PreparedPlan",
    "PreparedRound",
    "RankRound",
    "Reduction",
    "Replicated",
    "Round",
    "allreduce",
    "barrier",
    "combine_rows",
    "communicator_for",
    "contributions",
    "expand",
    "expand_plan",
    "pack_rows",
    "place_rows",
    "reduce",
    "reduce_plan",
]


def __getattr__(name: str) -> Any:
    if name == "GraphCommunicator":  # on first use: it imports distributed, which is slow
        from .transports.graph import GraphCommunicator

        return GraphCommunicator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
