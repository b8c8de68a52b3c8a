"""Files for other tools: every format read back by an independent reader, hostile texts, and nothing half-written."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import stat
import struct
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cge.data import read_features
from cge.errors import CgeError, InputError
from cge.graph import Graph
from cge.store import write_folder
from cge.store.atomic import writable_file, write_files
from cge.store.export_formats import as_word, as_xml, count_escaped_cells, escape_formula
from cge.store.exports import TABLES, VECTORS, Export, file_format, write_export, write_predictions

HOSTILE = [
    "=1+1",
    "'=1+1",
    "+a",
    "-5",
    "@x",
    "\ttab",
    "\rreturn",
    'say "hi"',
    "a,b;c",
    "New York",
    "two\nlines",
    "<b>&amp;</b>",
    "50%20",
    "ünï 東京",
    "no\u00a0break",
    "\u2028",
    " blank ",
    "'",
]


def make_export(ids: list[Any], dim: int = 3) -> Export:
    """Return vectors of nodes in a ring."""
    edges = [(ids[k], ids[(k + 1) % len(ids)]) for k in range(len(ids))]
    vectors = np.random.default_rng(0).normal(size=(len(ids), dim)).astype(np.float32)
    return Export(Graph.from_edges(edges, node_ids=ids), vectors)


def labeled_export(ids: list[Any]) -> Export:
    """Return vectors with labels and predictions."""
    export = make_export(ids)
    count = len(ids)
    labels = ["=known", *[None] * (count - 1)]
    return Export(
        export.graph, export.vectors, labels, ["<a> & b"] * count, np.linspace(0.1, 0.9, count).astype(np.float32)
    )


def write(export: Export, file: Path) -> Path:
    """Write one file."""
    (path,) = write_export(export, file)
    return path


# ---------------------------------------------------------------------- formats


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_tables_of_text(suffix: str, tmp_path: Path) -> None:
    export = make_export(HOSTILE)
    path = write(export, tmp_path / f"v{suffix}")
    with path.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.reader(stream, delimiter="," if suffix == ".csv" else "\t", strict=True))
    assert rows[0] == ["node", "v0", "v1", "v2"]
    assert [row[0] for row in rows[1:]] == [escape_formula(text) for text in HOSTILE]
    assert np.array_equal(np.array([row[1:] for row in rows[1:]], np.float32), export.vectors)


def test_vectors_come_back_as_features(tmp_path: Path) -> None:
    for ids in (["a", "New York", "c"], [5, -7, 10**18]):
        export = make_export(ids)
        for suffix in (".csv", ".tsv"):
            path = write(export, tmp_path / f"v{suffix}")
            assert np.array_equal(read_features(path, export.graph), export.vectors)


def test_numbers_that_begin_with_a_minus_sign_stay_numbers(tmp_path: Path) -> None:
    graph = Graph.from_edges([(-1, 2)])
    path = write(Export(graph, np.array([[-0.5], [2.0]], np.float32)), tmp_path / "v.csv")
    assert path.read_text() == '"node","v0"\n-1,-0.5\n2,2\n'


@pytest.mark.parametrize("ids", [HOSTILE, [3, 1, 2]])
def test_parquet(ids: list[Any], tmp_path: Path) -> None:
    export = make_export(ids)
    table = pq.read_table(write(export, tmp_path / "v.parquet"))
    kind = pa.int64() if isinstance(ids[0], int) else pa.string()
    assert table.schema.names == ["node", "vector"]
    assert table.schema.types == [kind, pa.list_(pa.float32(), 3)]
    assert table["node"].to_pylist() == ids
    assert np.array_equal(np.stack(table["vector"].to_numpy()), export.vectors)


@pytest.mark.parametrize("ids", [HOSTILE, [3, 1, 2]])
def test_npz(ids: list[Any], tmp_path: Path) -> None:
    export = make_export(ids)
    with np.load(write(export, tmp_path / "v.npz"), allow_pickle=False) as arrays:
        assert sorted(arrays) == ["ids", "vectors"]
        assert arrays["ids"].tolist() == ids
        assert arrays["vectors"].dtype == np.float32
        assert np.array_equal(arrays["vectors"], export.vectors)


def read_text(data: bytes) -> tuple[list[str], np.ndarray]:
    """Read word2vec's text: a line of two numbers, then lines of a word and numbers, one blank between."""
    head, *lines = data.decode().removesuffix("\n").split("\n")
    count, dim = map(int, head.split(" "))
    rows = [line.split(" ") for line in lines]
    assert len(rows) == count
    assert {len(row) for row in rows} <= {dim + 1}
    return [row[0] for row in rows], np.array([row[1:] for row in rows], np.float32).reshape(count, dim)


