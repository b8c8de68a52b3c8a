"""What a fit of `CGE` is going to do, and about what it costs, before anything is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cge.estimators.classifier import TaskLabels
from cge.estimators.configs import OuterConfig, as_config, flat_params
from cge.estimators.encoder_fit import WALK_VECTORS, encoder_settings, resolve_inputs
from cge.estimators.label_roles import hold_out
from cge.graph import Graph
from cge.training.classifier_recipes import DENSE, EncoderSettings, ProblemSize
from cge.training.cost import Cost, PairSize, PathSize, Training, pair_cost, path_cost
from cge.training.model_search import MIN_VALIDATION
from cge.training.paper_settings import MAX_SOFTMAX_NODES

__all__ = ["FitPlan", "plan_fit"]

_PRIORS = ("uniform", "degree", "cosine", "own")
_LASTS = 0.7  # share of the epochs at most after which patience ends, as measured


@dataclass(frozen=True)
class FitPlan:
    """A fit before it begins: `sizes` are settings as they will be, `labels` how many serve what."""

    encoder: str
    inputs: str | None
    weightings: tuple[str, ...]
    classifiers: tuple[str, ...]
    label_propagation: str | None
    labels: dict[str, int]
    refit: bool
    sizes: dict[str, Any]
    cost: Cost


def plan_fit(model: Any, graph: Graph, y: Any, validation: Any = None) -> FitPlan:
    """Return the plan of `model.fit(graph, y, validation)`; nothing is trained.

    Examples
    --------
    >>> from cge import CGE, Graph
    >>> graph = Graph.from_edges([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)])
    >>> plan = plan_fit(CGE(), graph, {0: "left", 1: "left", 3: "right", 4: "right"})
    >>> plan.inputs, plan.weightings, plan.classifiers
    ('learned', ('degree',), ('mlp',))
    """
    known = model.checked_labels(graph, y, validation)
    given = len(known.validation) > 0
    kept, held = (known.train, known.validation) if given else _held_out(model, known)
    again = bool(model.refit and not given and len(held))
    labels = {"train": len(known.train if again else kept), "outer": 0, "validation": len(held)}
    if hasattr(model, "classifier"):
        return _of_paths(model, graph, known, len(kept), labels, again)
    return _of_pairs(model, graph, labels, again)


def _held_out(model: Any, known: TaskLabels) -> Any:
    return hold_out(known.codes, known.train, model.validation_fraction, model.random_state)


# ---------------------------------------------------------------------- the path encoder


def _of_paths(model: Any, graph: Graph, known: TaskLabels, kept: int, labels: dict[str, int], again: bool) -> FitPlan:
    settings, n_folds = encoder_settings(model, len(known.classes)), as_config(OuterConfig, model.outer_problem).n_folds
    features: Any = graph.features
    inputs = resolve_inputs(model.inputs, graph, known.target)
    entries, columns = graph.num_nodes, graph.num_nodes
    if inputs == "features":
        entries, columns = int(getattr(features, "nnz", features.size)), int(features.shape[1])
    elif inputs == "walks":
        entries, columns = graph.num_nodes * WALK_VECTORS["dim"], WALK_VECTORS["dim"]
    steps = len(graph.indices) + graph.num_nodes
    dense = inputs == "walks" or (inputs == "features" and not hasattr(features, "nnz"))
    work = entries // DENSE if dense else entries
    labeled = kept + labels["validation"]
    problem_size = ProblemSize(steps, work, columns if dense else 0, labeled, len(known.classes))
    size = PathSize(graph.num_nodes, steps, entries, columns, len(known.classes), kept, settings.hops)
    selecting = labels["validation"] >= MIN_VALIDATION
    asked = model.weighting if isinstance(model.weighting, str) else "custom"
    weightings, classifiers = _candidates(asked, settings.classifier, selecting, features is not None, kept > 3)
    if asked == "auto" and inputs == "walks":  # they hold what paths bring: a node's own comes first
        weightings = ("own", *(weightings if selecting else ()))
    if len(classifiers) > 1:
        classifiers = tuple(
            name for name in classifiers if settings.affordable(name, settings.products(name, problem_size))
        )
    if asked == "auto" and settings.learning(problem_size, n_folds) > settings.search(problem_size):
        weightings = tuple(name for name in weightings if name in _PRIORS)
    outer = settings.outer(problem_size, n_folds)
    learned = [name for name in weightings if name not in _PRIORS]
    votes = {"yes": "yes", "no": "no"}.get(settings.label_propagation, "asked for" if selecting else "no")
    votes = "yes" if settings.classifier == "distilled" else votes
    trainings = _trainings(settings, problem_size, weightings, classifiers, votes, selecting, again, model.n_estimators)
    sampled = (
        settings.walks_per_node * (settings.hops + 1) if asked not in (*_PRIORS, "auto", "edges", "edges+hops") else 0
    )
    counted = {"yes": len(weightings), "asked for": 1, "no": 0}[votes]
    epochs = {name: _recipe(settings, problem_size, name).settings.max_epochs for name in classifiers}
    return FitPlan(
        "paths",
        inputs,
        weightings,
        classifiers,
        votes,
        labels | {"outer": kept if learned else 0},
        again,
        {"dim": settings.dim, "hops": settings.hops, "epochs": epochs, "models": model.n_estimators},
        path_cost(
            size,
            trainings,
            len(learned) * (outer.warmup_steps + outer.steps),
            n_folds,
            counted,
            sampled,
        ),
    )


def _candidates(
    weighting: str, classifier: str, selecting: bool, features: bool, folds: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the weightings and the readers that will be compared; one alone is not."""
    weightings = (weighting,)
    if weighting == "auto":
        others = ("uniform", *(("cosine",) if features else ()), *(("edges",) if folds else ()))
        weightings = ("degree", *others) if selecting else ("degree",)
    if classifier != "auto":
        return weightings, (classifier,)
    return weightings, ("mlp", "consistency", "sparse") if selecting else ("mlp",)


