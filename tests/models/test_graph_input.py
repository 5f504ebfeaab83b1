"""Graphs, features and labels as other libraries have them."""

from __future__ import annotations

import warnings

import dask.array
import dask.dataframe
import networkx
import numpy as np
import pandas as pd
import pyarrow
import pytest
import scipy.sparse
import sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from test_graph_convolution import N, features, graph, labels, model, weights_of
from test_labels import looked_up
from test_samples_containers import in_pieces

import daskpart
from daskpart import GCNClassifier, LogisticRegression, MLPClassifier
from daskpart.errors import DaskpartWarning, InputError
from daskpart.models.graph_convolution.graph import read_graph
from daskpart.models.graph_convolution.targets import class_targets, number_targets


@pytest.mark.parametrize("weight", ["heavy", None])
def test_a_weight_of_networkx_that_is_no_number_is_named(weight):
    given = networkx.Graph([("a", "b"), ("b", "c", {"weight": weight})])
    with pytest.raises(InputError, match="the edge from 'b' to 'c' has the weight"):
        model().fit(None, [0, 1, 0], graph=given)


def test_weights_of_edges_that_are_text_are_called_edge_weights():
    edges = pd.DataFrame({"source": [0], "target": [1], "weight": ["heavy"]})
    with pytest.raises(InputError, match="edge weights of dtype"):
        model().fit(None, [0, 1], graph=edges)


_EDGE = st.tuples(
    st.integers(0, 4), st.integers(0, 4), st.sampled_from([None, -2, 0, 1, 1.5, True])
)


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(
        [networkx.Graph, networkx.DiGraph, networkx.MultiGraph, networkx.MultiDiGraph]
    ),
    edges=st.lists(_EDGE, max_size=10),
)
def test_edges_of_networkx_are_those_of_its_matrix_and_parallel_ones_are_told(kind, edges):
    given = kind()
    given.add_nodes_from(range(5))
    for source, target, weight in edges:
        given.add_edge(source, target, **({} if weight is None else {"weight": weight}))
    expected = networkx.to_scipy_sparse_array(given, dtype=float)
    alone = {
        (one, two) if given.is_directed() else frozenset((one, two)) for one, two in given.edges()
    }
    n_edges = given.number_of_edges()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = read_graph(given, None, None).adjacency
    np.testing.assert_array_equal(found.toarray(), expected.toarray())
    words = f"{n_edges - len(alone)} of {n_edges} edges repeat another"
    assert [str(each.message).startswith(words) for each in told] == [True] * (n_edges > len(alone))


@pytest.mark.parametrize(
    "none", [networkx.empty_graph(3), scipy.sparse.csr_array((3, 3)), [], np.empty((0, 2), int)]
)
def test_a_graph_without_edges_predicts_without_features(none, tmp_path):
    fitted = GCNClassifier(max_iter=2, n_ranks=2, transport="local").fit(
        None, [0, 1, 0], graph=none
    )
    found = fitted.predict()
    assert found.shape == (3,)
    fitted.save(tmp_path / "model")
    assert np.array_equal(GCNClassifier.load(tmp_path / "model").predict(), found)


def test_names_stay_where_there_are_no_edges():
    alone = networkx.empty_graph(["a", "b", "c"])
    assert model(max_iter=1).fit(None, [0, 1, 0], graph=alone).predict().index.tolist() == [*"abc"]


def test_features_that_the_dtype_does_not_hold_are_refused():
    """Infinite in float32, they made every answer NaN, and so the first class."""
    wide = features() * 1e39
    for X in (wide, scipy.sparse.csr_array(wide)):
        with pytest.raises(InputError, match=r"features go up to .* float32"):
            model(dtype="float32").fit(X, labels(), graph=graph())
    fitted = model(dtype="float32").fit(features(), labels(), graph=graph())
    with pytest.raises(InputError, match=r"features go up to .* float32"):
        fitted.predict(wide)


