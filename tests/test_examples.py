"""The examples run as their users would run them."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

import daskpart
from daskpart.collectives import LocalCommunicator, communicator_for
from daskpart.collectives.transports.threads import ThreadsCommunicator

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
BIN = Path(sys.executable).parent


def run_batch_job(
    *arguments: str, n_processes: int, timeout: float = 240
) -> subprocess.CompletedProcess[str]:
    """Run the job script with this interpreter's `python` and `mpiexec` first on the path."""
    path = os.pathsep.join((str(BIN), os.environ.get("PATH", "")))
    return subprocess.run(
        ["bash", str(EXAMPLES / "batch_mpi.sh"), *arguments],
        env={**os.environ, "PATH": path, "SLURM_NTASKS": str(n_processes)},
        capture_output=True,
        text=True,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture(scope="module")
def batch_job(mpiexec: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What four MPI processes printed, two of them workers, and the folder that they wrote."""
    folder = tmp_path_factory.mktemp("batch")
    options = ("--epochs", "3", "--components", "8", "--out", str(folder))
    done = run_batch_job(*options, n_processes=4)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, folder


@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_batch_job_prints_its_reports_and_learns(batch_job: tuple[str, Path]) -> None:
    printed, folder = batch_job
    assert "λ_max" in printed
    assert "staleness" in printed
    history = pd.read_csv(folder / "history.csv")
    assert len(history) == 3
    assert history["train_rmse"].iloc[-1] < history["train_rmse"].iloc[0]


@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_batch_job_gives_the_bits_of_a_run_in_one_process(batch_job: tuple[str, Path]) -> None:
    _, folder = batch_job
    far = daskpart.MatrixFactorization.load(folder / "model")
    near = daskpart.MatrixFactorization(
        n_components=8, n_ranks=2, eta=2, partitioner="power", max_iter=3,
        validation_fraction=0.1, random_state=0,
    )  # fmt: skip
    near.fit(daskpart.datasets.load_python_source()["counts"])
    for name in ("user_factors_", "item_factors_"):
        np.testing.assert_array_equal(getattr(far, name).values, getattr(near, name).values)


@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_batch_job_ends_with_an_error_when_the_input_is_wrong(mpiexec: str, tmp_path: Path) -> None:
    done = run_batch_job(str(tmp_path / "absent.dat"), n_processes=3)
    assert done.returncode != 0
    assert "absent.dat" in done.stderr


# algorithm texts of one's own


@pytest.fixture(scope="module")
def texts() -> Iterator[dict[str, ModuleType]]:
    """The two examples as modules."""
    sys.path.insert(0, str(EXAMPLES))
    yield {name: importlib.import_module(name) for name in ("pagerank", "kmeans")}
    sys.path.remove(str(EXAMPLES))
    for name in ("pagerank", "kmeans", "transports"):
        del sys.modules[name]


@pytest.fixture(scope="module")
def workers(texts: dict[str, ModuleType], quiet_client: Any) -> Iterator[Any]:
    """The client of workers that find the examples, as those that inherit the path do."""
    quiet_client.run(lambda: sys.path.insert(0, str(EXAMPLES)))
    yield quiet_client
    quiet_client.run(lambda: sys.path.remove(str(EXAMPLES)))


def told(printed: str) -> list[str]:
    """The lines of an example that must be the same on every transport."""
    return printed.split("Counters:")[0].splitlines()


def run_text(
    text: ModuleType, transport: str, capsys: pytest.CaptureFixture, client: Any, n_ranks: int = 4
) -> list:
    with communicator_for(transport, n_ranks, client) as communicator:
        text.main(communicator)
    return told(capsys.readouterr().out)


def test_pagerank_is_that_of_power_iteration(texts: dict[str, ModuleType]) -> None:
    text = texts["pagerank"]
    links, names = text.module_graph()
    dense, n_pages = links.toarray(), len(names)
    out_links = dense.sum(axis=0)
    expected = np.full(n_pages, 1 / n_pages)
    for _ in range(200):
        loose = expected[out_links == 0].sum()
        expected = (0.15 + 0.85 * loose) / n_pages + 0.85 * (
            dense @ (expected / np.maximum(out_links, 1))
        )
    for n_ranks in (1, 3, 8):
        plan, parts = text.cut(links, n_ranks)
        with LocalCommunicator(n_ranks) as communicator:
            found, n_iterations = text.scores_of_pages(communicator, plan, parts)
            assert communicator.counters.rows_sent.sum() == n_iterations * plan.total_rows
            labels = [record.label for record in communicator.counters.rounds]
        assert n_iterations > 10
        # in each iteration: the scores of loose pages added up, and the change looked at
        assert labels.count("allreduce") == 2 * 2 * n_iterations
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_kmeans_is_lloyds_algorithm(texts: dict[str, ModuleType]) -> None:
    text = texts["kmeans"]
    shares = [text.own_points(rank) for rank in range(3)]
    with LocalCommunicator(3) as communicator:
        points = communicator.values(shares)
        found, distance = communicator.run(text.kmeans, points, n_clusters=5)
    points, centres = np.concatenate(shares), shares[0][:5].copy()
    for _ in range(100):
        nearest = ((points[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
        centres = np.array([points[nearest == k].mean(axis=0) for k in range(5)])
    np.testing.assert_allclose(found, centres, atol=1e-2)
    squares = ((points[:, None] - found) ** 2).sum(axis=2).min(axis=1)
    assert distance == pytest.approx(squares.mean(), rel=1e-4)


@pytest.mark.parametrize("name", ["pagerank", "kmeans"])
def test_texts_on_ranks_that_are_threads(
    name: str, texts: dict, capsys: pytest.CaptureFixture
) -> None:
    expected = run_text(texts[name], "local", capsys, None)
    with ThreadsCommunicator(4) as communicator:
        texts[name].main(communicator)
    assert told(capsys.readouterr().out) == expected


@pytest.mark.cluster
@pytest.mark.parametrize("transport", ["graph", "dask"])
@pytest.mark.parametrize("name", ["pagerank", "kmeans"])
def test_texts_on_worker_processes(
    name: str,
    transport: str,
    texts: dict,
    capsys: pytest.CaptureFixture,
    workers: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if (name, transport) == ("pagerank", "graph"):  # there an iteration is some thirty tasks
        few_iterations = partial(texts[name].pagerank, tolerance=1e-3)
        monkeypatch.setattr(texts[name], "pagerank", few_iterations)
    expected = run_text(texts[name], "local", capsys, None)
    assert run_text(texts[name], transport, capsys, workers) == expected
    assert len(expected) > 5


@pytest.mark.mpi
def test_too_few_processes_are_told_at_once() -> None:
    command = [sys.executable, str(EXAMPLES / "kmeans.py"), "--transport", "mpi", "--ranks", "3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == "3 ranks need mpiexec -n 5: it started 1\n"


@pytest.mark.mpi
@pytest.mark.slow
def test_a_text_under_mpiexec(mpiexec: str, texts: dict, capsys: pytest.CaptureFixture) -> None:
    """As a script; the text of PageRank over MPI: `mpi_spmd_job.py` of the collectives."""
    command = [mpiexec, "-n", "4", sys.executable, str(EXAMPLES / "kmeans.py")]
    done = subprocess.run(
        [*command, "--transport", "mpi", "--ranks", "2"],
        env={**os.environ, "DASK_LOGGING__DISTRIBUTED": "error"},
        capture_output=True,
        text=True,
        timeout=150,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert told(done.stdout) == run_text(texts["kmeans"], "local", capsys, None, n_ranks=2)


def test_a_text_as_a_script(texts: dict, capsys: pytest.CaptureFixture) -> None:
    command = [sys.executable, str(EXAMPLES / "kmeans.py"), "--ranks", "4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    assert told(done.stdout) == run_text(texts["kmeans"], "local", capsys, None)


# notebooks


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.name)
def test_notebooks_are_committed_clean(path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None
