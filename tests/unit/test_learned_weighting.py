"""The outer problem and the guard: what weights learn, from which labels, and when they step aside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

import cge
from cge.losses import supervised_loss
from cge.models.classifiers import MLPClassifier, SparseClassifier
from cge.models.edge_weighting import EdgePropagation, EdgeWeighting, make_edge_inputs
from cge.models.propagation import FixedPropagation
from cge.models.sparse_products import SparseFeatures
from cge.models.transitions import TransitionMatrix
from cge.training.learned_weighting import OuterProblem, OuterResult, OuterSettings, learn_weighting
from cge.training.model_comparison import (
    CandidateScore,
    accuracy_gain,
    closed_form_weightings,
    hop_profiles,
    is_better,
    score_candidate,
)
from cge.training.task import Task
from cge.training.torch_state import seeded
from tests.fixtures import PLANTED_NODES, QUICK_OUTER, edge_propagation, planted_task

STILL = replace(QUICK_OUTER, drop_feature=0.0, dropout=0.0)


def resolve_inputs(task: Task) -> Tensor:
    return torch.tensor(np.array(task.graph.features))


def learned(
    task: Task, settings: OuterSettings = QUICK_OUTER, **more: Any
) -> tuple[OuterResult, dict[str, float], EdgePropagation]:
    weighted, scale = edge_propagation(task)
    found = learn_weighting(task, resolve_inputs(task), weighted, settings, **more)
    return found, dict(zip(scale.names, weighted.weighting.coefficients.tolist(), strict=True)), weighted


# ---------------------------------------------------------------------- what is learned


def test_steps_of_a_kind_that_crosses_classes_sink() -> None:
    task = planted_task(typed=True, signal=0.5)
    found, gate, weighted = learned(task)
    assert found.learned
    assert found.after < 0.5 * found.before
    assert gate["type within"] > 1
    assert gate["type across"] < -1
    steps, labels = weighted.transitions, task.labels.numpy()
    moves = steps.rows != steps.indices
    crossing = labels[steps.rows] != labels[steps.indices]
    plain = edge_propagation(task)[0].values()
    assert weighted.values()[crossing].sum() < 0.3 * plain[crossing].sum()
    assert weighted.values()[moves & ~crossing].sum() > plain[moves & ~crossing].sum()


def test_gates_alone_leave_hops_and_discount() -> None:
    task = planted_task(typed=True, signal=0.5)
    weighted, scale = edge_propagation(task)
    gates = EdgePropagation(weighted.transitions, weighted.edge_inputs, weighted.weighting, train_hops=False)
    before = [one.detach().clone() for one in weighted.weighting.parameters()]
    assert learn_weighting(task, resolve_inputs(task), gates, QUICK_OUTER).learned
    moved = [not torch.equal(one, other) for one, other in zip(weighted.weighting.parameters(), before, strict=True)]
    assert moved == [True, True, False, False]
    assert float(weighted.weighting.coefficients.detach()[scale.names.index("type across")]) < -0.5


def test_steps_between_nodes_that_differ_sink() -> None:
    found, gate, _ = learned(planted_task(typed=False, signal=1.5))
    assert found.learned
    assert found.after < 0.6 * found.before
    assert gate["cosine"] == max(gate.values())
    assert gate["cosine"] > 1


def noise() -> Tensor:
    return torch.from_numpy(np.random.default_rng(3).permutation(np.arange(PLANTED_NODES) % 2))


def test_labels_that_are_noise_teach_nothing() -> None:
    task = planted_task(typed=True, signal=0.0, labels=noise())
    found, _, weighted = learned(task, replace(QUICK_OUTER, weighting_lr=0.03, penalty=1.0))
    assert not found.learned
    assert found.after > 0.95 * np.log(2)
    for parameter, start in zip(weighted.parameters(), weighted.initial_parameters(), strict=True):
        assert torch.equal(parameter, start)


def test_skewed_labels_that_are_noise_teach_nothing() -> None:
    labels = (torch.from_numpy(np.random.default_rng(9).random(PLANTED_NODES)) < 0.12).long()
    assert 4 <= int(labels[:60].sum()) <= 10
    found, _, _ = learned(planted_task(True, 0.0, labels), replace(QUICK_OUTER, weighting_lr=0.03, penalty=1.0))
    assert not found.learned


def test_several_labels_per_node_teach_as_well() -> None:
    task = planted_task(typed=True, signal=0.5)
    matrix = torch.stack([task.labels == 0, task.labels == 1, task.labels == 1], dim=1).long()
    found, gate, _ = learned(replace(task, labels=matrix, classes=3))
    assert found.learned
    assert found.after < 0.5 * found.before
    assert gate["type within"] - gate["type across"] > 1


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("several", [False, True])
def test_who_guesses_knows_how_common_classes_are(balanced: bool, several: bool) -> None:
    labels = torch.from_numpy(np.random.default_rng(4).integers(0, 3, PLANTED_NODES))
    labels = torch.stack([labels == 0, labels > 0], dim=1).long() if several else labels
    task = replace(planted_task(typed=True, signal=0.5, labels=labels), classes=2 if several else 3)
    known = labels[task.train]
    members = known if several else torch.eye(3)[known]
    weights = (1 / members.double().mean(0)) if balanced else None
    outer = OuterProblem(task, resolve_inputs(task), edge_propagation(task)[0], QUICK_OUTER, weights)
    constants = torch.zeros(task.classes, dtype=torch.float64, requires_grad=True)
    descent = torch.optim.LBFGS([constants], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        descent.zero_grad()
        found = supervised_loss(constants.expand(len(known), -1), known, weights)
        found.backward()  # type: ignore[no-untyped-call]
        return found

    descent.step(loss)
    assert outer._prior_loss() == pytest.approx(float(loss().detach()), abs=1e-6)


# ---------------------------------------------------------------------- how it is learned


def test_weights_wait_for_the_readers_and_are_the_mean_of_the_last_third() -> None:
    task = planted_task(typed=True, signal=0.5)
    weighted, _ = edge_propagation(task)
    seen: list[list[Tensor]] = []

    def look(step: int) -> None:
        assert step == len(seen)
        seen.append([one.detach().clone() for one in weighted.parameters()])

    found = learn_weighting(
        task, resolve_inputs(task), weighted, replace(QUICK_OUTER, steps=20, warmup_steps=12), on_step=look
    )
    assert found.learned
    assert len(seen) == 32
    for parameter, start, *values in zip(weighted.parameters(), weighted.initial_parameters(), *seen, strict=True):
        assert all(torch.equal(value, start) for value in values[:12])
        assert not torch.equal(values[12], start)
        torch.testing.assert_close(parameter.detach(), torch.stack(values[26:]).mean(0))


def test_a_penalty_keeps_weights_near_the_prior() -> None:
    task = planted_task(typed=True, signal=0.5)
    moved = []
    for penalty in (0.0, 1e4):
        _, _, weighted = learned(task, replace(QUICK_OUTER, steps=20, penalty=penalty))
        parts = zip(weighted.parameters(), weighted.initial_parameters(), strict=True)
        moved.append(max(float((one - start).detach().abs().max()) for one, start in parts))
    assert moved[1] < 0.1 * moved[0]


def test_the_same_bytes_on_any_threads_and_no_trace_in_torch() -> None:
    task = planted_task(typed=True, signal=0.5)
    before = torch.get_num_threads()
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    found, within = [], set()

    def look(_: int) -> None:
        within.add(torch.get_num_threads())

    for n_jobs in (1, 2):
        torch.set_num_threads(n_jobs)
        try:
            weighted, _ = edge_propagation(task, n_jobs)
            inputs = SparseFeatures(sp.csr_array(np.array(task.graph.features)), n_jobs)
            result = learn_weighting(task, inputs, weighted, replace(QUICK_OUTER, steps=12), on_step=look)
            assert torch.get_num_threads() == n_jobs
        finally:
            torch.set_num_threads(before)
        found.append((result, [one.detach().numpy().tobytes() for one in weighted.parameters()]))
    assert found[0] == found[1]
    assert within == {1}
    assert torch.equal(torch.rand(2), expected)
    other = learned(task, replace(QUICK_OUTER, steps=12, seed=1))[0]
    assert other.after != found[0][0].after


@pytest.fixture
def one_thread() -> Iterator[None]:
    """As within `learn_weighting`."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def outer(task: Task, settings: OuterSettings, class_weights: Tensor | None = None, **changed: Any) -> OuterProblem:
    return OuterProblem(task, resolve_inputs(task), edge_propagation(task, **changed)[0], settings, class_weights)


