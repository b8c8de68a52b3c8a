"""The path loss of a set of pairs, with full softmax or with negative sampling.

Both classes return the loss ℓ_k of each pair, the gradient of Σ_k a_k ℓ_k, and the derivative of ℓ_k along a direction.
Tables are `sources (n, d)` (the w) and `targets (n, d)` (the e).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from cge.arrays import Array
from cge.losses import softmax_loss
from cge.training.pair_gradients import pair_alignment, pair_gradient, pair_losses


class PairObjective(Protocol):
    """The functions of the path loss that the outer problem uses."""

    def losses(self, sources: Tensor, targets: Tensor) -> Tensor:
        """Return ℓ_k, `(b,)`."""

    def gradient(self, weights: Tensor, sources: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradient of Σ_k weights[k] ℓ_k with respect to both tables."""

    def alignment(self, sources: Tensor, targets: Tensor, source_direction: Tensor, target_direction: Tensor) -> Tensor:
        """Return ⟨v, ∇ℓ_k⟩ for the direction v, `(b,)`."""


@dataclass(frozen=True, eq=False)
class NegativeSampling:
    """Pairs with their negatives: `starts (b,)`, `ends (b,)`, `negatives (b, k)`; compiled kernels."""

    starts: Array
    ends: Array
    negatives: Array

    def losses(self, sources: Tensor, targets: Tensor) -> Tensor:
        """Return ℓ_k, `(b,)`."""
        out = np.empty(len(self.starts), _dtype(sources))
        pair_losses(self.starts, self.ends, self.negatives, _array(sources), _array(targets), out)
        return torch.from_numpy(out)

    def gradient(self, weights: Tensor, sources: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradient of Σ_k weights[k] ℓ_k with respect to both tables."""
        w, e = _array(sources), _array(targets)
        to_w, to_e = np.zeros_like(w), np.zeros_like(e)
        pair_gradient(self.starts, self.ends, self.negatives, _array(weights), w, e, to_w, to_e)
        return torch.from_numpy(to_w), torch.from_numpy(to_e)

    def alignment(self, sources: Tensor, targets: Tensor, source_direction: Tensor, target_direction: Tensor) -> Tensor:
        """Return ⟨v, ∇ℓ_k⟩ for the direction v, `(b,)`."""
        out = np.empty(len(self.starts), _dtype(sources))
        w, e, along_w, along_e = map(_array, (sources, targets, source_direction, target_direction))
        pair_alignment(self.starts, self.ends, self.negatives, w, e, along_w, along_e, out)
        return torch.from_numpy(out)


@dataclass(frozen=True, eq=False)
class FullSoftmax:
    """Pairs whose loss is the softmax over all nodes (Eq. 5): `starts (b,)`, `ends (b,)`; dense, for small graphs."""

    starts: Array
    ends: Array

    def _losses(self, sources: Tensor, targets: Tensor) -> Tensor:
        return softmax_loss(sources, targets, torch.from_numpy(self.starts), torch.from_numpy(self.ends))

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
            starts, ends = torch.from_numpy(self.starts), torch.from_numpy(self.ends)
            probabilities = torch.softmax(sources[starts] @ targets.T, dim=1)  # (b, n)
            score_change = source_direction[starts] @ targets.T + sources[starts] @ target_direction.T
            return (probabilities * score_change).sum(1) - score_change.gather(1, ends[:, None]).squeeze(1)


def _array(tensor: Tensor) -> Array:
    array: Array = tensor.detach().contiguous().numpy()
    return array


def _dtype(tensor: Tensor) -> Any:
    return np.float64 if tensor.dtype == torch.float64 else np.float32
