"""The hypergradients in float64 against central differences and against a generic unroll with `create_graph`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

import cge.losses as losses
from cge.models.paper_networks import FeatureEncoder, InductiveHead, TableEncoder, TransductiveHead
from cge.models.path_networks import PathWeighting
from cge.models.weightings import make_network
from cge.targets import MultiLabel, SingleLabel
from cge.training.pair_objectives import FullSoftmax, NegativeSampling
from cge.training.paper_inner import InnerProblem
from cge.training.paper_outer import PathSample, paper_hypergradient, unrolled_hypergradient

NODES, DIM, FEATURES, CLASSES, PATHS, WINDOW = 9, 5, 6, 3, 14, 4
SETTINGS, NETWORKS, LOSSES = ["transductive", "inductive"], ["average", "cnn", "lstm"], ["negative", "softmax"]


@dataclass(frozen=True, eq=False)
class Case:
    network: PathWeighting
    problem: InnerProblem
    paths: PathSample
    outer: Tensor


def equal_fractions(count: int) -> Tensor:
    return torch.full((count,), 1 / count, dtype=torch.float64)


def make_case(setting: str, network: str, loss: str = "negative") -> Case:
    torch.manual_seed(1)
    random = np.random.default_rng(1)
    transductive = setting == "transductive"
    x = torch.from_numpy(random.normal(size=(NODES, FEATURES)))
    length = random.integers(2, WINDOW + 1, PATHS)
    nodes = random.integers(0, NODES, (PATHS, WINDOW))
    nodes[np.arange(WINDOW) >= length[:, None]] = -1
    starts, endpoints = nodes[:, 0].copy(), nodes[np.arange(PATHS), length - 1].copy()
    negatives = random.integers(0, NODES, (PATHS, 3))
    objective = NegativeSampling(starts, endpoints, negatives) if loss == "negative" else FullSoftmax(starts, endpoints)
    weighting = make_network(network, DIM)
    assert weighting is not None
    head = TransductiveHead(FEATURES, DIM, CLASSES, 4) if transductive else InductiveHead(FEATURES, DIM, CLASSES)
    model = TableEncoder(NODES, DIM) if transductive else FeatureEncoder(FEATURES, DIM)
    with torch.no_grad():
        for parameter in [*model.parameters(), *weighting.parameters()]:
            parameter.copy_(torch.randn_like(parameter))
    problem = InnerProblem(
        sources=torch.from_numpy(random.normal(size=(NODES, DIM))),
        encoder=model.double(),
        head=head.double(),
        features=x,
        row_features=x,
        labels=torch.from_numpy(random.integers(0, CLASSES, NODES)),
        target=SingleLabel(np.arange(CLASSES)),
        inner_nodes=torch.tensor([0, 2, 5]),
        unsup_weight=0.7,
        supervised_strength=0.6,
    )
    paths = PathSample(torch.from_numpy(nodes), torch.from_numpy(length), objective, equal_fractions(PATHS))
    return Case(weighting.double(), problem, paths, torch.tensor([1, 4, 7]))


def pair_loss(paths: PathSample, sources: Tensor, targets: Tensor) -> Tensor:
    objective = paths.objective
    starts, endpoints = torch.from_numpy(objective.starts), torch.from_numpy(objective.endpoints)
    if isinstance(objective, FullSoftmax):
        return losses.softmax_loss(sources, targets, starts, endpoints)
    return losses.negative_sampling_loss(sources, targets, starts, endpoints, torch.from_numpy(objective.negatives))


def outer_value(
    case: Case,
    rule: str,
    virtual_lr: float,
    weights_at_step: Tensor | None = None,
    weights_outside: Tensor | None = None,
) -> Tensor:
    """L_out or L_u at α′, straight from Eqs. 11 to 15, every step differentiable.

    `weights_at_step` freezes the weights of the virtual step, which leaves the explicit term alone; `weights_outside`
    freezes those outside it, which leaves the implicit term alone.
    """
    problem, paths = case.problem, case.paths
    vectors = problem.encoder(problem.features).detach()
    weights = case.network(vectors, paths.nodes, paths.length)
    used = weights if weights_at_step is None else weights_at_step
    encoder = {k: v.detach().requires_grad_() for k, v in problem.encoder.named_parameters()}
    head = {k: v.detach().requires_grad_() for k, v in problem.head.named_parameters()}
    sources = problem.sources.clone().requires_grad_()
    targets = functional_call(problem.encoder, encoder, (problem.features,))
    fractions = paths.fraction
    loss_weights = used / (fractions * used).sum() if rule == "unrolled" else used
    unsupervised = problem.unsup_weight * (fractions * loss_weights * pair_loss(paths, sources, targets)).sum()
    supervised = problem.supervised(problem.inner_nodes, encoder, head)
    inner_parameters = [*encoder.values(), sources]
    by_paths = torch.autograd.grad(unsupervised, inner_parameters, create_graph=True)
    by_labels = torch.autograd.grad(supervised, [*encoder.values(), *head.values()], allow_unused=True)
    moved = {
        k: v - virtual_lr * by_paths[i] - virtual_lr * problem.supervised_strength * by_labels[i].detach()
        for i, (k, v) in enumerate(encoder.items())
    }
    moved_head = {k: v - virtual_lr * by_labels[len(encoder) + i].detach() for i, (k, v) in enumerate(head.items())}
    moved_sources = sources - virtual_lr * by_paths[-1]
    if rule == "unrolled":
        return problem.supervised(case.outer, moved, moved_head)
    at_step = functional_call(problem.encoder, moved, (problem.features,))
    outside = weights if weights_outside is None else weights_outside
    return losses.path_loss(outside, pair_loss(paths, moved_sources, at_step))


def hypergradient(case: Case, rule: str, virtual_lr: float) -> Tensor:
    case.network.zero_grad()
    if rule == "unrolled":
        unrolled_hypergradient(case.network, case.problem, case.paths, case.outer, virtual_lr)
    else:
        paper_hypergradient(case.network, case.problem, case.paths, virtual_lr)
    return torch.cat([p.grad.flatten() for p in case.network.parameters()])


def generic_unroll(case: Case, rule: str, virtual_lr: float, **options: Tensor) -> Tensor:
    value = outer_value(case, rule, virtual_lr, **options)
    gradients = torch.autograd.grad(value, list(case.network.parameters()), allow_unused=True)
    pairs = zip(gradients, case.network.parameters(), strict=True)
    return torch.cat([(torch.zeros_like(p) if g is None else g).flatten() for g, p in pairs])


def directional_difference(case: Case, rule: str, virtual_lr: float, direction: Tensor, step: float = 1e-5) -> Tensor:
    """Return the central difference of the outer value along a direction of all parameters of the network."""
    parameters = list(case.network.parameters())
    start = nn.utils.parameters_to_vector(parameters).detach()
    values = []
    for sign in (1, -1):
        nn.utils.vector_to_parameters(start + sign * step * direction, parameters)
        values.append(outer_value(case, rule, virtual_lr).detach())
    nn.utils.vector_to_parameters(start, parameters)
    return (values[0] - values[1]) / (2 * step)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("rule", ["unrolled", "paper"])
def test_total_hypergradient_equals_the_generic_unroll(rule: str, setting: str, network: str, loss: str) -> None:
    case = make_case(setting, network, loss)
    expected = generic_unroll(case, rule, 0.3)
    assert expected.abs().max() > 1e-6
    torch.testing.assert_close(hypergradient(case, rule, 0.3), expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("rule", ["unrolled", "paper"])
def test_total_hypergradient_equals_central_differences(rule: str, setting: str, network: str) -> None:
    case = make_case(setting, network)
    gradient = hypergradient(case, rule, 0.3)
    for _ in range(3):
        direction = nn.functional.normalize(torch.randn_like(gradient), dim=0)
        expected = directional_difference(case, rule, 0.3, direction)
        assert expected.abs() > 1e-7
        torch.testing.assert_close(gradient @ direction, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_papers_implicit_term_alone(setting: str, network: str, loss: str) -> None:
    """The total minus the explicit term, against an unroll in which the weights outside the step are frozen."""
    case = make_case(setting, network, loss)
    frozen = case.network(
        case.problem.encoder(case.problem.features).detach(), case.paths.nodes, case.paths.length
    ).detach()
    implicit = generic_unroll(case, "paper", 0.3, weights_outside=frozen)
    assert implicit.abs().max() > 1e-6
    explicit = generic_unroll(case, "paper", 0.3, weights_at_step=frozen)
    torch.testing.assert_close(hypergradient(case, "paper", 0.3) - explicit, implicit, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("rule", ["unrolled", "paper"])
def test_a_fraction_counts_like_repetitions(rule: str, setting: str) -> None:
    """Paths that are sampled three times are the same as each one with three times the fraction."""
    case = make_case(setting, "average", "softmax")
    times = np.where(np.arange(PATHS) % 2 == 0, 3, 1)
    rows = np.repeat(np.arange(PATHS), times)
    objective = case.paths.objective
    assert isinstance(objective, FullSoftmax)
    repeated = PathSample(
        case.paths.nodes[rows],
        case.paths.length[rows],
        FullSoftmax(objective.starts[rows], objective.endpoints[rows]),
        equal_fractions(len(rows)),
    )
    weighted = replace(case.paths, fraction=torch.from_numpy(times / times.sum()))
    gradients = [hypergradient(replace(case, paths=paths), rule, 0.3) for paths in (repeated, weighted)]
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-14)
    assert not torch.allclose(gradients[0], hypergradient(case, rule, 0.3), rtol=1e-3)


@pytest.mark.parametrize("setting", SETTINGS)
def test_unrolled_gradient_is_all_implicit(setting: str) -> None:
    case = make_case(setting, "lstm")
    frozen = case.network(
        case.problem.encoder(case.problem.features).detach(), case.paths.nodes, case.paths.length
    ).detach()
    assert not generic_unroll(case, "unrolled", 0.3, weights_at_step=frozen).any()  # with the step's weights frozen
    assert hypergradient(case, "unrolled", 0.3).any()


@pytest.mark.parametrize("setting", SETTINGS)
def test_first_order_is_the_limit_of_small_steps(setting: str) -> None:
    case = make_case(setting, "average")
    torch.testing.assert_close(
        hypergradient(case, "unrolled", 0.0), hypergradient(case, "unrolled", 1e-7) / 1e-7, rtol=1e-5, atol=1e-9
    )
    explicit = hypergradient(case, "paper", 0.0)
    torch.testing.assert_close(explicit, hypergradient(case, "paper", 1e-8), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_term_that_holds_the_scale_alone(setting: str, network: str) -> None:
    """The total minus the hypergradient is force · (m − ½) · ‖∂L/∂A‖ · ∇m, by automatic differentiation."""
    case, force = make_case(setting, network), 0.4
    case.network.zero_grad()
    fraction = torch.rand(PATHS, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    paths = replace(case.paths, fraction=fraction / fraction.sum())
    case = replace(case, paths=paths)
    unrolled_hypergradient(case.network, case.problem, paths, case.outer, 0.3, force)
    total = torch.cat([p.grad.flatten() for p in case.network.parameters()])
    vectors = case.problem.encoder(case.problem.features).detach()
    weights = case.network(vectors, paths.nodes, paths.length)
    mean = (weights * paths.fraction).sum()
    of_mean = torch.cat([g.flatten() for g in torch.autograd.grad(mean, list(case.network.parameters()))])
    by_weight = central_differences_of_weights(case, weights.detach(), 0.3)
    expected = force * (mean - 0.5) * by_weight.norm() * of_mean
    assert expected.abs().max() > 1e-9
    torch.testing.assert_close(total - hypergradient(case, "unrolled", 0.3), expected.detach(), rtol=1e-5, atol=1e-13)


def central_differences_of_weights(case: Case, weights: Tensor, virtual_lr: float) -> Tensor:
    """Return ∂L_out/∂A of each path by central differences of the loss after a virtual step with these weights."""
    differences = []
    for k in range(len(weights)):
        values = []
        for sign in (1, -1):
            changed = weights.clone()
            changed[k] += sign * 1e-5
            values.append(outer_value(case, "unrolled", virtual_lr, weights_at_step=changed).detach())
        differences.append((values[0] - values[1]) / 2e-5)
    return torch.stack(differences)


def test_multilabel_targets() -> None:
    case = make_case("transductive", "cnn")
    labels = torch.from_numpy(np.random.default_rng(2).integers(0, 2, (NODES, CLASSES)))
    case = replace(case, problem=replace(case.problem, labels=labels, target=MultiLabel(np.arange(CLASSES))))
    torch.testing.assert_close(
        hypergradient(case, "unrolled", 0.3), generic_unroll(case, "unrolled", 0.3), rtol=1e-6, atol=1e-12
    )
