"""What is asked of a cluster's scheduler."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from daskpart._floor.rank_tasks import known_workers
from daskpart.errors import SchedulerLostError, WorkerLostError


@pytest.mark.parametrize("error", [TimeoutError(), OSError("Timed out trying to connect")])
def test_a_scheduler_that_does_not_answer_is_a_loss(error: OSError) -> None:
    """Asked with a limit: one that was stopped would keep the asker for ever."""

    def sync(function: Any, n_workers: int, callback_timeout: float) -> Any:
        assert callback_timeout < 60
        raise error

    client = SimpleNamespace(scheduler=SimpleNamespace(identity=None), sync=sync)
    with pytest.raises(SchedulerLostError, match=r"silence|trying to connect") as told:
        known_workers(client)
    assert isinstance(told.value, WorkerLostError)
