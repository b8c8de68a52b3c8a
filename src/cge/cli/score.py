"""`cge score`: how good the predictions of a saved model are, on labels that it has not seen."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

from cge.cli.common_options import Json, ModelFolder, ModelJobs, file_option, flag_option
from cge.cli.graph_options import LabelOptions, label_arguments
from cge.cli.model_files import load_path_model, no_test_labels, read_test_labels
from cge.cli.option_groups import takes_options
from cge.cli.printing import heading, print_json, print_notes, print_pairs, print_table
from cge.errors import format_text

if TYPE_CHECKING:
    from cge.targets import Target

_TITLES = {
    "macro_f1": "macro-F1",
    "log_loss": "log loss",
    "calibration_error": "calibration error",
    "mae": "mean absolute error",
    "rmse": "root mean squared error",
}
_MAX_CLASSES = 15  # in a printed confusion matrix


@takes_options
def score(
    folder: ModelFolder,
    *,
    labels: Annotated[str, file_option("Test labels: a table of nodes and labels.")],
    columns: LabelOptions,
    n_jobs: ModelJobs = None,
    quiet: Annotated[bool, flag_option("--quiet", "Print only the accuracy, micro-F1 or R².")] = False,
    as_json: Json = False,
) -> None:
    """Score the predictions of a saved model on test labels.

    Accuracy (multilabel: micro-F1, regression: R²) with its 95 % confidence interval, macro-F1, log loss, the expected
    calibration error, precision and recall of each class, and the confusion matrix. Nodes with a training or validation
    label are left out.

    For example:

      cge score model --labels test.csv
      cge score model --labels test.csv --json
    """
    from cge.report.scored_nodes import score_summary, scored_nodes

    model = load_path_model(folder, n_jobs, "which has no test scores", "score it in Python with model.score")
    test_labels = read_test_labels(model, labels, **label_arguments(columns))
    scored = scored_nodes(model, test_labels)
    if scored is None:
        raise no_test_labels(labels)
    used = int(model.fitted_.target.labeled(test_labels).sum()) - len(scored.nodes)
    notes = [f"{used:,} nodes with a training or validation label were left out"] if used else []
    scores = {name: _number(value) for name, value in score_summary(scored).items()}
    if as_json:
        print_json({"folder": folder, "labels": labels, "nodes": len(scored.nodes), **scores, "notes": notes})
    elif quiet:
        print(scores[scored.target.score_key])
    else:
        print_notes(notes)
        _print(scores, len(scored.nodes), scored.target)


def _number(value: Any) -> Any:
    """Return None instead of NaN, which JSON does not have."""
    if isinstance(value, list) and value and isinstance(value[0], float):
        return [_number(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _print(scores: dict[str, Any], nodes: int, target: Target) -> None:
    low, high = (_text(bound) for bound in scores["interval"])
    main = f"{_text(scores[target.score_key])} (95 % confidence interval {low} to {high})"
    others = [
        (_TITLES.get(name, name.replace("_", " ")), _text(value))
        for name, value in scores.items()
        if name not in (target.score_key, "interval", "classes", "confusion")
    ]
    print_pairs([("test nodes", f"{nodes:,}"), (target.metric, main), *others])
    classes, confusion = scores.get("classes"), scores.get("confusion")
    if classes is None:
        return
    print()
    columns = ("precision", "recall", "f1")
    titles = [("class", "left"), ("nodes", "right"), *((column, "right") for column in columns)]
    rows = [[str(row["class"]), f"{row['nodes']:,}", *(_text(row[column]) for column in columns)] for row in classes]
    print_table(titles, rows)
    if confusion is None or len(classes) > _MAX_CLASSES:
        return
    print()
    heading("Confusion matrix (rows are labels, columns are predictions)")
    names = [format_text(row["class"]) for row in classes]
    numbered = [f"{place} {name}" for place, name in enumerate(names, 1)]
    titles = [("", "left"), *((str(place), "right") for place in range(1, len(names) + 1))]
    print_table(titles, [[name, *map(str, row)] for name, row in zip(numbered, confusion, strict=True)])


def _text(value: float | None) -> str:
    return "not defined" if value is None else f"{value:.4f}"
