"""The outer problem of the path encoder: what weights learn, and from which labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from cge.models.classifiers import MLPClassifier
from cge.models.edge_weighting import EdgePropagation
from cge.models.sparse_products import SparseFeatures
from cge.targets import MultiLabel, Task
from cge.training.encoder_settings import OuterSettings
from cge.training.learned_weighting import OuterProblem, OuterResult
from tests.fixtures import PLANTED_NODES, QUICK_OUTER, edge_propagation, planted_task

NO_DROPOUT = replace(QUICK_OUTER, drop_feature=0.0, dropout=0.0)
ALL_NODES = torch.arange(PLANTED_NODES)


def inputs_of(task: Task) -> Tensor:
    return torch.tensor(np.array(task.graph.features))


def learn(
    task: Task, settings: OuterSettings = QUICK_OUTER, **options: Any
) -> tuple[OuterResult, dict[str, float], EdgePropagation]:
    weighted, scale = edge_propagation(task)
    result = OuterProblem(task, inputs_of(task), weighted, settings, **options).run()
    return result, dict(zip(scale.names, weighted.weighting.coefficients.tolist(), strict=True)), weighted


# ---------------------------------------------------------------------- what is learned


def test_edges_of_a_type_that_connects_different_classes_lose_weight() -> None:
    task = planted_task(typed=True, signal=0.5)
    result, coefficients, weighted = learn(task)
    assert result.better_than_prior
    assert result.after < 0.5 * result.before
    assert coefficients["type within"] > 1
    assert coefficients["type across"] < -1
    transitions, labels = weighted.transitions, task.labels.numpy()
    is_edge = transitions.rows != transitions.indices
    across = labels[transitions.rows] != labels[transitions.indices]
    before = edge_propagation(task)[0].normalized_weights()
    assert weighted.normalized_weights()[across].sum() < 0.3 * before[across].sum()
    assert weighted.normalized_weights()[is_edge & ~across].sum() > before[is_edge & ~across].sum()


def test_edge_weights_can_be_learned_without_hops_and_normalization() -> None:
    task = planted_task(typed=True, signal=0.5)
    weighted, scale = edge_propagation(task)
    edges = EdgePropagation(weighted.transitions, weighted.edge_inputs, weighted.weighting, train_hops=False)
    before = [parameter.detach().clone() for parameter in weighted.parameters()]
    assert OuterProblem(task, inputs_of(task), edges, QUICK_OUTER).run().better_than_prior
    changed = [not torch.equal(*pair) for pair in zip(weighted.parameters(), before, strict=True)]
    assert changed == [True, True, False, False]
    assert float(weighted.weighting.coefficients.detach()[scale.names.index("type across")]) < -0.5


def test_edges_between_dissimilar_nodes_lose_weight() -> None:
    result, coefficients, _ = learn(planted_task(typed=False, signal=1.5))
    assert result.better_than_prior
    assert result.after < 0.6 * result.before
    assert coefficients["cosine"] == max(coefficients.values())
    assert coefficients["cosine"] > 1


def test_nothing_is_learned_from_random_labels() -> None:
    labels = torch.from_numpy(np.random.default_rng(3).permutation(np.arange(PLANTED_NODES) % 2))
    task = planted_task(typed=True, signal=0.0, labels=labels)
    result, _, weighted = learn(task, replace(QUICK_OUTER, weighting_lr=0.03, penalty=1.0))
    assert not result.better_than_prior
    assert result.after > 0.95 * np.log(2)
    for parameter, start in zip(weighted.parameters(), weighted.initial_parameters(), strict=True):
        assert torch.equal(parameter, start)


def test_nothing_is_learned_from_random_labels_of_unequal_frequency() -> None:
    labels = (torch.from_numpy(np.random.default_rng(9).random(PLANTED_NODES)) < 0.12).long()
    assert 4 <= int(labels[:60].sum()) <= 10
    result, _, _ = learn(planted_task(True, 0.0, labels), replace(QUICK_OUTER, weighting_lr=0.03, penalty=1.0))
    assert not result.better_than_prior


def test_weights_are_learned_from_multilabels() -> None:
    task = planted_task(typed=True, signal=0.5)
    matrix = torch.stack([task.labels == 0, task.labels == 1, task.labels == 1], dim=1).long()
    result, coefficients, _ = learn(replace(task, labels=matrix, target=MultiLabel(np.arange(3))))
    assert result.better_than_prior
    assert result.after < 0.5 * result.before
    assert coefficients["type within"] - coefficients["type across"] > 1


# ---------------------------------------------------------------------- how it is learned


def test_weights_are_constant_in_the_warmup_and_the_mean_of_the_last_third() -> None:
    task = planted_task(typed=True, signal=0.5)
    weighted, _ = edge_propagation(task)
    seen: list[list[Tensor]] = []

    def record(step: int) -> None:
        assert step == len(seen)
        seen.append([parameter.detach().clone() for parameter in weighted.parameters()])

    settings = replace(QUICK_OUTER, steps=20, warmup_steps=12)
    assert OuterProblem(task, inputs_of(task), weighted, settings).run(record).better_than_prior
    assert len(seen) == 32
    for parameter, start, *values in zip(weighted.parameters(), weighted.initial_parameters(), *seen, strict=True):
        assert all(torch.equal(value, start) for value in values[:12])
        assert not torch.equal(values[12], start)
        torch.testing.assert_close(parameter.detach(), torch.stack(values[26:]).mean(0))


def test_the_penalty_keeps_weights_near_their_start() -> None:
    task, distances = planted_task(typed=True, signal=0.5), []
    for penalty in (0.0, 1e4):
        _, _, weighted = learn(task, replace(QUICK_OUTER, steps=20, penalty=penalty))
        pairs = zip(weighted.parameters(), weighted.initial_parameters(), strict=True)
        distances.append(max(float((parameter - start).detach().abs().max()) for parameter, start in pairs))
    assert distances[1] < 0.1 * distances[0]


def test_results_depend_on_the_seed_but_not_on_threads_or_the_state_of_torch() -> None:
    task = planted_task(typed=True, signal=0.5)
    before = torch.get_num_threads()
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    outcomes, threads = [], set()
    for n_jobs in (1, 2):
        torch.set_num_threads(n_jobs)
        try:
            weighted, _ = edge_propagation(task, n_jobs)
            inputs = SparseFeatures(sp.csr_array(np.array(task.graph.features)), n_jobs)
            settings = replace(QUICK_OUTER, steps=12)
            problem = OuterProblem(task, inputs, weighted, settings)
            result = problem.run(lambda _: threads.add(torch.get_num_threads()))
            assert torch.get_num_threads() == n_jobs
        finally:
            torch.set_num_threads(before)
        outcomes.append((result, [parameter.detach().numpy().tobytes() for parameter in weighted.parameters()]))
    assert outcomes[0] == outcomes[1]
    assert threads == {1}
    assert torch.equal(torch.rand(2), expected)
    other = learn(task, replace(QUICK_OUTER, steps=12, seed=1))[0]
    assert other.after != outcomes[0][0].after


@pytest.fixture
def one_thread() -> Iterator[None]:
    """As within `OuterProblem.run`."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make_problem(task: Task, settings: OuterSettings, class_weights: Any = None, **changed: Any) -> OuterProblem:
    return OuterProblem(task, inputs_of(task), edge_propagation(task, **changed)[0], settings, class_weights)


