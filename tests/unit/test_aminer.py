"""AMiner's citation text: papers, venues as classes, references as edges."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from cge.data.sets.aminer import read_aminer
from cge.errors import FileFormatError, InputError

TEXT = """4

#*First paper
#@A. Author;B. Author
#t1999
#cKDD
#index 1
#!An abstract
that goes on

#*Second, with é
#cICML
#index2
#%1
#%99

#*Third
#@
#c
#index3
#%1
#%2

#*Fourth
#cKDD
#index4
#%1
#%2
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "papers.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_papers_venues_and_references(path: Path) -> None:
    data = read_aminer(path)
    assert data.name == "papers"
    assert data.graph.node_ids.tolist() == ["1", "2", "4"]
    assert data.class_names == ("KDD", "ICML")
    assert data.labels.tolist() == [0, 1, 0]
    assert data.node_titles is not None
    assert data.node_titles.tolist() == ["First paper", "Second, with é", "Fourth"]
    assert sorted(data.graph.neighbors("1")) == ["2", "4"]
    assert data.notes == "classes are venues; 1 references to papers that are not in the graph were dropped"


def test_venues_select_classes_and_other_papers_may_be_kept(path: Path) -> None:
    chosen = read_aminer(path, ["ICML", "KDD"], directed=True)
    assert chosen.class_names == ("ICML", "KDD")
    assert chosen.labels.tolist() == [1, 0, 1]
    assert chosen.graph.neighbors("4") == ["1", "2"]
    assert chosen.graph.neighbors("1") == []
    selected = read_aminer(path, ["KDD"])
    assert (selected.graph.num_nodes, selected.graph.num_edges) == (2, 1)
    with_others = read_aminer(path, ["KDD"], others=True)
    assert with_others.labels.tolist() == [0, -1, -1, 0]
    assert with_others.graph.num_edges == 5


def test_compressed_files_and_other_encodings(tmp_path: Path) -> None:
    packed, latin = tmp_path / "papers.txt.gz", tmp_path / "latin.txt"
    packed.write_bytes(gzip.compress(TEXT.replace("\n", "\r\n").encode()))
    latin.write_bytes(TEXT.encode("latin1"))
    assert read_aminer(packed).graph.num_edges == 3
    titles = read_aminer(latin).node_titles
    assert titles is not None
    assert titles[1] == "Second, with \ufffd"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nothing\n", ": contains no paper: a paper starts with a line '#*title'"),
        ("\n#index4\n", ", line 2: a paper must start with a line '#*title'"),
        ("12\n\n#*a\n#cb\n#index1\n\n#*b\n", ", line 7: the paper that starts here has no line '#index'"),
        ("#*a\n#index1\n#*b\n#index1\n", ": two papers have the id '1'"),
    ],
)
def test_other_text_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(text)
    with pytest.raises(FileFormatError) as error:
        read_aminer(path)
    assert str(error.value) == f"{path}{problem}"


def test_an_unknown_venue_is_named(path: Path) -> None:
    with pytest.raises(InputError, match=r"^no paper is in the venue 'ICLR'; venues in the file are 'KDD', 'ICML', …$"):
        read_aminer(path, ["KDD", "ICLR"])
    with pytest.raises(FileFormatError, match=r"none\.txt: cannot be read as lines of text"):
        read_aminer(path.parent / "none.txt")
