"""What `cge predict` says: predictions as columns of a table, as JSON, and on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cge.cli.model_files import printable
from cge.cli.printing import facts, print_table

if TYPE_CHECKING:
    from cge.estimators.predictions import Predictions

__all__ = ["columns_of", "content_of", "print_predictions"]

_SHOWN = 20  # rows that are printed


def columns_of(found: Predictions) -> dict[str, Any]:
    """Return predictions as columns of a table."""
    from cge.estimators.predictions import EVIDENCE
    from cge.store.text import checked_texts

    ids = found.nodes if found.nodes.dtype.kind == "i" else checked_texts(found.nodes)
    probabilities = {
        f"probability_{name}": column
        for name, column in zip(found.classes.tolist(), found.probabilities.T, strict=True)
    }
    return {
        "node": ids,
        "class": _classes(found),
        "confidence": found.confidence,
        "evidence": [EVIDENCE[way] for way in found.evidence.tolist()],
        **probabilities,
    }


def _classes(found: Predictions) -> Any:
    """Return predicted classes as a column: numbers, text, or lists of text."""
    import numpy as np

    if found.multilabel:
        return [[str(one) for one in row] for row in found.predicted]
    if found.classes.dtype.kind in "if":
        return np.asarray(found.predicted, found.classes.dtype)
    return [str(one) for one in found.predicted]


def content_of(found: Predictions, *, full: bool = True) -> dict[str, Any]:
    """Return predictions as JSON holds them; where it is not to be `full`, without the nodes."""
    from cge.estimators.predictions import EVIDENCE

    counts = {"nodes": len(found.nodes), "classes": found.classes.tolist(), "evidence": found.counts()}
    if not full:
        return counts | {"predictions": None}
    names, rows = [str(name) for name in found.classes.tolist()], _short(found.probabilities)
    columns = (found.nodes.tolist(), found.predicted, _short(found.confidence), found.evidence.tolist(), rows)
    predictions = [
        {
            "node": node,
            "class": predicted,
            "confidence": confidence,
            "evidence": EVIDENCE[way],
            "probabilities": dict(zip(names, probabilities, strict=True)),
        }
        for node, predicted, confidence, way, probabilities in zip(*columns, strict=True)
    ]
    return counts | {"predictions": predictions}


def _short(values: Any) -> Any:
    """Return float32 as Python's numbers, without the digits that they do not have."""
    if values.ndim == 2:
        return [_short(row) for row in values]
    return [float(str(value)) for value in values]


def print_predictions(found: Predictions, out: str | None) -> None:
    """Print the first predictions, or where they were written and how they came about."""
    from cge.estimators.predictions import EVIDENCE

    if out is not None:
        ways = ", ".join(f"{count:,} {way}" for way, count in found.counts().items())
        facts([("nodes", f"{len(found.nodes):,}"), ("predicted", ways), ("written to", out)])
        return
    format_value = [
        (printable(node), _text(predicted), f"{confidence:.3f}", EVIDENCE[way])
        for node, predicted, confidence, way in zip(
            found.nodes[:_SHOWN].tolist(),
            found.predicted[:_SHOWN],
            found.confidence[:_SHOWN],
            found.evidence,
            strict=False,
        )
    ]
    print_table([("node", "left"), ("class", "left"), ("confidence", "right"), ("evidence", "left")], format_value)
    if len(found.nodes) > _SHOWN:
        print(f"and {len(found.nodes) - _SHOWN:,} more; --out FILE writes all of them, --json prints them")


def _text(predicted: Any) -> str:
    from cge.store.export_tables import SEPARATOR

    return SEPARATOR.join(map(printable, predicted)) or "none" if isinstance(predicted, list) else printable(predicted)
