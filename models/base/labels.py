"""Labels of users and items: how they are looked up, and how they are kept on disk without pickle.

label 'alice' ──lookup──► position 17          (no labels: the position is the label)
text   → UTF-8 bytes + where each label ends   dates → int64 + dtype   numbers → as they are
pandas' times in a zone → dates in UTC + zone   periods → int64 + frequency   intervals → both ends

Pandas is imported where labels are looked up: ranks, which import this file too, never do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np

from daskpart._floor.checks import refuse_dataset, refuse_masked
from daskpart._floor.words import plural
from daskpart.containers.tables import column_from_arrow
from daskpart.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

_SHOWN = 5
_ALIKE = 3
_LOOKED_AT = 100_000  # a second


class LabelIndex:
    """Positions of labels along one axis of the model.

    Parameters
    ----------
    labels : ndarray of shape (n,) or None
        None: positions 0 … n−1 are the labels.
    n : int
        Length of the axis.
    name : str
        What the axis holds, for messages ("user").

    Raises
    ------
    InputError
        When a label occurs twice.
    """

    def __init__(self, labels: np.ndarray | None, n: int, name: str) -> None:
        self.labels, self.n, self.name = labels, n, name
        self._index: Any = None
        if labels is None:
            return
        self._index = _index_of(labels)
        if not self._index.is_unique:
            twice = self._index[self._index.duplicated()].unique()
            raise InputError(f"{name} labels occur more than once: {_some(twice.to_numpy())}.")

    def positions(self, labels: Any, instead: str = "") -> np.ndarray:
        """Positions of `labels`, int32 of the same length.

        `instead` is what else than leaving unknown ones out the error advises.

        Raises
        ------
        InputError
            When labels are unknown; names the first ones and how many there are.
        """
        import pandas as pd

        wanted, places = each_text_once(labels)
        found = self._found(wanted)
        unknown = pd.unique(pd.Series(wanted[found < 0]))
        if len(unknown):
            raise InputError(self._refusal(np.asarray(unknown), instead))
        return found[places]

    def find(self, labels: Any) -> np.ndarray:
        """Positions of `labels`, int32 of the same length; −1 for those that are unknown."""
        wanted, places = each_text_once(labels)
        return self._found(wanted)[places]

    def _found(self, wanted: np.ndarray) -> np.ndarray:
        return self._in_range(wanted) if self._index is None else self._in_index(wanted)

    def listed(self, labels: Any) -> Any:
        """Several labels as they are, and one in a list: a tuple may be a label, too."""
        refuse_dataset(labels, self.name)
        if isinstance(labels, tuple) and self._index is not None and self._index.dtype == object:
            return [labels] if self.find([labels])[0] >= 0 else labels
        return labels if isinstance(labels, list | tuple) or np.ndim(labels) else [labels]

    def take(self, positions: np.ndarray) -> np.ndarray:
        """Labels at `positions` (the positions themselves where there are no labels)."""
        return positions.astype(np.int64) if self.labels is None else self.labels[positions]

    def _in_range(self, wanted: np.ndarray) -> np.ndarray:
        try:
            if not _are_numbers(wanted):  # "3" and True would become some
                raise TypeError
            numbers = wanted.astype(np.float64)
        except (TypeError, ValueError):
            raise InputError(
                f"this model has no {self.name} labels: give positions 0 … {self.n - 1}, as "
                f"numbers, got {_some(wanted)}."
            ) from None
        inside = (numbers >= 0) & (numbers < self.n) & (numbers == np.floor(numbers))
        return np.where(inside, numbers, -1).astype(np.int32)

    def _in_index(self, wanted: np.ndarray) -> np.ndarray:
        import pandas as pd

        if self._index.dtype.kind == "M" and wanted.dtype.kind in "OUT":
            wanted = pd.to_datetime(wanted, errors="coerce").to_numpy()
        try:
            found = self._index.get_indexer(_index_of(wanted))
        except (TypeError, UnicodeEncodeError):  # a set, say, or text that is none
            raise InputError(
                f"{_some(wanted)} can be no label of a {self.name}: give a label, or a list of "
                "labels"
            ) from None
        return found.astype(np.int32)

    def _refusal(self, unknown: np.ndarray, instead: str) -> str:
        names = plural(self.name)
        if self.labels is None:
            known = f"the model's {names} are 0 … {self.n - 1}"
        else:
            known = f"the model knows {self.n} {names}, such as {_some(self._like(unknown[0]))}"
        what = f"1 {self.name} is" if len(unknown) == 1 else f"{len(unknown)} {names} are"
        return (
            f"{what} unknown to the model: {_some(unknown)}; "
            f"{known}. Leave them out, or fit with data of them{instead and f', or {instead}'}."
        )

    def _like(self, unknown: Any) -> np.ndarray:
        """Labels that are written nearly so, else the first: of a slip, or of 7 that is text."""
        assert self.labels is not None
        places = {str(label): at for at, label in enumerate(_plain(self.labels[:_LOOKED_AT]))}
        alike = get_close_matches(str(unknown), places, _ALIKE)
        return self.labels[[places[each] for each in alike]] if alike else self.labels[:_ALIKE]


def _index_of(labels: Any) -> pd.Index:
    """An index of labels, each what it was; pandas makes none of half precision."""
    import pandas as pd

    is_half = getattr(labels, "dtype", None) == np.float16
    return pd.Index(labels.astype(np.float32) if is_half else labels, tupleize_cols=False)


def each_text_once(labels: Any) -> tuple[np.ndarray, Any]:
    """Labels as an array, and where each that was given stands in it: an index array, or a slice.

    Of a column of text or of categories each label is there once, however many lines have it.
    """
    import pandas as pd

    dtype = getattr(labels, "dtype", None)
    if isinstance(labels, pd.Series) and isinstance(dtype, pd.StringDtype | pd.CategoricalDtype):
        places, names = pd.factorize(labels, use_na_sentinel=False)
        return _as_vector(names), places
    return _as_vector(labels), slice(None)


def more_labels(known: np.ndarray, new: np.ndarray, what: str) -> np.ndarray:
    """Labels of an axis with new ones behind them.

    Raises
    ------
    InputError
        For new ones of another kind: numpy would make all of them text, and nobody found them. Or
        for numbers that no one type holds exactly: numpy would round them.
    """
    kinds = _kind(known), _kind(new)
    if kinds[0] != kinds[1] and not kinds[0].startswith("mixed"):
        raise InputError(
            f"the new {what} labels are {kinds[1]}, such as {_some(new[:1])}, those of the fit are "
            f"{kinds[0]}, such as {_some(known[:1])}: give labels of one kind"
        )
    if known.dtype != new.dtype and known.dtype.kind in "iuf" and new.dtype.kind in "iuf":
        for one, other in ((known, _exactly(new, known.dtype)), (_exactly(known, new.dtype), new)):
            if one is not None and other is not None:
                return np.concatenate((one, other))
        raise InputError(
            f"the new {what} labels are {new.dtype}, such as {_some(new[:1])}, those of the fit "
            f"{known.dtype}, such as {_some(known[:1])}, and some would be rounded: give labels of "
            "one type"
        )
    return np.concatenate((known, new))


def _exactly(numbers: np.ndarray, dtype: np.dtype) -> np.ndarray | None:
    """The same numbers in another type; None where it lacks one of them."""
    with np.errstate(invalid="ignore"):  # it is told
        found = numbers.astype(dtype)
        back = found.astype(numbers.dtype)
    # signs besides: -1 comes back from an unsigned type, too
    same = np.array_equal(back, numbers) and np.array_equal(found < 0, numbers < 0)
    return found if same else None


def _kind(labels: np.ndarray) -> str:
    """What labels are, whether numpy or an array of objects holds them."""
    from pandas.api.types import infer_dtype

    kind = infer_dtype(labels, skipna=False)
    if kind in ("integer", "floating", "mixed-integer-float", "boolean", "decimal"):
        return "numbers"
    return {"string": "text", "datetime": "dates", "datetime64": "dates"}.get(kind, kind)


def _as_vector(labels: Any) -> np.ndarray:
    labels = column_from_arrow(labels)
    vector = labels.to_numpy() if hasattr(labels, "to_numpy") else labels
    refuse_masked(vector, "labels")
    if isinstance(vector, np.ndarray):
        return vector.reshape(-1)
    kinds = {type(label) for label in vector}
    # single labels of a labelled array; times of pandas have to_numpy, too
    if any(hasattr(kind, "to_numpy") and hasattr(kind, "ndim") for kind in kinds):
        return _as_vector([np.asarray(label)[()] for label in vector])
    # numpy would turn the numbers of a mixed list into text, and take tuples apart
    if (len(kinds) > 1 and str in kinds) or tuple in kinds:
        return np.array([*vector, None], dtype=object)[:-1]
    return np.asarray(vector).reshape(-1)


def _are_numbers(labels: np.ndarray) -> bool:
    if labels.dtype.kind != "O":
        return labels.dtype.kind in "iuf"
    return not any(isinstance(each, str | bytes | bool | np.bool_) for each in labels)


def with_missing(labels: Any) -> np.ndarray:
    """Labels as an array; of objects where a list holds NaN among texts, for numpy writes "nan"."""
    found = np.asarray(labels)
    if found.dtype.kind in "US" and isinstance(labels, list | tuple):
        import pandas as pd

        given = np.array(labels, dtype=object)
        found = given if pd.isna(given).any() else found
    return found


def _some(labels: np.ndarray) -> str:
    shown = ", ".join(map(repr, _plain(labels[:_SHOWN])))
    return shown + (", …" if len(labels) > _SHOWN else "")


def _plain(labels: np.ndarray) -> list[Any]:
    """Labels as objects of Python; dates as text, as those of nanoseconds would be numbers."""
    if labels.dtype.kind == "M":
        return np.datetime_as_string(labels, unit="auto").tolist()
    return labels.tolist()


@contextmanager
def sorting_labels(labels: Any) -> Iterator[None]:
    """Around what sorts labels of y: InputError for bytes, and for texts beside numbers."""
    try:
        yield
    except TypeError as error:
        kinds = {type(label).__name__: label for label in np.ravel(labels).tolist()[::-1]}
        told = ", ".join(f"{kinds[kind]!r} ({kind})" for kind in sorted(kinds))
        what = "of several kinds" if len(kinds) > 1 else "that are neither texts nor numbers"
        raise InputError(
            f"y holds labels {what}, such as {told}: give texts or numbers alone, "
            "and drop rows whose label is missing"
        ) from error


def pack_labels(
    labels: np.ndarray | None, name: str, what: str = ""
) -> tuple[dict[str, np.ndarray], dict | None]:
    """`labels` as number arrays and a JSON description; `unpack_labels` gives them back exactly.

    Arrays are called after `name`; `what` is said in errors.

    Raises
    ------
    InputError
        For labels that are neither text, numbers, dates, periods, intervals nor tuples.
    """
    if labels is None:
        return {}, None
    kind = labels.dtype.kind
    if kind in "iufb":
        return {name: labels}, {"kind": "numbers"}
    if kind in "mM":
        return {name: labels.view(np.int64)}, {"kind": "dates", "dtype": labels.dtype.str}
    objects = _object_array([_of_python(label) for label in labels.astype(object)])
    if all(type(label) is str for label in objects):
        pieces = [label.encode("utf-8", "surrogatepass") for label in objects]
        dtype = labels.dtype.str if kind == "U" else kind
        description = {"kind": "text", "dtype": dtype}
    elif all(map(_is_plain, objects)):
        pieces = [json.dumps(label).encode() for label in objects]
        description = {"kind": "mixed"}
    else:
        packed = _pack_times(objects, name, what)
        if packed is not None:
            return packed
        strange = next(label for label in objects if not _is_plain(label))
        raise InputError(
            "labels can be saved when they are tuples of text and numbers, or text, numbers, "
            f"dates, periods or intervals; {what or name} hold {strange!r} of type "
            f"{type(strange).__name__}."
        )
    ends = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
    text = np.frombuffer(b"".join(pieces), dtype=np.uint8)
    return {f"{name}_text": text, f"{name}_ends": ends}, description


def _of_python(label: Any) -> Any:
    """A number or text of NumPy as Python's, equal to it; any other label as it is."""
    if type(label) is tuple:
        return tuple(map(_of_python, label))
    is_numpy = isinstance(label, np.generic) and label.dtype.kind in "iufbU"
    return label.item() if is_numpy else label