def state_of(classifier: MLPClassifier) -> list[tuple[bytes, bytes]]:
    told = [one for one in classifier.parameters() if one.grad is not None]
    assert len(told) == 4
    return [(one.detach().numpy().tobytes(), one.grad.numpy().tobytes()) for one in told if one.grad is not None]


@pytest.mark.parametrize("held", [0, 1, 2])
@pytest.mark.usefixtures("one_thread")
def test_the_labels_of_a_fold_do_not_reach_its_reader(held: int) -> None:
    task = planted_task(typed=True, signal=0.5)
    flipped = task.labels.clone()
    flipped[task.folds[held]] = 1 - flipped[task.folds[held]]
    one, other = outer(task, QUICK_OUTER), outer(replace(task, labels=flipped), QUICK_OUTER)
    for step in range(5):
        one._step(step, moving=False)
        other._step(step, moving=False)
        for place, (classifier, twin) in enumerate(zip(one.classifiers, other.classifiers, strict=True)):
            assert (state_of(classifier) == state_of(twin)) == (place == held)


def test_labels_outside_the_training_labels_do_not_matter() -> None:
    task = planted_task(typed=True, signal=0.5)
    hidden = task.labels.clone()
    hidden[60:] = -1
    settings = replace(QUICK_OUTER, steps=6)
    assert learned(task, settings)[:2] == learned(replace(task, labels=hidden), settings)[:2]


