"""`daskpart recommend` and `daskpart predict`: answers of a model that `daskpart fit` wrote.

run/model ─┬─ recommend ──► best n items of some users, or of all      table, CSV or parquet
           └─ predict PAIRS ──► a number for each line                  table, CSV or parquet
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from daskpart.errors import InputError, ReadError

from .inputs import read_table
from .terminal import say

_KINDS = ("MatrixFactorization", "ImplicitFactorization")
_SHOWN = 200  # lines printed


def load_model(folder: Path) -> Any:
    """The model in a folder of `daskpart fit`, or in its folder ``model``.

    Raises
    ------
    InputError
        For a folder without a model of users and items.
    """
    import daskpart

    path = folder / "model" if (folder / "model" / "model.json").is_file() else folder
    for kind in _KINDS:
        try:
            return getattr(daskpart, kind).load(path)
        except ReadError as error:
            reason = error
            if f"holds a {next(k for k in _KINDS if k != kind)}" not in str(error):
                break
    raise InputError(f"{folder} holds no model of users and items ({reason})")


def recommend(
    folder: Path,
    users: Sequence[str],
    n: int,
    everybody: bool,
    include_seen: bool,
    out: Path | None,
) -> None:
    """Say or write the best items."""
    model = load_model(folder)
    if everybody == bool(users):
        raise InputError("say for whom: --user LABEL (may be repeated), or --all")
    if everybody:
        table = model.recommend_all(n, exclude_seen=not include_seen)
        if out is not None and out.suffix == ".parquet":
            table.to_parquet(out)
            say(f"  {out}  the best {n} of {model.state_.n_users:,} users")
            return
        table = table.compute()
    else:
        known = model.state_.user_labels
        table = model.recommend(_as_labels(users, known), n, exclude_seen=not include_seen)
    _give(table, out)


def predict(folder: Path, pairs: Path, out: Path | None) -> None:
    """Say or write a number for each pair of a table with a header, CSV or Parquet."""
    model, table = load_model(folder), read_table(pairs)
    known = model.predict(table, unknown="nan")
    strangers = int(np.isnan(known).sum())
    table["predicted"] = model.predict(table, unknown="mean")
    if strangers:
        get = "the mean, and the bias of the one that is known" if model.biases else "the mean"
        say(
            f"{strangers:,} of {len(table):,} pairs have a user or an item that the model does not "
            f"know: they get {get if model.global_mean_ else 0}"
        )
    _give(table, out)


def _as_labels(words: Sequence[str], known: Any) -> list[Any]:
    """Words of the command line as labels of the kind that the model has."""
    if known is not None and known.dtype.kind not in "iuf":
        return list(words)
    try:
        return [json.loads(word) for word in words]
    except ValueError:
        raise InputError(f"users of this model are numbers, got {', '.join(words)}") from None


def _give(table: Any, out: Path | None) -> None:
    if out is None:
        say(table.head(_SHOWN).to_string(index=False))
        if len(table) > _SHOWN:
            say(f"… {len(table) - _SHOWN:,} more lines; --output FILE writes all")
        return
    if out.suffix == ".parquet":
        table.to_parquet(out, index=False)
    else:
        table.to_csv(out, index=False)
    say(f"  {out}  {len(table):,} lines")
