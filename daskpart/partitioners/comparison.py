"""Methods of partitioning beside each other on one's own data.

             connectivity   power   max-connectivity   imbalance   seconds
random            140,109     …                   64       0.000      0.00
direct             97,410     …                   61       0.030      1.21     the least of each
power              98,002     …                   55       0.030      1.05     column are marked
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from daskpart._floor.checks import one_of, several, whole_number
from daskpart._floor.kernels import working_clock
from daskpart._floor.progress import tracked
from daskpart._floor.tables import html_lines, readable, text_lines
from daskpart._floor.words import counted, listed
from daskpart.data_models import DataModel, build
from daskpart.errors import InputError
from daskpart.hypergraph import Hypergraph
from daskpart.partitions import Partition

from .checks import checked_fixed, checked_further_weights
from .methods import METHODS
from .partitioning import partition
from .refinement.goals import METRICS, TABLES, goal_named
from .refinement.refining import owner_vertices, refine

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_METHODS = ("auto", *METHODS)
_DEFAULT_METHODS = (
    *("random", "block", "metis", "parsa"),
    *("direct", "recursive", "power", "hypercube"),
)
# what is cut, into how many parts, is the same for all
_OPTIONS = [
    *(name for name in [*inspect.signature(partition).parameters][2:] if name != "model"),
    "refine",
]
_DEFAULT_METRICS = ("connectivity", "power", "max-connectivity", "max-volume", "concurrent-volume")


@dataclass(frozen=True, eq=False)
class Comparison:
    """A table of methods × metrics × seconds. Prints; made by `compare_partitions`.

    Parameters
    ----------
    n_parts : int
    values : dict of str to dict of str to number
        Method → metric → value; every method also has "imbalance" and "seconds" (NaN where a
        partition was given that does not say them).
    partitions : dict of str to Partition
        What was measured.
    """

    n_parts: int
    values: dict[str, dict[str, float]]
    partitions: dict[str, Partition]

    @property
    def metrics(self) -> list[str]:
        """The columns, imbalance and seconds among them."""
        return list(next(iter(self.values.values())))

    def best(self, metric: str) -> str:
        """The method with the least value of a metric; of equal ones the first."""
        one_of(metric, "metric", self.metrics)
        known = {name: row[metric] for name, row in self.values.items()}
        return min(known, key=lambda name: (math.isnan(known[name]), known[name]))

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Method → metric → value."""
        return {method: dict(row) for method, row in self.values.items()}

    def to_frame(self) -> pd.DataFrame:
        """One row a method, one column a metric; needs pandas."""
        import pandas as pd

        return pd.DataFrame.from_dict(self.values, orient="index").rename_axis("method")

    def plot(self, ax: Axes | None = None) -> Axes:
        """Bars of every metric relative to the first method; see `daskpart.plots`."""
        from daskpart.plots import partition_comparison

        return partition_comparison(self, ax=ax)

    def _cells(self) -> list[list[str]]:
        """Header, then a line a method, as text; the least values of a column have a star."""
        least = {metric: self.values[self.best(metric)][metric] for metric in self.metrics}
        lines = [["method", *(f"{metric}  " for metric in self.metrics)]]
        for method, row in self.values.items():
            cells = (
                readable(value) + (" *" if value == least[metric] else "  ")
                for metric, value in row.items()
            )
            lines.append([str(method), *cells])
        return lines

    @property
    def _title(self) -> str:
        return f"Partitions into {counted(self.n_parts, 'part')} (* least)"

    def __repr__(self) -> str:
        return "\n".join([self._title, *text_lines(self._cells())])

    def _repr_html_(self) -> str:
        return html_lines(self._cells(), self._title)


