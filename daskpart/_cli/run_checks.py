"""What contradicts itself in the options of a fit, told before anything is read."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from daskpart.errors import InputError


def check_run(settings: Any) -> None:
    """Refuse placements, checkpoints and outputs that cannot be.

    Parameters
    ----------
    settings : FitSettings
        Of any model.

    Raises
    ------
    InputError
        In the words of the options.
    """
    if settings.resume and settings.checkpoint is None:
        raise InputError("--resume needs --checkpoint PATH: where the state was kept")
    if settings.workers is not None and settings.cluster in ("none", "mpi"):
        raise InputError(
            "--workers goes with --cluster threads or processes; under mpiexec -n P there are "
            "P - 2 workers"
        )
    if settings.transport == "local" and settings.cluster != "none":
        raise InputError(
            f"--transport local stays in one process; with --cluster {settings.cluster} use graph"
        )
    wanted = {"dask": ("threads", "processes", "mpi"), "mpi": ("mpi",)}.get(settings.transport)
    if wanted is not None and settings.cluster not in wanted:
        raise InputError(
            f"--transport {settings.transport} needs --cluster {' or '.join(wanted)}, "
            f"not {settings.cluster}"
        )
    if settings.model_format == "zarr" and find_spec("zarr") is None:
        raise InputError("--model-format zarr needs: pip install 'daskpart[io]'")
    model = settings.out / "model"
    if model.exists() and not (model / "model.json").is_file():
        raise InputError(
            f"{model} is there and is no saved model, and would be replaced: give another --out"
        )
