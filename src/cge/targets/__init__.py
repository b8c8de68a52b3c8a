"""Kinds of targets: one class per node, several, or a number. `TARGETS` has them by name."""

from __future__ import annotations

from typing import Any

from cge.arrays import Array
from cge.graph import Graph
from cge.targets.classification import MultiLabel, SingleLabel
from cge.targets.label_encoding import encode_labels
from cge.targets.regression import Regression
from cge.targets.target import Target

__all__ = ["TARGETS", "TASKS", "MultiLabel", "Regression", "SingleLabel", "Target", "encode_target", "restore_target"]

TARGETS: dict[str, type[Target]] = {target.kind: target for target in (SingleLabel, MultiLabel, Regression)}
TASKS = ("classification", "regression")


def encode_target(graph: Graph, y: Any, name: str, task: str = "classification") -> tuple[Array, Target]:
    """Return labels as users write them as an array for all nodes, and the target they are of."""
    if task == "regression":
        return Regression.from_labels(graph, y, name)
    codes, classes = encode_labels(graph, y, name)
    return codes, MultiLabel(classes) if codes.ndim == 2 else SingleLabel(classes)


def restore_target(metadata: dict[str, Any], classes: Array) -> Target:
    """Return the target that a model folder stores."""
    return TARGETS[str(metadata["kind"])].restored(metadata, classes)
