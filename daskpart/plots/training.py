"""Charts of a training run: what was measured, over its steps or over seconds.

RMSE │╲                   loss │╲                fit │      ______
     │ ╲__ _ _ validation      │ ╲__                 │   __/
     │   ‾‾‾‾‾ train           │    ‾‾‾‾             │ _/
     └────────── epoch         └──────── seconds     └──────────── iteration
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.checks import finite_number, one_of, require_like
from daskpart.errors import InputError

from .canvas import axes_or_new, legend_inside, plain, quiet_frame, whole_ticks

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_TRAIN, _VALIDATION, _TEST = "#0072B2", "#D55E00", "#5B5B5B"
_MOST_MARKED = 60  # steps
_WIDE = 1e4  # the largest of values over the least: on a linear axis most would be zero
_HUGE = 1e100  # for the ticks of a logarithmic axis, which matplotlib has beyond it, up to infinity


def convergence(
    history: pd.DataFrame,
    against: str = "epoch",
    *,
    test_rmse: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Training and validation RMSE against epochs or seconds.

    Parameters
    ----------
    history : DataFrame
        One row an epoch, with the columns ``epoch``, ``train_rmse``, ``seconds`` of that
        epoch, and ``validation_rmse`` where there is a validation set:
        ``MatrixFactorization.history_``.
    against : {"epoch", "seconds"}, default="epoch"
        What the horizontal axis counts.
    test_rmse : float, optional
        RMSE of held-out ratings after the fit, drawn as a level line.
    ax : matplotlib Axes, optional
        Where to draw; a new figure without it.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InputError
        If ``history`` is empty or ``against`` is unknown.

    Examples
    --------
    >>> import pandas
    >>> from daskpart import plots
    >>> history = pandas.DataFrame(
    ...     {"epoch": [1, 2], "train_rmse": [1.1, 0.9], "seconds": [0.5, 0.5]}
    ... )
    >>> ax = plots.convergence(history, test_rmse=1.0)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('epoch', 'RMSE (units of the ratings)')
    """
    ax = _over(history, against, "epoch", ("train_rmse",), "validation_rmse", ax)
    _draw_test(ax, test_rmse, "test_rmse")
    ax.set_ylabel("RMSE (units of the ratings)")
    legend_inside(ax)
    return ax


def _draw_test(ax: Axes, error: float | None, name: str) -> None:
    """What was measured on held-out data after the fit, if it was, as a level line."""
    if error is not None:
        error = finite_number(error, name)
        label = f"test, after the fit: {error:.4f}"
        ax.axhline(error, color=_TEST, linestyle=":", linewidth=1.6, label=label)


