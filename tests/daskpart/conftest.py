"""What the tests of the command share: ratings in a file, and the command in this process."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from daskpart.containers.matrix import as_matrix
from daskpart.datasets import power_law_ratings

# tests import what stands beside this file
sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("command_results")


@pytest.fixture(scope="session")
def rating_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """4,000 ratings as lines of user, item, rating, timestamp."""
    path = tmp_path_factory.mktemp("data") / "u.data"
    matrix = as_matrix(power_law_ratings(150, 100, 4000, random_state=0))
    lines = zip(matrix.rows + 1, matrix.columns + 1, matrix.values, strict=True)
    path.write_text("".join(f"{i}\t{j}\t{value:.3f}\t0\n" for i, j, value in lines))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For files of a module whose tests are run many times, by hypothesis."""
    return tmp_path_factory.mktemp("files")


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], AbstractContextManager[None]]:
    """Files inside can be so many bytes long: the disk is full then.

    Modules must be loaded and kernels compiled before: a cache of Python would be cut off, too.
    """
    resource = pytest.importorskip("resource", reason="limits are of POSIX")

    @contextmanager
    def limited(n_bytes: int) -> Iterator[None]:
        usual = resource.getrlimit(resource.RLIMIT_FSIZE)
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, usual[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, usual)

    return limited


@pytest.fixture
def ax() -> Iterator[Any]:
    """What a picture is drawn on; at the end it is rendered, so one that cannot be fails."""
    figure = pytest.importorskip("matplotlib.figure").Figure((5, 4), layout="constrained")
    yield figure.subplots()
    figure.savefig(io.BytesIO(), format="png")


@pytest.fixture
def run_cli() -> Callable[..., int]:
    """Run `daskpart` with these arguments in this process; gives its exit code.

    What it puts into the folder of --out, and no argument names, it must know as a result.
    """
    from daskpart import cli
    from daskpart._cli.files import is_called_as_result

    def run(*arguments: object) -> int:
        given = [str(argument) for argument in arguments]
        folder = Path(dict(pairwise(given)).get("--out", "daskpart-output"))
        before = names_in(folder)
        with pytest.raises(SystemExit) as stopped:
            cli.main(given)
        written = names_in(folder) - before - {Path(each).name for each in given}
        assert [name for name in written if not is_called_as_result(name)] == []
        code = stopped.value.code
        assert isinstance(code, int)
        return code

    return run


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()
