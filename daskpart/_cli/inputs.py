"""The input of a command: a file or the built-in data, as what can be cut or learned from.

X.tns.gz ── --names user,artist,tag ── --labels artist=artists.map.gz ──► LabelledTensor
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from daskpart._floor.words import counted, listed
from daskpart.containers.matrix import LabelledMatrix, as_matrix, number_column
from daskpart.containers.tensor import LabelledTensor, Missing, as_tensor
from daskpart.containers.tensor import columns_of as columns_of_frame
from daskpart.data_models import DataModel
from daskpart.errors import InputError, ReadError
from daskpart.hypergraph import Hypergraph
from daskpart.partitions import Partition
from daskpart.readers import read
from daskpart.readers.contents import sparse_inside
from daskpart.readers.detection import FORMATS, detect, suffix_format
from daskpart.readers.example_tables import is_table
from daskpart.readers.messages import about_no_number
from daskpart.readers.streams import first_lines, is_address, location

from .tables import read_names, read_table

if TYPE_CHECKING:
    import pandas as pd

BUILT_IN = "python-source"
MATRICES = ("ratings", "parquet", "adjacency", "edges", "mtx", "npz", "libsvm")
_MAY_REPEAT = ("ratings", "parquet", "adjacency")
GRAPHS = ("edges", "mtx", "npz", "metis")
TENSORS = ("tns", "npz", "mtx")
_HAVE_COLUMNS = ("ratings", "parquet", "edges")
_SIDES, _WRITTEN = ("user", "item", "rating"), ("header", "text_ids")  # options of tables
_COLUMNS = "--user, --item, --rating"
# what helps a reader, as the commands that have options of a table take it
_ADVICE = {
    "header": " Say --header or --no-header, or name its columns user and item, in the file or by "
    "--user and --item",
    "text_ids": "; if ids are text, say --text-ids",
    "columns": f" Say {_COLUMNS}",
}
_OF_TABLES = f"{_COLUMNS}, --header and --text-ids"
_OF_GRAPH = ("reader", "vertex")  # rows and columns
Cuttable: TypeAlias = LabelledMatrix | LabelledTensor | DataModel


def load_matrix(
    source: str, given: Mapping[str, Any] = {}, repeats: Literal["last", "sum"] = "last"
) -> LabelledMatrix:
    """Read a matrix from a file, or the built-in module × identifier counts.

    Parameters
    ----------
    source : str
        Path, or `BUILT_IN`.
    given : mapping
        What was said by ``--format``, and by the options of `options.of_table`; None: nothing. Rows
        and columns are called after those of a table that are named.
    repeats : {"last", "sum"}
        What a cell of a table has that occurs more than once.

    Raises
    ------
    InputError
        Absent or damaged file, unknown format, something that is not a matrix.
    """
    format = given.get("format")
    if source == BUILT_IN:
        if any(given.get(name) is not None for name in (*_SIDES, *_WRITTEN)):
            raise InputError(f"{BUILT_IN} is no table: leave out {_OF_TABLES}")
        return as_matrix(_built_in("counts", format))
    of_table = _of_table(given)
    data = sparse_inside(_read(source, format, MATRICES, repeats=repeats, **of_table), source)
    is_hypergraph = isinstance(data, Hypergraph)
    if is_hypergraph or len(data.shape) != 2:
        what = "a hypergraph" if is_hypergraph else f"a tensor of {len(data.shape)} modes"
        raise InputError(f"{source} holds {what}; this command takes a matrix (two modes)")
    matrix = _matrix(data, ("user", "item"))
    if "columns" not in of_table:
        return matrix
    user, item, *_ = of_table["columns"]
    return replace(matrix, row_name=str(user), column_name=str(item))


def _built_in(name: str, format: str | None) -> Any:
    """A variable of the built-in data, which have no format."""
    from daskpart.datasets import load_python_source

    if format is not None:
        raise InputError(f"{BUILT_IN} is in no file: leave out --format")
    return load_python_source()[name]


def _of_table(given: Mapping[str, Any]) -> dict[str, Any]:
    """What was said of a table, as options of its reader."""
    options = {name: given[name] for name in _WRITTEN if given.get(name) is not None}
    columns = [given.get(name) for name in _SIDES]
    if columns == [None, None, None]:
        return options
    if None in columns[:2]:
        raise InputError(
            "--user, --item and --rating name the columns of a table together: give --user and "
            "--item, and --rating where there is one"
        )
    return {**options, "columns": tuple(each for each in columns if each is not None)}


def load_graph(source: str, format: str | None = None) -> tuple[Any, Any]:
    """Read a graph: lines of edges, a square matrix, or METIS's; errors as of `load_matrix`.

    Returns
    -------
    graph : container
    beside : xarray.Dataset or dict
        Where the file has more than edges: features, label, and the masks train, validation, test.
    """
    if source == BUILT_IN:
        return _built_in("imports", format), {}
    data = _read(source, format, GRAPHS, table="edges")
    graph = sparse_inside(data, source)
    if isinstance(graph, Hypergraph) and (np.diff(graph.net_pointer) == 2).all():
        return _adjacency(graph), {}
    if isinstance(graph, Hypergraph) or len(getattr(graph, "shape", ())) != 2:
        raise InputError(f"{source} holds no graph: give edges or a square matrix")
    return graph, data if hasattr(data, "data_vars") else {}


def load_graph_matrix(source: str, format: str | None = None) -> LabelledMatrix:
    """Read a graph, as `load_graph`, as a matrix."""
    return _matrix(load_graph(source, format)[0], _OF_GRAPH)


def load_parts(path: Path) -> Partition:
    """Read parts: what `Partition.save` wrote (.npz), or text."""
    if path.suffix == ".npz":
        return Partition.load(path)
    if path.suffix == ".csv" and any(line.endswith(",part") for line in first_lines(path)[:1]):
        raise InputError(
            f"{path} is the table that 'daskpart partition' writes for people: give partition.npz, "
            "which it wrote beside it"
        )
    return Partition.from_file(path)


def _adjacency(graph: Hypergraph) -> Any:
    """The symmetric matrix of a graph whose edges are nets of two pins."""
    import scipy.sparse

    ends = graph.pins.reshape(-1, 2).T
    rows, columns = np.concatenate([ends, ends[::-1]], axis=1)
    weights = np.concatenate([graph.net_costs, graph.net_costs]).astype(np.float64)
    shape = graph.n_vertices, graph.n_vertices
    return scipy.sparse.coo_array((weights, (rows, columns)), shape=shape).tocsr()


def load_any(source: str, format: str | None, model: str) -> Cuttable:
    """Read whatever can be cut: a matrix as `load_matrix` does, a tensor, a hypergraph, a graph.

    A hypergraph needs no data model, so no `model` but "auto" goes with it (InputError). A graph of
    METIS is cut as it is, with its weights, unless `model` says another: then it is a matrix.
    """
    if source == BUILT_IN:
        return as_matrix(_built_in("counts", format))
    data = sparse_inside(_read(source, format), source)
    if isinstance(data, Hypergraph):
        if (format or suffix_format(source)) == "metis":
            if model in ("auto", "graph"):
                return DataModel(data, "graph")
            return _matrix(_adjacency(data), _OF_GRAPH)
        if model != "auto":
            raise InputError(f"{source} says itself what is a net: leave out --model")
        return DataModel(data, "hypergraph")
    return as_tensor(data) if len(data.shape) != 2 else _matrix(data, ("row", "column"))


def load_tensor(
    source: str,
    format: str | None,
    names: str | None,
    labels: Sequence[str],
    missing: Missing = "zero",
    value: str | None = None,
    zero_based: bool = False,
) -> LabelledTensor:
    """Read a tensor and name its modes.

    Parameters
    ----------
    source, format : str
        As for `load_matrix`; or a table with a header, CSV or Parquet.
    names : str, optional
        Names of the modes, with commas between them; of a table its columns that are modes.
    labels : sequence of str
        ``mode=file`` each: a text file with one label a line, in order of the indices.
    missing : {"zero", "unknown"}
        What is not in the file; zeros that are count where it is unknown.
    value : str, optional
        Column of a table that has the values.
    zero_based : bool
        Whether indices of a .tns file begin at 0 in all modes.

    Raises
    ------
    InputError
        Absent or damaged files, another number of names, or fewer labels than indices.
    """
    tensor = _tensor(source, format, names, missing, value, zero_based)
    known = dict(tensor.labels)
    for entry in labels:
        mode, equals, path = entry.partition("=")
        if not equals or mode not in tensor.dims:
            raise InputError(
                f"--labels {entry}: give MODE=FILE, with a mode out of {', '.join(tensor.dims)}"
            )
        extent = tensor.shape[tensor.dims.index(mode)]
        known[mode] = read_names(path, extent, f"{mode} has {counted(extent, 'index')}")
    return replace(tensor, labels=known)


def _tensor(
    source: str,
    format: str | None,
    names: str | None,
    missing: Missing,
    value: str | None,
    zero_based: bool,
) -> LabelledTensor:
    is_columns = source != BUILT_IN and format is None and is_table(source)
    if zero_based and (is_columns or source == BUILT_IN):
        raise InputError(f"{source} is no .tns file: leave out --zero-based")
    if is_columns:
        return _of_columns(read_table(source), source, names, missing, value)
    if value is not None:
        raise InputError(f"--value names a column of a table; {source} is none")
    if source == BUILT_IN:
        data: Any = _built_in("counts", format)
    else:
        data = sparse_inside(_read(source, format, TENSORS, zero_based=zero_based), source)
    if isinstance(data, Hypergraph):
        raise InputError(f"{source} holds a hypergraph; this command takes a tensor or a matrix")
    return _with_names(as_tensor(data, missing=missing), names)


def _values_of(column: pd.Series, source: str) -> Any:
    """The values of a column; an error that shows one that is no number, as the readers' do."""
    import pandas as pd

    if column.dtype == object or pd.api.types.is_string_dtype(column.dtype):
        words = column.dropna().astype(str)
        wrong = words[pd.to_numeric(words, errors="coerce").isna()]
        if len(wrong):
            raise InputError(
                f"{source}: expected a number in column {column.name!r}, found "
                f"{wrong.iloc[0]!r}{about_no_number(wrong.iloc[0])}"
            )
    return number_column(column, "--value")


