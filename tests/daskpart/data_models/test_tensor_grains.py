"""Fine and medium grain against their definitions, nonzero by nonzero."""

from __future__ import annotations

import numpy as np
import pytest
import sparse
from hypergraphs import nets_of
from hypothesis import given
from hypothesis import strategies as st

import daskpart
from daskpart.containers.tensor import LabelledTensor, as_tensor, from_coordinates
from daskpart.data_models import fine_grain, medium_grain
from daskpart.errors import DaskpartWarning, InputError
from daskpart.partitions import Partition


@st.composite
def tensors(draw: st.DrawFn) -> LabelledTensor:
    """Small tensors with empty slices, extents of 1 and, now and then, a single nonzero."""
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=2, max_size=4)))
    n_cells = int(np.prod(shape))
    cells = draw(st.lists(st.integers(0, n_cells - 1), min_size=1, max_size=25, unique=True))
    return from_coordinates(np.unravel_index(cells, shape), np.ones(len(cells)), shape)


def slices(tensor: LabelledTensor) -> list[list[int]]:
    """The nonzeros of each index of each mode, in the order of the nets."""
    return [
        np.flatnonzero(tensor.coordinates[mode] == index).tolist()
        for mode in range(tensor.n_modes)
        for index in range(tensor.shape[mode])
    ]


@given(tensors(), st.integers(1, 20))
def test_fine_grain_is_its_definition(tensor: LabelledTensor, row_length: int) -> None:
    model = fine_grain(tensor, row_length=row_length)
    assert nets_of(model.hypergraph) == slices(tensor)
    assert model.hypergraph.vertex_weights.tolist() == [1] * tensor.nnz
    assert model.hypergraph.net_costs.tolist() == [row_length] * sum(tensor.shape)
    assert model.vertex_of.tolist() == list(range(tensor.nnz))
    assert model.hypergraph.pins.dtype == np.int32


@given(tensors())
def test_medium_grain_is_its_definition(tensor: LabelledTensor) -> None:
    model = medium_grain(tensor)
    members = slices(tensor)
    offsets = np.cumsum([0, *tensor.shape])
    groups: dict[int, list[int]] = {}
    for nonzero in range(tensor.nnz):
        candidates = [
            (len(members[offsets[m] + i]), -tensor.shape[m], m, offsets[m] + i)
            for m, i in enumerate(tensor.coordinates[:, nonzero])
        ]
        groups.setdefault(int(min(candidates)[-1]), []).append(nonzero)
    in_order = [groups[slice_] for slice_ in sorted(groups)]
    vertices = [set(np.flatnonzero(model.vertex_of == v)) for v in range(len(in_order))]
    assert vertices == [set(group) for group in in_order]
    assert model.hypergraph.vertex_weights.tolist() == [len(group) for group in in_order]
    vertex_of = model.vertex_of
    assert nets_of(model.hypergraph) == [sorted({vertex_of[p] for p in net}) for net in members]


@given(tensors(), st.sampled_from([fine_grain, medium_grain]), st.integers(1, 4), st.data())
def test_what_the_parts_share_is_counted_by_mode(
    tensor: LabelledTensor, grain: object, n_parts: int, data: st.DataObject
) -> None:
    model = grain(tensor, row_length=3)  # type: ignore[operator]
    n_vertices = model.hypergraph.n_vertices
    assignment = data.draw(st.lists(st.integers(0, n_parts - 1), min_size=n_vertices,
                                    max_size=n_vertices))  # fmt: skip
    partition = Partition(np.array(assignment, np.int32), n_parts, model.hypergraph.vertex_weights)
    parts = model.nonzero_parts(partition)
    assert np.bincount(parts, minlength=n_parts).tolist() == partition.part_weights.tolist()
    modes = [model.mode_connectivity(partition, mode) for mode in range(tensor.n_modes)]
    for mode, found in enumerate(modes):
        for index in range(tensor.shape[mode]):
            here = parts[tensor.coordinates[mode] == index]
            pairs = slice(found.pointer[index], found.pointer[index + 1])
            touched, counts = np.unique(here, return_counts=True)
            assert found.parts[pairs].tolist() == touched.tolist()
            assert found.counts[pairs].tolist() == counts.tolist()
    whole = model.connectivity(partition)
    assert np.concatenate([mode.connectivity for mode in modes]).tolist() == (
        whole.connectivity.tolist()
    )
    cut = sum(mode.connectivity_minus_one() for mode in modes)
    assert cut == whole.connectivity_minus_one()


def test_ties_go_to_the_longer_then_the_earlier_mode() -> None:
    # every slice of this tensor holds one nonzero
    diagonal = from_coordinates([[0, 1], [0, 1], [0, 1]], [1.0, 1.0], (3, 5, 5))
    model = medium_grain(diagonal)
    assert model.hypergraph.n_vertices == 2  # slices j = 0 and j = 1: longer than i, before k
    pointer = model.hypergraph.net_pointer
    assert np.diff(pointer).tolist() == [1, 1, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0]


def test_repeats_and_zeros_are_settled_before() -> None:
    with pytest.warns(DaskpartWarning, match="1 of 4 entries repeat"):
        model = fine_grain(from_coordinates([[0, 0, 1, 1], [0, 0, 1, 0]], [1, 2, 0, 4], (2, 2)))
    assert model.nnz == 2 and model.tensor.values.tolist() == [3, 4]


def test_bad_input() -> None:
    tensor = as_tensor(sparse.random((4, 5, 6), nnz=20, random_state=0))
    with pytest.raises(InputError, match="row_length is 0"):
        fine_grain(tensor, row_length=0)
    with pytest.raises(InputError, match="row_length is 'R'"):
        medium_grain(tensor, row_length="R")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"shape \(2147483647, 2147483647\) with 1 nonzeros has"):
        medium_grain(from_coordinates([[0], [0]], [1.0], (2**31 - 1, 2**31 - 1)))
    model = fine_grain(tensor)
    partition = daskpart.partition(model, 3)
    with pytest.raises(InputError, match="mode is 3: this tensor has 0 to 2"):
        model.mode_connectivity(partition, 3)
    with pytest.raises(InputError, match="made by the model 'fine-grain', not by 'medium-grain'"):
        medium_grain(tensor).nonzero_parts(partition)
    with pytest.raises(InputError, match="20 vertices, the model has 12"):
        fine_grain(sparse.random((4, 5, 6), nnz=12, random_state=0)).nonzero_parts(partition)
    assert "fine-grain" in repr(model) and "<table>" in model._repr_html_()