def _recipe(settings: EncoderSettings, problem_size: ProblemSize, classifier: str) -> Any:
    return settings.recipe(classifier, settings.seed, settings.products(classifier, problem_size))


def _trainings(
    settings: EncoderSettings,
    problem_size: ProblemSize,
    weightings: tuple[str, ...],
    classifiers: tuple[str, ...],
    votes: str,
    selecting: bool,
    again: bool,
    models: int,
) -> list[Training]:
    """Return the trainings to expect; of deep and sparse readers half the time each, since one of them mostly wins."""

    def some(names: tuple[str, ...], share: float = 0.0, begun: bool = False) -> list[Training]:
        """Return trainings of a share of the epochs, beyond judging where they were begun, or for judging alone."""
        found = []
        for name in names:
            recipe = _recipe(settings, problem_size, name)
            epochs = share * recipe.settings.max_epochs - (recipe.evaluate_after if begun else 0)
            epochs = max(epochs, 0) if share else recipe.evaluate_after
            carried = settings.carried(name, problem_size.classes)
            found.append(
                Training(
                    recipe.settings.n_augmentations, carried, epochs / len(names), settings.rows(name, problem_size)
                )
            )
        return found

    left = classifiers if len(classifiers) == 1 else tuple(name for name in classifiers if name != "mlp")
    compared = len(classifiers) > 1 or len(weightings) > 1
    found = [one for name in classifiers for one in some((name,))] if compared else []
    if votes == "asked for":
        found += some(("mlp",))
    found += [one for _ in weightings[1:] for one in some(left)]
    if selecting and any(name not in _PRIORS for name in weightings):
        found += some(("mlp",))  # which prior learning starts from
    found += models * some(left, _LASTS if selecting else 1.0, begun=compared)
    if again:
        found += models * some(left, _LASTS / 2)
    return found


# ---------------------------------------------------------------------- the paper's encoders


def _of_pairs(model: Any, graph: Graph, labels: dict[str, int], again: bool) -> FitPlan:
    names = ("dim", "walks_per_node", "walk_length", "window", "negatives")
    params = flat_params(model)
    sizes = {name: params[name] for name in names}
    entries = 0 if graph.features is None else int(getattr(graph.features, "nnz", graph.features.size))
    softmax = model.loss == "softmax" or (model.loss == "auto" and graph.num_nodes <= MAX_SOFTMAX_NODES)
    rounds = params["pretrain"] + params["max_epochs"]
    weighting = model.weighting
    name = weighting if isinstance(weighting, str) else "custom"
    if name != "uniform" and model.outer == "unrolled":
        half = (labels["validation"] + 1) // 2 if model.outer_labels == "validation" else 0
        labels = labels | {"outer": half or labels["train"], "validation": labels["validation"] - half}
    size = PairSize(graph.num_nodes, entries, softmax=softmax, **sizes)
    told = sizes | {"loss": "softmax" if softmax else "negative", "max_epochs": rounds}
    cost = pair_cost(size, model.setting, name, 2 * rounds if again else rounds)
    return FitPlan(model.setting, None, (name,), (), None, labels, again, told, cost)