def read_binary(data: bytes) -> tuple[list[str], np.ndarray]:
    """Read word2vec's binary form as its own tools do: a word up to the next blank, floats, the end of the line."""
    head, _, rest = data.partition(b"\n")
    count, dim = map(int, head.split(b" "))
    words, vectors = [], []
    for _ in range(count):
        word, _, rest = rest.partition(b" ")
        words.append(word.decode())
        vectors.append(struct.unpack(f"<{dim}f", rest[: 4 * dim]))
        assert rest[4 * dim : 4 * dim + 1] == b"\n"
        rest = rest[4 * dim + 1 :]
    assert rest == b""
    return words, np.array(vectors, np.float32).reshape(count, dim)


@pytest.mark.parametrize(("suffix", "read"), [(".txt", read_text), (".bin", read_binary)])
@pytest.mark.parametrize("ids", [HOSTILE, [3, -1, 2]])
def test_word2vec(
    suffix: str, read: Callable[[bytes], tuple[list[str], np.ndarray]], ids: list[Any], tmp_path: Path
) -> None:
    export = make_export(ids)
    words, vectors = read(write(export, tmp_path / f"v{suffix}").read_bytes())
    assert [unquote(word) for word in words] == [str(node_id) for node_id in ids]
    assert not any(sign.isspace() for word in words for sign in word)
    assert np.array_equal(vectors, export.vectors)


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=2, max_size=5, unique=True),
    st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=4),
)
def test_words_and_numbers_come_back(ids: list[str], numbers: list[float]) -> None:
    """Also as gensim reads them: lines end at \\n only, and blanks at the ends of lines are dropped."""
    vectors = np.array([numbers] * len(ids), np.float32)
    export = Export(Graph.from_edges([(ids[0], ids[1])], node_ids=ids), vectors)
    data = {}
    for suffix in (".txt", ".bin"):
        stream = Collected()
        VECTORS[suffix](export, stream)  # type: ignore[arg-type]
        data[suffix] = stream.data
    for suffix, read in ((".txt", read_text), (".bin", read_binary)):
        words, numbers = read(data[suffix])
        assert [unquote(word, errors="strict") for word in words] == ids
        assert np.array_equal(numbers, vectors)
    lines = data[".txt"].split(b"\n")[1:-1]
    assert [line.rstrip() for line in lines] == lines
    assert len(lines) == len(data[".txt"].decode().splitlines()) - 1


class Collected:
    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data


def test_more_rows_than_a_block(tmp_path: Path) -> None:
    count = 40_000
    graph = Graph.from_edges([(0, 1)], num_nodes=count)
    export = Export(graph, np.arange(2 * count, dtype=np.float32).reshape(count, 2))
    text = write(export, tmp_path / "v.csv").read_text().splitlines()
    assert (len(text), text[-1]) == (count + 1, f"{count - 1},{2 * count - 2},{2 * count - 1}")
    assert np.array_equal(read_binary(write(export, tmp_path / "v.bin").read_bytes())[1], export.vectors)
    table = pq.read_table(write(export, tmp_path / "v.parquet"))
    assert table["vector"][count - 1].as_py() == [2 * count - 2, 2 * count - 1]
    graph = nx.read_graphml(write(export, tmp_path / "v.graphml"))
    assert (graph.number_of_nodes(), graph.number_of_edges()) == (count, 1)


# ---------------------------------------------------------------------- GraphML


def test_graphml_holds_nodes_edges_and_what_is_said() -> None:
    ids = ["a", "b", "c"]
    graph = Graph.from_edges(
        [("a", "b"), ("b", "c"), ("c", "c")], node_ids=ids, weights=[0.5, 2.0, 3.0], self_loops=True
    )
    export = Export(graph, np.zeros((3, 2), np.float32), ["x", None, None], list("xyx"), np.float32([0.9, 0.8, 0.7]))
    stream = Collected()
    VECTORS[".graphml"](export, stream)  # type: ignore[arg-type]
    graph = nx.parse_graphml(stream.data.decode())
    assert not graph.is_directed()
    assert dict(graph.nodes(data=True)) == {
        "a": {"label": "a", "known_label": "x", "prediction": "x", "confidence": 0.9},
        "b": {"label": "b", "prediction": "y", "confidence": 0.8},
        "c": {"label": "c", "prediction": "x", "confidence": 0.7},
    }
    edges = {frozenset(pair): weight for *pair, weight in graph.edges(data="weight")}
    assert edges == {frozenset("ab"): 0.5, frozenset("bc"): 2.0, frozenset("c"): 3.0}


