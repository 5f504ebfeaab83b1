"""The standard library as data: roles and imports read right, the cache safe, bad files skipped."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
import sparse
import xarray

from daskpart.datasets import load_python_source
from daskpart.datasets import python_source as module_under_test
from daskpart.datasets.cache import cache_folder, cached_arrays, pack_text, unpack_text
from daskpart.datasets.syntax import ROLES, facts_of, imported_modules
from daskpart.errors import DaskpartWarning, InputError

SOURCE = b"""\
import os.path as osp
from . import sibling
from .sibling import thing
from ..other import *
import json

@decorate
class Child(Parent, metaclass=Meta):
    size = 3

    def walk(self, top, *, limit=size):
        try:
            names = os.listdir(top)[:limit]
        except OSError as error:
            error.args = f"{top}"
        del names
        return self.tree(key=names)
"""


def test_roles_come_from_the_syntax_tree() -> None:
    roles = facts_of(SOURCE).roles
    expected = {
        ("os", "imported"): 1, ("path", "imported"): 1, ("osp", "imported"): 1,
        ("sibling", "imported"): 2, ("thing", "imported"): 1, ("other", "imported"): 1,
        ("json", "imported"): 1, ("decorate", "decorator"): 1, ("Child", "defined"): 1,
        ("Parent", "base"): 1, ("metaclass", "keyword"): 1, ("Meta", "read"): 1,
        ("size", "assigned"): 1, ("size", "read"): 1, ("walk", "defined"): 1,
        ("self", "argument"): 1, ("top", "argument"): 1, ("limit", "argument"): 1,
        ("names", "assigned"): 2, ("names", "read"): 1, ("listdir", "called"): 1,
        ("os", "read"): 1, ("top", "read"): 2, ("limit", "read"): 1, ("OSError", "read"): 1,
        ("error", "assigned"): 1, ("error", "read"): 1, ("args", "assigned"): 1,
        ("self", "read"): 1, ("tree", "called"): 1, ("key", "keyword"): 1,
    }  # fmt: skip
    assert dict(roles) == expected
    assert {role for _, role in roles} <= set(ROLES)


def test_imports_are_resolved_to_known_modules() -> None:
    known = frozenset({"json", "os", "a.b", "a.b.sibling", "a.other", "a.b.child"})
    found = imported_modules("a.b.child", False, facts_of(SOURCE), known)
    assert found == {"os": 1, "a.b.sibling": 2, "a.other": 1, "json": 1}
    as_package = imported_modules("a.b", True, facts_of(SOURCE), known)
    assert as_package == {"os": 1, "a.b.sibling": 2, "a.other": 1, "json": 1}


def test_an_import_from_above_the_root_is_of_no_module() -> None:
    known = frozenset({"x", "a", "a.x", "a.b", "a.b.x"})
    found = [
        dict(
            imported_modules("a.b.child", False, facts_of(f"from {dots} import x".encode()), known)
        )
        for dots in (".", "..", "...", "....", ".....")
    ]
    assert found == [{"a.b.x": 1}, {"a.x": 1}, {"x": 1}, {}, {}]


@pytest.fixture
def small_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DASKPART_CACHE", str(tmp_path / "cache"))
    files = {
        "one.py": "import two\nshared = two.shared()\nalone = 1\n",
        "two.py": "def shared(): pass\n",
        "pack/__init__.py": "from . import inner\n",
        "pack/inner.py": "import one, pack\nshared = 'caf\u00e9'\n",
        "latin.py": "# -*- coding: latin-1 -*-\nshared = 'caf\u00e9'\n",
        "broken.py": "def (:\n",
        "null.py": "a = 1\0\n",
        "test/skipped.py": "shared = 1\n",
        "site-packages/skipped.py": "shared = 1\n",
        "not-a-module.py": "shared = 1\n",
    }
    root = tmp_path / "library"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode("latin-1" if name == "latin.py" else "utf-8"))
    return root


def test_a_small_library(small_library: Path) -> None:
    data = load_python_source(root=small_library)
    assert data["module"].values.tolist() == ["latin", "one", "pack", "pack.inner", "two"]
    assert data["identifier"].values.tolist() == ["shared"]
    assert data.attrs["n_skipped"] == 2 and data.attrs["skipped"] == ["broken", "null"]
    everything = load_python_source(root=small_library, min_modules=1)
    assert set(everything["identifier"].values) == {
        "shared", "two", "alone", "inner", "one", "pack"
    }  # fmt: skip
    counts = everything["counts"].sel(module="one")
    np.testing.assert_allclose(
        counts.data.todense(), np.log1p([1, 0, 0, 0, 2, 2]).astype(np.float32)
    )
    imports = everything["imports"].data.todense()
    assert imports.tolist() == [
        [0, 0, 0, 0, 0],
        [0, 0, 0, 0, 1],
        [0, 0, 0, 1, 0],
        [0, 1, 1, 0, 0],
        [0, 0, 0, 0, 0],
    ]
    assert data["package"].values.tolist() == ["latin", "one", "pack", "pack", "two"]
    assert (data["label"].values == -1).all()  # no package of 5 modules
    assert load_python_source(root=small_library, max_modules=2).sizes["module"] == 1


def test_damaged_and_foreign_cache_files_are_made_anew(
    small_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = load_python_source(root=small_library, cache=False)
    assert not cache_folder().exists()
    made = load_python_source(root=small_library)
    (kept,) = cache_folder().iterdir()
    whole = kept.read_bytes()
    for content in (b"", b"no zip", whole[: len(whole) // 2], whole[:-100] + b"\0" * 100):
        kept.write_bytes(content)
        assert load_python_source(root=small_library).identical(made)
        assert kept.read_bytes()[:4] == b"PK\x03\x04"
    calls = []
    monkeypatch.setattr(module_under_test, "_collect", lambda *_: calls.append(1))
    assert load_python_source(root=small_library).identical(fresh) and not calls
    assert [path.name for path in cache_folder().iterdir()] == [kept.name]


def test_a_changed_library_is_read_again(small_library: Path) -> None:
    before = load_python_source(root=small_library, min_modules=1)
    with (small_library / "two.py").open("a") as stream:
        stream.write("more = 1\n")
    after = load_python_source(root=small_library, min_modules=1)
    assert set(after["identifier"].values) - set(before["identifier"].values) == {"more"}


@pytest.mark.parametrize("cache", [True, False])
def test_a_link_that_leads_nowhere_is_skipped(small_library: Path, cache: bool) -> None:
    before = load_python_source(root=small_library, cache=cache)
    (small_library / "gone.py").symlink_to(small_library / "nowhere.py")
    after = load_python_source(root=small_library, cache=cache)
    assert {*after.attrs["skipped"]} == {*before.attrs["skipped"], "gone"}
    assert after["module"].values.tolist() == before["module"].values.tolist()


def test_many_writers_of_one_cache_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "arrays.npz"
    arrays = {"a": np.arange(100_000)}
    found: list[dict] = []

    def work() -> None:
        found.append(cached_arrays(path, "key", lambda: arrays))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all(np.array_equal(each["a"], arrays["a"]) for each in found)
    assert [each.name for each in path.parent.iterdir()] == ["arrays.npz"]


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.warns(DaskpartWarning, match="cannot be written .* DASKPART_CACHE names another"):
        arrays = cached_arrays(tmp_path / "file" / "x.npz", "key", lambda: {"a": np.ones(1)})
    assert arrays["a"].tolist() == [1]


@pytest.mark.parametrize("words", [[], ["a"], ["a", "\u00e9\u540d", "b" * 100]])
def test_words_survive_packing(words: list[str]) -> None:
    assert unpack_text(pack_text(words)) == words


def test_bad_options(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="max_modules is 0: it must be at least 1"):
        load_python_source(max_modules=0)
    with pytest.raises(InputError, match="no Python source below"):
        load_python_source(root=tmp_path)


def test_part_of_the_real_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DASKPART_CACHE", str(tmp_path))
    data = load_python_source(max_modules=120)
    again = load_python_source(max_modules=120)
    assert isinstance(data, xarray.Dataset) and data.identical(again)
    assert 110 <= data.sizes["module"] <= 120 and data.sizes["role"] == len(ROLES)
    assert "asyncio.base_events" in data["module"].values
    for name in ("counts", "roles", "imports"):
        matrix = data[name].data
        assert isinstance(matrix, sparse.COO) and matrix.dtype == np.float32
        assert matrix.coords.dtype == np.int32 and (matrix.data > 0).all()
        keys = np.ravel_multi_index(tuple(matrix.coords), matrix.shape)
        assert (np.diff(keys) > 0).all()
    totals = data["roles"].data.sum(axis=2)
    np.testing.assert_array_equal(totals.coords, data["counts"].data.coords)
    np.testing.assert_allclose(np.log1p(totals.data), data["counts"].data.data, rtol=1e-6)
    per_identifier = np.bincount(data["counts"].data.coords[1])
    assert per_identifier.min() >= 2
    label = data["label"].values
    of_asyncio = label[data["package"].values == "asyncio"]
    assert len(of_asyncio) > 20 and (of_asyncio == of_asyncio[0]).all() and of_asyncio[0] >= 0


@pytest.mark.slow
def test_the_whole_library() -> None:
    data = load_python_source(cache=False)
    assert data.sizes["module"] > 500 and data.sizes["identifier"] > 5000
    assert data["counts"].data.nnz > 40_000
    assert data.attrs["n_skipped"] <= 5
    assert data["label"].values.max() >= 10
    assert data["imports"].sel(module="json", imported="json.decoder").item() >= 1


def test_a_root_may_be_below_home(small_library, monkeypatch):
    monkeypatch.setenv("HOME", str(small_library.parent))
    monkeypatch.setenv("USERPROFILE", str(small_library.parent))
    found = load_python_source(root=f"~/{small_library.name}", cache=False)
    assert found.identical(load_python_source(root=small_library, cache=False))
