"""A parameter server: rows on shards beside the ranks, and programs that pull and push them.

    rank 0            rank 1            rank 2
    program           program           program        server      what users call
       │                 │                 │
    endpoint          endpoint          endpoint       endpoint    pull, push, advance: with checks
       │      ╲          │             ╱   │           transport   messages to shards
    shard 0    ╲───▶  shard 1  ◀──────╱  shard 2       shard       rows, clocks, pulls that wait
                                                       rules       what a push does
                                                       placement   which shard holds which id
                                                       traffic     rank × shard, local and remote

What a rank touches most should lie on its own shard: a *placement* by a partition of the ids makes
most pulls and pushes local, and the report counts local and remote apart.

**Consistency.** The program of a rank is a sequence of tasks, numbered from 0; `advance` ends one
and starts the next. With a delay τ, *a task t may start only when all pushes of tasks before t - τ
are in*, those of every rank, and its pulls have all of them.

======================  =====  ==================================================================
synchronous             τ = 0  pulls have exactly the pushes of the tasks before. Pushes are
                               applied when a task has ended on every rank, in order of rank: the
                               bits are those of a serial replay, on every transport
bounded delay           τ > 0  pushes are applied as they come; a rank is at most τ tasks ahead of
                               the slowest, and pulls miss pushes of the last τ tasks at most
asynchronous            τ = ∞  pushes are applied as they come, nobody waits
======================  =====  ==================================================================

Tasks may be numbered by rank (every rank has a task t: rounds of data-parallel learning) or through
all ranks (`ServerEndpoint.tasks`: blocks of Parsa; there τ = 0 is one block after another).

**Transports.** `cluster` runs the programs on the ranks of a communicator; `local` has threads and
one lock, so there the order of all calls can be given, and programs share the caller's objects.
Both have a `Shard` beside each rank, whose calls do not overlap, and a `ServerEndpoint` of their
own; after an error they bring back the rows of before (`Shard.undo`).

M. Li, D. Andersen, A. Smola, "Graph partitioning via parallel submodular approximation to
accelerate distributed machine learning", 2015: the server of §2, the delay of algorithm 4.
"""

from __future__ import annotations

from .endpoint import PendingPull, ServerEndpoint
from .rules import UpdateRule, proximal_step
from .server import ParameterServer
from .traffic import ServerReport

__all__ = [
    "ParameterServer",
    "PendingPull",
    "ServerEndpoint",
    "ServerReport",
    "UpdateRule",
    "proximal_step",
]
