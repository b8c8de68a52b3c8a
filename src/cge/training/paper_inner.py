"""The inner problem (Algorithm 1, line 4): vectors and head descend L_s + λ L_u on weighted paths."""

from __future__ import annotations

from copy import copy, deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.func import functional_call

from cge.arrays import Array
from cge.models.autograd import NodeFeatures, mean_squares, take_rows
from cge.models.sparse_products import SparseFeatures
from cge.sampling import NegativeSampler, label_pairs, subpaths
from cge.targets import Target, Task
from cge.training.optimizers import OPTIMIZERS, Optimizer
from cge.training.pair_objectives import FullSoftmax, NegativeSampling, PairObjective
from cge.training.paper_parameters import Parameters, TrainingSettings, make_head
from cge.training.skipgram import train_walks
from cge.training.walk_partitions import NodePartition, partition_count, partition_nodes

MIN_PATH_NODES = 2  # a path of one node would train a node to predict itself
_NEGATIVES_PER_CONTEXT = 2.5  # the center of a path has few contexts
_MIN_MEAN_SQUARE = 1e-12  # of a feature that no node has
_LAST_RATE = 1e-3  # final learning rate, relative to the first


@dataclass(frozen=True, eq=False)
class TargetRows:
    """The rows of the target table: their features, and the row of each node, `(n,)` (None: every node has its own)."""

    features: NodeFeatures | None
    row_of: Array | None = None

    def rows(self, nodes: Array) -> Array:
        """Return the rows of nodes; −1 stays −1."""
        return nodes if self.row_of is None else np.where(nodes < 0, nodes, self.row_of[nodes])


def make_target_rows(features: NodeFeatures | None, partition: NodePartition) -> TargetRows:
    """Return the target rows of an inductive encoder: nodes of a part without features have equal vectors, one row."""
    if not isinstance(features, SparseFeatures):
        return TargetRows(features)
    counts = np.diff(features.csr.indptr)
    nonzero = np.flatnonzero(counts)
    row_of = len(nonzero) + partition.part_of.astype(np.int64)
    row_of[nonzero] = np.arange(len(nonzero))
    indptr = np.concatenate([[0], np.cumsum(counts[nonzero]), np.full(partition.count, features.csr.nnz)])
    shape = len(nonzero) + partition.count, features.shape[1]
    rows = sp.csr_array((features.csr.data, features.csr.indices, indptr), shape=shape)
    return TargetRows(SparseFeatures(rows, features.n_jobs), row_of)


@dataclass(frozen=True, eq=False)
class InnerProblem:
    """The current point of the inner problem."""

    sources: Tensor  # the w, (n, d)
    encoder: Any  # returns the e
    head: Any  # predicts from features and e
    features: NodeFeatures | None
    row_features: NodeFeatures | None  # of the rows that paths refer to: nodes without features share one
    labels: Tensor  # of all nodes
    target: Target
    inner_nodes: Tensor  # whose labels train
    unsup_weight: float = 1.0
    supervised_strength: float = 1.0

    def supervised(self, nodes: Tensor, encoder: dict[str, Tensor], head: dict[str, Tensor]) -> Tensor:
        """Return L_s of `nodes` for these parameters of encoder and head."""
        vectors = functional_call(self.encoder, encoder, (self.features, nodes))
        x = None if self.features is None else take_rows(self.features, nodes)
        return self.target.loss(functional_call(self.head, head, (x, vectors)), self.labels[nodes])


@dataclass(frozen=True, eq=False)
class WalkBatch:
    """Walks of an epoch, weights of their paths, and whether labels train the vectors: same-label pairs and L_s."""

    walks: Array
    first: int  # position of the first walk
    progress: tuple[float, float]  # fraction of all epochs done before and after
    epoch: int
    weights: Array | None = None  # of each sub-path, in the order of `subpaths`
    base: Array | None = None  # first index of each walk
    with_labels: bool = False


