"""The hypergradients in float64 against central differences and against a generic unroll with `create_graph`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.func import functional_call

import cge.losses as losses
from cge.models import FeatureEncoder, InductiveHead, TableEncoder, TransductiveHead, make_weighting
from cge.models.path_networks import PathWeighting
from cge.training.bilevel import (
    InnerProblem,
    PathSample,
    normalized,
    paper_hypergradient,
    unrolled_hypergradient,
)
from cge.training.pair_objectives import FullSoftmax, NegativeSampling

NODES, DIM, FEATURES, CLASSES, PATHS, WINDOW = 9, 5, 6, 3, 14, 4
ENCODERS, NETWORKS, FORMS = ["table", "features"], ["average", "cnn", "lstm"], ["negative", "softmax"]


@dataclass(frozen=True, eq=False)
class Setting:
    network: PathWeighting
    problem: InnerProblem
    paths: PathSample
    outer: Tensor


def setting(encoder: str, network: str, form: str = "negative") -> Setting:
    torch.manual_seed(1)
    random = np.random.default_rng(1)
    table = encoder == "table"
    x = torch.from_numpy(random.normal(size=(NODES, FEATURES)))
    length = random.integers(2, WINDOW + 1, PATHS)
    nodes = random.integers(0, NODES, (PATHS, WINDOW))
    nodes[np.arange(WINDOW) >= length[:, None]] = -1
    starts, ends = nodes[:, 0].copy(), nodes[np.arange(PATHS), length - 1].copy()
    negatives = random.integers(0, NODES, (PATHS, 3))
    objective = NegativeSampling(starts, ends, negatives) if form == "negative" else FullSoftmax(starts, ends)
    made = make_weighting(network, DIM)
    assert made is not None
    head = TransductiveHead(FEATURES, DIM, CLASSES, 4) if table else InductiveHead(FEATURES, DIM, CLASSES)
    model = TableEncoder(NODES, DIM) if table else FeatureEncoder(FEATURES, DIM)
    with torch.no_grad():
        for parameter in [*model.parameters(), *made.parameters()]:
            parameter.copy_(torch.randn_like(parameter))
    problem = InnerProblem(
        sources=torch.from_numpy(random.normal(size=(NODES, DIM))),
        encoder=model.double(),
        head=head.double(),
        x=x,
        labels=torch.from_numpy(random.integers(0, CLASSES, NODES)),
        inner=torch.tensor([0, 2, 5]),
        unsup_weight=0.7,
        supervised_strength=0.6,
    )
    paths = PathSample(torch.from_numpy(nodes), torch.from_numpy(length), objective)
    return Setting(made.double(), problem, paths, torch.tensor([1, 4, 7]))


def pair_loss(paths: PathSample, sources: Tensor, targets: Tensor) -> Tensor:
    objective = paths.objective
    starts, ends = torch.from_numpy(objective.starts), torch.from_numpy(objective.ends)
    if isinstance(objective, FullSoftmax):
        return losses.softmax_loss(sources, targets, starts, ends)
    return losses.negative_sampling_loss(sources, targets, starts, ends, torch.from_numpy(objective.negatives))


def outer_value(
    one: Setting,
    rule: str,
    virtual_lr: float,
    weights_at_step: Tensor | None = None,
    weights_outside: Tensor | None = None,
) -> Tensor:
    """L_out or L_u at α′, straight from Eqs. 11 to 15, every step differentiable.

    `weights_at_step` freezes the weights of the virtual step, which leaves the explicit term alone; `weights_outside`
    freezes those outside it, which leaves the implicit term alone.
    """
    problem, paths = one.problem, one.paths
    vectors = problem.encoder(problem.x).detach()
    weights = one.network(vectors, paths.nodes, paths.length)
    used = weights if weights_at_step is None else weights_at_step
    encoder = {k: v.detach().requires_grad_() for k, v in problem.encoder.named_parameters()}
    head = {k: v.detach().requires_grad_() for k, v in problem.head.named_parameters()}
    sources = problem.sources.clone().requires_grad_()
    targets = functional_call(problem.encoder, encoder, (problem.x,))
    share = normalized(used) if rule == "unrolled" else used
    unsupervised = problem.unsup_weight * losses.path_loss(share, pair_loss(paths, sources, targets))
    supervised = problem.supervised(problem.inner, encoder, head)
    own = [*encoder.values(), sources]
    by_paths = torch.autograd.grad(unsupervised, own, create_graph=True)
    by_labels = torch.autograd.grad(supervised, [*encoder.values(), *head.values()], allow_unused=True)
    moved = {
        k: v - virtual_lr * by_paths[i] - virtual_lr * problem.supervised_strength * by_labels[i].detach()
        for i, (k, v) in enumerate(encoder.items())
    }
    moved_head = {k: v - virtual_lr * by_labels[len(encoder) + i].detach() for i, (k, v) in enumerate(head.items())}
    moved_sources = sources - virtual_lr * by_paths[-1]
    if rule == "unrolled":
        return problem.supervised(one.outer, moved, moved_head)
    at_step = functional_call(problem.encoder, moved, (problem.x,))
    outside = weights if weights_outside is None else weights_outside
    return losses.path_loss(outside, pair_loss(paths, moved_sources, at_step))


def fast(one: Setting, rule: str, virtual_lr: float) -> Tensor:
    one.network.zero_grad()
    if rule == "unrolled":
        unrolled_hypergradient(one.network, one.problem, one.paths, one.outer, virtual_lr)
    else:
        paper_hypergradient(one.network, one.problem, one.paths, virtual_lr)
    return torch.cat([p.grad.flatten() for p in one.network.parameters()])


def generic(one: Setting, rule: str, virtual_lr: float, **options: Tensor) -> Tensor:
    value = outer_value(one, rule, virtual_lr, **options)
    gradients = torch.autograd.grad(value, list(one.network.parameters()), allow_unused=True)
    found = zip(gradients, one.network.parameters(), strict=True)
    return torch.cat([(torch.zeros_like(p) if g is None else g).flatten() for g, p in found])


def differences(one: Setting, rule: str, virtual_lr: float, places: list[int], step: float = 1e-5) -> Tensor:
    """Central differences in some of the network's parameters, numbered through all of them."""
    flat = [(parameter.data.view(-1), k) for parameter in one.network.parameters() for k in range(parameter.numel())]
    slopes = []
    for place in places:
        values, k = flat[place]
        kept = values[k].item()
        values[k] = kept + step
        above = outer_value(one, rule, virtual_lr).item()
        values[k] = kept - step
        below = outer_value(one, rule, virtual_lr).item()
        values[k] = kept
        slopes.append((above - below) / (2 * step))
    return torch.tensor(slopes, dtype=torch.float64)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("rule", ["unrolled", "paper"])