@pytest.mark.parametrize(("layer", "weight", "words"), [
    ("gin", 1e39, "edge weights go up to"), ("gcn", 1e308, "sums of edge weights"),
    ("sage", 1e308, "sums of edge weights"),
])  # fmt: skip
def test_weights_of_edges_that_overflow_are_refused(layer, weight, words):
    with pytest.raises(InputError, match=words):
        model(layer, dtype="float32").fit(features(), labels(), graph=abs(graph().sign()) * weight)


@pytest.mark.parametrize(("y", "words"), [
    ([1j, 2, 3], "Complex data not supported"),
    (np.array(["2020", "2021", "2022"], "M8[Y]"), "y holds times"),
])  # fmt: skip
def test_numbers_to_learn_are_real(y, words):
    with pytest.raises(InputError, match=words):
        number_targets(y)


@pytest.mark.parametrize("read", [class_targets, number_targets])
def test_a_table_without_columns_is_refused(read):
    with pytest.raises(InputError, match=r"y has shape \(5, 0\); give one label"):
        read(np.empty((5, 0)))


@pytest.mark.parametrize("read", [class_targets, number_targets])
@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_no_label_is_infinite(value, read):
    """Nor one among objects, as a list with None and a masked array are read."""
    plain = np.array([0.0, 1.0, value, 2.0])
    for y in (plain, [*plain, None], np.ma.array(plain, mask=[0, 0, 0, 1])):
        with pytest.raises(InputError, match="y contains infinity"):
            read(y)


@pytest.mark.parametrize("dtype", [float, object])
def test_whole_numbers_that_nan_made_floats_are_whole_again(dtype):
    """As those of a file of labels, some of which are then held out."""
    found = class_targets(np.array([1.0, np.nan, 0.0], dtype)).classes
    assert found.dtype == np.int64 and found.tolist() == [0, 1]


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=2, max_size=20))
def test_masked_labels_are_unlabelled(drawn):
    values = np.array([0, 1, *(value for value, _ in drawn)])
    hidden = np.array([False, False, *(hides for _, hides in drawn)])
    masked = np.ma.array(values, mask=hidden)
    found, known = class_targets(masked), class_targets(np.where(hidden, -1, values))
    assert np.array_equal(found.values, known.values)
    assert np.array_equal(found.labelled, ~hidden)
    numbers = number_targets(masked)
    assert np.array_equal(numbers.labelled, ~hidden)
    assert np.array_equal(numbers.values[~hidden, 0], values[~hidden])


@settings(max_examples=30, deadline=None)
@given(
    drawn=st.lists(st.lists(st.sampled_from([0, 1, None]), min_size=2, max_size=2), max_size=12),
    dtype=st.sampled_from(["Int64", "Float64", "boolean", "object"]),
)
def test_what_pandas_knows_as_missing_is_unlabelled(drawn, dtype):
    """Also in a table, which pandas then holds as objects, and where NA is no number."""
    table = pd.DataFrame([[0, 1], *drawn]).astype(dtype)
    plain = np.array(
        [[np.nan if pd.isna(label) else label for label in row] for row in table.values]
    )
    for read in (class_targets, number_targets):
        found, known = read(table), read(plain.astype(float))
        assert np.array_equal(found.labelled, known.labelled)
        assert np.array_equal(found.values, known.values)
    column = table[0].astype(object).where(table[0].notna(), pd.NA)
    known = number_targets(plain[:, 0].astype(float))
    assert np.array_equal(number_targets(column).labelled, known.labelled)
    assert np.array_equal(number_targets(column).values, known.values)


def test_a_table_of_texts_is_refused_and_rows_of_several_lengths():
    for table in (np.array([["a", "b"]] * N), pd.DataFrame([["a", "b"]] * N)):
        with pytest.raises(InputError, match="y has 2 columns, a class each, and holds what is no"):
            model().fit(features(), table, graph=graph())
    with pytest.raises(InputError, match="y is a list whose rows differ in length"):
        model().fit(features(), [None, *([[0, 1]] * (N - 1))], graph=graph())


def test_several_classes_may_be_sparse():
    table = np.random.default_rng(0).integers(0, 2, (N, 3))
    one, other = (
        model(max_iter=2).fit(features(), y, graph=graph())
        for y in (table, scipy.sparse.csr_array(table))
    )
    assert weights_of(one).tobytes() == weights_of(other).tobytes()


