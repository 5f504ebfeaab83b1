"""A fitted model as a folder: plain JSON and arrays, nothing pickled.

    my_model/
        model.json        format, class, version, parameters and results
        state.npz         the whole state (resume goes on from here)
        arrays.npz        every array in parameters and results
        part-*.npz        what saves itself: a Partition, a Connectivity

Classes stand under their names of `registry`, never under a module. Everything is put into this
form before anything is written: what has no such form is an error, and the folder stays as it was.

Source of the layout: PyTorch Geometric's META.json beside the arrays.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import scipy.sparse
from sklearn.utils._param_validation import InvalidParameterError

from daskpart._floor.archive import existing, read_arrays, replace_folder, write_arrays
from daskpart.containers.coordinates import is_a
from daskpart.errors import InputError, ReadError

from .labels import pack_labels, unpack_labels
from .registry import class_named, name_of

_HEADER, _STATE, _ARRAYS = "model.json", "state.npz", "arrays.npz"
_FORMAT = 1
_FORM = "form"  # the key that tells a described value from a plain dict
_Model = TypeVar("_Model")


def save_model(model: Any, path: str | os.PathLike) -> None:
    """Write a fitted estimator; see `DistributedEstimator.save`."""
    target = Path(path).expanduser()
    if target.exists() and not (target / _HEADER).is_file():
        raise InputError(
            f"{target} is there and is not a saved model; give a new folder, it would be replaced."
        )
    results = {
        name: value
        for name, value in vars(model).items()
        if name.endswith("_") and name[0] != "_" and name != "state_"
    }
    content = _Content()
    header = {
        "format": _FORMAT,
        "class": type(model).__name__,
        "version": import_module("daskpart").__version__,
        "parameters": content.describe_all(model.get_params(deep=False), "the parameter "),
        "results": content.describe_all(results, "the result "),
    }

    def write(folder: Path) -> None:
        model.state_.save(folder / _STATE)
        write_arrays(folder / _ARRAYS, content.arrays, {})
        for name, part in content.parts.items():
            part.save(folder / name)
        (folder / _HEADER).write_text(json.dumps(header, indent=1))

    n_bytes = model.state_.nbytes + sum(array.nbytes for array in content.arrays.values())
    replace_folder(target, write, n_bytes)


def saved_class(path: str | os.PathLike) -> str:
    """The name of the class of a model that `save_model` wrote (ReadError)."""
    return _header(existing(Path(path).expanduser()))["class"]


def load_model(cls: type[_Model], path: str | os.PathLike) -> _Model:
    """Read a folder that `save_model` wrote; see `DistributedEstimator.load`."""
    folder = existing(Path(path).expanduser())
    header = _header(folder)
    if header["class"] != cls.__name__:
        raise ReadError(
            f"{folder} holds a model of class {header['class']}, not {cls.__name__}: load it with "
            f"{header['class']}.load."
        )
    known = set(cls._get_param_names())  # type: ignore[attr-defined]
    unknown = sorted(set(header["parameters"]) - known)
    if unknown:
        raise ReadError(
            f"{folder} was saved by daskpart {header['version']} with parameters that this "
            f"version does not have: {', '.join(unknown)}. Use a version of that age or newer."
        )
    arrays, _ = read_arrays(folder / _ARRAYS)
    read = _Reader(folder, arrays)
    model: Any = cls(**{name: read.field("parameters", name, header) for name in sorted(known)
                        if name in header["parameters"]})  # fmt: skip
    try:
        model._validate_params()
    except InvalidParameterError as error:
        raise ReadError(f"{folder / _HEADER}: parameters: {error}") from None
    model.state_ = model._state_class.load(folder / _STATE)
    kinds = _KINDS if cls.__module__.startswith("daskpart.") else {}
    for name in header["results"]:
        value = read.field("results", name, header)
        wanted = next((kind for fits, kind in kinds.items() if re.fullmatch(fits, name)), None)
        if wanted is not None and not wanted[1](value):
            raise ReadError(
                f"{folder / _HEADER}: results.{name} is a {type(value).__name__}: expected "
                f"{wanted[0]}"
            )
        setattr(model, name, value)
    return model


def _header(folder: Path) -> dict[str, Any]:
    if folder.is_file():
        raise ReadError(f"{folder} is a file, and a saved model is a folder: unpack it first.")
    of_run = folder / "model"
    if not (folder / _HEADER).exists() and (of_run / _HEADER).exists():
        raise ReadError(f"{folder} is the folder of a run, the model in it is {of_run}: load that.")
    try:
        header = json.loads((folder / _HEADER).read_text())
        wanted = {"format", "class", "version", "parameters", "results"}
        if header.get("format") != _FORMAT:
            reason = f"it is of format {header.get('format')}, this version reads {_FORMAT}"
        elif not set(header) >= wanted:
            reason = "it is incomplete"
        else:
            odd = [each for each in ("parameters", "results") if not isinstance(header[each], dict)]
            if not odd:
                return header
            reason = f"{odd[0]} is a {type(header[odd[0]]).__name__}: expected names and values"
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        reason = str(error)
    raise ReadError(f"{folder} holds no saved model: {_HEADER} cannot be read ({reason}).")


def _refusal(value: Any, what: str) -> InputError:
    return InputError(
        f"{what}={value!r} cannot be saved: a {type(value).__name__} is neither plain nor an "
        "array nor of daskpart. Nothing was written; set it to a plain value first."
    )


def _frame_of(columns: Mapping[str, Any], index: Any, name: Any) -> pd.DataFrame:
    labels = None if index is None else pd.Index(index, name=name)
    return pd.DataFrame(dict(columns), index=labels)


def _data_array_of(fields: Mapping[str, Any]) -> Any:
    import xarray as xr  # nobody holds one where it is not loaded

    return xr.DataArray(
        fields["values"], fields["coords"], dims=fields["dims"], name=fields["name"]
    )


class _Content:
    """Values in the form in which they are written; arrays and parts are collected beside it."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.parts: dict[str, Any] = {}

    def describe_all(self, values: Mapping[str, Any], what: str) -> dict[str, Any]:
        """Each value by its name; InputError for the first that has no form."""
        return {name: self.describe(value, f"{what}{name}") for name, value in values.items()}

    def describe(self, value: Any, what: str) -> Any:
        """JSON that `_Reader` makes the value of again."""
        if value is None or type(value) in (str, int, float, bool):
            return value
        for kind, form in _FORMS.items():
            if isinstance(value, kind):
                return form(self, value, what)
        if is_a(value, "xarray", "DataArray"):
            return self.data_array(value, what)
        name = name_of(type(value))
        if name and hasattr(value, "to_dict") and hasattr(value, "from_dict"):
            values = self.describe(value.to_dict(), what)
            return {_FORM: "report", "class": name, "values": values}
        if name and hasattr(value, "save") and hasattr(value, "load"):
            file = f"part-{len(self.parts)}.npz"
            self.parts[file] = value
            return {_FORM: "part", "class": name, "file": file}
        raise _refusal(value, what)

    def item(self, value: np.generic, what: str) -> Any:
        """A number of NumPy, which comes back as one of Python."""
        if isinstance(value.item(), np.generic):  # Python has none as long
            raise _refusal(value, what)
        return self.describe(value.item(), what)

    def array(self, value: np.ndarray, what: str) -> dict[str, Any]:
        """An array of numbers, text or dates; no kind with more to it, such as a mask."""
        if type(value) not in (np.ndarray, np.memmap):
            raise _refusal(value, what)
        name = f"array-{len(self.arrays)}"
        flat, labels = pack_labels(value.reshape(-1), name, what)
        self.arrays |= flat
        return {_FORM: "array", "name": name, "shape": [*value.shape], "labels": labels}

    def sparse(self, value: Any, what: str) -> dict[str, Any]:
        """A sparse matrix, which comes back as a csr_array."""
        rows = scipy.sparse.csr_array(value)
        held = [self.array(part, what) for part in (rows.data, rows.indices, rows.indptr)]
        return {_FORM: "sparse", "arrays": held, "shape": [*rows.shape]}

    def mapping(self, value: Mapping, what: str) -> dict[str, Any]:
        """A dict: by names, or as pairs where a key is none; no other kind of one."""
        if type(value) is not dict:
            raise _refusal(value, what)
        held, what = dict(value), f"{what}: "
        if all(isinstance(key, str) for key in held):
            return {_FORM: "dict", "values": self.describe_all(held, what)}
        pairs = [
            [self.describe(key, f"{what}the key "), self.describe(each, f"{what}{key}")]
            for key, each in held.items()
        ]
        return {_FORM: "pairs", "values": pairs}

    def sequence(self, value: Any, what: str) -> dict[str, Any]:
        """A list or tuple; no named one, whose class is not known where it is read."""
        if type(value) not in (list, tuple):
            raise _refusal(value, what)
        held = [self.describe(each, f"{what}[{place}]") for place, each in enumerate(value)]
        return {_FORM: type(value).__name__, "values": held}

    def frame(self, value: pd.DataFrame, what: str) -> dict[str, Any]:
        """A table, with its index where that is not just counted; it is built again to compare."""
        columns = {str(name): value.iloc[:, at].to_numpy() for at, name in enumerate(value)}
        index, name = np.asarray(value.index), value.index.name
        counted = value.index.identical(pd.RangeIndex(len(value)))
        again = _frame_of(columns, None if counted else index, name)
        alike = (again.columns.identical(value.columns), again.index.identical(value.index))
        if type(value) is not pd.DataFrame or not all(alike) or [*again.dtypes] != [*value.dtypes]:
            raise InputError(
                f"{what} cannot be saved: of a DataFrame come back columns of numbers, text or "
                "dates, each with a name of its own, and one index of such, not categories or "
                "several levels. Nothing was written; make it such a table first."
            )
        form = {_FORM: "frame", "columns": self.describe_all(columns, f"{what}.")}
        if counted:
            return form
        held = self.describe_all({"index": index, "name": name}, f"{what}.index: ")
        return {**form, **held}

    def data_array(self, value: Any, what: str) -> dict[str, Any]:
        """A DataArray with the labels of its dimensions; it is built again to compare."""
        fields = {
            "values": value.to_numpy(),
            "dims": [*value.dims],
            "coords": {dim: value[dim].to_numpy() for dim in value.dims if dim in value.coords},
            "name": value.name,
        }
        if not _data_array_of(fields).identical(value):
            raise InputError(
                f"{what} cannot be saved: of a DataArray come back values, dimensions, their "
                "labels and the name, no other coordinates and no attributes. Nothing was written; "
                "leave them out first, as by .reset_coords(drop=True).drop_attrs()."
            )
        return {_FORM: "data_array", **self.describe_all(fields, f"{what}.")}

    def random(self, value: np.random.RandomState, what: str) -> dict[str, Any]:
        """Where a generator stands."""
        state = value.get_state(legacy=False)
        return {_FORM: "random", "state": self.describe(state, what)}


