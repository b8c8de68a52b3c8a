"""Nearly valid bytes: valid files, changed in a few positions, or pieces that parsers often get wrong."""

from __future__ import annotations

import gzip
import io
import re
import zipfile
from random import Random
from typing import Any

__all__ = ["damaged", "damaged_gzip", "damaged_json", "damaged_npy", "damaged_zip", "edited", "nonsense"]

_NUMBERS = (
    0,
    1,
    -1,
    2,
    3,
    127,
    128,
    255,
    2**15,
    2**16 - 1,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**40,
    2**63 - 1,
    2**63,
    10**12,
)
_PIECES = (
    *(str(number).encode() for number in _NUMBERS),
    *b'\0 " "" \' , ; | # % { } [ ] ( ) = . - + / \\ : @ ~'.split(),
    *(
        b" ",
        b"\t",
        b"\n",
        b"\r",
        b"\r\n",
        b"\x1a",
        b"\x7f",
        b"\x80",
        b"\xff",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\xc3\x28",
    ),
    *(b"\xed\xa0\x80", b"\xe2\x80\xa8", b"\x1f\x8b", b"PAR1", b"\x93NUMPY\x01\x00", b"PK\x03\x04", b"\x80\x04\x95"),
    *(b"nan", b"-inf", b"1e999", b"1e-999", b"0x1", b"1_0", b"1,5", b"True", b"null", b"None", b"{}", b"sep=;", b"../"),
    *(
        b"source",
        b"target",
        b"weight",
        b"type",
        b"node",
        b"label",
        b"id",
        b"train",
        b"test",
        b"#*",
        b"#index",
        b"#%",
        b"#c",
    ),
)
_DIGITS = re.compile(rb"-?\d+")


def nonsense(random: Random) -> bytes:
    """Return random bytes, or a few pieces that are special to parsers."""
    if random.random() < 0.3:
        return random.randbytes(random.randrange(200))
    return b"".join(random.choice(_PIECES) for _ in range(random.randrange(60)))


def damaged(data: bytes, random: Random) -> bytes:
    """Return bytes with one to four changes."""
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 4))):
        data = _changed(data, random)
    return data


def _changed(data: bytes, random: Random) -> bytes:
    kind = random.randrange(9)
    position = random.randrange(len(data) + 1)
    if kind == 0:
        return edited(data, [("flip", position / (len(data) + 1), bytes([1 << random.randrange(8)]))])
    if kind == 1:
        return data[:position]
    if kind == 2:
        return data[:position] + random.choice(_PIECES) + data[position:]
    if kind == 3:
        return data[:position] + data[position + random.randrange(1, 20) :]
    if kind == 4:  # a number in binary
        size = random.choice((1, 2, 4, 8))
        number: bytes = (random.choice(_NUMBERS) % 256**size).to_bytes(size, random.choice(("little", "big")))
        return data[:position] + number + data[position + size :]
    if kind == 5:  # a number in text
        matches = list(_DIGITS.finditer(data[position : position + 500]))
        if matches:
            match = random.choice(matches)
            number = str(random.choice(_NUMBERS)).encode()
            return data[: position + match.start()] + number + data[position + match.end() :]
    if kind == 6:  # a part repeated, or copied elsewhere
        part = data[position : position + random.randrange(1, 60)]
        other = random.randrange(len(data) + 1)
        return data[:other] + part * random.choice((1, 1, 2, 50)) + data[other:]
    if kind == 7:  # a line removed, or moved
        lines = data.splitlines(keepends=True)
        if lines:
            line = lines.pop(random.randrange(len(lines)))
            if random.random() < 0.5:
                lines.insert(random.randrange(len(lines) + 1), line)
            return b"".join(lines)
    size = random.randrange(1, 9)
    return data[:position] + random.randbytes(size) + data[position + size :]


