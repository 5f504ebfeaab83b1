"""`daskpart fit logistic`; what it shares with the other linear models is in `linear`."""

from __future__ import annotations

from .linear import SampleModel


class _Logistic(SampleModel):
    """Learn from SAMPLES to tell classes apart, with probabilities.

    SAMPLES is a libsvm file, a label and index:value pairs a line, or with --label a table, as .csv
    or .parquet (libsvm and .csv also .gz, .xz, .bz2), whose features are numbers. Labels are whole
    numbers, -1 and +1 or any others, or in a table text.

    This process reads the file and hands its rows to the ranks; where the file is too large for
    its memory, each rank reads a part (--read).
    """

    estimator = "LogisticRegression"
    example = "a9a.libsvm"
    classifies = True


MODEL = _Logistic()