def test_total_hypergradient_equals_the_generic_unroll(rule: str, encoder: str, network: str, form: str) -> None:
    one = setting(encoder, network, form)
    expected = generic(one, rule, 0.3)
    assert expected.abs().max() > 1e-6
    torch.testing.assert_close(fast(one, rule, 0.3), expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("rule", ["unrolled", "paper"])
def test_total_hypergradient_equals_central_differences(rule: str, encoder: str, network: str) -> None:
    one = setting(encoder, network)
    count = sum(parameter.numel() for parameter in one.network.parameters())
    places = np.random.default_rng(3).permutation(count)[:25].tolist()
    expected = differences(one, rule, 0.3, places)
    torch.testing.assert_close(fast(one, rule, 0.3)[places], expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_the_papers_implicit_term_alone(encoder: str, network: str, form: str) -> None:
    """The total less the explicit term, against an unroll in which the weights outside the step do not move."""
    one = setting(encoder, network, form)
    frozen = one.network(one.problem.encoder(one.problem.x).detach(), one.paths.nodes, one.paths.length).detach()
    implicit = generic(one, "paper", 0.3, weights_outside=frozen)
    assert implicit.abs().max() > 1e-6
    explicit = generic(one, "paper", 0.3, weights_at_step=frozen)
    torch.testing.assert_close(fast(one, "paper", 0.3) - explicit, implicit, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("rule", ["unrolled", "paper"])
def test_a_share_counts_like_repeats(rule: str, encoder: str) -> None:
    """Some paths drawn three times are the same as each once with three times the share."""
    one = setting(encoder, "average", "softmax")
    times = np.where(np.arange(PATHS) % 2 == 0, 3, 1)
    rows = np.repeat(np.arange(PATHS), times)
    old = one.paths.objective
    assert isinstance(old, FullSoftmax)
    repeated = PathSample(one.paths.nodes[rows], one.paths.length[rows], FullSoftmax(old.starts[rows], old.ends[rows]))
    shared = replace(one.paths, share=torch.from_numpy(times / times.sum()))
    found = [fast(replace(one, paths=paths), rule, 0.3) for paths in (repeated, shared)]
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-14)
    assert not torch.allclose(found[0], fast(one, rule, 0.3), rtol=1e-3)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_unrolled_gradient_is_all_implicit(encoder: str) -> None:
    one = setting(encoder, "lstm")
    frozen = one.network(one.problem.encoder(one.problem.x).detach(), one.paths.nodes, one.paths.length).detach()
    assert not generic(one, "unrolled", 0.3, weights_at_step=frozen).any()  # with the step's weights frozen
    assert fast(one, "unrolled", 0.3).any()


@pytest.mark.parametrize("encoder", ENCODERS)
def test_first_order_is_the_limit_of_small_steps(encoder: str) -> None:
    one = setting(encoder, "average")
    torch.testing.assert_close(fast(one, "unrolled", 0.0), fast(one, "unrolled", 1e-7) / 1e-7, rtol=1e-5, atol=1e-9)
    explicit = fast(one, "paper", 0.0)
    torch.testing.assert_close(explicit, fast(one, "paper", 1e-8), rtol=1e-5, atol=1e-8)


def test_several_labels_per_node() -> None:
    one = setting("table", "cnn")
    several = torch.from_numpy(np.random.default_rng(2).integers(0, 2, (NODES, CLASSES)))
    one = replace(one, problem=replace(one.problem, labels=several))
    torch.testing.assert_close(fast(one, "unrolled", 0.3), generic(one, "unrolled", 0.3), rtol=1e-6, atol=1e-12)
