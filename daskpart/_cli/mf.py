"""What `daskpart fit mf` adds to the driver: held-out ratings, and the section on the partition."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from daskpart.containers.matrix import as_matrix
from daskpart.errors import InputError
from daskpart.hypergraph import Hypergraph
from daskpart.models.matrix_factorization.yes_or_no import as_answers, log_odds
from daskpart.models.optimisation.log_loss import log_losses
from daskpart.partitions import Partition

from .cut import Cut, draw_cut, sentences
from .inputs import MATRICES, load_matrix
from .model import Data, Fit, Model
from .options import HELD_OUT, SHARE, format_of, number, of_table, refuse
from .rankings import (
    draw_losses,
    first_label,
    held_out,
    judged_ranking,
    load_events,
    ranking_numbers,
    ranking_sentences,
)

PARTITIONER_WORDS = (
    '"auto" weighs the seconds that a cut saves over the fit against those of cutting: in one '
    'process it takes "block". "power" (λ² by recursive bipartitioning), "connectivity", '
    '"cut-net", "metis", "random", "block"; or arguments of daskpart.partition, such as '
    "objective=power,rho=3,epsilon=0.1; or a file that 'daskpart partition' wrote, with one part a "
    "rank."
)
_FAR_ABOVE = 1.3
_ERRORS = {"squared": ("rmse", "RMSE"), "logistic": ("log_loss", "log loss")}


class _MF(Model):
    """Factorize RATINGS: predict what is not in a sparse matrix from what is.

    RATINGS is a file of user, item, rating (MovieLens u.data, ratings.dat, ratings.csv; a table
    with a header, whose columns --user, --item and --rating name; Parquet; Matrix Market; scipy or
    pydata/sparse .npz; also .gz, .xz, .bz2), or python-source, the built-in data: how often each
    module of Python's standard library uses each name.

    More synchronisations (--eta) mean fresher rows and smaller messages, but more of them; with as
    many as ranks no rank ever works on a stale row. --loss logistic takes ratings that are
    yes (1) or no (0, or −1), and predicts the probability of yes. --loss bpr takes RATINGS for
    events, as `daskpart fit implicit` does, and judges by ranks.
    """

    estimator = "MatrixFactorization"
    example = "u.data"
    argument = "RATINGS"
    options = (
        format_of(MATRICES),
        *of_table(),
        number("--test-fraction", 0.1, HELD_OUT.format("ratings"), SHARE),
    )
    words: ClassVar[dict[str, str]] = {
        "partitioner": PARTITIONER_WORDS,
        "clip": "Keep predictions within the range of the ratings of the fit.",
    }
    template = "mf.html"

    def check(self, source: str, given: dict[str, Any], estimator: Any) -> None:
        """Refuse what is of another schedule."""
        if estimator.schedule == "dsgd":
            refuse(("eta", "averaging"), "--schedule dsgd has a stratum a rank, averages nothing")
        elif estimator.schedule == "gasgd":
            refuse(("axis",), "--schedule gasgd cuts single ratings")

    def load(self, source: str, given: dict[str, Any]) -> Data:
        """Read, and hold out a share of the ratings."""
        if given["loss"] == "bpr":  # which asks what there is, and not how much
            return held_out(load_events(source, given), source, given)
        ratings = load_matrix(source, given)
        if given["loss"] == "logistic":
            ratings = as_answers(ratings)
        data = held_out(ratings, source, given)
        if ratings.values.min() == ratings.values.max():
            words = f"note: all values are {ratings.values[0]:g}, so there is nothing to predict"
            if given["user"] is not None and given["rating"] is None:
                words += "; --rating names the column of the ratings"
            data.words.insert(1, words)
        return data

    def adjust(self, parameters: dict[str, Any], typed: set[str]) -> None:
        """A partition from a file says itself what it cuts."""
        given = parameters["partitioner"]
        if not isinstance(given, Partition):
            return
        axis = "columns" if given.info.get("model") == "row-net" else "rows"
        if "axis" in typed and parameters["axis"] != axis:
            raise InputError(
                f"the partition cuts {axis}: it cannot serve --axis {parameters['axis']}"
            )
        # from here on it is one of the rows of what is trained on, which is not all that was cut
        left_out = ("model", "shape", "nnz")
        info = {name: value for name, value in given.info.items() if name not in left_out}
        parameters["axis"] = axis
        parameters["partitioner"] = replace(given, info=info)

    def judge(self, fit: Fit) -> dict[str, Any]:
        """Errors on the held-out ratings, beside that of answering the mean every time."""
        test = fit.data.test
        if fit.model.loss == "bpr":
            return judged_ranking(fit, "train_loss")
        if test is None:
            return {}
        seen = fit.model.seen_
        known = (seen.sum(axis=1)[test.rows] > 0) & (seen.sum(axis=0)[test.columns] > 0)
        counts = {"n_test": test.nnz, "n_strangers": int(np.count_nonzero(~known))}
        mean = fit.data.X.values.mean(dtype=np.float64)
        if fit.model.loss == "logistic":
            return {
                "test_log_loss": -fit.model.score(test.to_frame()),
                "mean_log_loss": float(log_losses(test.values, log_odds(mean)).mean()),
                **counts,
                "train_log_loss": float(fit.row["train_loss"]),
            }
        wanted = test.values.astype(np.float64)
        error = wanted - fit.model.predict(test.to_frame())
        return {
            "test_rmse": _root_mean_square(error),
            "test_mae": float(np.abs(error).mean()),
            "mean_rmse": _root_mean_square(wanted - mean),
            **counts,
            "train_rmse": float(fit.row["train_rmse"]),
        }

    def told(self, fit: Fit) -> list[str]:
        """The judgement as sentences."""
        if fit.model.loss == "bpr":
            return ranking_sentences(
                fit.judgement, "fewer --components, a larger --regularization or more --max-iter"
            )
        names = fit.data.X.row_name, fit.data.X.column_name
        return judged(fit.judgement, names, *_ERRORS[fit.model.loss]) if fit.judgement else []

    def draw(self, fit: Fit, album: Any) -> None:
        """Convergence and partition."""
        if fit.model.loss == "bpr":
            draw_losses(fit, album)
        else:
            self._draw_errors(fit, album)
        if (cut := _cut(fit)) is not None:
            draw_cut(album, cut)

    def _draw_errors(self, fit: Fit, album: Any) -> None:
        from daskpart import plots

        test = fit.judgement.get(f"test_{_ERRORS[fit.model.loss][0]}")
        chart: Any = partial(plots.loss_history, test_loss=test)
        what, words = "The loss falling", "The loss a rating"
        if fit.model.loss == "squared":
            chart = partial(plots.convergence, test_rmse=test)
            what, words = "RMSE falling", "Error"
        album.draw_training(
            chart,
            fit.model.history_,
            what,
            f"{words} over epochs, and over the time spent in them. In training it is measured "
            "while an epoch runs.",
        )

    def page(self, fit: Fit) -> dict[str, Any]:
        """Key numbers, the partition, a user and an item to ask for."""
        cut, state = _cut(fit), fit.model.state_
        if fit.model.loss == "bpr":
            numbers = ranking_numbers(fit.judgement)
        else:
            name, words = _ERRORS[fit.model.loss]
            called = words.replace(" ", "_")
            numbers = {f"test_{called}": fit.judgement[f"test_{name}"]} if fit.judgement else {}
            column = "train_rmse" if name == "rmse" else "train_loss"
            numbers[f"training_{called}"] = float(fit.row[column])
        report = fit.plan.report()
        user, item = (first_label(labels) for labels in (state.user_labels, state.item_labels))
        return {
            "numbers": {
                **numbers,
                "rows_moved_an_epoch": report.volume,
                "stale_rows_an_epoch": report.staleness,
            },
            "cut": cut,
            "cut_sentences": [] if cut is None else sentences(cut),
            "user": user,
            "item": item,
        }


def judged(
    judgement: dict[str, Any], names: tuple[str, str], error: str = "rmse", called: str = "RMSE"
) -> list[str]:
    """Errors on held-out ratings in plain words; the one that they are told by, and its name."""
    test, mean = judgement[f"test_{error}"], judgement[f"mean_{error}"]
    gain = f" ({abs(1 - test / mean):.1%} {'better' if test <= mean else 'worse'})" if mean else ""
    beside = f", mean absolute error {judgement['test_mae']:.4f}" if "test_mae" in judgement else ""
    words = [
        f"test {called} {test:.4f}{gain}{beside} on "
        f"{judgement['n_test']:,} held-out values; answering the mean every time gives {mean:.4f}"
    ]
    if n := judgement["n_strangers"]:
        words.append(
            f"{n:,} of them {'belongs' if n == 1 else 'belong'} to a {names[0]} or {names[1]} "
            "without any training value"
        )
    train = judgement[f"train_{error}"]
    if test > _FAR_ABOVE * train:
        words.append(
            f"the training {called}, {train:.4f}, is far below it: a larger "
            "--regularization, a smaller --max-iter or --n-components, or --patience may help"
        )
    return words


def _cut(fit: Fit) -> Cut | None:
    """The partition, with the owners of the fit, on the ratings that it learned from.

    None where single ratings were cut, as there is no matrix of whole rows to draw then; nor where
    one rank has everything.
    """
    if fit.plan.axis == "nonzeros" or fit.plan.n_ranks == 1:
        return None
    X, partition = fit.data.X, fit.plan.partition
    seen = as_matrix(fit.model.seen_)
    trained = replace(X, rows=seen.rows, columns=seen.columns, values=np.ones(seen.nnz, np.float32))
    matrix = trained if fit.plan.axis == "rows" else trained.transposed()
    info = {**partition.info, "model": "column-net", "shape": [*matrix.shape]}  # of these rows
    weights = np.diff(matrix.row_pointer())
    partition = replace(partition, weights=weights, info=info)
    report = partition.report(Hypergraph.column_net(matrix))
    return Cut(matrix, partition, fit.model.connectivity_, report.to_dict())


def _root_mean_square(error: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(error))))


MODEL = _MF()
