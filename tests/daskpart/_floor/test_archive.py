"""Arrays come back as they were. Two writes at once: one of the two is there, whole; links stay."""

from __future__ import annotations

import os
import shutil
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis.extra import numpy as arrays_of

from daskpart._floor import archive
from daskpart._floor.archive import SUFFIXES, opened_npz, read_arrays, write_arrays
from daskpart.errors import ReadError

N_FILES = 20
NUMBERS = arrays_of.integer_dtypes(endianness="=") | arrays_of.floating_dtypes(endianness="=")
SHAPES = arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(array=arrays_of.arrays(NUMBERS | arrays_of.boolean_dtypes(), SHAPES))
@example(array=np.array([-0.0, 0.0]))
def test_an_array_comes_back_as_it_was(tmp_path, suffix, array):
    """Also one without a dimension, as the scale in a state of L-BFGS."""
    for given_array in (array, array.T):
        write_arrays(tmp_path / f"run{suffix}", {"values": given_array}, {})
        found = read_arrays(tmp_path / f"run{suffix}")[0]["values"]
        assert found.shape == given_array.shape and found.dtype == given_array.dtype
        assert found.tobytes() == given_array.tobytes()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_write_amid_another_harms_neither(tmp_path, monkeypatch, suffix):
    path = tmp_path / f"run{suffix}"
    place, name = (np, "savez") if suffix == ".npz" else (archive, "_write_zarr")
    usual, begun = getattr(place, name), []

    def amid(*arguments, **arrays):
        begun.append(path)
        usual(*arguments, **arrays)
        if len(begun) == 1:
            write_arrays(path, {"values": np.arange(3)}, {"of": "the inner"})
            assert read_arrays(path)[1] == {"of": "the inner"}

    monkeypatch.setattr(place, name, amid)
    write_arrays(path, {"values": np.arange(5)}, {"of": "the outer"})
    arrays, header = read_arrays(path)
    assert header == {"of": "the outer"} and arrays["values"].tolist() == [0, 1, 2, 3, 4]
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


def test_a_write_between_the_renames_of_another_harms_neither(tmp_path, monkeypatch):
    path, replace, begun = tmp_path / "run.zarr", os.replace, []

    def amid(source, target):
        if target == path and not begun:
            begun.append(path)
            write_arrays(path, {"values": np.arange(3)}, {})
        replace(source, target)

    monkeypatch.setattr(os, "replace", amid)
    write_arrays(path, {"values": np.arange(5)}, {})
    assert read_arrays(path)[0]["values"].tolist() == [0, 1, 2, 3, 4]
    assert begun == [path] == [*tmp_path.iterdir()]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_power_cut_after_the_rename_finds_all_that_was_written(tmp_path, monkeypatch, suffix):
    """What takes a place is on the disk before that, at its full length, and the folder behind."""
    flushed, replace = {}, os.replace
    path = tmp_path / f"run{suffix}"

    def fsync(descriptor):
        found = os.fstat(descriptor)
        flushed[found.st_ino] = found.st_size

    def replace_flushed(source, target):
        if target == path:  # zarr has renames of its own
            for written in (source, *source.rglob("*")):
                found = written.stat()
                assert flushed.get(found.st_ino) == found.st_size, written
            flushed.clear()
        replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace_flushed)
    write_arrays(path, {"values": np.arange(5)}, {})
    assert [*flushed] == [tmp_path.stat().st_ino]


def test_a_file_that_was_opened_to_a_group_stays_so(tmp_path):
    path = tmp_path / "run.npz"
    write_arrays(path, {}, {})
    path.chmod(0o660)
    write_arrays(path, {"values": np.arange(3)}, {})
    assert path.stat().st_mode & 0o777 == 0o660


def test_folders_that_change_places_at_once(tmp_path):
    target, ready, errors = tmp_path / "model", threading.Barrier(4), []

    def write(writer):
        def fill(folder):
            for number in range(N_FILES):
                (folder / f"{number}").write_text(f"{writer}")
            ready.wait(timeout=30)

        try:
            for _ in range(10):
                archive.replace_folder(target, fill, 0)
        except BaseException as error:
            errors.append(error)
            ready.abort()

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len({found.read_text() for found in target.iterdir()}) == 1
    assert len([*target.iterdir()]) == N_FILES
    assert not [found for found in tmp_path.iterdir() if found.name.endswith(".partial")]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_a_link_points_to_is_replaced(tmp_path, suffix):
    disk, here = tmp_path / "disk", tmp_path / "here"
    disk.mkdir(), here.mkdir()
    link = here / f"run{suffix}"
    link.symlink_to(disk / f"kept{suffix}")
    for number in range(2):  # the first makes what is not there yet
        write_arrays(link, {"values": np.arange(number)}, {"of": number})
        assert link.is_symlink() and read_arrays(disk / f"kept{suffix}")[1] == {"of": number}
    assert [found.name for found in here.iterdir()] == [link.name]
    assert [found.name for found in disk.iterdir()] == [f"kept{suffix}"]


def test_a_link_to_what_was_being_replaced_is_read(tmp_path):
    real, link = tmp_path / "kept.npz", tmp_path / "run.npz"
    write_arrays(real, {"values": np.arange(3)}, {})
    link.symlink_to(real)
    real.rename(tmp_path / ".kept.npz.previous")
    assert read_arrays(link)[0]["values"].tolist() == [0, 1, 2]


def test_an_array_that_is_lost_is_missed(tmp_path):
    path = tmp_path / "run.zarr"
    write_arrays(path, {"values": np.arange(3), "others": np.arange(4)}, {})
    shutil.rmtree(path / "values")
    with pytest.raises(ReadError, match="damaged: values"):
        read_arrays(path)


@pytest.mark.parametrize("read", [opened_npz, read_arrays])
def test_what_is_pickled_in_a_file_is_not_run(tmp_path, read):
    path, made = tmp_path / "run.npz", tmp_path / "made by reading"

    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(made),)

    np.savez(path, values=np.array([Trap()], object))
    with pytest.raises(ReadError, match=r"cannot be read .*pickle"), read(path) as file:
        file["values"]
    assert not made.exists()
