"""Which rank works on which nonzero of a tensor.

    random                 every nonzero drawn, as many a rank (±1)
    fine-grain             hypergraph cut: single nonzeros are dealt out
    medium-grain           hypergraph cut: groups of nonzeros of one slice
    hypercube              medium-grain groups, cut and placed on the corners of a hypercube at once
    hypercube-fine-grain   the same for single nonzeros
    a Partition, an array  as given

The hypercube mapping makes the *concurrent* volume small, which embedded methods pay for (seed
paper, §5); the others the volume, which point-to-point messages pay for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.connectivity import Connectivity
from daskpart.containers.tensor import LabelledTensor
from daskpart.data_models import fine_grain, medium_grain
from daskpart.errors import InputError
from daskpart.owners import embedded_packed_owners, packed_owners, random_owners
from daskpart.partitioners import partition
from daskpart.partitions import Partition

_GRAINS = {"fine-grain": fine_grain, "medium-grain": medium_grain}
PARTITIONERS = ("auto", "random", *_GRAINS, "hypercube", "hypercube-fine-grain")
OWNERS = ("packed", "random")


def is_power_of_two(n_ranks: int) -> bool:
    """Whether the ranks are the corners of a hypercube."""
    return n_ranks & (n_ranks - 1) == 0


def check_partitioner(partitioner: Any, n_ranks: int) -> None:
    """Refuse an unknown partitioner, or a partition of another number of parts (InputError)."""
    if isinstance(partitioner, Partition):
        if partitioner.n_parts != n_ranks:
            raise InputError(
                f"the partition has {partitioner.n_parts} parts, n_ranks is {n_ranks}: give a "
                "partition with one part a rank"
            )
    elif isinstance(partitioner, str):
        if partitioner not in PARTITIONERS:
            known = ", ".join(map(repr, PARTITIONERS))
            raise InputError(
                f"partitioner={partitioner!r} is unknown; choose one of {known}, or give a "
                "Partition or an array with the rank of each nonzero"
            )
    elif not np.issubdtype(np.asarray(partitioner).dtype, np.integer):
        raise InputError(
            f"partitioner={partitioner!r} is neither a name nor a Partition nor an array with the "
            "rank of each nonzero"
        )


def partitioner_for(partitioner: Any, method: str, n_ranks: int) -> Any:
    """What "auto" stands for: the cut that the method pays for."""
    if not isinstance(partitioner, str) or partitioner != "auto":
        return partitioner
    return "hypercube" if method != "p2p" and is_power_of_two(n_ranks) else "medium-grain"


def partitioner_name(partitioner: Any) -> str:
    """A partitioner in one word."""
    return partitioner if isinstance(partitioner, str) else "as given"


def nonzero_parts(
    tensor: LabelledTensor,
    n_ranks: int,
    partitioner: Any,
    *,
    epsilon: float,
    engine: Any,
    n_components: int,
    random_state: int,
) -> NDArray[np.int32]:
    """The rank of each nonzero.

    Parameters
    ----------
    tensor : LabelledTensor
    n_ranks : int
    partitioner : str, Partition or int array of shape (nnz,)
        As `check_partitioner` let it pass; not "auto".
    epsilon : float
        Imbalance that a hypergraph cut may use.
    engine : str or Engine
        What cuts in two.
    n_components : int
        R, cost of a net.
    random_state : int

    Returns
    -------
    ndarray of int32, shape (nnz,)

    Raises
    ------
    InputError
        When a given partition does not fit the tensor, or there are more ranks than vertices.
    """
    if isinstance(partitioner, Partition):
        return _of_partition(tensor, partitioner)
    if not isinstance(partitioner, str):
        return _of_array(tensor, np.asarray(partitioner), n_ranks)
    if n_ranks == 1:
        return np.zeros(tensor.nnz, np.int32)
    if partitioner == "random":
        parts = np.arange(tensor.nnz, dtype=np.int32) % np.int32(n_ranks)
        return np.random.default_rng(random_state).permutation(parts)
    fine = partitioner in ("fine-grain", "hypercube-fine-grain")
    model = (fine_grain if fine else medium_grain)(tensor, row_length=n_components)
    n_vertices = model.hypergraph.n_vertices
    if n_vertices < n_ranks:
        finer = "hypercube-fine-grain" if partitioner == "hypercube" else "fine-grain"
        advice = "" if fine else f"{finer!r}, which deals out single nonzeros, or "
        raise InputError(
            f"n_ranks is {n_ranks}, but partitioner {partitioner!r} has {n_vertices} "
            f"{'nonzeros' if fine else 'groups of nonzeros'} to deal out: use {advice}fewer ranks"
        )
    options: dict[str, Any] = {"engine": engine, "epsilon": epsilon, "random_state": random_state}
    if partitioner.startswith("hypercube"):
        options["method"] = "hypercube"
    return model.nonzero_parts(partition(model, n_ranks, **options))


def _of_partition(tensor: LabelledTensor, given: Partition) -> NDArray[np.int32]:
    grain = _GRAINS.get(str(given.info.get("model")))
    if grain is not None:
        return grain(tensor).nonzero_parts(given)
    given.check_fits(tensor.nnz, "the tensor", "nonzeros")
    return given.assignment


def _of_array(tensor: LabelledTensor, given: NDArray[Any], n_ranks: int) -> NDArray[np.int32]:
    if given.shape != (tensor.nnz,):
        raise InputError(
            f"partitioner is an array of shape {given.shape}; the tensor has {tensor.nnz} "
            "nonzeros: give the rank of each, in row-major order"
        )
    if given.size and not 0 <= given.min() <= given.max() < n_ranks:
        raise InputError(
            f"partitioner names ranks {given.min()} to {given.max()}; there are 0 to {n_ranks - 1}"
        )
    return given.astype(np.int32)


def mode_connectivities(
    coordinates: NDArray[np.int32], parts: NDArray[np.int32], shape: Sequence[int], n_ranks: int
) -> list[Connectivity]:
    """For each mode: which ranks touch which factor row."""
    return [
        Connectivity.from_pairs(index, parts, extent, n_ranks)
        for index, extent in zip(coordinates, shape, strict=True)
    ]


def owned(
    connectivities: Sequence[Connectivity], owners: str, method: str, random_state: int
) -> list[Connectivity]:
    """The same with owners: drawn, or packed for the method that moves the rows."""
    if owners == "random":
        return random_owners(connectivities, random_state)
    return (
        packed_owners(connectivities) if method == "p2p" else embedded_packed_owners(connectivities)
    )
