"""`daskpart fit` as real processes: clusters, mpiexec, Ctrl-C, exit codes, who speaks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from command_results import metrics_of

import daskpart
from daskpart._floor.mpi_variables import RANK_AND_SIZE
from daskpart.models.base.checkpoints import CheckpointWriter
from daskpart.models.matrix_factorization.state import MFState

INTERRUPTED, TERMINATED, HUNG_UP, WARNED = 130, 143, 129, 138
SMALL_FIT = ("--ranks", "3", "--n-components", "4", "--max-iter", "3", "--partitioner", "block")


def started(*arguments: object, before: tuple[str, ...] = (), **options) -> subprocess.Popen:
    """The command as a process of its own."""
    command = [*before, sys.executable, "-m", "daskpart", *map(str, arguments)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )
    _begun.append(process)
    return process


_begun: list[subprocess.Popen] = []


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    """A test that fails leaves no endless fit behind, which would slow all others down."""
    yield
    while _begun:
        with _begun.pop() as process:
            process.kill()


def finished(*arguments: object, **options) -> subprocess.CompletedProcess:
    """The command as a process of its own, run to its end."""
    process = started(*arguments, **options)
    out, err = process.communicate(timeout=200)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.fixture
def in_one_process(tmp_path, rating_file, run_cli) -> Path:
    """The result that every cluster must reproduce."""
    out = tmp_path / "one"
    assert run_cli("fit", "mf", rating_file, *SMALL_FIT, "--no-plots", "--out", out) == 0
    return out


def epochs_of(told: str) -> list[str]:
    """The lines of all epochs; nothing else may have been said."""
    lines = told.splitlines()
    assert [line for line in lines if not line.startswith("epoch ")] == []
    return lines


def same_factors(one: Path, other: Path) -> bool:
    models = [daskpart.MatrixFactorization.load(out / "model") for out in (one, other)]
    return np.array_equal(*(model.item_factors_ for model in models))


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("kind", "workers"),
    [("threads", 2), ("processes", 2)],  # of three ranks
)
def test_a_cluster_on_this_machine_gives_the_same_bits(
    kind, workers, tmp_path, rating_file, in_one_process
):
    out = tmp_path / "out"
    arguments = (*SMALL_FIT, "--cluster", kind, "--workers", workers, "--no-plots", "--out", out)
    done = finished("fit", "mf", rating_file, *arguments)
    assert done.returncode == 0, done.stderr
    assert same_factors(in_one_process, out)
    assert "over the 'dask' transport" in done.stdout
    assert "epoch 3/3" in epochs_of(done.stderr)[-1]


@pytest.mark.mpi
def test_mpiexec_ends_with_the_exit_code_and_the_one_line_of_the_error(mpiexec):
    arguments = ("fit", "mf", "absent.data", "--cluster", "mpi")
    done = finished(*arguments, before=(mpiexec, "-n", "3"))
    assert done.returncode == 2
    assert done.stderr.count("absent.data: no such file") == 1
    forgotten = finished("fit", "mf", "absent.data", before=(mpiexec, "-n", "2"))
    assert forgotten.returncode == 2
    assert forgotten.stderr.count("add --cluster mpi") == 1


def others_in_group(leader: int) -> set[int]:
    """All processes of a group but the first of it."""
    found = subprocess.run(
        ["ps", "-e", "-o", "pid=,pgid="], capture_output=True, text=True, check=True
    ).stdout
    pairs = (tuple(map(int, line.split())) for line in found.splitlines())
    return {process for process, group in pairs if group == leader != process}


def wait_for_epoch(process: subprocess.Popen, number: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        line = process.stderr.readline()
        if line.startswith(f"epoch {number}/") or line.startswith(f"epoch   {number}/"):
            return
        assert line, process.communicate()
    raise AssertionError("no epoch within two minutes")


def is_open_mpi(mpiexec: str) -> bool:
    """Whether it is that of Open MPI, which kills all processes where others pass on a signal."""
    told = subprocess.run([mpiexec, "--version"], capture_output=True, text=True).stdout
    return "Open MPI" in told


def answers_sighup() -> None:
    """Under `nohup`, where these tests may run, it would be ignored."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.mark.parametrize(
    ("kind", "stop", "exit_code"),
    [
        ("none", signal.SIGTERM, TERMINATED),
        ("none", signal.SIGHUP, HUNG_UP),
        pytest.param("processes", signal.SIGINT, INTERRUPTED, marks=pytest.mark.cluster),
        pytest.param("mpi", signal.SIGINT, INTERRUPTED, marks=pytest.mark.mpi),
        pytest.param("mpi", signal.SIGTERM, TERMINATED, marks=pytest.mark.mpi),
        pytest.param("mpi", signal.SIGUSR1, WARNED, marks=pytest.mark.mpi),
    ],
)
def test_a_signal_to_stop_has_the_last_whole_epoch_written(
    kind, stop, exit_code, tmp_path, rating_file, request
):
    """In the middle of long tasks, one a rank: each of the two has a worker, or both have one.

    Worker processes of `kind` "processes" get both signals: first SIGTERM, which they pass over.
    `test_what_was_learnt_outlives_who_reads_the_output` presses Ctrl-C without a cluster.
    """
    out = tmp_path / "out"
    n_processes = "4" if stop == signal.SIGINT else "3"
    before = (request.getfixturevalue("mpiexec"), "-n", n_processes) if kind == "mpi" else ()
    if before and stop != signal.SIGUSR1 and is_open_mpi(before[0]):
        pytest.skip("of all signals that end a job, Open MPI passes on SIGUSR1 alone")
    endless = ("--ranks", "2", "--max-iter", "20000", "--cluster", kind)
    arguments = (*SMALL_FIT, *endless, "--no-plots", "--out", out)
    process = started(
        "fit", "mf", rating_file, *arguments, before=before, start_new_session=True,
        preexec_fn=answers_sighup,
    )  # fmt: skip
    wait_for_epoch(process, 3)
    if kind == "processes":
        workers = others_in_group(process.pid)
        assert len(workers) > 1
        for each in workers:
            os.kill(each, signal.SIGTERM)
        wait_for_epoch(process, 400)  # with what is left of them
        assert workers <= others_in_group(process.pid)
    os.killpg(process.pid, stop)  # as terminals and batch systems do: to the whole group
    told, complaints = process.communicate(timeout=100)
    assert process.returncode == exit_code, complaints
    assert "Traceback" not in complaints
    assert "interrupted after" in told
    metrics = metrics_of(out)
    assert metrics["ended"] == "interrupted" and metrics["epochs"] >= 3
    model = daskpart.MatrixFactorization.load(out / "model")
    assert len(model.history_) == metrics["epochs"]