def test_columns_of_a_frame_name_several_classes():
    table = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (N, 3)), columns=["a", "c", "b"])
    fitted = model(max_iter=2).fit(features(), table, graph=graph())
    assert fitted.classes_.tolist() == ["a", "c", "b"]
    score = fitted.score(features(), table)
    assert fitted.score(features(), table[["b", "a", "c"]]) == score
    assert fitted.score(features(), table.to_numpy()) == score
    with pytest.raises(InputError, match=r"y has the columns \['a', 'c', 'z'\], the classes are"):
        fitted.score(features(), table.rename(columns={"b": "z"}))


@pytest.mark.parametrize("length", [1, 2, 3, 7])
def test_a_pair_of_arrays_is_no_list_of_two_edges(length):
    ends = np.arange(length)
    with pytest.raises(InputError, match=r"give np.stack\(\[dst, src\], axis=1\)"):
        model().fit(features(), labels(), graph=(ends, ends + 1))
    if length > 3:  # else each may be an edge
        with pytest.raises(InputError, match="no list of edges but a pair of arrays"):
            model().fit(features(), labels(), graph=[ends.tolist(), (ends + 1).tolist()])


def test_two_edges_between_nodes_that_are_tuples():
    edges = [((0, 0), (0, 1)), ((0, 1), (0, 2))]
    assert read_graph(networkx.Graph(edges), None, None).adjacency.shape == (3, 3)
    assert read_graph([(0, 1), (1, 2)], 3, None).adjacency.nnz == 2
    assert read_graph(((0, 1), (1, 2)), 3, None).adjacency.nnz == 2
    assert read_graph([np.array([0, 1]), np.array([1, 2])], 3, None).adjacency.nnz == 2


def test_a_row_that_is_missing_or_strange_is_named():
    given = networkx.path_graph(["a", "b", "c"])
    table = pd.DataFrame({"degree": [1.0, 2.0, 1.0]}, index=["c", "b", "a"])
    for index, words in (
        (["c", "b"], "features name 2 of the 3 vertices, and not 'a': give a row for each"),
        (["c", "b", "a", "b"], "features name 'b' more than once"),
        (["c", "b", "z"], r"name 'z', which is no vertex of the graph \(those are 'a', 'b', 'c' …"),
    ):
        with pytest.raises(InputError, match=words):
            model().fit(table.reindex(index).fillna(0.0), [0, 1, 0, 1][: len(index)], graph=given)
    edges = networkx.to_pandas_edgelist(given)
    with pytest.raises(InputError, match=r"edges name 'a', .*; vertices without a row: 1[.]"):
        model().fit(table.reindex(["c", "b"]), [0, 1], graph=edges)


@pytest.mark.parametrize("kind", ["read", "networkx", "table"])
@pytest.mark.parametrize("as_numbers", [False, True])
def test_rows_without_an_edge_are_vertices_of_every_graph_of_names(kind, as_numbers, tmp_path):
    """They were of a table of edges alone, and not of what `daskpart.read` makes of the same."""
    names = np.arange(7) + 10 if as_numbers else np.array([*"abcdefg"], object)
    edges = pd.DataFrame({"source": names[:5], "target": np.roll(names[:5], -1)})
    edges.to_csv(tmp_path / "edges.csv", index=False)
    graphs = {
        "read": daskpart.read(tmp_path / "edges.csv"),
        "networkx": networkx.from_pandas_edgelist(edges, create_using=networkx.DiGraph),
        "table": edges,
    }
    X = pd.DataFrame(np.random.default_rng(0).random((7, 3)), index=names).sample(
        frac=1, random_state=1
    )
    y = pd.Series(["x", "y"] * 3 + ["x"], index=names)
    fitted = model(random_state=0).fit(X, y, graph=graphs[kind])
    assert set(fitted.vertex_names_) == set(names)
    assert fitted.predict(X).index.tolist() == X.index.tolist()
    coefs = model().fit(X, y, graph=edges).coefs_
    fitted.set_coefs(coefs, classes=["x", "y"])
    expected = model().set_coefs(coefs, classes=["x", "y"]).predict_proba(X, graph=edges)
    found = fitted.predict_proba(X, graph=graphs[kind])
    np.testing.assert_allclose(found.loc[expected.index], expected, rtol=1e-5)
    more = pd.concat([X, X[:1].set_axis([99 if as_numbers else "new"])])
    with pytest.raises(InputError):  # a graph of a fit gets no vertex
        model().fit(X, y, graph=graphs[kind]).predict(more)


