"""Learned weights of metapaths: those with which ridge regression predicts held-out training labels best.

    P = Σ_m w_m P_m,   w = softmax(a),   scores of a fold = exp(s) K_ho (K_oo + λ I)⁻¹ Y_o + c,   K = P Pᵀ / mean(diag)

P_m `(k, f)` are the inputs propagated along metapath m, h the held-out nodes of a fold, o the others, and Y their
centered labels; exp(s) is a trained scale of the scores and c `(classes,)` a trained bias. Ridge regression is solved
exactly, so that the loss of the held-out labels is a function of a, log λ, s and c, which gradient descent minimizes. A
penalty keeps a near 0, where all metapaths have the same weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from cge.arrays import Array
from cge.models.edge_weighting import EdgeInputs
from cge.models.metapath_weighting import MetapathWeighting
from cge.models.sparse_products import SparseFeatures
from cge.randomness import generator
from cge.targets import Task
from cge.training.learned_weighting import MAX_LOSS_RATIO, OuterResult
from cge.training.optimizers import Adam
from cge.training.torch_state import one_thread

_STEPS, _LEARNING_RATE = 60, 0.1
_PENALTY = 1.0  # of the sum of squares of a, per label
_MAX_NUMBERS = 5e7  # floats in all P_m together; beyond that, a random subset of the labeled nodes is used


def propagated_rows(weighting: MetapathWeighting, edge_inputs: EdgeInputs, inputs: Any, nodes: Array) -> Array:
    """Return the inputs of some nodes propagated along each metapath, `(C, k, f)` float64."""
    relations: Any = edge_inputs.relations
    values, code_of = weighting.edge_weights(edge_inputs), {name: code for code, name in enumerate(relations.names)}
    names = {name for metapath in weighting.metapaths for name in metapath}
    matrices = {name: relations.matrix(values, code_of[name]) for name in names}
    rows = inputs.csr if isinstance(inputs, SparseFeatures) else inputs
    paths: dict[tuple[str, ...], Any] = {(): sp.eye_array(relations.num_nodes, format="csr")[nodes]}
    for metapath in sorted(weighting.metapaths, key=len):
        for length in range(1, len(metapath) + 1):
            if metapath[:length] not in paths:
                paths[metapath[:length]] = paths[metapath[: length - 1]] @ matrices[metapath[length - 1]]
    products = [paths[metapath] @ rows for metapath in weighting.metapaths]
    return np.stack([rows.toarray() if sp.issparse(rows) else rows for rows in products]).astype(np.float64)


def held_out_loss(
    rows: Tensor, task: Task, train: Tensor, folds: Sequence[Tensor], parts: Sequence[Tensor], weights: Tensor | None
) -> Tensor:
    """Return the mean loss of held-out labels; `parts` are a, log λ, s and c, `folds` booleans of `train (k,)`."""
    a, log_ridge, log_scale, bias = parts
    propagated = torch.einsum("m,mkf->kf", torch.softmax(a, 0), rows)
    kernel = propagated @ propagated.T
    kernel = kernel / kernel.diagonal().mean().clamp(min=1e-12)
    labels = task.labels[train]
    matrix = torch.from_numpy(np.asarray(task.target.matrix(labels.numpy()), np.float64))
    centered, total = matrix - matrix.mean(0), torch.zeros((), dtype=torch.float64)
    for held_out_mask in folds:
        ridge = torch.exp(log_ridge) * torch.eye(int((~held_out_mask).sum()), dtype=torch.float64)
        solution = torch.linalg.solve(kernel[~held_out_mask][:, ~held_out_mask] + ridge, centered[~held_out_mask])
        scores = torch.exp(log_scale) * (kernel[held_out_mask][:, ~held_out_mask] @ solution) + bias
        total = total + task.target.loss(scores, labels[held_out_mask], weights) * (
            int(held_out_mask.sum()) / len(train)
        )
    return total


@one_thread()
def learn_metapath_weights(
    task: Task,
    edge_inputs: EdgeInputs,
    inputs: Any,
    weighting: MetapathWeighting,
    seed: int,
    class_weights: Tensor | None = None,
) -> OuterResult:
    """Set the weights of metapaths to those that predict the held-out labels of `task.folds` best.

    If these are not predicted clearly better than by the class frequencies, the weights stay as they are.
    """
    train = task.train.numpy()
    limit = max(int(_MAX_NUMBERS / (len(weighting.metapaths) * int(inputs.shape[1]))), 50)
    if limit < len(train):
        train = np.sort(generator(seed, "metapaths").choice(train, limit, replace=False))
    rows = torch.from_numpy(propagated_rows(weighting, edge_inputs, inputs, train))
    folds = [torch.from_numpy(np.isin(train, fold.numpy())) for fold in task.folds]
    folds = [held_out_mask for held_out_mask in folds if held_out_mask.any() and not held_out_mask.all()]
    nodes, labels = torch.from_numpy(train), task.labels[task.train]
    weights = None if class_weights is None else class_weights.double()
    values = torch.zeros(len(weighting.metapaths)), torch.tensor(-2.0), torch.tensor(1.0), torch.zeros(task.classes)
    parts = [value.double().requires_grad_() for value in values]
    optimizer, losses = Adam([(parts, 0.0)], _LEARNING_RATE), []
    for _ in range(_STEPS):
        loss = held_out_loss(rows, task, nodes, folds, parts, weights)
        losses.append(float(loss.detach()))
        optimizer.zero_grad()
        (loss + _PENALTY / len(train) * parts[0].square().sum()).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    better_than_prior = losses[-1] < MAX_LOSS_RATIO * task.target.constant_loss(labels, class_weights)
    if better_than_prior:
        weighting.weights = torch.softmax(parts[0], 0).detach().numpy().astype(np.float32)
        weighting.make_sparse(rows.square().sum(2).mean(1).sqrt().numpy())
    return OuterResult(losses[0], losses[-1], better_than_prior)
