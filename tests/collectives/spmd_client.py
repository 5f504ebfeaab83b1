"""Started by `test_spmd_faults.py`: a client that is killed in the middle of a run.

Reads the scheduler's address from the command line, prints a line when its ranks run.
"""

from __future__ import annotations

import sys

from distributed import Client

from daskpart.collectives import DaskCommunicator, allreduce

if __name__ == "__main__":
    with Client(sys.argv[1]) as client, DaskCommunicator(4, client) as communicator:
        numbers = communicator.values([1, 2, 3, 4])
        assert allreduce(communicator, numbers).result() == 10
        print("running", flush=True)
        while True:
            allreduce(communicator, numbers).result()