@pytest.mark.parametrize("kind", ["read", "networkx"])
@pytest.mark.parametrize("as_they_are", [True, False])
def test_rows_without_an_edge_are_vertices_of_a_graph_of_numbers(kind, as_they_are, tmp_path):
    """pandas' default index names them where all vertices of the graph are among its numbers."""
    edges = pd.DataFrame({"source": [0, 2, 4, 5], "target": [2, 4, 5, 0]})
    edges.to_csv(tmp_path / "edges.csv", index=False)
    read = daskpart.read(tmp_path / "edges.csv")
    of_nodes = networkx.from_pandas_edgelist(edges, create_using=networkx.DiGraph)
    X = pd.DataFrame(np.random.default_rng(0).random((7, 3)))
    y = pd.Series(["x", "y"] * 3 + ["x"])
    X = X if as_they_are else X.sample(frac=1, random_state=1)
    of_table = model().fit(X, y, graph=edges)
    given = {"read": read, "networkx": of_nodes}[kind]
    fitted = model().fit(X, y, graph=given)
    assert fitted.predict(X).index.tolist() == X.index.tolist()
    fitted.set_coefs(of_table.coefs_, classes=["x", "y"])
    found = fitted.predict_proba(X, graph=given)
    np.testing.assert_allclose(found, of_table.predict_proba(X), rtol=1e-5)


def test_nodes_of_networkx_that_count_from_0_are_as_others_beside_more_rows():
    """They were refused beside an index that says which rows they are."""
    ring, rng = networkx.cycle_graph(5), np.random.default_rng(0)
    X = pd.DataFrame(rng.random((7, 3)), index=rng.permutation(7))
    y = pd.Series([*"xyxyxyx"], index=X.index)
    found = [
        model(dropout=0.0, symmetrize=True).fit(X, y, graph=each)
        for each in (ring, networkx.Graph([*ring.edges][::-1]), [*ring.edges])
    ]
    for other in found[1:]:
        pd.testing.assert_frame_equal(found[0].predict_proba(X), other.predict_proba(X))
    with pytest.raises(InputError, match=r"the graph has 5 vertices, .* have 7 rows"):
        model().fit(X.to_numpy(), y.to_numpy(), graph=ring)


def test_labels_beside_edges_of_other_names_are_told():
    """One that is misspelt was a vertex for itself."""
    edges, y = [("a", "b"), ("b", "c")], pd.Series([0, 1, 0], index=["a", "b", "C"])
    with pytest.warns(DaskpartWarning, match="1 of 3 labels are of vertices .* such as 'C'"):
        fitted = model().fit(None, y, graph=edges)
    assert set(fitted.vertex_names_) == {*"abcC"}
    with warnings.catch_warnings(action="error"):
        model().fit(None, y[:2], graph=edges)


@pytest.mark.parametrize("names", ["abcdd", "abcc"])
def test_a_row_that_comes_twice_is_named(names):
    nodes = networkx.DiGraph([("a", "b"), ("b", "c")])
    X = pd.DataFrame(np.eye(len(names)), index=[*names])
    with pytest.raises(InputError, match=f"features name '{names[-1]}' more than once"):
        model().fit(X, pd.Series([0, 1, 0], index=[*"abc"]), graph=nodes)


