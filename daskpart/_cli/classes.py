"""What the commands that tell classes apart share: right and wrong answers, counted and drawn."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray


def as_words(label: Any) -> str:
    """What a class is called; labels of a libsvm file are read as floats, and are whole."""
    return f"{label:g}" if isinstance(label, float) else str(label)


def judged(wanted: NDArray[Any], found: NDArray[Any], classes: Sequence[Any]) -> dict[str, Any]:
    """Accuracy, and the counts of right and wrong answers, for metrics.json.

    Parameters
    ----------
    wanted, found : ndarray
        True and found classes of what was held out.
    classes : sequence
        That the model knows, in the order of lines and columns, before those that occur in `wanted`
        only; those that do not occur are left out.
    """
    table = pd.crosstab(wanted, found)
    known = [*classes, *(each for each in table.index if each not in set(classes))]
    seen = [each for each in known if each in table.index or each in table]
    table = table.reindex(index=seen, columns=seen, fill_value=0)
    return {
        "test_accuracy": float((found == wanted).mean()),
        "n_test": len(wanted),
        "classes": [as_words(each) for each in seen],
        "confusion": table.to_numpy().tolist(),
    }


def most_frequent(judgement: dict[str, Any]) -> float:
    """Share of the most frequent class in what was held out."""
    counts = np.array(judgement["confusion"])
    return float(counts.sum(axis=1).max() / judgement["n_test"])


def no_better(judgement: dict[str, Any]) -> list[str]:
    """What to change, as a line, where the most frequent class alone is right as often."""
    share = judgement["test_accuracy"]
    if share > most_frequent(judgement) or share == 1:  # all of one class, and all right
        return []
    return [
        "the model does no better than that: more --max-iter, a larger --patience, or another "
        "first rate may help"
    ]


def draw_learning(history: pd.DataFrame, album: Any, how: str) -> None:
    """The picture ``training``: loss and accuracy over epochs; `how` says how they are measured."""
    from daskpart import plots

    album.draw(
        "training",
        (9.4, 3.4),
        partial(plots.learning_curve, history, "loss"),
        partial(plots.learning_curve, history, "score", words="accuracy"),
        alt="Loss and accuracy over epochs",
        caption=f"Loss and accuracy over the epochs{how}.",
    )


def draw_confusion(judgement: dict[str, Any], album: Any, what: str) -> None:
    """The picture ``confusion`` of what was held out, if anything was."""
    if "confusion" not in judgement:
        return
    from daskpart import plots
    from daskpart.plots.networks import size_of_confusion

    album.draw(
        "confusion",
        size_of_confusion(len(judgement["classes"])),
        partial(plots.confusion, judgement["confusion"], judgement["classes"]),
        alt="Counts of true and predicted classes",
        caption=f"{what}: a row is a true class, a column a predicted one, a number counts. The "
        "darker, the larger the share of its row.",
    )
