"""Which format a file has: its name first, then its first lines.

    ratings.dat.xz  --without .xz-->  .dat, may be much  --look inside-->  "1::1193::5"  ratings

A name that leaves no doubt (.mtx, .npz, .tns, .libsvm, .parquet, .hgr …) is believed; others
only settle what the lines leave open. Nothing is guessed: three plain columns may be ratings,
weighted edges or a tensor, so without a telling name the error asks.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import PurePath

from daskpart._floor.words import listed
from daskpart.containers.column_names import (
    EDGE_COLUMN_NAMES,
    RATING_COLUMN_NAMES,
    Known,
    known_places,
    plain_word,
)
from daskpart.errors import ReadError

from .streams import first_lines, head, plain_name

FORMATS = (
    "ratings", "adjacency", "edges", "mtx", "npz", "tns", "libsvm", "parquet", "hgr", "patoh",
    "metis",
)  # fmt: skip
_CERTAIN_SUFFIXES = {
    ".mtx": "mtx", ".mm": "mtx", ".npz": "npz", ".tns": "tns", ".libsvm": "libsvm",
    ".svm": "libsvm", ".svmlight": "libsvm", ".parquet": "parquet", ".pq": "parquet",
    ".edges": "edges", ".edgelist": "edges", ".el": "edges", ".adjacency": "adjacency",
    ".hgr": "hgr", ".hmetis": "hgr", ".u": "patoh", ".patoh": "patoh", ".graph": "metis",
    ".metis": "metis",
}  # fmt: skip
_TABLE_SUFFIXES = {".csv", ".tsv", ".dat"}
_AS_TABLE, _AS_EDGES, _AS_MATRIX = "CSV or Parquet", "an edge list", "a Matrix Market file"
_NOT_READ = {  # as what to save a file instead, and who reads it
    ".xlsx": (_AS_TABLE, "pandas.read_excel"), ".xls": (_AS_TABLE, "pandas.read_excel"),
    ".ods": (_AS_TABLE, "pandas.read_excel"), ".json": (_AS_TABLE, "pandas.read_json"),
    ".jsonl": (_AS_TABLE, "pandas.read_json(…, lines=True)"), ".h5": (_AS_TABLE, "pandas.read_hdf"),
    ".feather": (_AS_TABLE, "pandas.read_feather"), ".pkl": (_AS_TABLE, "pandas.read_pickle"),
    ".npy": (_AS_MATRIX, "numpy.load"), ".mat": (_AS_MATRIX, "scipy.io.loadmat"),
    ".graphml": (_AS_EDGES, "networkx.read_graphml"), ".gml": (_AS_EDGES, "networkx.read_gml"),
    ".gexf": (_AS_EDGES, "networkx.read_gexf"),
}  # fmt: skip
_ARCHIVES = {".zip", ".tar", ".tgz", ".7z"}
_RATING_NAME = re.compile(r"rating|(^|\.)u\.data$|(^|\.)u[0-9ab]\.(base|test)$")
_LIBSVM_LINE = re.compile(
    r"[+-]?[\d.]+(e[+-]?\d+)?(\s+qid:\d+)?(\s+\d+:\S+)*\s*(#.*)?", re.IGNORECASE
)
_QUOTED = re.compile(r'"[^"]*"')
_NO_COMMA_BUT_DECIMAL = re.compile(r"[^,]*|\s*[+-]?\d+,\d+\s*")
_BETWEEN_BARS = re.compile(r"[^\s,;]*|[+-]?\d+,\d+")
_MAGIC = {b"%%MatrixMarket": "mtx", b"PK\x03\x04": "npz", b"PAR1": "parquet"}


def is_number(token: str) -> bool:
    """Whether `token` is what `float` takes for a number."""
    try:
        float(token)
    except ValueError:
        return False
    return "_" not in token


def names_both_sides(cells: Sequence[str], known: Known) -> bool:
    """Whether a header names the two sides of a table by words that are `known` for each."""
    places = known_places([plain_word(cell) for cell in cells], known)
    return all(len(each) == 1 for each in places[:2])


def separator_of(line: str) -> str | None:
    """What parts the cells of a line of a table, by that line; None where only blanks can.

    Marks inside quotes part nothing. A tab is hardly ever part of a cell; of comma and semicolon
    the one that occurs more often parts, but 1;3,5 are a number and one with a decimal comma. A bar
    parts what has no blanks: sp|P1 sp|P2 may be an edge between two names.
    """
    if "::" in line:
        return "::"
    bare = _QUOTED.sub("", line)
    if "\t" in bare:
        return "\t"
    if ";" in bare and all(map(_NO_COMMA_BUT_DECIMAL.fullmatch, bare.split(";"))):
        return ";"
    if "|" in bare and all(map(_BETWEEN_BARS.fullmatch, bare.split("|"))):
        return "|"
    best = max(",;", key=bare.count)
    return best if best in bare else None


def cells_of(line: str, delimiter: str | None) -> list[str]:
    """The cells of a line; a delimiter inside quotes parts nothing."""
    cells = line.split(delimiter)
    if delimiter is not None and len(delimiter) == 1 and '"' in line:
        with suppress(csv.Error):  # of a line end inside the line
            cells = next(csv.reader([line], delimiter=delimiter))
    return [cell.strip().strip('"') for cell in cells]


def suffix_format(path: str | PathLike[str]) -> str | None:
    """The format that a name alone tells, without a doubt; None where it does not."""
    return _CERTAIN_SUFFIXES.get(PurePath(plain_name(path)).suffix)


def detect(
    path: str | PathLike[str],
    among: Iterable[str] = FORMATS,
    table: str | None = None,
    columns_named: bool = False,
) -> str:
    """The format of a file, one of `FORMATS`; where it is not clear, those `among` are offered.

    Lines of a few cells may be ratings or edges: where the reader knows which, `table` says so. So
    may a table of many, by its suffix, of which the caller has named the columns that matter.

    Raises
    ------
    ReadError
        The file is missing or empty, or its name and first lines leave a choice; the message lists
        the formats.
    """
    name = plain_name(path)
    suffix = PurePath(name).suffix
    certain = suffix_format(path)
    if certain is not None:
        return certain
    start = head(path, 64)
    if suffix in _NOT_READ:
        kind, reader = _NOT_READ[suffix]
        told = f"save it as {kind}, or give what {reader} makes of it"
        raise ReadError(f"{path}: {suffix} files are not read here: {told}")
    for magic, found in _MAGIC.items():
        if start.startswith(magic):
            return found
    if suffix in _ARCHIVES:
        raise ReadError(f"{path}: archives are not read here: unpack it, and give the file inside")
    found_in_lines = _look_at(first_lines(path), name, table, columns_named)
    if found_in_lines is None:
        raise ReadError(
            f"{path}: neither the name nor the first lines tell the format",
            option="format",
            advice=f"; give format= one of {listed(among)} (help(daskpart.read) says what "
            "they are), or columns=(user, item, rating) of a table. Samples and their features "
            "are for pandas, or daskpart.readers.survey(path, label=…)",
        )
    return found_in_lines


def _look_at(lines: list[str], name: str, table: str | None, columns_named: bool) -> str | None:
    """The format that the first lines show, or None."""
    if not lines:
        return None
    if any("::" in line for line in lines[:3]):
        return "ratings"
    numeric = lines[:50]
    if all(_LIBSVM_LINE.fullmatch(line) for line in numeric) and any(":" in x for x in numeric):
        return "libsvm"
    parts = [re.split(r"[\s,;]+", line.strip('"')) for line in numeric]
    mark = separator_of(lines[0])
    if mark and PurePath(name).suffix in _TABLE_SUFFIXES:  # labels may hold spaces
        parts = [cells_of(line, mark) for line in numeric]
    widths = {len(part) for part in parts}
    is_table = PurePath(name).suffix in _TABLE_SUFFIXES
    # of a table the header is believed: the reader names the line that has other cells
    has_columns = len(widths) == 1 or is_table
    if has_columns and names_both_sides(parts[0], EDGE_COLUMN_NAMES):
        return "edges"
    if has_columns and names_both_sides(parts[0], RATING_COLUMN_NAMES):
        return "ratings"
    if is_table and mark and columns_named:  # of how many others does not matter
        return table or "ratings"
    may_be_ratings = 2 <= len(parts[0]) <= 4
    if may_be_ratings and _RATING_NAME.search(name):
        return "ratings"
    if may_be_ratings and len(widths) == 1 and (is_table or table):
        return table or "ratings"
    if not all(is_number(token) for part in parts for token in part) or len(widths) != 1:
        return None
    if widths == {2}:
        return "edges"
    return "ratings" if widths == {4} and "\t" in lines[0] else None
