"""What `cge fit` says about a model that it has trained."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cge.cli.printing import facts

if TYPE_CHECKING:
    from cge.estimators.cge import CGE

__all__ = ["facts_of", "print_facts", "rounds_of"]


def facts_of(model: CGE, out: str, seconds: float) -> dict[str, Any]:
    """Return what there is to say about a trained model."""
    chosen = model.history_ if model.selection_history_ is None else model.selection_history_
    last, best = model.history_[model.best_epoch_ - 1], chosen[model.best_epoch_ - 1]
    names = {"mean": "weight_mean", "spread": "weight_std", "effective_share": "effective_paths"}
    weights = {short: vars(last).get(name) for short, name in names.items()}
    return {
        "folder": out,
        "nodes": model.graph_.num_nodes,
        "edges": model.graph_.num_edges,
        "classes": model.classes_.tolist(),
        "labels_seen": model.labels_seen_,
        "best_round": model.best_epoch_,
        "refitted": model.selection_history_ is not None,
        "validation_accuracy": _right(model, best.validation_accuracy),
        "validation_labels": model.labels_seen_["validation"],
        "weights": None if weights["mean"] is None else weights,
        "weighting": model.weighting_,
        "compared": [],
        "classifiers": [],
        **_search(model),
        "worth": model.compare_weighting().facts(),
        "seconds": seconds,
    }


def _search(model: Any) -> dict[str, Any]:
    """Return what the model search of `CGE` selected."""
    if not hasattr(model, "search_results_"):
        return {}
    return {
        "weight_parameters": model.weight_parameters_,
        "classifiers": model.classifiers_,
        "label_propagation": model.label_propagation_,
        "prior_correction": model.prior_correction_,
        "compared": model.search_results_,
    }


def _right(model: CGE, told: float | None) -> float | None:
    """Return how right the model is about the labels that chose, all its readers and shares of classes together.

    With several labels per node, and with the paper's encoders, it is what the best round was `told` by.
    """
    fitted, chosen = model.fitted_, model.fitted_.validation
    if told is None or fitted.multilabel or not len(chosen):
        return told
    return float((chosen.probabilities.argmax(1) == chosen.matrix.argmax(1)).mean())


def rounds_of(model: CGE) -> dict[str, Any]:
    """Return the settings of a trained model, and its rounds as rows."""
    from cge.estimators.configs import flat_params

    selection = model.selection_history_
    rows = {"history": model.history_.rows(), "selection_history": None if selection is None else selection.rows()}
    return {"settings": flat_params(model), **rows}


def print_facts(found: dict[str, Any], model: CGE, several: bool) -> None:
    """Print a summary, and how to go on."""
    from cge.estimators.fitted_model import learned_weights_unused

    seen, weights, accuracy = found["labels_seen"], found["weights"], found["validation_accuracy"]
    best = f"{found['best_epoch']} of {len(model.selection_history_ or model.history_)}"
    if found["refitted"]:
        best += ", chosen by labels held out; then trained again on all labels"
    elif accuracy is None:
        best += ", the last: there were no labels to choose it by"
    score = "none"
    if accuracy is not None:
        share = f"micro-F1 {accuracy:.3f}" if several else f"{accuracy:.1%} right"
        score = f"{share} on {found['validation_labels']:,} labels"
    learned = "not learned: all paths weigh alike" if found["weighting"] == "uniform" else found["weighting"]
    if weights is not None:
        learned = f"{weights['mean']:.3g} ± {weights['spread']:.2g}, effective share {weights['effective_share']:.0%}"
    worth = model.compare_weighting()
    if worth.gain is not None:
        learned += f", {worth.gain}"
    elif found["compared"]:
        learned += f", {_verdict(found)}"
    told = worth.sentences()[1:]
    what = "epoch" if found["classifiers"] else "round"
    weigh = "taught weights that are not used" if learned_weights_unused(model.fitted_) else "weigh paths"
    served = f"{seen['train']:,} train, {seen['outer']:,} {weigh}, {seen['validation']:,} choose the {what}"
    facts(
        [
            ("nodes", f"{found['nodes']:,}"),
            ("edges", f"{found['edges']:,}"),
            ("labels", served),
            (f"best {what}", best),
            ("validation", score),
            ("path weights", learned),
            *([("worth it", " ".join(told))] if told else []),
            *([("read by", _classifiers(found, model.n_estimators))] if found["classifiers"] else []),
            ("seconds", f"{found['seconds']:.1f}"),
            ("saved to", found["folder"]),
            ("in Python", f"model = cge.load({json.dumps(found['folder'], ensure_ascii=False)})"),
            ("", "model.predict(), model.embedding_, model.path_weights([…])"),
        ]
    )


def _classifiers(found: dict[str, Any], models: int) -> str:
    """Say which readers predict."""
    words = " and ".join(found["classifiers"]) + (" readers, averaged" if len(found["classifiers"]) > 1 else " reader")
    words += f", {models} trainings of each averaged" if models > 1 else ""
    words += ", and the known labels vote" if found["label_propagation"] else ""
    return words + ("; classes as common as among the selection labels" if found["prior_correction"] else "")


def _verdict(found: dict[str, Any]) -> str:
    """Say how the chosen weights did against what they challenged.

    Their first gain is over other weights; those after it are of other readers, which these weights were asked with.

    >>> rows = [("degree", None, None), ("gates", 0.022, 0.02), ("gates", None, None), ("gates", -0.39, 0.03)]
    >>> compared = [dict(zip(("weights", "gain", "error"), row, strict=True)) for row in rows]
    >>> _verdict({"weighting": "gates", "compared": compared})
    '+2.2 ± 2.0 points on the selection labels'
    """
    mine = [one for one in found["compared"] if one["weights"] == found["weighting"] and one["gain"] is not None]
    tried = sorted(
        {one["weights"] for one in found["compared"]} & {"uniform", "degree", "cosine", "edges", "edges+hops"}
    )
    others = " or ".join(name for name in tried if name != found["weighting"])
    if mine and mine[0]["gain"] > 0:
        return f"{100 * mine[0]['gain']:+.1f} ± {100 * mine[0]['error']:.1f} points on the selection labels"
    return f"not beaten by {others}" if others else "as asked for"
