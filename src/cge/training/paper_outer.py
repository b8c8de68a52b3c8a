"""The outer problem (Algorithm 1, line 5): path weights descend an outer loss, by its hypergradient (Eqs. 11 to 15).

Inner parameters α are the tables (through the encoder) and the head θ. One virtual step of the inner problem,

    α′ = α − ξ ∇_α [ L_s(inner labels) + λ (1/b) Σ_k a_k ℓ_k ]                                            (Eq. 13)

depends on the weights a_k, and so does any loss at α′. `unrolled` descends the supervised loss, at α′, of labels that
the inner problem did not see. With a_k = A(p_k) / mean A,

    ∂L_out(α′)/∂a_k = −(ξ λ / b) ⟨v, ∇_α ℓ_k(α)⟩,   v = ∇_α L_out(α′),     (a sample has fractions instead of 1/b)

one number per path: does a step on this path reduce the outer loss? No second-order graph is built. `paper` is Eq. 15
as printed. It drops the supervised term as having no derivative in w_A (at α′ it has one), and descends
L_u = Σ A(p_k) ℓ_k itself, whose minimum is A = 0 (deviation D1). `virtual_lr = 0` means first order: `unrolled` takes
the direction of its gradient as ξ → 0 (the gradient itself vanishes), `paper` leaves the implicit term out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call

from cge.arrays import Array
from cge.models.path_networks import PathTree, PathWeighting
from cge.randomness import generator
from cge.sampling import PathTable, Walker, count_subpaths
from cge.training.optimizers import OPTIMIZERS
from cge.training.pair_objectives import PairObjective
from cge.training.paper_inner import MIN_PATH_NODES, InnerProblem, InnerTraining
from cge.training.torch_state import check_finite, seeded

_MIN_WEIGHT, _MAX_WEIGHT = 0.2, 5.0  # of a = A / mean A: beyond them skip-gram can diverge (D7)
_SCALE_FORCE = 40.0  # toward mean A = ½: the outer loss does not depend on the scale of A, which would drift (D18)
_MAX_CACHED = 16_000_000  # sub-paths of all walks whose indices are kept between epochs


class PathWeightLearner:
    """The distinct paths of all walks, their weights, and the training of the weighting network.

    Every fold of outer labels has an inner training of its own, in `folds`, which never sees these labels. While labels
    do not move the vectors, all share them and differ in their heads. `separate` gives each fold its own vectors. Outer
    labels that no inner training sees need no folds: there the only fold is the inner training itself. `weights` are A
    of the distinct paths after an epoch, `loss_weights` are a, their weights in the path loss.
    """

    def __init__(self, inner: InnerTraining, network: PathWeighting, walker: Walker, batch: int) -> None:
        self.inner, self.network, self.settings = inner, network, inner.settings
        self._table = table = PathTable(self.settings.window, shortest=MIN_PATH_NODES)
        total = 0
        batch_indices: list[Array] = []  # empty if there are too many
        for walks in walker.batches(batch):
            indices = table.add(walks)
            total += len(indices)
            batch_indices = [*batch_indices, indices.astype(np.int32)] if total <= _MAX_CACHED else []
        paths, self._counts, self._parents = table.paths, table.counts, table.parents.copy()
        self._batches = [self._batch_paths(indices) for indices in batch_indices]
        self.tree = PathTree.grow(paths.nodes, paths.length, self._parents)
        self.weights = self.loss_weights = np.ones(len(table), np.float32)
        task = inner.task
        with seeded(self.settings.seed, "fold heads"):
            self.folds = [inner if task.outer_only else inner.without_labels(nodes) for nodes in task.folds]
        self.separated = task.outer_only
        kind, rate = self.settings.network_optimizer, self.settings.weighting_rate
        self.optimizer = OPTIMIZERS[kind]([(network.parameters(), 0.0)], rate)
        at_fold = [np.isin(paths.endpoint, fold.numpy()) for fold in task.folds]
        self._strata = [(np.flatnonzero(ends), np.flatnonzero(~ends)) for ends in at_fold]
        self.update_weights()

    @property
    def fold_models(self) -> list[InnerTraining]:
        """The inner training runs that are not the model itself."""
        return [fold for fold in self.folds if fold is not self.inner]

    def separate(self) -> None:
        """Give every fold its own copy of the vectors, which labels are about to move."""
        if not self.separated:
            for fold in self.fold_models:
                fold.separate(self.inner)
            self.separated = True

    def update_weights(self) -> None:
        """Compute A of every distinct path from the current vectors, and a, its weight in the path loss."""
        self.weights = self._weigh(self.inner, self.tree)
        self.loss_weights = self._loss_weights(self.weights, self._counts)

    def _weigh(self, inner: InnerTraining, tree: PathTree) -> Array:
        """Return A of the paths of a tree, from the current vectors of a training."""
        weights = self.network.weigh(inner.parameters.vectors(inner.task.features), tree, self.settings.n_jobs)
        problem = f"{type(self.network).__name__} returned weights that are not finite"
        check_finite(weights, problem, "weighting_lr", self.settings.weighting_rate)
        return weights

    def _loss_weights(self, weights: Array, counts: Array) -> Array:
        """Return a of paths that occur `counts (b,)` times: A (`outer="paper"`), or A / mean A within bounds (D7)."""
        if self.settings.outer == "paper" or not len(weights):
            return weights
        mean = max(float(np.average(weights, weights=counts)), 1e-12)
        return np.clip(weights / np.float32(mean), _MIN_WEIGHT, _MAX_WEIGHT).astype(np.float32)

    def _batch_paths(self, indices: Array) -> tuple[PathTree, Array, Array]:
        """Return the distinct paths of a batch, how often each occurs in it, and the one of each sub-path."""
        distinct, position, counts = np.unique(indices, return_inverse=True, return_counts=True)
        paths, parents = self._table.paths, self._parents[distinct]
        # A walk that contains a path contains its parent.
        parents = np.where(parents < 0, -1, np.searchsorted(distinct, parents))
        return PathTree.grow(paths.nodes[distinct], paths.length[distinct], parents), counts, position.astype(np.int32)

    def batch_weights(self, inner: InnerTraining, batch: int, walks: Array) -> tuple[Array, Array]:
        """Return a of each sub-path of a batch of walks, by a training's vectors, and the first index of each walk."""
        batch_paths = self._batches[batch] if self._batches else self._batch_paths(self._table.add(walks))
        tree, counts, position = batch_paths
        ends = np.cumsum(count_subpaths(walks, MIN_PATH_NODES, self.settings.window))
        weights = self._loss_weights(self._weigh(inner, tree), counts)
        return weights[position], np.concatenate([[0], ends[:-1]])

    def step(self, number: int, pretraining: bool) -> float:
        """Take a step of the network down the outer loss (Algorithm 1, line 5); return that loss.

        `number` counts the steps of a training, and the folds take turns. While `pretraining`, labels do not move the
        vectors.
        """
        strength, virtual_lr = 0.0 if pretraining else self.settings.supervised_strength, self.settings.virtual_lr
        self.network.train()
        with seeded(self.settings.seed, "outer", number):  # for networks with dropout
            self.optimizer.zero_grad()
            if self.settings.outer == "paper":
                problem, sample = self.inner.problem(strength), self._sample_paths(None, number)
                loss = paper_hypergradient(self.network, problem, sample, virtual_lr)
            else:
                fold = number % len(self.folds)
                problem, sample = self.folds[fold].problem(strength), self._sample_paths(fold, number)
                nodes = self.inner.task.folds[fold]
                loss = unrolled_hypergradient(self.network, problem, sample, nodes, virtual_lr, _SCALE_FORCE)
            self.optimizer.step()
        self.network.eval()
        return loss

    def _sample_paths(self, fold: int | None, number: int) -> PathSample:
        """Sample paths for a step of the outer problem, in proportion to how often they occur in the walks.

        Paths that end at a node of the fold have the largest effect on its loss, but are few: they are half of the
        sample, the others the other half, and each path has a fraction of all as its weight.
        """
        all_paths = [np.arange(len(self._table))]
        strata = all_paths if fold is None else [stratum for stratum in self._strata[fold] if len(stratum)]
        random = generator(self.settings.seed, "outer paths", number)
        size, total = -(-self.settings.outer_paths // len(strata)), int(self._counts.sum())
        samples, fractions = [], []
        for stratum in strata:
            sums = np.cumsum(self._counts[stratum])
            drawn = np.sort(stratum[np.searchsorted(sums, random.integers(sums[-1], size=size), side="right")])
            samples.append(drawn)
            fractions.append(np.full(size, sums[-1] / total / size))
        paths, indices = self._table.paths, np.concatenate(samples)
        nodes, length = paths.nodes[indices].astype(np.int64), paths.length[indices].astype(np.int64)
        endpoints = nodes[np.arange(len(nodes)), length - 1]
        objective = self.inner.objective(nodes[:, 0], endpoints, ["outer", number])
        fraction = torch.from_numpy(np.concatenate(fractions))
        rows = torch.from_numpy(self.inner.target_rows.rows(nodes))
        return PathSample(rows, torch.from_numpy(length), objective, fraction)

    def weight_statistics(self) -> tuple[float, float, float]:
        """Return mean and standard deviation of A over the distinct paths, and (Σa)²/Σa² relative to their number."""
        a = self.loss_weights.astype(np.float64)
        effective = float(a.sum() ** 2 / max((a**2).sum(), 1e-300) / max(len(a), 1))
        return float(self.weights.mean(dtype=np.float64)), float(self.weights.std(dtype=np.float64)), effective


@dataclass(frozen=True, eq=False)
class PathSample:
    """Sampled paths, the loss of their endpoints, and the fraction of all paths that each one represents."""

    nodes: Tensor  # (b, window)
    length: Tensor  # (b,)
    objective: PairObjective
    fraction: Tensor  # (b,), sums to 1


def _virtual_step(
    problem: InnerProblem, paths: PathSample, weights: Tensor, virtual_lr: float
) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor], Tensor]:
    """Take the virtual step (Eq. 13); return α′ (sources, encoder, head) and the targets e at α."""
    modules = (problem.encoder, problem.head)
    encoder, head = ({name: p.detach().requires_grad_() for name, p in each.named_parameters()} for each in modules)
    loss = problem.supervised(problem.inner_nodes, encoder, head)
    by_labels = torch.autograd.grad(loss, [*encoder.values(), *head.values()], materialize_grads=True)
    targets = functional_call(problem.encoder, encoder, (problem.row_features,))
    loss_weights = weights.detach() * paths.fraction.to(weights.dtype)
    to_sources, to_targets = paths.objective.gradient(loss_weights, problem.sources, targets.detach())
    by_paths = torch.autograd.grad(targets, list(encoder.values()), to_targets)
    path_lr, label_lr = virtual_lr * problem.unsup_weight, virtual_lr * problem.supervised_strength
    stepped = {
        name: (value - path_lr * path_part - label_lr * label_part).detach().requires_grad_()
        for (name, value), path_part, label_part in zip(encoder.items(), by_paths, by_labels, strict=False)
    }
    head_gradients = zip(head.items(), by_labels[len(encoder) :], strict=True)
    stepped_head = {name: (value - virtual_lr * gradient).detach() for (name, value), gradient in head_gradients}
    return problem.sources - path_lr * to_sources, stepped, stepped_head, targets.detach()


