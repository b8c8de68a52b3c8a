"""`cge evaluate` and `cge tune` on the command line."""

from __future__ import annotations

import re
import time
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cge.cli.main import run
from cge.data import load_folder
from cge.data.link_split import hold_out_links
from cge.estimators.embeddings import DeepWalk
from cge.estimators.methods import make, methods_for
from cge.evaluation.protocol import peak_mb, run_links, run_once, split_of
from tests.fixtures import TRUE_LABELS, groups_with_sparse_features
from tests.integration.commands import json_of, refused

ROLES = {"train": range(0, 40, 4), "validation": range(1, 40, 4), "test": [node for node in range(40) if node % 4 > 1]}
KEYS = ["dataset", "method", "settings", "accuracy", "n_test", "labels", "seconds", "peak_mb", "versions"]
KEYS += ["protocol", "notes"]
F1 = ["micro_f1", "macro_f1", "micro_f1_above_half", "macro_f1_above_half"]
PAPER = ["--set", "dim=4", "--set", "max_epochs=1", "--set", "pretrain=1", "--set", "walks_per_node=1"]


def write_dataset(folder: Path, *, split: bool = True, multilabel: bool = False, roles: Any = None) -> Path:
    """Write two groups of nodes as a folder: edges, features, labels and optionally a split."""
    folder.mkdir()
    graph = groups_with_sparse_features()
    edges = np.argwhere(np.triu(graph.to_scipy().toarray()))
    (folder / "edges.csv").write_text("source,target\n" + "".join(f"n{u},n{v}\n" for u, v in edges))
    x: Any = graph.features
    header = "node," + ",".join(f"f{column}" for column in range(x.shape[1]))
    numbers = ["".join(f",{value:.4f}" for value in row) for row in x.toarray()]
    (folder / "features.csv").write_text(header + "\n" + "".join(f"n{node}{row}\n" for node, row in enumerate(numbers)))
    rows = [f"n{node},{('left', 'right')[label]}\n" for node, label in enumerate(TRUE_LABELS)]
    rows += [f"n{node},third\n" for node in range(0, 40, 3)] if multilabel else []
    (folder / "labels.csv").write_text("node,label\n" + "".join(rows))
    if split:
        lines = [f"n{node},{role}\n" for role, nodes in (roles or ROLES).items() for node in nodes]
        (folder / "split.csv").write_text("node,role\n" + "".join(lines))
    return folder


@pytest.fixture
def people(tmp_path: Path) -> str:
    return str(write_dataset(tmp_path / "people"))


# ---------------------------------------------------------------------- cge evaluate


@pytest.mark.parametrize("command", ["evaluate", "tune"])
def test_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, "--help"]) == 0
    printed = capsys.readouterr().out
    for option in ("--method", "--seeds", "--set", "--jobs", "--quiet", "--json", "DATASET"):
        assert option in printed
    assert ("--strict" in printed) == (command == "evaluate")
    assert ("--trials" in printed) == (command == "tune")


