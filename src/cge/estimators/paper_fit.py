"""`CGE` with encoders "table" and "features": the paper's algorithm, which trains vectors on pairs of path ends."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch

from cge.data.graph_update import check_same_features
from cge.errors import CgeWarning, InputError, Message
from cge.estimators.checkpoints import Checkpoints
from cge.estimators.label_roles import Progress, ValidationLabels, folds_of, hold_out, known_from, membership
from cge.graph import Graph
from cge.metrics import fit_temperature, scale_probabilities
from cge.models.sparse_products import NodeFeatures, SparseFeatures
from cge.training.history import History, PaperEpoch
from cge.training.model_search import MIN_VALIDATION
from cge.training.paper_parameters import ModelShape, Parameters
from cge.training.paper_settings import TrainingSettings
from cge.training.paper_training import TrainingResult, train
from cge.training.task import Task

__all__ = ["PaperModel", "check_paper_task", "chosen", "fit_paper"]

Array = npt.NDArray[Any]

_COLLAPSED, _FLAT = 0.02, 0.02  # mean of A below the one, relative spread of A below the other
_AT_ONCE = 65_536  # nodes predicted at once
_SETTINGS = {"table": "transductive", "features": "inductive"}
# What `CGE` leaves open, for these encoders.
_DEFAULTS: dict[str, Any] = {
    "weighting": "lstm",
    "dim": 128,
    "max_epochs": 4,
    "patience": 3,
    "walks_per_node": 5,
    "weight_decay": 5e-4,
}


def chosen(model: Any, name: str) -> Any:
    """Return a setting of `CGE`, or the default of these encoders where it is left open."""
    value = getattr(model, name)
    return _DEFAULTS[name] if name in _DEFAULTS and (value is None or value == "auto") else value


def fit_paper(
    model: Any, graph: Graph, codes: Array, classes: Array, roles: tuple[Array, Array], store: Checkpoints, on: Progress
) -> PaperModel:
    """Train, with labels held out and a second training where there are no validation labels.

    `roles` are the nodes whose labels train and those whose labels choose the round.
    """
    check_paper_task(model, graph)
    trained_on, chosen_on = roles
    given = len(chosen_on) > 0
    kept, held = roles if given else hold_out(codes, trained_on, model.validation_fraction, model.random_state)
    names = [field.name for field in fields(TrainingSettings) if field.name not in ("setting", "seed")]
    values = {name: chosen(model, name) for name in names}
    settings = TrainingSettings(setting=_SETTINGS[model.encoder], seed=model.random_state, **values)
    features = _prepared(graph.features, model.n_jobs)

    def task(nodes: Array, selecting: Array) -> tuple[Task, dict[str, int]]:
        parts, left = _outer_parts(model, codes, nodes, selecting)
        numbers = [torch.from_numpy(np.ascontiguousarray(one)) for one in (nodes, left, *parts)]
        labels, outer_only = torch.from_numpy(codes), model.outer_labels == "validation"
        seen = {"train": len(nodes), "outer": sum(map(len, parts)), "selection": len(left)}
        made = Task(graph, features, labels, len(classes), numbers[0], numbers[1], numbers[2:], outer_only)
        return made, seen

    def labels_of(nodes: Array) -> tuple[Array, Array]:
        return nodes, membership(codes, nodes, len(classes))

    again = model.refit and not given and len(held) > 0
    stage = "select" if again else "train"
    first, seen = task(kept, held)
    done = train(first, settings, saved=store.read(stage), callback=on, on_state=store.writer(stage))
    held, several = first.validation.numpy(), codes.ndim == 2
    found = PaperModel(graph, features, done, None, seen, several, *labels_of(kept))
    if len(held) >= MIN_VALIDATION:
        found.temperature = fit_temperature(found.probabilities(None, held), codes[held])
    found.chosen = ValidationLabels(*labels_of(held), found.probabilities(None, held))
    if again:
        second, seen = task(trained_on, np.empty(0, np.int64))
        saved, writer = store.read("refit"), store.writer("refit")
        final = train(second, settings, stop_after=done.best_epoch, saved=saved, callback=on, on_state=writer)
        seen = seen | {"selection": len(held)}
        known = labels_of(trained_on)
        found = PaperModel(graph, features, final, done.history, seen, several, *known, found.chosen, found.temperature)
    found.warn(model.outer)
    return found


def check_paper_task(model: Any, graph: Graph) -> None:
    """Refuse settings that do not fit the paper's encoders or the graph."""
    if model.window > model.walk_length:
        raise InputError(
            Message.of(
                "{window} must be at most {walk_length}, since no path is longer than its walk",
                window=model.window,
                walk_length=model.walk_length,
            ),
            parameter="window",
        )
    if chosen(model, "weighting") in ("degree", "cosine", "edges", "edges+hops"):
        legal = "'uniform', 'average', 'cnn' or 'lstm' in the paper's algorithm"
        raise InputError(parameter="weighting", expected=legal, found=model.weighting)
    if model.encoder == "features" and graph.features is None:
        problem = Message.of("{encoder} needs node features, and the graph has none", encoder="features")
        raise InputError(problem, parameter="encoder", hint=Message.of("use {encoder}", encoder="table"))
    if _by_folds(model) and not model.pretrain:
        raise InputError(
            "folds of the training labels can train the weighting only in pre-training, before labels change vectors",
            parameter="pretrain",
            hint=Message.of("use {pretrain} or more, or {outer_labels}", pretrain=1, outer_labels="validation"),
        )