@pytest.mark.cluster
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_stop_is_answered_while_workers_start(stop, tmp_path, rating_file):
    arguments = (*SMALL_FIT, "--max-iter", "100000", "--cluster", "processes", "--no-plots")
    process = started("fit", "mf", rating_file, *arguments, "--out", tmp_path / "out",
                      start_new_session=True)  # fmt: skip
    said = iter(process.stdout.readline, "")
    assert any(line.startswith("starting 3 workers") for line in said)
    time.sleep(0.5)  # in the middle of it
    os.killpg(process.pid, stop)
    told, complaints = process.communicate(timeout=100)
    assert process.returncode == {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED}[stop]
    assert "interrupted" in told + complaints and "Traceback" not in complaints


def test_what_was_learnt_outlives_who_reads_the_output(tmp_path, rating_file):
    """Ctrl-C ends both sides of `daskpart fit … | tee log`."""
    out = tmp_path / "out"
    arguments = (*SMALL_FIT, "--max-iter", "100000", "--no-plots", "--out", out)
    process = started("fit", "mf", rating_file, *arguments)
    with process:
        wait_for_epoch(process, 3)
        process.stdout.close()
        process.send_signal(signal.SIGINT)
        assert "Traceback" not in process.stderr.read()
    assert process.returncode == INTERRUPTED
    metrics = metrics_of(out)
    assert metrics["ended"] == "interrupted" and metrics["epochs"] >= 3
    model = daskpart.MatrixFactorization.load(out / "model")
    assert len(model.history_) == metrics["epochs"]


