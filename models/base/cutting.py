"""Whether a cut pays: the seconds that it saves over a fit against the seconds of cutting.

    block ──▶ pilot (one pass of Parsa) ──▶ multilevel        each only where it can still pay

    saved = steps · (bytes without − bytes with) / ranks · seconds a byte of the transport

A pilot that finds nothing to save says that the data have no structure to cut at all; a multilevel
cut is expected to save `BETTER` of what the pilot leaves. The prices are of one common machine, in
round figures: they decide between seconds and minutes, not between seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

Cut = TypeVar("Cut")

# of one byte that a rank sends, by transport; on `local` a message is an array handed over
SECONDS_A_BYTE = {"local": 0.0, "mpi": 1e-9, "dask": 5e-9, "graph": 2e-8}
PILOT_SECONDS, CUT_SECONDS = 1e-6, 4e-6  # a pin; the second for each doubling of the parts
NOTHING = 0.03  # a pilot that saves less than this share found no structure
BETTER = 0.25  # share that a multilevel cut saves of what the pilot leaves


def weighed_cut(
    cut: Callable[[str], tuple[Cut, float]],
    n_pins: int,
    n_ranks: int,
    steps: int,
    transport: str,
) -> tuple[Cut, str]:
    """The cut that makes a fit shortest, as far as can be told beforehand.

    Parameters
    ----------
    cut : callable
        ``cut("block" | "pilot" | "multilevel")`` gives a partition and the bytes that all ranks
        send in a step with it.
    n_pins : int
        Nonzeros of what is cut.
    n_ranks, steps : int
    transport : str
        Never "auto".

    Returns
    -------
    partition
        What `cut` gave.
    reason : str
        What was weighed, in a sentence.
    """
    a_byte = steps * SECONDS_A_BYTE[transport] / n_ranks
    block, plain = cut("block")
    possible, pilot_price = plain * a_byte, PILOT_SECONDS * n_pins
    if possible <= pilot_price:
        return block, (
            f"block: over {transport} all messages of {steps} steps take some {possible:.2g} s, "
            f"a look for a cut {pilot_price:.2g} s"
        )
    pilot, found = cut("pilot")
    if found >= (1 - NOTHING) * plain:
        return block, f"block: a pilot found no structure to cut ({1 - found / plain:.1%} saved)"
    price = CUT_SECONDS * n_pins * max(math.log2(n_ranks), 1.0)
    saved = BETTER * found * a_byte
    if saved <= price:
        return pilot, (
            f"pilot: it saves {1 - found / plain:.0%} of the bytes; a multilevel cut would save "
            f"some {saved:.2g} s more, and take {price:.2g} s"
        )
    best, sent = cut("multilevel")
    if sent >= found:
        return pilot, f"pilot: it saves {1 - found / plain:.0%}, a multilevel cut no more"
    return best, (
        f"multilevel: it saves {1 - sent / plain:.0%} of the bytes, the pilot "
        f"{1 - found / plain:.0%} (expected: {saved:.2g} s from {price:.2g} s of cutting)"
    )
