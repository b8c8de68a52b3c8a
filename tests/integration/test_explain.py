"""`cge explain` as a person meets it, and explanations of CORA: quick, and true."""

from __future__ import annotations

import csv
import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import cge
from cge.cli.explain import _joined, _signed
from cge.cli.main import run
from cge.estimators.configs import make_estimator

EDGES = [
    ("=ann", "+bob"),
    ("+bob", "-cy"),
    ("-cy", "=ann"),
    ("@dan", "eve"),
    ("eve", "fay"),
    ("fay", "@dan"),
    ("-cy", "@dan"),
]
COLUMNS = ["path", "known labels", "edge types", "length", "diversity", "weight", "brings"]
LABELS = {"=ann": "=SUM(1)", "+bob": "=SUM(1)", "@dan": "mlp", "eve": "mlp"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of a small graph, whose ids and classes look like formulas."""
    graph = cge.Graph.from_edges(EDGES, edge_types=["x", "x", "y", "x", "x", "y", "y"])
    model = cge.CGE(
        weighting="degree",
        classifier="mlp",
        label_propagation="yes",
        hops=2,
        validation_fraction=0.0,
        training={"max_epochs": 20},
    )
    folder = tmp_path_factory.mktemp("explain") / "model"
    model.fit(graph, LABELS).save(folder)
    return folder


def explained(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert run(["explain", *words, "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    found: dict[str, Any] = json.loads(printed.out)
    return found


def test_without_a_node_it_tells_what_weights_came_to(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    worth = cge.load(folder).compare_weighting()
    assert explained(capsys, str(folder))["by_hop"] == pytest.approx(worth.by_hop)
    assert run(["explain", str(folder)]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == worth.sentences()


def test_weights_are_compared_with_a_twin_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = cge.Graph.from_edges(EDGES)
    model = cge.CGE(weighting="degree", classifier="mlp", label_propagation="no", hops=1, training={"max_epochs": 5})
    model.fit(graph, LABELS, {"-cy": "=SUM(1)", "fay": "mlp"}).save(tmp_path / "model")
    assert explained(capsys, str(tmp_path / "model"))["gain"] is None
    gain = explained(capsys, str(tmp_path / "model"), "--compare")["gain"]
    assert gain == json.loads(json.dumps(model.compare_weighting(compare=True).facts()))["gain"]
    assert (gain["labels"], gain["early"]) == (2, False)
    assert gain["low"] < gain["high"]


def test_a_node_is_explained_in_tables(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", str(folder), "--node", "-cy", "--top", "3"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    expected = cge.load(folder).explain("-cy", top=3)
    lines = printed.out.splitlines()
    assert "classifier" not in printed.out  # there is only one
    assert lines[0] == f"Why -cy is in {expected.predicted} ({expected.probabilities.max():.0%} sure)"
    parts = dict(line.rsplit(maxsplit=1) for line in lines if "  " in line)
    assert parts["score"] == f"{expected.scores[expected.place]:+.4f}"
    assert parts["constant"] == f"{expected.constant[expected.place]:+.4f}"
    assert parts["votes of known labels"] == f"{expected.votes[expected.place]:+.4f}"
    assert parts["paths of 1 step"] == f"{expected.hops[1, expected.place]:+.4f}"
    assert parts["of the paths, by x"] == f"{expected.edge_types['x'][expected.place]:+.4f}"
    format_list, every = sum(one.contribution for one in expected), expected.hops[:, expected.place].sum()
    assert (
        f"These 3 paths bring {format_list:+.2f} of the {every:+.2f} that all paths bring:".replace("-", "−") in lines
    )
    assert lines[-1].startswith(" → ".join(expected[2].path))
    other = 1 - expected.place
    head = next(line for line in lines if line.startswith("path "))
    assert re.split(" {2,}", head) == [*COLUMNS[:5], "weight", "brings", f"to {expected.classes[other]}"]
    assert lines[-1].split()[-5:] == [
        str(expected[2].length),
        str(expected[2].diversity),
        f"{expected[2].weight:.3g}",
        f"{expected[2].contribution:+.4f}",
        f"{expected[2].contributions[other]:+.4f}",
    ]
    assert " → ".join(expected[2].types) in lines[-1]
    assert run(["explain", str(folder), "--node", "eve", "--quiet"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("columns", "left_out"),
    [
        (100, []),
        (70, ["edge types", "length", "diversity"]),
        (44, ["known labels", "edge types", "length", "diversity"]),
    ],
)
def test_a_narrow_terminal_shows_fewer_columns(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int, left_out: list[str]
) -> None:
    monkeypatch.setattr("cge.cli.printing._PIPED_WIDTH", columns)
    monkeypatch.setenv("COLUMNS", str(columns))
    assert run(["explain", str(folder), "--node", "-cy"]) == 0
    lines = capsys.readouterr().out.splitlines()
    head = next(line for line in lines if line.startswith("path "))
    assert [one for one in COLUMNS if one not in re.split(" {2,}", head)] == left_out
    assert max(map(len, lines[lines.index(head) :])) <= columns


def test_small_numbers_have_digits_that_tell_and_a_dot_is_what_is_not_known() -> None:
    assert [_signed(one) for one in (0.25, -0.001, -0.0000314, 0.0)] == ["+0.2500", "-0.0010", "-3.1e-05", "+0.0000"]
    assert _joined([None, None], str) == "· → ·"
    assert _joined([("a", "b"), None, 7], str) == "a; b → · → 7"


def test_json_is_the_whole_explanation(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = cge.load(folder)
    found = explained(capsys, str(folder), "--node", "eve", "--top", "4", "--hop", "1")
    assert found == {"folder": str(folder), **json.loads(json.dumps(model.explain("eve", top=4, hop=1).facts()))}
    assert {one["length"] for one in found["paths"]} == {2}
    pair = explained(capsys, str(folder), "--node", "eve", "--to", "fay")
    assert pair["end"] == "fay"
    assert {one["path"][-1] for one in pair["paths"]} == {"fay"}
    whole = explained(capsys, str(folder), "--class", "=SUM(1)")
    assert (whole["node"], whole["predicted"], whole["num_nodes"]) == (None, "=SUM(1)", 3)
    assert len(whole["paths"]) <= 20


def test_tables_for_spreadsheets_hold_no_formulas(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, parquet = tmp_path / "paths.csv", tmp_path / "paths.parquet"
    text.write_text("old")
    words = ["--class", "=SUM(1)", "--top", "50", "--csv", str(text), "--parquet", str(parquet)]
    assert run(["explain", str(folder), *words]) == 0
    printed = capsys.readouterr()
    assert "Which paths speak for =SUM(1)" in printed.out
    told = [line for line in printed.err.splitlines() if "written" in line]
    count = len(cge.load(folder).explain_class("=SUM(1)", top=50))
    assert told == [f"note: {count} paths are written to {file}" for file in (text, parquet)]
    assert run(["explain", str(folder), *words, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    expected = cge.load(folder).explain_class("=SUM(1)", top=50)
    rows = list(csv.DictReader(text.read_text().splitlines()))
    assert len(rows) == len(expected) > 5
    starts = {row["path"][:2] for row in rows}
    assert {"'=", "'+"} <= starts
    for row, share in zip(rows, expected, strict=True):
        assert row["path"] == "'" + " → ".join(share.path)
        assert row["types"] == " → ".join(share.types)
        assert int(row["length"]) == share.length
        assert int(row["diversity"]) == share.diversity
        assert float(row["contribution"]) == pytest.approx(share.contribution)
        assert float(row["contribution to plain"]) == pytest.approx(share.contributions[1])  # a number may be negative
        for name, cell in row.items():
            number = name.startswith(("contribution", "weight"))
            assert number or cell[:1] not in "=+-@\t\r" or not cell
    assert any(float(row["contribution to plain"]) < 0 for row in rows)
    assert {row["labels"] for row in rows} & {"'=SUM(1)", "'=SUM(1) → '=SUM(1)", "'=SUM(1) → =SUM(1)"}
    table = pq.read_table(parquet).to_pylist()
    assert [row["path"] for row in table] == [list(share.path) for share in expected]  # as they are
    assert [row["labels"] for row in table] == [list(share.labels) for share in expected]
    assert table[0]["contribution to =SUM(1)"] == expected[0].contribution
    assert sorted(one.name for one in tmp_path.iterdir()) == ["paths.csv", "paths.parquet"]


def test_one_of_several_readers_is_named_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = cge.CGE(
        weighting="degree",
        classifier="mlp",
        n_estimators=3,
        label_propagation="no",
        hops=1,
        validation_fraction=0.0,
        training={"max_epochs": 3},
    )
    model.fit(cge.Graph.from_edges(EDGES), LABELS).save(tmp_path / "model")
    files = ["--csv", str(tmp_path / "paths.csv"), "--parquet", str(tmp_path / "paths.parquet")]
    assert run(["explain", str(tmp_path / "model"), "--node", "eve", "--classifier", "1", *files]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("These are the scores of reader 2 of 3 (plain); chances are averaged over all of them.")
    for row in csv.DictReader((tmp_path / "paths.csv").read_text().splitlines()):
        assert (row["classifier"], row["classifiers"], row["reader_name"]) == ("1", "3", "mlp")
    table = pq.read_table(tmp_path / "paths.parquet").to_pylist()
    assert {(row["classifier"], row["classifiers"], row["reader_name"]) for row in table} == {(1, 3, "mlp")}
    found = explained(capsys, str(tmp_path / "model"), "--node", "eve")
    assert (found["classifier"], found["classifiers"], found["reader_name"]) == (0, 3, "mlp")


def test_another_class_can_be_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = cge.load(folder)
    found = explained(capsys, str(folder), "--node", "eve", "--class", "=SUM(1)")
    expected = model.explain("eve", top=20, name="=SUM(1)")
    assert found == {"folder": str(folder), **json.loads(json.dumps(expected.facts()))}
    assert (found["predicted"], found["predicted_all"], found["explained"]) == ("mlp", ["mlp"], "=SUM(1)")
    assert [one["contribution"] for one in found["paths"]] == [
        one["contributions"]["=SUM(1)"] for one in found["paths"]
    ]
    pair = explained(capsys, str(folder), "--node", "eve", "--to", "fay", "--class", "=SUM(1)")
    assert pair["explained"] == "=SUM(1)"
    assert run(["explain", str(folder), "--node", "eve", "--class", "=SUM(1)"]) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first == f"What speaks for eve being in =SUM(1) ({expected.probabilities[0]:.0%} sure)"
    assert second == f"predicted  plain ({expected.probabilities[1]:.0%})"


def test_all_of_several_classes_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = cge.Graph.from_edges(EDGES)
    labels = {"=ann": ["one", "two"], "+bob": ["one", "two"], "@dan": ["three"], "eve": ["three"]}
    model = cge.CGE(
        weighting="degree",
        classifier="mlp",
        label_propagation="no",
        hops=2,
        validation_fraction=0.0,
        training={"max_epochs": 100},
    )
    model.fit(graph, labels).save(tmp_path / "model")
    found = explained(capsys, str(tmp_path / "model"), "--node", "=ann")
    assert sorted(found["predicted_all"]) == ["one", "two"]
    assert found["predicted_all"][0] == found["predicted"] == found["explained"]
    probabilities = dict(zip(found["classes"], found["chances"], strict=True))
    assert run(["explain", str(tmp_path / "model"), "--node", "=ann", "--class", "two"]) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first == f"Why =ann is in two ({probabilities['two']:.0%} sure)"
    assert second == "predicted  " + "; ".join(f"{one} ({probabilities[one]:.0%})" for one in found["predicted_all"])


def test_integers_stay_integers_in_parquet(tmp_path: Path) -> None:
    graph = cge.Graph.from_edges([(0, 1), (1, 2), (2, 3)])
    model = cge.CGE(
        weighting="degree",
        classifier="mlp",
        hops=2,
        validation_fraction=0.0,
        label_propagation="no",
        training={"max_epochs": 5},
    )
    model.fit(graph, {0: 10, 3: 20}).save(tmp_path / "model")
    file = tmp_path / "paths.parquet"
    assert run(["explain", str(tmp_path / "model"), "--node", "1", "--top", "5", "--parquet", str(file)]) == 0
    expected, rows = model.explain(1, top=5), pq.read_table(file).to_pylist()
    assert [(row["path"], row["labels"]) for row in rows] == [(list(one.path), list(one.labels)) for one in expected]
    assert {type(one) for row in rows for one in row["path"]} == {int}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--csv", "paths.csv"], "--csv writes paths; say which with --node or --class"),
        (["--node", "eve", "--class", "up"], "there is no class 'up'; the classes are '=SUM(1)', 'plain'"),
        (["--class", "mlp", "--to", "eve"], "--to needs --node, the node where paths start"),
        (["--node", "eve", "--compare"], "--compare is about all weights; leave out --node and --class"),
        (
            ["--compare"],
            "this model keeps no labels that chose, so there is nothing to compare by; fit it with validation labels",
        ),
        (["--node", "zoe"], "1 node in --node is not in the graph: 'zoe'"),
        (["--class", "up"], "there is no class 'up'; the classes are '=SUM(1)', 'plain'"),
        (["--node", "eve", "--hop", "3"], "--hop must be at most 2, the steps of the longest path, found 3"),
        (
            ["--node", "eve", "--classifier", "1"],
            "--reader must be a whole number below 1, the readers of this model, found 1",
        ),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(
    words: list[str], sentence: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", str(folder), *words]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", f"cge: {sentence}\n")


def test_files_that_cannot_be_written_are_told_first(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for option, file in (("--csv", "a/b.csv"), ("--csv", "b.txt"), ("--parquet", "b.csv")):
        assert run(["explain", str(folder), "--node", "eve", option, str(tmp_path / file)]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.startswith(f"cge: {option} ")
    assert list(tmp_path.iterdir()) == []


def test_models_without_paths_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cge.DeepWalk(dim=4, random_state=0).fit(cge.Graph.from_edges([(0, 1), (1, 2)])).save(tmp_path / "walks")
    assert run(["explain", str(tmp_path / "walks"), "--node", "1"]) == 2
    assert "holds a DeepWalk, which has no paths to explain it by" in capsys.readouterr().err


# ---------------------------------------------------------------------- CORA


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "most"),
    [
        ({"weighting": "degree", "classifier": "mlp", "label_propagation": "no", "max_epochs": 100}, 0.8),
        ({"encoder": "table", "weighting": "none"}, 0.9),
    ],
)
def test_cora_is_explained_quickly_and_faithfully(settings: dict[str, Any], most: float) -> None:
    data = cge.load_dataset("cora")
    assert data.split is not None
    y, validation = data.labels_of(data.split.train), data.labels_of(data.split.validation)
    model = make_estimator(cge.CGE, {**settings, "random_state": 0}).fit(data.graph, y, validation)
    model.explain(0)  # what is computed once
    hub = int(data.graph.degrees.argmax())
    for node in (0, 700, hub):
        began = time.process_time()
        found = model.explain(node, top=20)
        assert time.process_time() - began < 1
        parts = found.constant + found.votes + found.hops.sum(0) + found.remainder
        np.testing.assert_allclose(parts, found.scores, atol=1e-12)
    began = time.process_time()
    assert len(model.explain_class(found.predicted, top=20)) == 20
    assert time.process_time() - began < 5
    told = model.faithfulness(data.split.test[:60], shares=(0, 0.05, 0.2, 0.5, 1))
    assert told.deletion[:, 1].mean() < told.random_deletion[:, 1].mean() - 0.02  # after 5 % of the paths
    assert told.insertion[:, 1].mean() > told.random_insertion[:, 1].mean() + 0.02
    down, up = told.gaps
    assert np.mean(down > 0) > most
    assert np.mean(up > 0) > most