def loss_history(
    history: pd.DataFrame,
    against: str = "epoch",
    *,
    test_loss: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Training and validation loss against epochs or seconds.

    Parameters
    ----------
    history : DataFrame
        One row an epoch with the columns ``epoch``, ``loss`` (or ``train_loss``), ``seconds``, and
        ``validation_loss`` where there is a validation set: ``LogisticRegression.history_``, or
        that of ``MatrixFactorization`` by ``loss="logistic"`` or ``"bpr"``.
    against : {"epoch", "seconds"}, default="epoch"
        What the horizontal axis counts.
    test_loss : float, optional
        Loss of held-out data after the fit, drawn as a level line.
    ax : matplotlib Axes, optional
        Where to draw; a new figure without it.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InputError
        If ``history`` is empty or ``against`` is unknown.

    Examples
    --------
    >>> import pandas
    >>> from daskpart import plots
    >>> history = pandas.DataFrame({"epoch": [1, 2], "train_loss": [1.1, 0.9]})
    >>> ax = plots.loss_history(history)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('epoch', 'loss')
    """
    ax = _over(history, against, "epoch", ("train_loss", "loss"), "validation_loss", ax)
    _draw_test(ax, test_loss, "test_loss")
    ax.set_ylabel("loss")
    if len(ax.lines) > 1:
        legend_inside(ax)
    return ax


def fit_history(
    history: pd.DataFrame, against: str = "iteration", *, ax: Axes | None = None
) -> Axes:
    """The fit, or the loss, against iterations or seconds.

    Parameters
    ----------
    history : DataFrame
        One row an iteration with the columns ``iteration``, ``fit`` or ``loss``, and ``seconds``:
        ``CPDecomposition.history_``, ``ImplicitFactorization.history_``.
    against : {"iteration", "seconds"}, default="iteration"
        What the horizontal axis counts.
    ax : matplotlib Axes, optional
        Where to draw; a new figure without it.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InputError
        If ``history`` is empty or ``against`` is unknown.

    Examples
    --------
    >>> import pandas
    >>> from daskpart import plots
    >>> ax = plots.fit_history(pandas.DataFrame({"iteration": [1, 2], "fit": [0.4, 0.5]}))
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('iteration', 'fit (1 is exact)')
    """
    ax = _over(history, against, "iteration", ("fit", "loss"), None, ax)
    ax.set_ylabel("fit (1 is exact)" if "fit" in history else "loss an event")
    return ax


def learning_curve(
    history: pd.DataFrame, column: str = "loss", *, words: str = "", ax: Axes | None = None
) -> Axes:
    """A measure of training, and of validation where there is one, over epochs or iterations.

    Parameters
    ----------
    history : DataFrame
        ``GCNClassifier.history_``: columns ``epoch`` (or ``iteration``), the measure,
        ``validation_`` and its name.
    column : str, default="loss"
        The measure.
    words : str
        What it is called; default: its name.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InputError
        If ``history`` is empty or lacks the measure.

    Examples
    --------
    >>> import pandas
    >>> from daskpart import plots
    >>> history = pandas.DataFrame(
    ...     {"epoch": [1, 2], "loss": [0.7, 0.5], "validation_loss": [0.8, 0.6]}
    ... )
    >>> ax = plots.learning_curve(history)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('epoch', 'loss')
    """
    step = "iteration" if "iteration" in getattr(history, "columns", ()) else "epoch"
    ax = _over(history, step, step, (column,), f"validation_{column}", ax)
    ax.set_ylabel(plain(words or column))
    if len(ax.lines) > 1:
        legend_inside(ax)
    return ax


def _over(
    history: pd.DataFrame,
    against: str,
    step: str,
    columns: tuple[str, ...],
    held_out: str | None,
    ax: Axes | None,
) -> Axes:
    """The first of the columns that a history has, and its like on held-out data."""
    wanted = "a pandas.DataFrame, the history_ of a fitted model"
    require_like(history, "history", ("columns", "iloc"), wanted)
    one_of(against, "against", (step, "seconds"))
    if not len(history):
        raise InputError(f"the history holds no {step}: nothing to draw; fit first")
    there = [name for name in columns if isinstance(name, str) and name in history]
    if not there:
        raise _lacks(history, columns[-1])
    column = there[0]
    where = _positions(history, against, step)
    ax = axes_or_new(ax, (6.0, 3.8))
    ax.plot(where, history[column], "o-", color=_TRAIN, label="train",
            linewidth=1.8, markersize=_marker(history[column].notna()))  # fmt: skip
    if held_out in history and history[held_out].notna().any():
        values = history[held_out].to_numpy(dtype=np.float64)
        known = ~np.isnan(values)  # it may be measured every few steps only
        ax.plot(where[known], values[known], "s--", color=_VALIDATION, label="validation",
                linewidth=1.8, markersize=_marker(known))  # fmt: skip
    drawn = np.concatenate([line.get_ydata() for line in ax.lines])
    drawn = drawn[~np.isnan(drawn)]
    if len(drawn) and 0 < _WIDE * drawn.min() < drawn.max() < _HUGE:
        ax.set_yscale("log")
    if against == step:
        ax.set_xlabel(step)
        whole_ticks(ax.xaxis)
    else:
        ax.set_xlabel("training time (seconds)")
        ax.locator_params(axis="x", nbins=6)
        ax.set_xlim(left=0)  # what the first step takes longer is part of the wait
    quiet_frame(ax, "both")
    return ax


def _marker(known: Any) -> int:
    """Points are drawn where they are few: one alone makes no line."""
    return 4 if known.sum() <= _MOST_MARKED else 0


def _lacks(history: pd.DataFrame, column: str) -> InputError:
    return InputError(
        f"the history has no {column!r}, but {', '.join(map(repr, history.columns))}: "
        "plots.learning_curve(history, column) draws any of them"
    )


def _positions(history: pd.DataFrame, against: str, step: str) -> NDArray[np.float64]:
    """Where each step stands on the horizontal axis."""
    if against == step:
        if step not in history:
            raise _lacks(history, step)
        return history[step].to_numpy(dtype=np.float64)
    if "seconds" not in history:
        raise InputError("the history has no 'seconds': draw it against its steps")
    return history["seconds"].cumsum().to_numpy(dtype=np.float64)
