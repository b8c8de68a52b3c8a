"""The inner problem (Algorithm 1, line 4): vectors and head descend L_s + λ L_u on weighted paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor

from cge.losses import supervised_loss
from cge.models.sparse_products import NodeFeatures, SparseFeatures, take_rows
from cge.sampling import NegativeSampler, label_pairs, subpaths
from cge.training.bilevel import InnerProblem
from cge.training.pair_objectives import FullSoftmax, NegativeSampling, PairObjective
from cge.training.paper_parameters import Parameters
from cge.training.paper_settings import TrainingSettings
from cge.training.skipgram import train_walks
from cge.training.task import Task
from cge.training.torch_state import make_optimizer
from cge.training.walk_partitions import Parts, make_parts, parts_for

__all__ = ["MIN_PATH_NODES", "Ends", "Inner", "ends_of"]

Array = npt.NDArray[Any]

MIN_PATH_NODES = 2  # nodes of a path: a path of one node would train a node to predict itself
_SHARE = 2.5  # negatives drawn for each context of a center; a path's center has few contexts
_NEVER_QUITE = 1e-3  # of the first learning rate: where it ends


@dataclass(frozen=True, eq=False)
class Ends:
    """What paths can end at: features by row, and the row of each node, `(n,)`; None where every node has its own."""

    features: NodeFeatures | None
    row_of: Array | None = None

    def rows(self, nodes: Array) -> Array:
        """Return the rows of nodes; −1 stays."""
        return nodes if self.row_of is None else np.where(nodes < 0, nodes, self.row_of[nodes])


def ends_of(features: NodeFeatures | None, parts: Parts) -> Ends:
    """Return the ends of paths where a vector is made of features: nodes of a part that have none share a row."""
    if not isinstance(features, SparseFeatures):
        return Ends(features)
    counts = np.diff(features.rows.indptr)
    full = np.flatnonzero(counts)
    row_of = len(full) + parts.part.astype(np.int64)
    row_of[full] = np.arange(len(full))
    pointer = np.concatenate([[0], np.cumsum(counts[full]), np.full(parts.count, features.rows.nnz)])
    shape = len(full) + parts.count, features.shape[1]
    rows = sp.csr_array((features.rows.data, features.rows.indices, pointer), shape=shape)
    return Ends(SparseFeatures(rows, features.n_jobs), row_of)


class Inner:
    """Trains `parameters` on paths and labels of a task.

    Path batches with negative sampling and plain SGD go through a kernel that trains as it goes. Otherwise (full
    softmax, Adam, Adagrad) the gradient of a batch is formed exactly and an optimizer takes one step.
    """

    def __init__(self, task: Task, settings: TrainingSettings, parameters: Parameters) -> None:
        self.task, self.settings, self.parameters = task, settings, parameters
        self.sampler = NegativeSampler(task.graph, seed=settings.seed)
        self.parts = make_parts(self.sampler.probability, parts_for(settings.window - 1), settings.seed)
        # What no path ends at has no vector in a table: zeros say nothing to the head.
        degrees_in = np.bincount(task.graph.indices, minlength=task.graph.num_nodes)
        self._unreached = torch.from_numpy(np.flatnonzero(degrees_in == 0))
        if settings.setting == "transductive":
            with torch.no_grad():
                parameters.encoder.table[self._unreached] = 0
        self._known = np.full(task.labels.shape, 0 if task.labels.ndim == 2 else -1)  # training labels, no others
        self._known[task.train.numpy()] = task.labels.numpy()[task.train.numpy()]
        several = self._known.ndim == 2
        members = self._known.sum(0) if several else np.bincount(self._known[self._known >= 0], minlength=1)
        self._has_partners = bool(members.max(initial=0) > 1)
        kind = settings.optimizer
        self.fused = kind in ("auto", "sgd") and not settings.full_softmax(task.graph)
        shared = settings.setting == "inductive" and self.fused
        self.ends = ends_of(task.features, self.parts) if shared else Ends(task.features)
        self.head_optimizer = self.optimizer_of(parameters.head)
        # Tables take the gradient of a sum over pairs, the layer of a feature encoder that of a mean.
        self.optimizers: dict[str, torch.optim.Optimizer] = {}
        self._descent: Array | None = None  # of a feature encoder's vectors
        table_kind, network_kind = ("sgd", "adam") if kind == "auto" else (kind, kind)
        if settings.setting == "inductive":
            layer = parameters.encoder.parameters()
            self.optimizers["encoder"] = make_optimizer(network_kind, layer, settings.head_lr)
        if not self.fused:
            self._sources = torch.from_numpy(parameters.sources).requires_grad_()  # shares memory with the array
            self.optimizers["sources"] = make_optimizer(table_kind, [self._sources], settings.table_rate)
            if settings.setting == "transductive":
                table = parameters.encoder.parameters()
                self.optimizers["encoder"] = make_optimizer(table_kind, table, settings.table_rate)

    def optimizer_of(self, head: Any) -> torch.optim.Optimizer:
        """Return an optimizer for a head."""
        kind = "adam" if self.settings.optimizer == "auto" else self.settings.optimizer
        return make_optimizer(kind, head.parameters(), self.settings.head_lr, self.settings.weight_decay)

    # ------------------------------------------------------------------ paths

    def rate(self, done: float) -> float:
        """Return λ times the learning rate when this share of all rounds is done."""
        return self.settings.unsup_weight * self.settings.table_rate * max(1 - done, _NEVER_QUITE)

    def descend_paths(
        self,
        walks: Array,
        first: int,
        done: tuple[float, float],
        number: int,
        weights: Array | None = None,
        base: Array | None = None,
        *,
        mixed: bool = False,
    ) -> int:
        """Descend the path loss of a batch of walks; return the number of its paths.

        `first` is the place of the first walk in the round, `done` the share of all rounds before and after the batch;
        `weights` holds a number for each sub-path, in the order of `subpaths`, and `base` where those of a walk begin.
        With `mixed`, pairs of training nodes with one label come on top, `label_pairs` for each path; they are never
        weighted.
        """
        rates = self.rate(done[0]), self.rate(done[1])
        if self.fused:
            return self._kernel_step(walks, first, rates, number, weights, base, mixed)
        paths = subpaths(walks, self.settings.window, shortest=MIN_PATH_NODES)
        extra = self._same_label(len(paths), number, first, mixed)
        starts, ends = np.r_[paths.start, extra[:, 0]], np.r_[paths.end, extra[:, 1]]
        worth = np.ones(len(starts), np.float32)
        if weights is not None:
            worth[: len(paths)] = weights
        self._exact_step(starts, ends, worth, rates[0], [number, first])
        return len(paths)

    def _same_label(self, paths: int, number: int, first: int, mixed: bool) -> Array:
        """Draw the same-label pairs that go with so many paths, `(k, 2)`."""
        count = int(self.settings.label_pairs * paths) if mixed and self._has_partners else 0
        if not count:
            return np.empty((0, 2), np.int64)
        return label_pairs(self._known, count, self.settings.seed, stream=[number, first])

    def _kernel_step(
        self,
        walks: Array,
        first: int,
        rates: tuple[float, float],
        number: int,
        weights: Array | None,
        base: Array | None,
        mixed: bool,
    ) -> int:
        """Let the kernel train on a batch as it goes; a feature encoder takes its vectors' gradient afterwards."""
        settings, sources = self.settings, self.parameters.sources
        vectors = self.parameters.encoder(self.ends.features)
        targets = np.ascontiguousarray(vectors.detach().numpy())
        common: dict[str, Any] = {
            "back": 0,
            "rates": rates,
            "negatives": settings.negatives,
            "share": _SHARE,
            "row_of": self.ends.row_of,
        }
        common |= {"seed": settings.seed, "n_jobs": settings.n_jobs}
        descent = None
        if settings.setting == "inductive":
            descent = self._descent = np.zeros_like(targets) if self._descent is None else self._descent
            descent.fill(0)  # fresh memory for every batch costs more than the rest of it
            common |= {"written": descent, "target_rate": 1.0}
        ahead = settings.window - 1
        of_paths: dict[str, Any] = {"weights": weights, "base": base, "shortest": MIN_PATH_NODES}
        paths = train_walks(
            walks, first, sources, targets, self.parts, ahead=ahead, stream=number, **of_paths, **common
        )
        extra = self._same_label(paths, number, first, mixed).astype(walks.dtype)
        # Streams of negatives below zero are those of same-label pairs.
        pairs = train_walks(extra, first, sources, targets, self.parts, ahead=1, stream=-1 - number, **common)
        if descent is not None:
            np.negative(descent, out=descent)
            self._optimize(vectors, torch.from_numpy(descent), paths + pairs, rates[0])
        return paths

    def _exact_step(self, starts: Array, ends: Array, worth: Array, rate: float, stream: list[str | int]) -> None:
        """Take one step of the optimizers down the exact gradient of a batch of pairs."""
        if not len(starts):
            return
        vectors = self.parameters.encoder(self.task.features)
        objective = self.objective(starts, ends, stream)
        gradients = objective.gradient(torch.from_numpy(worth), self._sources.detach(), vectors.detach())
        self._sources.grad, to_targets = gradients
        if self.settings.setting == "transductive":
            to_targets[self._unreached[~torch.isin(self._unreached, torch.from_numpy(ends))]] = 0
        self._optimize(vectors, to_targets, len(starts), rate)

    def _optimize(self, vectors: Tensor, gradient: Tensor, pairs: int, rate: float) -> None:
        """Take the gradient of the vectors back to the encoder, and let the optimizers step; rates fall alike.

        The gradient is changed in place.
        """
        mean = self.settings.setting == "inductive"
        self.optimizers["encoder"].zero_grad()
        vectors.backward(gradient.div_(max(pairs, 1)) if mean else gradient)  # type: ignore[no-untyped-call]
        for optimizer in self.optimizers.values():
            for group in optimizer.param_groups:
                group["lr"] = optimizer.defaults["lr"] * rate / self.settings.table_rate
            optimizer.step()

    def objective(self, starts: Array, ends: Array, stream: list[str | int]) -> PairObjective:
        """Return the path loss of pairs, in the form that this training uses; targets are counted as in `ends`."""
        starts, ends = starts.astype(np.int64), ends.astype(np.int64)
        if self.settings.full_softmax(self.task.graph):
            return FullSoftmax(starts, ends)
        each = self.settings.negatives
        negatives = self.sampler.stream(*stream).draw(0, len(starts) * each).reshape(-1, each)
        return NegativeSampling(starts, self.ends.rows(ends), self.ends.rows(negatives))

    # ------------------------------------------------------------------ labels

    def descend_labels(self, head: Any, optimizer: torch.optim.Optimizer, nodes: Tensor) -> float:
        """Descend the supervised loss of the joint scores and of each branch alone in a head; return the joint loss."""
        vectors, features = self.parameters.vectors(self.task.features, nodes), self.task.features
        x = None if features is None else take_rows(features, nodes)
        labels, loss = self.task.labels[nodes], torch.zeros(())
        for _ in range(self.settings.head_steps):
            optimizer.zero_grad()
            branches = head.branches(x, vectors)
            loss = supervised_loss(torch.stack(branches).sum(0), labels)
            alone = [supervised_loss(branch, labels) for branch in branches] if len(branches) > 1 else []
            torch.stack([loss, *alone]).sum().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        return float(loss.detach())

    def pull(self, nodes: Tensor) -> None:
        """Let the supervised loss move the vectors themselves, by a step of `supervised_strength`."""
        encoder = self.parameters.encoder
        problem = self.problem(self.parameters.head, nodes, self.settings.supervised_strength)
        named = dict(encoder.named_parameters())
        loss = problem.supervised(nodes, named, dict(self.parameters.head.named_parameters()))
        slopes = torch.autograd.grad(loss, list(named.values()))
        with torch.no_grad():
            for parameter, slope in zip(named.values(), slopes, strict=True):
                parameter -= self.settings.supervised_strength * slope

    def problem(self, head: Any, inner: Tensor, strength: float) -> InnerProblem:
        """Return the inner problem as the outer one sees it: with this head, trained on the labels of `inner`.

        `strength` is that by which labels move the vectors.
        """
        return InnerProblem(
            torch.from_numpy(self.parameters.sources),
            self.parameters.encoder,
            head,
            self.task.features,
            self.task.labels,
            inner,
            self.settings.unsup_weight,
            strength,
            self.ends.features,
        )
