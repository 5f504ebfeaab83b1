"""`daskpart fit MODULE:CLASS` and `daskpart fit FILE.py:CLASS`: a model that a user has written.

class ── constraints, docstring ──► options          fit needs y: samples with targets
  └───── _measures ──► sentences, pictures, numbers    it needs none: a matrix
"""

from __future__ import annotations

import inspect
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from sklearn.base import ClassifierMixin, RegressorMixin

import daskpart
from daskpart._floor.words import words_of
from daskpart.errors import InputError
from daskpart.models.base.estimator import DistributedEstimator

from .cluster import find_in
from .fit import FitCommand
from .inputs import MATRICES, in_words, load_matrix
from .linear import SAMPLES, SampleModel
from .model import Data, Fit, Model
from .options import format_of, of_table, parameter_words
from .samples import check_samples

_OF_THE_RUN = (
    "max_iter", "n_ranks", "transport", "checkpoint_path", "checkpoint_every", "resume",
)  # fmt: skip
_MATRIX = f"MATRIX is a file ({', '.join(MATRICES)}) or python-source, the built-in data."


class OwnModel(Model):
    """A class of any module; what it does not say is left out."""

    def __init__(self, name: str) -> None:
        place, _, self.estimator = name.rpartition(":")
        self.folder, self.module = _located(place)
        kind = _checked(_imported(place, self.folder, self.module), self.estimator)
        target = inspect.signature(kind.fit).parameters.get("y")
        self.has_targets = target is not None and (
            target.default is target.empty or issubclass(kind, (ClassifierMixin, RegressorMixin))
        )
        judged = ("test_fraction", "test") if hasattr(kind, "score") else ()
        if self.has_targets:
            self.argument, self.example, self.data = "SAMPLES", "X.libsvm", SAMPLES
            known = SampleModel.options
            self.options = [each for each in known if each.name in (*judged, "label")]
        else:
            self.argument, self.example, self.data = "MATRIX", "X.mtx", _MATRIX
            own = kind._get_param_names()  # of a factorization of theirs "user" is one
            of_files = [each for each in of_table() if each.name not in own]
            self.options = [format_of(MATRICES), *of_files]
        told, ours = parameter_words(kind), parameter_words(daskpart.MatrixFactorization)
        self.words = {each: ours[each][1] for each in _OF_THE_RUN if each not in told}  # type: ignore[misc]
        self.__doc__ = inspect.cleandoc(kind.__doc__ or name).partition("\n\n")[0]

    @property
    def imports(self) -> str:
        """The module itself."""
        return self.module

    def check(self, source: str, given: dict[str, Any], estimator: Any) -> None:
        """As of the linear models, where the data are samples."""
        if self.has_targets:
            check_samples(source, given)

    def load(self, source: str, given: dict[str, Any]) -> Data:
        """Samples, some held out where the model can judge itself; or a matrix."""
        if not self.has_targets:
            matrix = load_matrix(source, given)
            return Data(matrix.to_scipy(), [in_words(matrix, source)])
        samples = SampleModel()
        samples.classifies = issubclass(self.kind, ClassifierMixin)
        unasked = dict.fromkeys(("test", "names")) | {"read": "here"}
        # what a model of theirs may call so is its own matter
        unasked |= {"test_fraction": 0}
        return samples.load(source, unasked | given | {"validation_fraction": 0})

    def judge(self, fit: Fit) -> dict[str, Any]:
        """What it measured last, and its score."""
        row = fit.row
        found = {each: float(row[each]) for each in self._measured(fit) if row[each] == row[each]}
        if fit.data.test is not None:
            found["test_score"] = float(fit.model.score(*fit.data.test))
            found["n_test"] = fit.data.test.size
        return found

    def told(self, fit: Fit) -> list[str]:
        """The same as sentences."""
        found = dict(fit.judgement)
        n_test = found.pop("n_test", 0)
        words = self._measured(fit) | {"test_score": f"score on {n_test:,} held-out samples"}
        return [f"{words[column]}: {value:.6g}" for column, value in found.items()]

    def draw(self, fit: Fit, album: Any) -> None:
        """Each measure over the steps."""
        from daskpart import plots

        curves = [
            partial(plots.learning_curve, fit.model.history_, column, words=words)
            for column, words in self._measured(fit).items()
            if fit.model.history_[column].notna().any()
        ]
        if curves:
            words = f"What the model measures, over the {fit.step}s."
            album.draw("training", (4.7 * len(curves), 3.5), *curves, alt=words, caption=words)

    def page(self, fit: Fit) -> dict[str, Any]:
        """Key numbers."""
        return {"numbers": {k: value for k, value in fit.judgement.items() if k != "n_test"}}

    def _measured(self, fit: Fit) -> dict[str, str]:
        """Columns of the history that the model shows, and what they are called."""
        return {
            each.column: f"{each.words} {each.unit}".rstrip()
            for each in fit.model._measures
            if each.column in fit.model.history_
        }


class OwnCommand(FitCommand):
    """`daskpart fit` of a class that is named; raises InputError where there is none."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._model = OwnModel(name)
        self.short_help = f"{self._model.estimator} of {self._model.argument}."

    @property
    def model(self) -> Model:
        """The class, and what is known of it."""
        return self._model

    def _make_params(self) -> None:
        super()._make_params()
        names = [each.name for each in self.params]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InputError(
                f"{self.name}: its parameter {twice!r} has the name of an option that the command "
                "has for every model: call it otherwise, or fit from Python"
            )


def _located(place: str) -> tuple[Path, str]:
    """The folder to look in, if the module is not installed, and the name of the module."""
    if not place.endswith(".py"):
        return Path.cwd(), place
    path = Path(place).expanduser().resolve()
    if not path.is_file():
        raise InputError(f"{place}: no such file; give FILE.py:CLASS or PACKAGE.MODULE:CLASS")
    return path.parent, path.stem


def _imported(place: str, folder: Path, name: str) -> Any:
    """The module; an error of its own is one of the user's."""
    find_in(str(folder))
    try:
        module = import_module(name)
    except Exception as error:
        words = " ".join(words_of(error).split())
        raise InputError(f"{place!r} cannot be imported ({words})") from error
    if place.endswith(".py") and Path(str(module.__file__)).resolve() != folder / f"{name}.py":
        raise InputError(f"{place}: {module.__file__} has the same name; give it another")
    return module


def _checked(module: Any, name: str) -> type[DistributedEstimator]:
    """The class of that name."""
    kind = getattr(module, name, None)
    if isinstance(kind, type) and issubclass(kind, DistributedEstimator):
        return kind
    known = [
        each.__name__
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, DistributedEstimator)
        and each is not DistributedEstimator
    ]  # fmt: skip
    what = "is no model, a DistributedEstimator" if kind is not None else "is not there"
    raise InputError(
        f"{module.__name__}: {name!r} {what}; models there: {', '.join(known) or 'none'}"
    )
