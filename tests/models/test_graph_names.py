"""What users give for vertices, by name or in an order: edges, rows, labels, masks and scores."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sparse
from test_graph_convolution import N, features, graph, labels, model, weights_of

import daskpart
from daskpart.errors import DaskpartWarning, InputError
from daskpart.models.graph_convolution.vertex_names import placed


def test_labels_are_matched_by_name():
    """In fit and score alike; vertices that a Series leaves out have no label."""
    import pandas as pd

    names = np.array([f"v{vertex}" for vertex in range(12)])
    ring = pd.DataFrame({"source": names, "target": np.roll(names, -1)})
    y = pd.Series(np.arange(12) // 6, index=names)
    model = daskpart.GCNClassifier(4, n_ranks=2, max_iter=60, symmetrize=True, dropout=0.0)
    model.fit(None, y, graph=ring)
    assert model.predict(None).to_dict() == y.to_dict()
    shuffled = y.sample(frac=1, random_state=0)
    assert model.score(None, y) == model.score(None, shuffled) == 1.0
    assert model.score(None, shuffled[:5]) == 1.0
    assert model.score(None, 1 - shuffled) == 0.0

    some = y.drop(["v3", "v9"])
    again = daskpart.GCNClassifier(4, n_ranks=2, max_iter=60, symmetrize=True, dropout=0.0)
    again.fit(None, some, graph=ring)
    assert sorted(again.vertex_names_) == sorted(names)
    assert again.predict(None)[names].tolist() == y.tolist()
    for wrong, message in (
        (pd.Series([0, 1], index=["v1", "w"]), "labels name 'w', which is no vertex of the graph"),
        (pd.Series([0, 1], index=["v1", "v1"]), "labels name 'v1' more than once"),
        ([0, 1], "2 labels for 12 vertices"),
    ):
        with pytest.raises(InputError, match=message):
            again.score(None, wrong)


def _ring(names):
    """A ring whose halves are two classes."""
    import pandas as pd

    return pd.DataFrame({"source": names, "target": np.roll(names, -1)})


def test_edges_as_a_list():
    edges = np.argwhere(graph().toarray() != 0)
    weights = graph().toarray()[tuple(edges.T)]
    plain = model().fit(features(), labels(), graph=graph())
    tuples = [(int(i), int(j), w) for (i, j), w in zip(edges, weights, strict=True)]
    attributes = [(i, j, {"weight": w}) for i, j, w in tuples]
    for given in (tuples, attributes, tuple(tuples)):
        fitted = model().fit(features(), labels(), graph=given)
        np.testing.assert_array_equal(weights_of(fitted), weights_of(plain))
    for wrong in ([(0, 1), (1, 2, 3.0)], [[0] * 9, [1] * 9], [0, 1, 2]):
        with pytest.raises(InputError, match="no list of edges"):
            model().fit(features(), labels(), graph=wrong)
    alone = model(max_iter=1).fit(features(), labels(), graph=[])
    assert alone.graph_ is None


@pytest.mark.parametrize("seed", range(3))
def test_symmetrize_keeps_edges_of_any_sign(seed):
    """Also one way, where the other is not there; one of weight 0 is one, as attention reads it."""
    edges = random_edges(seed)
    weights = {(i, j): w for i, j, w in edges}
    wanted = np.full((N, N), np.nan)  # where no edge is
    for i, j in weights:
        wanted[i, j] = wanted[j, i] = max(weights[i, j], weights.get((j, i), -np.inf))
    fitted = model("gin", symmetrize=True, max_iter=1).fit(features(), labels(), graph=edges)
    found, stored = np.full((N, N), np.nan), fitted.graph_.tocoo()
    found[stored.coords] = stored.data
    np.testing.assert_array_equal(found, wanted)


def random_edges(seed):
    random = np.random.default_rng(seed)
    pairs = np.unique(random.integers(0, 8, (40, 2)), axis=0).tolist()
    return [(i, j, float(random.integers(-3, 4))) for i, j in pairs]


@pytest.mark.parametrize(
    "columns",
    [("id", "source_id", "target_id"), ("Id", "From Node", "toNode"), ("time", "SRC", "dst_"),
     ("source", "target", "timestamp")],
)  # fmt: skip
def test_columns_of_edges_have_the_names_of_files(columns):
    edges = np.argwhere(graph().toarray() != 0)
    plain = model(max_iter=1).fit(features(), labels(), graph=edges)
    other = np.arange(len(edges)) + 100
    at = 2 if columns[0] == "source" else 0
    frame = pd.DataFrame(np.insert(edges, at, other, axis=1), columns=columns)
    fitted = model(max_iter=1).fit(features(), labels(), graph=frame)
    np.testing.assert_array_equal(weights_of(fitted), weights_of(plain))


def test_columns_of_edges_that_say_another_order_are_refused():
    for columns in (("target", "source", "target_id"), ("weight", "a", "b"), tuple("abcd")):
        frame = pd.DataFrame(np.zeros((2, len(columns)), int), columns=columns)
        with pytest.raises(InputError, match="the graph is a DataFrame with the columns"):
            model().fit(features(), labels(), graph=frame)


def test_a_table_of_all_pairs_is_told_how_to_become_edges():
    names = [f"v{i}" for i in range(N)]
    table = pd.DataFrame(graph().toarray(), index=names, columns=names)
    X, y = pd.DataFrame(features(), index=names), pd.Series(labels(), index=names)
    with pytest.raises(InputError, match=r"table\.stack\(\)\.loc\[lambda w: w != 0\]\.reset_index"):
        model().fit(X, y, graph=table)
    fitted = model().fit(X, y, graph=table.stack().loc[lambda w: w != 0].reset_index())
    expected = model().fit(X, y, graph=graph())
    np.testing.assert_array_equal(weights_of(fitted), weights_of(expected))


def test_a_weight_that_is_nan_is_told_with_the_names_of_its_ends():
    names = [f"v{i}" for i in range(N)]
    edges = pd.DataFrame({"source": names[:3], "target": names[1:4], "weight": [1, np.nan, 1]})
    X, y = pd.DataFrame(features(), index=names), pd.Series(labels(), index=names)
    with pytest.raises(InputError, match=r"at source 1 \(v1\), target 2 \(v2\)"):
        model().fit(X, y, graph=edges)


def test_rows_without_names_go_with_no_named_edges():
    """Nothing says which row is whose, so nothing is guessed."""
    import pandas as pd

    names = np.array([f"v{N - vertex:02d}" for vertex in range(N)])
    two = pd.Series([0, 1], ["v01", "v02"])
    for X, y in ((features(), labels()), (None, labels()), (features(), two)):
        with pytest.raises(InputError, match="nothing says which row is whose"):
            model().fit(X, y, graph=_ring(names))
    # numbers are places, and labels of some of them say which
    numbers = np.arange(N)
    some = pd.Series(np.arange(10) % 2, index=np.arange(10)[::-1] + 5)
    whole = np.full(N, -1)
    whole[some.index] = some
    fitted = model().fit(features(), some, graph=_ring(numbers))
    plain = model().fit(features(), whole, graph=_ring(numbers))
    np.testing.assert_array_equal(weights_of(fitted), weights_of(plain))


def test_nodes_of_networkx_in_any_order():
    networkx = pytest.importorskip("networkx")
    import pandas as pd

    order = np.random.default_rng(0).permutation(N)
    A = graph()
    made = networkx.from_scipy_sparse_array(A)
    shuffled = networkx.Graph()
    shuffled.add_nodes_from(order.tolist())
    shuffled.add_edges_from(made.edges(data=True))
    plain = model().fit(features(), labels(), graph=A)
    with pytest.warns(DaskpartWarning, match="are taken to go by number, from 0"):
        fitted = model().fit(features(), labels(), graph=shuffled)
    np.testing.assert_array_equal(weights_of(fitted), weights_of(plain))
    # with names no order matters
    X, y = pd.DataFrame(features()).iloc[order], pd.Series(labels())[order[::-1]]
    fitted = model().fit(X, y, graph=shuffled)
    np.testing.assert_array_equal(weights_of(fitted), weights_of(plain))
    assert fitted.score(X, y) == plain.score(features(), labels())


def test_nodes_of_a_grid_are_pairs(tmp_path):
    networkx = pytest.importorskip("networkx")
    grid = networkx.grid_2d_graph(5, 4)
    y = pd.Series({node: sum(node) % 2 for node in grid.nodes})
    y.index = y.index.to_flat_index()
    fitted = model().fit(None, y, graph=grid)
    fitted.save(tmp_path / "model")
    again = daskpart.GCNClassifier.load(tmp_path / "model")
    assert again.predict(None).equals(fitted.predict(None))
    assert fitted.predict(None).index.tolist() == list(grid.nodes)
    with pytest.raises(InputError, match="give it as graph=, and as X"):
        model().fit(grid, y)


def test_labels_and_masks_go_with_the_rows_of_features():
    """Also where the graph names its vertices in another order."""
    import pandas as pd
    import xarray as xr

    names = np.array([f"v{vertex:02d}" for vertex in range(N)])
    A = xr.DataArray(
        sparse.COO.from_scipy_sparse(graph()), coords={"a": names, "b": names}, dims=("a", "b")
    )
    order = np.random.default_rng(0).permutation(N)
    held, y = np.arange(N) % 3 == 0, labels()
    weight = np.random.default_rng(1).random(N)
    plain = model().fit(features(), y, graph=graph(), validation_mask=held)
    X = pd.DataFrame(features(), index=names).iloc[order]
    of_name = pd.Series(held, index=names)
    places = np.flatnonzero(held[order])
    for mask in (
        held[order],
        places,
        of_name[::-1],
        of_name[of_name],
        names[held],
        held[order] * 1,
        held[order].astype(object),
        of_name.astype("boolean")[::-1],
    ):
        fitted = model().fit(X, y[order], graph=A, validation_mask=mask)
        np.testing.assert_array_equal(weights_of(fitted), weights_of(plain))
        pd.testing.assert_series_equal(fitted.history_["loss"], plain.history_["loss"])
        assert fitted.score(X, y[order], weight[order], mask=mask) == pytest.approx(
            plain.score(features(), y, weight, mask=held), rel=1e-12
        )


@pytest.mark.parametrize("lacking", [None, pd.NA, np.nan])
def test_a_mask_that_lacks_a_value_is_refused_as_such(lacking):
    """Its booleans were taken for names of vertices."""
    names = np.array([f"v{vertex:02d}" for vertex in range(12)])
    y = pd.Series(np.arange(12) % 2, index=names)
    mask = np.array([lacking, *[True, False] * 5, True], object)
    for given in (mask, pd.Series(mask, index=names)):
        with pytest.raises(InputError, match="validation_mask lacks 1 of its values: give True"):
            daskpart.GCNClassifier(4, n_ranks=1).fit(
                None, y, graph=_ring(names), validation_mask=given
            )


def test_a_mask_of_no_names_chooses_nobody():
    names = np.array([f"v{vertex:02d}" for vertex in range(12)])
    y = pd.Series(np.arange(12) % 2, index=names)
    fitted = daskpart.GCNClassifier(4, n_ranks=1, max_iter=2).fit(None, y, graph=_ring(names))
    with pytest.raises(InputError, match="no labelled vertex is left to judge by"):
        fitted.score(None, y, mask=names[:0].astype(object))


def test_a_name_that_a_mask_has_twice_counts_once():
    """Those of the first two vertices, too, whose places are 0 and 1 as in a mask."""
    names = np.array([f"v{vertex:02d}" for vertex in range(12)])
    y = pd.Series(np.arange(12) % 2, index=names)
    fitted = daskpart.GCNClassifier(4, n_ranks=1, max_iter=2).fit(None, y, graph=_ring(names))
    once, twice = fitted.vertex_names_[:2], fitted.vertex_names_[[0, 1, 0]]
    assert fitted.score(None, y, mask=twice) == fitted.score(None, y, mask=once)


@pytest.mark.parametrize("kind", ["classes", "several", "numbers"])
def test_score_is_that_of_scikit_learn(kind):
    from sklearn.metrics import accuracy_score, r2_score

    X, y = features(), labels(kind)
    fitted = model(loss=kind).fit(X, y, graph=graph())
    known = y >= 0 if kind == "classes" else ~np.isnan(y.reshape(N, -1)).any(axis=1)
    random = np.random.default_rng(0)
    weight, order = random.random(N), random.permutation(N)
    named = (pd.Series if y.ndim == 1 else pd.DataFrame)(y).iloc[order]
    found, given = fitted.predict(X)[known], y[known]
    for chosen in (None, weight):
        each = None if chosen is None else chosen[known]
        measure = r2_score if kind == "numbers" else accuracy_score
        wanted = measure(given, found, sample_weight=each)
        assert fitted.score(X, y, chosen) == pytest.approx(wanted, rel=1e-12)
        turned = None if chosen is None else chosen[order]  # weights go with the labels
        assert fitted.score(X, named, turned) == pytest.approx(wanted, rel=1e-12)


def test_a_label_that_the_model_does_not_know_is_never_right():
    from sklearn.metrics import accuracy_score

    fitted = model().fit(features(), labels(), graph=graph())
    y = np.where(np.arange(N) < 5, 9, labels())
    found = fitted.predict(features())
    assert fitted.score(features(), y) == accuracy_score(y[y >= 0], found[y >= 0])
    with pytest.raises(InputError, match="label 'a' is out of range"):
        fitted.score(features(), ["a"] * N)


@pytest.mark.parametrize(
    "nothing",
    [{"mask": np.zeros(N, bool)}, {"mask": labels() < 0}, {"sample_weight": 1.0 * (labels() < 0)}],
)
def test_a_score_of_nothing_is_refused(nothing):
    fitted = model(max_iter=1).fit(features(), labels(), graph=graph())
    with pytest.raises(InputError, match="no labelled vertex is left to judge by"):
        fitted.score(features(), labels(), **nothing)


def test_one_class_is_none():
    """Above all where −1 was meant as the other."""
    with pytest.raises(InputError, match=r"one class only, 1: .* classes −1 and 1 as 0 and 1"):
        model().fit(features(), np.where(labels() > 0, 1, -1), graph=graph())


@pytest.mark.parametrize(
    "kind", ["NaN", "None", "list", "None among texts", "NaN in a list of texts", "categories"]
)
def test_values_that_say_unlabelled(kind):
    import pandas as pd

    y = labels()
    known = [None if label < 0 else label for label in y.tolist()]
    texts = [None if label is None else "abc"[label] for label in known]
    given = {
        "NaN": np.where(y < 0, np.nan, y),
        "None": np.array(known, object),
        "list": known,
        "None among texts": np.array(texts, object),
        "NaN in a list of texts": [np.nan if text is None else text for text in texts],
        "categories": pd.Series(pd.Categorical(texts)),
    }[kind]
    plain = model().fit(features(), y, graph=graph())
    fitted = model().fit(features(), given, graph=graph())
    np.testing.assert_array_equal(weights_of(fitted), weights_of(plain))
    assert fitted.score(features(), given) == plain.score(features(), y)


def test_texts_that_say_unlabelled():
    words = np.array(["a", "b", "c", "-1"])[labels()]
    fitted = model().fit(features(), words, graph=graph())
    assert fitted.classes_.tolist() == ["a", "b", "c"]
    plain = model().fit(features(), labels(), graph=graph())
    np.testing.assert_array_equal(weights_of(fitted), weights_of(plain))
    blank = np.where(words == "-1", "", words)
    assert fitted.score(features(), blank) == plain.score(features(), labels())


def test_widths_as_numpy_gives_them():
    fitted = model(hidden=np.int64(4), max_iter=1).fit(features(), labels(), graph=graph())
    assert fitted.transform(features()).shape == (N, 4)


def test_frames_of_dask_keep_their_names():
    """Features, labels, edges: as the same frames of pandas."""
    dask_frame = pytest.importorskip("dask.dataframe")
    names = [f"v{vertex}" for vertex in range(20)]
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 3)), index=names)
    y = pd.Series(np.arange(20) % 2, index=names)[::-1]
    edges = pd.DataFrame({"source": names, "target": np.roll(names, 1)})
    mask = pd.Series(np.arange(20) > 15, index=names)
    fits = []
    for kind in (lambda frame: frame, lambda frame: dask_frame.from_pandas(frame, 2, sort=False)):
        model = daskpart.GCNClassifier(max_iter=2, n_ranks=1, transport="local")
        model.fit(kind(X), kind(y), graph=kind(edges), validation_mask=kind(mask))
        score = model.score(kind(X), kind(y), mask=kind(mask))
        fits.append((model.predict_proba(kind(X)), model.transform(kind(X)), score))
    pd.testing.assert_frame_equal(fits[0][0], fits[1][0])
    pd.testing.assert_frame_equal(fits[0][1], fits[1][1])
    assert fits[0][2] == fits[1][2]


def _graphs_of_numbers():
    A = graph()
    coo = A.tocoo()
    yield A
    yield np.stack([*coo.coords, coo.data], axis=1)
    try:
        import networkx
    except ImportError:
        return
    yield networkx.from_scipy_sparse_array(A)


@pytest.mark.parametrize("kind", ["matrix", "edges", "networkx"])
def test_names_that_are_numbers_are_those_of_the_graph(kind):
    """In any order, of all vertices or of some, and beside pandas' default index."""
    given = dict(zip(["matrix", "edges", "networkx"], _graphs_of_numbers(), strict=False))
    if kind not in given:
        pytest.skip("networkx is not installed")
    A, order = given[kind], np.random.default_rng(0).permutation(N)
    X, y, held = pd.DataFrame(features()), pd.Series(labels()), pd.Series(np.arange(N) % 3 == 0)
    plain = model(dropout=0.0, n_ranks=1).fit(
        features(), labels(), graph=A, validation_mask=held.to_numpy()
    )
    score = plain.score(features(), labels(), mask=held.to_numpy())
    wanted = pd.Series(plain.predict(features()))
    some = y[y >= 0]
    cases = [
        (features(), y[order], held.to_numpy()),
        (features(), some[::-1], held[order]),
        (X, y[::-1], held[held]),
        (features(), labels(), held[order]),
    ]
    shuffled = [
        (X[::-1], y, held),
        (X.iloc[order], y, held[order]),
        (X.iloc[order], labels()[order], held.to_numpy()[order]),
        (X.iloc[order], y[order], held),
    ]
    for of_X, of_y, mask in cases + shuffled:
        own = A  # row i of a matrix is that of X, whatever its name
        if kind == "matrix" and of_X is not X and isinstance(of_X, pd.DataFrame):
            own = A[of_X.index][:, of_X.index]
        fitted = model(dropout=0.0, n_ranks=1).fit(of_X, of_y, graph=own, validation_mask=mask)
        np.testing.assert_allclose(weights_of(fitted), weights_of(plain), rtol=1e-6, atol=1e-9)
        assert fitted.history_["validation_loss"].iloc[-1] == pytest.approx(
            plain.history_["validation_loss"].iloc[-1], rel=1e-7
        )
        assert pd.Series(fitted.predict(of_X)).sort_index().tolist() == wanted.tolist()
        assert fitted.score(of_X, of_y, mask=mask) == pytest.approx(score, rel=1e-12)
    for of_X, of_y, mask in cases:
        assert plain.score(of_X, of_y, mask=mask) == pytest.approx(score, rel=1e-12)


