"""Tables as text and as HTML: columns of numbers to the right, cells escaped."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

from daskpart._floor.tables import fixed, html_lines, readable, text_lines

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


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1234567, "1,234,567"),
        (3.14159, "3.142"),
        (12345.678, "12,345.7"),
        (-0.0, "0"),
        (1e300, "1e+300"),
        (float("-inf"), "-inf"),
        (float("nan"), "nan"),
        (np.float32(0.123456789), "0.1235"),
        (np.bool_(True), "True"),
        (None, "None"),
        ((2, 3), "(2, 3)"),
    ],
)
def test_readable(value, words):
    assert readable(value) == words
