"""Kinds of targets: one class per node, or several. `TARGETS` has them by name."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from cge.errors import InputError, Message
from cge.graph import Graph
from cge.targets.label_encoding import encode_labels
from cge.targets.multilabel import MultiLabel
from cge.targets.single_label import SingleLabel
from cge.targets.target import Target

__all__ = ["TARGETS", "MultiLabel", "SingleLabel", "Target", "encode_like", "encode_target", "restore_target"]

Array = npt.NDArray[Any]

TARGETS: dict[str, type[Target]] = {target.kind: target for target in (SingleLabel, MultiLabel)}


def encode_target(graph: Graph, y: Any, name: str) -> tuple[Array, Target]:
    """Return labels as users write them as an array for all nodes, and the target they are of."""
    codes, classes = encode_labels(graph, y, name)
    return codes, MultiLabel(classes) if codes.ndim == 2 else SingleLabel(classes)


def encode_like(graph: Graph, y: Any, name: str, target: Target) -> Array:
    """Return further labels of a target, as an array for all nodes."""
    codes, _ = encode_labels(graph, y, name, target.classes)
    if (codes.ndim == 2) != target.multilabel:
        same = Message.of("{y} and {validation} must have the same form: one label for each node, or several")
        raise InputError(same, parameter=name)
    return codes


def restore_target(metadata: dict[str, Any], classes: Array) -> Target:
    """Return the target that a model folder stores."""
    return TARGETS[str(metadata["kind"])](classes)
