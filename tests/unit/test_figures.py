"""The paper's analyses of path weights: cells, one of each on a small graph, tables, text and plots."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import cge
from cge.cli.main import run as command
from cge.data.dataset import Dataset
from cge.data.splits import Split
from cge.errors import InputError, MissingDataError
from cge.estimators.configs import make_estimator
from cge.sampling import Walker, subpaths
from studies import figures
from studies.cells import Cell
from studies.figures import ANALYSES, OUTER, RecordedLstm, SampledPaths, cells, run
from studies.figures_data import dataset, restrict
from studies.figures_plots import TITLES
from studies.figures_report import write_report
from studies.figures_tables import tables_of

NAMES = ("distribution", "relevance", "classes", "length", "diversity")


@pytest.fixture
def without_aminer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Use an empty data folder."""
    monkeypatch.setenv("CGE_DATA_DIR", str(tmp_path))
    return tmp_path


# ---------------------------------------------------------------------- cells


@pytest.mark.usefixtures("without_aminer")
def test_all_cells_by_both_rules() -> None:
    study = list(cells(None, 2))
    expected = {
        Cell(graph, f"{name}, {outer}", seed)
        for name, (graphs, _) in ANALYSES.items()
        for graph in graphs
        for outer in ("unrolled", "paper")
        for seed in (0, 1)
        if graph != "aminer"
    }
    assert set(study) == expected
    assert len(study) == len(expected) == 2 * 2 * (1 + 3 + 2 + 3 + 3)
    assert [cell.seed for cell in study] == sorted(cell.seed for cell in study)
    assert tuple(ANALYSES) == NAMES
    assert [ANALYSES[name][1] for name in NAMES] == [3, 3, 3, 10, 3]


@pytest.mark.usefixtures("without_aminer")
def test_parts() -> None:
    assert list(cells("length/cora", 2)) == [
        Cell("cora", f"length, {outer}", seed) for seed in (0, 1) for outer in OUTER
    ]
    assert {cell.graph for cell in cells("relevance", 1)} == {"citeseer", "cora", "pubmed"}
    assert {cell.method.partition(",")[0] for cell in cells("*/cora", 1)} == {"relevance", "length", "diversity"}
    assert list(cells("length", 0)) == []


