"""The citation text of AMiner (Tang et al., 2008): papers, venues, references.

A paper is a run of lines, each with a tag in front::

    #*Learning which paths matter        title: begins a paper
    #@A. Author;B. Author                authors
    #t2019                               year
    #cKDD                                venue
    #index17                             id
    #%3                                  id of a paper that it cites; as many lines as references
    #!We learn …                         abstract

The file (gigabytes) is streamed in blocks of lines, and each block is taken apart by whole columns: there is no Python
loop over lines. Lines without a known tag are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from cge.data.dataset import Dataset
from cge.errors import FileFormatError, InputError, format_value
from cge.graph import Graph
from cge.ids import IdIndex, factorize

__all__ = ["read_aminer"]

Array = npt.NDArray[Any]

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
        The venues that make classes, as spelled in the file; all of them by default.
    others : bool
        Keep papers of other venues, or of none, unlabeled. By default they are left out.
    directed : bool
        Keep the direction of citations, from the citing paper to the cited.

    Node ids are those of the file, as text. References to papers that are not in the graph are left out and counted in
    `notes`.
    """
    papers = _Papers()
    for number, lines in _numbered_blocks(path):
        papers.add(path, number, lines)
    if not papers.count:
        raise FileFormatError(path, "holds no paper: a paper begins with a line '#*title'")
    ids, has_id = papers.column("id")
    if not has_id.all():
        line = papers.lines()[np.flatnonzero(~has_id)[0]]
        raise FileFormatError(path, "the paper that begins here has no line '#index'", int(line))
    index = IdIndex(ids)
    twice = index.first_duplicate()
    if twice is not None:
        raise FileFormatError(path, f"the id {format_value(twice)} stands for two papers")
    labels, names = _labels(*papers.column("venue"), venues)

    kept = np.ones(len(ids), bool) if others else labels >= 0
    number_of = np.where(kept, np.cumsum(kept) - 1, -1)
    citing, cited_ids = papers.references()
    cited = index.find(cited_ids)
    source, target = number_of[citing], np.where(cited >= 0, number_of[cited], -1)
    inside = (source >= 0) & (target >= 0)
    left_out = int(np.count_nonzero((source >= 0) & ~inside))
    return Dataset(
        Path(path).name.partition(".")[0],
        Graph.from_codes(source[inside], target[inside], ids[kept], directed=directed),
        labels[kept],
        names,
        node_titles=papers.column("title")[0][kept],
        notes=f"classes are venues; {left_out:,} references to papers that are not in the graph were left out",
        citation="J. Tang et al.: ArnetMiner: Extraction and mining of academic social networks. KDD 2008",
    )


def _labels(venue: Array, known: Array, wanted: Sequence[str] | None) -> tuple[Array, tuple[str, ...]]:
    """Return the class of each paper and the names of the classes, in the order wanted or of first appearance."""
    known = known & (venue != "")
    codes, found = factorize(venue[known])
    if wanted is None:
        place = np.arange(len(found))
    else:
        names = found.tolist()
        missing = [name for name in wanted if name not in names]
        if missing:
            some = ", ".join(format_value(name) for name in names[:5])
            raise InputError(f"no paper is in the venue {format_value(missing[0])}; venues in the file are {some}, …")
        order = {name: number for number, name in enumerate(dict.fromkeys(wanted))}
        place = np.array([order.get(name, -1) for name in names], np.int64)
        found = np.array(list(order), object)
    labels = np.full(len(venue), -1, np.int64)
    labels[known] = place[codes]
    return labels, tuple(found.tolist())


def _numbered_blocks(path: str | Path) -> Iterator[tuple[int, pa.Array]]:
    """Yield blocks of lines as bytes, each with the number of its first line."""
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            reader = pa_csv.open_csv(
                stream,
                pa_csv.ReadOptions(column_names=["line"], block_size=_BLOCK, use_threads=False),
                # One column: the separator is a byte that text does not hold.
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
    """What the blocks hold so far: for each tag the papers (numbers) and texts of its lines."""

    count: int = 0
    begins: list[Array] = field(default_factory=list)
    owners: dict[str, list[Array]] = field(default_factory=lambda: {name: [] for name in _TAGS})
    texts: dict[str, list[Array]] = field(default_factory=lambda: {name: [] for name in _TAGS})

    def add(self, path: str | Path, first_line: int, lines: pa.Array) -> None:
        """Take the tagged lines out of a block."""
        tagged = {name: _places(lines, tag) for name, tag in _TAGS.items()}
        begins = np.zeros(len(lines), bool)
        begins[tagged["title"]] = True
        paper = self.count + np.cumsum(begins) - 1
        for name, places in tagged.items():
            orphan = places[paper[places] < 0]
            if len(orphan):
                raise FileFormatError(path, "a paper must begin with a line '#*title'", first_line + int(orphan[0]))
            self.owners[name].append(paper[places])
            self.texts[name].append(_texts(lines.take(pa.array(places)), len(_TAGS[name])))
        self.begins.append(first_line + tagged["title"])
        self.count += len(tagged["title"])

    def column(self, name: str) -> tuple[Array, Array]:
        """Return the text of a tag for each paper (the last, if it stands twice), and whether there is one."""
        values, present = np.full(self.count, "", object), np.zeros(self.count, bool)
        owners = np.concatenate(self.owners[name])
        values[owners], present[owners] = np.concatenate(self.texts[name]), True
        return values, present

    def references(self) -> tuple[Array, Array]:
        """Return the citing paper (number) and the cited one (id) of each reference."""
        return np.concatenate(self.owners["reference"]), np.concatenate(self.texts["reference"])

    def lines(self) -> Array:
        """Return the number of the line on which each paper begins."""
        return np.concatenate(self.begins)


def _places(lines: pa.Array, tag: bytes) -> Array:
    return np.flatnonzero(pc.starts_with(lines, pattern=tag).to_numpy(zero_copy_only=False))


def _texts(lines: pa.Array, skip: int) -> Array:
    """Return what follows the tag, without blanks around it; bytes that are not UTF-8 become �."""
    tails = pc.binary_slice(lines, skip, _BLOCK)  # the end must be given; no line is longer than a block
    try:
        text = tails.cast(pa.large_string())
    except pa.ArrowInvalid:
        text = pa.array([tail.decode("utf-8", "replace") for tail in tails.to_pylist()], pa.large_string())
    return np.asarray(pc.utf8_trim_whitespace(text).to_numpy(zero_copy_only=False))
