"""CP of counts beside pyttb's `cp_apr`, and beside an iteration of least squares.

counts ─► loss="poisson" ─┬─ ms an iteration, on one rank and on two
                          ├─ the loss after some iterations, beside that of cp_apr from one start
                          └─ iterations and seconds to 99 % of the deviance that many explain
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

import daskpart
from benchmarks import data
from daskpart.containers.tensor import LabelledTensor
from daskpart.models.cp.entries import values_of

from .cp_kernel import one_more
from .output import Origin, markdown_table, out_option, write_numbers, write_section

COLUMNS = (
    "data", "nonzeros", "R", "1 rank, ms", "2 ranks, ms", "least squares, ms", "pyttb, ms",
    "pyttb / ours", "loss, ours / pyttb − 1", "fit", "iterations to 99 %", "seconds to 99 %",
)  # fmt: skip
DATA = ("splatt-med", "lastfm-tags", "imdb-reviews")
COMPARED = 5  # iterations, after which the losses are held against each other
MANY = 300  # iterations: what they explain is all that is asked for
TIMED = 20  # iterations, of which the median is told


def fitted(tensor: LabelledTensor, n_components: int, n_iterations: int, **options: Any) -> Any:
    """A fit from the first factors that pyttb gets too, after one that compiled."""
    chosen = {"loss": "poisson", "n_ranks": 1, "tol": 0, "init": start_of(tensor, n_components)}
    model = daskpart.CPDecomposition(n_components, transport="local", **chosen | options)
    model.set_params(max_iter=1).fit(tensor)
    return model.set_params(max_iter=n_iterations).fit(tensor)


def start_of(tensor: LabelledTensor, n_components: int) -> list[NDArray[np.float64]]:
    """Uniform factors."""
    random = np.random.default_rng(0)
    return [random.random((extent, n_components)) for extent in tensor.shape]


def milliseconds(model: Any) -> float:
    """Of an iteration, the median."""
    return 1e3 * float(model.history_["seconds"].median())


def loss(tensor: LabelledTensor, weights: Any, factors: Any) -> float:
    """Σ x̂ − x log x̂ over all cells."""
    sums = np.prod([factor.sum(axis=0) for factor in factors], axis=0)
    found = values_of(weights, factors, tensor.coordinates)
    return float(weights @ sums - tensor.values.astype(float) @ np.log(found))


def pyttb_fits(tensor: LabelledTensor, n_components: int) -> tuple[float, float] | None:
    """Ms of an iteration of `cp_apr`, and its loss after those that are compared."""
    if importlib.util.find_spec("pyttb") is None:
        return None
    import pyttb

    given = pyttb.sptensor(
        tensor.coordinates.T.astype(np.int64), tensor.values[:, None].astype(float), tensor.shape
    )

    def fit(n_iterations: int) -> Any:
        found, *_ = pyttb.cp_apr(
            given, n_components, algorithm="mu", maxiters=n_iterations, maxinneriters=1,
            stoptol=1e-12, printitn=0, kappa=0.0,
            init=pyttb.ktensor(start_of(tensor, n_components)),
        )  # fmt: skip
        return found

    found = fit(COMPARED)
    return one_more(fit), loss(tensor, found.weights, found.factor_matrices)


def line(name: str, n_components: int) -> list[Any]:
    """One line of the table."""
    tensor = data.tensor(name)
    ours = milliseconds(fitted(tensor, n_components, TIMED))
    on_two = milliseconds(fitted(tensor, n_components, TIMED, n_ranks=2))
    squares = milliseconds(fitted(tensor, n_components, TIMED, loss="squared"))
    theirs, ratio, apart = pyttb_fits(tensor, n_components), None, None
    if theirs is not None:
        state = fitted(tensor, n_components, COMPARED).state_
        ratio, apart = theirs[0] / ours, loss(tensor, state.weights, state.factors) / theirs[1] - 1
    history = fitted(tensor, n_components, MANY).history_
    enough = int(np.argmax(history["fit"] >= 0.99 * history["fit"].iloc[-1]))
    return [
        name, tensor.nnz, n_components, ours, on_two, squares, theirs and theirs[0], ratio, apart,
        history["fit"].iloc[-1], enough + 1, history["seconds"][: enough + 1].sum(),
    ]  # fmt: skip


@click.command()
@click.option("--tensor", "names", multiple=True, default=DATA, show_default=True)
@click.option("--components", "sizes", multiple=True, type=int, default=(16,), show_default=True)
@out_option
def main(names: tuple[str, ...], sizes: tuple[int, ...], out: Path) -> None:
    """Write the table."""
    origin, rows = Origin.here(), []
    for name in names:
        for n_components in sizes:
            rows.append(line(name, n_components))
            click.echo(rows[-1])
    body = (
        'Milliseconds of an iteration under `loss="poisson"`, float64, one step a mode: the median '
        f"of {TIMED}, on one rank and on two of one process; beside them an iteration of least "
        "squares (ALS) on one rank, and one of pyttb's `cp_apr` by multiplicative updates with one "
        "inner iteration, from the same start, without the offset that it adds to entries near 0. "
        f"*Loss*: after {COMPARED} iterations ours over theirs. *Fit*: the share of the Poisson "
        f"deviance that {MANY} iterations explain, and the iterations and seconds (one rank) after "
        "which it is 99 % of that.\n\n"
        f"{markdown_table(COLUMNS, rows)}"
    )
    write_numbers(out, "cp_counts", COLUMNS, rows, origin)
    write_section(out, "cp_counts", "CP of counts, beside pyttb", body, origin)


if __name__ == "__main__":
    main()
