"""Checks and conversions of what a graph is built from; neither NetworkX nor PyTorch is imported."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.csr import Rows, build_rows, check_rows
from cge.errors import InputError, Message, format_value
from cge.ids import as_id_array, factorize, find_nodes, unique_index

Features: TypeAlias = Array | Any  # dense, or a scipy.sparse.csr_array

# Usual names of the columns of edges, in files and data frames.
ENDPOINT_NAMES = (
    *(("source", "target"), ("src", "dst"), ("from", "to"), ("u", "v"), ("node1", "node2"), ("head", "tail")),
    *(("source_id", "target_id"), ("src_id", "dst_id"), ("fromnodeid", "tonodeid")),
)
WEIGHT_NAMES = ("weight", "weights", "w")
TYPE_NAMES = ("type", "kind", "edge_type", "relation")


def edge_columns(edges: Any, what: str = "edge") -> tuple[Array, Array]:
    """Split edges, or other pairs of ids, into two flat id arrays."""
    if isinstance(edges, tuple) and len(edges) == 2 and all(isinstance(column, np.ndarray) for column in edges):
        source, target = edges
        if source.ndim != 1 or source.shape != target.shape:
            shapes = f"{source.shape} and {target.shape}"
            raise InputError(f"sources and targets must be flat and equally long, found {shapes}")
    elif isinstance(edges, np.ndarray):
        if edges.size == 0:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        if edges.ndim != 2 or edges.shape[1] != 2:
            has_weights = what == "edge" and edges.ndim == 2 and edges.shape[1] == 3
            hint = "; pass the third column as weights=" if has_weights else ""
            hint = "; pass its transpose" if edges.ndim == 2 and edges.shape[0] == 2 and edges.shape[1] != 3 else hint
            raise InputError(f"{what}s must have shape ({what}s, 2), found {edges.shape}{hint}")
        source, target = edges.T
    elif hasattr(edges, "columns") or not hasattr(edges, "__iter__"):
        kind = type(edges).__name__
        raise InputError(f"{what}s must be an array or pairs, found a {kind}; pass its two columns as NumPy arrays")
    else:
        source, target = _checked_pairs(list(edges), what)
    return as_id_array(source, "edge sources"), as_id_array(target, "edge targets")


def _checked_pairs(pairs: list[Any], what: str) -> tuple[Any, Any]:
    for position, pair in enumerate(pairs):
        length = len(pair) if hasattr(pair, "__len__") and not isinstance(pair, str) else None
        if length != 2:
            hint = "; pass the third values as weights=" if what == "edge" and length == 3 else ""
            raise InputError(f"{what} {position:,} must be a pair of node ids, found {format_value(pair)}{hint}")
    source, target = zip(*pairs, strict=True) if pairs else (np.empty(0, np.int64),) * 2
    return source, target


def number_edges(edges: Any, node_ids: Iterable[Hashable] | None, size: int | None) -> tuple[Array, Array, Array]:
    """Return sources and targets as node indices, and the node ids: those given, 0 … size-1, or those of the edges."""
    source_ids, target_ids = edge_columns(edges)
    endpoints = concatenate_ids(source_ids, target_ids)
    if node_ids is not None:
        ids = as_id_array(node_ids).copy()
        codes = find_nodes(unique_index(ids), endpoints, "edges")
    elif size is not None:
        ids, codes = np.arange(checked_integer("num_nodes", size, 0), dtype=np.int64), endpoints
        wrong = endpoints if endpoints.dtype.kind != "i" else endpoints[(endpoints < 0) | (endpoints >= size)]
        if len(wrong):
            problem = f"without node_ids the nodes are the numbers 0 to {size - 1:,}, but the edges contain "
            hint = "pass node_ids= with the id of each node"
            raise InputError(problem + format_value(wrong[:1].tolist()[0]), hint=hint)
    else:
        codes, ids = factorize(endpoints)
    return codes[: len(source_ids)], codes[len(source_ids) :], ids


def concatenate_ids(source: Array, target: Array) -> Array:
    """Return both id columns as one, of a type that holds either."""
    if source.dtype == target.dtype:
        return np.concatenate([source, target])
    return np.concatenate([source.astype(object), target.astype(object)])


def checked_integer(name: str, value: Any, minimum: int) -> int:
    """Return the value of a parameter that must be an integer of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < minimum:
        raise InputError(parameter=name, expected=f"an integer of at least {minimum}", found=value)
    return int(value)


def checked_weights(weights: Any, count: int) -> Array:
    """Return `count` positive, finite weights as float32 (if they have this type) or float64."""
    try:
        values = np.asarray(weights)
        values = values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)
    except (TypeError, ValueError):
        wrong = next((value for value in list(weights) if not isinstance(value, int | float | np.number)), weights)
        raise InputError(f"edge weights must be numbers, found {format_value(wrong)}") from None
    if values.shape != (count,):
        raise InputError(f"there are {count:,} edges, but the weights have shape {values.shape}")
    wrong = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
    if len(wrong):
        more = f" and {len(wrong) - 1:,} more" if len(wrong) > 1 else ""
        first = f"{values[wrong[0]]} at edge {wrong[0]:,}"
        raise InputError(f"edge weights must be positive and finite, found {first}{more}")
    return values


