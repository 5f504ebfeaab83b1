"""MFState on disk: the same bits back, whole or not at all, and refusals that name both sides."""

from __future__ import annotations

import errno
import json
import os
import pickle
import zipfile
from dataclasses import dataclass, replace

import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import daskpart
from daskpart._floor import archive
from daskpart._floor.archive import plain
from daskpart.data_models import NeighbourSampler
from daskpart.errors import DaskpartWarning, InputError, MissingPackageError, ReadError
from daskpart.models.base.checkpoints import CheckpointWriter
from daskpart.models.base.reports import value_words
from daskpart.models.base.settings import described
from daskpart.models.base.state import State, replicated, rows_of, same_bits, scalar
from daskpart.models.cp.state import CPState
from daskpart.models.matrix_factorization.state import MFState
from daskpart.partitions import Partition

PARAMETERS = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 1.0, "a", "(1,)"]),
    lambda inner: st.lists(inner, max_size=2) | st.lists(inner, max_size=2).map(tuple),
    max_leaves=3,
)
SUFFIXES = [".npz", ".zarr"]
sharing = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10)


@pytest.fixture(autouse=True)
def _zarr_may_speak(recwarn):
    """Nothing is silenced: zarr must not warn about what we store."""
    yield
    assert not [w for w in recwarn if "zarr" in str(w.message).lower()]


def make_factors(n_users=5, n_items=4, n_components=3, seed=0, **changes) -> MFState:
    generator = np.random.default_rng(seed)

    def bits(*shape: int) -> np.ndarray:
        """Any float32 at all, NaN payloads and infinities among them."""
        return generator.integers(0, 2**32, shape, dtype=np.uint32).view(np.float32)

    return MFState(
        **{
            "user_factors": bits(n_users, n_components),
            "item_factors": bits(n_items, n_components),
            "user_bias": bits(n_users),
            "item_bias": bits(n_items),
            "user_gradient": bits(n_users),
            "item_gradient": bits(n_items),
            "global_mean": float(generator.normal()),
            "epoch": 7,
            "learning_rate_state": {"rate": 0.1 + 1e-17, "last_loss": float("inf")},
            "history": [{"epoch": 1, "train_rmse": 0.1, "validation_rmse": None}],
            "settings": {"regularization": 0.05, "eta": 2},
            **changes,
        }
    )


def label_arrays(n: int) -> st.SearchStrategy:
    text = st.lists(st.text(max_size=6), min_size=n, max_size=n, unique=True)
    whole = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=n, max_size=n, unique=True)
    mixed = st.lists(
        st.text(max_size=3) | st.integers() | st.floats(allow_nan=False), min_size=n, max_size=n
    )
    return st.one_of(
        st.none(),
        text.map(lambda labels: np.array([*labels, None], dtype=object)[:-1]),
        text.map(lambda labels: np.array(labels, dtype=np.str_)),
        whole.map(lambda labels: np.array(labels, dtype=np.int64)),
        whole.map(lambda labels: np.array(labels, dtype="datetime64[ns]")),
        whole.map(lambda labels: np.array(labels, dtype=np.int64).astype(np.float64)),
        mixed.map(lambda labels: np.array([*labels, None], dtype=object)[:-1]),
    )


def test_a_state_says_what_it_holds():
    factors = np.ones((3, 2)), np.ones((1, 2))
    state = MFState(*factors, np.ones(3), np.ones(1))
    assert repr(state).startswith("MFState(3 users × 1 item, after epoch 0, ")
    assert repr(state).endswith(f"{state.nbytes} B)")


