"""Node ids of the user ↔ node indices 0 … n-1 of arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from itertools import repeat
from typing import Any

import numpy as np

from cge.arrays import Array
from cge.errors import InputError, Param, UnknownNodeError, format_value

# Integer ids are marked in an array if their range is at most this many times their number; else they are sorted.
_DENSE_RANGE = 8
_MAX_COMPARED, _MAX_SIMILAR = 100, 20_000  # characters, and ids, that are compared with an unknown id


def as_id_array(values: Iterable[Any], what: str = "node ids") -> Array:
    """Return ids as a flat array: int64 for integers, object for everything else that is hashable.

    Whole floats (as in tables with missing values) become integers; NaN, None and unhashable values are refused.

    >>> as_id_array([3, 5]).dtype, as_id_array(["a", "b"]).dtype, as_id_array([("a", 1)]).dtype
    (dtype('int64'), dtype('O'), dtype('O'))
    """
    array = values if isinstance(values, np.ndarray) else _to_array(values)
    if array.ndim != 1:
        raise InputError(f"{what} must be a flat sequence, found an array of shape {array.shape}")
    if array.dtype.kind in "bcmMV":
        kind = "booleans" if array.dtype.kind == "b" else array.dtype.name
        raise InputError(f"{what} must be integers, strings or other names, found {kind}")
    if array.dtype.kind == "i":
        return array.astype(np.int64, copy=False)
    if array.dtype.kind == "u":
        if array.size and array.max() > np.iinfo(np.int64).max:
            raise InputError(f"{what} contain {array.max()}, which does not fit in 64 bits with a sign; use strings")
        return array.astype(np.int64)
    if array.dtype.kind == "f":
        exact = 2.0 ** min(np.finfo(array.dtype).nmant + 1, 53)  # from here on, adjacent integers are equal
        wide = array.astype(np.float64)
        wrong = np.flatnonzero(~(np.abs(wide) < exact) | (wide != np.floor(wide)))
        if len(wrong):
            raise InputError(f"{what} contain {array[wrong[0]]} at position {wrong[0]:,}; use integers or strings")
        return array.astype(np.int64)
    if array.dtype.kind == "S":
        try:
            return np.char.decode(array, "utf-8").astype(object)
        except UnicodeDecodeError:
            raise InputError(f"{what} must be UTF-8 text, found other bytes; use strings") from None
    if array.dtype.kind == "U":
        return array.astype(object)
    return _checked_objects(array.astype(object, copy=False), what)


def _to_array(values: Iterable[Any]) -> Array:
    items = values if isinstance(values, Sequence) else list(values)
    if items and all(isinstance(item, np.integer | float | np.floating) for item in items):
        return np.asarray(items)
    array = np.empty(len(items), object)
    array[:] = items
    return array


def _checked_objects(array: Array, what: str) -> Array:
    items = array.tolist()
    if all(type(item) is str for item in items):
        return array
    if items and all(type(item) is int for item in items):
        try:
            return np.array(items, np.int64)
        except OverflowError:
            return array
    for position, item in enumerate(items):
        if item is None or isinstance(item, bool) or item != item:
            raise InputError(f"{what} contain {item!r} at position {position:,}; every node needs a name")
        try:
            hash(item)
        except TypeError:
            problem = f"{what} contain {format_value(item)} at position {position:,}, which is not hashable"
            raise InputError(problem) from None
    return array


def factorize(values: Array) -> tuple[Array, Array]:
    """Return `(codes, ids)` with `ids[codes] == values`: integers ascend, others keep the order of first appearance."""
    if values.dtype.kind == "i":
        return _factorize_integers(values)
    items = values.tolist()
    if all(type(item) is str for item in items):
        import pyarrow as pa

        with suppress(UnicodeEncodeError):  # half of a surrogate pair is a str that Arrow cannot encode
            encoded = pa.array(items, pa.large_string()).dictionary_encode()
            return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_numpy(zero_copy_only=False)
    index_of: dict[Any, int] = {}
    codes = np.fromiter((index_of.setdefault(item, len(index_of)) for item in items), np.int64, len(items))
    ids = np.empty(len(index_of), object)
    ids[:] = list(index_of)
    return codes, ids


def _factorize_integers(values: Array) -> tuple[Array, Array]:
    if not len(values):
        return values.astype(np.int64), values.astype(np.int64)
    low, high = int(values.min()), int(values.max())
    width = high - low + 1
    if width > _DENSE_RANGE * len(values) + 1024:
        ids, codes = np.unique(values, return_inverse=True)
        return codes.astype(np.int64), ids.astype(np.int64)
    present = np.zeros(width, bool)
    present[values - low] = True
    ids = np.flatnonzero(present) + low
    if len(ids) == width:
        return values - low, ids
    rank = np.cumsum(present) - 1
    return rank[values - low], ids


class IdIndex:
    """Finds the index of a node by its id."""

    def __init__(self, ids: Array) -> None:
        self.ids, self._size, self._sorted, self._is_range = ids, len(ids), ids, False
        self._order: Array | None = None
        self._index_of: dict[Any, int] = {}
        if ids.dtype.kind == "i":
            self._is_range = self._size == 0 or bool(ids[0] == 0 and np.array_equal(ids, np.arange(self._size)))
            if not self._is_range and np.any(ids[1:] <= ids[:-1]):
                self._order = np.argsort(ids, kind="stable")
                self._sorted = ids[self._order]
        else:
            self._index_of = dict(zip(ids.tolist(), range(self._size), strict=True))

    def first_duplicate(self) -> object | None:
        """Return an id that occurs twice, or None."""
        duplicates = self.ids[self.find(self.ids) != np.arange(self._size)]
        return duplicates.tolist()[0] if len(duplicates) else None

    def find(self, values: Iterable[Any]) -> Array:
        """Return the indices of `values`, −1 where there is no such node."""
        if self.ids.dtype.kind != "i":
            items = values.tolist() if isinstance(values, np.ndarray) else list(values)
            try:
                return np.fromiter(map(self._index_of.get, items, repeat(-1)), np.int64, len(items))
            except TypeError:
                raise InputError(f"node ids must be hashable, found {format_value(items)}") from None
        queries = as_id_array(values)
        is_integer = np.ones(len(queries), bool)
        if queries.dtype.kind != "i":
            is_integer[:] = [isinstance(item, int) and abs(item) < 2**63 for item in queries.tolist()]
            queries = np.where(is_integer, queries, 0).astype(np.int64)
        if self._is_range:
            indices = np.where((queries >= 0) & (queries < self._size), queries, -1)
        else:
            rank = np.searchsorted(self._sorted, queries)
            rank[rank == self._size] = 0
            indices = np.where(self._sorted[rank] == queries, rank, -1)
            if self._order is not None:
                indices = np.where(indices >= 0, self._order[indices], -1)
        return np.where(is_integer, indices, -1)


def id_sequence(nodes: Any) -> Any:
    """Return ids as a sequence; a single id is refused, even if it is iterable."""
    if isinstance(nodes, str | bytes) or not hasattr(nodes, "__iter__"):
        single = f"the single id {format_value(nodes)}"
        raise InputError(f"expected a sequence of node ids, found {single}", hint="put it in a list")
    if hasattr(nodes, "columns"):
        hint = "pass its column of ids, such as table['node']"
        raise InputError("expected a sequence of node ids, found a table", hint=hint)
    return nodes if isinstance(nodes, np.ndarray) else list(nodes)


def unique_index(ids: Array) -> IdIndex:
    """Return the index of ids, which must be unique."""
    index = IdIndex(ids)
    duplicate = index.first_duplicate()
    if duplicate is not None:
        raise InputError(f"node ids must be unique, but {format_value(duplicate)} occurs twice")
    return index


def find_nodes(index: IdIndex, ids: Any, where: str | Param) -> Array:
    """Return the indices of ids; unknown ones raise `UnknownNodeError`, which names them and `where` they occur."""
    indices = index.find(ids)
    unknown = np.flatnonzero(indices < 0)
    if len(unknown):
        missing = list(dict.fromkeys(ids[position] for position in unknown.tolist()))
        missing = [name.item() if isinstance(name, np.generic) else name for name in missing]
        similar = similar_id(missing[0], index.ids) if len(missing) == 1 else None
        raise UnknownNodeError(where, missing, node_ids=index.ids[:2].tolist(), similar=similar)
    return indices


def similar_id(unknown: object, ids: Array) -> str | None:
    """Return the id that was probably meant by one that is unknown: equal but for case and blanks, or similar.

    >>> similar_id("Ann ", np.array(["ann", "bob"], object)), similar_id("bov", np.array(["anna", "bob"], object))
    ('ann', None)
    """
    if not isinstance(unknown, str) or len(unknown) > _MAX_COMPARED or ids.dtype.kind == "i":
        return None
    texts = [text for text in ids.tolist() if isinstance(text, str) and abs(len(text) - len(unknown)) <= 2]
    plain = unknown.strip().casefold()
    equal = next((text for text in texts if text.strip().casefold() == plain), None)
    if equal is not None or len(texts) > _MAX_SIMILAR:
        return equal
    return next(iter(get_close_matches(unknown, texts, 1, 0.75)), None)
