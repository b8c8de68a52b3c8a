"""Load a data set by its name."""

from __future__ import annotations

from cge.data.dataset import Dataset
from cge.data.sets.blogcatalog import load_blogcatalog
from cge.data.sets.catalog import DatasetInfo, dataset_info
from cge.data.sets.cora import load_cora
from cge.data.sets.fetch import DataFile, fetch_files, location_of
from cge.data.sets.heterophilous import load_heterophilous
from cge.data.sets.nell import load_nell
from cge.data.sets.packages import load_debian, load_npm
from cge.data.sets.planetoid import load_nell_derived, load_planetoid
from cge.data.sets.vispub import load_vispub
from cge.errors import InputError


def load_dataset(
    name: str,
    *,
    directed: bool = False,
    edge_types: bool | None = None,
    download: bool = True,
    trust: bool = False,
) -> Dataset:
    """Load a data set by name; `catalog()` lists them.

    Its files are taken from the folder named by the environment variable `CGE_DATA_DIR`, else from the user's cache,
    else downloaded there; CORA comes with the package. The SHA256 of each file must be the published one.

    Parameters
    ----------
    name : str
        "cora", "citeseer", "pubmed", "nell-0.1", "nell-0.01", "nell-0.001", "vispub", "blogcatalog", "debian", "npm",
        "actor", "chameleon" or "squirrel", in any case.
    directed : bool
        Keep edge directions, where the source has them (vispub, debian, npm).
    edge_types : bool, optional
        Whether edge types are kept apart, where the source has them (debian); they are by default.
    download : bool
        Whether the network may be used.
    trust : bool
        Read files whose SHA256 is not the published one, such as tables that you made yourself.

    Examples
    --------
    >>> load_dataset("cora").label_counts()["Theory"]
    351
    """
    info = dataset_info(name)
    if directed and not info.has_directions:
        raise InputError(f"the edges of {info.name!r} have no directions; leave out directed=True")
    if edge_types is not None and not info.has_edge_types:
        raise InputError(f"the edges of {info.name!r} have no types; leave out edge_types={edge_types!r}")
    if not info.files:
        return load_cora()
    files = _files_to_read(info)
    root = fetch_files(info.name, files, contents=info.contents, download=download, trust=trust)
    first = root / files[0].path
    folder = first.parent
    match info.name:
        case "citeseer" | "pubmed":
            return load_planetoid(folder, info.name, trust=trust)
        case "nell-0.1" | "nell-0.01" | "nell-0.001":
            if files == info.files:
                return load_nell_derived(first, info.name)
            return load_nell(folder, info.name, trust=trust)
        case "vispub":
            return load_vispub(folder, directed=directed)
        case "blogcatalog":
            return load_blogcatalog(first)
        case "debian":
            return load_debian(folder, directed=directed, edge_types=edge_types is not False)
        case "npm":
            return load_npm(folder, directed=directed)
        case _:
            return load_heterophilous(first, info.name)


def _files_to_read(info: DatasetInfo) -> tuple[DataFile, ...]:
    """Return the files of a data set, or the raw files of its source where the former are missing."""
    return info.raw_files if info.raw_files and location_of(info.files) == "missing" else info.files
