"""What `CGE` and `PaperCGE` share: the contract of scikit-learn, settings, labels, and what a trained model has."""

from __future__ import annotations

import inspect
import pydoc
import re
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
import sklearn.exceptions
from sklearn.base import clone

import cge
from cge.estimators.configs import (
    OuterConfig,
    PaperOuterConfig,
    PaperTrainingConfig,
    TrainingConfig,
    flat_params,
    flat_settings,
    make_estimator,
)
from cge.estimators.estimator import NotFittedError
from cge.estimators.fitted_model import FittedModel
from cge.estimators.settings import Setting, settings_of
from cge.explain.explainer import Explainer
from cge.targets.label_encoding import encode_labels
from tests.fixtures import (
    GROUP_SIZE,
    SMALL_PAPER,
    TRUE_LABELS,
    ConstantWeighting,
    paper_cge,
    partial_labels,
    quick_cge,
    two_groups,
    used_vectors,
)

NODES = 2 * GROUP_SIZE
WEIGHTINGS = (
    "'auto', 'uniform', 'degree', 'cosine', 'relation-uniform', 'relation-degree', 'metapaths', 'relations', 'edges', "
    "'edges+hops', 'average', 'cnn', 'lstm'"
)
ESTIMATORS = pytest.mark.parametrize("kind", [cge.CGE, cge.PaperCGE])


def fast_cge() -> cge.CGE:
    """Return a path encoder without model search."""
    return quick_cge("degree", classifier="mlp", label_propagation=True)


@pytest.fixture(scope="module", params=["CGE", "PaperCGE"])
def fitted(request: pytest.FixtureRequest) -> Any:
    model: Any = (
        fast_cge()
        if request.param == "CGE"
        else paper_cge(weighting="average", **(SMALL_PAPER | {"outer_steps": None}))
    )
    return model.fit(two_groups(), partial_labels(), validation=partial_labels(TRUE_LABELS, 4))


# ---------------------------------------------------------------------- the contract of scikit-learn


@ESTIMATORS
def test_clone_parameters_and_text(kind: Any) -> None:
    model = kind(weighting="cnn", dim=7)
    assert clone(model).get_params() == model.get_params()
    assert set(model.get_params()) == set(settings_of(kind))
    assert model.set_params(walks_per_node=9).walks_per_node == 9
    assert repr(kind(dim=7)) == f"{kind.__name__}(dim=7)"
    assert clone(kind(weighting=ConstantWeighting)).weighting is ConstantWeighting


@ESTIMATORS
def test_before_fit(kind: Any) -> None:
    model = kind()
    calls: list[Any] = [model.predict, model.predict_proba, model.transform, model.compare_weighting]
    for call in (*calls, lambda: model.save("x"), lambda: model.explain(0), lambda: model.path_weights([[0]])):
        with pytest.raises(NotFittedError, match=f"this {kind.__name__} has not been trained yet; call fit first"):
            call()
    assert issubclass(NotFittedError, cge.CgeError)
    assert issubclass(NotFittedError, sklearn.exceptions.NotFittedError)
    assert not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize(
    ("bounds", "legal", "sentence"),
    [
        ({}, "an integer", "Of the size"),
        ({"low": 1}, "an integer of at least 1", "Of the size; at least 1"),
        ({"low": 1, "high": 9}, "an integer from 1 to 9", "Of the size; 1 to 9"),
        ({"above": 0}, "an integer above 0", "Of the size; above 0"),
        ({"above": 0, "high": 9}, "an integer above 0, at most 9", "Of the size; above 0, at most 9"),
        ({"low": 1, "also": (-1,)}, "an integer of at least 1, -1", "Of the size"),
    ],
)
def test_bounds_of_a_setting_in_words(bounds: dict[str, Any], legal: str, sentence: str) -> None:
    setting = Setting("of the size", **bounds)
    assert (setting.legal("int"), setting.sentence()) == (legal, sentence)


