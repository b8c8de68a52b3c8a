"""The outer problem of Algorithm 1 (line 5): path weights, learned from outer labels.

The weights are computed once per epoch for each distinct path of all walks.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from cge.arrays import Array
from cge.errors import InputError, Message
from cge.models.path_networks import PathTree, PathWeighting
from cge.randomness import generator
from cge.sampling import PathTable, Walker, count_subpaths
from cge.training.bilevel import PathSample, paper_hypergradient, unrolled_hypergradient
from cge.training.paper_inner import MIN_PATH_NODES, InnerTraining
from cge.training.paper_parameters import make_head
from cge.training.torch_state import make_optimizer, seeded

_MIN_WEIGHT, _MAX_WEIGHT = 0.2, 5.0  # of a = A / mean A: beyond them skip-gram can diverge (D7)
_MAX_CACHED = 16_000_000  # sub-paths of all walks whose indices are kept between epochs


class PathWeightLearner:
    """The distinct paths of all walks, their weights, and the training of the weighting network.

    Every fold of outer labels has its own head, which was not trained on them. `weights` are A of the distinct paths,
    `loss_weights` are a, their weights in the path loss.
    """

    def __init__(self, inner: InnerTraining, network: PathWeighting, walker: Walker, batch: int) -> None:
        self.inner, self.network, self.settings = inner, network, inner.settings
        table = PathTable(self.settings.window, shortest=MIN_PATH_NODES)
        total = 0
        batch_indices: list[Array] = []
        for walks in walker.batches(batch):
            indices = table.add(walks)
            total += len(indices)
            batch_indices = [*batch_indices, indices.astype(np.int32)] if total <= _MAX_CACHED else []
        self._table, self._batch_indices = table, batch_indices if total <= _MAX_CACHED else None
        paths = table.paths
        self.tree = PathTree.grow(paths.nodes, paths.length, table.parents)
        self.weights = self.loss_weights = np.ones(len(table), np.float32)
        with seeded(self.settings.seed, "fold heads"):
            self.heads = [make_head(inner.parameters.shape) for _ in inner.task.folds]
        self.head_optimizers = [inner.make_head_optimizer(head) for head in self.heads]
        kind = "adam" if self.settings.optimizer == "auto" else self.settings.optimizer
        self.optimizer = make_optimizer(kind, network.parameters(), self.settings.weighting_lr)
        self._counts = table.counts
        self._strata = [self._strata_of(fold) for fold in inner.task.folds]
        self.update_weights()

    def update_weights(self) -> None:
        """Compute A of every distinct path from the current vectors, and a, its weight in the path loss."""
        vectors = self.inner.parameters.vectors(self.inner.task.features)
        self.weights = self.network.weigh(vectors, self.tree, self.settings.n_jobs)
        if not np.isfinite(self.weights).all():
            hint = Message(Message.of("try a tenth of {weighting_lr}"), f" (now {self.settings.weighting_lr:g})")
            problem = f"{type(self.network).__name__} returned weights that are not finite"
            raise InputError(problem, parameter="weighting_lr", hint=hint)
        if self.settings.outer == "paper":
            self.loss_weights = self.weights
        elif len(self.weights):
            mean = max(float(np.average(self.weights, weights=self._counts)), 1e-12)
            self.loss_weights = np.clip(self.weights / np.float32(mean), _MIN_WEIGHT, _MAX_WEIGHT).astype(np.float32)

    def batch_weights(self, batch: int, walks: Array) -> tuple[Array, Array]:
        """Return a of each sub-path of a batch of walks, and the first index of each walk."""
        indices = self._table.add(walks) if self._batch_indices is None else self._batch_indices[batch]
        ends = np.cumsum(count_subpaths(walks, MIN_PATH_NODES, self.settings.window))
        return self.loss_weights[indices], np.concatenate([[0], ends[:-1]])

    def train(self, epoch: int, pretraining: bool) -> float:
        """Descend the outer loss in the parameters of the network, fold by fold; return the mean of that loss.

        While `pretraining`, labels do not move the vectors.
        """
        losses, steps = [], self.settings.outer_steps
        strength = 0.0 if pretraining else self.settings.supervised_strength
        folds = [(epoch * steps + step) % max(len(self.heads), 1) for step in range(steps)]
        for fold in sorted(set(folds)) if self.heads else []:
            self.inner.train_head(self.heads[fold], self.head_optimizers[fold], self._inner_nodes(fold))
        self.network.train()
        with seeded(self.settings.seed, "outer", epoch):  # for networks with dropout
            for step, fold in enumerate(folds):
                self.optimizer.zero_grad()
                if self.settings.outer == "paper":
                    problem = self.inner.problem(self.inner.parameters.head, self.inner.task.train, strength)
                    sample = self._sample_paths(None, epoch, step)
                    loss, _ = paper_hypergradient(self.network, problem, sample, self.settings.virtual_lr)
                else:
                    problem = self.inner.problem(self.heads[fold], self._inner_nodes(fold), strength)
                    sample, outer_nodes = self._sample_paths(fold, epoch, step), self.inner.task.folds[fold]
                    virtual_lr = self.settings.virtual_lr
                    loss, _ = unrolled_hypergradient(self.network, problem, sample, outer_nodes, virtual_lr)
                self.optimizer.step()
                losses.append(float(loss))
        self.network.eval()
        return float(np.mean(losses))

    def _inner_nodes(self, fold: int) -> Tensor:
        """Return the training nodes without those of a fold."""
        train = self.inner.task.train
        return train if self.inner.task.outer_only else train[~torch.isin(train, self.inner.task.folds[fold])]

    def _strata_of(self, fold: Tensor) -> tuple[Array, Array]:
        """Return the paths that end at nodes of a fold, and the others."""
        ends = np.isin(self._table.paths.end, fold.numpy())
        return np.flatnonzero(ends), np.flatnonzero(~ends)

    def _sample_paths(self, fold: int | None, epoch: int, step: int) -> PathSample:
        """Sample paths for a step of the outer problem, in proportion to how often they occur in the walks.

        Paths that end at a node of the fold have the largest effect on its loss, and they are few. So the sample is
        stratified: half is drawn from those, half from the others, and each path has a fraction of all as its weight.
        """
        all_paths = [np.arange(len(self._table))]
        strata = all_paths if fold is None else [stratum for stratum in self._strata[fold] if len(stratum)]
        random = generator(self.settings.seed, "outer paths", epoch, step)
        size, total = -(-self.settings.outer_paths // len(strata)), int(self._counts.sum())
        samples, fractions = [], []
        for stratum in strata:
            sums = np.cumsum(self._counts[stratum])
            drawn = np.sort(stratum[np.searchsorted(sums, random.integers(sums[-1], size=size), side="right")])
            samples.append(drawn)
            fractions.append(np.full(size, sums[-1] / total / size))
        paths, indices = self._table.paths, np.concatenate(samples)
        nodes, length = paths.nodes[indices].astype(np.int64), paths.length[indices].astype(np.int64)
        ends = nodes[np.arange(len(nodes)), length - 1]
        objective = self.inner.objective(nodes[:, 0], ends, ["outer", epoch, step])
        fraction = torch.from_numpy(np.concatenate(fractions))
        rows = torch.from_numpy(self.inner.target_rows.rows(nodes))
        return PathSample(rows, torch.from_numpy(length), objective, fraction)

    def weight_statistics(self) -> tuple[float, float, float]:
        """Return mean and standard deviation of A over the distinct paths, and (Σa)²/Σa² relative to their number."""
        a = self.loss_weights.astype(np.float64)
        effective = float(a.sum() ** 2 / max((a**2).sum(), 1e-300) / max(len(a), 1))
        return float(self.weights.mean(dtype=np.float64)), float(self.weights.std(dtype=np.float64)), effective
