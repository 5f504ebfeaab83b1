"""Names for many, and for what cannot be read."""

from __future__ import annotations

import pytest

from daskpart._floor.words import not_read, plural


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


class Frame:
    """Of a library that pandas takes frames of, as polars is."""

    def to_pandas(self) -> None: ...


def test_frames_of_other_libraries_go_by_pandas() -> None:
    assert (
        not_read(Frame(), "graph", "edges")
        == "cannot read a Frame as a graph; give its to_pandas(), edges"
    )
    assert not_read(3, "graph", "edges") == "cannot read a int as a graph; give edges"
