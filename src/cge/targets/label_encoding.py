"""Class labels as users write them → class numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cge.arrays import Array
from cge.errors import InputError, Message, Param, format_list, format_value
from cge.graph import Graph

_UNTRAINED = "which no training label has; give it one, or leave it out"
_LISTS = (list, tuple, set, frozenset)  # of several labels of a node


def encode_labels(graph: Graph, y: Any, what: str, classes: Array | None = None) -> tuple[Array, Array]:
    """Return `(codes, classes)`: `(n,)` int64 with −1 for unknown, or `(n, c)` of zeros and ones.

    `y` is {node id: label}, {node id: list of labels}, an (n,) array, or an (n, c) array of zeros and ones. Arrays are
    in the order of `graph.node_ids`; a pandas Series goes by its index, if that is not just 0 … n-1. −1, None and NaN
    are unknown, and so is a row of zeros or of −1. Messages call the labels `what`. A label beyond `classes` is an
    error; without these, classes are those that occur, ascending.
    """
    is_column = hasattr(y, "items") and hasattr(y, "index") and getattr(y, "ndim", 0) == 1  # as a pandas Series is
    if isinstance(y, Mapping) or (is_column and list(y.index) != list(range(graph.num_nodes))):
        return _from_mapping(graph, dict(y.items()), what, classes)
    if hasattr(y, "columns") and len(y) != graph.num_nodes:
        problem = f" has {len(y):,} rows for {graph.num_nodes:,} nodes"
        hint = "a table of nodes and labels is passed as table.set_index('node')['label'] or as {node id: label}"
        raise InputError(Message(Param(what), problem), parameter=what, hint=hint)
    values = _array(y, what)
    if values.ndim == 2 and values.shape[1] == 1 and classes is None:
        hint = "pass a flat array, such as y.ravel()"
        problem = f" has shape {values.shape}, a matrix of zeros and ones with a single class"
        raise InputError(Message(Param(what), problem), parameter=what, hint=hint)
    if values.ndim == 2:
        return _from_matrix(graph, values, what, classes)
    if values.shape != (graph.num_nodes,):
        problem = f" must have one entry for each of {graph.num_nodes:,} nodes, found {values.shape}"
        raise InputError(Message(Param(what), problem), parameter=what)
    return _encode(values, np.arange(graph.num_nodes), graph.num_nodes, what, classes)


def indicator_matrix(labels: Any, classes: Array) -> Array:
    """Return several labels per node, rows of zeros and ones or lists of classes, as zeros and ones, `(k, c)`.

    >>> indicator_matrix([["b"], ["a", "b"]], np.array(["a", "b"])).tolist()
    [[0, 1], [1, 1]]
    """
    if isinstance(labels, np.ndarray) and labels.ndim == 2:
        return labels
    rows = [_as_list(label) for label in labels]
    if all(len(row) == len(classes) and set(row) <= {0, 1} for row in rows):
        return np.array(rows)
    known = set(classes.tolist())
    unknown = [label for row in rows for label in row if label not in known]
    if unknown:
        raise InputError(f"labels has the class {format_value(unknown[0])}, {_UNTRAINED}")
    return np.array([[int(name in row) for name in classes.tolist()] for row in rows])


def class_numbers(names: Sequence[str], classes: Array, file: str) -> Array:
    """Return the numbers of classes that a file names."""
    known = {str(name): number for number, name in enumerate(classes.tolist())}
    unknown = [name for name in names if name not in known]
    if unknown:
        problem = f"{file} has the class {format_value(unknown[0])}, which is no class of the model"
        raise InputError(problem, hint=f"its classes are {format_list(list(known))}")
    return np.array([known[name] for name in names])


def _as_list(labels: Any) -> list[Any]:
    return list(labels) if isinstance(labels, _LISTS) else [labels]


def _array(y: Any, what: str) -> Array:
    try:
        values = np.asarray(y)
    except ValueError:
        values = np.empty((0, 0, 0))
    if values.dtype.kind == "U" and values.ndim == 1 and not isinstance(y, np.ndarray):
        values = np.empty(len(values), object)  # NumPy would turn a −1 or None among strings into a string
        values[:] = list(y)
    if values.ndim not in (1, 2) or values.dtype.kind not in "biufUO":
        expected = "{node id: label}, one label for each node, or (nodes, classes) of zeros and ones"
        raise InputError(parameter=what, expected=expected, found=y)
    return values


def _from_mapping(graph: Graph, y: Mapping[Any, Any], what: str, classes: Array | None) -> tuple[Array, Array]:
    numbers, lists = graph.indices_of(list(y), Param(what)), [_as_list(label) for label in y.values()]
    labels = np.empty(sum(map(len, lists)), object)
    labels[:] = [label for row in lists for label in row]
    if not any(isinstance(label, _LISTS) for label in y.values()):
        return _encode(labels, numbers, graph.num_nodes, what, classes)
    owners = np.repeat(numbers, [len(row) for row in lists])
    codes, classes = _encode(labels, np.arange(len(labels)), len(labels), what, classes)
    matrix = np.zeros((graph.num_nodes, len(classes)), np.int64)
    matrix[owners[codes >= 0], codes[codes >= 0]] = 1
    return matrix, classes


def _from_matrix(graph: Graph, values: Array, what: str, classes: Array | None) -> tuple[Array, Array]:
    width = values.shape[1] if classes is None else len(classes)
    if values.shape != (graph.num_nodes, width):
        problem = f" must have shape ({graph.num_nodes}, {width}), found shape {values.shape}"
        raise InputError(Message(Param(what), problem), parameter=what)
    values = np.where((values == -1).all(axis=1, keepdims=True), 0, values)  # unknown, like a row of zeros
    wrong = ~np.isin(values, (0, 1))
    if wrong.any():
        value = format_value(values[wrong].tolist()[0])
        raise InputError(Message(Param(what), f" with several columns must be zeros and ones, found {value}"))
    return values.astype(np.int64), np.arange(width) if classes is None else classes


def _encode(values: Array, numbers: Array, size: int, what: str, classes: Array | None) -> tuple[Array, Array]:
    """Give the nodes `numbers` the codes of their labels `values`; the others, of `size` in all, stay unknown."""
    if values.dtype == object:
        unknown = np.array([label is None or label == -1 or label != label for label in values], bool)
    else:
        unknown = (values == -1) | (values != values) if values.dtype.kind in "if" else np.zeros(len(values), bool)
    present, numbers = values[~unknown], numbers[~unknown]
    if present.dtype == object:
        present = _sortable(present, what)
    if classes is None:
        classes = np.unique(present)
    places = np.searchsorted(classes, present) if len(classes) else np.zeros(len(present), np.int64)
    places = np.minimum(places, max(len(classes) - 1, 0))
    strange = present[classes[places] != present] if len(classes) else present
    if len(strange):
        problem = f" has the class {format_value(strange.tolist()[0])}, {_UNTRAINED}"
        raise InputError(Message(Param(what), problem), parameter=what)
    codes = np.full(size, -1, np.int64)
    codes[numbers] = places
    return codes, classes


def _sortable(present: Array, what: str) -> Array:
    """Return labels of one kind, which can be sorted, as an array of that kind."""
    kinds = {
        str if isinstance(label, str) else bool if isinstance(label, bool | np.bool_) else float for label in present
    }
    allowed = all(isinstance(label, str | bool | np.bool_ | int | float | np.number) for label in present)
    if len(kinds) > 1 or not allowed:
        names = sorted({type(label).__name__ for label in present})
        problem = f" must hold classes of one kind, strings or numbers; found {' and '.join(names)}"
        raise InputError(Message(Param(what), problem), parameter=what)
    cut = next((label for label in present if isinstance(label, str) and label.endswith("\0")), None)
    if cut is not None:  # NumPy would drop it, and merge two classes
        problem = f" has the class {format_value(cut)}, which ends in a zero character; remove it"
        raise InputError(Message(Param(what), problem), parameter=what)
    if kinds <= {float} and all(float(label).is_integer() for label in present):
        return np.array([int(label) for label in present], np.int64)
    return np.array(present.tolist())
