"""A trained path encoder: vectors, chances, explanations, for its own graph and others; and what is kept of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cge.data.graph_update import check_same_features
from cge.errors import InputError
from cge.estimators.label_roles import ValidationLabels, known_from
from cge.graph import Graph
from cge.metrics import scale_probabilities
from cge.models.classifiers import PathClassifier
from cge.models.edge_weighting import EdgeScale, EdgeWeighting
from cge.models.path_networks import make_weighting
from cge.models.propagation import propagate_to
from cge.training.classifier_recipes import CLASSIFIERS, EncoderSettings, make_classifier
from cge.training.encoder_data import EncoderData
from cge.training.history import Epoch, History
from cge.training.model_comparison import closed_form_weightings
from cge.training.model_search import SearchResult, Selection
from cge.training.named_weighting import NamedWeighting
from cge.training.torch_state import TrainerState, load_module, module_arrays

__all__ = [
    "EncoderModel",
    "encoder_settings",
    "mean_probabilities",
    "plan_facts",
    "plan_from",
    "uncalibrated_probabilities",
]

Array = npt.NDArray[Any]

_DEFAULTS = {"dim": 32, "patience": 100, "walks_per_node": 20}  # what `CGE` leaves open
_MANY_CLASSES = {"dim": 64}  # where there are more classes than numbers in a vector


def encoder_settings(model: Any, classes: int) -> EncoderSettings:
    """Return the settings of `CGE` that the path encoder knows; what is left open goes by the number of classes."""
    names = [one.name for one in fields(EncoderSettings) if one.name != "seed"]
    told = {name: getattr(model, name) for name in names}
    free = _DEFAULTS | (_MANY_CLASSES if classes > _DEFAULTS["dim"] else {})
    told |= {name: value for name, value in free.items() if told[name] is None}
    return EncoderSettings(**told, seed=model.random_state)


def mean_probabilities(scores: Sequence[Tensor], several: bool) -> Array:
    """Return the mean chances of several readers' scores."""
    probabilities = [torch.sigmoid(one) if several else torch.softmax(one, dim=1) for one in scores]
    found: Array = torch.stack(probabilities).double().mean(0).numpy()
    return found


def uncalibrated_probabilities(
    data: EncoderData,
    plan: Selection,
    classifiers: Sequence[tuple[str, PathClassifier]],
    known: tuple[Array, Array] | None,
    several: bool,
    rows: Array,
) -> Array:
    """Return the chances of each class for some nodes, `(k, c)`, before calibration.

    `known` are the nodes whose labels vote and their classes.
    """
    nodes, propagation, votes = torch.from_numpy(rows), plan.weighting.propagation(data), None
    if plan.label_propagation and known is not None:
        votes = torch.from_numpy(plan.weighting.propagate_labels(data, *known, several, rows))[nodes]
    scores = []
    with torch.no_grad():
        for name, classifier in classifiers:
            propagated = propagate_to(propagation, classifier.project(data.inputs(CLASSIFIERS[name].rows)), nodes)
            found = classifier.scores(propagated + classifier.offset())
            scores.append(found if votes is None else found + classifier.label_weight * votes)
    return mean_probabilities(scores, several)