def state_of(classifier: MLPClassifier) -> list[tuple[bytes, bytes]]:
    pairs = [(each.detach(), each.grad) for each in classifier.parameters() if each.grad is not None]
    assert len(pairs) == 4
    return [(value.numpy().tobytes(), gradient.numpy().tobytes()) for value, gradient in pairs]


@pytest.mark.parametrize("changed_fold", [0, 1, 2])
@pytest.mark.usefixtures("one_thread")
def test_the_labels_of_a_fold_do_not_train_its_classifier(changed_fold: int) -> None:
    task = planted_task(typed=True, signal=0.5)
    flipped = task.labels.clone()
    flipped[task.folds[changed_fold]] = 1 - flipped[task.folds[changed_fold]]
    original, other = make_problem(task, QUICK_OUTER), make_problem(replace(task, labels=flipped), QUICK_OUTER)
    for step in range(5):
        original._step(step, train_weights=False)
        other._step(step, train_weights=False)
        for fold, pair in enumerate(zip(original.classifiers, other.classifiers, strict=True)):
            assert (state_of(pair[0]) == state_of(pair[1])) == (fold == changed_fold)


def test_labels_outside_the_training_labels_do_not_matter() -> None:
    task = planted_task(typed=True, signal=0.5)
    hidden = task.labels.clone()
    hidden[60:] = -1
    settings = replace(QUICK_OUTER, steps=6)
    assert learn(task, settings)[:2] == learn(replace(task, labels=hidden), settings)[:2]


def dense_matrix(weighted: EdgePropagation, parameters: list[Tensor]) -> Tensor:
    """Return M by the formula, differentiable, `(n, n)`."""
    coefficients, self_loop, normalization, _ = parameters
    edge_inputs, transitions = weighted.edge_inputs, weighted.transitions
    rows, targets = torch.from_numpy(transitions.rows), torch.from_numpy(transitions.indices)
    exponent = edge_inputs.values.double() @ coefficients + self_loop * edge_inputs.self_loops.double()
    raw = torch.zeros(PLANTED_NODES, PLANTED_NODES, dtype=torch.float64)
    raw = raw.index_put((rows, targets), edge_inputs.weights.double() * torch.exp(exponent))
    z = raw.sum(1)
    return raw / (z[:, None] ** (1 - normalization) * z[None, :] ** normalization)