def hold_scale(gradient: Tensor, fraction: Tensor, mean: Tensor, force: float) -> Tensor:
    """Return the gradient of path weights, `(b,)`, with a term that moves their mean toward ½.

    The term is force · (mean − ½) · ‖gradient‖ times the gradient of the mean, `fraction`: relative to the length of a
    gradient that changes by orders of magnitude during training.

    >>> hold_scale(torch.tensor([3.0, -4.0]), torch.tensor([0.5, 0.5]), torch.tensor(0.7), 2.0)
    tensor([ 4., -3.])
    """
    held: Tensor = gradient + force * (mean - 0.5) * gradient.norm() * fraction
    return held


def unrolled_hypergradient(
    network: PathWeighting,
    problem: InnerProblem,
    paths: PathSample,
    outer_nodes: Tensor,
    virtual_lr: float,
    scale_force: float = 0.0,
) -> float:
    """Add ∇_{w_A} L_out(α′) to the gradients of the network; return L_out(α′), the loss of unseen `outer_nodes`.

    L_out does not depend on the scale of A, which would drift: `hold_scale` pulls the mean of A toward ½ (D18).
    """
    weights = network(problem.encoder(problem.row_features).detach(), paths.nodes, paths.length)
    fraction = paths.fraction.to(weights.dtype)
    mean = (fraction * weights.detach()).sum()
    relative = weights.detach() / mean
    _, encoder, head, targets = _virtual_step(problem, paths, relative, virtual_lr)
    loss = problem.supervised(outer_nodes, encoder, head)
    gradients = torch.autograd.grad(loss, list(encoder.values()), materialize_grads=True)
    tangent = problem.encoder.tangent(problem.row_features, dict(zip(encoder, gradients, strict=True)))
    alignment = paths.objective.alignment(problem.sources, targets, torch.zeros_like(problem.sources), tangent)
    by_relative = -(virtual_lr or 1.0) * problem.unsup_weight * fraction * alignment  # ∂L_out/∂a
    by_weight = (by_relative - fraction * (by_relative * relative).sum()) / mean  # ∂L_out/∂A
    weights.backward(hold_scale(by_weight, fraction, mean, scale_force))
    return float(loss.detach())


