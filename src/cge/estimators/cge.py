"""`CGE`: vectors and predictions from weighted paths."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from cge.checks import whole_number
from cge.errors import CgeWarning, InputError, Message, format_list, format_value
from cge.estimators.cge_settings import (
    ClassifierName,
    ClassWeight,
    ConsistencyWeight,
    Decay,
    DropFeature,
    DropNode,
    Dropout,
    Encoder,
    HeadRate,
    HeadSteps,
    Hidden,
    Hops,
    Inputs,
    LabelPropagationMode,
    Loss,
    MaxEpochs,
    NAugmentations,
    NEstimators,
    NFolds,
    Optimizer,
    OuterLabels,
    OuterPaths,
    OuterRule,
    OuterSteps,
    PairShare,
    PathWindow,
    Patience,
    Pretrain,
    PriorCorrection,
    Refit,
    Sharpening,
    Strength,
    TableRate,
    UnsupWeight,
    ValidationFraction,
    VectorSize,
    VirtualRate,
    Walks,
    Weighting,
    WeightingRate,
)
from cge.estimators.checkpoints import Checkpoints
from cge.estimators.classifier import as_classes, score_predictions
from cge.estimators.embeddings import Jobs, Negatives, Seed, WalkLength
from cge.estimators.encoder_fit import fit_encoder
from cge.estimators.encoder_model import EncoderModel
from cge.estimators.explaining import explainer_of
from cge.estimators.fit_plan import checked_task
from cge.estimators.not_fitted import NotFittedError
from cge.estimators.paper_fit import PaperModel, fit_paper
from cge.estimators.settings import documented, settings_of
from cge.estimators.storing import save_estimator
from cge.estimators.uniform_baseline import gain_over_uniform
from cge.explain.explainer import Explainer
from cge.explain.explanation import Explanation
from cge.explain.faithfulness import SHARES, Faithfulness
from cge.explain.weighting_comparison import Gain, WeightingComparison, weighting_comparison
from cge.graph import Graph
from cge.store import pack_values, unpack_values
from cge.training.history import Epoch, PaperEpoch

__all__ = ["CGE", "PAIRS_ONLY", "PATHS_ONLY", "idle_settings"]

Array = npt.NDArray[Any]

PATHS_ONLY = (
    "hops",
    "inputs",
    "label_propagation",
    "prior_correction",
    "classifier",
    "n_estimators",
    "class_weight",
    "n_augmentations",
    "drop_node",
    "drop_feature",
    "dropout",
    "consistency_weight",
    "sharpening",
)
PAIRS_ONLY = (
    "window",
    "walk_length",
    "loss",
    "negatives",
    "pretrain",
    "optimizer",
    "unsup_weight",
    "label_pairs",
    "supervised_strength",
    "hidden",
    "head_steps",
    "head_lr",
    "virtual_lr",
    "weighting_lr",
    "outer_steps",
    "outer_paths",
)


@documented
class CGE(BaseEstimator):  # type: ignore[misc]
    """Customized graph embedding: paths are weighed for your labels, and weighted paths make vectors and predictions.

    Encoder "paths" sums what lies at the ends of all weighted paths from a node. "table" and "features" are the paper's
    algorithm, which trains vectors on pairs of path ends. Settings that only one of the two knows say so.

    Attributes
    ----------
    embedding_ : (n, dim) float32
        The vectors e, a row for each of `node_ids_`.
    node_ids_ : (n,)
        The ids of the graph.
    classes_ : (c,)
        The classes of `y`, ascending.
    history_ : History
        What happened in each round, or with encoder "paths" in each epoch.
    best_round_ : int
        The round or epoch whose parameters these are.
    selection_history_ : History or None
        The rounds that chose `best_epoch_`, where a second training on all labels followed.
    labels_seen_ : dict
        How many labels served training, the weights ("outer") and the choice of the round ("selection").
    weights_ : str
        The weights of paths that were used; with weighting "auto", those that were chosen.
    weight_parameters_ : dict
        Of weights of steps: "gate" (a number for each input; positive: such steps are followed more), "stay" (that of
        self-loops), "normalization" (b) and "hops" (h). Empty for networks.
    readers_ : list of str
        With encoder "paths", the readers that predict; two are averaged.
    label_votes_ : bool
        Whether known labels at the ends of paths vote.
    label_shift_ : bool
        Whether classes are expected as often as among the selection labels that were given.
    fit_call_ : dict
        How it was trained: whether "validation" labels were given, and the "command" of `cge fit`, empty in Python.
    compared_ : list of dict
        With encoder "paths", what was compared to choose them: weights, reader, accuracy on the selection labels, and
        gain over what it challenged with its standard error.

    Examples
    --------
    >>> graph = Graph.from_edges([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)])
    >>> model = CGE().fit(graph, {0: "left", 1: "left", 3: "right", 4: "right"})
    >>> model.predict([2, 5]).tolist()
    ['left', 'right']
    >>> model.embedding_.shape, model.predict_proba([2]).shape, model.weighting_
    ((6, 32), (1, 2), 'degree')
    >>> model.path_weights([[2, 3]]).tolist()  # 2 and 3 are no neighbors
    [0.0]
    >>> model.explain(2, top=3)
    Explanation(node 2, 3 paths)
    """

    def __init__(
        self,
        encoder: Encoder = "paths",
        weighting: Weighting = "auto",
        dim: VectorSize = None,
        *,
        hops: Hops = 4,
        inputs: Inputs = "auto",
        label_propagation: LabelPropagationMode = "auto",
        prior_correction: PriorCorrection = "auto",
        classifier: ClassifierName = "auto",
        n_estimators: NEstimators = 1,
        class_weight: ClassWeight = "none",
        n_augmentations: NAugmentations = None,
        drop_node: DropNode = None,
        drop_feature: DropFeature = None,
        dropout: Dropout = None,
        consistency_weight: ConsistencyWeight = None,
        sharpening: Sharpening = None,
        walks_per_node: Walks = None,
        max_epochs: MaxEpochs = None,
        patience: Patience = None,
        validation_fraction: ValidationFraction = 0.2,
        refit: Refit = True,
        learning_rate: TableRate = None,
        weight_decay: Decay = None,
        folds: NFolds = 3,
        window: PathWindow = 6,
        walk_length: WalkLength = 10,
        loss: Loss = "auto",
        negatives: Negatives = 5,
        pretrain: Pretrain = 2,
        optimizer: Optimizer = "auto",
        unsup_weight: UnsupWeight = 1.0,
        label_pairs: PairShare = 0.1,
        supervised_strength: Strength = 0.0,
        hidden: Hidden = 64,
        head_steps: HeadSteps = 20,
        head_lr: HeadRate = 0.01,
        outer: OuterRule = "unrolled",
        outer_labels: OuterLabels = "folds",
        virtual_lr: VirtualRate = 1.0,
        weighting_lr: WeightingRate = 0.01,
        outer_steps: OuterSteps = 6,
        outer_paths: OuterPaths = 2048,
        random_state: Seed = 0,
        n_jobs: Jobs = None,
    ) -> None:
        self.encoder = encoder
        self.weighting = weighting
        self.dim = dim
        self.hops = hops
        self.inputs = inputs
        self.label_propagation = label_propagation
        self.prior_correction = prior_correction
        self.classifier = classifier
        self.n_estimators = n_estimators
        self.class_weight = class_weight
        self.n_augmentations = n_augmentations
        self.drop_node = drop_node
        self.drop_feature = drop_feature
        self.dropout = dropout
        self.consistency_weight = consistency_weight
        self.sharpening = sharpening
        self.walks_per_node = walks_per_node
        self.max_epochs = max_epochs
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.refit = refit
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.folds = folds
        self.window = window
        self.walk_length = walk_length
        self.loss = loss
        self.negatives = negatives
        self.pretrain = pretrain
        self.optimizer = optimizer
        self.unsup_weight = unsup_weight
        self.label_pairs = label_pairs
        self.supervised_strength = supervised_strength
        self.hidden = hidden
        self.head_steps = head_steps
        self.head_lr = head_lr
        self.outer = outer
        self.outer_labels = outer_labels
        self.virtual_lr = virtual_lr
        self.weighting_lr = weighting_lr
        self.outer_steps = outer_steps
        self.outer_paths = outer_paths
        self.random_state = random_state
        self.n_jobs = n_jobs

    # ------------------------------------------------------------------ training

    def fit(
        self,
        graph: Graph,
        y: Any,
        validation: Any = None,
        *,
        resume: str | Path | None = None,
        callback: Callable[[PaperEpoch | Epoch], None] | None = None,
    ) -> CGE:
        """Train on the labels `y`.

        Parameters
        ----------
        graph : Graph
            With at least one edge.
        y : {node id: label}, (n,) array with −1 for unknown, or (n, c) array of zeros and ones
            A row of zeros is a node whose labels are not known. With {node id: list of labels} nodes have several.
        validation : like `y`, optional
            Labels of other nodes, best a random sample, which choose the best round and calibrate chances; a node that
            is in `y` as well trains. Without them, the share `validation_fraction` of `y` chooses it, and then training starts
            anew on all of `y` and ends after that round (`refit=False` keeps the first training).
        resume : folder, optional
            Write a checkpoint here after each round, and go on from the one that is there. The result has the same
            bytes as that of a fit that was never stopped.
        on_round : callable, optional
            Called with a `PaperEpoch` after each round, or with encoder "paths" with an `Epoch` after each epoch.

        Returns
        -------
        CGE
            The estimator itself, trained.
        """
        known = checked_task(self, graph, y, validation)
        store = Checkpoints(resume, self, graph, known.codes, known.train, known.selection)
        if idle := idle_settings(self):
            warnings.warn(idle, CgeWarning, stacklevel=2)
        train = fit_encoder if self.encoder == "paths" else fit_paper
        roles = (known.train, known.selection)
        self._keep(train(self, graph, known.codes, known.classes, roles, store, callback), known.classes)
        self.fit_call_ = {"command": "", "validation": len(known.selection) > 0}
        return self

    # ------------------------------------------------------------------ using it

    def predict_proba(self, nodes: Iterable[Hashable] | None = None, graph: Graph | None = None) -> Array:
        """Return the probability of each class, `(k, c)`; with several labels per node, one chance for each.

        Parameters
        ----------
        nodes : ids, optional
            None means all.
        graph : Graph, optional
            Holds nodes that were not there in training, for encoders "paths" and "features".
        """
        self._need_fit()
        other = None if graph is self.graph_ else graph
        where = self.graph_ if other is None else other
        rows = np.arange(len(where)) if nodes is None else where.indices_of(nodes)
        return self._fitted.probabilities(other, rows)

    def predict(self, nodes: Iterable[Hashable] | None = None, graph: Graph | None = None) -> Array:
        """Return the most likely class, `(k,)`; with several labels per node, zeros and ones, `(k, c)`.

        Parameters
        ----------
        nodes, graph
            As for `predict_proba`.
        """
        return as_classes(self.predict_proba(nodes, graph), self.classes_, self._fitted.several)

    def score(self, nodes: Iterable[Hashable], labels: Any) -> float:
        """Return the share of right predictions; with several labels per node, micro-F1.

        Parameters
        ----------
        nodes : ids
            Best of nodes whose labels were neither in `y` nor in `validation`.
        labels : sequence
            An entry for each of `nodes`: a class, or zeros and ones, or a list of classes.
        """
        return score_predictions(self.predict(nodes), labels, self.classes_, self._fitted.several)

    def transform(self, graph: Graph | Iterable[Hashable] | None = None) -> Array:
        """Return vectors, `(k, dim)`: of all nodes that were trained on, of some of them by id, or of another graph.

        Parameters
        ----------
        graph : Graph or ids, optional
            Another graph needs encoder "paths" or "features", and the features of training, in the same order. Its
            nodes are known by their ids: with "paths" and no features, paths bring what their known ends carry.
        """
        self._need_fit()
        if graph is None or graph is self.graph_:
            return self.embedding_
        if not isinstance(graph, Graph):
            return self.embedding_[self.graph_.indices_of(graph)]
        return self._fitted.vectors(graph)

    def path_weights(self, paths: Iterable[Sequence[Hashable]]) -> Array:
        """Return A of paths, `(k,)`; with weighting "none" all are 1.

        Parameters
        ----------
        paths : sequences of node ids
            Encoder "paths" gives 0 to what is no path of the graph, or longer than it looks. The others weigh any
            sequence of known nodes.
        """
        self._need_fit()
        numbers = [self.graph_.indices_of(path, "paths") for path in paths]
        if any(not len(path) for path in numbers):
            raise InputError("a path needs at least one node, found an empty one")
        return self._fitted.path_weights(numbers)

    # ------------------------------------------------------------------ explaining it

    def explain(
        self, node: Hashable, top: int = 10, *, hop: int | None = None, classifier: int = 0, name: Any = None
    ) -> Explanation:
        """Return the paths that bring most to the prediction for a node, the strongest first, and sums over all paths.

        With encoder "paths" a constant, the votes of known labels and what all paths bring add up to the class scores.
        With the other encoders scores are only attributed to paths, and a remainder is left.

        Parameters
        ----------
        node : node id
            The node whose prediction is explained.
        top : int
            Paths to list.
        hop : int, optional
            List only paths of that many steps; sums are over all.
        reader : int
            Where several readers are averaged, the one whose scores are explained, by its place.
        name : class, optional
            The class whose score is explained; by default the most likely one.
        """
        explainer, number = self._explainer(classifier), self.graph_.index_of(node)
        place = None if name is None else self._place_of(name)
        return explainer.node(number, *_listed(explainer, top, hop), place)

    def explain_class(self, name: Any, top: int = 10, *, hop: int | None = None, classifier: int = 0) -> Explanation:
        """Return the paths that bring most to the score of a class, among those from nodes predicted to be in it.

        Sums over all paths are means over these nodes. Further arguments are those of `explain`.
        """
        explainer = self._explainer(classifier)
        return explainer.of_class(self._place_of(name), *_listed(explainer, top, hop))

    def explain_pair(
        self,
        node: Hashable,
        end: Hashable,
        top: int = 10,
        *,
        hop: int | None = None,
        classifier: int = 0,
        name: Any = None,
    ) -> Explanation:
        """Return the paths from one node to another, and what they bring to the first one's prediction.

        Sums are over all paths from `node` to `end`; whatever else is in the scores is the remainder. Further arguments
        are those of `explain`.
        """
        explainer, (first, last) = self._explainer(classifier), self.graph_.indices_of([node, end]).tolist()
        place = None if name is None else self._place_of(name)
        return explainer.pair(first, last, *_listed(explainer, top, hop), place)

    def faithfulness(
        self,
        nodes: Iterable[Hashable],
        *,
        shares: Sequence[float] = SHARES,
        repeats: int = 10,
        most: int = 2000,
        classifier: int = 0,
    ) -> Faithfulness:
        """Return how the chance of the predicted class changes as paths are taken away, or given back.

        The chance is calibrated as that of `predict_proba`. Where several readers are averaged, it is that of one.

        Parameters
        ----------
        nodes : ids
            Those whose predictions are put to the test.
        shares : numbers from 0 to 1
            Curves have a point for each of these shares of the paths.
        repeats : int
            Random orders whose curves are averaged.
        most : int
            The heaviest paths of a node, so many, go, or come; others stay.
        reader : int
            As for `explain`.
        """
        explainer, numbers = self._explainer(classifier), self.graph_.indices_of(nodes)
        points = np.asarray(shares)
        if points.ndim != 1 or points.dtype.kind not in "iuf" or not ((points >= 0) & (points <= 1)).all():
            raise InputError(f"shares must be numbers from 0 to 1, found {format_value(shares)}")
        counts = whole_number("repeats", repeats, 1), whole_number("most", most, 1)
        return explainer.faithful(numbers, points, *counts, self.random_state)

    def compare_weighting(self, *, compare: bool = False) -> WeightingComparison:
        """Say whether the weights of paths were worth it.

        By how much they are ahead of A ≡ 1 on the selection labels, where that was asked in training; how many paths
        count in effect; what paths of 0, 1, … steps bring; whether weights collapsed or stayed flat. `print` shows it.

        Parameters
        ----------
        compare : bool
            Train the twin with A ≡ 1, all else the same, to its end, and compare with that. It takes as long as a fit,
            and needs selection labels.
        """
        explainer, fitted = self._explainer(0), self._fitted
        if compare:
            gain = gain_over_uniform(self)
        elif fitted.over_uniform is not None:
            told = {"chose": self.weighting == "auto", "early": True}
            gain = Gain.of(*fitted.over_uniform, self.labels_seen_["selection"], **told)
        else:
            gain = None
        return weighting_comparison(
            self.weighting_, fitted.path_weights, self.graph_, explainer, gain, self.random_state
        )

    def _place_of(self, name: Any) -> int:
        """Return the number of a class."""
        plain, known = name.item() if isinstance(name, np.generic) else name, self.classes_.tolist()
        if plain not in known:
            raise InputError(f"there is no class {format_value(plain)}; the classes are {format_list(known)}")
        return int(known.index(plain))

    def _explainer(self, classifier: int) -> Explainer:
        self._need_fit()
        place = whole_number("classifier", classifier, 0)
        if place not in self._explainers:
            self._explainers[place] = explainer_of(self._fitted, self, place)
        return self._explainers[place]

    # ------------------------------------------------------------------ keeping it

    def save(self, folder: str | Path) -> None:
        """Write the model to a folder, which `cge.load` reads: one safetensors file and one JSON file, no pickle.

        Graph and features are part of it. What was there before is replaced at once, or not at all.
        """
        self._need_fit()
        arrays = self._fitted.arrays() | pack_values(self.classes_, "classes.")
        save_estimator(self, folder, self.graph_, self._fitted.facts() | {"fit_call": self.fit_call_}, arrays)

    def _unpack(self, graph: Graph, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Take over what `save` wrote."""
        classes = unpack_values(arrays, "classes.")
        kind = EncoderModel if self.encoder == "paths" else PaperModel
        self._keep(kind.restored(self, graph, classes, facts, arrays), classes)
        if not 1 <= self.best_epoch_ <= min(len(self.history_), len(self.selection_history_ or self.history_)):
            raise InputError(f"the best round, {self.best_epoch_:,}, is not among those of the history")
        # Older folders do not tell; without a second training, those that chose were most likely given.
        given = self.labels_seen_["selection"] > 0 and self.selection_history_ is None and bool(self.refit)
        call = facts.get("fit_call", {})
        self.fit_call_ = {"command": str(call.get("command", "")), "validation": bool(call.get("validation", given))}

    def _keep(self, fitted: PaperModel | EncoderModel, classes: Array) -> None:
        """Take over what was learned."""
        self._fitted, self.classes_, self.labels_seen_ = fitted, classes, fitted.labels_seen
        self.graph_, self.node_ids_ = fitted.graph, fitted.graph.node_ids
        self.history_, self.best_epoch_ = fitted.history, fitted.best_epoch
        self.selection_history_, self.embedding_ = fitted.selection_history, fitted.vectors()
        self.weighting_, self.search_results_ = fitted.weighting_name, fitted.comparison
        self.classifiers_, self.label_propagation_, self.prior_correction_ = (
            fitted.classifier_names,
            fitted.uses_label_propagation,
            fitted.shifted,
        )
        self.weight_parameters_ = fitted.weight_parameters
        self._explainers: dict[int, Explainer] = {}

    def _need_fit(self) -> None:
        if not hasattr(self, "_fitted"):
            raise NotFittedError(f"this {type(self).__name__} has not been trained yet; call fit first")


def idle_settings(model: CGE) -> str:
    """Return a sentence about settings that the encoder does not have; empty where there are none."""
    defaults = settings_of(type(model))
    unknown = PAIRS_ONLY if model.encoder == "paths" else PATHS_ONLY
    idle = [name for name in unknown if getattr(model, name) != defaults[name][2]]
    have = "has" if len(idle) == 1 else "have"
    names = ", ".join(f"{{{name}}}" for name in idle)
    return Message.of(f"{names} {have} no effect with {{encoder}}", encoder=model.encoder) if idle else ""


def _listed(explainer: Explainer, top: Any, hop: Any) -> tuple[int, int | None]:
    """Check which paths are to be listed."""
    most, longest = whole_number("top", top, 1), explainer.paths.hops
    if hop is not None and whole_number("hop", hop, 0) > longest:
        raise InputError(parameter="hop", expected=f"at most {longest}, the steps of the longest path", found=hop)
    return most, None if hop is None else int(hop)
