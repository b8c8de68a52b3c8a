"""The captions of the charts of a report, which depend on the kind of model."""

from __future__ import annotations

from collections.abc import Sequence

from cge.errors import counted
from cge.estimators.encoder_options import resolve_inputs
from cge.estimators.path_estimator import PathEstimator
from cge.explain.explainer import Explainer
from cge.explain.faithfulness import MAX_PATHS
from cge.models.weightings import WEIGHTINGS
from cge.report.scored_nodes import ScoredNodes
from cge.targets import TargetTexts
from cge.training.classifier_registry import CLASSIFIERS

_LOSSES = {  # columns of a history
    "supervised_loss": "Supervised loss: mean loss on the training labels.",
    "consistency_loss": "Consistency loss: squared distance between the predictions of augmented inputs and their "
    "sharpened mean. For 'distilled' this curve is the distillation loss: {distillation}.",
    "path_loss": "Path loss: skip-gram loss of a sample of paths.",
    "outer_loss": "Outer loss: loss on held-out labels, which trains the path weights.",
}
_PAPER_OUTER_LOSS = (
    "Outer loss: weighted path loss after a trial gradient step of the vectors, which trains the path weights (Hou et "
    "al. 2019, Eq. 15)."
)


def captions(
    model: PathEstimator, n_shown: int, n_paths: int, n_tested: int, scored: ScoredNodes | None, projection: str
) -> dict[str, str]:
    """Return the captions of charts, by id.

    `n_shown` nodes are on the page, with up to `n_paths` paths each, and `n_tested` in the test of faithfulness;
    `projection` describes the map.
    """
    n_nodes, explainer, texts = len(model.graph_), model.explainer(), model.fitted_.target.texts
    part = "" if n_nodes == n_shown else f" {n_shown:,} of {n_nodes:,} nodes are shown."
    labels = "" if scored is None else f"{len(scored.nodes):,} {scored.kind} labels."
    name, weight_text = weight_name(model), "absolute relative weights" if model.fitted_.exact else "weights A(p)"
    return {
        "curves-caption": _curves_caption(model),
        "map-caption": f"Vectors (embeddings), scaled to unit length, in two dimensions ({projection}). Colors show "
        "labels (training, validation and test) or, for nodes without a label, predictions. Click a node to see its "
        f"paths.{part}",
        "explorer-caption": _explorer_caption(model, explainer),
        "confusion-caption": f"{labels} Colors are normalized by row.",
        "by-class-caption": labels,
        "reliability-caption": "" if scored is None else _reliability_caption(scored),
        "strongest-caption": _strongest_caption(explainer, n_paths),
        "weighting-caption": _weighting_caption(model),
        "weight-by-class-title": f"{name[0].upper()}{name[1:]} by {texts.noun}",
        "weight-by-class-caption": "Row: label of a node on the path after its start (unlabeled nodes are not "
        f"counted); column: predicted {texts.noun} of the start; color: geometric mean of the {weight_text} of these "
        "paths.",
        "faithfulness-caption": _faithfulness_caption(model, explainer, n_tested),
    }


def _curves_caption(model: PathEstimator) -> str:
    """Return the best epoch and what the curves mean."""
    refit = "" if model.selection_history_ is None else "; then the model was refitted on all labels"
    history = model.history_ if model.selection_history_ is None else model.selection_history_
    losses = _LOSSES | ({"outer_loss": _PAPER_OUTER_LOSS} if model.outer == "paper" else {})
    distillation = model.fitted_.target.texts.distillation
    curves = [
        text.format(distillation=distillation)
        for name, text in losses.items()
        if any(row.get(name) for row in history.rows())
    ]
    convex = [name for name in model.fitted_.registered_classifiers[:1] if CLASSIFIERS[name].convex]
    values = ["An epoch is one value of the regularization parameter C."] if convex else []
    return " ".join([f"Best epoch {model.best_epoch_} (dotted line){refit}.", *values, *curves])


