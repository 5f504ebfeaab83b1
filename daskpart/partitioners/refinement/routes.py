"""What a move does to the rows that ranks send, net by net, exactly: kernels of `loads`.

    net n, owner 001, parts 001 010 110           v, alone of n in 110, moves to 111

    before  001 -> 000 -> 010 -> 110              the hop 010 -> 110 goes: 110 shares its last two
    after   001 -> 000 -> 010                     bits with 010, so only bit 2 was its own
            001 -> 011 -> 111                     111 shares a bit with 001: bits 1 and 2 come

A row travels a tree of E-cube paths from its owner (`daskpart.owners.routes`), or straight from the
owner to each sharer. A part that joins or leaves a net adds or takes only the branch beyond the
longest ending that it shares with another part. Where the owner itself leaves, it goes with the
vertex, and the whole tree is walked anew. Changes are made in the loads, summed up, and unmade
where the move is not taken, so that nets that load the same rank are priced together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.kernels import kernel
from daskpart.partitioners.pin_counts import move_gains, move_vertex

_CANDIDATES = 5
# one type each: a literal, or an int32 beside an int64, has every kernel below compiled anew
_START, _NOBODY = np.int64(0), np.int64(-1)
_MAKE, _UNMAKE = np.int64(1), np.int64(-1)


class Rows(NamedTuple):
    """Who touches and who owns each net, and what that loads the ranks with.

    Attributes
    ----------
    costs : int64[n_nets]
        Rows of each net.
    owners : int32[n_nets]
    owner_vertices : int64[n_nets] or none
        The vertex that each owner goes with; without, an owner goes with the last pin of its part.
    load : int64[n_rounds, n_parts]
        One round where ways are straight, else fold in, bits 0, 1, …, fold out.
    form : (dimensions, received, power)
        Dimensions of the hypercube, -1 for straight ways; what a row received weighs, 0 or 1 as a
        row sent does; the power of a load in the objective.
    scale : float
        The objective is Σ (load × scale)^power.
    pointer, parts, counts, used
        The `slots` of the nets.
    """

    costs: NDArray[np.int64]
    owners: NDArray[np.int32]
    owner_vertices: NDArray[np.int64]
    load: NDArray[np.int64]
    form: tuple[int, int, int]
    scale: float
    pointer: NDArray[np.int64]
    parts: NDArray[np.int32]
    counts: NDArray[np.int32]
    used: NDArray[np.int32]


@kernel(internal=True)
def _put(load, turn, rank, amount, power, scale):
    before = load[turn, rank]
    load[turn, rank] = before + amount
    if power == 1:
        return amount * scale
    return (scale * (before + amount)) ** power - (scale * before) ** power


@kernel(internal=True)
def _hop(load, turn, source, target, amount, form, scale):
    """Add one hop of `amount` rows; returns what Σ (load × scale)^power gains."""
    gained = _put(load, turn, source, amount, form[2], scale)
    if form[1]:
        gained += _put(load, turn, target, amount, form[2], scale)
    return gained


@kernel(internal=True)
def _branch(member, owner, others, skip, amount, form, scale, load):
    """Add the hops to `member` that no path to another member takes."""
    dimensions = form[0]
    if member == owner:
        return 0.0
    if dimensions < 0:
        return _hop(load, _START, owner, member, amount, form, scale)
    corners = (1 << dimensions) - 1
    shared = 0
    for other in others:
        if other == member or other == skip:
            continue
        differing = ((other ^ member) & corners) | (1 << dimensions)
        while differing & ((2 << shared) - 1) == 0:
            shared += 1
    start = owner & corners
    gained = 0.0
    for bit in range(shared, dimensions):
        if ((member ^ start) >> bit) & 1:
            below = (2 << bit) - 1
            corner = (member & below) | (start & ~below)
            gained += _hop(load, bit + 1, corner ^ (1 << bit), corner, amount, form, scale)
    if member > corners:
        gained += _hop(load, dimensions + 1, member & corners, member, amount, form, scale)
    return gained


@kernel(internal=True)
def _fold_in(owner, amount, form, scale, load):
    """Add the hop of a folded owner to its partner, before the first bit."""
    corners = (1 << max(form[0], 0)) - 1
    if form[0] < 0 or owner <= corners:
        return 0.0
    return _hop(load, _START, owner, owner & corners, amount, form, scale)


@kernel(internal=True)
def _tree(members, owner, skip, amount, form, scale, load):
    """Add all hops from the owner to the members but `skip`: branch after branch."""
    gained, travels = 0.0, False
    for place in range(len(members)):
        member = np.int64(members[place])
        if member != skip and member != owner:
            travels = True
            gained += _branch(member, owner, members[:place], skip, amount, form, scale, load)
    if travels:
        gained += _fold_in(owner, amount, form, scale, load)
    return gained


@kernel(internal=True)
def _find_two(rows, net, own, part):
    """Whether one pin of the net is in its own part, and whether the other part has any."""
    alone, present = False, False
    for slot in range(rows.pointer[net], rows.pointer[net] + rows.used[net]):
        if rows.parts[slot] == own:
            alone = rows.counts[slot] == 1
        elif rows.parts[slot] == part:
            present = True
    return alone, present


@kernel(internal=True)
def _leads(rows, net, vertex, own, alone):
    """Whether the net's owner goes where the vertex goes."""
    if len(rows.owner_vertices) > 0:
        return rows.owner_vertices[net] == vertex
    return alone and rows.owners[net] == own


