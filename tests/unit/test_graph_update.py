"""Graph updates: the same graph as one built from all edges at once, for every kind of graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import cge
from cge.data.files.edges import EdgeOptions
from cge.data.files.update_files import read_graph_update
from cge.data.graph_update import GraphUpdate, check_same_features, extend_graph
from cge.errors import FileFormatError, InputError
from cge.graph import Graph
from cge.store.packing import pack_graph, unpack_graph

EDGE = st.tuples(st.integers(0, 6), st.integers(0, 6), st.sampled_from("xyz"))


def rows(graph: Graph) -> dict[Any, list[Any]]:
    """Return all entries of a graph by node id: neighbor, weight, type."""
    entries: dict[Any, list[Any]] = {}
    for node, (start, end) in enumerate(zip(graph.indptr[:-1], graph.indptr[1:], strict=True)):
        entries[graph.node_ids[node]] = sorted(
            (
                graph.node_ids[graph.indices[k]],
                None if graph.weights is None else round(float(graph.weights[k]), 6),
                None if graph.edge_types is None else graph.edge_type_names[graph.edge_types[k]],
            )
            for k in range(start, end)
        )
    return entries


@given(
    st.lists(EDGE, min_size=1, max_size=12), st.lists(EDGE, max_size=12), st.booleans(), st.booleans(), st.booleans()
)
def test_same_as_a_graph_of_all_edges(old: list[Any], new: list[Any], directed: bool, typed: bool, loops: bool) -> None:
    """Without weights, edges that are there twice collapse, so one graph of all edges is the same."""

    def kinds(edges: list[Any]) -> list[str] | None:
        return [kind for *_, kind in edges] if typed else None

    def pairs(edges: list[Any]) -> list[Any]:
        return [(u, v) for u, v, _ in edges]

    start = [0, 1, 2, 3]
    first = [edge for edge in old if max(edge[:2]) < 4] or [(0, 1, "x")]
    graph = Graph.from_edges(pairs(first), None, start, directed=directed, edge_types=kinds(first), self_loops=True)
    valid = [edge for edge in new if loops or edge[0] != edge[1]]
    extended = extend_graph(graph, GraphUpdate(pairs(new), edge_types=kinds(new), self_loops=loops))
    all_ids = [*start, *dict.fromkeys(edge[end] for end in (0, 1) for edge in new if edge[end] > 3)]
    assert extended.graph.node_ids.tolist() == all_ids
    both = [*first, *valid]
    whole = Graph.from_edges(pairs(both), None, all_ids, directed=directed, edge_types=kinds(both), self_loops=True)
    assert rows(extended.graph) == rows(whole)
    assert (extended.graph.directed, extended.graph.num_edges, extended.num_existing_nodes) == (
        directed,
        whole.num_edges,
        4,
    )
    unknown_type = typed and not {kind for *_, kind in new} <= {kind for *_, kind in first}
    unconnected = bool(new) and all(min(edge[:2]) > 3 for edge in new)
    starts = ["no new edge is connected to an existing node"] * unconnected + [
        "the graph has no edges of type"
    ] * unknown_type
    assert len(extended.notes) == len(starts)
    assert all(note.startswith(start) for note, start in zip(extended.notes, starts, strict=True))


def test_weights_of_existing_edges_do_not_change() -> None:
    graph = Graph.from_edges([("a", "b"), ("b", "c")], weights=[2.0, 3.0])
    extended = extend_graph(
        graph, GraphUpdate([("b", "a"), ("d", "a"), ("a", "d"), ("c", "d")], weights=[9, 1, 0.5, 4])
    )
    assert rows(extended.graph) == {
        "a": [("b", 2.0, None), ("d", 1.5, None)],
        "b": [("a", 2.0, None), ("c", 3.0, None)],
        "c": [("b", 3.0, None), ("d", 4.0, None)],
        "d": [("a", 1.5, None), ("c", 4.0, None)],
    }


def test_a_self_loop_has_one_entry() -> None:
    extended = extend_graph(
        Graph.from_edges([(1, 2)], weights=[1]), GraphUpdate([(3, 3)], weights=[2], self_loops=True)
    )
    assert rows(extended.graph)[3] == [(3, 2.0, None)]
    assert extend_graph(Graph.from_edges([(1, 2)]), GraphUpdate([(3, 3)])).graph.neighbors(3) == []


def test_attributes_that_the_graph_does_not_have_are_ignored_and_noted() -> None:
    plain = Graph.from_edges([(1, 2)])
    new = GraphUpdate([(3, 1)], weights=[5], edge_types=["x"], feature_ids=[3], features=[[1.0]])
    extended = extend_graph(plain, new)
    assert (extended.graph.weights, extended.graph.edge_types, extended.graph.features) == (None, None, None)
    assert extended.notes == [
        "the graph has no edge weights, so those of new edges are ignored",
        "the graph has no edge types, so those of new edges are ignored",
        "the graph has no features, so those of new nodes are ignored",
    ]
    assert not extended.has_features.any()
    rich = Graph.from_edges([(1, 2)], weights=[2], edge_types=["x"])
    extended = extend_graph(rich, GraphUpdate([(3, 1)]))
    assert rows(extended.graph)[3] == [(1, 1.0, "(none)")]
    assert extended.notes == [
        "the new edges have no weights, so each has the weight 1",
        "the new edges have no types, so they get the type '(none)'",
    ]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("given_sparse", [False, True])
def test_features_are_sparse_or_dense_as_in_the_graph(sparse: bool, given_sparse: bool) -> None:
    form = sp.csr_array if sparse else np.asarray
    graph = Graph.from_edges([("a", "b")], form([[1.0, 0], [0, 2]]), ["a", "b"])
    values: Any = np.array([[5.0, 6], [7, 0], [8, 8]])
    new = GraphUpdate(
        [("c", "a")], feature_ids=["e", "d", "b"], features=sp.coo_array(values) if given_sparse else values
    )
    extended = extend_graph(graph, new, None if sparse else np.array([0.5, -1]))
    assert extended.graph.node_ids.tolist() == ["a", "b", "c", "e", "d"]
    assert sp.issparse(extended.graph.features) == sparse
    features: Any = extended.graph.features
    dense = features.toarray() if sparse else features
    nothing = [0, 0] if sparse else [0.5, -1]
    assert dense.tolist() == [[1, 0], [0, 2], nothing, [5, 6], [7, 0]]
    assert dense.dtype == np.float32
    assert extended.has_features.tolist() == [True, True, False, True, True]
    assert extended.notes == ["1 of the nodes with new features exist already and keep their features"]


def test_wrong_updates_are_refused() -> None:
    graph = Graph.from_edges([("a", "b")], [[1.0], [2]], ["a", "b"])
    with pytest.raises(InputError, match="node ids of the graph are text, but the new edges have integers, such as 1;"):
        extend_graph(graph, GraphUpdate([(1, 2)]))
    with pytest.raises(InputError, match="are integers, but the new features have text, such as 'x';"):
        extend_graph(Graph.from_edges([(1, 2)]), GraphUpdate(feature_ids=["x"], features=[[1.0]]))
    with pytest.raises(InputError, match="new nodes need 1 features, as the others have, found 2"):
        extend_graph(graph, GraphUpdate(feature_ids=["c"], features=[[1.0, 2]]))
    with pytest.raises(InputError, match="one row for each of 2 nodes"):
        extend_graph(graph, GraphUpdate(feature_ids=["c", "d"], features=[[1.0]]))
    with pytest.raises(InputError, match="'c' occurs twice"):
        extend_graph(graph, GraphUpdate(feature_ids=["c", "c"], features=[[1.0], [2]]))
    typed = Graph.from_edges([(1, 2)], edge_types=["x"])
    with pytest.raises(InputError, match="there are 1 new edges, but 2 edge types"):
        extend_graph(typed, GraphUpdate([(1, 3)], edge_types=["x", "y"]))
    many = [str(number) for number in range(33_000)]
    with pytest.raises(InputError, match="33,001 edge types; at most 32,767"):
        extend_graph(typed, GraphUpdate([(1, 3)] * 33_000, edge_types=many))


# ---------------------------------------------------------------------- files

NAMES = Graph.from_edges([("a", "b")], [[1.0, 0], [0, 1]], ["a", "b"])
NUMBERS = Graph.from_edges([(1, 2)], num_nodes=3)


def test_edges_from_files(tmp_path: Path) -> None:
    text = tmp_path / "e.csv"
    text.write_text("7,1\n8,7\n")
    update, notes = read_graph_update(NUMBERS, text)
    assert [part.tolist() for part in update.edges] == [[7, 8], [1, 7]]
    update, _ = read_graph_update(NAMES, text)  # a graph with names reads names, though all are digits
    assert [part.tolist() for part in update.edges] == [["7", "8"], ["1", "7"]]
    np.save(tmp_path / "e.npy", np.array([[7, 1]]))
    np.savez(tmp_path / "e.npz", edges=np.array([["x", "a"]]))
    pq.write_table(pa.table({"from": ["x"], "to": ["a"], "w": [2.0]}), tmp_path / "e.parquet")
    assert [part.tolist() for part in read_graph_update(NUMBERS, tmp_path / "e.npy")[0].edges] == [[7], [1]]
    assert [part.tolist() for part in read_graph_update(NAMES, tmp_path / "e.npz")[0].edges] == [["x"], ["a"]]
    update, _ = read_graph_update(NAMES, tmp_path / "e.parquet")
    assert ([part.tolist() for part in update.edges], update.weights.tolist()) == ([["x"], ["a"]], [2.0])
    pq.write_table(
        pa.table({"from": pa.array([], pa.string()), "to": pa.array([], pa.string())}), tmp_path / "e.parquet"
    )
    update, notes = read_graph_update(NAMES, tmp_path / "e.parquet")
    assert ([part.tolist() for part in update.edges], notes) == ([[], []], [])
    text.write_text("who,whom\nx,a\ny,a\n")
    _, notes = read_graph_update(NAMES, text)
    assert len(notes) == 1
    assert notes[0].endswith("its ids 'who' and 'whom' occur nowhere else; if it names the columns, pass header=True")
    update, _ = read_graph_update(NAMES, text, options=EdgeOptions(source="whom", target="who"))
    assert [part.tolist() for part in update.edges] == [["a", "a"], ["x", "y"]]


def test_files_of_edges_that_are_refused(tmp_path: Path) -> None:
    text = tmp_path / "e.csv"
    text.write_text("7,x\n")
    with pytest.raises(FileFormatError) as caught:
        read_graph_update(NUMBERS, text)
    expected = f"{text}, line 1: expected an integer node id, found 'x'; the ids of the graph are integers"
    assert str(caught.value) == expected
    pq.write_table(pa.table({"source": ["7"], "target": ["x"]}), tmp_path / "e.parquet")
    with pytest.raises(FileFormatError, match=r"expected integers as node id.*; the ids of the graph are"):
        read_graph_update(NUMBERS, tmp_path / "e.parquet")
    text.write_text("source,target,weight\n7,1,heavy\n")
    with pytest.raises(FileFormatError, match="found 'heavy'; remove the edge, or pass weighted=False"):
        read_graph_update(NUMBERS, text, options=EdgeOptions(weighted=True))
    sp.save_npz(tmp_path / "m.npz", sp.eye_array(3, format="csr"))
    with pytest.raises(FileFormatError, match="an adjacency matrix has no ids that identify nodes of the graph"):
        read_graph_update(NUMBERS, tmp_path / "m.npz")
    np.save(tmp_path / "e.npy", np.array([[7, 1]]))
    with pytest.raises(FileFormatError, match="expected node ids that are text, as in the graph, found 1"):
        read_graph_update(NAMES, tmp_path / "e.npy")
    with pytest.raises(FileFormatError, match="there is no such file"):
        read_graph_update(NAMES, tmp_path / "none.csv")


def test_features_from_files(tmp_path: Path) -> None:
    table, matrix, nodes = tmp_path / "f.csv", tmp_path / "f.npz", tmp_path / "n.txt"
    table.write_text("node,x,y\nc,1,2\nd,3,4\n")
    update, _ = read_graph_update(NAMES, features=table)
    assert (update.feature_ids.tolist(), update.features.tolist()) == (["c", "d"], [[1, 2], [3, 4]])
    sp.save_npz(matrix, sp.csr_array([[1.0, 2], [3, 4]]))
    with pytest.raises(FileFormatError, match="its rows have no node ids; pass feature_nodes, a list of"):
        read_graph_update(NAMES, features=matrix)
    nodes.write_text("c\nd\n")
    update, _ = read_graph_update(NAMES, features=matrix, feature_nodes=nodes)
    assert (update.feature_ids.tolist(), update.features.toarray().tolist()) == (["c", "d"], [[1, 2], [3, 4]])
    nodes.write_text("c\nd\ne\n")
    with pytest.raises(FileFormatError, match=r"found 3 nodes for 2 rows in"):
        read_graph_update(NAMES, features=matrix, feature_nodes=nodes)
    with pytest.raises(FileFormatError, match="this table is keyed by node itself; leave feature_nodes out"):
        read_graph_update(NAMES, features=table, feature_nodes=nodes)
    with pytest.raises(InputError, match="feature_nodes needs features; pass features, too"):
        read_graph_update(NAMES, feature_nodes=nodes)
    table.write_text("node,x,y\nc,1,2\nc,3,4\n")
    with pytest.raises(FileFormatError, match="line 3: node 'c' occurs twice, first in line 2; keep one row"):
        read_graph_update(NAMES, features=table)
    table.write_text("node,x\nc,1\n")
    with pytest.raises(FileFormatError, match="found 1 features, expected 2 as in training; give the same ones"):
        read_graph_update(NAMES, features=table)
    np.save(tmp_path / "f.npy", np.array([[1.0, np.inf]]))
    nodes.write_text("c\n")
    with pytest.raises(FileFormatError, match=r"f.npy: features must be finite as float32, found inf"):
        read_graph_update(NAMES, features=tmp_path / "f.npy", feature_nodes=nodes)


def test_columns_are_matched_by_name(tmp_path: Path) -> None:
    edges, table, new = tmp_path / "e.csv", tmp_path / "f.csv", tmp_path / "new.csv"
    edges.write_text("a,b\n")
    table.write_text("x,node,y,z\n1,a,2,3\n4,b,5,6\n")
    graph = cge.read_graph(edges, features=table)
    assert graph.feature_names == ("x", "y", "z")
    new.write_text("node,z,x,y\nc,30,10,20\n")
    update, _ = read_graph_update(graph, features=new)
    assert update.features.tolist() == [[10, 20, 30]]
    extended = extend_graph(graph, update).graph
    assert (extended.feature_names, extended.features[2].tolist()) == (graph.feature_names, [10, 20, 30])
    new.write_text("node,z,x,q\nc,30,10,20\n")
    with pytest.raises(FileFormatError, match="the column 'y' of the training features is missing; add it"):
        read_graph_update(graph, features=new)
    new.write_text("node,z,x,y,q\nc,30,10,20,0\n")
    with pytest.raises(FileFormatError, match="the column 'q' is not in the training features; remove it"):
        read_graph_update(graph, features=new)
    new.write_text("c,10,20,30\n")  # without names there is only the order
    assert read_graph_update(graph, features=new)[0].features.tolist() == [[10, 20, 30]]
    assert unpack_graph(*pack_graph(graph)).feature_names == graph.feature_names
    assert graph.with_features(np.ones((2, 3))).feature_names == ()
    new.write_text("node,z,x,y\na,3,1,2\nb,6,4,5\n")
    other = cge.read_graph(edges, features=new)
    with pytest.raises(InputError, match="in the same order, expected 'x', found 'z'"):
        check_same_features(graph, other)
    check_same_features(graph, graph.with_features(np.ones((2, 3))))


def test_files_with_another_byte_order(tmp_path: Path) -> None:
    np.save(tmp_path / "e.npy", np.array([[1, 2], [2, 3]], ">i8"))
    assert cge.read_graph(tmp_path / "e.npy").neighbors(2) == [1, 3]
    matrix = sp.csr_array(np.array([[0, 2], [2, 0]]))
    parts = {"indptr": matrix.indptr, "indices": matrix.indices, "shape": matrix.shape, "format": b"csr"}
    np.savez(tmp_path / "m.npz", data=matrix.data.astype(">i8"), **parts)
    assert cge.read_graph(tmp_path / "m.npz").neighbors(0) == [1]


def test_unknown_edge_types_are_noted() -> None:
    graph = Graph.from_edges([(0, 1), (1, 2)], edge_types=["friend", "friend"])
    assert extend_graph(graph, GraphUpdate([(3, 0)], edge_types=["friend"])).notes == []
    notes = extend_graph(graph, GraphUpdate([(3, 0), (3, 1)], edge_types=["freind", "friend"])).notes
    assert notes == ["the graph has no edges of type 'freind', so the model has not seen this type"]