def test_the_first_vertices_may_be_the_labelled_ones():
    """Their index is pandas' default one, and names them where there is a graph."""
    y = labels()
    first = pd.Series(y[:25])
    for X, A in ((None, graph()), (features(), graph()), (pd.DataFrame(features()), graph())):
        plain = model().fit(X, pd.Series(np.where(np.arange(N) < 25, y, -1)), graph=A)
        fitted = model().fit(X, first, graph=A)
        np.testing.assert_array_equal(weights_of(fitted), weights_of(plain))
        assert fitted.score(X, first) == plain.score(X, first)


def test_an_index_with_a_number_twice_names_no_vertices():
    """As that of two tables of pandas, one behind the other: rows are in order."""
    for index, known in (([0, 1, 0, 1], False), ([0, 1, 2, 4], False), ([3, 1, 0, 2], True)):
        rows, n_rows = placed(np.array(index), None, None, 4, "labels")
        assert (rows is not None) == known and n_rows == 4


def test_a_default_index_beside_other_names_is_an_order():
    names = np.arange(N) + 100
    X, y = pd.DataFrame(features(), index=names), pd.Series(labels())
    plain = model().fit(features(), labels(), graph=graph())
    fitted = model().fit(X, y, graph=graph(), validation_mask=None)
    np.testing.assert_array_equal(weights_of(fitted), weights_of(plain))
    assert fitted.predict(X).index.tolist() == names.tolist()
    assert fitted.score(X, y) == plain.score(features(), y)
    with pytest.raises(InputError, match="39 labels for 40 vertices"):
        model().fit(X, y[:-1], graph=graph())
    with pytest.raises(InputError, match="labels name 40, which is no vertex"):
        model().fit(features(), pd.Series([0, 1, 1], index=[3, 40, 1]), graph=graph())


