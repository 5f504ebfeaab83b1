"""Names for many."""

from __future__ import annotations

import pytest

from daskpart._floor.words import plural


@pytest.mark.parametrize(
    ("one", "many"),
    [
        ("user", "users"), ("movieId", "movieIds"), ("city", "cities"), ("day", "days"),
        ("y", "ies"), ("class", "classes"), ("box", "boxes"), ("batch", "batches"),
        ("vertex", "vertices"), ("index", "indices"), ("", "s"),
    ],
)  # fmt: skip
def test_plurals(one: str, many: str) -> None:
    assert plural(one) == many
