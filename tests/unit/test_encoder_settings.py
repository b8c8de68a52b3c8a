"""The work of trainings: how it bounds epochs, classifiers, learning and the model search."""

from __future__ import annotations

from dataclasses import replace

import cge
from cge.estimators.configs import make_estimator
from cge.estimators.encoder_options import encoder_settings
from cge.training.classifier_registry import CLASSIFIERS
from cge.training.encoder_settings import SEARCH_BUDGET, ProblemSize, Work

SMALL = ProblemSize(transitions=1000, entries=500, columns=0, labeled=50, classes=2)


def make_work(size: ProblemSize = SMALL, **settings: object) -> Work:
    return Work(encoder_settings(make_estimator(cge.CGE, settings), 2), size)


def with_work(classifier: str, multiplications: float, **settings: object) -> Work:
    """Return a problem on which an augmentation of a classifier takes about so many multiplications."""
    work = make_work(**settings)
    per_entry = 3 * work.propagated_dim(classifier)
    return replace(work, size=replace(SMALL, transitions=0, entries=int(multiplications) // per_entry))


def test_large_graphs_get_fewer_epochs() -> None:
    assert with_work("sparse", 1000).spec("sparse") == CLASSIFIERS["sparse"]
    large = with_work("sparse", 1.25e9).spec("sparse")  # two augmentations
    assert (large.settings.max_epochs, large.evaluate_after) == (200, 66)
    assert (large.settings.warmup_epochs, large.settings.rampup_epochs, large.settings.patience) == (16, 33, 33)
    assert with_work("sparse", 1e15).spec("sparse").settings.max_epochs == 50
    assert with_work("mlp", 1e15).spec("mlp").evaluate_after == 16


def test_given_epochs_are_kept_and_the_rest_is_scaled() -> None:
    single = make_work(max_epochs=1).spec("mlp")
    assert (single.settings.max_epochs, single.evaluate_after) == (1, 1)  # nothing is compared untrained
    given = with_work("sparse", 1e15, max_epochs=300).spec("sparse").settings
    assert (given.max_epochs, given.warmup_epochs, given.patience) == (300, 25, 100)


def test_expensive_classifiers_are_not_affordable() -> None:
    assert with_work("consistency", 1e9).affordable("consistency")
    assert not with_work("consistency", 1e10).affordable("consistency")  # 50 epochs of four augmentations
    assert with_work("mlp", 1e10).affordable("mlp")


def test_inputs_that_are_propagated_once_make_epochs_cheap() -> None:
    size = ProblemSize(transitions=20_000_000, entries=16_000_000, columns=100, labeled=10_000, classes=2)
    work, sparse = make_work(size), make_work(replace(size, columns=0))
    assert work.epoch_nodes("mlp") == 10_000
    assert work.epoch_nodes("distilled") == 15_000
    assert work.epoch_nodes("consistency") == sparse.epoch_nodes("mlp") == 0
    assert work.spec("mlp").settings.max_epochs == 300
    assert work.evaluation("mlp") == 4 * 20_000_000 * 100 + 100 * work.augmentation("mlp")
    assert sparse.augmentation("mlp") == 3 * 32 * (4 * 20_000_000 + 16_000_000)
    assert sparse.spec("mlp").settings.max_epochs < 300


def test_wide_inputs_count_as_work() -> None:
    assert make_work(dim=8).spec("mlp").settings.max_epochs == 300
    wide = make_work(ProblemSize(0, 160_000_000, 0, 40, 2), dim=8)
    assert wide.spec("mlp").settings.max_epochs == int(5e11 / (3 * 8 * 160_000_000))


def test_the_search_costs_at_most_three_trainings() -> None:
    most_expensive = 4 * 500 * 3 * 32 * (4 * 1000 + 500)  # augmentations, epochs; forward, backward, gradient of W
    assert make_work(max_epochs=3).search_budget() == 3 * most_expensive
    assert make_work(replace(SMALL, transitions=10**7)).search_budget() == SEARCH_BUDGET
    for classes, transitions in ((5, 10**8), (40, 2 * 10**7)):  # only classifiers that propagate once are affordable
        work = make_work(ProblemSize(transitions, 10**6, 100, 1000, classes))
        assert work.search_budget() == SEARCH_BUDGET > 10 * work.evaluation("mlp")


def test_weights_of_large_graphs_are_learned_in_fewer_steps() -> None:
    sizes = [ProblemSize(transitions, 0, 0, 100, 2) for transitions in (10**5, 2 * 10**6, 10**8)]
    outer = [make_work(size).outer_settings(3) for size in sizes]
    assert [(settings.warmup_steps, settings.steps) for settings in outer] == [(30, 150), (12, 60), (10, 50)]
    assert make_work(sizes[-1]).learning(3) == 9 * 60 * 3 * 16 * 4 * 10**8
