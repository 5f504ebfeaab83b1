"""`daskpart partition`: cut a matrix, say what the cut costs, write it down."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from daskpart import plots
from daskpart.connectivity import Connectivity
from daskpart.containers import LabelledMatrix
from daskpart.hypergraph import Hypergraph
from daskpart.partitions import Partition
from daskpart.report import Report, readable, versions

from .album import Album
from .ratings import in_words, load
from .terminal import COMPILING, explained_if_slow, say


@dataclass(frozen=True)
class CutSettings:
    """The options of `daskpart partition`, as given."""

    data: str
    parts: int
    method: str
    objective: str
    model: str
    engine: str
    epsilon: float
    rho: float
    seed: int
    format: str | None
    out: Path
    plots: bool


@dataclass(frozen=True)
class Cut:
    """A partition of a matrix, with what it is measured on."""

    matrix: LabelledMatrix
    partition: Partition
    connectivity: Connectivity
    metrics: dict[str, Any]

    @property
    def names(self) -> tuple[str, str]:
        """What is cut, and what links the parts: ("user", "item"), or the other way round."""
        names = self.matrix.row_name, self.matrix.column_name
        return names[::-1] if self.partition.info.get("model") == "row-net" else names


def run(settings: CutSettings) -> None:
    """Read, cut, say, write."""
    import daskpart

    matrix = load(settings.data, settings.format, ("row", "column"))
    say(in_words(matrix, settings.data))
    say(f"cutting into {settings.parts} parts …")
    with explained_if_slow(COMPILING):
        partition = daskpart.partition(
            matrix,
            settings.parts,
            settings.objective,
            method=settings.method,
            model=settings.model,
            engine=settings.engine,
            epsilon=settings.epsilon,
            random_state=settings.seed,
            rho=settings.rho,
        )
    cut = measure(matrix, partition)
    for sentence in sentences(cut):
        say(sentence)
    settings.out.mkdir(parents=True, exist_ok=True)
    for path, words in _write(cut, settings):
        say(f"  {path}  {words}")


def measure(matrix: LabelledMatrix, partition: Partition) -> Cut:
    """Every metric of a partition of the rows (or columns) of `matrix`."""
    of_columns = partition.info.get("model") == "row-net"
    hypergraph = Hypergraph.row_net(matrix) if of_columns else Hypergraph.column_net(matrix)
    connectivity = Connectivity.from_partition(hypergraph, partition)
    return Cut(matrix, partition, connectivity, partition.report(hypergraph).to_dict())


def sentences(cut: Cut) -> list[str]:
    """The cut in plain words."""
    vertex, net = cut.names
    histogram = np.asarray(cut.connectivity.histogram())
    linking = int(histogram[2:].sum())
    weights = cut.partition.part_weights
    words = [
        f"{cut.partition.n_parts} parts of the {vertex}s, {int(weights.min()):,} to "
        f"{int(weights.max()):,} values each: the heaviest is {cut.partition.imbalance:.1%} "
        "above the mean.",
        f"{int(histogram[1:2].sum()):,} {net}s are local to one part; {linking:,} link several "
        f"(at most {cut.connectivity.max_connectivity()}).",
        f"Exchanging what is linked once, there and back, moves "
        f"{cut.connectivity.pasgd_volume(1):,} rows.",
    ]
    if cut.partition.info.get("seconds") is not None:
        words[0] += f" Found in {cut.partition.info['seconds']:.2f} s."
    return words


def _write(cut: Cut, settings: CutSettings) -> list[tuple[Path, str]]:
    """Write everything; returns each file and what it is."""
    partition_file = settings.out / "partition.npz"
    cut.partition.save(partition_file)
    table = settings.out / "assignment.csv"
    _write_assignment(cut, table)
    metrics = settings.out / "metrics.json"
    write_json(metrics, {"settings": vars(settings), "metrics": cut.metrics})
    title = f"{Path(settings.data).name} in {settings.parts} parts"
    page = Report(title, in_words(cut.matrix, settings.data))
    album = Album(settings.out, page, settings.plots)
    describe_cut(page, album, cut)
    page.section("Settings")
    page.table(vars(settings))
    page.section("Load it")
    page.code(f'import daskpart\n\npartition = daskpart.Partition.load("{partition_file}")')
    page.section("Versions")
    page.table(versions())
    report = page.write(settings.out / "report.html")
    return [
        (partition_file, "the partition: daskpart.Partition.load"),
        (table, f"part of each {cut.names[0]}, as text"),
        (metrics, "every metric"),
        *((picture, "picture") for picture in album.files),
        (report, "all of it on one page: open in a browser"),
    ]


def describe_cut(page: Report, album: Album, cut: Cut) -> None:
    """The section about the partition: words, numbers, three pictures."""
    vertex, net = cut.names
    page.section("Partition")
    page.text(" ".join(sentences(cut)))
    page.table(cut.metrics)
    album.draw(
        "spy",
        (9.4, 5.0),
        partial(
            plots.spy,
            cut.matrix,
            cut.partition,
            owners=cut.connectivity.owners,
            names=(cut.matrix.row_name, cut.matrix.column_name),
        ),
        alt=f"The matrix, reordered: blocks of local {net}s, then the border of linking {net}s",
        caption=f"The matrix with its {vertex}s grouped by rank. Left of the black line stand the "
        f"{net}s that one rank alone uses, on the block diagonal; right of it the {net}s that link "
        "ranks: those rows must travel. Darker means denser.",
    )
    album.draw(
        "partition",
        (9.4, 3.4),
        partial(plots.connectivity_histogram, cut.connectivity, item=net),
        partial(plots.part_weights, cut.partition.part_weights),
        alt=f"Left: how many {net}s are shared by how many ranks. Right: the load of each rank",
        caption=f"Left: {net}s by λ, the number of ranks that use one. "
        "Right: values held by each rank.",
    )


def _write_assignment(cut: Cut, path: Path) -> None:
    of_columns = cut.names[0] == cut.matrix.column_name
    labels = cut.matrix.column_labels if of_columns else cut.matrix.row_labels
    assignment = cut.partition.assignment.tolist()
    names = range(len(assignment)) if labels is None else labels.tolist()
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([cut.names[0], "part"])
        writer.writerows(zip(names, assignment, strict=True))


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write numbers, text, paths and numpy values as JSON, indented."""

    def plain(value: Any) -> Any:
        return value.tolist() if isinstance(value, np.ndarray | np.generic) else readable(value)

    path.write_text(json.dumps(content, indent=2, default=plain) + "\n", encoding="utf-8")
