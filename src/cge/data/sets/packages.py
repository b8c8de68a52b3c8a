"""Graphs of software packages: Debian 12 and npm.

Edges point from a package to one that it depends on. By default they are read as undirected, the usual choice for
random walks. `directed=True` keeps the directions.
"""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from cge.arrays import Array
from cge.data.dataset import Dataset
from cge.data.sets.tsv import read_columns
from cge.errors import FileFormatError
from cge.graph import Graph
from cge.ids import factorize

_MAX_WORDS = 5_000  # the most frequent ones; a word must be in _MIN_PACKAGES descriptions
_MIN_PACKAGES = 5


def load_debian(folder: str | Path, *, directed: bool = False, edge_types: bool = True) -> Dataset:
    """Read the packages of Debian 12: sections as classes, TF-IDF of the one-line descriptions as features.

    Node ids are package names, titles the descriptions. Edge types are the kinds of dependency (Depends, Recommends,
    …); two packages may have edges of several types. `edge_types=False` merges them.
    """
    folder = Path(folder)
    nodes_path, edges_path = (folder / f"debian12_packages.{part}.tsv.gz" for part in ("nodes", "edges"))
    nodes = read_columns(nodes_path, {"id": int, "name": str, "section": str, "description": str}, header=True)
    edges = read_columns(edges_path, {"source": int, "target": int, "kind": str}, header=False)
    _check_numbering(nodes_path, nodes["id"], edges_path, edges["source"], edges["target"])
    graph = Graph.from_codes(
        edges["source"],
        edges["target"],
        nodes["name"],
        edge_types=edges["kind"] if edge_types else None,
        directed=directed,
    ).with_features(_tf_idf(nodes_path, nodes["description"]))
    codes, sections = factorize(nodes["section"])
    order = np.argsort(sections.astype(str))
    return Dataset(
        "debian",
        graph,
        np.argsort(order)[codes],
        tuple(sections[order].tolist()),
        node_titles=nodes["description"],
        notes=f"classes are sections; features are TF-IDF of descriptions, words in at least {_MIN_PACKAGES} packages, "
        f"at most {_MAX_WORDS:,} of them; no published split",
        citation="Debian 12 package index, https://packages.debian.org",
    )


def load_npm(folder: str | Path, *, directed: bool = False) -> Dataset:
    """Read the npm packages of December 2016 and what they depend on; there are no labels and no features.

    Node ids are package names.
    """
    folder = Path(folder)
    names_path, edges_path = (folder / f"npm_deps_2016-12.{part}.txt.gz" for part in ("names", "edges"))
    names = _json_lines(names_path)
    edges = read_columns(edges_path, {"source": int, "target": int}, header=False)
    _check_numbering(names_path, np.arange(len(names)), edges_path, edges["source"], edges["target"])
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
    names = np.empty(len(values), object)
    names[:] = values
    return names


def _check_numbering(nodes_path: Path, numbers: Array, edges_path: Path, source: Array, target: Array) -> None:
    if not np.array_equal(numbers, np.arange(len(numbers))):
        raise FileFormatError(nodes_path, "must number its nodes 0, 1, 2, …")
    for endpoints in (source, target):
        wrong = np.flatnonzero((endpoints < 0) | (endpoints >= len(numbers)))
        if len(wrong):
            line = int(wrong[0]) + 1
            raise FileFormatError(edges_path, f"found node {endpoints[wrong[0]]}, but there are {len(numbers):,}", line)
