"""The catalog and where files come from: the named folder, the cache, a checked download, or a clear error."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, replace
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import numpy as np
import pytest

from cge.cli.main import run
from cge.data.sets import catalog as dataset_catalog
from cge.data.sets import load
from cge.data.sets.catalog import DatasetInfo, catalog, dataset_info
from cge.data.sets.fetch import DataFile, cache_dir, fetch_files, location_of
from cge.data.sets.load import load_dataset
from cge.errors import FileFormatError, InputError, MissingDataError

NAMES = [
    *("cora", "citeseer", "pubmed", "nell-0.1", "nell-0.01", "nell-0.001", "vispub", "blogcatalog", "debian", "npm"),
    *("actor", "chameleon", "squirrel", "acm", "imdb", "yelp", "aifb"),
]
BY_HAND = {"nell-0.1", "nell-0.01", "nell-0.001", "vispub", "debian", "npm", "acm", "imdb", "yelp", "aifb"}


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No data folder, an empty cache."""
    monkeypatch.delenv("CGE_DATA_DIR", raising=False)
    monkeypatch.setenv("CGE_CACHE_DIR", str(tmp_path / "cache"))


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    """A folder, and the address under which a server on this machine shows it."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    folder = tmp_path / "home"
    folder.mkdir()
    server = HTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def _tiny_npz(path: Path) -> str:
    roles = np.array([["train", "train", "validation", "test"]])
    np.savez(
        path,
        node_features=np.eye(4, dtype=np.float32),
        node_labels=np.array([0, 1, 0, 1]),
        edges=np.array([[0, 2], [1, 3]]),
        train_masks=roles == "train",
        val_masks=roles == "validation",
        test_masks=roles == "test",
    )
    return hashlib.sha256(path.read_bytes()).hexdigest()


# ---------------------------------------------------------------------- the catalog


def test_the_catalog_names_every_data_set_and_is_frozen() -> None:
    entries = catalog()
    assert [info.name for info in entries] == NAMES
    assert [info.name for info in entries if info.location != "not downloaded"] == ["cora"]
    with pytest.raises(FrozenInstanceError):
        entries[0].name = "x"  # type: ignore[misc]
    for info in entries:
        assert info.title
        assert info.source
        assert all(len(file.sha256) == 64 for file in info.files)
        assert all(file.url is None or file.url.startswith("https://github.com/") for file in info.files)


def test_what_cannot_be_downloaded_has_no_address() -> None:
    without = {info.name for info in catalog() if any(file.url is None for file in info.files)}
    assert without == BY_HAND
    assert (
        dataset_info("citeseer").files[0].url == "https://github.com/kimiyoung/planetoid/raw/master/data/ind.citeseer.x"
    )


def test_the_location_is_updated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def touch(root: Path) -> None:
        (root / "blogcatalog").mkdir(parents=True)
        (root / "blogcatalog" / "blogcatalog.mat").touch()

    assert dataset_info("blogcatalog").location == "not downloaded"
    touch(cache_dir())
    assert dataset_info("blogcatalog").location == "cache"
    touch(tmp_path / "data")
    monkeypatch.setenv("CGE_DATA_DIR", str(tmp_path / "data"))
    assert dataset_info("blogcatalog").location == "CGE_DATA_DIR"
    assert dataset_info("actor").location == "not downloaded"
    assert dataset_info("cora").location == "bundled"


def test_the_default_cache_folder_is_that_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CGE_CACHE_DIR")
    assert cache_dir().name == "cge"


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(InputError) as error:
        load_dataset("Cite-Seer")
    assert str(error.value) == (
        f"there is no data set 'Cite-Seer'; did you mean 'citeseer'? choose one of {', '.join(NAMES)}"
    )
    with pytest.raises(InputError, match=r"^the edges of 'cora' have no directions; leave out directed=True$"):
        load_dataset("cora", directed=True)
    for value in (True, False):
        with pytest.raises(InputError, match=rf"^the edges of 'npm' have no types; leave out edge_types={value}$"):
            load_dataset("NPM", edge_types=value)


def test_names_may_be_in_any_case() -> None:
    assert load_dataset("Cora").name == "cora"
    assert dataset_info("BlogCatalog").name == "blogcatalog"


def test_every_data_set_has_a_way_of_access() -> None:
    access = {info.name: info.access for info in catalog()}
    assert access["cora"] == "bundled"
    assert {name for name, access in access.items() if access == "manual"} == BY_HAND
    assert {info.name for info in catalog() if info.downloadable} == set(NAMES) - BY_HAND - {"cora"}
    assert all(bool(info.contents) == (info.access == "manual") for info in catalog())


# ---------------------------------------------------------------------- what is not here


def test_the_error_names_all_three_locations(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError) as error:
        load_dataset("actor", download=False)
    assert str(error.value) == (
        "the data set 'actor' is not on this machine: put its files (heterophilous/actor.npz) into the folder named "
        f"by CGE_DATA_DIR (which is not set) or into the cache {str(tmp_path / 'cache')!r}, or have it downloaded "
        "(which download=False forbids, from "
        "https://github.com/yandex-research/heterophilous-graphs/raw/main/data/actor.npz)"
    )


def test_the_error_lists_the_expected_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, problem in ((tmp_path / "none", "which is not a folder"), (tmp_path, "where they are missing")):
        monkeypatch.setenv("CGE_DATA_DIR", str(folder))
        with pytest.raises(MissingDataError) as error:
            load_dataset("citeseer", download=False)
        assert str(error.value).startswith(
            "the data set 'citeseer' is not on this machine: put its files (planetoid/ind.citeseer.x, "
            "planetoid/ind.citeseer.y, planetoid/ind.citeseer.tx and 5 more) into the folder named by CGE_DATA_DIR "
            f"(now {str(folder)!r}, {problem}) or into the cache {str(tmp_path / 'cache')!r}, or have it downloaded ("
        )


def test_the_error_names_only_missing_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CGE_DATA_DIR", str(tmp_path))
    (tmp_path / "vispub").mkdir()
    (tmp_path / "vispub" / "nodes.tsv").touch()
    with pytest.raises(MissingDataError, match=r"citations \(vispub/edges\.tsv\) as described in docs"):
        load_dataset("vispub")


def test_a_manual_data_set_has_no_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CGE_DATA_DIR", str(tmp_path))
    with pytest.raises(MissingDataError) as error:
        load_dataset("debian")
    assert str(error.value) == (
        "the data set 'debian' is not on this machine and cannot be downloaded: get tables of packages and "
        "dependencies (debian_pkgs/debian12_packages.nodes.tsv.gz, debian_pkgs/debian12_packages.edges.tsv.gz) as "
        "described in "
        "docs/datasets.md under 'debian', and put them into the folder named by CGE_DATA_DIR "
        f"(now {str(tmp_path)!r}, where they are missing) or into the cache {str(tmp_path / 'cache')!r}"
    )
    with pytest.raises(MissingDataError, match=r"get the files of Planetoid \(nell/ind.nell.0.1.x, .* and 4 more\)"):
        load_dataset("nell-0.1")
    text = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text()
    for name in BY_HAND:
        with pytest.raises(MissingDataError) as error:
            load_dataset(name)
        heading = name.partition("-")[0]
        assert f"as described in docs/datasets.md under {heading!r}" in str(error.value)
        assert f"\n- **{heading}**: " in text.split("## Manual data sets")[1]


# ---------------------------------------------------------------------- downloads


def test_a_download_that_matches_is_kept_and_not_repeated(home: tuple[Path, str]) -> None:
    folder, address = home
    (folder / "a.txt").write_text("content")
    digest = hashlib.sha256(b"content").hexdigest()
    file = DataFile("some/a.txt", digest, f"{address}/a.txt")
    root = fetch_files("some", [file])
    assert (root / "some" / "a.txt").read_text() == "content"
    assert root == cache_dir()
    assert location_of([file]) == "cache"
    (folder / "a.txt").unlink()
    assert fetch_files("some", [file]) == root


def test_a_download_that_does_not_match_is_refused_and_leaves_nothing(home: tuple[Path, str]) -> None:
    folder, address = home
    (folder / "a.txt").write_text("tampered")
    file = DataFile("some/a.txt", "0" * 64, f"{address}/a.txt")
    with pytest.raises(MissingDataError) as error:
        fetch_files("some", [file])
    assert str(error.value).endswith(
        f"or have it downloaded (which failed for {address}/a.txt: "
        f"the SHA256 of the download is not {'0' * 64}, and it was deleted)"
    )
    assert [path for path in cache_dir().rglob("*") if path.is_file()] == []


def test_an_incomplete_data_set_is_missing(home: tuple[Path, str]) -> None:
    folder, address = home
    (folder / "a.txt").write_text("content")
    good = DataFile("some/a.txt", hashlib.sha256(b"content").hexdigest(), f"{address}/a.txt")
    gone = DataFile("some/b.txt", "0" * 64, f"{address}/b.txt")
    with pytest.raises(MissingDataError, match=r"\(some/b\.txt\).*failed for .*/b\.txt: 404 Client Error"):
        fetch_files("some", [good, gone])
    assert location_of([good]) == "cache"
    assert location_of([good, gone]) == "not downloaded"


def test_a_failed_connection_raises_our_error() -> None:
    file = DataFile("some/a.txt", "0" * 64, "http://127.0.0.1:1/a.txt")
    with pytest.raises(MissingDataError, match=r"failed for http://127\.0\.0\.1:1/a\.txt: ConnectionError"):
        fetch_files("some", [file])


def test_a_data_set_is_downloaded_and_loaded(home: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, address = home
    digest = _tiny_npz(folder / "actor.npz")

    def elsewhere(name: str) -> DatasetInfo:
        return replace(
            dataset_catalog.dataset_info(name),
            files=(DataFile("heterophilous/actor.npz", digest, f"{address}/actor.npz"),),
        )

    monkeypatch.setattr(load, "dataset_info", elsewhere)
    data = load_dataset("actor")
    assert data.graph.num_edges == 2
    assert len(data.splits) == 1
    assert load_dataset("actor", download=False).graph.num_edges == 2


def test_a_damaged_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CGE_DATA_DIR", str(tmp_path))
    for info in catalog():
        for file in info.files:
            (tmp_path / file.path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file.path).write_bytes(b"\x1f\x8bdamaged")
    for name in NAMES[1:]:
        with pytest.raises(FileFormatError, match=f"{tmp_path}.*: expected the SHA256 .*, or pass trust=True"):
            load_dataset(name)
        with pytest.raises(FileFormatError, match=str(tmp_path)) as error:
            load_dataset(name, trust=True)
        assert "SHA256" not in str(error.value)


@pytest.mark.parametrize("place", ["CGE_DATA_DIR", "cache"])
def test_files_are_verified_in_every_location(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    folder = tmp_path / "data" if place == "CGE_DATA_DIR" else cache_dir()
    if place == "CGE_DATA_DIR":
        monkeypatch.setenv("CGE_DATA_DIR", str(folder))
    path = folder / "heterophilous" / "actor.npz"
    path.parent.mkdir(parents=True)
    digest = _tiny_npz(path)
    with pytest.raises(FileFormatError) as error:
        load_dataset("actor")
    expected = dataset_info("actor").files[0].sha256
    assert str(error.value) == (
        f"{path}: expected the SHA256 {expected}, found {digest}; fetch the file again, or pass trust=True if you "
        "trust its source"
    )
    assert load_dataset("actor", trust=True).graph.num_edges == 2
    assert run(["evaluate", "actor", "--seeds", "1", "--method", "label-propagation"]) == 2
    assert "--trust-data" in capsys.readouterr().err
    assert run(["evaluate", "actor", "--seeds", "1", "--method", "label-propagation", "--trust-data", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["dataset"] == "actor"

    def actor(name: str) -> DatasetInfo:
        return replace(dataset_catalog.dataset_info(name), files=(DataFile("heterophilous/actor.npz", digest),))

    monkeypatch.setattr(load, "dataset_info", actor)
    assert load_dataset("actor").graph.num_edges == 2


# ---------------------------------------------------------------------- the list, as printed


def test_the_list_has_access_and_locations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["datasets"]) == 0
    printed = capsys.readouterr()
    lines = {line.split()[0]: line for line in printed.out.splitlines()[: len(NAMES) + 1]}
    assert "not downloaded  download" in lines["actor"]
    assert "not downloaded  manual" in lines["npm"]
    assert "300,248" in lines["debian"]
    assert "CGE_DATA_DIR  not set" in printed.out
    assert str(tmp_path / "cache") in printed.out.replace("\n", "")
    assert printed.err == ""


def test_the_list_as_json_is_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["datasets", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["data_dir"], printed["cache_dir"]) == (None, str(tmp_path / "cache"))
    sizes = ["nodes", "edges", "classes", "features"]
    for entry in printed["datasets"]:
        assert list(entry) == ["name", "title", *sizes, "source", "license", "location", "downloadable"]
    assert {entry["name"] for entry in printed["datasets"] if entry["downloadable"]} == set(NAMES) - BY_HAND - {"cora"}


def test_the_list_warns_of_a_wrong_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CGE_DATA_DIR", str(tmp_path / "none"))
    assert run(["datasets"]) == 0
    assert capsys.readouterr().err == (
        f"cge: CGE_DATA_DIR is {str(tmp_path / 'none')!r}, which is not a folder; "
        "set it to the one with planetoid/ and so on\n"
    )
    monkeypatch.setenv("CGE_DATA_DIR", str(tmp_path))
    assert run(["datasets", "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.err == (
        f"cge: CGE_DATA_DIR is {str(tmp_path)!r}, which contains none of the data sets; "
        "files are expected at planetoid/ind.citeseer.x and so on\n"
    )
    assert json.loads(printed.out)["data_dir"] == str(tmp_path)
    (tmp_path / "blogcatalog").mkdir()
    (tmp_path / "blogcatalog" / "blogcatalog.mat").touch()
    assert run(["datasets"]) == 0
    assert capsys.readouterr().err == ""