def _explorer_caption(model: PathEstimator, explainer: Explainer) -> str:
    """Return what the path explorer shows, which depends on the inputs, the weighting and label propagation."""
    has_features, has_labels = explainer.score_function.features is not None, _has_label_paths(explainer)
    inputs, part = ("features", "its features") if has_features else ("inputs", "its vector")
    if model.fitted_.exact and not has_features:
        walks = resolve_inputs(str(model.get_params()["inputs"]), model.graph_) == "walks"
        part = "its walk embedding" if walks else "its learned input"
    parts, part = (f"{inputs} and training labels", f"{part} or its training label") if has_labels else (inputs, part)
    texts = model.fitted_.target.texts
    sentences = [f"What contributes most to the {texts.predicted_score}, positively or negatively:"]
    sentences.append(f"the endpoints (last nodes) of paths, with what their {parts} contribute, and single paths.")
    sentences.append(f"“Ends at” says which data of the last node contribute: {part}.")
    sentences += [_weight_text(model), _walk_text(model, has_labels)]
    sentences.append("In the drawings of paths, a ring marks nodes with a training label.")
    classifier = explainer.classifier
    if classifier.count > 1:
        averages = f"The model averages the {texts.outputs} of {classifier.count} classifiers"
        sentences.append(f"{averages}; scores and paths here are those of the first, {classifier.name!r}.")
    if not model.fitted_.exact:
        sentences.append("For PaperCGE, contributions are an attribution, not an exact sum.")
    return " ".join(sentences)


def _has_label_paths(explainer: Explainer) -> bool:
    """Return whether labels are propagated, so that paths also end at labels."""
    return explainer.score_function.label_paths is not None


def _weight_text(model: PathEstimator) -> str:
    """Return what the weight of a path is, as the explorer and the charts show it."""
    if not model.fitted_.exact:
        network = "A(p): weight of path p, from 0 to 1, the output of the network for the node vectors along p."
        return "There is no network: A(p) = 1 for every path." if model.weighting_ == "uniform" else network
    if uses_network(model):
        return (
            "Relative weight: output of the network (0 to 1) times the weight under the fixed weighting (nothing "
            "learned) that its walks are sampled from, divided by that in a random walk (uniform weights); only ratios "
            "between paths of one node are meaningful."
        )
    return "Relative weight: path weight A(p) divided by that in a random walk (uniform weights)."


def _walk_text(model: PathEstimator, has_labels: bool) -> str:
    """Return what a path is: `CGE` adds self-loops to the graph, except for weights of metapaths."""
    walk, spec = "A path is a walk: nodes may repeat", WEIGHTINGS.get(model.weighting_)
    if not model.fitted_.exact:
        return f"{walk}."
    if spec is None or not spec.metapaths:
        return f"{walk}, and every node has a self-loop."
    return f"{walk}. Only paths that end at labels use self-loops." if has_labels else f"{walk}."


def _reliability_caption(scored: ScoredNodes) -> str:
    """Return what a reliability diagram shows; "" where there is none."""
    diagram, shown = scored.reliability(), scored.target.texts.reliability
    if diagram is None:
        return ""
    texts = [f"{shown}; on the diagonal, probabilities are well calibrated. Larger points stand for more predictions."]
    error = f"{100 * diagram['error']:.1f} %"
    texts.append(f"Expected calibration error: {error}, on {len(scored.nodes):,} {scored.kind} labels.")
    return " ".join(texts)


def _strongest_caption(explainer: Explainer, n_paths: int) -> str:
    """Return which paths the charts of path weights show: not those to labels, whose weights have no hop weights."""
    which = f"its (up to {n_paths}) paths with the largest contributions"
    which = f"those of {which} that end at inputs, not at labels" if _has_label_paths(explainer) else which
    selected = "Because these paths are selected by contribution, large weights are over-represented compared with all"
    return f"The following charts show, for each node, {which}. {selected} paths."


