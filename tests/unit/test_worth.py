"""Was it worth it? What a model says of its weights, against what can be counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score

import cge
from cge.explain.weighting_comparison import Gain, WeightingComparison
from cge.training.model_search import ModelSearch
from tests.fixtures import TRUE_LABELS, paper_cge, partial_labels, quick_cge, two_groups, with_sparse_features


def agresti_min(both: int, one: int, other: int, neither: int) -> tuple[float, float]:
    """Return the interval of the difference of two shares of the same nodes, from the four counts."""
    table = np.array([[both, one], [other, neither]]) + 0.5
    shares = table / table.sum()
    apart = shares[0, 1] - shares[1, 0]
    error = np.sqrt((shares[0, 1] + shares[1, 0] - apart**2) / table.sum())
    return apart - 1.959963985 * error, apart + 1.959963985 * error


def test_a_gain_has_the_interval_of_agresti_and_min() -> None:
    one, other = np.array([1, 1, 1, 0, 1]), np.array([1, 0, 0, 0, 1])
    found = Gain.between(one, other)  # differences 0, 1, 1, 0, 0
    assert found is not None
    assert (found.mean, found.low, found.high) == pytest.approx((0.4, *agresti_min(2, 2, 0, 1)), rel=1e-6)
    assert (found.low, found.high) == pytest.approx((-0.150629, 0.722058), abs=1e-5)  # 2/7 ± 1.96 · √(3 − 4/7) / 7
    assert str(found).startswith("40.0 points ahead of A ≡ 1 on 5 labels (95 % interval −15.1 to +72.2, so it may be")
    assert "behind" in str(Gain.between(other, one))
    assert str(Gain(0.02, 0.01, 0.03, 9)) == "2.0 points ahead of A ≡ 1 on 9 labels (95 % interval +1.0 to +3.0)"
    assert Gain.between(one[:1], other[:1]) is None
    assert Gain.of(0.0, float("inf"), 1) is None


def test_the_interval_has_a_width_where_both_are_right_on_the_same_nodes() -> None:
    right = np.array([1] * 30 + [0] * 10)
    found = Gain.between(right, right)
    assert found is not None
    assert (found.mean, found.low, found.high) == pytest.approx((0.0, *agresti_min(30, 0, 0, 10)), rel=1e-6)
    assert found.low < -0.02
    all_better = Gain.between(np.ones(3), np.zeros(3))
    assert all_better is not None
    assert (all_better.mean, all_better.high) == (1.0, 1.0)  # no share is more than one ahead
    assert all_better.low == pytest.approx(agresti_min(0, 3, 0, 0)[0])
    wide, narrow = (Gain.between(np.tile([1, 1, 0], n), np.tile([1, 0, 0], n)) for n in (10, 1000))
    assert narrow is not None
    assert wide is not None
    assert wide.low < narrow.low < 1 / 3 < narrow.high < wide.high


def test_a_gain_says_what_flatters_it() -> None:
    plain, early = Gain(0.02, 0.01, 0.03, 9), Gain(0.02, 0.01, 0.03, 9, early=True)
    both = Gain(0.02, 0.01, 0.03, 9, chose=True, early=True)
    assert (plain.caveat, early.caveat) == ("", "Both were judged after their first epochs.")
    assert (
        both.caveat
        == "These labels also chose the weights, which flatters the gain; both were judged after their first epochs."
    )
    told: tuple[Any, ...] = (0.4, (1.0, 2.0), (0.5, -0.25))
    first, second, *_ = WeightingComparison("steps", both, *told, flat=False, collapsed=False).sentences()
    assert first.startswith("The weights are steps: 2.0 points ahead of A ≡ 1")
    assert second == both.caveat
    chosen = quick_cge("auto", classifier="mlp", label_propagation="no", hops=1, max_epochs=5)
    gain = (
        chosen.fit(with_sparse_features(two_groups()), partial_labels(), partial_labels(TRUE_LABELS, 4))
        .compare_weighting()
        .gain
    )
    assert (gain is None) == (chosen.weighting_ == "none")
    assert gain is None or (gain.chose and gain.early)


@pytest.mark.filterwarnings("ignore::cge.errors.CgeWarning")
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("given", [False, True])
def test_the_twin_is_trained_on_request(several: bool, given: bool) -> None:
    graph, classes = two_groups(), np.column_stack([TRUE_LABELS == 0, TRUE_LABELS == 1, np.arange(40) % 2]).astype(int)
    train, chosen = np.arange(40) % 3 == 0, np.arange(40) % 3 == 1
    train, chosen = (train, chosen) if given else (train | chosen, train & chosen)
    y, validation = (classes * one[:, None] if several else np.where(one, TRUE_LABELS, -1) for one in (train, chosen))
    small: dict[str, Any] = {"dim": 8, "window": 3, "walk_length": 5, "max_epochs": 2, "walks_per_node": 2}
    model = paper_cge("table", "average", **small).fit(graph, y, validation if given else None)
    assert model.compare_weighting().gain is None
    found = model.compare_weighting(compare=True)
    # The same by hand: those that chose did not train.
    told: Any = model._fitted.chosen  # type: ignore[union-attr]
    rest = y.copy()
    rest[told.nodes] = 0 if several else -1
    choosing = np.zeros_like(y) if several else np.full(40, -1)
    choosing[told.nodes] = y[told.nodes] if not given else validation[told.nodes]
    twin = paper_cge("table", "none", **small).fit(graph, rest, choosing)
    right = []
    for probabilities in (told.probabilities, twin.predict_proba()[told.nodes]):
        if several:
            f1 = [
                f1_score(true, one > 0.5, zero_division=0) for true, one in zip(told.matrix, probabilities, strict=True)
            ]
            right.append(np.array(f1))
        else:
            right.append(probabilities.argmax(1) == told.matrix.argmax(1))
    assert found.gain == Gain.between(*right)
    assert found.gain is not None
    assert found.gain.labels == len(told.nodes)
    assert f"The weights are average: {found.gain}." == found.sentences()[0]


def test_a_comparison_needs_labels_and_weights() -> None:
    graph = with_sparse_features(two_groups())
    alone = quick_cge("degree", classifier="mlp", hops=1, max_epochs=3, validation_fraction=0.0).fit(
        graph, partial_labels()
    )
    with pytest.raises(cge.CgeError, match="keeps no labels that chose, so there is nothing to compare by"):
        alone.compare_weighting(compare=True)
    equal = quick_cge("none", classifier="mlp", hops=1, max_epochs=3).fit(
        graph, partial_labels(), partial_labels(TRUE_LABELS, 4)
    )
    assert equal.compare_weighting(compare=True).gain is None
    fixed = (
        quick_cge("degree", classifier="mlp", hops=1, max_epochs=3)
        .fit(graph, partial_labels(), partial_labels(TRUE_LABELS, 4))
        .compare_weighting(compare=True)
        .gain
    )
    assert fixed is not None
    assert (fixed.chose, fixed.early) == (False, False)


@pytest.mark.parametrize("weighting", ["edges", "lstm"])
def test_learned_weights_are_compared_with_equal_ones(
    weighting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: dict[str, Any] = {}
    evaluate_candidate = ModelSearch.evaluate_candidate

    def watched(self: ModelSearch, weights: Any, classifier: str, votes: bool | None = None) -> Any:
        judged[weights.name] = evaluate_candidate(self, weights, classifier, votes)
        return judged[weights.name]

    monkeypatch.setattr(ModelSearch, "judge", watched)
    model = quick_cge(weighting, classifier="mlp", label_propagation="no", hops=2).fit(
        with_sparse_features(two_groups()), partial_labels(), partial_labels(TRUE_LABELS, 4)
    )
    found, apart = model.compare_weighting(), judged[weighting].right - judged["none"].right
    expected = Gain.between(apart, 0 * apart, early=True)
    assert found.gain is not None
    assert expected is not None
    assert vars(found.gain) == pytest.approx(vars(expected))
    assert found.gain.labels == model.labels_seen_["selection"] == len(apart)
    assert f"The weights are {weighting}: " in str(found)
    json.dumps(found.facts())
    model.save(tmp_path / "model")
    assert cge.load(tmp_path / "model").compare_weighting() == found


def test_what_hops_bring_is_the_mean_over_explanations() -> None:
    model = quick_cge("degree", classifier="consistency", label_propagation="no", hops=3).fit(
        with_sparse_features(two_groups()), partial_labels(), partial_labels(TRUE_LABELS, 4)
    )
    found, expected = model.compare_weighting(), np.zeros(4)
    for node in model.node_ids_.tolist():
        why = model.explain(node, top=1)
        expected += why.hops[:, why.place] - why.hops.mean(1)
    np.testing.assert_allclose(found.by_hop, expected / 40, rtol=1e-5)
    assert (found.most, found.least) == (int(expected.argmax()), int(expected.argmin()))
    assert f"Paths of {found.most} step" in found.sentences()[-1]
    assert found.gain is None  # asked for, and not learned
    assert "training did not compare them" in found.sentences()[0]


def test_equal_weights_are_flat() -> None:
    found = (
        quick_cge("none")
        .fit(with_sparse_features(two_groups()), partial_labels(), partial_labels(TRUE_LABELS, 4))
        .compare_weighting()
    )
    assert found.effective == pytest.approx(1.0)
    assert found.by_length == pytest.approx((1.0,) * 5)
    assert (found.flat, found.collapsed, found.gain) == (True, False, None)
    assert found.sentences()[0] == "All paths weigh alike (A ≡ 1)."


@pytest.mark.filterwarnings("ignore::cge.errors.CgeWarning")
def test_collapsed_weights_are_told() -> None:
    small: dict[str, Any] = {"dim": 8, "window": 3, "walk_length": 5, "max_epochs": 6, "validation_fraction": 0.0}
    model = paper_cge("table", "lstm", outer="paper", weighting_lr=1.0, **small).fit(two_groups(), partial_labels())
    found = model.compare_weighting()
    assert found.collapsed
    assert "They have collapsed" in str(found)
    told = WeightingComparison("steps", None, 0.4, (1.0, 2.0), (0.5, -0.25), flat=False, collapsed=False).sentences()
    assert told[1:] == [
        "They weigh as 40 % of the paths would, if these counted alike.",
        "Paths of 0 steps (+0.50) bring most to the predicted classes, those of 1 step (−0.25) least.",
    ]
