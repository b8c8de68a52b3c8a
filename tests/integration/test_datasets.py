"""The real data sets: sizes, classes and splits as published."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import lzma
import runpy
import tarfile
import time
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from cge.data.dataset import Dataset
from cge.data.sets import load, planetoid
from cge.data.sets.catalog import catalog, dataset_info
from cge.data.sets.load import load_dataset
from cge.data.sets.planetoid import load_planetoid

SPLITS = {
    "cora": (140, 500, 1_000),
    "citeseer": (120, 500, 1_000),
    "pubmed": (60, 500, 1_000),
    "nell-0.1": (1_054, 500, 848),
    "nell-0.01": (161, 500, 987),
    "nell-0.001": (105, 500, 969),
    "actor": (3_648, 2_432, 1_520),
}
LABELED = {"cora": 2_708, "citeseer": 3_312, "pubmed": 19_717, "nell-0.1": 3_577, "npm": 0, "blogcatalog": 10_312}


@cache
def _load(name: str) -> Dataset:
    """Load a data set once for all tests; loading checks the SHA256 of its files."""
    return load_dataset(name, download=False)


@cache
def _load_raw_nell(folder: Path, name: str, *, trust: bool = False) -> Dataset:
    return load_planetoid(folder.resolve(), name, trust=trust)


def _distinct_pairs(data: Dataset) -> int:
    matrix = data.graph.to_scipy()
    return int((matrix + matrix.T).nnz) // 2


def _same_graph(first: Dataset, second: Dataset) -> None:
    assert np.array_equal(first.graph.indptr, second.graph.indptr)
    assert np.array_equal(first.graph.indices, second.graph.indices)
    assert first.graph.features.dtype == second.graph.features.dtype  # type: ignore[union-attr]
    assert (first.graph.features != second.graph.features).nnz == 0  # type: ignore[union-attr]


# ---------------------------------------------------------------------- what comes with the package


def test_cora_needs_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CGE_DATA_DIR", raising=False)
    data = load_dataset("cora", download=False)
    assert (data.graph.num_nodes, data.graph.num_edges, data.num_classes) == (2_708, 5_278, 7)
    assert data.split is not None
    assert data.split.sizes == (140, 500, 1_000)
    assert data.label_counts() == {
        "Theory": 351,
        "Reinforcement_Learning": 217,
        "Genetic_Algorithms": 418,
        "Neural_Networks": 818,
        "Probabilistic_Methods": 426,
        "Case_Based": 298,
        "Rule_Learning": 180,
    }
    assert np.bincount(data.labels[data.split.train]).tolist() == [20] * 7
    assert data.graph.features.nnz == 49_216  # type: ignore[union-attr]
    assert data.node_titles is not None
    assert len(set(data.node_titles)) == 2_708


def test_the_bundled_file_is_small_and_is_the_one_that_was_built() -> None:
    content = (files("cge.data.sets") / "bundled" / "cora.npz").read_bytes()
    assert len(content) < 200_000
    readme = (files("cge.data.sets") / "bundled" / "README.md").read_text()
    assert hashlib.sha256(content).hexdigest() in readme


def _build_script() -> ModuleType:
    path = Path(__file__).parents[2] / "scripts" / "build_cora.py"
    spec = importlib.util.spec_from_file_location("build_cora", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_same_arrays_make_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script, parts = _build_script(), {"a": np.arange(5), "names": np.array(["x", "y"])}
    script.write_npz(tmp_path / "one.npz", parts)
    with monkeypatch.context() as later:
        later.setattr(time, "time", lambda: 2e9)
        script.write_npz(tmp_path / "two.npz", parts)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    with np.load(tmp_path / "one.npz") as archive:
        assert archive["a"].tolist() == [0, 1, 2, 3, 4]
        assert archive["names"].tolist() == ["x", "y"]


def test_the_planetoid_order_is_recovered_from_the_bundled_arrays(data_dir: Path) -> None:
    """Shuffle the bundled graph, as `cora.content` is, and match it to the Planetoid files as the script does."""
    script, data = _build_script(), load_dataset("cora")
    standard = load_planetoid(data_dir / "planetoid", "cora")
    shuffled = np.random.default_rng(0).permutation(data.graph.num_nodes)
    place = np.argsort(shuffled)
    rows, columns = data.graph.to_scipy().nonzero()
    words = data.graph.features.toarray()[shuffled].astype(np.uint8)  # type: ignore[union-attr]
    classes = np.array(data.class_names)[data.labels[shuffled]]
    order, names = script.match(words, classes, place[np.column_stack([rows, columns])], standard)
    assert names == data.class_names
    assert np.count_nonzero(shuffled[order] == np.arange(len(order))) >= 2_678  # the others come in pairs


# ---------------------------------------------------------------------- what is in the data folder


def test_the_bundled_cora_equals_the_planetoid_files(data_dir: Path) -> None:
    bundled, files_ = load_dataset("cora"), load_planetoid(data_dir / "planetoid", "cora")
    _same_graph(bundled, files_)
    assert np.array_equal(bundled.labels, files_.labels)
    assert bundled.split == files_.split
    assert bundled.class_names == files_.class_names


@pytest.mark.parametrize("name", [info.name for info in catalog()])
def test_sizes_are_those_of_the_catalog(data_dir: Path, name: str) -> None:
    data, info = _load(name), dataset_info(name)
    assert info.location == ("bundled" if name == "cora" else "CGE_DATA_DIR")
    assert data.name == name
    assert data.graph.num_nodes == info.nodes
    assert data.graph.num_edges == info.edges
    assert _distinct_pairs(data) == {"debian": 295_301, "aifb": 23_150}.get(name, info.edges)
    assert data.num_classes == info.classes
    assert (0 if data.graph.features is None else data.graph.features.shape[1]) == info.features
    assert (data.split.sizes if name in SPLITS and data.split else None) == SPLITS.get(name)
    assert len(data.labeled) == LABELED.get(name, len(data.labeled))
    assert not data.graph.directed


def test_citeseer_keeps_nodes_without_features(data_dir: Path) -> None:
    data = _load("citeseer")
    unlabeled = np.flatnonzero(data.labels < 0)
    assert len(unlabeled) == 15
    assert np.diff(data.graph.features.indptr)[unlabeled].sum() == 0  # type: ignore[union-attr]
    assert data.graph.summary().isolated == 48
    assert data.label_counts() == {"AI": 249, "ML": 590, "IR": 668, "DB": 701, "Agents": 596, "HCI": 508}


def test_pubmed_classes_by_size(data_dir: Path) -> None:
    counts = _load("pubmed").label_counts()
    assert counts == {"Diabetes_Experimental": 4_103, "Diabetes_Type_1": 7_739, "Diabetes_Type_2": 7_875}


@pytest.mark.parametrize("share", ["0.1", "0.01", "0.001"])
def test_nell_plain_and_derived_agree(data_dir: Path, share: str) -> None:
    plain, derived = _load_raw_nell(data_dir / "nell", f"nell.{share}"), _load(f"nell-{share}")
    _same_graph(plain, derived)
    assert plain.class_names == derived.class_names
    is_labeled = plain.labels >= 0
    assert np.array_equal(plain.labels[is_labeled], derived.labels[is_labeled])
    assert plain.split is not None
    assert derived.split is not None
    assert np.array_equal(plain.split.train, derived.split.train)
    assert np.array_equal(plain.split.test, derived.split.test)
    assert len(plain.split.validation) == 0
    assert (derived.labels[derived.split.validation] >= 0).all()
    assert "derived" in derived.notes
    assert "no validation" in plain.notes
    entities = np.diff(derived.graph.features.indptr) > 0  # type: ignore[union-attr]
    assert np.count_nonzero(entities) == 9_891
    rows, columns = derived.graph.to_scipy().nonzero()
    assert not np.any(entities[rows] & entities[columns])  # no two that can be labeled are adjacent


@pytest.mark.parametrize("share", ["0.1", "0.01", "0.001"])
def test_nell_from_its_pickles_is_the_same(
    data_dir: Path, own_data_dir: Path, monkeypatch: pytest.MonkeyPatch, share: str
) -> None:
    with monkeypatch.context() as public:
        public.setenv("CGE_DATA_DIR", str(data_dir))
        derived = _load(f"nell-{share}")
    (own_data_dir / "nell").mkdir()
    for path in (data_dir / "nell").glob("ind.nell.*"):
        (own_data_dir / "nell" / path.name).symlink_to(path)
    # The same files, read once for all three splits.
    monkeypatch.setattr(
        planetoid, "load_planetoid", lambda _, name, trust: _load_raw_nell(data_dir / "nell", name, trust=trust)
    )
    assert dataset_info(f"nell-{share}").location == "CGE_DATA_DIR"
    data = load_dataset(f"nell-{share}")
    _same_graph(data, derived)
    assert np.array_equal(data.labels, derived.labels)
    assert data.split == derived.split
    assert (data.name, data.class_names, data.notes) == (derived.name, derived.class_names, derived.notes)


def test_vispub_venues_and_titles(data_dir: Path) -> None:
    data = _load("vispub")
    assert data.label_counts() == {"InfoVis": 582, "SciVis": 105, "VAST": 310, "Vis": 1_273}
    assert data.node_titles is not None
    assert data.node_titles[0] == "A comparative study between RadViz and Star Coordinates"
    assert data.graph.index_of("10.1109/TVCG.2015.2467324") == 0
    assert load_dataset("vispub", directed=True).graph.num_edges == 9_984


def test_blogcatalog_has_several_labels_per_node(data_dir: Path) -> None:
    data = _load("blogcatalog")
    assert data.multilabel
    assert data.labels.shape == (10_312, 39)
    assert data.labels.sum() == 14_476
    assert data.graph.weights is None


def test_debian_has_edge_types_and_directions(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = _load("debian")
    monkeypatch.setattr(load, "_tf_idf", lambda *_: None)  # features are the same and slow to compute
    assert set(data.graph.edge_type_names) == {"Depends", "Pre-Depends", "Recommends", "Suggests", "Enhances"}
    assert data.graph.num_edges == 300_248  # a pair with edges of two types counts twice
    assert load_dataset("debian", edge_types=False).graph.num_edges == 295_301
    assert load_dataset("debian", directed=True).graph.num_edges == 301_098
    assert data.label_counts()["libs"] == 6_703
    assert data.label_counts()["zope"] == 15
    assert list(data.class_names) == sorted(data.class_names)
    assert data.class_names[data.labels[data.graph.index_of("0ad")]] == "games"
    norms = np.sqrt(data.graph.features.power(2).sum(axis=1))  # type: ignore[union-attr]
    assert np.all((norms == 0) | np.isclose(norms, 1, atol=1e-5))


def test_npm_is_large(data_dir: Path) -> None:
    data = _load("npm")
    assert (data.graph.num_nodes, data.graph.num_edges) == (304_031, 2_330_240)
    assert "lodash" in data.graph.neighbors("async")
    assert load_dataset("npm", directed=True).graph.num_edges == 2_332_996


@pytest.mark.parametrize(("name", "train"), [("actor", 3_648), ("chameleon", 409), ("squirrel", 1_053)])
def test_heterophilous_graphs_have_ten_splits(data_dir: Path, name: str, train: int) -> None:
    data = _load(name)
    assert len(set(data.splits)) == 10
    assert data.split == data.splits[0]
    assert len(data.splits[0].train) == train
    assert all(sum(split.sizes) == data.graph.num_nodes for split in data.splits)


# ---------------------------------------------------------------------- the recipes in scripts/datasets


@pytest.fixture
def recipe_folder(own_data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the current one and the data folder."""
    monkeypatch.chdir(own_data_dir)
    return own_data_dir


