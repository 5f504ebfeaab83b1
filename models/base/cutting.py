"""Whether a cut pays: the seconds that it saves over a fit against the seconds of cutting.

    block ──▶ parsa (one pass, a pilot) ──▶ multilevel        each only where it can still pay

    saved = steps · (bytes without − bytes with) / ranks · seconds a byte of the transport

In one process a message is an array handed over, so nothing is cut there. A pilot that finds
nothing to save says that the data have no structure to cut at all; a multilevel cut is expected to
save `BETTER` of what the pilot leaves. The prices are of one common machine, in round figures: they
decide between seconds and minutes, not between seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

from daskpart.partitions import Partition

from .plan import ROW_PARTITIONERS, partitioner_name
from .settings import WEIGHED

Cut = TypeVar("Cut")
# of the rows of a matrix: arguments of `daskpart.partition`
ROW_CUTS: dict[str, dict[str, Any]] = {
    "block": {"method": "block"},
    "parsa": {"method": "parsa"},
    "multilevel": ROW_PARTITIONERS["power"],
}

# of one byte that a rank sends, by transport; on `local` a message is an array handed over
SECONDS_A_BYTE = {"local": 0.0, "mpi": 1e-9, "dask": 5e-9, "graph": 2e-8}
PILOT_SECONDS, CUT_SECONDS = 1e-6, 4e-6  # a pin; the second for each doubling of the parts
NOTHING = 0.03  # a pilot that saves less than this share found no structure
BETTER = 0.25  # share that a multilevel cut saves of what the pilot leaves


@dataclass(frozen=True)
class Cuts(Generic[Cut]):
    """The cuts that there are of some data, and what is asked of them.

    Parameters
    ----------
    make : callable
        ``make("block" | "parsa" | "multilevel")`` cuts.
    nbytes : callable
        Bytes that all ranks send in a step with a cut.
    n_pins : callable
        Nonzeros of what is cut.
    """

    make: Callable[[str], Cut]
    nbytes: Callable[[Cut], float]
    n_pins: Callable[[], int]


class Weighed(NamedTuple, Generic[Cut]):
    """A cut, its name, and what was weighed, in a sentence."""

    cut: Cut
    name: str
    reason: str


def words_of(name: str, reason: str) -> str:
    """A weighed cut in some words."""
    return f"{name} (auto: {reason})"


def weighed_partition(
    cuts: Cuts[Partition], n_ranks: int, steps: int, transport: str, kept: Any
) -> Partition:
    """`weighed_cut` of a partition, which notes in its `info` what was weighed.

    `kept` is the state that a fit goes on from, or None.
    """
    found = weighed_cut(cuts, n_ranks, steps, transport, kept_cut(kept, n_ranks))
    info = {**found.cut.info, "weighed": found.name, "reason": found.reason}
    return replace(found.cut, info=info)


def kept_cut(kept: Any, n_ranks: int) -> str | None:
    """What "auto" came to in the fit of a state; None where it was of other ranks, or not asked."""
    if kept is None or kept.settings["n_ranks"] != n_ranks:
        return None
    return kept.settings.get(WEIGHED)


def told_of_cut(partition: Partition, partitioner: Any) -> dict[str, Any]:
    """Fields of a plan: in a word how the data were cut, and what "auto" came to."""
    if isinstance(partitioner, str) and partitioner == "auto":
        name, reason = partition.info["weighed"], partition.info["reason"]
        return {"partitioner": words_of(name, reason), "weighed": name}
    return {"partitioner": partitioner_name(partitioner)}


def weighed_cut(
    cuts: Cuts[Cut], n_ranks: int, steps: int, transport: str, kept: str | None = None
) -> Weighed[Cut]:
    """The cut that makes a fit shortest, as far as can be told beforehand.

    Parameters
    ----------
    cuts : Cuts
    n_ranks, steps : int
    transport : str
        Never "auto".
    kept : str, optional
        What it came to when the fit that goes on here began.
    """
    if kept is not None:
        return Weighed(cuts.make(kept), kept, "as when the fit began")
    block = cuts.make("block")
    if n_ranks == 1:
        return Weighed(block, "block", "one rank has all")
    a_byte = steps * SECONDS_A_BYTE[transport] / n_ranks
    if not a_byte:
        return Weighed(block, "block", f"over {transport} a cut saves no time")
    plain, n_pins = cuts.nbytes(block), cuts.n_pins()
    possible, look = plain * a_byte, PILOT_SECONDS * n_pins
    if possible <= look:
        reason = (
            f"over {transport} the bytes of {steps} steps take some {possible:.2g} s, a look for a "
            f"cut {look:.2g} s"
        )
        return Weighed(block, "block", reason)
    pilot = cuts.make("parsa")
    found = cuts.nbytes(pilot)
    if found >= (1 - NOTHING) * plain:
        reason = f"Parsa found no structure to cut, {1 - found / plain:.1%} saved"
        return Weighed(block, "block", reason)
    price = CUT_SECONDS * n_pins * max(math.log2(n_ranks), 1.0)
    saved = BETTER * found * a_byte
    if saved <= price:
        reason = (
            f"it saves {1 - found / plain:.0%} of the bytes; a multilevel cut would save some "
            f"{saved:.2g} s more, and take {price:.2g} s"
        )
        return Weighed(pilot, "parsa", reason)
    best = cuts.make("multilevel")
    sent = cuts.nbytes(best)
    if sent >= found:
        reason = f"it saves {1 - found / plain:.0%} of the bytes, a multilevel cut no more"
        return Weighed(pilot, "parsa", reason)
    reason = (
        f"it saves {1 - sent / plain:.0%} of the bytes, Parsa {1 - found / plain:.0%}; some "
        f"{saved:.2g} s for {price:.2g} s of cutting were expected"
    )
    return Weighed(best, "multilevel", reason)
