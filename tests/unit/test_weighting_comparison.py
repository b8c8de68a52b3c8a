"""The comparison of a path weighting with uniform weights, against counts and trainings done by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score

import cge
from cge.explain.weighting_comparison import Gain, WeightingComparison
from cge.targets import MultiLabel, Regression, SingleLabel
from cge.training.candidate_evaluation import CandidateEvaluator
from tests.fixtures import (
    PLANTED_NODES,
    TRUE_LABELS,
    labels_at,
    multilabel_targets,
    paper_cge,
    partial_labels,
    planted_task,
    quick_cge,
    two_groups,
    with_sparse_features,
)

SINGLE = SingleLabel(np.arange(2))
EDGES_AND_HOPS: dict[str, Any] = {
    "weighting": "edges+hops",
    "effective_fraction": 0.4,
    "weight_by_hop": (1.0, 2.0),
    "contribution_by_hop": (0.5, -0.25),
    "nearly_uniform": False,
    "collapsed": False,
}


def fit_quick(weighting: str, **settings: Any) -> cge.CGE:
    model = quick_cge(weighting, **settings)
    return model.fit(with_sparse_features(two_groups()), partial_labels(), partial_labels(TRUE_LABELS, 4))


# ---------------------------------------------------------------------- the gain and its interval


def agresti_min(both: int, first: int, second: int, neither: int) -> tuple[float, float]:
    """Return the interval of the difference of two proportions of the same nodes, from the four counts."""
    table = np.array([[both, first], [second, neither]]) + 0.5
    shares = table / table.sum()
    difference = shares[0, 1] - shares[1, 0]
    error = np.sqrt((shares[0, 1] + shares[1, 0] - difference**2) / table.sum())
    return difference - 1.959963985 * error, difference + 1.959963985 * error


def test_a_gain_has_the_interval_of_agresti_and_min() -> None:
    correct, baseline = np.array([1, 1, 1, 0, 1]), np.array([1, 0, 0, 0, 1])
    gain = Gain.between(correct, baseline, SINGLE)  # differences 0, 1, 1, 0, 0
    assert gain is not None
    assert (gain.mean, gain.low, gain.high) == pytest.approx((0.4, *agresti_min(2, 2, 0, 1)), rel=1e-6)
    assert (gain.low, gain.high) == pytest.approx((-0.150629, 0.722058), abs=1e-5)  # 2/7 ± 1.96 · √(3 − 4/7) / 7
    assert str(gain) == (
        "40.0 percentage points more accurate than uniform weights on 5 labels "
        "(95 % confidence interval of the difference: −15.1 to +72.2 percentage points, which includes 0)"
    )
    assert "40.0 percentage points less accurate than uniform weights" in str(Gain.between(baseline, correct, SINGLE))
    significant = Gain(0.02, 0.01, 0.03, 9)
    assert str(significant) == (
        "2.0 percentage points more accurate than uniform weights on 9 labels "
        "(95 % confidence interval of the difference: +1.0 to +3.0 percentage points)"
    )
    assert Gain.between(correct[:1], baseline[:1], SINGLE) is None
    assert Gain.from_mean(0.0, float("inf"), 1, SINGLE) is None


def test_the_interval_has_a_width_where_both_are_correct_on_the_same_nodes() -> None:
    correct = np.array([1] * 30 + [0] * 10)
    gain = Gain.between(correct, correct, SINGLE)
    assert gain is not None
    assert (gain.mean, gain.low, gain.high) == pytest.approx((0.0, *agresti_min(30, 0, 0, 10)), rel=1e-6)
    assert gain.low < -0.02
    assert str(gain).startswith("as accurate as uniform weights on 40 labels")
    all_better = Gain.between(np.ones(3), np.zeros(3), SINGLE)
    assert all_better is not None
    assert (all_better.mean, all_better.high) == (1.0, 1.0)  # no gain is above one
    assert all_better.low == pytest.approx(agresti_min(0, 3, 0, 0)[0])
    wide, narrow = (Gain.between(np.tile([1, 1, 0], n), np.tile([1, 0, 0], n), SINGLE) for n in (10, 1000))
    assert narrow is not None
    assert wide is not None
    assert wide.low < narrow.low < 1 / 3 < narrow.high < wide.high


def test_a_gain_in_r2_has_a_normal_interval_and_no_percentages() -> None:
    random, target = np.random.default_rng(0), Regression(np.array(["value"]))
    own, uniform = 1 - random.normal(size=(2, 50)) ** 2
    gain = Gain.between(own, uniform, target)
    assert gain is not None
    error = np.std(own - uniform, ddof=1) / np.sqrt(50)
    assert (gain.low, gain.high) == pytest.approx((own - uniform).mean() + 1.959963985 * error * np.array([-1, 1]))
    assert str(Gain(-0.04, -1.2, 1.12, 50, texts=target.texts)) == (
        "0.040 worse in R² than uniform weights on 50 labels "
        "(95 % confidence interval of the difference: −1.200 to +1.120, which includes 0)"
    )
    assert "texts" not in gain.to_dict()


def test_a_gain_has_a_caveat_where_it_is_biased() -> None:
    unbiased, early = Gain(0.02, 0.01, 0.03, 9), Gain(0.02, 0.01, 0.03, 9, early=True)
    both = Gain(0.02, 0.01, 0.03, 9, selected=True, early=True)
    assert (unbiased.caveat, early.caveat) == ("", "Compared in the model search, before training was complete.")
    assert both.caveat == (
        "Compared in the model search, before training was complete, on the labels on which the weighting was "
        "selected, so the gain is optimistic."
    )
    assert "gain" not in Gain(0.0, -0.01, 0.01, 9, selected=True, early=True).caveat
    first, second, *_ = WeightingComparison(gain=both, **EDGES_AND_HOPS).sentences()
    assert first.startswith("Weighting: edges+hops, 2.0 percentage points more accurate than uniform weights")
    assert second == both.caveat


@pytest.mark.parametrize("weighting", ["auto", "uniform"])
def test_a_weighting_that_was_selected_has_a_biased_gain(weighting: str) -> None:
    labels = np.arange(PLANTED_NODES) % 2
    model = quick_cge(weighting, classifier="mlp", label_propagation=False, hops=2, max_epochs=15)
    model.fit(planted_task(True, 1.0).graph, partial_labels(labels), partial_labels(labels, 4))
    gain = model.compare_weighting().gain
    if weighting == "uniform":
        assert gain is None
        return
    assert model.weighting_ != "uniform"  # which is worse here
    accuracy = {row["weighting"]: row["accuracy"] for row in model.search_results_}
    assert gain is not None
    assert gain.mean == pytest.approx(accuracy[model.weighting_] - accuracy["uniform"])
    assert gain.mean > 0.3
    assert (gain.selected, gain.early) == (True, True)


# ---------------------------------------------------------------------- training with uniform weights


@pytest.mark.filterwarnings("ignore::cge.errors.CgeWarning")
@pytest.mark.parametrize("multilabel", [False, True])
@pytest.mark.parametrize("passed", [False, True])
def test_a_model_with_uniform_weights_is_trained_on_request(multilabel: bool, passed: bool) -> None:
    """Validation labels are passed to `fit`, or held out of the training labels."""
    graph, classes = two_groups(), np.column_stack([TRUE_LABELS == 0, TRUE_LABELS == 1, np.arange(40) % 2]).astype(int)
    first, second = np.arange(40) % 3 == 0, np.arange(40) % 3 == 1
    masks = (first, second) if passed else (first | second, first & second)
    y, more = (classes * mask[:, None] if multilabel else np.where(mask, TRUE_LABELS, -1) for mask in masks)
    small: dict[str, Any] = {"dim": 8, "window": 3, "walk_length": 5, "max_epochs": 2, "walks_per_node": 2}
    model = paper_cge("transductive", "average", **small).fit(graph, y, more if passed else None)
    assert model.compare_weighting().gain is None
    comparison = model.compare_weighting(train_uniform=True)
    # The same by hand, without training on the validation labels.
    validation: Any = model.fitted_.validation
    y_train, y_validation = y.copy(), np.zeros_like(y) if multilabel else np.full(40, -1)
    y_train[validation.nodes] = 0 if multilabel else -1
    y_validation[validation.nodes] = (more if passed else y)[validation.nodes]
    baseline = paper_cge("transductive", "uniform", **small).fit(graph, y_train, y_validation)
    correct = []
    for probabilities in (validation.probabilities, baseline.predict_proba()[validation.nodes]):
        if multilabel:
            rows = zip(validation.matrix, probabilities, strict=True)
            correct.append(np.array([f1_score(true, row > 0.5, zero_division=0) for true, row in rows]))
        else:
            correct.append(probabilities.argmax(1) == validation.matrix.argmax(1))
    assert comparison.gain == Gain.between(*correct, model.fitted_.target)
    assert comparison.gain is not None
    assert comparison.gain.n_labels == len(validation.nodes)
    assert comparison.sentences()[0] == f"Weighting: average, {comparison.gain.describe('validation')}."
    assert f" on {len(validation.nodes)} validation labels (95 % confidence interval" in comparison.sentences()[0]


def test_a_comparison_needs_validation_labels_and_weights() -> None:
    settings: dict[str, Any] = {"classifier": "mlp", "hops": 1, "max_epochs": 3}
    alone = quick_cge("degree", **settings, validation_fraction=0.0)
    alone.fit(with_sparse_features(two_groups()), partial_labels())
    with pytest.raises(cge.CgeError, match="this model has no validation labels to compare on"):
        alone.compare_weighting(train_uniform=True)
    assert fit_quick("uniform", **settings).compare_weighting(train_uniform=True).gain is None
    gain = fit_quick("degree", **settings).compare_weighting(train_uniform=True).gain
    assert gain is not None
    assert (gain.selected, gain.early) == (False, False)


@pytest.mark.parametrize("weighting", ["edges", "lstm"])
def test_learned_weights_are_compared_with_uniform_ones(
    weighting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores: dict[str, Any] = {}
    evaluate_all = CandidateEvaluator.evaluate_all

    def spy(self: CandidateEvaluator, candidates: Any, reference: str = "") -> Any:
        results = evaluate_all(self, candidates, reference)
        scores.update(zip((weighting.name for weighting, *_ in candidates), results, strict=True))
        return results

    monkeypatch.setattr(CandidateEvaluator, "evaluate_all", spy)
    model = fit_quick(weighting, classifier="mlp", label_propagation=False, hops=2)
    comparison = model.compare_weighting()
    expected = Gain.between(scores[weighting].correct, scores["uniform"].correct, SINGLE, early=True)
    assert comparison.gain is not None
    assert expected is not None
    assert vars(comparison.gain) == pytest.approx(vars(expected))
    assert comparison.gain.n_labels == model.labels_seen_["validation"]
    assert f"Weighting: {weighting}, " in str(comparison)
    json.dumps(comparison.to_dict())
    model.save(tmp_path / "model")
    assert cge.load(tmp_path / "model").compare_weighting() == comparison


# ---------------------------------------------------------------------- the other statistics


def test_contributions_by_hop_are_means_over_explanations() -> None:
    model = fit_quick("degree", classifier="consistency", label_propagation=False, hops=3)
    comparison, expected = model.compare_weighting(), np.zeros(4)
    for node in model.node_ids_.tolist():
        explanation = model.explain(node, top=1)
        expected += explanation.by_hop[:, explanation.target_index] - explanation.by_hop.mean(1)
    np.testing.assert_allclose(comparison.contribution_by_hop, expected / 40, rtol=1e-5)
    assert comparison.strongest_hop == int(expected.argmax())
    assert comparison.weakest_hop == int(expected.argmin())
    assert f"Paths of {comparison.strongest_hop} hop" in comparison.sentences()[-1]
    assert comparison.gain is None  # the weighting was a setting, neither learned nor selected
    assert comparison.sentences()[0] == "Weighting: degree. It was not compared with uniform weights in training."


def test_contributions_by_hop_of_a_multilabel_task_are_not_relative_to_the_mean_over_classes() -> None:
    model = quick_cge("degree", classifier="mlp", label_propagation=False, hops=2)
    model.fit(with_sparse_features(two_groups()), labels_at(np.arange(0, 40, 2), multilabel_targets()))
    comparison, expected = model.compare_weighting(), np.zeros(3)
    for node in model.node_ids_.tolist():
        explanation = model.explain(node, top=1)
        expected += explanation.by_hop[:, explanation.target_index]
    np.testing.assert_allclose(comparison.contribution_by_hop, expected / 40, rtol=1e-5)
    assert not comparison.centered


def test_uniform_weights_are_uniform() -> None:
    comparison = fit_quick("uniform").compare_weighting()
    assert comparison.effective_fraction == pytest.approx(1.0)
    assert comparison.weight_by_hop == pytest.approx((1.0,) * 5)
    assert (comparison.nearly_uniform, comparison.collapsed, comparison.gain) == (True, False, None)
    assert comparison.sentences()[0] == "Uniform weights: those of a random walk; every path has relative weight 1."


SMALL_PAPER: dict[str, Any] = {"dim": 8, "window": 3, "walk_length": 5, "max_epochs": 6, "validation_fraction": 0.0}


def test_uniform_weights_of_the_paper_have_no_network() -> None:
    comparison = paper_cge("transductive", "uniform", **SMALL_PAPER).fit(two_groups(), partial_labels())
    first, *others = comparison.compare_weighting().sentences()
    assert first == "Weighting: uniform. There is no network: A(p) = 1 for every path."
    assert not any("relative weight" in sentence for sentence in others)
    weights: dict[str, Any] = EDGES_AND_HOPS | {"weighting": "lstm", "exact": False}
    assert "(Σ|A|)²/(n ΣA²), where A is the weight of each of the n paths." in str(
        WeightingComparison(gain=None, **weights)
    )
    weights |= {"nearly_uniform": True, "exact": True}
    expected = "have about the same relative weight (path weight divided by that in a random walk)."
    assert expected in str(WeightingComparison(gain=None, **weights))


@pytest.mark.filterwarnings("ignore::cge.errors.CgeWarning")
def test_collapsed_weights_are_reported() -> None:
    small = SMALL_PAPER
    model = paper_cge("transductive", "lstm", outer="paper", weighting_lr=1.0, **small)
    comparison = model.fit(two_groups(), partial_labels()).compare_weighting()
    assert comparison.collapsed
    assert "The weights have collapsed" in str(comparison)
    assert WeightingComparison(gain=None, **EDGES_AND_HOPS).sentences()[1:] == [
        (
            "The effective sample size of the path weights is 40 % of the paths of random walks (100 % for uniform "
            "weights): (Σ|a|)²/(n Σa²), where a is the relative weight (path weight divided by that in a random walk) "
            "of each of the n paths."
        ),
        (
            "Paths of 0 hops (+0.50) contribute most to the predictions, those of 1 hop (−0.25) least "
            "(contribution to the score of the predicted class minus the mean over all classes, averaged over nodes)."
        ),
    ]
    for kind, contribution in (
        (MultiLabel, "contribution to the predicted score"),
        (Regression, "predicted value, in"),
    ):
        sentence = WeightingComparison(gain=None, **EDGES_AND_HOPS, texts=kind.texts).sentences()[-1]
        assert contribution in sentence
        assert sentence.endswith("averaged over nodes).")
