"""Files as people have them: pandas' index, missing labels and features, any header, labels with separators, typos."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cge
from cge.cli.main import run
from cge.errors import FileFormatError, InputError, UnknownNodeError
from tests.integration.commands import json_of

PAIRS = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("a", "c"), ("b", "d")]


@pytest.fixture
def edges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> cge.Graph:
    monkeypatch.chdir(tmp_path)
    Path("edges.csv").write_text("source,target\n" + "".join(f"{u},{v}\n" for u, v in PAIRS))
    return cge.read_graph("edges.csv")


def notes_of(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    notes: list[str] = json_of(capsys, "check", *words)["notes"]
    return notes


# ---------------------------------------------------------------------- pandas' index


@pytest.mark.parametrize("names", [("source", "target"), ("paper", "cites")])
@pytest.mark.parametrize("kind", ["text", "numbers", "parquet", "filtered"])
def test_an_index_of_pandas_is_not_read(names: tuple[str, str], kind: str, tmp_path: Path) -> None:
    frame = pd.DataFrame(PAIRS, columns=names)
    if kind == "numbers":
        frame = frame.map(lambda name: ord(name) * 7)
    if kind == "filtered":
        frame = frame[[False, *[True] * 5]]
    file = tmp_path / ("e.parquet" if kind == "parquet" else "e.csv")
    frame.to_parquet(file, index=True) if kind == "parquet" else frame.to_csv(file)
    graph = cge.read_graph(file)
    assert (len(graph), graph.num_edges) == (4, len(frame))


def test_new_edges_have_the_columns_of_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, model, new = tmp_path / "e.csv", str(tmp_path / "model"), tmp_path / "new.csv"
    pd.DataFrame(PAIRS, columns=["paper", "cites"]).assign(count=1).to_csv(file)
    (tmp_path / "labels.csv").write_text("node,label\na,x\nb,y\n")
    reading = ["--source", "paper", "--target", "cites", "--labels", str(tmp_path / "labels.csv")]
    quick = ["--classifier", "mlp", "--weighting", "degree", "--max-epochs", "2"]
    assert notes_of(capsys, str(file), *reading)[0].startswith("the column 'count' is not read")
    assert run(["fit", str(file), *reading, *quick, "--out", model, "--quiet"]) == 0
    capsys.readouterr()
    for text in ("paper,cites\nnew,a\n", ",year,cites,paper\n0,1999,a,new\n"):
        new.write_text(text)
        result = json_of(capsys, "predict", model, "--graph", str(new))
        assert [row["node"] for row in result["predictions"]] == ["new"]
        assert not any("--header" in note for note in result["notes"])
    new.write_text("from where,to where\nnew,a\nnew,b\n")
    for words in (["predict"], ["explain", "--node", "new"]):
        assert run([words[0], model, "--graph", str(new), *words[1:]]) == 0
        assert "if it names the columns, pass --header" in capsys.readouterr().err
    assert cge.load(model).fit_call_["edge_columns"] == ("paper", "cites")


def test_a_column_that_counts_the_rows_is_recognized_or_asked_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "e.csv"
    rows = [f"{k},{u},{v}\n" for k, (u, v) in enumerate(PAIRS)]
    for header in ("", "row,x,y\n"):
        file.write_text("".join([header, *rows]))
        assert cge.read_graph(file).neighbors("a") == ["b", "c", "d"]
        assert "the first column was read as an index" in notes_of(capsys, str(file))[0]
    file.write_text("".join(f"{k},{ord(u)},{ord(v)}\n" for k, (u, v) in enumerate(PAIRS)))
    with pytest.raises(FileFormatError, match="line 1: column 1 counts the rows, so it may be an index; say which col"):
        cge.read_graph(file)
    assert len(cge.read_graph(file, source=2, target=3)) == 4
    assert cge.read_graph(file, weighted=True).weights is not None
    file.write_text("".join(f"{k},{k + 1},0.5\n" for k in range(9)))  # a path with weights
    assert len(cge.read_graph(file)) == 10
    file.write_text(",u,v1,year\n0,a,b,1990\n1,b,c,1991\n")
    with pytest.raises(FileFormatError, match="column 1 has no name, of the columns '', 'u', 'v1', 'year'; say which"):
        cge.read_graph(file)


def test_an_index_in_labels_and_features(edges: cge.Graph) -> None:
    pd.DataFrame({"paper": ["a", "b"], "field": ["x", "y"]}).to_csv("labels.csv")
    codes, names = cge.read_labels("labels.csv", edges)
    assert (codes.tolist(), names) == ([0, 1, -1, -1], ("x", "y"))
    pd.DataFrame({"node": list("abcd"), "f": range(4)}).to_csv("x.csv")
    assert cge.read_graph("edges.csv", "x.csv").features.tolist() == [[0], [1], [2], [3]]
    pd.DataFrame(np.eye(4), index=list("abcd")).to_csv("x.csv", index_label="paper")  # columns are called 0, 1, 2, 3
    assert cge.read_graph("edges.csv", "x.csv").features.shape == (4, 4)


# ---------------------------------------------------------------------- labels


def test_a_header_with_any_names(edges: cge.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    Path("labels.csv").write_text("paper,field\na,x\nb,y\nc,y\n")
    assert cge.read_labels("labels.csv", edges)[1] == ("x", "y")
    notes = notes_of(capsys, "edges.csv", "--labels", "labels.csv")
    assert notes == [
        "labels.csv, line 1: 'paper', 'field' were read as names of the columns, for there is no such node"
    ]
    with pytest.raises(UnknownNodeError, match="'paper'"):
        cge.read_labels("labels.csv", edges, header=False)
    Path("labels.csv").write_text("aa,x\nb,x\nc,y\n")  # another row has its class, so the node is wrong
    with pytest.raises(UnknownNodeError, match=r"node 'aa' in labels\.csv is not in the graph"):
        cge.read_labels("labels.csv", edges)
    Path("labels.csv").write_text("b,x\nc,y\na,x\n")
    assert json_of(capsys, "check", "edges.csv", "--labels", "labels.csv", "--label-header")["labeled"] == 2


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_missing_labels_are_left_out(suffix: str, edges: cge.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    frame = pd.DataFrame({"node": ["a", "b", "c", "zz"], "label": ["x", None, "nan", "y"]})
    file = f"labels.{suffix}"
    frame.to_csv(file, index=False) if suffix == "csv" else frame.to_parquet(file)
    with pytest.raises(FileFormatError, match=r"label is (empty|missing)"):
        cge.read_labels(file, edges)
    codes, names = cge.read_labels(file, edges, missing_labels="skip")
    assert (codes.tolist(), names) == ([0, -1, -1, -1], ("x",))
    notes = notes_of(capsys, "edges.csv", "--labels", file, "--missing-labels", "skip")
    assert notes == [
        f"{file}: 2 rows without a label left out",
        f"{file}: 1 row whose node is not in the graph left out",
    ]
    assert run(["check", "edges.csv", "--labels", file]) == 2
    assert suffix == "parquet" or "pass --missing-labels skip to leave such rows out" in capsys.readouterr().err
    with pytest.raises(InputError, match="missing_labels must be 'error' or 'skip', found 'x'"):
        cge.read_labels(file, edges, missing_labels="x")


def test_numbers_of_pandas_with_missing_ones_are_labels(edges: cge.Graph) -> None:
    pd.DataFrame({"node": ["a", "b", "c"], "label": [10.0, None, 9.0]}).to_parquet("labels.parquet")
    codes, names = cge.read_labels("labels.parquet", edges, missing_labels="skip")
    assert [names[code] for code in codes[[0, 2]]] == ["10", "9"]


def test_labels_with_a_separator_are_not_cut(edges: cge.Graph) -> None:
    Path("labels.csv").write_text("a,New York, NY\nb,Paris, FR\n")
    with pytest.raises(FileFormatError, match="line 1: found 3 columns without a header, expected a node and a label"):
        cge.read_labels("labels.csv", edges)
    Path("labels.csv").write_text("node,label\na,Paris\nb,New York, NY\n")
    with pytest.raises(FileFormatError, match=r"line 3: expected 2 columns .* put a label that contains the separator"):
        cge.read_labels("labels.csv", edges)


def test_labels_that_are_almost_equal_are_noted(edges: cge.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    Path("labels.csv").write_text('node,label\na,Deep Learning\nb,"deep  learning "\nc,x\n')
    notes = notes_of(capsys, "edges.csv", "--labels", "labels.csv")
    text = "differ only in case or blanks, and are separate classes"
    assert notes == [f"labels.csv: the labels 'Deep Learning', 'deep  learning ' {text}"]


# ---------------------------------------------------------------------- features


def test_missing_rows_of_features(edges: cge.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    Path("x.csv").write_text("node,f,g\na,1,2\nb,3,6\nc,5,1\n")
    with pytest.raises(FileFormatError, match="1 node of the graph has no row, the first: 'd'; give each node"):
        cge.read_graph("edges.csv", "x.csv")
    rows: dict[str, Any] = {"zero": [0, 0], "mean": [3, 3]}
    for how, row in rows.items():
        graph = cge.read_graph("edges.csv", "x.csv", missing_features=how)
        assert graph.features[graph.index_of("d")].tolist() == row
        notes = notes_of(capsys, "edges.csv", "--features", "x.csv", "--missing-features", how)
        text = "zero" if how == "zero" else "the mean of the others"
        assert notes == [f"x.csv: the features of 1 node without a row are {text}"]
    with pytest.raises(InputError, match="missing_features must be 'error', 'zero' or 'mean', found 'x'"):
        cge.read_graph("edges.csv", "x.csv", missing_features="x")


# ---------------------------------------------------------------------- typos


def test_similar_names_are_suggested(edges: cge.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    graph = cge.Graph.from_edges([("Hinton", "LeCun"), ("LeCun", "Bengio")])
    for typo, name in {"hinton ": "Hinton", "LeCunn": "LeCun"}.items():
        with pytest.raises(UnknownNodeError, match=rf"is not in the graph \(did you mean '{name}'\?\)"):
            graph.index_of(typo)
    Path("labels.csv").write_text("node,lable\na,x\nb,y\n")
    for words, message in {
        "evaluate corra": "there is no data set and no folder 'corra'; did you mean 'cora'? the data sets are",
        "evaluate cora --method depwalk": "there is no method 'depwalk'; did you mean 'deepwalk'? choose one of",
        "evaluate cora --set hopps=3": "cge has no setting 'hopps'; did you mean 'hops'? it has",
        "check edges.csv --labels labels.csv --label-column label": "did you mean 'lable'? the columns are",
    }.items():
        assert run(words.split()) == 2
        assert message in capsys.readouterr().err


def test_hints_name_options_of_the_command_only(edges: cge.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    Path("data").mkdir()
    Path("data/edges.csv").write_text("1,2\n2,3\na,3\n")
    Path("data/labels.csv").write_text("node,label\n1,x\n2,y\n")
    assert run(["evaluate", "data"]) == 2
    error = capsys.readouterr().err
    assert "ids" not in error.partition("found 'a'")[2]
    assert "correct the file, or read it by 'cge check' and 'cge fit', which have options for it" in error
    assert run(["check", "data/edges.csv"]) == 2
    assert "pass --ids str" in capsys.readouterr().err
