"""The page: everything inside one file, everything escaped, numbers as a reader wants them."""

from __future__ import annotations

import html.parser
import json
import re
from pathlib import Path
from types import SimpleNamespace

import jinja2
import numpy as np
import pandas as pd
import pytest

from daskpart._cli.model import Fit
from daskpart._cli.page import as_sentence, as_text, frame, render, versions, write_json
from daskpart._cli.pictures import Album
from daskpart._floor.words import counted


class Outline(html.parser.HTMLParser):
    """Collects tags, and fails on a tag that is closed out of order."""

    VOID = frozenset({"meta", "img", "link", "br"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def full_page(**content) -> str:
    """The page of a comparison, whose template asks for a table, a picture and settings."""
    content = {
        "title": "ml <run> & co",
        "lead": "5 < 6",
        "numbers": {"test_RMSE": 0.87654321, "ratings": 100_000},
        "heads": ["method", "rows sent"],
        "lines": [["<block>", 1200], ["random", 3]],
        "words": {"rows sent": "in an expand"},
        "settings": {"data": 'load("<path>")', "empty": None},
        "pictures": {},
        **content,
    }
    return render("comparison.html", **content)


def test_page_is_well_formed_and_needs_nothing_from_elsewhere():
    page = full_page()
    outline = Outline(page)
    assert outline.open == []
    assert not {"script", "link", "iframe"} & {tag for tag, _ in outline.tags}
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:|//|file:)", page)
    assert "url(" not in page and "@import" not in page
    headings = [fields["id"] for tag, fields in outline.tags if tag == "h2"]
    links = [fields["href"] for tag, fields in outline.tags if tag == "a"]
    assert links == [f"#{heading}" for heading in headings] and len(links) == 3


def test_everything_is_escaped():
    page = full_page()
    assert "<title>ml &lt;run&gt; &amp; co</title>" in page
    assert "5 &lt; 6" in page and "<td>&lt;block&gt;</td>" in page
    assert "load(&#34;&lt;path&gt;&#34;)" in page


def test_numbers_stand_to_the_right_and_are_readable():
    page = full_page()
    assert '<th scope="col" class="number">rows sent</th>' in page
    assert '<td class="number">1,200</td>' in page
    assert "<dt>test RMSE</dt><dd>0.8765</dd>" in page


def test_a_name_that_a_template_lacks_is_an_error_and_no_gap():
    with pytest.raises(jinja2.UndefinedError, match="lines"):
        render("comparison.html", {}, title="t", lead="", heads=[], settings={})


def test_frame_leaves_out_empty_columns():
    heads, lines = frame(pd.DataFrame({"train_rmse": [1.0, 0.9], "none": [np.nan] * 2}))
    assert heads == ["train rmse"] and lines == [(1.0,), (0.9,)]
    assert frame(pd.DataFrame({"epoch": []})) == (["epoch"], [])


def test_a_table_without_lines_has_a_header():
    assert "<tbody></tbody>" in full_page(lines=[])


def test_a_picture_is_drawn_once_and_stands_inside_the_page(tmp_path):
    pytest.importorskip("matplotlib")
    album, calls = Album(tmp_path), []
    album.draw(
        "comparison", (2, 1), lambda ax: calls.append(ax), alt='what "it" shows', caption="c"
    )
    page = full_page(pictures=album.pictures)
    (image,) = [fields for tag, fields in Outline(page).tags if tag == "img"]
    assert image["src"].startswith("data:image/png;base64,iVBOR")
    assert image["alt"] == 'what "it" shows' and len(calls) == 1
    assert album.files == [(tmp_path / "comparison.png", "picture")]


def test_options_in_a_sentence_are_code_and_the_rest_is_escaped():
    assert as_sentence("a <larger> --max-iter, or --n-components") == (
        "A &lt;larger&gt; <code>--max-iter</code>, or <code>--n-components</code>"
    )


def test_many_drawings_stand_in_rows(tmp_path):
    pytest.importorskip("matplotlib")
    album, places = Album(tmp_path), []
    album.draw("three", (3, 2), *[lambda ax: places.append(ax)] * 3, alt="", caption="", columns=2)
    assert [place.get_subplotspec().get_geometry() for place in places] == [
        (2, 2, number, number) for number in range(3)
    ]
    assert places[0].figure.axes == places  # and no empty fourth
    assert album.pictures["three"].width == 300


@pytest.mark.parametrize(
    ("compiling", "words"),
    [
        (0.01, "with set-up this run took 2.8 s"),
        (4.62, "with set-up and 4.6 s of compiling, once, this run took 7.4 s"),
    ],
)
def test_a_duration_says_what_was_compiling(compiling, words):
    model = SimpleNamespace(history_=pd.DataFrame({"seconds": [1.0, 1.5]}))
    assert Fit(model, None, None, "done", 2.81, compiling).spent == f"2.50 s; {words}"


def test_a_duration_says_that_there_was_validation():
    history = pd.DataFrame({"seconds": [1.0, 1.5], "validation_ndcg": [0.1, 0.2]})
    spent = Fit(SimpleNamespace(history_=history), None, None, "done", 60.3, 0.0).spent
    assert spent == "2.50 s; with set-up and validation this run took 60.3 s"


@pytest.mark.parametrize(
    ("n", "words"), [(1, "1 epoch"), (67, "67 epochs"), (1200, "1,200 epochs")]
)
def test_counted(n, words):
    assert counted(n, "epoch") == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1234567, "1,234,567"),
        (np.int32(-1200), "-1,200"),
        (0.123456, "0.1235"),
        (2.0, "2"),
        (123456.78, "123,456.8"),
        (1e-7, "1e-07"),
        (6.338584e284, "6.339e+284"),
        (1e15, "1e+15"),
        (1e14, "100,000,000,000,000"),
        (float("nan"), "–"),
        (float("inf"), "inf"),
        (None, "–"),
        ((), "–"),
        ("", "–"),
        ({}, "–"),
        (np.array([]), "–"),
        (True, "yes"),
        (np.bool_(False), "no"),
        ([1, 2.5], "1, 2.5"),
        (np.arange(10), "0, 1, 2, 3, 4, 5, 6, 7, …"),
        ({"a": 1}, "a: 1"),
        ("words", "words"),
    ],
)
def test_as_text(value, words):
    assert as_text(value) == words


def test_versions_name_python_and_what_results_depend_on():
    assert {"Python", "daskpart", "numpy", "numba", "dask"} <= set(versions())


def test_metrics_are_json_that_every_reader_takes(tmp_path):
    nan, inf = float("nan"), float("inf")
    content = {"a": nan, "b": [1, inf, {"c": np.float32(nan)}], "d": np.array([0.5, -inf])}
    content |= {"e": (np.int64(3), True, None), "path": Path("x")}
    text = write_json(tmp_path / "metrics.json", content).read_text()
    strict = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert strict == {"a": None, "b": [1, None, {"c": None}], "d": [0.5, None],
                      "e": [3, True, None], "path": "x"}  # fmt: skip
