"""The model search: which candidates are evaluated, and what is selected from given accuracies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import cge
from cge.estimators.encoder_options import encoder_settings
from cge.targets import SingleLabel, Task
from cge.training import encoder_settings as work_module
from cge.training.candidate_evaluation import CandidateEvaluator, CandidateKey, CandidateScore
from cge.training.encoder_data import EncoderData
from cge.training.encoder_settings import ProblemSize, Work
from cge.training.model_search import ModelSearch
from cge.training.named_weighting import NamedWeighting
from cge.training.selection import Selection
from tests.fixtures import GROUP_SIZE, TRUE_LABELS, partial_labels, quick_cge, two_groups, with_sparse_features

Accuracy = Callable[[str, str, bool], float]  # of a weighting, a classifier, with or without label propagation
NODES = torch.arange(20)
FOLDS = [NODES[:10], NODES[10:]]


class FakeEvaluator(CandidateEvaluator):
    """Returns given accuracies instead of training."""

    accuracy: Accuracy
    log_loss: Callable[[str], float]

    def evaluate_with_tasks(
        self, candidates: Sequence[tuple[NamedWeighting, str, bool]], tasks: Sequence[Any], reference: str = ""
    ) -> tuple[list[CandidateScore], list[Any]]:
        scores = [self._score(CandidateKey(weighting.name, *others)) for weighting, *others in candidates]
        return scores, [task(lambda _message: None) for task in tasks]

    def _score(self, key: CandidateKey) -> CandidateScore:
        if key not in self.scores:
            self.budget -= self.work.evaluation(key.classifier)
        correct = (np.arange(100) < round(100 * self.accuracy(*key))).astype(float)
        score = CandidateScore(self.accuracy(*key), correct, np.full(100, self.log_loss(key.weighting)))
        self.trainers.setdefault(key, None)  # type: ignore[arg-type]
        return self.scores.setdefault(key, score)


class FakeSearch(ModelSearch):
    """Learns nothing: a learned weighting is the one it starts from, and the names of the starts are recorded."""

    starts: dict[str, str]

    def learn(self, weighting: Any, start: NamedWeighting) -> NamedWeighting:
        self.starts[weighting] = start.name
        return replace(start, name=weighting)


def make_search(
    accuracy: Accuracy,
    data: EncoderData | None = None,
    folds: Any = (),
    log_loss: Callable[[str], float] = lambda _: 0.0,
    **settings: Any,
) -> FakeSearch:
    data = EncoderData(with_sparse_features(two_groups()), n_jobs=1) if data is None else data
    task = Task(
        data.graph, None, torch.from_numpy(TRUE_LABELS + 0), SingleLabel(np.arange(2)), NODES, NODES + 20, folds
    )
    evaluator = FakeEvaluator(task, data, encoder_settings(quick_cge(**settings), 2))
    evaluator.accuracy, evaluator.log_loss = accuracy, log_loss
    search = FakeSearch(evaluator)
    search.starts = {}
    return search


def compared(selection: Selection) -> list[str]:
    return list(dict.fromkeys(result.weighting for result in selection.results))


# ---------------------------------------------------------------------- classifiers and label propagation


@pytest.mark.parametrize(("light", "selected"), [(0.8, "sparse-light"), (0.6, "sparse")])
def test_sparse_light_replaces_sparse_only_where_it_is_better(light: float, selected: str) -> None:
    accuracy = {"mlp": 0.5, "consistency": 0.4, "sparse": 0.6, "sparse-light": light}
    search = make_search(
        lambda _, classifier, __: accuracy.get(classifier, 0.3), weighting="degree", label_propagation=False
    )
    assert search.run().classifier == selected


def test_sparse_light_is_evaluated_only_if_sparse_is_best() -> None:
    accuracy = {"mlp": 0.5, "consistency": 0.4, "sparse": 0.45}
    search = make_search(
        lambda _, classifier, __: accuracy.get(classifier, 0.3), weighting="degree", label_propagation=False
    )
    assert search.run().classifier == "mlp"


@pytest.mark.parametrize(
    ("without", "with_labels", "used", "classifiers"),
    [
        # A gain of 40 points: consistency classifiers are skipped; two classifiers are level and averaged.
        ({"mlp": 0.4}, {"mlp": 0.8, "distilled": 0.8}, True, ("mlp", "distilled")),
        ({"mlp": 0.4, "consistency": 0.5, "sparse": 0.5}, {"mlp": 0.6, "distilled": 0.8}, True, ("distilled",)),
        # A gain, but consistency gains more.
        ({"mlp": 0.5, "consistency": 0.8, "sparse": 0.6}, {"mlp": 0.6, "distilled": 0.65}, False, ("consistency",)),
        # No significant gain.
        ({"mlp": 0.5, "consistency": 0.4, "sparse": 0.45}, {"mlp": 0.51}, False, ("mlp",)),
    ],
)
def test_label_propagation_is_used_where_it_gains_more_than_consistency(
    without: dict[str, float], with_labels: dict[str, float], used: bool, classifiers: tuple[str, ...]
) -> None:
    search = make_search(
        lambda _, classifier, labels: (with_labels if labels else without).get(classifier, 0.3), weighting="degree"
    )
    selection = search.run()
    assert (selection.label_propagation, selection.classifier) == (used, classifiers[0])
    first = selection.results[0]
    assert (first.weighting, first.classifier, first.label_propagation) == ("degree", "mlp", True)
    assert first.accuracy_gain == pytest.approx(with_labels["mlp"] - without["mlp"])
    stage = [result for result in selection.results if result.stage == "label propagation"]
    evaluated = {(result.classifier, result.label_propagation) for result in stage}
    alternatives = {("consistency", False), ("sparse", False), ("distilled", True)}
    assert evaluated - alternatives == {("mlp", True), ("mlp", False)}
    assert evaluated & alternatives in (set(), alternatives)
    assert bool(evaluated & alternatives) == (0.02 < with_labels["mlp"] - without["mlp"] <= 0.2)
    assert {result.compared_with for result in stage} == {None, "degree, mlp"}


# ---------------------------------------------------------------------- closed-form weightings


@pytest.mark.parametrize(
    ("uniform", "log_loss", "selected"), [(0.52, 1.1, "uniform"), (0.5, 0.9, "uniform"), (0.5, 1.0, "degree")]
)
def test_the_log_loss_decides_among_equal_accuracies(uniform: float, log_loss: float, selected: str) -> None:
    search = make_search(
        lambda weighting, *_: uniform if weighting == "uniform" else 0.5,
        data=EncoderData(two_groups(features=False), n_jobs=1),
        log_loss=lambda weighting: log_loss if weighting == "uniform" else 1.0,
        classifier="consistency",
        label_propagation=False,
    )
    assert search.run().weighting.name == selected


@pytest.mark.parametrize(
    ("accuracy", "selected"),
    [
        ({"0 hops": 0.5, "uniform": 0.55, "degree": 0.9}, "degree"),
        ({"0 hops": 0.5, "uniform": 0.9, "degree": 0.55}, "uniform"),
        ({"0 hops": 0.5, "uniform": 0.4, "degree": 0.9}, "degree"),
        ({"0 hops": 0.5, "uniform": 0.5, "degree": 0.5}, "0 hops"),
    ],
)
def test_with_walk_vectors_own_inputs_are_compared_with_uniform_and_degree(
    accuracy: dict[str, float], selected: str
) -> None:
    vectors = np.random.default_rng(0).normal(size=(2 * GROUP_SIZE, 4)).astype(np.float32)
    data = EncoderData(two_groups(features=False), "walks", 1, walk_vectors=vectors)
    options: dict[str, Any] = {"classifier": "consistency", "label_propagation": False}
    selection = make_search(lambda weighting, *_: accuracy[weighting], data, **options).run()
    assert selection.weighting.name == selected
    assert compared(selection) == ["0 hops", "uniform", "degree"]


@pytest.mark.parametrize(("more", "selected"), [(0, "degree"), (1, "cosine")])
def test_the_most_accurate_weighting_is_selected(more: int, selected: str) -> None:
    options: dict[str, Any] = {"classifier": "consistency", "label_propagation": False}
    search = make_search(lambda weighting, *_: 0.5 + 0.01 * more * (weighting == "cosine"), **options)
    selection = search.run()
    assert selection.weighting.name == selected
    assert selection.gain_over_uniform is not None
    assert selection.gain_over_uniform[0] == pytest.approx(0.01 * more)


@pytest.mark.parametrize("label_propagation", [True, False])
def test_hop_profiles_are_compared_where_mlp_is_best_without_label_propagation(label_propagation: bool) -> None:
    search = make_search(
        lambda _, classifier, __: 0.7 if classifier == "mlp" else 0.5, label_propagation=label_propagation
    )
    selection = search.run()
    assert selection.classifier == "mlp"
    hop_profiles = set(compared(selection)) - {"degree", "uniform", "cosine"}
    assert ("0 hops" in hop_profiles) == (not label_propagation)
    assert len(hop_profiles) == (0 if label_propagation else 10)


# ---------------------------------------------------------------------- learned weightings


@pytest.mark.parametrize(
    ("winner", "starts"),
    [("2 hops (b=1)", dict.fromkeys(["edges", "edges+hops"], "2 hops (b=1)")), ("0 hops", {"edges+hops": "0 hops"})],
)
def test_learning_starts_from_the_selected_hop_profile(winner: str, starts: dict[str, str]) -> None:
    def accuracy(weighting: str, classifier: str, _: bool) -> float:
        return 0.9 if weighting == winner else 0.7 if classifier == "mlp" else 0.5

    search = make_search(accuracy, folds=FOLDS, label_propagation=False)
    selection = search.run()
    assert selection.weighting.name == winner
    # "edges" was learned from "degree" while classifiers were compared, and is not used like this.
    assert {name: start for name, start in search.starts.items() if name in compared(selection)} == starts
    assert search.starts == {"edges": "degree"} | starts


@pytest.mark.parametrize("best", ["uniform", "degree", "cosine"])
def test_a_named_learned_weighting_starts_from_the_best_closed_form(best: str) -> None:
    search = make_search(
        lambda weighting, *_: 0.9 if weighting == best else 0.7, folds=FOLDS, weighting="edges+hops", classifier="mlp"
    )
    selection = search.run()
    assert selection.weighting.name == "edges+hops"
    assert selection.any_learned
    assert search.starts == {"edges+hops": best}
    assert selection.gain_over_uniform is not None
    uniform, learned = selection.results[-2:]
    assert (uniform.stage, uniform.weighting, uniform.accuracy_gain) == ("uniform weights", "uniform", None)
    gain = learned.accuracy_gain, learned.accuracy_gain_se
    assert (learned.stage, learned.weighting, gain) == ("uniform weights", "edges+hops", selection.gain_over_uniform)


def test_weights_that_do_not_help_are_not_selected() -> None:
    search = make_search(lambda *_: 0.8, folds=FOLDS, label_propagation=False)
    selection = search.run()
    assert selection.weighting.name == "degree"
    assert selection.any_learned  # they were compared
    assert compared(selection)[-2:] == ["edges", "edges+hops"]
    uncompared = [result for result in selection.results if result.accuracy_gain is None]
    assert [(result.stage, result.weighting, result.classifier) for result in uncompared] == [
        ("classifier", "degree", "mlp")
    ]
    assert {result.compared_with for result in selection.results} == {None, "degree, mlp"}


# ---------------------------------------------------------------------- the budget


def compared_within(budget: float, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the weightings that a fit compares with a budget of so many multiplications."""
    monkeypatch.setattr(work_module, "SEARCH_BUDGET", budget)
    model = quick_cge(label_propagation=False, classifier="mlp", dim=32).fit(
        with_sparse_features(two_groups()), partial_labels(), partial_labels(TRUE_LABELS, 4)
    )
    return list(dict.fromkeys(row["weighting"] for row in model.search_results_))


