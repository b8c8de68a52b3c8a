"""The table of methods: names, estimators, settings, and methods that are registered from outside."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import cge
from cge.cli.main import run
from cge.data import Dataset, Split
from cge.errors import FileFormatError, InputError
from cge.estimators import graph_networks, methods
from cge.estimators.baselines import SGC
from cge.estimators.configs import read_settings
from cge.estimators.methods import Method, Range, find_method, make, methods_for, register_method, settings_from_text
from cge.estimators.settings import check_settings, settings_of
from cge.evaluation.protocol import run_once
from tests.fixtures import TRUE_LABELS, groups_with_sparse_features

METHODS = methods_for("nodes")
SPLIT = Split([0, 5, 9, 22, 31, 36], [2, 8, 27, 33], [1, 11, 14, 21, 29, 38])
PAPER = {"dim": 4, "walks_per_node": 1, "max_epochs": 1, "pretrain": 1, "outer_paths": 32, "outer_steps": 1}
QUICK: dict[str, dict[str, Any]] = {
    "CGE": {"dim": 4, "max_epochs": 4},
    "WalkClassifier": {"dim": 4, "walks_per_node": 2, "walk_length": 10},
    "GCN": {"epochs": 4},
    "APPNP": {"epochs": 4},
    "RGCN": {"epochs": 4},
    "SeHGNN": {"epochs": 4},
    "Metapath2Vec": {"dim": 4, "walks_per_node": 2, "walk_length": 10},
}


def groups() -> Dataset:
    return Dataset("groups", groups_with_sparse_features(), TRUE_LABELS, ("left", "right"), SPLIT)


def quick(method: str) -> dict[str, Any]:
    """Return settings with which a method trains in a fraction of a second."""
    return (
        PAPER
        if method.startswith(("planetoid", "cge-t", "cge-i"))
        else QUICK.get(METHODS[method].estimator_class().__name__, {})
    )


@pytest.mark.filterwarnings("ignore::cge.CgeWarning")  # after so few epochs weights may be flat
@pytest.mark.parametrize("name", list(METHODS))
def test_every_method_learns_and_predicts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        graph_networks, "CGE", partial(cge.CGE, "degree", 4, classifier="mlp", training={"max_epochs": 4})
    )
    monkeypatch.setattr(graph_networks.GCN, "append_settings", PAPER)
    row = run_once(make(name, 0, 1, **quick(name)), groups(), SPLIT)
    assert 0 <= row["metrics"]["accuracy"] <= 1
    assert (row["labels"]["train"], row["labels"]["validation"], row["n_test"]) == (6, 4, 6)
    learns = name.removeprefix("gcn+").startswith(("cge-t", "cge-i"))
    assert (row["labels"]["outer"] > 0) == learns or name == "cge"  # the labels that trained the weighting
    json.dumps(row)


@pytest.mark.parametrize("name", list(METHODS))
def test_a_method_is_an_estimator_with_settings(name: str) -> None:
    estimator = make(name, 7, 2)
    assert type(estimator) is METHODS[name].estimator_class()
    params = estimator.get_params()
    assert params | dict(METHODS[name].settings) == params
    assert params.get("random_state", 7) == 7
    assert params.get("n_jobs", 2) == 2
    check_settings(estimator)
    changed = {*METHODS[name].settings, "random_state", "n_jobs"}
    assert {key for key in params if params[key] != settings_of(type(estimator))[key][2]} <= changed
    assert METHODS[name].description


def test_the_methods_of_the_paper() -> None:
    assert list(METHODS) == [
        "features",
        "label-propagation",
        "label-propagation-mass",
        "deepwalk",
        "deepwalk+features",
        "node2vec",
        "node2vec+features",
        "planetoid-t",
        "planetoid-i",
        "cge-t-average",
        "cge-t-cnn",
        "cge-t-lstm",
        "cge-i-average",
        "cge-i-cnn",
        "cge-i-lstm",
        "sgc",
        "gcn",
        "appnp",
        "rgcn",
        "sehgnn",
        "metapath2vec",
        "gcn+cge",
        "gcn+cge-t",
        "gcn+cge-i",
        "cge",
        "cge-uniform",
    ]
    for letter, setting in (("t", "transductive"), ("i", "inductive")):
        assert METHODS[f"planetoid-{letter}"].settings == {"setting": setting, "weighting": "uniform"}
        for kind in ("average", "cnn", "lstm"):
            method = METHODS[f"cge-{letter}-{kind}"]
            assert method.settings == {"setting": setting, "weighting": kind}
            assert method.description.startswith(f"the paper's CGE-{letter.upper()}: paths weighted by ")
    assert METHODS["cge"].settings == {}
    assert METHODS["node2vec+features"].settings == {"vectors": "node2vec", "features": True}


def test_methods_for_links() -> None:
    links = methods_for("links")
    assert list(links)[:4] == ["link-predictor", "common-neighbors", "deepwalk", "node2vec"]
    assert set(links) - set(METHODS) == {"link-predictor", "common-neighbors", "propagated"}
    assert links["cge"] is METHODS["cge"]
    assert links["deepwalk"].estimator_class() is cge.DeepWalk
    assert (make("node2vec", 0, 1, "links").q, make("node2vec", 0, 1, "links", q=2.0).q) == (0.5, 2.0)


def test_settings_override_the_defaults_of_the_method_and_n_jobs() -> None:
    assert make("cge-t-lstm", 0, window=4, weighting="lstm").window == 4
    params = make("gcn", 3, 2, n_jobs=1, hidden=5).get_params()
    assert params | {"n_jobs": 1, "hidden": 5, "random_state": 3} == params
    assert make("sgc", 3, 2, hops=4).get_params() == {"hops": 4}  # has neither seed nor n_jobs


@pytest.mark.parametrize(
    ("name", "settings", "sentence"),
    [
        ("gcm", {}, "there is no method 'gcm'; did you mean 'gcn'? choose one of features, "),
        ("sgc", {"dim": 3}, "sgc has no setting 'dim'; it has hops"),
        ("features", {"dim": 3}, "features has no setting 'dim'; it has none"),
        ("cge-t-lstm", {"weighting": "cnn"}, "weighting=cnn would not be cge-t-lstm, which has weighting=lstm; choose"),
        ("gcn", {"random_state": 3}, "gcn has no setting 'random_state'; it has append, hidden, dropout, "),
        ("gcn", {"seed": 3}, "gcn has no setting 'seed'; it has append, hidden, dropout, "),
        ("sgc", {"n_jobs": 3}, "sgc has no setting 'n_jobs'; it has hops"),
        ("no_such_module:Thing", {}, "no_such_module:Thing cannot be imported: No module named 'no_such_module'"),
        ("cge:Thing", {}, "cge:Thing cannot be imported: module 'cge' has no attribute 'Thing'"),
        ("cge:load", {}, "cge:load is not a class"),
    ],
)
def test_names_and_settings_that_do_not_exist(name: str, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        make(name, 0, None, **settings)
    assert str(caught.value).startswith(sentence)


# ---------------------------------------------------------------------- methods from outside


class Majority(BaseEstimator):  # type: ignore[misc]
    """Predicts the most frequent class: a method as a user would write it, without anything of this package."""

    def __init__(self, smoothing: float = 1.0) -> None:
        self.smoothing = smoothing

    def fit(self, graph: cge.Graph, y: Any, validation: Any = None) -> Majority:
        self.classes_, counts = np.unique(y[y >= 0], return_counts=True)
        self.probabilities_ = (counts + self.smoothing) / (counts + self.smoothing).sum()
        return self

    def predict_proba(self, nodes: Any) -> Any:
        return np.tile(self.probabilities_, (len(nodes), 1))

    def score(self, nodes: Any, labels: Any) -> float:
        return float(np.mean(self.classes_[self.probabilities_.argmax()] == labels))


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the table as it was after the test."""
    monkeypatch.setattr(methods, "_TABLE", list(methods._TABLE))


