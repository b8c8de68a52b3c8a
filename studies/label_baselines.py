"""Baselines of the label-budget study: small grids of settings, tuned on validation labels or by cross-validation.

Every baseline gets the labels that the default gets. With validation labels they select the settings, the number of
epochs, and whether class scores are shifted to the class frequencies of the validation labels, by the rule of
`CGE(prior_correction="auto")`. Without, three stratified folds of the training labels select the settings by the
predictions of all folds, and the baseline is trained again on all training labels; where fewer than five labels can be
held out (one per class), it has the setting in the middle of its grid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.decomposition import TruncatedSVD

from cge.data.dataset import Dataset
from cge.estimators.baselines import LabelPropagation, linear_models, normalized_adjacency, unit_features
from cge.estimators.calibration import EnsembleScores, calibrate
from cge.estimators.classifier import TaskLabels, folds_of
from cge.estimators.embeddings import DeepWalk
from cge.estimators.graph_networks import APPNP, GCN
from cge.models.sparse_products import unit_rows
from cge.training.candidates import MIN_VALIDATION
from cge.training.encoder_data import EncoderData

__all__ = ["BASELINES", "SharedInputs", "predict"]

Array = npt.NDArray[Any]
Outputs = Iterator[tuple[Any, Array]]  # a setting, and probabilities of all nodes, `(n, c)`

_FOLDS = 3
_HOPS = (1, 2, 4)  # of SGC
_ALPHAS = (0.5, 0.8, 0.9, 0.95, 0.99)  # of label propagation, each with and without class mass normalization
_NETWORK_GRID = [{"hidden": hidden, "weight_decay": decay} for hidden in (16, 64) for decay in (5e-4, 5e-3)]
_APPNP_GRID = [{"alpha": alpha, "weight_decay": decay} for alpha in (0.1, 0.2) for decay in (5e-4, 5e-3)]
_EPOCHS = 200  # of networks where nothing can be held out
_WIDE, _LARGE, _COMPONENTS = 2_000, 50_000, 512  # features and nodes from which SGC propagates principal components


@dataclass
class SharedInputs:
    """What the cells of a graph share: propagated features, walk vectors of a seed, and the data of networks."""

    data: Dataset
    _propagated: dict[int, Any] = field(default_factory=dict)
    _vectors: dict[int, Array] = field(default_factory=dict)
    _encoder_data: list[EncoderData] = field(default_factory=list)

    def propagated(self, hops: int) -> Any:
        """Return S^k X with X of unit rows, k = `hops`; sparse or dense."""
        if hops not in self._propagated:
            graph = self.data.graph
            if hops == 0:
                features: Any = unit_features(graph)
                if features.shape[1] > _WIDE and len(graph) > _LARGE:
                    features = TruncatedSVD(_COMPONENTS, random_state=0).fit_transform(features)
                self._propagated[0] = features
            else:
                rows = normalized_adjacency(graph, self_loops=True) @ self.propagated(hops - 1)
                dense = sp.issparse(rows) and rows.nnz > 0.2 * rows.shape[0] * rows.shape[1]
                self._propagated[hops] = rows.toarray() if dense else rows
        return self._propagated[hops]

    def vectors(self, seed: int) -> Array:
        """Return DeepWalk vectors of unit length."""
        if seed not in self._vectors:
            self._vectors.clear()
            self._vectors[seed] = unit_rows(DeepWalk(random_state=seed, n_jobs=1).fit(self.data.graph).embedding_)
        return self._vectors[seed]

    def encoder_data(self) -> EncoderData:
        """Return the transitions and inputs of the graph for networks."""
        if not self._encoder_data:
            self._encoder_data.append(EncoderData(self.data.graph, n_jobs=1))
        return self._encoder_data[0]


def _features(shared: SharedInputs, task: TaskLabels, seed: int) -> Outputs:  # noqa: ARG001 - deterministic
    yield from linear_models(_known_columns(unit_features(shared.data.graph), task), task).items()


def _sgc(shared: SharedInputs, task: TaskLabels, seed: int) -> Outputs:  # noqa: ARG001 - deterministic
    hops, choice = (_HOPS, None) if task.choice is None else ((task.choice[0],), task.choice[1])
    for count in hops:
        inputs = _known_columns(shared.propagated(count), task)
        regressions = linear_models(inputs, replace(task, choice=choice))
        yield from (((count, strength), outputs) for strength, outputs in regressions.items())


def _deepwalk(shared: SharedInputs, task: TaskLabels, seed: int) -> Outputs:
    yield from linear_models(shared.vectors(seed), task).items()


def _label_propagation(shared: SharedInputs, task: TaskLabels, seed: int) -> Outputs:  # noqa: ARG001 - deterministic
    grid = [(alpha, mass) for mass in (False, True) for alpha in _ALPHAS] if task.choice is None else [task.choice]
    for alpha, mass in grid:
        model = LabelPropagation(class_mass=mass)
        yield (alpha, mass), model._train(shared.data.graph, replace(task, choice=alpha))[0]


def _networks(kind: type[GCN] | type[APPNP], grid: Sequence[Mapping[str, Any]]) -> Callable[..., Outputs]:
    class Network(kind):  # type: ignore[valid-type, misc]
        """A network that reads shared data."""

        shared: SharedInputs

        def _data(self, graph: Any) -> EncoderData:  # noqa: ARG002 - that of `shared`
            return self.shared.encoder_data()

    def outputs(shared: SharedInputs, task: TaskLabels, seed: int) -> Outputs:
        choices = range(len(grid)) if task.choice is None else [task.choice[0]]
        for number in choices:
            model = Network(random_state=seed, n_jobs=1, **grid[number])
            model.shared = shared
            probabilities, epochs = model._train(
                shared.data.graph, replace(task, choice=None if task.choice is None else task.choice[1])
            )
            yield (number, epochs), probabilities

    return outputs


def _known_columns(x: Any, task: TaskLabels) -> Any:
    """Return the columns of sparse inputs that some training node has; the weight of the others is zero."""
    if not sp.issparse(x):
        return x
    known = np.unique(x[task.train].indices)
    return x[:, known] if len(known) else x[:, :1]


@dataclass(frozen=True)
class Baseline:
    """A baseline: its outputs for each setting, the setting where nothing can be held out, and what it needs."""

    outputs: Callable[[SharedInputs, TaskLabels, int], Outputs]
    middle: Any
    needs_features: bool = False


BASELINES = {
    "features": Baseline(_features, 10.0, needs_features=True),
    "label propagation": Baseline(_label_propagation, (0.9, False)),
    "deepwalk": Baseline(_deepwalk, 10.0),
    "sgc": Baseline(_sgc, (2, 10.0), needs_features=True),
    "gcn": Baseline(_networks(GCN, _NETWORK_GRID), (0, _EPOCHS)),
    "appnp": Baseline(_networks(APPNP, _APPNP_GRID), (1, _EPOCHS)),
}


def predict(name: str, shared: SharedInputs, task: TaskLabels, seed: int) -> tuple[Array, Array, Any]:
    """Return the tuned baseline's probabilities `(n, c)`, with and without the prior correction, and its setting."""
    baseline = BASELINES[name]
    if len(task.validation):
        return _tuned_on_validation(baseline, shared, task, seed)
    setting = _cross_validated(baseline, shared, task, seed)
    (_, probabilities), *_ = baseline.outputs(shared, replace(task, choice=setting), seed)
    return probabilities, probabilities, setting