def test_graphml_of_a_directed_graph_with_types(tmp_path: Path) -> None:
    graph = Graph.from_edges([(1, 2), (1, 2), (2, 1)], directed=True, edge_types=["<likes>", "knows", "knows"])
    path = write(Export(graph, np.zeros((2, 1), np.float32)), tmp_path / "g.graphml")
    graph = nx.read_graphml(path, node_type=int)
    assert graph.is_directed()
    assert sorted(graph.edges(data="type")) == [(1, 2, "<likes>"), (1, 2, "knows"), (2, 1, "knows")]


def test_hostile_texts_in_graphml(tmp_path: Path) -> None:
    path = write(labeled_export(HOSTILE), tmp_path / "g.graphml")
    tree = ET.parse(path)
    name = "{http://graphml.graphdrawing.org/xmlns}"
    nodes = tree.findall(f".//{name}node")
    assert [node.get("id") for node in nodes] == HOSTILE
    attributes = [{data.get("key"): data.text for data in node.findall(f"{name}data")} for node in nodes]
    assert [node["node-label"] for node in attributes] == HOSTILE
    assert attributes[0]["node-known_label"] == "=known"
    assert {node["node-prediction"] for node in attributes} == {"<a> & b"}
    ends = {edge.get("source") for edge in tree.findall(f".//{name}edge")}
    assert ends <= set(HOSTILE)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a\x01", r"the node id 'a\x01' contains U+0001, which XML does not allow; rename the node, or write .parquet"),
        (
            "\uffff",
            "the node id '\\uffff' contains U+FFFF, which XML does not allow; rename the node, or write .parquet",
        ),
        ("", "the node id '' is empty; rename the node, or write .parquet"),
    ],
)
def test_ids_that_xml_cannot_hold_are_refused(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        write(make_export(["ok", text]), tmp_path / "g.graphml")
    assert str(caught.value) == sentence
    assert list(tmp_path.iterdir()) == []


def test_classes_that_xml_cannot_hold_are_replaced(tmp_path: Path) -> None:
    plain = make_export(["a", "b"])
    export = Export(plain.graph, plain.vectors, None, ["x\x00y", "\ud800"], np.float32([1, 1]))
    graph = nx.read_graphml(write(export, tmp_path / "g.graphml"))
    assert [graph.nodes[node]["prediction"] for node in "ab"] == ["x\ufffdy", "\ufffd"]


@given(st.text())
def test_xml_reads_back_whatever_it_can_hold(text: str) -> None:
    element = ET.fromstring(f'<a b="{as_xml(text)}">{as_xml(text)}</a>')
    expected = "".join(
        sign
        if sign in "\t\n\r" or (sign >= " " and not "\ud800" <= sign <= "\udfff" and sign < "\ufffe") or sign > "\uffff"
        else "\ufffd"
        for sign in text
    )
    assert (element.text or "") == expected
    assert element.get("b") == expected


# ---------------------------------------------------------------------- projector


def test_projector(tmp_path: Path) -> None:
    export = labeled_export(HOSTILE)
    paths = write_export(export, projector=tmp_path / "consistency" / "projector")
    assert [path.name for path in paths] == ["vectors.tsv", "metadata.tsv"]
    vectors = [line.split("\t") for line in paths[0].read_text().removesuffix("\n").split("\n")]
    assert np.array_equal(np.array(vectors, np.float32), export.vectors)
    head, *rows = [line.split("\t") for line in paths[1].read_bytes().decode().removesuffix("\n").split("\n")]
    assert head == ["node", "label", "prediction", "confidence"]
    assert len(rows) == len(HOSTILE)
    assert rows[0] == ["'=1+1", "'=known", "<a> & b", "0.1"]
    assert [row[0] for row in rows][5:7] == ["' tab", "' return"]
    assert rows[HOSTILE.index("two\nlines")][0] == "two lines"
    assert {row[1] for row in rows[1:]} == {""}


def test_a_single_column_of_metadata_has_no_header(tmp_path: Path) -> None:
    write_export(make_export(["a", "b"]), projector=tmp_path)
    assert (tmp_path / "metadata.tsv").read_text() == "a\nb\n"


def test_a_folder_of_the_projector_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="file is a file; give the path of a folder"):
        write_export(make_export(["a", "b"]), projector=tmp_path / "file")
    with pytest.raises(InputError, match="cannot be written"):
        write_export(make_export(["a", "b"]), projector=tmp_path / "file" / "deeper")
    with pytest.raises(InputError, match=r"vectors.tsv would be written twice; choose another file or folder"):
        write_export(make_export(["a", "b"]), tmp_path / "vectors.tsv", projector=tmp_path)


