"""Hyperparameter search with Optuna: validation labels score the trials, test labels are never used."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
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
from cge.engine import Engine, LocalEngine
from cge.errors import InputError
from cge.estimators.methods import Range, Space, find_method, make
from cge.estimators.settings import check_settings
from cge.evaluation.protocol import expand_classes, split_of
from cge.metrics import classification_metrics

Splits = Mapping[int, tuple[Dataset, Split]]  # by seed

_PRUNER = optuna.pruners.MedianPruner(5, n_warmup_steps=50)
_FAILED = "failed: "
_REASON, _DATA = "reason", "data"  # attributes of a trial: why it failed; of a study: a hash of its graph and labels


@dataclass(frozen=True)
class TuningResult:
    """The best trial of a study: its settings and mean validation accuracy; the number of finished trials."""

    settings: dict[str, Any]
    accuracy: float
    trials: int
    pruned: int


def search_space(method: str, fixed: Mapping[str, Any] | None = None) -> Space:
    """Return the ranges and choices of a method's settings, without those that are `fixed`."""
    fixed = fixed or {}
    estimator, chosen = make(method, 0, None, **fixed), find_method(method)
    declared = chosen.declared_settings()
    if declared is not None:
        check_settings(estimator)
    if not chosen.space:
        raise InputError(f"{method} has nothing to tune: it selects its settings in every fit")
    return {
        name: tuple(declared[name][1].choices) if declared is not None and values == () else values
        for name, values in chosen.space.items()
        if name not in fixed
    }


def open_storage(url: str) -> Any:
    """Return a storage that several processes and machines can share: a database by its URL, or a journal file."""
    try:
        if "://" in url:
            return optuna.storages.RDBStorage(url)
        path = Path(url)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file() and path.read_bytes()[:1] not in (b"", b"{"):  # Optuna would append to it
            raise ValueError("the file is no journal")
        return JournalStorage(JournalFileBackend(str(path.resolve())))
    except KeyError:
        raise InputError(f"the storage {url!r} cannot be opened: the file is no journal") from None
    except Exception as error:  # whatever the database's driver raises
        reason = (str(error) or type(error).__name__).splitlines()[0]
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
    engine: Engine | None = None,
    fixed: Mapping[str, Any] | None = None,
    on_trial: Callable[[int, float | None, str], None] | None = None,
) -> TuningResult:
    """Search until the study of this data set, method and `fixed` settings in `storage` has `trials` finished trials.

    A trial trains on the training labels of `seeds` splits or seeds, starting with `first_seed`, and is scored by its
    mean accuracy on the validation labels. A trial that is worse than the median of the others half-way is pruned.
    Trials run on `engine`, one after the other by default; its workers open `storage` themselves.
    `on_trial` is called with the number of finished trials, the accuracy of the last one or None, and its outcome.
    """
    fixed = dict(fixed or {})
    space = search_space(method, fixed)
    if not space:
        raise InputError(f"every setting of {method} that can be tuned is fixed; leave one of them open")
    splits = {seed: split_of(data, seed, per_class, train_share) for seed in range(first_seed, first_seed + seeds)}
    if not all(len(split.validation) for _, split in splits.values()):
        raise InputError(f"{data.name} has no validation labels in its split, so no trial can be scored")
    parts = [f"{name}={value}" for name, value in sorted(fixed.items())] + [f"{seeds} seeds"] * (seeds > 1)
    parts += [f"from seed {first_seed}"] * (first_seed > 0)
    parts += [f"{per_class} per class"] * (per_class != 20) + [f"share {train_share}"] * (train_share is not None)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    name = ", ".join([f"{data.name}/{method}", *parts])
    study = optuna.create_study(storage=storage, study_name=name, direction="maximize", load_if_exists=True)
    _check_data(study, splits)
    run = _TrialRun(study.study_name, storage, splits, method, fixed, space, first_seed, n_jobs)
    reason, engine = "increase the number of trials", LocalEngine(1) if engine is None else engine
    while (finished := _finished(study)) < trials:
        for _, (value, outcome) in engine.map_as_finished(run, range(trials - finished)):
            reason = f"the last error was: {outcome.removeprefix(_FAILED)}" if outcome.startswith(_FAILED) else reason
            if on_trial is not None:
                on_trial(_finished(study), value, outcome)
    states = [trial.state for trial in study.trials]
    if optuna.trial.TrialState.COMPLETE not in states:
        raise InputError(f"no trial was completed; {reason}")
    pruned, best = states.count(optuna.trial.TrialState.PRUNED), fixed | dict(study.best_params)
    return TuningResult(best, float(study.best_value), _finished(study), pruned)


