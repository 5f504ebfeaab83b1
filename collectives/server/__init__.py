"""A parameter server: rows on shards beside the ranks, and programs that pull and push them.

    rank 0            rank 1            rank 2
    program           program           program        server      what users call
       │                 │                 │
    endpoint          endpoint          endpoint       endpoint    pull, push, advance: with checks
       │ link ╲          │ link        ╱   │ link      transport   messages to shards
    shard 0    ╲───▶  shard 1  ◀──────╱  shard 2       shard       rows, clocks, pulls that wait
                                                       rules       what a push does
                                                       placement   which shard holds which id
                                                       traffic     rank × shard, local and remote

The shard is a state machine that knows no threads and sends nothing, and the endpoint is the same
everywhere. What a transport must give (`local.LocalServer`, `cluster.ClusterServer`):

1. a place for each rank's `Shard`, and one lock or one thread for it: calls do not overlap;
2. ``run(program, …)``: the program on every rank, with a `ServerEndpoint` over a `Link`; results,
   traffic and staleness of all ranks; after an error ``Shard.undo``, so the rows are as before;
3. the link (`endpoint.Link`): messages of one rank to one shard that arrive in order, beside
   whatever else the rank does (a shard answers while its rank computes), and a wait with a timeout
   for the rows;
4. ``values`` and ``set_values`` between runs, ``close``, and a ``communicator`` of the ranks with
   ``hold``, by which values stay with them from run to run.

`cluster` has all this from a communicator's ranks, which run the programs, and a service thread on
each worker for messages that come while they compute. `local` has threads and one lock: there the
order of all calls can be given, and the programs share the caller's objects.
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
