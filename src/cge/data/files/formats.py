"""The file formats that can be read: one entry each, with everything that other modules need to know about it.

To add a format, write its functions and add an entry to `_FORMATS`, or call `register_format` from outside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from cge.data.files.arrays import load_npy, load_npz, read_matrix_market
from cge.data.files.blocks import open_bytes
from cge.data.files.table import Table, TextRules, columns_table, open_parquet_table, open_text_table
from cge.errors import CgeError, FileFormatError, InputError, format_value

Reader = Callable[[Path], Any]


@dataclass(frozen=True)
class FileFormat:
    """A file format, by its suffixes: lower case, with the point; text may have none.

    `open_table` opens a table with columns, from which edges, labels, features and lists of nodes are all read. `edges`
    returns pairs of node ids, (edges, 2), or a sparse adjacency matrix, `features` a matrix whose row i belongs to node
    i, `nodes` node ids. `help` lists the suffixes in help texts; by default the first of them.
    """

    name: str
    suffixes: tuple[str, ...]
    open_table: Callable[[Path, TextRules], Table] | None = None
    edges: Reader | None = None
    features: Reader | None = None
    nodes: Reader | None = None
    help: str = ""

    @property
    def is_text(self) -> bool:
        """Whether files are text with lines."""
        return self.open_table is open_text_table

    def reads(self, content: str) -> bool:
        """Return whether this format can hold "edges", "labels", "features" or "nodes"."""
        return self.open_table is not None or getattr(self, content, None) is not None

    def table(self, path: Path, rules: TextRules) -> Table:
        """Open a table."""
        if self.open_table is None:
            raise FileFormatError(path, f"{self.name} files have no columns; convert the file to a table")
        return self.open_table(path, rules)


_npz_edges = partial(load_npz, keys=("edges",))
_npz_features = partial(load_npz, keys=("features", "x", "X", "arr_0"))
_TEXT_SUFFIXES = (".csv", ".tsv", ".tab", ".txt", ".text", ".dat", ".edges", ".edgelist", ".cites", ".content", "")
_FORMATS = [
    FileFormat("text", _TEXT_SUFFIXES, open_text_table, help=".csv, .tsv, .txt (each also .gz)"),
    FileFormat("Parquet", (".parquet", ".pq"), open_parquet_table),
    FileFormat("NumPy array", (".npy",), edges=load_npy, features=load_npy, nodes=load_npy),
    FileFormat("NumPy archive", (".npz",), edges=_npz_edges, features=_npz_features),
    FileFormat("Matrix Market", (".mtx",), edges=read_matrix_market),
]
_UNSUPPORTED = {
    ".pkl .pickle .joblib .pt .pth": "pickles can run arbitrary code and are never opened; save the data as .npz or "
    ".parquet",
    ".xlsx .xls .xlsm .ods .numbers": "spreadsheets are not supported; save it as CSV",
    ".zip .bz2 .xz .zst .7z .rar .tar .tgz": "only gzip is decompressed; unpack it first",
    ".json .jsonl .graphml .gml .gexf .adjlist .net .dot .g6": "this format is not supported; convert it to an edge "
    "list, e.g. with NetworkX",
}


def register_format(
    name: str,
    suffixes: tuple[str, ...],
    *,
    table: Reader | None = None,
    edges: Reader | None = None,
    features: Reader | None = None,
    nodes: Reader | None = None,
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

    def wrapped(function: Reader | None) -> Reader | None:
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
    problem = next((problem for suffixes, problem in _UNSUPPORTED.items() if suffix in suffixes.split()), None)
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
