"""How good the predictions are, on ratings that training never saw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from daskpart.containers.matrix import LabelledMatrix

from .ratings import Split

_FAR_ABOVE = 1.3


@dataclass(frozen=True)
class Judgement:
    """Errors on held-out ratings.

    Attributes
    ----------
    test_rmse, test_mae : float
        In units of the ratings.
    mean_rmse : float
        RMSE of answering the training mean every time: what a model must beat.
    n_test : int
        Held-out ratings.
    n_strangers : int
        Of these, ratings of a row or column without any training rating.
    train_rmse : float
        Of the last epoch.
    """

    test_rmse: float
    test_mae: float
    mean_rmse: float
    n_test: int
    n_strangers: int
    train_rmse: float

    def sentences(self, split: Split) -> list[str]:
        """The judgement in plain words."""
        gain = 1 - self.test_rmse / self.mean_rmse if self.mean_rmse else 0.0
        words = [
            f"test RMSE {self.test_rmse:.4f}, mean absolute error {self.test_mae:.4f} on "
            f"{self.n_test:,} held-out values; answering the mean every time gives "
            f"{self.mean_rmse:.4f} ({abs(gain):.1%} {'better' if gain >= 0 else 'worse'})"
        ]
        if self.n_strangers:
            words.append(
                f"{self.n_strangers:,} of them belong to a {split.train.row_name} or "
                f"{split.train.column_name} without any training value"
            )
        if self.test_rmse > _FAR_ABOVE * self.train_rmse:
            words.append(
                f"the training RMSE, {self.train_rmse:.4f}, is far below it: a larger "
                "--regularization, fewer --epochs or --components, or --patience may help"
            )
        return words


def judge(model: Any, split: Split) -> Judgement | None:
    """Errors of `model` on the held-out ratings; None where nothing is held out."""
    if split.test is None:
        return None
    wanted = split.test.values.astype(np.float64)
    error = wanted - model.predict(split.test.to_frame())
    return Judgement(
        test_rmse=_root_mean_square(error),
        test_mae=float(np.abs(error).mean()),
        mean_rmse=_root_mean_square(wanted - split.train.values.mean(dtype=np.float64)),
        n_test=split.test.nnz,
        n_strangers=_strangers(split.train, split.test),
        train_rmse=float(model.history_["train_rmse"].iloc[-1]),
    )


def _root_mean_square(error: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(error))))


def _strangers(train: LabelledMatrix, test: LabelledMatrix) -> int:
    rows = np.bincount(train.rows, minlength=train.shape[0]) > 0
    columns = np.bincount(train.columns, minlength=train.shape[1]) > 0
    return int(np.count_nonzero(~(rows[test.rows] & columns[test.columns])))
