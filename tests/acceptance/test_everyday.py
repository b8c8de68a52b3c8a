"""The whole way of a user: messy files, a model, its score, report, explanations, links, an update, a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cge
from cge.cli.main import run

pytestmark = pytest.mark.slow
PEOPLE = [f"{side} {k}" for side in ("left", "right") for k in range(30)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write an export of pandas with an index, blanks and a repeated edge; labels with gaps; a table of attributes."""
    random, rows = np.random.default_rng(0), []
    for side in ("left", "right"):
        rows += [(f"{side} {k}", f"{side} {(k + step) % 30}") for k in range(30) for step in (1, 3, 7)]
    rows += [("left 0", "right 0"), ("left 1", "left 0"), rows[0]]
    lines = [f"{place},{a} ,{b}" for place, (a, b) in enumerate(rows)]
    (tmp_path / "edges.csv").write_text("\n".join([",who,whom", *lines, ""]))
    words = {"left": "quiet garden tea", "right": "loud street coffee"}
    table = [f'{name},"{words[name.split()[0]]} {random.integers(99)}",{random.integers(20, 60)}' for name in PEOPLE]
    (tmp_path / "people.csv").write_text("\n".join(["name,about,age", *table, ""]))
    for file, wanted in (("labels.csv", range(0, 60, 3)), ("test.csv", range(1, 60, 3))):
        labels = [f"{PEOPLE[k]},{PEOPLE[k].split()[0]}" for k in wanted]
        (tmp_path / file).write_text("\n".join(["name,side", *labels, "left 5,", ""]))
    (tmp_path / "new.csv").write_text("who,whom\nnora,left 2\nnora,left 3\n")
    (tmp_path / "gone.csv").write_text("who,whom\nleft 0,right 0\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """Run a command with --json and return what it prints."""
    assert run([*words, "--json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def test_from_messy_files_to_a_server(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reading = ["--source", "who", "--target", "whom", "--missing-labels", "skip"]
    graph = ["edges.csv", "--attributes", "people.csv", *reading]
    assert answer(capsys, "check", *graph, "--labels", "labels.csv")["graph"]["nodes"] == 60
    training = ["--classifier", "mlp", "--weighting", "degree", "--max-epochs", "30", "--out", "model"]
    answer(capsys, "fit", *graph, "--labels", "labels.csv", *training)
    score = answer(capsys, "score", "model", "--labels", "test.csv", "--missing-labels", "skip")
    assert score["accuracy"] > 0.9
    assert answer(capsys, "report", "model", "--out", "report.html")["bytes"] < 8_000_000
    explanation = answer(capsys, "explain", "model", "--node", "left 4")
    assert explanation["paths"]
    assert run(["explain", "model", "--node", "left4"]) == 2
    assert "did you mean 'left 4'" in capsys.readouterr().err
    links = answer(capsys, "links", "model", "--top", "20")["links"]
    assert len(links) == 20
    changed = answer(capsys, "update", "model", "--add-edges", "new.csv", "--remove-edges", "gone.csv")
    assert (changed["new_nodes"], changed["nodes"]) == (1, 61)
    assert answer(capsys, "predict", "model", "--nodes", "nora")["predictions"][0]["class"] == "left"
    testclient = pytest.importorskip("starlette.testclient", reason="starlette is part of the extra 'serve'")
    from cge.serve.app import create_app
    from cge.serve.service import Limits, Service

    model = cge.load("model")
    with testclient.TestClient(create_app(Service(model, Limits())), base_url="http://localhost") as client:
        assert client.post("/predict", json={"nodes": ["nora"]}).json()["predictions"][0]["class"] == "left"
    assert "<table" in model.explain("nora")._repr_html_()
