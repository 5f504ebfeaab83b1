"""What `daskpart fit implicit` adds to the driver: events held out, and how they rank."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .inputs import MATRICES
from .mf import PARTITIONER_WORDS
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
        format_of(MATRICES),
        *of_table(),
        number("--test-fraction", 0.1, HELD_OUT.format("events"), SHARE),
    )
    words: ClassVar[dict[str, str]] = {"partitioner": f"How users are cut: {PARTITIONER_WORDS}"}
    template = "implicit.html"

    def check(self, source: str, given: dict[str, Any], estimator: Any) -> None:
        """Refuse what is of another solver."""
        for name, solver in (("cg_steps", "cg"), ("block_size", "subspace")):
            if estimator.solver != solver:
                refuse((name,), f"it is of --solver {solver}")

    def load(self, source: str, given: dict[str, Any]) -> Data:
        """Read, and hold out a share of the events."""
        return held_out(load_events(source, given), source, given)

    def judge(self, fit: Fit) -> dict[str, Any]:
        """Ranks of what was held out, and the loss."""
        return judged_ranking(fit, "loss")

    def told(self, fit: Fit) -> list[str]:
        """The judgement as sentences."""
        return ranking_sentences(
            fit.judgement, "fewer --components, a larger --regularization or another --alpha"
        )

    def draw(self, fit: Fit, album: Any) -> None:
        """The loss over time."""
        draw_losses(fit, album)

    def page(self, fit: Fit) -> dict[str, Any]:
        """Key numbers, a user and an item to ask for."""
        state, report = fit.model.state_, fit.plan.report()
        return {
            "numbers": {
                **ranking_numbers(fit.judgement),
                "components": state.n_components,
                "rows_moved_an_iteration": int(np.sum(report.volume)),
            },
            "user": first_label(state.user_labels),
            "item": first_label(state.item_labels),
        }


MODEL = _Implicit()
