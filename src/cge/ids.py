"""Node ids: whatever a user calls nodes ↔ the numbers 0 … n-1 that arrays are indexed by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cge.errors import InputError, Param, UnknownNodeError, format_value

__all__ = [
    "IdIndex",
    "as_id_array",
    "check_node_range",
    "factorize",
    "find_nodes",
    "id_sequence",
    "unique_index",
]

Array = npt.NDArray[Any]

# Integer ids are marked in a table if their range is at most this many times their number; else they are sorted.
_DENSE_RANGE = 8


def as_id_array(values: Iterable[Any], what: str = "node ids") -> Array:
    """Return ids as a flat array: int64 for integers, object for everything else that is hashable.

    Whole floats (as tables with gaps make them) become integers; NaN and None are refused, so is anything unhashable.

    >>> as_id_array([3, 5]).dtype, as_id_array(["a", "b"]).dtype, as_id_array([("a", 1)]).dtype
    (dtype('int64'), dtype('O'), dtype('O'))
    """
    array = values if isinstance(values, np.ndarray) else _to_array(values)
    if array.ndim != 1:
        raise InputError(f"{what} must be a flat sequence, found an array of shape {array.shape}")
    if array.dtype.kind == "b":
        raise InputError(f"{what} must be integers, strings or other names, found true/false values")
    if array.dtype.kind == "i":
        return array.astype(np.int64, copy=False)
    if array.dtype.kind == "u":
        if array.size and array.max() > np.iinfo(np.int64).max:
            return array.astype(object)
        return array.astype(np.int64)
    if array.dtype.kind == "f":
        exact = 2.0 ** min(np.finfo(array.dtype).nmant + 1, 53)  # from there on neighboring whole numbers are the same
        wide = array.astype(np.float64)
        wrong = np.flatnonzero(~(np.abs(wide) < exact) | (wide != np.floor(wide)))
        if len(wrong):
            raise InputError(f"{what} hold {array[wrong[0]]} at position {wrong[0]:,}; use whole numbers or strings")
        return array.astype(np.int64)
    if array.dtype.kind in "US":
        return array.astype(object)
    return _checked_objects(array.astype(object, copy=False), what)


def _to_array(values: Iterable[Any]) -> Array:
    items = values if isinstance(values, Sequence) else list(values)
    if items and all(type(item) is int for item in items):
        try:
            return np.array(items, np.int64)
        except OverflowError:
            pass
    elif items and all(isinstance(item, np.integer | float | np.floating) for item in items):
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
    for place, item in enumerate(items):
        if item is None or isinstance(item, bool) or item != item:
            raise InputError(f"{what} hold {item!r} at position {place:,}; every node needs a name")
        try:
            hash(item)
        except TypeError:
            raise InputError(f"{what} hold {format_value(item)} at position {place:,}, which is not hashable") from None
    return array


def factorize(values: Array) -> tuple[Array, Array]:
    """Return `(codes, ids)` with `ids[codes] == values`: integer ids ascend, others keep the order of first appearance.

    >>> codes, ids = factorize(np.array([7, 3, 7]))
    >>> codes.tolist(), ids.tolist()
    ([1, 0, 1], [3, 7])
    """
    if values.dtype.kind == "i":
        return _factorize_integers(values)
    items = values.tolist()
    if all(type(item) is str for item in items):
        with suppress(UnicodeEncodeError):  # half of a surrogate pair is a str, but not a text that Arrow holds
            encoded = pa.array(items, pa.large_string()).dictionary_encode()
            return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_numpy(zero_copy_only=False)
    place: dict[Any, int] = {}
    codes = np.fromiter((place.setdefault(item, len(place)) for item in items), np.int64, len(items))
    ids = np.empty(len(place), object)
    ids[:] = list(place)
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
    number = np.cumsum(present) - 1
    return number[values - low], ids


class IdIndex:
    """Finds the number of a node by its id.

    >>> IdIndex(as_id_array([10, 30])).find([30, 7]).tolist()
    [1, -1]
    """

    def __init__(self, ids: Array) -> None:
        self._ids = ids
        self._size = len(ids)
        self._order: Array | None = None
        self._sorted = ids
        self._place: dict[Any, int] = {}
        self._is_range = False
        if ids.dtype.kind == "i":
            self._is_range = self._size == 0 or bool(ids[0] == 0 and np.array_equal(ids, np.arange(self._size)))
            if not self._is_range and np.any(ids[1:] <= ids[:-1]):
                self._order = np.argsort(ids, kind="stable")
                self._sorted = ids[self._order]
        else:
            self._place = dict(zip(ids.tolist(), range(self._size), strict=True))

    def first_duplicate(self) -> object | None:
        """Return an id that stands twice, or None."""
        if self._ids.dtype.kind == "i":
            if self._is_range:
                return None
            twice = np.flatnonzero(self._sorted[1:] == self._sorted[:-1])
            return int(self._sorted[twice[0]]) if len(twice) else None
        if len(self._place) == self._size:
            return None
        # The dictionary keeps the last place of an id: an id at any other place stands twice.
        return next((one for place, one in enumerate(self._ids.tolist()) if self._place[one] != place), None)

    def find(self, values: Iterable[Any]) -> Array:
        """Return the numbers of `values`, −1 where there is no such node."""
        if self._ids.dtype.kind != "i":
            items = values.tolist() if isinstance(values, np.ndarray) else list(values)
            try:
                return np.fromiter(map(self._place.get, items, repeat(-1)), np.int64, len(items))
            except TypeError:
                raise InputError(f"node ids must be hashable, found {format_value(items)}") from None
        wanted = as_id_array(values)
        if wanted.dtype.kind != "i":
            wanted = np.array([v if isinstance(v, int) and abs(v) < 2**63 else None for v in wanted.tolist()], object)
            missing = wanted == None  # noqa: E711 - elementwise
            wanted = np.where(missing, np.iinfo(np.int64).min, wanted).astype(np.int64)
        else:
            missing = np.zeros(len(wanted), bool)
        if self._is_range:
            found = np.where((wanted >= 0) & (wanted < self._size), wanted, -1)
        else:
            place = np.searchsorted(self._sorted, wanted)
            place[place == self._size] = 0
            found = np.where(self._sorted[place] == wanted, place, -1)
            if self._order is not None:
                found = np.where(found >= 0, self._order[found], -1)
        return np.where(missing, -1, found)


def id_sequence(nodes: Any) -> Any:
    """Return ids as a sequence; a single id is no sequence, even if Python can iterate over it."""
    if isinstance(nodes, str | bytes) or not hasattr(nodes, "__iter__"):
        raise InputError(
            f"a sequence of node ids is needed, found the single id {format_value(nodes)}; put it in a list"
        )
    if hasattr(nodes, "columns"):
        raise InputError(
            "a sequence of node ids is needed, found a table; pass its column of ids, such as table['node']"
        )
    return nodes if isinstance(nodes, np.ndarray) else list(nodes)


def check_node_range(ends: Array, size: int) -> None:
    """Refuse edges that do not name the nodes 0 … size-1."""
    wrong = ends if ends.dtype.kind != "i" else ends[(ends < 0) | (ends >= size)]
    if len(wrong):
        found = format_value(wrong[:1].tolist()[0])
        raise InputError(
            f"without node_ids the nodes are the numbers 0 to {size - 1:,}, but the edges hold {found}; "
            "pass node_ids= to say which node is which"
        )


def unique_index(ids: Array) -> IdIndex:
    """Return the index of ids, of which none may stand twice."""
    index = IdIndex(ids)
    twice = index.first_duplicate()
    if twice is not None:
        raise InputError(f"node ids must be unique, but {format_value(twice)} stands twice")
    return index


def find_nodes(index: IdIndex, wanted: Any, where: str | Param) -> Array:
    """Return the numbers of ids; unknown ones raise `UnknownNodeError`, which names them and `where` they stand."""
    numbers = index.find(wanted)
    unknown = np.flatnonzero(numbers < 0)
    if len(unknown):
        missing = list(dict.fromkeys(wanted[place] for place in unknown.tolist()))
        plain = [one.item() if isinstance(one, np.generic) else one for one in missing]
        raise UnknownNodeError(where, plain)
    return numbers
