"""Started by `test_parameter_server_cluster.py`: a client that is killed while its server works.

Reads the scheduler's address from the command line, prints a line when the shards are there.
"""

from __future__ import annotations

import sys

from distributed import Client
from server_programs import wait_long

from daskpart.collectives import ParameterServer

if __name__ == "__main__":
    with Client(sys.argv[1]) as client, ParameterServer(9, n_ranks=4, client=client) as server:
        server.run(wait_long, seconds=0.0)
        print("running", flush=True)
        while True:
            server.run(wait_long, seconds=0.1)
