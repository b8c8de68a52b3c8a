"""What a fit is going to do, before anything is trained: label counts, candidates of the model search, memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from cge.estimators.cge import CGE
from cge.estimators.classifier import TaskLabels
from cge.estimators.configs import OuterConfig, as_config, flat_params
from cge.estimators.encoder_options import encoder_settings, resolve_inputs
from cge.estimators.labeled_fit import fits_labeled_rows
from cge.estimators.paper_cge import PaperCGE
from cge.estimators.path_estimator import PathEstimator
from cge.graph import Graph
from cge.models.weightings import is_learned
from cge.training.candidates import Candidate, SearchProblem, encoder_memory, list_candidates, paper_memory
from cge.training.encoder_settings import DENSE, ProblemSize, Work
from cge.training.labeled_rows import labeled_candidates
from cge.training.paper_parameters import MAX_SOFTMAX_NODES
from cge.training.walk_inputs import WALK_DIM


@dataclass(frozen=True)
class FitPlan:
    """A fit before it starts."""

    labels: dict[str, int]  # numbers of labels for training ("train"), learning weights ("outer") and "validation"
    refit: bool  # whether a second training on all labels follows
    sizes: dict[str, Any]  # settings with the values that will be used
    peak_bytes: float  # estimated memory
    inputs: str | None = None  # node inputs of the path encoder
    cross_validated: bool = False  # whether validation labels are held-out folds of the training labels
    candidates: tuple[Candidate, ...] = ()  # of the model search, in order; the last is trained until it stops

    def rows(self) -> list[dict[str, Any]]:
        """Return the candidates as rows of a table."""
        return [candidate.row() for candidate in self.candidates]


def plan_fit(model: PathEstimator, graph: Graph, y: Any, validation: Any = None) -> FitPlan:
    """Return the plan of `model.fit(graph, y, validation)`; nothing is trained."""
    labels = model._checked_labels(graph, y, validation)
    train_idx, validation_idx, refit = labels.split(model)
    cross_fit = labels.cross_fit(model)
    if cross_fit:
        train_idx, validation_idx = labels.train, np.concatenate([held_out_idx for _, held_out_idx in cross_fit])
    counts = {"train": len(labels.train if refit else train_idx), "outer": 0, "validation": len(validation_idx)}
    if isinstance(model, CGE):
        return _plan_encoder(model, graph, labels, len(train_idx), counts, refit, bool(cross_fit))
    return _plan_paper(cast(PaperCGE, model), graph, counts, refit)


def _plan_encoder(
    model: CGE,
    graph: Graph,
    labels: TaskLabels,
    n_train: int,
    counts: dict[str, int],
    refit: bool,
    cross_fit: bool,
) -> FitPlan:
    settings = encoder_settings(model, len(labels.classes))
    n_folds = as_config(OuterConfig, model.outer_problem).n_folds
    features: Any = graph.features
    inputs = resolve_inputs(model.inputs, graph)
    entries, columns = graph.num_nodes, graph.num_nodes
    if inputs == "features":
        entries, columns = int(getattr(features, "nnz", features.size)), int(features.shape[1])
    elif inputs == "walks":
        entries, columns = graph.num_nodes * WALK_DIM, WALK_DIM
    dense = inputs == "walks" or (inputs == "features" and not hasattr(features, "nnz"))
    inputs_size = {"entries": entries // DENSE, "columns": columns} if dense else {"entries": entries, "columns": 0}
    n_labeled, transitions = n_train + counts["validation"], len(graph.indices) + graph.num_nodes
    counted = {"transitions": transitions, "labeled": n_labeled, "classes": len(labels.classes), "input_dim": columns}
    size = ProblemSize(**counted, **inputs_size)
    learns = not cross_fit or is_learned(model.weighting)  # labels that are validated on learn nothing
    folds = min(n_folds, n_train) if n_train > 3 and learns else 0
    problem = SearchProblem(
        size, n_train, counts["validation"], folds, features is not None, inputs, graph.num_relations > 1
    )
    candidates, work = list_candidates(problem, settings), Work(settings, size)
    if fits_labeled_rows(model, graph):
        rows = {"transitions": n_labeled, "entries": n_labeled * columns // DENSE, "columns": columns}
        settings = replace(settings, label_propagation=False)
        candidates = list_candidates(replace(problem, size=replace(size, **rows)), settings)
        candidates = labeled_candidates(candidates)
    names = [settings.weighting, *(each.weighting for each in candidates if each.stage == "weighting")]
    return FitPlan(
        labels=counts | {"outer": n_train if any(map(is_learned, names)) else 0},
        refit=refit,
        sizes={"dim": settings.dim, "hops": settings.hops, "n_estimators": model.n_estimators},
        peak_bytes=encoder_memory(candidates, work, nodes=graph.num_nodes, entries=entries, columns=columns),
        inputs=inputs,
        cross_validated=cross_fit,
        candidates=tuple(candidates),
    )


def _plan_paper(model: PaperCGE, graph: Graph, counts: dict[str, int], refit: bool) -> FitPlan:
    params = flat_params(model)
    sizes = {name: params[name] for name in ("dim", "walks_per_node", "walk_length", "window")}
    entries = 0 if graph.features is None else int(getattr(graph.features, "nnz", graph.features.size))
    softmax = model.loss == "softmax" or (model.loss == "auto" and graph.num_nodes <= MAX_SOFTMAX_NODES)
    name = model.weighting if isinstance(model.weighting, str) else "custom"
    if name != "uniform" and model.outer == "unrolled":
        half = (counts["validation"] + 1) // 2 if model.outer_labels == "validation" else 0
        counts = counts | {"outer": half or counts["train"], "validation": counts["validation"] - half}
    more: dict[str, Any] = {"setting": model.setting, "weighting": name, "loss": "softmax" if softmax else "negative"}
    more |= {"negatives": model.negatives, "max_epochs": params["pretrain"] + params["max_epochs"]}
    more |= {"outer_labels": model.outer_labels}
    return FitPlan(counts, refit, sizes | more, paper_memory(name, graph.num_nodes, entries, **sizes))
