"""`cge score`: the scores of a saved model on test labels, each against scikit-learn; `cge embed` without labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn import metrics

import cge
from cge.cli.main import run
from cge.report.scored_nodes import ScoredNodes, score_summary
from cge.targets.classification import SingleLabel
from tests.fixtures import (
    TRAIN_NODES,
    TRUE_LABELS,
    VALIDATION_NODES,
    labels_at,
    multilabel_targets,
    quick_cge,
    two_groups,
)
from tests.integration.commands import json_of

TEST_NODES = np.arange(2, 40, 2)
NUMBERS = TRUE_LABELS * 3.0 + np.arange(40) % 3


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save a model of each kind of target."""
    folder, graph, targets = tmp_path_factory.mktemp("models"), two_groups(), multilabel_targets()[:, :3]
    options: dict[str, Any] = {"classifier": "mlp", "refit": False}
    single = {int(node): "ab"[TRUE_LABELS[node]] for node in TRAIN_NODES}
    quick_cge("degree", **options).fit(graph, single).save(folder / "single")
    several = [labels_at(nodes, targets) for nodes in (TRAIN_NODES, VALIDATION_NODES)]
    quick_cge("degree", **options).fit(graph, *several).save(folder / "multilabel")
    values = {int(node): NUMBERS[node] for node in TRAIN_NODES}
    quick_cge("degree", task="regression", **options).fit(graph, values).save(folder / "regression")
    return folder


