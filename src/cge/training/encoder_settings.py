"""Settings of the path encoder, and the work of its training runs, counted in multiplications.

Work decides how many epochs a training run gets, which classifiers are affordable and how much the model search may
compare, so that large graphs are trained in a bounded time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from cge.training.classifier_registry import CLASSIFIERS, DEFAULT_CLASSIFIER, ClassifierSpec

if TYPE_CHECKING:
    from cge.models.path_networks import PathWeighting
    from cge.training.data_size import DataSize

_WORK = 5e11  # multiplications of a training: about two minutes on two cores
SEARCH_BUDGET = 2 * _WORK  # of all candidates of the model search at most
_LEARNING = _WORK / 2  # of learning a weighting
_CONVEX_SHARE = 0.1  # of a training's work that logistic regression may take
_MIN_EPOCHS = 50
_CONSISTENCY_EPOCHS = 200  # that any classifier with a consistency loss needs before it can be compared
MAX_FACTORIZED_NODES = 20_000  # whose walks are factorized; above, the quadratic time is minutes
CONTINUED_SHARE = 0.3  # of the epochs of an evaluation, by which a candidate continues the training of another one
DENSE = 6  # entries of dense inputs that cost as much as a sparse one


@dataclass(frozen=True)
class OuterSettings:
    """Settings of `OuterProblem`."""

    nodes: int | None = None  # labeled nodes that a step uses at most, where weights are expensive; None uses all
    dim: int = 16
    steps: int = 150  # of classifiers and weights
    warmup_steps: int = 30  # of the classifiers only, before
    learning_rate: float = 0.03
    weighting_lr: float = 0.03
    penalty: float = 1.0
    weight_decay: float = 5e-4
    drop_feature: float = 0.5
    dropout: float = 0.5
    seed: int = 0
    n_jobs: int | None = 1


@dataclass(frozen=True)
class EncoderSettings:
    """Settings of the path encoder, with the names that `cge.CGE` documents; None uses the classifier's default."""

    weighting: str | Callable[[int], PathWeighting]
    classifier: str
    label_propagation: bool | str
    dim: int
    hops: int
    n_augmentations: int | None
    drop_node: float | None
    drop_feature: float | None
    dropout: float | None
    consistency_weight: float | None
    sharpening: float | None
    learning_rate: float | None
    weight_decay: float | None
    max_epochs: int | None
    patience: int
    walks_per_node: int
    seed: int
    outer_settings: OuterSettings