def _of_columns(
    table: pd.DataFrame, source: str, names: str | None, missing: Missing, value: str | None
) -> LabelledTensor:
    """A tensor of a table: columns of modes, and one of values."""
    modes = [name.strip() for name in names.split(",")] if names else []
    rest = [name for name in table.columns if name not in modes]
    if value is None and modes and len(rest) == 1:
        value = rest[0]
    shown = listed(table.columns)
    for name in (*modes, *([] if value is None else [value])):
        if name not in table.columns:
            raise InputError(f"{source}: no column {name!r}; the columns are {shown}")
    if value is not None:
        numbers = _values_of(table[value], source)
        modes = modes or [name for name in table.columns if name != value]
    else:
        try:
            others, numbers = columns_of_frame(table[rest])
        except InputError as error:
            raise InputError(
                f"{source}: which of the columns {shown} has the values? Say --value COLUMN, and "
                "--names A,B,… for those that are modes, if not all others are"
            ) from error
        modes = modes or [*others.columns]
    return as_tensor(table[modes], values=numbers, missing=missing)


def _read(
    source: str,
    format: str | None,
    among: Sequence[str] = FORMATS,
    *,
    table: str | None = None,
    repeats: str | None = None,
    zero_based: bool = False,
    **of_table: Any,
) -> Any:
    """What the reader gives; its errors name the option of the command, and formats `among`.

    `repeats` is for those formats that have a choice, `table` the one of a table that tells none.
    """
    if not is_address(source) and not Path(source).expanduser().exists():
        raise InputError(
            f"{source}: no such file; give a file, or {BUILT_IN!r}, the data set that needs no file"
        )
    try:
        chosen = format or (suffix_format(source) or "ratings" if of_table else None)
        chosen = chosen or detect(location(source), among, table)
        if chosen == "parquet" and table:  # whatever its columns are called
            chosen = table
        if of_table and chosen not in _HAVE_COLUMNS:
            raise InputError(f"{source} is read as {chosen}, no table: leave out {_OF_TABLES}")
        if zero_based and chosen != "tns":
            raise InputError(f"{source} is read as {chosen}, no .tns file: leave out --zero-based")
        options = dict(of_table)
        if repeats and chosen in _MAY_REPEAT:
            options["repeats"] = repeats
        if zero_based:
            options["zero_based"] = True
        return read(source, chosen, **options)
    except ReadError as error:
        advice = {"format": f"; give --format one of {listed(among)}"}
        if among is MATRICES:
            advice |= _ADVICE
            advice["format"] += f"; or the columns of a table with a header: {_COLUMNS}"
        raise ReadError(error.problem + advice.get(error.option or "", error.in_file)) from error


