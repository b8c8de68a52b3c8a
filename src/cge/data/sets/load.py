"""Load a data set by its name."""

from __future__ import annotations

from cge.data.dataset import Dataset
from cge.data.sets.archives import load_blogcatalog, load_cora, load_heterophilous
from cge.data.sets.catalog import dataset_info
from cge.data.sets.fetch import fetch_files, location_of
from cge.data.sets.planetoid import load_nell, load_nell_derived, load_planetoid
from cge.data.sets.tabular import load_debian, load_npm, load_vispub
from cge.errors import InputError


def load_dataset(
    name: str, *, directed: bool = False, edge_types: bool | None = None, download: bool = True, trust: bool = False
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
    files = info.raw_files if info.raw_files and location_of(info.files) == "missing" else info.files
    root = fetch_files(info.name, files, contents=info.contents, download=download, trust=trust)
    first = root / files[0].path
    folder = first.parent
    match info.name:
        case "citeseer" | "pubmed":
            return load_planetoid(folder, info.name, trust=trust)
        case "nell-0.1" | "nell-0.01" | "nell-0.001" if files == info.raw_files:
            return load_nell(folder, info.name, trust=trust)
        case "nell-0.1" | "nell-0.01" | "nell-0.001":
            return load_nell_derived(first, info.name)
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