@pytest.mark.parametrize(("kind", "most"), [(cge.CGE, 18), (cge.PaperCGE, 22)])
def test_the_constructor_has_few_parameters_and_only_stores_them(kind: Any, most: int) -> None:
    assert len(inspect.signature(kind).parameters) <= most
    model = kind(weighting="nonsense", dim=-1, training={"nonsense": 1})
    assert vars(model).items() >= {"weighting": "nonsense", "dim": -1, "training": {"nonsense": 1}}.items()
    with pytest.raises(cge.CgeError, match=r"weighting must be one of .*, found 'nonsense'"):
        model.fit(two_groups(), partial_labels())


@pytest.mark.parametrize("kind", [cge.CGE, cge.PaperCGE, cge.DeepWalk, cge.Node2Vec])
def test_every_setting_is_documented(kind: Any) -> None:
    text = str(kind.__doc__)
    assert text.index("Parameters\n----------") < text.index("Attributes\n----------")
    for name, (_, setting, default) in settings_of(kind).items():
        start = text.index(f"\n{name} : ")
        entry = " ".join(text[start : text.index("\n\n", start)].split())
        assert f", default={default!r} {setting.sentence()}" in entry
        assert all(" ".join(f"- {value}".split()) in " ".join(text.split()) for value in setting.descriptions())
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize(
    ("kind", "signature"),
    [
        (
            cge.CGE,
            "CGE(weighting: str | Callable[[int], PathWeighting] = 'auto', dim: int | None = None, *, hops: int = 4,",
        ),
        (
            cge.PaperCGE,
            "PaperCGE(setting: str = 'transductive', weighting: str | Callable[[int], PathWeighting] = 'lstm'",
        ),
    ],
)
def test_help_shows_plain_types_and_no_metadata_requests(kind: Any, signature: str) -> None:
    text = pydoc.plain(pydoc.render_doc(kind))
    assert signature in text
    assert "_request(" not in text


def test_every_attribute_is_documented(fitted: Any) -> None:
    documented = re.findall(r"^(\w+_) : ", str(type(fitted).__doc__), re.MULTILINE)
    public = ["embedding_", *(name for name in vars(fitted) if name.endswith("_") and not name.startswith("_"))]
    assert sorted(documented) == sorted(public)


# ---------------------------------------------------------------------- settings and their groups


@pytest.mark.parametrize(
    ("name", "value", "legal"),
    [
        ("dim", 0, "an integer from 1 to 4096 or None"),
        ("hops", -1, "an integer from 0 to 100"),
        ("validation_fraction", 0.7, "a number from 0 to 0.5"),
        ("refit", "yes", "True or False"),
        ("class_weight", "equal", "'balanced' or None"),
        ("max_epochs", 0, "an integer of at least 1 or None"),
        ("learning_rate", 0.0, "a number above 0, at most 10 or None"),
        ("n_folds", 1, "an integer from 2 to 100"),
        (
            "weighting",
            "rnn",
            f"one of {WEIGHTINGS} or a callable",
        ),
    ],
)
def test_illegal_values_name_the_setting_and_what_is_legal(name: str, value: Any, legal: str) -> None:
    with pytest.raises(cge.CgeError) as caught:
        make_estimator(cge.CGE, {name: value}).fit(two_groups(), partial_labels())
    assert str(caught.value) == f"{name} must be {legal}, found {value!r}"
    assert (caught.value.parameter, caught.value.found, caught.value.expected) == (name, value, legal)