@dataclass(eq=False)
class EncoderModel:
    """A trained model: weights of paths, readers whose chances are averaged, and a reader that gives vectors.

    `known (k,)` are the nodes whose labels paths carry, `matrix (k, c)` their classes; `chosen` are the labels that
    chose. `shifted` says that the readers expect classes to be as common as among those. Chances are taken at a `temperature`;
    `temperatures` are those of new nodes with "edges only" and "features only".
    """

    data: EncoderData
    plan: Selection
    ensemble: tuple[tuple[str, PathClassifier], ...]
    classifier: tuple[str, PathClassifier]
    known: Array
    matrix: Array
    chosen: ValidationLabels
    several: bool
    temperature: float
    shifted: bool
    history: History
    best_epoch: int
    selection_history: History | None
    labels_seen: dict[str, int]
    temperatures: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.graph = self.data.graph
        self.own = self._vectors(self.data)
        self._last: tuple[Graph, EncoderData] | None = None

    @property
    def weighting_name(self) -> str:
        """What weighs paths."""
        return self.plan.weighting.name

    @property
    def classifier_names(self) -> list[str]:
        """Which readers predict."""
        return list(dict.fromkeys(name for name, _ in self.ensemble))

    @property
    def weight_parameters(self) -> dict[str, Any]:
        """The numbers that weigh steps and hops."""
        module = self.plan.weighting.module
        if not isinstance(module, EdgeWeighting):
            return {}
        coefficients = dict(zip(self.data.edge_scale.names, module.coefficients.tolist(), strict=True))
        hops = module.hop_weights().tolist()
        return {
            "coefficients": coefficients,
            "self_loop": module.self_loop.item(),
            "normalization": module.normalization.item(),
            "hops": hops,
        }

    @property
    def uses_label_propagation(self) -> bool:
        """Whether known labels vote."""
        return self.plan.label_propagation

    @property
    def over_uniform(self) -> tuple[float, float] | None:
        """By how much the weights were ahead of A ≡ 1 on the selection labels, and the standard error of that."""
        return self.plan.gain_over_uniform

    @property
    def comparison(self) -> list[dict[str, Any]]:
        """What was compared, as rows."""
        return [asdict(one) for one in self.plan.results]

    def _like(self, graph: Graph | None) -> EncoderData:
        """Return the data of a graph, the trained one by default; the last other one is kept."""
        if graph is None:
            return self.data
        if self._last is None or self._last[0] is not graph:
            self._last = graph, self.data_of(graph)
        return self._last[1]

    def data_of(self, graph: Graph) -> EncoderData:
        """Return another graph as this model sees it."""
        if self.data.uses_features:
            check_same_features(self.data.graph, graph)
        return EncoderData(graph, n_jobs=self.data.n_jobs, training_data=self.data)

    def _vectors(self, data: EncoderData) -> Array:
        name, classifier = self.classifier
        with torch.no_grad():
            carried = classifier.project(data.inputs(CLASSIFIERS[name].rows))
            found: Array = (self.plan.weighting.propagation(data)(carried) + classifier.offset()).numpy()
        return found

    def vectors(self, graph: Graph | None = None) -> Array:
        """Return vectors, `(n, dim)`."""
        return self.own if graph is None else self._vectors(self._like(graph))

    def probabilities(self, graph: Graph | None, rows: Array) -> Array:
        """Return the calibrated probability of each class for some nodes, `(k, c)`."""
        known = self._known_in(graph) if self.plan.label_propagation else None
        return self.probabilities_in(self._like(graph), known, rows, self.temperature)

    def probabilities_in(
        self, data: EncoderData, known: tuple[Array, Array] | None, rows: Array, temperature: float | Array
    ) -> Array:
        """Return them from the data of a graph and the labels known in it, taken at a heat, or at one for each row."""
        found = uncalibrated_probabilities(data, self.plan, self.ensemble, known, self.several, rows)
        return scale_probabilities(found, temperature, self.several).astype(np.float32)

    def _known_in(self, graph: Graph | None) -> tuple[Array, Array]:
        """Return the nodes of a graph whose labels are known from training, and their classes."""
        if graph is None:
            return self.known, self.matrix
        ids = self.graph.node_ids[self.known]
        there = graph.contains(ids)
        return graph.indices_of(ids[there]), self.matrix[there]

    def path_weights(self, paths: Sequence[Array]) -> Array:
        """Return A of paths of node numbers, `(k,)`; 0 for what is no path of the graph."""
        return self.plan.weighting.path_weights(self.data, paths)

    # ------------------------------------------------------------------ keeping it

    def facts(self) -> dict[str, Any]:
        """Return what a file of facts says of it."""
        return {
            "best_round": self.best_epoch,
            "by_features": self.data.uses_features,
            "temperature": self.temperature,
            "temperatures": self.temperatures,
            "history": self.history.rows(),
            "inputs": list(self.data.edge_scale.names),
            "labels_seen": self.labels_seen,
            "leaders": [name for name, _ in self.ensemble],
            "plan": plan_facts(self.plan),
            "classifier": self.classifier[0],
            "selection_history": None if self.selection_history is None else self.selection_history.rows(),
            "several": self.several,
            "shifted": self.shifted,
        }

    def arrays(self) -> dict[str, Array]:
        """Return its arrays by name."""
        scale, dense, table = self.data.edge_scale, self.data.dense_scale, self.data.walk_vectors
        found: dict[str, Array] = {} if table is None else {"walks.vectors": table}
        found |= {
            "known.nodes": self.known.astype(np.int64),
            "known.classes": self.matrix.astype(np.int8),
            "scale.mean": scale.mean,
            "scale.spread": scale.spread,
            "scale.rarity": scale.idf,
            "dense.center": dense[0],
            "dense.spread": dense[1],
        }
        kept = self.data.closed_walks.get(self.weighting_name)
        if self.plan.label_propagation and kept is not None and np.array_equal(kept[0], self.known):
            found["known.returns"] = kept[1]
        for place, (_, classifier) in enumerate(self.ensemble):
            found |= module_arrays(classifier, f"leader.{place}")
        found |= module_arrays(self.classifier[1], "classifier")
        return found | self.chosen.arrays() | module_arrays(self.plan.weighting.module, "weights")

    @classmethod
    def restored(
        cls, model: Any, graph: Graph, classes: Array, facts: dict[str, Any], arrays: dict[str, Array]
    ) -> EncoderModel:
        """Return what `facts` and `arrays` tell."""
        names = tuple(str(name) for name in facts["inputs"])
        scale = EdgeScale(
            names, *(np.array(arrays[f"scale.{part}"], np.float64) for part in ("mean", "spread", "rarity"))
        )
        if len(scale.mean) != len(scale.spread) or len(scale.mean) > len(names):
            raise InputError("the inputs of steps and their scale do not agree")
        if not (scale.spread > 0).all():
            raise InputError("the scale of inputs must be positive")
        dense = np.array(arrays["dense.center"], np.float32), np.array(arrays["dense.spread"], np.float32)
        carried = "auto" if facts["by_features"] else "learned"
        table = None if "walks.vectors" not in arrays else np.array(arrays["walks.vectors"], np.float32)
        if table is not None and (table.ndim != 2 or len(table) != len(graph)):
            raise InputError(f"the vectors of walks must have a row for each of {len(graph):,} nodes")
        data = EncoderData(graph, carried, model.n_jobs, edge_scale=scale, dense_scale=dense, walk_vectors=table)
        if not (len(classes) and len(arrays["classifier.bias"])):
            raise InputError("there must be a class, and vectors of at least one number")
        # Vectors are as long as they were: the default has changed before.
        settings = replace(encoder_settings(model, len(classes)), dim=len(arrays["classifier.bias"]))
        plan = plan_from(data, settings, TrainerState({"plan": facts["plan"]}, arrays))

        def classifier(name: str, where: str) -> tuple[str, PathClassifier]:
            made = make_classifier(name, data, settings.dim, len(classes), 0)
            load_module(made, where, arrays)
            return name, made

        temperatures = {name: float(temperature) for name, temperature in dict(facts.get("temperatures", {})).items()}
        if not all(0 < one < np.inf for one in (float(facts["temperature"]), *temperatures.values())):
            raise InputError("the heats of chances must be positive and finite")
        known, matrix = known_from(arrays, "known", len(graph), len(classes))
        if "known.returns" in arrays:
            returns = np.array(arrays["known.returns"], np.float64)
            if returns.shape != known.shape or not np.isfinite(returns).all():
                raise InputError("the known labels and the paths that return to them do not agree")
            data.closed_walks[plan.weighting.name] = known, returns
        if not facts["leaders"]:
            raise InputError("there is no reader")
        rows = facts["selection_history"]
        return cls(
            data,
            plan,
            tuple(classifier(name, f"leader.{place}") for place, name in enumerate(facts["leaders"])),
            classifier(facts["classifier"], "classifier"),
            known,
            matrix,
            ValidationLabels.restored(arrays, len(graph), len(classes)),
            bool(facts["several"]),
            float(facts["temperature"]),
            bool(facts.get("shifted", False)),
            History([Epoch(**one) for one in facts["history"]]),
            int(facts["best_round"]),
            None if rows is None else History([Epoch(**one) for one in rows]),
            dict(facts["labels_seen"]),
            temperatures,
        )


