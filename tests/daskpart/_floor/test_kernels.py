"""The cache of machine code: who compiles, who waits and loads, and what damage does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from daskpart._floor import kernels
from daskpart._floor.kernels import kernel

HELPER = """
from daskpart._floor.kernels import kernel

STEP = 1

@kernel(internal=True)
def raised(value):
    return value + STEP
"""
KERNELS = """
import os
from pathlib import Path
import numpy as np
from daskpart._floor.kernels import compile_seconds, kernel
from helper import raised

@kernel
def total(numbers):
    found = 0
    for number in numbers:
        found += raised(number)
    return found

def used(dtype="int64"):
    '''The sum, specialisations loaded and compiled, and whether this process wrote a file.'''
    before = written()
    result = int(total(np.arange(4, dtype=dtype)))
    hits, misses = total.stats.cache_hits, total.stats.cache_misses
    counts = sum(hits.values()), sum(misses.values())
    assert counts[1] == 0 or compile_seconds() > 0
    return result, *counts, written() != before

def compiled():
    '''The types that this process had to compile, with its number, after a sum of two types.'''
    used("int64"), used("int32")
    return {(os.getpid(), signature) for signature in total.stats.cache_misses}

def written():
    return sorted(Path(os.environ["NUMBA_CACHE_DIR"]).rglob("*.*"))
"""
IN_A_CHILD = """
import multiprocessing
import kernels
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print([pool.apply(kernels.used, (dtype,)) for dtype in ("int64", "int32")])
"""
IN_A_WORKER = """
import os
os.environ["DASK_DISTRIBUTED__LOGGING__DISTRIBUTED"] = "error"
import kernels
if __name__ == "__main__":
    from distributed import Client, LocalCluster
    with LocalCluster(n_workers=1, processes=True, dashboard_address=":0") as cluster:
        with Client(cluster) as client:
            print([client.submit(kernels.used, dtype).result() for dtype in ("int64", "int32")])
"""
IN_A_JOB = """
import kernels
if __name__ == "__main__":
    from joblib import Parallel, delayed
    jobs = (delayed(kernels.compiled)() for _ in range(4))
    print(len(set.union(*Parallel(n_jobs=2, backend="loky", batch_size=1)(jobs))))
"""
AT_ONCE = """
import os, subprocess, sys, time
from pathlib import Path
import kernels
if len(sys.argv) > 1:
    Path(sys.argv[1]).touch()
    while not all(Path(f"here{number}").exists() for number in range(3)):
        time.sleep(0.01)
    print(kernels.used()[:3])
else:
    os.chdir(Path(__file__).parent)
    command = [sys.executable, __file__]
    started = [subprocess.Popen([*command, f"here{number}"]) for number in range(3)]
    sys.exit(any([process.wait() for process in started]))