@pytest.mark.parametrize("suffix", SUFFIXES)
@sharing
@given(data=st.data())
def test_round_trip_gives_the_same_bits(tmp_path, suffix, data):
    n_users, n_items = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6))
    factors = make_factors(
        n_users,
        n_items,
        data.draw(st.integers(1, 5)),
        data.draw(st.integers(0, 99)),
        user_labels=data.draw(label_arrays(n_users)),
        item_labels=data.draw(label_arrays(n_items)),
        global_mean=data.draw(st.floats()),
    )
    factors.save(tmp_path / f"run{suffix}")
    assert same_bits(MFState.load(tmp_path / f"run{suffix}"), factors)
    assert [found.name for found in tmp_path.iterdir()] == [f"run{suffix}"]


def test_same_bits_sees_every_field():
    factors = make_factors(user_labels=np.array(["a", "b", "c", "d", "e"], dtype=object))
    assert same_bits(factors, factors.copy())
    changes = {
        "user_factors": np.zeros((5, 3), np.float32),
        "item_gradient": np.zeros(4, np.float32),
        "global_mean": 0.5,
        "epoch": 8,
        "history": [],
        "user_labels": np.array(["a", "b", "c", "d", "f"], dtype=object),
        "item_labels": np.arange(4),
    }
    for name, value in changes.items():
        other = factors.copy()
        setattr(other, name, value)
        assert not same_bits(factors, other), name


def test_copy_shares_nothing_that_training_changes():
    factors, same = (make_factors(best={"user_bias": np.ones(5)}) for _ in range(2))
    twin = factors.copy()
    twin.user_factors[:] = 0
    twin.history[0]["train_rmse"] = 9.0
    twin.learning_rate_state["rate"] = 9.0
    twin.best["user_bias"][:] = 0
    assert same_bits(factors, same)


@pytest.mark.parametrize("step, best, beside", [(0, None, 0.0), (1, 1, 1.0), (3, 3, 0.0)])
def test_the_best_step_is_brought_where_it_is_not_the_last(step, best, beside):
    factors, biases = [np.zeros((2, 1))] * 2, [np.zeros(2)] * 2
    state = MFState(*factors, *biases, epoch=3)
    found = state.with_best(step, lambda: {**state.answers, "user_factors": np.ones((2, 1))})
    assert found.best_epoch == best
    assert found.at_best().user_factors.max() == beside
    assert found.at_best().at_last().user_factors.max() == 0.0


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match=r"user_bias has shape \(4,\), the user axis has 5"):
        make_factors(user_bias=np.zeros(4, np.float32))
    with pytest.raises(InputError, match="item labels"):
        make_factors(item_labels=np.arange(3))


def test_finite():
    zeros = MFState(
        np.zeros((2, 1), np.float32),
        np.zeros((3, 1), np.float32),
        np.zeros(2, np.float32),
        np.zeros(3, np.float32),
    )
    assert zeros.is_finite()
    zeros.item_bias[1] = np.inf
    assert not zeros.is_finite()
    assert "2 users × 3 items" in repr(zeros)


