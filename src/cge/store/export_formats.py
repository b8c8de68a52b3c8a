r"""Tables as text, whose cells no spreadsheet evaluates, and as Parquet; vectors as word2vec; graphs as GraphML.

A column of a table is an array of numbers, a list of strings (None where there is none) or a list of lists of strings;
in Parquet also a list of lists of integers, or an array of two dimensions, whose rows become lists. gensim and many
others read word2vec; Gephi, yEd, Cytoscape, igraph and NetworkX read GraphML.

    word2vec text      "<n> <d>\n", then for each node "<word> <number> … <number>\n"
    word2vec binary    "<n> <d>\n", then for each node "<word> ", d float32 in little-endian order, "\n"
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from cge.arrays import Array
from cge.errors import InputError, format_value
from cge.graph import Graph
from cge.parallel import split_blocks

_AT_ONCE = 8192  # nodes, or entries of rows

# ---------------------------------------------------------------------- tables

SEPARATOR = "; "  # between several strings in one cell

_ROWS = 16_384  # at once
_FORMULA = re.compile(r"'*[=+\-@＝＋－＠\t\r\n]")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def escape_formula(text: str) -> str:
    """Return a cell with a leading apostrophe where a spreadsheet would evaluate it as a formula.

    A cell that starts with apostrophes and a formula gets one more, so that removing one apostrophe from every escaped
    cell restores the text. Numbers stay as they are.
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def checked_texts(ids: Array) -> Sequence[str]:
    """Return node ids as text; they must be integers, or strings that UTF-8 can encode."""
    if ids.dtype.kind == "i":
        return [str(number) for number in ids.tolist()]
    texts: list[Any] = np.asarray(ids, object).tolist()
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            problem = "a file can contain node ids that are all integers or all strings, found "
            problem += f"{format_value(text)} at position {place:,}"
            raise InputError(problem, hint="give the nodes such ids, for example str(id)")
        if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
            problem = f"the node id {format_value(text)} contains half of a surrogate pair, which UTF-8 cannot encode"
            raise InputError(problem, hint="rename the node")
    return texts


def write_text_table(
    stream: BinaryIO, columns: Mapping[str, Any], delimiter: str, *, header: bool = True, exact: bool = False
) -> None:
    """Write columns as CSV or TSV; formulas are escaped unless text is to be `exact`."""
    if header:
        names = (name if exact else escape_formula(name) for name in columns)
        quoted = ('"' + name.replace('"', '""') + '"' for name in names)
        stream.write(f"{delimiter.join(quoted)}\n".encode())
    plain = {name: _cells(column, exact) for name, column in columns.items()}
    options = pyarrow.csv.WriteOptions(include_header=False, delimiter=delimiter)
    _write_batches(plain, lambda schema: pyarrow.csv.CSVWriter(stream, schema, write_options=options))


def write_parquet_table(stream: BinaryIO, columns: Mapping[str, Any]) -> None:
    """Write columns as Parquet; text stays as it is."""
    _write_batches(columns, lambda schema: pq.ParquetWriter(stream, schema))


def count_escaped_cells(columns: Mapping[str, Any]) -> int:
    """Return how many cells of a text table, including its header, get an apostrophe."""
    texts = {name: column for name, column in columns.items() if not isinstance(column, np.ndarray)}
    pairs = ((_cells(column, False), _cells(column, True)) for column in (list(columns), *texts.values()))
    return sum(cell != text for cells, exact in pairs for cell, text in zip(cells, exact, strict=True))


def _cells(column: Any, exact: bool) -> Any:
    """Return a column of text as cells of a text table."""
    if isinstance(column, np.ndarray):
        return column
    texts = (SEPARATOR.join(cell) if isinstance(cell, list) else cell for cell in column)
    return [text if text is None or exact else escape_formula(text) for text in texts]


def _type(column: Any) -> pa.DataType:
    if isinstance(column, np.ndarray):
        kind = pa.from_numpy_dtype(column.dtype)
        return pa.list_(kind, column.shape[1]) if column.ndim == 2 else kind
    lists = [cell for cell in column if isinstance(cell, list)]
    items = [item for row in lists for item in row if item is not None]
    integers = bool(items) and all(isinstance(item, int) for item in items)
    return pa.list_(pa.int64() if integers else pa.string()) if lists else pa.string()


def _write_batches(columns: Mapping[str, Any], make_writer: Callable[[pa.Schema], Any]) -> None:
    schema = pa.schema([(name, _type(column)) for name, column in columns.items()])
    with make_writer(schema) as writer:
        for start, end in split_blocks(len(next(iter(columns.values()))), _ROWS):
            arrays = [_array(column[start:end], schema.field(name).type) for name, column in columns.items()]
            writer.write_batch(pa.record_batch(arrays, schema=schema))


def _array(values: Any, kind: pa.DataType) -> pa.Array:
    if not isinstance(values, np.ndarray) or values.ndim == 1:
        return pa.array(values, kind)
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(values).reshape(-1)), type=kind)


# ---------------------------------------------------------------------- word2vec

_NO_WORD = re.compile(r"[%\s\x00-\x1f\x7f-\x9f\ufeff]")


def as_word(text: str) -> str:
    """Return text without whitespace and control characters; `urllib.parse.unquote` reverses it."""
    return _NO_WORD.sub(lambda match: quote(match[0], safe=""), text)