def _weighting_caption(model: PathEstimator) -> str:
    """Return the weighting with its classifiers, and what the names in its charts mean."""
    if not model.fitted_.exact:
        return f"Weighting: {model.weighting_}. {_weight_text(model)}"
    spec = WEIGHTINGS.get(model.weighting_)
    of_first = " of the first classifier" if len(model.fitted_.weighting_names()) > 1 else ""
    texts = [f"Weighting{of_first}: {model.weighting_}{'' if spec is None else f' ({spec.description})'}."]
    names = model.fitted_.registered_classifiers
    texts.append(f"Classifiers: {'; '.join(f'{name} ({CLASSIFIERS[name].description})' for name in names)}.")
    if spec is not None and "normalization exponent" in spec.description:
        degrees = " (degrees in the relation of the edge)" if spec.metapaths else ""
        divided = "the strength g of an edge is divided by (sum of g at its source)¹⁻ᵇ · (sum of g at its target)ᵇ"
        if not spec.learned:
            divided = "the weight of an edge is divided by degree(source)¹⁻ᵇ · degree(target)ᵇ"
        texts.append(f"Normalization exponent b: {divided}{degrees}; b = 0 as in a random walk, b = ½ as in GCN.")
    which = "its sampled paths" if uses_network(model) else "all paths that start at it"
    texts.append(f"Propagated inputs of a node: the sum over {which} of path weight A(p) × inputs of the last node.")
    texts.append(_weight_text(model))
    if any(model.fitted_.edge_coefficients.values()):
        texts.append(
            "Edge inputs: standardized numbers computed for each edge, such as the cosine of the features of its "
            "nodes, each aggregated with those of its neighbors (context cosine), and 0/1 indicators of its type; "
            "where θ is positive, edges with large values have larger weights."
        )
    if model.fitted_.hop_weights:
        texts.append("Hop weight: factor of the weights of all paths with that number of hops.")
    if model.graph_.num_relations > 1:
        texts.append("Relation: source type, edge type and target type. Metapath: sequence of the relations of a path.")
    return " ".join(texts)


def _faithfulness_caption(model: PathEstimator, explainer: Explainer, n_tested: int) -> str:
    """Return how the curves of deletion and insertion were measured, and how to read them."""
    classifier, vectors = explainer.classifier, "part of a node's vector that is attributed to paths"
    vectors = "propagated inputs of a node" if model.fitted_.exact else vectors
    which = f"that of the first of {classifier.count} averaged classifiers, {classifier.name!r}"
    output, predicted = model.fitted_.target.texts.output, model.fitted_.target.texts.predicted_output
    return (
        f"{predicted[0].upper()}{predicted[1:]} as paths are deleted from the {vectors}, or inserted, in the order of "
        "their contributions, of their path weights |A(p)|, or at random. At most "
        f"{MAX_PATHS:,} paths of each node, those with the largest weights, are deleted or inserted; mean over "
        f"{counted(n_tested, 'node')}. The faster the {output} changes, the more the first paths of an order matter "
        "for the prediction. The gap between “by contribution” and “by weight” shows how much better paths are ranked "
        "by contribution than by weight alone." + (f" The {output} is {which}." if classifier.count > 1 else "")
    )


def color_caption(texts: TargetTexts, n_classes: int, n_colors: int) -> str:
    """Return how colors are assigned, and how to find a node with the keyboard."""
    largest = f"The {n_colors} largest classes have their own color, the others share one. "
    search = "To find a node by its id, use the path explorer below."
    return f"{texts.color_meaning}{largest if n_classes > n_colors else ''}{search}"


def sign_caption(weights: Sequence[float]) -> str:
    """Return how many of the weights in charts are negative; nothing if none is."""
    negative = sum(weight < 0 for weight in weights)
    if not negative:
        return ""
    return (
        f"{negative:,} of these {len(weights):,} paths ({100 * negative / len(weights):.0f} %) have a negative weight, "
        "because their hop weight is negative. The charts show absolute values."
    )


def uses_network(model: PathEstimator) -> bool:
    """Return whether a neural network weights paths: one by name, or a class of the user."""
    spec = WEIGHTINGS.get(model.weighting_)
    return spec is None or spec.network is not None


def weight_name(model: PathEstimator) -> str:
    """Return what the weights of paths in charts are called."""
    return "relative weight" if model.fitted_.exact else "weight A(p)"


def weight_axis_title(model: PathEstimator) -> str:
    """Return the title of an axis of path weights."""
    if model.fitted_.exact:
        return "relative weight"
    return "weight A(p) = 1" if model.weighting_ == "uniform" else "weight A(p) of the network, from 0 to 1"
