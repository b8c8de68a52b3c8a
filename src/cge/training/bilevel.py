"""The outer problem (Eqs. 11 to 15): how the weights should change so that training on the weighted paths helps.

Inner parameters α are the tables (through the encoder) and the head θ. One virtual step of the inner problem,

    α′ = α − ξ ∇_α [ L_s(inner labels) + λ (1/b) Σ_k a_k ℓ_k ]                                            (Eq. 13)

depends on the weights a_k, and so does any loss at α′.

**`unrolled`**: the supervised loss of labels that the inner problem did not see, at α′. With a_k = A(p_k) / mean A,

    ∂L_out(α′)/∂a_k = −(ξ λ / b) ⟨v, ∇_α ℓ_k(α)⟩,   v = ∇_α L_out(α′),     (a sample has shares in place of 1/b)

one number per path: does a step on this path help the outer labels? No second-order graph is built. The derivative of
ℓ_k along v comes from a fused kernel, and one ordinary backward pass takes it through the weighting network.

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

__all__ = ["InnerProblem", "PathSample", "normalized", "paper_hypergradient", "unrolled_hypergradient"]


@dataclass(frozen=True, eq=False)
class InnerProblem:
    """Where the inner problem stands.

    `sources (n, d)` the w; `encoder` gives the e; `head` predicts from features `x` and e; `labels` as for
    `supervised_loss`, of all nodes; `inner (k,)` the nodes whose labels train. Paths count nodes by their rows in
    `ends`, features too, where that is given: nodes without features have one vector, for which one row will do.
    """

    sources: Tensor
    encoder: Any
    head: Any
    x: NodeFeatures | None
    labels: Tensor
    inner: Tensor
    unsup_weight: float = 1.0
    supervised_strength: float = 1.0
    ends: NodeFeatures | None = None

    @property
    def rows(self) -> NodeFeatures | None:
        """The features of what paths meet."""
        return self.x if self.ends is None else self.ends

    def supervised(self, nodes: Tensor, encoder: dict[str, Tensor], head: dict[str, Tensor]) -> Tensor:
        """Return L_s of some nodes at given parameters of encoder and head."""
        vectors = functional_call(self.encoder, encoder, (self.x, nodes))
        x = None if self.x is None else take_rows(self.x, nodes)
        return supervised_loss(functional_call(self.head, head, (x, vectors)), self.labels[nodes])


@dataclass(frozen=True, eq=False)
class PathSample:
    """Paths to weigh, `nodes (b, window)` and `length (b,)`, and the loss of their end points.

    `share (b,)` is what part of all paths each one stands for; the shares add up to 1. None means equal parts.
    """

    nodes: Tensor
    length: Tensor
    objective: PairObjective
    share: Tensor | None = None

    @property
    def parts(self) -> Tensor:
        """The share of each path, `(b,)`."""
        count = len(self.length)
        return torch.full((count,), 1 / count, dtype=torch.float64) if self.share is None else self.share


def normalized(weights: Tensor, parts: Tensor | None = None) -> Tensor:
    """Return a = A / mean A: learning to weigh must not become learning to scale. `parts` add up to 1.

    >>> normalized(torch.tensor([0.2, 0.6])).tolist()
    [0.5, 1.5]
    >>> normalized(torch.tensor([0.2, 0.6]), torch.tensor([0.5, 0.5])).tolist()
    [0.5, 1.5]
    """
    return weights / (weights.mean() if parts is None else (parts.to(weights.dtype) * weights).sum())


def _parameters(module: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach().requires_grad_() for name, parameter in module.named_parameters()}


def _step(
    problem: InnerProblem, paths: PathSample, weights: Tensor, virtual_lr: float
) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor], Tensor]:
    """Take the virtual step; return α′ (sources, encoder, head) and the targets e at α."""
    encoder, head = _parameters(problem.encoder), _parameters(problem.head)
    loss = problem.supervised(problem.inner, encoder, head)
    gradients = torch.autograd.grad(loss, [*encoder.values(), *head.values()], allow_unused=True)
    to_encoder = dict(zip(encoder, gradients[: len(encoder)], strict=True))
    to_head = dict(zip(head, gradients[len(encoder) :], strict=True))
    targets = functional_call(problem.encoder, encoder, (problem.rows,))
    to_sources, to_targets = paths.objective.gradient(
        weights.detach() * paths.parts.to(weights.dtype), problem.sources, targets.detach()
    )
    through = torch.autograd.grad(targets, list(encoder.values()), to_targets)
    scale = virtual_lr * problem.unsup_weight
    pulled = virtual_lr * problem.supervised_strength
    stepped = {
        name: (value - scale * path_part - (0 if to_encoder[name] is None else pulled * to_encoder[name])).detach()
        for (name, value), path_part in zip(encoder.items(), through, strict=True)
    }
    stepped_head = {
        name: (value - (0 if to_head[name] is None else virtual_lr * to_head[name])).detach()
        for name, value in head.items()
    }
    return problem.sources - scale * to_sources, stepped, stepped_head, targets.detach()


def unrolled_hypergradient(
    network: PathWeighting, problem: InnerProblem, paths: PathSample, outer: Tensor, virtual_lr: float
) -> tuple[Tensor, Tensor]:
    """Add ∇_{w_A} L_out(α′) to the gradients of the network's parameters; return (L_out(α′), A of the paths).

    `outer (k,)` are the nodes whose labels the inner problem does not see.
    """
    vectors = problem.encoder(problem.rows).detach()
    weights = network(vectors, paths.nodes, paths.length)
    relative = normalized(weights, paths.parts)
    _, encoder, head, targets = _step(problem, paths, relative, virtual_lr)
    encoder = {name: value.requires_grad_() for name, value in encoder.items()}
    loss = problem.supervised(outer, encoder, head)
    slopes = torch.autograd.grad(loss, list(encoder.values()), allow_unused=True)
    direction = {
        name: torch.zeros_like(value) if slope is None else slope
        for (name, value), slope in zip(encoder.items(), slopes, strict=True)
    }
    drift = problem.encoder.tangent(problem.rows, direction)
    aligned = paths.objective.alignment(problem.sources, targets, torch.zeros_like(problem.sources), drift)
    scale = (virtual_lr or 1.0) * problem.unsup_weight * paths.parts.to(relative.dtype)
    (relative * (-scale * aligned)).sum().backward()  # type: ignore[no-untyped-call]
    return loss.detach(), weights.detach()


def paper_hypergradient(
    network: PathWeighting, problem: InnerProblem, paths: PathSample, virtual_lr: float
) -> tuple[Tensor, Tensor]:
    """Add ∇_{w_A} L_u(w_A, α′) to the gradients of the network's parameters; return (L_u(α′), A of the paths)."""
    vectors = problem.encoder(problem.rows).detach()
    weights = network(vectors, paths.nodes, paths.length)
    sources, encoder, _, targets = _step(problem, paths, weights, virtual_lr)
    encoder = {name: value.requires_grad_() for name, value in encoder.items()}
    moved = functional_call(problem.encoder, encoder, (problem.rows,))
    losses = paths.objective.losses(sources, moved)
    parts = paths.parts.to(weights.dtype)
    share = weights.detach() * parts
    slope = losses * parts  # the explicit term
    if virtual_lr:
        along_sources, to_targets = paths.objective.gradient(share, sources, moved.detach())
        slopes = torch.autograd.grad(moved, list(encoder.values()), to_targets)
        drift = problem.encoder.tangent(problem.rows, dict(zip(encoder, slopes, strict=True)))
        aligned = paths.objective.alignment(problem.sources, targets, along_sources, drift)
        slope = slope - virtual_lr * problem.unsup_weight * parts * aligned  # the implicit term
    (weights * slope).sum().backward()
    return (share * losses).sum(), weights.detach()
