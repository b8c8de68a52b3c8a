"""The search for settings by Optuna: its spaces, its studies and what it scores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import optuna
import pytest
import scipy.sparse as sp

import cge
from cge.data import Dataset, Split
from cge.errors import InputError
from cge.estimators import tuning
from cge.estimators.baselines import SGC
from cge.estimators.configs import flat_settings, read_settings
from cge.estimators.methods import Range, make, methods_for
from cge.estimators.tuning import as_toml, open_storage, search_space, tune
from cge.training.history import Epoch
from tests.fixtures import TRUE_LABELS, groups_with_sparse_features

METHODS = methods_for("nodes")
SPLIT = Split([0, 5, 9, 22, 31, 36], [2, 8, 27, 33], [1, 11, 14, 21, 29, 38])


def groups(labels: Any = TRUE_LABELS, split: Split | None = SPLIT, name: str = "groups") -> Dataset:
    return Dataset(name, groups_with_sparse_features(), labels, ("left", "right"), split)


# ---------------------------------------------------------------------- where settings are searched for

UNTUNED = ("features", "label-propagation", "label-propagation-mass")


@pytest.mark.parametrize("name", [name for name in METHODS if name not in UNTUNED])
def test_every_value_in_the_space_is_legal(name: str) -> None:
    space, known = search_space(name), flat_settings(METHODS[name].estimator_class())
    assert space
    assert not set(space) & {*METHODS[name].settings, "random_state", "n_jobs"}
    for setting, values in space.items():
        kind, legal, *_ = known[setting]
        ends = values if isinstance(values, tuple) else (values.low, values.high)
        assert all(legal.allows(kind, value) for value in ends), setting
        assert len(set(ends)) == len(ends) > 1
        if isinstance(values, Range):
            assert values.low < values.high
            assert not values.log or values.low > 0
            assert (kind == "int") == isinstance(values.low, int)  # integers stay integers
    assert ("virtual_lr" in space) == name.startswith(("cge-t", "cge-i"))
    assert ("p" in space) == name.startswith("node2vec")


@pytest.mark.parametrize("name", UNTUNED)
def test_methods_without_a_space(name: str) -> None:
    with pytest.raises(InputError) as caught:
        search_space(name)
    assert str(caught.value) == f"{name} has nothing to tune: it selects its settings in every fit"


def test_fixed_settings_are_not_searched() -> None:
    assert set(search_space("gcn", {"hidden": 8})) == {"dropout", "learning_rate", "weight_decay"}
    assert search_space("cge")["classifier"] == tuple(
        flat_settings(cge.CGE)["classifier"].setting.choices
    )  # all of them
    with pytest.raises(InputError, match="gcn has no setting 'dim'; it has append"):
        search_space("gcn", {"dim": 3})
    with pytest.raises(InputError, match="hidden must be an integer from 1 to 4096, found 0"):
        search_space("gcn", {"hidden": 0})


def test_suggested_values() -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(20):
        trial = study.ask()
        assert type(tuning._suggest(trial, "whole", Range(2, 9))) is int
        assert type(tuning._suggest(trial, "real", Range(0.0, 9.0))) is float
        assert tuning._suggest(trial, "choice", ("a", "b")) in ("a", "b")
        assert 1e-3 <= tuning._suggest(trial, "log", Range(1e-3, 10.0, log=True)) <= 10
    ranges = trial.distributions
    assert (ranges["whole"].log, ranges["log"].log) == (False, True)  # type: ignore[attr-defined]
    assert (ranges["whole"].low, ranges["whole"].high) == (2, 9)  # type: ignore[attr-defined]


# ---------------------------------------------------------------------- the search

FEW = {"epochs": 3, "n_jobs": 1}


def in_memory() -> Any:
    return optuna.storages.InMemoryStorage()


def trials_of(storage: Any, name: str = "groups/gcn") -> list[tuple[str, float | None, dict[str, Any]]]:
    study = optuna.load_study(study_name=name, storage=storage)
    return [(trial.state.name, trial.value, trial.params) for trial in study.trials]


NAME = "groups/gcn, epochs=3, n_jobs=1"


def test_a_study_is_continued(tmp_path: Path) -> None:
    journal = str(tmp_path / "new" / "gcn.journal")
    calls: list[tuple[int, float | None, str]] = []

    def search(trials: int, storage: Any) -> tuning.TuningResult:
        calls.clear()
        return tune(groups(), "gcn", trials, storage, fixed=FEW, on_trial=lambda *call: calls.append(call))

    first = search(2, open_storage(journal))
    assert [number for number, *_ in calls] == [1, 2]
    assert (first.trials, first.pruned) == (2, 0)
    best = search(5, open_storage(journal))
    assert [number for number, *_ in calls] == [3, 4, 5]
    again = search(5, open_storage(journal))
    assert calls == []
    whole_storage = in_memory()
    whole = search(5, whole_storage)
    assert best == again == whole
    assert trials_of(open_storage(journal), NAME) == trials_of(whole_storage, NAME)
    values = [value for _, value, _ in calls]
    assert [outcome for *_, outcome in calls] == [f"validation {value:.4f}" for value in values]
    assert best.accuracy == max(value for value in values if value is not None)
    assert len(set(map(str, trials_of(whole_storage, NAME)))) == 5  # all proposals differ


def test_the_best_settings_can_be_written_and_read(tmp_path: Path) -> None:
    storage = in_memory()
    best = tune(groups(), "gcn", 3, storage, fixed=FEW)
    _, value, params = max(trials_of(storage, NAME), key=lambda trial: trial[1] or 0)
    assert (best.settings, best.accuracy) == (FEW | params, value)
    file = tmp_path / "best.toml"
    file.write_text(as_toml(best.settings))
    assert read_settings(file) == best.settings
    assert set(params) == {"hidden", "dropout", "learning_rate", "weight_decay"}
    model, data = make("gcn", 0, **read_settings(file)), groups()
    model.fit(data.graph, data.labels_of(SPLIT.train), data.labels_of(SPLIT.validation))
    assert model.score(SPLIT.validation, TRUE_LABELS[SPLIT.validation]) == value


def test_settings_as_toml() -> None:
    settings = {"a": 1, "b": 1e-05, "c": "x y", "d": None, "e": False, "f": 'say "so"'}
    assert as_toml(settings) == 'a = 1\nb = 1e-05\nc = "x y"\nd = "none"\ne = false\nf = "say \\"so\\""\n'


def test_test_labels_are_not_used() -> None:
    labels = TRUE_LABELS.copy()
    labels[SPLIT.test] = -1  # unlabelled
    trials = []
    for data in (groups(), groups(labels)):
        storage = in_memory()
        tune(data, "gcn", 3, storage, fixed=FEW)
        trials.append(trials_of(storage, NAME))
    assert trials[0] == trials[1]
    labels = TRUE_LABELS.copy()
    labels[SPLIT.validation] = 1 - labels[SPLIT.validation]
    tune(groups(labels), "gcn", 3, storage := in_memory(), fixed=FEW)
    assert trials_of(storage, NAME) != trials[0]  # validation labels are


def test_fixed_settings_define_the_study() -> None:
    storage = in_memory()
    tune(groups(), "sgc", 1, storage)
    tune(groups(name="others"), "sgc", 1, storage)
    tune(groups(), "gcn", 1, storage, fixed=FEW)
    tune(groups(), "gcn", 1, storage, fixed=FEW | {"hidden": 8})
    tune(groups(), "gcn", 1, storage, 2, fixed=FEW)
    tune(groups(), "gcn", 1, storage, fixed=FEW, first_seed=7)
    names = {study.study_name for study in optuna.get_all_study_summaries(storage)}
    assert names == {
        "groups/sgc",
        "others/sgc",
        "groups/gcn, epochs=3, n_jobs=1",
        "groups/gcn, epochs=3, hidden=8, n_jobs=1",
        "groups/gcn, epochs=3, n_jobs=1, 2 seeds",
        "groups/gcn, epochs=3, n_jobs=1, from seed 7",
    }
    proposed = [trials_of(storage, name)[0][2] for name in (NAME, f"{NAME}, from seed 7")]
    assert proposed[0] != proposed[1]


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Let SGC score by the first entry of this list, a function of hops and seed; the calls of `fit` follow."""
    script: list[Any] = []
    seeds: list[int] = []

    class Scripted(SGC):
        def fit(self, graph: Any, y: Any, validation: Any = None) -> Any:
            script.append((seeds[-1], np.flatnonzero(y >= 0).tolist(), np.flatnonzero(validation >= 0).tolist()))
            return self

        def score(self, nodes: Any, labels: Any) -> float:
            return float(script[0](self.hops, seeds[-1]))

    Scripted.__name__ = "SGC"

    def make_scripted(name: str, seed: int, n_jobs: int | None = None, /, **settings: Any) -> Any:
        seeds.append(seed)
        return Scripted(**settings)

    monkeypatch.setattr(tuning, "make", make_scripted)
    return script


