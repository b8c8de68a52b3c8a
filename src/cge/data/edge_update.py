"""The edges of an update: rows of a graph with edges added and removed; other rows are copied as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cge.arrays import Array
from cge.checks import checked_weights
from cge.csr import build_rows, entries_of, index_dtype, splice_rows
from cge.errors import InputError, format_list, format_value
from cge.graph import Graph
from cge.graph_types import checked_edge_features, entry_features

if TYPE_CHECKING:
    from cge.data.graph_update import GraphUpdate

_UNTYPED = "(none)"  # the type of new edges without a type, in a heterogeneous graph
_MAX_TYPES = np.iinfo(np.int16).max


def updated_edges(
    graph: Graph,
    update: GraphUpdate,
    node_ids: Array,
    added: tuple[Array, Array],
    removed: tuple[Array, Array],
    notes: list[str],
) -> tuple[Graph, Array]:
    """Return the graph with other edges and new nodes, without features, and the nodes whose edges changed, ascending.

    `added` and `removed` are sources and targets as indices into `node_ids`; edges are removed first.
    """
    source, target = added
    weights = _weights(graph, update, len(source), notes)
    types, names = _types(graph, update, len(source), notes)
    table = _edge_features(graph, update, len(source), notes)
    size, endpoints = graph.num_nodes, np.unique(np.concatenate([*added, *removed]))
    existing = endpoints[endpoints < size]
    entries = entries_of(graph.indptr, existing)
    old_source = np.repeat(existing, np.diff(graph.indptr)[existing])
    is_removed, missing = _removed(graph, old_source, entries, removed)
    if missing:
        notes.append(f"{missing:,} of the edges to remove are not in the graph")
    old_source, entries = old_source[~is_removed], entries[~is_removed]
    present = _already_present(graph, (old_source, entries), added, types)
    is_new = ~present & (update.self_loops | (source != target))
    # The rows of an undirected graph have both directions; a self-loop has one entry.
    reverse = is_new & (not graph.directed) & (source != target)
    sources = np.concatenate([old_source, source[is_new], target[reverse]])
    targets = np.concatenate([graph.indices[entries], target[is_new], source[reverse]])

    def values(old: Array | None, new: Array | None) -> Array | None:
        if old is None or new is None:
            return None
        return np.concatenate([old[entries], new[is_new], new[reverse]]).astype(old.dtype)

    new_weights, new_types = values(graph.weights, weights), values(graph.edge_types, types)
    rows = build_rows(len(node_ids), sources, targets, new_weights, new_types, directed=True, self_loops=True)
    features, edge_features = values(graph.edge_features, table), None
    if features is not None:
        edge_features = entry_features(rows, sources, targets, new_types, features, directed=True)
    sizes = np.zeros(len(node_ids), np.int64)
    sizes[:size] = np.diff(graph.indptr)
    sizes[endpoints] = np.diff(rows.indptr)[endpoints]
    indptr = np.concatenate([[0], np.cumsum(sizes)])

    def spliced(old: Array | None, new: Array | None) -> Array | None:
        return None if old is None or new is None else splice_rows(graph.indptr, old, endpoints, indptr, new)

    indices: Any = spliced(graph.indices.astype(index_dtype(len(node_ids)), copy=False), rows.indices)
    indptr = indptr.astype(index_dtype(int(indptr[-1])))
    parts = spliced(graph.weights, rows.weights), spliced(graph.edge_types, rows.types), names
    extended = Graph(indptr, indices, node_ids, graph.directed, *parts)
    changed = np.unique(np.concatenate([source[is_new], target[is_new], *removed]))
    if graph.edge_features is None:
        return extended, changed
    values_of_edges = spliced(graph.edge_features, edge_features)
    return replace(extended, edge_features=values_of_edges, edge_feature_names=graph.edge_feature_names), changed


def _removed(
    graph: Graph, source: Array, entries: Array, removed: tuple[Array, Array]
) -> tuple[npt.NDArray[np.bool_], int]:
    """Return which entries are removed, of all types, and how many of the pairs are not in the graph."""
    size = np.int64(graph.num_nodes)
    codes = source.astype(np.int64) * size + graph.indices[entries]
    wanted = np.unique(removed[0].astype(np.int64) * size + removed[1])
    missing = int(np.count_nonzero(~np.isin(wanted, codes)))
    if not graph.directed:
        wanted = np.concatenate([wanted, wanted % size * size + wanted // size])
    return np.isin(codes, wanted), missing


def _edge_features(graph: Graph, update: GraphUpdate, count: int, notes: list[str]) -> Array | None:
    """Return features of new edges in the order of those of the graph, NaN where missing; None if it has none."""
    names = graph.edge_feature_names
    if not names:
        if update.edge_features is not None:
            notes.append("the graph has no edge features, so those of new edges are ignored")
        return None
    table = np.full((count, len(names)), np.nan, np.float32)
    if update.edge_features is None:
        if count:
            notes.append("the new edges have no edge features, so they count as missing")
        return table
    values, columns = checked_edge_features(update.edge_features, count)
    by_name = isinstance(update.edge_features, Mapping) or hasattr(update.edge_features, "columns")
    if not by_name and values.shape[1] != len(names):
        raise InputError(f"new edges need {len(names):,} features, as the others have, found {values.shape[1]:,}")
    unknown = next((name for name in columns if by_name and name not in names), None)
    if unknown is not None:
        raise InputError(f"the graph has no edge feature {format_value(unknown)}; it has {format_list(names)}")
    table[:, [names.index(name) for name in columns] if by_name else slice(None)] = values
    return table


def _weights(graph: Graph, update: GraphUpdate, count: int, notes: list[str]) -> Array | None:
    """Return weights of new edges, if the graph has weights."""
    weights = None if update.weights is None else checked_weights(update.weights, count)
    if graph.weights is None:
        if weights is not None:
            notes.append("the graph has no edge weights, so those of new edges are ignored")
        return None
    if weights is None and count:
        notes.append("the new edges have no weights, so each has the weight 1")
    return np.ones(count) if weights is None else weights


def _types(graph: Graph, update: GraphUpdate, count: int, notes: list[str]) -> tuple[Array | None, tuple[str, ...]]:
    """Return types of new edges as indices, if the graph has types, and the names of all types."""
    if graph.edge_types is None:
        if update.edge_types is not None:
            notes.append("the graph has no edge types, so those of new edges are ignored")
        return None, ()
    types = [_UNTYPED] * count if update.edge_types is None else [str(name) for name in update.edge_types]
    if len(types) != count:
        raise InputError(f"there are {count:,} new edges, but {len(types):,} edge types")
    names = tuple(dict.fromkeys([*graph.edge_type_names, *types]))
    unknown = format_list(names[len(graph.edge_type_names) :])
    if update.edge_types is None and count:
        notes.append("the new edges have no types, so they get the type '(none)'")
    elif unknown:
        notes.append(f"the graph has no edges of type {unknown}, so the model has not seen this type")
    if len(names) > _MAX_TYPES:
        raise InputError(f"there are {len(names):,} edge types; at most {_MAX_TYPES:,} are supported")
    index = {name: position for position, name in enumerate(names)}
    return np.array([index[name] for name in types], np.int64), names


def _already_present(
    graph: Graph, old: tuple[Array, Array], added: tuple[Array, Array], types: Array | None
) -> npt.NDArray[np.bool_]:
    """Return which edges the graph has already, `(k,)`; an edge of another type counts as new.

    `old` are the sources and positions of the entries of all nodes that get edges.
    """
    size, (source, target), (old_source, entries) = graph.num_nodes, added, old
    candidates = np.flatnonzero((source < size) & (target < size))  # only existing nodes have edges
    old_codes = old_source.astype(np.int64) * size + graph.indices[entries]
    new_codes = source[candidates].astype(np.int64) * size + target[candidates]
    if graph.edge_types is not None and types is not None:
        old_codes = old_codes * (_MAX_TYPES + 1) + graph.edge_types[entries]
        new_codes = new_codes * (_MAX_TYPES + 1) + types[candidates]
    exist = np.zeros(len(source), bool)
    exist[candidates] = np.isin(new_codes, old_codes)
    return exist