def _matrix(data: Any, names: tuple[str, str]) -> LabelledMatrix:
    matrix = as_matrix(data)
    if hasattr(data, "dims"):
        return matrix
    return replace(matrix, row_name=names[0], column_name=names[1])


def _with_names(tensor: LabelledTensor, names: str | None) -> LabelledTensor:
    if names is None:
        return tensor
    dims = tuple(name.strip() for name in names.split(","))
    if len(dims) != tensor.n_modes or len(set(dims)) != len(dims) or not all(dims):
        raise InputError(
            f"--names {names} gives {len(dims)} name(s); the tensor has {tensor.n_modes} modes, "
            "each needs a name of its own, with commas between them"
        )
    if any("\ud800" <= letter <= "\udfff" for letter in names):  # as Python marks such a byte
        raise InputError(
            f"--names {names!r}: a byte of it is no UTF-8, and cannot be written with the results"
        )
    pairs = zip(dims, tensor.dims, strict=True)
    labels = {new: tensor.labels[old] for new, old in pairs if old in tensor.labels}
    return replace(tensor, dims=dims, labels=labels)


def in_words(data: Cuttable, source: str) -> str:
    """What was read, as one line."""
    if isinstance(data, DataModel):
        return f"{source}: {sizes_of(data.hypergraph, data.name)}"
    if isinstance(data, LabelledTensor):
        extents = " × ".join(
            f"{extent:,}" if dim == f"mode_{place}" else f"{extent:,} {dim}"
            for place, (extent, dim) in enumerate(zip(data.shape, data.dims, strict=True))
        )
        stored = "nonzero" if data.values.all() else "entry"  # of unknown cells zeros are known
        return f"{source}: {counted(data.nnz, stored)} in a tensor of {extents}"
    rows, columns = data.shape
    density = data.nnz / (rows * columns)
    return (
        f"{source}: {counted(data.nnz, 'value')} in {counted(rows, data.row_name)} × "
        f"{counted(columns, data.column_name)} ({density:.2%} known)"
    )


def sizes_of(hypergraph: Hypergraph, model: str) -> str:
    """Numbers of vertices, and of nets or edges."""
    vertices = counted(hypergraph.n_vertices, "vertex")
    if model == "graph":
        return f"{counted(hypergraph.n_nets, 'edge')} of {vertices}"
    nets, pins = counted(hypergraph.n_nets, "net"), counted(hypergraph.n_pins, "pin")
    return f"{nets} with {pins} on {vertices}"
