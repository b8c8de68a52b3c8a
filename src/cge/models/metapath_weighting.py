"""Weights of metapaths: every metapath is propagated by itself, and the results are added up with learned weights.

    Σ_m w_m M_{r_1} … M_{r_k} x,   m = (r_1, …, r_k),   M_r = D_r^(b−1) A_r D_r'^(−b)

A_r are the weights of the edges of relation r, D_r and D_r' their sums over rows and over columns. The weight of a path
is the weight of its metapath times the product over its edges, so the sum over all paths of the metapaths is exact, as
for edge weights; there are no self-loops. Propagation per metapath and a learned combination follow SeHGNN (Yang et al.
2023, arXiv 2207.02547), which combines by attention; here `cge.training.metapath_learning` learns the weights. Prefixes
are shared: the products are as many as the metapaths.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.models.backends import row_sums
from cge.models.edge_weighting import EdgeInputs
from cge.models.propagation import TransitionMatrix
from cge.models.relation_groups import RelationGroups
from cge.models.sparse_products import SparseMatrix

MAX_METAPATHS = 64  # of a weighting
_SPARSE = 0.1  # the weights of metapaths that add less than this fraction of the largest are set to zero


class MetapathWeighting:
    """The weight of each metapath, `weights (C,)` float32; `metapaths` are sequences of relations, by edge input.

    `normalization` is b, which is not trained.
    """

    NAMES = ("weights", "normalization")

    def __init__(self, metapaths: Sequence[Sequence[str]], weights: Any, normalization: Any) -> None:
        self.metapaths = tuple(tuple(metapath) for metapath in metapaths)
        self.weights, self.normalization = np.array(weights, np.float32), np.array(normalization, np.float32)

    def arrays(self) -> dict[str, Array]:
        """Return the parameters by name."""
        return {name: getattr(self, name) for name in self.NAMES}

    def normalized_weights(self) -> Any:
        """Return the weights divided by the sum of their absolute values, `(C,)`."""
        return self.weights / abs(self.weights).sum().clip(min=1e-12)

    def make_sparse(self, lengths: Array) -> None:
        """Set the weights of metapaths to zero that add little; `lengths (C,)` are those of their propagated inputs."""
        sizes = np.abs(self.weights) * lengths
        self.weights[sizes < _SPARSE * sizes.max()] = 0

    def weights_by_code(self, relations: RelationGroups) -> dict[tuple[int, ...], float]:
        """Return the normalized weights other than zero by the relation codes of a graph, which may lack some."""
        code_of, weights = {name: code for code, name in enumerate(relations.names)}, self.normalized_weights().tolist()
        return {
            tuple(code_of[name] for name in metapath): weight
            for metapath, weight in zip(self.metapaths, weights, strict=True)
            if weight and all(name in code_of for name in metapath)
        }

    def edge_weights(self, edge_inputs: EdgeInputs) -> Array:
        """Return the entries of M_r of each transition, `(m,)` float32; zero for self-loops."""
        relations, strengths, b = _relations(edge_inputs), edge_inputs.weights, self.normalization
        source, target = (_group_sums(groups, strengths) for groups in (relations.by_source, relations.by_target))
        values = strengths * source ** (b - 1) * target**-b
        return np.where(relations.codes < len(relations), values, 0).astype(np.float32)

    def propagation(self, edge_inputs: EdgeInputs, n_jobs: int | None = None) -> FixedMetapaths:
        """Return the sum over the paths of all metapaths with these weights."""
        return FixedMetapaths(self, edge_inputs, n_jobs)

    def path_weights(
        self,
        transitions: TransitionMatrix,
        edge_inputs: EdgeInputs,
        uniform_weights: Array,
        hops: int,
        paths: Sequence[Array],
    ) -> Array:
        """Return the path weights of paths of node indices relative to uniform weights, `(k,)` float32.

        `uniform_weights (m,)` are the transition probabilities of a random walk; every path of up to `hops` hops has
        their product, divided by `hops` + 1. Two nodes may have edges of several types: the weights of all metapaths of
        a sequence of nodes add up.
        """
        codes, weights = _relations(edge_inputs).codes, self.weights_by_code(_relations(edge_inputs))
        values, result = self.edge_weights(edge_inputs).astype(np.float64), np.zeros(len(paths), np.float32)
        for number, path in enumerate(paths):
            products: dict[tuple[int, ...], float] = {(): 1.0}
            probability = 1.0
            for start, end in pairwise(path.tolist()):
                row = np.arange(transitions.indptr[start], transitions.indptr[start + 1])
                entries = row[transitions.indices[row] == end].tolist()
                probability *= float(uniform_weights[entries].sum())
                products = {
                    (*key, int(codes[entry])): product * float(values[entry])
                    for key, product in products.items()
                    for entry in entries
                }
            total = sum(weights.get(key, 0.0) * product for key, product in products.items())
            result[number] = total * (hops + 1) / probability if total else 0.0
        return result


def _relations(edge_inputs: EdgeInputs) -> RelationGroups:
    if edge_inputs.relations is None:
        raise TypeError("weights of metapaths need a heterogeneous graph (node or edge types)")
    return edge_inputs.relations


def _group_sums(groups: tuple[Array, int], values: Array) -> Array:
    """Return for each transition the sum of `values (m,)` over its group, `(m,)`."""
    group, count = groups
    return row_sums(group, values, count)[group]


class FixedMetapaths:
    """The sum over the paths of all metapaths with constant weights, of arrays or (differentiable) of tensors."""

    def __init__(self, weighting: MetapathWeighting, edge_inputs: EdgeInputs, n_jobs: int | None = None) -> None:
        relations, values = _relations(edge_inputs), weighting.edge_weights(edge_inputs)
        code_of = {name: code for code, name in enumerate(relations.names)}
        names = dict.fromkeys(name for metapath in weighting.metapaths for name in metapath if name in code_of)
        self.matrices = {name: SparseMatrix(relations.matrix(values, code_of[name]), n_jobs) for name in names}
        present = [all(name in code_of for name in metapath) for metapath in weighting.metapaths]
        pairs = zip(weighting.metapaths, weighting.normalized_weights().tolist(), present, strict=True)
        self.weights: dict[tuple[str, ...], Any] = {metapath: weight for metapath, weight, used in pairs if used}

    def __call__(self, inputs: Any) -> Any:
        """Return the sum over paths, `(n, d)`, of `inputs (n, d)`."""
        return self.sum(inputs, {metapath: weight for metapath, weight in self.weights.items() if weight})

    def sum(self, x: Any, weights: dict[tuple[str, ...], Any], prefix: tuple[str, ...] = ()) -> Any:
        """Return the sum over the metapaths that start with a prefix, from its end on (Horner's rule)."""
        total = weights.get(prefix, 0.0) * x
        length = len(prefix)
        longer = dict.fromkeys(key[length] for key in weights if len(key) > length and key[:length] == prefix)
        for name in longer:
            total = total + self._product(self.matrices[name], self.sum(x, weights, (*prefix, name)))
        return total

    def _product(self, matrix: SparseMatrix, x: Any) -> Any:
        if isinstance(x, np.ndarray):
            return matrix.product(x)
        from cge.models.autograd import matrix_product

        return matrix_product(matrix, x)


def list_metapaths(
    edge_inputs: EdgeInputs, starts: Array, hops: int, limit: int = MAX_METAPATHS
) -> list[tuple[str, ...]]:
    """Return metapaths of up to `hops` relations from some nodes, the empty one first, at most `limit`.

    Where there are more, those that most random walks follow are kept: a walk draws a relation of its node, then an
    edge of it.
    """
    relations, count = _relations(edge_inputs), int(edge_inputs.self_loops.shape[0])
    strengths = edge_inputs.weights
    share = (strengths / _group_sums(relations.by_source, strengths)) * (relations.codes < len(relations))
    rows = np.bincount(relations.rows, share, minlength=relations.num_nodes)
    share = np.divide(share, rows[relations.rows], out=np.zeros(count), where=rows[relations.rows] > 0)
    matrices = {code: sp.csr_array(relations.matrix(share, code).T) for code in range(len(relations))}
    reached: dict[tuple[int, ...], Array] = {
        (): np.bincount(starts, minlength=relations.num_nodes) / max(len(starts), 1)
    }
    mass: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(hops):
        longer = {
            (*metapath, code): matrix @ mass_at_endpoints
            for metapath, mass_at_endpoints in reached.items()
            for code, matrix in matrices.items()
        }
        kept = sorted((key for key in longer if longer[key].any()), key=lambda key: (-longer[key].sum(), key))[:limit]
        reached = {key: longer[key] for key in kept}
        mass |= {key: float(at_endpoints.sum()) for key, at_endpoints in reached.items()}
    heaviest = sorted(mass, key=lambda key: (-mass[key], len(key), key))[:limit]
    chosen = sorted(heaviest, key=lambda key: (len(key), key))
    return [tuple(relations.names[code] for code in key) for key in chosen]
