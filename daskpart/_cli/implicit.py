"""What `daskpart fit implicit` adds to the driver: events held out, and how they rank."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

import click
import numpy as np

from daskpart.containers.matrix import as_matrix
from daskpart.datasets.splitting import train_test_split_ratings
from daskpart.errors import InputError

from .fit import Data, Fit, Model
from .inputs import columns_of, in_words, load_matrix
from .mf import first_label
from .options import SHARE, number, of_table

_N = 10


class _Implicit(Model):
    """Factorize EVENTS: what people clicked, played, bought; what they did not counts as a weak no.

    EVENTS is a file of user, item and perhaps count, where a line that comes again counts again
    (formats: those of `daskpart fit mf`); or python-source, the built-in data: how often each
    module of Python's standard library uses each name.

    \b
    Columns by name:       daskpart fit implicit orders.csv --user customer --item sku

    Events that are held out are ranked against the whole catalogue: NDCG, recall and more at 10.
    """

    estimator = "ImplicitFactorization"
    example = "plays.tsv"
    argument = "EVENTS"
    options = (
        click.Option(["--format"], help="Format of the file.  [default: told from the file]"),
        *of_table(),
        number("--test-fraction", 0.1, "Share of the events held out to judge by.", SHARE),
    )
    template = "implicit.html"

    def load(self, source: str, given: dict[str, Any]) -> Data:
        """Read, and hold out a share of the events."""
        events = load_matrix(source, given["format"], columns=columns_of(given), repeats="sum")
        if events.values.min() <= 0:
            raise InputError(f"{source}: counts go down to {events.values.min():g}; give those > 0")
        words, train, test = [in_words(events, source)], events, None
        if given["test_fraction"]:
            parts = train_test_split_ratings(
                events.to_xarray(), given["test_fraction"], given["random_state"]
            )
            train, test = map(as_matrix, parts)
            words.append(f"{train.nnz:,} to learn from, {test.nnz:,} held out to judge by")
        return Data(train, words, test)

    def judge(self, fit: Fit) -> dict[str, Any]:
        """Ranks of what was held out, and the loss."""
        from daskpart.models.metrics import evaluate_ranking

        loss = {"loss": float(fit.model.history_["loss"].iloc[-1])}
        if fit.data.test is None:
            return loss
        test = fit.data.test.to_xarray()
        found = evaluate_ranking(fit.model, test, _N).iloc[0]
        popular = evaluate_ranking(_most_popular(fit.model), test, _N).iloc[0]
        return {
            **{str(name): float(value) for name, value in found.items()},
            **loss, "n": _N, "popular_ndcg": float(popular["ndcg"]),
        }  # fmt: skip

    def told(self, fit: Fit) -> list[str]:
        """The judgement as sentences."""
        judged = fit.judgement
        lines = [f"loss {judged['loss']:.6g} an event"]
        if "ndcg" in judged:
            lines.append(
                f"held-out events among the best {_N} of the whole catalogue: "
                f"NDCG {judged['ndcg']:.4f}, recall {judged['recall']:.4f}, precision "
                f"{judged['precision']:.4f}, MAP {judged['map']:.4f}, MRR {judged['mrr']:.4f}; AUC "
                f"{judged['auc']:.4f}; means over {judged['n_users']:,.0f} users"
            )
            best = judged["popular_ndcg"]
            lines.append(f"giving everybody the items of most users: NDCG {best:.4f}")
            if judged["ndcg"] < best:
                lines.append(
                    "the model does no better than that: fewer --components, a larger "
                    "--regularization or another --alpha may help"
                )
        return lines

    def draw(self, fit: Fit, album: Any) -> None:
        """The loss over time."""
        from daskpart import plots

        words = "The loss over iterations, and over the time spent in them."
        album.draw_training(plots.fit_history, fit.model.history_, "The loss falling", words)

    def page(self, fit: Fit) -> dict[str, Any]:
        """Key numbers, a user and an item to ask for."""
        state, report = fit.model.state_, fit.plan.report()
        judged = {f"NDCG_at_{_N}": fit.judgement["ndcg"]} if "ndcg" in fit.judgement else {}
        return {
            "numbers": {
                **judged,
                "components": state.n_components,
                "rows_moved_an_iteration": int(np.sum(report.volume)),
            },
            "user": first_label(state.user_labels),
            "item": first_label(state.item_labels),
        }


def _most_popular(model: Any) -> Any:
    """The model that scores an item by how many users have it."""
    popular, state = copy(model), model.state_
    counts = model.seen_.sum(axis=0).astype(np.float32)
    ones = np.ones((state.n_users, 1), np.float32)
    popular.state_ = replace(state, user_factors=ones, item_factors=counts[:, None])
    return popular


MODEL = _Implicit()
