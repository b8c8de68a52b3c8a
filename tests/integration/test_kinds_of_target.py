"""Every command and the report for each kind of target: one class for each node, several, and a number."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri
from sklearn.linear_model import Ridge
from sklearn.metrics import accuracy_score, f1_score, mean_absolute_error, r2_score

import cge
from cge.cli.fit_output import fit_summary
from cge.cli.main import run
from cge.estimators.baselines import LabelPropagation
from cge.estimators.explanation_mixin import labels_of, uniform_copy
from cge.metrics import node_f1
from cge.report import compare_methods, scored_nodes, write_page
from cge.report.contents import report_contents
from cge.serve.service import Limits, Service
from tests.integration.commands import json_of, output_of

KINDS = ("single-label", "multilabel", "regression")
SIZE = 60
TRAIN, VALIDATION, TEST = np.arange(0, 60, 3), np.arange(1, 60, 3), np.arange(2, 60, 3)
VALUES = 40 + 10 * np.sin(np.arange(SIZE) / 6)
WORDS_OF_CLASSES = ("class", "probabilit", "accura", "percentage point", "confidence:")
OPTIONS = {"multilabel": ["--multilabel"], "regression": ["--task", "regression"]}


def written(kind: str, node: int) -> list[str]:
    """Return the labels of a node as text."""
    if kind == "regression":
        return [f"{VALUES[node]:.3f}"]
    side = "right" if node >= SIZE // 2 else "left"
    return [side, "even"] if kind == "multilabel" and node % 2 == 0 else [side]


@pytest.fixture(scope="module", params=KINDS)
def fitted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Fit a model of each kind by the command, on a ring with chords, whose features are noisy labels."""
    kind, folder = request.param, tmp_path_factory.mktemp("kind")
    edges = [f"{a},{(a + step) % SIZE}" for a in range(SIZE) for step in (1, 2, 3)]
    (folder / "edges.csv").write_text("\n".join(["source,target", *edges, ""]))
    noise = np.random.default_rng(0).normal(size=(SIZE, 3))
    np.save(folder / "x.npy", noise + np.c_[VALUES / 10, np.arange(SIZE) >= 30, np.arange(SIZE) % 2 * 2])
    for name, nodes in (("train", TRAIN), ("validation", VALIDATION), ("test", TEST)):
        rows = [f"{node},{label}" for node in nodes.tolist() for label in written(kind, node)]
        (folder / f"{name}.csv").write_text("\n".join(["node,label", *rows, ""]))
    files = ["--features", "x.npy", "--labels", "train.csv", "--validation", "validation.csv", "--out", "model"]
    arguments = [str(folder / word) if (folder / word).suffix or word == "model" else word for word in files]
    settings = ["--weighting", "cosine", "--classifier", "mlp", "--max-epochs", "40", "--quiet"]
    assert run(["fit", str(folder / "edges.csv"), *arguments, *OPTIONS.get(kind, []), *settings]) == 0
    return kind, folder


def true_labels(kind: str, nodes: Any) -> Any:
    """Return labels as `score` of a loaded model takes them."""
    labels = [written(kind, node) for node in nodes.tolist()]
    if kind == "regression":
        return np.array(labels, float).ravel()
    return labels if kind == "multilabel" else np.ravel(labels)


def check_words(kind: str, text: str) -> None:
    """Refuse words of classes about numbers."""
    lower = text.lower().replace("classifier", "").replace("95 % confidence interval", "")
    lower = lower.replace("edges with probability proportional to their weights", "")  # of random walks
    for word in WORDS_OF_CLASSES if kind == "regression" else ():
        assert word not in lower, (word, text)


