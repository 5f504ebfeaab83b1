"""Shards hold every nonzero once, numbered as in Fig. 1, however the data came."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse
import sparse
import xarray as xr
from dask.graph_manipulation import wait_on
from hypothesis import given, settings
from hypothesis import strategies as st

from daskpart._floor.rank_tasks import known_workers
from daskpart.connectivity import Connectivity
from daskpart.containers.matrix import as_matrix
from daskpart.errors import InputError
from daskpart.hypergraph import Hypergraph
from daskpart.partitions import Partition
from daskpart.shards import Shards, shard

# Fig. 1 in small: columns 0 and 3 are local, 1, 2 and 4 link, 5 is empty
DENSE = np.array(
    [
        [5, 0, 0, 0, 1, 0],
        [0, 0, 2, 3, 0, 0],
        [4, 1, 0, 0, 0, 0],
        [0, 6, 0, 0, 2, 0],
        [0, 0, 1, 7, 0, 0],
    ],
    float,
)
PARTITION = Partition(np.array([0, 1, 0, 2, 1], np.int32), 4)  # nothing goes to part 3
PARTITION_2 = Partition(np.array([0, 1, 0, 2, 1], np.int32), 3)


def random_ratings(seed: int, shape: tuple[int, int], nnz: int) -> sparse.COO:
    """Ratings, some of them explicit zeros."""
    generator = np.random.default_rng(seed)
    position = generator.choice(shape[0] * shape[1], min(nnz, shape[0] * shape[1]), replace=False)
    values = generator.integers(0, 6, len(position)).astype(np.float32)
    return sparse.COO(np.stack(np.divmod(position, shape[1])), values, shape=shape)


def random_partition(seed: int, n_rows: int, n_parts: int) -> Partition:
    assignment = np.random.default_rng(seed).integers(0, n_parts, n_rows)
    return Partition(assignment.astype(np.int32), n_parts)


def assert_same_shards(left: list, right: list) -> None:
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        for name, value in vars(one).items():
            twin = getattr(other, name)
            np.testing.assert_array_equal(value, twin, err_msg=name)
            assert getattr(value, "dtype", None) == getattr(twin, "dtype", None), name


def assert_same_matrix(left: sparse.COO, right: sparse.COO) -> None:
    """Equal with explicit zeros."""
    assert left.shape == right.shape
    np.testing.assert_array_equal(left.coords, right.coords)
    np.testing.assert_array_equal(left.data, right.data)


# the numbering of Fig. 1


def test_columns_are_local_owned_nonlocal():
    owners = [0, 2, 1, 1, 0, 0]
    shards = shard(scipy.sparse.csr_array(DENSE), PARTITION, owners=owners).compute()
    kinds = [(s.items.tolist(), s.n_local, s.n_owned, s.n_nonlocal) for s in shards]
    assert kinds == [
        ([0, 4, 1], 1, 1, 1),
        ([2, 3], 2, 0, 0),
        ([1, 4], 0, 1, 1),
        ([], 0, 0, 0),
    ]
    assert [s.rows.tolist() for s in shards] == [[0, 2], [1, 4], [3], []]
    local = sparse.COO.from_numpy(np.array([[5, 1, 0], [4, 0, 1]], float))
    assert_same_matrix(shards[0].to_coo(), local)
    assert shards[0].row_index.dtype == shards[0].column_index.dtype == np.int32


def test_a_column_of_one_rank_owned_by_another_must_travel():
    shards = shard(scipy.sparse.csr_array(DENSE), PARTITION, owners=[3, 2, 1, 1, 0, 0])
    assert shards.compute()[0].items.tolist() == [4, 0, 1]
    assert shards.sizes[0].tolist() == [0, 1, 2]


@given(
    st.integers(0, 10**6), st.sampled_from([1, 2, 3, 4, 5, 8]), st.integers(1, 60), st.booleans()
)
def test_every_nonzero_is_in_one_shard(seed, n_parts, nnz, in_blocks):
    matrix = random_ratings(seed, (12, 7), nnz)
    partition = random_partition(seed, 12, n_parts)
    if in_blocks:
        partition = Partition(np.sort(partition.assignment), n_parts)
    shards = shard(matrix, partition)
    assert_same_matrix(shards.to_coo(), as_matrix(matrix).to_coo())
    assert shards.nnz_per_part.tolist() == [s.nnz for s in shards.compute()]
    assert shards.bytes_per_part.tolist() == [s.nbytes for s in shards.compute()]
    for rank, part in enumerate(shards.compute()):
        assert part.rank == rank
        np.testing.assert_array_equal(part.rows, shards.rows_of(rank))
        np.testing.assert_array_equal(part.items, shards.items_of(rank))
        owners = shards.connectivity.owners[part.items]
        not_owned = part.n_local + part.n_owned
        assert (owners[:not_owned] == rank).all()
        assert (owners[not_owned:] != rank).all()
        local = part.to_coo()
        assert_same_matrix(local, sparse.COO(local.coords, local.data, local.shape))  # in order


@pytest.mark.parametrize("assignment", [[0, 0, 1, 1, 2], [0, 1, 0, 2, 1]])
def test_shards_do_not_change_with_what_was_given(assignment):
    matrix = scipy.sparse.csr_array(DENSE)
    shards = shard(matrix, Partition(np.array(assignment, np.int32), 3))
    matrix.data[:] = 9
    np.testing.assert_array_equal(shards.to_coo().todense(), DENSE)


def test_connectivity_is_that_of_the_hypergraph():
    matrix = random_ratings(3, (30, 20), 150)
    partition = random_partition(3, 30, 4)
    expected = Connectivity.from_partition(Hypergraph.column_net(matrix), partition)
    for owners, given_owners in [
        ("random", expected.with_random_owners(7)),
        ("packed", expected.with_packed_owners()),
    ]:
        found = shard(matrix, partition, owners=owners, random_state=7).connectivity
        assert found == given_owners


# Dask arrays: the same shards, without the nonzeros passing through here


@settings(max_examples=25)
@given(
    st.integers(0, 10**6),
    st.sampled_from([1, 2, 3, 4, 5, 8]),
    st.integers(1, 60),
    st.sampled_from([(4, 7), (12, 7), (5, 3), (12, 2)]),
    st.sampled_from(["rows", "columns"]),
)
def test_chunks_give_the_same_shards(seed, n_parts, nnz, chunks, axis):
    matrix = random_ratings(seed, (12, 7), nnz)
    partition = random_partition(seed, matrix.shape[axis == "columns"], n_parts)
    here = shard(matrix, partition, axis=axis)
    with dask.config.set(scheduler="sync"):
        there = shard(da.from_array(matrix, chunks=chunks), partition, axis=axis)
        assert there.is_lazy and not here.is_lazy
        assert there.connectivity == here.connectivity
        assert_same_shards(there.compute(), here.compute())
        assert_same_matrix(there.to_coo(), as_matrix(matrix).to_coo())


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_local_schedulers(scheduler):
    matrix = random_ratings(1, (40, 30), 300)
    partition = random_partition(1, 40, 5)
    with dask.config.set(scheduler=scheduler):
        there = shard(da.from_array(matrix, chunks=(11, 16)), partition)
        assert_same_shards(there.persist().compute(), shard(matrix, partition).compute())
        assert_same_shards(dask.compute(there)[0], shard(matrix, partition).compute())


@pytest.mark.parametrize("lazily", [False, True])
def test_tools_of_dask_give_shards_that_can_be_computed(lazily):
    matrix, partition = random_ratings(2, (20, 12), 90), random_partition(2, 20, 3)
    shards = shard(da.from_array(matrix, chunks=(7, 5)) if lazily else matrix, partition)
    with dask.config.set(scheduler="sync"):
        together = dask.optimize(shards, shards.array)[0]
        for made in (dask.optimize(shards)[0], together, wait_on(shards)):
            assert_same_shards(made.compute(), shards.compute())
            assert_same_shards(dask.compute(made)[0], shards.compute())
            assert_same_matrix(made.array.compute(), shards.array.compute())
        assert wait_on(shards).name != shards.name


def test_cuts_that_differ_in_one_thing_alone_are_computed_together():
    """In empty parts, in the parts of rows, in owners: what has one name is computed once."""
    chunks = da.from_array(sparse.COO(DENSE), chunks=(2, 6))
    turned = Partition(PARTITION_2.assignment[::-1], 3)
    given_owners = [0, 2, 1, 1, 0, 0], [0, 1, 0, 1, 2, 0]
    cuts = [(PARTITION_2, "random"), (PARTITION, "random"), (turned, "random")]
    cuts += [(PARTITION_2, owners) for owners in given_owners] + [(turned, given_owners[0])]
    for order in (cuts, cuts[::-1]):
        lazy = [shard(chunks, partition, owners=owners) for partition, owners in order]
        found = dask.compute(*lazy, scheduler="sync")
        for shards, (partition, owners) in zip(found, order, strict=True):
            wanted = shard(sparse.COO(DENSE), partition, owners=owners).compute()
            assert_same_shards(shards, wanted)


@pytest.mark.parametrize("axis", ["rows", "columns"])
def test_columns_are_the_rows_of_the_transpose(axis):
    matrix = random_ratings(2, (20, 15), 90)
    partition = random_partition(2, 20 if axis == "rows" else 15, 3)
    turned = matrix if axis == "rows" else matrix.T
    assert_same_shards(
        shard(matrix, partition, axis=axis).compute(), shard(turned, partition).compute()
    )


def test_chunks_are_read_once_for_summaries_and_nothing_else_is_computed():
    reads = []

    def read(block):
        reads.append(block.shape)
        return block

    matrix = random_ratings(1, (12, 6), 40)
    source = da.from_array(matrix, chunks=(4, 6)).map_blocks(read, meta=matrix[:0, :0])
    partition = random_partition(1, 12, 2)
    with dask.config.set(scheduler="sync"):
        shards = shard(source, partition)
        assert len(reads) == 3
        shards.array.sum(axis=0)
        assert (repr(shards), shards.items_of(0)) is not None
        assert "placement" in shards._repr_html_()
        assert len(reads) == 3, "looking at shards computes nothing"
        shards.compute()
        assert len(reads) == 6


def test_scipy_chunks_and_labels_of_xarray():
    matrix = random_ratings(4, (10, 8), 40)
    blocks = da.from_array(matrix, chunks=(5, 8)).map_blocks(
        lambda block: block.tocsr(), meta=scipy.sparse.csr_array((0, 0), dtype=np.float32)
    )
    partition = random_partition(4, 10, 3)
    expected = shard(matrix, partition).compute()
    assert_same_shards(shard(blocks, partition).compute(scheduler="sync"), expected)
    labelled = xr.DataArray(
        da.from_array(matrix, chunks=(5, 8)), dims=("reader", "book"), coords={"book": range(8)}
    )
    shards = shard(labelled, partition)
    assert_same_shards(shards.compute(scheduler="sync"), expected)
    whole = shards.to_matrix(scheduler="sync")
    assert (whole.row_name, whole.column_name) == ("reader", "book")
    assert whole.column_labels.tolist() == list(range(8))


# the Dask array of the shards


@pytest.mark.parametrize("lazily", [False, True])
def test_array_has_one_chunk_a_part(lazily):
    matrix = random_ratings(6, (14, 9), 50)
    partition = random_partition(6, 14, 4)
    data = da.from_array(matrix, chunks=(5, 5)) if lazily else matrix
    array = shard(data, partition).array
    assert array.chunks == (tuple(np.bincount(partition.assignment, minlength=4)), (9,))
    assert isinstance(array._meta, sparse.COO)
    assert array.dtype == np.float32
    with dask.config.set(scheduler="sync"):
        assert_same_matrix(array.compute(), as_matrix(matrix[partition.order]).to_coo())
        assert array.blocks[0].compute().coords.dtype == np.int32
        assert float(array.sum().compute()) == matrix.data.sum()


def test_array_with_an_empty_part():
    array = shard(scipy.sparse.csr_array(DENSE), PARTITION).array
    assert array.chunks == ((2, 2, 1, 0), (6,))
    with dask.config.set(scheduler="sync"):
        np.testing.assert_array_equal(array.compute().todense(), DENSE[[0, 2, 1, 4, 3]])


# on worker processes


@pytest.mark.cluster
@pytest.mark.parametrize("lazily", [False, True])
def test_shards_lie_where_they_were_placed(client, lazily):
    matrix = random_ratings(8, (20, 12), 90)
    partition = random_partition(8, 20, 4)
    here = shard(matrix, partition)
    data = da.from_array(matrix, chunks=(7, 12)) if lazily else matrix
    workers = list(known_workers(client))
    placement = [workers[rank % 2] for rank in (0, 1, 1, 0)]
    there = shard(data, partition).persist(client, placement)
    assert there.is_lazy
    assert there.placement == tuple(placement)
    assert_same_shards(there.compute(), here.compute())
    graph = there.__dask_graph__()
    futures = [graph[key] for key in there.__dask_keys__()]
    held = client.who_has(futures)
    assert [list(held[future.key]) for future in futures] == [[worker] for worker in placement]
    assert workers[0] in there._repr_html_()
    assert there.array.blocks[1].compute().nnz == here.nnz_per_part[1]


@pytest.mark.cluster
def test_a_wrong_placement_is_refused_rather_than_awaited(client):
    shards = shard(scipy.sparse.csr_array(DENSE), PARTITION_2)
    with pytest.raises(InputError, match="2 workers was given for 3 parts"):
        shards.persist(client, ["tcp://127.0.0.1:1"] * 2)
    with pytest.raises(InputError, match="no worker of this client"):
        shards.persist(client, ["tcp://127.0.0.1:1"] * 3)
    with pytest.raises(InputError, match="without a client"):
        shards.persist(placement=["tcp://127.0.0.1:1"] * 3)


@pytest.mark.cluster
def test_without_a_placement_the_scheduler_chooses(client):
    shards = shard(scipy.sparse.csr_array(DENSE), PARTITION_2)
    assert_same_shards(shards.persist(client).compute(), shards.compute())


# what cannot be used


def nan_chunks() -> da.Array:
    array = da.from_array(random_ratings(0, (5, 6), 9), chunks=(2, 6))
    return array[da.from_array(np.arange(5) > 1, chunks=2)]


BAD = {
    "partition of another length": (
        scipy.sparse.csr_array(DENSE[:4]),
        {},
        "assigns 5 vertices, the data has 4 rows",
    ),
    "chunks of another length": (
        da.from_array(sparse.COO(DENSE[:4]), chunks=(2, 6)),
        {},
        "assigns 5 vertices",
    ),
    "axis": (scipy.sparse.csr_array(DENSE), {"axis": "users"}, "axis is 'users': use one of"),
    "owners": (scipy.sparse.csr_array(DENSE), {"owners": "fair"}, "owners='fair' is unknown"),
    "too few owners": (scipy.sparse.csr_array(DENSE), {"owners": [0, 1]}, "6 items"),
    "dense": (DENSE, {}, "dense array"),
    "dense chunks": (da.from_array(DENSE), {}, "dense chunks"),
    "unknown chunks": (nan_chunks(), {}, "chunks of unknown size"),
    "nothing": (scipy.sparse.csr_array((5, 6)), {}, "nothing is stored"),
    "nothing in chunks": (da.from_array(sparse.zeros((5, 6)), chunks=2), {}, "nothing is stored"),
    "fill value": (da.from_array(sparse.COO(DENSE, fill_value=1), chunks=2), {}, "fill value 1"),
    "NaN in a chunk": (
        da.from_array(sparse.COO([[4], [3]], [np.nan], shape=(5, 6)), chunks=2),
        {},
        r"user 0, item 1.*corner at row 4, column 2",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_used_is_refused(name):
    data, options, message = BAD[name]
    with dask.config.set(scheduler="sync"), pytest.raises(InputError, match=message):
        shard(data, PARTITION, **options)


def test_a_partition_of_columns_needs_its_axis():
    partition = Partition(np.zeros(6, np.int32), 1, info={"model": "row-net"})
    with pytest.raises(InputError, match="pass axis='columns'"):
        shard(scipy.sparse.csr_array(DENSE), partition)
    assert shard(scipy.sparse.csr_array(DENSE), partition, axis="columns").n_parts == 1


def test_parts_out_of_range():
    shards = shard(scipy.sparse.csr_array(DENSE), PARTITION_2)
    for wrong in (-1, 3, 1.5, True, "a", None):
        for ask in (shards.items_of, shards.rows_of):
            with pytest.raises(InputError, match="part is "):
                ask(wrong)


def test_how_they_show_themselves():
    shards = shard(scipy.sparse.csr_array(DENSE), PARTITION)
    assert isinstance(shards, Shards) and len(shards) == 4
    assert repr(shards) == "Shards of a 5 x 6 matrix: 4 parts of its rows, 10 nonzeros, in memory"
    assert "2 rows" in repr(shards.compute()[0])
    assert shards._repr_html_().count("<tr>") == 5
    assert '<th style="text-align:right;padding:2px 8px">bytes</th>' in shards._repr_html_()
    many = shard(scipy.sparse.csr_array(DENSE), Partition(np.zeros(5, np.int32), 20))
    assert "4 more" in many._repr_html_()
