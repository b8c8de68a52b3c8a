"""Contributions by metapath: the sum over all paths that follow the same sequence of relations.

A metapath is a sequence of relations, such as paper–author–paper (Sun et al. 2011); steps along self-loops are left out
of it. With M_r for the edges of relation r, M_0 for self-loops and P_m(t) for the sum over the paths of t edges of the
metapath m,

    P_mr(t + 1) = P_m(t) M_r + P_mr(t) M_0,

so the sums of all metapaths take one sparse product each per number of edges, and add up to the sum over all paths.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.explain.contribution_tables import ContributionTable, Contributor, n_to_list
from cge.explain.metapath_paths import Metapath, MetapathPaths
from cge.explain.path_sources import AllPaths, PathSource, SampledPaths
from cge.graph import Graph
from cge.models.propagation import TransitionMatrix

_MAX_METAPATHS = 1_000  # of one length; the others are added up as "rest"
_MAX_BYTES = 1 << 30  # of the sums of metapaths of one length, of which fewer are kept in large graphs


@dataclass(frozen=True, eq=False)
class EdgeRelations:
    """The relation of each transition, `codes (m,)`, an index into `names`; −1 for self-loops.

    `node_types (n,)` are the names of the nodes' types, empty strings without node types.
    """

    names: tuple[tuple[str, str, str], ...]
    codes: Array
    node_types: Array

    @classmethod
    def of(cls, graph: Graph, transitions: TransitionMatrix) -> EdgeRelations | None:
        """Return the relations of a graph's transitions; None where it has no types."""
        if graph.edge_types is None and graph.node_types is None:
            return None
        is_edge = (transitions.graph_entry >= 0) & (transitions.rows != transitions.indices)
        codes = np.full(len(transitions), -1)
        codes[is_edge] = graph.relations.codes[transitions.graph_entry[is_edge]]
        names = np.array([*graph.node_type_names, ""], object)
        types = names[np.full(len(graph), -1) if graph.node_types is None else graph.node_types]
        return cls(graph.relations.names, codes, types)

    @cached_property
    def _ambiguous(self) -> set[tuple[str, str]]:
        """The pairs of node types with edges of several types between them."""
        pairs = [(source, target) for source, _, target in self.names]
        return {pair for pair in pairs if pairs.count(pair) > 1}

    def name(self, metapath: Metapath, start_type: str = "") -> str:
        """Return a metapath as text: its node types, and edge types where there are several between two node types.

        >>> names = (("paper", "writes", "author"), ("author", "writes", "paper"))
        >>> relations = EdgeRelations(names, np.empty(0), np.empty(0))
        >>> relations.name((0, 1)), relations.name((), "paper")
        ('paper–author–paper', 'paper')
        """
        parts = [self.names[metapath[0]][0] if metapath else start_type]
        for source, edge_type, target in (self.names[code] for code in metapath):
            named = edge_type and (not target or (source, target) in self._ambiguous)
            parts += [*([edge_type] if named else []), target]
        return "–".join(filter(None, parts)) or "(no edge)"


def metapath_sums(
    source: PathSource, relations: EdgeRelations, nodes: Array, gradients: Array, inputs: Array
) -> tuple[dict[Metapath, float], float]:
    """Return the sum over the paths of each metapath from `nodes (q,)` of their contributions, and that of all others.

    `gradients (q, d)` are those of the nodes, `inputs (n, d)` those of endpoints.
    """
    if isinstance(source, SampledPaths):
        return _sampled_sums(source, relations, nodes, gradients, inputs), 0.0
    if isinstance(source, MetapathPaths):
        by_prefix = (source.by_metapath(nodes, gradients) * inputs).sum((1, 2)).tolist()
        return dict(zip(source.prefixes, by_prefix, strict=True)), 0.0
    assert isinstance(source, AllPaths)  # noqa: S101 - for the type checker
    if len(nodes) == 1:  # one column instead of d
        inputs, gradients = inputs @ gradients.T, np.ones((1, 1))
    start = np.zeros((source.num_nodes, gradients.shape[1]))
    start[nodes] = gradients
    matrices = _matrices(source, relations)
    reached: dict[Metapath, Array] = {(): start}  # of the paths with as many edges as there were steps
    sums: dict[Metapath, float] = {(): source.hop_weights[0] * float((start * inputs).sum())}
    total = sums[()]
    everything = start
    matrix = source.transitions.matrix(source.values).T.tocsr()
    for weight in source.hop_weights[1 : source.longest + 1]:
        reached = _step(reached, matrices)
        everything = matrix @ everything
        total += weight * float((everything * inputs).sum())
        for metapath, at_endpoints in reached.items():
            sums[metapath] = sums.get(metapath, 0.0) + weight * float((at_endpoints * inputs).sum())
    return sums, total - sum(sums.values())


