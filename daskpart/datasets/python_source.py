"""The Python standard library as sparse data: real, offline, on every machine that runs daskpart.

                 identifier                      identifier x role           imported
               self join  os ...                  called read ...            os  re  json
    module os  [ 3.7  4.1  .  ]        roles:  [ join  12    3  ]   imports [ .   1    .  ]
           re  [ 4.4  2.3  .  ]
    counts = log(1 + occurrences)      label: the package a module is in (asyncio, email, xml ...)

As ratings: modules are users, identifiers items, and popularity has the heavy tail of a catalogue.
"""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import sparse
import xarray

from daskpart._floor.checks import path_text, whole_number
from daskpart.errors import InputError

from .cache import cache_folder, cached_arrays, pack_text, unpack_text
from .syntax import ROLES, facts_of, imported_modules

_LEFT_OUT = {"site-packages", "dist-packages", "__pycache__", "test", "tests", "idle_test"}
_SMALLEST_CLASS = 5
_MADE_BY = "3"  # part of the cache key: raise it when the data made from the same files changes


def load_python_source(
    *,
    max_modules: int | None = None,
    min_modules: int = 2,
    root: str | os.PathLike[str] | None = None,
    cache: bool = True,
) -> xarray.Dataset:
    """Load the Python standard library as sparse data.

    Parameters
    ----------
    max_modules : int, optional
        Only the first modules in the order of their names.
    min_modules : int, default=2
        Only identifiers that occur in this many modules; 1 keeps all.
    root : path-like, optional
        Another folder of Python source; by default the standard library that this Python runs
        from. Tests (folders ``test``, ``tests``, ``idle_test``) and site-packages are left out:
        they are larger than the library itself and repeat its names.
    cache : bool, default=True
        Keep the result in the user's cache folder (or in ``DASKPART_CACHE``); the key holds the
        Python version, the options, and the files' names and sizes.

    Returns
    -------
    xarray.Dataset
        Over sparse.COO, with names as coordinates:

        - ``counts`` (module, identifier) float32: log(1 + occurrences);
        - ``roles`` (module, identifier, role) float32: occurrences by role (`ROLES` of
          `daskpart.datasets.syntax`: called, attribute, argument, keyword, assigned, imported,
          defined, decorator, base, read); the sum over roles is exp(counts) - 1;
        - ``imports`` (module, imported) float32: import statements, directed, square;
        - ``label`` (module) int64: the top-level package, -1 where it has fewer than 5 modules;
          the coordinate ``package`` (module) has its name.

        ``attrs``: python, n_skipped and skipped (files that this Python cannot parse).

    Raises
    ------
    InputError
        There is no Python source (an embedded Python may hold compiled files only).

    Notes
    -----
    Python 3.11: 734 modules, made in about 6 s on one slow core, read from the cache in 0.1 s.
    """
    if max_modules is not None:
        max_modules = whole_number(max_modules, "max_modules", 1)
    min_modules = whole_number(min_modules, "min_modules", 1)
    given = sysconfig.get_paths()["stdlib"] if root is None else path_text(root, "root")
    folder = Path(given).expanduser()
    files = dict(sorted(_modules_below(folder))[:max_modules])
    if not files:
        raise InputError(
            f"no Python source below {folder}; give root= a folder that holds .py files"
        )
    if not cache:
        return _dataset(_collect(files, min_modules), str(folder))
    key = _key(folder, files, min_modules)
    name = f"python-source-{sys.implementation.cache_tag}-{key[:16]}.npz"
    arrays = cached_arrays(cache_folder() / name, key, lambda: _collect(files, min_modules))
    return _dataset(arrays, str(folder))


