"""`daskpart partition`: cut a matrix, a tensor or a hypergraph, say what that costs, write it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.tables import fixed, readable
from daskpart._floor.words import counted, from_to, plural
from daskpart.connectivity import Connectivity
from daskpart.containers.matrix import LabelledMatrix
from daskpart.data_models import DataModel, build, rebuild
from daskpart.errors import InputError
from daskpart.hypergraph import Hypergraph
from daskpart.partitioners.metis import has_stars
from daskpart.partitions import WITHOUT_ROWS, Partition
from daskpart.readers.parts import read_weights
from daskpart.writers import write_parts

from .files import check_out, check_target, say_files, write_asked, write_table
from .inputs import Cuttable, in_words, load_any, load_parts
from .options import refuse
from .page import write_json, write_page
from .pictures import Album
from .terminal import say


@dataclass(frozen=True)
class CutSettings:
    """The options of `daskpart partition`, as given."""

    data: str
    parts: int
    method: str
    objective: str
    model: str
    engine: str
    epsilon: float | list[float]
    rho: float
    random_state: int
    format: str | None
    further_weights: Path | None
    start: Path | None
    refine: str | None
    out: Path
    output: Path | None
    plots: bool


UNUSED_WITH_START = ("method", "objective")
_NAMES = {
    "column-net-self-loops": ("vertex", "vertex"),
    "stochastic": ("vertex", "sampled net"),
    "graph": ("vertex", "edge"),
    "fine-grain": ("nonzero", "index"),
    "medium-grain": ("group", "index"),
    "hypergraph": ("vertex", "net"),
}


@dataclass(frozen=True)
class Cut:
    """A partition, with what it is measured on.

    `matrix` is None where a tensor or a hypergraph was cut.
    """

    matrix: LabelledMatrix | None
    partition: Partition
    connectivity: Connectivity
    metrics: dict[str, Any]

    @property
    def names(self) -> tuple[str, str]:
        """What is cut, and what links the parts: ("user", "item"), or the other way round."""
        model = self.partition.info.get("model")
        if model in _NAMES or self.matrix is None:
            return _NAMES[model or "hypergraph"]
        names = self.matrix.row_name, self.matrix.column_name
        return names[::-1] if model == "row-net" else names

    @property
    def plurals(self) -> tuple[str, str]:
        """`names` for many."""
        vertex, net = map(plural, self.names)
        return vertex, net

    @property
    def weighed(self) -> str:
        """What is counted in a part's weight; that of a given hypergraph may be anything."""
        if (self.partition.weights == 1).all():
            return self.plurals[0]
        if self.matrix is not None:
            return "values"
        # of values the model knows how many there are
        return "nonzeros" if "nnz" in self.partition.info else "units of weight"

    @property
    def moves_rows(self) -> bool:
        """Whether each net stands for a row that its parts exchange."""
        return self.partition.info.get("model") not in WITHOUT_ROWS

    @property
    def has_costs(self) -> bool:
        """Whether nets cost something other than 1, so that sums over them are no rows."""
        return bool((self.connectivity.costs != 1).any())


