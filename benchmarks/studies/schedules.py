"""η-PASGD beside DSGD and GASGD: RMSE an epoch, a byte, and (asked for) a second.

One estimator runs all three, `MatrixFactorization(schedule=…)`, on the same ratings, components and
learning rate. RMSE and bytes are those of a simulated run, whose counters were held against the
plan; for more ranks there is the plan alone. Seconds are those of `fit` with ranks as threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import click

import daskpart
from daskpart.models.matrix_factorization.copies import hypergraph_of_nonzeros
from daskpart.models.matrix_factorization.pasgd import RowLayout
from daskpart.models.matrix_factorization.plan import MFPlan, plan_fit
from daskpart.partitions import Partition
from daskpart.plots.canvas import RANK_COLOURS, quiet_frame

from .output import Origin, markdown_table, out_option, write_numbers, write_section
from .problem import make_partition, problem, simulate

COLUMNS = ("n_ranks", "schedule", "cut", "eta", "epoch", "test_rmse", "bytes", "seconds")
PLANNED = (
    "K", "schedule", "cut", "η", "rows an epoch", "MB an epoch", "stale rows", "messages",
    "most ratings over the mean", "cells",
)  # fmt: skip


class Case(NamedTuple):
    """A schedule, how it is cut, and η (0: as many as ranks)."""

    schedule: str
    cut: str
    eta: int

    @property
    def words(self) -> str:
        """Its name in tables."""
        name = {"pasgd": "η-PASGD", "dsgd": "DSGD", "gasgd": "GASGD"}[self.schedule]
        return name if self.schedule == "dsgd" else f"{name}, η = {self.eta or 'K'}, {self.cut}"


CASES = (
    Case("pasgd", "HP-λ²", 0),
    Case("pasgd", "HP-λ²", 4),
    Case("pasgd", "HP-λ²", 1),
    Case("pasgd", "RAND", 1),
    Case("dsgd", "RAND", 0),
    Case("gasgd", "Parsa", 1),
    Case("gasgd", "Parsa", 0),
)


@cache
def cut(name: str, method: str, n_ranks: int) -> Partition:
    """A cut of the users, or of single ratings."""
    if method == "Parsa":
        grains = hypergraph_of_nonzeros(problem(name).train)
        return daskpart.partition(grains, n_ranks, method="parsa")
    return make_partition(problem(name).hypergraph, n_ranks, method)


def plan_of(name: str, case: Case, n_ranks: int, n_components: int) -> MFPlan:
    """What a fit of the training part would do."""
    return plan_fit(
        problem(name).train,
        n_ranks,
        schedule=case.schedule,
        eta=min(case.eta or n_ranks, n_ranks),
        partitioner=cut(name, case.cut, n_ranks),
        axis="rows",
        averaging="mean",
        layout=RowLayout(n_components, biases=True, gradients=True),
        random_state=0,
    )


def seconds_an_epoch(name: str, case: Case, plan: MFPlan, turns: int) -> float:
    """Of the fastest of some fits, ranks as threads of this process."""
    found = []
    for _ in range(turns):
        model = daskpart.MatrixFactorization(
            plan.layout.n_components, n_ranks=plan.n_ranks, schedule=case.schedule, eta=plan.eta,
            partitioner=plan.shards.partition, max_iter=5, transport="local",
        ).fit(problem(name).train)  # fmt: skip
        found.append(float(model.history_["seconds"].iloc[1:].mean()))
    return min(found)


def planned_row(case: Case, plan: MFPlan) -> list[Any]:
    """A plan in numbers."""
    report = plan.report()
    return [
        plan.n_ranks, case.words.split(",")[0], "" if case.schedule == "dsgd" else case.cut,
        plan.eta, report.volume, f"{report.bytes_per_epoch / 1e6:.2f}", report.staleness,
        report.messages, f"{report.imbalance:.1%}", f"{report.cell_imbalance:.1%}",
    ]  # fmt: skip


def trained_table(rows: Sequence[Sequence[Any]], n_ranks: int) -> str:
    """RMSE after some epochs, MB and seconds to the best that all reach, a line a case."""
    curves: dict[tuple[str, str, int], list[Sequence[Any]]] = {}
    for row in rows:
        if row[0] == n_ranks:
            curves.setdefault((row[1], row[2], row[3]), []).append(row)
    target = max(min(row[5] for row in curve) for curve in curves.values())
    lines = []
    for (schedule, cut, eta), curve in curves.items():
        first = next(row for row in curve if row[5] <= target)
        line = [schedule, cut, eta, *(f"{curve[n - 1][5]:.4f}" for n in _shown(curve))]
        lines.append([*line, first[4], f"{first[4] * first[6] / 1e6:.1f}"])
        if first[7]:
            lines[-1].append(f"{first[4] * first[7]:.2f}")
    heads = ["schedule", "cut", "η", *(f"epoch {n}" for n in _shown(curve))]
    heads += [f"epochs to {target:.4f}", "MB to it"] + ["s to it"] * (len(lines[0]) > 8)
    return f"K = {n_ranks}:\n\n{markdown_table(heads, lines)}"


def _shown(curve: Sequence[Any]) -> tuple[int, ...]:
    """The epochs whose RMSE a table has."""
    return 1, min(5, len(curve)), len(curve)


def draw(rows: Sequence[Sequence[Any]], ranks: Sequence[int], path: Path) -> None:
    """RMSE against epochs and against bytes, a line of panels for each K."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.2, 3.2 * len(ranks)), layout="constrained")
    panels = figure.subplots(len(ranks), 2, sharey=True, squeeze=False)
    colours = [RANK_COLOURS[n] for n in (1, 4, 2, 0, 3, 5, 6)]
    for line, n_ranks in zip(panels, ranks, strict=True):
        for case, colour in zip(CASES, colours, strict=True):
            eta = min(case.eta or n_ranks, n_ranks)
            curve = [r for r in rows if (r[0], r[1], r[2], r[3]) == (n_ranks, *_key(case, eta))]
            if not curve or (case.eta and case.eta == n_ranks):  # drawn as η = K
                continue
            errors = [row[5] for row in curve]
            style = {"color": colour, "linewidth": 1.6, "marker": "o", "markersize": 3}
            line[0].plot([row[4] for row in curve], errors, label=case.words, **style)
            line[1].plot([row[4] * row[6] / 1e6 for row in curve], errors, **style)
        line[0].set_ylabel(f"test RMSE, K = {n_ranks}")
        line[1].set_xscale("log")
        line[1].xaxis.set_major_formatter("{x:g}")
        for axes, words in zip(line, ("epochs", "MB sent"), strict=True):
            axes.set_xlabel(words)
            quiet_frame(axes)
    handles, labels = panels[-1][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def _key(case: Case, eta: int) -> tuple[str, str, int]:
    return case.words.split(",")[0], "" if case.schedule == "dsgd" else case.cut, eta


@click.command()
@click.option("--data", "name", default="ml-1m", show_default=True)
@click.option("--ranks", multiple=True, type=int, default=(4, 8), show_default=True)
@click.option("--planned", multiple=True, type=int, default=(64,), show_default=True)
@click.option("--epochs", default=20, show_default=True)
@click.option("--components", default=32, show_default=True)
@click.option("--turns", default=0, show_default=True, help="Of timed fits; 0: no seconds.")
@out_option
def main(
    name: str, ranks: tuple[int, ...], planned: tuple[int, ...], epochs: int, components: int,
    turns: int, out: Path,
) -> None:  # fmt: skip
    """Write the study: schedules.md, .png and data/schedules.csv."""
    origin, rows, plans = Origin.here(), [], []
    for n_ranks in (*ranks, *planned):
        for case in CASES:
            if case.eta > 1 and case.eta >= n_ranks:  # is the case of η = K
                continue
            plan = plan_of(name, case, n_ranks, components)
            plans.append(planned_row(case, plan))
            click.echo(plans[-1])
            if n_ranks not in ranks:
                continue
            seconds = seconds_an_epoch(name, case, plan, turns) if turns else 0.0
            sent = plan.expected().nbytes
            rows += [
                [n_ranks, *_key(case, plan.eta), n, float(row["validation_rmse"]), sent, seconds]
                for n, row in enumerate(simulate(name, plan, epochs, components), 1)
            ]
            click.echo(f"RMSE {rows[-1][5]:.4f}")
    draw(rows, ranks, out / "schedules.png")
    body = "\n\n".join(
        [
            f"{name}, {components} components, {epochs} epochs, AdaGrad as by default; RMSE of "
            "10 % held-out ratings. What was sent was counted and equals the plan. DSGD passes "
            "whole item blocks on; GASGD cuts single ratings (here by Parsa over the fine-grain "
            "hypergraph) and averages rows of users and items. "
            "Cells: the ratings that ranks wait for at the ends of sub-epochs, over the mean.",
            "![RMSE against epochs and bytes](schedules.png)",
            *(trained_table(rows, n_ranks) for n_ranks in ranks),
            f"By plan:\n\n{markdown_table(PLANNED, plans)}",
        ]
    )
    write_numbers(out, "schedules", COLUMNS, rows, origin)
    write_section(out, "schedules", "η-PASGD, DSGD and GASGD", body, origin)


if __name__ == "__main__":
    main()
