"""An edge list written in any dialect is read back as `Graph.from_edges` of the same edges."""

from __future__ import annotations

import contextlib
import gzip
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cge.data import read_graph
from cge.data.files import text_fields
from cge.data.files.dialect import TextOptions, split_line
from cge.data.files.edges import EdgeOptions, load_edges
from cge.errors import CgeError
from cge.graph import Graph

letters = st.characters(exclude_categories=("Cs",), exclude_characters="\0\n\r")
names = st.text(letters, min_size=1, max_size=12)
numbers = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-5, 40))
weights = st.floats(1e-300, 1e300) | st.integers(1, 9).map(float)


@st.composite
def dialects(draw: Any) -> dict[str, Any]:
    return {
        "delimiter": draw(st.sampled_from([",", "\t", ";", " ", "|"])),
        "end": draw(st.sampled_from(["\n", "\r\n"])),
        "last": draw(st.booleans()),
        "header": draw(st.booleans()),
        "quote": draw(st.booleans()),
        "comments": draw(st.booleans()),
        "blank": draw(st.sampled_from(["", " "])),
        "gzip": draw(st.booleans()),
        "mark": draw(st.booleans()),
    }


def field(value: object, dialect: dict[str, Any]) -> str:
    text = repr(value) if isinstance(value, float) else str(value)
    special = set(' \t"#%') | {dialect["delimiter"]}
    if dialect["quote"] or special & set(text):
        text = '"' + text.replace('"', '""') + '"'
    return dialect["blank"] + text + dialect["blank"]


def as_text(rows: list[tuple[object, ...]], dialect: dict[str, Any]) -> bytes:
    lines = [dialect["delimiter"].join(field(value, dialect) for value in row) for row in rows]
    if dialect["header"]:
        lines.insert(0, dialect["delimiter"].join(["source", "target", "weight"][: len(rows[0])]))
    if dialect["comments"]:
        lines = [part for line in lines for part in ('# a comment, with "one quote', line, " ")]
    text = dialect["end"].join(lines) + (dialect["end"] if dialect["last"] else "")
    data = ("\ufeff" if dialect["mark"] else "").encode() + text.encode()
    return gzip.compress(data) if dialect["gzip"] else data


def edge_lists(ends: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.tuples(ends, ends), min_size=1, max_size=30)


@given(
    edge_lists(names) | edge_lists(numbers),
    st.none() | st.lists(weights, min_size=30, max_size=30),
    dialects(),
    st.data(),
)
def test_round_trip(edges: list[Any], values: list[float] | None, dialect: dict[str, Any], data: Any) -> None:
    rows = edges if values is None else [(*edge, weight) for edge, weight in zip(edges, values, strict=False)]
    kind = "int" if isinstance(edges[0][0], int) else "str"
    options = {"ids": kind, "header": dialect["header"], "delimiter": dialect["delimiter"]}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "edges.txt"
        path.write_bytes(as_text(rows, dialect))
        graph = read_graph(path, **options)
        size = data.draw(st.integers(1, 64))
        text = TextOptions(dialect["header"], dialect["delimiter"])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(text_fields, "BLOCK_BYTES", size)
            table = load_edges(path, EdgeOptions(ids=kind, text=text))
    expected = Graph.from_edges(edges, weights=None if values is None else values[: len(edges)])
    assert graph.node_ids.tolist() == expected.node_ids.tolist() == table.ids.tolist()
    assert table.ids[table.source].tolist() == [edge[0] for edge in edges]
    assert table.ids[table.target].tolist() == [edge[1] for edge in edges]
    assert np.array_equal(graph.indptr, expected.indptr)
    assert np.array_equal(graph.indices, expected.indices)
    if values is not None:
        assert graph.weights is not None
        assert table.weights is not None
        assert table.weights.tolist() == values[: len(edges)]
        assert np.array_equal(graph.weights, expected.weights)


@given(st.lists(names, min_size=1, max_size=5), dialects())
def test_split_line_agrees_with_the_kernel(fields: list[str], dialect: dict[str, Any]) -> None:
    line = dialect["delimiter"].join(field(value, dialect) for value in fields)
    assert split_line(line, dialect["delimiter"]) == fields


pieces = st.sampled_from(
    [b"1", b"23", b"ab", b",", b"\t", b" ", b'"', b'""', b"\n", b"\r", b"\r\n", b"#", b"-", b"0.5"]
)
suffixes = st.sampled_from([".csv", ".tsv", ".txt", ".csv.gz", ".npz", ".npy", ".mtx", ".parquet"])


@given(
    st.binary(max_size=200) | st.lists(pieces, max_size=60).map(b"".join), suffixes, st.sampled_from(["auto", "str"])
)
def test_random_bytes_raise_only_our_errors(content: bytes, suffix: str, ids: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"edges{suffix}"
        path.write_bytes(content)
        with contextlib.suppress(CgeError):
            assert read_graph(path, ids=ids).num_nodes


@given(
    edge_lists(numbers),
    st.none() | st.lists(weights, min_size=30, max_size=30),
    st.sampled_from([",", "\t", ";", " ", "|", ", ", " ; "]),
    st.sampled_from([".csv", ".tsv", ".txt", ""]),
    st.booleans(),
)
def test_the_delimiter_is_inferred_whatever_the_suffix(
    edges: list[Any], values: list[float] | None, delimiter: str, suffix: str, header: bool
) -> None:
    rows = edges if values is None else [(*edge, weight) for edge, weight in zip(edges, values, strict=False)]
    names = [("source", "target", "weight")[: len(rows[0])]] if header else []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"edges{suffix}"
        path.write_text("".join(delimiter.join(map(str, row)) + "\n" for row in [*names, *rows]))
        graph = read_graph(path)
    expected = Graph.from_edges(edges, weights=None if values is None else values[: len(edges)])
    assert graph.node_ids.tolist() == expected.node_ids.tolist()
    assert np.array_equal(graph.indices, expected.indices)
    assert (graph.weights is None) == (values is None)