def test_frames_of_other_libraries_than_pandas():
    """They have columns, too, but no index; a graph takes them as pandas', scikit-learn asks."""
    pyarrow = pytest.importorskip("pyarrow")
    broken = np.where(np.eye(N, 3, dtype=bool) & (np.arange(N) == 1)[:, None], np.nan, 1.0)
    for columns, of_graph, words in (
        ([*broken.T], "X contains NaN.* in row 1, column 'b'", r"X contains NaN.* X\[1, 1\]"),
        ([broken[:, 0], np.full(N, "red")], "column 'b' of X holds text", "X holds text"),
    ):
        table = pyarrow.table(columns, names=[*"abc"[: len(columns)]])
        with pytest.raises(InputError, match=of_graph):
            model().fit(table, labels(), graph=graph())
        with pytest.raises(InputError, match=words):
            LogisticRegression(n_ranks=1).fit(table, np.arange(N) % 2)
    several = np.random.default_rng(0).integers(0, 2, (N, 3))
    table = pyarrow.table([*several.T], names=["a", "b", "c"])
    assert model(max_iter=1).fit(features(), table, graph=graph()).classes_.tolist() == [*"abc"]
    for loss in ("several", "numbers"):  # `score` matches columns by name, as pandas' are
        fitted = model(loss=loss).fit(features(), table, graph=graph())
        turned = fitted.score(features(), table.select(["c", "a", "b"]))
        assert turned == fitted.score(features(), several)


def test_a_column_of_text_is_named():
    table = pd.DataFrame({"degree": np.arange(N) * 1.0, "colour": ["red"] * N})
    with pytest.raises(InputError, match="column 'colour' of X holds text, such as 'red'"):
        model().fit(table, labels(), graph=graph())
    table["colour"] = ["1", *["red"] * (N - 1)]
    with pytest.raises(InputError, match="column 'colour' of X holds text, such as 'red'"):
        model().fit(table, labels(), graph=graph())


@pytest.mark.parametrize("times", ["2024-05-01", "2024-05-01 12:00+02:00", np.timedelta64(3, "D")])
@pytest.mark.parametrize("beside", [{}, {"degree": np.arange(N) * 1.0}])
def test_a_column_of_times_is_named(beside, times):
    times = times if isinstance(times, np.timedelta64) else pd.Timestamp(times)
    table = pd.DataFrame({**beside, "joined": pd.Series([times] * N)})
    words = "column 'joined' of X holds times .*: features are numbers"
    classifier = LogisticRegression(n_ranks=1)
    for fit in (
        lambda: model().fit(table, labels(), graph=graph()),
        lambda: classifier.fit(table, np.arange(N) % 2),
        lambda: classifier.fit(np.eye(N)[:, : table.shape[1]], np.arange(N) % 2).predict(table),
    ):
        with pytest.raises(InputError, match=words):
            fit()


def test_an_array_of_times_is_refused():
    times = np.arange("2024-01-01", "2024-01-05", dtype="M8[D]").reshape(-1, 1)
    with pytest.raises(InputError, match=r"X holds times .datetime64\[D\]"):
        LogisticRegression(n_ranks=1).fit(times, [0, 1, 0, 1])
    lazy = dask.array.from_array(times, chunks=2)
    with pytest.raises(InputError, match="X holds times"):
        LogisticRegression(n_ranks=1).fit(lazy, [0, 1, 0, 1])
    frame = dask.dataframe.from_pandas(pd.DataFrame({"when": times[:, 0].astype("M8[s]")}), 2)
    with pytest.raises(InputError, match="column 'when' of X holds times"):
        LogisticRegression(n_ranks=1).fit(frame, [0, 1, 0, 1])


def test_the_warning_shows_where_nodes_are_out_of_order():
    ring = networkx.Graph([(0, 1), (1, 2), (2, 3), (3, 5), (5, 4)])
    with pytest.warns(DaskpartWarning, match="in the order … 2, 3, 5, 4 …"):
        model(max_iter=1).fit(None, [0, 1, 0, 1, 0, 1], graph=ring)


@pytest.mark.parametrize("classifier", [LogisticRegression(), MLPClassifier((4,)), GCNClassifier()])
def test_labels_that_are_texts_and_numbers_are_refused(classifier):
    y = np.array(["a", 1, "b", 1], dtype=object)
    of_graph = {"graph": [(0, 1), (1, 2)]} if isinstance(classifier, GCNClassifier) else {}
    with pytest.raises(InputError, match=r"several kinds, such as 1 \(int\), 'a' \(str\)"):
        classifier.fit(np.eye(4), y, **of_graph)