def test_the_score_is_the_mean_over_splits(scripted: list[Any]) -> None:
    scripted.append(lambda hops, seed: hops / 10 + seed)
    other = Split([1, 23], [2], [3])
    data = Dataset("two", groups_with_sparse_features(), TRUE_LABELS, ("a", "b"), splits=(SPLIT, other))
    best = tune(data, "sgc", 2, in_memory(), seeds=3)
    assert best.accuracy == pytest.approx(best.settings["hops"] / 10 + 1)
    assert (
        scripted[1:]
        == [
            (0, SPLIT.train.tolist(), SPLIT.validation.tolist()),
            (1, [1, 23], [2]),
            (2, SPLIT.train.tolist(), SPLIT.validation.tolist()),
        ]
        * 2
    )


def test_the_first_seed_of_a_search(scripted: list[Any]) -> None:
    scripted.append(lambda hops, seed: hops / 100 + seed / 10)
    best = tune(groups(), "sgc", 1, in_memory(), seeds=2, first_seed=4)
    assert [call[0] for call in scripted[1:]] == [4, 5]
    assert best.accuracy == pytest.approx(best.settings["hops"] / 100 + 0.45)


def test_machines_that_share_a_study_propose_different_settings() -> None:
    storage = in_memory()
    tune(groups(), "gcn", 1, storage, fixed=FEW)
    study = optuna.load_study(study_name=NAME, storage=storage)
    other_trial = study.ask()  # another machine runs the second trial
    tune(groups(), "gcn", 2, storage, fixed=FEW)
    assert other_trial.number == 1
    first, _, third = trials_of(storage, NAME)
    alone = in_memory()
    tune(groups(), "gcn", 2, alone, fixed=FEW)
    assert trials_of(alone, NAME)[1][2] not in (first[2], third[2])