def test_the_search_ends_with_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    data = EncoderData(with_sparse_features(two_groups()), n_jobs=1)
    size = ProblemSize(len(data.transitions), data.graph.features.nnz, 0, 30, 2)  # type: ignore[union-attr]
    work = Work(encoder_settings(quick_cge(dim=32), 2), size)
    evaluation, learning = work.evaluation("mlp"), work.learning(3)
    assert evaluation == work.augmentation("mlp") * work.spec("mlp").evaluate_after
    assert compared_within(0, monkeypatch) == ["degree", "uniform"]
    assert compared_within(3 * evaluation, monkeypatch) == ["degree", "uniform", "cosine"]
    some_profiles = compared_within(6 * evaluation, monkeypatch)
    assert some_profiles[:4] == ["degree", "uniform", "cosine", "0 hops"]
    assert len(some_profiles) == 6
    # Hop profiles leave the work of learning one weighting, if the budget allows it at all.
    assert compared_within(7 * evaluation + learning, monkeypatch) == [*some_profiles, "edges"]
    all_profiles = compared_within(3.5 * evaluation + learning, monkeypatch)
    assert "edges" not in all_profiles
    assert all_profiles[:6] == some_profiles != all_profiles
    everything = compared_within(20 * evaluation + 2 * learning, monkeypatch)
    assert everything == [*all_profiles, "edges", "edges+hops"]


