"""Who owns each shared row: drawn, or packed so that no rank moves many more rows than the others.

    row (λ)      sharers           point to point: K bins         embedded: a bin a rank and round
    a (4)        0 1 2 3           a -> 0   3 sent, 3 received    a -> 2, the tree of E-cube paths
    b (3)        0 2 3             b -> 2   …                     from 2 adds least to Σ load²
    c (2)        1 3               c -> 3                         c -> 1 …

Best fit decreasing: rows that most parts share first, each to the owner that adds least. Abubaker
et al., latency hiding in sparse tensor decomposition, §5.3. The loads are rows sent and received in
an expand; by duality that is also what a rank sends in an expand and its reduce.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from . import _metrics
from ._floor.checks import whole_number
from ._packing import pack_embedded
from ._routing import n_dimensions
from .connectivity import Connectivity
from .errors import InputError


def random_owners(
    connectivities: Sequence[Connectivity], random_state: int = 0
) -> list[Connectivity]:
    """Each item is owned by one of its sharers, drawn evenly; the baseline of the paper.

    Parameters
    ----------
    connectivities : sequence of Connectivity
        One a mode, all with the same number of parts.
    random_state : int
        Same number, same owners.
    """
    modes = _checked(connectivities)
    seeds = np.random.SeedSequence(random_state).generate_state(len(modes))
    return [mode.with_random_owners(int(seed)) for mode, seed in zip(modes, seeds, strict=True)]


def bin_packed(connectivities: Sequence[Connectivity]) -> list[Connectivity]:
    """Owners for point-to-point expands and reduces: each a sharer, all modes share the bins.

    Parameters
    ----------
    connectivities : sequence of Connectivity
        One a mode, all with the same number of parts.

    Returns
    -------
    list of Connectivity
        The same with owners. The rows that a rank sends and receives, summed over the modes, are
        balanced; their total does not depend on owners.
    """
    modes = _checked(connectivities)
    lengths = np.concatenate([np.diff(mode.pointer) for mode in modes])
    pointer = np.concatenate([[0], np.cumsum(lengths)])  # the items of all modes in one row
    parts = np.concatenate([mode.parts for mode in modes])
    order = np.argsort(-lengths, kind="stable")
    owners = _metrics.least_loaded_owners(pointer, parts, order, modes[0].n_parts)
    ends = np.cumsum([mode.n_items for mode in modes])[:-1]
    pieces = np.split(owners, ends)
    return [replace(mode, owners=piece) for mode, piece in zip(modes, pieces, strict=True)]


def bin_packed_embedded(
    connectivities: Sequence[Connectivity], *, n_passes: int = 2
) -> list[Connectivity]:
    """Owners for expands and reduces inside a hypercube allreduce.

    A bin for each rank and each round; a row goes to the owner that adds least to the sum of the
    squared loads of the bins. Candidates are the sharers and the ranks that forward the row from
    one sharer to another: its concurrent volume is the same for all of them where K is a power of
    two. Any number of parts: ranks from 2^⌊log2 K⌋ on fold onto a partner, as in the collectives.
    Each mode has bins of its own, as each has a collective of its own.

    Parameters
    ----------
    connectivities : sequence of Connectivity
        One a mode, all with the same number of parts.
    n_passes : int
        After the first pass, which is the paper's, each pass takes every row out of its bins and
        fits it anew.

    Returns
    -------
    list of Connectivity
        The same with owners; see `daskpart.hypercube_volume` for what they cost.

    Notes
    -----
    Eq. 1 of the paper squares the sum of squares once more, which orders candidates the same way
    within a round; here the sum of the squares alone is used. An item takes about K log λ steps.
    """
    n_passes = whole_number(n_passes, "n_passes", least=1)
    owned = []
    for mode in _checked(connectivities):
        order = np.argsort(-mode.connectivity, kind="stable")
        dimensions = n_dimensions(mode.n_parts)
        owners = pack_embedded(mode.pointer, mode.parts, order, mode.n_parts, dimensions, n_passes)
        owned.append(replace(mode, owners=owners))
    return owned


def _checked(connectivities: Sequence[Connectivity]) -> list[Connectivity]:
    if isinstance(connectivities, Connectivity):
        raise InputError("one Connectivity was given: give a list with one for each mode")
    modes = list(connectivities)
    if not modes or not all(isinstance(mode, Connectivity) for mode in modes):
        raise InputError(f"connectivities are {modes!r}: give a list with a Connectivity a mode")
    numbers = sorted({mode.n_parts for mode in modes})
    if len(numbers) > 1:
        raise InputError(f"the modes have {numbers} parts: all must have the same number")
    return modes