@pytest.mark.parametrize(
    ("kind", "group", "value", "message"),
    [
        (cge.CGE, "training", {"epochs": 5}, "training has no field 'epochs'; its fields are learning_rate, "),
        (cge.CGE, "training", {"max_epochs": 0}, "max_epochs must be an integer of at least 1 or None, found 0"),
        (cge.CGE, "training", TrainingConfig(patience=0), "patience must be an integer of at least 1, found 0"),
        (cge.CGE, "training", OuterConfig(), "training must be a TrainingConfig, a dict of its fields, or None, found"),
        (cge.CGE, "outer_problem", 3, "outer_problem must be an OuterConfig, a dict of its fields, or None, found 3"),
        (cge.CGE, "outer_problem", {"n_folds": 1.5}, "n_folds must be an integer from 2 to 100"),
        (cge.PaperCGE, "training", {"optimizer": "lbfgs"}, "optimizer must be one of 'auto', 'sgd', 'adam', 'adagrad'"),
        (cge.PaperCGE, "training", {"dropout": 0.5}, "training has no field 'dropout'; its fields are pretrain, "),
        (cge.PaperCGE, "outer_problem", {"virtual_lr": -1}, "virtual_lr must be a number from 0 to 1e+06"),
    ],
)
def test_illegal_groups_of_settings_name_the_field(kind: Any, group: str, value: Any, message: str) -> None:
    with pytest.raises(cge.CgeError, match=re.escape(message)):
        kind(**{group: value}).fit(two_groups(), partial_labels())


def test_a_group_is_an_object_or_a_dict() -> None:
    as_object = cge.CGE("degree", classifier="mlp", training=TrainingConfig(max_epochs=5), outer_problem=OuterConfig())
    as_dict = cge.CGE("degree", classifier="mlp", training={"max_epochs": 5}, outer_problem={})
    assert flat_params(as_object) == flat_params(as_dict)
    copies = clone(as_object), clone(as_dict)
    assert [copy.get_params() for copy in copies] == [as_object.get_params(), as_dict.get_params()]
    assert copies[1].training is not as_dict.training  # changes of the copy leave the original
    models = [model.fit(two_groups(), partial_labels()) for model in (as_object, as_dict)]
    assert [len(model.selection_history_) for model in models] == [5, 5]
    assert models[0].predict_proba().tobytes() == models[1].predict_proba().tobytes()
    assert clone(as_dict).set_params(training=None).training is None


def test_flat_names_lead_to_the_groups_and_back() -> None:
    for kind, training, outer in (
        (cge.CGE, TrainingConfig, OuterConfig),
        (cge.PaperCGE, PaperTrainingConfig, PaperOuterConfig),
    ):
        flat = flat_settings(kind)
        assert {name for name, setting in flat.items() if setting.group == "training"} == set(asdict(training()))
        assert {name for name, setting in flat.items() if setting.group == "outer_problem"} == set(asdict(outer()))
        assert {name for name, setting in flat.items() if setting.group is None} == set(settings_of(kind)) - {
            "training",
            "outer_problem",
        }
        assert flat_params(kind()) == {name: setting.default for name, setting in flat.items()}
        assert make_estimator(kind, flat_params(kind())).get_params() == kind().get_params()
        changed = kind(dim=9, training={"patience": 7}, outer_problem={"weighting_lr": 0.5})
        again = make_estimator(kind, flat_params(changed))
        assert flat_params(again) == flat_params(changed)
        assert (again.dim, again.training, again.outer_problem) == (9, training(patience=7), outer(weighting_lr=0.5))
        with pytest.raises(cge.CgeError, match=f"{kind.__name__} has no setting 'epochs'; it has "):
            make_estimator(kind, {"epochs": 3})


# ---------------------------------------------------------------------- trained models


def test_a_trained_model(fitted: Any) -> None:
    dim = 8 + 2 * fitted.label_propagation_ if isinstance(fitted, cge.CGE) else 16  # with the propagated labels
    vectors = used_vectors(fitted) if isinstance(fitted, cge.CGE) else fitted.embedding_
    assert vectors.shape == (NODES, dim)
    assert fitted.embedding_.dtype == np.float32
    assert fitted.classes_.tolist() == [0, 1]
    assert fitted.node_ids_.tolist() == list(range(NODES))
    probabilities = fitted.predict_proba()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    assert np.array_equal(fitted.predict(), fitted.classes_[probabilities.argmax(axis=1)])
    assert np.array_equal(fitted.predict([5, 2]), fitted.predict()[[5, 2]])
    assert fitted.score(fitted.node_ids_, TRUE_LABELS) > 0.9
    # Every third node is for training; every twelfth has both kinds of labels, and is for training too.
    assert fitted.labels_seen_["train"] == 14
    assert fitted.labels_seen_["validation"] == 6
    assert fitted.fit_call_ == {"command": "", "validation": True}


