"""Linear models: an epoch beside scikit-learn's, and sums of sparse against dense gradients.

1   SGDClassifier, liblinear, ours on 1 and 2 ranks, in one run      seconds, test score
2   N = 10⁶, 10⁷ features, a batch of 1000 a rank, 4 ranks           bytes, seconds of a step
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import click
import numpy as np
import scipy.sparse

from benchmarks import data
from daskpart import LinearSVC, LogisticRegression

from .output import Origin, markdown_table, out_option, write_numbers, write_section

COLUMNS = ("data", "what", "seconds of the fit", "seconds an epoch", "training loss", "test score")
SUM_COLUMNS = ("features", "aggregation", "density of a sum", "MB a step", "ms a step")
Fitted = tuple[float, float, Any]


def contestants(epochs: int, n_samples: int) -> dict[str, Callable[[], Any]]:
    """What is compared, by name; all minimise the same objective with C = 1."""
    from sklearn.linear_model import LogisticRegression as Theirs
    from sklearn.linear_model import SGDClassifier

    def hinge(n_ranks: int) -> Any:
        return LinearSVC(
            loss="hinge", solver="sgd", n_ranks=n_ranks, transport="local", max_iter=epochs, tol=0,
            batch_size=16 // n_ranks,
        )  # fmt: skip

    return {
        "SGDClassifier, hinge": lambda: SGDClassifier(
            alpha=1 / n_samples, max_iter=epochs, tol=None, random_state=0
        ),
        "LinearSVC, hinge, SGD, 1 rank": lambda: hinge(1),
        "LinearSVC, hinge, SGD, 2 ranks": lambda: hinge(2),
        "liblinear, log": lambda: Theirs(solver="liblinear"),
        "lbfgs of scikit-learn, log": Theirs,
        "LogisticRegression, L-BFGS, 1 rank": lambda: LogisticRegression(
            n_ranks=1, transport="local"
        ),
        "LogisticRegression, L-BFGS, 2 ranks": lambda: LogisticRegression(
            n_ranks=2, transport="local"
        ),
    }


def beside(name: str, epochs: int, turns: int) -> list[list]:
    """One line for each, the least seconds of several turns in turn."""
    (X, y), (held, held_y) = data.samples(name)
    found: dict[str, list[Fitted]] = {}
    for _ in range(turns + 1):  # the first one compiles
        for what, make in contestants(epochs, len(y)).items():
            begin = perf_counter()
            model = make().fit(X, y)
            seconds = perf_counter() - begin
            history = getattr(model, "history_", None)
            n_iter = int(np.max(model.n_iter_))
            each = seconds / n_iter if history is None else float(history["seconds"].median())
            found.setdefault(what, []).append((seconds, each, model))
    rows = []
    for what, fits in found.items():
        seconds, each = (min(fit[place] for fit in fits[1:]) for place in (0, 1))
        model = fits[-1][2]
        loss = _loss(model, X, y, "hinge" if "hinge" in what else "log")
        rows.append([name, what, seconds, each, loss, float(model.score(held, held_y))])
    return rows


def _loss(model: Any, X: Any, y: np.ndarray, kind: str) -> float:
    """Mean loss and penalty, of C = 1."""
    margins = (2 * y - 1) * model.decision_function(X)
    each = np.maximum(0, 1 - margins) if kind == "hinge" else np.logaddexp(0, -margins)
    return float(each.mean() + (model.coef_**2).sum() / (2 * len(y)))


def sums(n_features: int, n_samples: int, n_ranks: int = 4) -> list[list]:
    """Dense against sparse sums of batches of 1000 a rank, of power-law features."""
    random = np.random.default_rng(0)
    lengths = np.full(n_samples, 100)
    columns = (n_features * random.power(0.15, lengths.sum())).astype(np.int64)
    pointer = np.concatenate([[0], np.cumsum(lengths)])
    X = scipy.sparse.csr_matrix(
        (random.random(len(columns)), columns, pointer), shape=(n_samples, n_features)
    )
    X.sum_duplicates()
    y = random.integers(0, 2, n_samples)
    rows = []
    for name in ("dense", "auto"):
        model = LogisticRegression(
            solver="sgd", n_ranks=n_ranks, batch_size=1000, max_iter=3, tol=0, aggregation=name,
            transport="local",
        ).fit(X, y)  # fmt: skip
        n_steps = -(-n_samples // (1000 * n_ranks))
        last = model.history_.iloc[-1]
        rows.append([n_features, name, float(last["density"]), last["bytes"] / 1e6 / n_steps,
                     1e3 * float(model.history_["seconds"].min()) / n_steps])  # fmt: skip
    return rows


@click.command()
@click.option(
    "--data", "names", multiple=True, default=("a9a", "imdb-bow", "imdb-bigrams"), show_default=True
)
@click.option("--size", "sizes", multiple=True, type=int, default=(10**6, 10**7), show_default=True)
@click.option("--samples", default=12_000, show_default=True, help="Of the made data.")
@click.option("--epochs", default=5, show_default=True, help="Of SGD.")
@click.option("--turns", default=3, show_default=True)
@out_option
def main(
    names: tuple[str, ...], sizes: tuple[int, ...], samples: int, epochs: int, turns: int, out: Path
) -> None:
    """Write both tables."""
    origin = Origin.here()
    fits = [row for name in names for row in beside(name, epochs, turns)]
    added = [row for size in sizes for row in sums(size, samples)]
    body = (
        f"All with C = 1; SGD for {epochs} epochs, from Python, set-up included in the seconds of "
        f"the fit. Least of {turns} turns, one after the other in one run.\n\n"
        f"{markdown_table(COLUMNS, fits)}\n\n"
        "A step of SGD on 4 ranks of this process, a batch of 1000 a rank, 100 features a sample "
        "by a power law: all values of the gradients sent, or entries by the algorithm that the "
        f"ranks choose.\n\n{markdown_table(SUM_COLUMNS, added)}"
    )
    columns = ("data or features", "what", "one", "two", "three", "four")
    padded = [*fits, *([*row, ""] for row in added)]
    write_numbers(out, "linear_models", columns, padded, origin)
    write_section(out, "linear_models", "Linear models, beside scikit-learn", body, origin)


if __name__ == "__main__":
    main()
