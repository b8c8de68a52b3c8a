"""Counts and quantiles that describe a graph, as a small table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from cge.errors import format_text
from cge.html_tables import html_table

_LARGE = 10_000_000  # edges whose components are not counted for a notebook


@dataclass(frozen=True)
class GraphSummary:
    """What `Graph.summary` returns; `str()` of it is a small table.

    `degree_quantiles` are the 0, 25, 50, 75, 90, 99 and 100 % quantiles; `isolated` nodes have no edge in or out;
    `components` ignore directions; `node_types` has the number of nodes of each type.
    """

    nodes: int
    edges: int
    directed: bool
    components: int
    isolated: int
    degree_quantiles: tuple[float, ...]
    weighted: bool
    edge_types: tuple[str, ...]
    features: int
    feature_density: float
    memory_bytes: int
    node_types: dict[str, int] = field(default_factory=dict)
    edge_features: tuple[str, ...] = ()

    def rows(self) -> list[tuple[str, str]]:
        """Return the table as (name, value) pairs of text."""
        names = ("min", "25%", "median", "75%", "90%", "99%", "max")
        degrees = (f"{name} {value:,.0f}" for name, value in zip(names, self.degree_quantiles, strict=True))
        rows = [
            ("nodes", f"{self.nodes:,}"),
            ("edges", f"{self.edges:,} {'directed' if self.directed else 'undirected'}"),
            ("components", f"{self.components:,}"),
            ("isolated nodes", f"{self.isolated:,}"),
            ("degree", " · ".join(degrees)),
            ("edge weights", "yes" if self.weighted else "no"),
        ]
        if self.node_types:
            counts = ", ".join(f"{name} {count:,}" for name, count in list(self.node_types.items())[:8])
            rows.append(("node types", f"{len(self.node_types)}: {counts}"))
        if self.edge_types:
            rows.append(("edge types", f"{len(self.edge_types)}: {', '.join(map(format_text, self.edge_types[:8]))}"))
        if self.edge_features:
            columns = ", ".join(map(format_text, self.edge_features[:8]))
            rows.append(("edge features", f"{len(self.edge_features)}: {columns}"))
        shape = f"{self.features:,} per node, {self.feature_density:.1%} nonzero" if self.features else "none"
        size = self.memory_bytes
        memory = f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size / 1e3:,.1f} kB"
        return [*rows, ("features", shape), ("graph in memory", memory)]

    def __str__(self) -> str:
        rows = self.rows()
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def summarize(graph: Any) -> GraphSummary:
    """Summarize a `cge.Graph`."""
    from scipy.sparse.csgraph import connected_components

    size, indices = graph.num_nodes, graph.indices
    quantiles = np.quantile(graph.degrees, [0, 0.25, 0.5, 0.75, 0.9, 0.99, 1]) if size else np.zeros(7)
    total_degrees = np.bincount(indices, minlength=size) + graph.degrees
    structure = sp.csr_array((np.ones(len(indices), np.int8), indices, graph.indptr), shape=(size, size))
    components = int(connected_components(structure, directed=False)[0]) if size else 0
    arrays = [graph.indptr, indices, graph.node_ids, graph.node_types, *(part for _, part in graph.edge_arrays())]
    names = graph.node_type_names
    type_counts = [] if graph.node_types is None else np.bincount(graph.node_types, minlength=len(names)).tolist()
    features = graph.features
    is_sparse = isinstance(features, sp.csr_array)
    arrays += [features.data, features.indices, features.indptr] if is_sparse else [features]
    nonzero = features.nnz if is_sparse else np.count_nonzero(features)  # 0 without features
    return GraphSummary(
        nodes=size,
        edges=graph.num_edges,
        directed=graph.directed,
        components=components,
        isolated=int(np.count_nonzero(total_degrees == 0)),
        degree_quantiles=tuple(float(quantile) for quantile in quantiles),
        weighted=graph.weights is not None,
        edge_types=graph.edge_type_names,
        features=0 if features is None else int(features.shape[1]),
        feature_density=float(nonzero / np.prod(features.shape)) if nonzero else 0.0,
        memory_bytes=sum(array.nbytes for array in arrays if array is not None),
        node_types=dict(zip(names, type_counts, strict=True)),
        edge_features=graph.edge_feature_names,
    )


class Summarized:
    """The methods of `cge.Graph` that describe it."""

    def summary(self) -> GraphSummary:
        """Return counts of nodes, edges, components and isolated nodes, quantiles of degrees, and memory."""
        return summarize(self)

    def _repr_html_(self) -> str:
        """Return the summary for a notebook; that of a large graph has its sizes only."""
        large = len(self.indices) > _LARGE  # type: ignore[attr-defined]
        return html_table([] if large else self.summary().rows(), title=repr(self))
