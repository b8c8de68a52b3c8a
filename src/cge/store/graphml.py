"""A graph as GraphML, which Gephi, yEd, Cytoscape, igraph and NetworkX read, with attributes of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np

from cge.errors import InputError, format_value
from cge.graph import Graph
from cge.store.text import as_xml, forbidden_in_xml

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
        Other attributes of nodes; None is left out.

    An id with a character that XML does not allow is refused: a replacement could be another node's id.
    """
    for text in texts:
        forbidden = forbidden_in_xml(text)
        if forbidden is not None or not text:
            problem = "is empty" if forbidden is None else f"contains U+{ord(forbidden):04X}, which XML does not allow"
            raise InputError(f"the node id {format_value(text)} {problem}", hint="rename the node, or write .parquet")
    for part in _parts(graph, texts, attributes):
        stream.write(part.encode())


def _parts(graph: Graph, texts: Sequence[str], attributes: Mapping[str, Sequence[str | float | None]]) -> Iterator[str]:
    numbers = {name for name, values in attributes.items() if any(isinstance(value, float) for value in values)}
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
    for start in range(0, len(escaped), _AT_ONCE):
        yield "".join(
            f'<node id="{escaped[node]}">{_data("node-label", texts[node])}'
            + "".join(_data(f"node-{name}", values[node]) for name, values in attributes.items())
            + "</node>\n"
            for node in range(start, min(start + _AT_ONCE, len(escaped)))
        )
    yield from _edges(graph, escaped)
    yield "</graph>\n</graphml>\n"


def _edges(graph: Graph, escaped: Sequence[str]) -> Iterator[str]:
    """Yield the edges, undirected ones once."""
    sources = np.repeat(np.arange(graph.num_nodes), graph.degrees)
    entries = np.arange(len(sources)) if graph.directed else np.flatnonzero(sources <= graph.indices)
    for start in range(0, len(entries), _AT_ONCE):
        block = entries[start : start + _AT_ONCE]
        weights: Sequence[Any] = [None] * len(block) if graph.weights is None else graph.weights[block].tolist()
        types: Sequence[Any] = [None] * len(block)
        if graph.edge_types is not None:
            types = [graph.edge_type_names[code] for code in graph.edge_types[block].tolist()]
        edges = zip(sources[block].tolist(), graph.indices[block].tolist(), weights, types, strict=True)
        yield "".join(
            f'<edge source="{escaped[u]}" target="{escaped[v]}">'
            f"{_data('edge-weight', weight)}{_data('edge-type', kind)}</edge>\n"
            for u, v, weight, kind in edges
        )


def _key(kind: str, name: str, form: str) -> str:
    return f'<key id="{kind}-{name}" for="{kind}" attr.name="{name}" attr.type="{form}"/>\n'


def _data(key: str, value: str | float | None) -> str:
    if value is None:
        return ""
    return f'<data key="{key}">{as_xml(value) if isinstance(value, str) else repr(value)}</data>'