def compare_partitions(
    data: Any,
    n_parts: int,
    methods: Sequence[str] | Mapping[str, Any] = _DEFAULT_METHODS,
    metrics: str | Sequence[str] = _DEFAULT_METRICS,
    *,
    model: str = "auto",
    epsilon: float | Sequence[float] = 0.03,
    random_state: int = 0,
    rho: float = 2,
    owners: Any = "auto",
    progress: bool = True,
) -> Comparison:
    """Cut data by several methods and measure each: a table of methods × metrics × seconds.

    Parameters
    ----------
    data : matrix, tensor or graph in any container; path; Hypergraph; DataModel
        As for `daskpart.partition`.
    n_parts : int
    methods : sequence of str, or mapping
        Names of methods ("random", "direct", …) or of objectives ("power": recursive
        bipartitioning by it). A mapping gives each row a name of its own: to a method, an
        objective, a dict of options of `daskpart.partition` other than `model` (with ``"refine"``:
        a metric that `daskpart.refine` lowers afterwards, under the same options and `owners`), or
        a `Partition` of yours.
    metrics : str or sequence of str
        Those of `daskpart.refine`.
    model, epsilon, random_state, rho : see `daskpart.partition`
    owners : see `daskpart.refine`
    progress : bool, default=True
        Whether a terminal or a notebook shows a bar.

    Returns
    -------
    Comparison

    Raises
    ------
    InputError
        An unknown method, option or metric, fixed vertices for a method that takes none, a
        partition into another number of parts or of other data; before the data is cut.

    Examples
    --------
    >>> import daskpart, scipy.sparse
    >>> X = scipy.sparse.random(60, 40, 0.1, "csr", random_state=0)
    >>> found = daskpart.compare_partitions(X, 4, ["random", "direct"], ["connectivity"])
    >>> found.best("connectivity")
    'direct'
    """
    n_parts = whole_number(n_parts, "n_parts", least=1)
    metrics = [one_of(metric, "metric", METRICS) for metric in _names(metrics, "metrics")]
    ways = {name: _way(name, how) for name, how in _named(methods).items()}
    built = build(data, model, n_parts=n_parts, random_state=random_state)
    _check_data_of_ways(ways, built, n_parts)
    vertices = owner_vertices(owners, built)
    goals = {metric: goal_named(metric, rho) for metric in metrics}
    shared = {"epsilon": epsilon, "random_state": random_state, "rho": rho}
    partitions: dict[str, Partition] = {}
    values: dict[str, dict[str, float]] = {}
    _cut_few(ways)
    for name in tracked(list(ways), "comparing", progress):
        started = working_clock()
        found = _cut(built, n_parts, ways[name], shared, owners)
        seconds = working_clock() - started
        if isinstance(ways[name], Partition):
            seconds = float(found.info.get("seconds", math.nan))
        partitions[name] = found
        values[name] = {
            metric: goal.measure(built.hypergraph, found, vertices)
            for metric, goal in goals.items()
        }
        values[name] |= {"imbalance": round(found.imbalance, 4), "seconds": seconds}
    return Comparison(n_parts, values, partitions)


def _named(methods: Sequence[str] | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(methods, Mapping):
        named = dict(methods)
    else:
        words = _names(methods, "methods")
        known = (*_METHODS, *TABLES)
        named = {name: name for name in (one_of(word, "method", known) for word in words)}
    if not named:
        raise InputError("no methods to compare: give at least one")
    return named


def _names(given: Any, name: str) -> list[Any]:
    """One name or several as a list."""
    return [given] if isinstance(given, str) else several(given, name, "a list of names, or one")


def _way(name: str, how: Any) -> dict[str, Any] | Partition:
    """The options of `partition` behind one row of the table."""
    if isinstance(how, Partition):
        return how
    if isinstance(how, Mapping):
        odd = [option for option in how if option not in _OPTIONS]
        if odd:
            raise InputError(
                f"method {name!r} has the option {odd[0]!r}: use one of {listed(_OPTIONS)} "
                "(n_parts and model are those of all methods, arguments of compare_partitions)"
            )
        return dict(how)
    if isinstance(how, str) and how in _METHODS:
        return {"method": how}
    if isinstance(how, str) and how in TABLES:
        return {"objective": how}
    known = listed([*_METHODS, *TABLES])
    raise InputError(
        f"method {name!r} is {how!r}: use one of {known}, options of partition, or a Partition"
    )


def _check_data_of_ways(ways: Mapping[str, Any], built: DataModel, n_parts: int) -> None:
    """Refuse what is of other data, or of another number of parts: the table would lie."""
    for name, given in ways.items():
        if not isinstance(given, Partition):
            if given.get("fixed") is not None:
                checked_fixed(given["fixed"], built.hypergraph.n_vertices, n_parts)
            if given.get("further_weights") is not None:
                checked_further_weights(given["further_weights"], built.hypergraph.vertex_weights)
            continue
        if given.n_parts != n_parts:
            raise InputError(
                f"partition {name!r} has {given.n_parts} parts, {n_parts} are compared: "
                "compare it with others of as many"
            )
        given.check_fits(built.hypergraph.n_vertices, shape=built.shape, nnz=built.nnz)


def _cut_few(ways: Mapping[str, Any]) -> None:
    """Cut a dozen vertices every way: what is timed below is compiled, and options are checked."""
    few = Hypergraph.from_nets([0, 4, 8, 12, 14], [*range(12), 3, 4], 12)
    for how in ways.values():
        if not isinstance(how, Partition):
            columns = np.shape(how.get("further_weights"))[1:]
            of_few = {"fixed": np.full(12, -1), "further_weights": np.ones((12, *columns))}
            asked = {name: each for name, each in of_few.items() if how.get(name) is not None}
            _cut(few, 2, {**how, **asked}, {})


def _cut(
    data: Any, n_parts: int, how: Any, shared: dict[str, Any], owners: Any = "auto"
) -> Partition:
    if isinstance(how, Partition):
        return how
    options = {**shared, **how}
    metric = options.pop("refine", None)
    found = partition(data, n_parts, **options)
    if metric is None:
        return found
    shared_with_refine = (
        "epsilon", "random_state", "rho", "fixed", "further_weights", "even", "engine",
    )  # fmt: skip
    kept = {name: options[name] for name in shared_with_refine if name in options}
    return refine(data, found, metric, owners=owners, **kept)
