"""The pages' code can be typed: what Sphinx does not run is looked at here."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

import daskpart
from daskpart.cli import cli

ROOT = Path(__file__).resolve().parents[1]
TEXTS = {path: path.read_text() for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))}
CELLS = re.compile(r"^```(?:\{code-cell\} ipython3|python)\n(.*?)^```", re.DOTALL | re.MULTILINE)
OPTIONS = re.compile(r"\A(?:---\n.*?^---\n|:.*\n)+", re.DOTALL | re.MULTILINE)
CODE = {
    path: "\n".join(OPTIONS.sub("", cell) for cell in cells)
    for path, text in TEXTS.items()
    if (cells := CELLS.findall(text))
}
# what a reader has: a client, values of four ranks, a module of PyTorch Geometric
READERS_OWN = {"client", "a", "b", "c", "d", "theirs"}

BLOCKS = re.compile(r"^```(?:shell|text)\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^(?:mpiexec .*)?daskpart ((?:[a-z]|\./).*)$", re.MULTILINE)
COMMANDS = {
    (path, line)
    for path, text in TEXTS.items()
    for block in BLOCKS.findall(text)
    for line in COMMAND.findall(block)
}
# what pages import that is not installed: examples, and extras that a test run may lack
FOLDERS_OF_PAGES = (ROOT / "examples", ROOT / "docs" / "guide")
EXTRAS = {"torch"}
# `daskpart.start-seconds` and `daskpart.timeout` are settings of Dask's configuration
NAMES = re.compile(r"\bdaskpart(?:\.[A-Za-z]\w*)+(?![-\w])")
SETTINGS = {"daskpart.timeout"}
# in a process of its own: here other tests have imported nearly all modules already
LOOK_UP = """
import importlib, sys
import daskpart

at_once = {"daskpart." + name for name in dir(daskpart)}
for name in sys.argv[1:]:
    parts = name.split(".")
    if ".".join(parts[:2]) not in at_once:
        print(name)
        continue
    found = daskpart
    for place, part in enumerate(parts[1:], start=2):
        try:
            if not hasattr(found, part):
                importlib.import_module(".".join(parts[:place]))
            found = getattr(found, part)
        except ImportError:
            print(name)
            break
