"""A graph as metadata and plain arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.checks import Features, checked_features, checked_weights
from cge.data.files.arrays import checked_csr
from cge.errors import FileFormatError, InputError, format_value
from cge.graph import Graph
from cge.ids import unique_index
from cge.store.file_io import HINT
from cge.store.manifest import metadata_field
from cge.store.values import pack_ids, unpack_ids

_INDEX = ("int32", "int64")


def pack_graph(graph: Graph, prefix: str = "graph.") -> tuple[dict[str, Any], dict[str, Array]]:
    """Return a graph as metadata for a JSON file and arrays whose names start with `prefix`.

    >>> metadata, arrays = pack_graph(Graph.from_edges([("ann", "bob")]))
    >>> sorted(arrays)
    ['graph.ids.ends', 'graph.ids.text', 'graph.indices', 'graph.indptr']
    >>> unpack_graph(metadata, arrays).neighbors("ann")
    ['bob']
    """
    features: Any = graph.features
    sparse = sp.issparse(features)
    parts: dict[str, Array | None] = {
        "indptr": graph.indptr,
        "indices": graph.indices,
        "weights": graph.weights,
        "edge_types": graph.edge_types,
        "features": features.data if sparse else features,
        "features.indices": features.indices if sparse else None,
        "features.indptr": features.indptr if sparse else None,
    }
    metadata = {
        "directed": bool(graph.directed),
        "edge_type_names": list(graph.edge_type_names),
        "edge_types": graph.edge_types is not None,
        "feature_names": list(graph.feature_names),
        "features": "none" if features is None else "sparse" if sparse else "dense",
        "num_features": 0 if features is None else int(features.shape[1]),
        "weights": graph.weights is not None,
    }
    arrays = {prefix + name: part for name, part in parts.items() if part is not None}
    return metadata, arrays | pack_ids(graph.node_ids, prefix + "ids.")


def unpack_graph(
    metadata: Mapping[str, Any],
    arrays: Mapping[str, Array],
    prefix: str = "graph.",
    *,
    where: str | Path = "the stored graph",
) -> Graph:
    """Return the graph that `pack_graph` has packed.

    Parts that do not make a graph raise `FileFormatError`, which names `where` they were stored.
    """
    try:
        return _graph(metadata, arrays, prefix, where)
    except FileFormatError:
        raise
    except (InputError, ValueError) as error:  # of the checks of every graph
        raise FileFormatError(where, f"{error}", hint=HINT) from None


def _graph(metadata: Mapping[str, Any], arrays: Mapping[str, Array], prefix: str, where: str | Path) -> Graph:
    if not isinstance(metadata, Mapping):
        raise InputError(f"expected the metadata of a graph, found {format_value(metadata)}")
    names = metadata_field(metadata, "edge_type_names", list)
    if not all(isinstance(name, str) for name in names):
        raise InputError(f"the names of edge types must be strings, found {format_value(names)}")
    feature_names = metadata_field(metadata, "feature_names", list)
    num_features = metadata_field(metadata, "num_features", int)
    if not all(isinstance(name, str) for name in feature_names) or len(feature_names) not in (0, num_features):
        raise InputError(f"the names of features must be strings, one for each, found {format_value(feature_names)}")
    ids = unpack_ids(arrays, prefix + "ids.", where=where)
    unique_index(ids)
    indices = _part(arrays, prefix + "indices", _INDEX)
    weights, types = None, None
    if metadata_field(metadata, "weights", bool):
        weights = checked_weights(_part(arrays, prefix + "weights", ("float32", "float64")), len(indices))
    if metadata_field(metadata, "edge_types", bool):
        types = _part(arrays, prefix + "edge_types", ("int16",))
        if len(types) != len(indices) or (len(types) and not 0 <= types.min() <= types.max() < len(names)):
            raise InputError(f"there must be {len(indices):,} edge types, numbers below {len(names):,}")
    graph = Graph(
        _part(arrays, prefix + "indptr", _INDEX),
        indices,
        ids,
        metadata_field(metadata, "directed", bool),
        weights,
        types,
        tuple(names),
        _features(metadata, arrays, prefix, len(ids)),
        tuple(feature_names),
    )
    if not graph.directed and np.any(np.bincount(indices, minlength=len(ids)) != graph.degrees):
        raise InputError("the edges of an undirected graph must be in the rows of both endpoints")
    return graph


def _features(metadata: Mapping[str, Any], arrays: Mapping[str, Array], prefix: str, rows: int) -> Features | None:
    kind, columns = metadata_field(metadata, "features", str), metadata_field(metadata, "num_features", int)
    if kind == "none":
        return None
    name = prefix + "features"
    if kind == "dense":
        dense = checked_features(_part(arrays, name, ("float32",), 2), rows, copy=False)
        if dense.shape[1] != columns:
            raise InputError(f"expected {columns:,} features, found {dense.shape[1]:,}")
        return dense
    if kind != "sparse" or not 0 <= columns <= np.iinfo(np.int64).max:
        raise InputError(
            f"expected none, dense or sparse features, found {format_value(kind)} with {columns:,} columns"
        )
    indices, indptr = _part(arrays, name + ".indices", _INDEX), _part(arrays, name + ".indptr", _INDEX)
    matrix = checked_csr(_part(arrays, name, ("float32",)), indices, indptr, (rows, columns))
    return checked_features(matrix, rows, copy=False)


def _part(arrays: Mapping[str, Array], name: str, dtypes: tuple[str, ...], dimensions: int = 1) -> Array:
    array = arrays.get(name)
    if array is None or array.dtype.name not in dtypes or array.ndim != dimensions:
        actual = "nothing" if array is None else f"{array.dtype} of shape {array.shape}"
        raise InputError(f"expected {' or '.join(dtypes)} of {dimensions} dimensions under {name!r}, found {actual}")
    return array
