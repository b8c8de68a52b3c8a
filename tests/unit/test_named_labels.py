"""`Dataset.named_labels`: the labels of a part of the split by node id and class name."""

from __future__ import annotations

import numpy as np
import pytest

import cge
from cge.data.dataset import Dataset
from cge.data.splits import Split
from cge.errors import InputError

GRAPH = cge.Graph.from_edges([("d", "a"), ("a", "b"), ("b", "c")])
SPLIT = Split([1, 0], [2], [3])


def test_labels_are_class_names_by_node_id_in_the_order_of_the_nodes() -> None:
    data = Dataset("four", GRAPH, np.array([1, 0, -1, 1]), ("red", "blue"), SPLIT)
    ids = GRAPH.node_ids.tolist()
    assert list(data.named_labels("train").items()) == [(ids[0], "blue"), (ids[1], "red")]
    assert data.named_labels("validation") == {}  # its node has no label
    assert data.named_labels("test") == {ids[3]: "blue"}


def test_a_node_with_several_labels_has_a_list_of_class_names() -> None:
    labels = np.array([[1, 1], [0, 1], [1, 0], [0, 0]])
    data = Dataset("four", GRAPH, labels, ("red", "blue"), SPLIT)
    ids = GRAPH.node_ids.tolist()
    assert data.named_labels("train") == {ids[0]: ["red", "blue"], ids[1]: ["blue"]}
    assert data.named_labels("test") == {}  # a row of zeros is an unlabeled node


def test_unknown_parts_and_missing_splits_are_errors() -> None:
    data = Dataset("four", GRAPH, np.array([1, 0, -1, 1]), ("red", "blue"))
    with pytest.raises(InputError, match="part must be one of 'train', 'validation', 'test', found 'valid'"):
        data.named_labels("valid")
    with pytest.raises(InputError, match="four has no split"):
        data.named_labels("train")