def run(settings: CutSettings, parts_typed: bool = False) -> None:
    """Read, cut or take parts as they are, refine, say, write."""
    import daskpart

    given = settings.start, settings.further_weights
    check_out(settings.out, settings.data, *given, output=settings.output)
    if settings.output is not None:
        check_target(settings.output, settings.data)
    further = None  # read first: it is the smaller file
    if settings.further_weights is not None:
        further = read_weights(settings.further_weights)
    data = load_any(settings.data, settings.format, settings.model)
    words = in_words(data, settings.data)
    say(words)
    seed = settings.random_state
    if settings.start is None:
        say(f"cutting into {counted(settings.parts, 'part')} …")
        model = build(data, settings.model, n_parts=settings.parts, random_state=seed)
        check_objective(settings.method, model)
        partition = daskpart.partition(
            model,
            settings.parts,
            settings.objective,
            method=settings.method,
            engine=settings.engine,
            epsilon=settings.epsilon,
            random_state=seed,
            rho=settings.rho,
            further_weights=further,
        )
    else:
        model, partition = parts_of(data, settings.data, settings.start, settings.model, seed)
        if parts_typed and settings.parts != partition.n_parts:
            raise InputError(
                f"{settings.start} has {partition.n_parts} parts, not {settings.parts}: leave "
                "out --parts"
            )
        settings = replace(settings, parts=partition.n_parts)
    if settings.refine is not None:
        partition = daskpart.refine(
            model, partition, settings.refine, rho=settings.rho, epsilon=settings.epsilon,
            random_state=seed, engine=settings.engine, further_weights=further,
        )  # fmt: skip
    matrix = data if isinstance(data, LabelledMatrix) else None
    cut = measure(matrix, partition, model.hypergraph)
    for sentence in sentences(cut):
        say(sentence)
    settings.out.mkdir(parents=True, exist_ok=True)
    say_files(_write(cut, model, settings, words), settings.out)


def check_objective(method: str, model: DataModel) -> None:
    """Refuse to choose what METIS makes small where it has no choice; see `metis_parts`."""
    if method == "metis" and has_stars(model.hypergraph):
        refuse(("objective",), "METIS cuts nets of more than two pins alike for every objective")


def parts_of(
    data: Cuttable, source: str, path: Path, model: str, seed: int
) -> tuple[DataModel, Partition]:
    """The parts in a file, and the model of the data that they are of (else InputError)."""
    given = load_parts(path)
    built = rebuild(data, given, model, random_state=seed)
    n_vertices, weights = built.hypergraph.n_vertices, built.hypergraph.vertex_weights
    given.check_fits(n_vertices, source, "vertices", shape=built.shape, nnz=built.nnz)
    info = {**given.info, **built.info}
    return built, Partition(given.assignment, given.n_parts, weights, info)


def measure(matrix: LabelledMatrix | None, partition: Partition, hypergraph: Hypergraph) -> Cut:
    """Every metric of a partition."""
    connectivity = Connectivity.from_partition(hypergraph, partition)
    return Cut(matrix, partition, connectivity, partition.report(hypergraph).to_dict())


def sentences(cut: Cut) -> list[str]:
    """The cut in plain words."""
    vertices = cut.plurals[0]
    histogram = np.asarray(cut.connectivity.histogram())
    local, linking = int(histogram[1:2].sum()), int(histogram[2:].sum())
    weights = cut.partition.part_weights
    size = from_to(int(weights.min()), int(weights.max()))
    words = [
        f"{counted(cut.partition.n_parts, 'part')} of the {vertices}, {size} {cut.weighed} each: "
        f"the heaviest is {cut.partition.imbalance:.1%} above the mean.",
        f"{counted(local, cut.names[1])} {'is' if local == 1 else 'are'} local to one part; "
        f"{linking:,} {'links' if linking == 1 else 'link'} several "
        f"(at most {cut.connectivity.max_connectivity()}).",
    ]
    if cut.moves_rows:
        rows = counted(cut.connectivity.pasgd_volume(1), "row")
        words.append(f"One exchange of what is linked, there and back, moves {rows}.")
    info = cut.partition.info
    words += [
        f"Of further weight {place} the heaviest part has {each:.1%} more than the mean."
        for place, each in enumerate(info.get("further_imbalances", ()))
    ]
    if info.get("seconds") is not None:
        words[0] += f" Found in {fixed(info['seconds'], 2)} s."
    if "refined" in info:
        before, after = (readable(info[f"metric_{when}"]) for when in ("before", "after"))
        words.append(
            f"Moves of single {vertices} took {info['refined']} from {before} to {after}, in "
            f"{fixed(info['refine_seconds'], 2)} s."
        )
    return words


