"""A folder of your own as a data set: edges and labels, optionally features, a list of nodes, a split."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from cge.arrays import Array
from cge.data.dataset import Dataset
from cge.data.files.dialect import TextOptions, find_column, inspect_text, is_integer
from cge.data.files.file_path import FilePath, file_path
from cge.data.files.formats import find_format
from cge.data.files.graph_files import read_graph
from cge.data.files.labels import LabelTable, first_conflict, read_label_table, without_header
from cge.data.files.node_tables import check_nodes
from cge.data.files.table import TextRules
from cge.data.splits import Split, labeled
from cge.errors import FileFormatError, InputError, format_value
from cge.graph import Graph
from cge.ids import IdIndex

_REQUIRED = ("edges", "labels")
_STEMS = (*_REQUIRED, "features", "nodes", "split")
_ROLES = ("train", "validation", "test")
_ROLE_COLUMNS = ("role", "roles", "split", "set", "part")


def load_folder(folder: FilePath, *, need_labels: bool = True, **options: Any) -> Dataset:
    r"""Load a data set from a folder of files in the formats of `read_graph`, `read_labels` and `read_features`.

    The part of a file's name before the first dot determines its content; there is one file of each. Hidden files,
    subfolders and files of other names are ignored.

    Parameters
    ----------
    folder : path
        It contains

        - `edges.*`: an edge list or an adjacency matrix;
        - `labels.*`: a table of nodes and labels; a node with several rows of different labels makes `labels` a matrix;
        - `features.*`, `nodes.*`: optional, as for `read_graph`;
        - `split.*`: optional, a table of nodes and roles: train, validation or test. Each of its nodes has a label.
    **options
        How edges are read: options of `read_graph`, such as `directed=True`. `comment` is for all files.

    Returns
    -------
    Dataset
        Named as the folder. Class names are text and ascend, as numbers if all are integers. `notes` lists the files
        that were read.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "edges.csv").write_text("ann,bob\nbob,cy\n")
    ...     _ = (Path(folder) / "labels.csv").write_text("node,label\nann,red\ncy,blue\n")
    ...     data = load_folder(folder)
    >>> data.labels.tolist(), data.class_names
    ([1, -1, 0], ('blue', 'red'))
    """
    root = file_path(folder)
    files, others = _files(root, _REQUIRED if need_labels else _REQUIRED[:1])
    graph = read_graph(files["edges"], files.get("features"), nodes=files.get("nodes"), **options)
    index, text = IdIndex(graph.node_ids), TextOptions(comment=options.get("comment", "#"))
    text_ids = graph.node_ids.dtype.kind == "O"
    notes = ["read from " + ", ".join(path.name for path in files.values())]
    if others:
        notes.append("ignored files: " + ", ".join(others))

    name = root.name if root.name not in ("", "..") else root.resolve().name
    if "labels" not in files:
        return Dataset(name, graph, np.full(graph.num_nodes, -1, np.int64), notes="; ".join(notes))
    table = read_label_table(files["labels"], text_ids, text)
    table, _, header_notes = without_header(files["labels"], table, graph, infer=True)
    notes += header_notes
    node_idx = _node_indices(files["labels"], table, graph, index, "label")
    conflict = first_conflict(node_idx, table.classes, graph.num_nodes)
    if conflict is None:
        labels = np.full(graph.num_nodes, -1, np.int64)
        labels[node_idx] = table.classes
    else:
        labels = np.zeros((graph.num_nodes, len(table.names)), np.int64)
        labels[node_idx, table.classes] = 1
        line = f"line {table.lines[conflict[1]]:,} of {files['labels'].name}"
        notes.append(f"nodes may have several labels, as in {line}")
    split = _split(files["split"], graph, index, text, labeled(labels)) if "split" in files else None
    return Dataset(name, graph, labels, tuple(table.names), split, notes="; ".join(notes))


def _files(folder: Path, required: tuple[str, ...]) -> tuple[dict[str, Path], list[str]]:
    """Return the file of each stem, and the names of the others."""
    try:
        if not folder.exists():
            raise FileFormatError(folder, "there is no such folder; pass one that contains edges and labels")
        if not folder.is_dir():
            raise FileFormatError(folder, "this is not a folder; pass the folder that contains edges and labels")
        visible = sorted(path for path in folder.iterdir() if not path.name.startswith(".") and not path.is_dir())
    except OSError as error:
        raise FileFormatError(folder, f"this folder cannot be read ({error.strerror}); pass another") from None
    stems = {path: path.name.partition(".")[0].lower() for path in visible}
    files: dict[str, Path] = {}
    for stem in _STEMS:
        candidates = [path for path in visible if stems[path] == stem]
        if len(candidates) > 1:
            names = f"{len(candidates)}: {', '.join(path.name for path in candidates)}"
            raise FileFormatError(folder, f"expected one file of {stem}, found {names}; keep one, rename the others")
        if not candidates and stem in required:
            names = ", ".join(path.name for path in visible[:5]) + (", …" if len(visible) > 5 else "") or "nothing"
            raise FileFormatError(folder, f"expected a file of {stem}, found {names}; add one, such as {stem}.csv")
        files.update((stem, path) for path in candidates)
    return files, [path.name for path in visible if stems[path] not in _STEMS]


def _node_indices(path: Path, table: LabelTable, graph: Graph, index: IdIndex, what: str) -> Array:
    """Return the index of the node of each row; every node must be in the graph."""
    node_idx = index.find(table.nodes)
    if not len(node_idx):  # Parquet; text without rows is refused before
        raise FileFormatError(path, f"the file has no rows; write one for each node with a {what}")
    hint = "remove these rows, or list all nodes of the graph in a file such as nodes.csv"
    if node_idx[0] < 0 and len(node_idx) > 1 and (node_idx[1:] >= 0).all():
        hint = f"if line {table.lines[0]:,} names the columns, call them node and {what}, else {hint}"
    check_nodes(path, table.nodes, node_idx, graph.node_ids, hint)
    return node_idx


def _split(path: Path, graph: Graph, index: IdIndex, options: TextOptions, has_label: Array) -> Split:
    """Read a table of nodes and roles."""
    text_ids = graph.node_ids.dtype.kind == "O"
    try:
        column = _role_column(path, text_ids, index, options)
        table = read_label_table(path, text_ids, options, label=column, what="role")
    except FileFormatError:
        raise
    except InputError:  # the column of roles is the first, and no other column has a usual name
        problem = "found a column of roles, but none of nodes; call one of the columns node"
        raise FileFormatError(path, problem) from None

    def refuse(row: int, problem: str) -> NoReturn:
        raise FileFormatError(path, problem, int(table.lines[row]))

    def node(row: int) -> str:
        return f"node {format_value(table.nodes[[row]].tolist()[0])}"

    roles = np.array([_ROLES.index(name) if name in _ROLES else -1 for name in table.names])[table.classes]  # (rows,)
    wrong = np.flatnonzero(roles < 0)
    if len(wrong):
        value = format_value(table.names[table.classes[wrong[0]]])
        may_be_header = wrong[0] == 0 and index.find(table.nodes[:1])[0] < 0
        hint = ", or call the columns node and role if this line names them" if may_be_header else ""
        refuse(wrong[0], f"expected train, validation or test, found {value}; write one of these{hint}")
    node_idx = _node_indices(path, table, graph, index, "role")
    conflict = first_conflict(node_idx, roles, graph.num_nodes)
    if conflict is not None:
        first, second = conflict
        both = f"{_ROLES[roles[second]]}, but {_ROLES[roles[first]]} in line {table.lines[first]:,}"
        refuse(second, f"{node(second)} has the role {both}; keep one")
    unlabeled = np.flatnonzero(~has_label[node_idx])
    if len(unlabeled):
        row = unlabeled[0]
        refuse(row, f"{node(row)} has the role {_ROLES[roles[row]]}, but no label; add one, or remove this row")
    train, validation, test = (np.unique(node_idx[roles == role]) for role in range(3))
    return Split(train, validation, test)


def _role_column(path: Path, text_ids: bool, index: IdIndex, options: TextOptions) -> str | None:
    """Return the name of the column of roles, or None where no header has a usual one."""
    file_format = find_format(path, "labels")
    if file_format.is_text:
        names = inspect_text(path, options).rows[0]
        # Nodes may be called "set": a row that has a role or a node is not a header.
        has_node = (index.find(names) >= 0).any() if text_ids else any(map(is_integer, names))
        if has_node or not set(_ROLES).isdisjoint(names):
            return None
    else:
        names = file_format.table(path, TextRules(options, lambda _: True)).names or []
    column = find_column(names, _ROLE_COLUMNS)
    return None if column is None else names[column]
