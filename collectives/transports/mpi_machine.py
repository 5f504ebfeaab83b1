"""A little machine for small messages over MPI: a list of instructions, run without Python.

    EXPECT  lane ◀── posted                     one row of eight words each: code, a, b, c, d
    OPEN    is the last letter sent?
    TAKE    memory ──▶ letter
    SEND    letter ══▶ neighbour
    WAIT    lane ◀══ its letter                  tests, and gives the processor away in between
    CHECK   is it of this step and form?
    COMBINE arrived ⊕ memory ──▶ memory

Where a small message costs microseconds, the interpreter's own steps cost more than MPI, and most
where ranks take turns on a core and find the caches empty. So what repeats is written down once,
as a `Program`, and run as machine code. Where something is not as usual the machine stops and says
where; Python then does that step in the ordinary way, and lets it go on behind it. It never waits
for long: who waits must look at the deadline.

The machine code is made from the text below by LLVM, which numba brings along, in milliseconds and
for this very processor. numba itself would take many times as long for as much, in every worker.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from enum import IntEnum
from functools import cache
from typing import Any

_OF_MPI = ("MPI_Start", "MPI_Test", "MPI_Wtime")
_OF_SYSTEM = ("sched_yield", "memcpy", "memcmp")
_OF_PYTHON = (
    "PyLong_AsLongLong", "PyLong_FromLongLong", "PyEval_SaveThread", "PyEval_RestoreThread",
)  # fmt: skip
_POINTER = ctypes.c_void_p

WORDS = 8  # of an instruction, of 64 bits each
# of the words before the first instruction
BASE, BLOCKED, ERROR, TRIES, BEGIN = 0, 1, 3, 4, 5
FIRST_PLACE = 2
STATUS_BYTES = 80


class Code(IntEnum):
    """What an instruction does, with its operands a, b, c, d.

    EXPECT request : start to receive.
    OPEN request : stop here unless the last letter is sent.
    TAKE to, offset, n : copy n bytes from there in the memory.
    TAKE_ROWS to, positions, n, size : copy n rows of so many bytes.
    SEND request, letter, k : write the step + k into the letter, and start to send.
    WAIT request : for what was expected; stop here if it takes long.
    CHECK incoming, opening, n, k : stop here unless it is of the step + k and of this form.
    PLACE from, offset, n : the way back of TAKE.
    PLACE_ROWS from, positions, n, size : the way back of TAKE_ROWS.
    COMBINE loop, data, seven words : a loop of a ufunc, with its arguments, size and strides.
    STOP : it is Python's turn.
    END : of the program.
    """

    END = 0
    EXPECT = 1
    OPEN = 2
    TAKE = 3
    TAKE_ROWS = 4
    SEND = 5
    WAIT = 6
    CHECK = 7
    PLACE = 8
    PLACE_ROWS = 9
    COMBINE = 10
    STOP = 11


# `call` is a function for Python, of one argument (METH_O, 8), the step; its self is the program's
# address. It gives the place where the machine stopped, or -1 at the end. Other threads run
# meanwhile.
_TEXT = """
declare i32 @daskpart_MPI_Start(ptr)
declare i32 @daskpart_MPI_Test(ptr, ptr, ptr)
declare double @daskpart_MPI_Wtime()
declare i32 @daskpart_sched_yield()
declare ptr @daskpart_memcpy(ptr, ptr, i64)
declare i32 @daskpart_memcmp(ptr, ptr, i64)
declare i64 @daskpart_PyLong_AsLongLong(ptr)
declare ptr @daskpart_PyLong_FromLongLong(i64)
declare ptr @daskpart_PyEval_SaveThread()
declare void @daskpart_PyEval_RestoreThread(ptr)

@name = constant [8 x i8] c"machine\\00"
@method = global { ptr, ptr, i32, ptr } { ptr @name, ptr @call, i32 8, ptr null }

define ptr @call(ptr %self, ptr %argument) {
  %address = call i64 @daskpart_PyLong_AsLongLong(ptr %self)
  %program = inttoptr i64 %address to ptr
  %step = call i64 @daskpart_PyLong_AsLongLong(ptr %argument)
  %thread = call ptr @daskpart_PyEval_SaveThread()
  %place = call i64 @run(ptr %program, i64 %step)
  call void @daskpart_PyEval_RestoreThread(ptr %thread)
  %result = call ptr @daskpart_PyLong_FromLongLong(i64 %place)
  ret ptr %result
}

