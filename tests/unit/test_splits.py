"""Splits: disjoint, seeded, in proportion; errors for impossible ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cge.data.dataset import Dataset
from cge.data.splits import Split, folds, mask_labels, per_class, stratified
from cge.errors import InputError
from cge.graph import Graph

LABELS = np.repeat([0, 1, 2, -1], [50, 30, 20, 10])
MULTI = (np.arange(60)[:, None] % np.array([2, 3, 5]) == 0).astype(np.int64)  # node 1, 7, 11, … has no label

some_labels = st.lists(st.integers(-1, 4), min_size=1, max_size=80).map(np.array)


# ---------------------------------------------------------------------- Split


def test_a_split_is_sorted_read_only_and_compared_by_value() -> None:
    split = Split(np.array([3, 1]), np.array([], int), np.array([0]))
    assert split.train.tolist() == [1, 3]
    assert split.train.dtype == np.int64
    assert not split.train.flags.writeable
    assert split == Split([1, 3], [], [0])
    assert hash(split) == hash(Split([1, 3], [], [0]))
    assert split != Split([1], [3], [0])
    assert split != "split"
    assert repr(split) == "Split(train=2, validation=0, test=1)"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (([0, 1], [1], [2]), "train and validation must not share nodes, but both contain node 1"),
        (([0], [1], [1]), "validation and test must not share nodes, but both contain node 1"),
        (([0, 0], [1], [2]), "train must contain each node once, but node 0 occurs twice"),
        (([0], [-1], [2]), "validation must contain node indices of at least 0, found -1"),
        (([0], [1], [0.5]), "test must be a flat array of node indices, found shape (1,) of float64"),
        (
            ([0], np.empty(0, complex), []),
            "validation must be a flat array of node indices, found shape (0,) of complex128",
        ),
        (([[0]], [1], [2]), "train must be a flat array of node indices, found shape (1, 1) of int64"),
    ],
)
def test_a_split_refuses(parts: tuple[list[int], ...], message: str) -> None:
    with pytest.raises(InputError) as error:
        Split(*parts)  # type: ignore[arg-type]
    assert str(error.value) == message


# ---------------------------------------------------------------------- drawing


def test_per_class_draws_k_of_each_class() -> None:
    split = per_class(LABELS, 5, validation=10, test=20, seed=3)
    assert np.bincount(LABELS[split.train]).tolist() == [5, 5, 5]
    assert split.sizes == (15, 10, 20)
    assert (LABELS[np.concatenate([split.train, split.validation, split.test])] >= 0).all()
    assert per_class(LABELS, 5, 10, None).sizes == (15, 10, 75)


def test_rare_classes_are_among_validation_and_test_nodes_alike() -> None:
    labels = np.repeat([0, *range(1, 9)], [2000, *[30] * 8])  # after 20 of each train, 80 of 2,060 are of rare classes
    splits = [per_class(labels, 20, validation=200, test=None, seed=seed) for seed in range(20)]
    rare = [np.mean(labels[split.validation] > 0) for split in splits]
    assert np.mean(rare) == pytest.approx(80 / 2060, abs=4 * np.std(rare) / np.sqrt(20))
    assert max(rare) > 0


def test_per_class_gives_each_of_several_labels_its_k() -> None:
    split = per_class(MULTI, 4, validation=5, test=None)
    assert (MULTI[split.train].sum(axis=0) >= 4).all()
    assert len(split.train) <= 12
    assert sum(split.sizes) == np.count_nonzero(MULTI.any(axis=1))


def test_per_class_names_the_class_that_is_too_small() -> None:
    with pytest.raises(InputError, match=r"^class 2 has 20 labeled nodes, but k is 21$"):
        per_class(LABELS, 21)
    with pytest.raises(InputError, match=r"^class 2 \(blue\) has 20 labeled nodes, but k is 40$"):
        per_class(LABELS, 40, class_names=["red", "green", "blue"])
    with pytest.raises(InputError, match=r"^class 2 has 12 labeled nodes, but k is 13$"):
        per_class(MULTI, 13, 0, 0)
    with pytest.raises(InputError, match=r"need 1,500 nodes, but 85 labeled nodes remain after 5 per class"):
        per_class(LABELS, 5)


def test_stratified_keeps_proportions_exactly_where_they_divide() -> None:
    split = stratified(LABELS, 0.5, 0.3, 0.2)
    assert np.bincount(LABELS[split.train]).tolist() == [25, 15, 10]
    assert np.bincount(LABELS[split.validation]).tolist() == [15, 9, 6]
    assert np.bincount(LABELS[split.test]).tolist() == [10, 6, 4]
    assert stratified(LABELS, 0.1, 0.1, 0.1).sizes == (10, 10, 10)


def test_stratified_names_the_class_without_a_training_node() -> None:
    with pytest.raises(
        InputError, match=r"^train=0.02 selects 2 labeled nodes of 100, too few .* class \d would have none"
    ):
        stratified(LABELS, 0.02)
    with pytest.raises(InputError, match=r"must add up to at most 1, found 1\.1"):
        stratified(LABELS, 0.5, 0.3, 0.3)
    with pytest.raises(InputError, match=r"^train must be a fraction between 0 and 1, found 60$"):
        stratified(LABELS, 60)


@given(some_labels, st.floats(0.3, 1), st.integers(0, 5))
def test_stratified_has_every_class_in_proportion(labels: np.ndarray, train: float, seed: int) -> None:
    labeled_only = labels[labels >= 0]
    if round(train * len(labeled_only)) < len(np.unique(labeled_only)):
        with pytest.raises(InputError, match="would have none"):
            stratified(labels, train, seed=seed)
        return
    split = stratified(labels, train, seed=seed)
    assert sum(split.sizes) == np.count_nonzero(labels >= 0)
    for label in np.unique(labels[labels >= 0]):
        count, size = np.count_nonzero(labels[split.train] == label), np.count_nonzero(labels == label)
        assert count >= 1
        assert abs(count - train * size) < 2


@given(some_labels, st.integers(2, 6), st.integers(0, 5))
def test_folds_are_a_partition_with_each_class_spread_evenly(labels: np.ndarray, k: int, seed: int) -> None:
    train = np.flatnonzero(labels >= 0)
    if len(train) < k:
        with pytest.raises(InputError, match=f"cannot be split into {k} folds"):
            folds(train, labels, k, seed)
        return
    parts = folds(train, labels, k, seed)
    assert np.array_equal(np.sort(np.concatenate(parts)), train)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    for label in np.unique(labels[train]):
        counts = [np.count_nonzero(labels[part] == label) for part in parts]
        assert max(counts) - min(counts) <= 1


def test_folds_of_several_labels_and_their_errors() -> None:
    train = np.flatnonzero(MULTI.any(axis=1))
    assert sorted(np.concatenate(folds(train, MULTI, 5)).tolist()) == train.tolist()
    with pytest.raises(InputError, match=r"^every training node needs a label, but node 1 has none$"):
        folds([0, 1, 2], MULTI, 2)
    with pytest.raises(InputError, match=r"^train contains node 99, but there are 60 nodes$"):
        folds([0, 99], MULTI, 2)
    with pytest.raises(InputError, match=r"^k must be an integer of at least 2, found 1$"):
        folds([0, 2], MULTI, 1)


def test_masking_unlabels_a_fraction_and_changes_nothing_else() -> None:
    before = LABELS.copy()
    masked = mask_labels(LABELS, 0.3)
    assert np.array_equal(before, LABELS)
    assert np.count_nonzero(masked >= 0) == 70
    assert np.array_equal(masked[masked >= 0], LABELS[masked >= 0])
    several = mask_labels(MULTI, 0.5)
    assert np.count_nonzero(several.any(axis=1)) == np.count_nonzero(MULTI.any(axis=1)) / 2
    assert np.array_equal(mask_labels(LABELS, 0), LABELS)
    assert (mask_labels(LABELS, 1) == -1).all()


def test_one_seed_one_split() -> None:
    assert per_class(LABELS, 5, 10, 20, seed=1) == per_class(LABELS, 5, 10, 20, seed=1)
    assert per_class(LABELS, 5, 10, 20, seed=1) != per_class(LABELS, 5, 10, 20, seed=2)
    assert stratified(LABELS, 0.5, seed=1) != stratified(LABELS, 0.5, seed=2)
    assert not np.array_equal(mask_labels(LABELS, 0.5, 1), mask_labels(LABELS, 0.5, 2))
    state = np.random.get_state()[1]  # noqa: NPY002 - that the global state is left alone is what is tested
    folds(np.arange(100), LABELS, 5)
    assert np.array_equal(state, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, -2], "labels must be -1 for unknown, or 0 and above, found -2 at node 1"),
        ([[0, 2]], "labels must be 0 or 1 for each class, found 2 at node 0"),
        (["a"], "labels must be integers of shape (nodes,) or (nodes, classes), found shape (1,) of <U1"),
    ],
)
def test_labels_are_checked(labels: list[object], message: str) -> None:
    with pytest.raises(InputError) as error:
        mask_labels(labels, 0.5)
    assert str(error.value) == message


# ---------------------------------------------------------------------- Dataset


def test_a_data_set_counts_and_describes_itself() -> None:
    graph = Graph.from_edges([(0, 1), (1, 2)], features=np.eye(3))
    data = Dataset("tiny", graph, np.array([0, 1, 0]), ("red", "blue"), Split([0], [1], [2]), notes="made up")
    assert data.label_counts() == {"red": 2, "blue": 1}
    assert data.splits == (data.split,)
    assert not data.multilabel
    assert "labeled nodes    3 of 3" in data.summary()
    assert "classes          2: red 2, blue 1" in data.summary()
    assert "notes            made up" in data.summary()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": [0, 1]}, "tiny: there are 3 nodes, but 2 labels"),
        ({"labels": [0, 1, 2]}, "tiny: the labels need 3 class names, found 2"),
        ({"labels": [[1], [1], [0]]}, "tiny: the labels need 1 class names, found 2"),
        ({"node_titles": np.array(["a"])}, "tiny: there are 3 nodes, but 1 titles"),
        ({"split": Split([0], [1], [3])}, "tiny: a split contains nodes beyond the 3 of the graph"),
    ],
)
def test_a_data_set_refuses(change: dict[str, object], message: str) -> None:
    parts: dict[str, object] = {"labels": [0, 1, 0], "class_names": ("red", "blue")}
    with pytest.raises(InputError) as error:
        Dataset("tiny", Graph.from_edges([(0, 1), (1, 2)]), **(parts | change))  # type: ignore[arg-type]
    assert str(error.value) == message
