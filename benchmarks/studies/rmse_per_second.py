"""RMSE over seconds on a cluster, simulated: HP-λ² synchronised often against RAND once an epoch.

RMSE after each epoch is that of the simulated run; the seconds of an epoch are those of the cost
model (`cost_model`), with the kernel's rate measured here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import click

from benchmarks import data
from benchmarks.sgd_kernel import SgdKernel
from daskpart.plots.canvas import RANK_COLOURS, quiet_frame

from .cost_model import SECONDS_A_BYTE, EpochSeconds, epoch_seconds
from .output import Origin, markdown_table, out_option, write_numbers, write_section
from .problem import make_partition, plan, problem, simulate

COLUMNS = (
    "alpha", "method", "eta", "epoch", "test_rmse", "seconds", "computing", "communicating",
)  # fmt: skip
COLOURS = [RANK_COLOURS[n] for n in (1, 4, 2, 0, 3, 5, 6)]


def kernel_rate(name: str, n_components: int) -> float:
    """Ratings a second of the AdaGrad kernel on one core of this machine, biases included."""
    suite, seconds = SgdKernel(), []
    suite.setup(name, n_components, "adagrad")
    for _ in range(5):
        begin = perf_counter()
        suite.time_pass(name, n_components, "adagrad")
        seconds.append(perf_counter() - begin)
    return data.ratings(name)[0].size / min(seconds)


Curve = tuple[str, int, list[float], dict[float, EpochSeconds]]


def curve(
    name: str, n_ranks: int, method: str, eta: int, n_epochs: int, n_components: int,
    updates_per_second: float, alphas: Sequence[float],
) -> Curve:  # fmt: skip
    """RMSE after each epoch, and the seconds of an epoch for each α."""
    fit_plan = plan(name, make_partition(problem(name).hypergraph, n_ranks, method), eta)
    errors = [
        float(row["validation_rmse"]) for row in simulate(name, fit_plan, n_epochs, n_components)
    ]
    seconds = {
        alpha: epoch_seconds(fit_plan, n_components, updates_per_second, alpha) for alpha in alphas
    }
    return method, eta, errors, seconds


def first_at_most(errors: Sequence[float], target: float) -> int | None:
    """Epochs until the RMSE is at most the target."""
    return next((n for n, error in enumerate(errors, 1) if error <= target), None)


def summary(curves: Sequence[Curve], alpha: float, targets: Sequence[float]) -> str:
    """Milliseconds of an epoch and to each target, a line a run."""
    rows: list[list[Any]] = []
    for method, eta, errors, of_alpha in curves:
        spent = of_alpha[alpha]
        reached = [first_at_most(errors, target) for target in targets]
        rows.append(
            [method, eta, f"{1e3 * spent.computing:.2f}", f"{1e3 * spent.communicating:.2f}"]
            + [f"{1e3 * n * spent.total:.1f} ({n})" if n else None for n in reached]
        )
    heads = [f"ms to RMSE {target} (epochs)" for target in targets]
    return markdown_table(("method", "η", "computing, ms", "messages, ms", *heads), rows)


def draw(curves: Sequence[Curve], alphas: Sequence[float], n_ranks: int, path: Path) -> None:
    """RMSE against modelled seconds, a panel for each α."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.8 * len(alphas), 3.6), layout="constrained")
    panels = figure.subplots(1, len(alphas), sharey=True, squeeze=False)[0]
    for axes, alpha in zip(panels, alphas, strict=True):
        for (method, eta, errors, of_alpha), colour in zip(curves, COLOURS * 9, strict=False):
            seconds = [1e3 * of_alpha[alpha].total * n for n in range(1, len(errors) + 1)]
            axes.plot(
                seconds, errors, color=colour, linewidth=1.6, marker="o",
                markersize=3, label=f"{method}, η = {eta}",
            )  # fmt: skip
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_xlabel("milliseconds of training, by the model")
        axes.set_title(f"α = {1e6 * alpha:g} µs a message", loc="left", fontsize=10)
        quiet_frame(axes)
    panels[0].set_ylabel(f"test RMSE, K = {n_ranks}")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def _words(name: str, n_ranks: int, epochs: int, components: int, rate: float, source: str) -> str:
    return (
        f"{name}, K = {n_ranks}, {components} components, {epochs} epochs, simulated: RMSE of 10 % "
        "held-out ratings after each epoch, against seconds by a model. An epoch costs, for each "
        "sub-epoch, the ratings of its fullest cell at "
        f"{rate / 1e6:.0f} M ratings a second and core ({source}), and then the reduce and the "
        "expand: a message of b bytes α + βb, a rank's messages one after another, sending and "
        f"receiving at once, the slowest rank counts; β = 1/({1e-9 / SECONDS_A_BYTE:g} GB/s). "
        "Nothing overlaps."
    )


@click.command()
@click.option("--data", "name", default="ml-1m", show_default=True)
@click.option("--ranks", "n_ranks", default=64, show_default=True)
@click.option(
    "--case", "cases", multiple=True, default=("RAND:1", "HP-λ²:1", "HP-λ²:4", "HP-λ²:32"),
    show_default=True, help="METHOD:η",
)  # fmt: skip
@click.option("--alpha", "alphas", multiple=True, type=float, default=(1e-6, 5e-6))
@click.option("--target", "targets", multiple=True, type=float, default=(0.9, 0.88, 0.86))
@click.option("--epochs", default=60, show_default=True)
@click.option("--components", default=32, show_default=True)
@click.option("--updates-per-second", type=float, help="Default: measured.")
@out_option
def main(
    name: str, n_ranks: int, cases: tuple[str, ...], alphas: tuple[float, ...],
    targets: tuple[float, ...], epochs: int, components: int, updates_per_second: float | None,
    out: Path,
) -> None:  # fmt: skip
    """Write the study of RMSE per second: rmse_per_second.md, .png and data/rmse_per_second.csv."""
    origin = Origin.here()
    rate = updates_per_second or kernel_rate(name, components)
    source = "given" if updates_per_second else "measured here"
    curves = []
    for case in cases:
        method, eta = case.rsplit(":", 1)
        curves.append(curve(name, n_ranks, method, int(eta), epochs, components, rate, alphas))
        click.echo(f"{case}: RMSE {curves[-1][2][-1]:.4f}")
    rows = [
        [alpha, method, eta, n, error, n * of_alpha[alpha].total, of_alpha[alpha].computing,
         of_alpha[alpha].communicating]
        for alpha in alphas for method, eta, errors, of_alpha in curves
        for n, error in enumerate(errors, 1)
    ]  # fmt: skip
    tables = [f"α = {1e6 * alpha:g} µs:\n\n{summary(curves, alpha, targets)}" for alpha in alphas]
    picture = "![RMSE against modelled seconds](rmse_per_second.png)"
    body = "\n\n".join([_words(name, n_ranks, epochs, components, rate, source), picture, *tables])
    draw(curves, alphas, n_ranks, out / "rmse_per_second.png")
    write_numbers(out, "rmse_per_second", COLUMNS, rows, origin)
    write_section(out, "rmse_per_second", "RMSE per second", body, origin)


if __name__ == "__main__":
    main()