def edited(data: bytes, steps: list[tuple[str, float, bytes]]) -> bytes:
    """Return bytes after steps of the kinds flip, cut, insert and remove, each at a fraction of the length."""
    for kind, fraction, content in steps:
        position = int(fraction * len(data))
        if kind == "flip" and data:
            data = data[:position] + bytes([data[position] ^ (content[0] or 1)]) + data[position + 1 :]
        elif kind == "cut":
            data = data[:position]
        elif kind == "insert":
            data = data[:position] + content + data[position:]
        elif kind == "remove":
            data = data[:position] + data[position + len(content) :]
    return data


# ---------------------------------------------------------------------- containers


def damaged_gzip(data: bytes, random: Random) -> bytes:
    """Damage the compressed content, or the compressed file."""
    if random.random() < 0.5:
        return damaged(data, random)
    return gzip.compress(damaged(gzip.decompress(data), random), 1, mtime=0)


def damaged_npy(data: bytes, random: Random) -> bytes:
    """Damage an array of NumPy, or replace its header."""
    if random.random() < 0.4:
        return damaged(data, random)
    end = 10 + int.from_bytes(data[8:10], "little")
    header = data[10:end].decode("latin1")
    kinds = (
        "<i8",
        "<i4",
        ">i8",
        "<f8",
        "<f4",
        "|b1",
        "|u1",
        "<U3",
        "|S4",
        "|O",
        "<c16",
        "|V8",
        "<M8[s]",
        "<U0",
        "<U999999999",
    )
    shapes = (
        "()",
        "(0,)",
        "(2,)",
        "(0, 2)",
        "(2, 0)",
        "(1000000000000, 2)",
        "(1000000000000, 0)",
        "(3, 2)",
        "(1, 2, 3)",
        "(-1, 2)",
        "(2**40,)",
        "2",
    )
    if random.random() < 0.6:
        header = re.sub(r"'descr': '[^']*'", f"'descr': {random.choice(kinds)!r}", header)
    if random.random() < 0.6:
        header = re.sub(r"'shape': \([^)]*\)", f"'shape': {random.choice(shapes)}", header)
    if random.random() < 0.3:
        header = damaged(header.encode("latin1"), random).decode("latin1")
    return data[:8] + (len(header) % 65536).to_bytes(2, "little") + header.encode("latin1") + data[end:]


def damaged_zip(data: bytes, random: Random) -> bytes:
    """Damage members of an archive of arrays with correct checksums, their names, or the archive."""
    if random.random() < 0.4:
        return damaged(data, random)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = random.choice(sorted(members))
    kind = random.randrange(5)
    if kind < 3:
        members[name] = damaged_npy(members[name], random)
    elif kind == 3:
        members[random.choice(("../" + name, "/etc/" + name, "format.npy", "x.npy", "a" * 300, name[:-4]))] = (
            members.pop(name)
        )
    else:
        members[name] = members[random.choice(sorted(members))]
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    return stream.getvalue()


# ---------------------------------------------------------------------- JSON


def _any_json(random: Random, depth: int = 3) -> Any:
    """Return a random JSON value."""
    kind = random.randrange(10 if depth else 8)
    if kind < 3:
        return random.choice((None, True, False, "", "x", "none", "auto", "../x", "\n", [], {}))
    if kind < 6:
        return random.choice((*_NUMBERS, -(2**70), 10**30))
    if kind < 8:
        return random.choice((0.0, -0.5, 1e308, 1e-320, 3.7, float("nan"), float("inf")))
    if kind == 8:
        return [_any_json(random, depth - 1) for _ in range(random.randrange(4))]
    return {random.choice("abcx"): _any_json(random, depth - 1) for _ in range(random.randrange(3))}


def damaged_json(value: Any, random: Random) -> Any:
    """Return a JSON value in which one value is replaced or removed."""
    if not isinstance(value, dict | list) or not value or random.random() < 0.1:
        return _any_json(random)
    copy: Any = value.copy()
    key: Any = random.choice(sorted(copy)) if isinstance(copy, dict) else random.randrange(len(copy))
    if random.random() < 0.15:
        del copy[key]
    elif isinstance(copy, list) and random.random() < 0.1:
        copy *= random.choice((2, 100))
    else:
        copy[key] = damaged_json(copy[key], random)
    return copy