def dense_values(weighted: EdgePropagation, parameters: list[Tensor]) -> Tensor:
    """Return M by the formula, differentiable, `(n, n)`."""
    gate, self_loop, normalization, _ = parameters
    edge_inputs, steps = weighted.edge_inputs, weighted.transitions
    rows, ends = torch.from_numpy(steps.rows), torch.from_numpy(steps.indices)
    exponent = edge_inputs.values.double() @ gate + self_loop * edge_inputs.self_loops.double()
    gates = torch.zeros(PLANTED_NODES, PLANTED_NODES, dtype=torch.float64)
    gates = gates.index_put((rows, ends), edge_inputs.weights.double() * torch.exp(exponent))
    z = gates.sum(1)
    return gates / (z[:, None] ** (1 - normalization) * z[None, :] ** normalization)


@pytest.mark.parametrize("penalty", [0.0, 50.0])
@pytest.mark.usefixtures("one_thread")
def test_a_step_descends_the_loss_of_the_folds_and_the_penalty(penalty: float) -> None:
    task = planted_task(typed=True, signal=0.5)
    class_weights = torch.tensor([1.0, 3.0])
    start = {
        "coefficients": [0.3, -0.2, 0.1, 0.0, 0.4, 0.5, -0.5],
        "self_loop": 0.2,
        "normalization": 0.4,
        "hops": [1.0, -0.5, 2.0],
    }
    one = outer(task, replace(STILL, penalty=penalty), class_weights, **start)
    weighted: Any = one.weighted
    weighted._prior = [part - 0.25 for part in weighted._prior]
    with torch.no_grad():
        one.temperature.fill_(0.7)
        for classifier in one.classifiers:
            classifier.bias.uniform_(-0.1, 0.1, generator=torch.Generator().manual_seed(0))

    parameters = [part.detach().double().requires_grad_() for part in one.weights]
    temperature = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    moved, hops = dense_values(weighted, parameters), parameters[3] / parameters[3].abs().sum()
    operator = hops[0] * torch.eye(PLANTED_NODES).double() + hops[1] * moved + hops[2] * moved @ moved
    outside, inside = torch.zeros(()).double(), []
    for classifier, fold in zip(one.classifiers, task.folds, strict=True):
        weight, bias, score, shift = (
            part.detach().double().requires_grad_()
            for part in (classifier.weight, classifier.bias, classifier.score.weight, classifier.score.bias)
        )
        hidden = torch.relu(operator @ (resolve_inputs(task).double() @ weight) + bias)
        log_loss = -torch.log_softmax(torch.exp(temperature) * (hidden @ score.T + shift), 1)[
            torch.arange(PLANTED_NODES), task.labels
        ]
        own = -torch.log_softmax(hidden @ score.T + shift, 1)[torch.arange(PLANTED_NODES), task.labels]
        each = class_weights.double()[task.labels]
        outside = outside + (each * log_loss)[fold].sum() / each[fold].sum() * len(fold) / 60
        rest = torch.tensor(sorted(set(range(60)) - set(fold.tolist())))
        inner = (each * own)[rest].sum() / each[rest].sum()
        inside.append(torch.autograd.grad(inner, [weight, bias, score, shift], retain_graph=True))
    distance = sum((0.25 + part - part.detach()).square().sum() for part in parameters)
    expected = torch.autograd.grad(outside + penalty / 60 * distance, [*parameters, temperature])

    assert one._step(0, moving=True) == pytest.approx(float(outside.detach()), rel=1e-5)
    for part, gradient in zip([*one.weights, one.temperature], expected, strict=True):
        assert part.grad is not None
        torch.testing.assert_close(part.grad.double(), gradient, rtol=1e-4, atol=1e-6)
    for classifier, gradients in zip(one.classifiers, inside, strict=True):
        found = [classifier.weight.grad, classifier.bias.grad, classifier.score.weight.grad, classifier.score.bias.grad]
        for mine, theirs in zip(found, gradients, strict=True):
            assert mine is not None
            torch.testing.assert_close(mine.double(), theirs, rtol=1e-4, atol=1e-6)


