"""From a user's own files to a model, to predictions of new nodes, and to other tools.

The graph is small and looks like Debian's packages; the last test uses packages of Debian.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import torch
from gensim.models import KeyedVectors
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import cge
from cge.cli.main import run
from tests.integration.commands import subprocess_environment

Array = npt.NDArray[Any]

pytestmark = pytest.mark.slow

FILES = ["edges.csv", "--node-list", "packages.txt", "--features", "words.npz", "--labels", "labels.csv"]
QUICK = ["--max-epochs", "150", "--classifier", "mlp", "--weighting", "degree", "--label-propagation", "yes"]
SECTIONS = {"libs": 120, "python": 80, "games": 40, "fonts": 20, "vcs": 10}  # skewed, as sections are
TIMEOUT = 300  # seconds for a command, on a busy machine
EDGE_TYPES = ["Depends", "Recommends"]


@dataclass
class Packages:
    """Names, sections and descriptions of packages, and their dependencies; the `new` ones are not in training."""

    names: Array
    sections: Array
    texts: Array
    edges: list[tuple[int, int, str]]
    new: Array

    def write(self, folder: Path, labeled: Iterable[int]) -> None:
        """Write the files of training, and those of new packages."""
        for name, rows in (("packages.txt", ~self.new), ("new-packages.txt", self.new)):
            (folder / name).write_text("\n".join([*self.names[rows], ""]))
        edge_is_new = [self.new[source] or self.new[target] for source, target, _ in self.edges]
        for name, wanted in (("edges.csv", False), ("new-edges.csv", True)):
            edges = [edge for edge, is_new in zip(self.edges, edge_is_new, strict=True) if is_new == wanted]
            rows = [(self.names[source], self.names[target], edge_type) for source, target, edge_type in edges]
            write_table(folder / name, ("source", "target", "type"), rows)
        words = TfidfVectorizer(dtype=np.float32).fit(self.texts[~self.new])
        sp.save_npz(folder / "words.npz", words.transform(self.texts[~self.new]))
        sp.save_npz(folder / "new-words.npz", words.transform(self.texts[self.new]))
        write_table(folder / "labels.csv", ("node", "label"), [(self.names[k], self.sections[k]) for k in labeled])


def write_table(path: Path, header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def random_packages() -> Packages:
    """Return packages that mostly depend on packages of their section, and whose descriptions have words of it."""
    random = np.random.default_rng(3)
    sections = np.repeat(list(SECTIONS), list(SECTIONS.values()))
    names = np.array([f"{section}-{k}++" for k, section in enumerate(sections)], object)
    own = {name: [f"{name}{k}" for k in range(12)] for name in SECTIONS}
    texts = [" ".join([*random.choice(own[section], 3), *random.choice(own["libs"], 2)]) for section in sections]
    edges = []
    for node, section in enumerate(sections):
        others = np.flatnonzero(sections == section) if random.random() < 0.9 else np.arange(len(sections))
        targets = [int(other) for other in random.choice(others, 3) if other != node]
        edges += [(node, target, str(random.choice(EDGE_TYPES))) for target in targets]
    return Packages(names, sections, np.array(texts, object), edges, np.arange(len(names)) % 9 == 4)


def interrupt_signal_works() -> None:
    """Undo what a shell does to commands in the background, which tests may be."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def output_of(folder: Path, *words: str) -> str:
    """Run a command in a folder, without errors or warnings, and return its output."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        assert run(words) == 0
    assert err.getvalue() == ""
    return out.getvalue()


def tensors_of(folder: Path) -> Any:
    """Return the name, size and hash of a model's tensors."""
    return json.loads((folder / "model.json").read_text())["tensors"]


@pytest.fixture(scope="module")
def packages() -> Packages:
    return random_packages()


