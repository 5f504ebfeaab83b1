"""How long ranks wait, where nobody says it in a call: settings of Dask, as for its own time-outs.

with dask.config.set({"daskpart.start-seconds": 600}):    # a queue that starts workers slowly
    model.fit(X)
"""

from __future__ import annotations

import dask

from daskpart.errors import InputError


def time_limits(timeout: float | None, start_seconds: float | None) -> tuple[float, float]:
    """The seconds that were given, else those of Dask's configuration, else 600 and 30.

    Raises
    ------
    InputError
        For what is no number above 0.
    """
    found = []
    for name, given, usual in (("timeout", timeout, 600.0), ("start-seconds", start_seconds, 30.0)):
        seconds = dask.config.get(f"daskpart.{name}", usual) if given is None else given
        if not isinstance(seconds, int | float) or not seconds > 0:
            word = name.replace("-", "_")
            raise InputError(f"{word} is {seconds!r} seconds: give a number above 0")
        found.append(float(seconds))
    return found[0], found[1]
