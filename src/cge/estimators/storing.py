"""Write an estimator to a folder: settings, graph, and the metadata and arrays of its model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy.typing as npt

from cge.estimators.configs import flat_params
from cge.graph import Graph
from cge.store import pack_graph, write_folder

CUSTOM = "custom"  # key in the stored settings of a custom weighting, which has to be passed to `load` again


def save_estimator(
    estimator: Any, folder: str | Path, graph: Graph, metadata: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]
) -> None:
    """Write a trained estimator to a folder, atomically; `metadata` and `arrays` are those of its model."""
    params = sorted(flat_params(estimator).items())
    settings = {name: {CUSTOM: name_of(value)} if callable(value) else value for name, value in params}
    graph_metadata, graph_arrays = pack_graph(graph)
    metadata = metadata | {"settings": settings, "graph": graph_metadata}
    write_folder(folder, type(estimator).__name__, metadata, arrays | graph_arrays)


def name_of(value: Any) -> str:
    """Return the name of a class or function."""
    return str(getattr(value, "__qualname__", type(value).__qualname__))
