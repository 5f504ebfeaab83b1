"""What `daskpart fit linear` adds to the driver, and what the classifiers share with it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import click
import numpy as np
import pandas as pd

from daskpart._floor.distinct import distinct
from daskpart._floor.largest import largest
from daskpart._floor.words import counted
from daskpart.errors import InputError

from .classes import as_words
from .model import Data, Fit, Model
from .options import SHARE, choice, number, refuse
from .samples import READERS, SampleSet, check_samples, hold_out, read_samples
from .tables import read_names

# those of a libsvm file begin at 1 as a rule, and the columns of coef_ at 0
_COUNTED = "features are counted from 0"
_TOP = 10  # coefficients of each output
_DRAWN = 4  # outputs
_BESIDE = 2  # in a row of pictures
OF_SGD = ("batch_size", "optimizer", "learning_rate", "eta0", "power_t", "average", "shuffle")
_PAIRS = (
    "SAMPLES is a libsvm file, a {} and index:value pairs a line, or with --label a table{}, as "
    ".csv or .parquet (libsvm and .csv also .gz, .xz, .bz2){}."
)
SAMPLES = _PAIRS.format("target", " of numbers", "")
_WITH_CLASSES = _PAIRS.format(
    "label", "", ", whose features are numbers. Labels are whole numbers, -1 and +1 or any others, "
    "or in a table text",
)  # fmt: skip
_READ = (
    "This process reads the file and hands its rows to the ranks; where the file is too large for "
    "its memory, each rank reads a part (--read)."
)
_RANKS = 2 ** np.arange(8)  # for which the density of a sum is told


class SampleModel(Model):
    """Reads samples, holds some out, tells and draws coefficients."""

    argument = "SAMPLES"
    classifies = False
    score = "R²"  # of a regression; classifiers have an accuracy
    options: Sequence[click.Option] = (
        number("--test-fraction", 0.1, "Share of the samples held out to judge by.", SHARE),
        click.Option(["--test"], metavar="FILE", help="Samples to judge by, instead of a share."),
        click.Option(
            ["--label"],
            metavar="COLUMN",
            help="Of a table: name, or place from 0, of the column that is to be learnt.",
        ),
        click.Option(["--names"], metavar="FILE", help="Names of the features, one a line."),
        choice(
            "--read",
            READERS,
            "auto",
            "Who reads SAMPLES: this process, which hands rows out ('here'); or each rank its own "
            "part, so that a file may be larger than memory ('ranks': it is gone through again for "
            "each share that is held out). 'auto': the ranks, where the file would take more "
            "than a quarter of the memory here.",
        ),
    )
    words: ClassVar[dict[str, str]] = {
        "validation_fraction": "Share of the samples that are not held out to judge by, to measure "
        "the loss on after each epoch, as --patience needs.",
        "patience": "Stop after so many epochs without a lower loss on what --validation-fraction "
        "holds out; the model then has the weights of the epoch with the lowest.",
    }
    template = "linear.html"
    names: np.ndarray | None = None

    @property
    def data(self) -> str:  # type: ignore[override]
        """Samples with classes, or with targets."""
        return f"{_WITH_CLASSES if self.classifies else SAMPLES}\n\n{_READ}"

    def check(self, source: str, given: dict[str, Any], estimator: Any) -> None:
        """Refuse what is of another kind of file, solver, loss or learning rate."""
        check_samples(source, given)
        solver, rate = estimator.solver, estimator._learning_rate
        if solver != "sgd":
            refuse(OF_SGD, f"--solver {solver} goes through all samples in each step")
        elif rate == "optimal":
            refuse(("eta0",), "--learning-rate optimal finds its own beginning")
        if rate != "invscaling":
            refuse(("power_t",), "it is of --learning-rate invscaling")
        if solver == "server":
            refuse(("aggregation",), "--solver server adds nothing up")
        elif hasattr(estimator, "n_blocks"):
            refuse(("n_blocks",), "it is of --solver server")
        if getattr(estimator, "loss", None) != "huber":
            refuse(("epsilon",), "it is of --loss huber")

    def load(self, source: str, given: dict[str, Any]) -> Data:
        """Read or survey, name features, hold out."""
        train, test, names = read_samples(source, given["test"], given["label"], given["read"])
        n_features = train.X.shape[1]
        if not n_features:
            raise InputError(f"{source}: there is no feature in it, nothing to learn from")
        for path, samples in ((source, train), (given["test"], test)):
            if samples is not None and samples.y is not None:
                self._check_labels(path, samples.y)
        how = "" if train.y is not None else "; each rank reads its own part"
        sizes = f"{counted(train.size, 'sample')} of {counted(n_features, 'feature')}"
        words = [f"{source}: {sizes}, {counted(train.X.nnz, 'value')}{how}"]
        if self.classifies:
            told = ", ".join(
                f"{as_words(label)}: {n:,}"
                for label, n in zip(*(each.tolist() for each in train.counts()), strict=True)
            )
            words.append(f"samples of each class: {told}")
        if test is None:
            train, test = hold_out(train, given)
        n_held, held = int(train.size * given["validation_fraction"]), []
        if n_held:  # which the fit draws, those of a file by chance
            held.append(f"{n_held:,} held out to measure the loss on after each epoch")
        if test is not None:
            held.append(f"{test.size:,} held out to judge by")
        if held:
            about = "about " if n_held and train.y is None else ""
            words.append(", ".join([f"{about}{train.size - n_held:,} to learn from", *held]))
        if given["names"] is not None:
            needed = f"the samples have {counted(n_features, 'feature')}"
            names = read_names(given["names"], n_features, needed)
        self.names = names
        return Data(train.X, words, test, {"y": train.y})

    def _check_labels(self, source: str, y: Any) -> None:
        if y.dtype.kind == "U" and not self.classifies:
            raise InputError(
                f"{source}: sample 1 has the label {str(y[0])!r}: a line is fitted to numbers; for "
                "classes use 'daskpart fit logistic'"
            )
        if y.dtype.kind in "Ub" or not self.classifies:
            return
        if (y != np.round(y)).any():
            at = int(np.argmax(y != np.round(y)))
            raise InputError(
                f"{source}: sample {at + 1} has the label {y[at]:g}: classes are whole numbers, "
                "such as -1 and +1; for real targets use 'daskpart fit linear'"
            )

    def judge(self, fit: Fit) -> dict[str, Any]:
        """Loss, score, features that ranks share, coefficients that are not 0."""
        model = fit.model
        found: dict[str, Any] = {}
        if fit.data.more["y"] is not None:  # rows are here to be looked at
            X = _learnt_from(fit)
            found |= _shared(X, fit.plan)
            if model.solver == "sgd":
                found["density_over_ranks"] = _densities(X, model.batch_size)
        found["train_loss"] = float(fit.row["loss"])
        found["nonzero_coefficients"] = int(np.count_nonzero(model.coef_))
        if fit.data.test is not None:
            found["test_score"] = float(model.score(*fit.data.test))
            found["n_test"] = fit.data.test.size
        return found

    def told(self, fit: Fit) -> list[str]:
        """The judgement as sentences."""
        found, score = fit.judgement, "accuracy" if self.classifies else self.score
        lines = [f"training loss {found['train_loss']:.6g}"]
        if "test_score" in found:
            lines.append(
                f"{score} {found['test_score']:.4f} on {found['n_test']:,} held-out samples; "
                + self._beside(fit.data.test)
            )
        if "shared_features" in found:
            lines.append(
                f"a rank touches {found['features_of_a_rank']:,.0f} features on average; "
                f"{found['shared_features']:,} of {found['touched_features']:,} are touched by "
                "more than one rank"
            )
        density = fit.model.history_.get("density")
        if density is not None and density.notna().any():
            lines.append(
                f"the sum of the gradients of a step has entries for {density.mean():.2%} of all "
                "coefficients"
            )
        over = found.get("density_over_ranks", {})
        if len(over) > 1:
            told = ", ".join(f"{ranks}: {share:.2%}" for ranks, share in over.items())
            lines.append(f"features that occur in a batch of each rank, by number of ranks: {told}")
        return lines

    def _beside(self, test: SampleSet) -> str:
        """What a model that looks at no feature would reach."""
        if not self.classifies:
            return "answering their mean every time gives 0"
        _, counts = test.counts()
        return f"the most frequent class makes up {counts.max() / counts.sum():.1%}"

    def tables(self, fit: Fit) -> dict[str, tuple[pd.DataFrame, str]]:
        """The largest coefficients."""
        words = f"the largest coefficients{f'; {_COUNTED}' if self.names is None else ''}"
        return {"coefficients.csv": (_coefficients(fit, self.names), words)}

    def draw(self, fit: Fit, album: Any) -> None:
        """The loss over time, and the largest coefficients."""
        from daskpart import plots
        from daskpart.plots.canvas import shortened

        album.draw_training(
            plots.loss_history,
            fit.model.history_,
            "The loss falling",
            "The loss over epochs (iterations of L-BFGS), and over the time spent in them. Of SGD "
            "each sample is measured before its own step.",
        )
        over = fit.judgement.get("density_over_ranks", {})
        if len(over) > 1:
            album.draw(
                "density",
                (4.4, 3.6),
                partial(_draw_densities, over),
                alt="Features in a batch, over ranks",
                caption="The share of all features that occur in a batch, by the number of ranks "
                "that each take one: as dense as that is the sum of a step at most.",
            )
        outputs = _by_output(fit.model)
        shown, n_outputs = outputs[:_DRAWN], len(outputs)
        names = shortened(output for output, _ in shown)
        titles = [f"output {name}" for name in names] if n_outputs > 1 else [""]
        of = "each output" if n_outputs <= _DRAWN else f"{_DRAWN} of {n_outputs} outputs"
        album.draw(
            "coefficients",
            (4.4 * _BESIDE, 3.6 * -(-len(shown) // _BESIDE)),
            *(
                partial(_draw_largest, values, self.names, title)
                for title, (_, values) in zip(titles, shown, strict=True)
            ),
            alt="The largest coefficients",
            caption=f"The largest coefficients of {of}. Blue is positive, orange negative.",
            columns=min(_BESIDE, len(shown)),
        )

    def page(self, fit: Fit) -> dict[str, Any]:
        """Key numbers and coefficients."""
        found = fit.judgement
        name = f"test_{'accuracy' if self.classifies else self.score}"
        keys = {
            name: "test_score",
            "training_loss": "train_loss",
            "nonzero_coefficients": "nonzero_coefficients",
            "features_that_ranks_share": "shared_features",
        }
        return {
            "numbers": {words: found[key] for words, key in keys.items() if key in found},
            "coefficients": _coefficients(fit, self.names),
            "counted": _COUNTED if self.names is None else "",
        }


class _Linear(SampleModel):
    """Fit a line to SAMPLES: a number for each sample from its features."""

    estimator = "LinearRegression"
    example = "X.libsvm"


MODEL: Model = _Linear()


def _learnt_from(fit: Fit) -> Any:
    """The rows that the ranks have: all but those that the fit held out."""
    from daskpart.models.samples.given import split_rows

    X, share = fit.data.X, fit.model.validation_fraction
    return X[split_rows(X.shape[0], share, fit.plan.random_state)[0]] if share else X


def _shared(X: Any, plan: Any) -> dict[str, Any]:
    """How many features ranks touch, and share."""
    touching = np.zeros(X.shape[1], np.int64)
    each = []
    for own in plan.members:
        features = distinct(X[own].indices, X.shape[1])
        touching[features] += 1
        each.append(len(features))
    return {
        "features_of_a_rank": float(np.mean(each)),
        "touched_features": int(np.count_nonzero(touching)),
        "shared_features": int(np.count_nonzero(touching > 1)),
    }


def _densities(X: Any, batch_size: int) -> dict[int, float]:
    """The share of features that so many ranks' batches touch together, drawn at random."""
    n_samples, n_features = X.shape
    place = np.random.default_rng(0).permutation(n_samples)
    first = np.full(n_features, n_samples)
    np.minimum.at(first, X.indices, np.repeat(place, np.diff(X.indptr)))
    return {
        n_ranks: float((first < n_ranks * batch_size).mean())
        for n_ranks in _RANKS.tolist()
        if n_ranks == 1 or n_ranks * batch_size <= n_samples
    }


