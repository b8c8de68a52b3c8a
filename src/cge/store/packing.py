"""Graphs, node ids and classes as plain arrays, and back; strings become one text with the end of each string."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.checks import Features, checked_csr, checked_features, checked_weights
from cge.data.attributes import AttributeEncoder
from cge.errors import FileFormatError, InputError, format_value
from cge.graph import Graph
from cge.ids import as_id_array, unique_index
from cge.store.folder import STORABLE
from cge.store.manifest import MAX_BYTES, damaged, metadata_field

_INDEX = ("int32", "int64")
_LARGEST_CHARACTER = 0x10FFFF
_LONGEST = (2**31 - 1) // 4  # characters in an item of a fixed-width NumPy array


def pack_ids(ids: Iterable[Any], prefix: str = "ids.") -> dict[str, Array]:
    """Return node ids as arrays whose names start with `prefix`; only integers and strings can be saved."""
    array = as_id_array(ids)
    packed = {"numbers": array} if array.dtype.kind == "i" else _packed_objects(array)
    if packed is None:
        problem = (
            f"saving needs node ids that are all integers (of 64 bits) or all strings, found {_first_misfit(array)}"
        )
        raise InputError(problem, hint="give the nodes such ids, for example str(id)")
    return {prefix + name: part for name, part in packed.items()}


def unpack_ids(arrays: Mapping[str, Array], prefix: str = "ids.", *, where: str | Path = "the stored ids") -> Array:
    """Return the ids that `pack_ids` has packed: int64, or strings in an object array."""
    ids = unpack_values(arrays, prefix, where=where)
    if ids.dtype not in (np.dtype(np.int64), np.dtype(object)):
        raise damaged(where, f"expected ids that are int64 or strings, found {ids.dtype}")
    return ids


def pack_values(values: Array, prefix: str = "values.") -> dict[str, Array]:
    """Return a flat array of integers, floats, booleans or strings as arrays whose names start with `prefix`."""
    if not isinstance(values, np.ndarray) or values.ndim != 1:
        raise InputError(f"saving needs a flat array, found {format_value(values)}")
    packed: dict[str, Array] | None = None
    if values.dtype.name in STORABLE:
        packed = {"numbers": values}
    elif values.dtype.kind == "U":
        width = max(values.dtype.itemsize // 4, 1)
        code_points = np.ascontiguousarray(values, f"=U{width}").view(np.uint32)
        packed = {"characters": code_points.reshape(len(values), width)}
    elif values.dtype.kind == "O":
        packed = _packed_objects(values)
    if packed is None:
        problem = "saving needs values that are all integers (of 64 bits), floats, booleans or strings, found "
        raise InputError(problem + _first_misfit(values), hint="use one of these types")
    return {prefix + name: part for name, part in packed.items()}


def unpack_values(
    arrays: Mapping[str, Array], prefix: str = "values.", *, where: str | Path = "the stored values"
) -> Array:
    """Return the array that `pack_values` has packed; damaged parts raise `FileFormatError`, which names `where`."""
    forms = [form for form in ("numbers", "characters", "text") if prefix + form in arrays]
    if len(forms) != 1:
        actual = " and ".join(repr(prefix + form) for form in forms) or "none"
        raise damaged(where, f"expected one of the arrays {prefix}numbers, -characters and -text, found {actual}")
    form, part = forms[0], arrays[prefix + forms[0]]
    if form == "numbers":
        if part.ndim != 1 or part.dtype.name not in STORABLE:
            raise _unexpected(where, prefix + form, "flat numbers", part)
        return part
    if form == "characters":
        if part.ndim != 2 or part.dtype != np.uint32 or not 1 <= part.shape[1] <= _LONGEST:
            raise _unexpected(where, prefix + form, "uint32 of two dimensions", part)
        if part.size and part.max() > _LARGEST_CHARACTER:
            raise damaged(where, f"{prefix + form!r} contains {part.max():,}, which is not a character")
        count, width = part.shape
        return np.ascontiguousarray(part).reshape(-1).view(f"U{width}") if count else np.empty(0, f"U{width}")
    return _strings(part, arrays.get(prefix + "ends"), prefix, where)


def _packed_objects(values: Array) -> dict[str, Array] | None:
    """Pack strings, or integers that fit in 64 bits; None where there is anything else."""
    items = values.tolist()
    if all(isinstance(item, str) for item in items):
        text, ends = _text(items)
        return {"text": text, "ends": ends}
    if all(map(_is_integer, items)):
        return {"numbers": np.array(items, np.int64)}
    return None


def _first_misfit(values: Array) -> str:
    """Say what keeps values from being saved: their type, or the first item that is of another kind."""
    if values.dtype.kind != "O":
        return f"dtype {values.dtype}"
    items = values.tolist()
    strings, integers = [isinstance(item, str) for item in items], [_is_integer(item) for item in items]
    place = (strings if strings[0] else integers).index(False)
    return f"{format_value(items[place])} at position {place:,}"


def _is_integer(item: object) -> bool:
    return isinstance(item, int | np.integer) and not isinstance(item, bool) and -(2**63) <= int(item) < 2**63


def _text(items: list[str]) -> tuple[Array, Array]:
    """Return strings as UTF-8 `(bytes,)` and a zero followed by the end of each, `(n+1,)`."""
    encoded = [item.encode("utf-8", "surrogatepass") for item in items]  # Arrow cannot encode half of a surrogate pair
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return np.frombuffer(b"".join(encoded), np.uint8), ends


def _strings(text: Array, ends: Array | None, prefix: str, where: str | Path) -> Array:
    if text.ndim != 1 or text.dtype != np.uint8:
        raise _unexpected(where, prefix + "text", "flat uint8", text)
    if ends is None or ends.ndim != 1 or ends.dtype != np.int64 or not len(ends):
        raise _unexpected(where, prefix + "ends", "flat int64", ends)
    if ends[0] != 0 or ends[-1] != len(text) or np.any(ends[1:] < ends[:-1]):
        raise damaged(where, f"{prefix + 'ends'!r} must rise from 0 to {len(text):,}")
    strings, data = np.empty(len(ends) - 1, object), text.tobytes()
    try:
        strings[:] = [data[start:end].decode("utf-8", "surrogatepass") for start, end in pairwise(ends.tolist())]
    except UnicodeDecodeError:
        raise damaged(where, f"{prefix + 'text'!r} is not UTF-8 text") from None
    return strings


def _unexpected(where: str | Path, name: str, expected: str, actual: Array | None) -> FileFormatError:
    return damaged(where, f"expected {expected} under {name!r}, found {_type_and_shape(actual)}")


def _type_and_shape(array: Array | None) -> str:
    return "nothing" if array is None else f"{array.dtype} of shape {array.shape}"


def pack_graph(graph: Graph, prefix: str = "graph.") -> tuple[dict[str, Any], dict[str, Array]]:
    """Return a graph as metadata for a JSON file and arrays whose names start with `prefix`."""
    features: Any = graph.features
    sparse = sp.issparse(features)
    parts: dict[str, Array | None] = {
        "indptr": graph.indptr,
        "indices": graph.indices,
        "weights": graph.weights,
        "edge_types": graph.edge_types,
        "node_types": graph.node_types,
        "edge_features": graph.edge_features,
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
    optional = {"node_type_names": graph.node_type_names, "edge_feature_names": graph.edge_feature_names}
    metadata |= {name: list(names) for name, names in optional.items() if names}
    if graph.encoder is not None:
        metadata["attributes"] = graph.encoder.metadata()
    arrays = {prefix + name: part for name, part in parts.items() if part is not None}
    return metadata, arrays | pack_ids(graph.node_ids, prefix + "ids.")


def check_names(graph: Graph) -> None:
    """Refuse names of features and edge types that are too long to be saved, before anything is trained."""
    size = len(json.dumps([graph.feature_names, graph.edge_type_names], indent=2))
    if size > MAX_BYTES // 2:
        problem = f"the names of features and edge types take {size:,} bytes, at most {MAX_BYTES // 2:,} can be saved"
        raise InputError(problem, hint="shorten them, or give features without a header")


def unpack_graph(
    metadata: Mapping[str, Any],
    arrays: Mapping[str, Array],
    prefix: str = "graph.",
    *,
    where: str | Path = "the stored graph",
) -> Graph:
    """Return the graph that `pack_graph` has packed; damaged parts raise `FileFormatError`, which names `where`."""
    try:
        return _graph(metadata, arrays, prefix, where)
    except FileFormatError:
        raise
    except (InputError, ValueError) as error:  # of the checks of every graph
        raise damaged(where, f"{error}") from None


def _graph(metadata: Mapping[str, Any], arrays: Mapping[str, Array], prefix: str, where: str | Path) -> Graph:
    if not isinstance(metadata, Mapping):
        raise InputError(f"expected the metadata of a graph, found {format_value(metadata)}")
    names, feature_names = (metadata_field(metadata, f"{kind}_names", list) for kind in ("edge_type", "feature"))
    node_names, columns = (_optional_names(metadata, f"{kind}_names") for kind in ("node_type", "edge_feature"))
    if not all(isinstance(name, str) for name in names):
        raise InputError(f"the names of edge types must be strings, found {format_value(names)}")
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
        types = _types(arrays, prefix + "edge_types", len(indices), len(names), "edge")
    node_types = _types(arrays, prefix + "node_types", len(ids), len(node_names), "node") if node_names else None
    table = _part(arrays, prefix + "edge_features", ("float32",), 2) if columns else None
    if table is not None and (table.shape != (len(indices), len(columns)) or np.isinf(table).any()):
        raise InputError(f"edge features must be finite numbers or missing, {len(indices):,} × {len(columns):,}")
    indptr, directed = _part(arrays, prefix + "indptr", _INDEX), metadata_field(metadata, "directed", bool)
    features = _features(metadata, arrays, prefix, len(ids))
    encoder = AttributeEncoder.restored(metadata["attributes"]) if "attributes" in metadata else None
    if encoder is not None and encoder.feature_names != tuple(feature_names):
        raise InputError("the encoding of attributes does not belong to the features")
    typed = (node_types, tuple(node_names), table, tuple(columns), encoder)
    graph = Graph(indptr, indices, ids, directed, weights, types, tuple(names), features, tuple(feature_names), *typed)
    if not graph.directed and np.any(np.bincount(indices, minlength=len(ids)) != graph.degrees):
        raise InputError("the edges of an undirected graph must be in the rows of both endpoints")
    return graph


def _optional_names(metadata: Mapping[str, Any], name: str) -> list[str]:
    """Return the names of node types or edge features, which are stored only where there are any."""
    names = metadata_field(metadata, name, list) if name in metadata else []
    if not all(isinstance(each, str) for each in names):
        raise InputError(f"{name} must be strings, found {format_value(names)}")
    return names


def _types(arrays: Mapping[str, Array], name: str, count: int, kinds: int, what: str) -> Array:
    types = _part(arrays, name, ("int16",))
    if len(types) != count or (len(types) and not 0 <= types.min() <= types.max() < kinds):
        raise InputError(f"there must be {count:,} {what} types, numbers below {kinds:,}")
    return types


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
        columns_of = f"{format_value(kind)} with {columns:,} columns"
        raise InputError(f"expected none, dense or sparse features, found {columns_of}")
    indices, indptr = _part(arrays, name + ".indices", _INDEX), _part(arrays, name + ".indptr", _INDEX)
    matrix = checked_csr(_part(arrays, name, ("float32",)), indices, indptr, (rows, columns))
    return checked_features(matrix, rows, copy=False)


def _part(arrays: Mapping[str, Array], name: str, dtypes: tuple[str, ...], dimensions: int = 1) -> Array:
    array = arrays.get(name)
    if array is None or array.dtype.name not in dtypes or array.ndim != dimensions:
        expected = f"{' or '.join(dtypes)} of {dimensions} dimensions"
        raise InputError(f"expected {expected} under {name!r}, found {_type_and_shape(array)}")
    return array