class Asked:
    """Pools with given weights and keeps which nodes it was asked for."""

    def __init__(self, weighted: EdgePropagation) -> None:
        self.weighted, self.nodes = weighted, list[Any]()
        self.parameters, self.prior = weighted.parameters, weighted.prior

    def propagation(self, nodes: Any = None) -> Callable[[Tensor], Tensor]:
        self.nodes.append(nodes)
        return self.weighted.propagation(nodes)


@pytest.mark.parametrize("count", [None, 25, 1000])
@pytest.mark.usefixtures("one_thread")
def test_a_step_looks_at_so_many_labeled_nodes(count: int | None) -> None:
    task = planted_task(typed=True, signal=0.5)
    asked = Asked(edge_propagation(task)[0])
    one = OuterProblem(task, resolve_inputs(task), asked, replace(STILL, nodes=count), None)
    with torch.no_grad():
        classifier = one.classifiers[0]  # all begin alike
        scores = classifier.scores(
            asked.weighted.propagation()(classifier.project(resolve_inputs(task))) + classifier.bias
        ).double()
    log_loss = -torch.log_softmax(scores, 1)[torch.arange(PLANTED_NODES), task.labels]
    loss = one._step(0, moving=True)
    seen = asked.nodes[0]
    assert len(set(seen.tolist())) == len(seen) == (25 if count == 25 else 60)
    assert set(seen.tolist()) <= set(range(60))
    assert loss == pytest.approx(float(log_loss[seen].mean()), rel=1e-5)
    one._step(1, moving=True)
    assert (asked.nodes[1].tolist() == seen.tolist()) == (count != 25)


# ---------------------------------------------------------------------- readers


