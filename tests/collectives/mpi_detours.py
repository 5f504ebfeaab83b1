"""On workers over MPI: programs of small calls that stop wherever they may."""

from __future__ import annotations

from daskpart.collectives.transports import mpi_short
from daskpart.collectives.transports.mpi_machine import Code
from daskpart.collectives.transports.mpi_program import Program

_detours: list[int] = []


def stop_at(names):
    """From now on a program stops where it has one of these instructions."""

    class Stopping(Program):
        def add(self, code, *operands):
            return super().add(Code.STOP if code.name in names else code, *operands)

        def go_on(self, place, step):
            _detours.append(place)
            return super().go_on(place, step)

    _detours.clear()
    mpi_short.Program = Stopping if names else Program


def n_detours():
    """How often a program was resumed since then."""
    return len(_detours)
