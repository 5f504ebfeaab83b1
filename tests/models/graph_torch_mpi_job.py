"""Started under mpiexec by `test_models_under_mpiexec.py`: a module of PyTorch over MPI."""

from __future__ import annotations

from test_graph_torch import assert_as_on_threads

RANK_COUNTS = (3, 8)


def main() -> None:
    """Compare with threads of one process."""
    from distributed import Client

    with Client() as client:
        client.wait_for_workers(2, timeout=60)
        for n_ranks in RANK_COUNTS:
            assert_as_on_threads("mpi", n_ranks)
    print("torch: same bits for", *RANK_COUNTS, "ranks over MPI", flush=True)


if __name__ == "__main__":
    main()
