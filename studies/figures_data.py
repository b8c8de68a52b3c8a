"""Data sets of the paper's analyses; those with venues are restricted to some of them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.data import load_dataset, read_aminer
from cge.data.dataset import Dataset
from cge.data.sets.fetch import data_dir
from cge.errors import MissingDataError

__all__ = ["VENUES", "aminer_file", "aminer_files", "dataset", "restrict"]

Array = npt.NDArray[Any]

VENUES = ("vispub", "debian", "aminer")
_LARGEST = 6  # of Debian and vispub: as many classes as the paper has venues
# The paper's venues, as the files spell them.
_AMINER = {
    "Communications of ACM": ("communications of the acm", "communications of acm", "commun. acm"),
    "Computer": ("computer", "ieee computer"),
    "IEEE Transactions on Computer": ("ieee transactions on computers", "ieee trans. computers"),
    "Discrete Mathematics": ("discrete mathematics", "discrete math."),
    "Theoretical Computer Science": ("theoretical computer science", "theor. comput. sci."),
    "Computational and Applied Mathematics": (
        "computational and applied mathematics",
        "journal of computational and applied mathematics",
        "j. comput. appl. math.",
    ),
}


def aminer_files() -> list[Path]:
    """Return the files of AMiner's citation data on this machine."""
    folder = data_dir()
    return [] if folder is None else sorted((folder / "aminer").glob("*.txt*"))


def aminer_file() -> Path:
    """Return the first of them, or raise an error that explains how to get one."""
    files = aminer_files()
    if not files:
        raise MissingDataError(
            "AMiner's citation text is not on this machine; put it as aminer/citation.txt (or .txt.gz) into the folder "
            "named by CGE_DATA_DIR"
        )
    return files[0]


@cache
def dataset(name: str) -> Dataset:
    """Return a data set; one with venues is restricted to the nodes of some venues that have a neighbor among them."""
    if name not in VENUES:
        return load_dataset(name)
    if name == "aminer":
        return restrict(*_paper_venues(read_aminer(aminer_file())), _AMINER)
    data = load_dataset(name, edge_types=False) if name == "debian" else load_dataset(name)
    largest = np.argsort(-np.bincount(data.labels[data.labels >= 0]), kind="stable")[:_LARGEST]
    code = np.full(data.num_classes + 1, -1)
    code[largest] = np.arange(len(largest))
    return restrict(data, code[data.labels], [data.class_names[label] for label in largest])


def _paper_venues(data: Dataset) -> tuple[Dataset, Array]:
    """Return the data set with the paper's venue of each node, −1 for others."""
    code = {spelling: number for number, spellings in enumerate(_AMINER.values()) for spelling in spellings}
    codes = np.array([code.get(" ".join(name.casefold().split()), -1) for name in data.class_names] + [-1])
    return data, codes[data.labels]


def restrict(data: Dataset, labels: Array, names: Any) -> Dataset:
    """Return the part of a data set whose labels (n,) are not −1, without nodes that have no neighbor there."""
    labeled = np.flatnonzero(labels >= 0)
    part = data.graph.subgraph(labeled)
    connected = np.flatnonzero(part.degrees)
    return Dataset(data.name, part.subgraph(connected), labels[labeled][connected], tuple(names))