@kernel(internal=True)
def _change_net(rows, net, vertex, own, part, sign):
    """`_change` of one net."""
    form, scale, load = rows.form, rows.scale, rows.load
    alone, present = _find_two(rows, net, own, part)
    members = rows.parts[rows.pointer[net] : rows.pointer[net] + rows.used[net]]
    amount, owner = sign * rows.costs[net], np.int64(rows.owners[net])
    gone = own if alone else _NOBODY
    if _leads(rows, net, vertex, own, alone):
        gained = _tree(members, own, _NOBODY, -amount, form, scale, load)
        return gained + _tree(members, part, gone, amount, form, scale, load)
    gained = 0.0
    n_before = 0  # sharers that the row travels to
    for member in members:
        n_before += member != owner
    n_after = n_before - (alone and own != owner) + (not present and part != owner)
    if alone:
        gained += _branch(own, owner, members, _NOBODY, -amount, form, scale, load)
    if not present:
        gained += _branch(part, owner, members, gone, amount, form, scale, load)
    if (n_before > 0) != (n_after > 0):
        folded = amount if n_after > 0 else -amount
        gained += _fold_in(owner, folded, form, scale, load)
    return gained


@kernel(internal=True)
def _change(rows, vertex_nets, vertex, own, part, sign):
    """Make (sign 1) or unmake (-1) in the loads what a move does; returns what that gains."""
    gained = 0.0
    for net in vertex_nets:
        gained += _change_net(rows, net, vertex, own, part, sign)
    return gained


@kernel
def loads_of(pointer, parts, costs, owners, n_parts, form):
    """The loads of the rows of all items, int64[n_rounds, n_parts]; see `Rows`."""
    load = np.zeros((1 if form[0] < 0 else form[0] + 2, n_parts), np.int64)
    for item in range(len(pointer) - 1):
        members = parts[pointer[item] : pointer[item + 1]]
        if len(members) > 0:
            _tree(members, np.int64(owners[item]), _NOBODY, costs[item], form, 1.0, load)
    return load


@kernel(internal=True)
def _choose(own, bonus, seen, n_seen, dimensions, n_parts, chosen):
    """The parts that share most with the vertex, and its neighbours in the hypercube."""
    n_chosen = 0
    for _ in range(_CANDIDATES):
        best, most = -1, -1.0
        for place in range(n_seen):
            if bonus[seen[place]] > most and seen[place] != own:
                best, most = seen[place], bonus[seen[place]]
        if best < 0:
            break
        bonus[best] = -1.0
        chosen[n_chosen] = best
        n_chosen += 1
    for bit in range(dimensions + 1 if n_chosen > 0 else 0):
        neighbour = own ^ (1 << bit)
        known = neighbour >= n_parts
        for place in range(n_chosen):
            known = known or chosen[place] == neighbour
        if not known:
            chosen[n_chosen] = neighbour
            n_chosen += 1
    return n_chosen


@kernel(internal=True)
def _best_candidate(rows, vertex_nets, vertex, own, chosen, weight, room, most):
    """The candidate with room that lowers the objective most, -1 if none does."""
    best, best_gain = _NOBODY, -1e-9
    for candidate in chosen:
        part = np.int64(candidate)
        if room[part] + weight > most:
            continue
        gained = _change(rows, vertex_nets, vertex, own, part, _MAKE)
        _change(rows, vertex_nets, vertex, own, part, _UNMAKE)
        if gained < best_gain:
            best, best_gain = part, gained
    return best


@kernel(internal=True)
def _move(rows, vertex_nets, vertex, own, part):
    """Take the vertex to another part: loads, owners and slots follow."""
    _change(rows, vertex_nets, vertex, own, part, _MAKE)
    for net in vertex_nets:
        alone, _ = _find_two(rows, net, own, part)
        if _leads(rows, net, vertex, own, alone):
            rows.owners[net] = part
    move_vertex(
        vertex_nets,
        0,
        len(vertex_nets),
        own,
        part,
        rows.pointer,
        rows.parts,
        rows.counts,
        rows.used,
    )


@kernel
def offer_round(
    order, vertex_pointer, nets, weights, cost_table, assignment, room, least, most, rows
):  # fmt: skip
    """Offer every vertex its best candidate once; returns how many moved.

    `room` holds the part weights; it, the assignment and the rows follow every move. Candidates are
    ranked by what they save of Σ cost × cost_table[λ].
    """
    bonus = np.full(len(room), -1.0)
    seen = np.empty(len(room), np.int32)
    chosen = np.empty(_CANDIDATES + 64, np.int32)
    no_steps = np.empty(0)
    n_moved = 0
    for vertex in order:
        own = np.int64(assignment[vertex])
        if room[own] - weights[vertex] < least:
            continue
        mine = nets[vertex_pointer[vertex] : vertex_pointer[vertex + 1]]
        _, n_seen = move_gains(
            mine, 0, len(mine), own, rows.costs, cost_table, no_steps, rows.pointer, rows.parts,
            rows.counts, rows.used, bonus, seen,
        )  # fmt: skip
        n_chosen = _choose(own, bonus, seen, n_seen, rows.form[0], len(room), chosen)
        for place in range(n_seen):
            bonus[seen[place]] = -1.0
        best = _best_candidate(
            rows, mine, vertex, own, chosen[:n_chosen], weights[vertex], room, most
        )
        if best >= 0:
            _move(rows, mine, vertex, own, best)
            assignment[vertex] = best
            room[own] -= weights[vertex]
            room[best] += weights[vertex]
            n_moved += 1
    return n_moved