def test_classifiers_that_cost_too_much_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_module, "_WORK", 1.0)
    model = cge.CGE(weighting="degree", label_propagation=False).fit(
        with_sparse_features(two_groups()), partial_labels(), partial_labels(TRUE_LABELS, 4)
    )
    assert {row["classifier"] for row in model.search_results_} == {"mlp"}


def test_weightings_are_learned_while_classifiers_are_compared() -> None:
    search = make_search(lambda *_: 0.8, folds=FOLDS, label_propagation=False)
    stages: list[str] = []
    original = search.select_classifiers

    def recorded(stage: str, weighting: NamedWeighting) -> tuple[str, ...]:
        result = original(stage, weighting)
        stages.append(f"{stage}: {', '.join(search.learned)}")
        return result

    search.select_classifiers = recorded  # type: ignore[method-assign]
    search.run()
    assert stages[0] == "classifier: edges"


@pytest.mark.parametrize(("without", "learned"), [(0.39, False), (0.4, True)])
def test_nothing_is_learned_where_label_propagation_more_than_doubles_the_accuracy(
    without: float, learned: bool
) -> None:
    search = make_search(lambda _, classifier, labels: 0.8 if labels else without, folds=FOLDS)
    selection = search.run()
    assert selection.label_propagation
    assert bool(search.starts) == selection.any_learned == learned


