"""What the driver of `daskpart fit` and the modules of the models hand each other.

Model   what the command has to know of a model: reading, judging, telling, drawing
Data    what it read
Fit     what came of it
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from daskpart._floor.tables import fixed
from daskpart._floor.words import counted

if TYPE_CHECKING:
    import pandas as pd

    from daskpart.partitions import Partition

    from .pictures import Album

_ENDINGS = {
    "done": "All {step}s were done.",
    "stopped early": "It stopped early, as its options ask.",
    "interrupted": "It was interrupted: this is a whole {step} that was kept before.",
    "failed": "An error broke it off: this is a whole {step} that was kept before.",
    "diverged": "It diverged: this is the last finite state.",
}
WORTH_SAYING = 0.1  # seconds of compiling


@dataclass
class Data:
    """What a model is fitted to.

    Attributes
    ----------
    X : container
    words : list of str
        Lines that say what was read.
    test : Any
        What is held out to judge by.
    more : dict
        Further arguments of ``fit``, such as targets.
    """

    X: Any
    words: list[str]
    test: Any = None
    more: dict[str, Any] = field(default_factory=dict)


@dataclass
class Fit:
    """A fit that ended, one way or another.

    Attributes
    ----------
    model : DistributedEstimator
        Holding a whole step.
    data : Data
    plan : FitPlan
    ended : str
        How: a key of `_ENDINGS`.
    seconds, compiling : float
        Time of the fit with its set-up and without compiling, and of compiling.
    timeline : Timeline or None
        Of the last steps, where they were recorded.
    is_end : bool
        Whether the timeline shows these alone, and not all from the start of the fit.
    judgement : dict
        What `Model.judge` found.
    sentences : list of str
        The same in words, as `Model.told` has them, and of which step the model is.
    answers : dict
        What the model answered, where more than one place needs it.
    """

    model: Any
    data: Data
    plan: Any
    ended: str
    seconds: float
    compiling: float
    timeline: Any = None
    is_end: bool = False
    judgement: dict[str, Any] = field(default_factory=dict)
    sentences: list[str] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)

    @property
    def step(self) -> str:
        """What a step is called."""
        return self.model.comm_report_.unit

    @property
    def ending(self) -> str:
        """How it ended, in a sentence."""
        return _ENDINGS[self.ended].format(step=self.step)

    @property
    def done(self) -> str:
        """How many steps the model has, in words; after --resume also those of earlier runs."""
        n_before = self.model.n_iter_ - self.model.comm_report_.n_steps
        steps = counted(self.model.n_iter_, self.step)
        return f"{steps} ({n_before:,} in earlier runs)" if n_before > 0 else steps

    @property
    def training_seconds(self) -> float:
        """Time of the steps alone; after --resume also of those of earlier runs."""
        return float(self.model.history_["seconds"].sum())

    @property
    def spent(self) -> str:
        """How long the steps took, and the run, in words."""
        beside, seconds = ["set-up"], self.seconds
        if any(name.startswith("validation") for name in self.model.history_):
            beside.append("validation")
        if self.compiling >= WORTH_SAYING:  # some of it may be in the steps
            beside.append(f"{self.compiling:.1f} s of compiling, once,")
            seconds += self.compiling
        steps = fixed(self.training_seconds, 2)
        return f"{steps} s; with {' and '.join(beside)} this run took {fixed(seconds, 1)} s"

    @property
    def timed(self) -> str:
        """What the timeline shows, in words."""
        if self.is_end:
            return f"The last {self.step}s"
        return f"The whole fit, from what it sets up before its first {self.step}"

    @property
    def row(self) -> Any:
        """What was measured at the step whose weights the model has."""
        history, best = self.model.history_, self.model.best_iteration_
        return history.iloc[-1] if best is None else history[history[self.step] == best].iloc[0]

    @property
    def best(self) -> list[str]:
        """Which step the model is of, in a sentence, where it need not be the last."""
        best = self.model.best_iteration_
        if best is None:
            return []
        return [f"the model is that of {self.step} {best}, the best on what was held out"]


class Model:
    """What the command has to know of a model; a new model overrides what differs.

    Attributes
    ----------
    estimator : str
        Its name.
    module : str
        Where it is imported from.
    folder : Path or None
        Where workers look for that module, too.
    argument : str
        What the data are called in `--help`.
    data : str
        What they are, for `--help`, behind the docstring; where that does not say it itself.
    example : str
        A file of such data.
    options : sequence of click.Option
        Of reading, beside those of the estimator; they come to `load`.
    words : dict of str to str
        `--help` of those parameters of the estimator that take more from Python than from a shell.
    template : str
        The page; one that extends ``fit.html``.
    """

    estimator: str
    module = "daskpart"
    folder: Path | None = None
    argument = "DATA"
    data = ""
    example = "data"
    options: Sequence[click.Option] = ()
    words: ClassVar[dict[str, str]] = {}
    template = "fit.html"

    @property
    def kind(self) -> Any:
        """The class of the estimator."""
        return getattr(import_module(self.module), self.estimator)

    @property
    def imports(self) -> str:
        """The module that workers need as the fit begins."""
        return f"{self.kind.__module__.rpartition('.')[0]}.text"

    def load(self, source: str, given: dict[str, Any]) -> Data:
        """Read the data; `given` are the options of reading, and the parameters."""
        raise NotImplementedError

    def check(self, source: str, given: dict[str, Any], estimator: Any) -> None:
        """Refuse, by `options.refuse`, what the data or other options leave without use.

        Parameters
        ----------
        source : str
        given : dict
            The options of reading.
        estimator : DistributedEstimator
            With all parameters.
        """

    def adjust(self, parameters: dict[str, Any], typed: set[str]) -> None:
        """Change parameters of the estimator that others decide; `typed` were given by hand."""

    def judge(self, fit: Fit) -> dict[str, Any]:
        """Numbers that say how good the model is, for metrics.json."""
        return {}

    def told(self, fit: Fit) -> list[str]:
        """The judgement as sentences, without full stops."""
        return []

    def partition(self, fit: Fit) -> Partition | None:
        """What was cut, and the rank of each of it."""
        return fit.plan.partition

    def tables(self, fit: Fit) -> dict[str, tuple[pd.DataFrame, str]]:
        """Further tables to write, by file name, with what they are."""
        return {}

    def draw(self, fit: Fit, album: Album) -> None:
        """Pictures of the model: one called ``training``, and what its template asks for."""

    def page(self, fit: Fit) -> dict[str, Any]:
        """What its template names besides; ``numbers`` are those shown large."""
        return {}
