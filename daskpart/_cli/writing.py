"""What `daskpart fit mf` leaves behind: the model, tables, pictures, one page."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from daskpart import plots
from daskpart.report import Report, versions

from .album import Album
from .cut import Cut, describe_cut, write_json
from .judging import Judgement
from .last_steps import describe_steps
from .ratings import Split, in_words
from .traffic import describe_traffic


@dataclass(frozen=True)
class Outcome:
    """A fit that ended, one way or another.

    Attributes
    ----------
    model : MatrixFactorization
        With the factors after the last whole epoch.
    ended : str
        "done", "stopped early", "interrupted", "diverged" or "failed".
    seconds : float
        Time of the fit.
    timeline : Timeline or None
        Of the last epochs, where they were recorded.
    """

    model: Any
    split: Split
    cut: Cut
    plan: Any
    judgement: Judgement | None
    ended: str
    seconds: float
    timeline: Any = None

    @property
    def n_epochs(self) -> int:
        """Whole epochs done."""
        return len(self.model.history_)


def write_all(
    outcome: Outcome, settings: dict[str, Any], out: Path, model_format: str, pictures: bool
) -> list[tuple[Path, str]]:
    """Write every result to the folder `out`; returns each file and what it is."""
    out.mkdir(parents=True, exist_ok=True)
    files = write_model(outcome.model, out, model_format)
    partition = out / "partition.npz"
    outcome.cut.partition.save(partition)
    history = out / "history.csv"
    outcome.model.history_.to_csv(history, index=False)
    metrics = out / "metrics.json"
    write_json(metrics, _metrics(outcome, settings))
    page, album = _page(outcome, settings, out, pictures)
    report = page.write(out / "report.html")
    return [
        *files,
        (partition, "which rank holds which row: daskpart.Partition.load"),
        (history, "one line an epoch"),
        (metrics, "all numbers"),
        *((picture, "picture") for picture in album.files),
        (report, "all of it on one page: open in a browser"),
    ]


def write_model(model: Any, out: Path, model_format: str) -> list[tuple[Path, str]]:
    """Write the fitted model; with "zarr" its factors also as a zarr group."""
    folder = out / "model"
    model.save(folder)
    files = [(folder, "the model: daskpart.MatrixFactorization.load")]
    if model_format == "zarr":
        factors = out / "factors.zarr"
        model.state_.save(factors)
        files.append((factors, "its factors, for zarr tools"))
    return files


def _metrics(outcome: Outcome, settings: dict[str, Any]) -> dict[str, Any]:
    judgement = {} if outcome.judgement is None else asdict(outcome.judgement)
    return {
        **judgement,
        "ended": outcome.ended,
        "epochs": outcome.n_epochs,
        "fit_seconds": outcome.seconds,
        "plan": outcome.plan.to_dict(),
        "communication": outcome.model.comm_report_.to_dict(),
        "partition": outcome.cut.metrics,
        "settings": settings,
        "versions": versions(),
    }


def _page(
    outcome: Outcome, settings: dict[str, Any], out: Path, pictures: bool
) -> tuple[Report, Album]:
    page = Report(
        f"Matrix factorization of {Path(settings['ratings']).name}",
        in_words(outcome.split.train, "learned from"),
    )
    album = Album(out, page, pictures)
    judgement = outcome.judgement
    history = outcome.model.history_
    page.numbers(
        **({} if judgement is None else {"test_RMSE": judgement.test_rmse}),
        training_RMSE=float(history["train_rmse"].iloc[-1]),
        epochs=outcome.n_epochs,
        ranks=outcome.plan.n_ranks,
        rows_moved_an_epoch=outcome.plan.volume,
        stale_rows_an_epoch=outcome.plan.staleness,
    )
    _describe_training(page, album, outcome)
    describe_cut(page, album, outcome.cut)
    _describe_communication(page, album, outcome)
    _describe_use(page, outcome, settings, out)
    return page, album


def _describe_training(page: Report, album: Album, outcome: Outcome) -> None:
    page.section("Training")
    words = {
        "done": "All epochs were done.",
        "stopped early": "It stopped early: the validation RMSE no longer fell.",
        "interrupted": "It was interrupted: this is the state after the last whole epoch.",
        "failed": "Workers were lost: this is the state after the last whole epoch.",
        "diverged": "It diverged: this is the last finite state. Lower the learning rate.",
    }[outcome.ended]
    page.text(f"{outcome.n_epochs} epochs in {outcome.seconds:.1f} s. {words}")
    if outcome.judgement is not None:
        for sentence in outcome.judgement.sentences(outcome.split):
            page.text(sentence[0].upper() + sentence[1:] + ".")
    history = outcome.model.history_
    rmse = None if outcome.judgement is None else outcome.judgement.test_rmse
    album.draw(
        "convergence",
        (9.4, 3.6),
        partial(plots.convergence, history, test_rmse=rmse),
        partial(plots.convergence, history, "seconds"),
        alt="RMSE falling over epochs and over seconds",
        caption="Error over epochs, and over the time spent in them. The training error is "
        "measured while an epoch runs.",
    )
    page.frame(history, fold=f"All {outcome.n_epochs} epochs")


def _describe_communication(page: Report, album: Album, outcome: Outcome) -> None:
    measured = outcome.model.comm_report_
    page.section("Communication")
    page.text(
        "Counted from the messages, beside what equations 8 (volume) and 9 (staleness) of the "
        "η-PASGD paper say for this partition, in factor rows an epoch."
    )
    page.grid(
        ["an epoch", "measured", "expected"],
        [
            ["rows moved (eq. 8)", measured.measured_rows.sum(), measured.expected_rows.sum()],
            [
                "stale rows (eq. 9)",
                measured.measured_counts["staleness"],
                measured.expected_counts["staleness"],
            ],
            ["messages", measured.measured_messages.sum(), measured.expected_messages.sum()],
            ["bytes", measured.measured_bytes, measured.expected_bytes],
        ],
    )
    page.text("All as expected." if measured.matches else "What was measured differs.")
    describe_traffic(album, measured, outcome.plan.row_words, "epoch")
    describe_steps(album, outcome.timeline, "epoch")
    page.subheading("The plan")
    page.table(outcome.plan.rows())
    page.subheading("The run")
    compared = " measured, "  # stands in the table above
    page.table({name: told for name, told in measured.rows().items() if compared not in told})


def _describe_use(page: Report, outcome: Outcome, settings: dict[str, Any], out: Path) -> None:
    page.section("Use the model")
    model, factors = (out / "model").resolve(), outcome.model.state_
    user, item = (_first(labels) for labels in (factors.user_labels, factors.item_labels))
    page.code(
        "from daskpart import MatrixFactorization\n\n"
        f"model = MatrixFactorization.load({str(model)!r})\n"
        f"model.predict([({user}, {item})])\n"
        f"model.recommend({user}, n=10)\n"
        f"model.item_factors_"
    )
    page.section("Settings")
    page.code("daskpart " + " ".join(sys.argv[1:]))
    page.table(settings)
    page.section("Versions")
    page.table(versions())


def _first(labels: Any) -> str:
    return "0" if labels is None or not len(labels) else repr(labels.tolist()[0])
