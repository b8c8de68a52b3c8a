"""Without validation labels: candidates are compared on held-out folds of the training labels."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cge
from cge.estimators.classifier import task_labels
from cge.estimators.fit_plan import plan_fit
from cge.training.cross_fitting import CrossFitTrainer
from tests.fixtures import TRUE_LABELS, multilabel_targets, partial_labels, quick_cge, two_groups, with_sparse_features

SETTINGS: dict[str, Any] = {"label_propagation": False, "classifier": "mlp"}


def held_out(labels: Any, **settings: Any) -> list[tuple[Any, Any]]:
    return task_labels(two_groups(), labels).cross_fit(quick_cge(**settings))


def test_every_label_is_held_out_once_but_those_of_lonely_classes() -> None:
    labels = TRUE_LABELS.copy()
    labels[6] = 5  # the only label of its class
    folds = held_out(labels)
    assert len(folds) == 3
    pooled = np.concatenate([held for _, held in folds])
    assert sorted(pooled.tolist()) == [node for node in range(40) if node != 6]
    for train_idx, held_out_idx in folds:
        assert sorted([*train_idx, *held_out_idx]) == list(range(40))
        assert set(labels[held_out_idx]) <= set(labels[train_idx])


def test_one_split_is_enough_where_labels_are_many_or_nothing_is_trained_again() -> None:
    assert not held_out(partial_labels(every=2), refit=False)
    assert not held_out(partial_labels(every=2), validation_fraction=0.0)
    assert not held_out(partial_labels())  # 14 labels
    graph = cge.Graph.from_edges([(node, node + 1) for node in range(299)])
    labels = task_labels(graph, np.arange(300) % 2)
    assert not labels.cross_fit(quick_cge())
    assert labels.cross_fit(quick_cge(validation_fraction=0.1))


@cache
def fitted(kind: str = "classes") -> cge.CGE:
    graph = with_sparse_features(two_groups())
    if kind == "multilabel":
        return quick_cge("degree", **SETTINGS).fit(graph, multilabel_targets() * (np.arange(40) % 2 == 0)[:, None])
    if kind == "numbers":
        y = np.where(np.arange(40) % 2 == 0, TRUE_LABELS + np.arange(40) / 40, np.nan)
        return quick_cge("degree", task="regression", **SETTINGS).fit(graph, y)
    return quick_cge(**SETTINGS).fit(graph, partial_labels(every=2))


@pytest.mark.parametrize("kind", ["classes", "multilabel", "numbers"])
def test_a_fit_selects_on_held_out_labels_and_trains_on_all(kind: str) -> None:
    model: Any = fitted(kind)
    assert model.labels_seen_ == {"train": 20, "outer": 0, "validation": 20}
    assert len(model.fitted_.validation) == 20
    assert model.history_[-1].stage == "refit"
    assert len(model.history_) == model.best_epoch_
    epoch = model.selection_history_[model.best_epoch_ - 1]
    assert epoch.stage == "select"
    target, validation = model.fitted_.target, model.fitted_.validation
    true = target.from_matrix(validation.matrix)
    outputs = validation.probabilities
    scores = (outputs - target.mean) / target.std if kind == "numbers" else outputs
    assert epoch.validation_accuracy == pytest.approx(target.score(scores, true), abs=1e-6)


def test_learned_weightings_are_not_compared_on_labels_that_learn_them() -> None:
    assert "edges" not in {row["weighting"] for row in fitted().search_results_}
    assert {"degree", "uniform", "cosine"} < {row["weighting"] for row in fitted().search_results_}
    plan = plan_fit(quick_cge(**SETTINGS), with_sparse_features(two_groups()), partial_labels(every=2))
    assert plan.labels == fitted().labels_seen_
    planned = {candidate.weighting for candidate in plan.candidates}
    assert {row["weighting"] for row in fitted().search_results_} - {"degree"} <= planned
    assert "edges" not in planned


def test_held_out_scores_are_those_of_classifiers_without_the_label() -> None:
    graph = with_sparse_features(two_groups())
    trainers: list[CrossFitTrainer] = []
    with pytest.MonkeyPatch.context() as patch:
        original = CrossFitTrainer.__init__

        def recorded(self: CrossFitTrainer, *given: Any) -> None:
            original(self, *given)
            trainers.append(self)

        patch.setattr(CrossFitTrainer, "__init__", recorded)
        quick_cge("degree", **SETTINGS).fit(graph, partial_labels(every=2))
    trainer = trainers[0]
    for fold in trainer.trainers:
        assert not set(fold.task.train.tolist()) & set(fold.task.validation.tolist())
    last = torch.cat([fold._scores(fold.classifier, fold.task.validation) for fold in trainer.trainers])
    assert torch.equal(last, trainer.validation_scores)
    assert trainer.best_scores(trainer.task.validation).shape == (20, 2)
    with pytest.raises(ValueError, match="only held-out labels"):
        trainer.best_scores()


class StopError(Exception):
    pass


def test_a_stopped_fit_continues_to_the_same_bytes(tmp_path: Path) -> None:
    settings = SETTINGS | {"weighting": "degree"}
    graph, epochs = with_sparse_features(two_groups()), []
    expected = quick_cge(**settings).fit(graph, partial_labels(every=2), callback=epochs.append)

    def stop(epoch: Any) -> None:
        if epoch.stage == "select" and epoch.epoch == 13:
            raise StopError

    with pytest.raises(StopError):
        quick_cge(**settings).fit(graph, partial_labels(every=2), resume=tmp_path, callback=stop)
    again = quick_cge(**settings).fit(graph, partial_labels(every=2), resume=tmp_path)
    assert again.predict_proba().tobytes() == expected.predict_proba().tobytes()
