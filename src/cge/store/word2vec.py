r"""Vectors in the two formats of word2vec, which gensim and many others read.

    text      "<n> <d>\n", then for each node "<word> <number> … <number>\n"
    binary    "<n> <d>\n", then for each node "<word> ", d float32 in little-endian order, "\n"

A word has no whitespace: `cge.store.text.as_word` percent-encodes that of an id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cge.arrays import Array
from cge.errors import InputError
from cge.store.text import as_word

_ROWS = 4096  # at once


def write_word2vec_text(stream: BinaryIO, texts: Sequence[str], vectors: Array) -> None:
    """Write vectors `(n, d)` of nodes as text; each number is the shortest one that reads back as the same float32."""
    for words, rows in _blocks(stream, texts, vectors):
        columns = [pa.array(np.ascontiguousarray(column)).cast(pa.string()) for column in rows.T]
        lines = pc.binary_join_element_wise(pa.array(words), *columns, " ").to_pylist()
        stream.write("".join(f"{line}\n" for line in lines).encode())


def write_word2vec_binary(stream: BinaryIO, texts: Sequence[str], vectors: Array) -> None:
    """Write vectors `(n, d)` of nodes as bytes."""
    for words, rows in _blocks(stream, texts, vectors):
        numbers = np.ascontiguousarray(rows, "<f4")
        stream.write(
            b"".join(b"%b %b\n" % (word.encode(), row.tobytes()) for word, row in zip(words, numbers, strict=True))
        )


def _blocks(stream: BinaryIO, texts: Sequence[str], vectors: Array) -> Iterator[tuple[list[str], Array]]:
    """Write the first line, and yield words and rows block by block."""
    words = [as_word(text) for text in texts]
    if not all(words):
        raise InputError(
            "a node has an empty id, which a word2vec file cannot contain", hint="rename it, or write .parquet"
        )
    stream.write(f"{len(words)} {vectors.shape[1]}\n".encode())
    for start in range(0, len(words), _ROWS):
        yield words[start : start + _ROWS], vectors[start : start + _ROWS]
