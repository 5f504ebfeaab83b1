"""CP with missing entries: planted factors found again, beside tensorly's masked CP; which rank.

planted factors ─► cells, a share stored, noise ─┬─ missing="unknown"
                                                 ├─ missing="zero"
                                                 └─ tensorly, masked (another Python)
planted 5 components ─► cp_diagnostics, 2 … 8 ─► table and picture
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from time import process_time
from typing import Any

import click
import numpy as np
import sparse

import daskpart
from benchmarks import completion_peer
from daskpart.models import factor_match_score
from daskpart.models.cp.state import CPState

from .output import Origin, markdown_table, out_option, write_numbers, write_section

COLUMNS = ("tensor", "stored", "who", "match score", "RMSE, not stored", "CPU s")
SHAPES = {"small": (30, 25, 20), "larger": (150, 120, 100)}
N_STARTS, NOISE = 5, 0.01


def planted(shape: tuple[int, ...], n_components: int) -> list[np.ndarray]:
    """Uniform factors, no two components alike."""
    random = np.random.default_rng(7)
    return [random.random((extent, n_components)) for extent in shape]


def whole(factors: list[np.ndarray]) -> np.ndarray:
    """All cells of three factors."""
    return np.einsum("ir,jr,kr->ijk", *factors)


def match(found: list[np.ndarray], factors: list[np.ndarray]) -> float:
    """Factor match score with what was planted."""
    states = []
    for each in (found, factors):
        typed = [np.ascontiguousarray(factor, np.float64) for factor in each]
        states.append(CPState(np.ones(typed[0].shape[1]), typed, ("a", "b", "c")))
    return factor_match_score(*states)


def ours(X: sparse.COO, missing: str, n_components: int, iterations: int) -> dict[str, Any]:
    """Factors and CPU seconds, compiled before."""
    model = daskpart.CPDecomposition(
        n_components, missing=missing, n_init=N_STARTS, max_iter=iterations, tol=1e-9, n_ranks=1,
        transport="local",
    )  # fmt: skip
    daskpart.CPDecomposition(n_components, missing=missing, max_iter=1, n_ranks=1).fit(X)
    begin = process_time()
    model.fit(X)
    factors = [np.array(factor) for factor in model.state_.factors]
    factors[0] = factors[0] * model.state_.weights
    return {"factors": factors, "cpu": process_time() - begin}


def peers(X: sparse.COO, python: str, n_components: int, iterations: int) -> dict[str, Any]:
    """What the other Python found, from as many starts."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        np.savez(path / "cells.npz", cells=X.coords, values=X.data, shape=X.shape)
        job = {
            "cells": str(path / "cells.npz"), "components": n_components, "starts": N_STARTS,
            "iterations": iterations, "out": str(path / "factors.npz"),
        }  # fmt: skip
        (path / "job.json").write_text(json.dumps(job))
        ran = subprocess.run(
            [python, str(Path(completion_peer.__file__).resolve()), str(path / "job.json")],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        with np.load(path / "factors.npz") as file:
            factors = [file[f"arr_{mode}"] for mode in range(3)]
    return {"factors": factors, **json.loads(ran.stdout.splitlines()[-1])}


def lines(
    name: str, share: float, n_components: int, iterations: int, peer: str | None
) -> list[list[Any]]:
    """Rows of the table of one tensor."""
    factors = planted(SHAPES[name], n_components)
    cells, random = whole(factors), np.random.default_rng(0)
    stored = random.random(cells.shape) < share
    noisy = cells + NOISE * cells.std() * random.standard_normal(cells.shape)
    coordinates = np.stack(np.nonzero(stored))
    X = sparse.COO(coordinates, noisy[stored], shape=cells.shape)
    told = {
        "unknown": ours(X, "unknown", n_components, iterations),
        "zero": ours(X, "zero", n_components, iterations),
    }
    if peer and name == "small":
        told["tensorly"] = peers(X, peer, n_components, iterations)
    return [
        [
            " × ".join(map(str, cells.shape)), share,
            who if who == "tensorly" else f'missing="{who}"',
            match(each["factors"], factors),
            float(np.sqrt(np.mean((whole(each["factors"]) - cells)[~stored] ** 2))),
            each["cpu"],
        ]
        for who, each in told.items()
    ]  # fmt: skip


def diagnostics(n_components: int, most: int, seeds: int) -> Any:
    """Of planted components, each absent from some slices, with a little noise."""
    factors, random = planted((40, 30, 20), n_components), np.random.default_rng(1)
    cells = whole([factor * (random.random(factor.shape) < 0.6) for factor in factors])
    cells += (cells > 0) * 0.02 * cells.std() * random.standard_normal(cells.shape)
    return daskpart.cp_diagnostics(sparse.COO.from_numpy(cells), range(2, most + 1), seeds=seeds)


@click.command()
@click.option("--peer", help="A Python that has tensorly; none: ours alone.")
@click.option(
    "--tensor",
    "names",
    multiple=True,
    type=click.Choice([*SHAPES]),
    default=tuple(SHAPES),
    show_default=True,
)
@click.option("--components", default=5, show_default=True)
@click.option("--iterations", default=500, show_default=True)
@click.option("--most", default=8, show_default=True, help="Components of the diagnostics.")
@click.option("--seeds", default=5, show_default=True)
@out_option
def main(
    peer: str | None, names: tuple[str, ...], components: int, iterations: int, most: int,
    seeds: int, out: Path,
) -> None:  # fmt: skip
    """Write the table and the picture."""
    import matplotlib

    matplotlib.use("Agg")
    origin, rows = Origin.here(), []
    for name in names:
        rows += lines(name, 0.1, components, iterations, peer)
    for row in rows:
        click.echo(row)
    found = diagnostics(components, most, seeds)
    click.echo(found)
    axes = found.plot()
    out.mkdir(parents=True, exist_ok=True)
    axes.figure.savefig(out / "cp_missing.png", dpi=110, bbox_inches="tight")
    table = found.table.drop(columns="seconds")  # fits ran beside each other
    named = "none" if found.n_components is None else str(found.n_components)
    body = (
        f"{components} planted components, nine cells out of ten missing, noise of {NOISE:.0%} of "
        f"the standard deviation; best of {N_STARTS} starts, at most {iterations} iterations each, "
        "one rank. The match score with the planted factors is 1 where they are found; the error "
        "is that on the cells that were not stored, of the values without noise.\n\n"
        f"{markdown_table(COLUMNS, rows)}\n\n"
        f"How many components, of {components} planted in a tensor of 40 × 30 × 20: "
        f"`cp_diagnostics` names **{named}**.\n\n"
        f"{markdown_table(list(table.columns), table.to_numpy().tolist())}\n\n"
        "![Fit, core consistency and matches by number of components](cp_missing.png)"
    )
    write_numbers(out, "cp_missing", COLUMNS, rows, origin)
    write_section(out, "cp_missing", "CP with missing entries, and which rank", body, origin)


if __name__ == "__main__":
    main()