def _modules_below(folder: Path) -> Iterator[tuple[str, Path]]:
    """Dotted names and files of the modules that can be imported by such a name."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - _LEFT_OUT)
        above = Path(place).relative_to(folder).parts
        for name in names:
            stem, suffix = os.path.splitext(name)
            parts = above if stem == "__init__" else (*above, stem)
            if suffix == ".py" and parts and all(part.isidentifier() for part in parts):
                yield ".".join(parts), Path(place, name)


def _key(folder: Path, files: dict[str, Path], min_modules: int) -> str:
    digest = hashlib.sha256()
    for part in (_MADE_BY, sys.version, str(folder), str(min_modules)):
        digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
    for module, file in files.items():
        try:
            size = file.stat().st_size
        except OSError:  # a link that leads nowhere: skipped, as what is no source is
            size = -1
        digest.update(f"{module} {size}\0".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _collect(files: dict[str, Path], min_modules: int) -> dict[str, np.ndarray]:
    """Parse all the files; the arrays that the cache keeps."""
    known = frozenset(files)
    modules: list[str] = []
    skipped: list[str] = []
    roles: list[Counter[tuple[str, str]]] = []
    imports: list[Counter[str]] = []
    for module, file in files.items():
        try:
            facts = facts_of(file.read_bytes())
        except (SyntaxError, ValueError, RecursionError, MemoryError, OSError):
            skipped.append(module)
            continue
        modules.append(module)
        roles.append(facts.roles)
        imports.append(imported_modules(module, file.name == "__init__.py", facts, known))
    held_by = Counter(name for each in roles for name in {name for name, _ in each})
    identifiers = sorted(name for name, n_modules in held_by.items() if n_modules >= min_modules)
    identifier_of = {name: place for place, name in enumerate(identifiers)}
    role_of = {role: place for place, role in enumerate(ROLES)}
    module_of = {name: place for place, name in enumerate(modules)}
    role_entries = sorted(
        (row, identifier_of[name], role_of[role], count)
        for row, each in enumerate(roles)
        for (name, role), count in each.items()
        if name in identifier_of
    )
    import_entries = sorted(
        (row, module_of[name], count)
        for row, each in enumerate(imports)
        for name, count in each.items()
        if name in module_of
    )
    return {
        "modules": pack_text(modules),
        "identifiers": pack_text(identifiers),
        "skipped": pack_text(skipped),
        "roles": np.array(role_entries, np.int32).reshape(-1, 4).T,
        "imports": np.array(import_entries, np.int32).reshape(-1, 3).T,
    }


def _dataset(arrays: dict[str, np.ndarray], source: str) -> xarray.Dataset:
    modules, identifiers = unpack_text(arrays["modules"]), unpack_text(arrays["identifiers"])
    skipped = unpack_text(arrays["skipped"])
    n_modules, n_identifiers = len(modules), len(identifiers)
    *where, occurrences = arrays["roles"]
    *edges, times = arrays["imports"]
    cell = where[0].astype(np.int64) * n_identifiers + where[1]
    first = np.flatnonzero(np.append(True, cell[1:] != cell[:-1])) if len(cell) else cell
    totals = np.add.reduceat(occurrences, first) if len(cell) else occurrences
    pairs = np.stack([where[0][first], where[1][first]])
    packages = [module.split(".")[0] for module in modules]
    labels = _labels(packages)
    square = (n_modules, n_modules)
    return xarray.Dataset(
        {
            "counts": (
                ("module", "identifier"),
                _coo(pairs, np.log1p(totals), (n_modules, n_identifiers)),
            ),
            "roles": (
                ("module", "identifier", "role"),
                _coo(np.stack(where), occurrences, (n_modules, n_identifiers, len(ROLES))),
            ),
            "imports": (("module", "imported"), _coo(np.stack(edges), times, square)),
            "label": ("module", labels),
        },
        coords={
            "module": np.array(modules, str),
            "identifier": np.array(identifiers, str),
            "role": np.array(ROLES),
            "imported": np.array(modules, str),
            "package": ("module", np.array(packages, str)),
        },
        attrs={
            "source": source,
            "python": sys.version.split()[0],
            "n_skipped": len(skipped),
            "skipped": skipped,
        },
    )


def _coo(coords: np.ndarray, values: np.ndarray, shape: tuple[int, ...]) -> sparse.COO:
    coords = np.ascontiguousarray(coords, np.int32)
    return sparse.COO(
        coords, values.astype(np.float32), shape=shape, sorted=True, has_duplicates=False
    )


def _labels(packages: list[str]) -> np.ndarray:
    """Classes 0, 1, ... in the order of names; -1 for packages too small to learn."""
    sizes = Counter(packages)
    classes = sorted(package for package, size in sizes.items() if size >= _SMALLEST_CLASS)
    class_of = {package: number for number, package in enumerate(classes)}
    return np.array([class_of.get(package, -1) for package in packages], np.int64)
