"""A graph as GraphML, which Gephi, yEd, Cytoscape, igraph and NetworkX read, with what a model says of its nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from cge.errors import InputError, format_value
from cge.graph import Graph
from cge.store.text import as_xml, forbidden_in_xml

__all__ = ["write_graphml"]

Array = npt.NDArray[Any]

_AT_ONCE = 8192  # nodes or entries of rows
_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" \
xsi:schemaLocation="http://graphml.graphdrawing.org/xmlns http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd">
"""


def write_graphml(
    stream: BinaryIO, graph: Graph, texts: Sequence[str], attributes: Mapping[str, Sequence[str | float | None]]
) -> None:
    """Write a graph.

    Parameters
    ----------
    texts : n strings
        The nodes' ids, which become ids in the file and, for display, the attribute "label".
    attributes : mapping of names to n strings or n numbers
        What else is known of nodes; None is left out.

    An id with a character that XML cannot hold is refused: whatever stood in its place could be another node's id.
    """
    for text in texts:
        wrong = forbidden_in_xml(text)
        if wrong is not None or not text:
            holds = "is empty" if wrong is None else f"holds U+{ord(wrong):04X}, which XML cannot"
            raise InputError(f"the node id {format_value(text)} {holds}; rename the node, or write .parquet")
    for part in _parts(graph, texts, attributes):
        stream.write(part.encode())


def _parts(graph: Graph, texts: Sequence[str], attributes: Mapping[str, Sequence[str | float | None]]) -> Iterator[str]:
    numbers = {name for name, values in attributes.items() if any(isinstance(one, float) for one in values)}
    yield _HEAD
    yield _key("node", "label", "string")
    for name in attributes:
        yield _key("node", name, "float" if name in numbers else "string")
    if graph.weights is not None:
        yield _key("edge", "weight", "double")
    if graph.edge_types is not None:
        yield _key("edge", "type", "string")
    yield f'<graph edgedefault="{"directed" if graph.directed else "undirected"}">\n'
    escaped = [as_xml(text) for text in texts]
    for begin in range(0, len(escaped), _AT_ONCE):
        yield "".join(
            f'<node id="{escaped[node]}">{_data("node-label", texts[node])}'
            + "".join(_data(f"node-{name}", values[node]) for name, values in attributes.items())
            + "</node>\n"
            for node in range(begin, min(begin + _AT_ONCE, len(escaped)))
        )
    yield from _edges(graph, escaped)
    yield "</graph>\n</graphml>\n"


def _edges(graph: Graph, escaped: Sequence[str]) -> Iterator[str]:
    """Yield the edges, undirected ones once."""
    sources = np.repeat(np.arange(graph.num_nodes), graph.degrees)
    kept = np.arange(len(sources)) if graph.directed else np.flatnonzero(sources <= graph.indices)
    for begin in range(0, len(kept), _AT_ONCE):
        some = kept[begin : begin + _AT_ONCE]
        weights: Sequence[Any] = [None] * len(some) if graph.weights is None else graph.weights[some].tolist()
        types: Sequence[Any] = [None] * len(some)
        if graph.edge_types is not None:
            types = [graph.edge_type_names[one] for one in graph.edge_types[some].tolist()]
        ends = zip(sources[some].tolist(), graph.indices[some].tolist(), weights, types, strict=True)
        yield "".join(
            f'<edge source="{escaped[u]}" target="{escaped[v]}">'
            f"{_data('edge-weight', weight)}{_data('edge-type', kind)}</edge>\n"
            for u, v, weight, kind in ends
        )


def _key(kind: str, name: str, form: str) -> str:
    return f'<key id="{kind}-{name}" for="{kind}" attr.name="{name}" attr.type="{form}"/>\n'


def _data(key: str, value: str | float | None) -> str:
    if value is None:
        return ""
    return f'<data key="{key}">{as_xml(value) if isinstance(value, str) else repr(value)}</data>'
