"""`daskpart fit mlp`: the samples of the linear models, and the section on classes."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import pandas as pd

from daskpart.models.base.reports import bytes_words

from .classes import draw_confusion, draw_learning, judged, most_frequent, no_better
from .linear import SampleModel
from .model import Fit
from .options import refuse
from .samples import check_samples


class _MLP(SampleModel):
    """Learn from SAMPLES to tell classes apart, by a multi-layer perceptron."""

    estimator = "MLPClassifier"
    example = "digits.libsvm"
    classifies = True
    options = tuple(each for each in SampleModel.options if each.name != "names")
    words: ClassVar[dict[str, str]] = {
        **SampleModel.words,
        "hidden_layer_sizes": "Widths of the hidden layers.",
        "optimizer": 'With --top-k, "sgd" and "momentum": the others divide by the size of what '
        "arrived, which TopK makes rare and large.",
    }
    template = "mlp.html"

    def check(self, source: str, given: dict[str, Any], estimator: Any) -> None:
        """Refuse what is of another kind of file, network or learning rate."""
        check_samples(source, given)
        if estimator.learning_rate != "invscaling":
            refuse(("power_t",), "it is of --learning-rate invscaling")
        if not estimator.hidden_layer_sizes:
            refuse(("activation",), "there is no hidden layer")
        if estimator.top_k is None:
            refuse(("top_k_bucket",), "it is of --top-k")

    def load(self, source: str, given: dict[str, Any]) -> Any:
        """As of the linear models; features have no names here."""
        return super().load(source, {**given, "names": None})

    def judge(self, fit: Fit) -> dict[str, Any]:
        """Loss, accuracy, counts of right and wrong classes, bytes."""
        model = fit.model
        history = model.history_
        found = {
            "train_loss": float(fit.row["loss"]),
            "n_weights": sum(weight.size for weight in model.state_.weights.values()),
            "density": float(history["density"].mean()),
            "bytes_an_epoch": float(history["bytes"].mean()),
        }
        if fit.data.test is not None:
            labels, answers = fit.data.test.labels(), model.predict(fit.data.test.X)
            fit.answers = {"label": labels, "found": answers}
            found |= judged(labels, answers, model.classes_.tolist())
        return found

    def told(self, fit: Fit) -> list[str]:
        """The judgement as sentences."""
        found = fit.judgement
        lines = [f"training loss {found['train_loss']:.6g}"]
        if "test_accuracy" in found:
            lines.append(
                f"accuracy {found['test_accuracy']:.4f} on {found['n_test']:,} held-out samples; "
                f"the most frequent class makes up {most_frequent(found):.1%}"
            )
            lines += no_better(found)
        lines.append(
            f"the sum of the gradients of a step has entries for {found['density']:.2%} of all "
            f"{found['n_weights']:,} weights; all ranks send "
            f"{bytes_words(found['bytes_an_epoch'])} an epoch"
        )
        return lines

    def tables(self, fit: Fit) -> dict[str, tuple[pd.DataFrame, str]]:
        """The class of every sample that was held out."""
        if fit.data.test is None:
            return {}
        found = pd.DataFrame(fit.answers)
        return {"labels.csv": (found, "true and found class of the held-out samples")}

    def draw(self, fit: Fit, album: Any) -> None:
        """Learning curves, what was sent, confusion."""
        history = fit.model.history_
        draw_learning(history, album, "; each sample is measured before its own step")
        if fit.plan.n_ranks > 1:
            self._draw_sent(history, album)
        draw_confusion(fit.judgement, album, "Held-out samples")

    def _draw_sent(self, history: pd.DataFrame, album: Any) -> None:
        from daskpart import plots

        megabytes = history.assign(megabytes=history["bytes"] / 1e6)
        album.draw(
            "sent",
            (9.4, 3.4),
            partial(plots.learning_curve, megabytes, "megabytes", words="MB sent by all ranks"),
            partial(plots.learning_curve, history, "density", words="density of the sums"),
            alt="Bytes and density of the sums over epochs",
            caption="What the ranks sent in each epoch, and the share of the weights for which the "
            "sum of the gradients of a step has an entry.",
        )

    def page(self, fit: Fit) -> dict[str, Any]:
        """Key numbers."""
        found = fit.judgement
        score = {"test_accuracy": found["test_accuracy"]} if "test_accuracy" in found else {}
        weights, sent = found["n_weights"], found["bytes_an_epoch"]
        rest = {"training_loss": found["train_loss"], "weights": weights, "bytes_an_epoch": sent}
        return {"numbers": {**score, **rest}}


MODEL = _MLP()
