"""The house itself: what is installed, what an import costs, and how the code is written.

repository                 installed
daskpart/              ->  daskpart
collectives/           ->  daskpart.collectives      one copy of each class: a bare `collectives`
models/                ->  daskpart.models           must never be imported beside it
"""

from __future__ import annotations

import ast
import doctest
import functools
import importlib
import inspect
import json
import os
import pkgutil
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.csgraph import connected_components

import daskpart

ROOT = Path(__file__).resolve().parents[1]
HOME_OF = {
    "daskpart": ROOT / "daskpart",
    "daskpart.collectives": ROOT / "collectives",
    "daskpart.models": ROOT / "models",
}
ALL_IMPORTS = (ast.Import, ast.ImportFrom)
FOLDERS = ("daskpart", "collectives", "models", "tests", "benchmarks", "docs", "examples")


def module_names() -> list[str]:
    """Every importable module of daskpart, found on disk by way of the installed package."""
    found = pkgutil.walk_packages(daskpart.__path__, prefix="daskpart.")
    return sorted(module.name for module in found if not module.name.endswith("__main__"))


def run_python(code: str, **environment: str) -> str:
    """Run `code` in a fresh interpreter, outside the checkout, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd="/",
        env={**os.environ, **environment},
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """A file, parsed."""
    return ast.parse(path.read_text())


def is_link_target(path: Path) -> bool:
    return any(part.is_symlink() for part in (path, *path.parents) if ROOT in part.parents)


def source_files() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not is_link_target(path) and "_build" not in path.parts:
                yield path


# what is installed


def packages_on_disk() -> set[str]:
    names = set()
    for name, home in HOME_OF.items():
        for marker in home.rglob("__init__.py"):
            if not is_link_target(marker):
                names.add(".".join((name, *marker.parent.relative_to(home).parts)))
    return names


def test_every_package_is_listed_and_exists() -> None:
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert set(setuptools["packages"]) == packages_on_disk()
    for name, home in setuptools["package-dir"].items():
        assert (ROOT / home).resolve() == HOME_OF[name]


@pytest.mark.slow
def test_wheel_holds_every_module_and_imports_without_the_checkout(tmp_path: Path) -> None:
    """Nor does any import a bare `collectives` or `models`, second copies: there are none here."""
    source, wheels, site = tmp_path / "source", tmp_path / "wheels", tmp_path / "site"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("daskpart", "collectives", "models"):
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=ignored)
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*build, "--wheel-dir", str(wheels), str(source)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    zipfile.ZipFile(next(wheels.glob("daskpart-*.whl"))).extractall(site)

    tops = {path.name for path in site.iterdir() if not path.name.endswith(".dist-info")}
    assert tops == {"daskpart"}, "a wheel may install one top-level name only"
    assert (site / "daskpart" / "py.typed").exists()
    pages = [path.name for path in (ROOT / "daskpart/_cli/templates").iterdir()]
    assert {path.name for path in (site / "daskpart/_cli/templates").iterdir()} == {*pages}
    code = (
        "import importlib, json\n"
        f"names = {['daskpart', *module_names()]!r}\n"
        "print(json.dumps([importlib.import_module(name).__file__ for name in names]))"
    )
    files = json.loads(run_python(code, PYTHONPATH=str(site), DASKPART_KERNEL_CACHE="0"))
    assert [file for file in files if not file.startswith(str(site))] == []


# what an import does


HEAVY = {"matplotlib", "sklearn", "zarr", "pooch", "mpi4py", "rich", "pymetis", "mtkahypar"}


def test_importing_daskpart_is_light() -> None:
    code = f"import sys, daskpart; print(sorted({HEAVY!r} & set(sys.modules)))"
    assert run_python(code).strip() == "[]"


def loaded_by(names: list[str], unwanted: set[str]) -> str:
    """Which packages are loaded once these modules are."""
    return run_python(
        "import importlib, sys\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        f"print(sorted({unwanted!r} & set(sys.modules)))"
    ).strip()


def test_what_ranks_import_is_light() -> None:
    texts = [
        name
        for name in module_names()
        if name.startswith("daskpart.models.") and name.endswith(".text")
    ]
    assert len(texts) > 4
    texts.append("daskpart.models.samples.files")  # of libsvm, whose reader shares much with others
    assert loaded_by(texts, HEAVY | {"pandas", "xarray"}) == "[]"


def test_numba_is_imported_before_its_parts() -> None:
    """A worker imports it in two threads: one that begins with a part does not wait for the other.

    Then numba is half there for both, now and then: "module 'numba' has no attribute 'core'".
    """
    strays = []
    for path in [path for home in HOME_OF.values() for path in home.rglob("*.py")]:
        imports = [n for n in tree_of(path).body if isinstance(n, ALL_IMPORTS)]
        names = [n.module if isinstance(n, ast.ImportFrom) else n.names[0].name for n in imports]
        of_numba = [name for name in names if name and name.split(".")[0] == "numba"]
        if of_numba and of_numba[0] != "numba":
            strays.append(f"{path.relative_to(ROOT)}: {of_numba[0]}")
    assert not strays, "\n".join(["", *strays])


def test_collectives_do_not_import_what_they_serve() -> None:
    allowed = ("daskpart.collectives", "daskpart.errors", "daskpart._floor")
    strays = []
    for path in sorted((ROOT / "collectives").rglob("*.py")):
        for node in ast.walk(tree_of(path)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            strays += [
                f"{path.relative_to(ROOT)}:{node.lineno} {name}"
                for name in names
                if name.split(".")[0] == "daskpart" and not name.startswith(allowed)
            ]
    assert not strays, "\n".join(["", *strays])


def test_the_data_layer_imports_neither_models_nor_the_command_line() -> None:
    face = {"__init__.py", "cli.py", "metrics.py", "torch.py", "_warm_up.py"}
    served = {"parsa/parallel.py": "daskpart.collectives.server"}  # Parsa's shared sets
    strays = []
    for path in sorted((ROOT / "daskpart").rglob("*.py")):
        if is_link_target(path) or path.name in face or "_cli" in path.parts:
            continue
        excused = served.get("/".join(path.parts[-2:]))
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ImportFrom):
                target = "." * node.level + (node.module or "")
                served_by_us = (
                    "daskpart.models",
                    ".models",
                    "daskpart.collectives",
                    ".collectives",
                )
                if target.startswith((*served_by_us, "daskpart._cli")) and target != excused:
                    strays.append(f"{path.relative_to(ROOT)}:{node.lineno} {target}")
    assert not strays, "\n".join(["", *strays])


# who imports whom, file by file

# Files that still import one another, directly or by way of others. This list can only shrink.
CIRCLES: list[set[str]] = [
    {
        "daskpart.partitioners.engine",
        "daskpart.partitioners.mtkahypar",
        "daskpart.partitioners.multilevel",
    },
]


def files_of_modules() -> dict[str, Path]:
    """Every module of the three folders, by its name."""
    found = {}
    for name, home in HOME_OF.items():
        for path in sorted(home.rglob("*.py")):
            if not is_link_target(path):
                parts = path.relative_to(home).with_suffix("").parts
                found[".".join((name, *parts)).removesuffix(".__init__")] = path
    return found


class Imports(ast.NodeVisitor):
    """What a file imports when it is loaded or when a function runs, but not for type checkers."""

    def __init__(self, module: str, is_package: bool, modules: dict[str, Path]) -> None:
        self.package = module if is_package else module.rpartition(".")[0]
        self.modules = modules
        self.found: set[str] = set()

    def visit_If(self, node: ast.If) -> None:
        for_checkers = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for statement in (*(() if for_checkers else node.body), *node.orelse):
            self.visit(statement)

    def visit_Import(self, node: ast.Import) -> None:
        self.found |= {alias.name for alias in node.names} & set(self.modules)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        above = self.package.split(".")[: self.package.count(".") + 2 - node.level]
        base = ".".join([*(above if node.level else []), *([node.module] if node.module else [])])
        for alias in node.names:  # a name of the package, or a module in it
            inside = f"{base}.{alias.name}"
            self.found |= {inside if inside in self.modules else base} & set(self.modules)


def imports_of(modules: dict[str, Path]) -> dict[str, set[str]]:
    graph = {}
    for name, path in modules.items():
        imports = Imports(name, path.name == "__init__.py", modules)
        imports.visit(tree_of(path))
        graph[name] = imports.found - {name}
    return graph


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Largest sets of nodes that reach one another."""
    names = sorted(graph)
    place = {name: number for number, name in enumerate(names)}
    arrows = [(place[name], place[other]) for name in names for other in graph[name]]
    matrix = np.zeros((len(names), len(names)), bool)
    matrix[tuple(np.array(arrows).T)] = True
    _, component = connected_components(scipy.sparse.csr_array(matrix), connection="strong")
    sets = [{names[node] for node in np.flatnonzero(component == c)} for c in set(component)]
    return [found for found in sets if len(found) > 1]