@pytest.mark.parametrize("command", [("fit", "mf", *SMALL_FIT), ("partition",)], ids=" ".join)
def test_results_are_written_without_who_reads_the_output(command, tmp_path, rating_file):
    """As of `daskpart fit … 2>&1 | head -1`: the reader has gone before the first line."""
    words = [*command, rating_file, "--no-plots", "--out", tmp_path / "out"]
    with subprocess.Popen(
        [sys.executable, "-m", "daskpart", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        process.stdout.close()
        assert process.wait(timeout=100) == 0
    assert (tmp_path / "out" / "report.html").is_file()


def mpi_processes() -> dict[int, int]:
    """Rank in MPI → process, of the jobs that this process has begun."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            told = (folder / "environ").read_text(errors="replace").split("\0")
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        variables = dict(variable.split("=", 1) for variable in told if "=" in variable)
        here = variables.get("DASKPART_TEST_JOB") == str(os.getpid())
        ranks = [variables[rank] for rank, size in RANK_AND_SIZE if {rank, size} <= {*variables}]
        if here and ranks and b"-m\0daskpart\0" in command:
            found[int(ranks[0])] = int(folder.name)
    return found


@pytest.mark.mpi
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")
def test_a_killed_mpi_process_ends_the_job_and_the_next_job_goes_on(
    mpiexec, tmp_path, rating_file, run_cli
):
    """MPI ends the whole job with a process of it; what a fit kept at --checkpoint-path is left.

    The next job speaks with one voice, and has the bits of one process.
    """
    options = ("--partitioner", "block", "--ranks", "2", "--n-components", "4", "--no-plots")
    checkpoint = ("--checkpoint-path", tmp_path / "state.npz")
    arguments = ("fit", "mf", rating_file, *options, *checkpoint, "--out", tmp_path / "out")
    process = started(
        *arguments, "--cluster", "mpi", "--max-iter", "100000", before=(mpiexec, "-n", "4"),
        env={**os.environ, "DASKPART_TEST_JOB": str(os.getpid())},
    )  # fmt: skip
    wait_for_epoch(process, 3)
    os.kill(mpi_processes()[3], signal.SIGKILL)
    killed = time.monotonic()
    process.communicate(timeout=100)
    assert process.returncode != 0
    assert time.monotonic() - killed < 30
    kept = CheckpointWriter(tmp_path / "state.npz", MFState, 1).latest()
    assert kept is not None
    reached = kept.epoch
    assert reached >= 3
    goal = ("--max-iter", str(reached + 2))
    done = finished(*arguments, "--resume", *goal, "--cluster", "mpi", before=(mpiexec, "-n", "4"))
    assert done.returncode == 0, done.stderr
    assert "over the 'mpi' transport" in done.stdout
    assert done.stdout.count("held out to judge by") == 1
    assert f"epoch {reached + 2}/{reached + 2}" in epochs_of(done.stderr)[-1]
    assert run_cli("fit", "mf", rating_file, *options, *goal, "--out", tmp_path / "whole") == 0
    assert same_factors(tmp_path / "whole", tmp_path / "out")


@pytest.mark.mpi
def test_workers_under_mpiexec_find_the_module_of_a_user(mpiexec, tmp_path, run_cli):
    """It lies beside the data, in a folder that no process looks for modules in by itself."""
    guide = Path(__file__).parents[2] / "docs" / "guide"
    source = (guide / "ridge_model.py").read_text()
    (tmp_path / "ridge_of_a_user.py").write_text(source)
    random = np.random.default_rng(0)
    np.savetxt(tmp_path / "X.csv", random.normal(size=(60, 4)), delimiter=",")
    name, data = f"{tmp_path}/ridge_of_a_user.py:Ridge", tmp_path / "X.csv"
    shared = ("--label", "3", "--ranks", "2", "--max-iter", "4", "--no-plots")
    more = ("--cluster", "mpi", "--out", tmp_path / "mpi")
    done = finished("fit", name, data, *shared, *more, before=(mpiexec, "-n", "3"))
    assert done.returncode == 0, done.stderr
    assert "over the 'mpi' transport" in done.stdout
    assert run_cli("fit", name, data, *shared, "--out", tmp_path / "one") == 0
    losses = [np.genfromtxt(tmp_path / out / "history.csv", names=True, delimiter=",")["loss"]
              for out in ("mpi", "one")]  # fmt: skip
    np.testing.assert_array_equal(*losses)


@pytest.mark.mpi
@pytest.mark.parametrize(("module", "stop"), [("mpi", "SIGTERM"), ("cluster", "SIGINT")])
def test_a_signal_while_all_wait_for_the_client_ends_the_job(
    mpiexec, module, stop, tmp_path, rating_file
):
    """While the cluster starts, and while it ends: not one of the processes is left waiting.

    Whichever signal it is, the same lines hold it back: each comes once.
    """
    step = {"mpi": "initialize", "cluster": "_hush"}[module]
    arguments = ["fit", "mf", str(rating_file), *SMALL_FIT, "--cluster", "mpi", "--no-plots"]
    code = (
        "import os, signal\n"
        "from daskpart import cli\n"
        f"import daskpart._cli.{module} as module\n"
        f"usual = module.{step}\n"
        "def pressed(*given):\n"
        "    if cli.MpiPlace.from_environment().speaks:\n"
        f"        os.kill(os.getpid(), signal.{stop})\n"
        "    usual(*given)\n"
        f"module.{step} = pressed\n"
        f"cli.main({[*arguments, '--out', str(tmp_path)]!r})\n"
    )
    done = subprocess.run(
        [mpiexec, "-n", "3", sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == {"SIGINT": INTERRUPTED, "SIGTERM": TERMINATED}[stop], done.stderr
    assert "Traceback" not in done.stderr and "interrupted" in done.stderr