def test_a_trained_model_implements_the_protocol(fitted: Any) -> None:
    model: FittedModel = fitted.fitted_
    members = [name for name in [*vars(FittedModel), *FittedModel.__annotations__] if not name.startswith("_")]
    assert len(members) == 28
    assert [name for name in members if not hasattr(model, name)] == []
    assert model.graph is fitted.graph_
    assert (model.target.multilabel, model.weighting_name) == (False, fitted.weighting_)
    assert model.train.nodes.tolist() == np.flatnonzero(partial_labels() >= 0).tolist()
    assert np.array_equal(model.train.matrix.argmax(axis=1), TRUE_LABELS[model.train.nodes])
    validation = model.validation
    assert np.array_equal(validation.matrix.argmax(axis=1), TRUE_LABELS[validation.nodes])
    np.testing.assert_allclose(validation.probabilities, fitted.predict_proba(validation.nodes), atol=1e-6)
    assert model.vectors() is fitted.embedding_
    rows = np.array([3, 1])
    assert np.array_equal(model.probabilities(None, rows), fitted.predict_proba(rows))
    assert np.array_equal(model.path_weights([np.array([0, 1])]), fitted.path_weights([[0, 1]]))
    assert isinstance(model.explainer(0, 0), Explainer)
    assert model.temperature > 0
    assert model.inductive == model.exact == isinstance(fitted, cge.CGE)
    assert (model.weighting_selected, model.gain_over_uniform) == (False, None)
    assert model.log.labels_seen is fitted.labels_seen_


def test_vectors_by_id(fitted: Any) -> None:
    assert np.array_equal(fitted.transform([7, 3]), fitted.embedding_[[7, 3]])
    assert fitted.transform() is fitted.transform(fitted.graph_) is fitted.embedding_
    with pytest.raises(cge.CgeError, match="node 99 is not in the graph"):
        fitted.transform([99])


def test_weights_of_paths(fitted: Any) -> None:
    weights = fitted.path_weights([[0, 1, 2], [0, 1], [5]])
    assert weights.shape == (3,)
    assert (weights > 0).all()
    assert fitted.path_weights([[0, 1]])[0] == weights[1]
    assert fitted.path_weights([]).shape == (0,)
    with pytest.raises(cge.CgeError, match="node 99 in paths is not in the graph"):
        fitted.path_weights([[0, 99]])
    with pytest.raises(cge.CgeError, match="a path needs at least one node, found an empty one"):
        fitted.path_weights([[0], []])


def test_wrong_scores_and_classes(fitted: Any) -> None:
    with pytest.raises(cge.CgeError, match=r"labels must have shape \(2,\), like the predictions, found shape \(3,\)"):
        fitted.score([0, 1], [0, 0, 1])
    with pytest.raises(cge.CgeError, match="there is no class 'x'; the classes are 0, 1"):
        fitted.explain(0, target_class="x")


# ---------------------------------------------------------------------- labels


def test_labels_in_every_form_train_the_same_model() -> None:
    graph, labeled = two_groups(), np.arange(NODES) % 3 == 0
    names = np.array(["ape", "bee"])[TRUE_LABELS]
    as_numbers = fast_cge().fit(graph, partial_labels())
    forms: list[Any] = [
        {int(node): str(names[node]) for node in np.flatnonzero(labeled)},
        np.where(labeled, names.astype(object), None),
        [str(names[node]) if labeled[node] else -1 for node in range(NODES)],
        {int(node): TRUE_LABELS[node] for node in np.flatnonzero(labeled)},
        np.where(labeled, TRUE_LABELS, np.nan),
    ]
    for form in forms:
        model = fast_cge().fit(graph, form)
        assert np.array_equal(model.embedding_, as_numbers.embedding_)
        assert np.array_equal(np.searchsorted(model.classes_, model.predict()), as_numbers.predict())


