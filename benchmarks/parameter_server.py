"""The parameter server on threads: what pulls and pushes cost, and what placement saves."""

from __future__ import annotations

import numpy as np

from daskpart.collectives import ParameterServer, ServerEndpoint

N_ITEMS = 200_000
N_RANKS = 4
TASKS = 4


def work(endpoint: ServerEndpoint, ids: np.ndarray, rows: np.ndarray) -> None:
    """A few tasks of pull, push, advance."""
    for _ in range(TASKS):
        endpoint.pull(ids)
        endpoint.push(ids, rows)
        endpoint.advance()


class PullAndPush:
    """Each rank pulls and pushes rows of ids that it drew, most of them its own."""

    params = ([None, 16], [0, 2, np.inf], ["hashed", "placed"])
    param_names = ("row_length", "delay", "placement")
    timeout = 300

    def setup(self, row_length: int | None, delay: float, placement: str) -> None:
        random = np.random.default_rng(0)
        share = N_ITEMS // N_RANKS
        owners = np.arange(N_ITEMS) // share
        self.ids = [
            np.where(
                random.random(share) < 0.9,
                rank * share + random.integers(0, share, share),
                random.integers(0, N_ITEMS, share),
            )
            for rank in range(N_RANKS)
        ]
        shape = (share,) if row_length is None else (share, row_length)
        self.rows = [np.ones(shape, np.float32)] * N_RANKS
        self.server = ParameterServer(
            N_ITEMS,
            n_ranks=N_RANKS,
            row_length=row_length,
            dtype=np.float32,
            delay=delay,
            placement="hashed" if placement == "hashed" else owners,
            transport="local",
        )
        self.run()  # compiles

    def teardown(self, *_: object) -> None:
        self.server.close()

    def run(self) -> None:
        """All tasks on all ranks."""
        self.server.run(work, self.ids, self.rows)

    def time_run(self, row_length: int | None, delay: float, placement: str) -> None:
        """A run of a few tasks."""
        self.run()

    def track_remote_share(self, row_length: int | None, delay: float, placement: str) -> float:
        """Remote rows over all rows."""
        return self.server.report.to_dict()["share of rows that is remote"]
