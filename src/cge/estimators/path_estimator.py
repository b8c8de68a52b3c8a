"""What `CGE` and `PaperCGE` share: predictions, vectors, explanations, saving."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from cge.arrays import Array
from cge.errors import CgeWarning, InputError
from cge.estimators.classifier import TaskLabels, as_graph, task_labels
from cge.estimators.explanation_mixin import ExplanationMixin
from cge.estimators.fit_progress import verbose_callback
from cge.estimators.fitted_model import FittedModel
from cge.estimators.persistence import Checkpoints, pickled_state, restore_pickled, save_estimator
from cge.estimators.settings import check_settings
from cge.estimators.similar import Similar, similar_nodes
from cge.explain.explainer import Explainer
from cge.graph import Graph
from cge.graph_conversions import object_kind
from cge.html_tables import html_scatter, html_table
from cge.store import pack_values, unpack_values

if TYPE_CHECKING:
    from cge.estimators.link_predictor import Link

Callback = Callable[[Any], None] | None

_MAX_MAP = 5000  # nodes on the map of a notebook
VALIDATION_FRACTION = (
    "fraction of the training labels held out for validation when no validation labels are passed; if that is fewer "
    "than 50 labels, `CGE` with `refit` uses 3-fold cross-validation on the training labels instead (with at least 20 "
    "labels whose class also occurs in the other folds)"
)
REFIT = "train again on all labels, for the best number of epochs, after labels were held out for validation"


class PathEstimator(ExplanationMixin):
    """A classifier of nodes whose vectors (embeddings) come from weighted paths. A subclass trains and restores models.

    Attributes
    ----------
    embedding_ : (n, d) float32
        Vectors, a row for each of `node_ids_`: they contain all that the predictions depend on. `CGE` concatenates
        (1) each classifier's projection of the propagated inputs; (2) if labels are propagated, the square roots of the
        softmax of the mean class scores (multilabel, regression: the mean scores themselves); (3) a random projection
        of the propagated inputs to at most 64 numbers, unused by predictions, which distinguishes nodes of one class.
    graph_ : Graph
        The training graph.
    node_ids_ : (n,)
        The node ids of the graph.
    classes_ : (c,)
        The classes of `y`, sorted.
    history_ : History
        One record per epoch of the final training.
    best_epoch_ : int
        The epoch whose parameters are used.
    selection_history_ : History or None
        One record per epoch of the training that selected `best_epoch_`; None without a refit.
    labels_seen_ : dict
        The number of labels used for training ("train"), to learn weights ("outer") and to select ("validation").
        After a refit, "train" counts all labels, those of "validation" included.
    fit_call_ : dict
        How it was trained: whether "validation" labels were passed, and the "command" of `cge fit`, empty in Python.
    fitted_ : FittedModel
        The trained model behind these attributes; not part of the public interface.
    weighting_ : str
        The path weighting that is used; "custom" for a callable. With weighting='auto' it is the weighting of the most
        accurate candidate (first entry of `ensemble_`); averaged candidates may use others. It may be a hop profile,
        such as "0 hops" or "1 hop (b=0)" (a closed form, for paths of these hops only), or equal weights of metapaths.
    """

    random_state: int
    n_jobs: int | None
    weighting: Any
    validation_fraction: float
    refit: bool
    outer: str = "unrolled"  # a setting of `PaperCGE`, as the next one
    outer_labels: str = "folds"

    def __repr__(self) -> str:
        """Return the constructor call and, once trained, what it was trained on and how accurate it is."""
        call = super().__repr__()
        if self.fitted_model is None:
            return call
        return f"{call}: " + "; ".join(f"{name} {value}" for name, value in self._description().items())

    def _repr_html_(self) -> str:
        """Return a description, and a map of a small graph, for a notebook."""
        call = super().__repr__()
        if self.fitted_model is None:
            return html_table([], title=call)
        text = html_table(self._description().items(), title=call)
        if len(self.graph_) > _MAX_MAP or not self.fitted_.target.exclusive_classes:
            return text
        return text + html_scatter(self.embedding_, self._outputs(None, self.graph_).argmax(1), self.classes_.tolist())

    def _description(self) -> dict[str, str]:
        """Return what the model was trained on, what was selected, and its validation score."""
        target, score, counts = self.fitted_.target, self.fitted_.validation_score, self.labels_seen_
        described = {
            "graph": f"{len(self.graph_):,} nodes, {self.graph_.num_edges:,} edges",
            "labels": f"{counts['train']:,} training, {counts['validation']:,} validation",
            "weighting": self.weighting_,
            "classifiers": ", ".join(dict.fromkeys(self.fitted_.classifier_names())),
        }
        if target.class_names is not None:
            described["classes"] = f"{len(target.class_names):,}"
        if score is not None:
            described["validation"] = f"{target.metric} {target.format_score(score)}"
        return described

    @property
    @abstractmethod
    def inductive(self) -> bool:
        """Whether nodes of other graphs than the training graph can be predicted."""

    @property
    def predicted_node_ids_(self) -> Array:
        """The nodes that are predicted by default: all, or those of the node type of the training labels, `(k,)`."""
        return np.asarray(self.node_ids_[self._need_fit().default_rows(self.graph_)])

    @property
    def embedding_(self) -> Array:  # noqa: D102 - documented as an attribute; computed at its first use
        return self._need_fit().vectors()

    # ------------------------------------------------------------------ training

    def fit(
        self,
        graph: Graph,
        y: Any,
        validation: Any = None,
        *,
        resume: str | Path | None = None,
        callback: Callback = None,
        verbose: bool = False,
    ) -> Self:
        """Train on the labels `y`.

        Parameters
        ----------
        graph : Graph, or an object that `Graph.of` understands
            With at least one edge. Graphs of NetworkX, SciPy, PyG and igraph and tables of edges are converted.
        y : {node id: label}, (n,) array with −1 for unlabeled nodes, or (n, c) array of zeros and ones
            In an (n, c) array a row of zeros is an unlabeled node. {node id: list of labels} is a multilabel task.
        validation : like `y`, optional
            Validation labels of other nodes, preferably a random sample. They select the model and the best epoch and
            calibrate the probabilities. Without them, the fraction `validation_fraction` of `y` is held out; if that is
            fewer than 50 labels, `CGE` with `refit` uses 3-fold cross-validation on `y` instead (with at least 20
            labels whose class also occurs in the other folds). With `refit`, the selected model is then trained again
            on all of `y` for the best number of epochs.
        resume : folder, optional
            Write checkpoints to this folder, and continue from those that are there. The result is bit-identical to
            that of an uninterrupted fit.
        callback : callable, optional
            Called after each epoch with an `Epoch` record (`PaperEpoch` for `PaperCGE`).
        verbose : bool
            Print every tenth epoch on the error stream.
        """
        if verbose:
            callback = verbose_callback(callback)
        graph = as_graph(graph)
        labels = checked_labels(self, graph, y, validation)
        checkpoints = Checkpoints(resume, self, graph, labels.codes, labels.train, labels.validation)
        model = self._train(graph, labels, checkpoints, callback)
        self._set_model(model)
        self.fit_call_ = {"command": "", "validation": len(labels.validation) > 0}
        for notice in model.log.notices:
            warnings.warn(CgeWarning(notice), stacklevel=2)
        return self

    cross_fits: ClassVar[bool] = False  # whether `fit` cross-validates if there are few labels

    def _task_labels(self, graph: Graph, y: Any, validation: Any) -> TaskLabels:
        """Return the labels as arrays."""
        return task_labels(graph, y, validation)

    @abstractmethod
    def _check_task(self, graph: Graph, labels: TaskLabels) -> None:
        """Refuse settings that do not fit each other, the graph or the labels."""

    @abstractmethod
    def _train(self, graph: Graph, labels: TaskLabels, checkpoints: Checkpoints, callback: Callback) -> FittedModel:
        """Return the trained model."""

    @abstractmethod
    def _restore(self, graph: Graph, classes: Array, metadata: dict[str, Any], arrays: dict[str, Array]) -> FittedModel:
        """Return the model from the metadata and arrays of a model folder."""

    # ------------------------------------------------------------------ predictions

    def predict_proba(self, nodes: Iterable[Hashable] | None = None, graph: Graph | None = None) -> Array:
        """Return the probability of each class, `(k, c)`; in a multilabel task each class has its own.

        Parameters
        ----------
        nodes : ids, optional
            By default all nodes; in a graph with node types those of the type of the training labels,
            `predicted_node_ids_`.
        graph : Graph, optional
            A graph with other nodes than the training graph; by default the training graph.
        """
        self._need_fit().target.check_probabilities()
        return self._outputs(nodes, graph)

    def _outputs(self, nodes: Iterable[Hashable] | None, graph: Graph | None) -> Array:
        """Return what the model predicts, `(k, c)`: class probabilities, or values."""
        model = self._need_fit()
        other = None if graph is None or graph is self.graph_ else as_graph(graph)
        where = self.graph_ if other is None else other
        rows = model.default_rows(where) if nodes is None else where.indices_of(nodes)
        return model.probabilities(other, rows)

    def predict(self, nodes: Iterable[Hashable] | None = None, graph: Graph | None = None) -> Array:
        """Return the most probable class, `(k,)`; in a multilabel task zeros and ones, `(k, c)`; in regression values.

        `nodes` and `graph` are as for `predict_proba`.
        """
        return self._need_fit().target.predict(self._outputs(nodes, graph))

    def predict_interval(
        self, nodes: Iterable[Hashable] | None = None, graph: Graph | None = None, *, level: float = 0.95
    ) -> Array:
        """Return prediction intervals of a numeric target, `(k, 2)`, from the residuals of the validation labels.

        Intervals have coverage `level` (split conformal prediction). `nodes` and `graph` are as for `predict_proba`.
        """
        model = self._need_fit()
        residuals = model.validation.probabilities, model.validation.matrix
        return model.target.interval(self._outputs(nodes, graph), residuals, level)

    def score(self, nodes: Iterable[Hashable], labels: Any) -> float:
        """Return the accuracy of the predictions for test nodes; in a multilabel task micro-F1, in regression R².

        `labels` has an entry for each of `nodes`: a class, or zeros and ones, or a list of classes, or a number.
        """
        return self._need_fit().target.score_predictions(self.predict(nodes), labels)

    def transform(self, graph: Graph | Iterable[Hashable] | None = None) -> Array:
        """Return vectors as in `embedding_`, `(k, d)`: of the training graph, some of its nodes, or another graph.

        Parameters
        ----------
        graph : Graph or ids, optional
            Another graph needs the same features, in the same order. Without features, its nodes are matched
            with those of the training graph by their ids.
        """
        model = self._need_fit()
        if graph is None or graph is self.graph_:
            return self.embedding_
        if object_kind(graph) in (None, "table"):
            return self.embedding_[self.graph_.indices_of(graph)]  # type: ignore[arg-type]
        return model.vectors(as_graph(graph))

    def path_weights(self, paths: Iterable[Sequence[Hashable]]) -> Array:
        """Return the weight of each path, a sequence of node ids, `(k,)`; with uniform weights all are 1.

        `CGE`: the relative weight, A(p) divided by that in a random walk (uniform weights). For a neural network: its
        output, from 0 to 1, times this ratio for the weighting from which its walks are sampled; it is not normalized,
        so only ratios between paths of one node are meaningful. 0 for a sequence that is not a path of the graph or has
        more than `hops` hops. `PaperCGE`: the output A(p) of its network, from 0 to 1, for any sequence.
        """
        model = self._need_fit()
        indices = [self.graph_.indices_of(path, "paths") for path in paths]
        if any(not len(path) for path in indices):
            raise InputError("a path needs at least one node, found an empty one")
        return model.path_weights(indices)

    def similar(self, node: Hashable, top: int = 10, metric: str = "cosine") -> list[Similar]:
        """Return the nodes with the most similar vectors, as pairs (node, score); metric 'cosine' or 'dot'."""
        self._need_fit()
        return similar_nodes(self, node, top, metric)

    def links(self, top: int = 100, node: Hashable | None = None, random_state: int = 0) -> list[Link]:
        """Return the most probable missing links, of all nodes or of one, as (source, target, score).

        They are scored by a `LinkPredictor`, which the first call trains on the edges of the graph, without labels.
        """
        from cge.estimators.link_predictor import predictor_of

        self._need_fit()
        return predictor_of(self, random_state).top_links(top, node)

    # ------------------------------------------------------------------ saving

    def save(self, folder: str | Path) -> None:
        """Write the model to a folder, which `cge.load` reads: one safetensors file and one JSON file, no pickle.

        Graph and features are part of it. An existing model in the folder is replaced atomically.
        """
        model = self._need_fit()
        metadata = model.metadata() | {"fit_call": self.fit_call_}
        save_estimator(self, folder, self.graph_, metadata, model.arrays() | pack_values(self.classes_, "classes."))

    def __copy__(self) -> Self:
        """Return a copy that shares the trained model."""
        copied = type(self).__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def __getstate__(self) -> dict[str, Any]:
        """Return what pickle and joblib store: settings and, once trained, the files that `save` writes."""
        return pickled_state(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore what `__getstate__` returned; the files are read and checked by `cge.load`."""
        restore_pickled(self, state)

    def _unpack(self, graph: Graph, metadata: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Restore what `save` wrote."""
        classes = unpack_values(arrays, "classes.")
        self._set_model(self._restore(graph, classes, metadata, arrays))
        histories = [self.history_] if self.selection_history_ is None else [self.history_, self.selection_history_]
        if not 1 <= self.best_epoch_ <= min(map(len, histories)):
            raise InputError(f"the best epoch, {self.best_epoch_:,}, is not in the history")
        call = metadata["fit_call"]
        names = tuple(str(name) for name in call.get("edge_columns", ()))
        self.fit_call_ = {"command": str(call["command"]), "validation": bool(call["validation"])}
        self.fit_call_ |= {"edge_columns": names} if len(names) == 2 else {}

    def _set_model(self, model: FittedModel) -> None:
        """Set the attributes of a trained estimator."""
        self.fitted_, self.classes_ = model, model.target.classes
        self.graph_, self.node_ids_ = model.graph, model.graph.node_ids
        self.history_, self.best_epoch_ = model.log.history, model.log.best_epoch
        self.selection_history_, self.labels_seen_ = model.log.selection_history, model.log.labels_seen
        self.weighting_ = model.weighting_name
        self._explainers: dict[int, Explainer] = {}


def checked_labels(model: PathEstimator, graph: Graph, y: Any, validation: Any = None) -> TaskLabels:
    """Return labels as arrays, with the checks of `fit`; `y` may be such a result, which is returned as it is."""
    if isinstance(y, TaskLabels):
        return y
    check_settings(model)
    if isinstance(graph, Graph) and not len(graph.indices):
        raise InputError("the graph has no edges, so there are no paths to learn from")
    labels = model._task_labels(graph, y, validation)
    model._check_task(graph, labels)
    return labels
