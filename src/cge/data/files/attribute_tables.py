"""Files of node attributes, from which features are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from cge.arrays import Array
from cge.checks import checked_features
from cge.data.attributes import AttributeEncoder
from cge.data.files.dialect import TextOptions
from cge.data.files.file_path import name_file
from cge.data.files.formats import find_format
from cge.data.files.node_tables import (
    ADD_NODES,
    check_nodes,
    check_unique_nodes,
    is_index_name,
    node_column,
    node_field,
    read_rows,
)
from cge.data.files.numbering import Names
from cge.data.files.table import TextRules
from cge.data.files.text_fields import NAME, Field, decode_names
from cge.errors import FileFormatError, did_you_mean, format_list, format_value
from cge.graph import Graph
from cge.ids import IdIndex


def read_attributes(path: Path, text_ids: bool, options: TextOptions) -> tuple[Array, dict[str, Array]]:
    """Read a table of attributes with a header: nodes `(k,)`, and the other columns as text, empty where missing."""
    table = find_format(path, "labels").table(path, TextRules(replace(options, header=True), lambda _: True))
    if table.names is None or table.width < 2:
        raise FileFormatError(path, "expected a header, a column of nodes and columns of attributes")
    key, names = node_column(table.names), Names()
    index = {0} if key and is_index_name(table.names[0]) else set()
    others = [column for column in range(table.width) if column not in {key, *index}]
    fields = [Field(column, NAME, f"column {format_value(table.names[column])}", optional=True) for column in others]
    rows, keys = read_rows(table, [node_field(key, text_ids), *fields], text_ids, names)
    check_unique_nodes(path, keys, rows.lines)
    texts = decode_names(path, names)
    return keys, {table.names[column]: texts[rows.columns[column]] for column in others}


def with_attributes(
    graph: Graph, path: Path, keys: Array, columns: dict[str, Array], selected: Sequence[str] = ()
) -> Graph:
    """Return the graph with features made of attributes; those of a node without a row are missing.

    Only `selected` columns are used, and not those that follow a minus sign.
    """
    chosen = [name for name in selected if name in columns or not name.startswith("-")]
    left_out = [name.removeprefix("-") for name in selected if name not in chosen]
    unknown = next((name for name in (*chosen, *left_out) if name not in columns), None)
    if unknown is not None:
        problem = f"there is no column {format_value(unknown)} of attributes"
        hint = f"{did_you_mean(unknown, columns)}the columns are {format_list(list(columns))}"
        raise FileFormatError(path, problem, hint=hint)
    names = [name for name in columns if name not in left_out and (not chosen or name in chosen)]
    places = IdIndex(graph.node_ids).find(keys)
    check_nodes(path, keys, places, graph.node_ids, ADD_NODES)
    aligned = {name: np.full(graph.num_nodes, "", object) for name in names}
    for name, texts in aligned.items():
        texts[places] = columns[name]
    with name_file(path):
        encoder = AttributeEncoder.fit(aligned)
        features = checked_features(encoder.transform(aligned), graph.num_nodes, copy=False)
    return replace(graph, features=features, feature_names=encoder.feature_names, encoder=encoder)