def test_without_a_graph_labels_name_the_rows_that_they_stand_beside():
    order = np.random.default_rng(0).permutation(N)
    y, held = pd.Series(labels(), index=order), pd.Series(np.arange(N) < 20, index=order)
    plain = model().fit(features(), labels(), validation_mask=held.to_numpy())
    fitted = model().fit(features(), y, validation_mask=held[::-1])
    np.testing.assert_array_equal(weights_of(fitted), weights_of(plain))
    score = plain.score(features(), labels(), mask=held.to_numpy())
    assert fitted.score(features(), y, mask=held[::-1]) == score
    rows = pd.DataFrame(features())  # which have names, by which y goes
    plain = model(dropout=0.0).fit(features(), pd.Series(labels(), index=order).sort_index())
    fitted = model(dropout=0.0).fit(rows, y)
    np.testing.assert_allclose(weights_of(fitted), weights_of(plain), rtol=1e-7, atol=1e-12)
    assert fitted.score(rows, y) == plain.score(features(), y.sort_index())


def test_columns_of_numbers_keep_their_names(tmp_path):
    """Predictions have them; `score` and `partial_fit` take them in any order, and no others."""
    names = [f"v{vertex}" for vertex in range(12)]
    y = pd.DataFrame({"depth": np.arange(12.0), "age": np.arange(12.0) ** 2}, index=names)
    model = daskpart.GCNRegressor(4, n_ranks=2, max_iter=5, symmetrize=True)
    model.fit(None, y, graph=_ring(np.array(names)))
    model.save(tmp_path / "model")
    for each in (model, daskpart.GCNRegressor.load(tmp_path / "model")):
        predicted = each.predict()
        assert predicted.columns.tolist() == ["depth", "age"]
        turned = y[["age", "depth"]]
        assert each.score(None, y) == each.score(None, turned) == each.score(None, y.to_numpy())
        with pytest.raises(InputError, match=r"y has the columns \['depth', 'years'\], those of"):
            each.score(None, y.rename(columns={"age": "years"}))
        with pytest.raises(InputError, match="y has 1 numbers a vertex, the model predicts 2"):
            each.score(None, y["age"])
    weights = {}
    for order in (y, turned):
        again = daskpart.GCNRegressor.load(tmp_path / "model")
        again.partial_fit(None, order, graph=_ring(np.array(names)))
        weights[order is y] = weights_of(again)
    np.testing.assert_array_equal(weights[True], weights[False])
    assert model.fit(None, y["age"], graph=_ring(np.array(names))).columns_ is None


