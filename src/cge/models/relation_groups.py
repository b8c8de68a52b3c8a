"""The transitions of a heterogeneous graph in groups: those of one relation that leave, or enter, the same node."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.graph import Graph
from cge.ids import factorize
from cge.models.backends import Values, concatenate
from cge.models.propagation import TransitionMatrix

RELATION = "relation "  # before the name of a relation, as an edge input


def relation_input(relation: Sequence[str]) -> str:
    """Return the name of the edge input that indicates a relation; without node types, that of its edge type.

    >>> relation_input(("author", "writes", "paper")), relation_input(("", "cites", ""))
    ('relation author writes paper', 'type cites')
    """
    source, edge_type, target = relation
    return RELATION + " ".join([source, *filter(None, [edge_type]), target]) if source else f"type {edge_type}"


class RelationGroups:
    """The relation of each transition, and the transitions of one relation at a node.

    `codes (m,)` are indices into `names`, the edge inputs of the graph's relations; the last one means a self-loop.
    """

    def __init__(self, graph: Graph, transitions: TransitionMatrix) -> None:
        self.rows, self.num_nodes, relations = transitions.rows, transitions.num_nodes, graph.relations
        self._indices = transitions.indices
        self.names = tuple(map(relation_input, relations.names))
        is_edge = (transitions.graph_entry >= 0) & (transitions.rows != transitions.indices)
        self.codes = np.full(len(transitions), len(self.names))
        self.codes[is_edge] = relations.codes[transitions.graph_entry[is_edge]]

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def by_source(self) -> tuple[Array, int]:
        """The group of each transition among those of its relation that leave its source, `(m,)`, and their number."""
        return self._groups(self.rows)

    @cached_property
    def by_target(self) -> tuple[Array, int]:
        """The same among those that enter its target."""
        return self._groups(self._indices)

    def _groups(self, nodes: Array) -> tuple[Array, int]:
        group, keys = factorize(nodes * (len(self) + 1) + self.codes)
        return group, len(keys)

    def matrix(self, values: Array, code: int) -> sp.csr_array:
        """Return the matrix of the transitions of one relation with entries of `values (m,)`, `(n, n)`."""
        entry = np.flatnonzero(self.codes == code)
        places = self.rows[entry], self._indices[entry]
        return sp.csr_array((values[entry], places), shape=(self.num_nodes, self.num_nodes))

    def log_weights(self, names: Sequence[str], coefficients: Values, self_loop: Values) -> Values:
        """Return the logarithm of the relation weight of each transition, `(m,)`; 0 for a relation without one."""
        place: dict[str, int] = {name: number for number, name in enumerate(names)}
        count: int = len(coefficients)
        table = concatenate([coefficients, 0 * self_loop.reshape(1), self_loop.reshape(1)])
        places = np.array([*(place.get(name, count) for name in self.names), count + 1])
        weights: Values = table[places][self.codes]
        return weights
