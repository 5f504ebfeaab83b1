"""Update rules of the parameter server: what a push does to the rows."""

from __future__ import annotations

import numpy as np
import pytest

from daskpart.collectives import ParameterServer, proximal_step


def local(n_items, **options):
    return ParameterServer(n_items, transport="local", **{"n_ranks": 3, **options})


def test_rules():
    def push_twice(endpoint, ids, rows):
        for _ in range(2):
            endpoint.push(ids, rows)

    def after(update, rows, dtype, initial=1):
        with local(3, n_ranks=1, update=update, dtype=dtype, initial=initial) as server:
            server.run(push_twice, [[0, 2]], rows=rows)
            return server.values().tolist()

    assert after("add", [1, 2], int) == [3, 1, 5]
    assert after("add", [1, 2], ">f8") == [3, 1, 5]  # bytes in the order of another machine
    assert after("assign", [7, 8], int) == [7, 1, 8]
    assert after("or", [4, 1], np.uint64) == [5, 1, 1]
    assert after("or", [True, False], bool, initial=0) == [True, False, False]
    assert after(np.maximum, [0.5, 3], float) == [1.0, 1.0, 3.0]
    assert after(lambda current, pushed: (current + pushed) / 2, [3, 1], float) == [2.5, 1.0, 1.0]


@pytest.mark.parametrize("update", ["add", "assign", "or"])
@pytest.mark.parametrize("width", [None, 2])
def test_ids_that_come_twice_in_a_push(update, width):
    ids, rows = np.array([1, 0, 1, 1]), np.array([1, 2, 4, 8])
    expected = {"add": [2, 13, 0], "assign": [2, 8, 0], "or": [2, 13, 0]}[update]
    if width:
        rows, expected = np.stack([rows, rows], 1), np.stack([expected, expected], 1)
    with local(3, n_ranks=2, update=update, dtype=np.int32, row_length=width) as server:
        server.run(lambda endpoint: endpoint.push(ids, rows) if endpoint.rank else None)
        np.testing.assert_array_equal(server.values(), expected)


def test_a_proximal_step_is_one_step_a_task_in_synchronous_mode():
    def descend(endpoint, gradient):
        endpoint.push([0, 1, 2], gradient)

    gradients = [np.array([1.0, -4.0, 0.1]), np.array([2.0, -4.0, 0.1])]
    start = np.array([1.0, 0.0, 0.2])
    with local(
        3, n_ranks=2, update=proximal_step(0.5, l1=0.4), initial=start, schedule="in turn"
    ) as server:
        server.run(descend, gradients)
        moved = start - 0.5 * (gradients[0] + gradients[1])
        expected = np.sign(moved) * np.maximum(np.abs(moved) - 0.2, 0)
        np.testing.assert_allclose(server.values(), expected, rtol=1e-15)
        assert server.values()[2] == 0


def test_lasso_by_proximal_steps_is_the_serial_one():
    random = np.random.default_rng(0)
    data = [random.standard_normal((20, 8)) for _ in range(3)]
    truth = np.array([2.0, 0, 0, -1, 0, 0, 0, 0.5])
    targets = [block @ truth for block in data]
    step, l1, n_steps = 0.01, 3.0, 60

    def descend(endpoint, block, target):
        ids = np.arange(8)
        for _ in range(n_steps):
            endpoint.push(ids, block.T @ (block @ endpoint.pull(ids) - target))
            endpoint.advance()

    with local(8, update=proximal_step(step, l1)) as server:
        server.run(descend, data, targets)
        found = server.values()
    serial = np.zeros(8)
    for _ in range(n_steps):
        gradients = [x.T @ (x @ serial - y) for x, y in zip(data, targets, strict=True)]
        moved = serial - step * (gradients[0] + gradients[1] + gradients[2])
        serial = np.copysign(np.maximum(np.abs(moved) - step * l1, 0), moved)
    assert found.tobytes() == serial.tobytes()
    assert (found == 0).tolist() == (truth == 0).tolist()  # the step finds what is 0
