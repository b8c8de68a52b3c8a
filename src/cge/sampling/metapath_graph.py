"""Walks along a metapath as ordinary walks, on a graph of pairs of a node and its place in the metapath."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cge.arrays import Array
from cge.csr import index_dtype
from cge.errors import InputError, Message, format_list, format_value
from cge.graph import Graph


def metapath_graph(graph: Graph, metapath: Sequence[str]) -> tuple[Graph, Array]:
    """Return the graph on which every walk from a start follows a metapath, and the starts, `(s,)`.

    Node v at place i of the metapath is number i · n + v. A metapath that ends with the type it starts with is repeated
    (metapath2vec, Dong et al. 2017), any other is followed once.

    >>> graph = Graph.from_edges([("ann", "x"), ("x", "y")], node_types={"ann": "author", "x": "paper", "y": "paper"})
    >>> walks, starts = metapath_graph(graph, ["author", "paper", "author"])
    >>> starts.tolist(), walks.neighbors(0), walks.neighbors(4)  # ann; then x as the second node of the metapath
    ([0], [4], [0])
    """
    if graph.node_types is None:
        raise InputError(Message.of("{metapath} needs node types, and the graph has none"), parameter="metapath")
    names = [str(name) for name in metapath]
    unknown = next((name for name in names if name not in graph.node_type_names), None)
    if unknown is not None:
        problem = Message.of(f"{{metapath}} has the node type {format_value(unknown)}")
        hint = f"the types are {format_list(graph.node_type_names)}"
        raise InputError(problem, parameter="metapath", hint=hint)
    if len(names) < 2:
        raise InputError(parameter="metapath", expected="at least two node types", found=metapath)
    size, places = len(graph), len(names) - 1 if names[0] == names[-1] else len(names)
    codes = [graph.node_type_names.index(name) for name in names]
    source = np.repeat(np.arange(size), graph.degrees)
    degrees, targets, entries = [], [], []
    for place in range(places):
        inside = np.zeros(len(source), bool)
        if place + 1 < len(names):
            inside = (graph.node_types[source] == codes[place]) & (graph.node_types[graph.indices] == codes[place + 1])
        degrees.append(np.bincount(source[inside], minlength=size))
        targets.append(graph.indices[inside].astype(np.int64) + (place + 1) % places * size)
        entries.append(np.flatnonzero(inside))
    entry = np.concatenate(entries)
    if not len(entry):
        raise InputError(Message.of("no edge of the graph follows {metapath}"), parameter="metapath", found=metapath)
    indptr = np.r_[0, np.cumsum(np.concatenate(degrees))].astype(index_dtype(len(entry)))
    indices = np.concatenate(targets).astype(index_dtype(size * places))
    weights = None if graph.weights is None else graph.weights[entry]
    return Graph(indptr, indices, np.arange(size * places), True, weights), np.flatnonzero(graph.node_types == codes[0])
