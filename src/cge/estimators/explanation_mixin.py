"""Explanations of a trained estimator: the paths behind its predictions, and how its weighting compares."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cge.arrays import Array
from cge.checks import checked_integer
from cge.data.graph_update import GraphUpdate
from cge.errors import CgeWarning, InputError
from cge.estimators.classifier import BaselineClassifier, TaskLabels, check_fitted
from cge.estimators.estimator import Estimator
from cge.estimators.fitted_model import FittedModel
from cge.estimators.predictions import extended_graph, predict_new
from cge.explain.explainer import Explainer
from cge.explain.explanation import Explanation
from cge.explain.faithfulness import FRACTIONS, MAX_PATHS, Faithfulness
from cge.explain.metapath_weights import MetapathWeight, metapath_weights
from cge.explain.weighting_comparison import Gain, WeightingComparison, weighting_comparison
from cge.graph import Graph

if TYPE_CHECKING:
    from cge.estimators.path_estimator import PathEstimator


class ExplanationMixin(Estimator):
    """The methods of `CGE` and `PaperCGE` that explain."""

    graph_: Graph
    classes_: Array
    fitted_: FittedModel
    weighting_: str
    random_state: int
    _explainers: dict[int, Explainer]

    @property
    def fitted_model(self) -> FittedModel | None:
        """The trained model; None before `fit`."""
        return vars(self).get("fitted_")

    def _need_fit(self) -> FittedModel:
        check_fitted(self)
        return self.fitted_

    def explain(
        self,
        node: Hashable,
        top: int | None = None,
        *,
        hop: int | None = None,
        classifier: int | str = 0,
        target_class: Any = None,
        graph: Graph | GraphUpdate | None = None,
    ) -> Explanation:
        """Return the paths that contribute most to the prediction for a node, and sums over all paths.

        Paths end at node inputs (`ends_at` "features" or "inputs") or, where labels are propagated, at labeled nodes
        ("label"). With `CGE` a constant and the contributions of all paths add up exactly to the class scores of one
        classifier; where several are averaged, `classifier` selects which. `PaperCGE` attributes its scores to paths,
        and a remainder is left.

        Parameters
        ----------
        node : node id
            The node whose prediction is explained.
        top : int, optional
            How many paths, endpoints and features to list, the largest contributions first; by default as many as
            cover 80 % of the absolute contributions, at most 10.
        hop : int, optional
            List only paths of that many hops; sums are over all.
        classifier : int or str
            Where the probabilities of several classifiers are averaged, the index or the name of the one to explain; by
            default the first, the most accurate in the model search.
        target_class : class, optional
            The class whose score is explained; by default the predicted one.
        graph : Graph or GraphUpdate, optional
            A graph with the node, as for `predict_proba`; or new nodes, edges and features, which are merged with the
            training graph, as in `cge predict` (docs/predictions.md).
        """
        explainer, (node_index,) = self._explainer_of([node], classifier, graph)
        class_index = None if target_class is None else self._need_fit().target.class_index(target_class)
        return explainer.explain_node(node_index, *_checked_list(explainer, top, hop), class_index)

    def explain_class(
        self, target_class: Any, top: int | None = None, *, hop: int | None = None, classifier: int | str = 0
    ) -> Explanation:
        """Return the paths that contribute most to the score of a class, among nodes predicted to be in it.

        Sums over all paths are means over these nodes. Further arguments are those of `explain`.
        """
        class_index, explainer = self._need_fit().target.class_index(target_class), self.explainer(classifier)
        return explainer.explain_class(class_index, *_checked_list(explainer, top, hop))

    def explain_pair(
        self,
        node: Hashable,
        endpoint: Hashable,
        top: int | None = None,
        *,
        hop: int | None = None,
        classifier: int | str = 0,
        target_class: Any = None,
        graph: Graph | GraphUpdate | None = None,
    ) -> Explanation:
        """Return the paths from one node to another, and their contributions to the first one's prediction.

        Sums are over all paths from `node` to `endpoint`; the contributions of all other paths are the remainder.
        Further arguments are those of `explain`.
        """
        explainer, (first, last) = self._explainer_of([node, endpoint], classifier, graph)
        class_index = None if target_class is None else self._need_fit().target.class_index(target_class)
        return explainer.explain_node(first, *_checked_list(explainer, top, hop), class_index, endpoint=last)

    def _explainer_of(
        self, node_ids: list[Hashable], classifier: int | str, graph: Graph | GraphUpdate | None
    ) -> tuple[Explainer, list[int]]:
        """Return what explains the first of some nodes of a graph, and the indices of these nodes."""
        if graph is None or graph is self.graph_:
            return self.explainer(classifier), self._need_fit().graph.indices_of(node_ids).tolist()
        model, extended = self._need_fit(), None
        if isinstance(graph, GraphUpdate):
            extended = extended_graph(self, graph)
            graph = extended.graph
        indices = graph.indices_of(node_ids)
        explainer = model.explainer(self._classifier_index(classifier), self.random_state, graph, indices[:1])
        if extended is not None:  # probabilities are calibrated by what is known of a new node
            explainer.probabilities[indices[:1]] = predict_new(model, extended, indices[:1])[1]
        return explainer, indices.tolist()

    def faithfulness(
        self,
        nodes: Iterable[Hashable],
        *,
        fractions: Sequence[float] = FRACTIONS,
        repeats: int = 10,
        max_paths: int = MAX_PATHS,
        classifier: int | str = 0,
    ) -> Faithfulness:
        """Return how the probability of the predicted class changes as paths are deleted, or inserted.

        Probabilities are calibrated as those of `predict_proba`, of one classifier where several are averaged. In
        regression it is the predicted value that changes.

        Parameters
        ----------
        nodes : ids
            Nodes whose explanations are evaluated.
        fractions : numbers from 0 to 1
            Curves have a point for each of these fractions of the paths.
        repeats : int
            Random orders whose curves are averaged, for comparison.
        max_paths : int
            Paths of a node that are deleted or inserted, those with the largest weights; others stay.
        classifier : int or str
            As for `explain`.
        """
        explainer, indices = self.explainer(classifier), self.graph_.indices_of(nodes)
        points = np.asarray(fractions)
        if points.ndim != 1 or points.dtype.kind not in "iuf" or not ((points >= 0) & (points <= 1)).all():
            raise InputError(parameter="fractions", expected="numbers from 0 to 1", found=fractions)
        counts = checked_integer("repeats", repeats, 1), checked_integer("max_paths", max_paths, 1)
        return explainer.faithfulness(indices, points, *counts, self.random_state)

    def compare_weighting(self, *, train_uniform: bool = False) -> WeightingComparison:
        """Return how the path weighting compares with uniform weights.

        Contains the difference in validation accuracy, where the model search measured it; the effective sample
        size of the path weights; the contributions of paths of 0, 1, … hops; whether weights collapsed (almost no path
        has any weight) or are nearly uniform. `print` shows it.

        Parameters
        ----------
        train_uniform : bool
            Train a second model with uniform weights, all else equal, and compare with it on the validation labels. It
            takes as long as a fit.
        """
        explainer, model = self.explainer(0), self._need_fit()
        gain: Gain | None = None
        if train_uniform:
            gain = gain_over_uniform(self)  # type: ignore[arg-type]
        elif model.gain_over_uniform is not None:
            seen = model.log.labels_seen["validation"]
            flags = {"selected": model.weighting_selected, "early": True}
            gain = Gain.from_mean(*model.gain_over_uniform, seen, model.target, **flags)
        return weighting_comparison(
            self.weighting_, model.path_weights, self.graph_, explainer, gain, self.random_state
        )

    def metapaths(self, top: int = 10, *, classifier: int | str = 0) -> list[MetapathWeight]:
        """Return the metapaths with the largest contributions: their weight beside that with uniform weights.

        A metapath is a sequence of relations, such as paper–author–paper, without self-loops; the graph needs node or
        edge types. `top` is how many to return, `classifier` as for `explain`.
        """
        model, explainer = self._need_fit(), self.explainer(classifier)
        validation = model.validation.nodes, model.validation.matrix
        return metapath_weights(explainer, model.uniform_paths(), checked_integer("top", top, 1), validation)

    def explainer(self, classifier: int | str = 0) -> Explainer:
        """Return the `Explainer` behind `explain`, for analyses of many nodes at once.

        It takes indices of nodes and classes instead of ids and names, and gives access to path searches and sums over
        paths. `classifier` is as for `explain`.
        """
        model, classifier_index = self._need_fit(), self._classifier_index(classifier)
        if classifier_index not in self._explainers:
            self._explainers[classifier_index] = model.explainer(classifier_index, self.random_state)
        return self._explainers[classifier_index]

    def _classifier_index(self, classifier: int | str) -> int:
        """Return the index of a classifier of the ensemble that is given by its name or index."""
        names = self._need_fit().classifier_names()
        if isinstance(classifier, str) and classifier in names:
            return names.index(classifier)
        if isinstance(classifier, str) or checked_integer("classifier", classifier, 0) >= len(names):
            legal = f"an index below {len(names)} or a name: {', '.join(dict.fromkeys(names))}"
            raise InputError(parameter="classifier", expected=legal, found=classifier)
        return int(classifier)


def _checked_list(explainer: Explainer, top: Any, hop: Any) -> tuple[int | None, int | None]:
    """Check which paths an explanation lists."""
    count, longest = None if top is None else checked_integer("top", top, 1), explainer.paths.hops
    if hop is not None and checked_integer("hop", hop, 0) > longest:
        raise InputError(parameter="hop", expected=f"at most {longest}, the model's hops", found=hop)
    return count, None if hop is None else int(hop)


def uniform_copy(model: PathEstimator) -> Any:
    """Return an untrained copy of an estimator with uniform weights."""
    from sklearn.base import clone

    copy = clone(model).set_params(weighting="uniform")
    if "outer" in copy.get_params():
        copy.set_params(outer="unrolled")
    # The copy is passed validation labels that the model held out, and must not correct class priors by them.
    if model.selection_history_ is not None and "prior_correction" in copy.get_params():
        copy.set_params(prior_correction=False)
    return copy


def labels_of(model: PathEstimator, as_passed: bool = False) -> TaskLabels:
    """Return the training and validation labels of a model.

    Where the model held validation labels out of the training labels, and then trained on them as well, they are
    validation labels here; with `as_passed`, and where they were cross-fitted, they are training labels, as they were
    passed to `fit`.
    """
    target, train, validation = model.fitted_.target, model.fitted_.train, model.fitted_.validation
    train_codes, codes = (target.unlabeled(len(model.graph_)) for _ in range(2))
    train_codes[train.nodes] = target.from_matrix(train.matrix)
    train_idx = np.sort(train.nodes)
    if model.selection_history_ is not None:
        if as_passed or _folds(model, train_codes):
            return TaskLabels(train_codes, target, train_idx, np.empty(0, np.int64))
        train_idx = np.setdiff1d(train_idx, validation.nodes)
    codes[validation.nodes] = target.from_matrix(validation.matrix)
    codes[train_idx] = train_codes[train_idx]
    return TaskLabels(codes, target, train_idx, np.setdiff1d(validation.nodes, train_idx))


def _folds(model: PathEstimator, codes: Array) -> list[tuple[Array, Array]]:
    """Return the folds of a model whose labels were cross-fitted; none for others."""
    labels = TaskLabels(codes, model.fitted_.target, model.fitted_.train.nodes, np.empty(0, np.int64))
    return labels.cross_fit(model) if model.selection_history_ is not None else []


def outputs_like(
    method: PathEstimator | BaselineClassifier, model: PathEstimator, labels: TaskLabels, nodes: Array
) -> Array:
    """Train a method on `labels_of` a model; return its outputs for nodes whose labels it has not seen, `(k, c)`.

    Where the nodes are cross-fitted labels, another kind of method is trained on the same folds.
    """
    cross_fitted = not len(labels.validation) and np.array_equal(model.fitted_.validation.nodes, nodes)
    folds = _folds(model, labels.codes) if cross_fitted else []
    if folds and not isinstance(method, type(model)):
        outputs = np.zeros((len(model.graph_), len(model.classes_)), np.float32)
        for train_idx, held_out_idx in folds:
            codes = model.fitted_.target.unlabeled(len(labels.codes))
            codes[train_idx] = labels.codes[train_idx]
            part = replace(labels, codes=codes, train=np.sort(train_idx))
            outputs[held_out_idx] = _fit_predict(method, model.graph_, part)[held_out_idx]
        return outputs[nodes]
    outputs = _fit_predict(method, model.graph_, labels)
    if isinstance(method, ExplanationMixin) and np.array_equal(method.fitted_.validation.nodes, nodes):
        return method.fitted_.validation.probabilities
    return outputs[nodes]


def _fit_predict(method: PathEstimator | BaselineClassifier, graph: Graph, labels: TaskLabels) -> Array:
    """Train a method on labels; return its outputs for all nodes, `(n, c)`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CgeWarning)
        method.fit(graph, labels)
    return method._outputs(graph.node_ids, None)


def gain_over_uniform(model: PathEstimator) -> Gain | None:
    """Train a copy with uniform weights and return the gain over it on the validation labels; None for uniform."""
    if model.weighting_ == "uniform":
        return None
    target, validation = model.fitted_.target, model.fitted_.validation
    if not len(validation):
        raise InputError("this model has no validation labels to compare on; fit it with validation labels")
    other = outputs_like(uniform_copy(model), model, labels_of(model), validation.nodes)
    labels = target.from_matrix(validation.matrix)
    own, uniform = (target.node_correct(outputs, labels) for outputs in (validation.probabilities, other))
    return Gain.between(own, uniform, target, selected=model.fitted_.weighting_selected)
