"""What every test shares: hypothesis profiles, clusters, MPI jobs, the real data sets."""

from __future__ import annotations

import gc
import multiprocessing.forkserver
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

hypothesis.settings.register_profile("default", deadline=None, max_examples=40, derandomize=True)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=500)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Open MPI starts no process of root's, and no more than there are cores, unless it is told so
os.environ.setdefault("OMPI_ALLOW_RUN_AS_ROOT", "1")
os.environ.setdefault("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
os.environ.setdefault("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")

# a cluster that waits for its tests took a tenth of a core to look at itself, an MPI job more; said
# before anybody imports Dask, and to all processes that tests start
for name, value in {
    "ADMIN__TICK__INTERVAL": "100ms",
    "ADMIN__SYSTEM_MONITOR__INTERVAL": "2s",
    "WORKER__MEMORY__MONITOR_INTERVAL": "500ms",
    "WORKER__PROFILE__INTERVAL": "100ms",
}.items():
    os.environ.setdefault(f"DASK_DISTRIBUTED__{name}", value)

# a shell that starts pytest in the background has it pass over Ctrl-C, which some tests press
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection() -> None:
    """All that is collected stays, so nobody looks for cycles in it: neither now nor later."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with long tests first, or one of two that share the files has them left at the end."""
    marks = ("slow", "mpi")
    long = {item.path for item in items if any(item.get_closest_marker(mark) for mark in marks)}
    items.sort(key=lambda item: item.path not in long)


@pytest.fixture(scope="session")
def least_peak() -> Callable[[Callable[[], Any]], tuple[Any, int]]:
    """``least_peak(work)``: what `work` returns, and its most bytes at a time, the least of three.

    What other threads of the process allocate meanwhile is counted too: it only ever adds.
    """

    def measure(work: Callable[[], Any]) -> tuple[Any, int]:
        peaks = []
        for _ in range(3):
            tracemalloc.start()
            try:
                result = work()
                peaks.append(tracemalloc.get_traced_memory()[1])
            finally:
                tracemalloc.stop()
        return result, min(peaks)

    return measure


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets; the test is skipped where there is none."""
    beside_checkout = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("DASKPART_DATA", beside_checkout))
    if not folder.is_dir():
        pytest.skip(f"no data sets at {folder} (set DASKPART_DATA to where they are)")
    return folder


@pytest.fixture
def rough_cost_model(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """`cost_model_of` takes few turns here, where what it finds matters little; gives how few."""
    from daskpart.collectives import cost_measurement

    few = {
        "_ROUNDS": 1, "_MORE_ROUNDS": 2, "_TURNS": 1, "_KERNEL_TURNS": 1, "_REPEATS": 3,
        "_LONG_BYTES": 10_000_000,
    }  # fmt: skip
    for name, value in {**few, "_known": {}}.items():  # nobody else is told what was found
        monkeypatch.setattr(cost_measurement, name, value)
    return few


@pytest.fixture(scope="session")
def mpiexec() -> str:
    """The `mpiexec` beside this Python, else the first on the path; of whatever MPI."""
    pytest.importorskip("dask_mpi")
    folders = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    found = shutil.which("mpiexec", path=folders)
    if found is None:
        pytest.skip("no mpiexec: pip install 'daskpart[mpi]'")
    return found


@pytest.fixture(scope="session")
def mpi_job(mpiexec: str) -> Callable[..., str]:
    """``mpi_job(*scripts)``: what scripts print at the client of an MPI job.

    Of its six processes one is the scheduler, one the client, the others are workers of two
    threads.
    """
    launcher = [sys.executable, "-P", str(Path(__file__).with_name("mpi_launcher.py"))]

    def run(*scripts: Path, **environment: str) -> str:
        done = subprocess.run(
            [mpiexec, "-n", "6", *launcher, *map(str, scripts)],
            capture_output=True,
            text=True,
            timeout=500,
            env={
                **os.environ,
                "DASK_LOGGING__DISTRIBUTED": "error",
                **environment,
            },
            check=False,
        )
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-4000:]
        return done.stdout

    return run


@pytest.fixture(scope="session")
def forked_workers() -> Iterator[None]:
    """Worker processes are forks of one that has imported what they import, so they start at once.

    ``dask.config.set({"distributed.worker.multiprocessing-method": "spawn"})`` for a new process.
    """
    import dask
    import distributed  # noqa: F401  # its settings are read now

    import daskpart

    homes = sorted({f"daskpart{home}" for home in daskpart._HOME_OF.values()})
    multiprocessing.get_context("forkserver").set_forkserver_preload(["distributed.nanny", *homes])
    with pytest.MonkeyPatch.context() as patch:
        for name, value in dask.config.get("distributed.nanny.pre-spawn-environ").items():
            patch.setenv(name, str(value))
        multiprocessing.forkserver.ensure_running()
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        yield


@pytest.fixture(scope="session")
def cluster(forked_workers: None) -> Iterator[Any]:
    """Two worker processes of four threads, so that they hold eight ranks; nobody kills them."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=4, processes=True, dashboard_address=":0"
    ) as running:
        yield running


@pytest.fixture
def client(cluster: Any) -> Iterator[Any]:
    """A client of `cluster`, the default one while a test runs."""
    from distributed import Client

    with Client(cluster) as connected:
        connected.wait_for_workers(2, timeout=60)
        yield connected


@pytest.fixture(scope="session")
def quiet_client(cluster: Any) -> Iterator[Any]:
    """A client of `cluster` that is not the default one, which tests mean when they have none."""
    from distributed import Client

    with Client(cluster, set_as_default=False) as connected:
        yield connected


@pytest.fixture(scope="session")
def mortal_cluster(forked_workers: None) -> Iterator[Any]:
    """Two worker processes of two threads to kill: their nannies start others.

    The cluster itself would give a worker up that is away some seconds after it was lost: because
    the machine is busy, or it was just killed again.
    """
    import dask
    from distributed import LocalCluster

    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}),
        LocalCluster(
            n_workers=2, threads_per_worker=2, processes=True, dashboard_address=":0",
            silence_logs=50,
        ) as running,
    ):  # fmt: skip
        yield running


@pytest.fixture
def own_client(mortal_cluster: Any) -> Iterator[Any]:
    """A client of workers to kill, both of them there; not the default one."""
    from distributed import Client

    with Client(mortal_cluster, set_as_default=False) as connected:
        _wait_until_both_answer(connected)
        yield connected


def _wait_until_both_answer(client: Any) -> None:
    """The scheduler still knows a worker for a moment that a test before has killed."""
    limit = time.monotonic() + 60
    while True:
        client.wait_for_workers(2, timeout=60)
        try:
            if len(client.run(os.getpid)) == 2:
                return
        except OSError:
            assert time.monotonic() < limit


@pytest.fixture
def kill_in_next_run(own_client: Any) -> Callable[[], None]:
    """Have a worker of `own_client` die when its ranks have begun another run, or soon after."""
    from daskpart.collectives.transports.worker import RankHost

    victim = next(iter(own_client.run(os.getpid)))

    def watch(dask_worker: Any) -> None:
        sessions = RankHost.of(dask_worker).sessions.values()
        boxes = [box for session in sessions for box in session.mailboxes.values()]
        last = max(box.run for box in boxes)

        def kill() -> None:
            while all(box.run == last for box in boxes):
                time.sleep(1e-4)
            os.kill(os.getpid(), signal.SIGKILL)

        threading.Thread(target=kill, daemon=True).start()

    return lambda: own_client.run(watch, workers=[victim])
