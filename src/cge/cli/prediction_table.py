"""The output of `cge predict`: predictions as columns of a table, as JSON, and on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cge.cli.model_files import printable
from cge.cli.printing import print_pairs, print_table

if TYPE_CHECKING:
    from cge.estimators.predictions import Predictions

_MAX_ROWS = 20  # rows that are printed
_BASIS = {
    "training graph": "in the training graph",
    "features+edges": "new, by features and edges",
    "features": "new, by features only",
    "edges": "new, by edges only",
    "none": "new, without features and edges",
}


def to_columns(predictions: Predictions) -> dict[str, Any]:
    """Return predictions as columns of a table."""
    from cge.estimators.predictions import EVIDENCE
    from cge.store.export_formats import checked_texts

    ids = predictions.nodes if predictions.nodes.dtype.kind == "i" else checked_texts(predictions.nodes)
    evidence = [EVIDENCE[code] for code in predictions.evidence.tolist()]
    names, columns = predictions.classes.tolist(), predictions.probabilities.T
    if _regression(predictions):
        return {"node": ids, "value": columns[0], "evidence": evidence}
    return {
        "node": ids,
        "class": _class_column(predictions),
        "confidence": predictions.confidence,
        "evidence": evidence,
        **{f"probability_{name}": column for name, column in zip(names, columns, strict=True)},
    }


def _regression(predictions: Predictions) -> bool:
    """Return whether predictions are numbers, without probabilities."""
    return predictions.target.kind == "regression"


def _class_column(predictions: Predictions) -> Any:
    """Return predicted classes as a column: numbers, text, or lists of text."""
    import numpy as np

    if predictions.target.multilabel:
        return [[str(name) for name in row] for row in predictions.predicted]
    if predictions.classes.dtype.kind in "if":
        return np.asarray(predictions.predicted, predictions.classes.dtype)
    return [str(name) for name in predictions.predicted]


def to_json(predictions: Predictions, *, full: bool = True) -> dict[str, Any]:
    """Return predictions as a JSON object; without the nodes unless `full`."""
    from cge.estimators.predictions import EVIDENCE

    counts = {
        "nodes": len(predictions.nodes),
        "classes": predictions.classes.tolist(),
        "evidence": predictions.counts(),
    }
    if not full:
        return counts | {"predictions": None}
    if _regression(predictions):
        values = zip(predictions.nodes.tolist(), predictions.predicted, predictions.evidence.tolist(), strict=True)
        rows = [{"node": node, "value": value, "evidence": EVIDENCE[code]} for node, value, code in values]
        return counts | {"classes": None, "predictions": rows}
    names = [str(name) for name in predictions.classes.tolist()]
    columns = (
        predictions.nodes.tolist(),
        predictions.predicted,
        _short_floats(predictions.confidence),
        predictions.evidence.tolist(),
        _short_floats(predictions.probabilities),
    )
    rows = [
        {
            "node": node,
            "class": predicted,
            "confidence": confidence,
            "evidence": EVIDENCE[evidence],
            "probabilities": dict(zip(names, probabilities, strict=True)),
        }
        for node, predicted, confidence, evidence, probabilities in zip(*columns, strict=True)
    ]
    return counts | {"predictions": rows}


def _short_floats(values: Any) -> Any:
    """Return float32 as Python floats without spurious digits."""
    if values.ndim == 2:
        return [_short_floats(row) for row in values]
    return [float(str(value)) for value in values]


def print_predictions(predictions: Predictions, out: str | None) -> None:
    """Print the first predictions, or the file they were written to and the evidence they are based on."""
    from cge.estimators.predictions import EVIDENCE

    if out is not None:
        counts = ", ".join(f"{count:,} {_BASIS[name]}" for name, count in predictions.counts().items())
        print_pairs([("nodes", f"{len(predictions.nodes):,}"), ("based on", counts), ("written to", out)])
        return
    rows: list[tuple[str, ...]] = [
        (printable(node), _text(predicted), f"{confidence:.3f}", EVIDENCE[evidence])
        for node, predicted, confidence, evidence in zip(
            predictions.nodes[:_MAX_ROWS].tolist(),
            predictions.predicted[:_MAX_ROWS],
            predictions.confidence[:_MAX_ROWS],
            predictions.evidence,
            strict=False,
        )
    ]
    columns = [("node", "left"), ("class", "left"), ("confidence", "right"), ("evidence", "left")]
    if _regression(predictions):
        columns, rows = [columns[0], ("value", "right"), columns[3]], [(row[0], row[1], row[3]) for row in rows]
    print_table(columns, rows)
    if len(predictions.nodes) > _MAX_ROWS:
        print(f"and {len(predictions.nodes) - _MAX_ROWS:,} more; --out FILE writes all of them, --json prints them")


def _text(predicted: Any) -> str:
    from cge.store.export_formats import SEPARATOR

    return SEPARATOR.join(map(printable, predicted)) or "none" if isinstance(predicted, list) else printable(predicted)
