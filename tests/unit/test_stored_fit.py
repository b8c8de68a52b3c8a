"""Fits and predictions of stored graphs: the same bytes for any memory, those of a fit in memory up to rounding."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

import cge
from cge.cli.main import run
from cge.data.files.edges import EdgeOptions
from cge.data.stored import ingest, open_graph
from cge.data.stored.ingest import IngestOptions
from cge.engine import LocalEngine
from cge.errors import FileFormatError, InputError, UnknownNodeError
from cge.estimators.fit_plan import plan_fit
from cge.estimators.labeled_fit import fits_labeled_rows, is_large_size
from cge.estimators.stored_fit import fit_stored, fits_out_of_core, stored_bytes
from cge.estimators.stored_model import StoredModel, write_parts
from cge.models.row_products import BlockSizes
from cge.training.labeled_rows import hop_rows

SIZES = {"in memory": BlockSizes(16), "few columns": BlockSizes(4), "blocks": BlockSizes(16, 90, 70)}
HISTORIES = "history", "selection_history"
SETTINGS = {"training": {"max_epochs": 40}, "random_state": 1, "n_jobs": 2}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A graph of 400 nodes and four classes, weighted, with 20 features, two isolated nodes and string ids."""
    folder, random = tmp_path_factory.mktemp("stored"), np.random.default_rng(0)
    classes = np.arange(400) % 4
    source, target = random.integers(0, 398, (2, 3000))
    kept = (classes[source] == classes[target]) | (random.random(3000) < 0.15)
    lines = [f"n{a:03d},n{b:03d},{0.5 + (a + b) % 3}" for a, b in zip(source[kept], target[kept], strict=True)]
    (folder / "edges.csv").write_text("\n".join(["source,target,weight", *lines]))
    (folder / "nodes.csv").write_text("\n".join(["node", *(f"n{k:03d}" for k in range(400))]))
    features = np.eye(4)[classes] @ random.standard_normal((4, 20)) + 2 * random.standard_normal((400, 20))
    features[399] = features[:399].mean(axis=0)
    np.save(folder / "x.npy", features.astype(np.float32))
    order = random.permutation(398)
    for name, nodes in (("train", order[:60]), ("validation", order[60:160]), ("test", order[160:])):
        rows = [f"n{k:03d},c{classes[k]}" for k in nodes.tolist()]
        (folder / f"{name}.csv").write_text("\n".join(["node,label", *rows]))
    more = {"features": folder / "x.npy", "nodes": folder / "nodes.csv", "memory": 64 << 20}
    ingest(folder / "edges.csv", folder / "graph", **more)
    return folder


def labels_of(files, name):
    return dict(line.split(",") for line in (files / f"{name}.csv").read_text().splitlines()[1:])


def use_sizes(monkeypatch, name):
    monkeypatch.setattr("cge.training.slab_propagation.fit_blocks", lambda *_: SIZES[name])


def tensors_of(folder):
    return json.loads((folder / "model.json").read_text())["tensors"]["sha256"]


@pytest.fixture(scope="module")
def model(files):
    stored, out = open_graph(files / "graph"), files / "model"
    y, validation = labels_of(files, "train"), labels_of(files, "validation")
    fitted = fit_stored(cge.CGE(**SETTINGS), stored, y, validation, work=files / "work", memory=8 << 30)
    fitted.save(out, "", True)
    return out


@pytest.mark.parametrize("sizes", ["few columns", "blocks"])
def test_a_fit_has_the_same_bytes_for_any_memory(files, model, monkeypatch, tmp_path, sizes):
    use_sizes(monkeypatch, sizes)
    given = open_graph(files / "graph"), labels_of(files, "train"), labels_of(files, "validation")
    engine = LocalEngine(2) if sizes == "blocks" else None
    fitted = fit_stored(cge.CGE(**SETTINGS), *given, work=tmp_path / "work", memory=1 << 30, engine=engine)
    fitted.save(tmp_path / "model", "", True)
    assert tensors_of(tmp_path / "model") == tensors_of(model)


def all_are_large(monkeypatch):
    monkeypatch.setattr("cge.estimators.labeled_fit._CELLS", 0)


