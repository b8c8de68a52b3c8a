"""What a fit is going to do, before anything is trained: label counts, candidates of the model search, memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from cge.estimators.cge import CGE
from cge.estimators.classifier import TaskLabels
from cge.estimators.encoder_options import encoder_settings, outer_folds, resolve_inputs
from cge.estimators.labeled_fit import fits_labeled_rows
from cge.estimators.paper_cge import PaperCGE, count_labels, label_stages, training_settings
from cge.estimators.path_estimator import PathEstimator, checked_labels
from cge.graph import Graph
from cge.models.weightings import is_learned
from cge.training.candidates import Candidate, SearchProblem, encoder_memory, list_candidates, paper_memory
from cge.training.data_size import data_size, feature_entries, labeled_size, nodes_without_features
from cge.training.encoder_settings import ProblemSize, Work
from cge.training.labeled_rows import labeled_candidates, labeled_settings


@dataclass(frozen=True)
class FitPlan:
    """A fit before it starts."""

    labels: dict[str, int]  # numbers of labels for training ("train"), learning weights ("outer") and "validation"
    refit: bool  # whether a second training on all labels follows
    sizes: dict[str, Any]  # settings with the values that will be used
    peak_bytes: float  # estimated memory
    inputs: str | None = None  # node inputs of the path encoder
    cross_validated: bool = False  # whether validation labels are held-out folds of the training labels
    problem: SearchProblem | None = None  # of the model search
    candidates: tuple[Candidate, ...] = ()  # of the model search, in order; the last is trained until it stops

    def rows(self) -> list[dict[str, Any]]:
        """Return the candidates as rows of a table."""
        return [candidate.row() for candidate in self.candidates]


def plan_fit(model: PathEstimator, graph: Graph, y: Any, validation: Any = None) -> FitPlan:
    """Return the plan of `model.fit(graph, y, validation)`; nothing is trained, and no inputs are computed."""
    labels = checked_labels(model, graph, y, validation)
    if isinstance(model, CGE):
        return _plan_encoder(model, graph, labels)
    return _plan_paper(cast(PaperCGE, model), graph, labels)


def _plan_encoder(model: CGE, graph: Graph, labels: TaskLabels) -> FitPlan:
    split = labels.split(model)
    settings, labeled_rows = encoder_settings(model, len(labels.classes)), fits_labeled_rows(model, graph)
    features: Any = graph.features
    n_learned = len(nodes_without_features(graph, model.inputs))
    whole = data_size(graph, resolve_inputs(model.inputs, graph), n_learned)
    n_labels = len(split.train), len(split.validation)
    work = Work(settings, ProblemSize.of(whole, sum(n_labels), len(labels.classes)))
    if labeled_rows:
        settings = labeled_settings(settings)
        data, n_folds = labeled_size(len(labels.nodes), features.shape[1]), 0
    else:
        data, n_folds = whole, len(outer_folds(model, labels, split))
    size = ProblemSize.of(data, sum(n_labels), len(labels.classes))
    problem = SearchProblem.of(data, size, n_labels, n_folds)
    candidates = list_candidates(problem, settings)
    if labeled_rows:
        candidates = labeled_candidates(candidates)
    names = [settings.weighting, *(each.weighting for each in candidates if each.stage == "weighting")]
    # principal components are computed from all features
    entries = max(whole.entries, feature_entries(graph)) if whole.inputs == "features" else whole.entries
    n_train, n_outer = len(labels.train if split.refit else split.train), len(split.train)
    return FitPlan(
        labels={
            "train": n_train,
            "outer": n_outer if any(map(is_learned, names)) else 0,
            "validation": len(split.validation),
        },
        refit=split.refit,
        sizes={"dim": settings.dim, "hops": settings.hops, "n_estimators": model.n_estimators},
        peak_bytes=encoder_memory(candidates, work, nodes=len(graph), entries=entries, columns=whole.columns),
        inputs=whole.inputs,
        cross_validated=bool(split.folds),
        problem=problem,
        candidates=tuple(candidates),
    )


def _plan_paper(model: PaperCGE, graph: Graph, labels: TaskLabels) -> FitPlan:
    settings, stages = training_settings(model), label_stages(model, labels)
    sizes = {name: getattr(settings, name) for name in ("dim", "walks_per_node", "walk_length", "window")}
    name = settings.weighting if isinstance(settings.weighting, str) else "custom"
    more: dict[str, Any] = {"setting": settings.setting, "weighting": name}
    more |= {"loss": "softmax" if settings.full_softmax(graph) else "negative", "negatives": settings.negatives}
    more |= {"max_epochs": settings.total_epochs, "outer_labels": model.outer_labels}
    peak_bytes = paper_memory(name, graph.num_nodes, feature_entries(graph), **sizes)
    return FitPlan(count_labels(stages), len(stages) > 1, sizes | more, peak_bytes)
