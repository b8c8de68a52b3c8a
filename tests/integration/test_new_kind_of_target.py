"""A kind of target that is added from outside, as CONTRIBUTING says: counts, with the Poisson loss."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import d2_tweedie_score, mean_poisson_deviance

import cge
from cge.errors import InputError
from cge.models.backends import exp
from cge.report.contents import report_contents
from cge.targets import TARGETS, TASKS, Regression, TargetTexts, register_target
from cge.targets.texts import NUMERIC
from tests.fixtures import two_groups
from tests.integration.commands import json_of, output_of

SIZE = 60
TRAIN, VALIDATION, TEST = np.arange(0, SIZE, 3), np.arange(1, SIZE, 3), np.arange(2, SIZE, 3)
RATES = np.exp(2 + 1.5 * np.sin(np.arange(SIZE) / 6))
COUNTS = np.random.default_rng(0).poisson(RATES)


class Counts(Regression):
    """Labels are counts, outputs expected counts, and scores their logarithm over the mean of the training labels."""

    kind: ClassVar[str] = "counts"
    metric: ClassVar[str] = "D²"
    score_key: ClassVar[str] = "d2"
    texts: ClassVar[TargetTexts] = replace(
        NUMERIC,
        noun="count",
        output="expected count",
        outputs="expected counts",
        linear_model="Poisson regression",
        new_label_score="D² {score:.3f}",
        better_than="better in D² than",
        worse_than="worse in D² than",
        equal_to="as good in D² as",
    )

    def loss(self, scores: Any, labels: Any, class_weights: Any = None) -> Any:
        return (scores[:, 0].exp() - labels / self.mean * scores[:, 0]).mean()

    def constant_loss(self, labels: Any, class_weights: Any = None) -> float:
        rate = float(labels.double().mean()) / self.mean
        return rate - rate * np.log(rate)

    def outputs(self, scores: Any) -> Any:
        return self.mean * exp(scores)

    def as_scores(self, outputs: Any) -> Any:
        return np.log(outputs / self.mean)

    def distillation_losses(self, scores: Any, label_scores: Any) -> Any:
        return (scores.exp() - label_scores.exp() * scores).sum(1)

    def label_scores(self, sums: Any, count: Any, reachable: Any) -> Any:
        mean = sums / np.where(reachable, count, 1.0)
        return np.where(reachable, np.log(0.95 * mean / self.mean + 0.05), 0).astype(np.float32)

    def label_values(self, matrix: Any) -> Any:
        return matrix / self.mean - 1

    def label_factors(self, mean: Any) -> Any:
        change = np.where(np.abs(mean) < 1e-12, 1e-12, 0.95 * mean)
        return 0.95 * np.log1p(change) / change

    def linear_outputs(self, x: Any, nodes: Any, labels: Any, strength: float) -> Any:
        return PoissonRegressor(alpha=1 / strength).fit(x[nodes], labels).predict(x)[:, None]

    def score(self, scores: Any, labels: Any) -> float:
        return self.score_outputs(self.outputs(scores.astype(np.float64)), labels[:, None])

    def node_losses(self, scores: Any, labels: Any) -> Any:
        return self.output_losses(self.outputs(scores.astype(np.float64)), labels)

    def node_scores(self, scores: Any, labels: Any) -> Any:
        return -self.node_losses(scores, labels)

    def output_losses(self, outputs: Any, labels: Any) -> Any:
        ratio = np.maximum(labels, 1e-300) / outputs[:, 0]
        return 2 * (labels * np.log(ratio) - labels + outputs[:, 0])

    def node_correct(self, outputs: Any, labels: Any) -> Any:
        return 1 - self.output_losses(outputs, labels) / self.std

    def score_predictions(self, predicted: Any, labels: Any) -> float:
        return self.score_outputs(predicted[:, None], np.asarray(labels, float)[:, None])

    def score_outputs(self, outputs: Any, matrix: Any) -> float:
        labels = matrix[:, 0]
        null = self.output_losses(np.full(matrix.shape, labels.mean()), labels).mean()
        return float(1 - self.output_losses(outputs.astype(np.float64), labels).mean() / null)

    def score_interval(self, outputs: Any, matrix: Any) -> tuple[float, float]:
        drawn = np.random.default_rng(0).integers(0, len(matrix), (200, len(matrix)))
        low, high = np.quantile([self.score_outputs(outputs[nodes], matrix[nodes]) for nodes in drawn], [0.025, 0.975])
        return float(low), float(high)

    def other_scores(self, outputs: Any, matrix: Any) -> dict[str, float]:
        return {"mean_deviance": float(self.output_losses(outputs.astype(np.float64), matrix[:, 0]).mean())}

    def describe(self) -> str:
        return "counts"


@pytest.fixture(scope="module", autouse=True)
def _registered() -> Iterator[None]:
    register_target(Counts, "a count for each node")
    yield
    del TARGETS[Counts.kind], TASKS[Counts.kind]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the files of a ring with chords, whose features are noisy logarithms of the rates."""
    folder = tmp_path_factory.mktemp("counts")
    edges = [f"{a},{(a + step) % SIZE}" for a in range(SIZE) for step in (1, 2, 3)]
    (folder / "edges.csv").write_text("\n".join(["source,target", *edges, ""]))
    np.save(folder / "x.npy", np.random.default_rng(1).normal(size=(SIZE, 3)) / 2 + np.c_[np.log(RATES), RATES, RATES])
    for name, nodes in (("train", TRAIN), ("validation", VALIDATION), ("test", TEST)):
        rows = [f"{node},{COUNTS[node]}" for node in nodes.tolist()]
        (folder / f"{name}.csv").write_text("\n".join(["node,label", *rows, ""]))
    return folder


