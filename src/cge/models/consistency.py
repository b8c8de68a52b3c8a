"""The consistency loss of class probabilities, with its gradient: one compiled pass over all nodes.

    L = 1/|B| Σ_{i in B} 1/R Σ_r ‖p_ir − t_i‖²,   p_ir = softmax(s_ir),   t_i ∝ p̄_i^(1/T),   p̄_i = 1/R Σ_r p_ir

s_ir are the class scores of node i in augmentation r. t, the sharpened mean, is a constant for the gradient, and B are
the nodes whose largest mean probability is above a threshold. The loss is that of GRAND (Feng et al. 2020), the
threshold that of GRAND+ (Feng et al. 2022).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from cge.arrays import Array
from cge.parallel import float_kernel


def consistency_loss(scores: Tensor, sharpening: float, threshold: float) -> Tensor:
    """Return the loss L of `scores (k, R, c)`; T is `sharpening`, 0 where no node is above the `threshold`."""
    loss: Tensor = _Consistency.apply(scores, sharpening, threshold)  # type: ignore[no-untyped-call]
    return loss


class _Consistency(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, scores: Tensor, sharpening: float, threshold: float) -> Tensor:
        values = np.ascontiguousarray(scores.detach().numpy())
        gradient = np.empty_like(values)
        dtype = values.dtype.type
        loss = _loss_and_gradient(values, dtype(1 / sharpening), dtype(threshold), gradient)
        context.save_for_backward(torch.from_numpy(gradient))
        return scores.new_tensor(loss)

    @staticmethod
    def backward(context: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = context.saved_tensors
        return gradient * upstream, None, None


@float_kernel
def _loss_and_gradient(scores: Array, power: Any, threshold: Any, gradient: Array) -> float:
    count, n_augmentations, n_classes = scores.shape
    zero = power * 0
    mean, target = np.empty(n_classes, scores.dtype), np.empty(n_classes, scores.dtype)
    total, n_confident = 0.0, 0
    for i in range(count):
        mean[:] = zero
        for r in range(n_augmentations):
            line, out = scores[i, r], gradient[i, r]
            highest = line[0]
            for c in range(1, n_classes):
                highest = max(highest, line[c])
            normalizer = zero
            for c in range(n_classes):
                out[c] = np.exp(line[c] - highest)
                normalizer += out[c]
            for c in range(n_classes):
                out[c] /= normalizer
                mean[c] += out[c] / n_augmentations
        most = mean[0]
        for c in range(1, n_classes):
            most = max(most, mean[c])
        if most <= threshold:
            gradient[i] = zero
            continue
        n_confident += 1
        normalizer = zero
        for c in range(n_classes):
            target[c] = (mean[c] / most) ** power
            normalizer += target[c]
        for c in range(n_classes):
            target[c] /= normalizer
        for r in range(n_augmentations):
            out = gradient[i, r]
            distance, slope = zero, zero
            for c in range(n_classes):
                difference = out[c] - target[c]
                distance += difference * difference
                slope += difference * out[c]
            total += distance
            for c in range(n_classes):
                out[c] = out[c] * (out[c] - target[c] - slope)
    if n_confident == 0:
        return 0.0
    factor = 2 / (n_augmentations * n_confident)
    for i in range(count):
        for r in range(n_augmentations):
            for c in range(n_classes):
                gradient[i, r, c] *= factor
    return float(total / (n_augmentations * n_confident))