class InnerTraining:
    """Trains `parameters` on paths and labels of a task.

    With negative sampling and plain SGD a kernel updates the tables; otherwise an optimizer takes exact gradients.
    """

    def __init__(self, task: Task, settings: TrainingSettings, parameters: Parameters) -> None:
        self.task, self.settings, self.parameters = task, settings, parameters
        self.inductive = settings.setting == "inductive"
        self.sampler = NegativeSampler(task.graph, seed=settings.seed)
        count = partition_count(settings.window - 1)
        self.partition = partition_nodes(self.sampler.probability, count, settings.seed)
        # Nodes at which no path ends have untrained rows in a table: zeros have no effect on the head.
        in_degrees = np.bincount(task.graph.indices, minlength=task.graph.num_nodes)
        self._unreached = torch.from_numpy(np.flatnonzero(in_degrees == 0))
        self._labeled = task.train  # whose vectors the supervised loss moves
        if not self.inductive:
            self._labeled = task.train[~torch.isin(task.train, self._unreached)]
            with torch.no_grad():
                parameters.encoder.table[self._unreached] = 0
        train_idx, labels = task.train.numpy(), task.labels.numpy()
        self._train_labels = task.target.unlabeled(len(labels))  # no others
        self._train_labels[train_idx] = labels[train_idx]
        class_sizes = task.target.matrix(labels[train_idx]).sum(0)
        self._has_label_pairs = bool(class_sizes.max(initial=0) > 1)
        self.uses_kernel = settings.optimizer in ("auto", "sgd") and not settings.full_softmax(task.graph)
        shared = self.inductive and self.uses_kernel
        self.target_rows = make_target_rows(task.features, self.partition) if shared else TargetRows(task.features)
        self._gradient: Array | None = None  # of an inductive encoder's vectors
        self._feature_scale: Tensor | None = None
        if self.inductive and settings.optimizer == "sgd" and task.features is not None:
            self._feature_scale = mean_squares(task.features)[:, None]
        self.optimizers = self._make_optimizers()

    def _make_optimizers(self) -> dict[str, Optimizer]:
        """Return the optimizers of the head, of the tables that no kernel trains, and of an inductive encoder."""
        rate, encoder = self.settings.table_rate, self.parameters.encoder.parameters()
        table_kind = "sgd" if self.settings.optimizer == "auto" else self.settings.optimizer
        kind, head = self.settings.network_optimizer, self.parameters.head.parameters()
        optimizers = {"head": OPTIMIZERS[kind]([(head, self.settings.weight_decay)], self.settings.head_rate)}
        if self.inductive:
            optimizers["encoder"] = OPTIMIZERS[kind]([(encoder, 0.0)], self.settings.encoder_rate)
        if not self.uses_kernel:
            self._sources = torch.from_numpy(self.parameters.sources).requires_grad_()  # shares memory with the array
            optimizers["sources"] = OPTIMIZERS[table_kind]([([self._sources], 0.0)], rate)
            if not self.inductive:
                optimizers["encoder"] = OPTIMIZERS[table_kind]([(encoder, 0.0)], rate)
        return optimizers

    def without_labels(self, nodes: Tensor) -> InnerTraining:
        """Return the same training on the other labels: a head of its own, and the *same* vectors until `separate`."""
        parameters = copy(self.parameters)
        parameters.head = make_head(parameters.shape)
        task = replace(self.task, train=self.task.train[~torch.isin(self.task.train, nodes)])
        return InnerTraining(task, self.settings, parameters)

    def separate(self, other: InnerTraining) -> None:
        """Continue with a copy of the vectors of another training, and of the state of their optimizers."""
        self.parameters.sources = other.parameters.sources.copy()
        self.parameters.encoder = deepcopy(other.parameters.encoder)
        self.optimizers = self._make_optimizers() | {"head": self.optimizers["head"]}
        for name, optimizer in self.optimizers.items():
            if name != "head":
                optimizer.load(other.optimizers[name].arrays())

    def _learning_rate(self, progress: float) -> float:
        """Return the learning rate when this fraction of all epochs is done."""
        return self.settings.table_rate * max(1 - progress, _LAST_RATE)

    def train_paths(self, batch: WalkBatch) -> int:
        """Take a step of the vectors (Algorithm 1, line 4) on a batch of walks; return the number of its paths."""
        rates = self._learning_rate(batch.progress[0]), self._learning_rate(batch.progress[1])
        if self.uses_kernel:
            return self._kernel_step(batch, rates)
        paths = subpaths(batch.walks, self.settings.window, shortest=MIN_PATH_NODES)
        pairs = self._draw_label_pairs(len(paths), batch)
        starts, endpoints = np.r_[paths.start, pairs[:, 0]], np.r_[paths.endpoint, pairs[:, 1]]
        weights = np.ones(len(starts), np.float32)
        if batch.weights is not None:
            weights[: len(paths)] = batch.weights
        self._exact_step(starts, endpoints, weights, rates[0], batch)
        return len(paths)

    def _draw_label_pairs(self, paths: int, batch: WalkBatch) -> Array:
        """Draw the same-label pairs for this number of paths, `(k, 2)`."""
        count = int(self.settings.label_pairs * paths) if batch.with_labels and self._has_label_pairs else 0
        if not count:
            return np.empty((0, 2), np.int64)
        return label_pairs(self._train_labels, count, self.settings.seed, stream=[batch.epoch, batch.first])

    def _kernel_step(self, batch: WalkBatch, rates: tuple[float, float]) -> int:
        """Train the tables on a batch with the kernel; an inductive encoder takes the gradient of its vectors after."""
        settings, sources, walks, first = self.settings, self.parameters.sources, batch.walks, batch.first
        vectors = self.parameters.encoder(self.target_rows.features)
        targets = np.ascontiguousarray(vectors.detach().numpy())
        path_rates = settings.unsup_weight * rates[0], settings.unsup_weight * rates[1]
        options: dict[str, Any] = {"back": 0, "learning_rates": path_rates}
        options |= {"seed": settings.seed, "n_jobs": settings.n_jobs}
        options |= {"negatives": settings.negatives, "negatives_per_context": _NEGATIVES_PER_CONTEXT}
        options["row_of"] = self.target_rows.row_of
        if self.inductive:
            if self._gradient is None:
                self._gradient = np.zeros_like(targets)
            self._gradient.fill(0)  # allocating memory for every batch costs more than the rest of it
            options |= {"target_gradient": self._gradient, "target_rate": 1.0}
        of_paths: dict[str, Any] = {"weights": batch.weights, "base": batch.base, "shortest": MIN_PATH_NODES}
        of_paths |= {"ahead": settings.window - 1, "stream": batch.epoch}
        paths = train_walks(walks, first, sources, targets, self.partition, **of_paths, **options)
        pairs = self._draw_label_pairs(paths, batch).astype(walks.dtype)
        of_pairs: dict[str, Any] = {"ahead": 1, "stream": -1 - batch.epoch}  # their negatives have negative streams
        n_pairs = train_walks(pairs, first, sources, targets, self.partition, **of_pairs, **options)
        if self._gradient is not None:
            gradient = torch.from_numpy(self._gradient).neg_()
            self._optimize(vectors, gradient, paths + n_pairs, rates[0], batch.with_labels)
        elif batch.with_labels and settings.supervised_strength > 0:
            self.parameters.encoder.table.data[self._labeled] -= rates[0] * self.label_gradient()
        return paths

    def _exact_step(self, starts: Array, endpoints: Array, weights: Array, rate: float, batch: WalkBatch) -> None:
        """Take one step of the optimizers with the exact gradient of a batch of pairs."""
        if not len(starts):
            return
        vectors = self.parameters.encoder(self.task.features)
        objective = self.objective(starts, endpoints, [batch.epoch, batch.first])
        gradients = objective.gradient(torch.from_numpy(weights), self._sources.detach(), vectors.detach())
        self._sources.grad, target_gradient = gradients[0].mul_(self.settings.unsup_weight), gradients[1]
        if not self.inductive:
            target_gradient[self._unreached[~torch.isin(self._unreached, torch.from_numpy(endpoints))]] = 0
        self._optimize(vectors, target_gradient, len(starts), rate, batch.with_labels)

    def _optimize(self, vectors: Tensor, gradient: Tensor, pairs: int, rate: float, with_labels: bool) -> None:
        """Backpropagate ∇L_s + λ ∇L_u of the vectors to the encoder; step its optimizers, rates decayed.

        `gradient` is ∇L_u and is changed in place. Tables take the gradient of a sum over pairs and over labels, an
        inductive encoder that of means; under SGD its step is that for features scaled to a mean square of 1 (D21).
        """
        self.optimizers["encoder"].zero_grad()
        gradient.mul_(self.settings.unsup_weight / (max(pairs, 1) if self.inductive else 1))
        vectors.backward(gradient)  # type: ignore[no-untyped-call]
        if with_labels and self.settings.supervised_strength > 0:
            self.parameters.encoder(self.task.features, self._labeled).backward(self.label_gradient())
        if self._feature_scale is not None:
            self.parameters.encoder.weight.grad.div_(self._feature_scale.clamp(min=_MIN_MEAN_SQUARE))
        for name, optimizer in self.optimizers.items():
            if name != "head":
                optimizer.learning_rate = optimizer.initial_rate * rate / self.settings.table_rate
                optimizer.step()

    def objective(self, starts: Array, endpoints: Array, stream: list[str | int]) -> PairObjective:
        """Return the path loss of pairs of nodes, as a function of source vectors and of the target rows."""
        starts, endpoints = starts.astype(np.int64), endpoints.astype(np.int64)
        if self.settings.full_softmax(self.task.graph):
            return FullSoftmax(starts, endpoints)
        count = self.settings.negatives
        negatives = self.sampler.stream(*stream).draw(0, len(starts) * count).reshape(-1, count)
        return NegativeSampling(starts, self.target_rows.rows(endpoints), self.target_rows.rows(negatives))

    @cached_property
    def _head_features(self) -> NodeFeatures | None:
        return None if self.task.features is None else take_rows(self.task.features, self.task.train)

    def train_head(self, steps: int) -> float:
        """Train the head on the supervised loss of the joint scores and of each branch alone; return the joint loss."""
        head, optimizer, nodes = self.parameters.head, self.optimizers["head"], self.task.train
        target = self.task.target
        vectors, labels = self.parameters.vectors(self.task.features, nodes), self.task.labels[nodes]
        loss = torch.zeros(())
        for _ in range(steps):
            optimizer.zero_grad()
            branches = head.branches(self._head_features, vectors)
            loss = target.loss(torch.stack(branches).sum(0), labels)
            branch_losses = [target.loss(branch, labels) for branch in branches] if len(branches) > 1 else []
            torch.stack([loss, *branch_losses]).sum().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        return float(loss.detach())

    def label_gradient(self) -> Tensor:
        """Return ∇_e L_s of the training nodes times `supervised_strength`, `(k, dim)`.

        L_s is the sum over the nodes for a table (Eq. 6), their mean for an inductive encoder. A table's nodes that no
        path reaches are left out: their vectors are zero, where the head has no gradient.
        """
        nodes, features = self._labeled, self.task.features
        vectors = self.parameters.vectors(features, nodes).requires_grad_()
        x = None if features is None else take_rows(features, nodes)
        loss = self.task.target.loss(self.parameters.head(x, vectors), self.task.labels[nodes])
        scale = self.settings.supervised_strength * (1 if self.inductive else len(nodes))
        gradient: Tensor = torch.autograd.grad(scale * loss, vectors)[0] if len(nodes) else vectors.detach()
        return gradient

    def problem(self, strength: float) -> InnerProblem:
        """Return the inner problem as the outer problem needs it; labels move the vectors by `strength`."""
        modules = (torch.from_numpy(self.parameters.sources), self.parameters.encoder, self.parameters.head)
        features, task = (self.task.features, self.target_rows.features), self.task
        weight = self.settings.unsup_weight
        return InnerProblem(*modules, *features, task.labels, task.target, task.train, weight, strength)