@pytest.mark.parametrize("penalty", [0.0, 50.0])
@pytest.mark.usefixtures("one_thread")
def test_a_step_descends_the_held_out_loss_and_the_penalty(penalty: float) -> None:
    task = planted_task(typed=True, signal=0.5)
    class_weights = torch.tensor([1.0, 3.0])
    start = {
        "coefficients": [0.3, -0.2, 0.1, 0.0, 0.4, 0.5, -0.5],
        "self_loop": 0.2,
        "normalization": 0.4,
        "hop_weights": [1.0, -0.5, 2.0],
    }
    problem = make_problem(task, replace(NO_DROPOUT, penalty=penalty), class_weights, **start)
    weighted: Any = problem.trainable_propagation
    weighted._initial = [part - 0.25 for part in weighted._initial]
    with torch.no_grad():
        problem.log_scale.fill_(0.7)
        for classifier in problem.classifiers:
            classifier.bias.uniform_(-0.1, 0.1, generator=torch.Generator().manual_seed(0))

    parameters = [part.detach().double().requires_grad_() for part in problem.weights]
    log_scale = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    matrix, hops = dense_matrix(weighted, parameters), parameters[3] / parameters[3].abs().sum()
    operator = hops[0] * torch.eye(PLANTED_NODES).double() + hops[1] * matrix + hops[2] * matrix @ matrix
    outer_loss, inner_gradients = torch.zeros(()).double(), []
    node_weights = class_weights.double()[task.labels]
    for classifier, fold in zip(problem.classifiers, task.folds, strict=True):
        weight, bias, score, shift = (
            part.detach().double().requires_grad_()
            for part in (classifier.weight, classifier.bias, classifier.score.weight, classifier.score.bias)
        )
        logits = torch.relu(operator @ (inputs_of(task).double() @ weight) + bias) @ score.T + shift
        outer_losses, own = (
            -torch.log_softmax(scale * logits, 1)[ALL_NODES, task.labels] for scale in (torch.exp(log_scale), 1.0)
        )
        outer_loss = outer_loss + (node_weights * outer_losses)[fold].sum() / node_weights[fold].sum() * len(fold) / 60
        rest = torch.tensor(sorted(set(range(60)) - set(fold.tolist())))
        inner_loss = (node_weights * own)[rest].sum() / node_weights[rest].sum()
        inner_gradients.append(torch.autograd.grad(inner_loss, [weight, bias, score, shift], retain_graph=True))
    distance = sum((0.25 + part - part.detach()).square().sum() for part in parameters)
    expected = torch.autograd.grad(outer_loss + penalty / 60 * distance, [*parameters, log_scale])

    assert problem._step(0, train_weights=True) == pytest.approx(float(outer_loss.detach()), rel=1e-5)
    for part, gradient in zip([*problem.weights, problem.log_scale], expected, strict=True):
        assert part.grad is not None
        torch.testing.assert_close(part.grad.double(), gradient, rtol=1e-4, atol=1e-6)
    for classifier, gradients in zip(problem.classifiers, inner_gradients, strict=True):
        parts = (classifier.weight, classifier.bias, classifier.score.weight, classifier.score.bias)
        for part, gradient in zip(parts, gradients, strict=True):
            assert part.grad is not None
            torch.testing.assert_close(part.grad.double(), gradient, rtol=1e-4, atol=1e-6)


class RecordingPropagation:
    """Propagates with given weights, and records the nodes that it is asked for."""

    def __init__(self, weighted: EdgePropagation) -> None:
        self.weighted, self.nodes = weighted, list[Any]()
        self.parameters, self.initial_parameters = weighted.parameters, weighted.initial_parameters

    def propagation(self, nodes: Any = None) -> Callable[[Tensor], Tensor]:
        self.nodes.append(nodes)
        return self.weighted.propagation(nodes)


@pytest.mark.parametrize("count", [None, 25, 1000])
@pytest.mark.usefixtures("one_thread")
def test_a_step_uses_at_most_so_many_labeled_nodes(count: int | None) -> None:
    task = planted_task(typed=True, signal=0.5)
    recorder = RecordingPropagation(edge_propagation(task)[0])
    problem = OuterProblem(task, inputs_of(task), recorder, replace(NO_DROPOUT, nodes=count), None)
    with torch.no_grad():
        classifier = problem.classifiers[0]  # all start equal
        propagated = recorder.weighted.propagation()(classifier.project(inputs_of(task)))
        scores = classifier.scores(propagated + classifier.bias).double()
    log_losses = -torch.log_softmax(scores, 1)[ALL_NODES, task.labels]
    loss = problem._step(0, train_weights=True)
    nodes = recorder.nodes[0]
    assert len(set(nodes.tolist())) == len(nodes) == (25 if count == 25 else 60)
    assert set(nodes.tolist()) <= set(range(60))
    assert loss == pytest.approx(float(log_losses[nodes].mean()), rel=1e-5)
    problem._step(1, train_weights=True)
    assert (recorder.nodes[1].tolist() == nodes.tolist()) == (count != 25)