def test_the_search_finds_the_best_settings(scripted: list[Any]) -> None:
    scripted.append(lambda hops, _: 1 - abs(hops - 6) / 10)
    assert tune(groups(), "sgc", 25, in_memory()).settings == {"hops": 6}


def test_failed_trials(scripted: list[Any]) -> None:
    def answer(hops: int, _: int) -> float:
        if hops > 4:
            raise InputError("training overflowed")
        return 0.5

    scripted.append(answer)
    storage, calls = in_memory(), []
    best = tune(groups(), "sgc", 12, storage, on_trial=lambda *call: calls.append(call))
    assert best.settings["hops"] <= 4
    states = [(state, value) for state, value, _ in trials_of(storage, "groups/sgc")]
    assert set(states) == {("FAIL", None), ("COMPLETE", 0.5)}
    assert calls == [
        (number, value, "failed: training overflowed" if value is None else "validation 0.5000")
        for number, (_, value) in enumerate(states, start=1)
    ]
    assert (best.trials, best.pruned) == (12, 0)


def test_where_all_trials_fail_the_last_error_is_reported(scripted: list[Any]) -> None:
    def answer(*_: Any) -> float:
        raise InputError("training overflowed; try less")

    scripted.append(answer)
    storage = in_memory()
    with pytest.raises(InputError) as caught:
        tune(groups(), "sgc", 2, storage)
    assert str(caught.value) == "no trial was completed; the last error was: training overflowed; try less"
    with pytest.raises(InputError, match="no trial was completed; increase the number of trials"):
        tune(groups(), "sgc", 2, storage)


def test_an_interrupted_trial_fails_and_ends_the_search(scripted: list[Any]) -> None:
    def answer(*_: Any) -> float:
        raise KeyboardInterrupt

    scripted.append(answer)
    storage = in_memory()
    with pytest.raises(KeyboardInterrupt):
        tune(groups(), "sgc", 5, storage)
    assert [state for state, _, _ in trials_of(storage, "groups/sgc")] == ["FAIL"]
    scripted[0] = lambda *_: 0.5
    assert tune(groups(), "sgc", 2, storage).trials == 2  # the interrupted trial does not count
    assert [state for state, _, _ in trials_of(storage, "groups/sgc")] == ["FAIL", "COMPLETE", "COMPLETE"]


