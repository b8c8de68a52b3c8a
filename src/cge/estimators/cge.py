"""`CGE`: vectors and predictions from weighted paths."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from cge.data.labels import labeled
from cge.data.splits import folds as stratified_folds
from cge.errors import CgeWarning, InputError
from cge.estimators.cge_settings import (
    Decay,
    Encoder,
    Folds,
    HeadRate,
    HeadSteps,
    HeldOut,
    Hidden,
    Loss,
    Optimizer,
    OuterLabels,
    OuterPaths,
    OuterRule,
    OuterSteps,
    PairShare,
    PathWindow,
    Patience,
    Pretrain,
    Refit,
    Rounds,
    Strength,
    TableRate,
    UnsupWeight,
    VirtualRate,
    Weighting,
    WeightingRate,
)
from cge.estimators.checkpoints import Checkpoints
from cge.estimators.embeddings import Dim, Negatives, Seed, Threads, WalkLength, WalksPerNode
from cge.estimators.labels import encode_labels, members
from cge.estimators.settings import check_settings, documented
from cge.estimators.storing import save_estimator
from cge.graph import Graph
from cge.models.products import NodeFeatures, SparseFeatures
from cge.store import pack_values, unpack_values
from cge.training.history import History, Round
from cge.training.parameters import Parameters, Shape
from cge.training.settings import Task, TrainingSettings
from cge.training.trainer import Trained, accuracy_of, train

__all__ = ["CGE"]

Array = npt.NDArray[Any]

_COLLAPSED, _FLAT = 0.02, 0.02  # mean of A below the one, relative spread of A below the other
_AT_ONCE = 65_536  # nodes predicted at once


@documented
class CGE(BaseEstimator):  # type: ignore[misc]
    """Customized graph embedding: paths are weighed for your labels, and the weighted paths train vectors and a head.

    Attributes
    ----------
    embedding_ : (n, dim) float32
        The vectors e, a row for each of `node_ids_`.
    node_ids_ : (n,)
    classes_ : (c,)
    history_ : History
        What happened in each round.
    best_round_ : int
        The round whose parameters these are.
    selection_history_ : History or None
        The rounds that chose `best_round_`, where a second training on all labels followed.
    labels_seen_ : dict
        How many labels served training, the weights ("outer") and the choice of the round ("selection").

    Examples
    --------
    >>> graph = Graph.from_edges([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)])
    >>> model = CGE(weighting="none", dim=8).fit(graph, {0: "left", 1: "left", 3: "right", 4: "right"})
    >>> model.predict([2, 5]).tolist()
    ['left', 'right']
    """

    def __init__(
        self,
        encoder: Encoder = "table",
        weighting: Weighting = "lstm",
        dim: Dim = 128,
        *,
        window: PathWindow = 6,
        walk_length: WalkLength = 10,
        walks_per_node: WalksPerNode = 5,
        loss: Loss = "auto",
        negatives: Negatives = 5,
        pretrain: Pretrain = 2,
        rounds: Rounds = 4,
        patience: Patience = 3,
        held_out: HeldOut = 0.2,
        refit: Refit = True,
        optimizer: Optimizer = "auto",
        learning_rate: TableRate = None,
        unsup_weight: UnsupWeight = 1.0,
        label_pairs: PairShare = 0.1,
        supervised_strength: Strength = 0.0,
        hidden: Hidden = 64,
        head_steps: HeadSteps = 20,
        head_lr: HeadRate = 0.01,
        weight_decay: Decay = 5e-4,
        outer: OuterRule = "unrolled",
        outer_labels: OuterLabels = "folds",
        folds: Folds = 3,
        virtual_lr: VirtualRate = 1.0,
        weighting_lr: WeightingRate = 0.01,
        outer_steps: OuterSteps = 6,
        outer_paths: OuterPaths = 2048,
        random_state: Seed = 0,
        threads: Threads = None,
    ) -> None:
        self.encoder = encoder
        self.weighting = weighting
        self.dim = dim
        self.window = window
        self.walk_length = walk_length
        self.walks_per_node = walks_per_node
        self.loss = loss
        self.negatives = negatives
        self.pretrain = pretrain
        self.rounds = rounds
        self.patience = patience
        self.held_out = held_out
        self.refit = refit
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.unsup_weight = unsup_weight
        self.label_pairs = label_pairs
        self.supervised_strength = supervised_strength
        self.hidden = hidden
        self.head_steps = head_steps
        self.head_lr = head_lr
        self.weight_decay = weight_decay
        self.outer = outer
        self.outer_labels = outer_labels
        self.folds = folds
        self.virtual_lr = virtual_lr
        self.weighting_lr = weighting_lr
        self.outer_steps = outer_steps
        self.outer_paths = outer_paths
        self.random_state = random_state
        self.threads = threads

    # ------------------------------------------------------------------ training

    def fit(
        self,
        graph: Graph,
        y: Any,
        validation: Any = None,
        *,
        resume: str | Path | None = None,
        on_round: Callable[[Round], None] | None = None,
    ) -> CGE:
        """Train on the labels `y`.

        Parameters
        ----------
        graph : Graph
        y : {node id: label}, (n,) array with −1 for unknown, or (n, c) array of zeros and ones
            A row of zeros is a node whose labels are not known. With {node id: list of labels} nodes have several.
        validation : like `y`, optional
            Labels of other nodes, which only choose the best round; a node that is in `y` as well trains. Without
            them, the share `held_out` of `y` chooses it, and then training starts anew on all of `y` and ends after
            that round (`refit=False` keeps the first training).
        resume : folder, optional
            Write a checkpoint here after each round, and go on from the one that is there. The result has the same
            bytes as that of a fit that was never stopped.
        on_round : callable, optional
            Called with a `Round` after each round.
        """
        check_settings(self)
        if not isinstance(graph, Graph):
            raise InputError(f"fit takes a cge.Graph, found a {type(graph).__name__}; Graph.from_edges makes one")
        codes, classes = encode_labels(graph, y, "y")
        self._refuse_hopeless(graph, codes, classes)
        chosen_on = np.empty(0, np.int64)
        trained_on = np.flatnonzero(labeled(codes))
        if validation is not None:
            more, _ = encode_labels(graph, validation, "validation", classes)
            if more.ndim != codes.ndim:
                raise InputError("y and validation must have the same form: one label for each node, or several")
            chosen_on = np.setdiff1d(np.flatnonzero(labeled(more)), trained_on)
            if labeled(more).any() and not len(chosen_on):
                raise InputError("every node of validation has a label in y, too, so none is left to choose the round")
            codes = codes.copy()
            codes[chosen_on] = more[chosen_on]
        elif self.weighting != "none" and self.outer == "unrolled" and self.outer_labels == "validation":
            raise InputError("outer_labels='validation' needs validation labels; pass validation=")
        store = Checkpoints(resume, self, graph, codes, trained_on, chosen_on)
        final, selection, seen = self._train(graph, codes, classes, trained_on, chosen_on, store, on_round)
        self.classes_, self.labels_seen_, self._several = classes, seen, codes.ndim == 2
        self._keep(graph, final, selection)
        self._warn_of_weights()
        return self

    def _refuse_hopeless(self, graph: Graph, codes: Array, classes: Array) -> None:
        if not len(graph.indices):
            raise InputError("the graph has no edges, so there are no paths to learn from")
        if not labeled(codes).any():
            raise InputError("y holds no labels; label some nodes, or use cge.DeepWalk, which needs none")
        if len(classes) < 2:
            raise InputError(f"y must hold at least two classes, found only {classes.tolist()[0]!r}")
        if self.window > self.walk_length:
            raise InputError(
                f"window must be at most walk_length, {self.walk_length}, for no path is longer than its walk; "
                f"found {self.window}"
            )
        if self.encoder == "features" and graph.features is None:
            raise InputError("encoder='features' needs node features, and the graph has none; use encoder='table'")
        if self.weighting != "none" and self.outer_labels == "folds" and self.outer == "unrolled" and not self.pretrain:
            raise InputError(
                "folds of the training labels can weigh paths only while labels do not touch the vectors; "
                "use pretrain=1 or more, or outer_labels='validation'"
            )

    def _train(
        self,
        graph: Graph,
        codes: Array,
        classes: Array,
        trained_on: Array,
        chosen_on: Array,
        store: Checkpoints,
        on_round: Callable[[Round], None] | None,
    ) -> tuple[Trained, History | None, dict[str, int]]:
        """Train, with labels held out and a second training where there are no validation labels."""
        given = len(chosen_on) > 0
        kept, held = (trained_on, chosen_on) if given else self._hold_out(codes, trained_on)
        names = [field.name for field in fields(TrainingSettings) if field.name != "seed"]
        settings = TrainingSettings(**{name: getattr(self, name) for name in names}, seed=self.random_state)
        features = _prepared(graph.features, self.threads)

        def task(nodes: Array, selecting: Array) -> tuple[Task, dict[str, int]]:
            parts, left = self._outer_parts(codes, nodes, selecting)
            numbers = [torch.from_numpy(np.ascontiguousarray(one)) for one in (nodes, left, *parts)]
            labels, outer_only = torch.from_numpy(codes), self.outer_labels == "validation"
            seen = {"train": len(nodes), "outer": sum(map(len, parts)), "selection": len(left)}
            made = Task(graph, features, labels, len(classes), numbers[0], numbers[1], numbers[2:], outer_only)
            return made, seen

        again = self.refit and not given and len(held) > 0
        stage = "select" if again else "train"
        first, seen = task(kept, held)
        saved = store.read(stage)
        done = train(first, settings, saved=saved, on_round=on_round, on_state=store.writer(stage))
        if not again:
            return done, None, seen
        second, seen = task(trained_on, np.empty(0, np.int64))
        saved, stop = store.read("refit"), done.best_round
        writer = store.writer("refit")
        final = train(second, settings, stop_after=stop, saved=saved, on_round=on_round, on_state=writer)
        return final, done.history, seen | {"selection": len(held)}

    def _hold_out(self, codes: Array, trained_on: Array) -> tuple[Array, Array]:
        """Return the labels that stay for training and those that choose the round; no class loses its last label."""
        parts = round(1 / self.held_out) if self.held_out else 0
        if parts < 2 or parts > len(trained_on):
            return trained_on, np.empty(0, np.int64)
        held = stratified_folds(trained_on, codes, parts, self.random_state)[0]
        kept = np.setdiff1d(trained_on, held)
        if len(kept) < 2:
            return trained_on, np.empty(0, np.int64)
        if codes.ndim == 1:
            alone = ~np.isin(codes[held], codes[kept])
        else:
            alone = (codes[held] > codes[kept].any(axis=0)).any(axis=1)
        return np.sort(np.concatenate([kept, held[alone]])), held[~alone]

    def _outer_parts(self, codes: Array, trained_on: Array, selecting: Array) -> tuple[Sequence[Array], Array]:
        """Return the outer labels in parts, and the labels that are left to choose the round."""
        if self.weighting == "none" or self.outer == "paper":  # Eq. 15 as printed looks at no labels
            return [], selecting
        if self.outer_labels == "folds":
            if len(trained_on) < 2:
                raise InputError("weights are learned from at least two labeled nodes; label more, or weighting='none'")
            return stratified_folds(trained_on, codes, min(self.folds, len(trained_on)), self.random_state), selecting
        if len(selecting) < 2:
            raise InputError("outer_labels='validation' needs at least two validation labels; pass more of them")
        outer, rest = stratified_folds(selecting, codes, 2, self.random_state)
        return [outer], rest

    def _warn_of_weights(self) -> None:
        """Say so where learning the weights came to nothing."""
        # A second training may end before the weights collapse as they did in the first.
        kept, last = self.history_[self.best_round_ - 1], (self.selection_history_ or self.history_)[-1]
        if last.weight_mean is None:
            return
        if last.weight_mean < _COLLAPSED:
            here = (
                "" if kept.weight_mean < _COLLAPSED else f" (the kept round {kept.number} had {kept.weight_mean:.2g})"
            )
            cure = "use outer='unrolled'" if self.outer == "paper" else "try a lower weighting_lr"
            warnings.warn(
                f"path weights collapsed to a mean of {last.weight_mean:.2g}{here}, so paths hardly train the vectors; "
                + cure,
                CgeWarning,
                stacklevel=3,
            )
        elif kept.weight_spread < _FLAT * kept.weight_mean:
            warnings.warn(
                f"path weights stayed flat (spread {kept.weight_spread:.2g} around {kept.weight_mean:.2g}): the labels "
                "found no path better than another, and weighting='none' gives about the same vectors",
                CgeWarning,
                stacklevel=3,
            )

    # ------------------------------------------------------------------ using it

    def predict_proba(self, nodes: Iterable[Hashable] | None = None, graph: Graph | None = None) -> Array:
        """Return the probability of each class, `(k, c)`; with several labels per node, one chance for each.

        `nodes` are ids, None means all. `graph` holds nodes that were not there in training; it needs
        encoder "features".
        """
        self._need_fit()
        vectors = self.transform(graph)
        where, features = (
            (self.graph_, self._features) if graph is None else (graph, _prepared(graph.features, self.threads))
        )
        chosen = np.arange(len(where)) if nodes is None else where.indices_of(nodes)
        several = self._several
        found = np.empty((len(chosen), len(self.classes_)), np.float32)
        for begin in range(0, len(chosen), _AT_ONCE):
            rows = torch.from_numpy(chosen[begin : begin + _AT_ONCE])
            scores = self._trained.parameters.scores(features, torch.from_numpy(vectors), rows)
            chances = torch.sigmoid(scores) if several else torch.softmax(scores, dim=1)
            found[begin : begin + _AT_ONCE] = chances.numpy()
        return found

    def predict(self, nodes: Iterable[Hashable] | None = None, graph: Graph | None = None) -> Array:
        """Return the most likely class, `(k,)`; with several labels per node, zeros and ones, `(k, c)`."""
        chances = self.predict_proba(nodes, graph)
        found: Array = (chances > 0.5).astype(np.int64) if self._several else self.classes_[chances.argmax(1)]
        return found

    def score(self, nodes: Iterable[Hashable], labels: Any) -> float:
        """Return the share of right predictions; with several labels per node, micro-F1.

        `labels` has an entry for each of `nodes`: a class, or zeros and ones, or a list of classes.
        """
        predicted = self.predict(nodes)
        true = members(labels, self.classes_) if self._several else np.asarray(labels)
        if predicted.shape != true.shape:
            raise InputError(f"labels must have shape {predicted.shape}, as the predictions, found {true.shape}")
        if self._several:
            return accuracy_of(predicted - 0.5, true)
        return float(np.mean(predicted == true)) if len(true) else float("nan")

    def transform(self, graph: Graph | Iterable[Hashable] | None = None) -> Array:
        """Return vectors, `(k, dim)`: of all nodes that were trained on, of some of them by id, or of another graph.

        Another graph needs encoder "features", and the features of training, in the same order.
        """
        self._need_fit()
        if graph is None or graph is self.graph_:
            return self.embedding_
        if not isinstance(graph, Graph):
            return self.embedding_[self.graph_.indices_of(graph)]
        if self.encoder == "table":
            raise InputError(
                "encoder='table' has vectors only for the nodes it was trained on; use encoder='features' for new ones"
            )
        width = self._trained.parameters.shape.features
        found = 0 if graph.features is None else int(graph.features.shape[1])
        if found != width:
            raise InputError(f"new nodes need {width:,} features, as in training, found {found:,}")
        vectors: Array = self._trained.parameters.vectors(_prepared(graph.features, self.threads)).numpy()
        return vectors

    def path_weights(self, paths: Iterable[Sequence[Hashable]]) -> Array:
        """Return A of paths, each a sequence of node ids, `(k,)`; with weighting "none" all are 1.

        Any sequence of known nodes is weighed, whether the graph has those edges and training met it or not.
        """
        self._need_fit()
        numbers = [self.graph_.indices_of(path, "paths") for path in paths]
        if any(not len(path) for path in numbers):
            raise InputError("a path needs at least one node, found an empty one")
        network = self._trained.parameters.network
        if network is None or not numbers:
            return np.ones(len(numbers), np.float32)
        length = np.array([len(path) for path in numbers])
        nodes = np.full((len(numbers), length.max()), -1, np.int64)
        nodes[np.arange(nodes.shape[1]) < length[:, None]] = np.concatenate(numbers)
        with torch.no_grad():
            weights = network(torch.from_numpy(self.embedding_), torch.from_numpy(nodes), torch.from_numpy(length))
        found: Array = weights.numpy()
        return found

    # ------------------------------------------------------------------ keeping it

    def save(self, folder: str | Path) -> None:
        """Write the model to a folder, which `cge.load` reads: one safetensors file and one JSON file, no pickle.

        Graph and features are part of it. What was there before is replaced at once, or not at all.
        """
        self._need_fit()
        shape = asdict(self._trained.parameters.shape)
        del shape["weighting"]  # stands in the settings
        facts = {
            "best_round": self.best_round_,
            "history": self.history_.rows(),
            "labels_seen": self.labels_seen_,
            "selection_history": None if self.selection_history_ is None else self.selection_history_.rows(),
            "several": self._several,
            "shape": shape,
        }
        arrays = {f"parameters.{name}": array for name, array in self._trained.parameters.arrays().items()}
        save_estimator(self, folder, self.graph_, facts, arrays | pack_values(self.classes_, "classes."))

    def _unpack(self, graph: Graph, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Take over what `save` wrote."""
        shape = Shape(weighting=self.weighting, **facts["shape"])
        self.classes_ = unpack_values(arrays, "classes.")
        features = 0 if graph.features is None else int(graph.features.shape[1])
        sizes = (graph.num_nodes, features, len(self.classes_), self.encoder, self.dim, self.hidden)
        if (shape.nodes, shape.features, shape.classes, shape.encoder, shape.dim, shape.hidden) != sizes:
            raise InputError("the sizes of graph, classes and parameters do not agree")
        parameters = Parameters(shape)
        begin = "parameters."
        parameters.load({name.removeprefix(begin): one for name, one in arrays.items() if name.startswith(begin)})
        self._several, self.labels_seen_ = bool(facts["several"]), dict(facts["labels_seen"])
        history = History([Round(**one) for one in facts["history"]])
        rows = facts["selection_history"]
        self._keep(
            graph,
            Trained(parameters, history, int(facts["best_round"])),
            None if rows is None else History([Round(**one) for one in rows]),
        )

    def _keep(self, graph: Graph, trained: Trained, selection: History | None) -> None:
        """Take over what was learned on a graph."""
        self._trained, self._features = trained, _prepared(graph.features, self.threads)
        self.graph_, self.node_ids_ = graph, graph.node_ids
        self.history_, self.best_round_, self.selection_history_ = trained.history, trained.best_round, selection
        self.embedding_: Array = trained.parameters.vectors(self._features).numpy().copy()

    def _need_fit(self) -> None:
        if not hasattr(self, "_trained"):
            raise NotFittedError(f"this {type(self).__name__} has not been trained yet; call fit first")


def _prepared(features: Any, threads: int | None = None) -> NodeFeatures | None:
    """Return features with rows of unit length (rows of zeros stay)."""
    if features is None:
        return None
    if sp.issparse(features):
        norms = np.sqrt(np.asarray(features.multiply(features).sum(axis=1)).ravel())
        scaled = sp.csr_array(sp.diags_array(1 / np.maximum(norms, 1e-12)) @ features).astype(np.float32)
        return SparseFeatures(scaled, threads)
    norms = np.linalg.norm(features, axis=1, keepdims=True)
    return torch.from_numpy((features / np.maximum(norms, 1e-12)).astype(np.float32))
