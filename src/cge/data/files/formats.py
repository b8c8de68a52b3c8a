"""The file formats that can be read: one entry each, with everything that other modules need to know about it.

To add a format, write its functions and add an entry to `_FORMATS`, or call `register_format` from outside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from cge.data.files.arrays import load_npy, load_npz
from cge.data.files.blocks import open_bytes
from cge.data.files.matrix_market import read_matrix_market
from cge.data.files.table import Table, TextRules, columns_table, open_parquet_table, open_text_table
from cge.errors import CgeError, FileFormatError, InputError, format_value


@dataclass(frozen=True)
class FileFormat:
    """A file format.

    Attributes
    ----------
    name : str
    suffixes : tuple of str
        Lower case, with the point; text may have none.
    open_table : callable, optional
        Opens a table with columns: edges, labels, features and lists of nodes are all read from it.
    edges : callable, optional
        Returns pairs of node ids, (edges, 2), or a sparse adjacency matrix.
    features : callable, optional
        Returns a matrix whose row i belongs to node i.
    nodes : callable, optional
        Returns node ids.
    help : str
        The suffixes as help texts list them; by default the first of them.
    """

    name: str
    suffixes: tuple[str, ...]
    open_table: Callable[[Path, TextRules], Table] | None = None
    edges: Callable[[Path], Any] | None = None
    features: Callable[[Path], Any] | None = None
    nodes: Callable[[Path], Any] | None = None
    help: str = ""

    @property
    def is_text(self) -> bool:
        """Whether files are text with lines."""
        return self.open_table is open_text_table

    def reads(self, content: str) -> bool:
        """Return whether this format can hold "edges", "labels", "features" or "nodes"."""
        return self.open_table is not None or self.array_reader(content) is not None

    def array_reader(self, content: str) -> Callable[[Path], Any] | None:
        """Return the function that reads such content as an array, or None if it is read from a table."""
        return {"edges": self.edges, "features": self.features, "nodes": self.nodes}.get(content)

    def table(self, path: Path, rules: TextRules) -> Table:
        """Open a table."""
        if self.open_table is None:
            raise FileFormatError(path, f"{self.name} files have no columns; convert the file to a table")
        return self.open_table(path, rules)


_TEXT_SUFFIXES = (".csv", ".tsv", ".tab", ".txt", ".text", ".dat", ".edges", ".edgelist", ".cites", ".content", "")
_FORMATS = [
    FileFormat("text", _TEXT_SUFFIXES, open_text_table, help=".csv, .tsv, .txt (each also .gz)"),
    FileFormat("Parquet", (".parquet", ".pq"), open_parquet_table),
    FileFormat("NumPy array", (".npy",), edges=load_npy, features=load_npy, nodes=load_npy),
    FileFormat(
        "NumPy archive",
        (".npz",),
        edges=partial(load_npz, keys=("edges",)),
        features=partial(load_npz, keys=("features", "x", "X", "arr_0")),
    ),
    FileFormat("Matrix Market", (".mtx",), edges=read_matrix_market),
]
_UNSUPPORTED = {
    "pickles can run arbitrary code and are never opened; save the data as .npz or .parquet": (
        *(".pkl", ".pickle", ".joblib", ".pt", ".pth"),
    ),
    "spreadsheets are not supported; save it as CSV": (".xlsx", ".xls", ".xlsm", ".ods", ".numbers"),
    "only gzip is decompressed; unpack it first": (".zip", ".bz2", ".xz", ".zst", ".7z", ".rar", ".tar", ".tgz"),
    "this format is not supported; convert it to an edge list, e.g. with NetworkX": (
        *(".json", ".jsonl", ".graphml", ".gml", ".gexf", ".adjlist", ".net", ".dot", ".g6"),
    ),
}


def register_format(
    name: str,
    suffixes: tuple[str, ...],
    *,
    table: Callable[[Path], Any] | None = None,
    edges: Callable[[Path], Any] | None = None,
    features: Callable[[Path], Any] | None = None,
    nodes: Callable[[Path], Any] | None = None,
) -> FileFormat:
    """Add a file format to those that `read_graph`, `read_labels`, `read_features` and the command line read.

    Parameters
    ----------
    name : str
        As messages call it.
    suffixes : tuple of str
        Such as (".gml",); they must not belong to another format.
    table : callable, optional
        Takes a path and returns columns by name: a dictionary of arrays, a DataFrame or a `pyarrow.Table`. Edges,
        labels, features and lists of nodes are read from them as from Parquet.
    edges, features, nodes : callable, optional
        Take a path and return arrays: pairs of ids (edges, 2) or a sparse adjacency matrix; a matrix of features whose
        row i belongs to node i; node ids.

    Examples
    --------
    A file such as `friends.pairs` with the content `[["ann", "bob"], ["bob", "cy"]]`::

        register_format("JSON pairs", (".pairs",), edges=lambda path: json.loads(path.read_text()))
        graph = read_graph("friends.pairs")
    """
    if not suffixes or not all(suffix.startswith(".") and suffix == suffix.lower() for suffix in suffixes):
        raise InputError(parameter="suffixes", expected="lower-case suffixes such as '.gml'", found=suffixes)
    taken = {suffix: other.name for other in _FORMATS for suffix in other.suffixes} | {".gz": "gzip"}
    duplicate = next((suffix for suffix in suffixes if suffix in taken), None)
    if duplicate is not None:
        raise InputError(f"the suffix {duplicate!r} belongs to the format {taken[duplicate]!r}; choose another")
    if table is None and edges is None and features is None and nodes is None:
        raise InputError(f"the format {name!r} reads nothing; pass table, edges, features or nodes")

    def wrapped(function: Callable[[Path], Any] | None) -> Callable[[Path], Any] | None:
        return None if function is None else partial(_call, name, function)

    def open_table(path: Path, _rules: TextRules) -> Table:
        return columns_table(path, _call(name, table, path))

    new = FileFormat(name, suffixes, open_table if table else None, wrapped(edges), wrapped(features), wrapped(nodes))
    _FORMATS.append(new)
    return new


def _call(name: str, function: Any, path: Path) -> Any:
    """Call a function of a registered format; whatever it raises names the file."""
    with open_bytes(path):  # a file that is missing or not readable
        pass
    try:
        return function(path)
    except CgeError:
        raise
    except Exception as error:
        raise FileFormatError(path, f"cannot be read as {name} ({type(error).__name__}: {error})") from error


def find_format(path: Path, content: str) -> FileFormat:
    """Return the format of a file by its suffix; `content` is "edges", "labels", "features" or "nodes"."""
    suffix = next((suffix.lower() for suffix in reversed(path.suffixes) if suffix.lower() != ".gz"), "")
    file_format = next((entry for entry in _FORMATS if suffix in entry.suffixes), None)
    if file_format is not None and file_format.reads(content):
        return file_format
    problem = next((problem for problem, suffixes in _UNSUPPORTED.items() if suffix in suffixes), None)
    if problem is None:
        allowed = ", ".join(suffix for entry in _FORMATS if entry.reads(content) for suffix in entry.suffixes if suffix)
        problem = f"the suffix {format_value(suffix)} is not one of {allowed}; rename or convert the file"
    raise FileFormatError(path, problem)


def list_suffixes(content: str) -> str:
    """Return the suffixes of the formats that can hold "edges", "labels", "features" or "nodes", for help texts.

    >>> list_suffixes("labels")
    '.csv, .tsv, .txt (each also .gz) or .parquet'
    """
    *first, last = (entry.help or entry.suffixes[0] for entry in _FORMATS if entry.reads(content))
    return f"{', '.join(first)} or {last}"
