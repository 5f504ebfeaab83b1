"""What a parameter server refuses: a clear error that names the value, where it was given."""

from __future__ import annotations

import math

import numpy as np
import pytest
from server_programs import N_ITEMS, move_values

from daskpart.collectives import ParameterServer, proximal_step
from daskpart.collectives.server.shard import FINISHED
from daskpart.errors import InputError


def local(n_items=N_ITEMS, **options):
    return ParameterServer(n_items, transport="local", **{"n_ranks": 3, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_ranks": None}, "n_ranks is None"),
        ({"n_ranks": 0}, "n_ranks is 0"),
        ({"n_items": 0}, "n_items is 0"),
        ({"n_items": math.nan}, "n_items is nan"),
        ({"row_length": 0}, "row_length is 0"),
        ({"delay": -1}, "delay is -1"),
        ({"delay": math.nan}, "delay is nan"),
        ({"delay": 1.5}, "delay is 1.5"),
        ({"delay": "soon"}, "delay is 'soon'"),
        ({"dtype": object}, "dtype is object"),
        ({"dtype": np.float16}, "dtype is float16"),
        ({"dtype": "nonsense"}, "dtype is 'nonsense'"),
        ({"update": "multiply"}, "update is 'multiply'"),
        ({"update": "or"}, "'or' does not work on rows of dtype float64"),
        ({"update": "add", "dtype": bool}, "'add' does not work on rows of dtype bool"),
        ({"placement": "near"}, "placement is 'near'"),
        ({"placement": np.ma.masked_less(np.arange(23), 2)}, "hold 2 masked values: fill them"),
        ({"placement": np.zeros(9, int)}, r"placement of shape \(9,\).*23 ids"),
        ({"placement": np.full(23, 5)}, "id 0 on shard 5: shards are 0 to 2"),
        ({"placement": np.r_[0, np.full(22, 3)]}, "id 1 on shard 3: shards are 0 to 2"),
        ({"placement": np.full(23, 0.5)}, "float64"),
        ({"initial": np.zeros(9)}, r"initial of shape \(9,\)"),
        ({"initial": math.nan}, "1 NaN"),
        (
            {"initial": np.r_[-1, np.zeros(22, int)], "dtype": np.uint8},
            "hold -1, but uint8 holds 0 to",
        ),
        (
            {"initial": np.r_[300, np.zeros(22, int)], "dtype": np.uint8},
            "hold 300, but uint8 holds 0 to",
        ),
        (
            {"initial": np.full(23, 2**63, np.uint64), "dtype": np.int64},
            "hold 9223372036854775808, but int64 holds",
        ),
        ({"initial": np.zeros(23), "dtype": int}, "initial of dtype float64 don't fit"),
        ({"initial": None}, "initial of dtype object don't fit"),
        ({"initial": np.full(23, -1e300), "dtype": np.float32}, r"up to 1e\+300, but float32 to"),
        ({"initial": np.ma.masked_less(np.arange(23.0), 2)}, "initial hold 2 masked values"),
        ({"timeout": math.nan}, "timeout is nan"),
        ({"start_seconds": 0}, "start_seconds is 0"),
        ({"start_seconds": True}, "start_seconds is True"),
        ({"timeout": math.inf}, "timeout is inf"),
        ({"timeout": "60"}, "timeout is '60'"),
        ({"transport": "pigeon"}, "transport is 'pigeon'"),
        ({"transport": "dask", "schedule": "in turn"}, "A schedule orders .*transport='local'"),
        ({"transport": "mpi", "schedule": "in turn"}, "A schedule orders .*transport='local'"),
        ({"schedule": 7}, "schedule is 7"),
    ],
)
def test_bad_options(options, message):
    chosen = {"n_items": N_ITEMS, "n_ranks": 3, "transport": "local", **options}
    with pytest.raises(InputError, match=message):
        ParameterServer(**chosen)