class _StopsHalfWay:
    """Stands in for np.savez: writes something, then fails."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __call__(self, file, **arrays):
        file.write(b"half of it")
        raise self.error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "disk is full")])
def test_a_write_that_stops_half_way_keeps_the_previous_checkpoint(tmp_path, monkeypatch, error):
    path = tmp_path / "run.npz"
    make_factors(seed=1).save(path)
    monkeypatch.setattr(archive.np, "savez", _StopsHalfWay(error))
    with pytest.raises(type(error)):
        make_factors(seed=2).save(path)
    monkeypatch.undo()
    assert same_bits(MFState.load(path), make_factors(seed=1))
    assert [found.name for found in tmp_path.iterdir()] == ["run.npz"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_disk_that_refuses_says_how_much_is_needed(tmp_path, suffix):
    path = tmp_path / f"run{suffix}"
    make_factors(seed=1).save(path)
    large = make_factors(n_users=40_000, seed=2)
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(OSError) as caught:
            large.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    message = str(caught.value)
    assert str(path) in message and "It needs 0.8 MB" in message and "MB are free" in message
    assert "what was there before is untouched" in message
    assert same_bits(MFState.load(path), make_factors(seed=1))
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


def test_a_disk_that_may_not_be_written_to_says_nothing_of_space(tmp_path, monkeypatch):
    """It said how many MB were free, which were many."""
    refused = PermissionError(errno.EACCES, "Permission denied")
    monkeypatch.setattr(archive.np, "savez", _StopsHalfWay(refused))
    with pytest.raises(OSError, match=r"Permission denied; nothing was left there\.$"):
        make_factors(seed=1).save(tmp_path / "run.npz")


def test_a_folder_killed_between_the_two_renames_is_still_read(tmp_path):
    path = tmp_path / "run.zarr"
    make_factors(seed=1).save(path)
    os.replace(path, tmp_path / ".run.zarr.previous")
    assert same_bits(MFState.load(path), make_factors(seed=1))
    make_factors(seed=2).save(path)
    assert same_bits(MFState.load(path), make_factors(seed=2))


def test_ctrl_c_between_the_two_renames_puts_the_old_folder_back(tmp_path, monkeypatch):
    path = tmp_path / "run.zarr"
    make_factors(seed=1).save(path)
    rename = os.replace

    def stops_at_the_second(source, target):
        if str(source).endswith(".partial") and target == path:  # zarr renames in threads too
            raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr(archive.os, "replace", stops_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        make_factors(seed=2).save(path)
    monkeypatch.undo()
    assert [found.name for found in tmp_path.iterdir()] == ["run.zarr"]
    assert same_bits(MFState.load(path), make_factors(seed=1))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_missing_and_damaged_files_are_named(tmp_path, suffix):
    path = tmp_path / f"run{suffix}"
    with pytest.raises(ReadError, match="there is nothing at"):
        MFState.load(path)
    make_factors(n_users=5000).save(path)
    with pytest.raises(ReadError, match=rf"the folder holds run{suffix}"):
        MFState.load(tmp_path / f"other{suffix}")
    _damage(path)
    with pytest.raises(ReadError, match=r"damaged.*earlier checkpoint"):
        MFState.load(path)


def _damage(path):
    """Flip bits in the bytes of one factor, as a bad disk would."""
    file = path if path.is_file() else path / "user_factors" / "c" / "0" / "0"
    content = bytearray(file.read_bytes())
    middle = len(content) // 4  # in the factors, which are most of the file
    content[middle : middle + 4] = bytes(255 - byte for byte in content[middle : middle + 4])
    file.write_bytes(content)


def test_files_that_are_something_else_are_refused(tmp_path):
    (tmp_path / "text.npz").write_text("hello")
    np.savez(tmp_path / "foreign.npz", a=np.zeros(3))
    archive.write_arrays(tmp_path / "ours.npz", {"a": np.zeros(3)}, {"b": 1})
    for name in ("text", "foreign"):
        with pytest.raises(ReadError, match=f"{name}.npz cannot be read"):
            MFState.load(tmp_path / f"{name}.npz")
    with pytest.raises(ReadError, match="holds no MFState"):
        MFState.load(tmp_path / "ours.npz")
    make_factors().save(tmp_path / "older.npz")
    arrays, header = archive.read_arrays(tmp_path / "older.npz")
    del header["rating_mean"]  # as from before there was such a field
    archive.write_arrays(tmp_path / "older.npz", arrays, header)
    with pytest.raises(ReadError, match=r"MFState of another version .* lacks rating_mean"):
        MFState.load(tmp_path / "older.npz")
    with pytest.raises(InputError, match=r"one of \.npz, \.zarr; got the suffix '\.h5'"):
        make_factors().save(tmp_path / "run.h5")


def test_nothing_is_pickled(tmp_path):
    labels = np.array(["a", "b", 3, 4.5, True], dtype=object)
    labels[1] = ("b", 2)
    make_factors(user_labels=labels).save(tmp_path / "run.npz")
    with zipfile.ZipFile(tmp_path / "run.npz") as zipped:
        for name in zipped.namelist():
            with zipped.open(name) as file:
                np.lib.format.read_array(file, allow_pickle=False)
    with pytest.raises(InputError, match="a hold objects, which would have to be pickled"):
        archive.write_arrays(tmp_path / "run.npz", {"a": labels}, {})
    with pytest.raises(InputError, match=r"user_labels hold 1j of type complex"):
        strange = np.array(["a", 1j, ("b", 2j), 3, 4], dtype=object)
        make_factors(user_labels=strange).save(tmp_path / "run.npz")


def test_zarr_not_installed(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "zarr", None)
    words = r"pip install 'daskpart\[io\]', or use a path ending in"
    with pytest.raises(MissingPackageError, match=words) as told:
        make_factors().save(tmp_path / "run.zarr")
    assert isinstance(told.value, ImportError)


def test_resume_of_another_fit_names_both_sides():
    factors = make_factors()
    factors.check_resumes({"eta": np.int64(2), "regularization": 0.05})
    with pytest.raises(InputError) as caught:
        factors.check_resumes({"eta": 4, "rho": 2}, "run.npz")
    message = str(caught.value)
    assert message.startswith("run.npz belongs to another fit")
    assert "eta: 2 there, 4 now" in message
    assert "rho: not set there, 2 now" in message
    assert "regularization: 0.05 there, not set now" in message


def test_another_fit_is_told_in_what_a_user_typed():
    """Tuples, dicts, samplers and partitions, and not their hashes."""
    parts = Partition(np.array([0, 1, 0], np.int32), 2, np.ones(3, np.int64), {})
    given = {
        "hidden": ((16,), (8, 4)),
        "layer_options": ({"hops": 2}, {"hops": (3, 1)}),
        "sampler": (NeighbourSampler(fanouts=(3, 2)), "vertex"),
        "partitioner": (parts, np.arange(40)),
        "weight_decay": ([0.1] * 2, 0.5),
        "same": ((1, 2), [1, 2]),
    }
    there, now = ({name: described(pair[side]) for name, pair in given.items()} for side in (0, 1))
    factors = replace(make_factors(), settings={**there, "data": "3 × 2, ab"})
    with pytest.raises(InputError) as caught:
        factors.check_resumes({**now, "data": "3 × 2, cd"})
    message = str(caught.value)
    assert "hidden: (16,) there, (8, 4) now" in message
    assert "layer_options: {'hops': 2} there, {'hops': (3, 1)} now" in message
    assert (
        "sampler: 'NeighbourSampler(size=0.01, fanouts=(3, 2), " in message
        and "'vertex' now" in message
    )
    assert "partitioner: 'a partition of 3 into 2 parts, " in message
    assert "there, 'ndarray of 40, " in message
    assert "weight_decay: (0.1, 0.1) there, 0.5 now" in message
    assert "the data: '3 × 2, ab' there, '3 × 2, cd' now" in message
    assert "same" not in message.replace("Use the same", "")


def test_a_number_of_numpy_in_a_sampler_is_described_as_python_has_it():
    one, other = (NeighbourSampler(kind(0.5), fanouts=(3,)) for kind in (np.float64, float))
    assert described(one) == described(other)


@given(PARAMETERS, PARAMETERS)
def test_parameters_are_described_alike_only_where_they_are_equal(one, other):
    def as_lists(value):
        return [as_lists(each) for each in value] if isinstance(value, list | tuple) else value

    same = repr(as_lists(one)) == repr(as_lists(other))
    found = value_words(plain(described(one))) == value_words(plain(described(other)))
    assert found == same


@pytest.mark.parametrize("kind", [np.asarray, xr.DataArray])
def test_arrays_are_described_by_their_values_however_they_lie(kind):
    """A model that was saved has them by rows, as factors of others often are not."""
    square = np.arange(9.0).reshape(3, 3)
    assert described([kind(square)]) == described([kind(np.asfortranarray(square))])
    assert described([kind(square)]) != described([kind(square.T)])


@pytest.mark.parametrize("begin", [0, 999_990])  # of six digits, and of seven
@pytest.mark.parametrize("suffix", ["", ".npz", ".zarr"])
def test_writer_writes_each_n_epochs_and_keeps_two(tmp_path, suffix, begin):
    path = tmp_path / f"run (2)+{suffix}"
    writer = CheckpointWriter(path, MFState, every=3)
    assert writer.latest() is None
    for epoch in range(begin + 1, begin + 14):
        if writer.due(epoch):
            writer.write(make_factors(seed=epoch, epoch=epoch))
    last = begin + 12
    assert writer.epochs() == [last - 3, last]
    again = CheckpointWriter(path, MFState, every=3)
    assert same_bits(again.latest(), make_factors(seed=last, epoch=last))
    hidden = [found.name for found in writer.folder.iterdir() if found.name.startswith(".")]
    assert not hidden


def test_writer_passes_over_damage_and_other_fits(tmp_path):
    writer = CheckpointWriter(tmp_path / "run.npz", MFState)
    for epoch in (1, 2):
        writer.write(make_factors(seed=epoch, epoch=epoch))
    (tmp_path / "other.epoch-000009.npz").write_text("another run in the same folder")
    writer.path_of(2).write_bytes(writer.path_of(2).read_bytes()[:500])
    other = CheckpointWriter(writer.path, CPState)
    with pytest.raises(ReadError, match=r"holds no CPState.*remove it, or give another"):
        other.latest()
    assert writer.epochs() == [1]
    writer.write(make_factors(epoch=2))
    with pytest.raises(InputError, match="later epoch than 1, so of another fit"):
        writer.write(make_factors(epoch=1))
    assert writer.epochs() == [1, 2]


@pytest.mark.parametrize("suffix", [".npz", ".zarr"])
def test_a_damaged_checkpoint_is_not_in_the_way_of_a_fit_that_goes_on(tmp_path, suffix):
    writer = CheckpointWriter(tmp_path / f"run{suffix}", MFState, keep=3)
    for _ in range(2):  # it may happen again
        writer.write(make_factors(epoch=1))
        for epoch in (2, 3):
            damaged = writer.write(make_factors(epoch=epoch))
            for file in [damaged] if suffix == ".npz" else damaged.rglob("*"):
                if file.is_file():
                    file.write_bytes(file.read_bytes()[:20])
        words = rf"passed over.*epoch-00000[23]{suffix}.damaged now"
        with pytest.warns(DaskpartWarning, match=words) as told:
            assert writer.latest().epoch == 1
        assert len(told) == 2
        writer.check_free(1)
        assert writer.epochs() == [1]


@pytest.mark.parametrize("reason", [PermissionError(13, "Permission denied"), MemoryError()])
def test_a_checkpoint_that_cannot_be_looked_at_is_not_put_aside(tmp_path, reason, monkeypatch):
    """It may well be whole."""

    def refuse(path):
        raise reason

    writer = CheckpointWriter(tmp_path / "run.npz", MFState)
    writer.write(make_factors(epoch=1))
    monkeypatch.setattr(archive, "_read_npz", refuse)
    with pytest.raises(type(reason)):
        writer.latest()
    assert writer.epochs() == [1]


def test_a_checkpoint_of_another_version_is_said_before_the_fit(tmp_path):
    ratings = daskpart.datasets.power_law_ratings(9, 8, 30)
    model = daskpart.MatrixFactorization(
        2, n_ranks=1, max_iter=2, checkpoint_path=tmp_path / "run.npz", resume=True
    )
    model.fit(ratings)
    newest = tmp_path / "run.epoch-000002.npz"
    arrays, header = archive.read_arrays(newest)
    del header["rating_mean"]
    archive.write_arrays(newest, arrays, header)
    with pytest.raises(ReadError, match=r"of another version of daskpart.*cannot go on from it"):
        clone(model).fit(ratings)
    assert newest.exists()


def test_writer_settings_are_checked(tmp_path):
    with pytest.raises(InputError, match="checkpoint_every"):
        CheckpointWriter(tmp_path, MFState, every=0)
    with pytest.raises(InputError, match="keep"):
        CheckpointWriter(tmp_path, MFState, keep=0)
    with pytest.raises(InputError, match=r"got the suffix '\.h5'"):
        CheckpointWriter(tmp_path / "run.h5", MFState)


def test_look_ups_are_kept_but_do_not_travel():
    factors = make_factors(user_labels=np.array(list("abcde"), dtype=object))
    assert factors.users() is factors.users()
    assert "_indexes" not in vars(pickle.loads(pickle.dumps(factors)))
    factors.user_labels = np.array(list("vwxyz"), dtype=object)
    assert factors.users().positions(["z"]).tolist() == [4]


def test_header_takes_numpy_scalars_and_keeps_float_bits():
    value = {"a": np.float64(0.1), "b": np.int32(3), "c": (1, 2), "d": np.arange(2)}
    assert archive.plain(value) == {"a": 0.1, "b": 3, "c": [1, 2], "d": [0, 1]}
    assert json.loads(json.dumps(archive.plain(np.float32(0.1)))) == float(np.float32(0.1))
    with pytest.raises(TypeError, match="has no JSON form"):
        archive.plain({"a": object()})


@dataclass(eq=False, repr=False)
class Layers(State):
    """Replicated lists and dicts, as a network and its optimiser have them."""

    weights: list[np.ndarray] = replicated()
    moments: dict[str, np.ndarray] = replicated(default_factory=dict)
    embedding: np.ndarray = rows_of("vertex", None)
    rate: float = scalar(0.1)


def layers() -> Layers:
    random = np.random.default_rng(0)
    weights = [random.random((3, 2)), random.random(2)]
    return Layers(weights, {"first": random.random(4)}, random.random((6, 2)), epoch=3)


def test_cut_and_assembled_follow_from_the_declarations():
    state = layers()
    held = {"vertex": [np.array([4, 0, 1]), np.array([2, 3, 5, 1])]}  # vertex 1 is on both
    parts = state.cut(held, 2)
    assert [part["embedding"].shape for part in parts] == [(3, 2), (4, 2)]
    assert all(part["weights"][0] is state.weights[0] for part in parts)
    answered = {"vertex": [np.array([0, 1]), np.array([2, 3])]}
    own = [{**part, "embedding": part["embedding"][1:3] * 0 + k} for k, part in enumerate(parts)]
    new = state.assembled(own, answered, rate=0.5)
    assert new.embedding[:4, 0].tolist() == [0, 0, 1, 1] and new.rate == 0.5
    np.testing.assert_array_equal(new.embedding[4:], state.embedding[4:])  # nobody answers for it
    assert same_bits(state, layers())


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_replicated_lists_and_dicts_come_back(tmp_path, suffix):
    layers().save(tmp_path / f"run{suffix}")
    assert same_bits(Layers.load(tmp_path / f"run{suffix}"), layers())
    with pytest.raises(ReadError, match="holds no MFState"):
        MFState.load(tmp_path / f"run{suffix}")


def test_two_fits_do_not_share_checkpoints(tmp_path):
    """That of another fit is not replaced, however far it is."""
    one, other = (CheckpointWriter(tmp_path / "run.npz", MFState) for _ in range(2))
    path = one.write(make_factors(epoch=1))
    kept = path.read_bytes()
    with pytest.raises(InputError, match="is of another fit, which seems to run now"):
        other.write(make_factors(epoch=1))
    assert path.read_bytes() == kept
    one.write(make_factors(epoch=1))  # a step that is done again
    with pytest.raises(InputError, match="is of a later epoch than 0"):
        other.check_free(0)