def test_rows_named_by_number_go_by_number_without_the_graph_too():
    """What the fit took for vertices 0 to n − 1 is asked for in another order."""
    edges = np.argwhere(graph().toarray() != 0)
    by_edges = pd.DataFrame(edges, columns=["source", "target"])
    X, y = pd.DataFrame(features()), pd.Series(labels())
    mixed = X.sample(frac=1, random_state=0)
    for given in (by_edges, graph()):
        fitted = model().fit(X, y, graph=given)
        whole = np.asarray(fitted.predict(X))
        assert fitted.predict(mixed)[X.index].tolist() == whole.tolist()
        assert fitted.score(mixed, y) == fitted.score(X, y) == fitted.score(X.to_numpy(), y)


@pytest.mark.parametrize("by_text", [True, False])
def test_answers_are_in_the_order_of_the_rows_that_are_asked_for(by_text):
    """So they stand beside a `y` in that order, as of any estimator."""
    names = np.array([f"v{i}" for i in range(N)]) if by_text else np.arange(N)
    edges = pd.DataFrame(names[np.argwhere(graph().toarray() != 0)], columns=["source", "target"])
    X, y = pd.DataFrame(features(), index=names), pd.Series(labels(), index=names)
    mixed = X.sample(frac=1, random_state=0)
    for of_fit in (X, mixed):
        fitted = model().fit(of_fit, y, graph=edges)
        for method in (fitted.predict, fitted.predict_proba, fitted.transform):
            found, whole = method(mixed), np.asarray(method(X))
            assert found.index.tolist() == mixed.index.tolist()
            place = pd.Series(np.arange(N), index=names)[mixed.index]
            np.testing.assert_array_equal(np.asarray(found), whole[place])
        right = (np.asarray(fitted.predict(mixed)) == y[mixed.index])[y[mixed.index] >= 0]
        assert right.mean() == pytest.approx(fitted.score(mixed, y))
    numbers = daskpart.GCNRegressor(max_iter=2, n_ranks=1).fit(X, y.astype(float), graph=edges)
    np.testing.assert_array_equal(numbers.predict(mixed), np.asarray(numbers.predict(X))[place])