@dataclass(frozen=True, eq=False)
class _TrialRun:
    """Run a trial of a stored study: the task of an engine; blocks are numbers that it does not use."""

    study: str
    storage: Any
    splits: Splits
    method: str
    fixed: Mapping[str, Any]
    space: Space
    first_seed: int
    n_jobs: int | None

    def __call__(self, _block: int) -> tuple[float | None, str]:
        """Return the validation accuracy, None without one, and the outcome in words."""
        study = self._open()
        trial = study.ask()
        # Workers that share a study must propose different settings: each trial has a seed of its own.
        study.sampler = optuna.samplers.TPESampler(seed=self.first_seed + trial.number)
        settings = {**self.fixed} | {name: _suggest(trial, name, values) for name, values in self.space.items()}
        try:
            value = _validation_accuracy(self.splits, self.method, settings, self.n_jobs, trial)
        except optuna.TrialPruned:
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
            return None, "pruned"
        except InputError as error:  # some settings overflow
            trial.set_user_attr(_REASON, str(error))
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            return None, f"{_FAILED}{error}"
        except BaseException:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            raise
        study.tell(trial, value)
        return value, f"validation {value:.4f}"

    def _open(self) -> Any:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        try:
            return optuna.load_study(study_name=self.study, storage=self.storage, pruner=_PRUNER)
        except (KeyError, OSError):
            problem = f"a worker does not see the study {self.study!r} in its storage"
            hint = "use a database that all machines reach, or a journal in a folder that they share"
            raise InputError(problem, hint=hint) from None


def _finished(study: Any) -> int:
    """Return the number of trials that were not interrupted: an interrupted one has failed without a reason."""
    ends = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
    return sum(trial.state in ends or _REASON in trial.user_attrs for trial in study.get_trials(deepcopy=False))


def _check_data(study: Any, splits: Splits) -> None:
    """Refuse a study whose trials were scored on another graph or other labels under the same name."""
    digest = hashlib.sha256()
    for seed, (data, split) in splits.items():
        graph: Any = data.graph
        features = (graph.features.data, graph.features.indices) if sp.issparse(graph.features) else (graph.features,)
        for array in (graph.indptr, graph.indices, graph.weights, *features, split.train, split.validation):
            digest.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
        digest.update(np.ascontiguousarray(data.labels[np.r_[split.train, split.validation]]).tobytes() + b"%d" % seed)
    fingerprint = digest.hexdigest()[:16]
    if study.user_attrs.get(_DATA, fingerprint) != fingerprint:
        problem = f"the storage contains a study called {study.study_name!r} of another graph or other labels"
        raise InputError(f"{problem}; choose another storage")
    study.set_user_attr(_DATA, fingerprint)


def _suggest(trial: Any, name: str, values: Range | Sequence[Any]) -> Any:
    if not isinstance(values, Range):
        return trial.suggest_categorical(name, values)
    if isinstance(values.low, int) and isinstance(values.high, int):
        return trial.suggest_int(name, values.low, values.high, log=values.log)
    return trial.suggest_float(name, values.low, values.high, log=values.log)


def _validation_accuracy(splits: Splits, method: str, settings: Any, n_jobs: int | None, trial: Any) -> float:
    """Return the mean accuracy on the validation labels; raises `TrialPruned` where the first seed is hopeless."""
    scores: list[float] = []
    for seed, (data, split) in splits.items():
        model = make(method, seed, n_jobs, **settings)
        watched = "callback" in inspect.signature(model.fit).parameters and not scores
        callback = {"callback": _Pruning(trial)} if watched else {}
        model.fit(data.graph, data.labels_of(split.train), data.labels_of(split.validation), **callback)
        nodes, labels = data.graph.node_ids[split.validation], data.labels[split.validation]
        if data.multilabel:
            probabilities = expand_classes(model.predict_proba(nodes), model.classes_, data.num_classes)
            scores.append(classification_metrics(probabilities, labels)["micro_f1"])
        else:
            scores.append(float(model.score(nodes, labels)))
    return float(np.mean(scores))


class _Pruning:
    """Reports the best validation accuracy after every tenth of the epochs, and ends a trial that Optuna prunes."""

    def __init__(self, trial: Any) -> None:
        self.trial, self.step, self.best = trial, 0, 0.0

    def __call__(self, epoch: Any) -> None:
        if epoch.validation_accuracy is None or epoch.stage == "compare":
            return
        self.best, step = max(self.best, epoch.validation_accuracy), 10 * (10 * epoch.epoch // epoch.max_epochs)
        if step > self.step:
            self.step = step
            self.trial.report(self.best, step)
            if self.trial.should_prune():
                raise optuna.TrialPruned


def as_toml(settings: Mapping[str, Any]) -> str:
    """Return settings as TOML, which `read_settings` reads."""
    return "".join(f"{name} = {json.dumps('none' if value is None else value)}\n" for name, value in settings.items())
