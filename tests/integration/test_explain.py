"""`cge explain` on the command line, and explanations of CORA: fast and faithful."""

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
from cge.cli.main import run
from cge.estimators.configs import make_estimator
from cge.explain.explanation import TABLES, label_text, signed
from tests.integration.commands import json_of

EDGES = [
    ("=ann", "+bob"),
    ("+bob", "-cy"),
    ("-cy", "=ann"),
    ("@dan", "eve"),
    ("eve", "fay"),
    ("fay", "@dan"),
    ("-cy", "@dan"),
]
COLUMNS = ["path", "ends at", "training labels", "edge types", "hops", "relative weight"]
LABELS = {"=ann": "=SUM(1)", "+bob": "=SUM(1)", "@dan": "plain", "eve": "plain"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of a small graph, whose ids and classes look like formulas."""
    graph = cge.Graph.from_edges(EDGES, edge_types=["x", "x", "y", "x", "x", "y", "y"])
    model = cge.CGE(
        weighting="degree",
        classifier="mlp",
        label_propagation=True,
        hops=2,
        validation_fraction=0.0,
        training={"max_epochs": 20},
    )
    folder = tmp_path_factory.mktemp("explain") / "model"
    model.fit(graph, LABELS).save(folder)
    return folder


def test_without_a_node_the_weighting_is_described(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    comparison = cge.load(folder).compare_weighting()
    result = json_of(capsys, "explain", str(folder))
    assert {name: result[name] for name in comparison.to_dict()} == json.loads(json.dumps(comparison.to_dict()))
    assert result["weight_parameters"] == cge.load(folder).weight_parameters_
    assert run(["explain", str(folder)]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == comparison.sentences()


def test_comparison_with_uniform_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = cge.Graph.from_edges(EDGES)
    model = cge.CGE(weighting="degree", classifier="mlp", label_propagation=False, hops=1, training={"max_epochs": 5})
    model.fit(graph, LABELS, {"-cy": "=SUM(1)", "fay": "plain"}).save(tmp_path / "model")
    assert json_of(capsys, "explain", str(tmp_path / "model"))["gain"] is None
    gain = json_of(capsys, "explain", str(tmp_path / "model"), "--train-uniform")["gain"]
    assert gain == json.loads(json.dumps(model.compare_weighting(train_uniform=True).to_dict()))["gain"]
    assert gain["n_labels"] == 2
    assert gain["low"] < gain["high"]


def test_tables_of_a_node(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", str(folder), "--node", "-cy", "--top", "3"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    expected = cge.load(folder).explain("-cy", top=3)
    lines = printed.out.splitlines()
    index = expected.target_index
    assert "classifier" not in printed.out  # there is only one
    assert lines[:2] == [
        f"Why -cy is predicted as {expected.predicted}",
        f"probability  {expected.probabilities.max():.0%}",
    ]
    parts = dict(line.rsplit(maxsplit=1) for line in lines if "  " in line)
    assert parts["score"] == f"{expected.scores[index]:+.4f}"
    assert parts["constant"] == f"{expected.constant[index]:+.4f}"
    assert parts["training labels, all paths"] == f"{expected.label_propagation[index]:+.4f}"
    assert parts["inputs, paths of 1 hop"] == f"{expected.by_hop[1, index]:+.4f}"
    assert parts["of which over edges of type x"] == f"{expected.by_edge_type['x'][index]:+.4f}"
    assert expected.describe_coverage() in lines
    # First the endpoints of paths, and what the others add up to; then paths.
    ends = next(place for place, line in enumerate(lines) if line.startswith("endpoint "))
    assert re.split(" {2,}", lines[ends])[:5] == ["endpoint", "training label", "paths", "from inputs", "from label"]
    for row, line in zip(expected.by_endpoint, lines[ends + 1 :], strict=False):
        assert line.startswith(row.name)
        assert line.endswith(f"{row.contribution:+.4f}")
    assert lines[ends + 4].startswith(f"({expected.by_endpoint.size - 3} other")
    assert lines[ends + 4].endswith(signed(expected.by_endpoint.rest))
    head = next(place for place, line in enumerate(lines) if line.startswith("path "))
    assert re.split(" {2,}", lines[head]) == [*COLUMNS, f"contribution to {expected.predicted}"]
    assert lines[head + 3].startswith(" → ".join(expected[2].path))
    numbers = [str(expected[2].hops), f"{expected[2].relative_weight:.3g}", f"{expected[2].contribution:+.4f}"]
    assert lines[head + 3].split()[-3:] == numbers
    assert " → ".join(expected[2].edge_types) in lines[head + 3]
    assert lines[-2:] == list(expected.table_footer())
    assert run(["explain", str(folder), "--node", "eve", "--quiet"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("columns", "left_out"),
    [
        (120, []),
        (80, ["training labels", "edge types", "hops"]),
        (50, ["ends at", "training labels", "edge types", "hops"]),
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
    assert [title for title in COLUMNS if title not in re.split(" {2,}", head)] == left_out
    assert max(map(len, lines[lines.index(head) :])) <= columns


def test_small_numbers_and_missing_labels() -> None:
    assert [signed(number) for number in (0.25, -0.001, -0.0000314, 0.0)] == [
        "+0.2500",
        "-0.0010",
        "-3.1e-05",
        "+0.0000",
    ]
    assert [label_text(label) for label in (("a", "b"), 7)] == ["a; b", "7"]


def test_json_is_the_complete_explanation(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = cge.load(folder)
    result = json_of(capsys, "explain", str(folder), "--node", "eve", "--top", "4", "--hop", "1")
    assert result == {"folder": str(folder), **json.loads(json.dumps(model.explain("eve", top=4, hop=1).to_dict()))}
    assert {path["hops"] for path in result["paths"]} == {1}
    pair = json_of(capsys, "explain", str(folder), "--node", "eve", "--to", "fay")
    assert pair["endpoint"] == "fay"
    assert {path["path"][-1] for path in pair["paths"]} == {"fay"}
    whole = json_of(capsys, "explain", str(folder), "--class", "=SUM(1)")
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
    assert "Paths that contribute most to =SUM(1)" in printed.out
    notes = [line for line in printed.err.splitlines() if "written" in line]
    count = len(cge.load(folder).explain_class("=SUM(1)", top=50))
    assert notes == [f"note: {count} paths are written to {file}" for file in (text, parquet)]
    assert run(["explain", str(folder), *words, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    expected = cge.load(folder).explain_class("=SUM(1)", top=50)
    rows = list(csv.DictReader(text.read_text().splitlines()))
    assert len(rows) == len(expected) > 5
    starts = {row["path"][:2] for row in rows}
    assert {"'=", "'+"} <= starts
    for row, path in zip(rows, expected, strict=True):
        assert row["path"] == "'" + " → ".join(path.path)
        assert row["edge_types"] == " → ".join(path.edge_types)
        assert int(row["hops"]) == path.hops
        assert int(row["distinct_nodes"]) == path.distinct_nodes
        assert float(row["contribution"]) == pytest.approx(path.contribution)
        assert float(row["contribution to plain"]) == pytest.approx(path.contributions[1])  # a number may be negative
        for name, cell in row.items():
            number = name.startswith(("contribution", "weight"))
            assert number or cell[:1] not in "=+-@\t\r" or not cell
    assert any(float(row["contribution to plain"]) < 0 for row in rows)
    assert {row["training_labels"] for row in rows} & {"'=SUM(1)", "'=SUM(1) → '=SUM(1)", "'=SUM(1) → =SUM(1)"}
    table = pq.read_table(parquet).to_pylist()
    assert [row["path"] for row in table] == [list(path.path) for path in expected]  # as they are
    assert [row["training_labels"] for row in table] == [list(path.training_labels) for path in expected]
    assert table[0]["contribution to =SUM(1)"] == expected[0].contribution
    assert sorted(file.name for file in tmp_path.iterdir()) == ["paths.csv", "paths.parquet"]


@pytest.mark.parametrize("by", ["endpoint", "labeled-node", "label"])
def test_a_table_of_sums(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], by: str) -> None:
    text, parquet = tmp_path / "t.csv", tmp_path / "t.parquet"
    words = ["--node", "fay", "--by", by, "--csv", str(text), "--parquet", str(parquet)]
    assert run(["explain", str(folder), *words]) == 0
    printed = capsys.readouterr()
    expected = cge.load(folder).explain("fay")
    table = getattr(expected, TABLES[by][0])
    assert f"note: {len(table)} rows are written to {text}" in printed.err.splitlines()
    assert TABLES[by][1] in printed.out
    assert not any(line.startswith("path ") for line in printed.out.splitlines())
    for rows in (list(csv.DictReader(text.read_text().splitlines())), pq.read_table(parquet).to_pylist()):
        assert [row["name"].removeprefix("'") for row in rows] == [row.name for row in table]
        assert [float(row["contribution"]) for row in rows] == pytest.approx([row.contribution for row in table])
        if by != "label":
            assert [float(row["from_label"]) for row in rows] == pytest.approx([row.from_label for row in table])
    assert run(["explain", str(folder), "--node", "fay", "--by", "feature"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "No features are propagated."


def test_new_nodes_are_explained(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edges = tmp_path / "new.csv"
    edges.write_text("source,target\nzoe,eve\nzoe,fay\nyan,xi\n")
    (predicted,) = json_of(capsys, "predict", str(folder), "--graph", str(edges), "--nodes", "zoe")["predictions"]
    result = json_of(capsys, "explain", str(folder), "--graph", str(edges), "--node", "zoe")
    assert (result["node"], result["predicted"], result["informed"]) == ("zoe", predicted["class"], True)
    probabilities = dict(zip(result["classes"], result["probabilities"], strict=True))
    assert probabilities == pytest.approx(predicted["probabilities"], abs=1e-6)
    assert {path["path"][0] for path in result["paths"]} == {"zoe"}
    assert result["by_labeled_node"]["rows"][0]["name"] == "eve"
    unknown = json_of(capsys, "explain", str(folder), "--graph", str(edges), "--node", "yan")
    assert unknown["informed"] is False
    assert run(["explain", str(folder), "--graph", str(edges), "--node", "yan"]) == 0
    assert "There is no information about this node" in capsys.readouterr().out
    assert run(["explain", str(folder), "--graph", str(edges), "--node", "abe"]) == 2
    assert "node 'abe' is not in the graph" in capsys.readouterr().err


def test_one_classifier_of_an_ensemble_is_named_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = cge.CGE(
        weighting="degree",
        classifier="mlp",
        n_estimators=3,
        label_propagation=False,
        hops=1,
        validation_fraction=0.0,
        training={"max_epochs": 3},
    )
    model.fit(cge.Graph.from_edges(EDGES), LABELS).save(tmp_path / "model")
    files = ["--csv", str(tmp_path / "paths.csv"), "--parquet", str(tmp_path / "paths.parquet")]
    assert run(["explain", str(tmp_path / "model"), "--node", "eve", "--classifier", "1", *files]) == 0
    lines = capsys.readouterr().out.splitlines()
    sentence = "The model averages 3 classifiers; these are the scores of 'mlp' (index 1 of 3)."
    assert any(line.startswith(sentence) for line in lines)
    for row in csv.DictReader((tmp_path / "paths.csv").read_text().splitlines()):
        assert (row["classifier_index"], row["num_classifiers"], row["classifier"]) == ("1", "3", "mlp")
    table = pq.read_table(tmp_path / "paths.parquet").to_pylist()
    assert {(row["classifier_index"], row["num_classifiers"], row["classifier"]) for row in table} == {(1, 3, "mlp")}
    result = json_of(capsys, "explain", str(tmp_path / "model"), "--node", "eve")
    assert (result["classifier_index"], result["num_classifiers"], result["classifier"]) == (0, 3, "mlp")


def test_another_class(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = cge.load(folder)
    result = json_of(capsys, "explain", str(folder), "--node", "eve", "--class", "=SUM(1)")
    expected = model.explain("eve", target_class="=SUM(1)")
    assert result == {"folder": str(folder), **json.loads(json.dumps(expected.to_dict()))}
    assert (result["predicted"], result["predicted_all"], result["target_class"]) == ("plain", ["plain"], "=SUM(1)")
    assert [path["contribution"] for path in result["paths"]] == [
        path["contributions"]["=SUM(1)"] for path in result["paths"]
    ]
    pair = json_of(capsys, "explain", str(folder), "--node", "eve", "--to", "fay", "--class", "=SUM(1)")
    assert pair["target_class"] == "=SUM(1)"
    assert run(["explain", str(folder), "--node", "eve", "--class", "=SUM(1)"]) == 0
    first, second, third, *_ = capsys.readouterr().out.splitlines()
    assert first == "What contributes to =SUM(1) at eve"
    assert second == f"probability  {expected.probabilities[0]:.0%}"
    assert third == f"predicted    plain ({expected.probabilities[1]:.0%})"


def test_all_predicted_classes_of_a_multilabel_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = cge.Graph.from_edges(EDGES)
    labels = {"=ann": ["one", "two"], "+bob": ["one", "two"], "@dan": ["three"], "eve": ["three"]}
    model = cge.CGE(
        weighting="degree",
        classifier="mlp",
        label_propagation=False,
        hops=2,
        validation_fraction=0.0,
        training={"max_epochs": 100},
    )
    model.fit(graph, labels).save(tmp_path / "model")
    result = json_of(capsys, "explain", str(tmp_path / "model"), "--node", "=ann")
    assert sorted(result["predicted_all"]) == ["one", "two"]
    assert result["predicted_all"][0] == result["predicted"] == result["target_class"]
    probabilities = dict(zip(result["classes"], result["probabilities"], strict=True))
    assert run(["explain", str(tmp_path / "model"), "--node", "=ann", "--class", "two"]) == 0
    first, second, third, *_ = capsys.readouterr().out.splitlines()
    assert first == "Why =ann is predicted as two"
    assert second == f"probability  {probabilities['two']:.0%}"
    assert third == "predicted    " + "; ".join(
        f"{name} ({probabilities[name]:.0%})" for name in result["predicted_all"]
    )


def test_integers_stay_integers_in_parquet(tmp_path: Path) -> None:
    graph = cge.Graph.from_edges([(0, 1), (1, 2), (2, 3)])
    model = cge.CGE(
        weighting="degree",
        classifier="mlp",
        hops=2,
        validation_fraction=0.0,
        label_propagation=False,
        training={"max_epochs": 5},
    )
    model.fit(graph, {0: 10, 3: 20}).save(tmp_path / "model")
    file = tmp_path / "paths.parquet"
    assert run(["explain", str(tmp_path / "model"), "--node", "1", "--top", "5", "--parquet", str(file)]) == 0
    expected, rows = model.explain(1, top=5), pq.read_table(file).to_pylist()
    assert [row["path"] for row in rows] == [list(path.path) for path in expected]
    assert [row["training_labels"] for row in rows] == [list(path.training_labels) for path in expected]
    assert {type(node) for row in rows for node in row["path"]} == {int}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--csv", "paths.csv"], "--csv and --parquet write paths; add --node or --class"),
        (["--node", "eve", "--class", "up"], "there is no class 'up'; the classes are '=SUM(1)', 'plain'"),
        (["--class", "plain", "--to", "eve"], "--to needs --node, the node where paths start"),
        (
            ["--node", "eve", "--train-uniform"],
            "--train-uniform is about the whole model; leave out --node and --class",
        ),
        (
            ["--train-uniform"],
            "this model has no validation labels to compare on; fit it with validation labels",
        ),
        (["--node", "zoe"], "node 'zoe' is not in the graph (ids look like '=ann', '+bob')"),
        (["--class", "up"], "there is no class 'up'; the classes are '=SUM(1)', 'plain'"),
        (["--node", "eve", "--hop", "3"], "--hop must be at most 2, the model's hops, found 3"),
        (
            ["--node", "eve", "--classifier", "1"],
            "--classifier must be an index below 1 or a name: mlp, found 1",
        ),
        (
            ["--node", "eve", "--by", "edge"],
            "--by must be one of 'path', 'endpoint', 'labeled-node', 'label', 'feature', 'metapath', found 'edge'",
        ),
        (["--graph", "new.csv"], "--graph and --features add new nodes; name the one to explain with --node"),
        (["--node", "eve", "--source", "a"], "--source describes the file of --graph; add --graph, or leave it out"),
    ],
)
def test_errors_are_one_sentence(
    words: list[str], sentence: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", str(folder), *words]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", f"cge: {sentence}\n")


def test_files_that_cannot_be_written_are_refused_first(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for option, file in (("--csv", "a/b.csv"), ("--csv", "b.txt"), ("--parquet", "b.csv")):
        assert run(["explain", str(folder), "--node", "eve", option, str(tmp_path / file)]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.startswith(f"cge: {option} ")
    assert list(tmp_path.iterdir()) == []


def test_models_without_paths_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cge.DeepWalk(dim=4, random_state=0).fit(cge.Graph.from_edges([(0, 1), (1, 2)])).save(tmp_path / "walks")
    assert run(["explain", str(tmp_path / "walks"), "--node", "1"]) == 2
    assert "contains a DeepWalk, whose predictions are not based on paths" in capsys.readouterr().err


# ---------------------------------------------------------------------- CORA


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "most"),
    [
        ({"weighting": "degree", "classifier": "mlp", "label_propagation": False, "max_epochs": 100}, 0.8),
        ({"setting": "transductive", "weighting": "uniform"}, 0.9),
    ],
)
def test_cora_is_explained_quickly_and_faithfully(settings: dict[str, Any], most: float) -> None:
    data = cge.load_dataset("cora")
    assert data.split is not None
    y, validation = data.labels_of(data.split.train), data.labels_of(data.split.validation)
    model = make_estimator(cge.PaperCGE if "setting" in settings else cge.CGE, settings).fit(data.graph, y, validation)
    model.explain(0)  # computes what all explanations share
    hub = int(data.graph.degrees.argmax())
    for node in (0, 700, hub):
        start = time.process_time()
        explanation = model.explain(node, top=20)
        assert time.process_time() - start < 1
        parts = explanation.constant + explanation.label_propagation + explanation.by_hop.sum(0) + explanation.remainder
        np.testing.assert_allclose(parts, explanation.scores, atol=1e-12)
    start = time.process_time()
    assert len(model.explain_class(explanation.predicted, top=20)) == 20
    assert time.process_time() - start < 5
    curves = model.faithfulness(data.split.test[:60], fractions=(0, 0.05, 0.2, 0.5, 1))
    assert curves.deletion[:, 1].mean() < curves.random_deletion[:, 1].mean() - 0.02  # after 5 % of the paths
    assert curves.insertion[:, 1].mean() > curves.random_insertion[:, 1].mean() + 0.02
    down, up = curves.gaps
    assert np.mean(down > 0) > most
    assert np.mean(up > 0) > most
