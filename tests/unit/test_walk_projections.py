"""Random projections of walks: a closed form, the same bytes for any memory, features for a fit."""

import json
from pathlib import Path

import numpy as np
import pytest

import cge
from cge.data.stored import ingest
from cge.engine import LocalEngine
from cge.errors import InputError
from cge.estimators.stored_fit import fit_stored
from cge.models.row_products import BlockSizes
from cge.randomness import generator
from cge.training.walk_projections import EXPONENT, LONG, SHORT, SHORT_EVERY, add_projections


@pytest.fixture
def write(tmp_path):
    """Writes a graph of two dense halves to a new folder."""
    random = np.random.default_rng(0)
    edges = random.integers(0, 60, (500, 2)) + 60 * random.integers(0, 2, (500, 1))
    edges = np.concatenate([edges, [[0, 60], [1, 61], [2, 119]]])
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(f"{a},{b}\n" for a, b in edges))
    return lambda name: ingest(tmp_path / "edges.csv", tmp_path / name, memory=64 << 20)


def test_closed_form_and_memory(write, tmp_path, monkeypatch):
    how = {"engine": LocalEngine(1), "memory": 8 << 30, "seed": 3}
    stored = add_projections(write("a"), 70, work=tmp_path / "work-a", **how)
    graph = stored.load()
    g = graph.to_scipy().toarray() + np.eye(120)
    degree = g.sum(axis=1)
    for number, steps in ((0, 32), (3, 3), (4, 32)):
        width = 6 if number == 4 else 16
        start = generator(3, "projections", number, 0).standard_normal((120, width), np.float32)
        expected = np.linalg.matrix_power(g / degree[:, None], steps) @ (degree[:, None] * start)
        features = graph.features[:, 16 * number : 16 * number + width]
        assert np.abs(features - expected).max() < 1e-5
    monkeypatch.setattr("cge.training.slab_propagation.fit_blocks", lambda *_: BlockSizes(16, 50, 33))
    other = add_projections(write("b"), 70, work=tmp_path / "work-b", **how)
    assert other.fingerprint == stored.fingerprint
    with pytest.raises(InputError, match="has features already"):
        add_projections(other, 70, work=tmp_path / "work-b", **how)


def test_steps_and_exponent_are_those_of_the_best_validation_score():
    results = json.loads((Path(__file__).parents[2] / "results/projection-selection.json").read_text())
    best = max(results["combinations"], key=lambda row: row["mean"])
    used = {"long": LONG, "short": SHORT, "short_every": SHORT_EVERY, "exponent": EXPONENT}
    assert used == results["used"] == {name: best[name] for name in used}


def test_a_graph_without_features_is_fitted(write, tmp_path):
    how = {"engine": LocalEngine(1), "memory": 8 << 30}
    stored = add_projections(write("a"), 32, work=tmp_path / "projections", **how)
    y = {node: "left" if node < 60 else "right" for node in range(0, 120, 8)}
    settings = {"weighting": "uniform", "classifier": "logistic", "refit": False}
    fit_stored(cge.CGE(**settings), stored, y, work=tmp_path / "work", memory=8 << 30).save(tmp_path / "m", "", False)
    predicted = cge.load(tmp_path / "m").predict()
    assert (predicted == np.where(np.arange(120) < 60, "left", "right")).mean() > 0.95
