"""Vectors and predictions as files for other tools; the suffix selects the format. Files are written atomically."""

from __future__ import annotations

import json
import re
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
from cge.store.atomic import Writer, writable_file, write_error, write_files
from cge.store.export_formats import (
    checked_texts,
    escape_formula,
    write_graphml,
    write_parquet_table,
    write_text_table,
    write_word2vec_binary,
    write_word2vec_text,
)
from cge.store.manifest import MAX_BYTES, is_manifest

_LINES = re.compile(r"[\t\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_WIDEST = 2**30  # bytes of ids in a NumPy array, whose strings are all as long as the longest


@dataclass(frozen=True, eq=False)
class Export:
    """What is exported of a model: vectors `(n, d)`, and known labels and predictions of nodes where it has any.

    Node ids are integers or strings. Unless text is `exact`, an apostrophe keeps spreadsheets from evaluating it.
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
    """Return the suffix of a file to write, which must be one of `legal`."""
    suffix = file_path(file).suffix.lower()
    if suffix not in legal:
        problem = f"{file}: the suffix {format_value(suffix)} is not one of {', '.join(legal)}"
        raise InputError(problem, hint="choose one of these")
    return suffix


def write_export(export: Export, file: FilePath | None = None, *, projector: FilePath | None = None) -> list[Path]:
    """Write vectors, all files or none.

    The suffix of the file is one of `VECTORS`. `.graphml` contains the graph with labels and predictions, and no
    vectors. The folder for `vectors.tsv` and `metadata.tsv` of the embedding projector is created where it is missing.
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
        paths = [writable_file(folder / name) for name in ("vectors.tsv", "metadata.tsv")]
        for path in paths:
            if path in files:
                raise InputError(f"{path} would be written twice", hint="choose another file or folder")
        files[paths[0]] = lambda stream: write_text_table(stream, export.vector_columns, "\t", header=False)
        files[paths[1]] = partial(_as_metadata, export)
        write_files(files)
    except OSError as error:
        raise write_error(folder, error, "folder") from None
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
            size = f"{4 * longest * len(ids):,} bytes in .npz, where all are as long as the longest"
            raise InputError(f"the ids would take {size}, of {longest:,} characters", hint="write .parquet")
        cut = next((text for text in ids if text.endswith("\0")), None)
        if cut is not None:
            problem = f"the node id {format_value(cut)} ends in a zero, which .npz would drop"
            raise InputError(problem, hint="write .parquet")
        ids = np.array(ids, f"U{max(longest, 1)}")
    np.savez(stream, ids=ids, vectors=np.ascontiguousarray(export.vectors))


def _as_graphml(export: Export, stream: BinaryIO) -> None:
    # Tools display "label" beside a node, which is its id.
    attributes = {name.replace("label", "known_label"): column for name, column in export.attributes.items()}
    write_graphml(stream, export.graph, export.texts, attributes)


def _as_text(delimiter: str, export: Export, stream: BinaryIO) -> None:
    write_text_table(stream, {"node": export.ids} | export.vector_columns, delimiter, exact=export.exact)


VECTORS: Mapping[str, Callable[[Export, BinaryIO], None]] = {
    ".parquet": lambda export, stream: write_parquet_table(stream, {"node": export.ids, "vector": export.vectors}),
    ".csv": partial(_as_text, ","),
    ".tsv": partial(_as_text, "\t"),
    ".txt": lambda export, stream: write_word2vec_text(stream, export.texts, export.vectors),
    ".bin": lambda export, stream: write_word2vec_binary(stream, export.texts, export.vectors),
    ".npz": _as_npz,
    ".graphml": _as_graphml,
}


def _as_metadata(export: Export, stream: BinaryIO) -> None:
    """Write a line for each node, without quotes; the projector expects no header above a single column."""
    columns = {"node": export.texts} | export.attributes
    rows = zip(*columns.values(), strict=True)
    escape: Callable[[str], str] = str if export.exact else escape_formula

    def cell(value: str | float | None) -> str:
        return "" if value is None else _LINES.sub(" ", escape(value)) if isinstance(value, str) else repr(value)

    lines = ["\t".join(map(cell, row)) for row in (*([tuple(columns)] if len(columns) > 1 else []), *rows)]
    stream.write("".join(f"{line}\n" for line in lines).encode())


TABLES = (".csv", ".tsv", ".parquet", ".json")


def write_predictions(
    file: FilePath, columns: Mapping[str, Any], to_json: Callable[[], Mapping[str, Any]], *, exact: bool = False
) -> Path:
    """Write predictions in one of the formats `TABLES`: columns as a table, or what `to_json` returns as JSON."""
    suffix, path = file_format(file, TABLES), writable_file(file)
    if suffix == ".json":
        if _is_model_file(path):
            raise InputError(f"{path} belongs to a model that cge has saved", hint="choose another file")
        text = json.dumps(to_json(), ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace") + b"\n"
        write_files({path: lambda stream: stream.write(text)})
    elif suffix == ".parquet":
        write_files({path: lambda stream: write_parquet_table(stream, columns)})
    else:
        delimiter = "," if suffix == ".csv" else "\t"
        write_files({path: lambda stream: write_text_table(stream, columns, delimiter, exact=exact)})
    return path


def _is_model_file(path: Path) -> bool:
    try:
        return path.stat().st_size <= MAX_BYTES and is_manifest(json.loads(path.read_bytes()))
    except (OSError, ValueError, RecursionError):
        return False