_FORMS: dict[Any, Callable[[_Content, Any, str], Any]] = {
    np.ndarray: _Content.array,
    np.generic: _Content.item,
    os.PathLike: lambda content, value, what: os.fspath(value),
    Mapping: _Content.mapping,
    list: _Content.sequence,
    tuple: _Content.sequence,
    scipy.sparse.sparray: _Content.sparse,
    scipy.sparse.spmatrix: _Content.sparse,
    pd.DataFrame: _Content.frame,
    np.random.RandomState: _Content.random,
}


class _Reader:
    """Values from the form that `_Content` gave them."""

    def __init__(self, folder: Path, arrays: dict[str, np.ndarray]) -> None:
        self._folder, self._arrays = folder, arrays

    def field(self, part: str, name: str, header: dict[str, Any]) -> Any:
        """A parameter or result of the header (ReadError with its name)."""
        try:
            return self(header[part][name])
        except ReadError:
            raise
        except Exception as error:  # whatever a form makes of values that are no such
            reason = f"{type(error).__name__}: {error}"
            raise ReadError(
                f"{self._folder / _HEADER}: {part}.{name} cannot be read ({reason}). It is "
                "damaged, or was changed by hand."
            ) from error

    def __call__(self, value: Any) -> Any:
        if isinstance(value, list):
            raise TypeError("a list where a value or its form is expected")
        if not isinstance(value, dict):
            return value
        named = str(value[_FORM])
        form = getattr(self, f"_{named}") if named in _READ else None
        if form is None:
            raise ReadError(
                f"{self._folder} holds a {value[_FORM]}, which this version of daskpart does not "
                "know. Use the version that wrote it."
            )
        return form(value)

    def _array(self, value: dict) -> np.ndarray:
        found = unpack_labels(self._arrays, value["name"], value["labels"])
        assert found is not None
        return found.reshape(value["shape"])

    def _sparse(self, value: dict) -> scipy.sparse.csr_array:
        data, indices, pointer = map(self, value["arrays"])
        return scipy.sparse.csr_array((data, indices, pointer), shape=tuple(value["shape"]))

    def _dict(self, value: dict) -> dict:
        return {name: self(each) for name, each in value["values"].items()}

    def _pairs(self, value: dict) -> dict:
        return {self(key): self(each) for key, each in value["values"]}

    def _list(self, value: dict) -> list:
        if not isinstance(value["values"], list):
            raise TypeError(f"a {type(value['values']).__name__} where a list is expected")
        return [self(each) for each in value["values"]]

    def _tuple(self, value: dict) -> tuple:
        return tuple(self._list(value))

    def _frame(self, value: dict) -> pd.DataFrame:
        columns = {name: self(column) for name, column in value["columns"].items()}
        index = self(value["index"]) if "index" in value else None
        return _frame_of(columns, index, self(value.get("name")))

    def _data_array(self, value: dict) -> Any:
        return _data_array_of({name: self(value[name]) for name in _DATA_ARRAY})

    def _random(self, value: dict) -> np.random.RandomState:
        generator = np.random.RandomState()
        generator.set_state(self(value["state"]))
        return generator

    def _report(self, value: dict) -> Any:
        kind, values = class_named(value["class"], self._folder), self(value["values"])
        if not isinstance(values, dict):
            raise TypeError(f"a {type(values).__name__} where fields of a report are expected")
        try:
            found = kind.from_dict(values)
        except TypeError as error:  # of a field without a default
            raise ReadError(
                f"{self._folder} holds a {value['class']} of another version of daskpart: {error}. "
                "Use the version that wrote it."
            ) from None
        repr(found)  # it cannot be told where a field is of another type
        return found

    def _part(self, value: dict) -> Any:
        return class_named(value["class"], self._folder).load(self._folder / value["file"])


_DATA_ARRAY = ("values", "dims", "coords", "name")
_READ = (
    "array", "sparse", "dict", "pairs", "list", "tuple", "frame", "data_array", "random", "report",
    "part",
)  # fmt: skip
# results of our models by their names (others may mean something else by them): what each is, in
# words and as a check
_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "n_.*_": ("a whole number", lambda value: type(value) is int and value >= 0),
    ".*_report_": ("a report", lambda value: hasattr(value, "to_dict")),
    "several_|keeps_product_": ("true or false", lambda value: isinstance(value, bool)),
    "classes_|coef_|.*_names_|.*_names_in_": (
        "an array",
        lambda value: value is None or isinstance(value, np.ndarray),
    ),
}
