"""New users without a full fit: RMSE on them and seconds, by `partial_fit` and by `transform`.

users ─┬─ known: their training ratings ─► fit ─► partial_fit ─┐
       └─ new, a tenth: their training ratings ──────┘         ├─► RMSE on the ratings of new
          all training ratings ─────────────────► fit ─────────┘   users that were held out
"""

from __future__ import annotations

from pathlib import Path
from time import process_time
from typing import Any

import click
import numpy as np
import pandas as pd

import daskpart
from benchmarks import data

from .output import Origin, markdown_table, out_option, write_numbers, write_section

COLUMNS = (
    "data", "how", "RMSE, new users", "against full fit", "CPU s", "share of full fit", "distance",
)  # fmt: skip
NEW_SHARE, TEST_SHARE = 0.1, 0.2  # of the users; of each one's ratings


def frames(name: str) -> dict[str, pd.DataFrame]:
    """Ratings of known users and of new ones, to learn from; those of new ones, to judge by."""
    users, items, ratings = data.ratings(name)
    every = pd.DataFrame({"user": users, "item": items, "rating": ratings})
    random = np.random.default_rng(0)
    is_new = (random.random(int(users.max()) + 1) < NEW_SHARE)[users]
    held = is_new & (random.random(len(every)) < TEST_SHARE)
    known = every["item"].isin(every["item"][~is_new])  # a new item says nothing of a new user
    left = every["user"].isin(every["user"][is_new & ~held & known])
    return {
        "known": every[~is_new],
        "new": every[is_new & ~held & known],
        "test": every[held & known & left],
    }


def lines(name: str, options: dict[str, Any], turns: int) -> list[list[Any]]:
    """Rows of the table of one data set; the least CPU seconds of some turns."""
    given = frames(name)
    every, test = pd.concat([given["known"], given["new"]]), given["test"]
    found: dict[str, list[float]] = {}

    def fitted(X: pd.DataFrame) -> Any:
        return daskpart.MatrixFactorization(transport="local", **options).fit(X)

    def took(how: str, begin: float, rmse: float, distance: float = np.nan) -> None:
        seconds = process_time() - begin
        before = found.setdefault(how, [rmse, seconds, distance])
        before[1] = min(before[1], seconds)

    for _ in range(turns):
        begin = process_time()
        full = fitted(every)
        took("full fit", begin, -full.score(test))
        model = fitted(given["known"])
        begin = process_time()
        rows = model.transform(given["new"])
        took("`transform`", begin, _rmse_of_rows(model, rows, test))
        begin = process_time()
        model.partial_fit(given["new"])
        took("`partial_fit`", begin, -model.score(test), model.new_rows_distance_)
    rmse, seconds, _ = found["full fit"]
    return [
        [name, how, each[0], each[0] / rmse, each[1], each[1] / seconds, each[2]]
        for how, each in found.items()
    ]


def _rmse_of_rows(model: Any, rows: Any, test: pd.DataFrame) -> float:
    """Of folded-in users."""
    state, users = model.state_, pd.Index(rows[rows.dims[0]].values)
    at, items = users.get_indexer(test["user"]), state.items().positions(test["item"])
    predicted = state.global_mean + state.item_bias[items] + rows.coords["bias"].values[at]
    predicted = predicted + np.einsum("ij,ij->i", rows.values[at], state.item_factors[items])
    return float(np.sqrt(np.mean((test["rating"].to_numpy() - predicted) ** 2)))


@click.command()
@click.option("--data", "names", multiple=True, default=("ml-1m",), show_default=True)
@click.option("--components", default=32, show_default=True)
@click.option("--epochs", default=20, show_default=True)
@click.option("--ranks", default=2, show_default=True)
@click.option("--turns", default=3, show_default=True)
@out_option
def main(
    names: tuple[str, ...], components: int, epochs: int, ranks: int, turns: int, out: Path
) -> None:
    """Write the table."""
    origin, rows = Origin.here(), []
    options = {
        "n_components": components, "max_iter": epochs, "n_ranks": ranks, "partitioner": "block",
    }  # fmt: skip
    for name in names:
        try:
            rows += lines(name, options, turns)
        except NotImplementedError as reason:
            raise click.ClickException(str(reason)) from reason
    for row in rows:
        click.echo(row)
    body = (
        f"A tenth of the users are new: the model is fitted without them ({components} components, "
        f"{epochs} epochs), then takes in four fifths of their ratings; the RMSE is that on the "
        "other fifth. `transform` solves their rows and changes nothing else; `partial_fit` solves "
        "them and then trains one epoch on these ratings. CPU seconds of the whole call, from the "
        f"table to the model, least of {turns} turns. Distance: `new_rows_distance_`.\n\n"
        f"{markdown_table(COLUMNS, rows)}"
    )
    write_numbers(out, "new_users", COLUMNS, rows, origin)
    write_section(out, "new_users", "New users without a full fit", body, origin)


if __name__ == "__main__":
    main()