def test_a_deep_reader_is_two_layers() -> None:
    with seeded(0, "classifier"):
        classifier = MLPClassifier(5, 4, 3)
    random = np.random.default_rng(0)
    inputs, vectors = random.normal(size=(6, 5)), random.normal(size=(6, 4))
    mask = (random.random((6, 4)) > 0.5) * 2.0
    weight, score, shift = (
        part.detach().double().numpy() for part in (classifier.weight, classifier.score.weight, classifier.score.bias)
    )
    given = [torch.from_numpy(one.astype(np.float32)) for one in (inputs, vectors, mask)]
    np.testing.assert_allclose(classifier.project(given[0]).detach(), inputs @ weight, atol=1e-5)
    hidden = np.maximum(vectors, 0)
    np.testing.assert_allclose(classifier.scores(given[1]).detach(), hidden @ score.T + shift, atol=1e-5)
    np.testing.assert_allclose(classifier.scores(*given[1:]).detach(), hidden * mask @ score.T + shift, atol=1e-5)


def test_a_sparse_reader_reads_centered_features() -> None:
    random = np.random.default_rng(0)
    features = random.random((6, 5)).astype(np.float32)
    center, spread = features.mean(0), features.std(0)
    with seeded(0, "classifier"):
        classifier = SparseClassifier(torch.from_numpy(center), torch.from_numpy(spread), 3)
    with torch.no_grad():
        classifier.relevance.copy_(torch.tensor([1.0, 0.0, 2.0, -1.0, 0.5]))
        classifier.bias.copy_(torch.tensor([0.1, 0.2, 0.3]))
    graph = cge.Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)], num_nodes=6)
    steps = TransitionMatrix(graph)
    dense = graph.to_scipy().toarray() + np.eye(6)
    walk = dense / dense.sum(1, keepdims=True)
    values = EdgePropagation(
        steps, make_edge_inputs(graph, steps)[0], EdgeWeighting([0.0] * 4, 0.0, 0.0, [1.0])
    ).values()
    propagation = FixedPropagation(steps, values, [0.25, 0.75])
    expected = (0.25 * np.eye(6) + 0.75 * walk) @ ((features.astype(float) - center) / spread)
    expected = expected * [1.0, 0.0, 2.0, -1.0, 0.5] @ classifier.weight.detach().double().numpy() + [0.1, 0.2, 0.3]
    for inputs in (torch.from_numpy(features), SparseFeatures(sp.csr_array(features))):
        with torch.no_grad():
            found = classifier.scores(propagation(classifier.project(inputs)) + classifier.offset())
        np.testing.assert_allclose(found, expected, atol=1e-5)


# ---------------------------------------------------------------------- the guard


def of(right: list[float], log_loss: list[float] | None = None) -> CandidateScore:
    return CandidateScore(
        float(np.mean(right)), np.array(right, float), np.array(log_loss or [1.0] * len(right), float)
    )


def test_a_difference_and_its_error_by_hand() -> None:
    gain, error = accuracy_gain(of([1, 1, 1, 0]), of([1, 0, 0, 1]))  # apart by 0, 1, 1, −1
    assert gain == pytest.approx(0.25)
    assert error == pytest.approx(np.sqrt((0.0625 + 2 * 0.5625 + 1.5625) / 3 / 4))
    assert accuracy_gain(of([1]), of([0])) == (0.0, float("inf"))
    assert accuracy_gain(of([1, 0.5]), of([0.5, 0.0])) == (0.5, 0.0)


def test_better_is_right_more_often_by_so_many_errors() -> None:
    candidate, incumbent = of([1] * 5 + [0, 1, 0]), of([0] * 3 + [1] * 3 + [1, 0])  # three won, one lost, of eight
    gain, error = accuracy_gain(candidate, incumbent)
    assert gain == pytest.approx(0.25)
    assert error == np.sqrt((3 * 0.75**2 + 1.25**2 + 4 * 0.25**2) / 7 / 8) == 0.25
    assert is_better(candidate, incumbent, errors=0.99 * gain / error)
    assert not is_better(candidate, incumbent, errors=1.01 * gain / error)
    assert not is_better(candidate, incumbent)  # by just one error, which is not more
    assert not is_better(incumbent, candidate, errors=0.0)
    assert not is_better(incumbent, incumbent)
    assert not is_better(of([1]), of([0]))
    won = of([1, 1, *[0] * 98])
    assert is_better(won, of([0] * 100))  # two labels won, none lost
    assert not is_better(won, of([0] * 100), more=1)
    assert is_better(of([1, 1, 1, *[0] * 97]), of([0] * 100), more=1)


