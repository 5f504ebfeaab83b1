"""Epochs and iterations as they were when the text still ran at the driver: commit `COMMIT`.

    this checkout ── git archive COMMIT ──▶ a folder, and this file as `benchmarks/older.py` in it
    mpiexec, in that folder                 seconds_of(client, …): the models of then

So what stands below `seconds_of` speaks the names of that time (`max_epochs`, `n_iter`), and
imports nothing that came later.
"""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path
from typing import Any

COMMIT = "2ad17c0"
MODULE = "benchmarks.older"
_METHODS = {"Algorithm 1": "p2p", "Algorithm 2": "emb"}


def unpack(folder: Path) -> None:
    """The files of that commit, in an empty folder.

    Raises
    ------
    RuntimeError
        Where this checkout has no history that reaches so far.
    """
    here = Path(__file__)
    command = ["git", "archive", "--format=tar", COMMIT]
    done = subprocess.run(command, cwd=here.parents[2], capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.decode()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="tar")
    (folder / f"{MODULE.replace('.', '/')}.py").write_text(here.read_text("utf-8"), "utf-8")


def was_there(name: str) -> bool:
    """Whether there was such a model; the name is that of a line of the twins' table."""
    return name.startswith(("MF ", "CP "))


# -- in the older checkout ---


def seconds_of(client: Any, names: list[str], n_ranks: int, n_steps: int) -> list[list[float]]:
    """Seconds of each step of each problem; of the driver's clock, as histories were then."""
    with client.as_current():
        return [_fit(name, n_ranks, n_steps).history_["seconds"].tolist() for name in names]


def _fit(name: str, n_ranks: int, n_steps: int) -> Any:
    from benchmarks import data
    from daskpart.models import CPDecomposition, MatrixFactorization

    kind, *algorithm, of = name.split(" ")
    if kind == "MF":
        from benchmarks.studies.problem import matrix

        users, items, values = data.ratings(of)
        X = matrix((users, items, values), (int(users.max()) + 1, int(items.max()) + 1))
        return MatrixFactorization(
            32, n_ranks=n_ranks, transport="mpi", max_epochs=n_steps, validation_fraction=0.0
        ).fit(X)
    return CPDecomposition(
        16, n_ranks=n_ranks, method=_METHODS[" ".join(algorithm)], transport="mpi",
        n_iter=n_steps, tol=0,
    ).fit(data.tensor(of))  # fmt: skip
