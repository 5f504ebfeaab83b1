"""Which rank works on which nonzero of a tensor.

    block                  runs of nonzeros in row-major order, as many a rank (±1)
    random                 every nonzero drawn, as many a rank (±1)
    fine-grain             hypergraph cut: single nonzeros are dealt out
    medium-grain           hypergraph cut: groups of nonzeros of one slice
    hypercube              medium-grain groups, cut and placed on the corners of a hypercube at once
    hypercube-fine-grain   the same for single nonzeros
    a Partition, an array  as given

The hypercube mapping makes the *concurrent* volume small, which embedded methods pay for (§5
of Abubaker et al.); the others the volume, which point-to-point messages pay for.

A plan takes a `NonzeroCut`, one for each method that it weighs; that of "auto" is the one that
makes a fit shortest (`base.cutting`).

Rows of fixed modes do not travel, so a cut is of the other modes: their nets, and groups of their
slices.

Groups weigh their nonzeros and R for the row of their slice: to solve for a row and to add it to
the Gram takes R² multiplications a mode, and R those of a nonzero. The paper has nonzeros alone,
and so has a data model that is named.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.kernels import working_clock
from daskpart.connectivity import Connectivity
from daskpart.containers.tensor import LabelledTensor
from daskpart.data_models import fine_grain, medium_grain
from daskpart.errors import BalanceWarning, InputError
from daskpart.models.base.cutting import Cuts, weighed_cut, words_of
from daskpart.models.base.plan import given_assignment, partitioner_name
from daskpart.owners import embedded_packed_owners, packed_owners, random_owners
from daskpart.partitions import Partition

if TYPE_CHECKING:
    from .plan import PlanSettings

_GRAINS = {"fine-grain": fine_grain, "medium-grain": medium_grain}
# what a name of a partitioner stands for: arguments of `daskpart.partition`
PARTITIONERS: dict[str, dict[str, Any]] = {
    "fine-grain": {"model": "fine-grain"},
    "medium-grain": {"model": "medium-grain"},
    "hypercube": {"model": "medium-grain", "method": "hypercube"},
    "hypercube-fine-grain": {"model": "fine-grain", "method": "hypercube"},
}
_PARSA = {"model": "medium-grain", "method": "parsa"}  # of "auto", see `base.cutting`
NAMES = ("auto", "block", "random", *PARTITIONERS)
OWNERS = ("packed", "random")


class TooFewGroups(InputError):
    """A grain has fewer groups of nonzeros than there are ranks to deal them out to."""


@dataclass(frozen=True, eq=False)
class NonzeroCut:
    """Nonzeros dealt out, which rank touches which row of each mode, and what a plan tells of it.

    Fields are as of `CPPlan`.
    """

    parts: NDArray[np.int32] | None
    connectivities: list[Connectivity]
    partitioner: str
    seconds: float = 0.0
    imbalance_told: str = ""
    weighed: str | None = None


def cuts_of_methods(tensor: LabelledTensor, settings: PlanSettings) -> dict[str, NonzeroCut]:
    """The nonzeros dealt out as suits each method that is planned."""

    made: dict[str, NonzeroCut] = {}

    def cut(asked: Any) -> NonzeroCut:
        name = partitioner_name(asked)  # tells apart all that the methods of one fit ask for
        if name not in made:
            made[name] = _cut(tensor, settings, asked)
        return made[name]

    found = {}
    for method in settings.methods:
        asked = partitioner_for(settings.partitioner, method, settings.n_ranks)
        is_auto = isinstance(asked, str) and asked == "auto"
        found[method] = _weighed(tensor, settings, method, cut) if is_auto else cut(asked)
    return found


def _weighed(
    tensor: LabelledTensor,
    settings: PlanSettings,
    method: str,
    cut: Callable[[Any], NonzeroCut],
) -> NonzeroCut:
    """The cut that makes a fit by one method shortest."""
    best = cut_of_method(method, settings.n_ranks)
    row_bytes, seconds = settings.reduce_bytes + settings.row_bytes, 0.0

    def make(name: str) -> NonzeroCut:
        nonlocal seconds
        try:
            found = cut(best if name == "multilevel" else name)
        except TooFewGroups:  # nobody asked for these: blocks are runs of single nonzeros
            found = cut("block")
        seconds += found.seconds
        return found

    def nbytes(found: NonzeroCut) -> float:
        moved = (
            connectivity.connectivity_minus_one()
            for mode, connectivity in enumerate(found.connectivities)
            if mode not in settings.fixed
        )
        return float(row_bytes * sum(moved))

    # a medium grain has about as many pins as there are nonzeros
    cuts = Cuts(make, nbytes, lambda: tensor.nnz)
    found, name, reason = weighed_cut(
        cuts, settings.n_ranks, settings.steps, settings.transport, settings.kept_cut
    )
    return replace(found, partitioner=words_of(name, reason), weighed=name, seconds=seconds)


def _cut(tensor: LabelledTensor, settings: PlanSettings, partitioner: Any) -> NonzeroCut:
    """Deal out the nonzeros, and find out who touches what."""
    begin = working_clock()
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always", BalanceWarning)
        parts = nonzero_parts(
            tensor,
            settings.n_ranks,
            partitioner,
            n_components=settings.n_components,
            random_state=settings.random_state,
            fixed=settings.fixed,
        )
    seconds = working_clock() - begin
    told = []
    for each in given:
        if issubclass(each.category, BalanceWarning):
            told.append(str(each.message))  # one of each weight
        else:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    connectivities = [
        Connectivity.from_pairs(index, parts, extent, settings.n_ranks)
        for index, extent in zip(tensor.coordinates, tensor.shape, strict=True)
    ]
    name = partitioner_name(partitioner)
    return NonzeroCut(parts, connectivities, name, seconds, "; ".join(told))


def cut_of_method(method: str, n_ranks: int) -> str:
    """The cut that a method pays for."""
    has_corners = n_ranks & (n_ranks - 1) == 0  # a power of two
    return "hypercube" if method != "p2p" and has_corners else "medium-grain"


def partitioner_for(partitioner: Any, method: str, n_ranks: int) -> Any:
    """A partitioner, whole: a dict may say neither model nor method.

    The method of further weights is left to `daskpart.partition`, as one alone takes them.
    """
    decisive = {"model", "method", "further_weights"}
    if isinstance(partitioner, Mapping) and not decisive & set(partitioner):
        named = PARTITIONERS[cut_of_method(method, n_ranks)]
        return {**{key: value for key, value in named.items() if key != "model"}, **partitioner}
    return partitioner


def nonzero_parts(
    tensor: LabelledTensor,
    n_ranks: int,
    partitioner: Any,
    *,
    n_components: int,
    random_state: int,
    fixed: Sequence[int] = (),
) -> NDArray[np.int32]:
    """The rank of each nonzero.

    Parameters
    ----------
    tensor : LabelledTensor
    n_ranks : int
    partitioner : str, dict, Partition or int array of shape (nnz,)
        Checked; not "auto".
    n_components : int
        R, cost of a net, and what a row weighs in nonzeros.
    random_state : int
    fixed : sequence of int
        Modes whose rows never travel: they have no nets, and no group is of a slice of theirs.

    Returns
    -------
    ndarray of int32, shape (nnz,)

    Raises
    ------
    InputError
        When a given partition does not fit the tensor, or there are more ranks than vertices.
    """
    from daskpart.partitioners import partition  # ranks cut nothing

    if not tensor.values.all():  # a stored zero is an entry like others, and values do not matter
        tensor = replace(tensor, values=np.ones_like(tensor.values))
    if isinstance(partitioner, Partition):
        return _of_partition(tensor, partitioner)
    if not isinstance(partitioner, str | Mapping):
        return given_assignment(partitioner, tensor.nnz, n_ranks, "nonzeros, in row-major order")
    if n_ranks == 1:
        return np.zeros(tensor.nnz, np.int32)
    if partitioner == "block":
        return (np.arange(tensor.nnz) * n_ranks // max(tensor.nnz, 1)).astype(np.int32)
    if partitioner == "random":
        parts = np.arange(tensor.nnz, dtype=np.int32) % np.int32(n_ranks)
        return np.random.default_rng(random_state).permutation(parts)
    known = {**PARTITIONERS, "parsa": _PARSA}
    arguments = known[partitioner] if isinstance(partitioner, str) else partitioner
    options = {"random_state": random_state, **arguments}
    grain = options.pop("model", "medium-grain")
    is_named = not isinstance(partitioner, str) and "model" in partitioner
    if grain not in _GRAINS:
        raise InputError(f"model={grain!r} cuts no tensor; choose one of {', '.join(_GRAINS)}")
    model = _GRAINS[grain](_without(tensor, fixed), row_length=n_components)
    n_vertices = model.hypergraph.n_vertices
    if n_vertices < n_ranks:
        fine = grain == "fine-grain"
        finer = "hypercube-fine-grain" if options.get("method") == "hypercube" else "fine-grain"
        advice = "" if fine else f"{finer!r}, which deals out single nonzeros, or "
        raise TooFewGroups(
            f"n_ranks is {n_ranks}, but partitioner {partitioner!r} has {n_vertices} "
            f"{'nonzeros' if fine else 'groups of nonzeros'} to deal out: use {advice}fewer ranks"
        )
    if grain == "medium-grain" and not is_named:  # a single nonzero stands for no row
        model = model.with_row_work(n_components)
    return model.nonzero_parts(partition(model, n_ranks, **options))


def _without(tensor: LabelledTensor, modes: Sequence[int]) -> LabelledTensor:
    """A tensor by its other modes, nonzero by nonzero: some may lie in the same cell then."""
    if not modes:
        return tensor
    left = [mode for mode in range(tensor.n_modes) if mode not in modes]
    return replace(
        tensor,
        coordinates=tensor.coordinates[left],
        shape=tuple(tensor.shape[mode] for mode in left),
        dims=tuple(tensor.dims[mode] for mode in left),
    )


def _of_partition(tensor: LabelledTensor, given: Partition) -> NDArray[np.int32]:
    grain = _GRAINS.get(str(given.info.get("model")))
    if grain is not None:
        return grain(tensor).nonzero_parts(given)
    given.check_fits(tensor.nnz, "the tensor", "nonzeros")
    return given.assignment


def owned(connectivities: Sequence[Connectivity], settings: PlanSettings) -> list[Connectivity]:
    """The same with owners: drawn, or packed for the method that moves the rows."""
    if settings.owners == "random":
        return random_owners(connectivities, settings.random_state)
    if settings.method != "p2p":
        return embedded_packed_owners(connectivities)
    # rows of fixed modes do not travel, and so are no load to balance
    moved = [each for mode, each in enumerate(connectivities) if mode not in settings.fixed]
    packed = iter(packed_owners(moved))
    return [
        each.with_packed_owners() if mode in settings.fixed else next(packed)
        for mode, each in enumerate(connectivities)
    ]
