"""A person with a graph of their own: from files to a model, to new nodes, to the tools they use every day.

`cge` processes do this with a small graph that looks like Debian's packages, and in part with packages of Debian.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
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

Array = npt.NDArray[Any]

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FILES = ["edges.csv", "--nodes", "packages.txt", "--features", "words.npz", "--labels", "labels.csv"]
QUICK = ["--max-epochs", "150", "--classifier", "mlp", "--weighting", "degree", "--label-propagation", "yes"]
SECTIONS = {"libs": 120, "python": 80, "games": 40, "fonts": 20, "vcs": 10}  # skewed, as sections are
PATIENCE = 300  # seconds for a command, on a busy machine
KINDS = ["Depends", "Recommends"]


@dataclass
class Packages:
    """Names, sections and descriptions of packages, and what they need; `new` came after training."""

    names: Array
    sections: Array
    texts: Array
    edges: list[tuple[int, int, str]]
    new: Array

    def write(self, folder: Path, labeled: Iterable[int]) -> None:
        """Write the files of the page: those of training, and those of new packages with edges, features, or both."""
        for name, rows in (("packages.txt", ~self.new), ("new-packages.txt", self.new)):
            (folder / name).write_text("\n".join([*self.names[rows], ""]))
        late = [self.new[source] or self.new[target] for source, target, _ in self.edges]
        for name, wanted in (("edges.csv", False), ("new-edges.csv", True)):
            kept = [edge for edge, is_late in zip(self.edges, late, strict=True) if is_late == wanted]
            rows = [(self.names[source], self.names[target], kind) for source, target, kind in kept]
            table(folder / name, ("source", "target", "type"), rows)
        words = TfidfVectorizer(dtype=np.float32).fit(self.texts[~self.new])
        sp.save_npz(folder / "words.npz", words.transform(self.texts[~self.new]))
        sp.save_npz(folder / "new-words.npz", words.transform(self.texts[self.new]))
        table(folder / "labels.csv", ("node", "label"), [(self.names[k], self.sections[k]) for k in labeled])


def table(path: Path, header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def made_up() -> Packages:
    """Return packages that mostly need packages of their section, and whose descriptions hold words of it."""
    draw = np.random.default_rng(3)
    sections = np.repeat(list(SECTIONS), list(SECTIONS.values()))
    names = np.array([f"{section}-{k}++" for k, section in enumerate(sections)], object)
    own = {name: [f"{name}{k}" for k in range(12)] for name in SECTIONS}
    texts = np.array([" ".join([*draw.choice(own[one], 3), *draw.choice(own["libs"], 2)]) for one in sections], object)
    edges = []
    for node, section in enumerate(sections):
        near = np.flatnonzero(sections == section) if draw.random() < 0.9 else np.arange(len(sections))
        edges += [(node, int(other), str(draw.choice(KINDS))) for other in draw.choice(near, 3) if other != node]
    return Packages(names, sections, texts, edges, np.arange(len(names)) % 9 == 4)


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "cge", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=ctrl_c_works,
    )


def ctrl_c_works() -> None:
    """Undo what a shell does to commands in the background, which tests may be."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def printed(process: subprocess.Popen[str]) -> str:
    """Return what a command prints that must go well and have nothing to note."""
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, "")
    return out


def learned(folder: Path) -> Any:
    """Return names, sizes and hashes of a model's tensors."""
    return json.loads((folder / "model.json").read_text())["tensors"]


@pytest.fixture(scope="module")
def packages() -> Packages:
    return made_up()


