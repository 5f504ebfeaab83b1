"""Started by `test_spmd_mpi.py` under mpiexec: the machine for small messages, sending to itself.

One MPI process runs pytest on this file.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

from daskpart.collectives.transports.mpi_machine import Code, machine
from daskpart.collectives.transports.mpi_program import Program
from daskpart.collectives.transports.ufunc_loop import ufunc_loop

MPI = pytest.importorskip("mpi4py.MPI")
STEP_BYTES = 8
OPENING = b"opening!"


class Loop:
    """A program that sends bytes to this very process, and where they arrive."""

    def __init__(self, n_bytes: int) -> None:
        self.letter = bytearray(STEP_BYTES + len(OPENING) + n_bytes)
        self.letter[STEP_BYTES : STEP_BYTES + len(OPENING)] = OPENING
        self.incoming = bytearray(len(self.letter))
        self.out = MPI.COMM_SELF.Send_init([self.letter, MPI.BYTE], 0, 5)
        self.into = MPI.COMM_SELF.Recv_init([self.incoming, MPI.BYTE], 0, 5)
        self.program = Program()
        self.places: dict[Code, int] = {}

    def add(self, code: Code, *operands: int) -> None:
        """One instruction; of each code its place is kept."""
        self.places[code] = self.program.add(code, *operands)

    def add_send(self, take: Code, *operands: int) -> None:
        """Expect, and send what `take` copies."""
        out = self.program.request(self.out)
        self.add(Code.EXPECT, self.program.request(self.into))
        self.add(Code.OPEN, out)
        self.add(take, self.body(self.letter), *operands)
        self.add(Code.SEND, out, self.program.address(self.letter), 3)

    def add_receive(self, place: Code, *operands: int) -> None:
        """Wait, check, and copy what came."""
        opening = self.program.address(OPENING)
        self.add(Code.WAIT, self.program.request(self.into))
        self.add(Code.CHECK, self.program.address(self.incoming), opening, len(OPENING), 3)
        self.add(place, self.body(self.incoming), *operands)

    def body(self, buffer: bytearray) -> int:
        """Where the array of a message lies."""
        return self.program.address(buffer) + STEP_BYTES + len(OPENING)

    def finish(self) -> Program:
        """The program, ready."""
        made = machine()
        assert made is not None
        self.program.finish(made)
        return self.program

    def close(self) -> None:
        """Let go of the requests."""
        for request in (self.out, self.into):
            if not request.Test():
                request.Cancel()
                request.Wait()
            request.Free()


@pytest.fixture
def looped():
    """Makes loops, which end with the test."""
    made: list[Loop] = []

    def make(n_bytes: int) -> Loop:
        made.append(Loop(n_bytes))
        return made[-1]

    yield make
    for loop in made:
        loop.close()


def whole_array_loop(make: Any, array: np.ndarray, result: np.ndarray) -> Loop:
    loop = make(array.nbytes)
    loop.add_send(Code.TAKE, loop.program.address(array), array.nbytes)
    loop.add_receive(Code.PLACE, loop.program.address(result), array.nbytes)
    loop.finish()
    return loop


@pytest.mark.parametrize("n", [1, 7, 1000, 30_000])
def test_takes_sends_and_places(looped, n):
    array, result = np.random.default_rng(n).standard_normal(n), np.zeros(n)
    program = whole_array_loop(looped, array, result).program
    for step in (0, 5, 2**40):
        array += 1
        assert program.start(step) == -1
        assert result.tobytes() == array.tobytes()


@pytest.mark.parametrize("seed", range(5))
def test_rows_that_lie_apart(looped, seed):
    random = np.random.default_rng(seed)
    size, n_rows = int(random.integers(1, 40)), int(random.integers(1, 50))
    memory = random.integers(0, 256, (n_rows, size), dtype=np.uint8)
    out = random.integers(0, n_rows, int(random.integers(0, 60)))
    into = random.permutation(n_rows)[: len(out)]
    loop = looped(len(out) * size)
    address = loop.program.address
    loop.add_send(Code.TAKE_ROWS, address(out), len(out), size)
    loop.add_receive(Code.PLACE_ROWS, address(into), len(into), size)
    program = loop.finish()
    program.set_memory(address(memory))
    expected = memory.copy()
    expected[into] = memory[out][: len(into)]
    assert program.start(9) == -1
    assert np.array_equal(memory, expected)


def test_stops_at_another_step_and_form(looped):
    array, result = np.ones(2), np.zeros(2)
    loop = whole_array_loop(looped, array, result)
    loop.letter[STEP_BYTES] ^= 1
    assert loop.program.start(1) == loop.places[Code.CHECK]
    assert not result.any()
    loop.letter[STEP_BYTES] ^= 1
    assert loop.program.start(1) == -1
    assert result.all()
    assert loop.program.go_on(loop.places[Code.CHECK], 2) == loop.places[Code.CHECK]  # that of 1
    assert loop.program.start(2) == -1  # begins at the beginning again


def test_stops_where_nothing_comes_and_goes_on(looped):
    loop = whole_array_loop(looped, np.ones(2), result := np.zeros(2))
    loop.into.Start()
    wait = loop.places[Code.WAIT]
    assert loop.program.go_on(wait, 4) == wait
    assert 0 < loop.program.seconds_blocked() < 5
    assert loop.program.seconds_blocked() == 0
    assert loop.program.go_on(loop.places[Code.OPEN], 4) == -1
    assert result.all()


def test_other_threads_run_while_it_waits(looped):
    """Else the ranks of one worker would wait for each other in vain."""
    loop = whole_array_loop(looped, np.ones(1), np.zeros(1))
    loop.into.Start()
    turns, ended = [0], threading.Event()

    def count() -> None:
        while not ended.is_set():
            turns[0] += 1
            time.sleep(0)  # gives the interpreter away

    thread = threading.Thread(target=count)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # nobody is asked to give the interpreter away
    try:
        thread.start()
        limit = time.monotonic() + 30
        while turns[0] < 1000 and time.monotonic() < limit:
            loop.program.go_on(loop.places[Code.WAIT], 0)
    finally:
        ended.set()
        sys.setswitchinterval(interval)
        thread.join()
    assert turns[0] >= 1000
    assert loop.program.go_on(loop.places[Code.OPEN], 0) == -1


def test_says_what_mpi_said(looped):
    loop = looped(8)
    nothing = MPI.Request()
    loop.add(Code.SEND, loop.program.request(nothing), loop.program.address(loop.letter), 0)
    program = loop.finish()
    assert program.start(0) == loop.places[Code.SEND]
    with pytest.raises(MPI.Exception):
        program.raise_error()
    program.raise_error()  # once


UFUNCS = [np.add, np.maximum, np.minimum, np.fmax, np.multiply, np.logical_or, np.bitwise_xor]
SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e300, -3.5]


@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda ufunc: ufunc.__name__)
@pytest.mark.parametrize("code", "?bBhiIlLqQefdFD")
def test_combines_as_numpy_does(ufunc, code):
    dtype = np.dtype(code)
    loop = ufunc_loop(ufunc, dtype)
    try:
        gives_the_same = ufunc.resolve_dtypes((dtype, dtype, None))[-1] == dtype
    except TypeError:
        gives_the_same = False
    assert (loop is not None) == gives_the_same
    if loop is None:
        return
    random = np.random.default_rng(7)
    for n in (1, 2, 3, 17, 64, 257):
        pair = [random.choice(SPECIAL, n) if dtype.kind in "fc" else random.integers(0, 2, n)] * 2
        pair[1] = random.permutation(pair[1])
        with np.errstate(all="ignore"):
            one, other = (array.astype(dtype) for array in pair)
            expected = ufunc(one, other)
        result = np.empty_like(expected)
        program = Program()
        words = [*map(program.address, (one, other, result)), n, *[dtype.itemsize] * 3]
        address = program.address(np.array(words))
        program.add(Code.COMBINE, loop.function, loop.data, address)
        made = machine()
        assert made is not None
        program.finish(made)
        assert program.start(0) == -1
        assert result.tobytes() == expected.tobytes()


if __name__ == "__main__":
    sys.exit(pytest.main(["-q", "-x", "-p", "no:cacheprovider", "--timeout=60", __file__]))
