"""`Graph.of`: graphs and tables of other libraries, by what they look like."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import torch

import cge
from cge.errors import InputError
from tests.fixtures import quick_cge

PAIRS = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]


class Sequence:
    """Vertices or edges of igraph: attributes by name."""

    def __init__(self, **columns: list[Any]) -> None:
        self.columns = columns

    def attributes(self) -> list[str]:
        return list(self.columns)

    def __getitem__(self, name: str) -> list[Any]:
        return self.columns[name]


class IGraph:
    """What is used of `igraph.Graph`."""

    def __init__(self, named: bool) -> None:
        self.vs, self.es = Sequence(**{"name": list("abcd")} if named else {}), Sequence(weight=[1.0, 2, 1, 1])

    def get_edgelist(self) -> list[tuple[int, int]]:
        return [(ord(u) - 97, ord(v) - 97) for u, v in PAIRS]

    def vcount(self) -> int:
        return 4

    def is_directed(self) -> bool:
        return False


def objects() -> dict[str, Any]:
    matrix = np.zeros((4, 4))
    for u, v in PAIRS:
        matrix[ord(u) - 97, ord(v) - 97] = matrix[ord(v) - 97, ord(u) - 97] = 1
    frame = pd.DataFrame(PAIRS, columns=["src", "dst"])
    index = torch.tensor(np.stack(matrix.nonzero()))
    return {
        "graph": cge.Graph.from_edges(PAIRS),
        "networkx": nx.Graph(PAIRS),
        "scipy": sp.csr_matrix(matrix),
        "pandas": frame,
        "two columns": frame.set_axis(["x", "y"], axis=1).assign(Weight=[1, 2, 1, 1]),
        "polars": pl.DataFrame({"from": [u for u, _ in PAIRS], "to": [v for _, v in PAIRS]}),
        "pyg": SimpleNamespace(edge_index=index, x=None, num_nodes=4),
        "igraph": IGraph(named=True),
        "igraph without names": IGraph(named=False),
    }


@pytest.mark.parametrize("name", objects())
def test_objects_become_graphs(name: str) -> None:
    graph = cge.Graph.of(objects()[name])
    assert (len(graph), graph.num_edges, graph.directed) == (4, 4, False)
    text = graph.node_ids.dtype.kind == "O"
    assert graph.neighbors("c" if text else 2) == (["a", "b", "d"] if text else [0, 1, 3])
    assert (graph.weights is not None) == (name in ("two columns", "igraph", "igraph without names"))


def test_types_of_a_table() -> None:
    frame = pd.DataFrame(PAIRS, columns=["u", "v"]).assign(relation=["knows", "knows", "likes", "likes"])
    assert cge.Graph.of(frame).edge_type_names == ("knows", "likes")
    with pytest.raises(InputError, match="a table of edges needs the columns source and target, found 'x', 'y', 'z'"):
        cge.Graph.of(pd.DataFrame({"x": [1], "y": [2], "z": [3]}))


def test_rows_of_a_frame_of_features_go_by_its_index() -> None:
    features = pd.DataFrame({"f": [4, 3, 2, 1, 0]}, index=list("dcbaz"))
    for name in ("pandas", "networkx"):
        graph = cge.Graph.of(objects()[name], features)
        assert {node: graph.features[graph.index_of(node), 0] for node in "abcd"} == {"a": 1, "b": 2, "c": 3, "d": 4}
        assert ("z" in graph) == (name == "pandas")  # a node without edges
    with pytest.raises(InputError, match="nodes of the graph have no row in the features: 'd'"):
        cge.Graph.of(objects()["networkx"], features.loc[list("abc")])
    assert cge.Graph.of(objects()["graph"], np.eye(4)).features.shape == (4, 4)


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(
        InputError, match="expected a graph of cge, NetworkX, SciPy, PyG or igraph, or a table of edges"
    ):
        cge.Graph.of([(1, 2)])


def test_estimators_take_objects_of_other_libraries() -> None:
    club = nx.karate_club_graph()
    y = {node: club.nodes[node]["club"] for node in range(0, 34, 3)}
    model = quick_cge("degree", classifier="mlp").fit(club, y)
    same = quick_cge("degree", classifier="mlp").fit(cge.Graph.from_networkx(club), y)
    assert np.array_equal(model.predict_proba(), same.predict_proba())
    assert model.predict([1, 2], graph=club).shape == (2,)
    assert np.array_equal(model.transform(club), same.transform(same.graph_))
    frame = pd.DataFrame(PAIRS, columns=["source", "target"])
    assert cge.DeepWalk(dim=4, walks_per_node=1, walk_length=3).fit(frame).embedding_.shape == (4, 4)
