"""Tables as text and as HTML: columns of numbers to the right, cells escaped."""

from __future__ import annotations

from xml.etree import ElementTree

from daskpart._floor.tables import html_lines, text_lines

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