"""


@pytest.mark.parametrize("page", CODE, ids=lambda page: page.stem)
def test_every_name_is_imported_or_made_on_its_page(page: Path) -> None:
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--output-format", "concise"]
    looked = subprocess.run(
        [*ruff, "--select", "F821", "-"],
        input=CODE[page],
        capture_output=True,
        text=True,
        check=False,
    )
    assert looked.returncode in (0, 1), looked.stderr
    found = [line for line in looked.stdout.splitlines() if line.startswith("-:")]
    unknown = [each for each in found if not READERS_OWN & set(re.findall(r"`(\w+)`", each))]
    assert not unknown, "\n".join(unknown)


@pytest.mark.parametrize("page", CODE, ids=lambda page: page.stem)
def test_what_a_page_imports_is_there(page: Path) -> None:
    imports = list(ast.walk(ast.parse(CODE[page])))
    modules = {
        (each.name, "") for node in imports if isinstance(node, ast.Import) for each in node.names
    }
    modules |= {
        (node.module or "", each.name)
        for node in imports
        if isinstance(node, ast.ImportFrom)
        for each in node.names
    }
    for module, name in sorted(modules):
        if any((folder / f"{module}.py").exists() for folder in FOLDERS_OF_PAGES):
            continue
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError:
            assert module in EXTRAS, module
            continue
        assert not name or hasattr(found, name), f"{module} has no {name}"


def test_names_of_the_library_are_there_after_a_bare_import() -> None:
    named = {name for text in TEXTS.values() for name in NAMES.findall(text)} - SETTINGS
    looked = subprocess.run(
        [sys.executable, "-c", LOOK_UP, *sorted(named)], capture_output=True, text=True, check=True
    )
    assert looked.stdout == ""
    assert len(named) > 40


@pytest.mark.parametrize(
    ("page", "line"), sorted(COMMANDS), ids=lambda each: getattr(each, "stem", None)
)
def test_commands_have_the_options_that_pages_say(
    page: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT / "docs" / "guide")  # there is a model of one's own
    line = re.sub(r"(\./my_model\.py:MyModel|ridge_model:Ridge)", "./ridge_model.py:Ridge", line)
    words = shlex.split(line, comments=True)
    command: click.Command = cli
    context = None
    while isinstance(command, click.Group):
        context = command.make_context("daskpart", words, parent=context)
        _, found, words = command.resolve_command(
            context, [*context._protected_args, *context.args]
        )
        assert found is not None
        command = found
    try:
        command.make_context("daskpart", words, parent=context)
    except click.exceptions.Exit as ended:  # --help
        assert ended.exit_code == 0


def test_pages_and_commands_are_found() -> None:
    assert len(CODE) > 12
    assert len(COMMANDS) > 20


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_first_example_runs_as_it_stands(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(CODE[ROOT / page], page, "exec"), {"__name__": "__main__"})
    assert re.search(r"as planned +yes", capsys.readouterr().out)


def test_what_other_libraries_have_is_called_here_as_the_page_says() -> None:
    """In the middle column of its tables: names, and the parameters that calls of them have."""
    models = [getattr(daskpart, name) for name in daskpart.__all__ if name[0].isupper()]
    places = [daskpart, daskpart.collectives, *models]
    n_found = 0
    for line in TEXTS[ROOT / "docs" / "guide" / "coming_from.md"].splitlines():
        here = line.strip("| ").split(" | ")[1] if line.startswith("| ") else ""
        for name, call in re.findall(r"`([a-zA-Z]\w+)(\([^`]*\))?`", here):
            found = [getattr(place, name) for place in places if hasattr(place, name)]
            assert found, f"there is no {name}"
            given = set(re.findall(r"(\w+)=", call))
            known = [{*inspect.signature(each).parameters} for each in found] if given else [given]
            assert any(given <= names for names in known), f"{name} does not have all of {given}"
            n_found += 1
    assert n_found > 30


def test_the_tables_of_names_say_those_of_the_signatures() -> None:
    page = TEXTS[ROOT / "docs" / "guide" / "choosing.md"]
    section = page.partition("## Names of parameters")[2].partition("\n## ")[0]
    linear = ["LogisticRegression", "LinearSVC", "LinearRegression", "PoissonRegressor"]
    columns: list[list[str]] = []
    for table in re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE):
        head, _, *rows = (
            [re.findall(r"`(\w+)`", cell) for cell in line.strip("|").split("|")]
            for line in table.splitlines()
        )
        own = [names or linear for names in head[1:]]
        columns += own
        assert len(rows) > 7
        for _, *cells in rows:
            for kinds, names in zip(own, cells, strict=True):
                check_names(kinds, set(names) - {"fit", *linear})
    assert len(columns) == 6
    of_all = re.findall(r"`(\w+)` \(", section)
    assert of_all == ["max_iter", "validation_fraction", "patience"]
    for kinds in columns:
        check_names(kinds, set(of_all))


def check_names(kinds: list[str], names: set[str]) -> None:
    """All of these estimators have parameters of these names, or `fit` has."""
    kind_names = [
        {*inspect.signature(kind).parameters, *inspect.signature(kind.fit).parameters}
        for kind in (getattr(daskpart, each) for each in kinds)
    ]
    for name in names:
        # `C` and `alpha` share a cell, of two kinds one may be no classifier, and a
        # LogisticRegression has one loss
        assert any(name in each for each in kind_names), f"{kinds} have no {name}"
        if name not in ("C", "alpha", "class_weight", "loss"):
            assert all(name in each for each in kind_names), f"{kinds} have no {name}"
