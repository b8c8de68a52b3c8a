"""The tables of the paper: what they contain, their cells, and the reports that are written from stored results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cge
from cge.data import Dataset, Split, catalog
from cge.errors import InputError
from cge.estimators.baselines import WalkClassifier
from cge.estimators.methods import make, methods_for
from cge.estimators.persistence import data_hash
from cge.evaluation.protocol import pack_flags
from studies import tables
from studies.cells import Cell, read_cells
from studies.shared_vectors import SharedVectors
from studies.tables import TABLES, cells, read_table, tables_of
from studies.tables_report import write_report
from tests.fixtures import TRUE_LABELS, groups_with_sparse_features

METHODS = methods_for("nodes")
SPLIT = Split([0, 5, 9, 22, 31, 36], [2, 8, 27, 33], [1, 11, 14, 21, 29, 38])


def groups(split: Split | None = SPLIT, name: str = "groups") -> Dataset:
    return Dataset(name, groups_with_sparse_features(), TRUE_LABELS, ("left", "right"), split)


# ---------------------------------------------------------------------- what the tables contain

DATASETS = ("citeseer", "cora", "pubmed", "nell-0.1", "nell-0.01", "nell-0.001")
TABLE2 = {  # the paper's Table 2, row by row
    "deepwalk+features": (0.610, 0.667, 0.749, 0.619, 0.426, 0.205),
    "node2vec+features": (0.619, 0.692, 0.74, 0.642, 0.458, 0.206),
    "planetoid-t": (0.610, 0.718, 0.737, 0.724, 0.488, 0.266),
    "cge-t-average": (0.622, 0.745, 0.691, 0.629, 0.417, 0.208),
    "cge-t-cnn": (0.635, 0.761, 0.682, 0.623, 0.416, 0.204),
    "cge-t-lstm": (0.629, 0.740, 0.754, 0.726, 0.514, 0.356),
    "planetoid-i": (0.679, 0.674, 0.804, 0.631, 0.433, 0.200),
    "cge-i-average": (0.667, 0.672, 0.792, 0.614, 0.416, 0.191),
    "cge-i-cnn": (0.674, 0.684, 0.779, 0.609, 0.414, 0.180),
    "cge-i-lstm": (0.691, 0.692, 0.800, 0.664, 0.475, 0.295),
}
TABLE3 = {
    "gcn": (0.720, 0.813, 0.792),
    "gcn+cge-t": (0.747, 0.827, 0.846),  # the paper does not say which
    "gcn+cge-i": (0.747, 0.827, 0.846),
}
METHODS3 = ("gcn", "gcn+cge-t", "gcn+cge-i", "gcn+cge", "cge")


@pytest.mark.parametrize(
    ("name", "datasets", "paper"), [("table2", DATASETS, TABLE2), ("table3", DATASETS[:3], TABLE3)]
)
def test_tables_contain_the_numbers_of_the_paper(name: str, datasets: tuple[str, ...], paper: Any) -> None:
    table = read_table(name)
    assert table.name == name
    assert table.datasets == datasets
    assert {method: tuple(row[dataset] for dataset in datasets) for method, row in table.paper.items()} == paper
    assert all(set(row) == set(datasets) for row in table.paper.values())


@pytest.mark.parametrize("name", TABLES)
def test_tables_agree_with_methods_and_data_sets(name: str) -> None:
    table = read_table(name)
    plain = [tables.plain_name(method) for method in table.methods]
    assert set(plain) <= set(METHODS)
    assert len(set(table.methods)) == len(table.methods)
    assert set(table.paper) <= set(table.methods)
    assert set(table.against) <= set(table.methods)
    assert set(table.against.values()) <= set(table.methods)
    assert all(table.methods.index(other) < table.methods.index(method) for method, other in table.against.items())
    assert set(table.datasets) <= {entry.name for entry in catalog()}
    for method in table.methods:
        if method.endswith(", strict"):
            assert METHODS[method.removesuffix(", strict")].settings["setting"] == "inductive"


def test_vectors_have_the_sizes_of_the_paper() -> None:
    sizes = {"citeseer": 50, "cora": 135, "pubmed": 128} | dict.fromkeys(DATASETS[3:], 256)
    table = read_table("table2")
    for method in ("planetoid-i", "cge-i-lstm", "planetoid-i, strict", "cge-t-cnn"):
        own = {"citeseer": 128} if method == "cge-t-cnn" else {}  # docs/deviations.md
        assert {dataset: table.settings_of(dataset, method)["dim"] for dataset in DATASETS} == sizes | own


def test_there_is_no_such_table() -> None:
    with pytest.raises(InputError, match="there is no table 'table4'; there are table2, table3"):
        read_table("table4")


# ---------------------------------------------------------------------- cells


def test_cells_of_a_table() -> None:
    all_cells = list(cells("table3", None, 2))
    expected = [Cell(dataset, method, seed) for seed in (0, 1) for dataset in DATASETS[:3] for method in METHODS3]
    assert all_cells == expected
    assert list(cells("table3", "*", 2)) == expected
    assert list(cells("table3", "cora", 1)) == [Cell("cora", method, 0) for method in METHODS3]
    assert list(cells("table3", "cora/gcn+cge-t", 2)) == [Cell("cora", "gcn+cge-t", 0), Cell("cora", "gcn+cge-t", 1)]
    assert list(cells("table3", "*/gcn", 1)) == [Cell(dataset, "gcn", 0) for dataset in DATASETS[:3]]
    assert list(cells("table2", "cora/planetoid-i, strict", 1)) == [Cell("cora", "planetoid-i, strict", 0)]
    assert len(list(cells("table2", None, 5))) == 5 * 6 * 26 + 6 * 4  # four are deterministic
    assert list(cells("table2", "cora/sgc", 3)) == [Cell("cora", "sgc", 0)]
    assert list(cells("table2", "cora/cge-i-lstm, strict", 2))[1] == Cell("cora", "cge-i-lstm, strict", 1)


@pytest.mark.parametrize(
    ("only", "sentence"),
    [
        ("moon", "table3 has no data set 'moon'; it has citeseer, cora, pubmed"),
        ("/gcn", "table3 has no data set ''; it has citeseer, cora, pubmed"),
        ("nell-0.1/gcn", "table3 has no data set 'nell-0.1'; it has citeseer, cora, pubmed"),
        ("cora/magic", "table3 has no method 'magic'; it has gcn; gcn+cge-t; gcn+cge-i; gcn+cge; cge"),
    ],
)
def test_parts_that_a_table_does_not_have(only: str, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        list(cells("table3", only, 1))
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("table", "method", "dataset", "settings", "strict"),
    [
        ("table2", "cge-t-lstm", "cora", {"dim": 135, "label_pairs": 0.01, "head_lr": 0.03}, False),
        (
            "table2",
            "planetoid-i, strict",
            "nell-0.1",
            {"dim": 256, "walks_per_node": 2, "head_steps": 100, "weight_decay": 1e-4},
            True,
        ),
        ("table2", "deepwalk", "cora", {}, False),
        ("table2", "cge", "cora", {"prior_correction": False}, False),
        ("table3", "gcn", "cora", {}, False),
    ],
)
def test_how_a_cell_is_run(
    table: str, method: str, dataset: str, settings: Any, strict: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    data = groups(split=None)
    data = Dataset("groups", data.graph, data.labels, data.class_names, splits=(SPLIT, Split([0, 22], [1], [2])))

    def once(*arguments: Any) -> dict[str, Any]:
        seen.extend(arguments)
        return {"metrics": {"accuracy": 0.25}, "n_test": 1, "seconds": 2.0}

    monkeypatch.setattr(tables, "_dataset", {dataset: data}.__getitem__)
    monkeypatch.setattr(tables, "run_once", once)
    row = tables.run(Cell(dataset, method, 1), table)
    result = {"metrics": {"accuracy": 0.25}, "n_test": 1, "seconds": 2.0}
    assert row == result | {"settings": settings, "test": 0.25, "revision": int("-" in method and table == "table2")}
    estimator, used, split, is_strict = seen
    assert (used, split, is_strict) == (data, data.splits[1], strict)
    expected = make(method.removesuffix(", strict"), 1, 1, **settings)
    assert (type(estimator), estimator.get_params()) == (type(expected), expected.get_params())


# ---------------------------------------------------------------------- what is written


def row(test: float, correct: Any = (1, 1, 0, 0), **changed: Any) -> dict[str, Any]:
    return {
        "test": test,
        "correct": pack_flags(np.array(correct, bool)),
        "n_test": len(correct),
        "labels": {"train": 140, "outer": 0, "validation": 500},
        "seconds": 2.0,
        "settings": {},
    } | changed


def results() -> dict[Cell, dict[str, Any]]:
    """GCN on three seeds of cora; with CGE on the same and a fourth; citeseer has one run."""
    rows = {Cell("cora", "gcn", seed): row(test) for seed, test in enumerate((0.80, 0.81, 0.79))}
    accuracies = {0: 0.84, 1: 0.83, 2: 0.82, 7: 0.99}
    settings = {"append_settings": {"dim": 135, "label_pairs": 0.01, "head_lr": 0.03}}
    for seed, test in accuracies.items():
        rows[Cell("cora", "gcn+cge-t", seed)] = row(test, (1, 1, 1, 0), seconds=4.0, settings=settings)
    rows |= {Cell("citeseer", "gcn", 0): row(0.7, (1,) * 8), Cell("unheard of", "gcn", 0): row(0.1)}
    return rows


def store(folder: Path, rows: dict[Cell, dict[str, Any]], name: str = "table3") -> None:
    """Write cells as a run would, with the settings of the table."""
    (folder / name).mkdir()
    for cell, result in rows.items():
        result = result | {"settings": tables._all_settings(read_table(name), cell)}
        with (folder / name / f"{cell.graph}.jsonl").open("a") as file:
            file.write(json.dumps({"graph": cell.graph, "method": cell.method, "seed": cell.seed} | result) + "\n")


def test_means_and_tests_by_hand() -> None:
    tables_ = tables_of(read_table("table3"), results())
    assert (tables_["table"], tables_["cells"]) == ("table3", 9)
    assert list(tables_["datasets"]) == ["citeseer", "cora"]
    assert list(tables_["datasets"]["cora"]) == ["gcn", "gcn+cge-t"]
    gcn, both = tables_["datasets"]["cora"].values()
    half = 4.302653 * 0.01 / np.sqrt(3)
    assert gcn["accuracy"] == pytest.approx({"mean": 0.8, "sd": 0.01, "low": 0.8 - half, "high": 0.8 + half, "runs": 3})
    assert (gcn["paper"], both["paper"]) == (0.813, 0.827)
    assert (gcn["n_test"], gcn["labels"]["validation"], gcn["seconds"], gcn["settings"]) == (4, 500, 2.0, {})
    assert not {"against", "mcnemar"} & set(gcn)
    assert both["accuracy"]["runs"] == 4
    # Seeds 0 to 2 have a partner: 0.04, 0.02, 0.03, so t = 3 √3 with two degrees of freedom.
    p = pytest.approx(1 - 27**0.5 / 29**0.5)
    assert both["against"] == {"gain": pytest.approx(0.03), "p": p, "p_holm": p, "runs": 3, "method": "gcn"}
    assert both["mcnemar"] == {
        "only_first": 1,
        "only_second": 0,
        "p": pytest.approx(1.0),
        "seed": 0,
    }  # first seed
    json.dumps(tables_)


def test_the_report_contains_the_tables(tmp_path: Path) -> None:
    store(tmp_path, results())
    written = write_report("table3", tmp_path)
    assert json.loads((tmp_path / "table3.json").read_text()) == written == tables_of(read_table("table3"), results())
    lines = (tmp_path / "table3.md").read_text().splitlines()
    assert lines[0] == "# Table 3: GCN and GCN + CGE"
    assert "with 4 to 8 test nodes, an accuracy has a standard error of about 20.0 points in addition" in lines[2]
    assert lines[4:9] == [
        "| method | citeseer | cora |",
        "|---|---|---|",
        "| *training + validation labels* | 140 + 500 | 140 + 500 |",
        "| *GCN* | | |",
        "| gcn | 70.0 (1) / 72.0 | 80.0 ± 1.0 (3) / 81.3 |",
    ]
    assert lines[9] == "| gcn+cge-t |  | 87.0\\*‡ ± 8.0 (4) / 82.7 |"
    assert lines[11] == "## Cell by cell"
    assert lines[-3:] == [
        "| citeseer | gcn | 140 + 500 | 8 | 70.0 | 72.0 | similar (-2.0) |  |  |  |  |  | not recorded |",
        "| cora | gcn | 140 + 500 | 4 | 80.0 [77.5, 82.5] | 81.3 | similar (-1.3) |  |  |  |  |  | not recorded |",
        (
            "| cora | gcn+cge-t | 140 + 500 | 4 | 87.0 [74.2, 99.8] | 82.7 | above (+4.3) "
            "| gcn | +3.0 (3) | 0.035 | 0.035 | 1.000 | not recorded |"
        ),
    ]
    assert {file.name for file in tmp_path.iterdir()} == {"table3", "table3.json", "table3.md", "table3.svg"}


@pytest.mark.parametrize(
    ("gains", "mark"),
    [
        ((0.04, 0.02, 0.03), "\\*‡"),
        ((0.031, 0.030, 0.029), "\\*\\*‡"),
        ((0.05, -0.02, 0.03), ""),
        ((-0.031, -0.030, -0.029), ""),  # worse
        ((0.03, 0.03, 0.03), ""),  # no variance, no test
    ],
)
def test_stars_mark_better_methods(gains: tuple[float, ...], mark: str, tmp_path: Path) -> None:
    rows = {Cell("cora", "gcn", seed): row(0.5) for seed in range(3)}
    rows |= {Cell("cora", "gcn+cge-t", seed): row(0.5 + gain) for seed, gain in enumerate(gains)}
    store(tmp_path, rows)
    write_report("table3", tmp_path)
    mean, sd = 100 * (0.5 + np.mean(gains)), 100 * np.std(gains, ddof=1)
    assert f"| {mean:.1f}{mark} ± {sd:.1f} (3) / 82.7 |" in (tmp_path / "table3.md").read_text()


def test_the_plot_is_reproducible(tmp_path: Path) -> None:
    store(tmp_path, results())
    write_report("table3", tmp_path)
    first = (tmp_path / "table3.svg").read_bytes()
    assert first.startswith(b"<?xml")
    for word in (
        b"accuracy in the paper",
        b"our accuracy, mean over seeds",
        b"Table 3: GCN and GCN + CGE",
        b"citeseer",
        b"cora",
    ):
        assert word in first
    assert b"pubmed" not in first
    (tmp_path / "table3.svg").unlink()
    write_report("table3", tmp_path)
    assert (tmp_path / "table3.svg").read_bytes() == first
    with (tmp_path / "table3" / "cora.jsonl").open("a") as file:
        file.write(json.dumps({"graph": "cora", "method": "gcn", "seed": 3} | row(0.5)) + "\n")
    write_report("table3", tmp_path)
    assert (tmp_path / "table3.svg").read_bytes() != first


def test_strict_methods_have_their_own_rows(tmp_path: Path) -> None:
    rows = {Cell("cora", "planetoid-i, strict", 0): row(0.6), Cell("cora", "cge", 0): row(0.8)}
    store(tmp_path, rows, "table2")
    write_report("table2", tmp_path)
    lines = (tmp_path / "table2.md").read_text().splitlines()
    assert lines[6:11] == [
        "| *training + validation labels* | 140 + 500 |",
        "| *inductive, strict* | |",
        "| planetoid-i, strict | 60.0 (1)° |",
        "| *this package* | |",
        "| cge | 80.0 (1) |",
    ]


def test_a_report_needs_cells(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no cell of table3 with its present settings; run some first"):
        write_report("table3", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_cells_of_older_code_are_shown_and_marked_and_run_again(tmp_path: Path) -> None:
    rows = {Cell("cora", "planetoid-t", seed): row(0.6) for seed in (0, 1)}
    rows[Cell("cora", "planetoid-t", 1)] |= {"revision": 1, "version": "0.1.0 abc"}
    rows[Cell("cora", "planetoid-i", 0)] = row(0.7, revision=1, version="0.1.0 abc")
    rows[Cell("cora", "cge-i-cnn", 0)] = row(0.8, version="0.1.0 old")
    store(tmp_path, rows, "table2")
    stored = read_cells(tmp_path / "table2")
    assert [tables.current(cell, result, "table2") for cell, result in stored.items()] == [False, True, True, False]
    assert all(tables.belongs(cell, result, "table2") for cell, result in stored.items())
    write_report("table2", tmp_path)
    lines = (tmp_path / "table2.md").read_text().splitlines()
    assert "| planetoid-t | 60.0 (1) / 71.8 |" in lines  # seed 1 only
    assert "| planetoid-i | 70.0 (1) / 67.4 |" in lines
    assert "| cge-i-cnn | 80.0 (1)° / 68.4 |" in lines
    assert lines[-2].endswith("| 0.1.0 abc |")
    assert lines[-1].endswith("|  |  |  |  |  | 0.1.0 old° |")  # not compared with planetoid-i, which is newer


def test_gcn_appends_the_papers_models_with_the_settings_of_table_2() -> None:
    table2, table3 = read_table("table2"), read_table("table3")
    for letter in ("t", "i"):
        for dataset in table3.datasets:
            assert table3.append[f"gcn+cge-{letter}"][dataset] == table2.settings_of(dataset, f"cge-{letter}-lstm")


def test_printed_rows_have_the_settings_of_the_others_and_follow_the_paper() -> None:
    table = read_table("table2")
    for method in (name for name in table.methods if name.endswith(", printed")):
        for dataset in DATASETS:
            printed = {"outer": "paper", "window": 3}
            assert table.settings_of(dataset, method) == table.settings_of(dataset, tables.plain_name(method)) | printed


def test_a_method_has_the_settings_of_its_baseline() -> None:
    for table in map(read_table, TABLES):
        for method, baseline in table.against.items():
            for dataset in table.datasets:
                assert table.settings_of(dataset, method) == table.settings_of(dataset, baseline)


def test_walk_vectors_are_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []
    compute = WalkClassifier._vectors

    def counted(self: Any, graph: Any) -> Any:
        computed.append(self.vectors)
        return compute(self, graph)

    monkeypatch.setattr(WalkClassifier, "_vectors", counted)
    monkeypatch.setattr(tables, "_dataset", lambda name: groups(name=name))

    def run(method: str, seed: int = 0, folder: Path | None = tmp_path / "vectors") -> float:
        return float(tables.run(Cell("cora", method, seed), "table2", folder)["test"])

    scores = [run("deepwalk"), run("deepwalk+features")]
    assert computed == ["deepwalk"]
    assert len(list((tmp_path / "vectors").iterdir())) == 1
    assert scores == [run("deepwalk", folder=None), run("deepwalk+features", folder=None)]
    file = next((tmp_path / "vectors").iterdir())
    settings = read_table("table2").settings_of("cora", "deepwalk")
    model = SharedVectors(**make("deepwalk", 0, 1, **settings).get_params())
    described = model._embedder().get_params() | {"n_jobs": None, "vectors": "deepwalk", "version": cge.__version__}
    assert file.stem == data_hash(described, groups(name="cora").graph, [])[:32]
    np.savez(file, vectors=np.load(file)["vectors"], seconds=1000.0)
    row = tables.run(Cell("cora", "deepwalk+features", 0), "table2", tmp_path / "vectors")
    assert row["test"] == scores[1]
    assert row["seconds"] > 1000  # the time of the stored vectors is added
    computed.clear()
    run("deepwalk", seed=1)
    run("node2vec")
    assert computed == ["deepwalk", "node2vec"]
    assert len(list((tmp_path / "vectors").iterdir())) == 3


def test_cells_with_other_settings_are_not_current(tmp_path: Path) -> None:
    store(tmp_path, {Cell("cora", "cge", 0): row(0.8), Cell("cora", "cge", 1): row(0.9)}, "table2")
    file = tmp_path / "table2" / "cora.jsonl"
    file.write_text(file.read_text().replace('"prior_correction": false', '"prior_correction": "auto"', 1))
    rows = read_cells(tmp_path / "table2")
    assert [tables.current(cell, result, "table2") for cell, result in rows.items()] == [False, True]
    assert write_report("table2", tmp_path)["datasets"]["cora"]["cge"]["accuracy"]["mean"] == 0.9
    assert not tables.current(Cell("cora", "a retired method", 0), row(0.8), "table2")
