"""What `fit mf` and `fit implicit` share: events, data held out, and how a model ranks events."""

from __future__ import annotations

from typing import Any

from daskpart._floor.words import counted
from daskpart.containers.matrix import LabelledMatrix, as_matrix
from daskpart.datasets.splitting import train_test_split_ratings
from daskpart.errors import InputError

from .inputs import in_words, load_matrix
from .model import Data, Fit

_N = 10


def load_events(source: str, given: dict[str, Any]) -> LabelledMatrix:
    """Counts of events: those of a cell that comes more than once are added up.

    Raises
    ------
    InputError
        As `load_matrix`; and for counts that are not above 0.
    """
    events = load_matrix(source, given, repeats="sum")
    if events.values.min() <= 0:
        raise InputError(
            f"{source}: counts go down to {events.values.min():g}; give those > 0; where they are "
            "a no, 'daskpart fit mf --loss logistic' learns from it"
        )
    return events


def held_out(matrix: LabelledMatrix, source: str, given: dict[str, Any]) -> Data:
    """What was read, less the share that the options hold out."""
    words, train, test = [in_words(matrix, source)], matrix, None
    if given["test_fraction"]:
        n_test = round(given["test_fraction"] * matrix.nnz)
        if not 0 < n_test < matrix.nnz:
            raise InputError(
                f"--test-fraction {given['test_fraction']:g} holds out {n_test:,} of "
                f"{counted(matrix.nnz, 'value')}, and both sides need some: give another, or 0"
            )
        parts = train_test_split_ratings(
            matrix.to_xarray(), given["test_fraction"], given["random_state"]
        )
        train, test = map(as_matrix, parts)
        words.append(f"{train.nnz:,} to learn from, {test.nnz:,} held out to judge by")
    return Data(train, words, test)


def judged_ranking(fit: Fit, column: str) -> dict[str, float]:
    """Ranks of what was held out, and the last loss of the history."""
    from daskpart.models.metrics import evaluate_ranking, most_popular

    loss = {"loss": float(fit.row[column])}
    if fit.data.test is None:
        return loss
    test = fit.data.test.to_xarray()
    found = evaluate_ranking(fit.model, test, _N).iloc[0]
    popular = evaluate_ranking(most_popular(fit.model), test, _N).iloc[0]
    return {
        **{str(name): float(value) for name, value in found.items()},
        **loss, "n": _N, "popular_ndcg": float(popular["ndcg"]),
    }  # fmt: skip


def ranking_sentences(judged: dict[str, Any], remedy: str) -> list[str]:
    """The judgement in plain words; `remedy` says what to change where the model is of no use."""
    lines = [f"loss {judged['loss']:.6g} an event"]
    if "ndcg" in judged:
        lines.append(
            f"held-out events among the best {_N} of the whole catalogue: "
            f"NDCG {judged['ndcg']:.4f}, recall {judged['recall']:.4f}, precision "
            f"{judged['precision']:.4f}, MAP {judged['map']:.4f}, MRR {judged['mrr']:.4f}, "
            f"hit rate {judged['hit_rate']:.4f}; AUC {judged['auc']:.4f}; "
            f"means over {judged['n_users']:,.0f} users"
        )
        best = judged["popular_ndcg"]
        lines.append(f"giving everybody the items of most users: NDCG {best:.4f}")
        if judged["ndcg"] < best:
            lines.append(f"the model does no better than that: {remedy} may help")
    return lines


def ranking_numbers(judged: dict[str, Any]) -> dict[str, float]:
    """The key number of a page."""
    return {f"NDCG_at_{_N}": judged["ndcg"]} if "ndcg" in judged else {}


def draw_losses(fit: Fit, album: Any) -> None:
    """The loss over time; or beside it what was measured on held-out events."""
    from daskpart import plots

    history = fit.model.history_
    chart = plots.fit_history if fit.step == "iteration" else plots.loss_history
    if "validation_ndcg" not in history:
        words = f"The loss an event over {fit.step}s, and over the time spent in them."
        album.draw_training(chart, history, "The loss falling", words)
        return
    words = f"The loss an event, and the NDCG of events that were held out, over {fit.step}s."
    album.draw_held_out(chart, history, "validation_ndcg", f"NDCG at {_N}, validation", words)


def first_label(labels: Any) -> str:
    """The first of some labels as code."""
    return "0" if labels is None or not len(labels) else repr(labels.tolist()[0])