def _draw_densities(over: dict[int, float], ax: Any) -> None:
    from daskpart.plots.canvas import RANK_COLOURS, quiet_frame

    ax.plot(list(over), list(over.values()), "o-", color=RANK_COLOURS[0])
    ax.set_xscale("log", base=2)
    ax.set_xticks(list(over), [str(ranks) for ranks in over])
    ax.minorticks_off()
    ax.set(xlabel="ranks", ylabel="share of all features", ylim=(0, 1.05 * max(over.values())))
    quiet_frame(ax, "both")


def _draw_largest(values: np.ndarray, names: np.ndarray | None, title: str, ax: Any) -> None:
    import xarray as xr

    from daskpart import plots

    dims = ("feature, from 0" if names is None else "feature", "output")
    coordinates = None if names is None else {"feature": names}
    factor = xr.DataArray(values[:, None], dims=dims, coords=coordinates)
    plots.loadings(factor, 0, n=_TOP, ax=ax).set_xlabel("coefficient")
    ax.set_title(title).set_fontsize(10)


def _by_output(model: Any) -> list[tuple[str, np.ndarray]]:
    """What each output is called, a class perhaps, and its coefficients."""
    rows = np.atleast_2d(model.coef_)
    outputs = getattr(model, "classes_", np.array(["y"])).tolist()[-len(rows) :]
    return [(as_words(output), values) for output, values in zip(outputs, rows, strict=True)]


def _coefficients(fit: Fit, names: np.ndarray | None) -> pd.DataFrame:
    """One row for each output and large coefficient."""
    rows = []
    for output, values in _by_output(fit.model):
        for place in largest(values, _TOP).tolist():
            name = str(place if names is None else names[place])
            rows.append([output, name, float(values[place])])
    return pd.DataFrame(rows, columns=["output", "feature", "coefficient"])