def _matrices(source: AllPaths, relations: EdgeRelations) -> dict[int, tuple[Any, set[int]]]:
    """Return the transposed matrix of each relation, −1 for self-loops, and the relations that can follow it."""
    matrices = {}
    for code in np.unique(relations.codes).tolist():
        matrices[code] = _matrix(source, relations, code).T.tocsr()
    target_types = {code: relations.names[code][2] for code in matrices if code >= 0}
    follow = {-1: set(target_types)}
    for code, target_type in target_types.items():
        follow[code] = {other for other in target_types if relations.names[other][0] == target_type}
    return {code: (matrix, follow[code]) for code, matrix in matrices.items()}


def _matrix(source: AllPaths, relations: EdgeRelations, code: int) -> sp.csr_array:
    """Return the weights of the edges of one relation, `(n, n)`."""
    entries, pattern = np.flatnonzero(relations.codes == code), source.transitions
    places = pattern.rows[entries], pattern.indices[entries]
    return sp.csr_array((source.values[entries], places), shape=(source.num_nodes, source.num_nodes))


def _step(reached: dict[Metapath, Array], matrices: dict[int, tuple[Any, set[int]]]) -> dict[Metapath, Array]:
    """Return where the paths of each metapath lead with one more edge; the heaviest metapaths are kept."""
    if not reached:
        return {}
    keys: dict[Metapath, None] = {}
    for metapath in reached:
        for code in matrices:
            if code < 0 or not metapath or code in matrices[metapath[-1]][1]:
                keys[metapath if code < 0 else (*metapath, code)] = None

    def at_endpoints_of(key: Metapath) -> Array:
        before = [(key[:-1], key[-1])] if key else []
        parts = [matrices[code][0] @ reached[prefix] for prefix, code in [(key, -1), *before] if prefix in reached]
        return np.asarray(sum(parts[1:], parts[0]))

    limit = max(min(_MAX_METAPATHS, _MAX_BYTES // max(next(iter(reached.values())).nbytes, 1)), 1)
    if len(keys) > limit:  # computed twice, because not all fit into memory at once
        sizes = {key: float(np.abs(at_endpoints_of(key)).sum()) for key in keys}
        keys = dict.fromkeys(sorted((key for key in keys if sizes[key]), key=lambda key: -sizes[key])[:limit])
    longer = {key: at_endpoints_of(key) for key in keys}
    return {key: at_endpoints for key, at_endpoints in longer.items() if at_endpoints.any()}


def _sampled_sums(
    source: SampledPaths, relations: EdgeRelations, nodes: Array, gradients: Array, inputs: Array
) -> dict[Metapath, float]:
    paths = source.paths_of(nodes)
    values = paths.contributions(nodes, gradients, inputs, source.indices)
    sums: dict[Metapath, float] = {}
    for edges, value in zip(paths.edges, values.tolist(), strict=True):
        codes = relations.codes[edges[edges >= 0]]
        metapath = tuple(codes[codes >= 0].tolist())
        sums[metapath] = sums.get(metapath, 0.0) + value
    return sums


def along_metapath(
    source: AllPaths | MetapathPaths, relations: EdgeRelations, metapath: Metapath, inputs: Array
) -> Array:
    """Return the sum over the paths of one metapath from every node of path weight × input of the endpoint, `(n, d)`.

    F_j(t), the sum over paths of t edges along the relations from the j-th on, is M_0 F_j(t−1) + M_j F_{j+1}(t−1).
    """
    if isinstance(source, MetapathPaths):
        return source.along(metapath, inputs)
    loops, *steps = (_matrix(source, relations, code) for code in (-1, *metapath))
    suffix: list[Array | None] = [*[None] * len(metapath), inputs]
    result = source.hop_weights[0] * inputs if not metapath else np.zeros_like(inputs)
    for weight in source.hop_weights[1 : source.longest + 1]:
        before = suffix
        suffix = [None] * len(before)
        for place in range(len(before)):
            parts = [] if before[place] is None else [loops @ before[place]]
            if place < len(metapath) and before[place + 1] is not None:
                parts.append(steps[place] @ before[place + 1])
            suffix[place] = sum(parts) if parts else None
        if suffix[0] is not None:
            result = result + weight * suffix[0]
    return result


def metapath_table(
    sums: dict[Metapath, float], rest: float, relations: EdgeRelations, start_type: str, top: int | None
) -> ContributionTable:
    """Return the largest sums by metapath as a table; `rest` is that of metapaths that were not followed."""
    order = sorted((key for key, value in sums.items() if value), key=lambda key: -abs(sums[key]))
    sizes = np.abs([sums[key] for key in order])
    size = float(sizes.sum()) + abs(rest)
    listed = n_to_list(sizes, size, top) if len(sizes) else 0
    rows = tuple(Contributor(relations.name(key, start_type), sums[key]) for key in order[:listed])
    coverage = float(sizes[:listed].sum()) / size if size else 1.0
    return ContributionTable(rows, sum(sums.values()) + rest, len(order) + bool(abs(rest) > 1e-12), coverage)
