"""Kinds of targets: each formula against an independent form, and regression from end to end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit, log_softmax, softmax
from scipy.stats import binomtest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import f1_score, log_loss, mean_absolute_error, r2_score, root_mean_squared_error

import cge
from cge.errors import InputError
from cge.targets import MultiLabel, Regression, SingleLabel, Target, encode_target, restore_target
from tests.fixtures import TRUE_LABELS, labels_at, multilabel_targets, two_groups

RANDOM = np.random.default_rng(0)
SCORES = RANDOM.normal(size=(12, 3))
CLASSES = RANDOM.integers(3, size=12)
INDICATORS = (RANDOM.random((12, 3)) < 0.4).astype(np.int64)
VALUES = RANDOM.normal(5, 2, size=12)

SINGLE, MULTI = SingleLabel(np.array(["a", "b", "c"])), MultiLabel(np.array(["a", "b", "c"]))
NUMBERS = Regression(np.array(["value"]), float(VALUES.mean()), float(VALUES.std()))
CASES: list[tuple[Target, Any, Any]] = [
    (SINGLE, SCORES, CLASSES),
    (MULTI, SCORES, INDICATORS),
    (NUMBERS, SCORES[:, :1], VALUES),
]


def sigmoid_loss(scores: Any, targets: Any) -> Any:
    return -(targets * np.log(expit(scores)) + (1 - targets) * np.log(expit(-scores)))


def test_losses_are_cross_entropy_binary_cross_entropy_and_squared_error() -> None:
    expected = [
        -log_softmax(SCORES, axis=1)[np.arange(12), CLASSES].mean(),
        sigmoid_loss(SCORES, INDICATORS).sum(1).mean(),
        ((SCORES[:, 0] - (VALUES - VALUES.mean()) / VALUES.std()) ** 2).mean(),
    ]
    for (target, scores, labels), value in zip(CASES, expected, strict=True):
        loss = target.loss(torch.from_numpy(scores), torch.from_numpy(labels))
        assert loss.item() == pytest.approx(value, rel=1e-6)


def test_the_constant_loss_is_the_least_loss_of_a_constant() -> None:
    for target, scores, labels in CASES:
        constant = torch.zeros(1, scores.shape[1], dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.LBFGS([constant], max_iter=200, tolerance_grad=1e-12)
        true = torch.from_numpy(labels)

        def closure(
            target: Any = target, constant: Any = constant, optimizer: Any = optimizer, true: Any = true
        ) -> Any:
            optimizer.zero_grad()
            loss = target.loss(constant.expand(len(true), -1), true)
            loss.backward()
            return loss

        optimizer.step(closure)  # type: ignore[no-untyped-call]
        assert target.constant_loss(true) == pytest.approx(closure().item(), rel=1e-5)


def test_outputs_are_probabilities_or_values() -> None:
    for scores in (torch.from_numpy(SCORES), SCORES, 400 * SCORES):  # tensors in training, arrays in prediction
        np.testing.assert_allclose(SINGLE.outputs(scores), softmax(np.asarray(scores), axis=1), rtol=1e-13)
        np.testing.assert_allclose(MULTI.outputs(scores), expit(np.asarray(scores)), rtol=1e-13)
        values = np.asarray(NUMBERS.outputs(scores[:, :1]))[:, 0]
        np.testing.assert_allclose((values - VALUES.mean()) / VALUES.std(), scores[:, 0])


def test_scores_of_predicted_classes_by_hand() -> None:
    predicted = np.array([[1, 0, 0], [0, 1, 1]])
    assert MULTI.score_predictions(predicted, [["a", "b"], ["c"]]) == pytest.approx(2 * 2 / (3 + 3))
    assert MULTI.score_predictions(predicted, np.array([[0, 0, 1], [1, 0, 0]])) == 0
    assert SINGLE.score_predictions(np.array(["a", "b"]), ["a", "c"]) == 0.5
    assert MULTI.predict(np.array([[0.5, 0.6, 0.2]])).tolist() == [[0, 1, 0]]
    assert SINGLE.predict(np.array([[0.1, 0.6, 0.3]])).tolist() == ["b"]
    with pytest.raises(InputError, match="labels has the class 'z', which no training label has"):
        MULTI.score_predictions(predicted, [["a"], ["z"]])


def test_scores_are_accuracy_f1_and_r2() -> None:
    assert SINGLE.score(SCORES, CLASSES) == np.mean(SCORES.argmax(1) == CLASSES)
    top = np.zeros_like(INDICATORS)
    for row, count in enumerate(INDICATORS.sum(1)):
        top[row, np.argsort(-SCORES[row])[:count]] = 1
    assert MULTI.score(SCORES, INDICATORS) == pytest.approx(f1_score(INDICATORS, top, average="micro", zero_division=0))
    predicted = SCORES[:, 0] * VALUES.std() + VALUES.mean()
    assert NUMBERS.score(SCORES[:, :1], VALUES) == pytest.approx(r2_score(VALUES, predicted))
    assert NUMBERS.score_predictions(predicted, VALUES) == pytest.approx(r2_score(VALUES, predicted))


def test_scores_of_outputs_and_their_intervals() -> None:
    probabilities, matrix = softmax(SCORES, axis=1), np.eye(3, dtype=int)[CLASSES]
    correct = SCORES.argmax(1) == CLASSES
    assert SINGLE.score_outputs(probabilities, matrix) == correct.mean()
    wilson = binomtest(int(correct.sum()), 12).proportion_ci(0.95, "wilson")
    assert SINGLE.score_interval(probabilities, matrix) == pytest.approx((wilson.low, wilson.high))
    expected = {"macro_f1": f1_score(CLASSES, SCORES.argmax(1), average="macro")}
    expected["log_loss"] = log_loss(CLASSES, probabilities)
    assert SINGLE.other_scores(probabilities, matrix) == pytest.approx(expected)
    predicted, several = expit(SCORES) > 0.5, INDICATORS
    assert MULTI.score_outputs(expit(SCORES), several) == pytest.approx(f1_score(several, predicted, average="micro"))
    expected = {
        "macro_f1": f1_score(several, predicted, average="macro", zero_division=0),
        "log_loss": sigmoid_loss(SCORES, several).mean(),
    }
    assert MULTI.other_scores(expit(SCORES), several) == pytest.approx(expected)
    values = VALUES[:, None] + 0.3 * SCORES[:, :1]
    assert NUMBERS.score_outputs(values, VALUES[:, None]) == pytest.approx(r2_score(VALUES, values))
    expected = {"mae": mean_absolute_error(VALUES, values), "rmse": root_mean_squared_error(VALUES, values)}
    assert NUMBERS.other_scores(values, VALUES[:, None]) == pytest.approx(expected)
    for target, outputs, labels in ((MULTI, expit(SCORES), several), (NUMBERS, values, VALUES[:, None])):
        low, high = target.score_interval(outputs, labels)
        assert low < target.score_outputs(outputs, labels) < high


def test_predictions_as_rows_columns_and_texts() -> None:
    outputs = np.array([[0.7, 0.2, 0.1], [0.125, 0.25, 0.625]], np.float32)
    assert SINGLE.prediction_values(outputs) == {"class": ["a", "c"], "confidence": [0.7, 0.625]}
    assert SINGLE.prediction_texts(outputs) == {"class": ["a", "c"], "confidence": ["0.700", "0.625"]}
    assert list(SINGLE.probability_columns(outputs)) == ["a", "b", "c"]
    several = np.array([[0.7, 0.9, 0.1], [0.125, 0.25, 0.375]], np.float32)
    assert MULTI.prediction_values(several) == {"class": [["a", "b"], []], "confidence": [0.7, 0.625]}
    assert MULTI.prediction_texts(several)["class"] == ["a; b", "none"]
    assert MULTI.prediction_columns(several)["class"] == [["a", "b"], []]
    assert MULTI.prediction_columns(several, text=True)["class"] == ["a; b", ""]
    years = SingleLabel(np.array([1990, 2000, 2010]))
    assert years.prediction_columns(outputs)["class"].tolist() == [1990, 2010]
    assert years.prediction_columns(outputs, text=True)["class"] == ["1990", "2010"]
    values = np.array([[41.782753], [-3.0]], np.float32)
    assert NUMBERS.prediction_values(values) == {"value": [41.782753, -3.0]}  # no digits of float64
    assert NUMBERS.prediction_texts(values) == {"value": ["41.7828", "-3"]}
    assert NUMBERS.prediction_columns(values)["value"].tolist() == values[:, 0].tolist()
    assert NUMBERS.probability_columns(values) == {}
    assert (SINGLE.class_names, NUMBERS.class_names) == (["a", "b", "c"], None)


def test_labels_as_users_and_files_write_them() -> None:
    graph = two_groups()
    written = [
        (SINGLE, {0: "c", 3: "a"}),
        (MULTI, {0: ["a", "c"], 3: ["b"]}),
        (NUMBERS, {0: 1.5, 3: -2.0}),
    ]
    for target, y in written:
        codes = target.encode(graph, y, "y")
        nodes = np.flatnonzero(target.labeled(codes))
        assert dict(zip(nodes.tolist(), target.decode(codes[nodes]), strict=True)) == y
    codes = np.full(40, -1)
    codes[[0, 3]] = 1, 0
    assert SINGLE.encode_names(graph, codes, ["a", "c"], "f.csv")[[0, 3, 5]].tolist() == [2, 0, -1]
    assert NUMBERS.encode_names(graph, codes, ["4", "2.5"], "f.csv")[[0, 3]].tolist() == [2.5, 4]
    assert MULTI.encode_names(graph, np.eye(2, dtype=int)[[0, 1]], ["c", "a"], "f.csv").tolist() == [
        [0, 0, 1],
        [1, 0, 0],
    ]
    with pytest.raises(InputError, match=r"f\.csv has the class 'z', which is no class of the model"):
        SINGLE.encode_names(graph, codes, ["a", "z"], "f.csv")
    years = MultiLabel(np.array([1990, 2000]))
    assert years.class_named(["2000", "x"]) == [2000, "x"]
    assert years.class_index(np.int64(2000)) == 1
    with pytest.raises(InputError, match="there is no class 5; the classes are 1990, 2000"):
        years.class_index(5)
    with pytest.raises(InputError, match="a regression model has no classes"):
        NUMBERS.class_index("value")


def test_linear_models_are_those_of_scikit_learn() -> None:
    x, nodes = RANDOM.normal(size=(20, 4)), np.arange(12)
    logistic = LogisticRegression(C=2.0, max_iter=1000)
    expected = logistic.fit(x[:12], CLASSES).predict_proba(x)
    np.testing.assert_allclose(SINGLE.linear_outputs(x, nodes, CLASSES, 2.0), expected)
    columns = [logistic.fit(x[:12], column).predict_proba(x)[:, 1] for column in INDICATORS.T]
    np.testing.assert_allclose(MULTI.linear_outputs(x, nodes, INDICATORS, 2.0), np.transpose(columns))
    alike = INDICATORS.copy()
    alike[:, 1] = 1
    assert (MULTI.linear_outputs(x, nodes, alike, 2.0)[:, 1] == 1).all()
    ridge = Ridge(alpha=0.5).fit(x[:12], VALUES).predict(x)  # the scale of the labels does not matter
    np.testing.assert_allclose(NUMBERS.linear_outputs(x, nodes, VALUES, 2.0)[:, 0], ridge)


def test_mean_labels_of_neighbors() -> None:
    sums, count = np.array([[1.0, 3.0, 0.0], [0.0, 0.0, 0.0]]), np.array([[5.0], [0.0]])
    np.testing.assert_allclose(SINGLE.mean_labels(sums, count), [[0.25, 0.75, 0], [np.nan] * 3])
    np.testing.assert_allclose(MULTI.mean_labels(sums, count), [[0.2, 0.6, 0], [np.nan] * 3])
    np.testing.assert_allclose(NUMBERS.mean_labels(sums[:, :1] * 100, count), [[20.0], [np.nan]])


def test_groups_of_nodes_by_color() -> None:
    known = np.arange(100.0)[:, None]
    groups = NUMBERS.groups(known)
    assert groups.names == ["below 19.8", "19.8 to 39.6", "39.6 to 59.4", "59.4 to 79.2", "from 79.2"]
    assert groups.of_labels(known).sum(0).tolist() == [20] * 5
    assert groups.of_outputs(np.array([[-7.0], [19.8], [1000.0]])).tolist() == [0, 1, 4]
    assert groups.texts(np.array([[2.5], [np.nan]])) == ["2.5", ""]
    assert NUMBERS.groups(np.empty((0, 1))).of_outputs(known[:2]).tolist() == [0, 0]
    assert NUMBERS.groups(np.array([[7.0], [7.0]])).names == ["all values"]
    classes = SINGLE.groups(np.eye(3))
    assert (classes.names, classes.texts(SCORES)) == (["a", "b", "c"], None)
    assert np.array_equal(classes.of_outputs(SCORES), SCORES.argmax(1))


@pytest.mark.parametrize(
    ("values", "first", "digits"),
    [
        (40.71 + np.arange(50) * 1e-6, "below 40.71001", 7),
        (1.7e9 + np.arange(50), "below 1.70000001e+09", 9),
        (-1 - np.arange(50) * 2.0**-52, "below −1.000000000000009", 16),
    ],
)
def test_bounds_of_groups_have_as_many_digits_as_distinguish_them(values: Any, first: str, digits: int) -> None:
    groups = NUMBERS.groups(values[:, None])
    assert groups.names[0] == first
    assert len(set(groups.names)) == len(groups.names) == 5
    bounds = [float(name.split()[-1].replace("−", "-")) for name in groups.names]
    assert bounds[:4] == sorted(set(bounds[:4]))
    assert groups.texts(values[:1, None]) == [f"{values[0]:.{digits}g}".replace("-", "−")]


@pytest.mark.parametrize("values", [[0, 1], [0, 0, 1, 1], [0, 0, 0, 0, 0, 0, 1], [1, 2, 2, 2, 2, 9], [3], [0, 1, 2]])
def test_no_group_of_values_is_empty(values: Any) -> None:
    matrix = np.array(values, float)[:, None]
    groups = NUMBERS.groups(matrix)
    counts = groups.of_labels(matrix).sum(0)
    assert len(counts) == len(groups.names)
    assert counts.min() > 0
    assert counts.sum() == len(values)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", "b"], "labels must hold numbers, found 'a'"),
        ([1.0, float("nan")], "labels must hold a number for each node, found nan"),
        ([1.0, None], "labels must hold a number for each node, found None"),
        ([1.0, float("inf")], "labels must hold finite numbers"),
        ([[1.0], [2.0, 3.0]], "labels must hold numbers"),
        ([1.0], r"labels must have shape \(2,\), like the predictions, found shape \(1,\)"),
    ],
)
def test_scores_of_numbers_need_a_number_for_each_node(labels: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        NUMBERS.score_predictions(np.array([1.0, 2.0]), labels)
    assert NUMBERS.score_predictions(np.array([1.0, 2.0]), ["1", 3]) == pytest.approx(r2_score([1, 3], [1, 2]))


def test_propagated_labels_become_a_posterior_log_odds_or_a_weighted_mean() -> None:
    weights = RANDOM.random((4, 12))
    for target, _, labels in CASES:
        matrix = target.matrix(labels)
        sums, count = weights @ matrix, weights.sum(1, keepdims=True)
        reachable = np.array([[True], [True], [True], [False]])
        scores = target.label_scores(sums, count, reachable)
        assert not scores[3].any()
        share = sums[:3] / count[:3]
        if target is SINGLE:
            assert np.allclose(softmax(scores[:3], axis=1), 0.95 * share + 0.05 / 3, atol=1e-6)
        elif target is MULTI:
            assert np.allclose(expit(scores[:3]), 0.95 * share + 0.025, atol=1e-6)
        else:
            assert np.allclose(scores[:3, 0] * VALUES.std() + VALUES.mean(), share[:, 0], atol=1e-5)


def test_label_scores_are_sums_over_paths() -> None:
    weights = RANDOM.random((5, 12))
    for target, _, labels in CASES:
        matrix = target.matrix(labels)
        shares = weights / weights.sum(1, keepdims=True)
        scores = target.label_scores(weights @ matrix, weights.sum(1, keepdims=True), np.ones((5, 1), bool))
        values = target.label_values(matrix)
        parts = target.label_factors(shares @ values)[:, None] * shares[:, :, None] * values  # (nodes, paths, classes)
        np.testing.assert_allclose(parts.sum(1), scores, atol=2e-6)
        assert (target.label_factors(shares @ values) > 0).all()
    # Where the mean is zero, factors are the limits of log(C p) and of the log-odds.
    zero, near = np.zeros((1, 3)), np.full((1, 3), 1e-7)
    for target, slope in ((SINGLE, 0.95), (MULTI, 3.8), (NUMBERS, 1.0)):
        np.testing.assert_allclose(target.label_factors(zero), slope)
        np.testing.assert_allclose(target.label_factors(near), slope, rtol=1e-6)


def test_sharpening_raises_odds_to_a_power() -> None:
    mean = torch.tensor([[0.7, 0.2, 0.1], [0.4, 0.3, 0.3]])
    target, confident = SINGLE.consistency_target(mean, 0.5)
    power = mean.numpy() ** 2
    assert np.allclose(target, power / power.sum(1, keepdims=True), atol=1e-6)
    assert confident.tolist() == [1.0, 0.0]
    target, confident = MULTI.consistency_target(mean, 0.5)
    odds = (mean / (1 - mean)).numpy() ** 2
    assert np.allclose(target, odds / (1 + odds), atol=1e-5)
    assert confident.tolist() == [1.0, 1.0]


def test_labels_survive_the_matrix_and_the_folder() -> None:
    for target, _, labels in CASES:
        assert np.array_equal(target.from_matrix(target.matrix(labels)), labels)
        again = restore_target(target.metadata(), target.classes)
        assert type(again) is type(target)
        assert vars(again).keys() == vars(target).keys()
        assert not target.labeled(target.unlabeled(3)).any()


def test_the_form_of_the_labels_tells_the_kind() -> None:
    graph = two_groups()
    kinds = [
        type(encode_target(graph, y, "y")[1])
        for y in (TRUE_LABELS, multilabel_targets(), {0: "a", 25: "b"}, {0: ["a", "b"], 25: ["b"]})
    ]
    assert kinds == [SingleLabel, MultiLabel, SingleLabel, MultiLabel]
    assert isinstance(encode_target(graph, {0: 1.5, 25: 2}, "y", "regression")[1], Regression)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ({0: "much", 1: 2.0}, "y must hold numbers, found 'much'"),
        ({0: 2.0, 1: 2.0}, "y must hold at least two different numbers"),
        ([1.0, 2.0], "y must have one entry for each of 40 nodes, found 2"),
        ({0: float("inf"), 1: 2.0}, "y must hold finite numbers"),
        ({0: None, 1: float("nan")}, "y holds no labels"),
        ({99: 1.0, 1: 2.0}, "99"),
    ],
)
def test_labels_that_are_no_numbers_are_refused(y: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        cge.CGE(task="regression").fit(two_groups(), y)


def smooth_values(size: int = 200) -> tuple[cge.Graph, Any]:
    """A ring with chords, and a value that changes slowly along it; features are noise but for one."""
    random, position = np.random.default_rng(1), np.arange(size) / size
    edges = [(i, (i + k) % size) for i in range(size) for k in (1, 2, 3)]
    values = 40 + 10 * np.sin(2 * np.pi * position)
    features = np.c_[values + random.normal(0, 8, size), random.normal(size=(size, 3))]
    return cge.Graph.from_edges(edges, num_nodes=size, features=features), values


def fitted_regression(**settings: Any) -> tuple[cge.CGE, Any, Any]:
    graph, values = smooth_values()
    nodes = np.random.default_rng(0).permutation(len(values))
    train, validation, test = nodes[:40], nodes[40:90], nodes[90:]
    options = {"task": "regression", "training": {"max_epochs": 150}} | settings
    model = cge.CGE(**options).fit(graph, labels_of(values, train), labels_of(values, validation))
    return model, values, test


def labels_of(values: Any, nodes: Any) -> Any:
    labels = np.full(len(values), np.nan)
    labels[nodes] = values[nodes]
    return labels


def test_regression_predicts_new_values_better_than_the_features_do(tmp_path: Path) -> None:
    model, values, test = fitted_regression()
    design = np.c_[model.graph_.features, np.ones(len(values))]
    trained = model.fitted_.train.nodes
    linear = design @ np.linalg.lstsq(design[trained], values[trained], rcond=None)[0]
    assert model.score(test, values[test]) > max(0.8, r2_score(values[test], linear[test]) + 0.1)
    model.save(tmp_path / "model")
    assert cge.load(tmp_path / "model").predict().tobytes() == model.predict().tobytes()
    with pytest.raises(InputError, match="no probabilities; use predict"):
        model.predict_proba()


def test_the_scale_of_numbers_does_not_matter() -> None:
    graph, values = smooth_values()
    y = labels_of(values, np.arange(0, 200, 4))
    options: Any = {"task": "regression", "classifier": "mlp", "weighting": "degree", "training": {"max_epochs": 20}}
    predicted = cge.CGE(**options).fit(graph, y).predict()
    rescaled = cge.CGE(**options).fit(graph, y * 1e6 - 3e7).predict()
    assert np.allclose((rescaled + 3e7) / 1e6, predicted, rtol=1e-3)


def test_intervals_cover_about_as_many_values_as_they_say() -> None:
    model, values, test = fitted_regression()
    for level in (0.5, 0.9):
        low, high = model.predict_interval(test, level=level).T
        assert abs(np.mean((low <= values[test]) & (values[test] <= high)) - level) < 0.15
    errors = np.abs(model.fitted_.validation.probabilities - model.fitted_.validation.matrix)[:, 0]
    low, high = model.predict_interval(test[:1], level=0.9)[0]
    assert (high - low) / 2 == pytest.approx(np.sort(errors)[int(np.ceil(51 * 0.9)) - 1])
    with pytest.raises(InputError, match=r"50 validation labels give no interval of level 0\.999"):
        model.predict_interval(level=0.999)
    with pytest.raises(InputError, match="level must be a number between 0 and 1"):
        model.predict_interval(level=1.5)


def test_classes_have_no_intervals() -> None:
    model = cge.CGE("degree", classifier="mlp", training={"max_epochs": 2}).fit(two_groups(), labels_at([0, 1, 25, 26]))
    with pytest.raises(InputError, match="predict_interval needs task='regression'; use predict_proba"):
        model.predict_interval()


def test_explained_contributions_of_a_number_add_up() -> None:
    model, _, test = fitted_regression(weighting="degree", classifier="mlp", label_propagation=False)
    explanation = model.explain(int(test[0]), top=5)
    output = (model.predict([int(test[0])])[0] - model.fitted_.target.mean) / model.fitted_.target.std
    assert explanation.scores[0] == pytest.approx(output, rel=1e-4)


def test_the_consistency_loss_in_one_pass_is_that_of_any_target() -> None:
    """Loss and gradient of the kernel against automatic differentiation of the general form, in float64."""
    scores = 3 * torch.randn(40, 4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    gradients, losses = [], []
    for compute in (SINGLE.consistency, lambda *given: Target.consistency(SINGLE, *given)):
        point = scores.clone().requires_grad_()
        loss = 7 * compute(point, 0.3)
        loss.backward()
        losses.append(loss.item())
        gradients.append(point.grad)
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-14)
    _, confident = SINGLE.consistency_target(scores.softmax(2).mean(1), 0.3)
    assert 0 < confident.sum() < 40
    assert SINGLE.consistency(torch.zeros(5, 2, 3), 0.3).item() == 0  # no node is confident