"""
OF_SPARSE = """
import numpy as np
import daskpart.containers
from sparse.numba_backend._compressed.convert import is_sorted
assert is_sorted(np.arange(4))
stats = is_sorted.stats
print(*(sum(counts.values()) for counts in (stats.cache_hits, stats.cache_misses)))
"""
HERE = "import kernels; print(kernels.used())"
IMPATIENT = """
from daskpart._floor import kernels
kernels._SILENT_SECONDS = 0
"""
COMPILED, LOADED = "(10, 0, 1, True)", "(10, 1, 0, False)"


class Workplace:
    """A folder with two modules of kernels, and a cache of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "helper.py").write_text(HELPER)
        (folder / "kernels.py").write_text(KERNELS)

    def run(self, code: str = HERE, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run code as a script in a process of its own."""
        script = self.folder / "script.py"
        script.write_text(code)
        known = {k: v for k, v in os.environ.items() if k != "DASKPART_KERNEL_CACHE"}
        known |= {"NUMBA_CACHE_DIR": str(self.folder / "cache"), **environment}
        known["PYTHONPATH"] = os.pathsep.join([str(self.folder), *sys.path])
        done = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, env=known, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done

    def fill(self, files: dict[Path, bytes]) -> None:
        """Put files where a process of this workplace has written them."""
        for path, content in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def files(self) -> dict[Path, bytes]:
        """The cache."""
        return {path: path.read_bytes() for path in (self.folder / "cache").rglob("*.nbc")}

    def locks(self) -> list[Path]:
        """What is locked, or was."""
        return list((self.folder / "cache").rglob("*.lock"))


@pytest.fixture(scope="module")
def used_before(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[Path, bytes]]:
    """A folder, and the cache that a process has left there."""
    workplace = Workplace(tmp_path_factory.mktemp("kernels"))
    assert COMPILED in workplace.run().stdout
    return workplace.folder, workplace.files()


@pytest.fixture
def workplace(used_before) -> Workplace:
    """With an empty cache. Its folder is that of all others: it is in the names of the files."""
    folder, _ = used_before
    shutil.rmtree(folder)
    folder.mkdir()
    return Workplace(folder)


@pytest.fixture
def filled(workplace, used_before) -> Workplace:
    """With what a process has compiled before."""
    workplace.fill(used_before[1])
    return workplace


def test_what_one_process_compiles_the_next_one_loads(filled):
    before = filled.files()
    assert len(before) == 2  # the kernel and its helper
    assert LOADED in filled.run().stdout
    assert filled.files() == before


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(IN_A_CHILD, id="spawn"),
        pytest.param(IN_A_WORKER, id="dask", marks=pytest.mark.cluster),
    ],
)
def test_children_load_what_is_there_and_write_the_rest(filled, code):
    """Two types: of one the helper and the kernel are there, of the other neither."""
    assert "[(10, 1, 0, False), (10, 1, 1, True)]" in filled.run(code).stdout
    assert len(filled.files()) == 4
    both = "import kernels; print([kernels.used(dtype) for dtype in ('int64', 'int32')])"
    assert "[(10, 1, 0, False), (10, 2, 0, False)]" in filled.run(both).stdout


def test_of_jobs_of_joblib_one_compiles_a_kernel(workplace):
    """As in ``GridSearchCV(n_jobs=2)``."""
    assert workplace.run(IN_A_JOB).stdout == "2\n"
    assert workplace.locks() == []


def test_of_processes_that_need_a_kernel_at_once_one_compiles(workplace):
    told = workplace.run(AT_ONCE).stdout  # lines of three processes, and so of no order
    assert (told.count("(10, 0, 1)"), told.count("(10, 1, 0)")) == (1, 2)
    assert workplace.locks() == []


def test_a_lock_that_a_killed_process_left_keeps_nobody(filled):
    for path, content in filled.files().items():
        path.with_name(f"{path.name}.lock").write_bytes(b"")
        path.write_bytes(content[:10])
    assert "(10, 0, 1, True)" in filled.run().stdout  # what it has written is less: the locks
    assert filled.locks() == []


@pytest.mark.skipif(sys.platform == "win32", reason="no flock")
def test_a_process_that_does_not_end_its_turn_keeps_others_for_a_while_only(filled):
    import fcntl

    path, *_ = (path for path in filled.files() if path.name.startswith("kernels.total"))
    path.unlink()
    with path.with_name(f"{path.name}.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        impatient = "import daskpart._floor.kernels as k; k._PATIENCE = 0.1\n" + HERE
        assert "(10, 0, 1, True)" in filled.run(impatient).stdout
        assert filled.locks() != []  # it is not theirs
    assert LOADED in filled.run().stdout


def test_without_a_cache_nothing_is_read_or_written(filled):
    before = filled.files()
    assert "(10, 0, 1, False)" in filled.run(DASKPART_KERNEL_CACHE="off").stdout
    assert filled.files() == before


def test_kernels_are_compiled_where_users_look_into_their_own(filled):
    """NUMBA_DISABLE_JIT has functions of `numba.njit` run as plain Python: those of others."""
    code = f"import numba\n{HERE}; print(type(numba.njit(lambda x: x)).__name__)"
    assert filled.run(code, NUMBA_DISABLE_JIT="1").stdout.splitlines() == [LOADED, "function"]


def test_kernels_of_sparse_are_kept_too(workplace):
    """It keeps none itself: each process compiled for seconds what slices an array."""
    assert [workplace.run(OF_SPARSE).stdout for _ in range(2)] == ["0 1\n", "1 0\n"]


def test_a_damaged_file_is_compiled_anew(filled):
    """One that is empty beside one that is not ours; then two that were cut short."""
    whole = filled.files()
    for damaged in (
        dict(zip(whole, (b"", b"not ours"), strict=True)),
        {path: content[: len(content) // 2] for path, content in whole.items()},
    ):
        filled.fill(damaged)
        assert "(10, 0, 1, False)" in filled.run().stdout  # the same names: no new file
    assert LOADED in filled.run().stdout


@pytest.mark.parametrize(
    ("before", "after"), [("STEP = 1", "STEP = 2"), ("value + STEP", "value + 2 * STEP")]
)
def test_a_kernel_is_compiled_anew_when_one_that_it_calls_changes(filled, before, after):
    """Also where its own module did not: an upgrade of the package must not run old code."""
    helper = filled.folder / "helper.py"
    helper.write_text(helper.read_text().replace(before, after))
    assert "(14, 0, 1, True)" in filled.run().stdout


def test_a_folder_that_cannot_be_written_to_is_passed_over(workplace):
    """The user's own folder is next; without any, all compile in memory, and say why."""
    (workplace.folder / "__pycache__").write_text("no folder")
    (workplace.folder / "no_folder").write_text("")
    environment = {
        "NUMBA_CACHE_DIR": str(workplace.folder / "no_folder" / "x"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(workplace.folder / "no_folder"),
    }
    mine = {"XDG_CACHE_HOME": str(workplace.folder / "mine")}
    workplace.run(**environment, **mine)
    assert len(list((workplace.folder / "mine").rglob("*.nbc"))) == 2
    assert LOADED in workplace.run(**environment, **mine).stdout
    nowhere = {"XDG_CACHE_HOME": str(workplace.folder / "no_folder" / "y")}
    done = workplace.run(IMPATIENT + HERE, **environment, **nowhere)
    assert "(10, 0, 1, False)" in done.stdout
    assert "for this process alone" in done.stderr and "NUMBA_CACHE_DIR" in done.stderr


def test_compiling_is_told_once_and_by_the_client_only(workplace):
    code = IMPATIENT + "import kernels; kernels.used(); kernels.used('int32')"
    assert workplace.run(code, PMI_RANK="0", DASKPART_KERNEL_CACHE="0").stderr == ""
    spawned = f"""{IMPATIENT}
import kernels, multiprocessing
if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=kernels.used)
    child.start()
    child.join()
    print(child.exitcode)
"""
    done = workplace.run(spawned, DASKPART_KERNEL_CACHE="0")
    assert (done.stdout, done.stderr) == ("0\n", "")
    assert workplace.run(code).stderr == "daskpart: compiling kernels, once on this machine …\n"
    assert workplace.run(code).stderr == ""
    alone = workplace.run(code, PMI_RANK="0", PMI_SIZE="1", DASKPART_KERNEL_CACHE="0")
    assert alone.stderr.count("compiling kernels") == 1
    assert "DASKPART_KERNEL_CACHE switches their cache off" in alone.stderr


@kernel(internal=True)
def doubled(value):
    return 2 * value


@kernel
def doubled_all(values):
    for place in range(values.size):
        values[place] = doubled(values[place])


def test_an_internal_kernel_refuses_python():
    """Before and after a kernel has called it; a crash would be the alternative."""
    numbers = np.arange(3)
    for _ in range(2):
        with pytest.raises(TypeError, match=r"doubled\.py_func"):
            doubled(np.int64(1))
        doubled_all(numbers)
    assert numbers.tolist() == [0, 4, 8] and doubled.py_func(4) == 8


def test_the_working_clock_stands_still_while_kernels_compile(monkeypatch):
    monkeypatch.setattr(kernels._CLOCK, "seconds", 0.0)
    begin = kernels.working_clock()
    monkeypatch.setattr(kernels._CLOCK, "seconds", 1000.0)
    assert -1000 <= kernels.working_clock() - begin < 0
