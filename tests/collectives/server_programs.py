"""Programs for a parameter server, and what they must give; shared by the tests and the MPI job."""

from __future__ import annotations

import contextlib
import time

import numpy as np

N_ITEMS = 23
N_TASKS = 4


def draws(rank, task, n_items=N_ITEMS, width=None):
    """Ids, some of them twice, and rows that a rank pushes in a task."""
    random = np.random.default_rng([rank, task])
    ids = random.integers(0, n_items, random.integers(0, 9))
    return ids, random.standard_normal((len(ids), *(() if width is None else (width,))))


def move_values(endpoint, start, *, n_tasks=N_TASKS, width=None):
    """Each task: pull some rows, push numbers that depend on them."""
    seen = [start]
    for task in range(n_tasks):
        ids, rows = draws(endpoint.rank, task, endpoint.n_items, width)
        pulled = endpoint.pull(ids)
        seen.append(pulled.sum())
        endpoint.push(ids, rows + np.sin(pulled))
        endpoint.advance()
    return seen


def replay(n_ranks, initial, *, n_tasks=N_TASKS):
    """The same in one loop: all ranks pull, then their pushes are added in order of rank."""
    values = initial.copy()
    width = values.shape[1] if values.ndim == 2 else None
    seen = [[start] for start in range(n_ranks)]
    for task in range(n_tasks):
        pushes = []
        for rank in range(n_ranks):
            ids, rows = draws(rank, task, len(values), width)
            seen[rank].append(values[ids].sum())
            pushes.append((ids, rows + np.sin(values[ids])))
        for ids, rows in pushes:
            np.add.at(values, ids, rows)
    return seen, values


def log_tasks(endpoint, *, n_tasks=6, slow=0, seconds=0.0):
    """Every rank adds 1 to its own row in each task; what each pull saw of the others."""
    own, everyone = [endpoint.rank], np.arange(endpoint.n_ranks)
    seen = []
    for _ in range(n_tasks):
        seen.append((endpoint.task, endpoint.pull(everyone)))
        endpoint.push(own, [1])
        if endpoint.rank == slow:
            time.sleep(seconds)  # stands for computing
        endpoint.advance()
    return seen


def assert_never_too_stale(seen, delay):
    """In task t the rows of all others count t - delay tasks at least; returns the worst lag."""
    worst = 0
    for rank, of_rank in enumerate(seen):
        for task, counts in of_rank:
            others = np.delete(counts, rank)
            assert (others >= task - delay).all(), (rank, task, counts)
            if delay == 0:
                assert (counts == task).all()  # and nothing of the present task
            else:
                assert counts[rank] == task  # a rank reads what it wrote
            worst = max(worst, task - int(others.min(initial=task)))
    return worst


def numbered_tasks(endpoint, *, n_tasks):
    """Tasks numbered through all ranks: each adds 1 to the one row, and says what it saw."""
    seen = {}
    for task in endpoint.tasks(n_tasks):
        seen[task] = int(endpoint.pull([0])[0])
        endpoint.push([0], [1])
    return seen


def fail_on(endpoint, *, culprit, seconds=0.0):
    """Every rank pushes, one raises, the others wait for it."""
    endpoint.push([endpoint.rank], [100])
    endpoint.advance()
    if endpoint.rank == culprit:
        time.sleep(seconds)
        raise ArithmeticError("went to infinity")
    for _ in range(3):
        endpoint.pull(np.arange(endpoint.n_items))
        endpoint.advance()


def no_sevens(current, pushed):
    """An update rule that fails on a shard."""
    if (pushed == 7).any():
        raise ArithmeticError("seven")
    return current + pushed


def push_seven(endpoint, *, pusher):
    """One rank pushes what the rule refuses; the others go on until they are stopped."""
    for _ in range(20):
        if endpoint.rank == pusher:
            endpoint.push(np.arange(endpoint.n_items), np.full(endpoint.n_items, 7))
        endpoint.advance()
        endpoint.pull([0])


def push_seven_and_go_on(endpoint, *, pusher):
    """The rank that pushes what the rule refuses passes the error over."""
    for _ in range(5):
        if endpoint.rank == pusher:
            with contextlib.suppress(ArithmeticError):
                endpoint.push(np.arange(endpoint.n_items), np.full(endpoint.n_items, 7))
        endpoint.advance()
        endpoint.pull([0])


def no_eights(current, pushed):
    """An update rule that exits."""
    if (pushed == 8).any():
        raise SystemExit(8)
    return current + pushed


def wait_long(endpoint, *, seconds):
    """Keeps all ranks busy, some computing and some waiting."""
    for _ in range(20):
        if endpoint.rank == 1:
            time.sleep(seconds)  # stands for computing
        endpoint.push([endpoint.rank], [1])
        endpoint.advance()
    return endpoint.task
