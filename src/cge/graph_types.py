"""Node types, relations, edge features and features per node type, as arrays for a `cge.Graph`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.checks import Features, checked_features, encode_types
from cge.csr import Rows, build_rows
from cge.errors import InputError, Message, Param, counted, format_list, format_value
from cge.ids import factorize

REVERSE = "rev_"  # before the name of an edge type, as in PyG: the type of the reverse edges
_NO_TYPE = "edge"  # the type of edges without one, where reverse edges are added


@dataclass(frozen=True, eq=False)
class Relations:
    """The relation of each entry of a graph's rows, `codes (m,)`: an index into `names`.

    A relation is (node type of the source, edge type, node type of the target), as in PyG; an edge and its reverse are
    of two relations. Parts that the graph does not have are empty.
    """

    names: tuple[tuple[str, str, str], ...]
    codes: Array


def relations_of(
    indptr: Array,
    indices: Array,
    node_types: tuple[Array | None, Sequence[str]],
    edge_types: tuple[Array | None, Sequence[str]],
) -> Relations:
    """Return the relations of the entries of a graph's rows, ordered by source type, edge type and target type."""
    of_node, node_names = np.zeros(len(indptr) - 1, np.int64), node_types[1] or ("",)
    of_edge, edge_names = np.zeros(len(indices), np.int64), edge_types[1] or ("",)
    of_node += 0 if node_types[0] is None else node_types[0]
    of_edge += 0 if edge_types[0] is None else edge_types[0]
    source = np.repeat(of_node, np.diff(indptr))
    keys = (source * len(edge_names) + of_edge) * len(node_names) + of_node[indices]
    codes, distinct = factorize(keys)  # without sorting: there are few relations
    names = tuple(
        (node_names[key // len(node_names) // len(edge_names)], name, node_names[key % len(node_names)])
        for key in distinct.tolist()
        for name in [edge_names[key // len(node_names) % len(edge_names)]]
    )
    return Relations(names, codes)


def encode_node_types(types: Any, graph: Any) -> tuple[Array, tuple[str, ...]]:
    """Return the type of each node of a graph as an index into the names, `(n,)` int16, and the names.

    `types` has a name for each of the graph's nodes, or is a mapping from ids to names.
    """
    size = len(graph.node_ids)
    if not isinstance(types, Mapping):
        return encode_types(types if isinstance(types, np.ndarray) else list(types), size, "node")
    ordered = np.full(size, None, object)
    ordered[graph.indices_of(list(types), Param("node_types"))] = list(types.values())
    missing = graph.node_ids[[name is None for name in ordered]].tolist()
    if missing:
        problem = f"{len(missing):,} of {size:,} nodes have no type, the first: {format_list(missing[:3])}"
        raise InputError(problem, hint="give each node a type")
    return encode_types(ordered, size, "node")


def checked_edge_features(features: Any, count: int) -> tuple[Array, tuple[str, ...]]:
    """Return features of `count` edges, `(count, d)` float32 with NaN for missing values, and their names.

    `features` is an array, `(count,)` or `(count, d)`, or a mapping from names to columns, such as a DataFrame.
    """
    named = isinstance(features, Mapping) or hasattr(features, "columns")
    if named and not len(list(features)):
        raise InputError("there are no edge features; pass at least one column, or leave them out")
    columns = {str(name): features[name] for name in features} if named else {}
    try:
        table = np.array(
            np.column_stack([_column(column) for column in columns.values()]) if named else features, np.float32
        )
    except (TypeError, ValueError):
        wrong = next((name for name, column in columns.items() if not _is_numeric(column)), None)
        which = "edge features" if wrong is None else f"the edge feature {format_value(wrong)}"
        raise InputError(f"{which} must be numbers; turn text into numbers or edge types first") from None
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or len(table) != count:
        raise InputError(f"there are {count:,} edges, but the edge features have shape {table.shape}")
    if np.isinf(table).any():
        place = np.argwhere(np.isinf(table))[0]
        raise InputError(f"edge features must be finite or missing, found {table[tuple(place)]} at edge {place[0]:,}")
    names = tuple(columns) or tuple(f"feature {number}" for number in range(1, table.shape[1] + 1))
    empty = np.flatnonzero(np.isnan(table).all(axis=0)).tolist() if count else []
    if empty:
        problem = f"the edge feature {format_value(names[empty[0]])} is missing for every edge"
        raise InputError(problem, hint=Message("leave it out of ", Param("edge_features")))
    return table, names


def _column(column: Any) -> Array:
    """Return a column as float32; missing values, also None and pandas' NA, become NaN."""
    values = np.asarray(column)
    if values.dtype.kind in "fiub":
        return values.astype(np.float32)
    if values.dtype.kind == "O":
        return np.array([np.nan if _is_missing(value) else _number(value) for value in values.tolist()], np.float32)
    raise ValueError("text")


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _number(value: Any) -> float:
    if isinstance(value, str):
        raise ValueError("text")
    return float(value)


def _is_numeric(column: Any) -> bool:
    try:
        _column(column)
    except (TypeError, ValueError):
        return False
    return True


def entry_features(
    rows: Rows, source: Array, target: Array, types: Array | None, values: Array, *, directed: bool
) -> Array:
    """Return the features of each entry of `rows`, `(m, d)`, from those of the edges it was built from.

    Edges that were merged get the mean of their values, without the missing ones; in an undirected graph both entries
    of an edge have its features.
    """
    size, kinds = len(rows.indptr) - 1, 1 if types is None else int(types.max(initial=0)) + 1
    edge = np.arange(len(source))
    start, end = source.astype(np.int64), target.astype(np.int64)
    if not directed:
        both = np.flatnonzero(source != target)  # a self-loop has one entry
        start, end, edge = np.r_[start, end[both]], np.r_[end, start[both]], np.r_[edge, both]
    row = np.repeat(np.arange(size, dtype=np.int64), np.diff(rows.indptr))
    keys = (row * size + rows.indices) * kinds + (0 if rows.types is None else rows.types)
    edge_keys = (start * size + end) * kinds + (0 if types is None else types[edge])
    order = np.argsort(keys, kind="stable")
    place = np.searchsorted(keys, edge_keys, sorter=order)
    inside = np.isin(edge_keys, keys)  # self-loops may be dropped
    entry, edge = order[place[inside]], edge[inside]
    result = np.empty((len(keys), values.shape[1]), np.float32)
    for column in range(values.shape[1]):
        known = np.isfinite(values[edge, column])
        count = np.bincount(entry[known], minlength=len(keys))
        total = np.bincount(entry[known], values[edge[known], column], minlength=len(keys))
        result[:, column] = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return result


def block_features(
    blocks: Mapping[Any, Any], node_types: Array, names: Sequence[str]
) -> tuple[Features, tuple[str, ...]]:
    """Return features per node type as one sparse block-diagonal matrix, `(n, Σ f)`, and the names of its columns.

    `blocks` has a matrix for each node type with features, whose rows are the nodes of that type, in their order; it
    may be a pair of a matrix and the names of its columns. Nodes of other types have no features.
    """
    size, columns, column_names = len(node_types), 0, []
    data, rows, places = [], [], []
    for name, block in blocks.items():
        if str(name) not in names:
            known = format_list(names)
            raise InputError(
                f"there are features of the node type {format_value(str(name))}, but the types are {known}"
            )
        matrix, own_names = block if isinstance(block, tuple) else (block, ())
        node_idx = np.flatnonzero(node_types == names.index(str(name)))
        count = int(matrix.shape[0]) if hasattr(matrix, "shape") else len(matrix)
        if count != len(node_idx):
            problem = f"there are {len(node_idx):,} nodes of the type {format_value(str(name))}"
            raise InputError(f"{problem}, but {count:,} rows of features; give each node one row")
        entries = sp.coo_array(checked_features(matrix, count))
        data.append(entries.data)
        rows.append(node_idx[entries.row])
        places.append(entries.col + columns)
        columns += entries.shape[1]
        column_names += [f"{name}: {each}" for each in own_names or range(1, entries.shape[1] + 1)]
    parts = [np.concatenate([np.empty(0, kind), *part]) for part, kind in ((data, "f4"), (rows, "i8"), (places, "i8"))]
    return sp.csr_array((parts[0], (parts[1], parts[2])), shape=(size, columns)), tuple(column_names)


def with_reverse_entries(graph: Any) -> dict[str, Any]:
    """Return the arrays of a directed graph that also has each edge in reverse, of the type "rev_…", by name."""
    if not graph.directed:
        raise InputError("reverse edges are for directed graphs; an undirected graph has both directions already")
    names = tuple(graph.edge_type_names) or (_NO_TYPE,)
    duplicate = next((name for name in names if REVERSE + name in names), None)
    if duplicate is not None:
        raise InputError(f"there are edges of the type {format_value(REVERSE + duplicate)} already; rename the type")
    types = np.zeros(len(graph.indices), np.int16) if graph.edge_types is None else graph.edge_types
    types = np.concatenate([types, types + np.int16(len(names))])
    row = np.repeat(np.arange(len(graph), dtype=graph.indices.dtype), np.diff(graph.indptr))
    source, target = np.concatenate([row, graph.indices]), np.concatenate([graph.indices, row])
    weights = None if graph.weights is None else np.tile(graph.weights, 2)
    rows = build_rows(len(graph), source, target, weights, types, directed=True, self_loops=True)
    parts = {"indptr": rows.indptr, "indices": rows.indices, "weights": rows.weights, "edge_types": rows.types}
    if graph.edge_features is not None:
        features = np.tile(graph.edge_features, (2, 1))
        parts["edge_features"] = entry_features(rows, source, target, types, features, directed=True)
    return parts | {"edge_type_names": (*names, *(REVERSE + name for name in names))}


def check_label_type(graph: Any, train: Array, validation: Array) -> None:
    """Raise an error unless all labeled nodes, those of `y` and of `validation`, are of the same node type."""
    if graph.node_types is None:
        return
    names = graph.node_type_names
    counts = np.bincount(graph.node_types[train], minlength=len(names))
    target = int(counts.argmax())
    for nodes, source in ((train, " is"), (validation, Message(" of ", Param("validation"), " is"))):
        wrong = nodes[graph.node_types[nodes] != target]
        if len(wrong):
            node, name = format_value(graph.node_ids[wrong[:1]].tolist()[0]), names[graph.node_types[wrong[0]]]
            labels = f" has labels of {counted(int(counts[target]), 'node')} of the type {format_value(names[target])}"
            problem = Message(Param("y"), labels, f", but node {node}", source, f" of the type {format_value(name)}")
            raise InputError(problem, hint="label nodes of one type")