def test_circles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}
    assert circles(graph) == [{"b", "c"}]


def test_no_file_imports_one_that_imports_it() -> None:
    found = circles(imports_of(files_of_modules()))
    new = [sorted(circle) for circle in found if not any(circle <= known for known in CIRCLES)]
    assert not new, "\n".join(["", *map(str, new)])


# how the code is written


def public_members(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Public functions and classes that `module` itself defines, and the methods of the classes.

    A protocol says in its class docstring what its members are.
    """
    for name, member in vars(module).items():
        if name.startswith("_") or getattr(member, "__module__", None) != module.__name__:
            continue
        if not (inspect.isclass(member) or callable(member)):
            continue
        yield f"{module.__name__}.{name}", member
        if inspect.isclass(member) and not getattr(member, "_is_protocol", False):
            for attribute, value in vars(member).items():
                if not attribute.startswith("_") and (
                    inspect.isfunction(value)
                    or isinstance(value, property | classmethod | staticmethod)
                ):
                    yield f"{module.__name__}.{name}.{attribute}", getattr(member, attribute)


def test_every_public_function_has_a_docstring() -> None:
    bare = [
        name
        for module in module_names()
        for name, member in public_members(importlib.import_module(module))
        if not inspect.getdoc(member)
    ]
    assert not bare, "\n".join(["", *bare])


PUBLIC = [
    *(name for name in daskpart.__all__ if not inspect.ismodule(getattr(daskpart, name))),
    *("parsa.partition", "parsa.ParsaResult", "parsa.Bipartite", "parsa.BlockFolder"),
    *("owners.packed_owners", "owners.hypercube_volume", "partitioners.comparison.Comparison"),
    # its classes are data of which the attributes are told
    *(
        f"collectives.{name}"
        for name in daskpart.collectives.__all__
        if inspect.isfunction(getattr(daskpart.collectives, name))
    ),
]


@pytest.mark.parametrize("name", PUBLIC)
def test_public_docstrings_are_numpydoc(name: str) -> None:
    validate = pytest.importorskip("numpydoc.validate").validate
    # GL08 none, SS03 no full stop, PR01 parameter left out, PR02 unknown parameter,
    # RT01 nothing said of what is returned
    wanted = {"GL08", "SS03", "PR01", "PR02", "RT01"}
    targets = [f"daskpart.{name}"]
    thing = attrgetter(name)(daskpart)
    if inspect.isclass(thing):
        methods = inspect.getmembers(thing, inspect.isroutine)
        own = (m for m, f in methods if (getattr(f, "__module__", "") or "").startswith("daskpart"))
        targets += [f"daskpart.{name}.{m}" for m in own if not m.startswith("_")]
    lenient_in_methods = {"PR01", "RT01"}  # one line may say it all
    found = [
        f"{target}: {code} {text}"
        for target in targets
        for code, text in validate(target)["errors"]
        if code in wanted - (lenient_in_methods if target != f"daskpart.{name}" else set())
    ]
    assert not found, "\n".join(["", *found])


@pytest.mark.parametrize(
    "module", [name for name, path in files_of_modules().items() if ">>> " in path.read_text()]
)
def test_examples_in_docstrings_give_what_they_say(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rules = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    monkeypatch.setenv("MPLBACKEND", "agg")
    done = doctest.testmod(importlib.import_module(module), optionflags=rules)
    assert not done.failed
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def test_files_are_of_a_length_to_read() -> None:
    """How long a function may be, ruff says; how long a file may be, `tool.daskpart`."""
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["daskpart"]
    lines = {str(path.relative_to(ROOT)): path.read_text().count("\n") for path in source_files()}
    longer = {name for name, length in lines.items() if length > rules["max-lines"]}
    assert longer == set(rules["longer-files"]), "name them in pyproject.toml, with the reason"
