"""Data sets that are published as tab-separated tables: papers of IEEE VIS, packages of Debian 12 and npm.

Edges point from a paper to one that it cites, from a package to one that it depends on. By default they are read as
undirected, the usual choice for random walks. `directed=True` keeps the directions.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import scipy.sparse as sp

from cge.arrays import Array
from cge.data.dataset import Dataset
from cge.errors import FileFormatError
from cge.graph import Graph
from cge.ids import factorize

_MAX_WORDS = 5_000  # the most frequent ones; a word must be in _MIN_PACKAGES descriptions
_MIN_PACKAGES = 5


def load_vispub(folder: str | Path, *, directed: bool = False) -> Dataset:
    """Read the papers of IEEE VIS, 1990-2015, and their citations; venues are classes, node ids are DOIs."""
    nodes_path, edges_path = Path(folder) / "nodes.tsv", Path(folder) / "edges.tsv"
    nodes = _read_columns(nodes_path, {"id": int, "doi": str, "venue": str, "title": str}, header=True)
    edges = _read_columns(edges_path, {"source": int, "target": int}, header=False)
    _check_numbering(nodes_path, nodes["id"], edges_path, edges)
    codes, venues = factorize(nodes["venue"])
    return Dataset(
        "vispub",
        Graph.from_codes(edges["source"], edges["target"], nodes["doi"], directed=directed),
        codes,
        tuple(venues.tolist()),
        node_titles=nodes["title"],
        notes="classes are venues; no features; no published split",
        citation="P. Isenberg et al.: vispubdata.org: A metadata collection about IEEE Visualization (VIS) "
        "publications. IEEE Transactions on Visualization and Computer Graphics 23(9), 2017",
    )


def load_debian(folder: str | Path, *, directed: bool = False, edge_types: bool = True) -> Dataset:
    """Read the packages of Debian 12: sections as classes, TF-IDF of the one-line descriptions as features.

    Node ids are package names, titles the descriptions. Edge types are the kinds of dependency (Depends, Recommends,
    …); two packages may have edges of several types. `edge_types=False` merges them.
    """
    nodes_path, edges_path = (Path(folder) / f"debian12_packages.{part}.tsv.gz" for part in ("nodes", "edges"))
    nodes = _read_columns(nodes_path, {"id": int, "name": str, "section": str, "description": str}, header=True)
    edges = _read_columns(edges_path, {"source": int, "target": int, "kind": str}, header=False)
    _check_numbering(nodes_path, nodes["id"], edges_path, edges)
    types = edges["kind"] if edge_types else None
    graph = Graph.from_codes(edges["source"], edges["target"], nodes["name"], edge_types=types, directed=directed)
    codes, sections = factorize(nodes["section"])
    order = np.argsort(sections.astype(str))
    return Dataset(
        "debian",
        graph.with_features(_tf_idf(nodes_path, nodes["description"])),
        np.argsort(order)[codes],
        tuple(sections[order].tolist()),
        node_titles=nodes["description"],
        notes=f"classes are sections; features are TF-IDF of descriptions, words in at least {_MIN_PACKAGES} packages, "
        f"at most {_MAX_WORDS:,} of them; no published split",
        citation="Debian 12 package index, https://packages.debian.org",
    )


def load_npm(folder: str | Path, *, directed: bool = False) -> Dataset:
    """Read the npm packages of December 2016 and what they depend on, without labels; node ids are package names."""
    names_path, edges_path = (Path(folder) / f"npm_deps_2016-12.{part}.txt.gz" for part in ("names", "edges"))
    names = _json_lines(names_path)
    edges = _read_columns(edges_path, {"source": int, "target": int}, header=False)
    _check_numbering(names_path, np.arange(len(names)), edges_path, edges)
    return Dataset(
        "npm",
        Graph.from_codes(edges["source"], edges["target"], names, directed=directed),
        np.full(len(names), -1),
        notes="no labels and no features: for measuring at scale",
        citation="package dependent-packages 2.2.2, from the npm registry, December 2016",
    )


def _tf_idf(path: Path, texts: Array) -> sp.csr_array:
    """Return TF-IDF rows of unit length, `(n, words)`."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # slow to import, and only needed here

    vectorizer = TfidfVectorizer(min_df=_MIN_PACKAGES, max_features=_MAX_WORDS, dtype=np.float32)
    try:
        return sp.csr_array(vectorizer.fit_transform(texts))
    except ValueError:  # no word remains
        raise FileFormatError(path, f"no word is in {_MIN_PACKAGES} descriptions; fetch the file again") from None


def _json_lines(path: Path) -> Array:
    """Return one JSON string per line, read as one JSON list."""
    try:
        lines = gzip.decompress(path.read_bytes()).splitlines()
        values = json.loads(b"[" + b",".join(lines) + b"]")
    except (OSError, EOFError, ValueError, RecursionError, zlib.error) as error:
        raise FileFormatError(path, f"cannot be read as gzipped JSON strings, one per line: {error}") from None
    if len(values) != len(lines) or not all(type(value) is str for value in values):
        raise FileFormatError(path, "must contain one JSON string per line")
    return np.array(values, object)


def _read_columns(path: Path, columns: Mapping[str, type], *, header: bool) -> dict[str, Array]:
    """Return columns of `int` (int64) or `str` (objects) by name; plain or gzip, without quotes.

    With a header columns are selected by name, else by position.
    """
    types = {name: pa.int64() if kind is int else pa.large_string() for name, kind in columns.items()}
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            table = pa_csv.read_csv(
                stream,
                pa_csv.ReadOptions(column_names=None if header else list(columns)),
                pa_csv.ParseOptions(delimiter="\t", quote_char=False),
                pa_csv.ConvertOptions(column_types=types, include_columns=list(columns), strings_can_be_null=False),
            )
    except (OSError, KeyError, pa.ArrowException) as error:
        raise FileFormatError(path, f"cannot be read as tab-separated columns {', '.join(columns)}: {error}") from None
    for name in columns:
        if table.column(name).null_count:
            raise FileFormatError(path, f"column {name!r} has {table.column(name).null_count:,} empty fields")
    return {name: np.asarray(table.column(name).to_numpy()) for name in columns}


def _check_numbering(nodes_path: Path, numbers: Array, edges_path: Path, edges: Mapping[str, Array]) -> None:
    if not np.array_equal(numbers, np.arange(len(numbers))):
        raise FileFormatError(nodes_path, "must number its nodes 0, 1, 2, …")
    for endpoints in (edges["source"], edges["target"]):
        wrong = np.flatnonzero((endpoints < 0) | (endpoints >= len(numbers)))
        if len(wrong):
            line = int(wrong[0]) + 1
            raise FileFormatError(edges_path, f"found node {endpoints[wrong[0]]}, but there are {len(numbers):,}", line)