# ---------------------------------------------------------------------- a better weighting


def test_a_weighting_that_is_better_with_mlp_is_compared_with_all_classifiers() -> None:
    """Consistency fails under `degree`, the reference, and the best classifier there fails under `cosine`."""
    accuracy = {
        ("degree", "mlp"): 0.7,
        ("degree", "sparse"): 0.75,
        ("cosine", "mlp"): 0.9,
        ("cosine", "consistency"): 0.95,
    }
    search = make_search(lambda weighting, classifier, _: accuracy.get((weighting, classifier), 0.5))
    selection = search.run()
    assert (selection.weighting.name, selection.classifier) == ("cosine", "consistency")
    assert search.state.weighting_gains
    final = {row.classifier for row in selection.results if row.stage == "final classifier"}
    assert final == {"mlp", "consistency", "sparse", "logistic", "logistic-unit"}


def test_only_classifiers_that_tied_are_compared_again_if_the_weighting_is_not_better() -> None:
    accuracy = {("degree", "consistency"): 0.9, ("cosine", "consistency"): 0.904}  # 90 of 100 nodes, both
    accuracy |= {("degree", "sparse"): 0.9, ("cosine", "sparse"): 0.8}
    search = make_search(lambda weighting, classifier, _: accuracy.get((weighting, classifier), 0.5))
    selection = search.run()
    assert selection.weighting.name == "cosine"
    assert not search.state.weighting_gains
    assert {row.classifier for row in selection.results if row.stage == "final classifier"} == {"sparse"}