@pytest.mark.parametrize("how", ["auto", "weighting", "folds"])
def test_a_large_graph_has_the_same_bytes_in_memory_and_out_of_core(files, monkeypatch, tmp_path, how):
    """Edge and feature files read into memory, and the folder made of them: the same parameters, to the last bit."""
    all_are_large(monkeypatch)
    settings = SETTINGS | ({"weighting": "degree", "classifier": "mlp"} if how == "weighting" else {})
    given = [labels_of(files, name) for name in (["train"] if how == "folds" else ["train", "validation"])]
    graph = cge.read_graph(files / "edges.csv", features=files / "x.npy", nodes=files / "nodes.csv")
    in_memory = cge.CGE(**settings).fit(graph, *given).fitted_
    fitted = fit_stored(cge.CGE(**settings), open_graph(files / "graph"), *given, work=tmp_path / "w", memory=8 << 30)
    arrays, expected = in_memory.arrays(), fitted.model.arrays()
    assert arrays.keys() == expected.keys()
    different = [name for name in arrays if arrays[name].tobytes() != expected[name].tobytes()]
    assert different == ["vectors.scales"]  # those of all nodes in memory, of the labeled ones out of core
    metadata = [model.metadata() for model in (in_memory, fitted.model)]
    assert [each.pop("trained_nodes") for each in metadata] == [400, 160 if how != "folds" else 60]
    for epoch in (epoch for each in metadata for name in HISTORIES for epoch in each[name] or ()):
        del epoch["seconds"]
    assert metadata[0] == metadata[1]
    fitted.save(tmp_path / "model", "", True)
    assert (
        cge.load(tmp_path / "model").predict_proba().tobytes()
        == in_memory.probabilities(None, np.arange(400)).tobytes()
    )


def test_size_and_settings_decide_what_is_fitted_on_labeled_rows(files, monkeypatch):
    graph, stored = cge.read_graph(files / "graph"), open_graph(files / "graph")
    assert not fits_labeled_rows(cge.CGE(), graph)
    assert [is_large_size(*sizes) for sizes in ((10**6, 10**6, 50), (10**6, 10**6, 51), (10**6, 3 * 10**7, 1))] == [
        False,
        True,
        True,
    ]
    all_are_large(monkeypatch)
    for settings, large in (({}, True), ({"weighting": "degree"}, True), ({"weighting": "edges"}, False)):
        assert fits_labeled_rows(cge.CGE(**settings), graph) == large
        assert fits_out_of_core(cge.CGE(**settings), stored) == large
    assert not fits_labeled_rows(cge.CGE(inputs="walks"), graph)


@pytest.mark.parametrize("parts", [["train"], ["train", "validation"]], ids="+".join)
def test_a_plan_in_memory_lists_the_candidates_of_a_fit_out_of_core(files, monkeypatch, tmp_path, parts):
    searches = []

    def record(search):
        searches.append(search)
        raise InterruptedError

    given = [labels_of(files, name) for name in parts]
    with monkeypatch.context() as patch:
        patch.setattr("cge.training.model_search.ModelSearch.run", record)
        with pytest.raises(InterruptedError):
            fit_stored(cge.CGE(), open_graph(files / "graph"), *given, work=tmp_path / "work", memory=1 << 30)
    all_are_large(monkeypatch)
    plan = plan_fit(cge.CGE(), cge.read_graph(files / "graph"), *given)
    assert plan.problem == searches[0].problem
    assert plan.rows() == [candidate.row() for candidate in searches[0].candidates]
    assert {each.classifier for each in plan.candidates} <= {"mlp", "logistic", "logistic-unit", "as selected"}
    assert "cosine" not in {each.weighting for each in plan.candidates}


def test_many_dense_features_of_few_nodes_are_used_as_they_are_on_labeled_rows(monkeypatch, tmp_path):
    all_are_large(monkeypatch)
    features = np.random.default_rng(0).normal(size=(40, 9000)).astype(np.float32)
    graph = cge.Graph.from_edges([(k, (k + 1) % 40) for k in range(40)], features=features)
    y = {k: "ab"[k % 2] for k in range(20)}
    model = cge.CGE("degree", classifier="mlp", training={"max_epochs": 3}, refit=False).fit(graph, y)
    probabilities = model.predict_proba()
    model.save(tmp_path / "model")
    assert probabilities.tobytes() == cge.load(tmp_path / "model").predict_proba().tobytes()
    assert len(model.to_numpy()["projection_0"]) == 9000


