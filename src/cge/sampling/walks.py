"""Random walks, sampled in batches on demand."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

import numpy as np

from cge.arrays import Array
from cge.checks import checked_integer
from cge.errors import MAKE_GRAPH, InputError, Message, qualified_type
from cge.graph import Graph
from cge.parallel import resolve_jobs, run_blocks, split_blocks
from cge.randomness import generator, key
from cge.sampling.metapath_graph import metapath_graph
from cge.sampling.walk_kernels import alias_tables, biased_walks, edge_filter, first_order_walks, scale_rows

_BLOCK = 2048  # walks per block of a thread
_SMALLEST = 1e-9  # of p and q
_BATCH_NODES = 4_000_000  # nodes in a batch of walks by default


class Walker:
    """Samples random walks: uniform, by edge weight, or node2vec's.

    Walk number r · s + i is the r-th walk from the i-th of s start nodes. It is a function of the graph, the seed and
    its number alone: it does not depend on batch size, order or the number of threads.

    Parameters
    ----------
    graph : Graph
    length : int
        Nodes in a walk, its start included.
    walks_per_node : int
        Walks from each start node.
    p, q : float
        node2vec: 1/p is the weight of returning, 1/q that of nodes that are not neighbors of the last one (Grover and
        Leskovec 2016). p = q = 1 is the first-order walk.
    weighted : bool or None
        Step in proportion to edge weights; None: if the graph has weights.
    starts : sequence of node ids or None
        Start nodes; None: all nodes.
    seed : int
    n_jobs : int or None
        Number of threads; None or −1: all cores.
    shuffle : bool
        `batches` yields the walks of each pass over the start nodes in a random order (they are the same walks).
    metapath : sequence of node types or None
        Walks follow this sequence of node types, again and again where it ends as it starts, such as ("author",
        "paper", "author"); they start at nodes of its first type.
    stream : sequence of str and int
        Selects the random stream if several walkers have the same seed.

    Notes
    -----
    A walk ends at a node without outgoing edges: the rest of its row is −1. A walk from an isolated node is that node.
    Parallel edges of different types count separately.

    Examples
    --------
    >>> graph = Graph.from_edges([(0, 1)], num_nodes=3)
    >>> Walker(graph, length=4, walks_per_node=1).sample(0, 3).tolist()
    [[0, 1, 0, 1], [1, 0, 1, 0], [2, -1, -1, -1]]
    """

    def __init__(
        self,
        graph: Graph,
        length: int = 10,
        walks_per_node: int = 10,
        *,
        p: float = 1.0,
        q: float = 1.0,
        weighted: bool | None = None,
        starts: Iterable[Hashable] | None = None,
        seed: int = 0,
        n_jobs: int | None = None,
        shuffle: bool = False,
        metapath: Sequence[str] | None = None,
        stream: Sequence[str | int] = (),
    ) -> None:
        if not isinstance(graph, Graph):
            raise InputError(f"graph must be a cge.Graph, found {qualified_type(graph)}", hint=MAKE_GRAPH)
        for name, value in (("p", p), ("q", q)):
            number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
            if not number or not _SMALLEST <= value <= 1 / _SMALLEST:
                legal = f"a number from {_SMALLEST:g} to {1 / _SMALLEST:g}"
                raise InputError(parameter=name, expected=legal, found=value)
        if weighted and graph.weights is None:
            hint = Message.of("pass {weighted}", weighted=False)
            raise InputError("weighted walks need edge weights, and the graph has none", hint=hint)
        self.graph, self.length = graph, checked_integer("length", length, 1)
        self.walks_per_node = checked_integer("walks_per_node", walks_per_node, 1)
        self.p, self.q = float(p), float(q)
        self.weighted = graph.weights is not None if weighted is None else weighted
        self.seed, self.n_jobs, self.shuffle = seed, resolve_jobs(n_jobs), shuffle
        nodes = np.arange(graph.num_nodes, dtype=np.int64)
        self._walk_graph = graph
        if metapath is not None:
            if self.p != 1 or self.q != 1:
                raise InputError(
                    Message.of("{p} and {q} must be 1 where walks follow {metapath}"), parameter="metapath"
                )
            self._walk_graph, nodes = metapath_graph(graph, metapath)
        self._starts = nodes if starts is None else graph.indices_of(starts, "starts")
        self.stream = tuple(stream)
        key(seed, *self.stream)  # raises here if the seed is invalid
        self._order: tuple[tuple[int, int], Array] = ((-1, -1), self._starts)  # of the last (epoch, pass)
        self._biased = self.p != 1 or self.q != 1
        graph = self._walk_graph
        weights = graph.weights if self.weighted else None
        self._alias = np.empty(0, np.uint32), np.empty(0, graph.indices.dtype)
        scaled = np.empty(0), np.empty(0)
        if weights is not None:
            self._alias = alias_tables(graph.indptr, graph.indices, weights)
        if weights is not None and self._biased:
            scaled = scale_rows(graph.indptr, weights)
        if self._biased:
            self._tables = (*scaled, *self._alias, *edge_filter(graph.indptr, graph.indices))

    def __repr__(self) -> str:
        kind = f"p={self.p:g}, q={self.q:g}" if self._biased else "weighted" if self.weighted else "uniform"
        return f"Walker({self.num_walks:,} walks of {self.length} nodes, {kind}, seed {self.seed})"

    @property
    def num_walks(self) -> int:
        """Number of walks in an epoch."""
        return self.walks_per_node * len(self._starts)

    def sample(self, first: int, count: int, *, epoch: int = 0) -> Array:
        """Return walks number `first` to `first + count - 1`, `(count, length)`, padded with −1 after their end.

        Each `epoch` has different walks.
        """
        first, count = checked_integer("first", first, 0), checked_integer("count", count, 0)
        if first + count > self.num_walks:
            raise InputError(f"first + count must be at most the {self.num_walks:,} walks, found {first:,} + {count:,}")
        return self._walk(np.arange(first, first + count, dtype=np.int64), epoch)

    def take(self, numbers: Array, *, epoch: int = 0) -> Array:
        """Return the walks of some numbers, below `num_walks`, `(k, length)`, padded with −1 after their end."""
        return self._walk(np.asarray(numbers, np.int64), epoch)

    def batches(self, size: int | None = None, *, epoch: int = 0) -> Iterator[Array]:
        """Yield all walks of an epoch in batches of `size` (the last one may be smaller)."""
        size = max(_BATCH_NODES // self.length, 1) if size is None else checked_integer("size", size, 1)
        for first in range(0, self.num_walks, size):
            numbers = np.arange(first, min(first + size, self.num_walks), dtype=np.int64)
            yield self._walk(self._shuffled(numbers, epoch) if self.shuffle else numbers, epoch)

    def _shuffled(self, positions: Array, epoch: int) -> Array:
        """Return the numbers of the walks at `positions` of the order in which each pass is shuffled."""
        per_pass = len(self._starts)
        passes = positions // per_pass
        numbers = np.empty_like(positions)
        for pass_number in np.unique(passes).tolist():
            in_pass = passes == pass_number
            cached, order = self._order
            if cached != (epoch, pass_number):
                order = generator(self.seed, "walk order", *self.stream, epoch, pass_number).permutation(per_pass)
                self._order = ((epoch, pass_number), order)
            numbers[in_pass] = order[positions[in_pass] - pass_number * per_pass] + pass_number * per_pass
        return numbers

    def _walk(self, numbers: Array, epoch: int) -> Array:
        graph = self._walk_graph
        random_key = key(self.seed, "walks", *self.stream, epoch)
        starts = self._starts[numbers % max(len(self._starts), 1)]
        out = np.empty((len(numbers), self.length), graph.indices.dtype)

        def block(start: int, end: int) -> None:
            part = starts[start:end], numbers[start:end], random_key, out[start:end]
            if self._biased:
                rule = graph.directed, graph.edge_types is None, self.p, self.q
                biased_walks(graph.indptr, graph.indices, self._tables, rule, part)
            else:
                first_order_walks(graph.indptr, graph.indices, *self._alias, part)

        run_blocks(block, split_blocks(len(numbers), _BLOCK), self.n_jobs)
        if graph is not self.graph:
            out[out >= 0] %= len(self.graph)  # from places in a metapath to nodes
        return out
