"""What is asked of a cluster's scheduler."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from daskpart._floor.rank_tasks import known_workers, scattered
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


def _where_values_lie(addresses: list[str]) -> list[Any]:
    from distributed import get_client

    client = get_client()
    held = [scattered(client, f"for {address}", address) for address in addresses]
    return [list(client.who_has([each])[each.key]) for each in held]


@pytest.mark.cluster
def test_a_task_puts_values_on_the_workers_that_it_names(client: Any) -> None:
    """Dask alone would keep them where the task runs."""
    addresses = list(known_workers(client))
    for address in addresses:
        found = client.submit(_where_values_lie, addresses, workers=[address], pure=False)
        assert found.result(timeout=60) == [[each] for each in addresses]


@pytest.mark.cluster
def test_a_client_that_another_thread_has_closed_is_a_loss(quiet_client: Any) -> None:
    """As with its cluster, while a fit waits for workers."""
    from distributed import Client

    with Client(quiet_client.scheduler.address, set_as_default=False) as client:
        assert known_workers(client)
    with pytest.raises(SchedulerLostError, match="client is closed"):
        known_workers(client)
