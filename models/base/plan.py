"""A planned fit as plain data: who has what, who sends what to whom, and what that costs.

    plan = model.plan(X)         nothing is trained, nothing is sent
    plan.report()                rows, messages, bytes, memory a rank
    model.fit(X, plan=plan)      cut once

    plan.save(path)              what was decided: the cut, and what was left to "auto"
    model.load_plan(path, X)     lays out the messages anew, in a time that is linear in the data

How the data are cut is said by one parameter, `partitioner`: a name out of the model's table, the
arguments of `daskpart.partition` as a dict, a `Partition`, or the part of each vertex as an array.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.archive import read_arrays, write_arrays
from daskpart._floor.checks import as_array
from daskpart.errors import InputError, ReadError
from daskpart.partitions import Partition

from .reports import Expected, PlanReport, value_words

Report = TypeVar("Report", bound=PlanReport)

# what a name stands for where the rows of a matrix are cut: arguments of `daskpart.partition`
ROW_PARTITIONERS: dict[str, dict[str, Any]] = {
    "auto": {},  # one of those below, see `cutting`
    "power": {"objective": "power", "rho": 2},
    "connectivity": {"objective": "connectivity"},
    "cut-net": {"objective": "cut-net"},
    "metis": {"method": "metis"},
    "random": {"method": "random"},
    "block": {"method": "block"},
}

# seconds a message and seconds a byte: the hypercube allreduce of 4 workers on 2 cores, a round
ALPHA_BETA = {
    "local": (3e-5, 2e-10),
    "graph": (2e-2, 4e-9),
    "dask": (1.2e-3, 2e-9),
    "mpi": (1e-4, 4e-10),
}


@dataclass(frozen=True, eq=False, kw_only=True)
class FitPlan:
    """The base of every model's plan.

    Attributes
    ----------
    n_ranks : int
    random_state : int
        The seed that it was made with; the fit goes on with it.
    settings : dict
        The parameters that decided it; a fit with others refuses it.
    fingerprint : str
        Of the data that it was made for.
    partition : Partition or None
    partitioner : str
        In a word how the data were cut.
    weighed : str or None
        What ``partitioner="auto"`` came to: "block", "parsa" or "multilevel".
    seconds : float
        Time the partitioner took.
    """

    n_ranks: int
    random_state: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    fingerprint: str = field(default="", repr=False)
    partition: Partition | None = field(default=None, repr=False)
    partitioner: str = "none"
    weighed: str | None = None
    seconds: float = 0.0

    def plans(self) -> dict[str, Sequence[Any]]:
        """The plans of one step, by the label of their rounds; none where data decide."""
        return {}

    def expected(self) -> Expected | None:
        """What one step will send; None where data decide."""
        return None

    def memory(self) -> dict[str, NDArray[np.int64]]:
        """Bytes that each rank will hold, by what they are for."""
        return {}

    @property
    def decided(self) -> dict[str, Any]:
        """Parameters that were left to the plan ("auto"), and what it made of them."""
        return {}

    @property
    def cut(self) -> Any:
        """What stands for the partitioner when the plan is made anew; None: nothing was cut."""
        return self.partition

    def save(self, path: str | os.PathLike) -> None:
        """Write what was decided; `DistributedEstimator.load_plan` reads it.

        Parameters
        ----------
        path : path
            Ends in ``.npz`` or ``.zarr``; replaced if it is there. Some bytes a vertex: neither
            data nor messages, which follow from the cut.

        Raises
        ------
        InputError
            For another ending.
        OSError
            When the disk refuses; names the space needed.
        """
        arrays: dict[str, NDArray[Any]] = {}
        names = [each.name for each in fields(FitPlan) if each.name != "partition"]
        header = {name: getattr(self, name) for name in names}
        header |= {"plan": type(self).__name__, "decisions": self.decided}
        if isinstance(self.cut, Partition):
            arrays = {"assignment": self.cut.assignment, "weights": self.cut.weights}
            header["info"] = self.cut.info
        elif self.cut is not None:
            arrays = {"assignment": self.cut}
        write_arrays(path, arrays, header)

    def report(self) -> PlanReport:
        """What one step costs."""
        return self._report(PlanReport)

    def _report(self, kind: type[Report], unit: str = "epoch", **more: Any) -> Report:
        """A report with what all have, and what a model knows beside it."""
        return kind(
            n_ranks=self.n_ranks,
            unit=unit,
            partitioner=self.partitioner,
            memory=self.memory(),
            seconds=self.seconds,
            **more,
        )

    def _repr_html_(self) -> str:
        """A notebook shows what one step costs."""
        return self.report()._repr_html_()

    def check_fits(self, fingerprint: str, settings: Mapping[str, Any]) -> None:
        """Refuse a plan of other data or other parameters (InputError)."""
        if fingerprint != self.fingerprint:
            raise InputError(
                f"the plan was made for other data ({self.fingerprint}) than these "
                f"({fingerprint}); call plan(X) on what is fitted"
            )
        for who, one, other in (
            ("this model", self.settings, settings),
            ("the plan", settings, self.settings),
        ):
            odd = [name for name in one if name not in other]
            if odd:
                raise InputError(
                    "the plan was made by another kind of model, or another version of daskpart: "
                    f"{who} has no {', '.join(odd)}; make the plan anew"
                )
        for name, value in self.settings.items():
            if settings[name] != value:
                raise InputError(
                    f"the plan was made with {name}={value_words(value)}, the model has "
                    f"{value_words(settings[name])}; make the plan anew, or set the parameter back"
                )


@dataclass(frozen=True, eq=False, kw_only=True)
class SavedPlan(FitPlan):
    """What `FitPlan.save` wrote: enough to see whether it fits, and to make the plan again."""

    decisions: Mapping[str, Any]
    cut_again: Any

    @classmethod
    def load(cls, path: str | os.PathLike) -> Self:
        """Read it.

        Raises
        ------
        ReadError
            When `path` is absent, damaged, or no plan.
        """
        words = "give what plan.save(path) or 'daskpart fit --plan' wrote"
        try:
            arrays, header = read_arrays(path)
        except ReadError as error:
            if error.__cause__ is None:  # not there; or of ours, and damaged
                raise
            raise ReadError(f"{path} holds no plan of a fit, or is damaged: {words}") from error
        if "plan" not in header:
            raise ReadError(f"{path} holds no plan of a fit: {words}")
        cut: Any = arrays.get("assignment")
        if "info" in header:
            cut = Partition(cut, header["n_ranks"], arrays["weights"], header.pop("info"))
        del header["plan"]
        return cls(**header, cut_again=cut)


def check_partitioner(partitioner: Any, known: Sequence[str], n_ranks: int | None) -> None:
    """Refuse what is no partitioner, or one of another number of parts (InputError)."""
    if isinstance(partitioner, Partition):
        if n_ranks is not None and partitioner.n_parts != n_ranks:
            raise InputError(
                f"the partition has {partitioner.n_parts} parts, n_ranks is {n_ranks}: give a "
                "partition with one part a rank"
            )
    elif isinstance(partitioner, str):
        if partitioner not in known:
            raise InputError(
                f"partitioner={partitioner!r} is unknown; choose one of "
                f"{', '.join(map(repr, known))}, or give a dict of the arguments of "
                "daskpart.partition, a Partition, or an array with the part of each vertex"
            )
    elif isinstance(partitioner, Mapping):
        from daskpart.partitioners import partition  # ranks cut nothing

        known = [*inspect.signature(partition).parameters][2:]  # the model gives data and n_parts
        odd = [name for name in partitioner if name not in known]
        if odd:
            raise InputError(
                f"partitioner has {', '.join(map(repr, odd))}, which daskpart.partition does not "
                f"take from a model; it takes {', '.join(known)}"
            )
    else:
        array = np.asarray(partitioner)
        if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
            raise InputError(
                f"partitioner={partitioner!r} is neither a name nor a dict nor a Partition nor an "
                "array with the part of each vertex"
            )


def partitioner_name(partitioner: Any) -> str:
    """A partitioner in some words."""
    if isinstance(partitioner, str):
        return partitioner
    if isinstance(partitioner, Mapping):
        said = (f"{name}={'…' if np.ndim(value) else value}" for name, value in partitioner.items())
        return ", ".join(said) or "default"
    return "given partition"


def parts_given(partitioner: Any) -> int | None:
    """How many parts a partition has that a user gave; None where one is to be cut."""
    if isinstance(partitioner, Partition):
        return partitioner.n_parts
    parts = np.asarray(partitioner)
    if parts.dtype.kind not in "iu" or not parts.size:
        return None
    return min(max(int(parts.max()), 0), parts.size - 1) + 1  # more would be empty


def given_assignment(partitioner: Any, n_vertices: int, n_ranks: int, what: str) -> NDArray[Any]:
    """The part of each vertex from an array, checked.

    Raises
    ------
    InputError
        For another length, or parts that are masked or outside 0 … n_ranks − 1.
    """
    given = as_array(partitioner, "ranks of partitioner")
    if given.shape != (n_vertices,):
        raise InputError(
            f"partitioner is an array of shape {given.shape}; there are {n_vertices} {what}: give "
            "the part of each"
        )
    if given.size and not 0 <= given.min() <= given.max() < n_ranks:
        raise InputError(
            f"partitioner names ranks {given.min()} to {given.max()}; there are 0 to {n_ranks - 1}"
        )
    return given.astype(np.int32)


def given_partition(
    partitioner: Any,
    n_vertices: int,
    n_ranks: int,
    weights: Callable[[], Any],
    whole: str,
    what: str,
) -> Partition | None:
    """The partition that a user gave, as such or as the part of each vertex; None: cut one.

    Parameters
    ----------
    partitioner : str, dict, Partition or int array
    n_vertices, n_ranks : int
    weights : callable
        Gives those of the vertices, which a partition that is given as an array lacks.
    whole, what : str
        What is cut, and what its vertices are called, in the words of an error.

    Raises
    ------
    InputError
        When it does not fit, or there are fewer vertices than ranks to be cut into.
    """
    if isinstance(partitioner, Partition):
        partitioner.check_fits(n_vertices, whole, what)
        return partitioner
    if not isinstance(partitioner, str | Mapping):
        assignment = given_assignment(partitioner, n_vertices, n_ranks, what)
        return Partition(assignment, n_ranks, weights(), {})
    if n_vertices < n_ranks:
        raise InputError(
            f"{n_ranks} ranks need as many {what} to share out; there are {n_vertices}: take "
            "fewer ranks (n_ranks)"
        )
    return None


def refuse_empty(parts: Partition, what: str) -> None:
    """Refuse a partition that leaves a rank without anything (InputError)."""
    empty = np.flatnonzero(np.bincount(parts.assignment, minlength=parts.n_parts) == 0)
    if empty.size:
        named = ", ".join(map(str, empty[:5]))
        raise InputError(
            f"{empty.size} of {parts.n_parts} ranks have no {what} (rank {named}"
            f"{', …' if empty.size > 5 else ''}); take fewer ranks or another partition"
        )