def write_word2vec_text(stream: BinaryIO, texts: Sequence[str], vectors: Array) -> None:
    """Write vectors `(n, d)` of nodes as text; each number is the shortest one that reads back as the same float32."""
    for words, rows in _word_blocks(stream, texts, vectors):
        columns = [pa.array(np.ascontiguousarray(column)).cast(pa.string()) for column in rows.T]
        lines = pc.binary_join_element_wise(pa.array(words), *columns, " ").to_pylist()
        stream.write("".join(f"{line}\n" for line in lines).encode())


def write_word2vec_binary(stream: BinaryIO, texts: Sequence[str], vectors: Array) -> None:
    """Write vectors `(n, d)` of nodes as bytes."""
    for words, rows in _word_blocks(stream, texts, vectors):
        lines = zip(words, np.ascontiguousarray(rows, "<f4"), strict=True)
        stream.write(b"".join(b"%b %b\n" % (word.encode(), row.tobytes()) for word, row in lines))


def _word_blocks(stream: BinaryIO, texts: Sequence[str], vectors: Array) -> Iterator[tuple[list[str], Array]]:
    """Write the first line, and yield words and rows block by block."""
    words = [as_word(text) for text in texts]
    if not all(words):
        problem = "a node has an empty id, which a word2vec file cannot contain"
        raise InputError(problem, hint="rename it, or write .parquet")
    stream.write(f"{len(words)} {vectors.shape[1]}\n".encode())
    for start, end in split_blocks(len(words), _AT_ONCE):
        yield words[start:end], vectors[start:end]


# ---------------------------------------------------------------------- GraphML

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_XML = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}
)
_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" \
xsi:schemaLocation="http://graphml.graphdrawing.org/xmlns http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd">
"""


def as_xml(text: str) -> str:
    """Return text escaped for XML elements and attributes; characters that XML does not allow become U+FFFD."""
    return _NO_XML.sub("\ufffd", text).translate(_XML)


def write_graphml(
    stream: BinaryIO, graph: Graph, texts: Sequence[str], attributes: Mapping[str, Sequence[str | float | None]]
) -> None:
    """Write a graph with attributes of nodes, n strings or n numbers each; None is left out.

    The nodes' ids, `texts`, become ids in the file and, for display, the attribute "label". An id with a character that
    XML does not allow is refused: a replacement could be another node's id.
    """
    for text in texts:
        forbidden = _NO_XML.search(text)
        if forbidden is not None or not text:
            problem = f"contains U+{ord(forbidden[0]):04X}, which XML does not allow" if forbidden else "is empty"
            raise InputError(f"the node id {format_value(text)} {problem}", hint="rename the node, or write .parquet")
    for part in _parts(graph, texts, attributes):
        stream.write(part.encode())


def _parts(graph: Graph, texts: Sequence[str], attributes: Mapping[str, Sequence[str | float | None]]) -> Iterator[str]:
    numbers = {name for name, values in attributes.items() if any(isinstance(value, float) for value in values)}
    yield _HEAD
    yield _key("node", "label", "string")
    for name in attributes:
        yield _key("node", name, "float" if name in numbers else "string")
    if graph.weights is not None:
        yield _key("edge", "weight", "double")
    if graph.edge_types is not None:
        yield _key("edge", "type", "string")
    yield f'<graph edgedefault="{"directed" if graph.directed else "undirected"}">\n'
    escaped = [as_xml(text) for text in texts]
    columns: Mapping[str, Sequence[str | float | None]] = {"label": texts, **attributes}
    for node, identifier in enumerate(escaped):
        data = "".join(_data(f"node-{name}", values[node]) for name, values in columns.items())
        yield f'<node id="{identifier}">{data}</node>\n'
    yield from _edges(graph, escaped)
    yield "</graph>\n</graphml>\n"


def _edges(graph: Graph, escaped: Sequence[str]) -> Iterator[str]:
    """Yield the edges, undirected ones once."""
    sources = np.repeat(np.arange(graph.num_nodes), graph.degrees)
    entries = np.arange(len(sources)) if graph.directed else np.flatnonzero(sources <= graph.indices)
    for start, end in split_blocks(len(entries), _AT_ONCE):
        block = entries[start:end]
        weights: Sequence[Any] = [None] * len(block) if graph.weights is None else graph.weights[block].tolist()
        types: Sequence[Any] = [None] * len(block)
        if graph.edge_types is not None:
            types = [graph.edge_type_names[code] for code in graph.edge_types[block].tolist()]
        edges = zip(sources[block].tolist(), graph.indices[block].tolist(), weights, types, strict=True)
        yield "".join(
            f'<edge source="{escaped[u]}" target="{escaped[v]}">'
            f"{_data('edge-weight', weight)}{_data('edge-type', kind)}</edge>\n"
            for u, v, weight, kind in edges
        )


def _key(kind: str, name: str, form: str) -> str:
    return f'<key id="{kind}-{name}" for="{kind}" attr.name="{name}" attr.type="{form}"/>\n'


def _data(key: str, value: str | float | None) -> str:
    if value is None:
        return ""
    return f'<data key="{key}">{as_xml(value) if isinstance(value, str) else repr(value)}</data>'