@pytest.mark.parametrize(
    "change", ["labels", "edges", "types", "edge features", "features", "rows of features", "split"]
)
def test_a_study_of_other_data_is_refused(scripted: list[Any], change: str) -> None:
    scripted.append(lambda *_: 0.5)
    storage = in_memory()
    tune(groups(), "sgc", 1, storage)
    labels, split, graph = TRUE_LABELS.copy(), SPLIT, groups_with_sparse_features()
    if change == "labels":
        labels[SPLIT.train[0]] = 1 - labels[SPLIT.train[0]]
    elif change == "edges":
        graph = cge.Graph.from_edges([(0, 39)], num_nodes=40).with_features(graph.features)
    elif change == "types":
        graph = graph.with_node_types(np.where(TRUE_LABELS, "a", "b"))
    elif change == "edge features":
        graph = replace(graph, edge_features=np.ones((len(graph.indices), 1), np.float32))
    elif change == "features":
        graph = graph.with_features(graph.features * 2)
    elif change == "rows of features":
        x: Any = graph.features  # the same numbers, with the first of each row at the end of the row before
        ends = np.concatenate([x.indptr[:1], x.indptr[1:-1] + 1, x.indptr[-1:]])
        graph = graph.with_features(sp.csr_array((x.data, x.indices, ends), shape=x.shape))
    else:
        split = Split(SPLIT.train[1:], SPLIT.validation, SPLIT.test)
    other = Dataset("groups", graph, labels, ("a", "b"), split)
    with pytest.raises(InputError, match="contains a study called 'groups/sgc' of another graph or other labels"):
        tune(other, "sgc", 2, storage)
    labels = TRUE_LABELS.copy()
    labels[SPLIT.test] = 0
    assert tune(groups(labels), "sgc", 2, storage).trials == 2  # test labels are not compared


def test_with_all_settings_fixed_nothing_is_tuned() -> None:
    with pytest.raises(InputError, match="every setting of sgc that can be tuned is fixed; leave one of them open"):
        tune(groups(), "sgc", 1, in_memory(), fixed={"hops": 2})


@pytest.mark.parametrize(
    ("data", "fixed", "sentence"),
    [
        (
            groups(split=Split([0, 22], [], [1])),
            {},
            "groups has no validation labels in its split, so no trial can be scored",
        ),
        (groups(), {"nonsense": 1}, "gcn has no setting 'nonsense'; it has append"),
        (groups(), {"hidden": -1}, "hidden must be an integer from 1 to 4096, found -1"),
    ],
)
def test_errors_before_the_first_trial(data: Dataset, fixed: dict[str, Any], sentence: str) -> None:
    storage = in_memory()
    with pytest.raises(InputError) as caught:
        tune(data, "gcn", 1, storage, fixed=fixed)
    assert str(caught.value).startswith(sentence)
    assert optuna.get_all_study_summaries(storage) == []


SLOW = {
    "weighting": "degree",
    "classifier": "mlp",
    "label_propagation": False,
    "max_epochs": 80,
    "patience": 80,
    "hops": 0,
}


def test_hopeless_trials_are_pruned() -> None:
    """Five other trials have accuracy 1, which random labels cannot reach: the sixth is pruned half-way."""
    labels = np.where(np.isin(np.arange(40), SPLIT.validation), [0, 1] * 20, TRUE_LABELS)
    data, storage = groups(labels), in_memory()
    fixed = SLOW | {"dim": 4, "drop_node": 0.1, "drop_feature": 0.1, "dropout": 0.1}
    name = ", ".join(["groups/cge", *(f"{key}={value}" for key, value in sorted(fixed.items()))])
    study = optuna.create_study(storage=storage, study_name=name, direction="maximize")
    steps = dict.fromkeys(range(10, 90, 10), 1.0)
    study.add_trials([optuna.trial.create_trial(value=1.0, intermediate_values=dict(steps)) for _ in range(5)])
    calls: list[Any] = []
    best = tune(data, "cge", 6, storage, fixed=fixed, on_trial=lambda *call: calls.append(call))
    assert calls == [(6, None, "pruned")]
    assert (best.trials, best.pruned, best.accuracy) == (6, 1, 1.0)
    last = optuna.load_study(study_name=name, storage=storage).trials[-1]
    assert last.state.name == "PRUNED"
    assert sorted(last.intermediate_values) == [10, 20, 30, 40, 50]


