"""Whether a cut pays: weighed on prices, and in a plan on data with structure and without."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest
import scipy.sparse
import sparse
from sklearn.base import clone

import daskpart
from daskpart.errors import InputError
from daskpart.models.base import cutting
from daskpart.models.base.cutting import Cuts, weighed_cut
from daskpart.models.cp import cut as cp_cut


def cutter(**sent):
    """Cuts that send so many bytes a step; notes which were made."""
    made = []

    def cut(name):
        made.append(name)
        return name

    return Cuts(cut, lambda name: float(sent[name]), lambda: 10**6), made


@pytest.mark.parametrize(
    ("transport", "steps", "sent", "expected", "made"),
    [
        ("local", 10**6, {"block": 1e9}, "block", 1),  # nothing is sent there
        ("mpi", 1, {"block": 1e6}, "block", 1),  # a look would take longer
        ("mpi", 3, {"block": 1e9}, "block", 1),  # also than 0.75 s, the bytes of one of 4 ranks
        ("mpi", 1000, {"block": 1e9, "parsa": 0.99e9}, "block", 2),  # no structure
        ("mpi", 10, {"block": 1e9, "parsa": 1e8}, "parsa", 2),  # the rest is not worth it
        ("mpi", 120, {"block": 1e9, "parsa": 8e8}, "parsa", 2),  # 6 s for 8, of two bisections
        ("mpi", 10000, {"block": 1e9, "parsa": 5e8, "multilevel": 4e8}, "multilevel", 3),
        ("mpi", 10000, {"block": 1e9, "parsa": 5e8, "multilevel": 6e8}, "parsa", 3),
    ],
)
def test_no_more_is_cut_than_pays(transport, steps, sent, expected, made):
    cuts, names = cutter(**sent)
    found = weighed_cut(cuts, 4, steps, transport)
    assert (found.cut, found.name, len(names)) == (expected, expected, made)
    again, names = cutter()
    kept = weighed_cut(again, 4, 1, "local", found.name)  # a fit that goes on is cut as it was
    assert (kept.cut, kept.name, names) == (expected, expected, [expected])


def blocks_out_of_order(n_blocks=4, size=60):
    """Ratings in blocks, whose rows were shuffled: a cut finds them, the order of rows does not."""
    random = np.random.default_rng(0)
    block = scipy.sparse.coo_array(random.random((size, size)) < 0.3)
    blocks = scipy.sparse.block_diag([block] * n_blocks, "csr")
    return scipy.sparse.coo_array(blocks[random.permutation(n_blocks * size)].astype(float))


def test_a_plan_says_what_was_weighed():
    ratings = blocks_out_of_order()
    model = daskpart.MatrixFactorization(8, n_ranks=4, partitioner="auto", max_iter=10**5)
    local, over_dask = (model.plan(ratings, transport=name) for name in ("local", "dask"))
    assert local.partitioner.startswith("block (auto: over local")
    assert over_dask.partitioner.startswith(("parsa (auto: it", "multilevel (auto: it"))
    assert over_dask.report().volume < 0.5 * local.report().volume
    assert "block (auto: over" in repr(local.report())


def clusters_of_a_graph(n_clusters=4, size=40):
    """A graph of clusters whose vertices were shuffled."""
    random = np.random.default_rng(1)
    cluster = scipy.sparse.coo_array(random.random((size, size)) < 0.2)
    clusters = scipy.sparse.block_diag([cluster] * n_clusters, "csr")
    order = random.permutation(n_clusters * size)
    shuffled = clusters[order][:, order]
    return (shuffled + shuffled.T).astype(float)


def blocks_of_a_tensor():
    """Nonzeros in blocks, whose slices were shuffled."""
    ratings = blocks_out_of_order()
    third = np.random.default_rng(2).integers(0, 5, ratings.nnz)
    return sparse.COO([*ratings.coords, third], ratings.data, (*ratings.shape, 5))


def models():
    """Each kind of model that is cut, with what its plan is made of."""
    graph = clusters_of_a_graph()
    labels = np.arange(graph.shape[0]) % 2
    ratings, clicks, tensor = (
        blocks_out_of_order(), blocks_out_of_order(), blocks_of_a_tensor()
    )  # fmt: skip
    many = {"n_ranks": 4, "max_iter": 10**5}
    return {
        "factorization": (daskpart.MatrixFactorization(8, **many), (ratings,), {}),
        "implicit": (daskpart.ImplicitFactorization(8, **many), (clicks,), {}),
        "p2p": (daskpart.CPDecomposition(4, method="p2p", **many), (tensor,), {}),
        "emb": (daskpart.CPDecomposition(4, method="emb", **many), (tensor,), {}),
        "graph": (daskpart.GCNClassifier(**many), (None, labels), {"graph": graph}),
    }


@pytest.mark.parametrize("name", models())
def test_the_default_cuts_where_messages_cost(name):
    model, data, named = models()[name]
    local = model.plan(*data, transport="local", **named)
    assert local.partitioner == "block (auto: over local a cut saves no time)"
    assert local.weighed == "block" and local.seconds < 1.0
    for transport in ("dask", "mpi"):
        cut = model.plan(*data, transport=transport, **named)
        assert cut.weighed in ("parsa", "multilevel")
        assert cut.expected().rows.sum() < 0.8 * local.expected().rows.sum()
    assert cut.weighed in repr(cut.report())


@pytest.mark.parametrize(
    ("name", "options"),
    [*(("factorization", {"schedule": name, "eta": 2}) for name in ("pasgd", "dsgd", "gasgd")),
     ("implicit", {}), ("p2p", {}), ("graph", {})],
)  # fmt: skip
def test_the_bytes_that_are_weighed_are_those_of_the_rows_that_are_sent(name, options, monkeypatch):
    (model, data, named), weighed = models()[name], []

    def noted(cuts, *more):
        found = weighed_cut(cuts, *more)
        weighed.append(cuts.nbytes(found.cut))
        return found

    for place in (cutting, cp_cut):
        monkeypatch.setattr(place, "weighed_cut", noted)
    expected = model.set_params(**options).plan(*data, transport="local", **named).expected()
    sent = 8 * 4 * expected.rows.sum() if name == "p2p" else expected.nbytes  # or allreduces, too
    assert min(weighed) == pytest.approx(sent) and sent > 0


@pytest.mark.parametrize("name", models())
def test_a_saved_plan_keeps_what_was_weighed(name, tmp_path):
    model, data, named = models()[name]
    plan = model.plan(*data, transport="mpi", **named)
    plan.save(tmp_path / "plan.npz")
    again = model.load_plan(tmp_path / "plan.npz", *data, transport="local", **named)
    assert (again.weighed, again.partitioner) == (plan.weighed, plan.partitioner)
    assert again.expected().rows.tolist() == plan.expected().rows.tolist()


@pytest.mark.parametrize("name", models())
def test_a_fit_that_goes_on_is_cut_as_it_began(name, tmp_path, monkeypatch):
    """Also where more steps, or dearer messages, would have it cut otherwise."""
    model, data, named = models()[name]
    whole = clone(model).set_params(max_iter=4).fit(*data, **named)
    options = {"checkpoint_path": tmp_path / "fit"}
    clone(model).set_params(max_iter=2, **options).fit(*data, **named)
    monkeypatch.setitem(cutting.SECONDS_A_BYTE, "local", 1.0)
    assert model.plan(*data, **named).weighed != "block"
    goes_on = clone(model).set_params(max_iter=4, resume=True, **options)
    on_others = clone(goes_on).set_params(n_ranks=2).plan(*data, **named)
    assert on_others.weighed != "block"
    plan = goes_on.plan(*data, **named)  # of the checkpoint after 2 steps, which fit replaces
    for given in ({"plan": plan}, {}):
        resumed = clone(goes_on).fit(*data, **named, **given)
        assert "block (auto: as when the fit began)" in repr(resumed.plan_report_)
        assert resumed.n_iter_ == 4
        np.testing.assert_equal(resumed.state_.answers, whole.state_.answers)


def test_all_cuts_that_were_weighed_count_as_partitioning(monkeypatch):
    model, data, named = models()["p2p"]
    monkeypatch.setattr(cp_cut, "working_clock", count().__next__)  # a second each
    plan = model.plan(*data, transport="mpi", **named)
    assert plan.seconds == {"parsa": 2, "multilevel": 3}[plan.weighed]
    assert model.plan(*data, transport="local", **named).seconds == 1


@pytest.mark.parametrize("asked", [{"model": "fine-grain"}, {"epsilon": 0.5}, "medium-grain"])
def test_a_cut_that_serves_two_methods_is_made_once(monkeypatch, asked):
    made, nonzero_parts = [], cp_cut.nonzero_parts

    def noted(tensor, n_ranks, partitioner, **options):
        made.append(partitioner)
        return nonzero_parts(tensor, n_ranks, partitioner, **options)

    monkeypatch.setattr(cp_cut, "nonzero_parts", noted)
    matrix = scipy.sparse.random(40, 50, 0.2, random_state=0)
    for n_ranks in (3, 4):  # of 4 ranks the methods ask for different cuts, where none is named
        made.clear()
        daskpart.CPDecomposition(2, method="auto", n_ranks=n_ranks, partitioner=asked).plan(matrix)
        assert len(made) == (2 if n_ranks == 4 and asked == {"epsilon": 0.5} else 1)


def test_a_plan_names_weights_without_their_numbers():
    """They were a line for each dozen of vertices, in the middle of its title."""
    matrix, labelled = scipy.sparse.random(40, 50, 0.2, random_state=0), np.arange(40) < 8
    cut = {"further_weights": labelled, "epsilon": 0.1}
    plan = daskpart.MatrixFactorization(n_ranks=4, partitioner=cut).plan(matrix)
    assert plan.partitioner == "further_weights=…, epsilon=0.1"
    assert np.bincount(plan.partition.assignment[labelled]).tolist() == [2, 2, 2, 2]


def test_a_model_may_ask_for_an_epsilon_for_each_weight():
    matrix, labelled = scipy.sparse.random(40, 50, 0.2, random_state=0), np.arange(40) < 10
    cut = {"further_weights": labelled, "epsilon": (0.1, 1.0)}
    plan = daskpart.MatrixFactorization(n_ranks=4, partitioner=cut).plan(matrix)
    assert plan.partition.info["epsilon"] == [0.1, 1.0]
    assert plan.partition.imbalance <= 0.1
    assert np.bincount(plan.partition.assignment[labelled]).max() <= 5


def test_a_tensor_of_fewer_groups_than_ranks_is_cut_in_blocks():
    """It was refused in words of a cut that nobody had asked for."""
    tensor = sparse.random((2, 3, 2), nnz=12, random_state=0)
    model = daskpart.CPDecomposition(4, n_ranks=8, max_iter=10**5)
    with pytest.raises(InputError, match="'medium-grain' has 3 groups"):
        clone(model).set_params(partitioner="medium-grain").plan(tensor)
    assert model.plan(tensor, transport="graph").weighed == "block"
