"""The probabilities of weightings that are level on the validation labels are averaged."""

from __future__ import annotations

from copy import copy, deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import cge
from cge.estimators import ensemble
from cge.estimators.fitted_model import learned_weights_unused
from cge.models.classifiers import MLPClassifier
from cge.report.contents import report_contents
from cge.training.candidate_evaluation import validation_scores
from cge.training.candidates import MAX_AVERAGED
from cge.training.selection import ensemble_weights
from tests.fixtures import TRAIN_NODES, TRUE_LABELS, labels_at, partial_labels, quick_cge, two_groups
from tests.unit.test_model_search import make_search

OTHERS = np.setdiff1d(np.arange(40), TRAIN_NODES)
SETTINGS: dict[str, Any] = {"classifier": "mlp", "label_propagation": False, "random_state": 7}


@cache
def fitted() -> cge.CGE:
    return quick_cge(max_epochs=150, **SETTINGS).fit(two_groups(), labels_at(TRAIN_NODES), labels_at(OTHERS))


def select(accuracy: dict[str, float], others: float = 0.5, **settings: Any) -> list[str]:
    """Return the selected weighting and those averaged with it in a search with these validation accuracies."""
    search = make_search(lambda weighting, *_: accuracy.get(weighting, others), **(SETTINGS | settings))
    selection = search.run()
    names = [selection.weighting.name, *(weighting.name for weighting, _ in selection.averaged)]
    assert {name for name, *_ in search.evaluator.trainers} <= set(names)  # others are released
    return names


def test_weightings_that_are_not_significantly_worse_are_averaged() -> None:
    assert select({"degree": 0.9, "uniform": 0.9}) == ["degree", "uniform"]
    assert select({"degree": 0.9, "uniform": 0.88}) == ["degree"]
    assert select({"degree": 0.9, "uniform": 0.92}) == ["uniform"]
    assert select({"degree": 0.8, "uniform": 0.8, "0 hops": 0.9}) == ["0 hops"]
    assert select({}, 0.9)[0] == "degree"
    assert len(select({}, 0.9)) == MAX_AVERAGED


def test_named_weightings_and_label_propagation_are_not_averaged() -> None:
    assert select({}, 0.9, weighting="degree") == ["degree"]
    assert select({}, 0.9, label_propagation=True) == ["degree"]


def test_probabilities_are_the_mean_over_the_weightings() -> None:
    model = fitted()
    trained: Any = model.fitted_.ensemble
    assert model.ensemble_ == [(each.weighting.name, "mlp") for each in trained]
    assert model.ensemble_[0] == (model.weighting_, "mlp")
    assert len({weighting for weighting, _ in model.ensemble_}) == len(trained) > 1
    data, outputs = model.fitted_.data, []
    for name, classifier, weighting, _ in trained:
        form = weighting.module
        matrix = data.transitions.matrix(form.normalized_weights(data.transitions, data.edge_inputs)).toarray()
        powers = [np.linalg.matrix_power(matrix.astype(np.float64), hop) for hop in range(5)]
        summed = np.tensordot(form.normalized_hop_weights().astype(np.float64), np.stack(powers), axes=1)
        assert name == "mlp"
        vectors = summed @ (data.inputs("l2") @ classifier.projection)
        outputs.append(model.fitted_.target.outputs(classifier.scores(vectors + classifier.offset)))
    assert sum(model.ensemble_weights_) == pytest.approx(1)
    mean = np.tensordot(model.ensemble_weights_, outputs, axes=1)
    expected = cge.metrics.scale_probabilities(mean, model.fitted_.temperature)
    np.testing.assert_allclose(model.predict_proba(), expected, atol=1e-5)


def test_every_classifier_is_explained_with_its_weighting() -> None:
    model = fitted()
    for place, (name, classifier, weighting) in enumerate(each[:3] for each in model.fitted_.ensemble):
        explanation = model.explain(3, classifier=place)
        inputs = classifier.project(model.fitted_.data.inputs("l2"))
        vectors = weighting.propagation(model.fitted_.data)(inputs) + classifier.offset
        scores = classifier.scores(vectors[[3]])[0]
        np.testing.assert_allclose(explanation.scores - explanation.scores.mean(), scores - scores.mean(), atol=1e-5)
        assert explanation.classifier.name == name


def test_the_report_says_which_weighting_is_described() -> None:
    caption = report_contents(fitted())["captions"]["weighting-caption"]
    assert caption.startswith(f"Weighting of the first classifier: {fitted().weighting_} (")


def test_learned_weights_are_used_if_any_classifier_uses_them() -> None:
    fitted_model: Any = copy(fitted().fitted_)
    assert fitted_model.log.labels_seen["outer"] > 0
    assert learned_weights_unused(fitted_model)
    last = fitted_model.ensemble[-1]
    learned = last._replace(weighting=replace(last.weighting, name="edges"))
    fitted_model.ensemble = (*fitted_model.ensemble[:-1], learned)
    assert fitted_model.weighting_names()[-1] == "edges"
    assert not learned_weights_unused(fitted_model)


def test_averaged_weightings_are_saved(tmp_path: Path) -> None:
    fitted().save(tmp_path)
    again = cge.load(tmp_path)
    assert again.ensemble_ == fitted().ensemble_
    assert again.ensemble_weights_ == fitted().ensemble_weights_
    assert again.predict_proba().tobytes() == fitted().predict_proba().tobytes()
    assert again.explain(3, classifier=1).scores.tolist() == fitted().explain(3, classifier=1).scores.tolist()


