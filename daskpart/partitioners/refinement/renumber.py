"""The same parts under other numbers: parts that share rows become neighbours in the hypercube.

    net n touches parts 0 3 5      as a net of a hypergraph of K vertices, the parts      -> ranks
    differing bits of 000 011 101: 3           hypercube mapping of that                  000 001
    100

No vertex changes its company, so balance and connectivity stay what they are; only the bits in
which sharers differ change. It takes a mapping of K vertices, next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from daskpart.connectivity import Connectivity
from daskpart.hypergraph import Hypergraph
from daskpart.partitioners.engine import Engine, quiet_about_balance
from daskpart.partitioners.hypercube import hypercube_mapping
from daskpart.partitions import Partition

_TRIALS = 3


def renumbered(
    hypergraph: Hypergraph,
    partition: Partition,
    measure: Callable[[Partition], float],
    engine: Engine,
    random_state: int = 0,
) -> Partition:
    """The least by `measure` of a few renumberings by hypercube mapping and the partition as is."""
    n_parts = partition.n_parts
    pairs = Connectivity.from_partition(hypergraph, partition)
    of_parts = Hypergraph.from_nets(pairs.pointer, pairs.parts, n_parts, net_costs=pairs.costs)
    candidates = [partition]
    for trial in range(_TRIALS if n_parts > 2 else 0):
        with quiet_about_balance():  # a part too many is seen below
            found = hypercube_mapping(of_parts, n_parts, engine, 0.0, random_state + trial)
        if (np.bincount(found.assignment, minlength=n_parts) == 1).all():
            assignment = found.assignment[partition.assignment]
            candidates.append(replace(partition, assignment=assignment))
    return min(candidates, key=measure)
