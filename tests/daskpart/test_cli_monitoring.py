"""What the command line has Dask's processes look at: less than by default, unless users say."""

from __future__ import annotations

import dask
import distributed  # noqa: F401  # its settings

from daskpart._cli.mpi import LESS_MONITORING, monitor_less


def test_what_the_user_has_set_stays(monkeypatch):
    chosen = "distributed.admin.tick.interval"
    monkeypatch.setenv("DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL", "70ms")
    before = {name: dask.config.get(name) for name in LESS_MONITORING}
    with dask.config.set({**before, chosen: "70ms"}):
        monitor_less()
        found = {name: dask.config.get(name) for name in LESS_MONITORING}
    assert found == {**LESS_MONITORING, chosen: "70ms"}
    assert {name: dask.config.get(name) for name in LESS_MONITORING} == before
