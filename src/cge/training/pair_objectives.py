"""The path loss of a set of pairs, with full softmax or with negative sampling.

Both classes return the loss ℓ_k of each pair, the gradient of Σ_k a_k ℓ_k, and the derivative of ℓ_k along a direction.
Tables are `sources (n, d)` (the w) and `targets (n, d)` (the e), in float32 or float64. The kernels compute

    ℓ = −log σ(w_i·e_j) − Σ_n log σ(−w_i·e_n)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cge.arrays import Array
from cge.losses import softmax_loss
from cge.parallel import float_kernel

_Pairs = tuple[Array, Array, Array]  # starts, endpoints, negatives


@dataclass(frozen=True, eq=False)
class NegativeSampling:
    """Pairs with their negatives: `starts (b,)`, `endpoints (b,)`, `negatives (b, k)`; compiled kernels."""

    starts: Array
    endpoints: Array
    negatives: Array

    @property
    def _pairs(self) -> _Pairs:
        return self.starts, self.endpoints, self.negatives

    def losses(self, sources: Tensor, targets: Tensor) -> Tensor:
        """Return ℓ_k, `(b,)`."""
        out = _array(torch.empty(len(self.starts), dtype=sources.dtype))
        _pair_losses(self._pairs, _array(sources), _array(targets), out)
        return torch.from_numpy(out)

    def gradient(self, weights: Tensor, sources: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradient of Σ_k weights[k] ℓ_k with respect to both tables."""
        w, e = _array(sources), _array(targets)
        to_w, to_e = np.zeros_like(w), np.zeros_like(e)
        _pair_gradient(self._pairs, _array(weights), w, e, to_w, to_e)
        return torch.from_numpy(to_w), torch.from_numpy(to_e)

    def alignment(self, sources: Tensor, targets: Tensor, source_direction: Tensor, target_direction: Tensor) -> Tensor:
        """Return ⟨v, ∇ℓ_k⟩ for the direction v, `(b,)`."""
        out = _array(torch.empty(len(self.starts), dtype=sources.dtype))
        w, e, along_w, along_e = map(_array, (sources, targets, source_direction, target_direction))
        _pair_alignment(self._pairs, w, e, along_w, along_e, out)
        return torch.from_numpy(out)


@dataclass(frozen=True, eq=False)
class FullSoftmax:
    """Pairs with the softmax over all nodes as loss (Eq. 5): `starts`, `endpoints (b,)`; dense, for small graphs."""

    starts: Array
    endpoints: Array

    def _losses(self, sources: Tensor, targets: Tensor) -> Tensor:
        return softmax_loss(sources, targets, torch.from_numpy(self.starts), torch.from_numpy(self.endpoints))

    def losses(self, sources: Tensor, targets: Tensor) -> Tensor:
        """Return ℓ_k, `(b,)`."""
        with torch.no_grad():
            return self._losses(sources, targets)

    def gradient(self, weights: Tensor, sources: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradient of Σ_k weights[k] ℓ_k with respect to both tables."""
        tables = [table.detach().requires_grad_() for table in (sources, targets)]
        to_w, to_e = torch.autograd.grad((weights.detach() * self._losses(*tables)).sum(), tables)
        return to_w, to_e

    def alignment(self, sources: Tensor, targets: Tensor, source_direction: Tensor, target_direction: Tensor) -> Tensor:
        """Return ⟨v, ∇ℓ_k⟩ for the direction v, `(b,)`; the derivative of a score w·e is ẇ·e + w·ė."""
        with torch.no_grad():
            starts, endpoints = torch.from_numpy(self.starts), torch.from_numpy(self.endpoints)
            probabilities = torch.softmax(sources[starts] @ targets.T, dim=1)  # (b, n)
            score_change = source_direction[starts] @ targets.T + sources[starts] @ target_direction.T
            return (probabilities * score_change).sum(1) - score_change.gather(1, endpoints[:, None]).squeeze(1)


PairObjective = NegativeSampling | FullSoftmax


def _array(tensor: Tensor) -> Array:
    array: Array = tensor.detach().contiguous().numpy()
    return array


@float_kernel
def _softplus(x: float) -> float:
    return float(max(x, 0.0) + np.log1p(np.exp(-abs(x))))


@float_kernel
def _pair_losses(pairs: _Pairs, sources: Array, targets: Array, out: Array) -> None:
    """Write ℓ of each pair into `out (b,)`."""
    starts, endpoints, negatives = pairs
    for pair in range(len(starts)):
        source = sources[starts[pair]]
        loss = 0.0
        for k in range(-1, negatives.shape[1]):
            target = targets[endpoints[pair] if k < 0 else negatives[pair, k]]
            score = 0.0
            for d in range(len(source)):
                score += source[d] * target[d]
            loss += _softplus(-score if k < 0 else score)
        out[pair] = loss


@float_kernel
def _pair_gradient(
    pairs: _Pairs, weights: Array, sources: Array, targets: Array, to_sources: Array, to_targets: Array
) -> None:
    """Add Σ_k weights[k] · ∇ℓ_k to the gradients of both tables, `(n, d)` each."""
    starts, endpoints, negatives = pairs
    for pair in range(len(starts)):
        i = starts[pair]
        for k in range(-1, negatives.shape[1]):
            j = endpoints[pair] if k < 0 else negatives[pair, k]
            score = 0.0
            for d in range(sources.shape[1]):
                score += sources[i, d] * targets[j, d]
            score_gradient = weights[pair] * (1.0 / (1.0 + np.exp(-score)) - (1.0 if k < 0 else 0.0))  # ∂ℓ/∂score
            for d in range(sources.shape[1]):
                to_sources[i, d] += score_gradient * targets[j, d]
                to_targets[j, d] += score_gradient * sources[i, d]


@float_kernel
def _pair_alignment(pairs: _Pairs, sources: Array, targets: Array, along_w: Array, along_e: Array, out: Array) -> None:
    """Write ⟨v, ∇ℓ⟩ of each pair into `out (b,)`; the derivative of a score w·e along v is ẇ·e + w·ė."""
    starts, endpoints, negatives = pairs
    for pair in range(len(starts)):
        i = starts[pair]
        total = 0.0
        for k in range(-1, negatives.shape[1]):
            j = endpoints[pair] if k < 0 else negatives[pair, k]
            score = 0.0
            score_change = 0.0
            for d in range(sources.shape[1]):
                score += sources[i, d] * targets[j, d]
                score_change += along_w[i, d] * targets[j, d] + sources[i, d] * along_e[j, d]
            total += score_change * (1.0 / (1.0 + np.exp(-score)) - (1.0 if k < 0 else 0.0))
        out[pair] = total
