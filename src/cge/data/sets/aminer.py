"""The citation text of AMiner (Tang et al., 2008): papers, venues, references.

A paper is a run of lines, each with a tag in front::

    #*Learning which paths matter        title: starts a paper
    #@A. Author;B. Author                authors
    #t2019                               year
    #cKDD                                venue
    #index17                             id
    #%3                                  id of a paper that it cites; as many lines as references
    #!We learn …                         abstract

The file (gigabytes) is streamed. Lines without a known tag are skipped.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from cge.arrays import Array
from cge.data.dataset import Dataset
from cge.errors import FileFormatError, InputError, format_value
from cge.graph import Graph
from cge.ids import IdIndex, factorize

_TITLE, _VENUE, _ID, _REFERENCE = _TAGS = ("#*", "#c", "#index", "#%")


def read_aminer(
    path: str | Path, venues: Sequence[str] | None = None, *, others: bool = False, directed: bool = False
) -> Dataset:
    """Read AMiner's citation text, plain or compressed (.gz, .bz2), as a graph of papers with venues as classes.

    Parameters
    ----------
    path : str or Path
    venues : sequence of str, optional
        The venues to use as classes, as spelled in the file; all of them by default.
    others : bool
        Keep papers of other venues, or of none, unlabeled. By default they are dropped.
    directed : bool
        Keep the direction of citations, from the citing paper to the cited.

    Node ids are those of the file, as text. References to papers that are not in the graph are dropped and counted in
    `notes`.
    """
    columns: dict[str, list[str]] = {tag: [] for tag in (_TITLE, _VENUE, _ID)}  # by paper: the last line of each tag
    first_lines: list[int] = []
    citing: list[int] = []
    cited_ids: list[str] = []
    for number, tag, text in _tagged_lines(path):
        if tag == _TITLE:
            first_lines.append(number)
            for values in columns.values():
                values.append("")
        if not first_lines:
            raise FileFormatError(path, "a paper must start with a line '#*title'", number)
        if tag == _REFERENCE:
            citing.append(len(first_lines) - 1)
            cited_ids.append(text)
        else:
            columns[tag][-1] = text
    if not first_lines:
        raise FileFormatError(path, "contains no paper: a paper starts with a line '#*title'")
    titles, paper_venues, ids = (np.array(values, object) for values in columns.values())
    if "" in columns[_ID]:
        line = first_lines[columns[_ID].index("")]
        raise FileFormatError(path, "the paper that starts here has no line '#index'", line)
    index = IdIndex(ids)
    duplicate = index.first_duplicate()
    if duplicate is not None:
        raise FileFormatError(path, f"two papers have the id {format_value(duplicate)}")
    labels, names = _labels(paper_venues, venues)

    in_graph = np.ones(len(ids), bool) if others else labels >= 0
    node_of = np.where(in_graph, np.cumsum(in_graph) - 1, -1)
    cited = index.find(cited_ids)
    source, target = node_of[np.array(citing, np.int64)], np.where(cited >= 0, node_of[cited], -1)
    inside = (source >= 0) & (target >= 0)
    dropped = int(np.count_nonzero((source >= 0) & ~inside))
    return Dataset(
        Path(path).name.partition(".")[0],
        Graph.from_codes(source[inside], target[inside], ids[in_graph], directed=directed),
        labels[in_graph],
        names,
        node_titles=titles[in_graph],
        notes=f"classes are venues; {dropped:,} references to papers that are not in the graph were dropped",
        citation="J. Tang et al.: ArnetMiner: Extraction and mining of academic social networks. KDD 2008",
    )


def _labels(venue: Array, selected: Sequence[str] | None) -> tuple[Array, tuple[str, ...]]:
    """Return the class of each paper and the names of the classes, as selected or in the order of first appearance."""
    has_venue = venue != ""
    codes, venues = factorize(venue[has_venue])
    if selected is None:
        class_of = np.arange(len(venues))
    else:
        names = venues.tolist()
        missing = [name for name in selected if name not in names]
        if missing:
            first = ", ".join(format_value(name) for name in names[:5])
            raise InputError(f"no paper is in the venue {format_value(missing[0])}; venues in the file are {first}, …")
        order = {name: index for index, name in enumerate(dict.fromkeys(selected))}
        class_of = np.array([order.get(name, -1) for name in names], np.int64)
        venues = np.array(list(order), object)
    labels = np.full(len(venue), -1, np.int64)
    labels[has_venue] = class_of[codes]
    return labels, tuple(venues.tolist())


def _tagged_lines(path: str | Path) -> Iterator[tuple[int, str, str]]:
    """Yield (line number, tag, text after it); bytes that are not UTF-8 become �."""
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            for number, line in enumerate(io.TextIOWrapper(stream, "utf-8", "replace"), 1):
                tag = next(filter(line.startswith, _TAGS), None)
                if tag is not None:
                    yield number, tag, line[len(tag) :].strip()
    except (OSError, EOFError, pa.ArrowException) as error:
        raise FileFormatError(path, f"cannot be read as lines of text: {error}") from None