def _tuned_on_validation(
    baseline: Baseline, shared: SharedInputs, task: TaskLabels, seed: int
) -> tuple[Array, Array, Any]:
    """Return probabilities with and without the prior correction for the setting that is best on validation labels."""
    labels, target = task.codes[task.validation], task.target
    best_rank, best = (-1.0, 0.0), (np.empty(0), np.empty(0), None)
    for setting, probabilities in baseline.outputs(shared, task, seed):
        scores = _scores(probabilities, target.multilabel)
        compared, corrected = scores[task.validation], probabilities
        if not target.multilabel:
            train = EnsembleScores([scores[task.train]]), task.codes[task.train]
            cross_fitted, _, shift = calibrate(EnsembleScores([compared]), labels, target, train)
            if shift is not None:
                compared, corrected = np.log(np.maximum(cross_fitted, 1e-30)), target.outputs(scores + shift)
        rank = _rank(compared, labels, task)
        if rank > best_rank:
            best_rank, best = rank, (corrected, probabilities, setting)
    return best


def _cross_validated(baseline: Baseline, shared: SharedInputs, task: TaskLabels, seed: int) -> Any:
    """Return the setting with the best predictions of the held-out training labels of all folds."""
    folds = list(_folds(task, seed))
    held_out_idx = np.concatenate([fold.validation for fold in folds]) if folds else np.empty(0, np.int64)
    if len(held_out_idx) < MIN_VALIDATION:
        return baseline.middle
    scores: dict[int, list[Array]] = {}
    settings: dict[int, list[Any]] = {}
    for fold in folds:
        for number, (setting, probabilities) in enumerate(baseline.outputs(shared, fold, seed)):
            scores.setdefault(number, []).append(_scores(probabilities[fold.validation], task.target.multilabel))
            settings.setdefault(number, []).append(setting)
    labels = task.codes[held_out_idx]
    best = max(scores, key=lambda number: _rank(np.concatenate(scores[number]), labels, task))
    return _common_setting(settings[best])


def _common_setting(settings: Sequence[Any]) -> Any:
    """Return the setting of the folds; networks stopped after different numbers of epochs, of which it has the median.

    >>> _common_setting([(2, 30), (2, 90), (2, 50)])
    (2, 50)
    """
    if all(setting == settings[0] for setting in settings):
        return settings[0]
    return settings[0][0], int(np.median([epochs for _, epochs in settings]))


def _folds(task: TaskLabels, seed: int) -> Iterator[TaskLabels]:
    """Yield tasks whose validation labels are a fold of the training labels; no class loses its last label."""
    if len(task.train) < _FOLDS:
        return
    for fold in folds_of(task.strata, task.train, _FOLDS, seed):
        rest = np.setdiff1d(task.train, fold)
        if task.target.multilabel:
            last = (task.codes[fold] > task.codes[rest].any(axis=0)).any(axis=1)
        else:
            last = ~np.isin(task.codes[fold], task.codes[rest])
        if not last.all():
            train = np.sort(np.concatenate([rest, fold[last]]))
            yield replace(task, train=train, validation=fold[~last])


def _scores(probabilities: Array, multilabel: bool) -> Array:
    """Return class scores (logits) of probabilities."""
    clipped = np.clip(probabilities.astype(np.float64), 1e-30, 1.0)
    if multilabel:
        clipped = np.clip(clipped, 1e-7, 1 - 1e-7)
        return np.asarray(np.log(clipped) - np.log1p(-clipped))
    return np.asarray(np.log(clipped))


def _rank(scores: Array, labels: Array, task: TaskLabels) -> tuple[float, float]:
    """Return the validation score, and −log loss, which decides among equals."""
    return task.target.score(scores, labels), -float(task.target.node_losses(scores, labels).mean())


@lru_cache(maxsize=1)
def shared_inputs(data: Dataset) -> SharedInputs:
    """Return the shared inputs of a data set; those of the last one are kept."""
    return SharedInputs(data)