@dataclass(frozen=True)
class ProblemSize:
    """The sizes that work depends on."""

    transitions: int  # edges in both directions, and self-loops
    entries: int  # nonzero inputs; a dense one counts as a sixth of a sparse one
    columns: int  # of dense inputs; 0 where they are sparse
    labeled: int  # training and validation labels
    classes: int
    input_dim: int = 0  # columns of the inputs, dense or sparse

    @classmethod
    def of(cls, data: DataSize, labeled: int, classes: int) -> ProblemSize:
        """Return the sizes of the data of a fit, with its numbers of labels and classes."""
        entries, columns = (data.entries // DENSE, data.columns) if data.dense else (data.entries, 0)
        return cls(data.transitions, entries, columns, labeled, classes, data.columns)


@dataclass(frozen=True)
class Work:
    """The work of training runs with some settings on a problem of some size, in multiplications."""

    settings: EncoderSettings
    size: ProblemSize

    def propagated_dim(self, classifier: str) -> int:
        """Return how many numbers per node a classifier propagates."""
        return self.size.classes if CLASSIFIERS[classifier].linear else self.settings.dim

    def epoch_nodes(self, classifier: str) -> int:
        """Return the number of nodes in an epoch where inputs are propagated once, before; 0 where they are not."""
        settings = self._spec(classifier, self.settings.seed, 0).settings
        if settings.drop_node or not self.size.columns:
            return 0
        return self.size.labeled + (settings.max_consistency_nodes if settings.consistency_weight else 0)

    def augmentation(self, classifier: str) -> int:
        """Return the work of an augmentation: forward, backward and the gradient of W."""
        nodes, size = self.epoch_nodes(classifier), self.size
        work = nodes * size.columns // DENSE if nodes else self.settings.hops * size.transitions + size.entries
        return 3 * self.propagated_dim(classifier) * work

    def continued_epochs(self, classifier: str) -> int:
        """Return the epochs by which a candidate continues the training of another one; 0: it is trained anew.

        Classifiers without a consistency or distillation loss are trained anew: they take little time.
        """
        spec = self.spec(classifier)
        return max(int(CONTINUED_SHARE * spec.evaluate_after), 1) if spec.settings.consistency_weight else 0

    def evaluation(self, classifier: str, *, continued: bool = False) -> float:
        """Return the work of a training up to the epoch in which candidates are compared.

        With `continued` it continues that of another candidate, if the classifier allows that.
        """
        spec, size = self.spec(classifier), self.size
        if spec.convex:
            return self._convex_training(spec.evaluate_after)
        propagation_work = self.settings.hops * size.transitions * size.columns if self.epoch_nodes(classifier) else 0
        epochs = (self.continued_epochs(classifier) if continued else 0) or spec.evaluate_after
        training_work = epochs * spec.settings.n_augmentations * self.augmentation(classifier)
        return float(propagation_work + training_work)

    def search_budget(self) -> float:
        """Return the work that a model search may take: three full training runs of the most expensive classifier.

        Training runs whose inputs are propagated once are so cheap that they do not count.
        """
        full = replace(self, settings=replace(self.settings, max_epochs=None))
        gradient_trained = [name for name, spec in CLASSIFIERS.items() if not spec.convex]
        propagated_every_epoch = [name for name in gradient_trained if not self.epoch_nodes(name)]
        affordable = [name for name in propagated_every_epoch if self.affordable(name)]
        max_work = max(map(full._training, affordable), default=0)
        return min(3.0 * max_work, SEARCH_BUDGET) if max_work else SEARCH_BUDGET

    def affordable(self, classifier: str) -> bool:
        """Return whether a classifier can be trained for its smallest number of epochs; the default always can."""
        if CLASSIFIERS[classifier].convex:
            return self.evaluation(classifier) <= _CONVEX_SHARE * _WORK
        return classifier == DEFAULT_CLASSIFIER or self._training(classifier) <= 1.5 * _WORK

    def _convex_training(self, n_values: int) -> float:
        """Return the work of propagating all inputs, of a basis of the labeled ones, and L-BFGS for `n_values` of C."""
        size, width = self.size, min(self.size.labeled, self.size.input_dim)
        basis, iteration = 2 * size.labeled * width * size.input_dim, 4 * size.labeled * width * size.classes
        dense = (basis + 50 * n_values * iteration) / DENSE
        return float(self.settings.hops * size.transitions * size.input_dim + dense)

    def _training(self, classifier: str) -> int:
        settings = self.spec(classifier).settings
        return self.augmentation(classifier) * settings.n_augmentations * settings.max_epochs

    def spec(self, classifier: str, seed: int | None = None) -> ClassifierSpec:
        """Return a classifier with the training settings of the user; large graphs get fewer epochs."""
        return self._spec(classifier, self.settings.seed if seed is None else seed, self.augmentation(classifier))

    def _spec(self, classifier: str, seed: int, work: int) -> ClassifierSpec:
        spec, user_settings = CLASSIFIERS[classifier], vars(self.settings)
        names = [field.name for field in fields(spec.settings) if user_settings.get(field.name) is not None]
        settings = replace(spec.settings, **{name: user_settings[name] for name in names} | {"seed": seed})
        if self.settings.max_epochs is None:
            affordable = int(_WORK / max(work * settings.n_augmentations, 1))
            settings = replace(settings, max_epochs=min(settings.max_epochs, max(affordable, _MIN_EPOCHS)))
        evaluate_after, share = spec.evaluate_after, settings.max_epochs / spec.settings.max_epochs
        if self.settings.consistency_weight:
            evaluate_after = max(evaluate_after, _CONSISTENCY_EPOCHS)
        if share < 1:  # everything happens earlier
            warmup, rampup = int(share * settings.warmup_epochs), int(share * settings.rampup_epochs)
            evaluate_after = max(int(share * evaluate_after), 1)
            patience = settings.patience
            if self.settings.max_epochs is None:
                patience = max(int(share * patience), _MIN_EPOCHS // 2)
            settings = replace(settings, warmup_epochs=warmup, rampup_epochs=rampup, patience=patience)
        return replace(spec, evaluate_after=evaluate_after, settings=settings)

    def outer_settings(self, n_folds: int) -> OuterSettings:
        """Return how a weighting is learned: in fewer steps where the graph is large, a third of them at least."""
        full = replace(self.settings.outer_settings, seed=self.settings.seed)
        share = min(1.0, max(_LEARNING / self._learning(full, n_folds), 1 / 3))
        return replace(full, warmup_steps=round(share * full.warmup_steps), steps=round(share * full.steps))

    def learning(self, n_folds: int) -> float:
        """Return the work of learning a weighting."""
        return self._learning(self.outer_settings(n_folds), n_folds)

    def _learning(self, outer: OuterSettings, n_folds: int) -> float:
        """Return the same for some settings: a step costs about three augmentations of a classifier on every fold."""
        work = self.settings.hops * self.size.transitions + self.size.entries
        return 9.0 * (outer.warmup_steps + outer.steps) * max(n_folds, 1) * outer.dim * work
