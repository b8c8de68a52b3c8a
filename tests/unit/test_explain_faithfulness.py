"""Curves of deletion and insertion: worked by hand, and on a small model."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import cge
from cge.estimators.configs import make_estimator
from cge.explain.faithfulness import SHARES, Faithfulness, deleted, faithfulness, inserted
from tests.fixtures import TRUE_LABELS, partial_labels, quick_cge, two_groups, with_sparse_features

Array = npt.NDArray[Any]

BRINGS = np.array([[1.0, 0.0], [0.0, 4.0], [2.0, 0.0], [0.0, 8.0]])
REST = np.array([10.0, 20.0])


def test_vectors_lose_and_gain_paths_in_order() -> None:
    order, shares = np.array([3, 0, 2, 1]), np.array([0.0, 0.25, 0.5, 1.0])
    assert deleted(BRINGS, REST, order, shares).tolist() == [[13, 32], [13, 24], [12, 24], [10, 20]]
    assert inserted(BRINGS, REST, order, shares).tolist() == [[10, 20], [10, 28], [11, 28], [13, 32]]
    nothing = np.empty((0, 2))
    assert deleted(nothing, REST, np.empty(0, int), shares).tolist() == [[10, 20]] * 4


def test_curves_go_by_importance_and_by_chance() -> None:
    shares = np.array([0.0, 0.5, 1.0])
    orders = [np.random.default_rng(3), np.random.default_rng(3)]
    weight = np.array([0.1, 0.2, 0.4, 0.3])  # the third path is the heaviest, then the fourth
    found = faithfulness(BRINGS, REST, BRINGS.sum(1), weight, lambda vectors: vectors.sum(1), shares, 5, orders[0])
    assert found.deletion.tolist() == [[45, 33, 30]]
    assert found.insertion.tolist() == [[30, 42, 45]]
    assert found.heaviest_deletion.tolist() == [[45, 35, 30]]
    assert found.heaviest_insertion.tolist() == [[30, 40, 45]]
    for gap in found.gaps_over_heaviest:
        assert gap.tolist() == [1]  # a triangle of base 1 and height 2
    drawn = [orders[1].permutation(4) for _ in range(5)]
    half = np.mean([BRINGS[one[:2]].sum() for one in drawn])
    np.testing.assert_allclose(found.random_deletion, [[45, 45 - half, 30]])
    np.testing.assert_allclose(found.random_insertion, [[30, 30 + half, 45]])
    down, up = found.gaps
    np.testing.assert_allclose(down, [(12 - half) / 2])  # a triangle of base 1
    np.testing.assert_allclose(up, down)
    both = Faithfulness.stacked([found, found], shares)
    assert both.deletion.shape == both.random_insertion.shape == (2, 3)
    for name, curve in vars(found).items():
        np.testing.assert_array_equal(vars(both)[name], curve if name == "shares" else np.concatenate([curve] * 2))
    assert Faithfulness.stacked([], shares).deletion.shape == (0, 3)


def probabilities(model: cge.CGE, node: int, vector: Array, place: int) -> float:
    import torch

    _, classifier = model._fitted.ensemble[0]  # type: ignore[union-attr]
    with torch.no_grad():
        scores = classifier.scores(torch.tensor(vector[None], dtype=torch.float32))
    return float(torch.softmax(scores / model._fitted.temperature, 1)[0, place])  # type: ignore[union-attr]


def test_paths_are_taken_out_of_the_vector_that_the_reader_reads() -> None:
    model = quick_cge("degree", classifier="mlp", hops=1, label_propagation="no", validation_fraction=0.0).fit(
        with_sparse_features(two_groups()), partial_labels()
    )
    node = 1  # its neighbors differ in degree
    found = model.faithfulness([node], shares=[0.0, 0.5, 1.0], repeats=3)
    place = int(model.predict_proba([node])[0].argmax())
    assert found.deletion[0, 0] == pytest.approx(probabilities(model, node, model.embedding_[node], place), abs=1e-5)
    constant = model._explainer(0).reading.offset
    assert found.deletion[0, -1] == pytest.approx(probabilities(model, node, constant, place), abs=1e-5)
    np.testing.assert_allclose(found.insertion[:, ::-1][:, [0, -1]], found.deletion[:, [0, -1]], atol=1e-6)
    # Half of the paths, those that bring most to the class, are gone.
    every = sorted(model.explain(node, top=1000), key=lambda share: -share.contribution)
    gone = every[: round(len(every) / 2)]
    carried = model._explainer(0).reading.carried
    shares = {one.path: _share(model, one.path) for one in gone}
    left = model.embedding_[node] - sum(share * carried[path[-1]] for path, share in shares.items())
    assert found.deletion[0, 1] == pytest.approx(probabilities(model, node, left, place), abs=1e-5)
    # The heaviest go, whatever they say; cut where no two paths weigh the same.
    heavy = {one.path: _share(model, one.path) for one in every}
    order = sorted(heavy, key=lambda path: -heavy[path])
    cut = next(k for k in range(2, len(order)) if heavy[order[k - 1]] > heavy[order[k]] + 1e-6)
    assert set(order[:cut]) != {one.path for one in every[:cut]}
    left = model.embedding_[node] - sum(heavy[path] * carried[path[-1]] for path in order[:cut])
    told = model.faithfulness([node], shares=[cut / len(order)])
    assert told.heaviest_deletion[0, 0] == pytest.approx(probabilities(model, node, left, place), abs=1e-5)


@pytest.mark.parametrize(("several", "votes"), [(False, "yes"), (True, "no")])
def test_with_all_paths_the_chance_is_that_of_predict_proba(several: bool, votes: str) -> None:
    both = np.column_stack([TRUE_LABELS == 0, TRUE_LABELS == 1, np.arange(40) % 2]).astype(int)
    train, chosen = np.arange(40) % 3 == 0, np.arange(40) % 3 == 1
    y, validation = (both * one[:, None] if several else np.where(one, TRUE_LABELS, -1) for one in (train, chosen))
    model = quick_cge("degree", classifier="mlp", hops=1, label_propagation=votes, max_epochs=15)
    model.fit(with_sparse_features(two_groups()), y, validation)
    fitted: Any = model._fitted
    assert len(fitted.ensemble) == 1
    for temperature in (fitted.temperature, 0.4, 3.0):
        fitted.temperature = temperature
        model._explainers.clear()
        found, chance = model.faithfulness([2, 8, 31], shares=[0.0, 1.0]), model.predict_proba([2, 8, 31]).max(1)
        np.testing.assert_allclose(found.deletion[:, 0], chance, atol=1e-5)
        np.testing.assert_allclose(found.random_insertion[:, 1], chance, atol=1e-5)


def test_with_two_readers_the_chance_is_that_of_one() -> None:
    model = quick_cge("degree", classifier="mlp", n_estimators=2, hops=1, validation_fraction=0.0, max_epochs=8).fit(
        with_sparse_features(two_groups()), partial_labels()
    )
    first, second = (model.faithfulness([7], shares=[0.0], classifier=place).deletion[0, 0] for place in (0, 1))
    assert first != second
    assert (first + second) / 2 == pytest.approx(model.predict_proba([7]).max(), abs=1e-5)  # nothing to calibrate by


def _share(model: cge.CGE, path: tuple[int, ...]) -> float:
    """Return how much of the vector a path of a model with one hop makes up: both lengths have half."""
    return float(0.5 * np.prod([_step(model, u, v) for u, v in pairwise(path)]))


def _step(model: cge.CGE, u: int, v: int) -> float:
    """Return s of a step with the degree discount: every node also has a step to itself."""
    degrees = model.graph_.degrees + 1
    return float(1 / np.sqrt(degrees[u] * degrees[v]))


@pytest.mark.filterwarnings("ignore:path weights stayed flat")
@pytest.mark.parametrize(
    ("encoder", "weighting", "settings"),
    [
        ("paths", "steps", {"classifier": "mlp", "hops": 2, "max_epochs": 40}),
        ("paths", "average", {"classifier": "consistency", "hops": 2, "max_epochs": 40}),
        ("table", "average", {"dim": 8, "window": 3, "walk_length": 5}),
        ("features", "none", {"dim": 8, "window": 3, "walk_length": 5}),
    ],
)
def test_explanations_know_more_than_chance(encoder: str, weighting: str, settings: dict[str, Any]) -> None:
    model = make_estimator(cge.CGE, {**settings, "weighting": encoder, "validation_fraction": 0.0}).fit(
        with_sparse_features(two_groups()), partial_labels(TRUE_LABELS, 2)
    )
    found = model.faithfulness(model.node_ids_[::5])
    assert found.shares.tolist() == list(SHARES)
    assert found.deletion.shape == (8, len(SHARES))
    down, up = found.gaps
    assert down.mean() > 0
    assert up.mean() > 0
    assert np.mean(down > 0) > 0.8
    again = model.faithfulness(model.node_ids_[::5])
    np.testing.assert_array_equal(again.random_deletion, found.random_deletion)
    assert model.faithfulness([]).deletion.shape == (0, len(SHARES))
    few = model.faithfulness([3], most=2, shares=[0.0, 1.0])
    assert few.deletion[0, 0] == pytest.approx(few.random_deletion[0, 0], abs=1e-6)
