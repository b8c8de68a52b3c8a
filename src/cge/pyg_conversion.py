"""The edges, features and types of graphs of PyTorch Geometric, which is not imported."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from cge import checks
from cge.arrays import Array
from cge.errors import InputError, format_value
from cge.graph_types import REVERSE


def hetero_parts(data: Any, directed: bool | None) -> dict[str, Any]:
    """Return the arguments of `Graph.from_edges` for a `HeteroData`."""
    relations = [tuple(map(str, each)) for each in data.edge_types]
    sizes = {name: _num_nodes(data, name, relations) for name in map(str, data.node_types)}
    first = dict(zip(sizes, np.cumsum([0, *sizes.values()]).tolist(), strict=False))
    endpoints, types, weights, attributes = [], [], [], {}
    for relation in relations:
        store, (start, name, end) = data[relation], relation
        edge_index = _edge_index(store, relation)
        for column, node_type in zip(edge_index, (start, end), strict=True):
            if column.size and not 0 <= column.min() <= column.max() < sizes.get(node_type, 0):
                problem = f"the edges {format_value(relation)} contain a node beyond the {sizes.get(node_type, 0):,}"
                raise InputError(f"{problem} of the type {format_value(node_type)}")
        endpoints.append(edge_index + np.array([[first[start]], [first[end]]]))
        types += [name] * edge_index.shape[1]
        weight, attribute = getattr(store, "edge_weight", None), getattr(store, "edge_attr", None)
        weights.append(None if weight is None else checks.to_numpy(weight).reshape(-1))
        if attribute is not None:
            attributes[len(endpoints) - 1] = checks.to_numpy(attribute).reshape(edge_index.shape[1], -1)
    counts = [pairs.shape[1] for pairs in endpoints]
    ids = np.array([f"{name}:{number}" for name, size in sizes.items() for number in range(size)], object)
    pairs = np.concatenate([np.empty((2, 0), np.int64), *endpoints], axis=1)
    parts: dict[str, Any] = {"edges": (ids[pairs[0]], ids[pairs[1]]), "node_ids": ids}
    parts["node_types"] = [name for name, size in sizes.items() for _ in range(size)]
    parts["features"] = {
        name: checks.to_numpy(data[name].x) for name in sizes if getattr(data[name], "x", None) is not None
    } or None
    parts["edge_types"] = types
    if any(weight is not None for weight in weights):
        parts["weights"] = np.concatenate(
            [np.ones(n) if w is None else w for w, n in zip(weights, counts, strict=True)]
        )
    if attributes:
        parts["edge_features"] = _edge_attributes(attributes, relations, counts)
    reverse = any(name.startswith(REVERSE) for _, name, _ in relations)
    return parts | {"directed": reverse if directed is None else directed}


def _num_nodes(data: Any, name: str, relations: list[tuple[str, ...]]) -> int:
    """Return the number of nodes of a type: that of its features, or as stated, or one more than the largest index."""
    store = data[name]
    if getattr(store, "x", None) is not None:
        return len(store.x)
    stated = getattr(store, "num_nodes", None)
    if stated is not None:
        return int(stated)
    used = [_edge_index(data[each], each)[k] for each in relations for k in (0, 1) if each[2 * k] == name]
    return max((int(column.max()) + 1 for column in used if column.size), default=0)


def _edge_index(store: Any, relation: tuple[str, ...] = ()) -> Array:
    """Return the `edge_index` of a graph, or of one of its relations, `(2, m)`."""
    if getattr(store, "edge_index", None) is None:
        problem = f"from_pyg takes an object with edge_index, found a {type(store).__name__} without"
        raise InputError(f"the relation {format_value(relation)} has no edge_index" if relation else problem)
    edge_index = checks.to_numpy(store.edge_index)
    if edge_index.ndim != 2 or edge_index.shape[0] != 2:
        of_relation = f" of {format_value(relation)}" if relation else ""
        raise InputError(f"edge_index{of_relation} must have shape (2, edges), found {edge_index.shape}")
    return edge_index.astype(np.int64)


def _edge_attributes(
    attributes: dict[int, Array], relations: list[tuple[str, ...]], counts: list[int]
) -> dict[str, Array]:
    """Return the edge attributes of all relations as columns; those of another relation are missing."""
    start, columns = np.cumsum([0, *counts]), {}
    for place, values in attributes.items():
        for number in range(values.shape[1]):
            column = np.full(int(start[-1]), np.nan)
            column[start[place] : start[place + 1]] = values[:, number]
            columns[f"{' '.join(relations[place])}: {number + 1}"] = column
    return columns


def pyg_adjacency(data: Any) -> tuple[sp.csr_array, bool]:
    """Return the adjacency matrix of a PyTorch Geometric `Data`, and whether it has weights."""
    edge_index = _edge_index(data)
    count = edge_index.shape[1]
    values, attributes = getattr(data, "edge_weight", None), getattr(data, "edge_attr", None)
    if values is None and attributes is not None and checks.to_numpy(attributes).size == count:
        values = checks.to_numpy(attributes).reshape(-1)
    size = int(getattr(data, "num_nodes", None) or (edge_index.max() + 1 if count else 0))
    weights = np.ones(count) if values is None else checks.checked_weights(checks.to_numpy(values), count)
    wrong = edge_index[(edge_index < 0) | (edge_index >= size)]
    if len(wrong):
        raise InputError(f"edge_index contains {int(wrong[0])}, but the graph has {size:,} nodes")
    matrix = sp.csr_array(sp.coo_array((weights, (edge_index[0], edge_index[1])), shape=(size, size)))
    if values is None:
        matrix.data[:] = 1
    return matrix, values is not None