def plan_facts(plan: Selection) -> dict[str, Any]:
    """Return what a file of facts says of a plan; the numbers of its weights are arrays."""
    prior = plan.weighting.base
    return {
        "weights": plan.weighting.name,
        "sampled": list(plan.weighting.sampled),
        "prior": None if prior is None else prior.name,
        "hops": len(plan.weighting.edge_weighting.hops),
        "classifiers": list(plan.classifiers),
        "votes": plan.label_propagation,
        "compared": [asdict(one) for one in plan.results],
        "over_none": plan.gain_over_uniform,
    }


def plan_from(data: EncoderData, settings: EncoderSettings, saved: TrainerState) -> Selection:
    """Return a plan that `_plan_facts` and the arrays of its weights tell."""
    facts = saved.metadata["plan"]
    sampled, prior, hops = tuple(int(part) for part in facts["sampled"]), None, int(facts["hops"])
    if not 1 <= hops <= settings.hops + 1:
        raise InputError(f"{hops:,} weights of hops, but paths have at most {settings.hops:,} steps")
    if facts["prior"] is None:
        module: Any = EdgeWeighting([0.0] * len(data.edge_scale.names), 0.0, 0.0, [1.0] * hops)
    else:
        prior = NamedWeighting(
            str(facts["prior"]), closed_form_weightings(data.edge_scale.names, hops - 1)[facts["prior"]]
        )
        module = make_weighting(settings.weighting, int(data.token_vectors(sampled[1]).shape[1]))
        if module is None:
            raise InputError("a plan without weights")
        module.eval()
    load_module(module, "weights", saved.arrays)
    classifiers = tuple(str(name) for name in facts["classifiers"])
    compared = tuple(SearchResult(**one) for one in facts["compared"])
    weights = NamedWeighting(str(facts["weights"]), module, (sampled[0], sampled[1]), prior)
    over_uniform = facts.get("over_none")
    return Selection(
        weights, classifiers, bool(facts["votes"]), compared, None if over_uniform is None else tuple(over_uniform)
    )
