"""Node types, relations, edge features and features per node type: from arrays, files and other libraries' objects."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import cge
from cge.cli.main import run
from cge.data.graph_update import GraphUpdate, extend_graph
from cge.data.link_split import hold_out_links
from cge.errors import InputError
from cge.models.edge_weighting import make_edge_inputs
from cge.models.propagation import TransitionMatrix
from cge.store.packing import pack_graph, unpack_graph

EDGES = [("ann", "p"), ("bob", "p"), ("bob", "q"), ("p", "q"), ("p", "q")]
KINDS = ["writes", "writes", "writes", "cites", "extends"]
AGES = [1.0, np.nan, 3.0, 5.0, 7.0]
TYPES = {"ann": "author", "bob": "author", "p": "paper", "q": "paper"}


def typed(**changed: Any) -> cge.Graph:
    options: dict[str, Any] = {"edge_types": KINDS, "node_types": TYPES, "edge_features": {"age": AGES}} | changed
    return cge.Graph.from_edges(EDGES, node_ids=list(TYPES), **options)


def entries(graph: cge.Graph) -> dict[tuple[Any, Any, str], Any]:
    """Return the edge feature of each entry, by source, target and edge type."""
    rows = np.repeat(np.arange(len(graph)), graph.degrees)
    assert graph.edge_types is not None
    assert graph.edge_features is not None
    names = [graph.edge_type_names[code] for code in graph.edge_types]
    keys = zip(graph.node_ids[rows], graph.node_ids[graph.indices], names, strict=True)
    return dict(zip(keys, graph.edge_features[:, 0].tolist(), strict=True))


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text)


# ---------------------------------------------------------------------- the graph


def test_parallel_edges_keep_types_and_features_in_both_directions() -> None:
    graph = typed()
    assert repr(graph) == "Graph(4 nodes, 5 undirected edges, 2 node types, 3 edge types, 1 edge feature)"
    values = entries(graph)
    for (source, target), kind, age in zip(EDGES, KINDS, AGES, strict=True):
        for key in ((source, target, kind), (target, source, kind)):
            assert values[key] == age or (np.isnan(values[key]) and np.isnan(age))
    assert len(values) == 10


def test_merged_edges_average_the_features_that_they_have() -> None:
    random = np.random.default_rng(0)
    pairs, ages = random.integers(0, 4, (60, 2)), random.normal(size=60)
    ages[::7] = np.nan
    for directed in (True, False):
        graph = cge.Graph.from_edges(pairs, num_nodes=4, directed=directed, edge_features=ages, self_loops=True)
        rows = np.repeat(np.arange(4), graph.degrees)
        for row, column, value in zip(rows, graph.indices, graph.edge_features[:, 0], strict=True):  # type: ignore[index]
            same = (pairs == (row, column)).all(1) | ((pairs == (column, row)).all(1) & (not directed))
            assert value == pytest.approx(np.nanmean(ages[same]), rel=1e-6)


def test_a_relation_and_its_inverse_are_distinct() -> None:
    graph = typed()
    rows = np.repeat(np.arange(4), graph.degrees)
    for row, column, edge, code in zip(rows, graph.indices, graph.edge_types, graph.relations.codes, strict=True):  # type: ignore[arg-type]
        expected = TYPES[graph.node_ids[row]], graph.edge_type_names[edge], TYPES[graph.node_ids[column]]
        assert graph.relations.names[code] == expected
    assert ("author", "writes", "paper") in graph.relations.names
    assert ("paper", "writes", "author") in graph.relations.names
    assert cge.Graph.from_edges([(0, 1)]).relations.names == (("", "", ""),)


def test_reverse_edges_have_types_of_their_own() -> None:
    graph = typed(directed=True)
    both = graph.with_reverse_edges()
    assert both.edge_type_names == ("writes", "cites", "extends", "rev_writes", "rev_cites", "rev_extends")
    values, forward = entries(both), entries(graph)
    assert len(values) == 2 * len(forward)
    for (source, target, kind), age in forward.items():
        assert np.array_equal([values[source, target, kind], values[target, source, f"rev_{kind}"]], [age, age], True)
    with pytest.raises(InputError, match="reverse edges are for directed graphs"):
        typed().with_reverse_edges()
    with pytest.raises(InputError, match="edges of the type 'rev_writes' already; rename the type"):
        both.with_reverse_edges()


def test_features_per_type_are_a_block_diagonal_matrix() -> None:
    papers, authors = sp.csr_array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]), np.array([[4.0], [5.0]])
    graph = typed(features={"paper": papers, "author": authors})
    assert graph.features is not None
    expected = np.zeros((4, 4))
    expected[2:, :3], expected[:2, 3:] = papers.toarray(), authors
    assert np.array_equal(graph.features.toarray(), expected)
    assert graph.feature_names == ("paper: 1", "paper: 2", "paper: 3", "author: 1")


def test_types_and_edge_features_survive_saving_subgraphs_updates_and_held_out_links() -> None:
    graph = typed()
    loaded = unpack_graph(*pack_graph(graph))
    assert (loaded.node_type_names, loaded.edge_feature_names) == (("author", "paper"), ("age",))
    assert np.array_equal(loaded.node_types, graph.node_types)  # type: ignore[arg-type]
    assert np.array_equal(loaded.edge_features, graph.edge_features, equal_nan=True)  # type: ignore[arg-type]
    part = graph.subgraph([1, 2, 3])
    assert part.node_types.tolist() == [0, 1, 1]  # type: ignore[union-attr]
    assert entries(part)["q", "bob", "writes"] == 3
    ring = cge.Graph.from_edges([(k, (k + 1) % 40) for k in range(40)], edge_features=np.arange(40.0))
    kept = hold_out_links(ring).graph
    assert len(kept.edge_features) == len(kept.indices)  # type: ignore[arg-type]


def test_homogeneous_graphs_store_nothing_new() -> None:
    metadata, arrays = pack_graph(cge.Graph.from_edges([(0, 1)]))
    assert not {"node_type_names", "edge_feature_names"} & set(metadata)
    assert set(arrays) == {"graph.indptr", "graph.indices", "graph.ids.numbers"}


def test_new_nodes_get_the_type_of_nodes_with_such_edges() -> None:
    update = GraphUpdate([("new", "p"), ("eve", "q"), ("x", "y")], edge_types=["writes", "cites", "writes"])
    extended = extend_graph(typed(), update)
    names = extended.graph.node_type_names
    types = [names[code] for code in extended.graph.node_types[4:]]  # type: ignore[index]
    assert types == ["author", "paper", "author", "author"]  # of "x" and "y" nothing is known: the first of a tie
    assert np.isnan(entries(extended.graph)["new", "p", "writes"])
    assert entries(extended.graph)["p", "q", "cites"] == 5
    assert any("4 new nodes have no type" in note for note in extended.notes)
    given = extend_graph(
        typed(), GraphUpdate([("new", "p")], edge_features={"age": [9.0]}, node_types={"new": "paper"})
    )
    assert given.graph.node_types[4] == 1  # type: ignore[index]
    assert entries(given.graph)["new", "p", "(none)"] == 9
    with pytest.raises(InputError, match="node 'new' is of the type 'venue'; the types are 'author', 'paper'"):
        extend_graph(typed(), GraphUpdate([("new", "p")], node_types={"new": "venue"}))


def test_edge_features_are_standardized_and_missing_ones_are_average() -> None:
    graph = typed()
    transitions = TransitionMatrix(graph)
    inputs, scale = make_edge_inputs(graph, transitions)
    place = scale.names.index("feature age")
    in_graph = transitions.graph_entry >= 0
    raw = graph.edge_features[transitions.graph_entry[in_graph], 0].astype(float)  # type: ignore[index]
    known = np.array([1.0, 3.0, 5.0, 7.0] * 2)
    expected = np.nan_to_num((raw - known.mean()) / known.std())
    assert inputs.values[in_graph, place] == pytest.approx(expected, abs=1e-6)
    assert not inputs.values[~in_graph, place].any()


# ---------------------------------------------------------------------- other libraries


def test_from_networkx_reads_types_and_edge_features() -> None:
    source = nx.MultiGraph()
    for node, kind in TYPES.items():
        source.add_node(node, kind=kind)
    for (u, v), kind, age in zip(EDGES, KINDS, AGES, strict=True):
        source.add_edge(u, v, relation=kind, **({} if np.isnan(age) else {"age": age}))
    graph = cge.Graph.from_networkx(source, node_type="kind", edge_type="relation", edge_features=["age"])
    assert entries(graph) == pytest.approx(entries(typed()), nan_ok=True)
    assert graph.node_types.tolist() == typed().node_types.tolist()  # type: ignore[union-attr]
    source.add_node("eve")
    with pytest.raises(InputError, match="the node 'eve' has no attribute 'kind'; give it a type"):
        cge.Graph.from_networkx(source, node_type="kind")


def test_from_pandas_reads_types_and_edge_features() -> None:
    edges = pd.DataFrame(EDGES, columns=["source", "target"]).assign(kind=KINDS, age=AGES)
    nodes = pd.DataFrame({"node": list(TYPES), "type": list(TYPES.values()), "size": range(4)})
    options: Any = {"edge_type": "kind", "edge_features": ["age"], "node_type": "type"}
    graph = cge.Graph.from_pandas(edges, nodes, features=["size"], **options)
    assert entries(graph) == pytest.approx(entries(typed()), nan_ok=True)
    assert graph.features.ravel().tolist() == [0, 1, 2, 3]  # type: ignore[union-attr]
    with pytest.raises(InputError, match="the table of edges has no column 'cost'; its columns are 'source', 'target'"):
        cge.Graph.from_pandas(edges, weight="cost")
    with pytest.raises(InputError, match="the edge feature 'kind' must be numbers; turn text into numbers"):
        cge.Graph.from_pandas(edges, edge_features=["kind"])


class Hetero(dict):  # type: ignore[type-arg]
    """As much of PyG's HeteroData as the conversion uses."""

    node_types = ("author", "paper")
    edge_types = (("author", "writes", "paper"), ("paper", "cites", "paper"))


