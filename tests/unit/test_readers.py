"""Readers: every format gives the same graph, whatever the dialect and wherever blocks end."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
import scipy.sparse as sp

from cge.data import read_features, read_graph, read_labels
from cge.data.files import text_fields as text_module
from cge.data.files.arrays import load_members
from cge.data.files.dialect import TextOptions, infer_delimiter
from cge.data.files.edges import EdgeOptions, load_edges
from cge.data.files.labels import read_label_table
from cge.data.files.node_tables import read_feature_table
from cge.data.files.numbering import Names, number_codes, number_integers
from cge.data.sets.load import load_blogcatalog, load_heterophilous
from cge.data.sets.planetoid import load_nell_derived
from cge.errors import FileFormatError
from cge.graph import Graph

PAIRS = [(3, 10), (10, -4), (3, -4), (7, 3), (10, 7)]
WEIGHTS = [0.5, 2.0, 1e-3, 123456.789012345678, 4.0]
TYPES = ["cites", "cites", "knows", "cites", "knows"]
ADJACENCY = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])


def same(graph: Graph, other: Graph) -> None:
    assert graph.node_ids.dtype == other.node_ids.dtype
    assert graph.node_ids.tolist() == other.node_ids.tolist()
    assert np.array_equal(graph.indptr, other.indptr)
    assert np.array_equal(graph.indices, other.indices)
    assert graph.directed == other.directed
    assert (graph.weights is None) == (other.weights is None)
    if graph.weights is not None and other.weights is not None:
        assert np.array_equal(graph.weights, other.weights)
    assert graph.edge_type_names == other.edge_type_names
    if graph.edge_types is not None:
        assert np.array_equal(graph.edge_types, other.edge_types)


def written(path: Path, content: str | bytes) -> Path:
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def rows(*columns: list[Any], delimiter: str = ",", end: str = "\n") -> str:
    return "".join(delimiter.join(map(str, row)) + end for row in zip(*columns, strict=True))


SOURCE, TARGET = [pair[0] for pair in PAIRS], [pair[1] for pair in PAIRS]

TEXTS = {
    "edges.csv": rows(SOURCE, TARGET),
    "edges.tsv": rows(SOURCE, TARGET, delimiter="\t"),
    "edges.txt": rows(SOURCE, TARGET, delimiter="  \t "),
    "edges.csv.gz": rows(SOURCE, TARGET),
    "edges": rows(SOURCE, TARGET, delimiter=" "),
    "tabs.txt": rows(SOURCE, TARGET, delimiter="\t"),
    "commas.txt": rows(SOURCE, TARGET),
    "semicolons.csv": rows(SOURCE, TARGET, delimiter=";"),
    "crlf.csv": rows(SOURCE, TARGET, end="\r\n"),
    "crlf.txt": rows(SOURCE, TARGET, delimiter=" ", end=" \r\n"),
    "mark.csv": "\ufeff" + rows(SOURCE, TARGET),
    "mark_header.csv": "\ufeffsource,target\n" + rows(SOURCE, TARGET),
    "no_last_newline.csv": rows(SOURCE, TARGET)[:-1],
    "no_last_newline_crlf.csv": rows(SOURCE, TARGET, end="\r\n")[:-1],
    "header.csv": "Source,Target\n" + rows(SOURCE, TARGET),
    "strange_header.csv": "paper,reference\n" + rows(SOURCE, TARGET),
    "swapped.csv": "dst,src\n" + rows(TARGET, SOURCE),
    "more_columns.csv": "src,when,dst\n" + rows(SOURCE, ["2020-01-01"] * 5, TARGET),
    "quoted.csv": rows([f'"{value}"' for value in SOURCE], TARGET),
    "blanks.csv": rows([f" {value} " for value in SOURCE], TARGET, end=" \n"),
    "zeros.csv": rows(SOURCE, TARGET).replace("3,", "0000000000000000000000003,"),
    "excel.csv": "sep=;\r\n" + rows(SOURCE, TARGET, delimiter=";", end="\r\n"),
    "excel_header.csv": '\ufeff"sep=|"\nsource|target\n' + rows(SOURCE, TARGET, delimiter="|"),
    "konect.tsv": "% sym unweighted\n% 5 4 4\n" + rows(SOURCE, TARGET, delimiter="\t", end="\n# and\n% so\n"),
    "networkx.edgelist": rows(SOURCE, TARGET, ["{}"] * 5, delimiter=" "),
    "networkx.csv": rows(SOURCE, TARGET, ["{}"] * 5),
    "space.csv": rows(SOURCE, TARGET, delimiter=" "),
    "comma.tsv": rows(SOURCE, TARGET),
    "pipe.txt": rows(SOURCE, TARGET, delimiter="|"),
    "wide_pipe.txt": rows(SOURCE, TARGET, delimiter=" | "),
    "comma_and_blank.txt": rows(SOURCE, TARGET, delimiter=", "),
    "comments.csv": "# first\n\n" + rows(SOURCE, TARGET, end="\n  # between\n\n \t\n") + "#",
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_dialects(name: str, tmp_path: Path) -> None:
    path = written(tmp_path / name, TEXTS[name])
    before = path.read_bytes()
    same(read_graph(path), Graph.from_edges(PAIRS))
    assert path.read_bytes() == before
    same(read_graph(path, directed=True), Graph.from_edges(PAIRS, directed=True))


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("block_size", [1, 16, 33])
def test_blocks_may_end_anywhere(name: str, block_size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / name, TEXTS[name])
    whole = load_edges(path, EdgeOptions())
    monkeypatch.setattr(text_module, "_PIECE_BYTES", 20)
    small_pieces = load_edges(path, EdgeOptions())
    monkeypatch.setattr(text_module, "BLOCK_BYTES", block_size)
    for table in (load_edges(path, EdgeOptions()), small_pieces):
        assert table.ids.tolist() == whole.ids.tolist()
        assert table.source.tolist() == whole.source.tolist()
        assert table.target.tolist() == whole.target.tolist()


NAMED = [("ann", "New York"), ("Zoë", 'the "one"'), ("x" * 40, "ann"), ("a,b", "x" * 40), ("x" * 39 + "y", "日本")]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt", ".csv.gz"])
@pytest.mark.parametrize("block_size", [16, 1 << 20])
def test_names(suffix: str, block_size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    delimiter = {".tsv": "\t", ".txt": "  "}.get(suffix, ",")
    columns = [[quoted(pair[end]) for pair in NAMED] for end in (0, 1)]
    path = written(tmp_path / f"edges{suffix}", rows(*columns, delimiter=delimiter))
    expected = Graph.from_edges(NAMED)
    same(read_graph(path), expected)
    monkeypatch.setattr(text_module, "BLOCK_BYTES", block_size)
    assert load_edges(path, EdgeOptions()).ids.tolist() == expected.node_ids.tolist()


DELIMITERS = [
    ("edges.csv", ["1;2;1,5", "2;3;2,5"], ";"),
    ("edges.csv", ["1;2;1,5"], ";"),
    ("edges.csv", ["source;target;weight", "1;2;1,5"], ";"),
    ("edges.csv", ["1 2 1,5", "2 3 2,5"], " "),
    ("edges.txt", ["1 2 1,5", "2 3 2,5"], " "),
    ("edges.csv", ["New York,Boston", "Los Angeles,Boston"], ","),
    ("edges.txt", ["New York,Boston", "Paris,Boston"], ","),
    ("edges.csv", ["a;b,c", "d,e"], ","),
    ("edges.tsv", ["Smith, J\tDoe, K", "Roe, A\tPoe, B"], "\t"),
    ("edges.txt", ["db|1 db|2", "db|2 db|3"], " "),
    ("edges.csv", ['"a;b","c;d"', '"e;f","g;h"'], ","),
    ("edges.edgelist", ["1 2 {'weight': 1, 'color': 2}", "2 3 {'weight': 1, 'color': 2}"], " "),
    ("edges.csv", ["1;2;1,5", "2;3;2,5", "4;5"], ";"),
    ("edges.csv", ["a", "b"], ","),
    ("edges", ["a", "b"], " "),
]


@pytest.mark.parametrize(("name", "texts", "expected"), DELIMITERS)
def test_delimiter(name: str, texts: list[str], expected: str) -> None:
    assert infer_delimiter(Path(name), texts, 1, 2, 2) == expected


def test_infer_delimiter_labels_and_lists() -> None:
    assert infer_delimiter(Path("labels.csv"), ["m1,Action|Drama", "m2,War|Drama"], 1, 1, 2) == ","
    assert infer_delimiter(Path("labels.txt"), ["New York,big", "Los Angeles,big"], 1, 1, 2) == ","
    assert infer_delimiter(Path("nodes.csv"), ["New York", "Los Angeles"], 1, 1, 1) == ","


def test_home_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    written(tmp_path / "edges.csv", "1,2\n")
    assert read_graph("~/edges.csv").num_edges == 1


def test_ids_option(tmp_path: Path) -> None:
    path = written(tmp_path / "edges.csv", "1,2\n2,03\n")
    assert read_graph(path).node_ids.tolist() == [1, 2, 3]
    assert read_graph(path, ids="str").node_ids.tolist() == ["1", "2", "03"]
    path = written(tmp_path / "edges.csv", "a,1\n1,2\n")
    assert read_graph(path).node_ids.tolist() == ["a", "1", "2"]


def test_extreme_integers(tmp_path: Path) -> None:
    pairs = [(-(2**63), 2**63 - 1), (0, -1), (2**40, 10**18)]
    path = written(tmp_path / "edges.csv", rows([p[0] for p in pairs], [p[1] for p in pairs]))
    same(read_graph(path), Graph.from_edges(pairs))
    path = written(tmp_path / "edges.csv", "1,2\n-9223372036854775809,2\n")
    with pytest.raises(ValueError, match="does not fit in 64 bits"):
        read_graph(path)


def test_wider_integers_after_many_narrow_ones(tmp_path: Path) -> None:
    source = [*range(5000), 2**33, 1]
    target = [*range(1, 5001), 5, 2**34]
    path = written(tmp_path / "edges.csv", rows(source, target))
    same(read_graph(path), Graph.from_edges((np.array(source), np.array(target))))


def test_comment_sign(tmp_path: Path) -> None:
    path = written(tmp_path / "edges.txt", "% sym\n1 2\n%\n2 3\n")
    assert read_graph(path, comment="%").num_edges == 2
    path = written(tmp_path / "edges.txt", "#a #b\n#b #c\n")
    assert read_graph(path, comment=None).node_ids.tolist() == ["#a", "#b", "#c"]


def test_self_loops_and_duplicates(tmp_path: Path) -> None:
    path = written(tmp_path / "edges.csv", "1,1\n1,2\n2,1\n3,3\n")
    same(read_graph(path), Graph.from_edges([(1, 1), (1, 2), (2, 1), (3, 3)]))
    assert read_graph(path, self_loops=True).num_edges == 3


# ---------------------------------------------------------------------- weights and types


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (rows(SOURCE, TARGET, WEIGHTS), {}),
        (rows(SOURCE, TARGET, WEIGHTS), {"weighted": True}),
        (rows(WEIGHTS, SOURCE, TARGET), {"source": 2, "target": 3, "weight": 1}),
        ("a,b,weight\n" + rows(SOURCE, TARGET, WEIGHTS), {}),
        ("cost,from,to\n" + rows(WEIGHTS, SOURCE, TARGET), {"weight": "cost"}),
        (rows(SOURCE, TARGET, [f" +{weight} " for weight in WEIGHTS]), {}),
        (rows(SOURCE, TARGET, [f'"{weight:.17e}"' for weight in WEIGHTS]), {}),
    ],
)
def test_weights(content: str, options: dict[str, Any], tmp_path: Path) -> None:
    path = written(tmp_path / "edges.csv", content)
    same(read_graph(path, **options), Graph.from_edges(PAIRS, weights=WEIGHTS))


def test_weights_ignored(tmp_path: Path) -> None:
    path = written(tmp_path / "edges.csv", rows(SOURCE, TARGET, WEIGHTS))
    same(read_graph(path, weighted=False), Graph.from_edges(PAIRS))
    path = written(tmp_path / "edges.csv", rows(SOURCE, TARGET, ["", "x", "", "y", "z"]))
    same(read_graph(path, weighted=False), Graph.from_edges(PAIRS))


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (rows(SOURCE, TARGET, TYPES), {"edge_type": 3}),
        ("head,relation,tail\n" + rows(SOURCE, TYPES, TARGET), {}),
        ("u,v,how\n" + rows(SOURCE, TARGET, TYPES), {"edge_type": "how"}),
    ],
)
def test_types(content: str, options: dict[str, Any], tmp_path: Path) -> None:
    path = written(tmp_path / "edges.csv", content)
    same(read_graph(path, **options), Graph.from_edges(PAIRS, edge_types=TYPES))


def test_types_weights_and_names_share_words(tmp_path: Path) -> None:
    source, target, types = ["a", "knows", "b"], ["b", "a", "a"], ["knows", "a", "knows"]
    path = written(
        tmp_path / "edges.tsv", "src\ttype\tw\tdst\n" + rows(source, types, [1, 2, 3], target, delimiter="\t")
    )
    expected = Graph.from_edges(list(zip(source, target, strict=True)), weights=[1.0, 2.0, 3.0], edge_types=types)
    same(read_graph(path), expected)


# ---------------------------------------------------------------------- other formats


@pytest.mark.parametrize(
    "columns",
    [
        {"source": SOURCE, "target": TARGET},
        {"src": pa.array(SOURCE, pa.int16()), "dst": pa.array(TARGET, pa.int32())},
        {"left": pa.array(SOURCE, pa.float64()), "right": TARGET},
        {"source": SOURCE, "target": TARGET, "weight": WEIGHTS},
        {"source": SOURCE, "target": TARGET, "kind": TYPES},
        {"source": SOURCE, "target": TARGET, "kind": pa.array(TYPES).dictionary_encode()},
    ],
)
def test_parquet(columns: dict[str, Any], tmp_path: Path) -> None:
    pq.write_table(pa.table(columns), tmp_path / "edges.parquet", row_group_size=2)
    weights = WEIGHTS if "weight" in columns else None
    types = TYPES if "kind" in columns else None
    same(read_graph(tmp_path / "edges.parquet"), Graph.from_edges(PAIRS, weights=weights, edge_types=types))


@pytest.mark.parametrize("convert", [pa.array, lambda values: pa.array(values).dictionary_encode(), pa.large_string])
def test_parquet_names(convert: Callable[[Any], pa.Array], tmp_path: Path) -> None:
    make = (lambda values: pa.array(values, pa.large_string())) if convert is pa.large_string else convert
    columns = {"from": make([pair[0] for pair in NAMED]), "to": make([pair[1] for pair in NAMED])}
    pq.write_table(pa.table(columns), tmp_path / "edges.parquet", row_group_size=2)
    same(read_graph(tmp_path / "edges.parquet"), Graph.from_edges(NAMED))


def test_parquet_integers_as_text(tmp_path: Path) -> None:
    pq.write_table(pa.table({"source": [1, 2], "target": ["2", "x"]}), tmp_path / "edges.parquet")
    assert read_graph(tmp_path / "edges.parquet", ids="str").node_ids.tolist() == ["1", "2", "x"]


def test_arrays(tmp_path: Path) -> None:
    np.save(tmp_path / "edges.npy", np.array(PAIRS))
    np.savez(tmp_path / "edges.npz", edges=np.array(PAIRS))
    np.save(tmp_path / "names.npy", np.array(NAMED))
    same(read_graph(tmp_path / "edges.npy"), Graph.from_edges(PAIRS))
    same(read_graph(tmp_path / "edges.npz"), Graph.from_edges(PAIRS))
    same(read_graph(tmp_path / "names.npy"), Graph.from_edges(NAMED))


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "dia"])
def test_sparse_archive(kind: str, tmp_path: Path) -> None:
    sp.save_npz(tmp_path / "edges.npz", sp.coo_array(ADJACENCY).asformat(kind))
    same(read_graph(tmp_path / "edges.npz"), Graph.from_scipy(ADJACENCY))


@pytest.mark.parametrize("suffix", [".mtx", ".mtx.gz"])
@pytest.mark.parametrize("symmetry", ["general", "symmetric"])
def test_matrix_market(suffix: str, symmetry: str, tmp_path: Path) -> None:
    scipy.io.mmwrite(tmp_path / "plain.mtx", sp.coo_array(ADJACENCY), symmetry=symmetry)
    path = written(tmp_path / f"edges{suffix}", (tmp_path / "plain.mtx").read_bytes())
    same(read_graph(path), Graph.from_scipy(ADJACENCY))
    pattern = "%%MatrixMarket matrix coordinate pattern general\n3 3 1\n1 3\n"
    same(read_graph(written(path, pattern), directed=True), Graph.from_edges([(0, 2)], num_nodes=3, directed=True))


def test_names_of_matrix_rows(tmp_path: Path) -> None:
    sp.save_npz(tmp_path / "edges.npz", sp.csr_array(ADJACENCY))
    written(tmp_path / "nodes.txt", "x\ny\nz\n")
    written(tmp_path / "numbers.txt", "30\n20\n10\n")
    written(tmp_path / "features.csv", "z,3\nx,1\ny,2\n")
    graph = read_graph(tmp_path / "edges.npz", tmp_path / "features.csv", nodes=tmp_path / "nodes.txt")
    assert graph.neighbors("y") == ["x", "z"]
    assert graph.features is not None
    assert graph.features.tolist() == [[1], [2], [3]]
    assert read_graph(tmp_path / "edges.npz", nodes=tmp_path / "numbers.txt").node_ids.tolist() == [30, 20, 10]


# ---------------------------------------------------------------------- nodes


@pytest.mark.parametrize(
    ("name", "content"),
    [("nodes.txt", "9\n10\n3\n7\n-4\n"), ("nodes.csv", "id,color\n9,red\n10,blue\n3,red\n7,red\n-4,red\n")],
)
def test_node_list_sets_order_and_isolated_nodes(name: str, content: str, tmp_path: Path) -> None:
    path = written(tmp_path / "edges.csv", TEXTS["edges.csv"])
    graph = read_graph(path, nodes=written(tmp_path / name, content))
    same(graph, Graph.from_edges(PAIRS, node_ids=[9, 10, 3, 7, -4]))
    np.save(tmp_path / "nodes.npy", np.array([9, 10, 3, 7, -4]))
    same(read_graph(path, nodes=tmp_path / "nodes.npy"), graph)


def test_named_nodes(tmp_path: Path) -> None:
    path = written(tmp_path / "edges.csv", "a,b\n")
    pq.write_table(pa.table({"age": [1, 2, 3], "node": ["c", "b", "a"]}), tmp_path / "nodes.parquet")
    same(read_graph(path, nodes=tmp_path / "nodes.parquet"), Graph.from_edges([("a", "b")], node_ids=["c", "b", "a"]))


# ---------------------------------------------------------------------- features


FEATURES = {"a": [1.0, 2.5], "b": [3.0, -4.0], "c": [0.0, 1e-5]}


def keyed(order: str, header: str = "") -> str:
    return header + "".join(f"{node},{FEATURES[node][0]},{FEATURES[node][1]}\n" for node in order)


@pytest.mark.parametrize("content", [keyed("abc"), keyed("cab"), keyed("bca", "node,0,1\n"), keyed("bca", ",0,1\n")])
@pytest.mark.parametrize("block_size", [16, 1 << 20])
def test_features_by_node(content: str, block_size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "features.csv", content)
    graph = Graph.from_edges([("a", "b"), ("b", "c")])
    values = read_features(path, graph)
    assert values.dtype == np.float32
    assert np.array_equal(values, np.array([FEATURES[node] for node in "abc"], np.float32))
    monkeypatch.setattr(text_module, "BLOCK_BYTES", block_size)
    table = read_feature_table(path, True, TextOptions())
    assert np.array_equal(table.values, read_feature_table(path, True, TextOptions()).values)


def test_features_by_node_in_parquet(tmp_path: Path) -> None:
    columns = {"height": [1.5, 2.5], "node": [7, 5], "tall": [False, True], "count": pa.array([3, 4], pa.int8())}
    pq.write_table(pa.table(columns), tmp_path / "features.parquet")
    values = read_features(tmp_path / "features.parquet", Graph.from_edges([(5, 7)]))
    assert values.tolist() == [[2.5, 1, 4], [1.5, 0, 3]]


def test_features_add_isolated_nodes(tmp_path: Path) -> None:
    path = written(tmp_path / "edges.csv", "b,c\n")
    graph = read_graph(path, written(tmp_path / "features.csv", keyed("abc")))
    assert graph.node_ids.tolist() == ["b", "c", "a"]
    assert graph.features is not None
    assert graph.features[2].tolist() == FEATURES["a"]
    path = written(tmp_path / "edges.csv", "5,7\n")
    graph = read_graph(path, written(tmp_path / "features.csv", "7,70\n6,60\n5,50\n"))
    assert graph.node_ids.tolist() == [5, 6, 7]
    assert graph.neighbors(5) == [7]
    assert graph.features is not None
    assert graph.features.tolist() == [[50], [60], [70]]


def test_features_in_order(tmp_path: Path) -> None:
    matrix = np.array([[1, 0], [0, 2], [3, 0], [0, 4]], np.float64)
    np.save(tmp_path / "features.npy", matrix)
    np.savez(tmp_path / "dense.npz", features=matrix)
    sp.save_npz(tmp_path / "features.npz", sp.csr_array(matrix))
    edges = written(tmp_path / "edges.csv", "1,2\n")
    for name in ("features.npy", "dense.npz", "features.npz"):
        graph = read_graph(edges, tmp_path / name)
        assert graph.node_ids.tolist() == [0, 1, 2, 3]
        assert sp.issparse(graph.features) == (name == "features.npz")
        assert graph.features is not None
        assert graph.features.dtype == np.float32
        assert np.array_equal(sp.csr_array(graph.features).toarray(), matrix)
    named = read_graph(written(tmp_path / "edges.csv", "a,b\nc,d\n"), tmp_path / "features.npz")
    assert named.node_ids.tolist() == ["a", "c", "b", "d"]
    gaps = read_graph(written(tmp_path / "edges.csv", "40,20\n10,30\n"), tmp_path / "features.npz")
    assert gaps.node_ids.tolist() == [10, 20, 30, 40]


# ---------------------------------------------------------------------- labels


LABELS = [
    "id;color\nb;red\na;blue\n",
    "b red\na blue\n",
    "b,red\na,blue\n",
    "node,label\nb,red\na,blue\n",
    "label,id\nred,b\nblue,a\n",
    "b,red\na,blue\nb,red\n",
]


@pytest.mark.parametrize("content", LABELS)
@pytest.mark.parametrize("block_size", [8, 1 << 20])
def test_labels(content: str, block_size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "labels.csv", content)
    graph = Graph.from_edges([("a", "b"), ("b", "c")])
    before = graph.node_ids.copy()
    labels, names = read_labels(path, graph)
    assert labels.dtype == np.int64
    assert (labels.tolist(), names) == ([0, 1, -1], ("blue", "red"))
    assert np.array_equal(graph.node_ids, before)
    monkeypatch.setattr(text_module, "BLOCK_BYTES", block_size)
    table = read_label_table(path, True, TextOptions(), None, None)
    assert table.names == ["blue", "red"]


def test_labels_of_integers_ascend_as_numbers(tmp_path: Path) -> None:
    path = written(tmp_path / "labels.tsv", "node\tyear\n3\t10\n5\t9\n7\t-1\n")
    labels, names = read_labels(path, Graph.from_edges([(3, 5), (5, 7)]))
    assert (labels.tolist(), names) == ([2, 1, 0], ("-1", "9", "10"))


def test_several_labels(tmp_path: Path) -> None:
    path = written(tmp_path / "labels.csv", "a,x\na,y\nc,y\na,x\n")
    labels, names = read_labels(path, Graph.from_edges([("a", "b"), ("b", "c")]), multilabel=True)
    assert labels.dtype == np.uint8
    assert (labels.tolist(), names) == ([[1, 1], [0, 0], [0, 1]], ("x", "y"))


def test_label_columns_by_name_and_in_parquet(tmp_path: Path) -> None:
    graph = Graph.from_edges([(1, 2)])
    path = written(tmp_path / "labels.csv", "group;who\nx;1\ny;2\n")
    assert read_labels(path, graph, node="who", label="group")[0].tolist() == [0, 1]
    assert read_labels(path, graph, node=2, label=1, header=True)[0].tolist() == [0, 1]
    pq.write_table(pa.table({"node": [2, 1], "label": [5, 6]}), tmp_path / "labels.parquet")
    labels, names = read_labels(tmp_path / "labels.parquet", graph)
    assert (labels.tolist(), names) == ([1, 0], ("5", "6"))


# ---------------------------------------------------------------------- parts


def test_interning_many_names() -> None:
    words = [f"{'x' * (k % 23)}{k}" for k in range(20_000)]
    drawn = np.random.default_rng(0).integers(0, len(words), 60_000)
    names, codes = Names(), []
    for part in np.array_split(drawn, 7):
        parts = [words[k].encode() for k in part]
        lengths = np.array([len(part) for part in parts])
        starts = np.cumsum(lengths) - lengths
        codes.append(names.intern(np.frombuffer(b"".join(parts), np.uint8), starts, lengths))
    expected = dict.fromkeys(words[k] for k in drawn)
    assert names.decoded().tolist() == list(expected)
    assert [names.decoded()[k] for k in np.concatenate(codes)[:500]] == [words[k] for k in drawn[:500]]


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("spread", [1, 30, 100_000])
def test_numbering(dtype: type, spread: int) -> None:
    values = (np.random.default_rng(0).integers(-500, 500, (2, 400)) * spread).astype(dtype)
    ids, codes = np.unique(values, return_inverse=True)
    columns = values[0].copy(), values[1].copy()
    assert np.array_equal(number_integers(columns), ids)
    assert np.array_equal(np.stack(columns), codes.reshape(values.shape))


def test_numbering_of_nothing() -> None:
    assert number_integers([np.empty(0, np.int32)] * 2).tolist() == []
    assert number_codes([np.empty(0, np.int32)] * 2, 0).tolist() == []


# ---------------------------------------------------------------------- what fuzzing has found


def npy_file(descr: str, shape: str, body: bytes = b"") -> bytes:
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + body


def test_tables_without_rows(tmp_path: Path) -> None:
    graph = Graph.from_edges([("a", "b")])
    none = pa.array([], pa.string())
    pq.write_table(pa.table({"node": none, "label": none}), tmp_path / "labels.parquet")
    with pytest.raises(FileFormatError, match="has no rows; write one for each node with a label"):
        read_labels(tmp_path / "labels.parquet", graph)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("descr", "shape"), [("<U0", "(1000000000000,)"), ("<i8", "(1000000000000, 0)"), ("<i8", "(1000000000000, 2)")]
)
def test_arrays_that_declare_a_huge_size(descr: str, shape: str, packed: bool, tmp_path: Path) -> None:
    data, path = npy_file(descr, shape, bytes(64)), tmp_path / "features.npy"
    path.write_bytes(gzip.compress(data) if packed else data)
    with pytest.raises(FileFormatError, match=r"the header declares an (empty )?array of shape"):
        read_features(path, Graph.from_edges([(0, 1)]))


def test_archives_with_wrong_sizes(tmp_path: Path) -> None:
    path = tmp_path / "edges.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("edges.npy", npy_file("<i8", "(1000000000000, 2)", bytes(32)))
    size = len(npy_file("<i8", "(1000000000000, 2)", bytes(32)))
    lie = path.read_bytes().replace(size.to_bytes(4, "little"), (2**32 - 2).to_bytes(4, "little"))
    path.write_bytes(lie)
    with pytest.raises(FileFormatError):
        read_graph(path)


def test_member_names_cannot_write_outside_the_archive(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    path = home / "edges.npz"
    pairs = np.array([[0, 1]])
    np.savez(path, **{"../evil": pairs, "edges": pairs})
    assert read_graph(path).num_edges == 1
    with pytest.raises(FileFormatError, match=r"expected an array named 'x', found '../evil', 'edges'; fetch it again"):
        load_members(path, ["x"])
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
    assert [path.name for path in home.iterdir()] == ["edges.npz"]


def test_inconsistent_arrays_of_data_sets(tmp_path: Path) -> None:
    path, masks = tmp_path / "actor.npz", {name: np.zeros((1, 3), bool) for name in ("train_masks", "val_masks")}
    parts: dict[str, Any] = {
        "node_features": np.eye(3),
        "edges": np.array([[0, 1]]),
        "test_masks": np.ones((1, 3), bool),
    }
    for labels in (np.array([0, 1, 10**12]), np.array(["a", "b", "c"]), np.zeros((3, 0), int), np.uint8([0, 1, 9])):
        np.savez(path, node_labels=labels, **parts, **masks)
        with pytest.raises(FileFormatError, match=r"labels must be numbers below [03]"):
            load_heterophilous(path, "actor")
    np.savez(path, node_labels=np.uint8([0, 1, 1]), **parts, **masks)
    assert load_heterophilous(path, "actor").class_names == ("0", "1")
    sparse = {f"feat_{part}": np.array([0]) for part in ("data", "indices", "indptr", "shape")}
    split = {f"{part}": np.array([0]) for part in ("train_idx", "val_idx_derived", "test_idx")}
    np.savez(path, edges=parts["edges"], labels=np.eye(3), **sparse, **split)
    with pytest.raises(FileFormatError, match="labels must be numbers, one for each node"):
        load_nell_derived(path, "nell-0.1")


def test_a_damaged_matlab_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "blogcatalog.mat"
    path.write_bytes(b"MATLAB 5.0 MAT-file")
    with pytest.raises(FileFormatError, match=r"blogcatalog\.mat: cannot be read as MATLAB arrays network and group"):
        load_blogcatalog(path)