@pytest.mark.parametrize(
    "classifier", [LogisticRegression(solver="sgd"), MLPClassifier((4,)), GCNClassifier()]
)
@pytest.mark.parametrize(
    "texts", [np.array([*"abac"], np.dtypes.StringDType(na_object=None)), pyarrow.array([*"abac"])]
)
def test_labels_are_texts_of_any_type(classifier, texts):
    of_graph = {"graph": [(0, 1), (1, 3)]} if isinstance(classifier, GCNClassifier) else {}
    one = clone(classifier).set_params(max_iter=1, n_ranks=1, transport="local")
    other = clone(one).partial_fit(np.eye(4), [*"abac"], classes=[*"abc"], **of_graph)
    one.partial_fit(np.eye(4), texts, classes=np.unique(texts), **of_graph)
    assert one.classes_.tolist() == [*"abc"]
    answers = [each.predict(np.eye(4)).tolist() for each in (one, other)]
    assert answers[0] == answers[1]
    assert one.score(np.eye(4), texts) == other.score(np.eye(4), [*"abac"])
    assert one.fit(np.eye(4), texts, **of_graph).predict(np.eye(4)).tolist() == answers[1]


@pytest.mark.parametrize("classifier", [LogisticRegression(), MLPClassifier((4,))])
@pytest.mark.parametrize("dtype", ["S1", object])
def test_labels_of_bytes_are_refused(classifier, dtype):
    y = np.array([b"a", b"c", b"b", b"b"], dtype=dtype)
    with pytest.raises(InputError, match=r"neither texts nor numbers, such as b'a' \(bytes\)"):
        classifier.fit(np.eye(4), y)


@pytest.mark.parametrize("layer", ["gcn", "sage", "gin", "gat"])
@pytest.mark.parametrize("ways", [{}, {"first_product": "each"}, {"batch_size": 4}])
def test_without_features_is_with_the_identity(layer, ways):
    """Also where the first layer sends its inputs, so that they are dense."""
    if layer == "gat" and "first_product" in ways:
        pytest.skip("multiplies what is learned, in every epoch")
    options = {"hidden": (2 * N,), "layer_options": {}, "n_ranks": 2, **ways}
    one = model(layer, **options).fit(None, labels(), graph=graph())
    other = model(layer, **options).fit(np.eye(N), labels(), graph=graph())
    np.testing.assert_allclose(weights_of(one), weights_of(other), rtol=1e-9, atol=1e-12)


def test_whole_numbers_are_computed_in_the_dtype_that_is_asked_for():
    """2^24 + 1 is none of float32."""
    fitted = GCNClassifier((), dtype="float64").set_coefs(
        {"0.weight": np.array([[0.0, 1.0]]), "0.bias": np.array([0.0, -(2.0**24)])}
    )
    X = np.array([[2**24 + 1], [2**24 + 3]])
    np.testing.assert_array_equal(fitted.predict_proba(X), fitted.predict_proba(X.astype(float)))


def test_a_score_needs_a_fit():
    for loss in ("classes", "numbers"):
        with pytest.raises(NotFittedError):
            model(loss=loss).score(features(), labels(loss), graph=graph())


def test_features_in_any_container_give_the_same():
    X, own = features(), {"dropout": 0.4, "first_product": "each"}
    expected = model(**own).fit(scipy.sparse.csr_array(X), labels(), graph=graph())
    pieces = in_pieces(X, np.random.default_rng(0))
    for held in (pieces, sparse.DOK.from_numpy(X), sparse.GCXS.from_numpy(X)):
        found = model(**own).fit(held, labels(), graph=graph())
        np.testing.assert_allclose(weights_of(found), weights_of(expected), rtol=1e-9, atol=1e-12)
    filled = sparse.COO.from_numpy(X + 1, fill_value=1)
    with pytest.raises(InputError, match="X is a sparse array with fill value 1"):
        model().fit(filled, labels(), graph=graph())


