"""The paper's losses, Eqs. 4 to 6, as functions of tensors; kernels are tested against them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def softmax_loss(sources: Tensor, targets: Tensor, starts: Tensor, endpoints: Tensor) -> Tensor:
    """Return −log p(e_j | w_i) with the full softmax over all nodes, for pairs of starts i and endpoints j (Eq. 5).

    `sources (n, d)` are the w, `targets (n, d)` the e, `starts (b,)` and `endpoints (b,)` node numbers → `(b,)`.
    """
    scores = sources[starts] @ targets.T  # (b, n)
    return torch.logsumexp(scores, dim=1) - scores.gather(1, endpoints[:, None]).squeeze(1)


def negative_sampling_loss(
    sources: Tensor, targets: Tensor, starts: Tensor, endpoints: Tensor, negatives: Tensor
) -> Tensor:
    """Return −log σ(w_i·e_j) − Σ_n log σ(−w_i·e_n), which replaces Eq. 5 on large graphs.

    Shapes as in `softmax_loss`; `negatives (b, k)` are node numbers → `(b,)`.
    """
    source = sources[starts]  # (b, d)
    positive_scores = (source * targets[endpoints]).sum(1)
    negative_scores = torch.einsum("bd,bkd->bk", source, targets[negatives])
    return functional.softplus(-positive_scores) + functional.softplus(negative_scores).sum(1)


def path_loss(weights: Tensor, losses: Tensor) -> Tensor:
    """Return L_u = Σ_k A(p_k) · loss_k (Eq. 4), divided by the number of paths (deviation D4)."""
    return (weights * losses).mean()


def supervised_loss(scores: Tensor, labels: Tensor, class_weights: Tensor | None = None) -> Tensor:
    """Return L_s: the mean cross-entropy of class scores `(b, c)` (Eq. 6), with optional `class_weights (c,)`.

    Labels `(b,)` are class numbers.
    """
    return functional.cross_entropy(scores, labels, class_weights)


def multilabel_loss(scores: Tensor, labels: Tensor, class_weights: Tensor | None = None) -> Tensor:
    """Return L_s for labels `(b, c)` of zeros and ones: the binary cross-entropy of the sigmoid of scores `(b, c)`.

    It is summed over the classes: with its mean, weight decay would be c times stronger.
    """
    targets = labels.to(scores.dtype)
    return labels.shape[1] * functional.binary_cross_entropy_with_logits(scores, targets, pos_weight=class_weights)
