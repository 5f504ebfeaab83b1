"""The examples run as their users would run them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import daskpart

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
BIN = Path(sys.executable).parent


def run_batch_job(*arguments: str, timeout: float = 240) -> subprocess.CompletedProcess[str]:
    """Run the job script with this interpreter's `python` and `mpiexec` first on the path."""
    if not (BIN / "mpiexec").exists() and shutil.which("mpiexec") is None:
        pytest.skip("no mpiexec: pip install 'daskpart[mpi]'")
    path = os.pathsep.join((str(BIN), os.environ.get("PATH", "")))
    return subprocess.run(
        ["bash", str(EXAMPLES / "batch_mpi.sh"), *arguments],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture(scope="module")
def batch_job(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What six MPI processes printed, and the folder that they wrote."""
    folder = tmp_path_factory.mktemp("batch")
    done = run_batch_job("--epochs", "3", "--components", "8", "--out", str(folder))
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
        n_components=8, n_ranks=4, eta=4, max_epochs=3, validation_fraction=0.1, random_state=0
    )
    near.fit(daskpart.datasets.load_python_source()["counts"])
    for name in ("user_factors_", "item_factors_"):
        np.testing.assert_array_equal(getattr(far, name).values, getattr(near, name).values)


@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_batch_job_ends_with_an_error_when_the_input_is_wrong(tmp_path: Path) -> None:
    done = run_batch_job(str(tmp_path / "absent.dat"))
    assert done.returncode != 0
    assert "absent.dat" in done.stderr


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.name)
def test_notebooks_are_committed_clean(path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None