@pytest.fixture
def fitted(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Fit by the command; return what it prints."""
    labels = ["--labels", str(folder / "train.csv"), "--validation", str(folder / "validation.csv")]
    settings = ["--task", "counts", "--weighting", "degree", "--classifier", "mlp", "--max-epochs", "80"]
    settings += ["--label-propagation", "yes"]
    words = [str(folder / "edges.csv"), "--features", str(folder / "x.npy"), *labels, *settings]
    return json_of(capsys, "fit", *words, "--out", str(folder / "model"))


def test_commands_and_python_agree(folder: Path, fitted: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    model, name = cge.load(folder / "model"), str(folder / "model")
    assert isinstance(model.fitted_.target, Counts)
    predicted = model.predict()
    assert predicted[TEST] == pytest.approx(RATES[TEST], rel=1.5)
    assert (predicted > 0).all()
    rows = json_of(capsys, "predict", name)["predictions"]
    assert np.array_equal(np.float32([row["value"] for row in rows]), predicted)
    expected = {  # an independent form
        nodes.tobytes(): d2_tweedie_score(COUNTS[nodes], predicted[nodes], power=1) for nodes in (VALIDATION, TEST)
    }
    assert (fitted["metric"], fitted["classes"]) == ("D²", None)
    assert fitted["validation_accuracy"] == pytest.approx(expected[VALIDATION.tobytes()], abs=1e-5)
    assert "validation D² " in repr(model)
    score = expected[TEST.tobytes()]
    assert score > 0.5
    assert model.score(TEST.tolist(), COUNTS[TEST]) == pytest.approx(score, abs=1e-5)
    command = ["score", name, "--labels", str(folder / "test.csv")]
    scores = json_of(capsys, *command)
    deviance = mean_poisson_deviance(COUNTS[TEST], predicted[TEST])
    assert (scores["d2"], scores["mean_deviance"]) == pytest.approx((score, deviance), abs=1e-5)
    assert float(output_of(capsys, *command, "--quiet")) == scores["d2"]
    lines = output_of(capsys, *command).splitlines()
    assert re.fullmatch(rf"D² +{scores['d2']:.4f} \(95 % confidence interval .*\)", lines[1])
    assert re.fullmatch(rf"mean deviance +{deviance:.4f}", lines[2])


@pytest.mark.usefixtures("fitted")
def test_explanations_and_the_report(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, name = cge.load(folder / "model"), str(folder / "model")
    explanation = json_of(capsys, "explain", name, "--node", "5")
    parts = [explanation[part][0] for part in ("constant", "label_propagation", "remainder")]
    total = sum(parts) + np.sum(explanation["by_hop"], axis=0)[0]
    assert total == pytest.approx(explanation["scores"][0], abs=1e-4)
    target = model.fitted_.target
    assert target.outputs(np.array([explanation["scores"][0]]))[0] == pytest.approx(model.predict([5])[0], rel=1e-4)
    assert f"{model.predict([5])[0]:.6g}" in output_of(capsys, "explain", name, "--node", "5")
    curves = model.faithfulness([5, 6]).deletion
    assert curves[:, 0] == pytest.approx(model.predict([5, 6]), rel=1e-4)
    flags = ["--out", str(folder / "report.html"), "--labels", str(folder / "test.csv"), "--compare"]
    report = json_of(capsys, "report", name, *flags)
    scores = json_of(capsys, "score", name, "--labels", str(folder / "test.csv"))
    assert report["metric"] == "D²"
    assert report["d2"][0] == {"method": "cge", "d2": scores["d2"], "interval": scores["interval"]}
    methods = {row["method"] for row in report["d2"]}
    assert methods == {"cge", "cge (uniform weights)", "SGC", "Poisson regression (features)", "label propagation"}
    contents = report_contents(model)
    assert contents["summary"][1].startswith(f"D² on 20 validation labels: {fitted_score(model):.3f} (95 %")
    assert contents["target"] == {"noun": "count", "output": "expected count"}
    assert (contents["reliability"], contents["nodes"]["predicted_all"]) == (None, None)


def fitted_score(model: Any) -> float:
    return float(model.score(VALIDATION.tolist(), COUNTS[VALIDATION]))


@pytest.mark.usefixtures("fitted")
def test_an_update(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "new.csv").write_text("source,target\n3,50\n")
    changes = ["--add-edges", str(folder / "new.csv"), "--labels", str(folder / "test.csv")]
    text = output_of(capsys, "update", str(folder / "model"), *changes, "--out", str(folder / "updated"))
    assert "changed count" in text
    assert re.search(r"new labels +D² \d\.\d{3}, before the update", text)


def test_a_kind_has_one_name() -> None:
    with pytest.raises(InputError, match="there is already a kind of target 'counts'; choose another name"):
        register_target(Counts, "another")
    with pytest.raises(InputError, match="task must be one of 'classification', 'regression', 'counts', found 'count'"):
        cge.CGE(task="count").fit(two_groups(), {0: 1, 1: 2})
