"""What `mpiexec` (MPICH, Intel, Open MPI) or `srun` tells its children in the environment."""

from __future__ import annotations

RANK_AND_SIZE = (
    ("PMI_RANK", "PMI_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    # of `srun --mpi=pmix` the size is that of a step, which a batch script has none of
    ("PMIX_RANK", "SLURM_STEP_NUM_TASKS"),
)
"""Names of the variables, by launcher."""