def test_better_is_less_surprised_by_twice_as_many_errors() -> None:
    right = [1, 0, 1, 0]
    candidate, incumbent = of(right, [0.5, 0.75, 0.25, 1.0]), of(right, [1.0, 1.0, 1.0, 0.75])
    apart = np.array([0.5, 0.25, 0.75, -0.25])
    limit = apart.mean() / (2 * apart.std(ddof=1) / 2)  # the error is that of four
    assert is_better(candidate, incumbent, errors=0.99 * limit)
    assert not is_better(candidate, incumbent, errors=1.01 * limit)
    assert not is_better(incumbent, candidate, errors=0.0)
    assert not is_better(of([1], [0.0]), of([1], [9.0]))


def test_less_surprise_does_not_make_up_for_a_hit() -> None:
    incumbent = of([1, 1, 0, 1], [2.0] * 4)
    assert is_better(of([1, 1, 1, 0], [1.0] * 4), incumbent)  # as many hits
    assert not is_better(of([1, 1, 0, 0], [1.0] * 4), incumbent)


def test_screening_looks_at_the_selection_labels_only() -> None:
    scores = torch.tensor([[2.0, 1.0], [0.0, 1.0], [0.0, 3.0], [1.0, 0.0]])
    task = SimpleNamespace(validation=torch.tensor([3, 1, 2]), labels=torch.tensor([1, 1, 0, 0]))
    trainer: Any = SimpleNamespace(task=task, best_scores=lambda nodes: scores[nodes])
    found = score_candidate(trainer)
    assert found.right.tolist() == [1.0, 1.0, 0.0]
    assert found.accuracy == pytest.approx(2 / 3)
    np.testing.assert_allclose(found.log_loss, np.log1p(np.exp(np.array([-1.0, -1.0, 3.0]) / 4)), rtol=1e-6)


def test_surprise_does_not_depend_on_the_scale_of_scores() -> None:
    random = np.random.default_rng(0)
    scores, labels = torch.from_numpy(random.normal(size=(50, 3))), torch.from_numpy(random.integers(0, 3, 50))
    scores[torch.arange(50), labels] += 1.5
    task = SimpleNamespace(validation=torch.arange(50), labels=labels)
    plain, louder, silent = (
        score_candidate(SimpleNamespace(task=task, best_scores=lambda nodes, by=by: by * scores[nodes]))  # type: ignore[arg-type]
        for by in (1.0, 2.0, 1e-9)
    )
    np.testing.assert_allclose(louder.log_loss, plain.log_loss, rtol=1e-9)
    np.testing.assert_allclose(silent.log_loss, np.log(3), rtol=1e-6)
    assert plain.log_loss.mean() < 0.9 * np.log(3)


def test_screening_several_labels_counts_each() -> None:
    scores = torch.tensor([[2.0, -1.0], [-3.0, 1.0], [9.0, 9.0], [-1.0, -1.0]])
    task = SimpleNamespace(validation=torch.tensor([0, 1, 3]), labels=torch.tensor([[1, 0], [1, 0], [0, 0], [0, 0]]))
    trainer: Any = SimpleNamespace(task=task, best_scores=lambda nodes: scores[nodes])
    found = score_candidate(trainer)
    np.testing.assert_allclose(found.right, [1.0, 0.0, 1.0], atol=1e-6)  # of each its likeliest; of none, none
    assert found.accuracy == pytest.approx(2 * 1 / (2 + 2))  # micro-F1
    each = (
        np.array([[-2.0, -1.0], [3.0, 1.0], [-1.0, -1.0]])[None]
        / np.array([0.25, 0.35, 0.5, 0.7, 1, 1.4, 2, 2.8, 4])[:, None, None]
    )
    log_losses = np.log1p(np.exp(each)).mean(2)
    np.testing.assert_allclose(found.log_loss, log_losses[log_losses.mean(1).argmin()], rtol=1e-6)