; copy rows of the memory, which lie apart, to where they lie one behind the other; or back
define internal void @rows(ptr %base, ptr %positions, i64 %n, i64 %size, ptr %packed, i1 %take) {
entry:
  br label %check
check:
  %k = phi i64 [ 0, %entry ], [ %k.next, %copy ]
  %more = icmp slt i64 %k, %n
  br i1 %more, label %copy, label %done
copy:
  %position.at = getelementptr i64, ptr %positions, i64 %k
  %position = load i64, ptr %position.at
  %apart.offset = mul i64 %position, %size
  %apart = getelementptr i8, ptr %base, i64 %apart.offset
  %packed.offset = mul i64 %k, %size
  %together = getelementptr i8, ptr %packed, i64 %packed.offset
  %to = select i1 %take, ptr %together, ptr %apart
  %from = select i1 %take, ptr %apart, ptr %together
  call ptr @daskpart_memcpy(ptr %to, ptr %from, i64 %size)
  %k.next = add i64 %k, 1
  br label %check
done:
  ret void
}

define internal i64 @run(ptr %program, i64 %step) {
entry:
  %base = load ptr, ptr %program
  %blocked = getelementptr double, ptr %program, i64 1
  %flag = getelementptr i64, ptr %program, i64 2
  %error = getelementptr i64, ptr %program, i64 3
  %tries.at = getelementptr i64, ptr %program, i64 4
  %tries = load i64, ptr %tries.at
  %begin.at = getelementptr i64, ptr %program, i64 5
  %begin = load i64, ptr %begin.at
  %status = getelementptr i64, ptr %program, i64 6
  br label %fetch

fetch:
  %at = phi i64 [ %begin, %entry ], [ %following, %next ]
  %row = getelementptr [8 x i64], ptr %program, i64 %at
  %code = load i64, ptr %row
  %a.at = getelementptr i64, ptr %row, i64 1
  %a = load ptr, ptr %a.at
  %b.at = getelementptr i64, ptr %row, i64 2
  %b = load ptr, ptr %b.at
  %offset = load i64, ptr %b.at
  %there = getelementptr i8, ptr %base, i64 %offset
  %c.at = getelementptr i64, ptr %row, i64 3
  %c = load i64, ptr %c.at
  %d.at = getelementptr i64, ptr %row, i64 4
  %d = load i64, ptr %d.at
  switch i64 %code, label %stop [
    i64 0, label %finish
    i64 1, label %expect
    i64 2, label %open
    i64 3, label %take
    i64 4, label %take_rows
    i64 5, label %send
    i64 6, label %wait
    i64 7, label %check
    i64 8, label %place
    i64 9, label %place_rows
    i64 10, label %combine
  ]

next:
  %following = add i64 %at, 1
  br label %fetch

stop:
  ret i64 %at

finish:
  ret i64 -1

expect:
  %expect.rc = call i32 @daskpart_MPI_Start(ptr %a)
  br label %judge

open:
  %open.rc = call i32 @daskpart_MPI_Test(ptr %a, ptr %flag, ptr %status)
  %open.flag = load i32, ptr %flag
  %open.done = icmp ne i32 %open.flag, 0
  br i1 %open.done, label %judge, label %stop

send:
  %send.step = add i64 %step, %c
  store i64 %send.step, ptr %b
  %send.rc = call i32 @daskpart_MPI_Start(ptr %a)
  br label %judge

judge:
  %rc = phi i32 [ %expect.rc, %expect ], [ %open.rc, %open ], [ %send.rc, %send ],
                [ %wait.rc, %wait ], [ %late.rc, %late ]
  %well = icmp eq i32 %rc, 0
  br i1 %well, label %next, label %failed

failed:
  %rc.long = zext i32 %rc to i64
  store i64 %rc.long, ptr %error
  ret i64 %at

take:
  call ptr @daskpart_memcpy(ptr %a, ptr %there, i64 %c)
  br label %next

place:
  call ptr @daskpart_memcpy(ptr %there, ptr %a, i64 %c)
  br label %next

take_rows:
  call void @rows(ptr %base, ptr %b, i64 %c, i64 %d, ptr %a, i1 true)
  br label %next

place_rows:
  call void @rows(ptr %base, ptr %b, i64 %c, i64 %d, ptr %a, i1 false)
  br label %next

wait:
  %wait.rc = call i32 @daskpart_MPI_Test(ptr %a, ptr %flag, ptr %status)
  %wait.flag = load i32, ptr %flag
  %wait.done = icmp ne i32 %wait.flag, 0
  br i1 %wait.done, label %judge, label %wait_on
wait_on:
  %since = call double @daskpart_MPI_Wtime()
  br label %try
try:
  %k = phi i64 [ 0, %wait_on ], [ %k.next, %try_on ]
  call i32 @daskpart_sched_yield()
  %try.rc = call i32 @daskpart_MPI_Test(ptr %a, ptr %flag, ptr %status)
  %try.flag = load i32, ptr %flag
  %try.done = icmp ne i32 %try.flag, 0
  br i1 %try.done, label %late, label %try_on
try_on:
  %k.next = add i64 %k, 1
  %try.more = icmp slt i64 %k.next, %tries
  br i1 %try.more, label %try, label %late
late:
  %late.rc = phi i32 [ %try.rc, %try ], [ %try.rc, %try_on ]
  %until = call double @daskpart_MPI_Wtime()
  %waited = fsub double %until, %since
  %before = load double, ptr %blocked
  %in_all = fadd double %before, %waited
  store double %in_all, ptr %blocked
  %late.flag = load i32, ptr %flag
  %late.done = icmp ne i32 %late.flag, 0
  br i1 %late.done, label %judge, label %stop

check:
  %check.wanted = add i64 %step, %d
  %check.step = load i64, ptr %a
  %check.same_step = icmp eq i64 %check.wanted, %check.step
  br i1 %check.same_step, label %check_form, label %stop
check_form:
  %check.form = getelementptr i8, ptr %a, i64 8
  %check.differs = call i32 @daskpart_memcmp(ptr %check.form, ptr %b, i64 %c)
  %check.same_form = icmp eq i32 %check.differs, 0
  br i1 %check.same_form, label %next, label %stop

combine:
  %arguments = load ptr, ptr %c.at
  %sizes = getelementptr i64, ptr %arguments, i64 3
  %strides = getelementptr i64, ptr %arguments, i64 4
  call void %a(ptr %arguments, ptr %sizes, ptr %strides, ptr %b)
  br label %next
}
"""


class Machine:
    """The machine code; lives as long as the process.

    Parameters
    ----------
    compiler : llvmlite.binding.ExecutionEngine
        Has made it.
    context : llvmlite.binding.ContextRef
        Apart from numba's, which other threads may be using.
    """

    def __init__(self, compiler: Any, context: Any) -> None:
        self._kept = compiler, context
        self._method = compiler.get_global_value_address("method")
        kind = ctypes.PYFUNCTYPE(ctypes.py_object, _POINTER, ctypes.py_object, _POINTER)
        self._new_function = kind(("PyCFunction_NewEx", ctypes.pythonapi))

    def on(self, program: int) -> Callable[[int], int]:
        """Runs the program at this address: a function as of a C module, quicker than ctypes'."""
        return self._new_function(self._method, program, None)


@cache
def machine() -> Machine | None:
    """The machine, made for this processor; None where it cannot be had."""
    import llvmlite.binding as llvm
    from mpi4py import MPI

    if MPI._sizeof(MPI.Status) > STATUS_BYTES or sys.byteorder != "little" or os.name != "posix":
        return None
    try:
        for library, names in (
            (ctypes.CDLL(MPI.__file__), _OF_MPI),  # finds what this is linked with, too
            (ctypes.CDLL(None), _OF_SYSTEM),
            (ctypes.pythonapi, _OF_PYTHON),
        ):
            for name in names:
                address = ctypes.cast(getattr(library, name), _POINTER).value
                llvm.add_symbol(f"daskpart_{name}", address)
    except (OSError, AttributeError):  # no such library, no such function
        return None
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    context = llvm.create_context()
    module = llvm.parse_assembly(_TEXT, context)
    module.verify()
    target = llvm.Target.from_default_triple().create_target_machine(opt=2)
    compiler = llvm.create_mcjit_compiler(module, target)
    compiler.finalize_object()
    return Machine(compiler, context)
