"""The stack machine behind `read_pickle`: it runs a pickle without running anything the pickle names.

A pickle is a program, and three of its instructions call code of the file's choosing: a function (REDUCE), a class
(NEWOBJ), `__setstate__` (BUILD). Here those three write down *what was asked for*, as a `Request`, if it is among the
few things in `KNOWN`; anything else ends the reading. The other instructions only move values about. Memory and time
are bounded by a small multiple of the file's size.

The instructions are those that Python 2 and Python 3 write for arrays, up to protocol 4; the standard library's
`pickletools` says what each does.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cge.errors import format_value

__all__ = ["KNOWN", "Machine", "MalformedError", "Request"]

KNOWN = {
    "numpy.core.multiarray._reconstruct": "new array",
    "numpy._core.multiarray._reconstruct": "new array",
    "numpy.ndarray": "array",
    "numpy.dtype": "dtype",
    "scipy.sparse.csr.csr_matrix": "matrix",
    "scipy.sparse._csr.csr_matrix": "matrix",
    "collections.defaultdict": "table",
    "__builtin__.list": "list",
    "builtins.list": "list",
    "_codecs.encode": "bytes",  # how Python 3 writes bytes for Python 2,
    "__builtin__.bytes": "bytes",  # and no bytes
}


@dataclass
class Request:
    """Something the file asks to have made: by what, from which arguments, with which state."""

    maker: str
    arguments: tuple[Any, ...] = ()
    state: Any = None


class MalformedError(Exception):
    """The file is not a pickle this machine can read; the text completes a sentence."""


class Machine:
    """Runs a pickle's instructions; memory and time are bounded by a small multiple of the file's size."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        """Return what the file leaves on the stack."""
        steps = _STEPS
        while True:
            code = self.take(1)[0]
            if code == _STOP:
                return self.stack.pop()
            step = steps.get(code)
            if step is None:
                raise MalformedError(
                    f"is not a pickle of arrays: found the instruction {bytes([code])!r} at byte {self.place - 1:,}"
                )
            step(self)

    def take(self, count: int) -> bytes:
        """Read so many bytes."""
        end = self.place + count
        if end > len(self.data):
            left = len(self.data) - self.place
            raise MalformedError(
                f"ends too early: byte {self.place:,} announces {count:,} more bytes, but {left:,} are left"
            )
        part = self.data[self.place : end]
        self.place = end
        return part

    def number(self, form: str, size: int) -> int:
        """Read a number in a form of `struct`."""
        value: int = struct.unpack(form, self.take(size))[0]
        return value

    def line(self) -> str:
        """Read up to the end of a line."""
        end = self.data.find(b"\n", self.place)
        if end < 0:
            raise MalformedError(f"ends too early: the name at byte {self.place:,} has no end")
        text = self.data[self.place : end].decode("latin1")
        self.place = end + 1
        return text

    def since_mark(self) -> list[Any]:
        """Take everything above the last mark."""
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def pop(self, count: int) -> list[Any]:
        """Take so many values."""
        if count > len(self.stack) - (self.marks[-1] if self.marks else 0):
            raise MalformedError(
                f"is not a pickle of arrays: the instruction at byte {self.place - 1:,} lacks its operands"
            )
        items = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return items


def _name(machine: Machine, module: Any, name: Any) -> None:
    full = f"{module}.{name}" if isinstance(module, str) and isinstance(name, str) else "something without a name"
    if full not in KNOWN:
        raise MalformedError(
            f"asks for {format_value(full)}, but only arrays, sparse matrices, dictionaries and lists are read from a pickle; "
            "nothing in the file was run"
        )
    machine.stack.append(Request(KNOWN[full]))


def _stack_name(machine: Machine) -> None:
    _name(machine, *machine.pop(2))


def _call(machine: Machine) -> None:
    maker, arguments = machine.pop(2)
    if not isinstance(maker, Request) or maker.arguments or not isinstance(arguments, tuple):
        raise MalformedError(
            f"is not a pickle of arrays: byte {machine.place - 1:,} calls something that is no function"
        )
    machine.stack.append({} if maker.maker == "table" else Request(maker.maker, arguments))


def _set_state(machine: Machine) -> None:
    (state,) = machine.pop(1)
    request = machine.stack[-1]
    if not isinstance(request, Request):
        raise MalformedError(f"is not a pickle of arrays: byte {machine.place - 1:,} sets the state of a plain value")
    request.state = state


def _extend(machine: Machine, items: list[Any]) -> None:
    target = machine.stack[-1]
    if not isinstance(target, list):
        raise MalformedError(
            f"is not a pickle of arrays: byte {machine.place - 1:,} appends to something that is no list"
        )
    target.extend(items)


def _fill(machine: Machine, items: list[Any]) -> None:
    target = machine.stack[-1]
    # Only plain keys: the hash of a nested tuple can take exponential time.
    if not isinstance(target, dict) or not all(isinstance(key, int | str | bytes) for key in items[::2]):
        raise MalformedError(
            f"is not a pickle of arrays: byte {machine.place - 1:,} fills something that is no dictionary"
        )
    target.update(zip(items[::2], items[1::2], strict=True))


def _put(machine: Machine, place: int) -> None:
    machine.memo[place] = machine.stack[-1]


def _skip(count: int) -> Callable[[Machine], None]:
    def step(machine: Machine) -> None:
        machine.take(count)

    return step


def _push(read: Callable[[Machine], Any]) -> Callable[[Machine], None]:
    return lambda machine: machine.stack.append(read(machine))


_STOP = ord(".")
_STEPS: dict[int, Callable[[Machine], None]] = {
    ord(code): step
    for code, step in {
        "\x80": _skip(1),  # PROTO
        "\x95": _skip(8),  # FRAME
        "N": _push(lambda _: None),
        "\x88": _push(lambda _: True),
        "\x89": _push(lambda _: False),
        "J": _push(lambda m: m.number("<i", 4)),
        "K": _push(lambda m: m.number("<B", 1)),
        "M": _push(lambda m: m.number("<H", 2)),
        "\x8a": _push(lambda m: int.from_bytes(m.take(m.number("<B", 1)), "little", signed=True)),
        "U": _push(lambda m: m.take(m.number("<B", 1))),  # Python 2 text
        "T": _push(lambda m: m.take(m.number("<I", 4))),
        "C": _push(lambda m: m.take(m.number("<B", 1))),  # Python 3 bytes
        "B": _push(lambda m: m.take(m.number("<I", 4))),
        "\x8c": _push(lambda m: m.take(m.number("<B", 1)).decode("utf-8", "surrogatepass")),
        "X": _push(lambda m: m.take(m.number("<I", 4)).decode("utf-8", "surrogatepass")),
        ")": _push(lambda _: ()),
        "\x85": _push(lambda m: tuple(m.pop(1))),
        "\x86": _push(lambda m: tuple(m.pop(2))),
        "\x87": _push(lambda m: tuple(m.pop(3))),
        "t": _push(lambda m: tuple(m.since_mark())),
        "]": _push(lambda _: []),
        "}": _push(lambda _: {}),
        "(": lambda m: m.marks.append(len(m.stack)),
        "a": lambda m: _extend(m, m.pop(1)),
        "e": lambda m: _extend(m, m.since_mark()),
        "s": lambda m: _fill(m, m.pop(2)),
        "u": lambda m: _fill(m, m.since_mark()),
        "q": lambda m: _put(m, m.number("<B", 1)),
        "r": lambda m: _put(m, m.number("<I", 4)),
        "\x94": lambda m: _put(m, len(m.memo)),
        "h": _push(lambda m: m.memo[m.number("<B", 1)]),
        "j": _push(lambda m: m.memo[m.number("<I", 4)]),
        "c": lambda m: _name(m, m.line(), m.line()),  # GLOBAL
        "\x93": _stack_name,
        "R": _call,  # REDUCE: would call a function
        "\x81": _call,  # NEWOBJ: would make an object
        "b": _set_state,  # BUILD: would call __setstate__
    }.items()
}
