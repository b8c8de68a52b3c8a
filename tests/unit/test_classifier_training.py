"""Training of classifiers: losses, augmentation, the best epoch, checkpoints."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from cge.metrics import accuracy_or_f1
from cge.models.classifiers import MLPClassifier, PathClassifier, SparseClassifier
from cge.models.edge_weighting import EdgePropagation, EdgeWeighting, make_edge_inputs
from cge.models.propagation import TransitionMatrix
from cge.models.sparse_products import SparseFeatures
from cge.randomness import generator
from cge.targets import MultiLabel, SingleLabel
from cge.training.classifier_registry import ClassifierSettings
from cge.training.classifier_training import ClassifierTrainer
from cge.training.history import Epoch, History
from cge.training.torch_state import seeded
from tests.fixtures import make_task, two_groups

SMALL = ClassifierSettings(
    n_augmentations=2,
    max_epochs=60,
    patience=60,
    drop_feature=0.2,
    learning_rate=0.05,
    warmup_epochs=5,
    rampup_epochs=5,
    consistency_weight=1.0,
    sharpening=0.5,
)
DISTILLED = replace(
    SMALL, n_augmentations=1, drop_node=0.0, warmup_epochs=0, rampup_epochs=0, distilled=True, consistency_weight=3.0
)
ALL_NODES = torch.arange(40)


def make_trainer(
    settings: ClassifierSettings = SMALL,
    sparse: bool = True,
    n_jobs: int = 1,
    dim: int = 8,
    linear: bool = False,
    propagate_once: bool = False,
    labels: Any = None,
    classes: int = 2,
    validation: Any = None,
    **options: Any,
) -> Any:
    features = np.random.default_rng(0).random((40, 6)) + np.repeat(np.eye(2, 6), 20, axis=0)
    graph = two_groups(features=False).with_features(features - features.mean(0))
    transitions = TransitionMatrix(graph, n_jobs)
    edge_inputs, scale = make_edge_inputs(graph, transitions)
    weighting = EdgeWeighting([0.0] * len(scale.names), 0.0, 0.5, [1.0] * 4)
    propagation = EdgePropagation(transitions, edge_inputs, weighting).fixed()
    dense = torch.tensor(graph.features)
    inputs = SparseFeatures(sp.csr_array(graph.features), n_jobs) if sparse else dense
    changed = {"classes": classes} | ({} if validation is None else {"validation": validation})
    task = make_task(graph, labels, **changed)
    with seeded(settings.seed, "classifier"):
        classifier: PathClassifier = MLPClassifier(6, dim, classes)
        if linear:
            classifier = SparseClassifier(dense.mean(0), dense.std(0), classes)
    if propagate_once:
        options["propagated_inputs"] = propagation(dense)
    return ClassifierTrainer(task, inputs, propagation, classifier, settings, **options)


def group_scores(size: float) -> torch.Tensor:
    """Return propagated labels that are correct for all nodes."""
    scores = torch.zeros(40, 2)
    scores[:20, 0] = scores[20:, 1] = size
    return scores


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("sparse", [True, False])
def test_the_best_epoch_is_kept(sparse: bool, linear: bool) -> None:
    trainer = make_trainer(sparse=sparse, linear=linear)
    trainer.run()
    accuracies = [epoch.validation_accuracy for epoch in trainer.epochs]
    assert max(accuracies) >= 0.9
    assert trainer.epochs[trainer.best_epoch - 1].validation_accuracy == max(accuracies)
    nodes, scores = trainer.task.validation.numpy(), trainer.best_scores().numpy()
    assert accuracy_or_f1(scores[nodes], trainer.task.labels.numpy()[nodes]) == max(accuracies)


def test_multilabel_tasks_are_learned() -> None:
    trainer = make_trainer(labels=torch.tensor([[1, 0, 1]] * 20 + [[0, 1, 1]] * 20), classes=3)
    trainer.run()
    assert max(epoch.validation_accuracy for epoch in trainer.epochs) > 0.9


def test_results_depend_on_the_seed_but_not_on_threads_or_the_state_of_torch() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    best = []
    for n_jobs in (1, 2):
        trainer = make_trainer(replace(SMALL, max_epochs=15), n_jobs=n_jobs)
        trainer.run()
        best.append({name: array.tobytes() for name, array in trainer.best.items()})
    assert best[0] == best[1]
    assert torch.equal(torch.rand(2), expected)
    other = make_trainer(replace(SMALL, max_epochs=15, seed=1))
    other.run()
    assert other.best["classifier.weight"].tobytes() != best[0]["classifier.weight"]


@pytest.mark.parametrize("distilled", [False, True])
def test_a_resumed_training_continues_to_the_same_bytes(distilled: bool) -> None:
    settings = replace(DISTILLED if distilled else SMALL, max_epochs=20)
    options = {"label_scores": group_scores(2.0)} if distilled else {}
    whole, first, second = (make_trainer(settings, **options) for _ in range(3))
    whole.run()
    first.run(stop_after=7)
    assert len(first.epochs) == 7
    second.load(first.state())
    second.run()
    assert {name: array.tobytes() for name, array in second.best.items()} == {
        name: array.tobytes() for name, array in whole.best.items()
    }
    assert [epoch.supervised_loss for epoch in second.epochs] == [epoch.supervised_loss for epoch in whole.epochs]


# ---------------------------------------------------------------------- the consistency loss


def test_the_consistency_weight_is_zero_in_the_warmup_and_then_grows() -> None:
    trainer = make_trainer(replace(SMALL, warmup_epochs=3, rampup_epochs=4, consistency_weight=2.0))
    assert [trainer._consistency_weight(k) for k in range(9)] == [0, 0, 0, 0, 0.5, 1.0, 1.5, 2.0, 2.0]
    trainer.run(stop_after=40)
    losses = [epoch.consistency_loss for epoch in trainer.epochs]
    assert losses[:4] == [0.0] * 4
    assert min(losses[20:]) > 0


def test_consistency_training_makes_augmentations_agree() -> None:
    losses = []
    for weight in (1e-9, 5.0):
        trainer = make_trainer(replace(SMALL, consistency_weight=weight))
        trainer.run()
        losses.append(np.mean([epoch.consistency_loss for epoch in trainer.epochs[-10:]]))
    assert losses[1] < losses[0]


def test_patience_starts_with_the_full_consistency_weight() -> None:
    trainer = make_trainer(replace(SMALL, patience=5, learning_rate=1e-12))  # no epoch is better than another
    trainer.run()
    assert trainer.best_epoch == 11  # the first with full λ
    assert len(trainer.epochs) == 16


def test_without_validation_labels_the_last_epoch_is_used() -> None:
    trainer = make_trainer(replace(SMALL, max_epochs=7, patience=2), validation=torch.empty(0, dtype=torch.int64))
    trainer.run()
    assert trainer.best_epoch == 7


def test_the_consistency_loss_counts_confident_nodes_only() -> None:
    trainer = make_trainer(classes=4)
    confident, unsure = [3.0, 0.0, 0.0, 0.0], [0.3, 0.0, 0.0, 0.0]
    first = torch.tensor([confident, unsure]).double()
    probabilities = [torch.softmax(scores, 1)[0] for scores in (first, 1.1 * first)]
    squares = ((probabilities[0] + probabilities[1]) / 2) ** 2  # sharpening ½
    target = squares / squares.sum()
    expected = sum(float(((each - target) ** 2).sum()) for each in probabilities) / 2
    assert float(trainer.task.target.consistency(torch.stack([first, 1.1 * first], dim=1), 0.5)) == pytest.approx(
        expected
    )


def test_few_of_many_nodes_enter_the_consistency_loss() -> None:
    trainer = make_trainer(replace(SMALL, max_consistency_nodes=10))
    first, second = (trainer._draw_consistency_nodes(generator(0, name)) for name in ("a", "b"))
    assert len(first) == len(set(first.tolist())) == 10
    assert not torch.equal(first, second)
    given = make_trainer(consistency_nodes=torch.tensor([3, 4]))
    assert given._draw_consistency_nodes(generator(0)).tolist() == [3, 4]


# ---------------------------------------------------------------------- augmentation


@pytest.mark.parametrize("linear", [False, True])
def test_propagating_inputs_once_is_the_same_training(linear: bool) -> None:
    settings = replace(SMALL, drop_node=0.0, drop_feature=0.0, max_epochs=25)
    every_epoch, once = (
        make_trainer(settings, sparse=False, linear=linear, propagate_once=once) for once in (False, True)
    )
    for trainer in (every_epoch, once):
        trainer.run()
    accuracies, losses = (
        [[getattr(epoch, name) for epoch in trainer.epochs] for trainer in (every_epoch, once)]
        for name in ("validation_accuracy", "supervised_loss")
    )
    assert accuracies[0] == accuracies[1]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-3)
    torch.testing.assert_close(once.best_scores(), every_epoch.best_scores(), rtol=1e-2, atol=1e-3)
    nodes = torch.tensor([3, 30])
    torch.testing.assert_close(once.best_scores(nodes), once.best_scores()[nodes])


def test_features_are_dropped_from_propagated_inputs() -> None:
    settings = replace(SMALL, n_augmentations=2, drop_node=0.0, dropout=0.0, drop_feature=0.5)
    trainer = make_trainer(settings, sparse=False, propagate_once=True)
    first, second = trainer._augmented_scores(generator(0), ALL_NODES).unbind(1)
    assert not torch.allclose(first, second)
    with torch.no_grad():
        trainer.classifier.weight[2:] = 0  # two features remain, each dropped or not: at most four different rows
        trainer.propagated_inputs = torch.ones(40, 6)
    scores = trainer._augmented_scores(generator(0), ALL_NODES)[:, 0]
    assert 2 <= len(torch.unique(scores.round(decimals=4), dim=0)) <= 4


def test_without_dropping_augmentations_are_equal() -> None:
    trainer = make_trainer(replace(SMALL, drop_node=0.0, drop_feature=0.0, dropout=0.0))
    scores = trainer._augmented_scores(generator(0), ALL_NODES).unbind(1)
    torch.testing.assert_close(scores[0], scores[1])
    torch.testing.assert_close(scores[0], trainer.best_scores())


def test_dropping_keeps_the_mean() -> None:
    trainer = make_trainer(replace(SMALL, dropout=0.0, n_augmentations=4000, drop_node=0.5, drop_feature=0.5), dim=1)
    classifier = trainer.classifier
    with torch.no_grad():
        classifier.score.weight.fill_(1.0)
        classifier.bias.fill_(50.0)  # so that ReLU is the identity
        mean = trainer._augmented_scores(generator(0), ALL_NODES).mean(1)
        propagated = trainer.propagation(classifier.project(trainer.inputs))
        expected = classifier.scores(propagated + classifier.offset())
    torch.testing.assert_close(mean, expected, rtol=0.02, atol=0.05)


# ---------------------------------------------------------------------- label propagation and other losses


def test_propagated_labels_are_added_with_a_learned_weight() -> None:
    label_scores = group_scores(3.0)
    trainer, without = make_trainer(label_scores=label_scores), make_trainer()
    weight = trainer.classifier.label_weight
    torch.testing.assert_close(trainer.best_scores(), without.best_scores() + weight * label_scores)
    before = weight.item()
    trainer.run(stop_after=20)
    assert weight.item() > before  # they are correct


@pytest.mark.parametrize("multilabel", [False, True])
def test_distillation_is_the_cross_entropy_from_propagated_labels(multilabel: bool) -> None:
    label_scores = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    label_scores[5] = 0  # no label reaches it
    trainer = make_trainer(DISTILLED, label_scores=label_scores, classes=3)
    target = (MultiLabel if multilabel else SingleLabel)(np.arange(3))
    trainer.task = replace(trainer.task, target=target)
    nodes, scores = torch.tensor([1, 5, 30]), torch.randn(3, 3, generator=torch.Generator().manual_seed(1))
    reached, logits = label_scores[[1, 30]].double().numpy(), scores[[0, 2]].double().numpy()
    if multilabel:
        p, q = 1 / (1 + np.exp(-logits)), 1 / (1 + np.exp(-reached))
        expected = -(q * np.log(p) + (1 - q) * np.log(1 - p)).sum() / 2
    else:
        p, q = (np.exp(x) / np.exp(x).sum(1, keepdims=True) for x in (logits, reached))
        expected = -(q * np.log(p)).sum() / 2
    assert float(trainer._distillation(torch.stack([scores, scores], dim=1), nodes)) == pytest.approx(
        expected, rel=1e-6
    )


def test_a_distilled_classifier_learns_from_propagated_labels() -> None:
    label_scores = group_scores(2.0)
    correct = make_trainer(DISTILLED, label_scores=label_scores)
    wrong = make_trainer(replace(DISTILLED, consistency_weight=100.0), label_scores=-label_scores)
    for trainer in (correct, wrong):
        trainer.run()
        assert trainer.classifier.label_weight.item() == 1.0  # not learned: the classifier repeats these labels
    own = correct.best_scores() - label_scores
    assert (own[:20, 0] > own[:20, 1]).all()
    assert (own[20:, 1] > own[20:, 0]).all()
    own = wrong.best_scores() + label_scores
    assert (own[:20, 0] < own[:20, 1]).float().mean() > 0.9  # the distillation loss outweighs the labels


def test_the_sparse_classifier_drops_uninformative_features() -> None:
    settings = replace(SMALL, weight_decay=0.1, learning_rate=0.03, max_epochs=300, patience=300)
    trainer = make_trainer(settings, linear=True)
    trainer.run()
    classifier = trainer.classifier
    strength = (classifier.weight * (classifier.relevance / classifier.spread)[:, None]).abs().sum(1).detach()
    assert strength[:2].min() > 10 * strength[2:].max()  # only the first two indicate the group


def test_a_long_history_prints_its_first_and_last_epochs() -> None:
    epochs = [Epoch(number, 300, "train", 1.0, 0.0, None, None, 0.1) for number in range(1, 301)]
    lines = str(History(epochs)).splitlines()
    shown = ["1", "2", "3", "4", "5", "…", "296", "297", "298", "299", "300"]
    assert [line.split()[0] for line in lines] == ["epoch", *shown]
    assert len(str(History(epochs[:10])).splitlines()) == 11
