"""How each reader of the path encoder is trained, and the settings that people give; what a training costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from cge.models.classifiers import MLPClassifier, PathClassifier, SparseClassifier
from cge.models.path_networks import PathWeighting
from cge.training.classifier_training import ClassifierSettings
from cge.training.encoder_data import EncoderData
from cge.training.learned_weighting import OuterSettings
from cge.training.torch_state import seeded

__all__ = [
    "CLASSIFIERS",
    "DENSE",
    "SEARCH_BUDGET",
    "ClassifierRecipe",
    "EncoderSettings",
    "ProblemSize",
    "make_classifier",
]

_WORK = 5e11  # products of two numbers in a training: about two minutes on two cores
SEARCH_BUDGET = (
    2 * _WORK
)  # products in all comparisons at most; once they are used up, what is left open stays as it is
_LEARNING = _WORK / 2  # products in learning weights
_FEWEST_EPOCHS = 50
DENSE = 6  # entries of dense features that cost as much as a sparse one


@dataclass(frozen=True)
class ClassifierRecipe:
    """How a reader is trained: the norm of the payload's rows ("l1" or "l2"), when it can be judged, and the settings.

    `scores` says that what it sums over paths are the class scores themselves, no vectors of `dim` numbers.
    """

    rows: str
    evaluate_after: int
    settings: ClassifierSettings
    scores: bool = False


_SPARSE = ClassifierSettings(
    n_augmentations=2, drop_feature=0.2, dropout=0.0, consistency_weight=1.0, weight_decay=0.03, max_epochs=600
)
_TAUGHT = ClassifierSettings(
    n_augmentations=1,
    drop_node=0.0,
    dropout=0.2,
    consistency_weight=3.0,
    learning_rate=0.03,
    weight_decay=5e-5,
    warmup_epochs=0,
    rampup_epochs=0,
    max_epochs=300,
    distilled=True,
)
CLASSIFIERS = {
    "mlp": ClassifierRecipe(
        "l2", 100, ClassifierSettings(n_augmentations=1, drop_node=0.0, consistency_weight=0.0, max_epochs=300)
    ),
    "consistency": ClassifierRecipe("l1", 200, ClassifierSettings()),
    "sparse": ClassifierRecipe("l2", 200, _SPARSE, scores=True),
    "sparse-light": ClassifierRecipe("l2", 200, replace(_SPARSE, consistency_weight=0.2), scores=True),
    "distilled": ClassifierRecipe("l2", 100, _TAUGHT),
}


@dataclass(frozen=True)
class ProblemSize:
    """What the work of a training goes by: steps, what nodes carry, the labels, and how many classes they are of.

    `entries` are as many as cost like sparse ones; `columns` are those of dense features, 0 where they are sparse.
    """

    steps: int
    entries: int
    columns: int
    labeled: int
    classes: int


@dataclass(frozen=True)
class EncoderSettings:
    """Settings of the path encoder, with the names and meanings that `cge.CGE` documents; None follows the recipe."""

    weighting: str | Callable[[int], PathWeighting]
    classifier: str
    label_propagation: str
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

    def carried(self, classifier: str, classes: int) -> int:
        """Return how many numbers a node carries along paths."""
        return classes if CLASSIFIERS[classifier].scores else self.dim

    def rows(self, classifier: str, problem_size: ProblemSize) -> int:
        """Return how many nodes an epoch looks at where what paths bring is summed once, before; 0 where it is not."""
        settings = self.recipe(classifier, self.seed).settings
        if settings.drop_node or not problem_size.columns:
            return 0
        return problem_size.labeled + (settings.max_consistency_nodes if settings.consistency_weight else 0)

    def products(self, classifier: str, problem_size: ProblemSize) -> int:
        """Return the products in a pass: forth, back and for W, along the steps of all hops and over what they carry.

        Where paths were summed before, a pass is over the nodes that it looks at.
        """
        rows = self.rows(classifier, problem_size)
        work = rows * problem_size.columns // DENSE if rows else self.hops * problem_size.steps + problem_size.entries
        return 3 * self.carried(classifier, problem_size.classes) * work

    def search(self, problem_size: ProblemSize) -> float:
        """Return the products that all comparisons may cost: three trainings of the reader that costs most.

        Where all that are bearable have their paths summed once, trainings cost next to nothing and are no measure.
        """
        usual, whole = replace(self, max_epochs=None), 0
        for classifier in CLASSIFIERS:
            width = self.products(classifier, problem_size)
            if self.affordable(classifier, width) and not self.rows(classifier, problem_size):
                settings = usual.recipe(classifier, self.seed, width).settings
                whole = max(whole, settings.max_epochs * settings.n_augmentations * width)
        return min(3.0 * whole, SEARCH_BUDGET) if whole else SEARCH_BUDGET

    def evaluation_cost(self, classifier: str, problem_size: ProblemSize) -> float:
        """Return the products in judging one reader, and in summing where that comes first."""
        recipe = self.recipe(classifier, self.seed, self.products(classifier, problem_size))
        first = self.hops * problem_size.steps * problem_size.columns if self.rows(classifier, problem_size) else 0
        return float(
            first + recipe.evaluate_after * recipe.settings.n_augmentations * self.products(classifier, problem_size)
        )

    def outer(self, problem_size: ProblemSize, folds: int) -> OuterSettings:
        """Return how weights are learned: in fewer steps where the graph is large, a third of them at least."""
        full = replace(self.outer_settings, seed=self.seed)
        share = min(1.0, max(_LEARNING / self._learning(full, problem_size, folds), 1 / 3))
        return replace(full, warmup_steps=round(share * full.warmup_steps), steps=round(share * full.steps))

    def learning(self, problem_size: ProblemSize, folds: int) -> float:
        """Return the products in learning weights."""
        return self._learning(self.outer(problem_size, folds), problem_size, folds)

    def _learning(self, outer: OuterSettings, problem_size: ProblemSize, folds: int) -> float:
        """Return the same for some settings: a step costs about three passes of a reader on every fold."""
        work = self.hops * problem_size.steps + problem_size.entries
        return 9.0 * (outer.warmup_steps + outer.steps) * max(folds, 1) * outer.dim * work

    def affordable(self, classifier: str, width: int) -> bool:
        """Say whether a reader may be asked: plain always, others if the epochs they need at least can be paid."""
        settings = self.recipe(classifier, self.seed, width).settings
        return classifier == "mlp" or width * settings.n_augmentations * settings.max_epochs <= 1.5 * _WORK

    def recipe(self, classifier: str, seed: int, width: int = 0) -> ClassifierRecipe:
        """Return a recipe with the settings that were given.

        `width` is the number of `products` in a pass: large graphs get fewer epochs.
        """
        names = (
            "n_augmentations",
            "drop_node",
            "drop_feature",
            "dropout",
            "consistency_weight",
            "sharpening",
            "weight_decay",
        )
        given = {name: getattr(self, name) for name in names} | {
            "learning_rate": self.learning_rate,
            "max_epochs": self.max_epochs,
        }
        told = {name: value for name, value in given.items() if value is not None}
        recipe = CLASSIFIERS[classifier]
        settings = replace(recipe.settings, **told, patience=self.patience, seed=seed)
        if self.max_epochs is None:
            affordable = int(_WORK / max(width * settings.n_augmentations, 1))
            settings = replace(settings, max_epochs=min(settings.max_epochs, max(affordable, _FEWEST_EPOCHS)))
        judged, share = recipe.evaluate_after, settings.max_epochs / recipe.settings.max_epochs
        if self.consistency_weight:  # a plain reader that is told to agree needs time for it
            judged = max(judged, CLASSIFIERS["consistency"].evaluate_after)
        if share < 1:  # all comes earlier
            alone, ramp, patience = (
                int(share * one) for one in (settings.warmup_epochs, settings.rampup_epochs, settings.patience)
            )
            settings = replace(settings, warmup_epochs=alone, rampup_epochs=ramp)
            judged = max(int(share * judged), 1)
            if self.max_epochs is None:
                settings = replace(settings, patience=max(patience, _FEWEST_EPOCHS // 2))
        return replace(recipe, evaluate_after=judged, settings=settings)


def make_classifier(classifier: str, data: EncoderData, dim: int, classes: int, seed: int) -> PathClassifier:
    """Return an untrained reader of what the nodes of a graph carry."""
    inputs = data.inputs(CLASSIFIERS[classifier].rows)
    with seeded(seed, "reader"):
        if CLASSIFIERS[classifier].scores:
            return SparseClassifier(*data.input_statistics(), classes)
        return MLPClassifier(int(inputs.shape[1]), dim, classes)
