"""The outer problem (Eqs. 11 to 15): gradients of an outer loss with respect to the path weights (hypergradients).

Inner parameters α are the tables (through the encoder) and the head θ. One virtual step of the inner problem,

    α′ = α − ξ ∇_α [ L_s(inner labels) + λ (1/b) Σ_k a_k ℓ_k ]                                            (Eq. 13)

depends on the weights a_k, and so does any loss at α′.

**`unrolled`**: the supervised loss of labels that the inner problem did not see, at α′. With a_k = A(p_k) / mean A,

    ∂L_out(α′)/∂a_k = −(ξ λ / b) ⟨v, ∇_α ℓ_k(α)⟩,   v = ∇_α L_out(α′),     (a sample has fractions instead of 1/b)

one number per path: does a step on this path reduce the outer loss? No second-order graph is built. The derivative of
ℓ_k along v is computed by a kernel, and one backward pass takes it through the weighting network.

**`paper`**: Eq. 15 as printed. It drops the supervised term as having no derivative in w_A (at α′ it has one), and
descends L_u = Σ A(p_k) ℓ_k itself, whose minimum is A = 0 (deviation D1).

`virtual_lr = 0` means first order: `unrolled` takes the direction of its gradient as ξ → 0 (the gradient itself
vanishes), `paper` leaves the implicit term out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from cge.losses import supervised_loss
from cge.models.path_networks import PathWeighting
from cge.models.sparse_products import NodeFeatures, take_rows
from cge.training.pair_objectives import PairObjective


@dataclass(frozen=True, eq=False)
class InnerProblem:
    """The current point of the inner problem.

    `sources (n, d)` are the w; `encoder` returns the e; `head` predicts from `features` and e; `labels` as for
    `supervised_loss`, of all nodes; `inner_nodes (k,)` are the nodes whose labels train. If `row_features` is given,
    paths refer to its rows instead of to nodes: nodes without features share a vector, and so a row.
    """

    sources: Tensor
    encoder: Any
    head: Any
    features: NodeFeatures | None
    labels: Tensor
    inner_nodes: Tensor
    unsup_weight: float = 1.0
    supervised_strength: float = 1.0
    row_features: NodeFeatures | None = None

    @property
    def target_features(self) -> NodeFeatures | None:
        """The features of the rows that paths refer to."""
        return self.features if self.row_features is None else self.row_features

    def supervised(self, nodes: Tensor, encoder: dict[str, Tensor], head: dict[str, Tensor]) -> Tensor:
        """Return L_s of `nodes` for these parameters of encoder and head."""
        vectors = functional_call(self.encoder, encoder, (self.features, nodes))
        x = None if self.features is None else take_rows(self.features, nodes)
        return supervised_loss(functional_call(self.head, head, (x, vectors)), self.labels[nodes])


@dataclass(frozen=True, eq=False)
class PathSample:
    """Sampled paths, `nodes (b, window)` and `length (b,)`, and the loss of their endpoints.

    `fraction (b,)` is the fraction of all paths that each one represents; None: 1/b.
    """

    nodes: Tensor
    length: Tensor
    objective: PairObjective
    fraction: Tensor | None = None

    @property
    def fractions(self) -> Tensor:
        """The fraction of each path, `(b,)`; they add up to 1."""
        count = len(self.length)
        return torch.full((count,), 1 / count, dtype=torch.float64) if self.fraction is None else self.fraction


def divide_by_mean(weights: Tensor, fractions: Tensor | None = None) -> Tensor:
    """Return a = A / mean A, so that the scale of A has no effect; `fractions` add up to 1.

    >>> divide_by_mean(torch.tensor([0.2, 0.6])).tolist()
    [0.5, 1.5]
    >>> divide_by_mean(torch.tensor([0.2, 0.6]), torch.tensor([0.5, 0.5])).tolist()
    [0.5, 1.5]
    """
    return weights / (weights.mean() if fractions is None else (fractions.to(weights.dtype) * weights).sum())


def _parameters(module: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach().requires_grad_() for name, parameter in module.named_parameters()}


def _virtual_step(
    problem: InnerProblem, paths: PathSample, weights: Tensor, virtual_lr: float
) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor], Tensor]:
    """Take the virtual step (Eq. 13); return α′ (sources, encoder, head) and the targets e at α."""
    encoder, head = _parameters(problem.encoder), _parameters(problem.head)
    loss = problem.supervised(problem.inner_nodes, encoder, head)
    gradients = torch.autograd.grad(loss, [*encoder.values(), *head.values()], allow_unused=True)
    to_encoder = dict(zip(encoder, gradients[: len(encoder)], strict=True))
    to_head = dict(zip(head, gradients[len(encoder) :], strict=True))
    targets = functional_call(problem.encoder, encoder, (problem.target_features,))
    to_sources, to_targets = paths.objective.gradient(
        weights.detach() * paths.fractions.to(weights.dtype), problem.sources, targets.detach()
    )
    path_gradients = torch.autograd.grad(targets, list(encoder.values()), to_targets)
    path_lr = virtual_lr * problem.unsup_weight
    label_lr = virtual_lr * problem.supervised_strength
    stepped = {
        name: (value - path_lr * path_part - (0 if to_encoder[name] is None else label_lr * to_encoder[name])).detach()
        for (name, value), path_part in zip(encoder.items(), path_gradients, strict=True)
    }
    stepped_head = {
        name: (value - (0 if to_head[name] is None else virtual_lr * to_head[name])).detach()
        for name, value in head.items()
    }
    return problem.sources - path_lr * to_sources, stepped, stepped_head, targets.detach()


def unrolled_hypergradient(
    network: PathWeighting, problem: InnerProblem, paths: PathSample, outer_nodes: Tensor, virtual_lr: float
) -> tuple[Tensor, Tensor]:
    """Add ∇_{w_A} L_out(α′) to the gradients of the network's parameters; return (L_out(α′), A of the paths).

    `outer_nodes (k,)` are nodes whose labels the inner problem does not see.
    """
    vectors = problem.encoder(problem.target_features).detach()
    weights = network(vectors, paths.nodes, paths.length)
    relative = divide_by_mean(weights, paths.fractions)
    _, encoder, head, targets = _virtual_step(problem, paths, relative, virtual_lr)
    encoder = {name: value.requires_grad_() for name, value in encoder.items()}
    loss = problem.supervised(outer_nodes, encoder, head)
    gradients = torch.autograd.grad(loss, list(encoder.values()), allow_unused=True)
    direction = {
        name: torch.zeros_like(value) if gradient is None else gradient
        for (name, value), gradient in zip(encoder.items(), gradients, strict=True)
    }
    tangent = problem.encoder.tangent(problem.target_features, direction)
    alignment = paths.objective.alignment(problem.sources, targets, torch.zeros_like(problem.sources), tangent)
    scale = (virtual_lr or 1.0) * problem.unsup_weight * paths.fractions.to(relative.dtype)
    (relative * (-scale * alignment)).sum().backward()  # type: ignore[no-untyped-call]
    return loss.detach(), weights.detach()


def paper_hypergradient(
    network: PathWeighting, problem: InnerProblem, paths: PathSample, virtual_lr: float
) -> tuple[Tensor, Tensor]:
    """Add ∇_{w_A} L_u(w_A, α′) to the gradients of the network's parameters; return (L_u(α′), A of the paths)."""
    vectors = problem.encoder(problem.target_features).detach()
    weights = network(vectors, paths.nodes, paths.length)
    sources, encoder, _, targets = _virtual_step(problem, paths, weights, virtual_lr)
    encoder = {name: value.requires_grad_() for name, value in encoder.items()}
    moved = functional_call(problem.encoder, encoder, (problem.target_features,))
    losses = paths.objective.losses(sources, moved)
    fractions = paths.fractions.to(weights.dtype)
    loss_weights = weights.detach() * fractions
    weight_gradient = losses * fractions  # the explicit term
    if virtual_lr:
        to_sources, to_targets = paths.objective.gradient(loss_weights, sources, moved.detach())
        gradients = torch.autograd.grad(moved, list(encoder.values()), to_targets)
        tangent = problem.encoder.tangent(problem.target_features, dict(zip(encoder, gradients, strict=True)))
        alignment = paths.objective.alignment(problem.sources, targets, to_sources, tangent)
        implicit = virtual_lr * problem.unsup_weight * fractions * alignment
        weight_gradient = weight_gradient - implicit
    (weights * weight_gradient).sum().backward()
    return (loss_weights * losses).sum(), weights.detach()
