"""Explanations of a trained estimator: the paths behind its predictions, and how its weighting compares."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from cge.arrays import Array
from cge.checks import checked_integer
from cge.errors import InputError, format_list, format_value
from cge.estimators.fitted_model import FittedModel
from cge.estimators.uniform_baseline import gain_over_uniform
from cge.explain.explainer import Explainer
from cge.explain.explanation import Explanation
from cge.explain.faithfulness import FRACTIONS, Faithfulness
from cge.explain.weighting_comparison import Gain, WeightingComparison, weighting_comparison
from cge.graph import Graph


class ExplanationMixin:
    """The methods of `CGE` and `PaperCGE` that explain."""

    graph_: Graph
    classes_: Array
    weighting_: str
    random_state: int
    _explainers: dict[int, Explainer]

    def _need_fit(self) -> FittedModel:
        raise NotImplementedError

    def explain(
        self,
        node: Hashable,
        top: int = 10,
        *,
        hop: int | None = None,
        classifier: int = 0,
        target_class: Any = None,
    ) -> Explanation:
        """Return the paths that contribute most to the prediction for a node, and sums over all paths.

        With `CGE` a constant, the propagated labels and the contributions of all paths add up to the class scores.
        `PaperCGE` attributes its scores to paths, and a remainder is left.

        Parameters
        ----------
        node : node id
            The node whose prediction is explained.
        top : int
            How many paths to list, the largest contributions first.
        hop : int, optional
            List only paths of that many edges; sums are over all.
        classifier : int
            Where the probabilities of several classifiers are averaged, the position of the one to explain.
        target_class : class, optional
            The class whose score is explained; by default the predicted one.
        """
        explainer, node_index = self.explainer(classifier), self.graph_.index_of(node)
        class_index = None if target_class is None else self._class_index(target_class)
        return explainer.explain_node(node_index, *_checked_list(explainer, top, hop), class_index)

    def explain_class(
        self, target_class: Any, top: int = 10, *, hop: int | None = None, classifier: int = 0
    ) -> Explanation:
        """Return the paths that contribute most to the score of a class, among nodes predicted to be in it.

        Sums over all paths are means over these nodes. Further arguments are those of `explain`.
        """
        explainer = self.explainer(classifier)
        return explainer.explain_class(self._class_index(target_class), *_checked_list(explainer, top, hop))

    def explain_pair(
        self,
        node: Hashable,
        endpoint: Hashable,
        top: int = 10,
        *,
        hop: int | None = None,
        classifier: int = 0,
        target_class: Any = None,
    ) -> Explanation:
        """Return the paths from one node to another, and their contributions to the first one's prediction.

        Sums are over all paths from `node` to `endpoint`; everything else in the scores is the remainder. Further
        arguments are those of `explain`.
        """
        explainer, (first, last) = self.explainer(classifier), self.graph_.indices_of([node, endpoint]).tolist()
        class_index = None if target_class is None else self._class_index(target_class)
        return explainer.explain_node(first, *_checked_list(explainer, top, hop), class_index, endpoint=last)

    def faithfulness(
        self,
        nodes: Iterable[Hashable],
        *,
        fractions: Sequence[float] = FRACTIONS,
        repeats: int = 10,
        max_paths: int = 2000,
        classifier: int = 0,
    ) -> Faithfulness:
        """Return how the probability of the predicted class changes as paths are deleted, or inserted.

        Probabilities are calibrated as those of `predict_proba`, of one classifier where several are averaged.

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
        classifier : int
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

        Contains the difference in validation accuracy, where the model search measured it; the effective number of
        paths; the contributions of paths of 0, 1, … edges; whether weights collapsed or are nearly constant. `print`
        shows it.

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
            gain = Gain.from_mean(*model.gain_over_uniform, seen, selected=model.weighting_selected, early=True)
        return weighting_comparison(
            self.weighting_, model.path_weights, self.graph_, explainer, gain, self.random_state
        )

    def _class_index(self, target_class: Any) -> int:
        plain = target_class.item() if isinstance(target_class, np.generic) else target_class
        classes = self.classes_.tolist()
        if plain not in classes:
            raise InputError(f"there is no class {format_value(plain)}; the classes are {format_list(classes)}")
        return int(classes.index(plain))

    def explainer(self, classifier: int = 0) -> Explainer:
        """Return the `Explainer` behind `explain`, for analyses of many nodes at once.

        It takes indices of nodes and classes instead of ids and names, and gives access to path searches and sums over
        paths. `classifier` is as for `explain`.
        """
        model, place = self._need_fit(), checked_integer("classifier", classifier, 0)
        if place not in self._explainers:
            self._explainers[place] = model.explainer(place, self.random_state)
        return self._explainers[place]


def _checked_list(explainer: Explainer, top: Any, hop: Any) -> tuple[int, int | None]:
    """Check which paths an explanation lists."""
    count, longest = checked_integer("top", top, 1), explainer.paths.hops
    if hop is not None and checked_integer("hop", hop, 0) > longest:
        raise InputError(parameter="hop", expected=f"at most {longest}, the model's hops", found=hop)
    return count, None if hop is None else int(hop)