def test_predictions(fitted: tuple[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    kind, folder = fitted
    model, folder_name = cge.load(folder / "model"), str(folder / "model")
    text = output_of(capsys, "predict", folder_name)
    check_words(kind, text)
    rows = json_of(capsys, "predict", folder_name)["predictions"]
    output_of(capsys, "predict", folder_name, "--out", str(folder / "p.csv"))
    with (folder / "p.csv").open() as file:
        table = list(csv.DictReader(file))
    served = Service(model, Limits()).predict({"nodes": list(range(SIZE))})["predictions"]
    assert served == rows
    if kind == "regression":
        assert text.split()[:3] == ["node", "value", "evidence"]
        assert list(rows[0]) == ["node", "value", "evidence"]
        assert np.array_equal(np.float32([row["value"] for row in rows]), model.predict())
        assert list(table[0]) == ["node", "value", "evidence"]
        assert np.allclose([float(row["value"]) for row in table], model.predict())
        return
    assert list(rows[0]) == ["node", "class", "confidence", "evidence", "probabilities"]
    assert np.array_equal(np.float32([list(row["probabilities"].values()) for row in rows]), model.predict_proba())
    columns = ["node", "class", "confidence", "evidence", *(f"probability_{name}" for name in model.classes_)]
    assert list(table[0]) == columns
    predicted = model.predict()
    if kind == "multilabel":
        names = [[str(name) for name in model.classes_[row > 0]] for row in predicted]
        assert [row["class"] for row in rows] == names
        assert [row["class"] for row in table] == ["; ".join(each) for each in names]
    else:
        assert [row["class"] for row in rows] == [row["class"] for row in table] == predicted.tolist()


def test_the_validation_score_is_that_of_the_predictions(fitted: tuple[str, Path]) -> None:
    kind, folder = fitted
    model = cge.load(folder / "model")
    score = model.score(VALIDATION.tolist(), true_labels(kind, VALIDATION))
    summary = fit_summary(model, "", 0.0)
    assert summary["validation_accuracy"] == pytest.approx(score, abs=1e-6)
    text = f"{score:.3f}" if kind != "single-label" else f"{score:.1%}"
    assert f"validation {summary['metric']} {text}" in repr(model)


def test_scores(fitted: tuple[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    kind, folder = fitted
    model, name = cge.load(folder / "model"), {"regression": "r2", "multilabel": "micro_f1"}.get(kind, "accuracy")
    scores = json_of(capsys, "score", str(folder / "model"), "--labels", str(folder / "test.csv"))
    assert scores[name] == pytest.approx(model.score(TEST.tolist(), true_labels(kind, TEST)))
    assert scores["interval"][0] < scores[name] <= scores["interval"][1]
    assert ("confusion" in scores) == (kind != "regression")
    assert (scores.get("confusion") is not None) == (kind == "single-label")
    check_words(kind, output_of(capsys, "score", str(folder / "model"), "--labels", str(folder / "test.csv")))


def test_explanations(fitted: tuple[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    kind, folder = fitted
    name, model = str(folder / "model"), cge.load(folder / "model")
    text = output_of(capsys, "explain", name, "--node", "5")
    check_words(kind, text)
    if kind == "regression":
        assert text.startswith("Paths that contribute most to the value of 5\npredicted  ")
        assert f"{model.predict([5])[0]:.6g}" in text
        assert run(["explain", name, "--node", "5", "--class", "left"]) == 2
        assert capsys.readouterr().err == "cge: a regression model has no classes; leave out --class\n"
    else:
        assert text.startswith("Why 5 is predicted as ")
        assert output_of(capsys, "explain", name, "--class", "left").startswith("Paths that contribute most to left")
    explanation = json_of(capsys, "explain", name, "--node", "5")
    parts = [explanation[part][0] for part in ("constant", "label_propagation", "remainder")]
    total = sum(parts) + np.sum(explanation["by_hop"], axis=0)[0]
    assert total == pytest.approx(explanation["scores"][0], abs=1e-4)
    check_words(kind, str(model.faithfulness([5, 6])))


def test_a_model_with_uniform_weights_is_trained_for_comparison(
    fitted: tuple[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    kind, folder = fitted
    model = cge.load(folder / "model")
    gain = model.compare_weighting(train_uniform=True).gain
    # The same by hand.
    copy = uniform_copy(model).fit(model.graph_, labels_of(model))
    validation = model.fitted_.validation
    pair = [np.asarray(each._outputs(VALIDATION.tolist(), None), np.float64) for each in (model, copy)]
    if kind == "regression":
        variance = VALUES[TRAIN].round(3).var()
        own, uniform = (1 - (values[:, 0] - VALUES[VALIDATION].round(3)) ** 2 / variance for values in pair)
        error = np.std(own - uniform, ddof=1) / np.sqrt(len(VALIDATION))
        assert (gain.high - gain.low) / 2 == pytest.approx(ndtri(0.975) * error, rel=1e-4)
    elif kind == "multilabel":
        own, uniform = (node_f1(values > 0.5, validation.matrix) for values in pair)
    else:
        own, uniform = (values.argmax(1) == validation.matrix.argmax(1) for values in pair)
    assert gain.mean == pytest.approx(np.mean(own) - np.mean(uniform), abs=1e-5)
    text = output_of(capsys, "explain", str(folder / "model"), "--train-uniform")
    assert ("accurate" in text) == (kind != "regression")
    check_words(kind, text)


def test_other_methods_are_trained_on_the_same_labels(fitted: tuple[str, Path]) -> None:
    kind, folder = fitted
    model = cge.load(folder / "model")
    scored = scored_nodes(model)
    assert scored is not None
    rows = {row["method"]: row for row in compare_methods(model, scored)}
    linear = "ridge regression (features)" if kind == "regression" else "logistic regression (features)"
    assert set(rows) == {"cge", "cge (uniform weights)", "SGC", linear, "label propagation"}
    propagated = LabelPropagation().fit(model.graph_, labels_of(model))
    predicted, labels = propagated.predict(VALIDATION.tolist()), true_labels(kind, VALIDATION)
    if kind == "regression":
        x = model.graph_.features / np.linalg.norm(model.graph_.features, axis=1, keepdims=True)
        y, best = VALUES.round(3), -np.inf
        for strength in (0.1, 1.0, 10.0, 100.0, 1000.0):
            values = Ridge(alpha=1 / strength).fit(x[TRAIN], y[TRAIN]).predict(x[VALIDATION])
            best = max(best, r2_score(y[VALIDATION], values))
        assert rows[linear]["accuracy"] == pytest.approx(best, rel=1e-4)
        assert rows["label propagation"]["accuracy"] == pytest.approx(r2_score(labels, predicted))
        with pytest.raises(cge.errors.InputError, match="no probabilities; use predict"):
            propagated.predict_proba()
        assert (VALUES[TRAIN].min() <= predicted).all()
        assert (predicted <= VALUES[TRAIN].max()).all()
    elif kind == "multilabel":
        expected = f1_score(scored.labels, predicted, average="micro")
        assert rows["label propagation"]["accuracy"] == pytest.approx(expected)
    else:
        assert rows["label propagation"]["accuracy"] == pytest.approx(accuracy_score(labels, predicted))


def test_the_report(fitted: tuple[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    kind, folder = fitted
    name, page = str(folder / "model"), folder / "report.html"
    result = json_of(capsys, "report", name, "--out", str(page), "--labels", str(folder / "test.csv"), "--compare")
    assert page.stat().st_size == result["bytes"]
    scores = json_of(capsys, "score", name, "--labels", str(folder / "test.csv"))
    metric = {"regression": "R²", "multilabel": "micro-F1"}.get(kind, "accuracy")
    assert result["metric"] == metric
    key = {"regression": "r2", "multilabel": "micro_f1"}.get(kind, "accuracy")
    assert result[key][0] == {"method": "cge", key: scores[key], "interval": scores["interval"]}
    assert (result["calibration_error"] is None) == (kind == "regression")
    model = cge.load(folder / "model")
    contents = report_contents(model)
    for part in ("summary", "weighting", "notes"):
        check_words(kind, " ".join(contents[part]))
    removed = ("weighting-caption", "confusion-caption", "by-class-caption")  # names of classifiers; no such charts
    for caption, text in contents["captions"].items():
        check_words(kind, "" if caption in removed else text)
    nodes = contents["nodes"]
    if kind != "regression":
        assert (nodes["label_text"], nodes["predicted_text"]) == (None, None)
        assert contents["classes"] == model.classes_.tolist()
        return
    assert [contents[part] for part in ("reliability", "confusion", "by_class")] == [None, None, None]
    labels, predicted = VALUES[VALIDATION].round(3), model.predict(VALIDATION.tolist())
    low, high = model.predict_interval([0])[0] if len(VALIDATION) > 19 else (0, 0)
    summary = contents["summary"]
    assert "3 features, numeric labels. 20 training labels, 20 validation labels." in summary[0]
    assert summary[1].startswith(f"R² on 20 validation labels: {r2_score(labels, predicted):.3f} (95 % confidence int")
    assert f"Mean absolute error: {mean_absolute_error(labels, predicted):.4g}; 95 % prediction intervals" in summary[1]
    assert f"predicted value ± {(high - low) / 2:.4g}." in summary[1]
    assert "Ridge regression on the node embeddings (vectors) alone" in summary[1]
    assert len(contents["classes"]) == 5
    assert contents["classes"][0].startswith("below ")
    known = [nodes["label"][node][0] for node in (*TRAIN, *VALIDATION)]
    assert np.bincount(known).tolist() == [8] * 5
    assert [nodes["label_text"][node] for node in (0, 1, 2)] == [*(f"{VALUES[node]:.4g}" for node in (0, 1)), ""]
    assert nodes["predicted_text"][2] == f"{model.predict([2])[0]:.4g}"


def test_the_page_of_numbers(browser: Any, fitted: tuple[str, Path]) -> None:
    kind, folder = fitted
    model, page, problems = cge.load(folder / "model"), folder / "page.html", []
    write_page(model, page, title="kinds")
    tab = browser.new_context(viewport={"width": 1200, "height": 900}).new_page()
    tab.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.goto(page.as_uri())
    tab.wait_for_selector("html[data-ready=yes]", timeout=60_000)
    assert problems == []
    charts = {chart.get_attribute("id") for chart in tab.query_selector_all(".chart.js-plotly-plot")}
    assert charts >= {"accuracy", "curve", "scatter", "deletion", "insertion"}
    assert ("reliability" in charts) == (kind != "regression")
    assert ("confusion" in charts) == (kind == "single-label")
    tab.fill("#node", "2")
    tab.press("#node", "Enter")
    card = tab.inner_text("#node-card")
    if kind == "regression":
        assert f"Predicted: {model.predict([2])[0]:.4g}. Label: unknown." in card
        axis = "(id) => document.getElementById(id).layout.yaxis"
        assert tab.evaluate(f"({axis})('deletion').title.text") == "value"
        assert "%" not in tab.evaluate(f"({axis})('deletion').tickformat")
        assert "%" not in tab.evaluate("document.getElementById('accuracy').layout.xaxis.tickformat")
    else:
        assert " %)" in card
    tab.context.close()


def test_an_update(fitted: tuple[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    kind, folder = fitted
    (folder / "new.csv").write_text("source,target\n100,3\n100,5\n")
    changes = ["--add-edges", str(folder / "new.csv"), "--labels", str(folder / "test.csv")]
    assert run(["update", str(folder / "model"), *changes, "--out", str(folder / "updated")]) == 0  # some with a note
    text = capsys.readouterr().out
    check_words(kind, text)
    assert f"changed {'value' if kind == 'regression' else 'class'}" in text
    updated = cge.load(folder / "updated")
    assert len(updated.fitted_.train) == len(TRAIN) + len(TEST)
    target, train = updated.fitted_.target, updated.fitted_.train
    (label,) = target.decode(target.from_matrix(train.matrix[train.nodes == 59]))
    texts = [f"{label:.3f}"] if kind == "regression" else label if kind == "multilabel" else [label]
    assert sorted(texts) == sorted(written(kind, 59))