def test_a_column_with_an_index_goes_by_it() -> None:
    pandas = pytest.importorskip("pandas")
    graph, codes = two_groups(), partial_labels()
    labels = {node: int(TRUE_LABELS[node]) for node in range(0, NODES, 3)}
    column = pandas.Series(labels)
    expected, classes = encode_labels(graph, labels, "y")
    assert np.array_equal(expected, codes)
    for y in (column, column.iloc[::-1], pandas.Series(codes), pandas.Series(codes).iloc[::-1]):
        encoded, names = encode_labels(graph, y, "y")
        assert np.array_equal(encoded, expected)
        assert np.array_equal(names, classes)


def test_a_table_is_refused_with_a_hint() -> None:
    pandas = pytest.importorskip("pandas")
    graph = cge.Graph.from_edges([("a", "b"), ("b", "c"), ("c", "d")])
    table = pandas.DataFrame({"node": ["a", "d"], "label": ["x", "y"]})
    with pytest.raises(cge.CgeError, match=r"y has 2 rows for 4 nodes; .* table.set_index\('node'\)\['label'\]"):
        cge.CGE().fit(graph, table)
    model = cge.CGE(training={"max_epochs": 2}).fit(graph, table.set_index("node")["label"])
    with pytest.raises(cge.CgeError, match=r"found a table; pass its column of ids, such as table\['node'\]"):
        model.predict(table[["node"]])
    assert len(model.predict(table["node"])) == 2


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.full(40, -1), "y holds no labels; label some nodes, or use cge.DeepWalk, which needs none"),
        ({}, "y holds no labels; label some nodes, or use cge.DeepWalk, which needs none"),
        ({0: "a", 1: "a"}, "y must hold at least two classes, found only 'a'"),
        ({0: "a", 99: "b"}, "node 99 in y is not in the graph"),
        ({0: "a", 1: 7}, "y must hold classes of one kind, strings or numbers; found int and str"),
        ([0, 1], r"y must have one entry for each of 40 nodes, found \(2,\)"),
        (np.full((40, 2), 2), "y with several columns must be zeros and ones, found"),
        (np.ones((3, 2)), r"y must have shape \(40, 2\), found shape \(3, 2\)"),
        ("cat", "y must be {node id: label}, one label for each node, or"),
    ],
)
@ESTIMATORS
def test_wrong_labels_are_refused(kind: Any, labels: Any, message: str) -> None:
    with pytest.raises(cge.CgeError, match=message):
        kind().fit(two_groups(), labels)


@ESTIMATORS
def test_validation_labels_must_fit_the_training_labels(kind: Any) -> None:
    with pytest.raises(cge.CgeError, match="validation has the class 5, which no training label has"):
        kind().fit(two_groups(), partial_labels(), {1: 5})
    with pytest.raises(cge.CgeError, match="y and validation must have the same form"):
        kind().fit(two_groups(), partial_labels(), np.ones((40, 2)))
    with pytest.raises(cge.CgeError, match="every node of validation also has a label in y, so no validation labels"):
        kind().fit(two_groups(), partial_labels(), partial_labels())


@ESTIMATORS
def test_graphs_without_nodes_or_edges_are_refused(kind: Any) -> None:
    for nodes in (0, 3):
        graph = cge.Graph.from_edges(np.empty((0, 2), int), num_nodes=nodes)
        with pytest.raises(cge.CgeError, match="the graph has no edges, so there are no paths to learn from"):
            kind().fit(graph, [0, 1, -1][:nodes])
    with pytest.raises(cge.CgeError, match=r"fit takes a cge.Graph, found a list; build a graph with Graph.from_edges"):
        kind().fit([(0, 1)], [0, 1])
