"""The page: everything inside one file, everything escaped, numbers as a reader wants them."""

from __future__ import annotations

import html.parser
import re

import numpy as np
import pytest

from daskpart.report import Report, readable, versions

pd = pytest.importorskip("pandas")


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


def full_page() -> Report:
    page = Report("ml <run> & co", "One sentence.")
    page.numbers(test_RMSE=0.87654321, ratings=100_000)
    page.section("Partition")
    page.text("5 < 6")
    page.table({"imbalance": 0.0213, "method": "recursive", "empty": None})
    page.subheading("By rank")
    page.grid(["rank", "rows sent"], [[0, 1200], [1, 3]])
    page.section("Training")
    page.frame(pd.DataFrame({"epoch": [1, 2], "train_rmse": [1.0, 0.9], "none": [np.nan] * 2}))
    page.frame(pd.DataFrame({"epoch": [1]}), fold="all epochs")
    page.code('model = load("<path>")')
    return page


def test_page_is_well_formed_and_needs_nothing_from_elsewhere():
    page = full_page().html()
    outline = Outline(page)
    assert outline.open == []
    assert not {"script", "link", "iframe"} & {tag for tag, _ in outline.tags}
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:|//|file:)", page)
    assert "url(" not in page and "@import" not in page
    headings = [fields["id"] for tag, fields in outline.tags if tag == "h2"]
    links = [fields["href"] for tag, fields in outline.tags if tag == "a"]
    assert links == [f"#{heading}" for heading in headings] and len(links) == 2


def test_everything_is_escaped():
    page = full_page().html()
    assert "<title>ml &lt;run&gt; &amp; co</title>" in page
    assert "5 &lt; 6" in page
    assert "load(&quot;&lt;path&gt;&quot;)" in page


def test_frame_leaves_out_empty_columns_and_folds():
    page = full_page().html()
    assert "train rmse" in page and ">none<" not in page
    assert "<details><summary>all epochs</summary>" in page


def test_frame_without_rows_is_a_table_with_a_header():
    page = Report("t")
    page.frame(pd.DataFrame({"epoch": []}))
    assert "<tbody></tbody>" in page.html()


def test_content_before_any_section_gets_the_title_as_heading():
    page = Report("Lone")
    page.text("words")
    assert ">Lone</h2>" in page.html()


def test_picture_is_inside_the_file(tmp_path):
    figure = pytest.importorskip("matplotlib.figure").Figure(figsize=(2, 1))
    figure.subplots().plot([1, 2])
    page = Report("t")
    page.section("p")
    page.picture(figure, 'what "it" shows', "caption")
    path = page.write(tmp_path / "report.html")
    (image,) = [fields for tag, fields in Outline(path.read_text()).tags if tag == "img"]
    assert image["src"].startswith("data:image/png;base64,iVBOR")
    assert image["alt"] == 'what "it" shows'


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1234567, "1,234,567"),
        (np.int32(-1200), "-1,200"),
        (0.123456, "0.1235"),
        (2.0, "2"),
        (123456.78, "123,456.8"),
        (1e-7, "1e-07"),
        (float("nan"), "–"),
        (float("inf"), "inf"),
        (None, "–"),
        (True, "yes"),
        (np.bool_(False), "no"),
        ([1, 2.5], "1, 2.5"),
        (np.arange(10), "0, 1, 2, 3, 4, 5, 6, 7, …"),
        ({"a": 1}, "a: 1"),
        ("words", "words"),
    ],
)
def test_readable(value, words):
    assert readable(value) == words


def test_versions_name_python_and_what_results_depend_on():
    assert {"Python", "daskpart", "numpy", "numba", "dask"} <= set(versions())
