"""Estimators to folders: settings, graph, and what each estimator adds of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy.typing as npt

from cge.graph import Graph
from cge.store import pack_graph, write_folder

__all__ = ["CUSTOM", "name_of", "save_estimator"]

CUSTOM = "custom"  # stands in the settings for a weighting of the user's own, which only the user can bring back


def save_estimator(
    estimator: Any, folder: str | Path, graph: Graph, facts: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]
) -> None:
    """Write a trained estimator to a folder, all at once; `facts` and `arrays` are what it has learned."""
    settings = {name: {CUSTOM: name_of(value)} if callable(value) else value for name, value in _settings(estimator)}
    graph_facts, graph_arrays = pack_graph(graph)
    facts = facts | {"settings": settings, "graph": graph_facts}
    write_folder(folder, type(estimator).__name__, facts, arrays | graph_arrays)


def _settings(estimator: Any) -> list[tuple[str, Any]]:
    return sorted(estimator.get_params().items())


def name_of(value: Any) -> str:
    """Return the name of a class or function."""
    return str(getattr(value, "__qualname__", type(value).__qualname__))