@pytest.mark.usefixtures("table")
def test_a_registered_method_is_evaluated_and_tuned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    space = {"smoothing": Range(0.1, 10.0, log=True)}
    method = Method("majority", Majority, "the most frequent class", space=space)
    register_method(method)
    register_method(method)  # again, as a module that is imported twice would
    assert run(["evaluate", "any", "--method", "list"]) == 0
    assert "majority                the most frequent class\n" in capsys.readouterr().out
    assert run(["evaluate", "cora", "--method", "majority", "--set", "smoothing=2.5", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["settings"] == {"smoothing": 2.5}
    assert result["labels"] == {"train": 140, "outer": 0, "validation": 500}
    assert result["accuracy"]["per_seed"] == [0.13]  # class 0; all classes have 20 training labels
    monkeypatch.chdir(tmp_path)
    assert run(["tune", "cora", "--method", "majority", "--trials", "1"]) == 0
    assert "smoothing = " in capsys.readouterr().out


@pytest.mark.usefixtures("table")
def test_a_name_is_registered_once() -> None:
    with pytest.raises(InputError, match="there is already another method 'sgc' for nodes; choose another name"):
        register_method(Method("sgc", SGC, "another SGC", {"hops": 4}))
    register_method(Method("sgc", Majority, "for links", tasks=("links",)))
    assert find_method("sgc").estimator_class() is SGC


def test_a_class_is_named_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my_module.py").write_text(
        "from cge.estimators.baselines import SGC\n\n\nclass Shallow(SGC):\n"
        "    def __init__(self, hops=1):\n        super().__init__(hops)\n"
    )
    monkeypatch.chdir(tmp_path)
    assert run(["evaluate", "cora", "--method", "my_module:Shallow", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["method"], result["settings"]) == ("my_module:Shallow", {"hops": 1})
    assert run(["evaluate", "cora", "--method", "sgc", "--set", "hops=1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == result["accuracy"]


# ---------------------------------------------------------------------- settings as text


def test_settings_as_text() -> None:
    pairs = ["dim=64", "q=0.25", "classifier=mlp", "refit=false", "x=", "name=a=b", "y='1'", "z=None"]
    expected = {"dim": 64, "q": 0.25, "classifier": "mlp", "refit": False, "x": "", "name": "a=b", "y": "1", "z": None}
    assert settings_from_text(pairs) == expected
    assert settings_from_text(["dim=1", "dim=2"]) == {"dim": 2}  # the last counts
    for wrong in ("dim", "=3", ""):
        with pytest.raises(InputError, match=f"a setting takes the form name=value, found '{wrong}'"):
            settings_from_text([wrong])


def test_settings_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "gcn.toml"
    file.write_text('# by hand\nhidden = 32\ndropout = 0.5\nclassifier = "mlp"\nmax_epochs = "none"\nrefit = true\n')
    expected = {"hidden": 32, "dropout": 0.5, "classifier": "mlp", "max_epochs": None, "refit": True}
    assert read_settings(file) == read_settings(str(file)) == expected


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "there is no such file"),
        (
            b"hidden: 3\n",
            "the file is not valid TOML: Expected '=' after a key in a key/value pair (at line 1, column 7)",
        ),
        (
            b"\xff\xfe",
            "the file is not valid TOML: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
        ),
        (b"a = 1\n[gcn]\nhidden = 3\n", "found the table [gcn]; write all settings at the top level"),
    ],
)
def test_files_without_settings(content: bytes | None, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(FileFormatError) as caught:
        read_settings(file)
    assert str(caught.value) == f"{file}: {problem}"


def test_a_folder_is_no_file_of_settings(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="the file cannot be read"):
        read_settings(tmp_path)