def _by_folds(model: Any) -> bool:
    return bool(model.weighting != "uniform" and model.outer_labels == "folds" and model.outer == "unrolled")


def _outer_parts(model: Any, codes: Array, nodes: Array, selecting: Array) -> tuple[Sequence[Array], Array]:
    """Return the outer labels in parts, and the labels that are left to choose the round."""
    if model.weighting == "uniform" or model.outer == "paper":  # Eq. 15 as printed looks at no labels
        return [], selecting
    if model.outer_labels == "folds":
        if len(nodes) < 2:
            hint = Message.of("label more, or use {weighting}", weighting="uniform")
            raise InputError("learned weightings need at least two labeled nodes", parameter="weighting", hint=hint)
        return folds_of(codes, nodes, model.folds, model.random_state), selecting
    if len(selecting) < 2:
        problem = Message.of("{outer_labels} needs at least two validation labels", outer_labels="validation")
        raise InputError(problem, parameter="outer_labels", hint="pass more of them")
    outer, rest = folds_of(codes, selecting, 2, model.random_state)
    return [outer], rest


@dataclass(eq=False)
class PaperModel:
    """A trained model: parameters, history and what they were trained on.

    `known (k,)` are the nodes whose labels trained it, `matrix (k, c)` their classes; `chosen` are the labels that
    chose, by which chances are taken at a `temperature`.
    """

    graph: Graph
    features: NodeFeatures | None
    trained: TrainingResult
    selection_history: History | None
    labels_seen: dict[str, int]
    several: bool
    known: Array
    matrix: Array
    chosen: ValidationLabels | None = None
    temperature: float = 1.0

    def __post_init__(self) -> None:
        self.history, self.best_epoch = self.trained.history, self.trained.best_epoch
        self.own: Array = self.trained.parameters.vectors(self.features).numpy().copy()

    @property
    def weighting_name(self) -> str:
        """What weighs paths."""
        kind = self.trained.parameters.shape.weighting
        return kind if isinstance(kind, str) else "custom"

    classifier_names: ClassVar[list[str]] = []
    uses_label_propagation: ClassVar[bool] = False
    shifted: ClassVar[bool] = False
    over_uniform: ClassVar[None] = None
    weight_parameters: ClassVar[dict[str, Any]] = {}

    @property
    def comparison(self) -> list[dict[str, Any]]:
        """Nothing is compared."""
        return []

    def vectors(self, graph: Graph | None = None) -> Array:
        """Return vectors, `(n, dim)`."""
        if graph is None:
            return self.own
        vectors: Array = self.trained.parameters.vectors(self._features_of(graph)).numpy()
        return vectors

    def _features_of(self, graph: Graph) -> NodeFeatures | None:
        """Return the features of new nodes, in the form that the encoder takes."""
        if self.trained.parameters.shape.setting == "transductive":
            problem = Message.of("{setting} has vectors only for the nodes it was trained on", setting="transductive")
            raise InputError(problem, hint=Message.of("use {setting} for new ones", setting="inductive"))
        check_same_features(self.graph, graph)
        return _prepared(graph.features)

    def probabilities(self, graph: Graph | None, rows: Array) -> Array:
        """Return the probability of each class for some nodes, `(k, c)`."""
        features = self.features if graph is None else self._features_of(graph)
        found = np.empty((len(rows), self.trained.parameters.shape.classes), np.float32)
        for begin in range(0, len(rows), _AT_ONCE):
            some = torch.from_numpy(rows[begin : begin + _AT_ONCE])
            scores = self.trained.parameters.scores(features, some)
            probabilities = torch.sigmoid(scores) if self.several else torch.softmax(scores, dim=1)
            found[begin : begin + _AT_ONCE] = scale_probabilities(probabilities.numpy(), self.temperature, self.several)
        return found

    def path_weights(self, paths: Sequence[Array]) -> Array:
        """Return A of paths of node numbers, `(k,)`."""
        network = self.trained.parameters.network
        if network is None or not paths:
            return np.ones(len(paths), np.float32)
        length = np.array([len(path) for path in paths])
        nodes = np.full((len(paths), length.max()), -1, np.int64)
        nodes[np.arange(nodes.shape[1]) < length[:, None]] = np.concatenate(paths)
        with torch.no_grad():
            weights = network(torch.from_numpy(self.own), torch.from_numpy(nodes), torch.from_numpy(length))
        found: Array = weights.numpy()
        return found

    def warn(self, outer: str) -> None:
        """Say so where learning the weights came to nothing."""
        # A second training may end before the weights collapse as they did in the first.
        kept, last = self.history[self.best_epoch - 1], (self.selection_history or self.history)[-1]
        if last.weight_mean is None:
            return
        if last.weight_mean < _COLLAPSED:
            here = "" if kept.weight_mean < _COLLAPSED else f" (the kept round {kept.epoch} had {kept.weight_mean:.2g})"
            use = Message.of("use {outer}", outer="unrolled")
            hint = use if outer == "paper" else Message.of("try a lower {weighting_lr}")
            problem = (
                f"path weights collapsed to a mean of {last.weight_mean:.2g}{here}, so paths hardly train the vectors"
            )
            warnings.warn(CgeWarning(Message(problem, "; ", hint)), stacklevel=4)
        elif kept.weight_std < _FLAT * kept.weight_mean:
            flat = f"path weights stayed flat (spread {kept.weight_std:.2g} around {kept.weight_mean:.2g})"
            uniform = Message.of("{weighting} gives about the same vectors", weighting="uniform")
            message = Message(flat, ": the labels prefer no path over another, and ", uniform)
            warnings.warn(CgeWarning(message), stacklevel=4)

    # ------------------------------------------------------------------ keeping it

    def facts(self) -> dict[str, Any]:
        """Return what a file of facts says of it."""
        shape = asdict(self.trained.parameters.shape)
        del shape["weighting"]  # stands in the settings
        return {
            "best_round": self.best_epoch,
            "temperature": self.temperature,
            "history": self.history.rows(),
            "labels_seen": self.labels_seen,
            "selection_history": None if self.selection_history is None else self.selection_history.rows(),
            "several": self.several,
            "shape": shape,
        }

    def arrays(self) -> dict[str, Array]:
        """Return its arrays by name."""
        found = {f"parameters.{name}": array for name, array in self.trained.parameters.arrays().items()}
        found |= {"known.nodes": self.known.astype(np.int64), "known.classes": self.matrix.astype(np.int8)}
        return found | ({} if self.chosen is None else self.chosen.arrays())

    @classmethod
    def restored(
        cls, model: Any, graph: Graph, classes: Array, facts: dict[str, Any], arrays: dict[str, Array]
    ) -> PaperModel:
        """Return what `facts` and `arrays` tell."""
        shape = ModelShape(weighting=chosen(model, "weighting"), **facts["shape"])
        width = 0 if graph.features is None else int(graph.features.shape[1])
        sizes = (graph.num_nodes, width, len(classes), _SETTINGS[model.encoder], chosen(model, "dim"), model.hidden)
        if (shape.nodes, shape.features, shape.classes, shape.setting, shape.dim, shape.hidden) != sizes:
            raise InputError("the sizes of graph, classes and parameters do not agree")
        parameters = Parameters(shape)
        begin = "parameters."
        parameters.load({name.removeprefix(begin): one for name, one in arrays.items() if name.startswith(begin)})
        trained = TrainingResult(
            parameters, History([PaperEpoch(**one) for one in facts["history"]]), int(facts["best_round"])
        )
        rows = facts["selection_history"]
        selection = None if rows is None else History([PaperEpoch(**one) for one in rows])
        features = _prepared(graph.features, model.n_jobs)
        known = known_from(arrays, "known", len(graph), len(classes))
        choosing = ValidationLabels.restored(arrays, len(graph), len(classes))
        told = selection, dict(facts["labels_seen"]), bool(facts["several"])
        return cls(graph, features, trained, *told, *known, choosing, float(facts.get("temperature", 1.0)))


def _prepared(features: Any, n_jobs: int | None = None) -> NodeFeatures | None:
    """Return features with rows of unit length (rows of zeros stay)."""
    if features is None:
        return None
    if sp.issparse(features):
        norms = np.sqrt(np.asarray(features.multiply(features).sum(axis=1)).ravel())
        scaled = sp.csr_array(sp.diags_array(1 / np.maximum(norms, 1e-12)) @ features).astype(np.float32)
        return SparseFeatures(scaled, n_jobs)
    norms = np.linalg.norm(features, axis=1, keepdims=True)
    return torch.from_numpy((features / np.maximum(norms, 1e-12)).astype(np.float32))