def test_a_partition_for_another_number_of_shards():
    class Parts:
        n_parts, assignment = 4, np.arange(23, dtype=np.int32) % 4

    with pytest.raises(InputError, match="4 parts, the server has 3 shards"):
        local(placement=Parts())
    with local(placement=Parts(), n_ranks=None) as server:
        assert server.n_ranks == 4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e: e.pull([0, 23]), "id 23 is out of range: ids are 0 to 22"),
        (lambda e: e.pull([-1, 3]), "id -1 is out of range"),
        (lambda e: e.pull([0.5]), "dtype float64"),
        (lambda e: e.pull([[1]]), r"shape \(1, 1\)"),
        (lambda e: e.push([1], [1.0]), r"rows of shape \(1,\).*give shape \(1, 2\)"),
        (lambda e: e.push([1], [[1j, 2]]), "complex128 don't fit"),
        (
            lambda e: e.push([1, 4], [[1, 2], [np.nan, np.nan]]),
            "1 of 2 pushed rows hold NaN, the first for id 4",
        ),
        (lambda e: e.push([1, 4, 1], np.ones((3, 2))), "id 1 was pushed more than once"),
        (lambda e: e.push([1], np.ma.masked_all((1, 2))), "rows hold 2 masked values"),
        (lambda e: e.pull(np.ma.array([1, 2], mask=[0, 1])), "ids hold 1 masked values"),
        (lambda e: e.push([], np.ones((0, 3))), r"give shape \(0, 2\)"),
        (lambda e: e.advance(to=0), "to is 0: it must be at least 1"),
        (lambda e: e.advance(to=np.inf), "to is inf"),
        (lambda e: e.advance(to=np.nan), "to is nan"),
        (lambda e: e.advance(to=1.5), "to is 1.5"),
        (lambda e: e.advance(to=FINISHED), f"to is {FINISHED}: it must be at most"),
        (lambda e: e.post_pull([1], task=-1), "task is -1"),
        (lambda e: e.post_pull([1], task=np.nan), "task is nan"),
        (lambda e: e.post_pull([1], task=np.inf), "task is inf"),
        (lambda e: e.post_pull([1], task=0.5), "task is 0.5"),
        (lambda e: e.post_pull([1], task=FINISHED), f"task is {FINISHED}: it must be at most"),
        (lambda e: e.post_pull([1], task=True), "task is True"),
    ],
)
def test_bad_calls(call, message):
    with (
        local(row_length=2, update=np.maximum) as server,
        pytest.raises(InputError, match=message) as caught,
    ):
        server.run(call)
    assert caught.value.__notes__ == ["on rank 0"]


def test_bad_values_of_a_run():
    with local() as server:
        with pytest.raises(InputError, match="per-rank values 0: 3 ranks need as many values"):
            server.run(move_values, [1, 2])
        with pytest.raises(InputError, match="per-rank values 1: values are a dict: give a list"):
            server.run(move_values, [1, 2, 3], {0: 1, 1: 2, 2: 3})
        with local() as other, pytest.raises(InputError, match="belongs to another communicator"):
            server.run(move_values, other.hold([1, 2, 3]))
        held = server.hold([1, 2, 3])
        server.hold(held)
        with pytest.raises(InputError, match="use the value that they returned"):
            server.run(move_values, held)
        with pytest.raises(InputError, match="step_size is -1"):
            proximal_step(-1, 0)
        with pytest.raises(InputError, match="l1 is nan"):
            proximal_step(1, math.nan)
    with (
        local(n_ranks=1, update=lambda current, pushed: current[:1]) as server,
        pytest.raises(InputError, match="gave rows of shape"),
    ):
        server.run(lambda endpoint: endpoint.push([1, 2], [1.0, 2.0]))
    with (
        local(n_ranks=1, dtype=int, update=lambda current, pushed: pushed / 2) as server,
        pytest.raises(InputError, match=r"gave rows of shape \(1,\) and dtype float64; .*int64"),
    ):
        server.run(lambda endpoint: endpoint.push([1], [3]))


def test_what_is_infinite_is_a_number_of_every_floating_dtype():
    numbers = np.array([np.inf, -np.inf, np.finfo(np.float32).max])
    with local(3, dtype=np.float32, initial=numbers, update="assign") as server:
        assert (server.values() == numbers).all()
        server.run(lambda endpoint: endpoint.push([2, 1, 0], numbers))
        assert (server.values() == numbers[::-1]).all()


def test_a_server_does_one_thing_at_a_time():
    def call_the_server(endpoint):
        return server.values()

    with local() as server:
        with pytest.raises(InputError, match="inside a program use its endpoint"):
            server.run(call_the_server)
        assert server.values().sum() == 0