def paper_hypergradient(network: PathWeighting, problem: InnerProblem, paths: PathSample, virtual_lr: float) -> float:
    """Add ∇_{w_A} L_u(w_A, α′) to the gradients of the network's parameters; return L_u(α′)."""
    weights = network(problem.encoder(problem.row_features).detach(), paths.nodes, paths.length)
    sources, encoder, _, targets = _virtual_step(problem, paths, weights, virtual_lr)
    moved = functional_call(problem.encoder, encoder, (problem.row_features,))
    losses, fraction = paths.objective.losses(sources, moved), paths.fraction.to(weights.dtype)
    loss_weights = weights.detach() * fraction
    weight_gradient = losses * fraction  # the explicit term
    if virtual_lr:
        to_sources, to_targets = paths.objective.gradient(loss_weights, sources, moved.detach())
        gradients = torch.autograd.grad(moved, list(encoder.values()), to_targets)
        tangent = problem.encoder.tangent(problem.row_features, dict(zip(encoder, gradients, strict=True)))
        alignment = paths.objective.alignment(problem.sources, targets, to_sources, tangent)
        weight_gradient = (
            weight_gradient - virtual_lr * problem.unsup_weight * fraction * alignment
        )  # the implicit term
    (weights * weight_gradient).sum().backward()
    return float((loss_weights * losses).sum())
