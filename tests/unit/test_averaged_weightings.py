"""The probabilities of weightings that are level on the validation labels are averaged."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cge
from cge.estimators import encoder_fit
from cge.estimators.fitted_model import learned_weights_unused
from cge.report.contents import report_contents
from cge.training.candidates import MAX_AVERAGED
from tests.fixtures import TRAIN_NODES, labels_at, partial_labels, quick_cge, two_groups
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
    ensemble: Any = model.fitted_.ensemble
    assert model.ensemble_ == [(member.weighting.name, "mlp") for member in ensemble]
    assert model.ensemble_[0] == (model.weighting_, "mlp")
    assert len({weighting for weighting, _ in model.ensemble_}) == len(ensemble) > 1
    data, outputs = model.fitted_.data, []
    for name, classifier, weighting in ensemble:
        form = weighting.module
        matrix = data.transitions.matrix(form.normalized_weights(data.transitions, data.edge_inputs)).toarray()
        powers = [np.linalg.matrix_power(matrix.astype(np.float64), hop) for hop in range(5)]
        summed = np.tensordot(form.normalized_hop_weights().astype(np.float64), np.stack(powers), axes=1)
        assert name == "mlp"
        vectors = summed @ (data.inputs("l2") @ classifier.projection)
        outputs.append(model.fitted_.target.outputs(classifier.scores(vectors + classifier.offset)))
    expected = cge.metrics.scale_probabilities(np.mean(outputs, axis=0), model.fitted_.temperature)
    np.testing.assert_allclose(model.predict_proba(), expected, atol=1e-5)


def test_every_classifier_is_explained_with_its_weighting() -> None:
    model = fitted()
    for place, (name, classifier, weighting) in enumerate(model.fitted_.ensemble):
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
    assert again.predict_proba().tobytes() == fitted().predict_proba().tobytes()
    assert again.explain(3, classifier=1).scores.tolist() == fitted().explain(3, classifier=1).scores.tolist()


def test_candidates_are_left_out_if_the_selected_one_is_clearly_better_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    margins: list[float] = []
    monkeypatch.setattr(encoder_fit, "is_better", lambda _best, _other, margin: not margins.append(margin))
    model = quick_cge(max_epochs=150, **SETTINGS).fit(two_groups(), labels_at(TRAIN_NODES), labels_at(OTHERS))
    assert model.ensemble_ == fitted().ensemble_[:1]
    assert margins == [2.0] * (len(fitted().ensemble_) - 1)


class StopError(Exception):
    pass


@pytest.mark.parametrize("refit", [False, True])
def test_a_stopped_fit_averages_the_same_weightings(refit: bool, tmp_path: Path) -> None:
    settings = SETTINGS | ({"classifier": "logistic"} if refit else {"max_epochs": 150})
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