def test_scores_of_classes(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "test.csv"
    file.write_text("node,label\n" + "".join(f"{node},{'ab'[TRUE_LABELS[node]]}\n" for node in (*TEST_NODES, 0)))
    result = json_of(capsys, "score", str(home / "single"), "--labels", str(file))
    model = cge.load(home / "single")
    unused = [node for node in TEST_NODES.tolist() if node not in TRAIN_NODES]
    true, predicted, probabilities = TRUE_LABELS[unused], model.predict(unused) == "b", model.predict_proba(unused)
    assert result["nodes"] == len(unused)
    assert result["accuracy"] == pytest.approx(metrics.accuracy_score(true, predicted))
    assert result["interval"][0] < result["accuracy"] <= result["interval"][1]
    assert result["macro_f1"] == pytest.approx(metrics.f1_score(true, predicted, average="macro"))
    assert result["log_loss"] == pytest.approx(-np.log(probabilities[np.arange(len(true)), true]).mean(), abs=1e-5)
    assert result["confusion"] == metrics.confusion_matrix(true, predicted).tolist()
    columns = metrics.precision_recall_fscore_support(true, predicted)
    for place, row in enumerate(result["classes"]):
        assert row["class"] == "ab"[place]
        assert [row[name] for name in ("precision", "recall", "f1", "nodes")] == pytest.approx(
            [column[place] for column in columns], abs=1e-4
        )
    assert result["notes"] == [f"{20 - len(unused)} nodes with a training or validation label were left out"]
    assert run(["score", str(home / "single"), "--labels", str(file)]) == 0
    output = capsys.readouterr().out
    assert f"accuracy           {result['accuracy']:.4f} (95 % confidence interval" in output
    assert "Confusion matrix" in output
    assert run(["score", str(home / "single"), "--labels", str(file), "--quiet"]) == 0
    assert float(capsys.readouterr().out) == result["accuracy"]


def test_classes_that_do_not_occur_have_no_part_in_macro_f1() -> None:
    labels, probabilities = np.eye(3)[[0, 0, 1, 1]], np.array([[0.8, 0.1, 0.1]] * 3 + [[0.1, 0.8, 0.1]])
    scored = ScoredNodes(np.arange(4), labels, probabilities, SingleLabel(np.array(["a", "b", "c"])), True)
    expected = metrics.f1_score(labels.argmax(1), probabilities.argmax(1), average="macro")
    assert score_summary(scored)["macro_f1"] == pytest.approx(expected)
    assert expected > 0.7


def test_scores_of_several_labels(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    targets, file = multilabel_targets()[:, :3], tmp_path / "test.csv"
    test = [node for node in range(40) if node not in {*TRAIN_NODES, *VALIDATION_NODES}]
    file.write_text("node,label\n" + "".join(f"{node},{c}\n" for node in test for c in np.flatnonzero(targets[node])))
    result = json_of(capsys, "score", str(home / "multilabel"), "--labels", str(file))
    predicted = cge.load(home / "multilabel").predict(test)
    assert result["micro_f1"] == pytest.approx(metrics.f1_score(targets[test], predicted, average="micro"))
    recalls = metrics.recall_score(targets[test], predicted, average=None, zero_division=0)
    assert [row["recall"] for row in result["classes"]] == pytest.approx(recalls, abs=1e-4)
    assert result["confusion"] is None


def test_scores_of_numbers(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    test, file = [node for node in TEST_NODES.tolist() if node not in TRAIN_NODES], tmp_path / "test.csv"
    file.write_text("node,label\n" + "".join(f"{node},{NUMBERS[node]}\n" for node in test))
    result = json_of(capsys, "score", str(home / "regression"), "--labels", str(file))
    predicted = cge.load(home / "regression").predict(test)
    assert result["r2"] == pytest.approx(metrics.r2_score(NUMBERS[test], predicted))
    assert result["mae"] == pytest.approx(metrics.mean_absolute_error(NUMBERS[test], predicted))
    assert result["rmse"] == pytest.approx(metrics.root_mean_squared_error(NUMBERS[test], predicted))
    assert result["interval"][0] < result["r2"] < result["interval"][1]
    file.write_text(f"node,label\n{test[0]},1\n")
    assert json_of(capsys, "score", str(home / "regression"), "--labels", str(file))["r2"] is None


def test_wrong_test_labels(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "test.csv"
    for rows, message in {
        "0,a\n": "every node in it has a training or validation label; give labels of other nodes",
        "2,c\n": "has the class 'c', which is no class of the model; its classes are 'a', 'b'",
    }.items():
        file.write_text("node,label\n" + rows)
        assert run(["score", str(home / "single"), "--labels", str(file)]) == 2
        assert message in capsys.readouterr().err


# ---------------------------------------------------------------------- vectors without labels


def test_vectors_without_labels(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edges, out = str(files / "edges.csv"), str(files / "v.parquet")
    settings = ["--set", "walk_length=5", "--set", "walks_per_node=2", "--dim", "4", "--seed", "3"]
    result = json_of(capsys, "embed", edges, "--out", out, *settings, "--save", str(files / "m"))
    expected = cge.DeepWalk(4, walk_length=5, walks_per_node=2, random_state=3).fit(cge.read_graph(edges))
    assert np.array_equal(np.array(pq.read_table(out)["vector"].to_pylist(), np.float32), expected.embedding_)
    assert (result["nodes"], result["dim"], result["method"]) == (40, 4, "DeepWalk")
    assert run(["similar", str(files / "m"), "l1", "--top", "1"]) == 0
    assert run(["embed", edges, "--method", "node2vec", *settings, "--out", str(files / "v.csv")]) == 0


def test_wrong_options_of_embed(files: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edges, out, model = str(files / "edges.csv"), ["--out", str(files / "v.csv")], str(home / "single")
    for words, message in {
        (edges, "--method", "x"): "--method must be one of 'deepwalk', 'node2vec', 'propagated', found 'x'",
        (edges, "--method", "propagated"): "propagated features need features, and the graph has none; pass --features",
        (edges, "--set", "a=1"): "deepwalk has no setting 'a'",
        (model, "--dim", "4"): f"--dim is for edges, but {model} is the folder of a model; leave it out",
        (model, "--directed"): "--directed is for edges, but",
        ("none.csv", "--dim", "4"): "none.csv: there is no such file",
    }.items():
        assert run(["embed", *words, *out]) == 2
        assert message in capsys.readouterr().err


def test_a_fit_without_labels_names_embed(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fit", str(files / "edges.csv"), "--out", str(files / "m")]) == 2
    assert "a fit needs labels, and 'cge embed EDGES --out vectors.parquet' makes vectors" in capsys.readouterr().err
