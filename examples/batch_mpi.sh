#!/usr/bin/env bash
# A batch job for Slurm:  sbatch batch_mpi.sh [RATINGS] [options of batch_mpi.py]
# Without Slurm it runs as it is:  bash batch_mpi.sh
#
#SBATCH --job-name=daskpart
#SBATCH --ntasks=6                # scheduler, client, and four workers
#SBATCH --cpus-per-task=1         # a rank computes on one thread
#SBATCH --mem-per-cpu=4G
#SBATCH --time=01:00:00
set -euo pipefail

# where batch_mpi.py is: Slurm runs a copy of this file, from the folder of `sbatch`
folder="${SLURM_SUBMIT_DIR:-$(dirname "${BASH_SOURCE[0]}")}"

# work that is pinned to a worker that died fails after a minute, and not never
export DASK_DISTRIBUTED__SCHEDULER__NO_WORKERS_TIMEOUT=60s
# nobody looks at a dashboard, for which Dask looks into each worker a hundred times a second, and at
# each of its own processes fifty times
export DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED=False
export DASK_DISTRIBUTED__WORKER__MEMORY__MONITOR_INTERVAL=500ms
export DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL=500ms
export DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL=2s
# one thread a rank, in the libraries below too
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

mpiexec -n "${SLURM_NTASKS:-6}" python "$folder/batch_mpi.py" "$@"
