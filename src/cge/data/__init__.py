"""Graphs from files of the common formats, data sets of the literature, and splits of their labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cge.lazy import lazy_names

if TYPE_CHECKING:
    from cge.data.dataset import Dataset
    from cge.data.dataset_folder import load_folder
    from cge.data.files.formats import register_format
    from cge.data.files.graph_files import read_features, read_graph
    from cge.data.files.labels import read_labels
    from cge.data.sets.aminer import read_aminer
    from cge.data.sets.catalog import DatasetInfo, catalog
    from cge.data.sets.load import load_dataset
    from cge.data.sets.planetoid import load_nell_derived, load_planetoid
    from cge.data.splits import Split, folds, mask_labels, per_class, stratified
    from cge.data.stored.folder import StoredGraph, open_graph
    from cge.data.stored.ingest import ingest

__all__ = [
    "Dataset",
    "DatasetInfo",
    "Split",
    "StoredGraph",
    "catalog",
    "folds",
    "ingest",
    "load_dataset",
    "load_folder",
    "load_nell_derived",
    "load_planetoid",
    "mask_labels",
    "open_graph",
    "per_class",
    "read_aminer",
    "read_features",
    "read_graph",
    "read_labels",
    "register_format",
    "stratified",
]

_MODULES = {
    "cge.data.dataset": "Dataset",
    "cge.data.dataset_folder": "load_folder",
    "cge.data.files.formats": "register_format",
    "cge.data.files.graph_files": "read_features read_graph",
    "cge.data.files.labels": "read_labels",
    "cge.data.sets.aminer": "read_aminer",
    "cge.data.sets.catalog": "DatasetInfo catalog",
    "cge.data.sets.load": "load_dataset",
    "cge.data.sets.planetoid": "load_nell_derived load_planetoid",
    "cge.data.splits": "Split folds mask_labels per_class stratified",
    "cge.data.stored.folder": "StoredGraph open_graph",
    "cge.data.stored.ingest": "ingest",
}
__getattr__ = lazy_names(__name__, _MODULES)