def _is_plain(label: Any) -> bool:
    """Whether JSON has it; a tuple, as nodes of a grid are, as a list."""
    if type(label) is tuple:
        return all(map(_is_plain, label))
    return type(label) in (str, int, float, bool)


def _with_tuples(value: Any) -> Any:
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value


def _pack_times(
    objects: np.ndarray, name: str, what: str
) -> tuple[dict[str, np.ndarray], dict] | None:
    """Days, and what pandas makes an index of that numbers hold; None for the rest."""
    import pandas as pd

    if all(type(label) is date for label in objects):
        return {name: objects.astype("datetime64[D]").view(np.int64)}, {"kind": "days"}
    index = pd.Index(objects.tolist(), tupleize_cols=False)
    if isinstance(index, pd.PeriodIndex):
        return {name: index.asi8}, {"kind": "periods", "freq": index.freqstr}
    if isinstance(index, pd.IntervalIndex):
        ends = {side: getattr(index, side).to_numpy() for side in ("left", "right")}
        packed = {side: pack_labels(ends[side], f"{name}_{side}", what) for side in ends}
        described = {side: description for side, (_, description) in packed.items()}
        arrays = packed["left"][0] | packed["right"][0]
        return arrays, {"kind": "intervals", "closed": index.closed, **described}
    if isinstance(index, pd.DatetimeIndex) and index.tz is not None:
        times = index.tz_convert("UTC").tz_localize(None).to_numpy()
        description = {"kind": "zoned", "dtype": times.dtype.str, "zone": str(index.tz)}
        try:
            index.tz_convert(description["zone"])
        except (ValueError, KeyError):  # a zone without a name
            return None
        return {name: times.view(np.int64)}, description
    return None


