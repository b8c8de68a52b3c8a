"""Graphs from files of the common formats, data sets of the literature, and splits of their labels."""

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

__all__ = [
    "Dataset",
    "DatasetInfo",
    "Split",
    "catalog",
    "folds",
    "load_dataset",
    "load_folder",
    "load_nell_derived",
    "load_planetoid",
    "mask_labels",
    "per_class",
    "read_aminer",
    "read_features",
    "read_graph",
    "read_labels",
    "register_format",
    "stratified",
]