def encode_types(types: Sequence[Any] | Array, count: int, what: str = "edge") -> tuple[Array, tuple[str, ...]]:
    """Return the types of `count` edges (or nodes) as indices into their names, and the names."""
    codes, names = factorize(as_id_array(types, f"{what} types"))
    if len({str(name) for name in names}) < len(names):
        raise InputError(f"{what} types must differ as text, found for example both 1 and '1'")
    if len(codes) != count:
        raise InputError(f"there are {count:,} {what}s, but {len(codes):,} {what} types")
    if len(names) > np.iinfo(np.int16).max:
        raise InputError(f"there are {len(names):,} {what} types; at most {np.iinfo(np.int16).max:,} are supported")
    return codes.astype(np.int16), tuple(str(name) for name in names)


def row_count(features: Any) -> int:
    """Return the number of rows of a matrix or of nested sequences."""
    shape = getattr(features, "shape", None) or np.shape(features)
    return int(shape[0]) if shape else 0


def checked_features(features: Any, count: int, *, copy: bool = True) -> Features:
    """Return features as float32, dense or CSR, `(count, f)`; a copy unless `copy` is false."""
    sparse = sp.issparse(features)
    if getattr(getattr(features, "dtype", None), "kind", "") == "c":
        raise InputError("features must be real numbers, found complex ones")
    try:
        with np.errstate(over="ignore"):
            if sparse:
                matrix: Any = sp.csr_array(features, dtype=np.float32, copy=copy)
            else:
                matrix = np.array(features, np.float32, copy=copy or None)
    except (TypeError, ValueError):
        raise InputError("features must be numbers; turn text and categories into numbers first") from None
    if matrix.ndim != 2 or matrix.shape[0] != count:
        raise InputError(f"features must have one row for each of {count:,} nodes, found shape {matrix.shape}")
    values = matrix.data if sparse else matrix
    with np.errstate(invalid="ignore"):  # infinities of both signs
        total = values.sum(dtype=np.float64)
    if not np.isfinite(total):
        position = np.argwhere(~np.isfinite(values))[0]
        row, column = position if not sparse else (part[position[0]] for part in matrix.tocoo().coords)
        place = f"in row {row:,}, column {column:,}"
        raise InputError(f"features must be finite as float32, found {values[tuple(position)]} {place}")
    if sparse:
        matrix.sum_duplicates()
    return matrix


def checked_csr(data: Array, indices: Array, indptr: Array, shape: tuple[int, int]) -> sp.csr_array:
    """Build a CSR matrix; inconsistent arrays raise `ValueError`.

    SciPy's own full check accepts a negative last value of `indptr`, and its matrix product then crashes.

    >>> checked_csr(np.ones(1), np.array([1]), np.array([0, -1]), (1, 2))
    Traceback (most recent call last):
    ValueError: row pointers must ascend from 0 to 1
    """
    if any(part.ndim != 1 for part in (data, indices, indptr)) or len(data) != len(indices):
        raise ValueError("values and columns must be flat and equally long")
    if indices.dtype.kind not in "iu" or indptr.dtype.kind not in "iu":
        raise ValueError("columns and row pointers must be integers")
    if len(indptr) != shape[0] + 1:
        raise ValueError(f"there must be {shape[0] + 1:,} row pointers, found {len(indptr):,}")
    if indptr[0] != 0 or indptr[-1] != len(indices) or np.any(indptr[1:] < indptr[:-1]):
        raise ValueError(f"row pointers must ascend from 0 to {len(indices):,}")
    if len(indices) and not 0 <= indices.min() <= indices.max() < shape[1]:
        raise ValueError(f"columns must be from 0 to {shape[1] - 1:,}")
    return sp.csr_array((data, indices, indptr), shape=shape)


def to_numpy(tensor: Any) -> Array:
    """Return a PyTorch tensor or an array as a NumPy array."""
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu()
    return np.asarray(tensor)


def scipy_rows(adjacency: Any, directed: bool | None, weighted: bool | None, self_loops: bool) -> tuple[Rows, bool]:
    """Return the rows of a square sparse matrix, and whether the graph is directed."""
    matrix = sp.csr_array(adjacency, copy=True)
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"an adjacency matrix must be square, found shape {matrix.shape}")
    size = matrix.shape[0]
    check_rows(matrix.indptr, matrix.indices, size)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    values = checked_weights(matrix.data, matrix.nnz)
    symmetric = (matrix != matrix.T).nnz == 0
    if directed is False and not symmetric:
        hint = Message.of("pass {directed}, or add the transpose for an undirected graph", directed=True)
        raise InputError("the adjacency matrix is not symmetric", hint=hint)
    if weighted is None:
        weighted = bool(len(values)) and not np.all(values == values[0])
    source = np.repeat(np.arange(size), np.diff(matrix.indptr))
    weights = values if weighted else None
    rows = build_rows(size, source, matrix.indices, weights, directed=True, self_loops=self_loops)
    return rows, not symmetric if directed is None else directed