def test_all_files_are_written_or_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="contains U\\+0001"):
        write_export(make_export(["a", "b\x01"]), tmp_path / "g.graphml", projector=tmp_path / "projector")
    assert list(tmp_path.iterdir()) == []
    paths = write_export(make_export(["a", "b"]), tmp_path / "g.graphml", projector=tmp_path / "projector")
    assert [path.name for path in paths] == ["g.graphml", "vectors.tsv", "metadata.tsv"]


# ---------------------------------------------------------------------- texts


@given(st.text() | st.text("'=+-@\t\r\na"))
def test_no_cell_is_a_formula_and_none_is_lost(text: str) -> None:
    cell = escape_formula(text)
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r")) or float(cell) == float(text)
    stripped = cell.lstrip("'")
    armed = cell.startswith("'") and stripped.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
    assert (cell[1:] if armed else cell) == text


def test_numbers_stay_and_formulas_can(tmp_path: Path) -> None:
    assert [escape_formula(text) for text in ("-5", "+1.5e-3", "-5-5", "-", "+1)", "-5\n")] == [
        *("-5", "+1.5e-3"),
        *("'-5-5", "'-", "'+1)", "'-5\n"),
    ]
    export = make_export(["@angular/core", "-5", "=1+1"])
    assert count_escaped_cells({"id": export.ids, "=x": np.zeros(3)}) == 3
    exact = write(replace(export, exact=True), tmp_path / "v.csv")
    assert [line.partition(",")[0] for line in exact.read_text().splitlines()] == [
        *('"node"', '"@angular/core"', '"-5"', '"=1+1"')
    ]
    assert np.array_equal(read_features(exact, export.graph), export.vectors)
    write_export(replace(export, exact=True), projector=tmp_path / "p")
    assert (tmp_path / "p" / "metadata.tsv").read_text() == "@angular/core\n-5\n=1+1\n"
    write_predictions(tmp_path / "p.tsv", COLUMNS, dict, exact=True)
    assert '"=a"' in (tmp_path / "p.tsv").read_text()


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_words_have_no_blanks_and_lead_back(text: str) -> None:
    word = as_word(text)
    assert unquote(word, errors="strict") == text
    assert word.split() == ([word] if word else [])


def test_ids_that_no_file_holds(tmp_path: Path) -> None:
    for suffix in VECTORS:
        with pytest.raises(InputError, match="contains half of a surrogate pair, which UTF-8 cannot encode"):
            write(make_export(["a", "\ud800"]), tmp_path / f"v{suffix}")
        with pytest.raises(InputError, match=r"all strings, found \('a', 1\) at position 0"):
            write(make_export([("a", 1), ("b", 2)]), tmp_path / f"v{suffix}")
    with pytest.raises(InputError, match="a node has an empty id, which a word2vec file cannot contain"):
        write(make_export(["a", ""]), tmp_path / "v.txt")
    with pytest.raises(InputError, match=r"the node id 'b\\x00' ends in a zero, which .npz would drop; write .parquet"):
        write(make_export(["a", "b\0"]), tmp_path / "v.npz")
    assert list(tmp_path.iterdir()) == []


def test_one_long_id_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cge.store.exports._WIDEST", 1000)
    with pytest.raises(InputError, match=r"would take 1,600 bytes in .npz, .* of 200 characters; write .parquet"):
        write(make_export(["a", "b" * 200]), tmp_path / "v.npz")


# ---------------------------------------------------------------------- whole files


@pytest.mark.parametrize("suffix", VECTORS)
def test_the_same_export_makes_the_same_bytes(suffix: str, tmp_path: Path) -> None:
    first, second = (write(labeled_export(["a", "b"]), tmp_path / f"{name}{suffix}") for name in "xy")
    assert first.read_bytes() == second.read_bytes()
    assert sorted(tmp_path.iterdir()) == [first, second]


def test_a_suffix_in_capitals(tmp_path: Path) -> None:
    assert write(make_export(["a", "b"]), tmp_path / "V.CSV").read_text().startswith('"node"')
    with pytest.raises(InputError, match=r"the suffix '' is not one of .csv; choose one of these"):
        file_format("vectors", [".csv"])


class BrokenError(Exception):
    pass


