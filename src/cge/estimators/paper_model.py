"""A trained model of the paper's algorithm: predictions, path weights, explanations, and its stored form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from cge.arrays import Array
from cge.data.graph_update import check_same_features
from cge.errors import InputError
from cge.estimators.fitted_model import FittedModel, LabeledNodes, normalized_by_start, restore_log, stored_labels
from cge.explain.explainer import Explainer
from cge.explain.path_search import PathSet
from cge.explain.path_sources import EdgeTypes, SampledPaths
from cge.explain.path_sums import ScoreFunction
from cge.graph import Graph
from cge.models.autograd import NodeFeatures, take_rows
from cge.models.paper_networks import TransductiveHead
from cge.models.path_networks import PathTree, PathWeighting
from cge.models.path_prefixes import sample_prefixes
from cge.models.propagation import TransitionMatrix
from cge.models.sparse_products import SparseFeatures, row_lengths, unit_rows
from cge.sampling import Walker
from cge.targets import restore_target
from cge.training.history import PaperEpoch
from cge.training.paper_inner import MIN_PATH_NODES
from cge.training.paper_parameters import ModelShape, Parameters

if TYPE_CHECKING:
    from cge.estimators.paper_cge import PaperCGE

_BATCH = 65_536  # nodes predicted at once
_WALKS = 100  # per node: predictions are attributed to their prefixes
_PREFIX = "parameters."


@dataclass(eq=False, kw_only=True)
class PaperModel(FittedModel):
    """A trained model of the paper's algorithm."""

    graph: Graph
    features: NodeFeatures | None
    parameters: Parameters
    window: int
    n_jobs: int | None
    temperature: float = 1.0

    exact = False
    weighting_selected = False
    gain_over_uniform = None

    def __post_init__(self) -> None:
        kind = self.parameters.shape.weighting
        self.weighting_name = kind if isinstance(kind, str) else "custom"
        self.inductive = self.parameters.shape.setting == "inductive"
        self._own_vectors: Array = self.parameters.vectors(self.features).numpy().copy()

    def vectors(self, graph: Graph | None = None) -> Array:
        """Return the vectors of all nodes of a graph, by default the one of training, `(n, dim)`."""
        if graph is None:
            return self._own_vectors
        vectors: Array = self.parameters.vectors(self._features_of(graph)).numpy()
        return vectors

    def _features_of(self, graph: Graph) -> NodeFeatures | None:
        if not self.inductive:
            raise InputError(
                "setting='transductive' has vectors only for the nodes of the training graph; use CGE or "
                "setting='inductive' for new ones"
            )
        check_same_features(self.graph, graph)
        return normalized_features(graph.features)

    def probabilities(self, graph: Graph | None, rows: Array) -> Array:
        """Return the calibrated probability of each class for some nodes of a graph, `(k, c)`."""
        features = self.features if graph is None else self._features_of(graph)
        result = np.empty((len(rows), self.parameters.shape.classes), np.float32)
        for start in range(0, len(rows), _BATCH):
            batch = torch.from_numpy(rows[start : start + _BATCH])
            scores = self.parameters.scores(features, batch)
            outputs = self.target.outputs(scores).numpy()
            result[start : start + _BATCH] = self.target.scale(outputs, self.temperature)
        return result

    def path_weights(self, paths: Sequence[Array], vectors: Array | None = None) -> Array:
        """Return the weights of paths of node indices, `(k,)`; `vectors (n, dim)` are by default the model's own."""
        network, vectors = self.parameters.network, self._own_vectors if vectors is None else vectors
        if network is None or not paths:
            return np.ones(len(paths), np.float32)
        length = np.array([len(path) for path in paths])
        nodes = np.full((len(paths), length.max()), -1, np.int64)
        nodes[np.arange(nodes.shape[1]) < length[:, None]] = np.concatenate(paths)
        with torch.no_grad():
            weights = network(torch.from_numpy(vectors), torch.from_numpy(nodes), torch.from_numpy(length))
        result: Array = weights.numpy()
        return result

    def explainer(
        self,
        classifier: int,  # noqa: ARG002 - there is one
        seed: int,
        graph: Graph | None = None,
        rows: Array | None = None,  # noqa: ARG002 - all nodes
    ) -> Explainer:
        """Return what attributes predictions to paths."""
        return _explainer(self, seed, graph)

    def metadata(self) -> dict[str, Any]:
        """Return the metadata of a model folder."""
        shape = asdict(self.parameters.shape)
        del shape["weighting"]  # is in the settings
        return self.log.metadata() | {
            "shape": shape,
            "target": self.target.metadata(),
            "temperature": self.temperature,
        }

    def arrays(self) -> dict[str, Array]:
        """Return the arrays of a model folder, by name."""
        arrays = {f"{_PREFIX}{name}": array for name, array in self.parameters.arrays().items()}
        return arrays | self.train.arrays("train") | self.validation.arrays("validation")


def normalized_features(features: Any, n_jobs: int | None = None) -> NodeFeatures | None:
    """Return features with rows of unit length (rows of zeros stay)."""
    if features is None:
        return None
    if sp.issparse(features):
        # the product orders the entries of a row otherwise than `unit_rows`, and with them the rounding of results
        factors = (1 / np.maximum(row_lengths(features), 1e-12)).astype(features.dtype)
        return SparseFeatures(sp.csr_array(sp.diags_array(factors) @ features).astype(np.float32), n_jobs)
    return torch.from_numpy(unit_rows(features))