def test_priors_are_the_walk_the_convolution_and_similar_steps() -> None:
    random = np.random.default_rng(0)
    edges, weights = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4)], [1.0, 2.0, 0.5, 4.0, 3.0]
    graph = cge.Graph.from_edges(edges, num_nodes=6, features=random.random((6, 4)), weights=weights)
    steps = TransitionMatrix(graph)
    edge_inputs, scale = make_edge_inputs(graph, steps)
    found = closed_form_weightings(scale.names, 3)
    assert list(found) == ["none", "degree", "cosine"]
    dense = graph.to_scipy().toarray()
    dense += np.diag(np.full(6, graph.weights.mean()))  # type: ignore[union-attr]

    def matrix(name: str) -> np.ndarray:
        return steps.matrix(EdgePropagation(steps, edge_inputs, found[name]).values().numpy()).toarray()

    z = dense.sum(1)
    np.testing.assert_allclose(matrix("none"), dense / z[:, None], rtol=1e-5)
    np.testing.assert_allclose(matrix("degree"), dense / np.sqrt(np.outer(z, z)), rtol=1e-5)
    values = edge_inputs.values.double().numpy()[:, scale.names.index("cosine")]
    gate = np.zeros((6, 6))
    gate[steps.rows, steps.indices] = np.exp(np.where(steps.rows == steps.indices, 1.0, values))
    gate = gate * dense
    z = gate.sum(1)
    np.testing.assert_allclose(matrix("cosine"), gate / np.sqrt(np.outer(z, z)), rtol=1e-5)
    for one in found.values():
        np.testing.assert_allclose(one.hop_weights().detach(), 0.25)


def test_without_features_there_is_no_cosine_to_follow() -> None:
    assert list(closed_form_weightings(("degrees", "jaccard"), 2)) == ["none", "degree"]
    assert closed_form_weightings((), 0)["none"].hop_weights().tolist() == [1.0]


SHAPES = {"own": [1, 0, 0], "neighbors": [0, 1, 0], "two steps": [0, 0, 1], "own and two steps": [1, 0, 1]}


@pytest.mark.parametrize("hops", [2, 3, 5])
def test_profiles_favor_some_hops(hops: int) -> None:
    found = hop_profiles(("degrees", "jaccard"), hops)
    expected = {"own": (SHAPES["own"], 0.5)}
    for name in ("neighbors", "two steps", "own and two steps"):
        expected |= {f"{name}, b = {text}": (SHAPES[name], b) for text, b in (("0", 0.0), ("0.5", 0.5), ("1", 1.0))}
    assert {name: (one.hops.tolist(), one.normalization.item()) for name, one in found.items()} == {
        name: ([*shape, *[0] * (hops - 2)], b) for name, (shape, b) in expected.items()
    }
    for one in found.values():
        assert one.coefficients.tolist() == [0.0, 0.0]
        assert one.self_loop.item() == 0.0


@pytest.mark.parametrize("hops", [0, 1])
def test_profiles_are_as_long_as_the_paths(hops: int) -> None:
    found = hop_profiles((), hops)
    assert all(len(one.hops) == hops + 1 for one in found.values())
    assert found["own"].hop_weights().tolist() == [1.0, 0.0][: hops + 1]
    assert any(name.startswith("neighbors") for name in found) == (hops == 1)
    assert not any(name.startswith("two steps") for name in found)


@pytest.mark.parametrize("hops", [0, 1])
def test_no_profile_is_named_after_hops_that_are_not_there(hops: int) -> None:
    assert not any(name.startswith("own and two steps") for name in hop_profiles((), hops))
