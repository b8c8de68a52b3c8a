"""A folder of your own as a data set: edges and labels, maybe features, a list of nodes, a split."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from cge.data.dataset import Dataset
from cge.data.files.dialect import TextOptions, is_integer, known, look
from cge.data.files.file_path import FilePath, file_path
from cge.data.files.graph_files import read_graph
from cge.data.files.node_tables import LabelTable, read_label_table, refuse_unknown
from cge.data.files.parquet import file_kind, parquet_schema
from cge.data.label_arrays import labeled
from cge.data.splits import Split
from cge.errors import FileFormatError, InputError, format_value
from cge.graph import Graph
from cge.ids import IdIndex

__all__ = ["load_folder"]

Array = npt.NDArray[Any]

_NEEDED = ("edges", "labels")
_STEMS = (*_NEEDED, "features", "nodes", "split")
_ROLES = ("train", "validation", "test")
_ROLE_COLUMNS = ("role", "roles", "split", "set", "part")


def load_folder(folder: FilePath, **options: Any) -> Dataset:
    r"""Load a data set from a folder of files in the formats of `read_graph`, `read_labels` and `read_features`.

    The part of a file's name before the first dot tells what it holds; there is one file of each. Hidden files,
    subfolders and files of other names are left alone.

    Parameters
    ----------
    folder : path
        It holds

        - `edges.*`: an edge list or an adjacency matrix;
        - `labels.*`: a table of nodes and labels; a node with several rows of different labels makes `labels` a matrix;
        - `features.*`, `nodes.*`: optional, as for `read_graph`;
        - `split.*`: optional, a table of nodes and roles: train, validation or test. Each of its nodes has a label.
    **options
        How edges are read: options of `read_graph`, such as `directed=True`. `comment` is for all files.

    Returns
    -------
    Dataset
        Named as the folder. Class names are text and ascend, as numbers if all are integers. `notes` tell which files
        were read.

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
    files, others = _files(root)
    graph = read_graph(files["edges"], files.get("features"), nodes=files.get("nodes"), **options)
    index, text = IdIndex(graph.node_ids), TextOptions(comment=options.get("comment", "#"))
    notes = ["read from " + ", ".join(path.name for path in files.values())]
    if others:
        notes.append("files that were left alone: " + ", ".join(others))

    table = read_label_table(files["labels"], _text_ids(graph), text, None, None)
    places = _places(files["labels"], table, graph, index, "label")
    labels, second = _labels(table, places, graph.num_nodes)
    if second is not None:
        notes.append(f"nodes may have several labels, as in line {table.lines[second]:,} of {files['labels'].name}")
    split = _split(files["split"], graph, index, text, labeled(labels)) if "split" in files else None
    name = root.name if root.name not in ("", "..") else root.resolve().name
    return Dataset(name, graph, labels, tuple(table.names), split, notes="; ".join(notes))


def _files(folder: Path) -> tuple[dict[str, Path], list[str]]:
    """Return the file of each stem, and the names of the others."""
    try:
        if not folder.exists():
            raise FileFormatError(folder, "there is no such folder; give one that holds edges and labels")
        if not folder.is_dir():
            raise FileFormatError(folder, "this is no folder; give the folder that holds edges and labels")
        visible = sorted(one for one in folder.iterdir() if not one.name.startswith(".") and not one.is_dir())
    except OSError as error:
        raise FileFormatError(folder, f"this folder cannot be looked into ({error.strerror}); give another") from None
    stems = {path: path.name.partition(".")[0].lower() for path in visible}
    found: dict[str, Path] = {}
    for stem in _STEMS:
        candidates = [path for path in visible if stems[path] == stem]
        if len(candidates) > 1:
            format_list = ", ".join(path.name for path in candidates)
            raise FileFormatError(
                folder,
                f"expected one file of {stem}, found {len(candidates)}: {format_list}; keep one, rename the others",
            )
        if not candidates and stem in _NEEDED:
            format_list = ", ".join(path.name for path in visible[:5]) + (", …" if len(visible) > 5 else "")
            raise FileFormatError(
                folder, f"expected a file of {stem}, found {format_list or 'nothing'}; add one, such as {stem}.csv"
            )
        found.update((stem, path) for path in candidates)
    return found, [path.name for path in visible if stems[path] not in _STEMS]


def _text_ids(graph: Graph) -> bool:
    return bool(graph.node_ids.dtype.kind == "O")


