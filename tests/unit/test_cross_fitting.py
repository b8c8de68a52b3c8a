"""Without validation labels: candidates are compared on held-out folds of the training labels."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cge
from cge.cli.fit_output import describe_labels
from cge.estimators.classifier import task_labels
from cge.estimators.fit_plan import plan_fit
from cge.estimators.fitted_model import restore_log
from cge.report.sentences import summary_sentences
from cge.training.cross_fitting import CrossFitTrainer
from cge.training.history import Epoch
from tests.fixtures import TRUE_LABELS, multilabel_targets, partial_labels, quick_cge, two_groups, with_sparse_features

SETTINGS: dict[str, Any] = {"label_propagation": False, "classifier": "mlp"}


def label_splits(labels: Any, **settings: Any) -> list[tuple[Any, Any]]:
    return task_labels(two_groups(), labels).cross_fit(quick_cge(**settings))


def test_every_label_is_held_out_once_but_those_of_lonely_classes() -> None:
    labels = TRUE_LABELS.copy()
    labels[6] = 5  # the only label of its class
    folds = label_splits(labels)
    assert len(folds) == 3
    all_held_out_idx = np.concatenate([held_out_idx for _, held_out_idx in folds])
    assert sorted(all_held_out_idx.tolist()) == [node for node in range(40) if node != 6]
    for train_idx, held_out_idx in folds:
        assert sorted([*train_idx, *held_out_idx]) == list(range(40))
        assert set(labels[held_out_idx]) <= set(labels[train_idx])


def test_one_split_is_enough_where_labels_are_many_or_nothing_is_trained_again() -> None:
    assert not label_splits(partial_labels(every=2), refit=False)
    assert not label_splits(partial_labels(every=2), validation_fraction=0.0)
    assert not label_splits(partial_labels())  # 14 labels
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


def test_cross_validation_is_recorded_also_with_many_lonely_classes(tmp_path: Path) -> None:
    y = TRUE_LABELS.copy()
    y[:16] = np.arange(2, 18)  # each the only one of its class, so that few of the labels are held out
    graph, model = with_sparse_features(two_groups()), quick_cge("degree", **SETTINGS, max_epochs=5)
    model.fit(graph, y)
    assert model.labels_seen_ == {"train": 40, "outer": 0, "validation": 24}
    model.save(tmp_path / "model")
    expected = "40 labels (validated by 3-fold cross-validation, then all used for training)."
    for each in (model, cge.load(tmp_path / "model")):
        assert expected in summary_sentences(each, "", None, [])[0]
    older = {key: value for key, value in model.fitted_.log.metadata().items() if key != "cross_validated"}
    assert not restore_log(older, Epoch).cross_validated
    plan = plan_fit(model, graph, y)
    assert plan.cross_validated
    assert not plan_fit(model.set_params(refit=False), graph, y).cross_validated
    settings: dict[str, Any] = {"weighting": "degree", "refit": True, "validation_fraction": 0.0, **SETTINGS}
    assert not quick_cge(**settings, max_epochs=5).fit(graph, y).fitted_.log.cross_validated


def test_the_labels_of_a_fit_in_words() -> None:
    counts = {"train": 100, "outer": 0, "validation": 75}
    assert describe_labels(counts, True, "") == "100 (25 training, 75 held out for validation)"
    counts = {"train": 40, "outer": 40, "validation": 24}
    assert describe_labels(counts, True, "were learned", cross_validated=True) == (
        "40, validated by 3-fold cross-validation; path weights were learned on the training labels"
    )


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
    with pytest.raises(ValueError, match="only all held-out labels"):
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