def _run_recipe(name: str) -> None:
    """Run the script that converts a data set, in the current folder."""
    runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "datasets" / f"{name}.py"))


def test_the_recipe_for_vispub(recipe_folder: Path) -> None:
    with (recipe_folder / "IEEE VIS papers 1990-2015 - Main dataset.csv").open("w", encoding="utf-8") as out:
        out.write("Conference,Year,Paper Title,Paper DOI,Link,References\n")
        out.write("Vis,2004,Alone,10/a,http://a,\n")
        out.write('InfoVis,2015,"Two\tof, them",10/b,http://b,10/c;10/elsewhere;10/c;10/b\n')
        out.write("VAST,2010,Cited,10/c,http://c,\n")
    _run_recipe("vispub")
    data = load_dataset("vispub", trust=True)
    assert data.graph.node_ids.tolist() == ["10/b", "10/c"]
    assert data.node_titles is not None
    assert data.node_titles.tolist() == ["Two of, them", "Cited"]
    assert [data.class_names[label] for label in data.labels] == ["InfoVis", "VAST"]
    assert load_dataset("vispub", trust=True, directed=True).graph.neighbors("10/b") == ["10/c"]
    assert (recipe_folder / "vispub" / "edges.tsv").read_text() == "0\t1\n"


def test_the_recipe_for_debian(recipe_folder: Path) -> None:
    fillers = "".join(f"Package: x{n}\nSection: libs\nDescription: library number {n}\n\n" for n in range(5))
    index = (
        "Package: game\nSource: game-src (1.0)\nSection: games\nDescription: a game library\n"
        "Depends: libx (>= 2), x1 | x2, missing, libx (<< 3)\nRecommends: libx:any\nTag: a::b,\n c::d\n\n"
        "Package: libx\nSection: libs\nDescription: the library of x\nEnhances: game\n\n" + fillers
    )
    (recipe_folder / "Packages.xz").write_bytes(lzma.compress(index.encode()))
    _run_recipe("debian")
    data = load_dataset("debian", trust=True, directed=True)
    assert data.graph.node_ids.tolist() == ["game", "libx", "x0", "x1", "x2", "x3", "x4"]
    assert set(data.graph.neighbors("game")) == {"libx", "x1", "x2"}
    assert set(data.graph.edge_type_names) == {"Depends", "Recommends", "Enhances"}
    assert data.graph.num_edges == 5
    assert data.label_counts() == {"games": 1, "libs": 6}
    assert load_dataset("debian", trust=True, edge_types=False).graph.num_edges == 3


def test_the_recipe_for_npm(recipe_folder: Path) -> None:
    def archive(files: dict[str, bytes]) -> bytes:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as out:
            for name, content in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                out.addfile(member, io.BytesIO(content))
        return buffer.getvalue()

    run = archive({"dependents/a.json": b'["b", "@s/c"]', "dependents/@s/c.json": b'["b"]'})
    develop = archive({"devDependents/a.json": b'["b", "d"]'})
    both = archive({"package/dependents.tgz": run, "package/devDependents.tgz": develop})
    (recipe_folder / "dependent-packages-2.2.2.tgz").write_bytes(both)
    _run_recipe("npm")
    data = load_dataset("npm", trust=True, directed=True)
    assert data.graph.node_ids.tolist() == ["@s/c", "a", "b", "d"]
    assert data.graph.num_edges == 4
    assert set(data.graph.neighbors("b")) == {"a", "@s/c"}
    assert data.graph.neighbors("a") == []
