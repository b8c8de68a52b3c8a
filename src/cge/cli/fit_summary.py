"""What `cge fit` prints about a model that it has trained."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cge.cli.printing import print_pairs

if TYPE_CHECKING:
    from cge.estimators.path_estimator import PathEstimator

_SEARCH = ("weight_parameters", "classifiers", "label_propagation", "prior_correction", "search_results")


def fit_summary(model: PathEstimator, out: str, seconds: float) -> dict[str, Any]:
    """Return a summary of a trained model as a JSON object; what `PaperCGE` does not have is None."""
    selection = model.history_ if model.selection_history_ is None else model.selection_history_
    last, best = vars(model.history_[model.best_epoch_ - 1]), selection[model.best_epoch_ - 1]
    weights = {"mean": last.get("weight_mean"), "std": last.get("weight_std")}
    weights["effective_paths"] = last.get("effective_paths")
    return {
        "folder": out,
        "nodes": model.graph_.num_nodes,
        "edges": model.graph_.num_edges,
        "classes": model.classes_.tolist(),
        "labels_seen": model.labels_seen_,
        "best_epoch": model.best_epoch_,
        "refitted": model.selection_history_ is not None,
        "metric": model.fitted_.target.metric,
        "validation_accuracy": _validation_accuracy(model, best.validation_accuracy),
        "weighting": model.weighting_,
        "path_weights": None if weights["mean"] is None else weights,
        **{name: getattr(model, f"{name}_", None) for name in _SEARCH},
        "weighting_comparison": model.compare_weighting().to_dict(),
        "seconds": seconds,
    }


def _validation_accuracy(model: PathEstimator, of_epoch: float | None) -> float | None:
    """Return the validation accuracy of the calibrated ensemble; where the metric is another one, the best epoch's."""
    validation = model.fitted_.validation
    if of_epoch is None or model.fitted_.target.metric != "accuracy" or not len(validation):
        return of_epoch
    return float((validation.probabilities.argmax(1) == validation.matrix.argmax(1)).mean())


def histories(model: PathEstimator) -> dict[str, Any]:
    """Return the settings of a trained model, and its epochs as rows."""
    from cge.estimators.configs import flat_params

    selection = model.selection_history_
    rows = {"history": model.history_.rows(), "selection_history": None if selection is None else selection.rows()}
    return {"settings": flat_params(model), **rows}


def print_summary(summary: dict[str, Any], model: PathEstimator) -> None:
    """Print a summary, and how to use the model."""
    comparison = model.compare_weighting().sentences()
    rows = [
        ("nodes", f"{summary['nodes']:,}"),
        ("edges", f"{summary['edges']:,}"),
        ("labels", _labels(summary, model)),
        ("best epoch", _best_epoch(summary, model)),
        ("validation", _score(summary, model)),
        ("weighting", " ".join(comparison).removeprefix("Weighting: ")),
    ]
    if summary["path_weights"] is not None:
        weights = summary["path_weights"]
        spread = f"{weights['mean']:.3g} ± {weights['std']:.2g}"
        rows.append(("path weights", f"{spread}, effective sample size {weights['effective_paths']:.0%} of the paths"))
    if summary["classifiers"]:
        rows.append(("classifier", _classifiers(summary)))
    folder = json.dumps(summary["folder"], ensure_ascii=False)
    print_pairs(
        [
            *rows,
            ("seconds", f"{summary['seconds']:.1f}"),
            ("saved to", summary["folder"]),
            ("in Python", f"model = cge.load({folder}); model.predict()"),
        ]
    )


def describe_labels(counts: dict[str, int], refit: bool, learned: str, unused: bool = False) -> str:
    """Return how many labels train and validate, and on how many a weighting is `learned`.

    >>> describe_labels({"train": 40, "outer": 32, "validation": 8}, True, "was learned")
    '40 (32 training, 8 held out for validation); the weighting was learned on the 32'
    """
    train, outer, validation = (counts[name] for name in ("train", "outer", "validation"))
    text = f"{train:,} training, {validation:,} validation"
    if refit:
        text = f"{train:,} ({train - validation:,} training, {validation:,} held out for validation)"
    if not outer:
        return text
    if unused:
        return f"{text}; a weighting was learned on {outer:,} training labels, but not selected"
    which = f"{'all' if outer == train else 'the'} {outer:,}" if refit else "the training labels"
    return f"{text}; the weighting {learned} on {which}"


def _labels(summary: dict[str, Any], model: PathEstimator) -> str:
    from cge.estimators.fitted_model import learned_weights_unused

    unused = learned_weights_unused(model.fitted_)
    return describe_labels(summary["labels_seen"], summary["refitted"], "was learned", unused)


def _best_epoch(summary: dict[str, Any], model: PathEstimator) -> str:
    text = f"{summary['best_epoch']} of {len(model.selection_history_ or model.history_)}"
    if summary["refitted"]:
        return f"{text}, selected on held-out labels, then refitted on all labels"
    return f"{text}, the last: there are no validation labels" if summary["validation_accuracy"] is None else text


def _score(summary: dict[str, Any], model: PathEstimator) -> str:
    accuracy = summary["validation_accuracy"]
    if accuracy is None:
        return "none"
    target = model.fitted_.target
    score = f"{target.metric} {target.format_score(accuracy)}"
    return f"{score} on {summary['labels_seen']['validation']:,} labels"


def _classifiers(summary: dict[str, Any]) -> str:
    names = summary["classifiers"]
    text = " and ".join(names) + (", averaged" if len(names) > 1 else "")
    text += ", with label propagation" if summary["label_propagation"] else ""
    return text + (", with prior correction" if summary["prior_correction"] else "")