def unpack_labels(
    arrays: dict[str, np.ndarray], name: str, description: dict | None
) -> np.ndarray | None:
    """The labels that `pack_labels` took."""
    if description is None:
        return None
    if description["kind"] == "numbers":
        return arrays[name]
    if description["kind"] == "dates":
        return arrays[name].view(description["dtype"])
    if description["kind"] in ("days", "periods", "intervals", "zoned"):
        return _unpack_times(arrays, name, description)
    text, ends = arrays[f"{name}_text"].tobytes(), arrays[f"{name}_ends"].tolist()
    pieces = [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    if description["kind"] == "mixed":
        return _object_array([_with_tuples(json.loads(piece)) for piece in pieces])
    labels = _object_array([piece.decode("utf-8", "surrogatepass") for piece in pieces])
    return labels if description["dtype"] == "O" else labels.astype(description["dtype"])


def _unpack_times(arrays: dict[str, np.ndarray], name: str, description: dict) -> np.ndarray:
    """What `_pack_times` took."""
    import pandas as pd

    frames: Any = pd  # whose stubs lack some of this
    kind = description["kind"]
    if kind == "days":
        return arrays[name].view("datetime64[D]").astype(object)
    if kind == "intervals":
        ends = [
            frames.Index(unpack_labels(arrays, f"{name}_{side}", description[side]))
            for side in ("left", "right")
        ]
        index = frames.IntervalIndex.from_arrays(*ends, closed=description["closed"])
    elif kind == "periods":
        index = frames.PeriodIndex.from_ordinals(arrays[name], freq=description["freq"])
    else:
        times = frames.DatetimeIndex(arrays[name].view(description["dtype"]))
        index = times.tz_localize("UTC").tz_convert(description["zone"])
    return _object_array([*index])


def _object_array(values: list) -> np.ndarray:
    return np.fromiter(values, dtype=object, count=len(values))


def as_output(rows: xr.DataArray, estimator: Any) -> xr.DataArray | pd.DataFrame | np.ndarray:
    """What `transform` gives: labelled rows, or what ``set_output`` asks for.

    scikit-learn would give a pandas frame the index of the data, which has a line a rating and not
    a row, so it gets the labels here. A polars frame has no index: scikit-learn makes it of values.
    """
    from sklearn.utils._set_output import _get_output_config

    wanted = _get_output_config("transform", estimator)["dense"]
    if wanted == "default":
        return rows
    if wanted != "pandas":
        return rows.values
    import pandas as pd

    dim = rows.dims[0]
    index = pd.Index(rows[dim].values, name=dim) if dim in rows.coords else None
    return pd.DataFrame(rows.values, index=index)
