"""The weights of paths: computed once for each distinct path and round, learned from outer labels (line 5)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cge.models.tree import PathTree
from cge.models.weighting import PathWeighting
from cge.randomness import generator
from cge.sampling import PathTable, Walker, count_subpaths
from cge.training.bilevel import PathSample, paper_hypergradient, unrolled_hypergradient
from cge.training.inner import SHORTEST, Inner
from cge.training.parameters import make_head, make_optimizer, seeded

__all__ = ["Outer"]

Array = npt.NDArray[Any]

_FLOOR, _CAP = 0.2, 5.0  # of a = A / mean A: weights beyond them can blow skip-gram up (D7)
_REMEMBERED = 16_000_000  # sub-paths of all walks whose numbers are kept from round to round


class Outer:
    """The distinct paths of all walks, their weights, and the outer problem that trains the network.

    Every fold of outer labels has a head of its own, which those labels never trained.
    """

    def __init__(self, inner: Inner, network: PathWeighting, walker: Walker, batch: int) -> None:
        self.inner, self.network, self.settings = inner, network, inner.settings
        table = PathTable(self.settings.window, shortest=SHORTEST)
        total = 0
        numbers: list[Array] = []
        for walks in walker.batches(batch):
            found = table.add(walks)
            total += len(found)
            numbers = [*numbers, found.astype(np.int32)] if total <= _REMEMBERED else []
        self._table, self._numbers = table, numbers if total <= _REMEMBERED else None
        paths = table.paths
        self.tree = PathTree.grow(paths.nodes, paths.length, table.parents)
        self.absolute = self.relative = np.ones(len(table), np.float32)  # A and a of each distinct path
        with seeded(self.settings.seed, "fold heads"):
            self.heads = [make_head(inner.parameters.shape) for _ in inner.task.folds]
        self.head_optimizers = [inner.optimizer_of(head) for head in self.heads]
        kind = "adam" if self.settings.optimizer == "auto" else self.settings.optimizer
        self.optimizer = make_optimizer(kind, network.parameters(), self.settings.weighting_lr)
        self._choices = [self._telling_paths(fold) for fold in inner.task.folds]

    def weigh(self) -> None:
        """Compute A of every distinct path at the present vectors, and a, the weight in the path loss."""
        vectors = self.inner.parameters.vectors(self.inner.task.features)
        self.absolute = self.network.weigh(vectors, self.tree, self.settings.threads)
        if self.settings.outer == "paper":
            self.relative = self.absolute
        elif len(self.absolute):
            mean = max(float(self.absolute.mean(dtype=np.float64)), 1e-12)
            self.relative = np.clip(self.absolute / np.float32(mean), _FLOOR, _CAP).astype(np.float32)

    def weights_of(self, place: int, walks: Array) -> tuple[Array, Array]:
        """Return a of each sub-path of batch number `place`, and where those of each walk begin."""
        numbers = self._table.add(walks) if self._numbers is None else self._numbers[place]
        ends = np.cumsum(count_subpaths(walks, SHORTEST, self.settings.window))
        return self.relative[numbers], np.concatenate([[0], ends[:-1]])

    def descend(self, number: int) -> float:
        """Descend the outer loss in the network's parameters, fold after fold; return the mean of that loss."""
        losses = []
        steps = self.settings.outer_steps
        turns = [(number * steps + step) % len(self.heads) for step in range(steps)]
        for fold in sorted(set(turns)):
            self.inner.descend_labels(self.heads[fold], self.head_optimizers[fold], self._inner_labels(fold))
        for step, fold in enumerate(turns):
            problem = self.inner.problem(self.heads[fold], self._inner_labels(fold))
            sample = self._sample(fold, number, step)
            self.optimizer.zero_grad()
            if self.settings.outer == "paper":
                loss, _ = paper_hypergradient(self.network, problem, sample, self.settings.virtual_lr)
            else:
                outer = self.inner.task.folds[fold]
                loss, _ = unrolled_hypergradient(self.network, problem, sample, outer, self.settings.virtual_lr)
            self.optimizer.step()
            losses.append(float(loss))
        return float(np.mean(losses))

    def _inner_labels(self, fold: int) -> Tensor:
        """Return the training labels without those of a fold."""
        train = self.inner.task.train
        return train if self.inner.task.outer_only else train[~torch.isin(train, self.inner.task.folds[fold])]

    def _telling_paths(self, fold: Tensor) -> tuple[Array, Array]:
        """Return the paths to draw from for a fold, and the running sum of how often each occurs.

        A table moves only where a path ends, so only paths that end at outer nodes say something to `unrolled`.
        """
        numbers = np.arange(len(self._table))
        if self.settings.outer == "unrolled" and self.settings.encoder == "table":
            ending = numbers[np.isin(self._table.paths.end, fold.numpy())]
            numbers = ending if len(ending) else numbers
        return numbers, np.cumsum(self._table.counts[numbers])

    def _sample(self, fold: int, number: int, step: int) -> PathSample:
        """Draw paths for a step of the outer problem, as often as they occur in the walks."""
        numbers, sums = self._choices[fold]
        random = generator(self.settings.seed, "outer paths", number, step)
        drawn = random.integers(sums[-1], size=min(self.settings.outer_paths, int(sums[-1])))
        chosen = np.sort(numbers[np.searchsorted(sums, drawn, side="right")])
        paths = self._table.paths
        nodes, length = paths.nodes[chosen].astype(np.int64), paths.length[chosen].astype(np.int64)
        ends = nodes[np.arange(len(nodes)), length - 1]
        objective = self.inner.objective(nodes[:, 0], ends, ["outer", number, step])
        return PathSample(torch.from_numpy(nodes), torch.from_numpy(length), objective)

    def facts(self) -> tuple[float, float, float]:
        """Return mean and standard deviation of A, and (Σa)²/Σa² as a share of the distinct paths."""
        a = self.relative.astype(np.float64)
        effective = float(a.sum() ** 2 / max((a**2).sum(), 1e-300) / max(len(a), 1))
        return float(self.absolute.mean(dtype=np.float64)), float(self.absolute.std(dtype=np.float64)), effective