def test_the_list_of_methods(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluate", "any", "--method", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(methods_for())
    assert [line.split(maxsplit=1)[1] for line in lines] == [method.description for method in methods_for().values()]


def test_a_folder_is_a_data_set(people: str, capsys: pytest.CaptureFixture[str]) -> None:
    start = time.perf_counter()
    result = json_of(capsys, "evaluate", people, "--method", "sgc", "--seeds", "3")
    elapsed = time.perf_counter() - start
    assert list(result) == KEYS
    assert (result["dataset"], result["method"], result["settings"]) == ("people", "sgc", {"hops": 2})
    assert list(result["accuracy"]) == ["per_seed", "mean", "std", "ci95"]
    data = load_folder(people)
    row = run_once(make("sgc", 0), *split_of(data, 0))
    assert result["accuracy"]["per_seed"] == [row["metrics"]["accuracy"]]  # one split, and the method is deterministic
    assert (result["accuracy"]["mean"], result["accuracy"]["std"]) == (row["metrics"]["accuracy"], None)
    assert result["n_test"] == 20
    assert result["labels"] == {"train": 10, "outer": 0, "validation": 10}
    assert 0 < result["seconds"] <= elapsed + 0.005  # rounded to hundredths
    assert result["peak_mb"] == pytest.approx(peak_mb(), rel=0.2)
    assert {"python", "cge", "torch"} <= set(result["versions"])


def test_seeds_reach_the_method(people: str, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["evaluate", people, "--method", "gcn", "--set", "epochs=3", "--set", "hidden=2"]
    result = json_of(capsys, *call, "--seeds", "3", "--jobs", "1")["accuracy"]["per_seed"]
    later = json_of(capsys, *call, "--seeds", "2", "--first-seed", "1")["accuracy"]["per_seed"]
    assert later == result[1:]
    assert len(set(result)) > 1
    data, split = split_of(load_folder(people), 0)
    for seed, accuracy in enumerate(result):
        assert run_once(make("gcn", seed, epochs=3, hidden=2), data, split)["metrics"]["accuracy"] == accuracy


def test_output_on_the_terminal(people: str, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["evaluate", people, "--method", "gcn", "--set", "epochs=3", "--seeds", "2"]
    assert run(call) == 0
    printed = capsys.readouterr()
    assert [line.split(":")[0] for line in printed.err.splitlines()] == ["seed 0", "seed 1"]
    assert re.match(r"seed 0: accuracy [01]\.\d{4} \(\d+\.\d s\)\n", printed.err)
    output = dict(line.split("  ", maxsplit=1) for line in printed.out.splitlines())
    assert [name.strip() for name in output] == [
        "data set",
        "method",
        "settings",
        "accuracy",
        "test nodes",
        "labels seen",
        "seconds per run",
        "peak memory",
        "note",
    ]
    assert "(2 seeds, 95 % confidence interval " in printed.out
    assert "train 10, outer 0, validation 10" in printed.out
    assert run([*call, "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    assert run([*call[:-1], "1", "--quiet"]) == 0
    assert "(1 seed)" in capsys.readouterr().out


def test_the_command_line_has_precedence_over_a_file(
    people: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "gcn.toml"
    file.write_text("hidden = 3\nepochs = 2\n")
    call = ["evaluate", people, "--method", "gcn", "--seeds", "1", "--config", str(file)]
    assert {**json_of(capsys, *call)["settings"]} == {
        "append": None,
        "dropout": 0.5,
        "epochs": 2,
        "hidden": 3,
        "learning_rate": 0.01,
        "patience": 100,
        "n_jobs": None,
        "weight_decay": 0.0005,
    }
    result = json_of(capsys, *call, "--set", "hidden=4", "--set", "dropout=0.0", "--set", "n_jobs=1")["settings"]
    assert (result["hidden"], result["epochs"], result["dropout"], result["n_jobs"]) == (4, 2, 0.0, 1)


def test_flat_settings_and_none(people: str, capsys: pytest.CaptureFixture[str]) -> None:
    quick = ["--set", "classifier=mlp", "--set", "max_epochs=3", "--set", "label_propagation=no", "--set", "dim=4"]
    call = ["evaluate", people, "--seeds", "1", *quick]
    result = json_of(capsys, *call, "--set", "weighting=uniform", "--set", "learning_rate=none")["settings"]
    assert (result["weighting"], result["learning_rate"], result["max_epochs"]) == ("uniform", None, 3)
    assert result["n_folds"] == 3  # a default of the outer problem


@pytest.mark.parametrize(("method", "more"), [("planetoid-i", PAPER), ("cge", ["--set", "max_epochs=3"])])
def test_strict(method: str, more: list[str], people: str, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["evaluate", people, "--method", method, "--seeds", "1", *more]
    if method == "cge":
        call += ["--set", "classifier=mlp", "--set", "weighting=degree", "--set", "label_propagation=no"]
    result = json_of(capsys, *call, "--strict")
    assert list(result) == KEYS
    assert result["n_test"] == 20
    assert result["labels"]["train"] == 10
    assert run([*call, "--strict", "--quiet"]) == 0
    assert f"{method}, strict\n" in capsys.readouterr().out


def test_a_deterministic_method_is_run_once(people: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = json_of(capsys, "evaluate", people, "--method", "label-propagation", "--seeds", "3")
    assert len(result["accuracy"]["per_seed"]) == 1
    assert result["notes"][1:] == ["label-propagation is deterministic and the split is fixed, so there is one run"]
    assert run(["evaluate", people, "--method", "label-propagation"]) == 0
    assert "so there is one run" in capsys.readouterr().out


def test_classes_that_cannot_be_scored_are_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_dataset(tmp_path / "rare", split=False)
    labels = (folder / "labels.csv").read_text().splitlines()
    node = labels[1].rpartition(",")[0]
    (folder / "labels.csv").write_text("\n".join([labels[0], f"{node},odd", *labels[2:]]) + "\n")
    result = json_of(
        capsys, "evaluate", str(folder), "--method", "label-propagation", "--per-class", "5", "--seeds", "1"
    )
    assert result["notes"][1:] == ["1 of 3 classes have too few labels and are left out: odd"]


def test_splits_that_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = str(write_dataset(tmp_path / "bare", split=False))
    call = ["evaluate", bare, "--method", "label-propagation", "--seeds", "2"]
    result = json_of(capsys, *call, "--per-class", "5")
    assert (result["labels"]["train"], result["labels"]["validation"], result["n_test"]) == (10, 15, 15)
    assert len(result["accuracy"]["per_seed"]) == 2
    assert result["protocol"] == {
        "strict": False,
        "first_seed": 0,
        "published_splits": 0,
        "per_class": 5,
        "train_share": None,
    }
    share = json_of(capsys, *call, "--train-share", "0.5")
    assert share["protocol"]["train_share"] == 0.5
    assert (share["labels"]["train"], share["labels"]["validation"], share["n_test"]) == (18, 2, 20)
    assert refused(capsys, *call, "--per-class", "30") == (
        "fewer than two classes have 60 labels; use fewer with --per-class"
    )
    assert refused(capsys, *call, "--train-share", "0.01").startswith("train=0 selects 0 labeled nodes of 40, too few")


def test_several_labels_per_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    many = str(write_dataset(tmp_path / "many", split=False, multilabel=True))
    call = ["evaluate", many, "--method", "label-propagation", "--seeds", "2"]
    assert refused(capsys, *call) == "many has several labels per node and no split; choose --train-share"
    result = json_of(capsys, *call, "--train-share", "0.6")
    assert list(result) == [*KEYS[:3], *F1, *KEYS[4:]]
    assert 0.5 < result["micro_f1"]["mean"] <= 1
    assert run([*call, "--train-share", "0.6", "--quiet"]) == 0
    printed = capsys.readouterr().out
    assert "micro-F1" in printed
    assert "macro-F1" in printed


def test_a_data_set_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    result = json_of(capsys, "evaluate", "cora", "--method", "label-propagation", "--seeds", "1")
    assert result["dataset"] == "cora"
    assert result["labels"] == {"train": 140, "outer": 0, "validation": 500}
    assert result["n_test"] == 1000
    assert 0.65 < result["accuracy"]["mean"] < 0.75  # 68 to 71 % have been published
    assert result["accuracy"]["ci95"] == [None, None]


LINK_KEYS = [*KEYS[:3], "auc", "ap", "hits_at_100", *KEYS[4:-2], "edges", "scorers", *KEYS[-2:]]
WALKS = ["--set", "dim=8", "--set", "walks_per_node=2", "--set", "walk_length=10", "--set", "window=2"]


def test_link_prediction(people: str, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["evaluate", people, "--task", "link", "--seeds", "2"]
    result = json_of(capsys, *call, "--method", "deepwalk", *WALKS)  # uses no labels
    assert list(result) == LINK_KEYS
    assert (result["method"], result["settings"]["dim"], "q" in result["settings"]) == ("deepwalk", 8, False)
    assert list(result["auc"]) == list(result["ap"]) == ["per_seed", "mean", "std", "ci95"]
    assert result["labels"] == {"train": 0, "outer": 0, "validation": 0}
    edges = load_folder(people).graph.num_edges
    held = {"validation": round(0.05 * edges), "test": round(0.1 * edges)}
    assert result["edges"] == {"train": edges - sum(held.values()), **held}
    assert result["n_test"] == 2 * held["test"]
    assert len(result["scorers"]) == 2
    for seed in range(2):
        split = hold_out_links(load_folder(people).graph, seed=seed)
        model = DeepWalk(dim=8, walks_per_node=2, walk_length=10, window=2, random_state=seed)
        row = run_links(model, split)
        assert row["metrics"] == {name: result[name]["per_seed"][seed] for name in ("auc", "ap", "hits_at_100")}
    shared = json_of(capsys, *call, "--method", "common-neighbors")
    assert set(shared["scorers"]) <= {"common neighbors", "Adamic-Adar"}
    assert shared["auc"]["mean"] > 0.6


def test_link_prediction_with_labels(people: str, capsys: pytest.CaptureFixture[str]) -> None:
    quick = [
        "--set",
        "classifier=mlp",
        "--set",
        "weighting=degree",
        "--set",
        "label_propagation=no",
        "--set",
        "max_epochs=5",
    ]
    result = json_of(capsys, "evaluate", people, "--task", "link", "--method", "cge", "--seeds", "1", *quick)
    assert list(result) == LINK_KEYS
    assert result["labels"] == {"train": 10, "outer": 0, "validation": 10}
    assert 0 <= result["auc"]["mean"] <= 1


def test_output_of_link_prediction(people: str, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["evaluate", people, "--task", "link", "--method", "common-neighbors", "--seeds", "2"]
    assert run(call) == 0
    printed = capsys.readouterr()
    assert re.match(r"seed 0: auc [01]\.\d{4}, ap [01]\.\d{4}, hits_at_100 [01]\.\d{4} \(\d+\.\d s\)\n", printed.err)
    names = [line.split("  ")[0] for line in printed.out.splitlines()]
    assert names[:7] == ["data set", "method", "AUC", "AP", "hits@100", "edges", "selected scorers"]
    assert "test pairs" in names
    assert run(["evaluate", "any", "--task", "link", "--method", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(methods_for("links"))


def test_too_few_edges_to_hold_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "few").mkdir()
    (tmp_path / "few" / "edges.csv").write_text("source,target\na,b\nb,c\n")
    (tmp_path / "few" / "labels.csv").write_text("node,label\na,x\nb,y\n")
    problem = refused(capsys, "evaluate", str(tmp_path / "few"), "--task", "link", "--method", "common-neighbors")
    assert problem == "the graph has 2 edges, too few to hold some out; 20 are needed"


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--task", "links"], "--task must be one of 'label', 'link', found 'links'"),
        (["--task", "link", "--strict"], "--strict removes test nodes, and link prediction has none; leave it out"),
        (["--task", "link", "--method", "gcn"], "there is no method 'gcn'; choose one of link-predictor, "),
        (["--task", "link", "--set", "hops=3"], "link-predictor has no setting 'hops'; it has n_jobs"),
        (["--method", "magic"], "there is no method 'magic'; choose one of features, label-propagation, "),
        (["--set", "nonsense=1"], "cge has no setting 'nonsense'; it has weighting, dim, "),
        (["--set", "nonsense"], "--set takes the form name=value, found 'nonsense'"),
        (["--set", "random_state=3"], "cge has no setting 'random_state'; it has weighting, "),
        (["--method", "sgc", "--set", "hops=0"], "hops must be an integer from 1 to 100, "),
        (["--method", "sgc", "--set", "hops=two"], "hops must be an integer from 1 to 100, "),
        (["--config", "no.toml"], "no.toml: there is no such file"),
        (["--config", "."], ".: the file cannot be read ("),
        (
            ["--method", "gcn", "--strict"],
            "this GCN cannot predict nodes that are not in the training graph; leave out --",
        ),
        (["--method", "planetoid-t", "--strict"], "this PaperCGE cannot predict nodes that are not in the training"),
        (["--seeds", "0"], "Invalid value for '--seeds': Input should be greater than or equal to 1; 'cge evaluate"),
        (["--seed", "-3"], "Invalid value for '--seed'"),
    ],
)
def test_errors_are_one_sentence(
    more: list[str], sentence: str, people: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(capsys, "evaluate", people, *more).startswith(sentence)
    assert refused(capsys, "evaluate", people, *more, "--json").startswith(sentence)


@pytest.mark.parametrize("command", ["evaluate", "tune"])
def test_neither_a_data_set_nor_a_folder(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    problem = refused(capsys, command, "moon", "--method", "gcn")
    assert problem.startswith("there is no data set and no folder 'moon'; the data sets are cora, ")
    assert refused(capsys, command).startswith("Missing argument 'DATASET'")


def test_names_in_any_case(capsys: pytest.CaptureFixture[str]) -> None:
    result = json_of(capsys, "evaluate", "CORA", "--method", "label-propagation", "--seeds", "1")
    assert (result["dataset"], result["n_test"]) == ("cora", 1000)


def test_a_folder_without_what_is_needed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    problem = refused(capsys, "evaluate", str(tmp_path / "empty"))
    assert problem == f"{tmp_path / 'empty'}: expected a file of edges, found nothing; add one, such as edges.csv"
    half = str(write_dataset(tmp_path / "half", roles={"train": [0, 30], "validation": [1, 31]}))
    assert refused(capsys, "evaluate", half, "--method", "sgc") == (
        "half has no test nodes in its split, so nothing can be scored"
    )


# ---------------------------------------------------------------------- cge tune


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, where `cge tune` stores its journals."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def test_a_search_is_stored_and_continued(people: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["tune", people, "--method", "gcn", "--set", "epochs=2", "--jobs", "1"]
    assert run([*call, "--trials", "2"]) == 0
    printed = capsys.readouterr()
    assert [line.split(":")[0] for line in printed.err.splitlines()] == ["trial 1/2", "trial 2/2"]
    assert printed.out.startswith("# people, gcn: validation accuracy 0.")
    assert printed.out.splitlines()[0].endswith(", best of 2 trials")
    result = tomllib.loads(printed.out)
    assert set(result) == {"epochs", "hidden", "dropout", "learning_rate", "weight_decay"}
    assert [path.name for path in (here / "runs" / "tune").iterdir()] == ["people-gcn.journal"]
    assert run([*call, "--trials", "3", "--out", "best/gcn.toml"]) == 0
    printed = capsys.readouterr()
    assert printed.err.startswith("trial 3/3: validation ")
    assert printed.err.count("\n") == 1
    best = (here / "best" / "gcn.toml").read_text()
    assert printed.out.endswith(best)
    again = json_of(capsys, *call, "--trials", "3")
    assert list(again) == ["dataset", "method", "settings", "validation", "trials", "pruned"]
    assert (again["dataset"], again["method"], again["trials"], again["pruned"]) == ("people", "gcn", 3, 0)
    assert again["settings"] == tomllib.loads(best)
    assert 0 <= again["validation"] <= 1
    measured = json_of(capsys, "evaluate", people, "--method", "gcn", "--config", "best/gcn.toml", "--seeds", "1")
    assert measured["settings"] | again["settings"] == measured["settings"]


def test_a_quiet_search(people: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["tune", people, "--method", "sgc", "--trials", "2", "--seeds", "2", "--storage", "x/sgc.journal", "--quiet"]
    assert run(call) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert set(tomllib.loads(printed.out)) == {"hops"}
    assert [path.name for path in here.iterdir()] == ["x"]


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--method", "magic"], "there is no method 'magic'; choose one of features"),
        (["--method", "features"], "features has nothing to tune: it selects its settings in every fit"),
        (["--method", "sgc", "--set", "dim=3"], "sgc has no setting 'dim'; it has hops"),
        (["--method", "gcn", "--set", "hidden=0"], "hidden must be an integer from 1 to 4096"),
        (["--method", "gcn", "--storage", "."], "the storage '.' cannot be opened: [Errno 21] Is a directory"),
        (
            ["--method", "gcn", "--trials", "0"],
            "Invalid value for '--trials': Input should be greater than or equal to 1",
        ),
    ],
)
def test_what_cannot_be_tuned(
    more: list[str], sentence: str, people: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(capsys, "tune", people, *more).startswith(sentence)
    assert not list(here.iterdir())


def test_without_validation_labels_no_trial_can_be_scored(
    tmp_path: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    half = str(write_dataset(tmp_path / "half", roles={"train": [0, 4, 30], "test": [1, 31]}))
    assert refused(capsys, "tune", half, "--method", "sgc", "--trials", "1") == (
        "half has no validation labels in its split, so no trial can be scored"
    )


def test_a_search_does_not_look_at_test_labels(
    people: str, tmp_path: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["--method", "sgc", "--trials", "3", "--storage"]
    result = json_of(capsys, "tune", people, *call, "a.journal")
    labels = Path(people) / "labels.csv"
    rows = labels.read_text().splitlines()
    for node in ROLES["test"]:
        rows[node + 1] = f"n{node},{('right', 'left')[TRUE_LABELS[node]]}"
    labels.write_text("\n".join(rows) + "\n")
    assert json_of(capsys, "tune", people, *call, "b.journal") == result
