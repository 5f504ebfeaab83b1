"""The texts of the models once more, by hand in plain mpi4py: what ours is held against.

    ours   RankCommunicator: checks, counts, timeouts, errors that name the rank, any transport
    twin   Isend, Irecv, Iallreduce on buffers laid out beforehand, and nothing else

Both call the same kernels on the same layouts, and send the rows of the same plans. A twin is what
an expert writes in an afternoon for one cluster, without Dask and without a `Communicator`: each
module has `pieces`, plain data for every rank, and `train`, which every MPI rank calls with its
own. Nothing in the library uses them.
"""
