"""The best of all paths, by best-first search over their prefixes.

The value of a path is h_k Π s · value(endpoint). An upper bound on what j more edges from a node can add is computed
backwards,

    V_0(v) = value(v),   V_j(v) = max_u s(v, u) V_{j−1}(u),

so the value of a path with a prefix of t edges that ends at v is at most h_k Π s · V_{k−t}(v). The search always
extends the prefix with the highest bound: paths are completed in descending order, and none is missed unless two
million prefixes are stored; then longer paths may be missing. The time grows with the number of edges, `top` and
degrees, not with the number of paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush, heapreplace

import numpy as np

from cge.arrays import Array
from cge.parallel import interpreted, kernel, run_blocks, split_blocks

_BLOCK = 16  # nodes of a thread's block
_MAX_PREFIXES = 2_000_000
_FEW_STEPS, _FEW_PREFIXES = 200_000, 20_000  # edges × hops, and prefixes, that are not worth loading Numba


@dataclass(frozen=True, eq=False)
class PathSet:
    """Paths: `start (b,)`, `edges (b, K)` by number, padded with −1, `length (b,)` in nodes, `path_weight (b,)`.

    The path weight A(p) is the factor by which a path multiplies the input of its endpoint.
    """

    start: Array
    edges: Array
    length: Array
    path_weight: Array

    def __len__(self) -> int:
        return len(self.start)

    def take(self, indices: Array) -> PathSet:
        """Return some of the paths."""
        return PathSet(self.start[indices], self.edges[indices], self.length[indices], self.path_weight[indices])

    def nodes(self, indices: Array) -> Array:
        """Return the nodes of each path, `(b, K+1)`, padded with −1; edge number e leads to `indices[e]`."""
        return np.column_stack([self.start, np.where(self.edges >= 0, indices[self.edges], -1)])

    def endpoints(self, indices: Array) -> Array:
        """Return the last node of each path, `(b,)`."""
        return np.asarray(self.nodes(indices)[np.arange(len(self)), self.length - 1])

    def contributions(self, nodes: Array, gradients: Array, inputs: Array, indices: Array) -> Array:
        """Return the contributions of paths from ascending `nodes (q,)`, given gradients `(q, d)`, `(b,)`."""
        of_start, of_end = gradients[np.searchsorted(nodes, self.start)], inputs[self.endpoints(indices)]
        return np.asarray(self.path_weight * np.einsum("ij,ij->i", of_start, of_end))


def concatenate_paths(parts: Sequence[PathSet]) -> PathSet:
    """Return the paths of several sets in one."""
    names = ("start", "edges", "length", "path_weight")
    return PathSet(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def best_paths(
    indptr: Array,
    indices: Array,
    values: Array,
    hop_weights: Array,
    starts: Array,
    inputs: Array,
    gradients: Array,
    top: int,
    *,
    positive: bool = False,
    together: bool = False,
    closed: bool = True,
    max_prefixes: int = _MAX_PREFIXES,
    n_jobs: int | None = None,
) -> PathSet:
    """Return the paths of the highest values, descending: `top` from each node, node after node, or from all together.

    `indptr (n+1,)`, `indices (m,)` and `values (m,)` are the edges from each node, where they lead, and s ≥ 0 of each;
    `hop_weights (K+1,)` is h. The value of a path from start i, of `starts (q,)`, to v is its path weight times
    ⟨inputs_v, gradients_i⟩, of `inputs (n, d)` and `gradients (q, d)`; paths of value zero are left out. With
    `positive`, only positive values count; otherwise their size does. Unless `closed`, paths that end where they start
    do not count. At most `max_prefixes` are stored.
    """
    nothing, weighted_edges = np.empty(0, np.int64), (indptr, indices, values, hop_weights)
    groups = [slice(None)][: len(starts)] if together else [slice(place, place + 1) for place in range(len(starts))]
    empty = PathSet(nothing, np.empty((0, len(hop_weights) - 1), np.int64), nothing, np.empty(0))
    best, stored = [empty] * max(len(groups), 1), [0] * max(len(groups), 1)
    same = inputs.shape[1] == 1 and not (positive or together)
    if same:  # gradients are numbers: they do not change the order of a start's paths, nor which bounds are highest
        groups, gradients = [group for group in groups if gradients[group].any()], np.ones_like(gradients)

    def search(limit: int) -> PathSet:
        shared = np.stack(_bounds(inputs, gradients[:1], positive)) if same else None
        shared = None if shared is None else _bounds_ahead(*weighted_edges, starts, shared)

        def block(first: int, stop: int) -> None:
            for place in range(first, stop):
                group, ahead = groups[place], shared
                if ahead is None:
                    bounds = np.stack(_bounds(inputs, gradients[group], positive))
                    ahead = _bounds_ahead(*weighted_edges, starts[group], bounds)
                problem = *weighted_edges, starts[group], inputs, gradients[group], ahead
                *paths, stored[place] = _search(*problem, positive, closed, top, limit)
                best[place] = PathSet(*paths)

        run_blocks(block, split_blocks(len(groups), _BLOCK), n_jobs)
        return concatenate_paths(best)

    if len(starts) == 1 and len(indices) * len(hop_weights) <= _FEW_STEPS:
        with interpreted():
            paths = search(min(max_prefixes, _FEW_PREFIXES))
        if max(stored) < _FEW_PREFIXES:
            return paths
    return search(max_prefixes)


def _bounds(inputs: Array, gradients: Array, positive: bool) -> tuple[Array, Array]:
    """Return the highest value of endpoints for any start, `(n,)`, where h is positive and where it is negative."""
    if len(gradients) == 1:
        lowest = highest = inputs @ gradients[0]
    else:
        low, high, above, below = gradients.min(0), gradients.max(0), np.maximum(inputs, 0), np.minimum(inputs, 0)
        lowest, highest = above @ low + below @ high, above @ high + below @ low
    return (np.maximum(highest, 0), np.maximum(-lowest, 0)) if positive else (np.maximum(highest, -lowest),) * 2


@kernel
def _search(
    indptr: Array,
    indices: Array,
    values: Array,
    hop_weights: Array,
    starts: Array,
    inputs: Array,
    gradients: Array,
    ahead: Array,
    positive: bool,
    closed: bool,
    top: int,
    max_prefixes: int,
) -> tuple[Array, Array, Array, Array, int]:
    """Return start, edges, length and weight of the best paths from some nodes, and the number of prefixes."""
    # A prefix: its parent (the prefix without the last edge), that edge, its last node, the row of its start, the
    # number of edges of the whole path, and how many of them are missing.
    prefixes = [(-1, -1, 0, 0, 0, 0) for _ in range(0)]
    products = [0.0 for _ in range(0)]
    queue = [(0.0, 0) for _ in range(0)]
    for row in range(len(starts)):
        for hop in range(len(hop_weights)):
            value = _value_ahead(ahead, int(hop_weights[hop] < 0), hop, starts[row], inputs, gradients, row, positive)
            bound = abs(hop_weights[hop]) * value
            if bound > 0 and (closed or hop > 0):
                heappush(queue, (-bound, len(prefixes)))
                prefixes.append((-1, -1, int(starts[row]), row, hop, hop))
                products.append(1.0)
    best = [0.0 for _ in range(0)]  # values of the best complete paths so far, the lowest first
    done = [0 for _ in range(0)]
    while len(queue) > 0 and len(done) < top:
        prefix = heappop(queue)[1]
        _, _, at, row, hop, missing = prefixes[prefix]
        if missing == 0:
            done.append(prefix)
        elif len(prefixes) < max_prefixes:
            for edge in range(indptr[at], indptr[at + 1]):
                product = products[prefix] * values[edge]
                node, side = indices[edge], int(hop_weights[hop] < 0)
                if missing == 1 and node == starts[row] and not closed:
                    continue
                value = _value_ahead(ahead, side, missing - 1, node, inputs, gradients, row, positive)
                bound = abs(hop_weights[hop]) * product * value
                if bound > 0 and (len(best) < top or bound > best[0]):
                    if missing == 1 and len(best) < top:
                        heappush(best, bound)
                    elif missing == 1:
                        heapreplace(best, bound)
                    heappush(queue, (-bound, len(prefixes)))
                    prefixes.append((prefix, edge, int(node), row, hop, missing - 1))
                    products.append(product)
    start, length = np.empty(len(done), np.int64), np.empty(len(done), np.int64)
    edges, path_weight = np.empty((len(done), len(hop_weights) - 1), np.int64), np.empty(len(done))
    for place in range(len(done)):
        for position in range(edges.shape[1]):
            edges[place, position] = -1
        prefix = done[place]
        _, _, _, row, hop, _ = prefixes[prefix]
        start[place], length[place], path_weight[place] = starts[row], hop + 1, hop_weights[hop] * products[prefix]
        for position in range(hop - 1, -1, -1):
            prefix, edges[place, position] = prefixes[prefix][:2]
    return start, edges, length, path_weight, len(prefixes)


@kernel
def _value_ahead(
    ahead: Array, side: int, missing: int, node: int, inputs: Array, gradients: Array, row: int, positive: bool
) -> float:
    """Return a bound on what `missing` more edges from a node can add; without any, its value for a start."""
    bound = float(ahead[side, missing, node])
    if missing or bound <= 0 or len(gradients) == 1:
        return bound
    value = 0.0
    for k in range(inputs.shape[1]):
        value += inputs[node, k] * gradients[row, k]
    return abs(value) if not positive else -value if side else value


@kernel
def _bounds_ahead(
    indptr: Array, indices: Array, values: Array, hop_weights: Array, starts: Array, bounds: Array
) -> Array:
    """Return V_0 … V_K, `(2, K+1, n)`, where h is positive and where it is negative, of the nodes on paths."""
    nodes = bounds.shape[1]
    ahead = np.zeros((2, len(hop_weights), nodes))
    distance = _distances(indptr, indices, starts, nodes, len(hop_weights) - 1)
    for side in range(2):
        for node in range(nodes):
            ahead[side, 0, node] = bounds[side, node]
        last = 0
        for hop in range(len(hop_weights)):
            if hop_weights[hop] < 0 if side else hop_weights[hop] > 0:
                last = hop
        for hop in range(1, last + 1):
            for node in range(nodes):
                if distance[node] <= last - hop:
                    best = 0.0
                    for edge in range(indptr[node], indptr[node + 1]):
                        best = max(best, values[edge] * ahead[side, hop - 1, indices[edge]])
                    ahead[side, hop, node] = best
    return ahead


@kernel
def _distances(indptr: Array, indices: Array, starts: Array, nodes: int, limit: int) -> Array:
    """Return the distance of nodes from the nearest start, `(n,)`, at most `limit`."""
    distance, queue = np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    for node in range(nodes):
        distance[node] = limit
    queued = 0
    for start in starts:
        if distance[start]:
            distance[start], queue[queued] = 0, start
            queued += 1
    place = 0
    while place < queued and distance[queue[place]] + 1 < limit:
        for edge in range(indptr[queue[place]], indptr[queue[place] + 1]):
            if distance[indices[edge]] == limit:
                distance[indices[edge]], queue[queued] = distance[queue[place]] + 1, indices[edge]
                queued += 1
        place += 1
    return distance
