"""What all estimators share: the error before `fit`, the check of the graph, and writing to a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sklearn.exceptions

from cge.arrays import Array
from cge.errors import MAKE_GRAPH, CgeError, InputError, qualified_type
from cge.estimators.configs import flat_params
from cge.graph import Graph
from cge.store import pack_graph, write_folder

CUSTOM = "custom"  # key in the stored settings of a custom weighting, which has to be passed to `load` again


class NotFittedError(CgeError, sklearn.exceptions.NotFittedError):  # type: ignore[misc]
    """`fit` was not called; an error of `cge` as well as of scikit-learn.

    Not in `cge.errors`, since scikit-learn is slow to import.
    """


def check_fitted(estimator: Any) -> None:
    """Refuse to use an estimator before `fit`."""
    if not hasattr(estimator, "graph_"):
        raise NotFittedError(f"this {type(estimator).__name__} has not been trained yet; call fit first")


def check_graph(graph: Any) -> None:
    """Refuse to fit anything but a `Graph`."""
    if not isinstance(graph, Graph):
        raise InputError(f"fit takes a cge.Graph, found {qualified_type(graph)}", hint=MAKE_GRAPH)


def save_estimator(
    estimator: Any, folder: str | Path, graph: Graph, metadata: dict[str, Any], arrays: dict[str, Array]
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
