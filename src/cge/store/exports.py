"""Vectors and predictions as files for other tools: tables, NumPy, word2vec, embedding projector, GraphML.

The suffix of a file selects its format. Files are written atomically.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from cge.arrays import Array
from cge.data.files.file_path import FilePath, file_path
from cge.errors import InputError, format_value
from cge.graph import Graph
from cge.store.atomic import Writer, writable_file, write_files
from cge.store.export_tables import write_parquet_table, write_text_table
from cge.store.graphml import write_graphml
from cge.store.manifest import MAX_BYTES, is_manifest
from cge.store.text import checked_texts, escape_formula, one_line
from cge.store.word2vec import write_word2vec_binary, write_word2vec_text

_WIDEST = 2**30  # bytes of ids in a NumPy array, whose strings are all as long as the longest


@dataclass(frozen=True, eq=False)
class Export:
    """What is exported of a model: vectors, and labels and predictions of nodes where it has any.

    Attributes
    ----------
    graph : Graph
        Its node ids are integers or strings.
    vectors : (n, d) float32
    label, prediction : n strings or None, optional
        The known label and the predicted one, as text.
    confidence : (n,) float32, optional
    exact : bool
        Whether text that a spreadsheet would evaluate is written as it is; otherwise it gets a leading apostrophe.
    """

    graph: Graph
    vectors: Array
    label: Sequence[str | None] | None = None
    prediction: Sequence[str | None] | None = None
    confidence: Array | None = None
    exact: bool = False

    @cached_property
    def texts(self) -> Sequence[str]:
        """The node ids as text."""
        return checked_texts(self.graph.node_ids)

    @property
    def ids(self) -> Any:
        """The node ids as a column: integers or text."""
        return self.graph.node_ids if self.graph.node_ids.dtype.kind == "i" else self.texts

    @property
    def vector_columns(self) -> dict[str, Array]:
        """The vectors as columns."""
        return {f"v{place}": column for place, column in enumerate(self.vectors.T)}

    @property
    def attributes(self) -> dict[str, Sequence[Any]]:
        """Label, prediction and confidence of nodes, where there are any."""
        # A float32 has fewer digits than the float64 that Python would print.
        confidence = None if self.confidence is None else [float(str(value)) for value in self.confidence]
        columns = {"label": self.label, "prediction": self.prediction, "confidence": confidence}
        return {name: column for name, column in columns.items() if column is not None}


def file_format(file: FilePath, legal: Sequence[str]) -> str:
    """Return the suffix of a file to write, which must be one of `legal`.

    >>> file_format("vectors.xlsx", [".csv", ".npz"])
    Traceback (most recent call last):
    cge.errors.InputError: vectors.xlsx: the suffix '.xlsx' is not one of .csv, .npz; choose one of these
    """
    suffix = file_path(file).suffix.lower()
    if suffix not in legal:
        raise InputError(
            f"{file}: the suffix {format_value(suffix)} is not one of {', '.join(legal)}", hint="choose one of these"
        )
    return suffix


# ---------------------------------------------------------------------- vectors


def write_export(export: Export, file: FilePath | None = None, *, projector: FilePath | None = None) -> list[Path]:
    """Write vectors, all files or none.

    Parameters
    ----------
    file : path, optional
        Its suffix is one of `VECTORS`. `.graphml` contains the graph with labels and predictions, and no vectors.
    projector : folder, optional
        For `vectors.tsv` and `metadata.tsv` of the embedding projector. Created where it is missing.

    >>> import tempfile
    >>> graph = Graph.from_edges([("ann", "bob")])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     (path,) = write_export(Export(graph, np.eye(2, dtype=np.float32)), f"{folder}/vectors.csv")
    ...     print(path.read_text(), end="")
    "id","v0","v1"
    "ann",1,0
    "bob",0,1
    """
    files: dict[Path, Writer] = {}
    if file is not None:
        files[writable_file(file)] = partial(VECTORS[file_format(file, list(VECTORS))], export)
    if projector is None:
        write_files(files)
        return list(files)
    folder = checked_folder(projector)
    new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, write in (("vectors.tsv", _as_numbers), ("metadata.tsv", _as_metadata)):
            path = writable_file(folder / name)
            if path in files:
                raise InputError(f"{path} would be written twice", hint="choose another file or folder")
            files[path] = partial(write, export)
        write_files(files)
    except OSError as error:
        raise InputError(
            f"{folder} cannot be written ({error.strerror or error})", hint="choose another folder"
        ) from None
    finally:
        if new:
            with suppress(OSError):  # not empty: the files were written
                folder.rmdir()
    return list(files)


def checked_folder(folder: FilePath) -> Path:
    """Return the path of a folder, which may not exist yet; refuse that of a file."""
    path = file_path(folder)
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file", hint="give the path of a folder")
    return path


def _as_npz(export: Export, stream: BinaryIO) -> None:
    ids = export.ids
    if not isinstance(ids, np.ndarray):
        longest = max(map(len, ids), default=0)
        if 4 * longest * len(ids) > _WIDEST:
            raise InputError(
                f"the ids would take {4 * longest * len(ids):,} bytes in .npz, where all are as long as the longest, "
                f"of {longest:,} characters",
                hint="write .parquet",
            )
        cut = next((text for text in ids if text.endswith("\0")), None)
        if cut is not None:
            raise InputError(
                f"the node id {format_value(cut)} ends in a zero, which .npz would drop", hint="write .parquet"
            )
        ids = np.array(ids, f"U{max(longest, 1)}")
    np.savez(stream, ids=ids, vectors=np.ascontiguousarray(export.vectors))


def _as_graphml(export: Export, stream: BinaryIO) -> None:
    names = {"label": "known_label"}  # tools display "label" beside a node, which is its id
    attributes = {names.get(name, name): column for name, column in export.attributes.items()}
    write_graphml(stream, export.graph, export.texts, attributes)


def _as_text(delimiter: str, export: Export, stream: BinaryIO) -> None:
    write_text_table(stream, {"id": export.ids} | export.vector_columns, delimiter, exact=export.exact)


VECTORS: Mapping[str, Callable[[Export, BinaryIO], None]] = {
    ".parquet": lambda export, stream: write_parquet_table(stream, {"id": export.ids, "vector": export.vectors}),
    ".csv": partial(_as_text, ","),
    ".tsv": partial(_as_text, "\t"),
    ".txt": lambda export, stream: write_word2vec_text(stream, export.texts, export.vectors),
    ".bin": lambda export, stream: write_word2vec_binary(stream, export.texts, export.vectors),
    ".npz": _as_npz,
    ".graphml": _as_graphml,
}


def _as_numbers(export: Export, stream: BinaryIO) -> None:
    write_text_table(stream, export.vector_columns, "\t", header=False)


def _as_metadata(export: Export, stream: BinaryIO) -> None:
    """Write a line for each node, without quotes; the projector expects no header above a single column."""
    columns = {"node": export.texts} | export.attributes
    rows = zip(*columns.values(), strict=True)
    escape: Callable[[str], str] = str if export.exact else escape_formula

    def cell(value: str | float | None) -> str:
        return "" if value is None else one_line(escape(value)) if isinstance(value, str) else repr(value)

    lines = ["\t".join(map(cell, row)) for row in (*([tuple(columns)] if len(columns) > 1 else []), *rows)]
    stream.write("".join(f"{line}\n" for line in lines).encode())


# ---------------------------------------------------------------------- predictions

TABLES = (".csv", ".tsv", ".parquet", ".json")


def write_predictions(
    file: FilePath, columns: Mapping[str, Any], to_json: Callable[[], Mapping[str, Any]], *, exact: bool = False
) -> Path:
    """Write a table of predictions; the formats are those of `TABLES`.

    Parameters
    ----------
    columns : mapping of names to columns
        For tables, as `cge.store.export_tables` takes them.
    to_json : callable
        Returns the object for a JSON file.
    exact : bool
        Whether text that a spreadsheet would evaluate is written to text tables as it is.
    """
    suffix, path = file_format(file, TABLES), writable_file(file)
    if suffix == ".json":
        _refuse_model_file(path)
        text = json.dumps(to_json(), ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace") + b"\n"
        write: Writer = lambda stream: stream.write(text)  # noqa: E731 - like the other two
    elif suffix == ".parquet":
        write = lambda stream: write_parquet_table(stream, columns)  # noqa: E731
    else:
        delimiter = "," if suffix == ".csv" else "\t"
        write = lambda stream: write_text_table(stream, columns, delimiter, exact=exact)  # noqa: E731
    write_files({path: write})
    return path


def _refuse_model_file(path: Path) -> None:
    """Refuse to overwrite the JSON file of a saved model with its predictions."""
    if not path.exists() or path.stat().st_size > MAX_BYTES:
        return
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return
    if is_manifest(content):
        raise InputError(f"{path} belongs to a model that cge has saved", hint="choose another file")
