"""What a fit leaves between two steps: fields that say how they lie, and all that follows from it.

    @dataclass(eq=False, repr=False)
    class RidgeState(State):
        weights: np.ndarray = replicated()               whole on every rank
        rows:    np.ndarray = rows_of("sample")          row i with the rank that has sample i
        labels:  np.ndarray | None = labels_of("sample")
        bias:    float = scalar(0.0)

    cut ──► one part a rank        assembled ◄── one part a rank
    save, load, copy, nbytes, is_finite, check, same_bits

A fit that goes on from a state gives the bits of one that was never interrupted, so everything that
a later step reads must be in it: factors, sums of an optimiser, the memory of a learning rate.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.archive import read_arrays, write_arrays
from daskpart._floor.words import counted
from daskpart.errors import InputError, ReadError, warn

from .labels import LabelIndex, pack_labels, unpack_labels
from .reports import bytes_words
from .settings import VALIDATION, WEIGHED, differences

_LIES = "lies"
_OF_RANKS = ("n_ranks", "partitioner", "owners", WEIGHED)  # how many, and who of them has what
_BESIDES = ("best", "last")  # fields of another step
Part = dict[str, Any]  # field name → a rank's rows of it


@dataclass(frozen=True)
class Lies:
    """How a field lies: ``how`` is "rows", "replicated", "labels" or "scalar".

    `axis` names the axis of rows and labels; with `each` it names the field that lists the axes,
    and the value holds one array for each of them (a list of rows, a dict of labels).
    """

    how: str
    axis: str = ""
    each: bool = False


_BESIDE = {_LIES: Lies("beside")}


def _declared(lies: Lies, default: Any, factory: Any) -> Any:
    given = {"default": default} if factory is MISSING else {"default_factory": factory}
    return field(metadata={_LIES: lies}, **given)


def rows_of(axis: str, default: Any = MISSING) -> Any:
    """A field whose rows belong to the entries of an axis, each on the rank that has the entry.

    Parameters
    ----------
    axis : str
        Such as "user"; plans say which rank has what of it.
    default : object, optional
        Of a state that is made without the field.
    """
    return _declared(Lies("rows", axis), default, MISSING)


def rows_of_each(axes: str) -> Any:
    """A list of such arrays, one for each axis that the field `axes` names."""
    return _declared(Lies("rows", axes, each=True), MISSING, MISSING)


def replicated(default: Any = MISSING, default_factory: Any = MISSING) -> Any:
    """A field that every rank holds whole: an array, or a list or dict of arrays.

    Parameters
    ----------
    default, default_factory
        As of `dataclasses.field`.
    """
    return _declared(Lies("replicated"), default, default_factory)


def labels_of(axis: str) -> Any:
    """Names of the entries of an axis; None: positions are the names."""
    return _declared(Lies("labels", axis), None, MISSING)


def labels_of_each(axes: str) -> Any:
    """A dict of such arrays, for those of the axes in the field `axes` that have names."""
    return _declared(Lies("labels", axes, each=True), MISSING, dict)


def scalar(default: Any = MISSING, default_factory: Any = MISSING) -> Any:
    """A plain value: what JSON takes.

    Parameters
    ----------
    default, default_factory
        As of `dataclasses.field`.
    """
    return _declared(Lies("scalar"), default, default_factory)


@dataclass(eq=False, repr=False, kw_only=True)
class State:
    """The base of every model's state.

    Attributes
    ----------
    epoch : int
        Whole steps done (epochs, iterations).
    history : list of dict
        One row a step.
    settings : dict
        Of the fit, JSON: what must be equal for a resume to be the same fit.
    begun_behind : int
        The step behind which the fit began: those before it are of other data or parameters.
    best_epoch : int or None
        The best step so far, of a fit that may stop early; None: nobody watches.
    watched_behind : int
        The step behind which it is looked for: those before it were measured by other held-out
        data, or nobody watched them.
    best, last : dict
        What the model answers with (`answers`), as it was after that step, or after the last. While
        training goes on the fields are of the last step, and `best` lies beside them; in a fitted
        model the fields are of the best step, and `last` lies beside them, for a fit that goes on.
        Both are empty where the best step is the last.
    """

    epoch: int = scalar(0)
    history: list[dict[str, Any]] = scalar(default_factory=list)  # noqa: RUF009
    settings: dict[str, Any] = scalar(default_factory=dict)  # noqa: RUF009
    begun_behind: int = scalar(0)
    best_epoch: int | None = scalar(None)
    watched_behind: int = scalar(0)
    best: dict[str, Any] = field(default_factory=dict, metadata=_BESIDE)
    last: dict[str, Any] = field(default_factory=dict, metadata=_BESIDE)

    _unit: ClassVar[str] = "epoch"  # what a step is called
    _answers: ClassVar[tuple[str, ...]] = ()  # fields that a model answers with; (): all arrays

    def __post_init__(self) -> None:
        self.check()

    # -- what is declared ---

    @classmethod
    def declared(cls, how: str) -> dict[str, Lies]:
        """The fields that lie in one way."""
        lies = {each.name: each.metadata[_LIES] for each in fields(cls) if _LIES in each.metadata}
        return {name: where for name, where in lies.items() if where.how == how}

    def _pieces(self) -> Iterator[tuple[str, str | None, NDArray[Any]]]:
        """Every array: the name that it has on disk, its axis (None: replicated), the array."""
        yield from self._pieces_of("", vars(self))
        for beside in _BESIDES:
            yield from self._pieces_of(f"{beside}.", getattr(self, beside))

    def _pieces_of(
        self, prefix: str, values: Mapping[str, Any]
    ) -> Iterator[tuple[str, str | None, NDArray[Any]]]:
        """The arrays of those fields that are in `values`."""
        for name, where in self.declared("rows").items():
            value = values.get(name)
            if value is not None and not where.each:
                yield f"{prefix}{name}", where.axis, value
            elif value is not None:
                for place, (axis, rows) in enumerate(
                    zip(getattr(self, where.axis), value, strict=True)
                ):
                    yield f"{prefix}{name}.{place}", axis, rows
        for name in self.declared("replicated"):
            value = values.get(name)
            if isinstance(value, np.ndarray):
                yield f"{prefix}{name}", None, value
            elif value is not None:
                named = value.items() if isinstance(value, Mapping) else enumerate(value)
                for key, array in named:
                    yield f"{prefix}{name}.{key}", None, array

    def axes(self) -> dict[str, int]:
        """Length of each axis."""
        found: dict[str, int] = {}
        for _, axis, array in self._pieces():
            if axis is not None:
                found.setdefault(axis, len(array))
        return found

    def labels_on(self, axis: str) -> NDArray[Any] | None:
        """Names of the entries of an axis, None where they have none."""
        for name, where in self.declared("labels").items():
            value = getattr(self, name)
            if where.each and axis in value:
                return value[axis]
            if not where.each and where.axis == axis:
                return value
        return None

    def axis_name(self, axis: str) -> str:
        """What users call an axis."""
        return axis

    def index_of(self, axis: str) -> LabelIndex:
        """Look-up from labels to positions; built once, as hashing many labels takes long."""
        held: dict[str, LabelIndex] = self.__dict__.setdefault("_indexes", {})
        labels = self.labels_on(axis)
        if axis not in held or held[axis].labels is not labels:
            held[axis] = LabelIndex(labels, self.axes()[axis], self.axis_name(axis))
        return held[axis]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_indexes"}

    @property
    def compared(self) -> list[dict[str, Any]]:
        """Rows of the history that steps to come may be compared with, as far as they may.

        Those of this fit; of what is held out, only what was measured by the same.
        """
        return [
            row if row["epoch"] > self.watched_behind else _without_validation(row)
            for row in self.history
            if row["epoch"] > self.begun_behind
        ]

    # -- the best step ---

    @property
    def answers(self) -> dict[str, Any]:
        """The fields that a model answers with."""
        names = self._answers or (*self.declared("rows"), *self.declared("replicated"))
        return {name: getattr(self, name) for name in names}

    def following(self, before: State, is_best: bool) -> Self:
        """This state with the best step beside it.

        Parameters
        ----------
        before : State
            After the step before; its arrays are not overwritten.
        is_best : bool
            Whether this step is the best so far.
        """
        if is_best:
            return replace(self, best_epoch=self.epoch, best={})
        if before.best_epoch is None:
            return self
        best = before.answers if before.best_epoch == before.epoch else before.best
        return replace(self, best_epoch=before.best_epoch, best=best)

    def with_best(self, step: int, answers: Callable[[], dict[str, Any]]) -> Self:
        """This state with the best step beside it, which the ranks looked for and kept.

        Parameters
        ----------
        step : int
            The best one, 0 where there is none.
        answers : callable
            Brings the fields that a model answers with; called where it is not the last step.
        """
        best = {} if step in (0, self.epoch) else answers()
        return replace(self, best_epoch=step or None, best=best)

    def at_best(self) -> Self:
        """The fields of the best step, those of the last one beside them."""
        return replace(self, **self.best, best={}, last=self.answers) if self.best else self

    def at_last(self) -> Self:
        """The fields of the last step, those of the best one beside them: here a fit goes on."""
        return replace(self, **self.last, last={}, best=self.answers) if self.last else self

    def unwatched(self, behind: int) -> Self:
        """The fields as they are, without another step; it is looked for behind step `behind`."""
        return replace(self, best_epoch=None, watched_behind=behind, best={}, last={})

    # -- what follows ---

    def check(self) -> None:
        """Refuse arrays that do not fit each other (InputError)."""
        lengths = self.axes()
        for name, axis, array in self._pieces():
            if axis is not None and len(array) != lengths[axis]:
                raise InputError(
                    f"{name} has shape {array.shape}, the {axis} axis has {lengths[axis]} entries."
                )
        for axis, length in lengths.items():
            labels = self.labels_on(axis)
            if labels is not None and np.shape(labels) != (length,):
                raise InputError(
                    f"{axis} labels have shape {np.shape(labels)}, the axis has {length} entries."
                )

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays but the labels."""
        return sum(array.nbytes for _, _, array in self._pieces())

    def is_finite(self) -> bool:
        """Whether no array holds NaN or infinity."""
        return all(bool(np.isfinite(array).all()) for _, _, array in self._pieces())

    def copy(self) -> Self:
        """A copy that shares no array that training changes (labels are shared)."""
        hows = ("rows", "replicated", "scalar", "beside")
        names = {name for how in hows for name in self.declared(how)}
        return replace(self, **{name: copy.deepcopy(getattr(self, name)) for name in names})

    def cut(self, rows: Mapping[str, Sequence[NDArray[Any]]], n_ranks: int) -> list[Part]:
        """Each rank's part: its rows of what lies by rows, all of what is replicated.

        Parameters
        ----------
        rows : dict
            ``rows[axis][rank]`` are the entries that a rank holds, in its local order.
        n_ranks : int
        """
        parts: list[Part] = [{} for _ in range(n_ranks)]
        for name, where in self.declared("rows").items():
            value = getattr(self, name)
            for rank, part in enumerate(parts):
                if not where.each:
                    part[name] = value[rows[where.axis][rank]]
                    continue
                axes = getattr(self, where.axis)
                part[name] = [
                    array[rows[axis][rank]] for axis, array in zip(axes, value, strict=True)
                ]
        for name in self.declared("replicated"):
            for part in parts:
                part[name] = getattr(self, name)
        return parts

    def assembled(
        self, parts: Sequence[Part], rows: Mapping[str, Sequence[NDArray[Any]]], **changes: Any
    ) -> Self:
        """A new state from the ranks' parts; what no rank answers for stays as it is here.

        Parameters
        ----------
        parts : sequence of dict, one a rank
            As `cut` gives them; replicated fields are taken from rank 0.
        rows : dict
            ``rows[axis][rank]`` are the entries whose rows the rank answers for.
        **changes
            Fields that are given whole.
        """
        new: dict[str, Any] = {}
        for name, where in self.declared("rows").items():
            if not where.each:
                of_ranks = [part[name] for part in parts]
                new[name] = _put(getattr(self, name), of_ranks, rows[where.axis])
                continue
            new[name] = [
                _put(whole, [part[name][place] for part in parts], rows[axis])
                for place, (axis, whole) in enumerate(
                    zip(getattr(self, where.axis), getattr(self, name), strict=True)
                )
            ]
        new |= {name: parts[0][name] for name in self.declared("replicated") if name in parts[0]}
        return replace(self, **{**new, **changes})

    # -- on disk ---

    def save(self, path: str | os.PathLike) -> None:
        """Write to `path`, whole or not at all: a checkpoint that was there is kept on failure.

        Parameters
        ----------
        path : path
            ``*.npz`` (one file) or ``*.zarr`` (a folder; needs zarr).

        Raises
        ------
        InputError
            For another suffix, labels that are neither text, numbers, dates, periods nor
            intervals, or scalars of a class that JSON does not keep, such as an enum.
        OSError
            When the disk refuses; names the path and the space needed.
        """
        arrays = {name: array for name, _, array in self._pieces()}
        header: dict[str, Any] = {name: getattr(self, name) for name in self.declared("scalar")}
        for name, value in header.items():
            _refuse_kinds(value, name)
        header["kind"], header["labels"], header["forms"] = type(self).__name__, {}, {}
        for place, axis in enumerate(self.axes()):
            packed, header["labels"][axis] = pack_labels(
                self.labels_on(axis), f"labels.{place}", f"{axis}_labels"
            )
            arrays |= packed
        for name in self.declared("replicated"):
            value = getattr(self, name)
            if not isinstance(value, np.ndarray):
                named = isinstance(value, Mapping)
                header["forms"][name] = [*value] if named else len(value)
        scalars = self.declared("scalar")
        for beside in _BESIDES:
            held = getattr(self, beside)
            header[beside] = {name: held[name] if name in scalars else None for name in held}
        write_arrays(path, arrays, header)

    @classmethod
    def load(cls, path: str | os.PathLike) -> Self:
        """Read what `save` wrote, bit for bit.

        Raises
        ------
        ReadError
            When `path` is absent, damaged, or holds something else.
        """
        arrays, header = read_arrays(path)
        wanted = [*cls.declared("scalar"), *_BESIDES, "labels", "forms"]
        missing = [name for name in wanted if name not in header]
        if header.get("kind") != cls.__name__:
            raise ReadError(f"{path} holds no {cls.__name__}.")
        if missing:
            raise ReadError(
                f"{path} holds a {cls.__name__} of another version of daskpart: it lacks "
                f"{', '.join(missing)}. Use the version that wrote it."
            )
        state: dict[str, Any] = {name: header[name] for name in cls.declared("scalar")}
        try:
            state |= cls._fields_of("", arrays, state, header["forms"])
            for beside in _BESIDES:
                found = cls._fields_of(f"{beside}.", arrays, state, header["forms"], header[beside])
                state[beside] = {**header[beside], **found}
        except KeyError as error:
            raise ReadError(f"{path} holds no {cls.__name__}: it lacks {error}.") from error
        labels = {
            axis: unpack_labels(arrays, f"labels.{place}", described)
            for place, (axis, described) in enumerate(header["labels"].items())
        }
        for name, where in cls.declared("labels").items():
            known = {axis: found for axis, found in labels.items() if found is not None}
            state[name] = known if where.each else labels.get(where.axis)
        return cls(**state)

    @classmethod
    def _fields_of(
        cls,
        prefix: str,
        arrays: Mapping[str, NDArray[Any]],
        state: Mapping[str, Any],
        forms: Mapping[str, Any],
        names: Container[str] | None = None,
    ) -> dict[str, Any]:
        """What `_pieces_of` took apart, of all fields or those in `names`."""
        found: dict[str, Any] = {}
        for name, where in cls.declared("rows").items():
            if names is None or name in names:
                places = range(len(state[where.axis])) if where.each else ()
                each = [arrays[f"{prefix}{name}.{place}"] for place in places]
                found[name] = each if where.each else arrays[f"{prefix}{name}"]
        for name in cls.declared("replicated"):
            if names is None or name in names:
                found[name] = _in_form(arrays, f"{prefix}{name}", forms.get(name))
        return found

    def is_of(self, settings: Mapping[str, Any]) -> bool:
        """Whether a fit with these settings is the one that this state is of."""
        return not differences(self.settings, settings)

    def on_own_ranks(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The same settings, but for the ranks and who of them has what: as this state has it."""
        own = {name: self.settings[name] for name in _OF_RANKS if name in self.settings}
        return {name: settings[name] for name in settings if name not in _OF_RANKS} | own

    def is_measured_in(self, settings: Mapping[str, Any]) -> bool:
        """Whether that fit also measures by the data that this state was measured by.

        If not, what was the best by those says nothing of its own.
        """
        own = settings.get(VALIDATION)
        return self.is_of(settings) and self.settings.get(VALIDATION, own) == own

    def watched_in(self, settings: Mapping[str, Any], patience: int | None) -> Self:
        """Where a fit goes on: patience goes on in the same fit, and begins anew in another."""
        if not self.is_measured_in(settings):
            return self.unwatched(self.epoch)
        if patience is None:
            return self.unwatched(self.watched_behind)
        return self if self.best_epoch is not None else self.unwatched(self.epoch)

    def resumed_in(
        self, settings: Mapping[str, Any], patience: int | None, source: str | os.PathLike
    ) -> Self:
        """Where a fit goes on that was broken off; on other ranks it is told of.

        Raises
        ------
        InputError
            As `check_resumes`.
        """
        self.check_resumes(settings, source)
        before, now = self.settings["n_ranks"], settings["n_ranks"]
        if before != now:
            words = f"{source} is of {before} ranks, this fit has {now}: it goes on, to other bits"
            warn(words)
            settings = self.on_own_ranks(settings)
        return self.watched_in(settings, patience)

    def check_resumes(
        self, settings: Mapping[str, Any], source: str | os.PathLike = "the checkpoint"
    ) -> None:
        """Check that a fit with these settings may go on from here.

        Raises
        ------
        InputError
            When more differs than ranks and who of them has what; names both values of each
            difference.
        """
        if settings.get("n_ranks") != self.settings.get("n_ranks"):
            settings = self.on_own_ranks(settings)
        odd = differences(self.settings, settings)
        if odd:
            raise InputError(
                f"{source} belongs to another fit ({'; '.join(odd)}). Use the same "
                "settings and data to resume, or give another checkpoint_path."
            )

    def __repr__(self) -> str:
        sizes = " × ".join(
            counted(length, self.axis_name(axis)) for axis, length in self.axes().items()
        )
        return (
            f"{type(self).__name__}({sizes or 'replicated'}, after {self._unit} {self.epoch}"
            f"{'' if self.best_epoch is None else f', best {self.best_epoch}'}, "
            f"{bytes_words(self.nbytes)})"
        )


def _without_validation(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not name.startswith("validation")}


def _put(
    whole: NDArray[Any], parts: Sequence[NDArray[Any]], rows: Sequence[NDArray[Any]]
) -> NDArray[Any]:
    filled = whole.astype(parts[0].dtype) if len(parts) else whole.copy()
    for part, own in zip(parts, rows, strict=True):
        filled[own] = part
    return filled


def _refuse_kinds(value: Any, name: str) -> None:
    """Refuse what JSON takes for a plain value and would give back as one."""
    if type(value) in (str, int, float, bool) or isinstance(value, np.generic):
        return  # first: every checkpoint holds all rows of the history
    if isinstance(value, Mapping):
        for key, each in value.items():
            _refuse_kinds(each, f"{name}: {key}")
    elif isinstance(value, list | tuple):
        for each in value:
            _refuse_kinds(each, name)
    if type(value) in (dict, list, tuple):
        return
    if isinstance(value, dict | list | str | int | float):
        raise InputError(
            f"{name}={value!r} cannot be saved: of a {type(value).__name__} only its plain value "
            "would come back; keep that."
        )


def _in_form(arrays: Mapping[str, NDArray[Any]], name: str, form: Any) -> Any:
    """A replicated value: an array, or the list or dict whose length or keys are given."""
    if form is None:
        return arrays[name]
    if isinstance(form, int):
        return [arrays[f"{name}.{place}"] for place in range(form)]
    return {key: arrays[f"{name}.{key}"] for key in form}


def same_bits(one: State, other: State) -> bool:
    """Whether two states are equal in every bit (NaN equals NaN), dtypes included."""
    if type(one) is not type(other):
        return False
    return all(
        _same(getattr(one, each.name), getattr(other, each.name)) for each in fields(type(one))
    )


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        return a.tolist() == b.tolist() if a.dtype.kind == "O" else a.tobytes() == b.tobytes()
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    return repr(a) == repr(b)
