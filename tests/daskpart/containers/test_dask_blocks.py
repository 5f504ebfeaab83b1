"""Connectivity and hypergraphs of Dask arrays: equal to those in memory, and small on the way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse
import sparse
import xarray
from dask.callbacks import Callback
from hypothesis import given
from hypothesis import strategies as st

import daskpart
from daskpart._floor.rank_tasks import Task, TaskRef
from daskpart.connectivity import Connectivity
from daskpart.containers.dask_blocks import cut_by_part, gathered_by_part
from daskpart.errors import InputError
from daskpart.hypergraph import Hypergraph
from daskpart.partitions import Partition

AXES = ("rows", "columns")


@st.composite
def chunked(draw: st.DrawFn) -> da.Array:
    """Sparse chunks of uneven sizes, some of them empty, with empty rows and columns."""
    shape = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    cells = draw(st.lists(st.integers(0, shape[0] * shape[1] - 1), min_size=1, max_size=40,
                          unique=True))  # fmt: skip
    coordinates = np.unravel_index(cells, shape)
    values = draw(st.lists(st.sampled_from([0.0, 1.0, 2.5]), min_size=len(cells),
                           max_size=len(cells)))  # fmt: skip
    coo = sparse.COO(np.stack(coordinates), np.array(values), shape=shape)
    chunks = tuple(draw(st.integers(1, side)) for side in shape)
    return da.from_array(coo, chunks=chunks)


def drawn_partition(data: st.DataObject, array: da.Array, axis: str) -> Partition:
    n = array.shape[AXES.index(axis)]
    n_parts = data.draw(st.integers(1, 4))
    parts = data.draw(st.lists(st.integers(0, n_parts - 1), min_size=n, max_size=n))
    return Partition(np.array(parts, np.int32), n_parts)


@given(chunked(), st.sampled_from(AXES), st.data())
def test_it_is_the_connectivity_of_the_matrix(
    array: da.Array, axis: str, data: st.DataObject
) -> None:
    partition = drawn_partition(data, array, axis)
    net = Hypergraph.column_net if axis == "rows" else Hypergraph.row_net
    whole = net(array)
    with dask.config.set(scheduler="sync"):
        found = Connectivity.from_dask(array, partition, axis)
        assert found == Connectivity.from_partition(whole, partition)
        assert Connectivity.from_dask(xarray.DataArray(array), partition, axis) == found
        assert Hypergraph.from_dask(array, axis) == whole
    assert found.parts.dtype == np.int32 and found.counts.dtype == np.int64


class _Sizes(Callback):
    """The bytes of arrays in the result of each task, and how many nonzeros it holds."""

    def __init__(self) -> None:
        super().__init__(posttask=self._note)
        self.bytes: dict[str, list[int]] = {}
        self.nonzeros: list[int] = []

    def _note(self, key: Any, result: Any, *rest: Any) -> None:
        name = key[0] if isinstance(key, tuple) else key
        held = sum(array.nbytes for array in _arrays(result))
        self.bytes.setdefault(name.split("-")[0], []).append(held)
        if hasattr(result, "nnz"):
            self.nonzeros.append(result.nnz)


def _arrays(value: Any) -> Iterator[np.ndarray]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _arrays(part)


def test_no_task_and_not_the_client_sees_the_nonzeros() -> None:
    """200,000 nonzeros in 100 × 2 chunks; 4 parts; what is merged is as small as the answer."""
    generator = np.random.default_rng(0)

    def block(block_info: Any = None) -> sparse.COO:
        i, j = block_info[None]["chunk-location"]
        return sparse.random((500, 100), nnz=1000, random_state=100 * j + i)

    array = da.map_blocks(block, chunks=((500,) * 100, (100, 100)), dtype=float,
                          meta=sparse.COO.from_numpy(np.empty((0, 0))))  # fmt: skip
    partition = Partition(generator.integers(0, 4, 50_000).astype(np.int32), 4)
    sizes = _Sizes()
    with sizes, dask.config.set(scheduler="sync"):
        found = Connectivity.from_dask(array, partition)
    assert found.counts.sum() == 200_000 and len(found.parts) == 800
    assert sizes.nonzeros and max(sizes.nonzeros) == 1000  # only the tasks that read chunks
    assert max(sizes.bytes["merge_pairs"]) <= 16 * 4 * 100  # pairs of one block of columns
    assert max(sizes.bytes["pairs_of_chunk"]) <= 16 * 4 * 100
    assert len(sizes.bytes["merge_pairs"]) == 2 * (13 + 2 + 1)


def test_sharding_a_dask_array_uses_it() -> None:
    coo = sparse.random((60, 40), nnz=300, random_state=0)
    array = da.from_array(coo, chunks=(7, 11))
    partition = daskpart.partition(coo, 3, method="random")
    lazy, held = daskpart.shard(array, partition), daskpart.shard(coo, partition)
    assert lazy.connectivity == held.connectivity
    assert lazy.connectivity.owners is not None


def test_metrics_need_no_more_than_the_connectivity() -> None:
    coo = sparse.random((200, 100), nnz=3000, random_state=1)
    array = da.from_array(coo, chunks=(50, 50))
    partition = daskpart.partition(Hypergraph.from_dask(array), 4)
    found = Connectivity.from_dask(array, partition)
    report = partition.report(Hypergraph.column_net(coo)).to_dict()
    assert {name: report[name] for name in found.to_dict()} == found.to_dict()


def test_bad_input() -> None:
    coo = sparse.random((20, 10), nnz=50, random_state=0)
    array = da.from_array(coo, chunks=(5, 5))
    partition = daskpart.partition(coo, 2, method="random")
    with pytest.raises(InputError, match="a COO was given: give a Dask array of sparse chunks"):
        Connectivity.from_dask(coo, partition)
    with pytest.raises(InputError, match="axis is 'cols': use one of"):
        Connectivity.from_dask(array, partition, axis="cols")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="axis is 'cols': use one of"):
        Hypergraph.from_dask(array, axis="cols")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="20 vertices, the data has 10 columns"):
        Connectivity.from_dask(array, partition, axis="columns")
    other = sparse.random((20, 10), nnz=49, random_state=1)
    with pytest.raises(InputError, match=r"made for data of nnz 50, .* has 49"):
        Connectivity.from_dask(da.from_array(other, chunks=(5, 5)), partition)
    with pytest.raises(InputError, match="dense chunks"):
        Connectivity.from_dask(da.ones((20, 10)), partition)
    of_columns = daskpart.partition(coo, 2, method="random", model="row-net")
    with pytest.raises(InputError, match="pass axis='columns'"):
        Connectivity.from_dask(array, of_columns)
    unknown = da.map_blocks(lambda block: block, array, dtype=float)
    unknown._chunks = ((np.nan,) * 4, (5, 5))
    with pytest.raises(InputError, match="chunks of unknown size"):
        Connectivity.from_dask(unknown, partition)
    broken = da.from_array(sparse.COO([[7], [8]], [np.nan], shape=(20, 10)), chunks=(5, 5))
    with pytest.raises(InputError, match=r"NaN .*corner at row 5, column 5"):
        Connectivity.from_dask(broken, Partition(np.zeros(20, np.int32), 2))
    with pytest.raises(InputError, match=r"NaN .*corner at row 5, column 5"):
        Hypergraph.from_dask(broken, "columns")


def test_repeated_entries_of_a_chunk_count_once() -> None:
    block = scipy.sparse.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(2, 2))
    chunk = dask.delayed(lambda: block)()
    meta = sparse.COO.from_numpy(np.empty((0, 0)))
    array = da.from_delayed(chunk, shape=(2, 2), dtype=float, meta=meta)
    partition = Partition(np.array([0, 1], np.int32), 2)
    with dask.config.set(scheduler="sync"), pytest.warns(UserWarning, match="repeat a position"):
        found = Connectivity.from_dask(array, partition)
    assert found.counts.tolist() == [1]


# nonzeros, each to its part


def split_cells(block: Any, corner: tuple[int, ...], n_parts: int) -> list[Any]:
    """The part of a cell is the sum of its indices; pieces are (coordinates, values)."""
    coordinates = block.coords + np.array(corner)[:, None]
    parts = (coordinates.sum(axis=0) % n_parts).astype(np.int32)
    return cut_by_part(parts, n_parts, coordinates, block.data)


def joined(pieces: list[Any], rank: int) -> tuple[int, np.ndarray, np.ndarray]:
    coordinates, values = zip(*pieces, strict=True)
    return rank, np.concatenate(coordinates, axis=1), np.concatenate(values)


@pytest.mark.parametrize("n_parts", [1, 2, 3, 5])
def test_blocks_of_any_order_are_gathered_by_part(n_parts: int) -> None:
    tensor = sparse.random((7, 6, 5), density=0.2, random_state=3)
    array = da.from_array(tensor, chunks=(3, 4, 5))
    starts = [np.concatenate(([0], np.cumsum(sizes))) for sizes in array.chunks]
    splits = {}
    for number in np.ndindex(*array.numblocks):
        corner = tuple(int(start[i]) for start, i in zip(starts, number, strict=True))
        key = ("split", *number)
        splits[key] = Task(key, split_cells, TaskRef((array.name, *number)), corner, n_parts)
    graph = gathered_by_part(array, "joined", splits, joined, [(k,) for k in range(n_parts)])
    assert len(graph.layers["split"]) + len(graph.layers["joined"]) == len(splits) + n_parts
    keys = [("joined", rank) for rank in range(n_parts)]
    dense = np.zeros(tensor.shape)
    for k, (rank, cells, values) in enumerate(dask.get(graph, keys)):
        assert rank == k and (cells.sum(axis=0) % n_parts == k).all()
        dense[tuple(cells)] += values
    np.testing.assert_array_equal(dense, tensor.todense())
