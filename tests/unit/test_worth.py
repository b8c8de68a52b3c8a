"""Was it worth it? What a model says of its weights, against what can be counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cge
from cge.evaluation.calibration import reliability
from cge.evaluation.significance import f1_interval
from cge.explain.worth import Gain, Worth
from cge.training.paths import PlanMaker
from tests.unit.test_cge import TRUE, pairs, some
from tests.unit.test_path_fit import paths, words
from tests.unit.test_trainer import two_groups


def test_a_gain_is_that_of_students_t() -> None:
    one, other = np.array([1, 1, 1, 0, 1]), np.array([1, 0, 0, 0, 1])
    found = Gain.between(one, other)  # differences 0, 1, 1, 0, 0
    assert found is not None
    half = 2.776445 * np.sqrt(0.3) / np.sqrt(5)
    assert (found.mean, found.low, found.high) == pytest.approx((0.4, 0.4 - half, 0.4 + half), rel=1e-5)
    assert str(found).startswith("40.0 points ahead of A ≡ 1 on 5 labels (95 % interval −28.0 to +108.0, so it may be")
    assert "behind" in str(Gain.between(other, one))
    assert str(Gain(0.02, 0.01, 0.03, 9)) == "2.0 points ahead of A ≡ 1 on 9 labels (95 % interval +1.0 to +3.0)"
    assert Gain.between(one[:1], other[:1]) is None
    assert Gain.of(0.0, float("inf"), 1) is None


@pytest.mark.parametrize("weighting", ["gates", "lstm"])
def test_learned_weights_are_compared_with_equal_ones(
    weighting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: dict[str, Any] = {}
    judge = PlanMaker.judge

    def watched(self: PlanMaker, weights: Any, reader: str, votes: bool | None = None) -> Any:
        judged[weights.name] = judge(self, weights, reader, votes)
        return judged[weights.name]

    monkeypatch.setattr(PlanMaker, "judge", watched)
    model = paths(weighting, reader="plain", label_votes="no", hops=2).fit(words(two_groups()), some(), some(TRUE, 4))
    found, apart = model.worth(), judged[weighting].right - judged["none"].right
    expected = Gain.between(apart, 0 * apart)
    assert found.gain is not None
    assert expected is not None
    assert vars(found.gain) == pytest.approx(vars(expected))
    assert found.gain.labels == model.labels_seen_["selection"] == len(apart)
    assert f"The weights are {weighting}: " in str(found)
    json.dumps(found.facts())
    model.save(tmp_path / "model")
    assert cge.load(tmp_path / "model").worth() == found


def test_what_hops_bring_is_the_mean_over_explanations() -> None:
    model = paths("degree", reader="deep", label_votes="no", hops=3).fit(words(two_groups()), some(), some(TRUE, 4))
    found, expected = model.worth(), np.zeros(4)
    for node in model.node_ids_.tolist():
        why = model.explain(node, top=1)
        expected += why.hops[:, why.place] - why.hops.mean(1)
    np.testing.assert_allclose(found.by_hop, expected / 40, rtol=1e-5)
    assert (found.most, found.least) == (int(expected.argmax()), int(expected.argmin()))
    assert f"Paths of {found.most} step" in found.sentences()[-1]
    assert found.gain is None  # asked for, and not learned
    assert "not compared" in found.sentences()[0]


def test_equal_weights_are_flat() -> None:
    found = paths("none").fit(words(two_groups()), some(), some(TRUE, 4)).worth()
    assert found.effective == pytest.approx(1.0)
    assert found.by_length == pytest.approx((1.0,) * 5)
    assert (found.flat, found.collapsed, found.gain) == (True, False, None)
    assert found.sentences()[0] == "All paths weigh alike (A ≡ 1)."


@pytest.mark.filterwarnings("ignore::cge.errors.CgeWarning")
def test_collapsed_weights_are_told() -> None:
    small: dict[str, Any] = {"dim": 8, "window": 3, "walk_length": 5, "rounds": 6, "held_out": 0.0}
    model = pairs("table", "lstm", outer="paper", weighting_lr=1.0, **small).fit(two_groups(), some())
    found = model.worth()
    assert found.collapsed
    assert "They have collapsed" in str(found)
    told = Worth("steps", None, 0.4, (1.0, 2.0), (0.5, -0.25), flat=False, collapsed=False).sentences()
    assert told[1:] == [
        "They weigh as 40 % of the paths would, if these counted alike.",
        "Paths of 0 steps (+0.50) bring most to the predicted classes, those of 1 step (−0.25) least.",
    ]


# ---------------------------------------------------------------------- what the report measures with


def test_reliability_by_hand() -> None:
    chances = np.array([[0.95, 0.05], [0.05, 0.95], [0.62, 0.38], [0.66, 0.34]])
    found = reliability(chances, np.array([0, 0, 0, 1]))
    assert found.count.tolist() == [2, 2]
    assert found.chance.tolist() == pytest.approx([0.64, 0.95])
    assert found.share.tolist() == [0.5, 0.5]
    assert found.error == pytest.approx((0.14 + 0.45) / 2)
    several = reliability(np.array([[1.0, 0.2], [0.0, 0.3]]), np.array([[1, 0], [1, 1]]))
    assert several.count.tolist() == [1, 1, 1, 1]
    assert several.error == pytest.approx((1.0 + 0.2 + 0.7 + 0.0) / 4)


def test_an_interval_of_f1_holds_it_and_narrows_with_nodes() -> None:
    random = np.random.default_rng(0)
    true = random.random((400, 5)) < 0.4
    told = np.where(random.random((400, 5)) < 0.2, ~true, true)
    wide, narrow = (f1_interval(told[:n], true[:n]) for n in (25, 400))
    f1 = 2 * (told & true).sum() / (told.sum() + true.sum())
    assert narrow[0] < f1 < narrow[1]
    assert narrow[1] - narrow[0] < 0.5 * (wide[1] - wide[0])
    assert f1_interval(told, true) == narrow
