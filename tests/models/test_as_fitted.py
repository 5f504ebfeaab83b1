"""Parameters that are set behind a fit change nothing that the fitted model answers."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
import pytest
import sparse
from contract_models import EDGES, answers, labelled, labelled_graph, ratings, samples

import daskpart
from daskpart.models.cp.diagnostics import core_consistency

OF_RUN = {"n_ranks": 2, "transport": "local", "max_iter": 3}


def _graph(**options: Any) -> Any:
    X, y = labelled_graph()
    model = daskpart.GCNClassifier((4,), **options, **OF_RUN).fit(X, y, graph=EDGES)
    other = EDGES.tocsr()[::-1]
    return model, lambda model: [model.predict_proba(X, graph=other), model.transform(X)]


def _gat() -> Any:
    return _graph(layer="gat", layer_options={"heads": 2})


def _mlp() -> Any:
    X, y = labelled()
    model = daskpart.MLPClassifier((4,), **OF_RUN).fit(X, y)
    return model, lambda model: [model.predict_proba(X)]


def _mlp_of_numbers() -> Any:
    X, y = samples()
    return daskpart.MLPRegressor((4,), **OF_RUN).fit(X, y), lambda model: [model.predict(X)]


def _logistic() -> Any:
    X, y = labelled()
    model = daskpart.LogisticRegression(n_ranks=2, transport="local").fit(X, y)
    return model, lambda model: [model.predict_proba(X)]


def _mf() -> Any:
    (X,) = ratings()
    model = daskpart.MatrixFactorization(4, **OF_RUN).fit(X)
    return model, lambda model: [model.transform(X), model.transform(X).bias]


def _mf_that_scores() -> Any:
    (X,) = ratings()
    model = daskpart.MatrixFactorization(4, **OF_RUN).fit(X)
    return model, lambda model: [model.score(X), model.transform(X)]


def _mf_of_yes_and_no() -> Any:
    (X,) = answers()
    model = daskpart.MatrixFactorization(4, loss="logistic", **OF_RUN).fit(X)
    pairs = [(user, item) for user in range(5) for item in range(5)]

    def ask(model: Any) -> list[Any]:
        best = model.recommend(3, n=4)["score"]
        return [model.score(X), model.transform(X), model.predict(pairs), best]

    return model, ask


def _implicit() -> Any:
    (X,) = ratings()
    model = daskpart.ImplicitFactorization(4, **OF_RUN).fit(X)
    return model, lambda model: [model.transform(X)]


def _cp(**options: Any) -> Any:
    tensor = sparse.random((8, 7, 9), 0.4, random_state=0)
    fitted = daskpart.CPDecomposition(2, **options, **OF_RUN).fit(tensor[:, :, :6])
    new = tensor[:, :, 6:]

    def ask(model: Any) -> list[Any]:
        grown = copy(model).partial_fit(new, mode=2)
        return [
            *(model.transform(new, mode=2), model.score(tensor[:, :, :6])),
            *(core_consistency(tensor[:, :, :6], model), model.to_dataset().attrs["missing"]),
            *grown.state_.factors,
        ]

    return fitted, ask


def _cp_with_ridges() -> Any:
    return _cp(ridge={0: 0.5, 2: 2.0}, nonnegative=[0, 2])


def _cp_of_known_entries() -> Any:
    return _cp(missing="unknown", ridge=1e-3)


CASES = [
    *[(_cp, {name: value}) for name, value in
      {"ridge": 5.0, "nonnegative": True, "missing": "unknown"}.items()],
    (_cp_with_ridges, {"ridge": 0.0, "nonnegative": False}),
    (_cp_of_known_entries, {"missing": "zero"}),
    *[(_graph, {"activation": "tanh"}), (_graph, {"hidden": ()}), (_graph, {"layer": "sage"})],
    (_graph, {"symmetrize": True}),
    (_gat, {"layer_options": {"heads": 2, "negative_slope": 0.9}}),
    (_mlp, {"activation": "tanh"}),
    (_mlp_of_numbers, {"activation": "elu", "hidden_layer_sizes": 3}),
    (_logistic, {"multi_class": "ovr"}),
    *[(_mf, {name: value}) for name, value in
      {"regularization": 9.0, "biases": False, "nonnegative": True}.items()],
    (_mf_that_scores, {"loss": "bpr"}),
    *[(_mf_of_yes_and_no, {"loss": name}) for name in ("squared", "bpr")],
    *[(_implicit, {name: value}) for name, value in
      {"alpha": 40.0, "regularization": 9.0, "frequency_exponent": 1.0}.items()],
]  # fmt: skip


@pytest.mark.parametrize(("make", "changed"), CASES)
def test_a_fitted_model_answers_as_it_was_fitted(make, changed, tmp_path):
    model, ask = make()
    before = [np.asarray(answer) for answer in ask(model)]
    model.save(tmp_path / "model")
    for asked in (model, type(model).load(tmp_path / "model")):
        asked.set_params(**changed)
        for answer, wanted in zip(ask(asked), before, strict=True):
            np.testing.assert_array_equal(answer, wanted)
        assert {name: getattr(asked, name) for name in changed} == changed
    if make is not _mlp_of_numbers:
        return
    X, y = samples()
    alike = daskpart.MLPRegressor((4,), **OF_RUN).set_params(**changed).fit(X, y)
    for mine, theirs in zip(model.fit(X, y).coefs_, alike.coefs_, strict=True):
        np.testing.assert_array_equal(mine, theirs)  # they are of the next fit


def test_given_weights_answer_by_the_parameters_they_were_given_to():
    X, _ = labelled_graph()
    fitted, _ = _graph()
    model = daskpart.GCNClassifier((4,), **OF_RUN).set_coefs(fitted.coefs_)
    wanted = model.predict_proba(X, graph=EDGES)
    model.set_params(activation="tanh")
    np.testing.assert_array_equal(model.predict_proba(X, graph=EDGES), wanted)
