"""How long ranks wait, where nobody says it in a call: settings of Dask, as for its own time-outs.

with dask.config.set({"daskpart.start-seconds": 600}):    # a queue that starts workers slowly
    model.fit(X)
"""

from __future__ import annotations

import dask

from daskpart._floor.checks import finite_number


def time_limits(timeout: float | None, start_seconds: float | None) -> tuple[float, float]:
    """The seconds that were given, else those of Dask's configuration, else 600 and 30."""
    found = []
    for name, given, usual in (("timeout", timeout, 600.0), ("start-seconds", start_seconds, 30.0)):
        seconds = dask.config.get(f"daskpart.{name}", usual) if given is None else given
        found.append(finite_number(seconds, name.replace("-", "_"), above=True))
    return found[0], found[1]
