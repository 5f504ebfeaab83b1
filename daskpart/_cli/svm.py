"""`daskpart fit svm`; what it shares with the other linear models is in `linear`."""

from __future__ import annotations

from .linear import LinearCommand


class _SVM(LinearCommand):
    """Learn from SAMPLES to tell classes apart, by a wide margin.

    SAMPLES is a libsvm file: a label and index:value pairs a line (also .gz, .xz, .bz2). Labels are
    whole numbers, -1 and +1 or any others.

    \b
    One process:           daskpart fit svm a9a.libsvm --ranks 4 --out run
    Worker processes:      daskpart fit svm a9a.libsvm --ranks 4 --cluster processes --out run
    MPI, 4 workers:        mpiexec -n 6 daskpart fit svm a9a.libsvm --ranks 4 --cluster mpi
    """

    estimator = "LinearSVC"
    classifies = True


MODEL = _SVM()
