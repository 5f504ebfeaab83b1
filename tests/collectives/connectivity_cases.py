"""Connectivities that are written down or drawn by hypothesis, and their plans on a hypercube."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from hypothesis import strategies as st

from daskpart.collectives import embed, expand_plan


def make_connectivity(parts, owners, n_ranks):
    """The ranks that touch each item, as sets, and its owner; no owners where they are None."""
    return SimpleNamespace(
        pointer=np.cumsum([0, *map(len, parts)], dtype=np.int64),
        parts=np.array([p for touching in parts for p in sorted(touching)], dtype=np.int32),
        owners=None if owners is None else np.array(owners, dtype=np.int32),
        n_parts=n_ranks,
        sets=parts,
    )


def embedded(connectivity, owners=None, **options):
    return embed(expand_plan(connectivity, owners), **options)


@st.composite
def connectivities(draw, owner_inside=False):
    """Items touched by any set of ranks, for any number of ranks; owners anywhere, or sharers."""
    n_ranks = draw(st.integers(1, 20))
    least = 1 if owner_inside else 0
    parts = draw(st.lists(st.sets(st.integers(0, n_ranks - 1), min_size=least), max_size=10))
    if owner_inside:
        owners = [draw(st.sampled_from(sorted(touching))) for touching in parts]
    else:
        owners = [draw(st.integers(0 if touching else -1, n_ranks - 1)) for touching in parts]
    return make_connectivity(parts, owners, n_ranks)
