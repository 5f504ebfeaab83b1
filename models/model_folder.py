"""A fitted model as a folder: plain JSON and arrays, nothing pickled.

    my_model/
        model.json        class, version, parameters, reports, plain results
        factors.npz       the whole state (resume goes on from here)
        seen.npz          pattern of the training ratings
        part-*.npz        results and parameters that save themselves: a Partition, a Connectivity

Source of the layout: PyTorch Geometric's META.json beside the arrays.
"""

from __future__ import annotations

import json
import os
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse

from daskpart.errors import DaskpartWarning, InputError, ReadError

from .storage import existing, plain, replace_folder

_HEADER = "model.json"
_PACKAGE = "daskpart"
_Model = TypeVar("_Model")


def save_model(model: Any, path: str | os.PathLike) -> None:
    """Write a fitted scikit-learn estimator; see `FactorModel.save`.

    Its class says by ``_state_name`` and ``_state_type`` which attribute is the whole state, and of
    which class.
    """
    target = Path(path)
    if target.exists() and not (target / _HEADER).is_file():
        raise InputError(
            f"{target} is there and is not a saved model; give a new folder, it would be replaced."
        )
    seen = getattr(model, "seen_", None)
    n_bytes = getattr(model, model._state_name).nbytes
    n_bytes += 0 if seen is None else seen.data.nbytes + seen.indices.nbytes + seen.indptr.nbytes
    replace_folder(target, lambda partial: _write(model, seen, partial), n_bytes)


def _write(model: Any, seen: scipy.sparse.csr_array | None, folder: Path) -> None:
    getattr(model, model._state_name).save(folder / "factors.npz")
    if seen is not None:
        scipy.sparse.save_npz(folder / "seen.npz", seen)
    header: dict[str, Any] = {
        "class": type(model).__name__,
        "version": import_module(_PACKAGE).__version__,
        "parameters": {},
        "values": {},
        "parts": {},
        "reports": {},
    }
    for name, value in model.get_params(deep=False).items():
        _write_parameter(name, value, header, folder)
    for name, value in vars(model).items():
        if name.endswith("_") and name[0] != "_" and name not in (model._state_name, "seen_"):
            _write_result(name, value, header, folder)
    (folder / _HEADER).write_text(json.dumps(header, indent=1))


def _write_parameter(name: str, value: Any, header: dict, folder: Path) -> None:
    if _is_part(value):
        _write_part(name, value, header, folder)
        return
    try:
        header["parameters"][name] = plain(value)
    except TypeError:
        warnings.warn(
            f"the parameter {name}={value!r} has no JSON form and is not saved; the loaded model "
            "has its default. Use a plain value to keep it.",
            DaskpartWarning,
            stacklevel=5,
        )


def _write_result(name: str, value: Any, header: dict, folder: Path) -> None:
    if _is_part(value):
        _write_part(name, value, header, folder)
    elif hasattr(value, "to_dict") and hasattr(value, "from_dict"):
        header["reports"][name] = [_address(value), plain(value.to_dict())]
    elif isinstance(value, str | int | float | bool | np.generic | None):
        header["values"][name] = plain(value)


def _write_part(name: str, value: Any, header: dict, folder: Path) -> None:
    value.save(folder / f"part-{name}.npz")
    header["parts"][name] = _address(value)


def _is_part(value: Any) -> bool:
    ours = type(value).__module__.split(".")[0] == _PACKAGE
    return ours and hasattr(value, "save") and hasattr(value, "load")


def _address(value: Any) -> str:
    return f"{type(value).__module__}:{type(value).__qualname__}"


def load_model(cls: type[_Model], path: str | os.PathLike) -> _Model:
    """Read a folder that `save_model` wrote; see `FactorModel.load`."""
    folder = existing(Path(path))
    header = _header(folder)
    if header["class"] != cls.__name__:
        raise ReadError(
            f"{folder} holds a {header['class']}, not a {cls.__name__}: load it with "
            f"{header['class']}.load."
        )
    parts = {
        name: _class_at(address, folder).load(folder / f"part-{name}.npz")
        for name, address in header["parts"].items()
    }
    known = set(cls._get_param_names())  # type: ignore[attr-defined]
    parameters = {**header["parameters"], **{n: p for n, p in parts.items() if n in known}}
    unknown = sorted(set(parameters) - known)
    if unknown:
        raise ReadError(
            f"{folder} was saved by {_PACKAGE} {header['version']} with parameters that this "
            f"version does not have: {', '.join(unknown)}. Use a version of that age or newer."
        )
    model: Any = cls(**parameters)
    state = model._state_type.load(folder / "factors.npz")
    setattr(model, model._state_name, state)
    seen = _seen(folder)
    if seen is not None:
        model.seen_ = seen
    results = {name: part for name, part in parts.items() if name not in known}
    for name, (address, values) in header["reports"].items():
        results[name] = _class_at(address, folder).from_dict(values)
    for name, value in {**header["values"], **results}.items():
        setattr(model, name, value)
    return model


def _header(folder: Path) -> dict[str, Any]:
    try:
        header = json.loads((folder / _HEADER).read_text())
        if set(header) >= {"class", "version", "parameters", "values", "parts", "reports"}:
            return header
        reason = "it is incomplete"
    except (OSError, ValueError) as error:
        reason = str(error)
    raise ReadError(f"{folder} holds no saved model: {_HEADER} cannot be read ({reason}).")


def _seen(folder: Path) -> scipy.sparse.csr_array | None:
    file = folder / "seen.npz"
    if not file.exists():
        return None
    try:
        return scipy.sparse.csr_array(scipy.sparse.load_npz(file))
    except Exception as error:  # zipfile, zlib and scipy each raise kinds of their own
        raise ReadError(f"{file} cannot be read ({error}); it is damaged.") from error


def _class_at(address: str, folder: Path) -> Any:
    """The class named in a header; only of this package, since a header may come from anywhere."""
    module, _, name = address.partition(":")
    if module.split(".")[0] != _PACKAGE:
        raise ReadError(f"{folder} names the class {address}, which is not of {_PACKAGE}.")
    return getattr(import_module(module), name)
