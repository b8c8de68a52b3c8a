"""`cge embed`, `cge predict` and `cge similar`: a saved model in, files and tables out."""

from __future__ import annotations

import csv
import json
import re
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import cge
from cge.cli.main import run
from cge.data.files.dialect import TextOptions
from cge.data.files.edges import EdgeOptions
from cge.data.files.update_files import read_graph_update
from cge.data.graph_update import GraphUpdate
from cge.estimators.baselines import LabelPropagation
from cge.estimators.configs import make_estimator
from cge.estimators.predictions import EVIDENCE, predict_nodes, training_labels
from cge.estimators.similar import similar_nodes
from tests.integration.commands import output_of, refused

SIZE = 20  # of each of two communities
QUICK: dict[str, Any] = {"max_epochs": 15, "classifier": "mlp", "weighting": "degree", "refit": False}
SMALL: dict[str, Any] = {
    "dim": 8,
    "walks_per_node": 2,
    "walk_length": 6,
    "window": 3,
    "pretrain": 1,
    "max_epochs": 2,
    "weighting": "uniform",
    "refit": False,
}
TRAINED, BOTH, FEATURES, EDGES, NONE = EVIDENCE
NEW_EDGES = "source,target\nnew1,l1\nl2,new1\nnew2,r3\nnew4,new5\n"
NEW_FEATURES = "node,a,b,c\nnew1,2,2,2\nnew3,-2,-2,-2\n"
NAMES = [f"{side}{k}" for side in "lr" for k in range(SIZE)]
Y = {node: {"l": "left", "r": "right"}[node[0]] for node in NAMES if int(node[1:]) < 10}


def people(features: bool = True) -> cge.Graph:
    """Return two communities, of left and of right people, whose features differ."""
    draw = np.random.default_rng(1)
    edges = [(f"{side}{a}", f"{side}{b}") for side in "lr" for a in range(SIZE) for b in draw.choice(SIZE, 3) if a != b]
    edges += [(f"l{a}", f"r{b}") for a, b in draw.choice(SIZE, (4, 2))]
    features_of = np.repeat([[1.0], [-1.0]], SIZE, axis=0) + draw.normal(size=(2 * SIZE, 3))
    return cge.Graph.from_edges(edges, features_of if features else None, NAMES)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save models of every kind, each with a short training."""
    folder, graph = tmp_path_factory.mktemp("models"), people()
    make_estimator(cge.CGE, {**QUICK, "label_propagation": False}).fit(graph, Y).save(folder / "features")
    make_estimator(cge.CGE, {**QUICK, "label_propagation": True}).fit(people(False), Y).save(folder / "no-features")
    multilabel = {node: [label, "tall"] if node.endswith("1") else [label] for node, label in Y.items()}
    make_estimator(cge.CGE, {**QUICK}).fit(graph, multilabel).save(folder / "multilabel")
    make_estimator(cge.PaperCGE, {**SMALL, "setting": "inductive"}).fit(graph, Y).save(folder / "inductive")
    numbers = cge.Graph.from_edges(np.stack([graph.indices[:-1], graph.indices[1:]], axis=1) + 100)
    make_estimator(cge.PaperCGE, {**SMALL, "setting": "transductive"}).fit(
        numbers, {100: 1, 101: 1, 110: 2, 111: 2}
    ).save(folder / "transductive")
    cge.DeepWalk(dim=8, walks_per_node=2, walk_length=6, window=3).fit(graph).save(folder / "walks")
    LabelPropagation().fit(graph, Y).save(folder / "propagation")
    return folder


@pytest.fixture
def here(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder with the files of new nodes and links to the models."""
    monkeypatch.chdir(tmp_path)
    for name in home.iterdir():
        (tmp_path / name.name).symlink_to(name)
    Path("edges.csv").write_text(NEW_EDGES)
    Path("new.csv").write_text(NEW_FEATURES)
    return tmp_path


# ---------------------------------------------------------------------- embed


