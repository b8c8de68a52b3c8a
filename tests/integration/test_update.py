"""`cge update`: files of changes in, a changed model out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cge
from cge.cli.main import run
from tests.integration.commands import json_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save a model of two groups of a ring, with names and features, and files of changes."""
    home, random = tmp_path_factory.mktemp("update"), np.random.default_rng(0)
    names = [f"n{i}" for i in range(60)]
    features = random.random((60, 3)) + 0.5 * np.repeat(np.eye(2, 3), 30, axis=0)
    graph = cge.Graph.from_edges([(names[i], names[(i + k) % 60]) for i in range(60) for k in (1, 2)], features, names)
    labels = {name: "left" if i < 30 else "right" for i, name in enumerate(names) if i % 3 == 0}
    settings: dict[str, Any] = {"classifier": "mlp", "label_propagation": True, "training": {"max_epochs": 5}}
    cge.CGE("degree", hops=2, **settings).fit(graph, labels).save(home / "model")
    (home / "new.csv").write_text("source,target\nn1,x\nx,n5\n")
    (home / "gone.csv").write_text("source;target\nn10;n11\nn10;n30\n")
    (home / "features.csv").write_text("node,a,b,c\nx,1,0,0\nn20,0,0,1\n")
    (home / "labels.csv").write_text("node,label\nx,left\nn2,left\n")
    return home


def test_files_of_changes_give_the_model_of_a_graph_update(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    options = {"add-edges": "new.csv", "remove-edges": "gone.csv", "features": "features.csv", "labels": "labels.csv"}
    words = [word for name, file in options.items() for word in (f"--{name}", str(folder / file))]
    content = json_of(capsys, "update", str(folder / "model"), *words, "--out", str(tmp_path / "m"))
    assert (content["nodes"], content["new_nodes"], content["label_score"]) == (61, 1, 1.0)
    assert content["notes"][-1] == "1 of the edges to remove are not in the graph"
    update = cge.GraphUpdate(
        [("n1", "x"), ("x", "n5")],
        feature_ids=["x", "n20"],
        features=[[1, 0, 0], [0, 0, 1]],
        remove_edges=[("n10", "n11"), ("n10", "n30")],
    )
    model = cge.load(folder / "model")
    model.update(update, {"x": "left", "n2": "left"})
    stored = cge.load(tmp_path / "m")
    assert stored.graph_.neighbors("x") == ["n1", "n5"]
    assert "n11" not in stored.graph_.neighbors("n10")
    assert np.array_equal(stored.predict_proba(), model.predict_proba())
    assert len(cge.load(folder / "model").graph_) == 60


def test_a_model_is_replaced_in_place(folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    cge.load(folder / "model").save(tmp_path / "m")
    assert run(["update", str(tmp_path / "m"), "--remove-edges", str(folder / "gone.csv")]) == 0
    output = capsys.readouterr().out
    assert "60: 3 changed, 0 of them new" in output
    assert f"written to         {tmp_path / 'm'}" in output.replace("\n                   ", "")
    assert cge.load(tmp_path / "m").graph_.num_edges == 119


def test_wrong_changes_are_one_sentence_and_change_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before = (folder / "model" / "model.json").read_bytes()
    (tmp_path / "unknown.csv").write_text("source,target\nn1,who\n")
    (tmp_path / "labels.csv").write_text("node,label\nn2,up\n")
    cases = [
        ([], "there is nothing to change"),
        (["--delimiter", ","], "--delimiter describes the file of --add-edges"),
        (["--remove-edges", str(tmp_path / "unknown.csv")], "'who'"),
        (["--labels", str(tmp_path / "labels.csv")], "has the class 'up', which is no class of the model"),
    ]
    for words, expected in cases:
        assert run(["update", str(folder / "model"), *words]) == 2
        error = capsys.readouterr().err
        assert expected in error
        assert error.count("\n") <= 2
    assert (folder / "model" / "model.json").read_bytes() == before