@pytest.mark.parametrize(
    ("only", "message"),
    [
        ("width", "no analysis 'width'; there are distribution, relevance"),
        ("distribution/cora", "distribution has no data set 'cora'; it has citeseer"),
        ("*/moon", "has no data set 'moon'"),
    ],
)
def test_parts_that_do_not_exist(only: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        list(cells(only, 1))


AMINER = """#*Paths
#cCommunications of the  ACM
#index1
#%2
#%9

#*Weights
#cComputer
#index2

#*Alone
#cDiscrete Mathematics
#index3

#*Elsewhere
#cKDD
#index9
"""


def test_aminer_needs_its_file(without_aminer: Path) -> None:
    with pytest.raises(MissingDataError, match=r"aminer/citation\.txt"):
        list(cells("classes/aminer", 1))
    (without_aminer / "aminer").mkdir()
    (without_aminer / "aminer" / "citation.txt").write_text(AMINER)
    assert [cell.graph for cell in cells("classes", 1)] == ["vispub"] * 2 + ["debian"] * 2 + ["aminer"] * 2
    assert len(list(cells("classes/aminer", 1))) == 2
    dataset.cache_clear()
    data = dataset("aminer")
    dataset.cache_clear()
    assert data.graph.node_ids.tolist() == ["1", "2"]
    assert data.labels.tolist() == [0, 1]
    assert data.class_names[:2] == ("Communications of ACM", "Computer")
    assert len(data.class_names) == 6


def test_restrict_keeps_labeled_nodes_with_neighbors() -> None:
    graph = cge.Graph.from_edges([(0, 1), (1, 2), (2, 3)], num_nodes=5)
    data = Dataset("small", graph, np.array([0, 0, 1, 2, 0]), ("a", "b", "c"))
    part = restrict(data, np.array([1, 0, -1, 0, 1]), ["x", "y"])
    assert part.graph.node_ids.tolist() == [0, 1]  # 3 has lost its neighbor, 4 had none
    assert part.labels.tolist() == [1, 0]
    assert part.class_names == ("x", "y")


# ---------------------------------------------------------------------- running a cell


def small(classes: int = 3, each: int = 30) -> Dataset:
    """Return rings of one class each, with a few edges between them."""
    edges = [
        (ring * each + node, ring * each + (node + step) % each)
        for ring in range(classes)
        for node in range(each)
        for step in (1, 2, 3)
    ]
    edges += [(ring * each, (ring + 1) % classes * each + 7) for ring in range(classes)]
    labels = np.repeat(np.arange(classes), each)
    nodes = np.arange(classes * each).reshape(classes, each)
    split = Split(nodes[:, :8].ravel(), nodes[:, 8:14].ravel(), nodes[:, 14:].ravel())
    random = np.random.default_rng(0)
    features = sp.csr_array((np.eye(classes)[labels] + random.random((len(labels), classes))).astype(np.float32))
    graph = cge.Graph.from_edges(edges, features=features, num_nodes=classes * each)
    return Dataset("small", graph, labels, tuple("abc"[:classes]), split)


@pytest.fixture
def small_graph(monkeypatch: pytest.MonkeyPatch) -> Dataset:
    data = small()
    monkeypatch.setattr(figures, "dataset", lambda name: data)
    quick = {"max_epochs": 1, "pretrain": 1, "head_steps": 5, "walks_per_node": 1, "outer_paths": 64}
    monkeypatch.setattr(figures, "_SETTINGS", figures._SETTINGS | quick)
    monkeypatch.setattr(figures, "_DIM", dict.fromkeys(figures._DIM, 8))
    return data


@pytest.mark.filterwarnings("ignore::cge.errors.CgeWarning")
def test_the_recorded_networks_are_that_of_the_model_and_an_untrained_copy() -> None:
    data = small()
    settings: dict[str, Any] = {"window": 3, "dim": 8, "max_epochs": 1, "pretrain": 1, "n_jobs": 1}
    settings |= {"walks_per_node": 2, "outer_paths": 64}
    split, networks = data.splits[0], RecordedLstm()
    y, validation = data.labels_of(split.train), data.labels_of(split.validation)
    model = make_estimator(cge.PaperCGE, {**settings, "weighting": networks}).fit(data.graph, y, validation)
    paths = SampledPaths(data.graph, 3, seed=0)
    path_lists = [row[:length].tolist() for row, length in zip(paths.nodes, paths.length, strict=True)]
    expected = model.path_weights(path_lists)
    np.testing.assert_allclose(paths.weights(networks.trained, model.embedding_), expected, rtol=1e-5)
    assert np.abs(paths.weights(networks.untrained, model.embedding_) - expected).max() > 1e-3
    named = make_estimator(cge.PaperCGE, {**settings, "weighting": "lstm"}).fit(data.graph, y, validation)
    np.testing.assert_array_equal(named.path_weights(path_lists), expected)  # the same training as by name


def test_sampled_paths_are_those_of_the_first_walk() -> None:
    data = small()
    paths = SampledPaths(data.graph, 3, seed=4)
    walks = Walker(data.graph, 10, 5, seed=4, shuffle=True)  # as in training
    trained = {tuple(path) for path in subpaths(walks.sample(0, walks.num_walks), 3).nodes.tolist()}
    assert {tuple(path) for path in paths.nodes.tolist()} <= trained
    assert paths.counts.sum() == data.graph.num_nodes * (10 + 9 + 8)
    assert (paths.has_edges == (paths.length >= 2)).all()


@pytest.mark.filterwarnings("ignore::cge.errors.CgeWarning")
@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("name", NAMES)
def test_a_cell_of_each(name: str, outer: str, small_graph: Dataset) -> None:
    row = run(Cell("vispub" if name == "classes" else "cora", f"{name}, {outer}", 1))
    json.dumps(row)
    assert 0 <= row["test"] <= 1
    assert row["window"] == ANALYSES[name][1]
    assert row["labels"]["outer"] == (0 if outer == "paper" else row["labels"]["train"])
    sizes = range(9, 10 - row["window"], -1)  # paths of two nodes and more in a walk of ten
    assert row["sampled"] == 90 * sum(sizes)
    trained, untrained = row["trained"], row["untrained"]
    assert trained != untrained
    if name == "distribution":
        assert sum(trained["shares"]) == pytest.approx(1, abs=1e-4)
        assert trained["quantiles"]["0.05"] <= trained["quantiles"]["0.95"]
    elif name == "relevance":
        assert row["labels"]["train"] == 12
        assert trained["paths"]["with_label"] + trained["paths"]["without_label"] == row["sampled"]
        assert trained["paths"] == untrained["paths"]
    elif name == "classes":
        assert np.array(trained["matrix"]).shape == (3, 3)
        assert row["venues"] == ["a", "b", "c"]
        assert row["sizes"] == [30, 30, 30]
        assert row["labels"]["train"] == 45  # per class, half the size of the smallest
        assert len(trained["mean"]) == len(row["best_epoch"]) == 3
    else:
        window = row["window"]
        assert trained["length"]["values"] == list(range(2, window + 1))
        assert trained["length with single nodes"]["values"] == list(range(1, window + 1))
        assert sum(trained["diversity"]["paths"]) == row["sampled"]
        assert (trained["length"]["r"] is None) == (window == 3)  # two lengths have no correlation
        assert trained["length with single nodes"]["r"] is not None


def test_cells_depend_on_the_seed(small_graph: Dataset) -> None:
    first, again, other = (run(Cell("cora", "relevance, unrolled", seed)) for seed in (3, 3, 4))
    assert first["trained"] == again["trained"]
    assert first["trained"] != other["trained"]


# ---------------------------------------------------------------------- tables, by hand


COMMON: dict[str, Any] = {
    "test": 0.7,
    "n_test": 1000,
    "labels": {"train": 140, "outer": 140, "validation": 500},
    "best_epoch": 2,
    "weight_means": [0.5, 0.5],
    "collapsed": False,
    "constant": False,
    "seconds": 3.0,
    "sampled": 100,
    "window": 3,
}


def weights_around(mean: float) -> dict[str, Any]:
    shares = [0.0] * 1000
    shares[int(mean * 1000)] = shares[int(mean * 1000) + 40] = 0.5
    quantiles = {str(share): mean for share in (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)}
    return {"mean": mean, "sd": 0.1, "effective": 0.9, "quantiles": quantiles, "shares": shares}


def relevance(gain: float, control: float | None = 0.0) -> dict[str, Any]:
    paths = dict.fromkeys(("with_label", "without_label", "seen", "masked", "neither"), 10)
    masked = None if control is None else 0.5
    means = {"with_label": 0.5 + gain, "without_label": 0.5, "seen": 0.5 + (control or 0), "masked": masked}
    return {"mean": 0.5, "neither": 0.5, "paths": paths} | means


def trend(slope: float, values: tuple[int, ...], r: float | None) -> dict[str, Any]:
    means = [0.5 + slope * (value - 2) for value in values]
    correlations = {"r": r, "r_paths": None if r is None else r / 2, "r_within": 0.1}
    return {"values": list(values), "means": means, "paths": [9] * len(values)} | correlations


def trends(slope: float, r: float | None, window: int) -> dict[str, Any]:
    lengths, all_lengths = tuple(range(2, window + 1)), tuple(range(1, window + 1))
    summary: dict[str, Any] = {name: trend(slope, lengths, r) for name in ("length", "diversity")}
    summary |= {f"{name} with single nodes": trend(slope, all_lengths, -0.3) for name in ("length", "diversity")}
    return summary | {"mean": 0.5}


def results() -> dict[Cell, dict[str, Any]]:
    rows: dict[Cell, dict[str, Any]] = {}

    def add(graph: str, method: str, seed: int, trained: Any, untrained: Any, **other: Any) -> None:
        rows[Cell(graph, method, seed)] = COMMON | {"trained": trained, "untrained": untrained} | other

    for seed in range(3):
        for outer in OUTER:
            failed = {"collapsed" if outer == "paper" else "constant": seed > 0}
            mean = 0.02 if outer == "paper" else 0.4 + 0.1 * seed
            add("citeseer", f"distribution, {outer}", seed, weights_around(mean), weights_around(0.5), **failed)
        gain = (0.01, 0.02, 0.03)[seed]
        add("cora", "relevance, unrolled", seed, relevance(gain), relevance(0.01))
        matrix = [[0.6, 0.4 + 0.02 * seed], [0.5, 0.5]]
        trained = {"mean": [0.5, 0.25], "matrix": matrix}
        untrained = {"mean": [0.5, 0.5], "matrix": [[0.5, 0.5], [0.5, 0.5]]}
        add("vispub", "classes, unrolled", seed, trained, untrained, venues=["Vis", "VAST"], sizes=[1273, 310])
        r = (-0.9, -0.8, -1.0)[seed]
        add("cora", "length, unrolled", seed, trends(-0.01, r, 10), trends(0.01, -0.5, 10), window=10)
        add("cora", "diversity, unrolled", seed, trends(0.01, None, 3), trends(0.01, None, 3))
    return rows


def test_relevance_by_hand() -> None:
    summary = tables_of(results())["analyses"]["relevance"]["cora"]["unrolled"]
    assert summary["groups"]["with_label"]["mean"] == pytest.approx(0.52)
    half = 4.302653 * 0.02 / np.sqrt(3)
    gain = summary["gain"]  # relative: 0.02, 0.04, 0.06
    assert (gain["mean"], gain["low"], gain["high"]) == pytest.approx((0.04, 0.04 - half, 0.04 + half))
    assert gain["p"] == pytest.approx(1 - np.sqrt(12 / (12 + 2)), rel=1e-6)  # t = 2 √3 with two degrees of freedom
    assert gain["untrained"]["mean"] == pytest.approx(0.02)
    assert gain["change"]["gain"] == pytest.approx(0.02)
    assert gain["change"]["p"] == pytest.approx(1 - np.sqrt(3 / (3 + 2)), rel=1e-6)  # t = √3
    assert summary["control"]["mean"] == 0.0
    assert summary["control"]["p"] is None
    assert summary["seeds"] == [0, 1, 2]


def test_a_group_without_paths_has_no_value() -> None:
    rows = {Cell("cora", "relevance, paper", seed): COMMON for seed in (0, 1)}
    for (cell, row), control in zip(list(rows.items()), (None, 0.1), strict=True):
        rows[cell] = row | {"trained": relevance(0.1, control), "untrained": relevance(0.1)}
    summary = tables_of(rows)["analyses"]["relevance"]["cora"]["paper"]
    assert summary["control"]["per_seed"] == [None, pytest.approx(0.2)]
    assert summary["control"]["runs"] == summary["groups"]["masked"]["runs"] == 1
    assert summary["control"]["change"]["runs"] == 1


def test_class_matrix_by_hand() -> None:
    summary = tables_of(results())["analyses"]["classes"]["vispub"]["unrolled"]
    relative = [[interval["mean"] for interval in row] for row in summary["relative"]]
    assert relative == [pytest.approx([1.2, 0.84]), pytest.approx([2.0, 2.0])]
    assert summary["own"]["per_seed"] == pytest.approx([1.6 - 1.4, 1.6 - 1.42, 1.6 - 1.44])
    assert summary["own"]["untrained"]["mean"] == 0.0
    assert summary["own_strongest"]["mean"] == 0.5  # a tie counts for the first venue
    assert summary["weight"]["mean"] == pytest.approx(0.375)


def test_trends_by_hand() -> None:
    tables = tables_of(results())["analyses"]
    length = tables["length"]["cora"]["unrolled"]["length"]
    assert length["r"]["mean"] == pytest.approx(-0.9)
    assert length["r"]["low"] == -1  # clipped
    assert length["r"]["high"] == pytest.approx(-0.9 + 4.302653 * 0.1 / np.sqrt(3))
    assert length["r"]["per_seed"] == [-0.9, -0.8, -1.0]
    assert length["r"]["change"]["gain"] == pytest.approx(-0.4)
    assert length["r_single"]["mean"] == pytest.approx(-0.3)
    assert length["r_paths"]["mean"] == pytest.approx(-0.45)
    assert [interval["mean"] for interval in length["curve"].values()] == pytest.approx(
        [1.04 - 0.02 * k for k in range(1, 11)]
    )
    assert list(length["curve"]) == [str(k) for k in range(1, 11)]
    assert length["untrained"]["10"]["mean"] == pytest.approx(1.16)
    assert tables["diversity"]["cora"]["unrolled"]["diversity"]["r"] is None
    assert tables["length"]["cora"]["unrolled"]["paper"] == -0.97
    assert tables["diversity"]["cora"]["unrolled"]["paper"] == 0.92


def test_collapsed_and_constant_weights_are_counted() -> None:
    rules = tables_of(results())["analyses"]["distribution"]["citeseer"]
    assert (rules["paper"]["collapsed"], rules["paper"]["constant"]) == (2, 0)
    assert (rules["unrolled"]["collapsed"], rules["unrolled"]["constant"]) == (0, 2)
    assert rules["unrolled"]["mean"]["mean"] == pytest.approx(0.5)
    assert sum(rules["unrolled"]["shares"]) == pytest.approx(1)


# ---------------------------------------------------------------------- text and plots


def store(folder: Path, rows: dict[Cell, dict[str, Any]]) -> None:
    (folder / "figures").mkdir(parents=True)
    for cell, row in rows.items():
        line = json.dumps({"graph": cell.graph, "method": cell.method, "seed": cell.seed} | row)
        with (folder / "figures" / f"{cell.graph}.jsonl").open("a") as file:
            file.write(line + "\n")


def test_the_report_contains_the_tables(tmp_path: Path) -> None:
    store(tmp_path, results())
    tables = write_report(tmp_path)
    assert tables["cells"] == 18
    assert json.loads((tmp_path / "figures.json").read_text()) == tables
    page = (tmp_path / "figures.md").read_text()
    lines = page.splitlines()
    headings = [line for line in lines if line.startswith("## ")]
    assert headings == [f"## {TITLES[name]}" for name in NAMES]
    assert (
        "| cora | unrolled | 10 | −0.90 [−1.00, −0.65] (3) | 0.004 | −0.50 [−0.50, −0.50] (3) | 0.020 "
        "| −0.90, −0.80, −1.00 | −0.30 [−0.30, −0.30] (3) | −0.45 [−0.57, −0.33] (3) | −0.97 "
        "| 0.700 [0.700, 0.700] (3) | 0 / 0 / 3 |"
    ) in lines
    assert "| +0.02, +0.04, +0.06 | 2, 2, 2 | 0.700" in page
    assert "| cora | unrolled | 0.52 [0.495, 0.545] (3) | 0.5 [0.5, 0.5] (3) | +0.040 [−0.010, +0.090] (3) |" in page
    assert "| Vis (1,273) | 1.200 [1.200, 1.200] (3) | 0.840 [0.741, 0.939] (3) |" in lines
    assert "### vispub, unrolled" in lines
    assert page.count("| 0 / 2 / 3 |") == page.count("| 2 / 0 / 3 |") == 1
    windows = [line for line in lines[lines.index(headings[-1]) :] if line.startswith("| cora | unrolled |")]
    assert [line.split(" | ")[2] for line in windows] == ["3", "10"]  # diversity in paths of up to ten nodes, too
    for name in NAMES:
        assert f"(figures/{name}.svg)" in page
        text = (tmp_path / "figures" / f"{name}.svg").read_text()
        assert text.startswith("<?xml")
        assert TITLES[name].partition(":")[0] in text


def test_plots_are_reproducible(tmp_path: Path) -> None:
    import matplotlib as mpl

    for folder in ("first", "second"):
        store(tmp_path / folder, results())
    write_report(tmp_path / "first")
    with mpl.rc_context({"font.size": 30, "axes.grid": True}):  # settings of a user
        write_report(tmp_path / "second")
    for name in NAMES:
        first, second = ((tmp_path / folder / "figures" / f"{name}.svg").read_bytes() for folder in ("first", "second"))
        assert first == second, name


def test_a_single_seed_and_a_single_rule_are_drawn(tmp_path: Path) -> None:
    first = {cell: row for cell, row in results().items() if cell.seed == 0}
    first[Cell("pubmed", "length, paper", 0)] = first[Cell("cora", "length, unrolled", 0)]  # an empty panel
    store(tmp_path, first)
    write_report(tmp_path)
    page = (tmp_path / "figures.md").read_text()
    assert "| cora | unrolled | 10 | −0.90 (1) |  | −0.50 (1) |  |" in page
    assert "pubmed, paper" in (tmp_path / "figures" / "length.svg").read_text()


def test_the_command_shows_stored_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store(tmp_path, results())
    assert command(["reproduce", "figures", "--show", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("18 cells in ")
    assert command(["reproduce", "figures", "--show", "--out", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["analyses"]["length"]["cora"]["unrolled"]["paper"] == -0.97
    assert command(["reproduce", "figures", "--show", "--out", str(tmp_path / "new")]) == 0
    assert capsys.readouterr().out.startswith("0 cells in ")
    assert command(["reproduce", "figures", "--only", "width", "--out", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.startswith("cge: there is no analysis 'width'; there are distribution")
    assert not (tmp_path / "none").exists()