def test_embed_writes_vectors_and_labels(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = output_of(capsys, "embed features --out v.parquet --projector p")
    assert output.splitlines() == [
        "nodes       40",
        f"dimensions  {cge.load('features').embedding_.shape[1]}",
        "written to  v.parquet",
        "            p/vectors.tsv",
        "            p/metadata.tsv",
    ]
    model = cge.load("features")
    table = pq.read_table("v.parquet")
    assert table["node"].to_pylist() == NAMES
    assert np.array_equal(np.stack(table["vector"].to_numpy()), model.embedding_)
    head, *rows = [line.split("\t") for line in Path("p/metadata.tsv").read_text().splitlines()]
    assert head == ["node", "label", "prediction", "confidence"]
    known = dict(zip(NAMES, training_labels(model) or [], strict=True))
    assert {node: label for node, label, *_ in rows if label} == {
        node: labels[0] for node, labels in known.items() if labels
    }
    assert [row[2] for row in rows] == model.predict().tolist()
    assert np.array_equal(np.array([row[3] for row in rows], np.float32), model.predict_proba().max(1))
    assert output_of(capsys, "embed features --out v.csv --quiet") == ""
    result = json.loads(output_of(capsys, "embed features --out v.bin --json"))
    assert result == {
        "folder": "features",
        "nodes": 40,
        "dim": model.embedding_.shape[1],
        "files": [{"path": "v.bin", "bytes": Path("v.bin").stat().st_size}],
        "notes": [],
    }


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".tsv", ".txt", ".bin", ".npz", ".graphml"])
@pytest.mark.parametrize("name", ["transductive", "walks"])
def test_embed_every_format_of_every_model(
    name: str, suffix: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output_of(capsys, f"embed {name} --out out{suffix}")
    assert Path(f"out{suffix}").stat().st_size > 100
    assert [path.name for path in here.iterdir() if path.name.startswith(".")] == []


def attributes(path: str) -> dict[str, dict[str, str]]:
    """Return the attributes of nodes in a GraphML file."""
    tree, space = ET.parse(path), "{http://graphml.graphdrawing.org/xmlns}"
    names = {key.get("id"): key.get("attr.name") for key in tree.findall(f"{space}key")}
    return {
        str(node.get("id")): {str(names[data.get("key")]): str(data.text) for data in node.findall(f"{space}data")}
        for node in tree.findall(f".//{space}node")
    }


def test_labels_of_a_file_replace_those_of_training(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("labels.csv").write_text("mood,who\n=sad,l0\nglad,l0\nglad,r19\n")
    output_of(capsys, "embed no-features --out g.graphml --labels labels.csv --node-column who --label-column 1")
    result = attributes("g.graphml")
    assert result["l0"]["known_label"] == "=sad; glad"
    assert {node for node, data in result.items() if "known_label" in data} == {"l0", "r19"}
    output_of(capsys, "embed walks --out g.graphml --labels labels.csv --node-column who --label-column 1")
    assert attributes("g.graphml")["r19"] == {"label": "r19", "known_label": "glad"}
    output_of(capsys, "embed propagation --out g.graphml --json")
    assert set(attributes("g.graphml")["l0"]) == {"label", "prediction", "confidence"}
    output_of(capsys, "embed multilabel --out g.graphml")
    predicted = {data.get("prediction", "") for data in attributes("g.graphml").values()}
    assert predicted <= {
        "",
        "None",
        "left",
        "right",
        "tall",
        "left; tall",
        "right; tall",
        "left; right",
        "left; right; tall",
    }


def test_embed_refuses(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "embed features") == "there is nothing to write; give --out a file, or --projector a folder"
    assert refused(capsys, "embed features --out v.xlsx") == (
        "--out v.xlsx: the suffix '.xlsx' is not one of .parquet, .csv, .tsv, .txt, .bin, .npz, .graphml; "
        "choose one of these"
    )
    assert refused(capsys, "embed features --out v.csv --label-column x") == (
        "--label-column describes the file of --labels; add --labels, or leave it out"
    )
    assert refused(capsys, "embed", "features", "--out", "") == "--out must be the path of a file, found ''"
    assert refused(capsys, "embed features --out -") == "--out must be the path of a file, found '-'"
    assert refused(capsys, "embed features --out no/v.csv").startswith(
        "--out no/v.csv: its folder does not exist; create"
    )
    assert refused(capsys, "embed nothing --out v.csv").startswith("nothing: there is no such folder; expected a model")
    assert refused(capsys, "embed propagation --out v.csv") == (
        "propagation contains a LabelPropagation, which has no vectors; give --out a .graphml file, which needs none, "
        "or train a model with 'cge fit'"
    )
    assert refused(capsys, "embed features --projector new.csv") == "new.csv is a file; give the path of a folder"
    labels = "embed features --out new.csv --labels new.csv"
    assert refused(capsys, labels) == "--out new.csv is also an input file; choose another one to write"
    assert Path("new.csv").read_text() == NEW_FEATURES
    assert "not in the graph" in refused(capsys, "embed features --out v.csv --labels new.csv")
    assert refused(capsys, "embed --out v.csv").startswith("give a file EDGES, or --edges")


# ---------------------------------------------------------------------- predict


def test_predictions_are_those_of_the_api(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = cge.load("features")
    output = output_of(capsys, "predict features --nodes r5,l12").splitlines()
    assert output[0].split() == ["node", "class", "confidence", "evidence"]
    probabilities = model.predict_proba(["r5", "l12"])
    expected = [
        [node, label, f"{confidence:.3f}", *TRAINED.split()]
        for node, label, confidence in zip(
            ["r5", "l12"], model.predict(["r5", "l12"]), probabilities.max(1), strict=True
        )
    ]
    assert [line.split() for line in output[1:]] == expected
    result = json.loads(output_of(capsys, "predict features --nodes r5,l12 --json"))
    assert (result["folder"], result["out"], result["notes"], result["nodes"]) == ("features", None, [], 2)
    assert (result["classes"], result["evidence"]) == (["left", "right"], {TRAINED: 2})
    assert [list(row["probabilities"].values()) for row in result["predictions"]] == [
        [float(str(value)) for value in row] for row in probabilities
    ]
    output = output_of(capsys, "predict features").splitlines()
    assert len(output) == 22
    assert output[-1] == "and 20 more; --out FILE writes all of them, --json prints them"


def test_tables_of_predictions(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = cge.load("features")
    output = output_of(capsys, "predict features --out p.csv")
    assert output == "nodes       40\nbased on    40 in the training graph\nwritten to  p.csv\n"
    with Path("p.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == ["node", "class", "confidence", "evidence", "probability_left", "probability_right"]
    assert [row["node"] for row in rows] == NAMES
    assert [row["class"] for row in rows] == model.predict().tolist()
    table_values = np.array([[row["probability_left"], row["probability_right"]] for row in rows], np.float32)
    assert np.array_equal(table_values, model.predict_proba())
    assert np.array_equal(np.array([row["confidence"] for row in rows], np.float32), table_values.max(1))
    assert output_of(capsys, "predict transductive --out p.parquet --quiet") == ""
    table = pq.read_table("p.parquet")
    assert [str(kind) for kind in table.schema.types[:4]] == ["int64", "int64", "float", "string"]
    assert table["class"].to_pylist() == cge.load("transductive").predict().tolist()
    result = json.loads(output_of(capsys, "predict multilabel --out p.json --json"))
    assert (result["out"], result["predictions"], result["nodes"]) == ("p.json", None, 40)
    stored = json.loads(Path("p.json").read_text())
    model = cge.load("multilabel")
    for entry, row, probabilities in zip(stored["predictions"], model.predict(), model.predict_proba(), strict=True):
        assert entry["class"] == model.classes_[row.astype(bool)].tolist()
        assert entry["confidence"] == pytest.approx(min(max(p, 1 - p) for p in probabilities))
    output_of(capsys, "predict multilabel --out p.tsv")
    cells = [line.split("\t")[1] for line in Path("p.tsv").read_text().splitlines()[1:]]
    assert cells == ['"' + "; ".join(entry["class"]) + '"' for entry in stored["predictions"]]
    assert output_of(capsys, "predict propagation --nodes l1").split()[4:6] == ["l1", "left"]


def evidence_of(words: str, capsys: pytest.CaptureFixture[str]) -> dict[str, tuple[str, str]]:
    """Return the class of each node and the evidence."""
    result = json.loads(output_of(capsys, f"predict {words} --json"))
    names = [row["evidence"] for row in result["predictions"]]
    assert result["evidence"] == {name: names.count(name) for name in EVIDENCE if name in names}
    return {row["node"]: (row["class"], row["evidence"]) for row in result["predictions"]}


def test_evidence_of_new_nodes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = evidence_of("features --graph edges.csv --features new.csv", capsys)
    assert {node: evidence for node, (_, evidence) in result.items()} == {
        "new1": BOTH,
        "new2": EDGES,
        "new3": FEATURES,
        "new4": NONE,
        "new5": NONE,
    }
    assert (result["new1"][0], result["new2"][0], result["new3"][0]) == ("left", "right", "right")
    result = evidence_of("no-features --graph edges.csv", capsys)
    assert result["new1"] == ("left", EDGES)
    assert result["new2"] == ("right", EDGES)
    assert {evidence for _, evidence in result.values()} == {EDGES, NONE}
    result = evidence_of("inductive --graph edges.csv --features new.csv", capsys)
    assert {node: evidence for node, (_, evidence) in result.items() if evidence != NONE} == {
        "new1": FEATURES,
        "new3": FEATURES,
    }
    assert result["new3"][0] == "right"
    result = evidence_of("features --features new.csv --nodes l3,new3", capsys)
    assert {node: evidence for node, (_, evidence) in result.items()} == {"l3": TRAINED, "new3": FEATURES}
    result = evidence_of("features --graph edges.csv", capsys)
    assert result["new1"] == ("left", EDGES)


def test_old_neighbors_are_used(here: Path) -> None:
    """The prediction of a new node equals that in a graph that always contained it."""
    model, graph = cge.load("features"), people()
    features = np.vstack([graph.features, [[2.0, 2, 2]]])
    pairs = [(u, v) for u in NAMES for v in graph.neighbors(u)]
    whole = cge.Graph.from_edges([*pairs, ("new1", "l1"), ("l2", "new1")], features, [*NAMES, "new1"])
    result, notes = predict_nodes(
        model, update=GraphUpdate([("new1", "l1"), ("l2", "new1")], feature_ids=["new1"], features=[[2.0, 2, 2]])
    )
    assert notes == []
    assert np.array_equal(result.probabilities, model.predict_proba(["new1"], whole))
    alone, _ = predict_nodes(model, update=GraphUpdate(feature_ids=["new1"], features=[[2.0, 2, 2]]))
    assert not np.array_equal(result.probabilities, alone.probabilities)


def test_sparse_features(tmp_path: Path) -> None:
    """A row of zeros is no evidence, but neighbors are."""
    words = sp.csr_array(np.kron(np.eye(2), np.ones((SIZE, 3))))
    graph = people(False).with_features(words)
    model = make_estimator(cge.CGE, {**QUICK, "label_propagation": False}).fit(graph, Y)
    rows = sp.csr_array([[0.0, 0, 0, 1, 1, 1], [0] * 6, [0] * 6])
    new = GraphUpdate([("n2", "r1"), ("n4", "l1")], feature_ids=["n1", "n2", "n3"], features=rows)
    result, _ = predict_nodes(model, update=new)
    evidence = {node: EVIDENCE[code] for node, code in zip(result.nodes.tolist(), result.evidence, strict=True)}
    assert evidence == {"n2": EDGES, "n4": EDGES, "n1": FEATURES, "n3": NONE}
    assert dict(zip(result.nodes.tolist(), result.predicted, strict=True))["n1"] == "right"
    assert result.predicted[:2] == ["right", "left"]


def test_nodes_without_evidence_have_the_same_prediction(here: Path) -> None:
    for name in ("features", "no-features"):
        result, _ = predict_nodes(cge.load(name), update=GraphUpdate([("x", "y"), ("z", "z")]))
        assert {EVIDENCE[code] for code in result.evidence} == {NONE}
        np.testing.assert_allclose(result.probabilities, np.tile(result.probabilities[:1], (3, 1)), atol=1e-6)


def test_a_node_without_features_counts_as_average() -> None:
    graph = people()
    shifted = graph.with_features(np.asarray(graph.features) + np.array([5, -3, 0]))
    model = make_estimator(cge.CGE, {**QUICK, "label_propagation": False}).fit(shifted, Y)
    without, _ = predict_nodes(model, update=GraphUpdate([("n", "l1")]))
    mean = np.asarray(shifted.features).mean(axis=0, keepdims=True)
    average, _ = predict_nodes(model, update=GraphUpdate([("n", "l1")], feature_ids=["n"], features=mean))
    np.testing.assert_allclose(without.probabilities, average.probabilities, atol=1e-6)
    assert (EVIDENCE[without.evidence[0]], without.predicted) == (EDGES, ["left"])


def test_a_self_loop_is_no_evidence(here: Path) -> None:
    new = GraphUpdate([("n", "n")], self_loops=True, feature_ids=["n"], features=[[1, 1, 1]])
    result, _ = predict_nodes(cge.load("features"), update=new)
    assert [EVIDENCE[code] for code in result.evidence] == [FEATURES]


def test_edges_beyond_the_longest_path_are_no_evidence(tmp_path: Path) -> None:
    """A chain of new nodes: with two hops and no label propagation only the first three reach a walk vector.

    The first has one of its own: that of its neighbor in training.
    """
    chain = GraphUpdate([("l1", "n1"), ("n1", "n2"), ("n2", "n3"), ("n3", "n4")])
    model = make_estimator(cge.CGE, {**QUICK, "hops": 2, "label_propagation": False}).fit(people(False), Y)
    result, _ = predict_nodes(model, update=chain)
    assert {node: EVIDENCE[code] for node, code in zip(result.nodes.tolist(), result.evidence, strict=True)} == {
        "n1": EDGES,
        "n2": EDGES,
        "n3": EDGES,
        "n4": NONE,
    }
    model = make_estimator(cge.CGE, {**QUICK, "hops": 0, "label_propagation": False}).fit(people(), Y)
    result, _ = predict_nodes(model, update=GraphUpdate([("l1", "n1")], feature_ids=["n1"], features=[[1, 1, 1]]))
    assert [EVIDENCE[code] for code in result.evidence] == [FEATURES]


def test_notes_on_new_edges_use_the_nodes_of_training(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("edges.csv").write_text("new 1,l1\nnew 2,l2\n")
    words = "predict features --graph edges.csv --json"
    assert json.loads(output_of(capsys, words))["notes"] == []
    Path("edges.csv").write_text("new 1,L1\nnew 2,L2\n")
    notes = json.loads(output_of(capsys, words))["notes"]
    assert any(note.startswith("line 1 was read as an edge") for note in notes)
    ids = ", ".join(map(repr, cge.load("features").node_ids_[:3].tolist()))
    note = f"no new edge is connected to an existing node; ids of existing nodes are, for example, {ids}"
    assert note in notes


def test_notes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("edges.csv").write_text("who,whom,cost\nnew1,l1,2\nnew2,l1,1\n")
    Path("new.csv").write_text(NEW_FEATURES + "l1,1,1,1\n")
    assert run(["predict", "features", "--graph", "edges.csv", "--features", "new.csv", "--header"]) == 0
    printed = capsys.readouterr()
    assert printed.err.splitlines() == ["note: 1 of the nodes with new features exist already and keep their features"]
    # Columns that are not read are noted where the graph has weights.
    weighted = cge.Graph.from_edges([("a", "b")], weights=[2.0])
    _, notes = read_graph_update(weighted, "edges.csv", options=EdgeOptions(text=TextOptions(header=True)))
    assert [note[:28] for note in notes] == ["the column 'cost' is not rea"]
    words = "predict features --graph edges.csv --header --weight cost"
    assert json.loads(output_of(capsys, f"{words} --json"))["notes"] == [
        "the graph has no edge weights, so those of new edges are ignored"
    ]
    assert output_of(capsys, f"{words} --quiet") == ""
    Path("edges.csv").write_text("who,whom\nnew1,l1\nnew2,l1\n")
    (note,) = json.loads(output_of(capsys, "predict features --graph edges.csv --json"))["notes"]
    assert note.endswith("its ids 'who' and 'whom' occur nowhere else; if it names the columns, pass --header")


def test_options_of_new_edges(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("edges.csv").write_text("% about\nto|by|cost\nl1|new1|3\nnew1|new1|4\n")
    words = "no-features --graph edges.csv --delimiter | --comment % --header --source by --target 1 --unweighted"
    assert evidence_of(words, capsys) == {"new1": ("left", EDGES)}
    assert evidence_of(words + " --self-loops", capsys) == {"new1": ("left", EDGES)}


def test_predict_refuses(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    messages = {
        "predict walks": "walks contains a DeepWalk, which has vectors but makes no predictions; train a classifier",
        "predict features --nodes zoe": "node 'zoe' is not in the graph",
        "predict transductive --nodes ann": "node 'ann' is not in the graph (ids look like 1",
        "predict features --nodes a,,b": "--nodes must be ids separated by commas, found 'a,,b'",
        'predict features --nodes "a': "--nodes '\"a' has a quote that does not close",
        "predict features --out p.txt": "--out p.txt: the suffix '.txt' is not one of .csv, .tsv, .parquet, .json;",
        "predict features --out features/model.json": "features/model.json belongs to a model that cge has saved",
        "predict features --graph edges.csv --out edges.csv": "--out edges.csv is also an input file; choose",
        "predict transductive --graph edges.csv": "edges.csv, line 2: expected an integer node id, found 'new1'; the",
        "predict propagation --graph edges.csv": "this model is a LabelPropagation, which predicts only the nodes",
        "predict no-features --features new.csv": "trained without features, so new nodes need edges; pass --graph",
        "predict features --feature-nodes new.csv": "--feature-nodes needs --features; pass --features, too",
        "predict features --graph none.csv": "none.csv: there is no such file; check its path",
        "predict features --graph edges.csv --nodes zoe": "(ids look like 'l0', 'l1'); name nodes",
        "predict features --graph edges.csv --source x": "edges.csv, line 1:",
        "predict features --source x": "--source describes the file of --graph; add --graph, or leave it out",
        "predict features --features new.csv --no-header": "--header describes the file of --graph; add --graph, or",
        "predict features --edge-type x": "--edge-type describes the file of --graph; add --graph, or leave it out",
    }
    for words, sentence in messages.items():
        result = refused(capsys, words)
        assert re.sub(r"^/\S*/(?=features/)", "", result.replace(str(here.resolve()) + "/", "")).find(sentence) >= 0, (
            result
        )
    assert json.loads(Path("features/model.json").read_text())["format"] == "cge"
    assert Path("edges.csv").read_text() == NEW_EDGES
    Path("table.csv").write_text("source,target\n7,8\n")
    assert refused(capsys, "predict transductive --graph table.csv") == (
        "this model is a transductive PaperCGE, which predicts only the nodes of the training graph; train a CGE or an "
        "inductive PaperCGE to predict new ones"
    )
    Path("old.csv").write_text("source,target\nl1,l2\n")
    assert refused(capsys, "predict features --graph old.csv") == (
        "the new edges and features hold no node that was not there in training; pass --nodes to predict, or leave "
        "--graph and --features out"
    )
    np.save("rows.npy", np.ones((1, 3)))
    assert refused(capsys, "predict features --features rows.npy") == (
        "rows.npy: its rows have no node ids; pass --feature-nodes, a list of nodes, or a table keyed by node"
    )
    Path("who.txt").write_text("new9\n")
    assert evidence_of("features --features rows.npy --feature-nodes who.txt", capsys) == {"new9": ("left", FEATURES)}


def test_ids_in_the_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ids = ["New York, NY", "=1+1", "a\x1b[31m", "-x"]
    edges = [(ids[k], ids[k - 1]) for k in range(4)]
    model = make_estimator(cge.CGE, {**QUICK}).fit(cge.Graph.from_edges(edges), {ids[0]: "=A()", ids[1]: "b\x1b"})
    model.save(tmp_path / "m")
    folder = str(tmp_path / "m")
    assert "New York, NY" in output_of(capsys, "predict", folder, "--nodes", '"New York, NY", -x')
    output = output_of(capsys, "similar", folder, "--", "-x")
    assert r"a\x1b[31m" in output
    assert "\x1b" not in output
    assert "\x1b" not in output_of(capsys, "predict", folder)
    out = tmp_path / "p.csv"
    assert run(["predict", folder, "--out", str(out)]) == 0
    note = "4 cells start like formulas; an apostrophe was put before them, for spreadsheets (not with --no-escape)"
    assert capsys.readouterr().err == f"note: {note}\n"
    cells = [cell for row in csv.reader(out.read_text().splitlines()) for cell in row]
    assert "'=1+1" in cells
    assert not any(cell.startswith(("=", "+", "@")) for cell in cells)


def test_ten_thousand_new_nodes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draw, count = np.random.default_rng(2), 10_000
    targets = draw.integers(0, 2 * SIZE, (count, 3))
    lines = [f"n{k},{NAMES[target]}" for k in range(count) for target in targets[k]]
    Path("edges.csv").write_text("\n".join(["source,target", *lines, ""]))
    values = draw.normal(size=(count, 3)).round(3)
    Path("new.csv").write_text(
        "\n".join(["node,a,b,c", *(f"n{k},{','.join(map(str, values[k]))}" for k in range(count))])
    )
    start = time.process_time()
    output = output_of(capsys, "predict features --graph edges.csv --features new.csv --out p.parquet")
    assert time.process_time() - start < 10
    assert output.splitlines()[1] == "based on    10,000 new, by features and edges"
    assert pq.read_metadata("p.parquet").num_rows == count


# ---------------------------------------------------------------------- similar


def test_similar_is_that_of_the_api(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = similar_nodes(cge.load("features"), "l3", 4)
    output = [line.split() for line in output_of(capsys, "similar features l3 --top 4").splitlines()]
    assert output == [["node", "cosine"], *([row.node, f"{row.score:.4f}"] for row in expected)]
    result = json.loads(output_of(capsys, "similar features l3 --top 4 --json"))
    assert result == {
        "folder": "features",
        "node": "l3",
        "metric": "cosine",
        "search": "exact",
        "nodes": 40,
        "similar": [{"node": row.node, "score": row.score} for row in expected],
    }
    assert output_of(capsys, "similar features l3 --top 4 --quiet").split() == [row.node for row in expected]
    assert output_of(capsys, "similar walks l3 --metric dot").startswith("node  inner product\n")
    number = cge.load("transductive").node_ids_[0]
    assert json.loads(output_of(capsys, f"similar transductive {number} --json"))["node"] == number


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("score propagation --labels test.csv", "a LabelPropagation, which has no test scores; score it in Python"),
        ("score walks --labels test.csv", "a DeepWalk, which has no test scores; score it in Python"),
        ("report propagation", "a LabelPropagation, for which there is no report; train a model with 'cge fit'"),
        ("serve propagation", "a LabelPropagation, which cannot be served; train a model with 'cge fit'"),
        ("update transductive --add-edges edges.csv", "a PaperCGE, which cannot be updated; train a model with"),
        ("update walks --add-edges edges.csv", "a DeepWalk, which cannot be updated; train a model with 'cge fit'"),
        ("explain propagation --node l1", "a LabelPropagation, whose predictions are not based on paths; train a"),
    ],
)
def test_commands_refuse_models_of_other_kinds(
    words: str, sentence: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(capsys, words).startswith(f"{words.split()[1]} contains {sentence}")


def test_similar_refuses(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused(capsys, "similar features zoe") == ("node 'zoe' is not in the graph (ids look like 'l0', 'l1')")
    assert refused(capsys, "similar transductive zoe").startswith("node 'zoe' is not in the graph (")
    assert refused(capsys, "similar transductive " + "9" * 30).startswith("node 999999999")
    assert refused(capsys, "similar none l1 --metric l2") == "--metric must be one of 'cosine', 'dot', found 'l2'"
    assert refused(capsys, "similar none l1 --search x").startswith("--search must be one of 'auto', 'exact',")
    assert "--top" in refused(capsys, "similar features l1 --top 0")
    assert refused(capsys, "similar propagation l1").startswith(
        "propagation contains a LabelPropagation, which has no vectors"
    )
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    assert refused(capsys, "similar features l1 --search approximate") == (
        "the approximate search needs the package usearch, which is not installed; run 'pip install usearch', or use "
        "--search exact"
    )


# ---------------------------------------------------------------------- all three


@pytest.mark.parametrize("name", ["embed", "predict", "similar"])
def test_help_has_examples(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    output = output_of(capsys, f"{name} --help")
    assert output.count(f"cge {name} model") >= 2
    for flag in ("--json", "--quiet"):
        assert flag in output


def test_a_damaged_model_is_one_sentence(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("broken").mkdir()
    Path("broken/model.json").write_text("{}")
    for words in ("embed broken --out v.csv", "predict broken", "similar broken a"):
        assert refused(capsys, words).startswith("broken/model.json: this was not written by cge")


def test_a_custom_weighting_needs_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Own(cge.PathWeighting):
        def __init__(self, dim: int) -> None:
            super().__init__()
            self.form = __import__("torch").nn.Linear(dim, 1)

        def score(self, projected: Any, length: Any) -> Any:
            return self.form(projected[:, 0]).squeeze(1)

    own = SMALL | {"weighting": Own, "outer_steps": 1}
    with pytest.warns(cge.CgeWarning):
        make_estimator(cge.PaperCGE, own).fit(people(False), Y).save(tmp_path / "own")
    message = refused(capsys, "predict", str(tmp_path / "own"))
    assert message.startswith(f"{tmp_path / 'own'}: this model has the weighting ")
    assert message.endswith("; load it in Python with cge.load(…, weighting=…)")
