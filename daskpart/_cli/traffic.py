"""What each rank sent in a fit, for its report: rank × rank as a heat map, and a line a rank.

from ╲ to   0   1   2      rank   words sent   received   computing   blocked
   0        ·   █   ▒
   1        █   ·   ·
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from daskpart import plots

from .album import Album


def describe_traffic(album: Album, measured: Any, row_words: int, step: str) -> None:
    """The heat map of words, and the counters of each rank as a table that opens on a click.

    Parameters
    ----------
    album : Album
    measured : CommunicationReport or CPCommunicationReport
    row_words : int
        Numbers that a row takes on the wire.
    step : str
        What the counts are divided by: "epoch", "iteration".
    """
    words = np.asarray(measured.traffic, np.float64) * row_words
    album.draw(
        "traffic",
        (5.6, 4.4),
        partial(plots.traffic, words, unit=f"words an {step}"),
        alt="Words sent from each rank to each other rank",
        caption=f"Words an {step} from the rank of the line to the rank of the column: rows times "
        f"{row_words}, the numbers in a row.",
    )
    columns = (
        words.sum(axis=1),
        words.sum(axis=0),
        measured.seconds_computing,
        measured.seconds_blocked,
    )
    heads = (
        f"words sent an {step}",
        f"words received an {step}",
        "seconds computing, all",
        "seconds blocked, all",
    )
    lines = zip(*(column.tolist() for column in columns), strict=True)
    album.page.grid(
        ["rank", *heads],
        [[rank, *line] for rank, line in enumerate(lines)],
        fold="Each rank: words sent and received, seconds computing and blocked",
    )
