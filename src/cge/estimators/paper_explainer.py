"""What attributes the predictions of a trained `PaperCGE` to paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from cge.arrays import Array
from cge.errors import InputError
from cge.estimators.encoder_explainer import normalized_by_start
from cge.estimators.fitted_model import label_table
from cge.explain.explainer import Explainer, ScoreFunction
from cge.explain.path_search import PathSet
from cge.explain.path_sources import EdgeTypes, SampledPaths
from cge.models import PathWeighting, TransductiveHead
from cge.models.path_networks import PathTree
from cge.models.path_prefixes import sample_prefixes
from cge.models.propagation import TransitionMatrix
from cge.models.sparse_products import NodeFeatures, take_rows, unit_rows
from cge.sampling import Walker
from cge.training.paper_inner import MIN_PATH_NODES

if TYPE_CHECKING:
    from cge.estimators.paper_model import PaperModel

_WALKS = 100  # per node: predictions are attributed to their prefixes


def paper_explainer(model: PaperModel, place: int, seed: int) -> Explainer:
    """Return what attributes the scores of the classification head to paths.

    The head takes vectors of unit length. The contribution of a path is the vector of its end times the path's share of
    the weights; what else is in a node's vector is the remainder.
    """
    if place:
        raise InputError(parameter="classifier", expected="0 (this model has one classifier)", found=place)
    graph, parameters, own = model.graph, model.parameters, model.vectors()
    vectors = own.astype(np.float64)
    vectors = unit_rows(vectors)
    score = _HeadScores(parameters.head, model.features)
    steps = TransitionMatrix(graph, model.n_jobs)
    walker = Walker(graph, model.window, _WALKS, seed=seed, n_jobs=model.n_jobs, stream=("explain",))
    sizes = model.window - 1, steps.indices, steps.num_nodes
    paths = _WalkPrefixes(walker, steps, parameters.network, own)
    return Explainer(
        SampledPaths(paths, *sizes, model.path_weights, EdgeTypes.of(graph, steps), exact=False),
        ScoreFunction(vectors, score, np.zeros(vectors.shape[1]), vectors=vectors),
        model.probabilities(None, np.arange(len(graph))),
        graph.node_ids,
        label_table(model.train, model.target),
    )


@dataclass(frozen=True, eq=False)
class _HeadScores:
    """The scores of a head for vectors of unit length, or for parts of them."""

    head: Any
    features: NodeFeatures | None

    def __call__(self, nodes: Tensor, vectors: Tensor) -> Tensor:
        scores: Tensor = self.head.from_e(vectors)
        if isinstance(self.head, TransductiveHead):
            scores = self.head.score_e(torch.relu(scores))
        if self.features is None:
            return scores
        with torch.no_grad():
            *_, of_x = self.head.branches(take_rows(self.features, nodes), torch.zeros_like(vectors))
        total: Tensor = scores + of_x
        return total


@dataclass(frozen=True, eq=False)
class _WalkPrefixes:
    """The prefixes of walks from some nodes, weighted; of at least two nodes, as in training."""

    walker: Walker
    steps: TransitionMatrix
    network: PathWeighting | None
    vectors: Array

    def __call__(self, nodes: Array) -> PathSet:
        first, count, size = int(nodes[0]), int(nodes[-1] - nodes[0]) + 1, self.steps.num_nodes
        starts = [turn * size + first for turn in range(self.walker.walks_per_node)]
        walks = np.concatenate([self.walker.sample(start, count)[nodes - first] for start in starts])
        paths = sample_prefixes(walks, self.steps)
        values, long = paths.count.astype(np.float64), np.flatnonzero(paths.length >= MIN_PATH_NODES)
        prefixes = PathSet(paths.start, paths.tokens[:, 1:], paths.length, values)
        if self.network is not None:
            tree = PathTree.grow(prefixes.nodes(self.steps.indices), paths.length, paths.parents)
            values = values * self.network.weigh(torch.from_numpy(self.vectors), tree, self.steps.n_jobs)
        prefixes = prefixes.take(long)
        share = normalized_by_start(prefixes.start, values[long], size)
        return PathSet(prefixes.start, prefixes.edges, prefixes.length, share)
