"""How near SGD and L-BFGS come to scikit-learn's optimum, and in how many epochs.

    optimum   LogisticRegression(solver="newton-cg", tol=1e-10) of scikit-learn, C = 1
    sgd       AdaGrad on one rank, by the settings of `SGD`: mean loss with the penalty above that
    lbfgs     the same, and the largest difference of a coefficient or an intercept

Two classes, and the ten digits by softmax; each also with weights of the samples between 0.2 and 2.

With an L1 term in place of the L2 term (OWL-QN) the optimum is that of liblinear (SAGA where there
are several classes) with a tolerance of 1e-8, without an intercept, as liblinear penalises it.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

import click
import numpy as np
from scipy.special import logsumexp

from benchmarks import data
from daskpart import LogisticRegression

from .output import Origin, markdown_table, out_option, write_numbers, write_section

COLUMNS = (
    "data", "loss", "solver", "epochs or iterations", "seconds", "loss above the optimum, %",
    "largest difference of a coefficient",
)  # fmt: skip
L1_COLUMNS = (
    "data", "loss", "tolerance", "iterations", "seconds", "loss above the optimum, %",
    "weights that are not 0", "of the optimum", "seconds of scikit-learn, 1e-4",
)  # fmt: skip
# many rare words: a first step is η0 long however rare the word is, so η0 is small; dense pixels
# with large batches bear more. `LogisticRegression` has 0.3 and batches of 128
SGD: dict[str, dict[str, Any]] = {
    "a9a": {"eta0": 0.3, "batch_size": 16, "max_iter": 50},
    "digits": {"eta0": 0.5, "batch_size": 16, "max_iter": 600},
    "imdb-bow": {"eta0": 0.1, "batch_size": 32, "max_iter": 300},
    "imdb-bigrams": {"eta0": 0.05, "batch_size": 32, "max_iter": 400, "average": False},
}
OURS = {"transport": "local", "n_ranks": 1}
ENOUGH = 0.1  # percent


def samples(name: str) -> tuple[Any, np.ndarray]:
    """Training samples and classes from 0."""
    if name != "digits":
        return data.samples(name)[0]
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return X / 16, y


def objective(
    model: Any, X: Any, y: np.ndarray, weight: np.ndarray, l1_ratio: float = 0.0
) -> float:
    """Mean of the weighted losses and the penalty of C = 1."""
    scores = X @ model.coef_.T + model.intercept_
    if scores.shape[1] == 1:
        each = np.logaddexp(0, -(2 * y - 1) * scores[:, 0])
    else:
        each = logsumexp(scores, axis=1) - scores[np.arange(len(y)), y]
    size, square = np.abs(model.coef_).sum(), (model.coef_**2).sum()
    penalty = l1_ratio * size + (1 - l1_ratio) / 2 * square
    return float(weight @ each + penalty) / float(weight.sum())


def lines_of(name: str, weighted: bool) -> list[list]:
    """The optimum, and what came near it."""
    from sklearn.linear_model import LogisticRegression as Theirs

    X, y = samples(name)
    X, weight = X.astype(np.float64), np.ones(len(y))
    if weighted:
        weight = np.random.default_rng(0).uniform(0.2, 2.0, len(y))
    loss = ("multinomial" if y.max() > 1 else "log") + (", weighted" if weighted else "")
    exact = Theirs(solver="newton-cg", tol=1e-10, max_iter=1000).fit(X, y, weight)
    best, rows = objective(exact, X, y, weight), []
    few = np.linspace(0, len(y) - 1, 200).astype(int)  # of all classes: some data are sorted
    for solver, options in (
        ("sgd", {"tol": 0, **SGD.get(name, {"max_iter": 20})}),
        ("lbfgs", {"tol": 1e-9, "max_iter": 10_000}),
    ):
        model = LogisticRegression(solver=solver, **OURS, **options)
        model.set_params(max_iter=1, tol=0).fit(X[few], y[few])  # compiles
        model.set_params(**options).fit(X, y, weight)
        apart = max(
            float(np.abs(getattr(model, each) - getattr(exact, each)).max())
            for each in ("coef_", "intercept_")
        )
        rows.append([
            name, loss, _described(solver, options), model.n_iter_,
            float(model.history_["seconds"].sum()),
            100 * (objective(model, X, y, weight) / best - 1),
            apart if solver == "lbfgs" else None,
        ])  # fmt: skip
    return rows


def l1_lines_of(name: str) -> list[list]:
    """The optimum of an L1 term, and L-BFGS at two tolerances."""
    from sklearn.linear_model import LogisticRegression as Theirs

    X, y = samples(name)
    X, weight = X.astype(np.float64), np.ones(len(y))
    several = y.max() > 1
    seconds = {}
    for tolerance in (1e-4, 1e-8):
        best = Theirs(
            solver="saga" if several else "liblinear", l1_ratio=1, fit_intercept=False,
            tol=tolerance, max_iter=20_000, random_state=0,
        )  # fmt: skip
        begin = perf_counter()
        best.fit(X, y)
        seconds[tolerance] = perf_counter() - begin
    least, rows = objective(best, X, y, weight, 1.0), []
    few = np.linspace(0, len(y) - 1, 200).astype(int)
    for tolerance in (1e-4, 1e-6):
        model = LogisticRegression(l1_ratio=1, fit_intercept=False, **OURS)
        model.set_params(max_iter=1, tol=0).fit(X[few], y[few])  # compiles
        model.set_params(max_iter=10_000, tol=tolerance).fit(X, y)
        rows.append([
            name, "multinomial" if several else "log", tolerance, model.n_iter_,
            float(model.history_["seconds"].sum()),
            100 * (objective(model, X, y, weight, 1.0) / least - 1),
            *(int(np.count_nonzero(each.coef_)) for each in (model, best)), seconds[1e-4],
        ])  # fmt: skip
    return rows


def _described(solver: str, options: dict[str, Any]) -> str:
    if solver == "lbfgs":
        return "L-BFGS"
    told = [
        f"{word} {options[key]}"
        for key, word in (("eta0", "η0"), ("batch_size", "batch"))
        if key in options
    ]
    kept = "last weights" if options.get("average") is False else "mean of the weights"
    return ", ".join(["AdaGrad", *told, kept])


@click.command()
@click.option("--data", "names", multiple=True, default=tuple(SGD), show_default=True)
@out_option
def main(names: tuple[str, ...], out: Path) -> None:
    """Write the table."""
    origin = Origin.here()
    rows: list[list] = []
    for name in names:
        for weighted in (False, True):
            rows += lines_of(name, weighted)
            for row in rows[-2:]:
                click.echo(", ".join(map(str, row)))
    of_l1: list[list] = []
    for name in names:
        of_l1 += l1_lines_of(name)
        for row in of_l1[-2:]:
            click.echo(", ".join(map(str, row)))
    body = (
        "The mean loss with the penalty of C = 1 above that of scikit-learn's LogisticRegression "
        "by newton-cg with a tolerance of 1e-10, which stands for the optimum; weights of the "
        "samples, where there are some, are drawn between 0.2 and 2. One rank in this process; "
        "seconds of the epochs alone. Asked are "
        f"{ENOUGH:g} % of SGD, and coefficients within 1e-4 of L-BFGS.\n\n"
        f"{markdown_table(COLUMNS, rows)}\n\n"
        "The rate of AdaGrad falls for each weight by its own gradients; `learning_rate` is "
        "constant. The first step of a weight is η0 long, however rare its word is: with many "
        "words that occur once or twice a large η0 begins with a large penalty, so theirs is "
        "smaller than the default of 0.3. Where weights still move all in one direction at the "
        "end, the last ones are nearer than a mean.\n\n"
        "With an L1 term in place of the L2 term, by L-BFGS that keeps to an orthant in each step "
        "(OWL-QN): above the optimum of scikit-learn (liblinear, SAGA for several classes) with a "
        "tolerance of 1e-8, without intercepts, as liblinear penalises them. liblinear goes "
        "through one weight after another and knows the curvature of each, which needs all "
        "samples in one place.\n\n"
        f"{markdown_table(L1_COLUMNS, of_l1)}"
    )
    write_numbers(out, "linear_optimum", COLUMNS, rows, origin)
    write_numbers(out, "linear_optimum_l1", L1_COLUMNS, of_l1, origin)
    write_section(out, "linear_optimum", "Linear models, to the optimum", body, origin)


if __name__ == "__main__":
    main()
