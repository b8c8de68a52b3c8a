"""`scoring="macro_f1"` selects epochs, penalties and candidates."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score

import cge
from cge.metrics import macro_f1, node_macro_f1
from cge.models.classifiers import LogisticClassifier
from cge.targets import MultiLabel, SingleLabel, Task
from cge.training.candidate_evaluation import score_candidate
from cge.training.logistic_training import LogisticTrainer
from tests.fixtures import TRAIN_NODES, VALIDATION_NODES, labels_at, quick_cge, two_groups, with_sparse_features


def random_indicators(seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.random((60, 4)) < 0.4, random.random((60, 4)) < 0.3


def test_the_mean_over_nodes_is_macro_f1() -> None:
    predicted, labels = random_indicators(0)
    values = node_macro_f1(predicted, labels)
    assert values.mean() == pytest.approx(f1_score(labels, predicted, average="macro"), abs=1e-12)


def test_the_value_of_a_node_is_the_derivative_by_its_weight() -> None:
    predicted, labels = random_indicators(1)
    node, step = 7, 1e-6

    def weighted(change: float) -> float:
        weight = np.ones((60, 1))
        weight[node] += change
        return float(np.mean(2 * (weight * (predicted & labels)).sum(0) / (weight * (predicted * 1.0 + labels)).sum(0)))

    slope = (weighted(step) - weighted(-step)) / (2 * step)
    value = node_macro_f1(predicted, labels)[node] - macro_f1(predicted, labels)
    assert value == pytest.approx(60 * slope, abs=1e-6)


@pytest.mark.parametrize("multilabel", [False, True])
def test_targets_score_by_macro_f1(multilabel: bool) -> None:
    random = np.random.default_rng(2)
    scores, codes = random.normal(size=(50, 3)), random.integers(0, 3, 50)
    kind = MultiLabel if multilabel else SingleLabel
    target, labels = kind(np.arange(3)).with_scoring("macro_f1"), np.eye(3, dtype=int)[codes] if multilabel else codes
    expected = f1_score(codes, scores.argmax(1), average="macro")
    assert target.score(scores, labels) == pytest.approx(expected)
    assert target.node_scores(scores, labels).mean() == pytest.approx(expected)
    assert kind(np.arange(3)).score(scores, labels) != pytest.approx(expected)


@pytest.mark.parametrize("scoring", [None, "macro_f1"])
def test_the_penalty_is_selected_by_the_score(scoring: str | None) -> None:
    random = np.random.default_rng(3)
    labels = (random.random(40) < 0.15).astype(np.int64)  # a rare class
    rows = torch.from_numpy((random.normal(size=(40, 5)) + 0.8 * labels[:, None]).astype(np.float32))
    target = SingleLabel(np.arange(2)).with_scoring(scoring)
    task = Task(two_groups(), None, torch.from_numpy(labels), target, torch.arange(20), torch.arange(20, 40))
    trainer = LogisticTrainer(task, rows, LogisticClassifier(5, 2))
    values = []
    for number in range(trainer.max_epochs):
        trainer.run(number + 1)
        predicted = trainer.validation_scores.argmax(1).numpy()
        average = "macro" if scoring else "micro"
        values.append(f1_score(labels[20:], predicted, average=average, zero_division=0))
        assert trainer.epochs[-1].validation_accuracy == pytest.approx(values[-1])
    assert trainer.best_score[0] == pytest.approx(max(values))
    assert score_candidate(trainer).accuracy == pytest.approx(max(values))


def test_candidates_are_compared_by_macro_f1() -> None:
    graph = with_sparse_features(two_groups())
    model = quick_cge("degree", classifier="mlp", scoring="macro_f1", label_propagation=False)
    model.fit(graph, labels_at(TRAIN_NODES), labels_at(VALIDATION_NODES))
    target, validation = model.fitted_.target, model.fitted_.validation
    assert target.scoring == "macro_f1"
    best = model.history_[model.best_epoch_ - 1].validation_accuracy
    true = validation.matrix.argmax(1)
    assert best == pytest.approx(f1_score(true, validation.probabilities.argmax(1), average="macro"))


def test_numbers_have_no_macro_f1() -> None:
    with pytest.raises(cge.errors.InputError, match="scoring='macro_f1' is for classes"):
        quick_cge(task="regression", scoring="macro_f1").fit(two_groups(), labels_at(TRAIN_NODES).astype(float))
