"""The registry of file formats: built-in ones, and formats that a user adds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import cge
from cge.cli.main import run
from cge.data import load_folder, register_format
from cge.data.files import formats
from cge.data.files.update_files import read_graph_update
from cge.errors import FileFormatError, InputError


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Formats that a test registers are gone after it."""
    monkeypatch.setattr(formats, "_FORMATS", list(formats._FORMATS))


def read_records(path: Path) -> dict[str, list[Any]]:
    """Read a toy format: records separated by `|`, fields by `=`, as in `source=ann target=bob | source=bob …`."""
    records = [dict(field.split("=") for field in record.split()) for record in path.read_text().split("|")]
    numeric = {"weight", "age"}
    return {
        name: [float(record[name]) if name in numeric else record[name] for record in records] for name in records[0]
    }


def write_records(path: Path, *records: str) -> Path:
    path.write_text(" | ".join(records))
    return path


def test_a_table_format_from_outside_is_read_by_the_library_and_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register_format("records", (".rec",), table=read_records)
    edges = write_records(tmp_path / "edges.rec", "source=ann target=bob weight=2", "source=bob target=cy weight=0.5")
    features = write_records(
        tmp_path / "features.rec", *(f"node={node} age={len(node)}" for node in ("cy", "bob", "ann"))
    )
    labels = write_records(tmp_path / "labels.rec", "node=ann label=red", "node=cy label=blue")
    nodes = write_records(tmp_path / "nodes.rec", "id=cy", "id=bob", "id=ann")

    graph = cge.read_graph(edges, features, nodes=nodes)
    assert graph.node_ids.tolist() == ["cy", "bob", "ann"]
    assert graph.weights is not None
    assert graph.features is not None
    assert graph.features.tolist() == [[2], [3], [3]]
    assert graph.feature_names == ("age",)
    assert cge.read_labels(labels, graph)[0].tolist() == [0, -1, 1]
    split = write_records(tmp_path / "split.rec", "node=ann role=train", "node=cy role=test")
    assert load_folder(tmp_path).split == cge.Split([2], [], [0])
    split.unlink()
    update, _ = read_graph_update(graph, write_records(tmp_path / "new.rec", "source=dan target=ann weight=1"))
    assert update.num_edges == 1

    assert run(["check", str(edges), "--labels", str(labels), "--features", str(features), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["graph"]["nodes"] == 3
    assert printed["reading"]["columns"] == {"source": "source", "target": "target", "weight": "weight"}
    assert printed["classes"] == {"blue": 1, "red": 1}


def test_an_array_format_from_outside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    register_format("JSON pairs", (".pairs",), edges=lambda path: json.loads(path.read_text()))
    path = tmp_path / "friends.pairs"
    path.write_text('[["ann", "bob"], ["bob", "cy"]]')
    assert cge.read_graph(path).neighbors("bob") == ["ann", "cy"]
    assert run(["check", str(path)]) == 0
    assert capsys.readouterr().err == ""
    register_format("identity", (".eye",), features=lambda _: np.eye(3), edges=lambda _: sp.csr_array(1 - np.eye(3)))
    (tmp_path / "x.eye").touch()
    graph = cge.read_graph(tmp_path / "x.eye", tmp_path / "x.eye")
    assert (graph.num_edges, graph.features.shape) == (3, (3, 3))  # type: ignore[union-attr]
    with pytest.raises(FileFormatError, match=r"x.eye: the suffix '.eye' is not one of .csv, .* .parquet, .pq; rename"):
        cge.read_labels(tmp_path / "x.eye", graph)


def test_what_goes_wrong_in_a_format_from_outside_names_the_file(tmp_path: Path) -> None:
    register_format("records", (".rec",), table=read_records)
    path = tmp_path / "edges.rec"
    with pytest.raises(FileFormatError, match=r"edges.rec: there is no such file; check its path"):
        cge.read_graph(path)
    path.write_text("no fields")
    with pytest.raises(FileFormatError, match=r"edges.rec: cannot be read as records \(ValueError: dictionary"):
        cge.read_graph(path)
    write_records(path, "source=a target=b weight=-1")
    with pytest.raises(FileFormatError, match=r"expected positive, finite numbers as weight, found -1.0 in row 1"):
        cge.read_graph(path)
    register_format("ragged", (".rag",), table=lambda _: {"source": [1], "target": [1, 2]})
    (tmp_path / "edges.rag").touch()
    with pytest.raises(FileFormatError, match=r"edges.rag: expected columns of equal length"):
        cge.read_graph(tmp_path / "edges.rag")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((),), "suffixes must be lower-case suffixes such as '.gml', found ()"),
        ((("gml",),), "suffixes must be lower-case suffixes such as '.gml', found ('gml',)"),
        (((".new", ".csv"),), "the suffix '.csv' belongs to the format 'text'; choose another"),
        (((".gz",),), "the suffix '.gz' belongs to the format 'gzip'; choose another"),
    ],
)
def test_suffixes_are_checked(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError) as error:
        register_format("toy", *arguments, table=read_records)
    assert str(error.value) == message


def test_a_format_reads_something() -> None:
    with pytest.raises(InputError, match="the format 'toy' reads nothing; pass table, edges, features or nodes"):
        register_format("toy", (".toy",))


def test_a_registered_format_replaces_the_message_for_an_unsupported_one(tmp_path: Path) -> None:
    path = tmp_path / "edges.gml"
    path.write_text("a b")
    with pytest.raises(FileFormatError, match="this format is not supported"):
        cge.read_graph(path)
    register_format("GML", (".gml",), edges=lambda file: [file.read_text().split()])
    assert cge.read_graph(path).num_edges == 1


def test_help_texts_list_the_suffixes_of_each_content() -> None:
    text = ".csv, .tsv, .txt (each also .gz)"
    assert formats.list_suffixes("edges") == f"{text}, .parquet, .npy, .npz or .mtx"
    assert formats.list_suffixes("features") == f"{text}, .parquet, .npy or .npz"
    assert formats.list_suffixes("nodes") == f"{text}, .parquet or .npy"
    register_format("toy", (".toy", ".t"), table=read_records)
    assert formats.list_suffixes("labels") == f"{text}, .parquet or .toy"
