"""Search for settings: Optuna proposes, validation labels judge, test labels are never looked at."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import scipy.sparse as sp
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from cge.data.dataset import Dataset
from cge.data.splits import Split
from cge.errors import InputError
from cge.estimators.methods import make
from cge.estimators.settings import check_settings
from cge.evaluation.protocol import of_all_classes, split_of
from cge.metrics import classification_metrics
from cge.training.classifier_recipes import CLASSIFIERS

__all__ = ["SPACES", "Found", "as_toml", "open_storage", "space_of", "tune"]


@dataclass(frozen=True)
class Range:
    """Numbers between two bounds, whole ones if both are; `log` looks at ratios."""

    low: float
    high: float
    log: bool = False


Space = Mapping[str, Range | tuple[Any, ...]]  # a tuple holds choices

_NETWORK: Space = {
    "hidden": (8, 16, 32, 64, 128),
    "drop": Range(0.0, 0.9),
    "learning_rate": Range(1e-3, 0.1, log=True),
    "weight_decay": Range(1e-5, 0.1, log=True),
}
_PAIRS: Space = {
    "dim": (50, 64, 128, 256),
    "window": Range(2, 10),
    "walks_per_node": Range(2, 20),
    "learning_rate": Range(0.005, 0.5, log=True),
    "unsup_weight": Range(0.1, 10.0, log=True),
    "label_pairs": Range(0.001, 0.5, log=True),
    "pretrain": Range(0, 4),
    "max_epochs": Range(2, 12),
    "hidden": (16, 32, 64, 128),
    "head_lr": Range(1e-3, 0.1, log=True),
    "weight_decay": Range(1e-5, 0.1, log=True),
}
_PATHS: Space = {
    "hops": Range(1, 10),
    "dim": (16, 32, 64, 128),
    "classifier": ("auto", *CLASSIFIERS),
    "drop_node": Range(0.0, 0.8),
    "drop_feature": Range(0.0, 0.8),
    "dropout": Range(0.0, 0.8),
    "consistency_weight": Range(0.1, 3.0, log=True),
    "sharpening": Range(0.05, 0.5, log=True),
    "learning_rate": Range(1e-3, 0.1, log=True),
    "weight_decay": Range(1e-5, 0.1, log=True),
}
_SAID, _DATA = "said", "data"  # of a trial: why it failed; of a study: what it judges
SPACES: dict[str, Space] = {
    "SGC": {"hops": Range(1, 8)},
    "GCN": _NETWORK,
    "APPNP": {**_NETWORK, "hops": Range(2, 20), "back": Range(0.02, 0.5, log=True)},
    "WalkClassifier": {"dim": (32, 64, 128, 256)},
    "WalkClassifier node2vec": {
        "dim": (32, 64, 128, 256),
        "p": Range(0.25, 4.0, log=True),
        "q": Range(0.25, 4.0, log=True),
    },
    "CGE paths": _PATHS,
    "CGE pairs": _PAIRS,
    "CGE learned pairs": {
        **_PAIRS,
        "pretrain": Range(1, 4),  # without it weights do not learn
        "virtual_lr": Range(0.1, 10.0, log=True),
        "weighting_lr": Range(1e-3, 0.1, log=True),
    },
}


@dataclass(frozen=True)
class Found:
    """The best trial of a study: its settings and mean accuracy on validation labels; how many trials there are."""

    settings: dict[str, Any]
    accuracy: float
    trials: int
    pruned: int


def space_of(method: str, fixed: Mapping[str, Any] | None = None) -> Space:
    """Return where to search for the settings of a method that are not `fixed`."""
    fixed = fixed or {}
    made = make(method, 0, None, **fixed)
    check_settings(made)
    kind = type(made).__name__
    if kind == "CGE":
        pairs = "pairs" if made.weighting == "none" else "learned pairs"
        kind = f"CGE {'paths' if made.encoder == 'paths' else pairs}"
    elif kind == "WalkClassifier" and made.vectors == "node2vec":
        kind = "WalkClassifier node2vec"
    if kind not in SPACES:
        raise InputError(f"{method} has nothing to tune: what it leaves open is chosen in every fit")
    return {name: one for name, one in SPACES[kind].items() if name not in fixed}


def open_storage(url: str) -> Any:
    """Return a storage that several processes and machines can share: a database by its URL, or a journal file."""
    try:
        if "://" in url:
            return optuna.storages.RDBStorage(url)
        path = Path(url)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file() and path.read_bytes()[:1] not in (b"", b"{"):  # Optuna would append to it
            raise ValueError("the file is no journal")
        return JournalStorage(JournalFileBackend(url))
    except KeyError:
        raise InputError(f"the storage {url!r} cannot be opened: the file is no journal") from None
    except Exception as wrong:  # whatever the database's driver raises
        reason = (str(wrong) or type(wrong).__name__).splitlines()[0]
        raise InputError(f"the storage {url!r} cannot be opened: {reason}") from None


def tune(
    data: Dataset,
    method: str,
    trials: int,
    storage: Any,
    seeds: int = 1,
    *,
    first_seed: int = 0,
    per_class: int = 20,
    train_share: float | None = None,
    n_jobs: int | None = None,
    fixed: Mapping[str, Any] | None = None,
    on_trial: Callable[[int, float | None, str], None] | None = None,
) -> Found:
    """Search until the study of this data set, method and `fixed` settings in `storage` has `trials` finished trials.

    A trial trains on the training labels of `seeds` splits or seeds, from `first_seed` on, and its accuracy on the
    validation labels counts. One that is worse half-way than the median of the others is ended. `on_trial` is told how
    many are finished, the accuracy of the last one or None, and what became of it.
    """
    fixed = dict(fixed or {})
    space = space_of(method, fixed)
    if not space:
        raise InputError(f"every setting of {method} that can be tuned is fixed; leave one of them open")
    parts = {seed: split_of(data, seed, per_class, train_share) for seed in range(first_seed, first_seed + seeds)}
    if not all(len(split.validation) for _, split in parts.values()):
        raise InputError(f"{data.name} has no validation labels in its split, so nothing can be judged")
    told = [f"{name}={value}" for name, value in sorted(fixed.items())] + [f"{seeds} seeds"] * (seeds > 1)
    told += [f"from seed {first_seed}"] * (first_seed > 0)
    told += [f"{per_class} of each class"] * (per_class != 20) + [f"share {train_share}"] * (train_share is not None)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        storage=storage,
        study_name=", ".join([f"{data.name}/{method}", *told]),
        direction="maximize",
        load_if_exists=True,
        pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=50),
    )
    _same_data(study, parts)
    reason = "ask for more trials"
    while _finished(study) < trials:
        trial = study.ask()
        # Machines that share a study have to propose different things: each trial has a number of its own.
        study.sampler = optuna.samplers.TPESampler(seed=first_seed + trial.number)
        settings = fixed | {name: _proposed(trial, name, one) for name, one in space.items()}
        try:
            value = _validated(parts, method, settings, n_jobs, trial)
            became = f"validation {value:.4f}"
        except optuna.TrialPruned:
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
            value, became = None, "ended early"
        except InputError as wrong:  # some settings overflow
            trial.set_user_attr(_SAID, str(wrong))
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            value, became, reason = None, f"failed: {wrong}", f"the last one said: {wrong}"
        except BaseException:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            raise
        else:
            study.tell(trial, value)
        if on_trial is not None:
            on_trial(_finished(study), value, became)
    states = [one.state for one in study.trials]
    if optuna.trial.TrialState.COMPLETE not in states:
        raise InputError(f"no trial came to its end, so none is best; {reason}")
    return Found(
        fixed | dict(study.best_params),
        float(study.best_value),
        _finished(study),
        states.count(optuna.trial.TrialState.PRUNED),
    )


def _finished(study: Any) -> int:
    """Return the number of trials that came to an end of their own; a stopped one has failed without saying why."""
    ends = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
    return sum(one.state in ends or _SAID in one.user_attrs for one in study.get_trials(deepcopy=False))


def _same_data(study: Any, parts: Mapping[int, tuple[Dataset, Split]]) -> None:
    """Refuse a study whose trials judged other graphs or labels, whatever the data set was called there."""
    told = hashlib.sha256()
    for seed, (data, split) in parts.items():
        graph: Any = data.graph
        features = (graph.features.data, graph.features.indices) if sp.issparse(graph.features) else (graph.features,)
        for part in (graph.indptr, graph.indices, graph.weights, *features, split.train, split.validation):
            told.update(b"" if part is None else np.ascontiguousarray(part).tobytes())
        told.update(np.ascontiguousarray(data.labels[np.r_[split.train, split.validation]]).tobytes() + b"%d" % seed)
    mark = told.hexdigest()[:16]
    if study.user_attrs.get(_DATA, mark) != mark:
        raise InputError(
            f"the storage holds a study called {study.study_name!r} of another graph or other labels; "
            "choose another storage"
        )
    study.set_user_attr(_DATA, mark)


def _proposed(trial: Any, name: str, space: Range | tuple[Any, ...]) -> Any:
    if isinstance(space, tuple):
        return trial.suggest_categorical(name, space)
    if isinstance(space.low, int) and isinstance(space.high, int):
        return trial.suggest_int(name, space.low, space.high, log=space.log)
    return trial.suggest_float(name, space.low, space.high, log=space.log)


def _validated(
    parts: Mapping[int, tuple[Dataset, Split]],
    method: str,
    settings: Mapping[str, Any],
    n_jobs: int | None,
    trial: Any,
) -> float:
    """Return the mean accuracy on validation labels; ends early where the trial looks hopeless."""
    scores: list[float] = []
    for seed, (chosen, split) in parts.items():
        model = make(method, seed, n_jobs, **settings)
        told = {"on_round": _Watch(trial)} if hasattr(model, "encoder") and not scores else {}
        model.fit(chosen.graph, chosen.labels_of(split.train), chosen.labels_of(split.validation), **told)
        ids, labels = chosen.graph.node_ids[split.validation], chosen.labels[split.validation]
        if chosen.multilabel:
            every = of_all_classes(model.predict_proba(ids), model.classes_, chosen.num_classes)
            scores.append(classification_metrics(every, labels)["micro_f1"])
        else:
            scores.append(float(model.score(ids, labels)))
    return float(np.mean(scores))


class _Watch:
    """Tells a trial how its training goes: the best accuracy so far, by the percentage of its rounds."""

    def __init__(self, trial: Any) -> None:
        self.trial, self.step, self.best = trial, 0, 0.0

    def __call__(self, one: Any) -> None:
        if one.validation_accuracy is None or one.stage == "compare":
            return
        self.best, step = max(self.best, one.validation_accuracy), 10 * (10 * one.number // one.of)
        if step > self.step:
            self.step = step
            self.trial.report(self.best, step)
            if self.trial.should_prune():
                raise optuna.TrialPruned


def as_toml(settings: Mapping[str, Any]) -> str:
    """Return settings as TOML, which `read_settings` reads.

    >>> print(as_toml({"dim": 64, "classifier": "deep", "max_epochs": None, "refit": True}), end="")
    dim = 64
    reader = "deep"
    rounds = "none"
    refit = true
    """
    return "".join(f"{name} = {json.dumps('none' if value is None else value)}\n" for name, value in settings.items())
