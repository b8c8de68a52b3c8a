"""Types of edges, by number and by name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cge.arrays import Array
from cge.graph import Graph
from cge.models.propagation import TransitionMatrix

SELF_LOOP, NO_EDGE = "(self-loop)", "(no edge)"


@dataclass(frozen=True, eq=False)
class EdgeTypes:
    """The type of each entry of a transition matrix, `of_edge (m,)`, an index into `names`.

    Two names follow those of the graph: of self-loops, and of paths without edges.
    """

    names: tuple[str, ...]
    of_edge: Array

    @classmethod
    def of(cls, graph: Graph, transitions: TransitionMatrix) -> EdgeTypes | None:
        """Return the types of the edges of a graph; None where it has none."""
        if graph.edge_types is None:
            return None
        names = (*graph.edge_type_names, SELF_LOOP, NO_EDGE)
        self_loops = transitions.rows == transitions.indices
        types = graph.edge_types[np.maximum(transitions.graph_entry, 0)]
        return cls(names, np.where(self_loops, len(names) - 2, types).astype(np.int64))

    def named(self, edges: Array) -> tuple[str, ...]:
        """Return the types of the edges of one path by name."""
        return tuple(self.names[place] for place in self.of_edge[edges[edges >= 0]].tolist())