def restore_paper(
    estimator: PaperCGE, graph: Graph, classes: Array, metadata: dict[str, Any], arrays: Mapping[str, Array]
) -> PaperModel:
    """Return the model that a folder holds."""
    shape = ModelShape(weighting=estimator.weighting, **metadata["shape"])
    width = 0 if graph.features is None else int(graph.features.shape[1])
    sizes = (graph.num_nodes, width, len(classes), estimator.setting, estimator.dim, estimator.hidden)
    if (shape.nodes, shape.features, shape.classes, shape.setting, shape.dim, shape.hidden) != sizes:
        raise InputError("the sizes of graph, classes and parameters do not agree")
    parameters = Parameters(shape)
    parameters.load({name.removeprefix(_PREFIX): array for name, array in arrays.items() if name.startswith(_PREFIX)})
    temperature = float(metadata["temperature"])
    if not 0 < temperature < np.inf:
        raise InputError("the temperature must be positive and finite")
    train, validation = stored_labels(arrays, len(graph), len(classes))
    return PaperModel(
        graph=graph,
        features=normalized_features(graph.features, estimator.n_jobs),
        parameters=parameters,
        train=train,
        validation=validation,
        target=restore_target(metadata["target"], classes),
        log=restore_log(metadata, PaperEpoch),
        window=estimator.window,
        n_jobs=estimator.n_jobs,
        temperature=temperature,
    )


def _explainer(model: PaperModel, seed: int, other: Graph | None) -> Explainer:
    """Return what attributes the scores of the classification head to paths.

    The head takes vectors of unit length. The contribution of a path is the vector of its end times the path's share of
    the weights; what else is in a node's vector is the remainder.
    """
    graph, parameters, own = model.graph if other is None else other, model.parameters, model.vectors(other)
    features = model.features if other is None else model._features_of(other)
    vectors = unit_rows(own.astype(np.float64))
    steps = TransitionMatrix(graph, model.n_jobs)
    walker = Walker(graph, model.window, _WALKS, seed=seed, n_jobs=model.n_jobs, stream=("explain",))
    scores = HeadScores(parameters.head, features)
    prefixes = partial(_walk_prefixes, walker, steps, parameters.network, own)
    sizes = model.window - 1, steps.indices, steps.num_nodes
    return Explainer(
        SampledPaths(
            prefixes, *sizes, partial(model.path_weights, vectors=own), EdgeTypes.of(graph, steps), exact=False
        ),
        ScoreFunction(vectors, scores, np.zeros(vectors.shape[1]), vectors=vectors),
        model.probabilities(other, np.arange(len(graph))),
        graph.node_ids,
        LabeledNodes(*model._labels_in(other)).table(model.target),
    )


@dataclass(frozen=True, eq=False)
class HeadScores:
    """The scores of a head for vectors of unit length, or for parts of them, with gradients by autograd."""

    head: Any
    features: NodeFeatures | None

    def scores(self, nodes: Array, vectors: Array) -> Array:
        """Return the class scores, `(q, c)`."""
        with torch.no_grad():
            scores: Array = self._scores(nodes, torch.from_numpy(vectors.astype(np.float32))).double().numpy()
        return scores

    def gradients(self, nodes: Array, vectors: Array, classes: int | Array) -> Array:
        """Return the gradient of the score of a class by the vectors, `(q, d)`."""
        at = torch.from_numpy(vectors.astype(np.float32)).requires_grad_()
        (gradient,) = torch.autograd.grad(self._scores(nodes, at)[np.arange(len(nodes)), classes].sum(), at)
        return np.asarray(gradient.double().numpy())

    def _scores(self, nodes: Array, vectors: Tensor) -> Tensor:
        scores: Tensor = self.head.from_e(vectors)
        if isinstance(self.head, TransductiveHead):
            scores = self.head.score_e(torch.relu(scores))
        if self.features is None:
            return scores
        with torch.no_grad():
            *_, of_x = self.head.branches(take_rows(self.features, torch.from_numpy(nodes)), torch.zeros_like(vectors))
        total: Tensor = scores + of_x
        return total


def _walk_prefixes(
    walker: Walker, steps: TransitionMatrix, network: PathWeighting | None, vectors: Array, nodes: Array
) -> PathSet:
    """Return the prefixes of walks from some nodes, weighted; of at least two nodes, as in training."""
    first, count, size = int(nodes[0]), int(nodes[-1] - nodes[0]) + 1, steps.num_nodes
    starts = [turn * size + first for turn in range(walker.walks_per_node)]
    walks = np.concatenate([walker.sample(start, count)[nodes - first] for start in starts])
    paths = sample_prefixes(walks, steps)
    values, long = paths.count.astype(np.float64), np.flatnonzero(paths.length >= MIN_PATH_NODES)
    prefixes = PathSet(paths.start, paths.tokens[:, 1:], paths.length, values)
    if network is not None:
        tree = PathTree.grow(prefixes.nodes(steps.indices), paths.length, paths.parents)
        values = values * network.weigh(torch.from_numpy(vectors), tree, steps.n_jobs)
    prefixes = prefixes.take(long)
    share = normalized_by_start(prefixes.start, values[long], size)
    return PathSet(prefixes.start, prefixes.edges, prefixes.length, share)