def _write(cut: Cut, model: DataModel, settings: CutSettings, words: str) -> list[tuple[Path, str]]:
    """Write everything; returns each file and what it is."""
    partition_file = settings.out / "partition.npz"
    cut.partition.save(partition_file)
    labels, parts = _labels(cut), cut.partition.assignment.tolist()
    names = range(len(parts)) if labels is None else labels.tolist()
    lines = zip(names, parts, strict=True)
    table = write_table(settings.out / "assignment.csv", [cut.names[0], "part"], lines)
    # those of most files that are numbered begin at 1
    counted_so = f"; {cut.plurals[0]} are counted from 0" if labels is None else ""
    metrics = {"settings": vars(settings), "metrics": cut.metrics}
    album = Album(settings.out, settings.plots)
    draw_cut(album, cut)
    page = write_page(
        "partition.html",
        album,
        title=f"{Path(settings.data).name} in {counted(settings.parts, 'part')}",
        lead=words,
        cut=cut,
        cut_sentences=sentences(cut),
        settings=vars(settings),
        file=repr(str(partition_file.resolve())),
    )
    return [
        (partition_file, "the partition: daskpart.Partition.load"),
        (table, f"part of each {cut.names[0]}, as text{counted_so}"),
        *_texts(cut, model, settings),
        (write_json(settings.out / "metrics.json", metrics), "every metric"),
        *page,
    ]


def _texts(cut: Cut, model: DataModel, settings: CutSettings) -> list[tuple[Path, str]]:
    """Parts, one a line: of each vertex where that is asked, of each nonzero of a tensor."""
    files = []
    if settings.output is not None:
        files.append(write_asked(cut.partition, settings.output, cut.names[0]))
    if model.tensor is not None:
        nonzeros = settings.out / "nonzero-parts.txt.gz"
        write_parts(model.nonzero_parts(cut.partition), nonzeros)
        files.append((nonzeros, "part of each nonzero in row-major order, one a line"))
    return files


def draw_cut(album: Album, cut: Cut) -> None:
    """The matrix reordered, the shares of the nets, the loads of the parts."""
    if not album.draws:
        return
    from daskpart import plots

    net, nets = cut.names[1], cut.plurals[1]
    if cut.matrix is not None and cut.partition.info.get("model") not in _NAMES:
        _draw_matrix(album, cut, cut.matrix)
    album.draw(
        "partition",
        (9.4, 3.4),
        partial(plots.connectivity_histogram, cut.connectivity, item=net, items=nets),
        partial(plots.part_weights, cut.partition.part_weights, unit=cut.weighed),
        alt=f"Left: how many {nets} are shared by how many ranks. Right: the load of each rank",
        caption=f"Left: {nets} by λ, the number of ranks that use one. "
        f"Right: {cut.weighed} held by each rank.",
    )


def _draw_matrix(album: Album, cut: Cut, matrix: LabelledMatrix) -> None:
    from daskpart import plots

    vertices, nets = cut.plurals
    album.draw(
        "spy",
        (9.4, 5.0),
        partial(
            plots.spy,
            matrix,
            cut.partition,
            owners=cut.connectivity.owners,
            names=(matrix.row_name, matrix.column_name),
        ),
        alt=f"The matrix, reordered: blocks of local {nets}, then the border of linking {nets}",
        caption=f"The matrix with its {vertices} grouped by rank. Left of the black line stand the "
        f"{nets} that one rank alone uses, on the block diagonal; right of it the {nets} that link "
        "ranks: those rows must travel. Darker means denser.",
    )


def _labels(cut: Cut) -> NDArray[Any] | None:
    """What the data call that which is cut; None where it has a number only."""
    if cut.matrix is None or cut.names[0] in ("nonzero", "group"):
        return None
    of_columns = cut.partition.info.get("model") == "row-net"
    return cut.matrix.column_labels if of_columns else cut.matrix.row_labels