@pytest.fixture(scope="module")
def home(packages: Packages, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fit the random packages, a third of which have labels; interrupt the command once, and resume it."""
    folder = tmp_path_factory.mktemp("home")
    packages.write(folder, [k for k in np.flatnonzero(~packages.new).tolist() if k % 3 == 0])
    interrupted = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "cge", "fit", *FILES, *QUICK, "--out", "model"],
        cwd=folder,
        env=subprocess_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=interrupt_signal_works,
    )
    deadline = time.monotonic() + TIMEOUT
    while interrupted.poll() is None and not list((folder / "model" / "checkpoint").glob("*.json")):
        if time.monotonic() > deadline:
            interrupted.kill()
        time.sleep(0.002)
    interrupted.send_signal(signal.SIGINT)
    out, err = interrupted.communicate()
    assert (interrupted.returncode, out) == (130, "")
    assert err.startswith("cge: interrupted; the same command with --resume continues")
    assert not (folder / "model" / "model.json").exists()
    printed = output_of(folder, "fit", *FILES, *QUICK, "--out", "model", "--resume")
    assert re.search(r"^saved to +model$", printed, re.MULTILINE)
    return folder


def test_an_interrupted_fit_continues_to_the_same_bytes(home: Path) -> None:
    output_of(home, "fit", *FILES, *QUICK, "--out", "whole")
    assert tensors_of(home / "model") == tensors_of(home / "whole")
    assert not (home / "model" / "checkpoint").exists()


@pytest.fixture(scope="module")
def similar(home: Path, packages: Packages) -> Any:
    """The packages that are most similar to the first one."""
    return json.loads(output_of(home, "similar", "model", packages.names[0], "--top", "5", "--json"))


def test_a_report_similar_packages_and_explanations(home: Path, packages: Packages, similar: Any) -> None:
    output_of(home, "report", "model", "--no-compare", "--out", "report.html")
    assert (home / "report.html").read_text(encoding="utf-8").lower().startswith("<!doctype html>")
    node, section = packages.names[0], packages.sections[0]
    assert len(similar["similar"]) == 5
    assert sum(row["node"].startswith(section) for row in similar["similar"]) >= 4
    explanation = json.loads(output_of(home, "explain", "model", "--node", node, "--top", "5", "--json"))
    assert explanation["predicted"] == cge.load(home / "model").predict([node])[0] == section
    terms = [*explanation["by_hop"], explanation["constant"], explanation["label_propagation"]]
    assert np.allclose(np.sum(terms, axis=0), explanation["scores"], atol=1e-5)
    assert set(explanation["by_edge_type"]) >= set(EDGE_TYPES)
    assert all(row["path"][0] == node for row in explanation["paths"])


def test_new_packages_are_predicted_from_edges_or_features_or_both(home: Path, packages: Packages) -> None:
    # Of the new packages, the first have edges only, the last features only, and those between them both.
    names = packages.names[packages.new]
    words, third = sp.load_npz(home / "new-words.npz"), len(names) // 3
    sp.save_npz(home / "some-words.npz", words[third:])
    (home / "some-packages.txt").write_text("\n".join([*names[third:], ""]))
    edges = pd.read_csv(home / "new-edges.csv")
    isolated = edges[["source", "target"]].isin(names[-third:]).any(axis=1)
    edges[~isolated].to_csv(home / "some-edges.csv", index=False)
    update = "--graph some-edges.csv --features some-words.npz --feature-nodes some-packages.txt --out new.parquet"
    assert f"nodes       {packages.new.sum()}\n" in output_of(home, "predict", "model", *update.split())
    predictions = pd.read_parquet(home / "new.parquet")
    assert set(predictions["node"]) == set(names)
    kinds = {"features+edges", "features", "edges"}
    assert kinds <= set(predictions["evidence"]) <= kinds | {"none"}
    correct = predictions["class"] == predictions["node"].map(pd.Series(packages.sections, packages.names))
    for evidence in kinds:
        assert correct[predictions["evidence"] == evidence].mean() > 0.7, evidence
    probabilities = predictions.filter(like="probability_")
    assert np.array_equal(probabilities.max(axis=1), predictions["confidence"])
    assert (predictions["class"] == probabilities.idxmax(axis=1).str.removeprefix("probability_")).all()
    assert predictions.loc[correct, "confidence"].mean() > predictions.loc[~correct, "confidence"].mean()


@pytest.fixture(scope="module")
def vectors_file(home: Path) -> Path:
    output_of(home, "embed", "model", "--out", "vectors.parquet")
    return home / "vectors.parquet"


def test_data_frames_and_gensim_read_the_vectors(home: Path, vectors_file: Path, similar: Any) -> None:
    model = cge.load(home / "model")
    frame, other = pd.read_parquet(vectors_file), pl.read_parquet(vectors_file)
    for ids, vectors in (
        (frame["node"].tolist(), np.stack(frame["vector"])),
        (other["node"].to_list(), other["vector"].to_numpy()),
    ):
        assert ids == model.node_ids_.tolist()
        assert vectors.dtype == np.float32
        assert np.array_equal(vectors, model.embedding_)
    scores = [row["score"] for row in similar["similar"]]
    for name, binary in (("vectors.txt", False), ("vectors.bin", True)):
        output_of(home, "embed", "model", "--out", name)
        words = KeyedVectors.load_word2vec_format(str(home / name), binary=binary)
        assert words.index_to_key == model.node_ids_.tolist()
        assert np.array_equal(words.vectors, model.embedding_)
        expected = [score for _, score in words.most_similar(similar["node"], topn=5)]
        assert np.allclose(scores, expected, atol=1e-5)


def test_scikit_learn_takes_the_vectors_and_the_estimator(home: Path, packages: Packages) -> None:
    model = cge.load(home / "model")
    labeled = set(pd.read_csv(home / "labels.csv")["node"])
    others = np.array([node for node in model.node_ids_ if node not in labeled], object)
    sections = pd.Series(packages.sections, packages.names)[others].to_numpy(str)
    classifier = LogisticRegression(max_iter=1000)
    pipeline = make_pipeline(FunctionTransformer(model.transform), StandardScaler(), classifier)
    assert cross_val_score(pipeline, others, sections, cv=2).mean() > 0.8
    by_hand = clone(classifier).fit(model.transform(others[::2]), sections[::2])
    assert by_hand.score(model.transform(others[1::2]), sections[1::2]) > 0.8
    changed = {"training": {"max_epochs": 20}, "refit": False}
    copy = clone(model).set_params(**changed)
    assert copy.get_params() == model.get_params() | changed
    assert not hasattr(copy, "embedding_")
    for train, test in StratifiedKFold(2).split(others, sections):
        copy.fit(model.graph_, dict(zip(others[train], sections[train], strict=True)))
        assert copy.score(others[test], sections[test]) > 0.7


def test_pytorch_geometric_takes_the_vectors(home: Path, vectors_file: Path) -> None:
    model, stored = cge.load(home / "model"), pq.read_table(vectors_file)
    x = torch.from_numpy(np.stack(stored["vector"].to_numpy()))
    edges = torch.from_numpy(np.stack(model.graph_.to_scipy().nonzero()).astype(np.int64))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations of torch
        from torch_geometric.data import Data
    data = Data(x=x, edge_index=edges, y=torch.from_numpy(model.predict_proba().argmax(1)))
    layer = torch.nn.Linear(data.x.shape[1], len(SECTIONS))
    layer(data.x)[data.edge_index[0]].sum().backward()
    assert torch.isfinite(layer.weight.grad).all()
    back = cge.Graph.from_pyg(data)
    assert np.array_equal(back.features, model.embedding_)
    assert (back.to_scipy() != (model.graph_.to_scipy() > 0)).nnz == 0


def test_packages_of_debian(data_dir: Path, tmp_path: Path) -> None:
    if not (data_dir / "debian_pkgs").is_dir():
        pytest.skip("needs the packages of Debian in CGE_DATA_DIR")
    debian, random = cge.load_dataset("debian", directed=True), np.random.default_rng(0)
    wanted = [debian.class_names.index(name) for name in ("fonts", "games", "haskell", "perl", "vcs")]
    nodes = np.sort(random.permutation(np.flatnonzero(np.isin(debian.labels, wanted)))[:2000])
    graph, sections = debian.graph.subgraph(nodes), np.array(debian.class_names)[debian.labels[nodes]]
    sources = np.repeat(np.arange(len(graph)), graph.degrees).tolist()
    edge_types = np.array(graph.edge_type_names)[graph.edge_types].tolist()
    edges = list(zip(sources, graph.indices.tolist(), edge_types, strict=True))
    new = random.random(len(graph)) < 0.2
    sample = Packages(graph.node_ids, sections, debian.node_titles[nodes], edges, new)
    sample.write(tmp_path, random.permutation(np.flatnonzero(~new)).tolist()[:200])
    output_of(tmp_path, "fit", *FILES, *QUICK, "--out", "model")
    update = "--graph new-edges.csv --features new-words.npz --feature-nodes new-packages.txt --out new.csv"
    output_of(tmp_path, "predict", "model", *update.split())
    predictions = pd.read_csv(tmp_path / "new.csv")
    correct = predictions["class"] == predictions["node"].map(pd.Series(sections, graph.node_ids))
    assert len(predictions) == new.sum()
    assert correct.mean() > 0.8
    assert correct[predictions["evidence"] == "features"].mean() > 0.7