@pytest.fixture(scope="module")
def home(packages: Packages, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fit the files of the made-up packages, a third of which have labels; stop it once, and go on."""
    folder = tmp_path_factory.mktemp("home")
    packages.write(folder, [k for k in np.flatnonzero(~packages.new).tolist() if k % 3 == 0])
    stopped = start(folder, "fit", *FILES, *QUICK, "--out", "model")
    deadline = time.monotonic() + PATIENCE
    while stopped.poll() is None and not list((folder / "model" / "checkpoint").glob("*.json")):
        if time.monotonic() > deadline:
            stopped.kill()
        time.sleep(0.002)
    stopped.send_signal(signal.SIGINT)
    out, err = stopped.communicate()
    assert (stopped.returncode, out) == (130, "")
    assert err.startswith("cge: interrupted; the same command with --resume goes on")
    assert not (folder / "model" / "model.json").exists()
    resumed = start(folder, "fit", *FILES, *QUICK, "--out", "model", "--resume")
    with contextlib.chdir(folder):  # another process would load the libraries again
        assert run(["fit", *FILES, *QUICK, "--out", "whole", "--quiet"]) == 0
    assert re.search(r"^saved to +model$", printed(resumed), re.MULTILINE)
    return folder


def test_a_fit_that_was_stopped_ends_at_the_same_bits(home: Path) -> None:
    assert learned(home / "model") == learned(home / "whole")
    assert not (home / "model" / "checkpoint").exists()


@pytest.fixture(scope="module")
def said(home: Path, packages: Packages) -> dict[str, str]:
    """Use the model: commands that do not wait for each other run side by side."""
    node = packages.names[0]
    # Of the new packages, the first have edges only, the last features only, and those between them both.
    names = packages.names[packages.new]
    words, third = sp.load_npz(home / "new-words.npz"), len(names) // 3
    sp.save_npz(home / "some-words.npz", words[third:])
    (home / "some-packages.txt").write_text("\n".join([*names[third:], ""]))
    edges = pd.read_csv(home / "new-edges.csv")
    alone = edges[["source", "target"]].isin(names[-third:]).any(axis=1)
    edges[~alone].to_csv(home / "some-edges.csv", index=False)
    new = ["--graph", "some-edges.csv", "--features", "some-words.npz", "--feature-nodes", "some-packages.txt"]
    running = {
        "report": start(home, "report", "model", "--out", "report.html"),
        "embed": start(home, "embed", "model", "--out", "vectors.parquet"),
        "similar": start(home, "similar", "model", node, "--top", "5", "--json"),
        "explain": start(home, "explain", "model", "--node", node, "--top", "5", "--json"),
        "predict": start(home, "predict", "model", *new, "--out", "new.parquet"),
    }
    return {name: printed(process) for name, process in running.items()}


def test_a_page_similar_packages_and_reasons(home: Path, packages: Packages, said: dict[str, str]) -> None:
    assert (home / "report.html").read_text(encoding="utf-8").lower().startswith("<!doctype html>")
    model, section = cge.load(home / "model"), packages.sections[0]
    near = [one["node"] for one in json.loads(said["similar"])["similar"]]
    assert len(near) == 5
    assert sum(one.startswith(section) for one in near) >= 4
    why = json.loads(said["explain"])
    assert why["predicted"] == model.predict([packages.names[0]])[0] == section
    parts = [*why["hops"], why["constant"], why["votes"]]
    assert np.allclose(np.sum(parts, axis=0), why["scores"], atol=1e-5)
    assert set(why["edge_types"]) >= set(KINDS)
    assert all(share["path"][0] == packages.names[0] for share in why["paths"])


def test_new_packages_are_predicted_by_what_is_known_of_them(
    home: Path, packages: Packages, said: dict[str, str]
) -> None:
    found = pd.read_parquet(home / "new.parquet")
    assert f"nodes       {packages.new.sum()}\n" in said["predict"]
    assert set(found["node"]) == set(packages.names[packages.new])
    ways = {"new: features and edges", "new: features only", "new: edges only"}
    assert ways <= set(found["way"]) <= ways | {"nothing known"}
    right = found["class"] == found["node"].map(pd.Series(packages.sections, packages.names))
    for way in ways:
        assert right[found["way"] == way].mean() > 0.7, way
    probabilities = found.filter(like="chance_")
    assert np.array_equal(probabilities.max(axis=1), found["confidence"])
    assert (found["class"] == probabilities.idxmax(axis=1).str.removeprefix("chance_")).all()
    assert found.loc[right, "confidence"].mean() > found.loc[~right, "confidence"].mean()


def test_frames_and_gensim_read_the_vectors(home: Path, said: dict[str, str]) -> None:
    model = cge.load(home / "model")
    frame, other = pd.read_parquet(home / "vectors.parquet"), pl.read_parquet(home / "vectors.parquet")
    for ids, vectors in (
        (frame["id"].tolist(), np.stack(frame["vector"])),
        (other["id"].to_list(), other["vector"].to_numpy()),
    ):
        assert ids == model.node_ids_.tolist()
        assert vectors.dtype == np.float32
        assert np.array_equal(vectors, model.embedding_)
    near = json.loads(said["similar"])
    for name, binary in (("vectors.txt", False), ("vectors.bin", True)):
        assert run(["embed", str(home / "model"), "--out", str(home / name), "--quiet"]) == 0
        words = KeyedVectors.load_word2vec_format(str(home / name), binary=binary)
        assert words.index_to_key == model.node_ids_.tolist()
        assert np.array_equal(words.vectors, model.embedding_)
        found = words.most_similar(near["node"], topn=5)
        assert np.allclose([score for _, score in found], [one["score"] for one in near["similar"]], atol=1e-5)


def test_scikit_learn_takes_the_vectors_and_the_estimator(home: Path, packages: Packages) -> None:
    model = cge.load(home / "model")
    seen = set(pd.read_csv(home / "labels.csv")["node"])
    others = np.array([node for node in model.node_ids_ if node not in seen], object)
    sections = pd.Series(packages.sections, packages.names)[others].to_numpy(str)
    classifier = LogisticRegression(max_iter=1000)
    whole = make_pipeline(FunctionTransformer(model.transform), StandardScaler(), classifier)  # ids in, sections out
    assert cross_val_score(whole, others, sections, cv=2).mean() > 0.8
    by_hand = clone(classifier).fit(model.transform(others[::2]), sections[::2])
    assert by_hand.score(model.transform(others[1::2]), sections[1::2]) > 0.8
    twin = clone(model).set_params(max_epochs=20, refit=False)
    assert twin.get_params() == model.get_params() | {"max_epochs": 20, "refit": False}
    assert not hasattr(twin, "embedding_")
    for train, test in StratifiedKFold(2).split(others, sections):
        twin.fit(model.graph_, dict(zip(others[train], sections[train], strict=True)))
        assert twin.score(others[test], sections[test]) > 0.7


def test_pytorch_geometric_takes_the_vectors(home: Path, said: dict[str, str]) -> None:
    model, stored = cge.load(home / "model"), pq.read_table(home / "vectors.parquet")
    x = torch.from_numpy(np.stack(stored["vector"].to_numpy()))
    edges = torch.from_numpy(np.stack(model.graph_.to_scipy().nonzero()).astype(np.int64))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of what torch will drop
        from torch_geometric.data import Data
    data = Data(x=x, edge_index=edges, y=torch.from_numpy(model.predict_proba().argmax(1)))
    layer = torch.nn.Linear(data.x.shape[1], len(SECTIONS))
    layer(data.x)[data.edge_index[0]].sum().backward()
    assert torch.isfinite(layer.weight.grad).all()
    back = cge.Graph.from_pyg(data)
    assert np.array_equal(back.features, model.embedding_)
    assert (back.to_scipy() != (model.graph_.to_scipy() > 0)).nnz == 0


def test_packages_of_debian(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (data_dir / "debian_pkgs").is_dir():
        pytest.skip("needs the packages of Debian in CGE_DATA_DIR")
    debian, draw = cge.load_dataset("debian", directed=True), np.random.default_rng(0)
    wanted = [debian.class_names.index(name) for name in ("fonts", "games", "haskell", "perl", "vcs")]
    nodes = np.sort(draw.permutation(np.flatnonzero(np.isin(debian.labels, wanted)))[:2000])
    graph, sections = debian.graph.subgraph(nodes), np.array(debian.class_names)[debian.labels[nodes]]
    sources = np.repeat(np.arange(len(graph)), graph.degrees).tolist()
    kinds = np.array(graph.edge_type_names)[graph.edge_types].tolist()
    edges = list(zip(sources, graph.indices.tolist(), kinds, strict=True))
    new = draw.random(len(graph)) < 0.2
    monkeypatch.chdir(tmp_path)
    some = Packages(graph.node_ids, sections, debian.node_titles[nodes], edges, new)
    some.write(tmp_path, draw.permutation(np.flatnonzero(~new)).tolist()[:200])
    assert run(["fit", *FILES, *QUICK, "--out", "model", "--quiet"]) == 0
    words = "--graph new-edges.csv --features new-words.npz --feature-nodes new-packages.txt --out new.csv --quiet"
    assert run(["predict", "model", *words.split()]) == 0
    found = pd.read_csv("new.csv")
    right = found["class"] == found["node"].map(pd.Series(sections, graph.node_ids))
    assert len(found) == new.sum()
    assert right.mean() > 0.8
    assert right[found["way"] == "new: features only"].mean() > 0.7
