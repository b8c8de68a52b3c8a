"""The citation text of AMiner (Tang et al., 2008): papers, venues, references.

A paper is a run of lines, each with a tag in front::

    #*Learning which paths matter        title: starts a paper
    #@A. Author;B. Author                authors
    #t2019                               year
    #cKDD                                venue
    #index17                             id
    #%3                                  id of a paper that it cites; as many lines as references
    #!We learn …                         abstract

The file (gigabytes) is streamed in blocks of lines, and each block is parsed with column operations, without a Python
loop over lines. Lines without a known tag are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from cge.arrays import Array
from cge.data.dataset import Dataset
from cge.errors import FileFormatError, InputError, format_value
from cge.graph import Graph
from cge.ids import IdIndex, factorize

_BLOCK = 1 << 24  # bytes read at a time
_TAGS = {"title": b"#*", "venue": b"#c", "id": b"#index", "reference": b"#%"}


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
    papers = _Papers()
    for number, lines in _numbered_blocks(path):
        papers.add(path, number, lines)
    if not papers.count:
        raise FileFormatError(path, "contains no paper: a paper starts with a line '#*title'")
    ids, has_id = papers.column("id")
    if not has_id.all():
        line = papers.lines()[np.flatnonzero(~has_id)[0]]
        raise FileFormatError(path, "the paper that starts here has no line '#index'", int(line))
    index = IdIndex(ids)
    duplicate = index.first_duplicate()
    if duplicate is not None:
        raise FileFormatError(path, f"two papers have the id {format_value(duplicate)}")
    labels, names = _labels(*papers.column("venue"), venues)

    in_graph = np.ones(len(ids), bool) if others else labels >= 0
    node_of = np.where(in_graph, np.cumsum(in_graph) - 1, -1)
    citing, cited_ids = papers.references()
    cited = index.find(cited_ids)
    source, target = node_of[citing], np.where(cited >= 0, node_of[cited], -1)
    inside = (source >= 0) & (target >= 0)
    dropped = int(np.count_nonzero((source >= 0) & ~inside))
    return Dataset(
        Path(path).name.partition(".")[0],
        Graph.from_codes(source[inside], target[inside], ids[in_graph], directed=directed),
        labels[in_graph],
        names,
        node_titles=papers.column("title")[0][in_graph],
        notes=f"classes are venues; {dropped:,} references to papers that are not in the graph were dropped",
        citation="J. Tang et al.: ArnetMiner: Extraction and mining of academic social networks. KDD 2008",
    )


def _labels(venue: Array, has_venue: Array, selected: Sequence[str] | None) -> tuple[Array, tuple[str, ...]]:
    """Return the class of each paper and the names of the classes, as selected or in the order of first appearance."""
    has_venue = has_venue & (venue != "")
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


def _numbered_blocks(path: str | Path) -> Iterator[tuple[int, pa.Array]]:
    """Yield blocks of lines as bytes, each with the number of its first line."""
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            reader = pa_csv.open_csv(
                stream,
                pa_csv.ReadOptions(column_names=["line"], block_size=_BLOCK, use_threads=False),
                # One column: the separator is a byte that does not occur in text.
                pa_csv.ParseOptions(delimiter="\x01", quote_char=False, ignore_empty_lines=False),
                pa_csv.ConvertOptions(column_types={"line": pa.large_binary()}, strings_can_be_null=False),
            )
            number = 1
            for batch in reader:
                yield number, batch.column(0)
                number += batch.num_rows
    except (OSError, pa.ArrowException) as error:
        raise FileFormatError(path, f"cannot be read as lines of text: {error}") from None


@dataclass
class _Papers:
    """The content of the blocks read so far: for each tag the papers (indices) and texts of its lines."""

    count: int = 0
    first_lines: list[Array] = field(default_factory=list)
    owners: dict[str, list[Array]] = field(default_factory=lambda: {name: [] for name in _TAGS})
    texts: dict[str, list[Array]] = field(default_factory=lambda: {name: [] for name in _TAGS})

    def add(self, path: str | Path, first_line: int, lines: pa.Array) -> None:
        """Add the tagged lines of a block."""
        tagged = {name: _lines_with(lines, tag) for name, tag in _TAGS.items()}
        is_start = np.zeros(len(lines), bool)
        is_start[tagged["title"]] = True
        paper = self.count + np.cumsum(is_start) - 1
        for name, line_idx in tagged.items():
            orphan = line_idx[paper[line_idx] < 0]
            if len(orphan):
                raise FileFormatError(path, "a paper must start with a line '#*title'", first_line + int(orphan[0]))
            self.owners[name].append(paper[line_idx])
            self.texts[name].append(_texts(lines.take(pa.array(line_idx)), len(_TAGS[name])))
        self.first_lines.append(first_line + tagged["title"])
        self.count += len(tagged["title"])

    def column(self, name: str) -> tuple[Array, Array]:
        """Return the text of a tag for each paper (the last, if it occurs twice), and whether there is one."""
        values, present = np.full(self.count, "", object), np.zeros(self.count, bool)
        owners = np.concatenate(self.owners[name])
        values[owners], present[owners] = np.concatenate(self.texts[name]), True
        return values, present

    def references(self) -> tuple[Array, Array]:
        """Return the citing paper (index) and the cited one (id) of each reference."""
        return np.concatenate(self.owners["reference"]), np.concatenate(self.texts["reference"])

    def lines(self) -> Array:
        """Return the number of the line on which each paper starts."""
        return np.concatenate(self.first_lines)


def _lines_with(lines: pa.Array, tag: bytes) -> Array:
    return np.flatnonzero(pc.starts_with(lines, pattern=tag).to_numpy(zero_copy_only=False))


def _texts(lines: pa.Array, skip: int) -> Array:
    """Return the text after the tag, stripped; bytes that are not UTF-8 become �."""
    tails = pc.binary_slice(lines, skip, _BLOCK)  # the end is required; no line is longer than a block
    try:
        text = tails.cast(pa.large_string())
    except pa.ArrowInvalid:
        text = pa.array([tail.decode("utf-8", "replace") for tail in tails.to_pylist()], pa.large_string())
    return np.asarray(pc.utf8_trim_whitespace(text).to_numpy(zero_copy_only=False))