def hetero() -> Hetero:
    writes = SimpleNamespace(edge_index=np.array([[0, 1, 1], [0, 0, 1]]), edge_attr=np.array([[1.0], [2.0], [3.0]]))
    cites = SimpleNamespace(edge_index=np.array([[0], [1]]), edge_weight=np.array([4.0]))
    nodes = {"author": SimpleNamespace(num_nodes=2), "paper": SimpleNamespace(x=np.array([[1.0, 2.0], [3.0, 4.0]]))}
    return Hetero(nodes | dict(zip(Hetero.edge_types, (writes, cites), strict=True)))


def test_from_pyg_reads_hetero_data() -> None:
    graph = cge.Graph.from_pyg(hetero())
    assert graph.node_ids.tolist() == ["author:0", "author:1", "paper:0", "paper:1"]
    assert not graph.directed
    assert graph.node_types.tolist() == [0, 0, 1, 1]  # type: ignore[union-attr]
    assert graph.features.toarray().tolist() == [[0, 0], [0, 0], [1, 2], [3, 4]]  # type: ignore[union-attr]
    values = entries(graph)
    assert values["author:1", "paper:1", "writes"] == 3
    assert np.isnan(values["paper:0", "paper:1", "cites"])
    assert graph.to_scipy()[2, 3] == 4
    damaged = hetero()
    damaged["paper", "cites", "paper"].edge_index = np.array([[0], [7]])
    with pytest.raises(InputError, match=r"contain a node beyond the 2 of the type 'paper'"):
        cge.Graph.from_pyg(damaged)


