"""Notes on labels that may have been read wrongly: a header read as a label, and names of missing labels."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

import cge
from cge.errors import InputError
from tests.integration.commands import json_of

NODES = [f"n{number}" for number in range(8)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(f"{u},{v}\n" for u, v in pairwise(NODES)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def notes(capsys: pytest.CaptureFixture[str], *more: str) -> list[str]:
    notes_printed: list[str] = json_of(capsys, "check", "edges.csv", "--labels", "labels.csv", *more)["notes"]
    return notes_printed


def labels(folder: Path, *lines: str) -> None:
    (folder / "labels.csv").write_text("".join(f"{line}\n" for line in lines))


def test_a_header_that_was_read_as_a_label(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rest = ["n0,tea", "n1,tea", "n2,wine", "n3,wine"]
    labels(folder, "person,drink", *rest)
    (folder / "nodes.txt").write_text("\n".join(["person", *NODES, ""]))  # as if the header were a node there, too
    first, note = notes(capsys, "--node-list", "nodes.txt")
    assert first.startswith("nodes.txt, line 1: 'person' was read as a node")
    assert note == (
        "labels.csv, line 1: 'person' was read as a node of the class 'drink', which occurs nowhere else; if the line "
        "names the columns, name them too by --node-column and --label-column"
    )
    assert notes(capsys, "--node-list", "nodes.txt", "--node-column", "person", "--label-column", "drink") == [first]
    labels(folder, "n4,rum", *rest, "n5,beer")  # classes of one node are nothing odd where there are several
    assert notes(capsys) == []


def test_a_header_and_unknown_nodes(folder: Path) -> None:
    labels(folder, "person,drink", "n0,tea", "n1,tea", "n2,wine", "stranger,wine")
    graph = cge.read_graph("edges.csv")
    with pytest.raises(InputError, match=r"node 'stranger' in labels.csv is not .*; remove these rows, add"):
        cge.read_labels("labels.csv", graph)


@pytest.mark.parametrize("name", ["nan", "NaN", "None", "N/A"])
def test_names_of_missing_labels(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels(folder, "node,label", "n0,tea", "n1,wine", f"n2,{name}", f"n3,{name}")
    (note,) = notes(capsys)
    assert note == (
        f"labels.csv: the label '{name}' (2 times) was read as a class like any other; if it means an unknown class, "
        "pass --missing-labels skip to leave such rows out"
    )
