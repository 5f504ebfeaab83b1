"""On workers over MPI: programs of small calls that stop wherever they may, or none at all."""

from __future__ import annotations

from daskpart.collectives.transports import mpi_short, mpi_short_rows
from daskpart.collectives.transports.mpi_machine import Code, machine
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


def have_machine(there):
    """Whether from now on there is a machine, or as where its symbols are missing none."""
    for module in (mpi_short, mpi_short_rows):
        module.machine = machine if there else _no_machine


def _no_machine():
    return None
