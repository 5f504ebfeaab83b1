"""Words that several estimators share, written once and put into the docstring of each."""

from __future__ import annotations

from collections.abc import Callable
from inspect import cleandoc
from typing import TypeVar

Kind = TypeVar("Kind", bound=type)
Fit = TypeVar("Fit", bound=Callable)

_WORDS_OF_FIT = """\
plan : FitPlan, optional
    Of these data, from `plan`: nothing is cut again.
client : distributed.Client, optional
    Default: the current one.

Returns
-------
self

Raises
------
InputError
    For bad parameters or data; before anything is computed.
DivergenceError
    When what is learned became NaN or infinite; that of the last good step is kept.
KeyboardInterrupt
    After Ctrl-C, with what a whole step left kept.
"""


# parameters that mean the same in all models, or in most; what a step is called differs
_WORDS_OF_PARAMETERS = {
    "transport": """\
transport : {"auto", "local", "graph", "dask", "mpi"}, default="auto"
    How ranks send; see `daskpart.MatrixFactorization`.
""",
    "checkpoints": """\
checkpoint_path : path or None, default=None
    ``run.npz`` or ``run.zarr``; written every `checkpoint_every` UNITs, the last two stay.
checkpoint_every : int, default=1
    UNITs between two checkpoints.
resume : bool, default=False
    Begin at the newest checkpoint, if there is one; gives the bits of an unbroken fit. One of
    another number of ranks goes on, too, with a warning: other ranks, other bits.
""",
    "verbose": """\
verbose : int, default=0
    1: the loss in a bar, or a line a step where the output is no terminal, after a second.
""",
}


def with_shared_words(parameters: str = "", attributes: str = "") -> Callable[[Kind], Kind]:
    """Fill in lines of a class's docstring: what it shares with others of its kind, or with all.

    ``{shared parameters}`` and ``{shared attributes}`` are those given; ``{words of transport}``,
    ``{words of checkpoints}`` and ``{words of verbose}``, there or in those, are of all models.
    """

    def filled(kind: Kind) -> Kind:
        words = cleandoc(kind.__doc__ or "")
        for name, shared in (("parameters", parameters), ("attributes", attributes)):
            words = words.replace(f"{{shared {name}}}", shared.rstrip())
        unit = kind._state_class._unit  # type: ignore[attr-defined]
        for name, shared in _WORDS_OF_PARAMETERS.items():
            shared = shared.replace("    UNIT", f"    {unit.capitalize()}").replace("UNIT", unit)
            words = words.replace(f"{{words of {name}}}", shared.rstrip())
        kind.__doc__ = words
        return kind

    return filled


def with_words_of_fit(fit: Fit) -> Fit:
    """Fill in ``{words of fit}``: the last parameters, what is returned, what is raised."""
    fit.__doc__ = cleandoc(fit.__doc__ or "").replace("{words of fit}", _WORDS_OF_FIT.rstrip())
    return fit
