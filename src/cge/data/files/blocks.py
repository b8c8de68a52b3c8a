"""Bytes of a file, plain or gzip, in large blocks that end with a line."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from cge.errors import FileFormatError

BLOCK_BYTES = 1 << 24
MAX_COMPRESSION = 1032  # the highest ratio of unpacked to packed bytes that deflate reaches
MAX_LINE_BYTES = 1 << 26  # a longer "line" means that the file is not text

_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_OTHER_FORMATS = {
    b"BZh": "a bzip2 archive; unpack it first",
    b"\xfd7zXZ": "an xz archive; unpack it first",
    b"\x28\xb5\x2f\xfd": "a Zstandard archive; unpack it first",
    b"PK\x03\x04": "a zip archive or a spreadsheet; unpack it, or save it as CSV",
    b"PAR1": "a Parquet file without the suffix .parquet",
    b"\x93NUMPY": "a NumPy file without the suffix .npy",
    b"\x89HDF": "an HDF5 file",
    b"\x80\x04\x95": "a pickle, which can run arbitrary code and is never opened",
}


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """Open a plain or gzip file for reading; errors of the operating system become `FileFormatError`."""
    try:
        if path.exists() and not path.is_file():
            kind = "a directory" if path.is_dir() else "not a regular file"
            raise FileFormatError(path, f"this is {kind}; give the path of a file")
        with path.open("rb") as plain:
            if plain.peek(2)[:2] != _GZIP:
                yield plain
                return
            with gzip.GzipFile(fileobj=plain) as unpacked:
                yield unpacked  # type: ignore[misc]
    except FileNotFoundError:
        raise FileFormatError(path, "there is no such file; check its path") from None
    except PermissionError:
        raise FileFormatError(path, "you may not read this file; change its permissions") from None
    except EOFError:
        raise FileFormatError(path, "the gzip data ends too early: the file is truncated; fetch it again") from None
    except (gzip.BadGzipFile, zlib.error):
        raise FileFormatError(path, "the gzip data is damaged; fetch the file again") from None
    except OSError as error:
        raise FileFormatError(path, f"the file cannot be read ({error.strerror or error})") from None


def _byte_order_mark(path: Path, start: bytes) -> int:
    """Return the length of the byte order mark; refuse formats other than text."""
    if start.startswith(_UTF16):
        raise FileFormatError(path, "the text is UTF-16; save it as UTF-8")
    for magic, name in _OTHER_FORMATS.items():
        if start.startswith(magic):
            raise FileFormatError(path, f"expected text, plain or gzip, found {name}")
    return len(_BOM) if start.startswith(_BOM) else 0


def numbered_lines(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """Yield (line number, offset of its first byte, line) of a text file; slow, for first lines and for messages.

    Of several blank lines in sequence only the first is certain to be among them.
    """
    with open_bytes(path) as stream:
        offset, number = 0, 1
        while line := stream.readline(MAX_LINE_BYTES):
            if len(line) == MAX_LINE_BYTES:
                raise _line_too_long(path, number)
            mark = _byte_order_mark(path, line) if offset == 0 else 0
            _refuse_zero(path, line, len(line), number)
            yield number, offset + mark, line[mark:]
            offset, number = offset + len(line), number + 1
            while not line.strip() and (blank := _blank_lines(stream.peek(1))):  # type: ignore[attr-defined]
                offset, number = offset + len(blank), number + stream.read(len(blank)).count(b"\n")


def _blank_lines(text: bytes) -> bytes:
    """Return the blank lines that text starts with."""
    blank = text[: len(text) - len(text.lstrip(b" \t\r\n"))]
    return blank[: blank.rfind(b"\n") + 1]


def line_blocks(path: Path, start: int, line: int, size: int) -> Iterator[tuple[bytearray, int, int]]:
    """Yield (buffer, end, number of its first line): `buffer[:end]` are whole lines, the last byte is a newline.

    Reading starts at byte `start` of the (unpacked) file, where line number `line` starts. The buffer is reused for the
    next block.
    """
    with open_bytes(path) as stream:
        stream.seek(start)
        max_size = path.stat().st_size * (MAX_COMPRESSION if isinstance(stream, gzip.GzipFile) else 1)
        size = min(size, max_size + 1)  # a large buffer costs milliseconds
        buffer, carried = bytearray(size + 1), 0  # one byte is spare for a missing newline at the end
        while True:
            filled = _fill(stream, buffer, carried)
            at_end = filled < len(buffer) - 1
            if at_end and filled and buffer[filled - 1] != ord("\n"):
                buffer[filled] = ord("\n")
                filled += 1
            end = filled if at_end else buffer.rfind(b"\n", carried, filled) + 1
            _refuse_zero(path, buffer, end or filled, line)
            if end:
                yield buffer, end, line
            if at_end:
                return
            line += buffer.count(b"\n", 0, end)
            carried = filled - end
            if end:
                buffer[:carried] = buffer[end:filled]
            elif len(buffer) > MAX_LINE_BYTES:
                raise _line_too_long(path, line)
            else:
                buffer = buffer + bytes(len(buffer))  # a new one: the old may still be in use


def _fill(stream: BinaryIO, buffer: bytearray, filled: int) -> int:
    with memoryview(buffer) as view:
        while filled < len(buffer) - 1:
            count = stream.readinto(view[filled:-1])  # type: ignore[attr-defined]
            if not count:
                break
            filled += count
    return filled


def _refuse_zero(path: Path, text: bytes | bytearray, end: int, line: int) -> None:
    position = text.find(b"\0", 0, end)
    if position >= 0:
        line += text.count(b"\n", 0, position)
        raise FileFormatError(path, "expected text, found a zero byte; this looks like a binary file", line)


def _line_too_long(path: Path, line: int) -> FileFormatError:
    return FileFormatError(path, f"this line is longer than {MAX_LINE_BYTES >> 20} MB; is this a text file?", line)
