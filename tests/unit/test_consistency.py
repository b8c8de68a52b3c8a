"""Training of the path encoder: what it reaches on a plain task, what it repeats, what it restores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from cge.losses import supervised_loss
from cge.metrics import accuracy_or_f1
from cge.models.classifiers import MLPClassifier, SparseClassifier
from cge.models.edge_weighting import EdgePropagation, EdgeWeighting, make_edge_inputs
from cge.models.sparse_products import SparseFeatures, keyed_dropout
from cge.models.transitions import TransitionMatrix
from cge.randomness import STEP, generator, mix
from cge.training.classifier_training import ClassifierSettings, ClassifierTrainer, sharpened
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


def trainer(
    settings: ClassifierSettings = SMALL,
    sparse: bool = True,
    n_jobs: int = 1,
    dim: int = 8,
    classifier: str = "consistency",
    votes: Any = None,
    class_weights: Any = None,
    agreeing: Any = None,
    summed: bool = False,
    **task: Any,
) -> Any:
    graph = two_groups(features=False)
    told = np.random.default_rng(0).random((40, 6)) + np.repeat(np.eye(2, 6), 20, axis=0)
    graph = graph.with_features(told - told.mean(0))
    steps = TransitionMatrix(graph, n_jobs)
    edge_inputs, scale = make_edge_inputs(graph, steps)
    propagation = EdgePropagation(
        steps, edge_inputs, EdgeWeighting([0.0] * len(scale.names), 0.0, 0.5, [1.0] * 4)
    ).fixed()
    inputs = SparseFeatures(sp.csr_array(graph.features), n_jobs) if sparse else torch.tensor(graph.features)
    made = make_task(graph, **task)
    with seeded(settings.seed, "classifier"):
        if classifier == "sparse":
            features = torch.tensor(graph.features)
            one: Any = SparseClassifier(features.mean(0), features.std(0), made.classes)
        else:
            one = MLPClassifier(6, dim, made.classes)
    more = {"label_scores": votes, "class_weights": class_weights, "consistency_nodes": agreeing}
    if summed:
        more["propagated_inputs"] = propagation(torch.tensor(graph.features))
    return ClassifierTrainer(made, inputs, propagation, one, settings, **more)


@pytest.mark.parametrize("classifier", ["consistency", "sparse"])
@pytest.mark.parametrize("sparse", [True, False])
def test_it_learns_the_groups_and_keeps_the_best_epoch(sparse: bool, classifier: str) -> None:
    one = trainer(sparse=sparse, classifier=classifier)
    one.run()
    accuracies = [epoch.validation_accuracy for epoch in one.epochs]
    assert max(accuracies) >= 0.9
    assert one.epochs[one.best_epoch - 1].validation_accuracy == max(accuracies)
    nodes = one.task.validation.numpy()
    scores = one.best_scores().numpy()
    assert accuracy_or_f1(scores[nodes], one.task.labels.numpy()[nodes]) == max(accuracies)


def test_the_same_bytes_on_any_threads_and_no_trace_in_torch() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    found = []
    for n_jobs in (1, 2):
        one = trainer(replace(SMALL, max_epochs=15), n_jobs=n_jobs)
        one.run()
        found.append({name: array.tobytes() for name, array in one.best.items()})
    assert found[0] == found[1]
    assert torch.equal(torch.rand(2), expected)
    other = trainer(replace(SMALL, max_epochs=15, seed=1))
    other.run()
    assert other.best["classifier.weight"].tobytes() != found[0]["classifier.weight"]


def test_a_stopped_training_goes_on_to_the_same_bytes() -> None:
    whole, first = trainer(replace(SMALL, max_epochs=20)), trainer(replace(SMALL, max_epochs=20))
    whole.run()
    first.run(stop_after=7)
    assert len(first.epochs) == 7
    second = trainer(replace(SMALL, max_epochs=20))
    second.load(first.state())
    second.run()
    assert {name: one.tobytes() for name, one in second.best.items()} == {
        name: one.tobytes() for name, one in whole.best.items()
    }
    assert [one.supervised_loss for one in second.epochs] == [one.supervised_loss for one in whole.epochs]


def test_labels_alone_come_first_and_then_agreement_grows() -> None:
    one = trainer(replace(SMALL, warmup_epochs=3, rampup_epochs=4, consistency_weight=2.0))
    assert [one._consistency_weight(k) for k in range(9)] == [0, 0, 0, 0, 0.5, 1.0, 1.5, 2.0, 2.0]
    one.run(stop_after=40)
    apart = [epoch.consistency_loss for epoch in one.epochs]
    assert apart[:4] == [0.0] * 4
    assert min(apart[20:]) > 0


def test_agreement_pulls_predictions_together() -> None:
    losses = []
    for weight in (1e-9, 5.0):
        one = trainer(replace(SMALL, consistency_weight=weight))
        one.run()
        losses.append(np.mean([epoch.consistency_loss for epoch in one.epochs[-10:]]))
    assert losses[1] < losses[0]


def test_patience_waits_for_agreement_and_without_validation_the_last_epoch_counts() -> None:
    one = trainer(replace(SMALL, patience=5, learning_rate=1e-12))  # nothing is learned, so nothing is better
    one.run()
    assert one.best_epoch == 11  # the first with full λ
    assert len(one.epochs) == 16
    last = trainer(replace(SMALL, max_epochs=7, patience=2), validation=torch.empty(0, dtype=torch.int64))
    last.run()
    assert last.best_epoch == 7


@pytest.mark.parametrize("classifier", ["consistency", "sparse"])
def test_summing_before_or_after_the_projection_is_the_same_training(classifier: str) -> None:
    settings = replace(SMALL, drop_node=0.0, drop_feature=0.0, max_epochs=25)
    after, before = (trainer(settings, sparse=False, classifier=classifier, summed=summed) for summed in (False, True))
    for one in (after, before):
        one.run()
    assert [epoch.validation_accuracy for epoch in before.epochs] == [one.validation_accuracy for one in after.epochs]
    np.testing.assert_allclose(
        [epoch.supervised_loss for epoch in before.epochs], [one.supervised_loss for one in after.epochs], rtol=1e-3
    )
    torch.testing.assert_close(before.best_scores(), after.best_scores(), rtol=1e-2, atol=1e-3)
    some = torch.tensor([3, 30])
    torch.testing.assert_close(before.best_scores(some), before.best_scores()[some])


def test_features_are_dropped_from_the_sum() -> None:
    one = trainer(
        replace(SMALL, n_augmentations=2, drop_node=0.0, dropout=0.0, drop_feature=0.5), sparse=False, summed=True
    )
    first, second = one._augmented_scores(generator(0), torch.arange(40))
    assert not torch.allclose(first, second)
    with torch.no_grad():
        one.classifier.weight[2:] = 0  # two features are left, each there or not: four scores at most, whoever is near
        one.propagated_inputs = torch.ones(40, 6)
    assert (
        2 <= len(torch.unique(one._augmented_scores(generator(0), torch.arange(40))[0].round(decimals=4), dim=0)) <= 4
    )


def test_nothing_dropped_is_nothing_augmented_scores() -> None:
    one = trainer(replace(SMALL, drop_node=0.0, drop_feature=0.0, dropout=0.0))
    scores = one._augmented_scores(generator(0), torch.arange(40))
    torch.testing.assert_close(scores[0], scores[1])
    torch.testing.assert_close(scores[0], one.best_scores())


def test_what_is_dropped_keeps_its_mean() -> None:
    one = trainer(replace(SMALL, dropout=0.0, n_augmentations=4000, drop_node=0.5, drop_feature=0.5), dim=1)
    with torch.no_grad():
        one.classifier.score.weight.fill_(1.0)
        one.classifier.bias.fill_(50.0)  # ReLU lets everything through
        mean = torch.stack(one._augmented_scores(generator(0), torch.arange(40))).mean(0)
        expected = one.classifier.scores(one.propagation(one.classifier.project(one.inputs)) + one.classifier.offset())
    torch.testing.assert_close(mean, expected, rtol=0.02, atol=0.05)


def test_dense_numbers_are_dropped_by_their_key() -> None:
    values = torch.from_numpy(np.random.default_rng(0).normal(size=(40_001, 33)).astype(np.float32))
    one, two = keyed_dropout(values, 0.3, np.uint64(7), 1), keyed_dropout(values, 0.3, np.uint64(7), 2)
    assert one.numpy().tobytes() == two.numpy().tobytes()
    self_loops = one != 0
    torch.testing.assert_close(one[self_loops], values[self_loops] / 0.7)
    assert float(self_loops.double().mean()) == pytest.approx(0.7, abs=0.002)
    for axis in (0, 1):  # neither rows, columns nor neighbors go together
        assert float(self_loops.double().mean(axis).std()) == pytest.approx(
            (0.21 / values.shape[axis]) ** 0.5, rel=0.35
        )
    flat = self_loops.flatten().double()
    assert abs(float(torch.corrcoef(torch.stack([flat[:-1], flat[1:]]))[0, 1])) < 0.005
    other = keyed_dropout(values, 0.3, np.uint64(8), 1) != 0
    assert abs(float(torch.corrcoef(torch.stack([flat, other.flatten().double()]))[0, 1])) < 0.005
    z = [(7 + place * int(STEP)) % 2**64 for place in range(4)]
    bits = [int(mix(np.uint64(one))) for one in z]
    expected = [half >= 0.3 * 2**32 for one in bits for half in (one >> 32, one % 2**32)]
    assert self_loops.flatten()[:8].tolist() == expected


def test_disagreement_counts_confident_nodes_only() -> None:
    one = trainer(classes=4)
    sure, unsure = [3.0, 0.0, 0.0, 0.0], [0.3, 0.0, 0.0, 0.0]
    first, second = torch.tensor([sure, unsure]).double(), torch.tensor([sure, unsure]).double() * 1.1
    probabilities = [torch.softmax(scores, 1)[0] for scores in (first, second)]
    aim = sharpened((probabilities[0] + probabilities[1])[None] / 2, 0.5, False)[0]
    expected = sum(float(((one - aim) ** 2).sum()) for one in probabilities) / 2
    assert float(one._consistency([first, second])) == pytest.approx(expected)


def test_votes_are_added_as_much_as_they_are_trusted() -> None:
    votes = torch.zeros(40, 2)
    votes[:20, 0] = votes[20:, 1] = 3.0
    one = trainer(votes=votes)
    plain = trainer()
    torch.testing.assert_close(one.best_scores(), plain.best_scores() + one.classifier.label_weight * votes)
    before = one.classifier.label_weight.item()
    one.run(stop_after=20)
    assert one.classifier.label_weight.item() > before  # they are right


TAUGHT = replace(
    SMALL, n_augmentations=1, drop_node=0.0, warmup_epochs=0, rampup_epochs=0, distilled=True, consistency_weight=3.0
)


@pytest.mark.parametrize("several", [False, True])
def test_a_pupil_is_as_far_from_the_votes_as_cross_entropy_says(several: bool) -> None:
    votes = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    votes[5] = 0  # nobody says anything of it
    labels = torch.ones((40, 3), dtype=torch.int64) if several else torch.zeros(40, dtype=torch.int64)
    one = trainer(TAUGHT, votes=votes, classes=3)
    one.task = replace(one.task, labels=labels)
    nodes, scores = torch.tensor([1, 5, 30]), torch.randn(3, 3, generator=torch.Generator().manual_seed(1))
    told, said = votes[[1, 30]].double().numpy(), scores[[0, 2]].double().numpy()
    if several:
        chance, aim = 1 / (1 + np.exp(-said)), 1 / (1 + np.exp(-told))
        expected = -(aim * np.log(chance) + (1 - aim) * np.log(1 - chance)).sum() / 2
    else:
        chance, aim = (np.exp(x) / np.exp(x).sum(1, keepdims=True) for x in (said, told))
        expected = -(aim * np.log(chance)).sum() / 2
    assert float(one._distillation([scores, scores], nodes)) == pytest.approx(expected, rel=1e-6)


def test_a_pupil_learns_from_votes_alone_and_speaks_beside_them() -> None:
    votes = torch.zeros(40, 2)
    votes[:20, 0] = votes[20:, 1] = 2.0
    one, wrong = trainer(TAUGHT, votes=votes), trainer(replace(TAUGHT, consistency_weight=100.0), votes=-votes)
    for pupil in (one, wrong):
        pupil.run()
        assert pupil.classifier.label_weight.item() == 1.0  # its say is not learned: the pupil repeats the votes
    alone = one.best_scores() - votes
    assert (alone[:20, 0] > alone[:20, 1]).all()
    assert (alone[20:, 1] > alone[20:, 0]).all()
    misled = wrong.best_scores() + votes
    assert (
        misled[:20, 0] < misled[:20, 1]
    ).float().mean() > 0.9  # votes count more than labels here, and they are wrong


def test_a_pupil_that_was_stopped_goes_on_to_the_same_bytes() -> None:
    votes = torch.zeros(40, 2)
    votes[:20, 0] = votes[20:, 1] = 2.0
    whole, first, second = (trainer(TAUGHT, votes=votes) for _ in range(3))
    whole.run()
    first.run(stop_after=20)
    second.load(first.state())
    second.run()
    assert torch.equal(whole.best_scores(), second.best_scores())


def test_class_weights_are_those_of_the_loss() -> None:
    scores, labels, weights = torch.randn(5, 3).double(), torch.tensor([0, 1, 2, 0, 0]), torch.tensor([1.0, 2.0, 4.0])
    each = -torch.log_softmax(scores, 1)[torch.arange(5), labels]
    weighed = weights.double()[labels]
    expected = float((each * weighed).sum() / weighed.sum())
    assert float(supervised_loss(scores, labels, weights.double())) == pytest.approx(expected)


def test_few_of_many_nodes_have_to_agree() -> None:
    one = trainer(replace(SMALL, max_consistency_nodes=10))
    first, second = one._draw_consistency_nodes(generator(0, "a")), one._draw_consistency_nodes(generator(0, "b"))
    assert len(first) == len(set(first.tolist())) == 10
    assert not torch.equal(first, second)
    assert trainer(agreeing=torch.tensor([3, 4]))._draw_consistency_nodes(generator(0)).tolist() == [3, 4]


def test_a_sparse_reader_forgets_features_that_say_nothing() -> None:
    one = trainer(
        replace(SMALL, weight_decay=0.1, learning_rate=0.03, max_epochs=300, patience=300), classifier="sparse"
    )
    one.run()
    strength = (
        (one.classifier.weight * (one.classifier.relevance / one.classifier.spread)[:, None]).abs().sum(1).detach()
    )
    assert strength[:2].min() > 10 * strength[2:].max()  # only the first two tell the groups apart


def test_sharpened_chances() -> None:
    probabilities = torch.tensor([[0.6, 0.3, 0.1]], dtype=torch.float64)
    torch.testing.assert_close(sharpened(probabilities, 0.5, False), probabilities**2 / (0.36 + 0.09 + 0.01))
    torch.testing.assert_close(sharpened(probabilities, 1.0, False), probabilities)
    several = sharpened(probabilities, 0.5, True)
    torch.testing.assert_close(several, probabilities**2 / (probabilities**2 + (1 - probabilities) ** 2))


def test_sharp_predictions_of_many_classes_sum_to_one() -> None:
    for classes, sharpening in ((7, 0.01), (210, 0.05)):
        probabilities = torch.softmax(torch.randn(5, classes, generator=torch.Generator().manual_seed(0)) / 4, dim=1)
        torch.testing.assert_close(sharpened(probabilities, sharpening, False).sum(1), torch.ones(5))


def test_several_labels_per_node() -> None:
    matrix = torch.tensor([[1, 0, 1]] * 20 + [[0, 1, 1]] * 20)
    one = trainer(labels=matrix, classes=3)
    one.run()
    assert max(epoch.validation_accuracy for epoch in one.epochs) > 0.9