# ---------------------------------------------------------------------- files


def test_relation_files_node_types_and_feature_files(tmp_path: Path) -> None:
    write(
        tmp_path,
        writes="source,target,age\nann,p,1\nbob,p,\nbob,q,NA\n",
        cites="source,target,weight\np,q,2\n",
        nodes="id,type\nann,author\nbob,author\np,paper\nq,paper\neve,author\n",
        papers="node,words\np,3\nq,4\n",
    )
    files = {name: str(tmp_path / f"{name}.csv") for name in ("writes", "cites")}
    types, papers = str(tmp_path / "nodes.csv"), str(tmp_path / "papers.csv")
    graph = cge.read_graph(files, {"paper": papers}, node_types=types, edge_features=["age"])
    assert repr(graph) == (
        "Graph(5 nodes, 4 undirected edges, weighted, 2 node types, 2 edge types, 1 edge feature, 1 feature)"
    )
    assert graph.feature_names == ("paper: words",)
    values = entries(graph)
    assert values["ann", "p", "writes"] == 1
    assert np.isnan([values["bob", "p", "writes"], values["bob", "q", "writes"], values["q", "p", "cites"]]).all()
    column = cge.read_graph(files, nodes=types, node_types="type")
    assert column.node_types.tolist() == [0, 0, 1, 1, 0]  # type: ignore[union-attr]
    arguments = ["--edges", f"writes={files['writes']}", "--edges", f"cites={files['cites']}", "--node-types", types]
    assert run(["check", *arguments, "--edge-features", "age", "--features", f"paper={papers}"]) == 0
    directed = cge.read_graph(files, nodes=types, node_types="type", directed=True, reverse_edges=True)
    assert directed.neighbors("p") == ["ann", "bob", "q"]


