"""Kernels for pairs with negatives: the loss, its gradient, and its derivative along a direction.

    ℓ = −log σ(w_i·e_j) − Σ_n log σ(−w_i·e_n)

`starts (b,)`, `ends (b,)`, `negatives (b, k)` are node numbers, `sources (n, d)` are the w and `targets (n, d)` the e,
in float32 or float64.
"""

from __future__ import annotations

import numpy as np

from cge.arrays import Array
from cge.parallel import float_kernel


@float_kernel
def _softplus(x: float) -> float:
    return float(max(x, 0.0) + np.log1p(np.exp(-abs(x))))


@float_kernel
def pair_losses(starts: Array, ends: Array, negatives: Array, sources: Array, targets: Array, out: Array) -> None:
    """Write ℓ of each pair into `out (b,)`."""
    for pair in range(len(starts)):
        source = sources[starts[pair]]
        loss = 0.0
        for k in range(-1, negatives.shape[1]):
            target = targets[ends[pair] if k < 0 else negatives[pair, k]]
            score = 0.0
            for d in range(len(source)):
                score += source[d] * target[d]
            loss += _softplus(-score if k < 0 else score)
        out[pair] = loss


@float_kernel
def pair_gradient(
    starts: Array,
    ends: Array,
    negatives: Array,
    weights: Array,
    sources: Array,
    targets: Array,
    source_gradient: Array,
    target_gradient: Array,
) -> None:
    """Add Σ_k weights[k] · ∇ℓ_k to the gradients of both tables, `(n, d)` each."""
    for pair in range(len(starts)):
        i = starts[pair]
        for k in range(-1, negatives.shape[1]):
            j = ends[pair] if k < 0 else negatives[pair, k]
            score = 0.0
            for d in range(sources.shape[1]):
                score += sources[i, d] * targets[j, d]
            score_gradient = weights[pair] * (1.0 / (1.0 + np.exp(-score)) - (1.0 if k < 0 else 0.0))  # ∂ℓ/∂score
            for d in range(sources.shape[1]):
                source_gradient[i, d] += score_gradient * targets[j, d]
                target_gradient[j, d] += score_gradient * sources[i, d]


@float_kernel
def pair_alignment(
    starts: Array,
    ends: Array,
    negatives: Array,
    sources: Array,
    targets: Array,
    source_direction: Array,
    target_direction: Array,
    out: Array,
) -> None:
    """Write ⟨v, ∇ℓ⟩ of each pair into `out (b,)`: the derivative of its loss along v.

    v is `source_direction` and `target_direction`, `(n, d)` each. The derivative of a score w·e is ẇ·e + w·ė.
    """
    for pair in range(len(starts)):
        i = starts[pair]
        total = 0.0
        for k in range(-1, negatives.shape[1]):
            j = ends[pair] if k < 0 else negatives[pair, k]
            score = 0.0
            score_change = 0.0
            for d in range(sources.shape[1]):
                score += sources[i, d] * targets[j, d]
                score_change += source_direction[i, d] * targets[j, d] + sources[i, d] * target_direction[j, d]
            total += score_change * (1.0 / (1.0 + np.exp(-score)) - (1.0 if k < 0 else 0.0))
        out[pair] = total