def test_the_best_accuracy_so_far_is_reported() -> None:
    reports: list[tuple[float, int]] = []
    hopeless = [False]
    trial = SimpleNamespace(report=lambda *report: reports.append(report), should_prune=lambda: hopeless[0])
    callback = tuning._Pruning(trial)
    for number in range(1, 13):
        for stage, accuracy in (("compare", 0.99), ("train", None), ("train", 0.9 - abs(number - 6) / 100)):
            callback(Epoch(number, 40, stage, 1.0, 0.0, accuracy, None, 0.1))
    assert reports == [(pytest.approx(0.88), 10), (pytest.approx(0.9), 20), (pytest.approx(0.9), 30)]
    callback(Epoch(4, 40, "train", 1.0, 0.0, 0.99, None, 0.1))  # the first epochs of another classifier
    assert len(reports) == 3
    hopeless[0] = True
    callback(Epoch(15, 40, "train", 1.0, 0.0, 0.5, None, 0.1))
    with pytest.raises(optuna.TrialPruned):
        callback(Epoch(16, 40, "train", 1.0, 0.0, 0.5, None, 0.1))


def test_short_trainings_are_pruned_too() -> None:
    storage, fixed = in_memory(), {"max_epochs": 4, "pretrain": 0, "dim": 4, "n_jobs": 1}
    name = ", ".join(["groups/planetoid-t", *(f"{key}={value}" for key, value in sorted(fixed.items()))])
    study = optuna.create_study(storage=storage, study_name=name, direction="maximize")
    steps = dict.fromkeys(range(10, 110, 10), 2.0)  # out of reach
    study.add_trials([optuna.trial.create_trial(value=2.0, intermediate_values=dict(steps)) for _ in range(5)])
    assert tune(groups(), "planetoid-t", 6, storage, fixed=fixed).pruned == 1


def test_splits_of_a_search(scripted: list[Any]) -> None:
    scripted.append(lambda hops, seed: hops / 100)
    storage, data = in_memory(), groups(split=None)
    tune(data, "sgc", 1, storage, per_class=3)
    tune(data, "sgc", 1, storage, train_share=0.5)
    assert [len(call[1]) for call in scripted[1:]] == [6, 18]
    names = {study.study_name for study in optuna.get_all_study_summaries(storage)}
    assert names == {"groups/sgc, 3 per class", "groups/sgc, share 0.5"}


def test_good_trials_are_not_pruned() -> None:
    storage, fixed = in_memory(), SLOW | {"dim": 4}
    name = ", ".join(["groups/cge", *(f"{key}={value}" for key, value in sorted(fixed.items()))])
    study = optuna.create_study(storage=storage, study_name=name, direction="maximize")
    steps = dict.fromkeys(range(10, 90, 10), 0.0)
    study.add_trials([optuna.trial.create_trial(value=0.0, intermediate_values=dict(steps)) for _ in range(5)])
    assert tune(groups(), "cge", 6, storage, fixed=fixed).pruned == 0


def test_storages(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tune.db"
    assert tune(groups(), "sgc", 1, open_storage(url)).trials == 1
    assert tune(groups(), "sgc", 2, open_storage(url)).trials == 2


def test_storages_that_cannot_be_opened(tmp_path: Path) -> None:
    page = tmp_path / "page.txt"
    page.write_text("Dear reader,\n")
    for url, reason in (
        (str(tmp_path), r"\[Errno 21\] Is a directory: "),
        (str(page), "the file is no journal"),
        (f"sqlite:///{tmp_path}/no/such/x.db", r"\(sqlite3.OperationalError\) unable to open database file"),
        ("magic://x", "Can't load plugin: sqlalchemy.dialects:magic"),
    ):
        with pytest.raises(InputError, match=f"^the storage '{url}' cannot be opened: {reason}"):
            open_storage(url)
    assert page.read_text() == "Dear reader,\n"