@pytest.mark.parametrize(
    "error", [BrokenError(), KeyboardInterrupt(), OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))]
)
def test_what_was_there_stays_where_writing_fails(error: BaseException, tmp_path: Path) -> None:
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    old.write_text("mine")

    def whole(stream: BinaryIO) -> None:
        stream.write(b"theirs")

    def broken(stream: BinaryIO) -> None:
        stream.write(b"the")
        raise error

    with pytest.raises(BaseException) as caught:  # noqa: PT011 - of three kinds
        write_files({old: whole, new: broken})
    if isinstance(error, OSError):
        assert str(caught.value) == (
            f"{new} cannot be written (No space left on device); free the disk or choose another file"
        )
    else:
        assert caught.value is error
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("old.csv", "mine")]


def test_what_a_killed_writer_left_is_swept_away(tmp_path: Path) -> None:
    abandoned, other = tmp_path / ".cge-0123456789abcdef.tmp", tmp_path / ".mine.tmp"
    abandoned.write_text("half")
    other.write_text("mine")
    seen = []

    def nested(stream: BinaryIO) -> None:
        stream.write(b"outer")
        held = {path.name for path in tmp_path.glob(".cge-*")}
        write_files({tmp_path / "b.csv": lambda inner: inner.write(b"inner")})  # must leave the outer one alone
        seen.append(held == {path.name for path in tmp_path.glob(".cge-*")} and len(held) == 1)

    write_files({tmp_path / "a.csv": nested})
    assert seen == [True]
    assert sorted(path.name for path in tmp_path.iterdir()) == [".mine.tmp", "a.csv", "b.csv"]
    assert ((tmp_path / "a.csv").read_text(), (tmp_path / "b.csv").read_text()) == ("outer", "inner")


def test_a_full_disk_below_a_library(tmp_path: Path) -> None:
    """PyArrow and NumPy write through our stream, and hand its errors back."""

    class Full(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def tell(self) -> int:
            return 0

        def write(self, _: Any) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for suffix in VECTORS:
        with pytest.raises(OSError, match="No space left on device"):
            VECTORS[suffix](make_export(["a", "b"]), Full())  # type: ignore[arg-type]


def test_links_stay_links_and_modes_stay(tmp_path: Path) -> None:
    real, link = tmp_path / "real.csv", tmp_path / "link.csv"
    real.write_text("old")
    real.chmod(0o600)
    link.symlink_to(real.name)
    write(make_export(["a", "b"]), link)
    assert link.is_symlink()
    assert real.read_text().startswith('"node"')
    assert stat.S_IMODE(real.stat().st_mode) == 0o600


def test_what_cannot_be_written(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    for name, sentence in (
        ("pipe.csv", "is a pipe or a device; give the path of a file"),
        ("folder.csv", "is a folder; give the path of a file"),
        ("loop.csv", "cannot be written"),
        ("x" * 300 + ".csv", "cannot be written"),
        ("none/v.csv", "v.csv: its folder does not exist; create it, or choose another file"),
    ):
        with pytest.raises(InputError, match=sentence):
            write(make_export(["a", "b"]), tmp_path / name)
    with pytest.raises(CgeError, match="the path is empty"):
        writable_file("")


# ---------------------------------------------------------------------- predictions

COLUMNS = {
    "node": ["=a", "b"],
    "class": [["x", "y"], []],
    "confidence": np.float32([0.5, 0.25]),
    "chance_=x": np.float32([0.1, 1]),
}


def test_tables_of_predictions(tmp_path: Path) -> None:
    rows = {"predictions": [{"node": "\ud800"}]}
    paths = {suffix: write_predictions(tmp_path / f"p{suffix}", COLUMNS, lambda: rows) for suffix in TABLES}
    expected = '"node","class","confidence","chance_=x"\n"\'=a","x; y",0.5,0.1\n"b","",0.25,1\n'
    assert paths[".csv"].read_text() == expected
    assert paths[".tsv"].read_text() == expected.replace(",", "\t")
    table = pq.read_table(paths[".parquet"])
    assert table["node"].to_pylist() == ["=a", "b"]
    assert table["class"].to_pylist() == [["x", "y"], []]
    assert table.schema.field("confidence").type == pa.float32()
    assert json.loads(paths[".json"].read_bytes()) == rows


def test_a_model_is_not_overwritten_by_its_predictions(tmp_path: Path) -> None:
    write_folder(tmp_path, "test", {}, {"a": np.zeros(1)})
    before = (tmp_path / "model.json").read_bytes()
    with pytest.raises(InputError, match=r"model.json belongs to a model that cge has saved; choose another file"):
        write_predictions(tmp_path / "model.json", COLUMNS, dict)
    assert (tmp_path / "model.json").read_bytes() == before
    (tmp_path / "other.json").write_text("{}")
    write_predictions(tmp_path / "other.json", COLUMNS, lambda: {"a": 1})
    assert json.loads((tmp_path / "other.json").read_text()) == {"a": 1}
