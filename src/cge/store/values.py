"""Node ids and classes as plain arrays: numbers as they are, strings as one text with the end of each string."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cge.arrays import Array
from cge.errors import FileFormatError, InputError, format_value
from cge.ids import as_id_array
from cge.store.file_io import HINT
from cge.store.tensors import STORABLE

_LARGEST_CHARACTER = 0x10FFFF
_LONGEST = (2**31 - 1) // 4  # characters in an item of a fixed-width NumPy array


def pack_ids(ids: Iterable[Any], prefix: str = "ids.") -> dict[str, Array]:
    """Return node ids as arrays whose names start with `prefix`; only integers and strings can be saved.

    >>> {name: array.tolist() for name, array in pack_ids(["ab", "c"]).items()}
    {'ids.text': [97, 98, 99], 'ids.ends': [0, 2, 3]}
    """
    array = as_id_array(ids)
    packed = {"numbers": array} if array.dtype.kind == "i" else _packed_objects(array)
    if packed is None:
        raise InputError(
            f"saving needs node ids that are all integers (of 64 bits) or all strings, found {_first_misfit(array)}",
            hint="give the nodes such ids, for example str(id)",
        )
    return {prefix + name: part for name, part in packed.items()}


def unpack_ids(arrays: Mapping[str, Array], prefix: str = "ids.", *, where: str | Path = "the stored ids") -> Array:
    """Return the ids that `pack_ids` has packed: int64, or strings in an object array.

    Arrays that do not go together raise `FileFormatError`, which names `where` they are stored.
    """
    ids = unpack_values(arrays, prefix, where=where)
    if ids.dtype not in (np.dtype(np.int64), np.dtype(object)):
        raise FileFormatError(where, f"expected ids that are int64 or strings, found {ids.dtype}", hint=HINT)
    return ids


def pack_values(values: Array, prefix: str = "values.") -> dict[str, Array]:
    """Return a flat array of integers, floats, booleans or strings as arrays whose names start with `prefix`."""
    if not isinstance(values, np.ndarray) or values.ndim != 1:
        raise InputError(f"saving needs a flat array, found {format_value(values)}")
    packed: dict[str, Array] | None = None
    if values.dtype.name in STORABLE:
        packed = {"numbers": values}
    elif values.dtype.kind == "U":
        packed = {"characters": _characters(values)}
    elif values.dtype.kind == "O":
        packed = _packed_objects(values)
    if packed is None:
        raise InputError(
            f"saving needs values that are all integers (of 64 bits), floats, booleans or strings, "
            f"found {_first_misfit(values)}",
            hint="use one of these types",
        )
    return {prefix + name: part for name, part in packed.items()}


def unpack_values(
    arrays: Mapping[str, Array], prefix: str = "values.", *, where: str | Path = "the stored values"
) -> Array:
    """Return the array that `pack_values` has packed.

    Arrays that do not go together raise `FileFormatError`, which names `where` they are stored.
    """
    forms = [form for form in ("numbers", "characters", "text") if prefix + form in arrays]
    if len(forms) != 1:
        actual = " and ".join(repr(prefix + form) for form in forms) or "none"
        raise FileFormatError(
            where, f"expected one of the arrays {prefix}numbers, -characters and -text, found {actual}", hint=HINT
        )
    form, part = forms[0], arrays[prefix + forms[0]]
    if form == "numbers":
        if part.ndim != 1 or part.dtype.name not in STORABLE:
            raise _unexpected(where, prefix + form, "flat numbers", part)
        return part
    if form == "characters":
        if part.ndim != 2 or part.dtype != np.uint32 or not 1 <= part.shape[1] <= _LONGEST:
            raise _unexpected(where, prefix + form, "uint32 of two dimensions", part)
        if part.size and part.max() > _LARGEST_CHARACTER:
            raise FileFormatError(
                where, f"{prefix + form!r} contains {part.max():,}, which is not a character", hint=HINT
            )
        count, width = part.shape
        return np.ascontiguousarray(part).reshape(-1).view(f"U{width}") if count else np.empty(0, f"U{width}")
    return _strings(part, arrays.get(prefix + "ends"), prefix, where)


def _packed_objects(values: Array) -> dict[str, Array] | None:
    """Pack strings, or integers that fit in 64 bits; None where there is anything else."""
    items = values.tolist()
    if all(map(_is_string, items)):
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
    fits = _is_string if _is_string(items[0]) else _is_integer
    place = next(place for place, item in enumerate(items) if not fits(item))
    return f"{format_value(items[place])} at position {place:,}"


def _is_string(item: object) -> bool:
    return isinstance(item, str)


def _is_integer(item: object) -> bool:
    return isinstance(item, int | np.integer) and not isinstance(item, bool) and -(2**63) <= int(item) < 2**63


def _text(items: list[str]) -> tuple[Array, Array]:
    """Return strings as UTF-8 `(bytes,)` and a zero followed by the end of each, `(n+1,)`."""
    if not items:
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    try:
        _, ends, data = pa.array(items, pa.large_string()).buffers()
    except UnicodeEncodeError:  # Arrow cannot encode half of a surrogate pair
        encoded = [item.encode("utf-8", "surrogatepass") for item in items]
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        return np.frombuffer(b"".join(encoded), np.uint8), np.concatenate([[0], np.cumsum(lengths)])
    offsets = np.frombuffer(ends, np.int64, len(items) + 1)
    return np.frombuffer(data or b"", np.uint8, int(offsets[-1])), offsets


def _strings(text: Array, ends: Array | None, prefix: str, where: str | Path) -> Array:
    if text.ndim != 1 or text.dtype != np.uint8:
        raise _unexpected(where, prefix + "text", "flat uint8", text)
    if ends is None or ends.ndim != 1 or ends.dtype != np.int64 or not len(ends):
        raise _unexpected(where, prefix + "ends", "flat int64", ends)
    if ends[0] != 0 or ends[-1] != len(text) or np.any(ends[1:] < ends[:-1]):
        raise FileFormatError(where, f"{prefix + 'ends'!r} must rise from 0 to {len(text):,}", hint=HINT)
    text, ends = np.ascontiguousarray(text), np.ascontiguousarray(ends)
    try:
        stored = pa.LargeStringArray.from_buffers(len(ends) - 1, pa.py_buffer(ends), pa.py_buffer(text))
        stored.validate(full=True)
        strings: Array = stored.to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:  # halves of surrogate pairs, or not text at all
        strings, data = np.empty(len(ends) - 1, object), text.tobytes()
        try:
            strings[:] = [data[start:end].decode("utf-8", "surrogatepass") for start, end in pairwise(ends.tolist())]
        except UnicodeDecodeError:
            raise FileFormatError(where, f"{prefix + 'text'!r} is not UTF-8 text", hint=HINT) from None
    return strings


def _characters(values: Array) -> Array:
    """Return fixed-width strings as code points, `(n, width)`."""
    width = max(values.dtype.itemsize // 4, 1)
    plain = np.ascontiguousarray(values, f"=U{width}")
    return plain.view(np.uint32).reshape(len(values), width)


def _unexpected(where: str | Path, name: str, expected: str, actual: Array | None) -> FileFormatError:
    seen = "nothing" if actual is None else f"{actual.dtype} of shape {actual.shape}"
    return FileFormatError(where, f"expected {expected} under {name!r}, found {seen}", hint=HINT)
