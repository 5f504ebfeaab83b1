"""Held-out events of models that rank: what `fit implicit` and `fit mf --loss bpr` say of them."""

from __future__ import annotations

from functools import partial
from typing import Any

from .fit import Fit

_N = 10


def judged_ranking(fit: Fit, column: str) -> dict[str, float]:
    """Ranks of what was held out, and the last loss of the history."""
    from daskpart.models.metrics import evaluate_ranking

    loss = {"loss": float(fit.model.history_[column].iloc[-1])}
    if fit.data.test is None:
        return loss
    found = evaluate_ranking(fit.model, fit.data.test.to_xarray(), _N).iloc[0]
    return {**{str(name): float(value) for name, value in found.items()}, **loss, "n": _N}


def ranking_sentences(judged: dict[str, Any]) -> list[str]:
    """The judgement in plain words."""
    lines = [f"loss {judged['loss']:.6g} an event"]
    if "ndcg" in judged:
        lines.append(
            f"held-out events among the best {_N} of the whole catalogue: "
            f"NDCG {judged['ndcg']:.4f}, recall {judged['recall']:.4f}, precision "
            f"{judged['precision']:.4f}, MAP {judged['map']:.4f}, MRR {judged['mrr']:.4f}; AUC "
            f"{judged['auc']:.4f}; means over {judged['n_users']:,.0f} users"
        )
    return lines


def ranking_numbers(judged: dict[str, Any]) -> dict[str, float]:
    """The key number of a page."""
    return {f"NDCG_at_{_N}": judged["ndcg"]} if "ndcg" in judged else {}


def draw_losses(fit: Fit, album: Any) -> None:
    """The loss over time."""
    from daskpart import plots

    history = fit.model.history_.rename(columns={"train_loss": "loss", "epoch": "iteration"})
    album.draw(
        "training",
        (9.4, 3.4),
        partial(plots.fit_history, history),
        partial(plots.fit_history, history, "seconds"),
        alt="The loss falling over steps and over seconds",
        caption="The loss over steps, and over the time spent in them.",
    )


def first_label(labels: Any) -> str:
    """The first of some labels as code."""
    return "0" if labels is None or not len(labels) else repr(labels.tolist()[0])
