"""`daskpart recommend` and `daskpart predict`: answers of a model that `daskpart fit` wrote.

run/model ─┬─ recommend ──► best n items of some users, or of all      table, CSV or parquet
           └─ predict PAIRS ──► a number for each line                  table, CSV or parquet
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from daskpart._floor.atomic import check_writable, replacing
from daskpart._floor.checks import needs_pyarrow
from daskpart._floor.cores import n_cores
from daskpart.errors import InputError, ReadError
from daskpart.readers.example_tables import is_parquet
from daskpart.readers.streams import plain_name

from .files import check_target, place_for, text_file
from .tables import header_of, read_table
from .terminal import answer, say, say_aside

_KINDS = ("MatrixFactorization", "ImplicitFactorization")
_OF_KNOWN = "the bias of the one that is known"
_SHOWN = 200  # lines printed
_ANSWER = "predicted"  # the column


def load_model(folder: Path) -> Any:
    """The model in a folder of `daskpart fit`, or in its folder ``model``.

    Raises
    ------
    InputError
        For a folder without a model of users and items.
    """
    import daskpart
    from daskpart.models.base.saving import saved_class

    path = folder / "model" if (folder / "model" / "model.json").is_file() else folder
    try:
        kind = saved_class(path)
        if kind in _KINDS:
            return getattr(daskpart, kind).load(path)
        reason = f"it is a {kind}"
    except ReadError as error:
        reason = str(error)
    raise InputError(f"{folder} holds no model of users and items: {reason}")


def recommend(
    folder: Path, users: Sequence[str], n: int, everybody: bool, include_seen: bool,
    output: Path | None,
) -> None:  # fmt: skip
    """Say or write the best items."""
    _check_name(output)
    if output is not None:
        check_writable(output.parent)
    if everybody == bool(users):
        raise InputError("say for whom: --user LABEL (may be repeated), or --all")
    model = load_model(folder)
    if everybody:
        table = model.recommend_all(n, exclude_seen=not include_seen)
        if output is not None and output.suffix == ".parquet":
            _write_blocks(table, place_for(output))
            say(f"  {output}  the best {n} of {model.state_.n_users:,} users")
            return
        table = table.compute()
    else:
        known = model.state_.user_labels
        table = model.recommend(_as_labels(users, known), n, exclude_seen=not include_seen)
    if table.empty:
        say_aside("no item is left that was not seen in the fit: --include-seen takes those too")
        if output is None:
            return
    _give(table, output)


def predict(folder: Path, pairs: Path, output: Path | None) -> None:
    """Say or write a number for each pair of a table with a header, CSV or Parquet."""
    _check_name(output)
    if output is not None:
        check_target(output, str(pairs))
    model = load_model(folder)
    table, asked = _pairs(pairs, model)
    if _ANSWER in table:
        raise InputError(
            f"{pairs}: there is a column {_ANSWER!r}, which predictions would take the place of: "
            "give it another name"
        )
    predicted = model.predict(asked, unknown="nan")
    strange = np.isnan(predicted)
    strangers = int(strange.sum())
    if strangers:
        predicted[strange] = model.predict(asked[strange], unknown="mean")
        state = model.state_
        biases = state.user_bias.any() or state.item_bias.any()
        mean = state.rating_mean or model.loss == "logistic"  # there 0 is the score of one half
        has = [word for word, there in (("the mean", mean), (_OF_KNOWN, biases)) if there]
        say_aside(
            f"{strangers:,} of {len(table):,} pairs have a user or an item that the model does not "
            f"know: they get {', and '.join(has) or 0}"
        )
    table[_ANSWER] = predicted
    _give(table, output)


def _pairs(path: Path, model: Any) -> tuple[pd.DataFrame, NDArray[Any]]:
    """The table, and the labels of users and items in it, each of the kind that the model has.

    1e3 is a number wherever all of a column are some, whatever they were in the fit.
    """
    from daskpart.models.matrix_factorization.pairs import pair_places

    state = model.state_
    labels = (state.user_labels, state.item_labels)
    as_written = not all(map(_are_numbers, labels))
    table = read_table(path, as_written)
    if table.empty:
        raise InputError(f"{path}: there are no pairs in it, only a header")
    places = pair_places(table, state, (model.user, model.item, model.rating))
    sides = dict(zip(places, labels, strict=True))
    if not as_written and table.iloc[:, [*sides]].isna().any(axis=None):
        table = read_table(path, as_written=True)
    head = None if is_parquet(str(path)) else _asked(pd.DataFrame([header_of(path)]), sides)
    if head is not None and not np.isnan(model.predict(head, unknown="nan")).any():
        pair = ", ".join(map(repr, head[0].tolist()))
        raise InputError(
            f"{path}: its first line is a pair that the model knows, {pair}, and no header: write "
            "names of the columns above it, such as user,item"
        )
    return table, _asked(table, sides)


def _asked(table: pd.DataFrame, sides: dict[int, Any]) -> NDArray[Any]:
    """The labels in the columns at the places of `sides`, of the kind of the labels there."""
    asked = np.empty((len(table), 2), dtype=object)
    for side, (at, known) in enumerate(sides.items()):
        found = table.iloc[:, at]
        asked[:, side] = _numbers_in(found) if _are_numbers(known) else _ids_in(found)
    return asked


def _numbers_in(words: pd.Series) -> pd.Series:
    """Each as a number, NaN where it is none; one by one, as a column of fractions rounds ids."""
    numbers = pd.to_numeric(words, errors="coerce")
    if numbers.dtype.kind in "iu":
        return numbers
    text = words.astype(str).str.strip()
    in_digits = text.str.fullmatch(r"[0-9]+").to_numpy(bool, na_value=False)
    return numbers.astype(object).mask(in_digits, text.where(in_digits, "0").map(int))


def _ids_in(column: pd.Series) -> NDArray[Any]:
    """Each id as the readers have it, so that dates and bytes of Parquet are what they were."""
    from daskpart.readers.frames import numbered_ids

    try:
        code, ids, _ = numbered_ids(column)
    except (TypeError, UnicodeDecodeError) as error:  # lists, or bytes that are no text
        raise InputError(
            f"column {column.name!r} holds no ids, which are numbers or text ({error})"
        ) from error
    return np.array([*ids.tolist(), None], object)[code]


def _are_numbers(labels: Any) -> bool:
    return labels is None or labels.dtype.kind in "iuf"


def _as_labels(words: Sequence[str], known: Any) -> list[Any]:
    """Words of the command line as labels of the kind that the model has."""
    if not _are_numbers(known):
        return list(words)
    numbers = pd.to_numeric(pd.Series(words), errors="coerce")
    if numbers.isna().any():
        raise InputError(f"users of this model are numbers, got {', '.join(words)}")
    return numbers.tolist()


def _check_name(out: Path | None) -> None:
    """Refuse a file whose name asks for another format; one that asks for none gets CSV."""
    if out is None or out.suffix == ".parquet":
        return
    if Path(plain_name(out)).suffix not in ("", ".csv"):
        raise InputError(f"--output {out}: a table is written as .csv, .csv.gz or .parquet")


def _give(table: pd.DataFrame, out: Path | None) -> None:
    if out is None:
        answer(table.head(_SHOWN).to_string(index=False))
        if len(table) > _SHOWN:
            answer(f"… {len(table) - _SHOWN:,} more lines; --output FILE writes all")
        return
    if out.suffix == ".parquet":
        with needs_pyarrow("writing parquet"), replacing(place_for(out)) as file:
            table.to_parquet(file, index=False)
    else:
        with text_file(out) as text:
            table.to_csv(text, index=False)
    say(f"  {out}  {len(table):,} lines")


def _write_blocks(table: Any, out: Path) -> None:
    """One file of a Dask table, of which a block for each core is in memory at a time."""
    import dask

    with needs_pyarrow("writing parquet"):
        import pyarrow
        from pyarrow.parquet import ParquetWriter

    def rows_of(frame: pd.DataFrame) -> Any:
        return pyarrow.Table.from_pandas(frame, preserve_index=False)

    lazy, at_once = table.to_delayed(), n_cores()
    blocks = (
        rows_of(block)
        for first in range(0, len(lazy), at_once)
        for block in dask.compute(*lazy[first : first + at_once])
    )
    first = next((rows for rows in blocks if len(rows)), rows_of(table._meta))
    with replacing(out) as file, ParquetWriter(file, first.schema) as writer:
        for rows in chain([first], blocks):
            writer.write_table(rows.cast(first.schema))
