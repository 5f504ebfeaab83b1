"""CP of yes and no beside pyttb's `gcp_opt`, and beside an iteration of least squares.

    planted odds ─► 1 and 0 at a share of the cells ─► loss="logistic" ─┬─ ms an iteration
                                                                        └─ seconds to a loss

What pyttb minimises by L-BFGS-B over all cells, with a mask of those that are known, is the same
sum, without the log-odds of the share of ones, which is a half here; it holds the tensor whole, so
it runs on the smaller tensor alone.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from time import perf_counter
from typing import Any

import click
import numpy as np
import sparse
from numpy.typing import NDArray

import daskpart
from daskpart.containers.tensor import LabelledTensor, as_tensor
from daskpart.models.cp.entries import values_of
from daskpart.models.cp.logistic import loss_of

from .output import Origin, markdown_table, out_option, write_numbers, write_section

COLUMNS = (
    "cells", "entries", "R", "1 rank, ms", "2 ranks, ms", "least squares, ms", "loss",
    "loss of the odds drawn from", "iterations", "seconds", "pyttb, loss", "pyttb, seconds",
    "ours to there, seconds",
)  # fmt: skip
SHAPES = ((200, 150, 100), (1000, 800, 300))
ENTRIES = (300_000, 2_000_000)
N_COMPONENTS = 5
MOST, TIMED = 200, 10  # iterations
ALIKE = 1e-4  # losses so near to each other, as a share
MOST_WHOLE = 10_000_000  # cells that pyttb is given


def drawn(shape: tuple[int, ...], n_entries: int) -> tuple[LabelledTensor, float]:
    """Yes and no at drawn cells, and the loss of the odds that they were drawn from."""
    random = np.random.default_rng(0)
    factors = [random.normal(size=(extent, N_COMPONENTS)) for extent in shape]
    cells = np.unique(random.integers(np.prod(shape), size=n_entries))
    positions = np.array(np.unravel_index(cells, shape), np.int32)
    odds = values_of(np.ones(N_COMPONENTS), factors, positions)
    values = (random.random(len(odds)) < 1 / (1 + np.exp(-odds))).astype(float)
    stored = sparse.COO(positions, values, shape=shape)
    return as_tensor(stored, missing="unknown"), loss_of(odds, values)


def start_of(shape: tuple[int, ...]) -> list[NDArray[np.float64]]:
    """Factors of either sign, for all the same."""
    random = np.random.default_rng(1)
    return [random.normal(size=(extent, N_COMPONENTS)) for extent in shape]


def fitted(tensor: LabelledTensor, **options: Any) -> Any:
    """A fit, after one that compiled."""
    model = daskpart.CPDecomposition(
        N_COMPONENTS, missing="unknown", transport="local", partitioner="block",
        **{"loss": "logistic", "n_ranks": 1, "tol": 0, "init": start_of(tensor.shape)} | options,
    )  # fmt: skip
    model.set_params(max_iter=1).fit(tensor)
    return model.set_params(max_iter=options.get("max_iter", TIMED)).fit(tensor)


def milliseconds(model: Any) -> float:
    """Of an iteration, the median."""
    return 1e3 * float(model.history_["seconds"].median())


def loss(tensor: LabelledTensor, weights: Any, factors: Any, intercept: float = 0.0) -> float:
    """Over the entries."""
    return loss_of(intercept + values_of(weights, factors, tensor.coordinates), tensor.values)


def pyttb_fit(tensor: LabelledTensor) -> tuple[float, float] | None:
    """The loss that `gcp_opt` comes to, and its seconds."""
    if importlib.util.find_spec("pyttb") is None or np.prod(tensor.shape) > MOST_WHOLE:
        return None
    import pyttb

    whole, mask = np.zeros((2, *tensor.shape))
    whole[tuple(tensor.coordinates)], mask[tuple(tensor.coordinates)] = tensor.values, 1
    begin = perf_counter()
    found, *_ = pyttb.gcp_opt(
        pyttb.tensor(whole), N_COMPONENTS, pyttb.gcp.fg_setup.Objectives.BERNOULLI_LOGIT,
        pyttb.gcp.optimizers.LBFGSB(maxiter=MOST), mask=mask, printitn=0,
        init=pyttb.ktensor(start_of(tensor.shape)),
    )  # fmt: skip
    return loss(tensor, found.weights, found.factor_matrices), perf_counter() - begin


def line(shape: tuple[int, ...], n_entries: int) -> list[Any]:
    """One line of the table."""
    tensor, of_odds = drawn(shape, n_entries)
    ours, on_two, squares = (
        milliseconds(fitted(tensor, **options))
        for options in ({}, {"n_ranks": 2}, {"loss": "squared"})
    )
    model = fitted(tensor, tol=1e-6, max_iter=MOST)
    state, history = model.state_, model.history_
    ours_there = loss(tensor, state.weights, state.factors, model.intercept_)
    theirs, reached = pyttb_fit(tensor), None
    if theirs is not None:
        null = ours_there / (1 - model.fit_)
        enough = history["fit"] >= 1 - (1 + ALIKE) * theirs[0] / null
        if enough.any():
            reached = history["seconds"][: int(np.argmax(enough)) + 1].sum()
    return [
        int(np.prod(shape)), tensor.nnz, N_COMPONENTS, ours, on_two, squares, ours_there, of_odds,
        model.n_iter_, history["seconds"].sum(), *(theirs or (None, None)), reached,
    ]  # fmt: skip


@click.command()
@out_option
def main(out: Path) -> None:
    """Write the table."""
    origin, rows = Origin.here(), []
    for shape, n_entries in zip(SHAPES, ENTRIES, strict=True):
        rows.append(line(shape, n_entries))
        click.echo(rows[-1])
    body = (
        'Milliseconds of an iteration under `loss="logistic"`, float64: the median of '
        f"{TIMED}, on one rank and on two of one process; beside them one of least squares over "
        "the same entries. *Loss*: Σ log(1 + exp(x̂)) − x x̂ over the entries when an iteration adds "
        "less than 1e-6 to the fit (one rank), beside that of the odds that they "
        "were drawn from, which a fit of few entries undercuts. pyttb: `gcp_opt` with "
        f"`BERNOULLI_LOGIT` by L-BFGS-B, at most {MOST} iterations, from the same start, with a "
        "mask over all cells; *to there*: to a loss that is at most a ten-thousandth larger.\n\n"
        f"{markdown_table(COLUMNS, rows)}"
    )
    write_numbers(out, "cp_yes_no", COLUMNS, rows, origin)
    write_section(out, "cp_yes_no", "CP of yes and no, beside pyttb", body, origin)


if __name__ == "__main__":
    main()
