"""What there is to say about a graph in a small table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["GraphSummary", "density"]


@dataclass(frozen=True)
class GraphSummary:
    """What `Graph.summary` counts; `str()` of it is a small table.

    `degree_quantiles` are the 0, 25, 50, 75, 90, 99 and 100 % quantiles; `isolated` nodes have no edge in or out;
    `components` ignore directions.
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

    def rows(self) -> list[tuple[str, str]]:
        """Return the table as (name, value) pairs of text."""
        places = ("min", "25%", "median", "75%", "90%", "99%", "max")
        degrees = (f"{place} {value:,.0f}" for place, value in zip(places, self.degree_quantiles, strict=True))
        rows = [
            ("nodes", f"{self.nodes:,}"),
            ("edges", f"{self.edges:,} {'directed' if self.directed else 'undirected'}"),
            ("components", f"{self.components:,}"),
            ("isolated nodes", f"{self.isolated:,}"),
            ("degree", " · ".join(degrees)),
            ("edge weights", "yes" if self.weighted else "no"),
        ]
        if self.edge_types:
            rows.append(("edge types", f"{len(self.edge_types)}: {', '.join(self.edge_types[:8])}"))
        shape = f"{self.features:,} per node, {self.feature_density:.1%} nonzero" if self.features else "none"
        return [*rows, ("features", shape), ("memory", _bytes(self.memory_bytes))]

    def __str__(self) -> str:
        rows = self.rows()
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def _bytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 1e5 else f"{count / 1e3:,.1f} kB"


def density(features: Any) -> float:
    """Return the share of features that are not zero."""
    if features is None or 0 in features.shape:
        return 0.0
    stored = features.nnz if isinstance(features, sp.csr_array) else int(np.count_nonzero(features))
    return float(stored / (features.shape[0] * features.shape[1]))