def squared_distance(labels: Any) -> Any:
    return lambda mean: ((mean - labels) ** 2).sum(axis=1)


def test_ensemble_weights_lower_the_loss_of_the_mean() -> None:
    labels = np.eye(2)[[0, 0, 1, 1]]
    best, complement, worse = labels.copy(), labels.copy(), 1 - labels
    best[0], complement[3] = [0.4, 0.6], [0.9, 0.1]  # each errs on another node
    weights = ensemble_weights([best, complement, worse], squared_distance(labels))
    # The loss of w · best + (1 − w) · complement is 2 (0.6 w)² + 2 (0.9 (1 − w))², smallest at w = 0.81 / 1.17.
    assert weights.tolist() == pytest.approx([0.7, 0.3, 0.0], abs=0.051)
    assert weights[2] == 0
    assert weights.sum() == pytest.approx(1)


def test_the_selected_candidate_has_half_of_the_weight() -> None:
    labels = np.eye(2)[[0, 1, 0]]
    assert ensemble_weights([1 - labels, labels], squared_distance(labels)).tolist() == [0.5, 0.5]
    assert ensemble_weights([labels, 1 - labels], squared_distance(labels)).tolist() == [1, 0]


LABELS = np.tile(TRUE_LABELS, 25)  # of a thousand nodes


def part(classifier: str, scores: Any, number: int = 0) -> ensemble.EnsemblePart:
    """Return a training with these class scores, whose validation nodes are all nodes."""
    task = SimpleNamespace(
        target=fitted().fitted_.target, labels=torch.from_numpy(LABELS), validation=torch.arange(len(LABELS))
    )
    trainer: Any = SimpleNamespace(task=task, best_scores=lambda nodes: torch.from_numpy(scores)[nodes])
    weighting: Any = SimpleNamespace(name="degree")
    return ensemble.EnsemblePart(weighting, classifier, number, trainer)


def test_the_scale_of_scores_does_not_matter() -> None:
    random = np.random.default_rng(0)
    scores = [np.eye(2)[LABELS] + 0.8 * random.standard_normal((len(LABELS), 2)) for _ in range(2)]
    means = []
    for factors in ((1.0, 1.0), (0.4, 8.0)):
        parts = [part("mlp", factor * each) for factor, each in zip(factors, scores, strict=True)]
        used = ensemble.weighted_ensemble(parts[:1], parts[1:], validation_scores)
        assert [each.weight for each in used] == pytest.approx([0.5, 0.5], abs=0.11)
        combined = ensemble.scores_of(used, torch.arange(len(LABELS)))
        means.append(combined.mean_outputs(fitted().fitted_.target))
    np.testing.assert_allclose(means[0], means[1], atol=0.01)


def test_classifiers_and_shifts_are_scaled_by_the_temperature() -> None:
    scores, classifier = np.ones((len(LABELS), 2), np.float32), MLPClassifier(3, 4, 2)
    trained: Any = replace(part("mlp", scores), temperature=2.0, weight=0.5)
    trained.trainer.best_classifier = lambda: deepcopy(classifier)
    (fixed,) = ensemble.classifiers_of([trained], np.array([1.0, -1.0], np.float32))
    inputs = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    expected = classifier.fixed().scores(inputs) / 2 + [1, -1]
    np.testing.assert_allclose(fixed.classifier.scores(inputs), expected, rtol=1e-5)
    assert fixed.weight == 0.5
    assert trained.scores(torch.arange(3)).tolist() == [[0.5, 0.5]] * 3


def test_the_largest_weights_come_first_and_candidates_without_weight_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    selected = [part("mlp", np.zeros((len(LABELS), 2)), number) for number in range(2)]
    averaged = [part(name, np.zeros((len(LABELS), 2))) for name in ("sparse", "logistic", "consistency")]
    monkeypatch.setattr(ensemble, "ensemble_weights", lambda *_: np.array([0.6, 0.1, 0.0, 0.3]))
    parts = ensemble.weighted_ensemble(selected, averaged, validation_scores)
    assert [(part.classifier, part.weight) for part in parts] == [
        ("mlp", 0.3),  # with two seeds, which share the weight of the selected candidate
        ("mlp", 0.3),
        ("consistency", 0.3),
        ("sparse", 0.1),
    ]


class StopError(Exception):
    pass


@pytest.mark.parametrize("refit", [False, True])
def test_a_stopped_fit_averages_the_same_weightings(refit: bool, tmp_path: Path) -> None:
    settings = SETTINGS | {"max_epochs": 150}
    labels = (partial_labels(every=2), None) if refit else (labels_at(TRAIN_NODES), labels_at(OTHERS))
    stages: list[str] = []
    expected = quick_cge(**settings).fit(two_groups(), *labels, callback=lambda epoch: stages.append(epoch.stage))
    assert len(expected.ensemble_) > 1
    count = 0

    def stop(_: Any) -> None:
        nonlocal count
        count += 1
        if count == len(stages) - 1:
            raise StopError

    with pytest.raises(StopError):
        quick_cge(**settings).fit(two_groups(), *labels, resume=tmp_path, callback=stop)
    again = quick_cge(**settings).fit(two_groups(), *labels, resume=tmp_path)
    assert again.ensemble_ == expected.ensemble_
    assert again.predict_proba().tobytes() == expected.predict_proba().tobytes()
    assert again.search_results_ == expected.search_results_