def test_large_names_of_two_types_stay_apart():
    """Unsigned beside signed numbers become floats in NumPy, which would be one vertex."""
    ids = 2**60 + np.arange(8)
    edges = pd.DataFrame({"source": ids[:4].astype(np.uint64), "target": ids[4:]})
    X, y = pd.DataFrame(np.eye(8), index=ids), pd.Series(np.arange(8) % 2, index=ids)
    fitted = daskpart.GCNClassifier(max_iter=1, n_ranks=1).fit(X, y, graph=edges)
    rows, columns = fitted.graph_.nonzero()
    assert rows.tolist() == [0, 1, 2, 3] and columns.tolist() == [4, 5, 6, 7]


@pytest.mark.parametrize(
    "nodes",
    [
        np.array([5, 2, 9, 1]),
        np.array([1.5, 0.5, 2.5, 3.5], np.float32),
        np.arange(4).astype("M8[D]")[::-1],
        [*pd.to_timedelta(np.arange(4), "h")],
        [*pd.date_range("2024", periods=4)[::-1]],
    ],
)
def test_a_model_of_nodes_of_numpy_and_pandas_is_saved_with_their_names(nodes, tmp_path):
    """Nodes of networkx are what NumPy's arrays gave, number by number, or pandas' times."""
    networkx = pytest.importorskip("networkx")
    nodes = list(nodes)
    ring = networkx.DiGraph(zip(nodes, [*nodes[1:], nodes[0]], strict=True))
    y = pd.Series([0, 1, 0, 1], index=nodes)
    fitted = daskpart.GCNClassifier(2, n_ranks=1, max_iter=1).fit(None, y, graph=ring)
    fitted.save(tmp_path / "model")
    loaded = daskpart.GCNClassifier.load(tmp_path / "model")
    pd.testing.assert_series_equal(loaded.predict(None), fitted.predict(None))
    assert loaded.score(None, y) == fitted.score(None, y)