def test_the_model_is_that_of_a_fit_in_memory(files, tmp_path):
    """With the same weighting and classifier, probabilities and accuracy are those of the usual fit."""
    given = labels_of(files, "train"), labels_of(files, "validation")
    settings = SETTINGS | {"weighting": "degree", "classifier": "mlp", "label_propagation": False}
    fitted = fit_stored(cge.CGE(**settings), open_graph(files / "graph"), *given, work=tmp_path / "w", memory=8 << 30)
    fitted.save(tmp_path / "model", "", True)
    loaded, test = cge.load(tmp_path / "model"), labels_of(files, "test")
    usual = cge.CGE(**settings).fit(cge.read_graph(files / "graph"), *given)
    assert np.abs(loaded.predict_proba() - usual.predict_proba()).max() < 0.01  # 40 epochs grow the rounding
    assert abs(loaded.score(list(test), list(test.values())) - usual.score(list(test), list(test.values()))) < 0.01
    assert usual.score(list(test), list(test.values())) > 0.6


@pytest.mark.parametrize("vectors", [False, True])
def test_parts_have_the_same_bytes_and_those_of_the_loaded_model(files, model, monkeypatch, tmp_path, vectors):
    parts = []
    for sizes in SIZES:
        use_sizes(monkeypatch, sizes)
        out = tmp_path / sizes
        out.mkdir()
        stored = StoredModel.open(model)
        write_parts(stored, out, out / "work", LocalEngine(1), 8 << 30, lambda *_: None, vectors=vectors)
        parts.append((out / "part-00000.parquet").read_bytes())
    assert parts[0] == parts[1] == parts[2]
    table, loaded = pq.read_table(out / "part-00000.parquet"), cge.load(model)
    if vectors:
        assert np.allclose(np.stack(table["vector"].to_pylist()), loaded.embedding_, atol=1e-4)
        assert table["node"].to_pylist() == loaded.node_ids_.tolist()
    else:
        columns = [table[f"probability_{name}"].to_numpy() for name in loaded.classes_]
        assert np.allclose(np.stack(columns, axis=1), loaded.predict_proba(), atol=1e-5)
        assert table["class"].to_pylist() == loaded.predict().tolist()
        assert table["evidence"].to_pylist()[398:] == ["training graph", "no information"]


def test_an_interrupted_fit_continues(files, model, tmp_path):
    class StoppedError(Exception):
        pass

    def stop(stage, done, total):
        if stage == "propagating inputs":
            raise StoppedError

    given = open_graph(files / "graph"), labels_of(files, "train"), labels_of(files, "validation")
    with pytest.raises(StoppedError):
        fit_stored(cge.CGE(**SETTINGS), *given, work=tmp_path / "work", memory=8 << 30, progress=stop)
    finished = tmp_path / "work" / "rows-0000.npy"
    before = finished.stat().st_mtime_ns
    fitted = fit_stored(cge.CGE(**SETTINGS), *given, work=tmp_path / "work", memory=8 << 30)
    fitted.save(tmp_path / "model", "", True)
    assert finished.stat().st_mtime_ns == before
    assert tensors_of(tmp_path / "model") == tensors_of(model)


