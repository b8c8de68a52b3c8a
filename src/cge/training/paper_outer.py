"""The weights of paths: computed once for each distinct path and round, learned from outer labels (line 5)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cge.errors import InputError, Message
from cge.models.path_networks import PathWeighting
from cge.models.path_tree import PathTree
from cge.randomness import generator
from cge.sampling import PathTable, Walker, count_subpaths
from cge.training.bilevel import PathSample, paper_hypergradient, unrolled_hypergradient
from cge.training.paper_inner import MIN_PATH_NODES, Inner
from cge.training.paper_parameters import make_head
from cge.training.torch_state import make_optimizer, seeded

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
        table = PathTable(self.settings.window, shortest=MIN_PATH_NODES)
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
        self._counts = table.counts
        self._strata = [self._ending_at(fold) for fold in inner.task.folds]
        self.weigh()

    def weigh(self) -> None:
        """Compute A of every distinct path at the present vectors, and a, the weight in the path loss."""
        vectors = self.inner.parameters.vectors(self.inner.task.features)
        self.absolute = self.network.weigh(vectors, self.tree, self.settings.n_jobs)
        if not np.isfinite(self.absolute).all():
            hint = Message(Message.of("try a tenth of {weighting_lr}"), f" (now {self.settings.weighting_lr:g})")
            problem = f"{type(self.network).__name__} returned weights that are not finite"
            raise InputError(problem, parameter="weighting_lr", hint=hint)
        if self.settings.outer == "paper":
            self.relative = self.absolute
        elif len(self.absolute):
            mean = max(float(np.average(self.absolute, weights=self._counts)), 1e-12)
            self.relative = np.clip(self.absolute / np.float32(mean), _FLOOR, _CAP).astype(np.float32)

    def weights_of(self, place: int, walks: Array) -> tuple[Array, Array]:
        """Return a of each sub-path of batch number `place`, and where those of each walk begin."""
        numbers = self._table.add(walks) if self._numbers is None else self._numbers[place]
        ends = np.cumsum(count_subpaths(walks, MIN_PATH_NODES, self.settings.window))
        return self.relative[numbers], np.concatenate([[0], ends[:-1]])

    def descend(self, number: int, free: bool) -> float:
        """Descend the outer loss in the network's parameters, fold after fold; return the mean of that loss.

        `free` says that labels do not touch the vectors in this round.
        """
        losses, steps = [], self.settings.outer_steps
        strength = 0.0 if free else self.settings.supervised_strength
        turns = [(number * steps + step) % max(len(self.heads), 1) for step in range(steps)]
        for fold in sorted(set(turns)) if self.heads else []:
            self.inner.descend_labels(self.heads[fold], self.head_optimizers[fold], self._inner_labels(fold))
        self.network.train()
        with seeded(self.settings.seed, "outer", number):  # for networks with dropout
            for step, fold in enumerate(turns):
                self.optimizer.zero_grad()
                if self.settings.outer == "paper":
                    problem = self.inner.problem(self.inner.parameters.head, self.inner.task.train, strength)
                    sample = self._sample(None, number, step)
                    loss, _ = paper_hypergradient(self.network, problem, sample, self.settings.virtual_lr)
                else:
                    problem = self.inner.problem(self.heads[fold], self._inner_labels(fold), strength)
                    sample, outer = self._sample(fold, number, step), self.inner.task.folds[fold]
                    loss, _ = unrolled_hypergradient(self.network, problem, sample, outer, self.settings.virtual_lr)
                self.optimizer.step()
                losses.append(float(loss))
        self.network.eval()
        return float(np.mean(losses))

    def _inner_labels(self, fold: int) -> Tensor:
        """Return the training labels without those of a fold."""
        train = self.inner.task.train
        return train if self.inner.task.outer_only else train[~torch.isin(train, self.inner.task.folds[fold])]

    def _ending_at(self, fold: Tensor) -> tuple[Array, Array]:
        """Return the paths that end at nodes of a fold, and the others."""
        ends = np.isin(self._table.paths.end, fold.numpy())
        return np.flatnonzero(ends), np.flatnonzero(~ends)

    def _sample(self, fold: int | None, number: int, step: int) -> PathSample:
        """Draw paths for a step of the outer problem, as often as they occur in the walks.

        Paths that end at a node of the fold say most about it, and there are few of them. So half of the sample is
        drawn among those, half among the others, and each path stands for its share of all.
        """
        strata = [np.arange(len(self._table))] if fold is None else [one for one in self._strata[fold] if len(one)]
        random = generator(self.settings.seed, "outer paths", number, step)
        size, total = -(-self.settings.outer_paths // len(strata)), int(self._counts.sum())
        chosen, shares = [], []
        for stratum in strata:
            sums = np.cumsum(self._counts[stratum])
            drawn = np.sort(stratum[np.searchsorted(sums, random.integers(sums[-1], size=size), side="right")])
            chosen.append(drawn)
            shares.append(np.full(size, sums[-1] / total / size))
        paths, numbers = self._table.paths, np.concatenate(chosen)
        nodes, length = paths.nodes[numbers].astype(np.int64), paths.length[numbers].astype(np.int64)
        ends = nodes[np.arange(len(nodes)), length - 1]
        objective = self.inner.objective(nodes[:, 0], ends, ["outer", number, step])
        share = torch.from_numpy(np.concatenate(shares))
        rows = torch.from_numpy(self.inner.ends.rows(nodes))
        return PathSample(rows, torch.from_numpy(length), objective, share)

    def facts(self) -> tuple[float, float, float]:
        """Return mean and standard deviation of A over the distinct paths, and (Σa)²/Σa² as a share of them."""
        a = self.relative.astype(np.float64)
        effective = float(a.sum() ** 2 / max((a**2).sum(), 1e-300) / max(len(a), 1))
        return float(self.absolute.mean(dtype=np.float64)), float(self.absolute.std(dtype=np.float64)), effective