def test_masked_features_and_masks_are_not_unmasked():
    hidden = np.arange(N) < 3
    X = np.ma.masked_array(features(), mask=np.outer(hidden, np.ones(features().shape[1])))
    with pytest.raises(InputError, match="features hold"):
        model().fit(X, labels(), graph=graph())
    fitted = model().fit(features(), labels(), graph=graph())
    with pytest.raises(InputError, match="features hold"):
        fitted.predict(X)
    mask = np.ma.masked_array(np.ones(N, bool), mask=hidden)
    with pytest.raises(InputError, match="mask hold 3 masked"):
        fitted.score(features(), labels(), mask=mask)
    with pytest.raises(InputError, match="sample weights hold 3 masked"):
        fitted.score(features(), labels(), sample_weight=mask)
    lazy = dask.array.from_array(mask)
    with pytest.raises(InputError, match="sample weights hold 3 masked"):
        fitted.score(features(), labels(), sample_weight=lazy)
    edges = np.ma.masked_array(np.array(graph().nonzero()).T, mask=False)
    edges[0, 1] = np.ma.masked
    with pytest.raises(InputError, match="edges hold 1 masked"):
        model().fit(features(), labels(), graph=edges)


def test_weights_of_a_score_that_cannot_be_are_refused():
    fitted = model(max_iter=1).fit(features(), labels(), graph=graph())
    for weight, words in (
        (np.zeros(N), "non-zero"),
        (np.ones(3), r"\(3,\)"),
        (np.full(N, np.nan), "NaN"),
        (np.arange(N) - 1.0, r"sample_weight\[0\] is -1"),
        (np.arange(N).astype("m8[s]"), "sample_weight holds times"),
    ):
        with pytest.raises(InputError, match=words):
            fitted.score(features(), labels(), sample_weight=weight)


@pytest.mark.parametrize(
    "kind",
    [
        sparse.COO.from_numpy,
        lambda y: y.astype(np.float16),
        lambda y: y.astype("m8[s]"),
    ],
)
def test_labels_of_odd_containers_and_dtypes_are_learnt_and_judged_by(kind):
    y = np.arange(N) % 3
    expected = model(max_iter=1).fit(features(), y, graph=graph())
    fitted = model(max_iter=1).fit(features(), kind(y), graph=graph())
    for one, other in zip(weights_of(fitted), weights_of(expected), strict=True):
        assert np.array_equal(one, other)
    assert fitted.score(features(), kind(y)) == expected.score(features(), y)


@pytest.mark.filterwarnings("ignore:.*that no edge names")
@settings(max_examples=60, deadline=None)
@given(
    edges=st.lists(
        st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd")),
        min_size=1,
        max_size=12,
        unique=True,
    ),
    kinds=st.tuples(*[st.sampled_from([object, "str", "category", "all categories"])] * 2),
    known=st.sampled_from([(None, None), ("dcba", None), (None, "cb")]),
)
def test_ends_of_edges_are_looked_up_once_a_text_in_whatever_column(edges, kinds, known):
    n, names, labelled = None, *(None if each is None else np.array([*each]) for each in known)
    expected = read_graph(edges, n, names, labelled=labelled)
    frame = pd.DataFrame(edges, columns=["source", "target"], dtype=object)
    for name, kind in zip(frame, kinds, strict=True):
        dtype = pd.CategoricalDtype([*"edcba"]) if kind == "all categories" else kind
        frame[name] = frame[name].astype(dtype)
    with pytest.MonkeyPatch.context() as patch:
        counts = looked_up(patch)
        found = read_graph(frame, n, names, labelled=labelled)
    assert (found.adjacency != expected.adjacency).nnz == 0
    assert found.names.tolist() == expected.names.tolist()
    if object not in kinds:
        assert max(counts, default=0) <= sum(frame.nunique())


def test_ends_of_edges_that_are_categories_are_told_by_what_they_are():
    edges = pd.DataFrame({"source": [0, 5, 5], "target": [1, 1, 5]}, dtype="category")
    with pytest.raises(InputError, match="3 ends of edges lie beyond the graph, such as vertex 5"):
        read_graph(edges, 3, None)
    edges = pd.DataFrame({"source": ["a", None], "target": ["b", "b"]}, dtype="category")
    with pytest.raises(InputError, match="an edge lacks its source or its target"):
        read_graph(edges, None, np.array(["a", "b"]))