def test_what_is_refused(files, model, tmp_path):
    stored, y = open_graph(files / "graph"), labels_of(files, "train")
    for settings, name in (
        ({"weighting": "edges"}, "weighting='edges'"),
        ({"classifier": "consistency"}, "classifier='consistency'"),
        ({"label_propagation": True}, "label_propagation=True"),
    ):
        with pytest.raises(InputError, match=f"{name} needs all nodes in memory, and this fit is out of core"):
            fit_stored(cge.CGE(**settings), stored, y, work=tmp_path / "work", memory=8 << 30)
    with pytest.raises(UnknownNodeError, match="node 'nobody' in labels is not in the graph"):
        fit_stored(cge.CGE(), stored, y | {"nobody": "c0"}, work=tmp_path / "work", memory=8 << 30)
    options = IngestOptions(EdgeOptions(), self_loops=True)
    other = ingest(files / "edges.csv", tmp_path / "plain", options=options, memory=64 << 20)
    with pytest.raises(
        InputError, match="needs node features, and this stored graph has none; pass features to `ingest`"
    ):
        fit_stored(cge.CGE(), other, y, work=tmp_path / "work", memory=8 << 30)
    content = json.loads((model / "model.json").read_text())
    assert content["metadata"]["graph"]["sha256"] == stored.fingerprint
    assert 5e8 < stored_bytes(stored) < 6e8


def test_a_changed_slab_is_found(files, tmp_path):
    import shutil

    copy = shutil.copytree(files / "graph", tmp_path / "graph")
    data = bytearray((copy / "x-0001.npy").read_bytes())
    data[-3] ^= 64
    (copy / "x-0001.npy").write_bytes(data)
    with pytest.raises(FileFormatError, match=r"x-0001\.npy: the file was changed since 'cge ingest' wrote it"):
        fit_stored(cge.CGE(), open_graph(copy), labels_of(files, "train"), work=tmp_path / "work", memory=8 << 30)


def test_hops_of_all_candidates():
    assert dict(hop_rows("auto", 4).hops) == {0.0: 4, 0.5: 4, 1.0: 2}
    assert hop_rows("degree", 3).hops == ((0.5, 3),)
    assert list(hop_rows("2 hops (b=0)", 2).places) == [(0.0, 0), (0.0, 1), (0.0, 2)]


def test_commands(files, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    graph, labels = str(files / "graph"), ["--labels", str(files / "train.csv")]
    flags = ["--max-epochs", "20", "--out-of-core", "--validation", str(files / "validation.csv")]
    assert run(["fit", graph, *labels, *flags, "--out", "model", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["nodes"] == 400
    assert result["peak_bytes"] > 0
    assert "fitted out of core" in result["notes"][0]
    validation = labels_of(files, "validation")
    score = cge.load("model").score(list(validation), list(validation.values()))
    assert result["validation_accuracy"] == pytest.approx(score)
    assert run(["fit", graph, *labels, "--max-epochs", "20", "--out-of-core", "--out", "again"]) == 0
    assert "60, validated by 3-fold cross-validation\n" in capsys.readouterr().out
    assert run(["predict", "model", "--out", "parts", "--quiet"]) == 0
    assert run(["predict", "model", "--out", "whole.parquet", "--quiet"]) == 0
    parts, whole = pq.read_table(tmp_path / "parts"), pq.read_table("whole.parquet")
    assert parts.column_names == whole.column_names
    assert parts["class"].to_pylist() == whole["class"].to_pylist()
    assert run(["predict", "model", "--out", "parts"]) == 2
    assert "exists and is not empty" in capsys.readouterr().err
    assert run(["embed", "model", "--out", "vectors", "--quiet"]) == 0
    assert run(["fit", graph, *labels, "--out", "new", "--out-of-core", "--dry-run"]) == 0
    assert "out of core" in capsys.readouterr().out
    assert run(["fit", str(files / "edges.csv"), *labels, "--out", "new", "--memory", "1GB"]) == 2
    assert "are for stored graphs" in capsys.readouterr().err
    assert run(["fit", graph, *labels, "--out", "new", "--memory", "100MB"]) == 2
    needed = "this stored graph is fitted in memory, and a fit in memory needs about 560 MB of 100 MB; add --out-of"
    assert needed in capsys.readouterr().err
    assert run(["fit", graph, *labels, "--out", "new", "--engine", "ray"]) == 2
    assert (
        "this fit is one in memory, which has no tasks for --engine ray; add --out-of-core" in capsys.readouterr().err
    )
    assert run(["fit", graph, *labels, "--out", "new", "--memory", "much"]) == 2
    assert "--memory must be a size such as 4GB or 512MB, found 'much'" in capsys.readouterr().err
    assert run(["check", graph, "--quiet"]) == 0