def _places(path: Path, table: LabelTable, graph: Graph, index: IdIndex, what: str) -> Array:
    """Return the number of the node of each row; every node has to be in the graph."""
    places = index.find(table.nodes)
    if not len(places):  # Parquet; text without rows is refused before
        raise FileFormatError(path, f"the file holds no rows; write one for each node with a {what}")
    hint = "remove these rows, or list all nodes of the graph in a file such as nodes.csv"
    if places[0] < 0 and len(places) > 1 and (places[1:] >= 0).all():
        hint = f"if line {table.lines[0]:,} names the columns, call them node and {what}, else {hint}"
    refuse_unknown(path, table.nodes, places, graph.node_ids, hint)
    return places


def _conflict(places: Array, classes: Array, size: int) -> tuple[int, int] | None:
    """Return the first row that gives a node another class than an earlier row does: (earlier row, this row)."""
    first = np.full(size, -1)
    first[places[::-1]] = np.arange(len(places))[::-1]  # the first row of each node
    rows = np.flatnonzero(classes[first[places]] != classes)
    return (int(first[places[rows[0]]]), int(rows[0])) if len(rows) else None


def _labels(table: LabelTable, places: Array, size: int) -> tuple[Array, int | None]:
    """Return labels in either form, and the row that made them a matrix, if one did."""
    conflict = _conflict(places, table.classes, size)
    if conflict is None:
        labels = np.full(size, -1, np.int64)
        labels[places] = table.classes
        return labels, None
    matrix = np.zeros((size, len(table.names)), np.int64)
    matrix[places, table.classes] = 1
    return matrix, conflict[1]


def _split(path: Path, graph: Graph, index: IdIndex, options: TextOptions, has_label: Array) -> Split:
    """Read a table of nodes and roles."""
    table = _role_table(path, graph, index, options)

    def complain(row: int, problem: str) -> NoReturn:
        raise FileFormatError(path, problem, int(table.lines[row]))

    def node(row: int) -> str:
        return f"node {format_value(table.nodes[[row]].tolist()[0])}"

    part = np.array([_ROLES.index(name) if name in _ROLES else -1 for name in table.names])[table.classes]  # (rows,)
    wrong = np.flatnonzero(part < 0)
    if len(wrong):
        found = format_value(table.names[table.classes[wrong[0]]])
        header = wrong[0] == 0 and index.find(table.nodes[:1])[0] < 0
        hint = ", or call the columns node and role if this line names them" if header else ""
        complain(wrong[0], f"expected train, validation or test, found {found}; write one of these{hint}")
    places = _places(path, table, graph, index, "role")
    conflict = _conflict(places, part, graph.num_nodes)
    if conflict is not None:
        first, second = conflict
        roles = f"{_ROLES[part[second]]}, but {_ROLES[part[first]]} in line {table.lines[first]:,}"
        complain(second, f"{node(second)} has the role {roles}; keep one")
    bare = np.flatnonzero(~has_label[places])
    if len(bare):
        complain(
            bare[0], f"{node(bare[0])} has the role {_ROLES[part[bare[0]]]}, but no label; add one, or remove this row"
        )
    train, validation, test = (np.unique(places[part == role]) for role in range(3))
    return Split(train, validation, test)


def _role_table(path: Path, graph: Graph, index: IdIndex, options: TextOptions) -> LabelTable:
    """Read a table of nodes and roles as one of nodes and labels is read."""
    try:
        column = _role_column(path, graph, index, options)
        return read_label_table(path, _text_ids(graph), options, None, column, what="role")
    except FileFormatError:
        raise
    except InputError:  # roles stand first, and no other column has a usual name
        raise FileFormatError(
            path, "found a column of roles, but none of nodes; call one of the columns node"
        ) from None


def _role_column(path: Path, graph: Graph, index: IdIndex, options: TextOptions) -> str | None:
    """Return the name of the column of roles, or None where no header has a usual one."""
    if file_kind(path, ("text", "parquet")) == "parquet":
        names: list[str] = parquet_schema(path).names
    else:
        names = look(path, options).rows[0]
        # Nodes may be called "set": a row that holds a role or a node is no header.
        nodes = (index.find(names) >= 0).any() if _text_ids(graph) else any(map(is_integer, names))
        if nodes or not set(_ROLES).isdisjoint(names):
            return None
    place = known(names, _ROLE_COLUMNS)
    return None if place is None else names[place]
