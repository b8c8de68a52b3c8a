"""scikit-learn's tools on node ids, pickles, arrays for plain NumPy, tables for maps, and a notebook."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks

import cge
from cge.errors import CgeError, InputError
from tests.fixtures import TRUE_LABELS, ConstantWeighting, groups_with_sparse_features, quick_cge, two_groups

NODES = list(range(40))
QUICK: Any = {"weighting": "degree", "classifier": "mlp", "validation_fraction": 0, "label_propagation": False}


def classifier(**settings: Any) -> cge.NodeClassifier:
    return cge.NodeClassifier(groups_with_sparse_features(), quick_cge(**(QUICK | settings)))


def test_splits_of_nodes_are_splits_of_labels() -> None:
    scores = cross_val_score(classifier(), NODES, TRUE_LABELS, cv=4)
    assert len(scores) == 4
    assert scores.mean() > 0.7
    search = GridSearchCV(classifier(), {"estimator__hops": [0, 2]}, cv=2).fit(np.array(NODES)[:, None], TRUE_LABELS)
    assert search.best_estimator_.estimator_.hops in (0, 2)
    assert search.predict_proba(NODES).shape == (40, 2)


def test_a_pipeline_classifies_vectors() -> None:
    pipeline = make_pipeline(classifier(), LogisticRegression())
    labels = np.array(["left", "right"])[TRUE_LABELS]
    assert pipeline.fit(NODES, labels).score(NODES, labels) > 0.8
    assert set(pipeline.predict(NODES)) == {"left", "right"}


def test_tables_names_and_wrong_input() -> None:
    import pandas as pd

    graph = cge.Graph.from_edges([(f"a{i}", f"a{(i + 1) % 12}") for i in range(12)])
    model = cge.NodeClassifier(graph, quick_cge(**QUICK))
    table = pd.DataFrame({"node": [f"a{i}" for i in range(12)]})
    assert model.fit(table, ["x", "y"] * 6).predict(table["node"]).shape == (12,)
    with pytest.raises(InputError, match="'zz'"):
        model.fit(["zz", "a1"], ["x", "y"])
    with pytest.raises(InputError, match="more than once"):
        model.fit(["a1", "a1"], ["x", "y"])
    with pytest.raises(InputError, match="2 nodes in X, but 1 labels"):
        model.fit(["a1", "a2"], ["x"])
    with pytest.raises(InputError, match="one node id in each row"):
        model.fit(np.zeros((3, 2)), [1, 2, 3])
    with pytest.raises(InputError, match="needs a graph"):
        cge.NodeClassifier().fit(NODES, TRUE_LABELS)
    with pytest.raises(CgeError, match="call fit first"):
        cge.NodeClassifier(graph).predict(["a1"])


@pytest.mark.parametrize(
    "check",
    [
        "check_estimator_cloneable",
        "check_estimator_repr",
        "check_no_attributes_set_in_init",
        "check_get_params_invariance",
        "check_set_params",
        "check_estimator_tags_renamed",
        "check_valid_tag_types",
    ],
)
def test_the_checks_of_scikit_learn_that_need_no_table_of_features(check: str) -> None:
    """The others pass random numbers as `X`, which are no ids."""
    getattr(estimator_checks, check)("NodeClassifier", cge.NodeClassifier())


def test_a_clone_shares_the_graph() -> None:
    model = classifier()
    copied = clone(model)
    assert copied.graph is model.graph
    assert copied.estimator is not model.estimator
    assert copy.deepcopy(model.graph) is model.graph


@pytest.mark.parametrize("weighting", ["degree", ConstantWeighting])
def test_a_pickle_holds_the_files_of_a_saved_model(weighting: Any) -> None:
    model = quick_cge(**(QUICK | {"weighting": weighting, "outer_steps": 20, "walks_per_node": 2}))
    assert pickle.loads(pickle.dumps(model)).get_params()["hops"] == model.hops
    model.fit(two_groups(), TRUE_LABELS)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(), model.predict_proba())
    shared = copy.copy(model)
    assert shared.fitted_ is model.fitted_
    state = model.__getstate__()
    assert sorted(state) == ["files", "weighting"]
    damaged = {name: content[:-10] for name, content in state["files"].items()}
    with pytest.raises(CgeError):
        cge.CGE.__new__(cge.CGE).__setstate__(state | {"files": damaged})


@pytest.mark.parametrize("kind", ["mlp", "logistic-unit", "sparse"])
@pytest.mark.parametrize("labels", [True, False])
def test_plain_numpy_gives_the_probabilities(kind: str, labels: bool, tmp_path: Path) -> None:
    settings = QUICK | {"classifier": kind, "label_propagation": labels, "n_estimators": 2}
    model = quick_cge(**settings).fit(groups_with_sparse_features(), {i: int(TRUE_LABELS[i]) for i in range(0, 40, 3)})
    model.to_numpy(tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz") as stored:
        arrays = {name: stored[name].astype(np.float64) if name != "classes" else stored[name] for name in stored}
    outputs = []
    for place in range(len(model.ensemble_)):
        propagated, label_scores = model.propagated_inputs(NODES, place)
        vectors = propagated @ arrays[f"projection_{place}"] + arrays[f"offset_{place}"]
        scores = vectors
        if f"output_weight_{place}" in arrays:
            scores = np.maximum(vectors, 0) @ arrays[f"output_weight_{place}"].T
        scores = scores + arrays.get(f"output_bias_{place}", 0) + arrays[f"label_weight_{place}"] * label_scores
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        outputs.append(powers / powers.sum(axis=1, keepdims=True))
    probabilities = np.mean(outputs, axis=0) ** (1 / arrays["temperature"])
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(probabilities, model.predict_proba(), atol=1e-5)
    with pytest.raises(InputError, match="classifier"):
        model.propagated_inputs(NODES, 99)


def test_a_table_for_maps(tmp_path: Path) -> None:
    model = quick_cge(**QUICK).fit(two_groups(), {0: "left", 1: "left", 30: "right", 31: "right"})
    model.to_atlas(tmp_path / "nodes.parquet", vectors=True)
    table = pq.read_table(tmp_path / "nodes.parquet").to_pydict()
    assert list(table)[:6] == ["node", "class", "confidence", "training_label", "x", "y"]
    assert table["class"] == model.predict().tolist()
    assert (table["training_label"][0], table["training_label"][2]) == ("left", "")
    centered = model.embedding_ - model.embedding_.mean(axis=0)
    _, _, axes = np.linalg.svd(centered.astype(np.float64), full_matrices=False)
    np.testing.assert_allclose(np.abs(table["x"]), np.abs(centered @ axes[0]), atol=1e-4)
    np.testing.assert_allclose(table["v0"], model.embedding_[:, 0])


def test_verbose_prints_epochs(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[int] = []
    model = quick_cge(**QUICK, max_epochs=20)
    model.fit(two_groups(), TRUE_LABELS, verbose=True, callback=lambda epoch: seen.append(epoch.epoch))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("train: epoch 1 of at most 20")
    assert len(lines) == 3
    assert len(seen) == 20


def test_a_notebook() -> None:
    nbformat = pytest.importorskip("nbformat", reason="nbformat is part of the extra 'notebook'")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is part of the extra 'notebook'")
    pytest.importorskip("ipykernel", reason="ipykernel is part of the extra 'notebook'")
    cells = [
        """import cge
edges = [(i + s, (i + k) % 8 + s) for s in (0, 8) for i in range(8) for k in (1, 2)]
graph = cge.Graph.from_edges(edges)
graph""",
        """model = cge.CGE("degree", classifier="mlp", training={"max_epochs": 10})
model.fit(graph, {0: "left", 1: "left", 9: "<i>right</i>", 10: "<i>right</i>"})""",
        "model.explain(3)",
        "model.update(cge.GraphUpdate([(20, 3)]))\nmodel.predict([20])",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    outputs = [cell.outputs[-1].data for cell in notebook.cells]
    for data in outputs[:3]:
        assert "<table" in data["text/html"]
        assert "<i>right" not in data["text/html"]
    assert "16 nodes" in outputs[0]["text/plain"]
    assert "<svg" in outputs[1]["text/html"]
