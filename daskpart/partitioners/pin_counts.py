"""How often each net meets each part, kept while vertices move, and what a move would gain.

    net n: slots   part 3 ×2 | part 7 ×1 | room |      one slot for every part that n could touch
    v: 7 -> 3      part 3 ×3 | room      | room |

A net has as many slots as it has pins, or as there are parts if these are fewer, so the memory is
that of the pins however many parts there are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.kernels import kernel
from daskpart.connectivity import Connectivity
from daskpart.hypergraph import Hypergraph
from daskpart.partitions import Partition


@kernel(internal=True)
def _find(slot_parts, start, used, part):
    for slot in range(start, start + used):
        if slot_parts[slot] == part:
            return slot
    return np.int64(-1)


@kernel(internal=True)
def move_gains(
    nets, begin, end, own, costs, cost_table, steps, slot_pointer, slot_parts, slot_counts, used,
    bonus, seen,
):  # fmt: skip
    """What a move to a part that shares no net gains, and for each part seen how much more.

    steps[c] is what the c-th pin of a net in a part counts; without steps, λ itself decides: a net
    in which the vertex is not alone grows by a part, except in the parts that it touches; one in
    which it is alone loses its part, if it touches the new one. The nets of the vertex are
    ``nets[begin:end]``.
    """
    base, n_seen, last = 0.0, 0, len(steps) - 1
    for i in range(begin, end):
        net = nets[i]
        start, level = slot_pointer[net], used[net]
        n_pins = slot_counts[_find(slot_parts, start, level, own)]
        # a net with a second pin elsewhere can touch one part more: the table reaches so far
        above, below = cost_table[min(level + 1, len(cost_table) - 1)], cost_table[level - 1]
        if last >= 0:
            worth = 0.5 * costs[net] * (above - below)
            base += worth * (steps[min(n_pins, last)] - steps[1])
        elif n_pins == 1:
            worth = float(costs[net] * (cost_table[level] - below))
        else:
            worth = float(costs[net] * (above - cost_table[level]))
            base -= worth
        for slot in range(start, start + level):
            part = slot_parts[slot]
            if bonus[part] < 0:
                bonus[part] = 0.0
                seen[n_seen] = part
                n_seen += 1
            if last < 0:
                bonus[part] += worth
            else:
                bonus[part] += worth * (steps[1] - steps[min(slot_counts[slot] + 1, last)])
    return base, n_seen


@kernel(internal=True)
def move_vertex(nets, begin, end, own, part, slot_pointer, slot_parts, slot_counts, used):
    """Take one pin of each of ``nets[begin:end]`` from its own part to another."""
    for i in range(begin, end):
        net = nets[i]
        start = slot_pointer[net]
        slot = _find(slot_parts, start, used[net], own)
        slot_counts[slot] -= 1
        if slot_counts[slot] == 0:
            last = start + used[net] - 1
            slot_parts[slot] = slot_parts[last]
            slot_counts[slot] = slot_counts[last]
            used[net] -= 1
        slot = _find(slot_parts, start, used[net], part)
        if slot < 0:
            slot = start + used[net]
            slot_parts[slot] = part
            slot_counts[slot] = 0
            used[net] += 1
        slot_counts[slot] += 1


class PinCounts(NamedTuple):
    """Net × part counts; `used` is λ of each net.

    Attributes
    ----------
    pointer : int64[n_nets + 1]
    parts, counts : int32[pointer[-1]]
        Of net n: the first ``used[n]`` slots from ``pointer[n]``.
    used : int32[n_nets]
    """

    pointer: NDArray[np.int64]
    parts: NDArray[np.int32]
    counts: NDArray[np.int32]
    used: NDArray[np.int32]


def pin_counts(hypergraph: Hypergraph, partition: Partition) -> PinCounts:
    """Count the pins of each net in each part."""
    pairs = Connectivity.from_partition(hypergraph, partition)
    capacity = np.minimum(np.diff(hypergraph.net_pointer), partition.n_parts)
    pointer = np.concatenate([[0], np.cumsum(capacity)])
    parts, counts = np.empty(pointer[-1], np.int32), np.empty(pointer[-1], np.int32)
    used = np.diff(pairs.pointer)
    place = np.arange(len(pairs.parts)) + np.repeat(pointer[:-1] - pairs.pointer[:-1], used)
    parts[place], counts[place] = pairs.parts, pairs.counts
    return PinCounts(pointer, parts, counts, used.astype(np.int32))
