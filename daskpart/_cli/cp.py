"""What `daskpart fit cp` adds to the driver: names of modes, and the section on components."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import click
import numpy as np
import pandas as pd

from daskpart._floor.largest import largest
from daskpart.partitions import Partition

from .inputs import TENSORS, in_words, load_tensor
from .model import Data, Fit, Model
from .options import format_of

_BESIDE = 3  # modes in a row of pictures
_TOLD, _DRAWN, _TOP = 3, 4, 5  # components told and drawn; indices of each mode
# of entries that were held out
_ERRORS = {
    "squared": "RMSE",
    "poisson": "half of the mean Poisson deviance",
    "logistic": "log loss",
}
_HELD_OUT = ("validation_rmse", "validation_loss")


class _CP(Model):
    """Decompose TENSOR into components: what goes together along all of its modes.

    TENSOR is a file of indices and a value a line (FROSTT .tns; also .gz, .xz, .bz2), a matrix
    (Matrix Market, .npz), which has two modes, or a table with a header (CSV, Parquet), a column of
    labels for each mode and one of values.

    \b
    Columns by name:       daskpart fit cp trips.csv --names from,to,day --value trips

    With --names and --labels the components are told and drawn by their names.
    """

    estimator = "CPDecomposition"
    example = "X.tns"
    argument = "TENSOR"
    options = (
        format_of(TENSORS),
        click.Option(["--names"], metavar="A,B,…",
                     help="Names of the modes, in order; of a table, its columns that are modes."),
        click.Option(["--value"], metavar="NAME", help="Column of a table that has the values."),
        click.Option(["--zero-based"], is_flag=True,
                     help="Indices of a .tns file begin at 0; else at 1, but for modes with a 0."),
        click.Option(["--labels"], metavar="MODE=FILE", multiple=True,
                     help="Names of the indices of a mode, one a line; may be repeated."),
    )  # fmt: skip
    words: ClassVar[dict[str, str]] = {
        "partitioner": 'How nonzeros are cut. "auto" weighs the seconds that a cut saves over the '
        'fit against those of cutting: in one process it takes "block", else also "hypercube" for '
        'embedded methods where K is a power of two, or "medium-grain". "block", "random", '
        '"fine-grain", "medium-grain", "hypercube", "hypercube-fine-grain"; or arguments of '
        "daskpart.partition, such as model=fine-grain,epsilon=0.1; or a file that 'daskpart "
        "partition' wrote, with one part a rank.",
        "loss": 'What is minimised: the squared error; or "poisson", for counts: the Poisson '
        "deviance over factors of 0 or above, by multiplicative updates (CP-APR), which need more "
        'iterations; or "logistic", for entries of yes and no, 1 and 0, with --missing unknown.',
        "nonnegative": "Keep every factor at 0 or above (HALS).",
        "ridge": "Added to the diagonal of each system of normal equations. With --missing unknown "
        "it is small where it is far below the share of cells that are stored.",
        "init": "Factors to begin from: uniform in [0, 1), or leading singular vectors of each "
        "unfolding.",
    }
    template = "cp.html"

    def load(self, source: str, given: dict[str, Any]) -> Data:
        """Read, and name modes and indices."""
        how = ("names", "labels", "missing", "value", "zero_based")
        options = {name: given[name] for name in how}
        tensor = load_tensor(source, given["format"], **options)
        return Data(tensor, [in_words(tensor, source)])

    def judge(self, fit: Fit) -> dict[str, Any]:
        """The fit and the weights; the error on entries that were held out."""
        weights = fit.model.weights_.to_numpy().tolist()
        return {"fit": fit.model.fit_, "weights": weights, **_held_out(fit)}

    def told(self, fit: Fit) -> list[str]:
        """The fit, and the heaviest components by their strongest indices."""
        table, lines = _components(fit), [f"fit {fit.model.fit_:.6f}"]
        if fit.model.missing == "unknown":
            lines[0] += " over the stored entries; what is not stored counts as unknown"
        if fit.model.loss == "poisson":
            lines[0] += ", the share of the Poisson deviance that is explained"
        if fit.model.loss == "logistic":
            lines.append("the fit is the share of the deviance that is explained")
        for error in _held_out(fit).values():
            lines.append(f"{_ERRORS[fit.model.loss]} {error:.6g} on entries that were held out")
        for component in _order(fit)[:_TOLD]:
            modes = table[table["component"] == component].groupby("mode", sort=False)["index"]
            told = "; ".join(f"{mode}: {', '.join(indices)}" for mode, indices in modes)
            weight = float(fit.model.weights_[component])
            lines.append(f"component {component}, weight {weight:,.4g}: {told}")
        return [*lines, *_counted(fit)]

    def partition(self, fit: Fit) -> Partition | None:
        """Of single nonzeros, whatever was cut; None where some were held out and have no rank."""
        X, plan = fit.data.X, fit.plan
        if plan.parts is None or len(plan.parts) != X.nnz:
            return None
        info = {"method": plan.partitioner, "model": "fine-grain", "shape": X.shape, "nnz": X.nnz}
        return Partition(plan.parts, plan.n_ranks, info=info)

    def tables(self, fit: Fit) -> dict[str, tuple[pd.DataFrame, str]]:
        """The strongest indices."""
        words = "; ".join(["the strongest indices of each component and mode", *_counted(fit)])
        return {"components.csv": (_components(fit), words)}

    def draw(self, fit: Fit, album: Any) -> None:
        """The fit, what was held out beside it, and the loadings of the heaviest components."""
        from daskpart import plots

        history, factors = fit.model.history_, fit.model.factors_
        measure = next((name for name in _HELD_OUT if name in history), None)
        if measure is None:
            words = "The fit over iterations, and over the time spent in them."
            album.draw_training(plots.fit_history, history, "The fit rising", words)
        else:
            words = "The fit, and what was measured on held-out entries, over iterations."
            album.draw_held_out(
                plots.fit_history, history, measure, measure.replace("_", " "), words
            )
        for component in _order(fit)[:_DRAWN]:
            album.draw(
                f"component_{component}",
                (3.8 * min(len(factors), _BESIDE), 3.2 * -(-len(factors) // _BESIDE)),
                *(partial(plots.loadings, factor, component) for factor in factors),
                alt=f"Largest loadings of component {component} along each mode",
                caption="Blue is positive, orange negative.",
                columns=min(len(factors), _BESIDE),
            )

    def page(self, fit: Fit) -> dict[str, Any]:
        """Key numbers and components."""
        report, weights = fit.plan.report(), fit.model.weights_.to_numpy()
        return {
            "numbers": {
                "fit": fit.model.fit_,
                "components": len(weights),
                **_held_out(fit),
                "messages_of_a_rank": report.messages_max,
                # with what rides along, as the rows that are counted
                "rows_moved_an_iteration": int(fit.plan.expected().rows.sum()),
            },
            "drawn": [(component, float(weights[component])) for component in _order(fit)[:_DRAWN]],
            "components": _components(fit),
            "stored_alone": fit.model.missing == "unknown",
            "loss": fit.model.loss,
        }


def _held_out(fit: Fit) -> dict[str, float]:
    """The error on held-out entries, where there are some."""
    return {name: float(fit.row[name]) for name in _HELD_OUT if name in fit.row}


def _order(fit: Fit) -> list[int]:
    """Components by falling weight."""
    return np.argsort(-fit.model.weights_.to_numpy(), kind="stable").tolist()


def _counted(fit: Fit) -> list[str]:
    """How modes without labels are numbered: those of a .tns file begin at 1 as a rule."""
    bare = [str(each.dims[0]) for each in fit.model.factors_ if each.dims[0] not in each.coords]
    return [f"indices of {', '.join(bare)} are counted from 0"] if bare else []


def _components(fit: Fit) -> pd.DataFrame:
    """One row for each component, mode and strong index."""
    rows, factors = [], fit.model.factors_
    for component in _order(fit):
        for factor in factors:
            dim = str(factor.dims[0])
            values = factor.to_numpy()[:, component]
            strong = largest(values, _TOP)
            labels = factor.get_index(dim)[strong].astype(str)  # of dates without 00:00:00
            weight = float(fit.model.weights_[component])
            for label, value in zip(labels, values[strong].tolist(), strict=True):
                rows.append([component, weight, dim, label, value])
    return pd.DataFrame(rows, columns=["component", "weight", "mode", "index", "loading"])


MODEL = _CP()
