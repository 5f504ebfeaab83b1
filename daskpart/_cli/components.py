"""What `daskpart fit cp` leaves behind: the model, tables, pictures, one page."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from daskpart import plots
from daskpart.containers.tensor import LabelledTensor
from daskpart.report import Report, versions

from .album import Album
from .cut import write_json
from .last_steps import describe_steps
from .tensors import tensor_in_words
from .traffic import describe_traffic

_TOLD, _DRAWN, _TOP = 3, 4, 5  # components told and drawn; indices of each mode
_ENDINGS = {
    "done": "All iterations were done.",
    "converged": "It stopped when an iteration changed the fit by less than the tolerance.",
    "interrupted": "It was interrupted: this is a whole iteration that was kept before.",
    "failed": "Workers were lost: this is a whole iteration that was kept before.",
    "diverged": "It diverged: this is the last finite state. Add a ridge, or scale the tensor.",
}


@dataclass(frozen=True)
class CPOutcome:
    """A decomposition that ended, one way or another.

    Attributes
    ----------
    model : CPDecomposition
        With the factors of a whole iteration.
    tensor : LabelledTensor
    plan : CPPlanReport
    ended : str
        "done", "converged", "interrupted", "diverged" or "failed".
    seconds : float
        Time of the fit.
    timeline : Timeline or None
        Of the last iterations, where they were recorded.
    """

    model: Any
    tensor: LabelledTensor
    plan: Any
    ended: str
    seconds: float
    timeline: Any = None

    @property
    def order(self) -> list[int]:
        """Components by falling weight."""
        return np.argsort(-self.model.weights_.to_numpy(), kind="stable").tolist()

    def strongest(self, component: int) -> Iterator[tuple[str, list[tuple[str, float]]]]:
        """For each mode its name, and the indices with the largest loadings."""
        for factor in self.model.factors_:
            dim = str(factor.dims[0])
            values = factor.to_numpy()[:, component]
            places = np.argsort(-np.abs(values), kind="stable")[:_TOP]
            labels = factor[dim].to_numpy() if dim in factor.coords else None
            yield (
                dim,
                [
                    (str(place if labels is None else labels[place]), float(values[place]))
                    for place in places.tolist()
                ],
            )

    def components_in_words(self) -> list[str]:
        """The heaviest components, a line for each mode."""
        lines = []
        for component in self.order[:_TOLD]:
            weight = float(self.model.weights_[component])
            lines.append(f"component {component}, weight {weight:,.4g}")
            for dim, strongest in self.strongest(component):
                lines.append(f"  {dim}: {', '.join(label for label, _ in strongest)}")
        return lines

    def table(self) -> list[list[Any]]:
        """One row for each component, mode and strong index."""
        return [
            [component, float(self.model.weights_[component]), dim, label, loading]
            for component in self.order
            for dim, strongest in self.strongest(component)
            for label, loading in strongest
        ]


def write_all(
    outcome: CPOutcome, settings: dict[str, Any], out: Path, model_format: str, pictures: bool
) -> list[tuple[Path, str]]:
    """Write every result to the folder `out`; returns each file and what it is."""
    import pandas as pd

    out.mkdir(parents=True, exist_ok=True)
    model = outcome.model
    model.save(out / "model")
    files = [(out / "model", "the model: daskpart.CPDecomposition.load")]
    if model_format == "zarr":
        model.state_.save(out / "factors.zarr")
        files.append((out / "factors.zarr", "its weights and factors, for zarr tools"))
    columns = ["component", "weight", "mode", "index", "loading"]
    pd.DataFrame(outcome.table(), columns=columns).to_csv(out / "components.csv", index=False)
    model.history_.to_csv(out / "history.csv", index=False)
    write_json(out / "metrics.json", _metrics(outcome, settings))
    page, album = _page(outcome, settings, out, pictures)
    return [
        *files,
        (out / "components.csv", "the strongest indices of each component and mode"),
        (out / "history.csv", "one line an iteration"),
        (out / "metrics.json", "all numbers"),
        *((picture, "picture") for picture in album.files),
        (page.write(out / "report.html"), "all of it on one page: open in a browser"),
    ]


def _metrics(outcome: CPOutcome, settings: dict[str, Any]) -> dict[str, Any]:
    return {
        "fit": outcome.model.fit_,
        "ended": outcome.ended,
        "iterations": outcome.model.n_iter_,
        "fit_seconds": outcome.seconds,
        "weights": outcome.model.weights_.to_numpy().tolist(),
        "plan": outcome.plan.to_dict(),
        "communication": outcome.model.comm_report_.to_dict(),
        "settings": settings,
        "versions": versions(),
    }


def _page(
    outcome: CPOutcome, settings: dict[str, Any], out: Path, pictures: bool
) -> tuple[Report, Album]:
    model = outcome.model
    page = Report(
        f"CP decomposition of {Path(settings['tensor']).name}",
        tensor_in_words(outcome.tensor, "decomposed"),
    )
    album = Album(out, page, pictures)
    page.numbers(
        fit=model.fit_,
        components=len(model.weights_),
        iterations=model.n_iter_,
        ranks=outcome.plan.n_ranks,
        messages_of_a_rank=outcome.plan.messages_max,
        rows_moved_an_iteration=outcome.plan.volume,
    )
    _describe_fit(page, album, outcome)
    _describe_components(page, album, outcome)
    _describe_communication(page, album, outcome)
    page.section("Use the model")
    page.code(
        "from daskpart import CPDecomposition\n\n"
        f"model = CPDecomposition.load({str((out / 'model').resolve())!r})\n"
        "model.weights_, model.factors_\n"
        "model.to_dataset()"
    )
    page.section("Settings")
    page.code("daskpart " + " ".join(sys.argv[1:]))
    page.table(settings)
    page.section("Versions")
    page.table(versions())
    return page, album


def _describe_fit(page: Report, album: Album, outcome: CPOutcome) -> None:
    history = outcome.model.history_
    page.section("Fit")
    page.text(
        f"{outcome.model.n_iter_} iterations in {outcome.seconds:.1f} s. "
        f"{_ENDINGS[outcome.ended]} The fit is 1 − ‖X − X̂‖ / ‖X‖: 1 is exact, 0 no better than "
        "zeros."
    )
    album.draw(
        "fit",
        (9.4, 3.4),
        partial(plots.fit_history, history),
        partial(plots.fit_history, history, "seconds"),
        alt="The fit rising over iterations and over seconds",
        caption="The fit over iterations, and over the time spent in them.",
    )
    page.frame(history, fold=f"All {len(history)} iterations")


def _describe_components(page: Report, album: Album, outcome: CPOutcome) -> None:
    page.section("Components")
    page.text("The heaviest components, and the indices of each mode that they are made of.")
    factors = outcome.model.factors_
    for component in outcome.order[:_DRAWN]:
        weight = float(outcome.model.weights_[component])
        page.subheading(f"Component {component}, weight {weight:,.4g}")
        album.draw(
            f"component_{component}",
            (3.8 * len(factors), 3.2),
            *(partial(plots.loadings, factor, component) for factor in factors),
            alt=f"Largest loadings of component {component} along each mode",
            caption="Blue is positive, orange negative.",
        )
    header = ["component", "weight", "mode", "index", "loading"]
    page.grid(header, outcome.table(), fold=f"All {len(outcome.model.weights_)} components")


def _describe_communication(page: Report, album: Album, outcome: CPOutcome) -> None:
    measured = outcome.model.comm_report_
    page.section("Communication")
    page.text(
        "Counted from the messages, beside what was planned. "
        + ("All as planned." if measured.matches else "What was measured differs.")
    )
    describe_traffic(album, measured, len(outcome.model.weights_), "iteration")
    describe_steps(album, outcome.timeline, "iteration")
    page.subheading("The plan")
    page.table(outcome.plan.rows())
    page.subheading("The run")
    page.table(measured.rows())
