"""Graphs from objects of SciPy, NetworkX, PyTorch Geometric and pandas; only SciPy is imported."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from cge import checks
from cge.arrays import Array
from cge.errors import MAKE_GRAPH, InputError, format_list, format_value, qualified_type
from cge.ids import as_id_array, unique_index
from cge.pyg_conversion import hetero_parts, pyg_adjacency


class GraphConversions:
    """The methods of `cge.Graph` that build one from objects of other libraries; all call `from_edges`."""

    @classmethod
    def of(cls, source: Any, features: Any = None) -> Self:
        """Return a graph from an object of another library; a `Graph` is returned as it is.

        Parameters
        ----------
        source : Graph, or an object of NetworkX, SciPy, pandas, polars, PyTorch Geometric or igraph
            A table of edges has columns called source and target (or src and dst, from and to, …), or two columns, and
            perhaps weight and type. Nodes of igraph are identified by the attribute "name", where there is one.
        features : (n, f) array, SciPy sparse matrix or DataFrame, optional
            Rows of a DataFrame belong to the nodes in its index; those of arrays are in the order of the nodes.

        Examples
        --------
        >>> from cge import Graph
        >>> Graph.of(sp.csr_array([[0, 1], [1, 0]]))
        Graph(2 nodes, 1 undirected edge)
        """
        kind = object_kind(source)
        if kind is None:
            problem = "expected a graph of cge, NetworkX, SciPy, PyG or igraph, or a table of edges, found "
            raise InputError(problem + qualified_type(source), hint=MAKE_GRAPH)
        by_index = features is not None and hasattr(features, "loc") and hasattr(features, "index")
        if kind == "table":
            ids = list(features.index) if by_index else None
            graph: Any = cls.from_edges(**_table_parts(source), node_ids=ids)  # type: ignore[attr-defined]
        elif kind == "igraph":
            graph = cls.from_edges(**_igraph_parts(source))  # type: ignore[attr-defined]
        else:
            graph = source if kind == "graph" else getattr(cls, f"from_{kind}")(source)
        if features is None:
            return graph  # type: ignore[no-any-return]
        rows = _rows_by_index(features, graph.node_ids) if by_index else features
        return graph.with_features(rows)  # type: ignore[no-any-return]

    @classmethod
    def from_scipy(
        cls,
        adjacency: Any,
        features: Any = None,
        node_ids: Iterable[Hashable] | None = None,
        directed: bool | None = None,
        *,
        weighted: bool | None = None,
        self_loops: bool = False,
    ) -> Self:
        """Build a graph from a square sparse adjacency matrix.

        Parameters
        ----------
        adjacency : (n, n) SciPy sparse matrix or array
            Entry (u, v) is the weight of the edge from u to v.
        features, node_ids, self_loops
            As for `from_edges`; without `node_ids` nodes are the integers 0 … n-1.
        directed : bool, optional
            None: a symmetric matrix makes an undirected graph, any other a directed one.
        weighted : bool, optional
            None: a matrix of equal values makes a graph without weights.

        Examples
        --------
        >>> from cge import Graph
        >>> Graph.from_scipy(sp.csr_array([[0, 1, 1], [0, 0, 0], [0, 0, 0]]))
        Graph(3 nodes, 2 directed edges)
        """
        rows, directed = checks.scipy_rows(adjacency, directed, weighted, self_loops)
        size = len(rows.indptr) - 1
        ids = np.arange(size, dtype=np.int64) if node_ids is None else as_id_array(node_ids).copy()
        if len(ids) != size:
            raise InputError(f"the matrix has {size:,} rows, but there are {len(ids):,} node ids")
        unique_index(ids)
        graph = cls(rows.indptr, rows.indices, ids, directed, rows.weights)  # type: ignore[call-arg]
        return graph.with_features(features)  # type: ignore[attr-defined, no-any-return]

    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        features: Any = None,
        weight: str | None = "weight",
        *,
        node_type: str | None = None,
        edge_type: str | None = None,
        edge_features: Sequence[str] = (),
        self_loops: bool = False,
    ) -> Self:
        """Build a graph from a NetworkX graph (anything with `nodes`, `edges(data=…)` and `is_directed`).

        Parameters
        ----------
        graph : networkx.Graph, DiGraph, MultiGraph or MultiDiGraph
            Its nodes become the ids.
        features : (n, f) array or SciPy sparse matrix, optional
            A row for each of `graph.nodes`, in their order, or as for `from_edges` by node type.
        weight : str, optional
            The edge attribute to read; where no edge has it, the graph has no weights, and where some have it, the
            weight of the others is 1. None reads no weights.
        node_type, edge_type : str, optional
            The attributes that hold the types of nodes and edges; every node (edge) must have it.
        edge_features : names, optional
            Edge attributes that are numbers; an edge may lack some.
        self_loops : bool
            As for `from_edges`.
        """
        if not all(hasattr(graph, name) for name in ("nodes", "edges", "is_directed")):
            raise InputError(f"from_networkx takes a NetworkX graph, found a {type(graph).__name__}")
        rows = list(graph.edges(data=True))
        edges, attributes = [(u, v) for u, v, _ in rows], [each for _, _, each in rows]
        weights = [None if weight is None else each.get(weight) for each in attributes]
        weighted = any(value is not None for value in weights)
        options: dict[str, Any] = {"self_loops": self_loops, "directed": bool(graph.is_directed())}
        options["weights"] = [1.0 if value is None else value for value in weights] if weighted else None
        if node_type is not None:
            options["node_types"] = _attribute(node_type, list(graph.nodes(data=True)), "node")
        if edge_type is not None:
            options["edge_types"] = _attribute(edge_type, [((u, v), each) for u, v, each in rows], "edge")
        if len(edge_features):
            options["edge_features"] = {name: [each.get(name) for each in attributes] for name in edge_features}
        return cls.from_edges(edges, features, list(graph.nodes), **options)  # type: ignore[attr-defined, no-any-return]

    @classmethod
    def from_pyg(cls, data: Any, directed: bool | None = None, *, self_loops: bool = False) -> Self:
        """Build a graph from a `Data` or `HeteroData` of PyTorch Geometric, or any object with the same attributes.

        Parameters
        ----------
        data : torch_geometric.data.Data or HeteroData
            `Data`: `x` are the features; a one-dimensional `edge_attr` is read as weights where there is no
            `edge_weight`. `HeteroData`: node ids are "type:number", such as "paper:0", the relation is the edge type,
            `x` are the features of a node type, and `edge_attr` are edge features.
        directed : bool, optional
            None: `Data` is undirected if every edge has its reverse, `HeteroData` if no relation starts with "rev_".
        self_loops : bool
            As for `from_edges`.
        """
        if hasattr(data, "node_types") and hasattr(data, "edge_types"):
            return cls.from_edges(**hetero_parts(data, directed), self_loops=self_loops)  # type: ignore[attr-defined, no-any-return]
        matrix, weighted = pyg_adjacency(data)
        features = getattr(data, "x", None)
        features = None if features is None else checks.to_numpy(features)
        return cls.from_scipy(matrix, features, directed=directed, weighted=weighted, self_loops=self_loops)

    @classmethod
    def from_pandas(
        cls,
        edges: Any,
        nodes: Any = None,
        *,
        source: str = "source",
        target: str = "target",
        weight: str | None = None,
        edge_type: str | None = None,
        edge_features: Sequence[str] = (),
        node: str = "node",
        node_type: str | None = None,
        features: Sequence[str] = (),
        directed: bool = False,
        self_loops: bool = False,
    ) -> Self:
        """Build a graph from a DataFrame of edges and, optionally, one of nodes.

        Parameters
        ----------
        edges : DataFrame
            A row for each edge; `source`, `target`, `weight`, `edge_type` and `edge_features` name its columns.
        nodes : DataFrame, optional
            A row for each node, isolated ones included; `node`, `node_type` and `features` name its columns.
        directed, self_loops
            As for `from_edges`.
        """
        edge_names = [source, target, *filter(None, [weight, edge_type]), *edge_features]
        for table, names, what in (
            (edges, edge_names, "edges"),
            (nodes, [node, *filter(None, [node_type]), *features], "nodes"),
        ):
            if table is None:
                continue
            missing = next((name for name in names if name not in list(table.columns)), None)
            if missing is not None:
                problem = f"the table of {what} has no column {format_value(missing)}"
                raise InputError(f"{problem}; its columns are {format_list(list(table.columns))}")
        if nodes is None and (node_type is not None or len(features)):
            raise InputError("node_type and features name columns of the table nodes; pass nodes, too")
        options: dict[str, Any] = {"directed": directed, "self_loops": self_loops}
        if weight is not None:
            options["weights"] = np.asarray(edges[weight])
        if edge_type is not None:
            options["edge_types"] = edges[edge_type].to_numpy()
        if len(edge_features):
            options["edge_features"] = {name: edges[name].to_numpy() for name in edge_features}
        if node_type is not None:
            options["node_types"] = nodes[node_type].to_numpy()
        if nodes is not None:
            options["node_ids"] = nodes[node].to_numpy()
            options["features"] = nodes[list(features)].to_numpy() if len(features) else None
        pairs = (edges[source].to_numpy(), edges[target].to_numpy())
        return cls.from_edges(pairs, **options)  # type: ignore[attr-defined, no-any-return]


def object_kind(source: Any) -> str | None:
    """Return which library a graph or a table of edges comes from, None where it is neither."""
    if isinstance(source, GraphConversions):
        return "graph"
    if sp.issparse(source):
        return "scipy"
    if hasattr(source, "get_edgelist") and hasattr(source, "vs"):
        return "igraph"
    if hasattr(source, "edge_index") or (hasattr(source, "node_types") and hasattr(source, "edge_types")):
        return "pyg"
    if all(hasattr(source, name) for name in ("nodes", "edges", "is_directed")):
        return "networkx"
    return "table" if hasattr(source, "columns") and hasattr(source, "__getitem__") else None


def _table_parts(table: Any) -> dict[str, Any]:
    """Return the edges of a data frame: columns with the usual names, or the only two."""
    names = [str(name) for name in table.columns]
    column = {name.strip().lower(): table[key] for name, key in zip(names, table.columns, strict=True)}
    pair = next((pair for pair in checks.ENDPOINT_NAMES if pair[0] in column and pair[1] in column), None)
    others = [name for name in column if name not in (*checks.WEIGHT_NAMES, *checks.TYPE_NAMES)]
    if pair is None and len(others) != 2:
        problem = f"a table of edges needs the columns source and target, found {format_list(names)}"
        raise InputError(problem, hint="rename two of them, or use Graph.from_pandas, which takes their names")
    parts: dict[str, Any] = {"edges": tuple(column[name].to_numpy() for name in pair or others)}
    for part, usual in {"weights": checks.WEIGHT_NAMES, "edge_types": checks.TYPE_NAMES}.items():
        name = next((name for name in usual if name in column), None)
        if name is not None:
            parts[part] = column[name].to_numpy()
    return parts


def _igraph_parts(graph: Any) -> dict[str, Any]:
    """Return the edges of an igraph graph."""
    names = list(graph.vs["name"]) if "name" in graph.vs.attributes() else list(range(graph.vcount()))
    weights = list(graph.es["weight"]) if "weight" in graph.es.attributes() else None
    edges = [(names[u], names[v]) for u, v in graph.get_edgelist()]
    return {"edges": edges, "node_ids": names, "weights": weights, "directed": bool(graph.is_directed())}


def _rows_by_index(features: Any, node_ids: Array) -> Any:
    """Return the rows of a DataFrame in the order of nodes."""
    places = unique_index(as_id_array(features.index, "the index of the features")).find(node_ids)
    if (places < 0).any():
        missing = node_ids[places < 0].tolist()
        raise InputError(f"nodes of the graph have no row in the features: {format_list(missing)}")
    return features.to_numpy()[places]


def _attribute(name: str, rows: list[tuple[Any, Any]], what: str) -> list[Any]:
    """Return an attribute of all nodes or edges of a NetworkX graph."""
    missing = next((key for key, attributes in rows if attributes.get(name) is None), ...)
    if missing is not ...:
        raise InputError(f"the {what} {format_value(missing)} has no attribute {format_value(name)}; give it a type")
    return [attributes[name] for _, attributes in rows]