def test_parquet_edge_features_may_be_missing(tmp_path: Path) -> None:
    pd.DataFrame({"source": [1, 2], "target": [2, 3], "age": [None, 4.0]}).to_parquet(tmp_path / "edges.parquet")
    graph = cge.read_graph(tmp_path / "edges.parquet", edge_features=["age"])
    assert np.array_equal(graph.edge_features.ravel(), [np.nan, np.nan, 4, 4], equal_nan=True)  # type: ignore[union-attr]


BAD = {
    "text": ({"edges": "source,target,age\na,b,old\n"}, {"edge_features": ["age"]}),
    "infinite": ({"edges": "source,target,age\na,b,inf\n"}, {"edge_features": ["age"]}),
    "no column": ({"edges": "source,target\na,b\n"}, {"edge_features": ["born"]}),
    "no type": ({"edges": "a,b\n", "types": "node,type\na,x\n"}, {"node_types": "types.csv"}),
    "two types": ({"edges": "a,b\n", "types": "node,type\na,x\nb,y\na,y\n"}, {"node_types": "types.csv"}),
    "no such column": (
        {"edges": "a,b\n", "nodes": "id,type\na,x\nb,x\n"},
        {"nodes": "nodes.csv", "node_types": "kind"},
    ),
    "unknown type": (
        {"edges": "a,b\n", "types": "node,type\na,x\nb,x\n", "f": "node,f\na,1\n"},
        {"node_types": "types.csv", "features": {"y": "f.csv"}},
    ),
    "all missing": ({"edges": "source,target,age\na,b,\nb,c,\n"}, {"edge_features": ["age"]}),
    "undirected": ({"edges": "a,b\n"}, {"reverse_edges": True}),
}
MESSAGES = {
    "text": "edges.csv, line 2: expected a finite number in the edge feature 'age', found 'old'; write a number, or "
    "nothing where it is missing; read text by edge_type",
    "infinite": "edges.csv, line 2: expected a finite number in the edge feature 'age', found 'inf'; write a number, "
    "or nothing where it is missing; read text by edge_type",
    "no column": "edges.csv, line 1: there is no column 'born' for edge_features; the columns are 'source', 'target'",
    "no type": "types.csv: 1 node of the graph has no type, the first: 'b'; give each node one row",
    "two types": "types.csv, line 4: node 'a' has the type 'y', but 'x' in line 2; keep one",
    "no such column": "nodes.csv: there is no column 'kind' of node types, and no such file; the columns are 'id', "
    "'type'",
    "unknown type": "features: there are no nodes of the type 'y'; the types are 'x'",
    "all missing": "the edge feature 'age' is missing for every edge; leave it out of edge_features",
    "undirected": "reverse_edges needs directed; an undirected graph has both directions already",
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_of_typed_graphs_get_one_sentence(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, options = BAD[case]
    write(tmp_path, **files)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as error:
        cge.read_graph("edges.csv", **options)  # type: ignore[arg-type]
    assert str(error.value) == MESSAGES[case]


def test_a_relation_file_without_edges_is_refused(tmp_path: Path) -> None:
    pd.DataFrame({"source": [], "target": []}).astype(int).to_parquet(tmp_path / "cites.parquet")
    write(tmp_path, writes="1,2\n", text="a,b\n")
    with pytest.raises(InputError, match=r"cites.parquet: the relation 'cites' has no edges; add some, or leave"):
        cge.read_graph({"cites": tmp_path / "cites.parquet", "writes": tmp_path / "writes.csv"})
    with pytest.raises(InputError, match=r"text.csv: the node ids are text, but those of .*writes.csv are integers"):
        cge.read_graph({"text": tmp_path / "text.csv", "writes": tmp_path / "writes.csv"})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a file EDGES, or --edges TYPE=FILE for each edge type, and not both"),
        (["--edges", "a.csv"], "--edges must be TYPE=FILE where it is repeated, found 'a.csv'"),
        (["--edges", "x=a.csv", "--edges", "x=b.csv"], "--edges names the type 'x' twice; give each type one file"),
    ],
)
def test_bad_relation_options(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", *arguments]) == 2
    assert message in capsys.readouterr().err


# ---------------------------------------------------------------------- labels and predictions


def two_types() -> tuple[cge.Graph, dict[str, str]]:
    """A graph of papers in two groups, each with an author of its own."""
    edges = [(f"{author}{k}", author) for author in "ab" for k in range(6)]
    types = {node: "author" if len(node) == 1 else "paper" for pair in edges for node in pair}
    labels = {f"{author}{k}": author for author in "ab" for k in range(3)}
    return cge.Graph.from_edges(edges, node_ids=list(types), node_types=types), labels


def test_predictions_default_to_the_type_of_the_labels(tmp_path: Path) -> None:
    graph, labels = two_types()
    model = cge.CGE("degree", classifier="mlp", hops=2, label_propagation=True).fit(graph, labels)
    papers = [node for node in graph.node_ids if len(node) > 1]
    assert model.predicted_node_ids_.tolist() == papers
    assert model.predict().tolist() == [node[0] for node in papers]
    assert len(model.predict_proba(graph.node_ids)) == 14
    model.save(tmp_path / "model")
    assert cge.load(tmp_path / "model").predicted_node_ids_.tolist() == papers


def test_labels_are_of_one_node_type() -> None:
    graph, labels = two_types()
    with pytest.raises(InputError) as error:
        cge.CGE().fit(graph, labels | {"a": "a"})
    assert str(error.value) == (
        "y has labels of 6 nodes of the type 'paper', but node 'a' is of the type 'author'; label nodes of one type"
    )
    with pytest.raises(InputError) as error:
        cge.CGE().fit(graph, labels, {"a": "a"})
    assert str(error.value) == (
        "y has labels of 6 nodes of the type 'paper', but node 'a' of validation is of the type 'author'; label nodes "
        "of one type"
    )
