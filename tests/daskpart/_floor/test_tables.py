"""Tables as text and as HTML: columns of numbers to the right, cells escaped."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from daskpart._floor.tables import fixed, html_lines, text_lines

TABLE = [["what", "rows", "note"], ["a <b>", "1,234", ""], ["all", "7", "x"]]


def test_text():
    assert text_lines(TABLE) == [
        "what    rows  note",
        "a <b>  1,234",
        "all        7  x",
    ]


def test_html():
    table = ElementTree.fromstring(html_lines(TABLE, "a & b"))
    assert table.find("caption").text == "a & b"
    assert [[cell.text or "" for cell in line] for line in table.findall("tr")] == TABLE
    styles = [cell.get("style") for cell in table.findall("tr")[1]]
    assert ["right" in style for style in styles] == [False, True, False]
    assert "caption" not in html_lines(TABLE)


@pytest.mark.parametrize(
    ("value", "digits", "words"),
    [(2.81, 1, "2.8"), (0.7312, 1, "0.73"), (0.0004267, 2, "0.00043"), (0.0, 2, "0.00"),
     (1234.5, 2, "1,234.50"), (-0.004, 2, "-0.004")],
)  # fmt: skip
def test_small_numbers_keep_two_digits_that_mean_something(value, digits, words):
    assert fixed(value, digits) == words
