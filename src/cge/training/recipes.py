"""How each reader of the path encoder is trained, and the settings that people give; what a training costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from cge.models.ends import DeepReader, Reader, SparseReader
from cge.models.weighting import PathWeighting
from cge.training.consistency import ConsistencySettings
from cge.training.parameters import seeded
from cge.training.path_data import PathData
from cge.training.path_weights import OuterSettings

__all__ = ["DENSE", "READERS", "SEARCH", "Extent", "PathSettings", "Recipe", "make_reader"]

_WORK = 5e11  # products of two numbers in a training: about two minutes on two cores
SEARCH = 2 * _WORK  # products in all comparisons at most; once they are used up, what is left open stays as it is
_LEARNING = _WORK / 2  # products in learning weights
_FEWEST_EPOCHS = 50
DENSE = 6  # entries of dense features that cost as much as a sparse one


@dataclass(frozen=True)
class Recipe:
    """How a reader is trained: the norm of the payload's rows ("l1" or "l2"), when it can be judged, and the settings.

    `scores` says that what it sums over paths are the class scores themselves, no vectors of `dim` numbers.
    """

    rows: str
    judged_after: int
    settings: ConsistencySettings
    scores: bool = False


_SPARSE = ConsistencySettings(
    passes=2, feature_drop=0.2, hidden_drop=0.0, consistency=1.0, weight_decay=0.03, epochs=600
)
_TAUGHT = ConsistencySettings(
    passes=1,
    node_drop=0.0,
    hidden_drop=0.2,
    consistency=3.0,
    rate=0.03,
    weight_decay=5e-5,
    alone=0,
    ramp=0,
    epochs=300,
    taught=True,
)
READERS = {
    "plain": Recipe("l2", 100, ConsistencySettings(passes=1, node_drop=0.0, consistency=0.0, epochs=300)),
    "deep": Recipe("l1", 200, ConsistencySettings()),
    "sparse": Recipe("l2", 200, _SPARSE, scores=True),
    "gentle": Recipe("l2", 200, replace(_SPARSE, consistency=0.2), scores=True),
    "taught": Recipe("l2", 100, _TAUGHT),
}


@dataclass(frozen=True)
class Extent:
    """What the work of a training goes by: steps, what nodes carry, the labels, and how many classes they are of.

    `entries` are as many as cost like sparse ones; `columns` are those of dense features, 0 where they are sparse.
    """

    steps: int
    entries: int
    columns: int
    labeled: int
    classes: int


@dataclass(frozen=True)
class PathSettings:
    """Settings of the path encoder, with the names and meanings that `cge.CGE` documents; None follows the recipe."""

    weighting: str | Callable[[int], PathWeighting]
    reader: str
    label_votes: str
    dim: int
    hops: int
    passes: int | None
    node_drop: float | None
    feature_drop: float | None
    hidden_drop: float | None
    consistency: float | None
    temperature: float | None
    learning_rate: float | None
    weight_decay: float | None
    rounds: int | None
    patience: int
    walks_per_node: int
    seed: int

    def carried(self, reader: str, classes: int) -> int:
        """Return how many numbers a node carries along paths."""
        return classes if READERS[reader].scores else self.dim

    def rows(self, reader: str, extent: Extent) -> int:
        """Return how many nodes an epoch looks at where what paths bring is summed once, before; 0 where it is not."""
        settings = self.recipe(reader, self.seed).settings
        if settings.node_drop or not extent.columns:
            return 0
        return extent.labeled + (settings.agreeing if settings.consistency else 0)

    def products(self, reader: str, extent: Extent) -> int:
        """Return the products in a pass: forth, back and for W, along the steps of all hops and over what they carry.

        Where paths were summed before, a pass is over the nodes that it looks at.
        """
        rows = self.rows(reader, extent)
        work = rows * extent.columns // DENSE if rows else self.hops * extent.steps + extent.entries
        return 3 * self.carried(reader, extent.classes) * work

    def search(self, extent: Extent) -> float:
        """Return the products that all comparisons may cost: three trainings of the reader that costs most.

        Where all that are bearable have their paths summed once, trainings cost next to nothing and are no measure.
        """
        usual, whole = replace(self, rounds=None), 0
        for reader in READERS:
            width = self.products(reader, extent)
            if self.bearable(reader, width) and not self.rows(reader, extent):
                settings = usual.recipe(reader, self.seed, width).settings
                whole = max(whole, settings.epochs * settings.passes * width)
        return min(3.0 * whole, SEARCH) if whole else SEARCH

    def judging(self, reader: str, extent: Extent) -> float:
        """Return the products in judging one reader, and in summing where that comes first."""
        recipe = self.recipe(reader, self.seed, self.products(reader, extent))
        first = self.hops * extent.steps * extent.columns if self.rows(reader, extent) else 0
        return float(first + recipe.judged_after * recipe.settings.passes * self.products(reader, extent))

    def outer(self, extent: Extent, folds: int) -> OuterSettings:
        """Return how weights are learned: in fewer steps where the graph is large, a third of them at least."""
        full = OuterSettings(seed=self.seed)
        share = min(1.0, max(_LEARNING / self._learning(full, extent, folds), 1 / 3))
        return replace(full, alone=round(share * full.alone), steps=round(share * full.steps))

    def learning(self, extent: Extent, folds: int) -> float:
        """Return the products in learning weights."""
        return self._learning(self.outer(extent, folds), extent, folds)

    def _learning(self, outer: OuterSettings, extent: Extent, folds: int) -> float:
        """Return the same for some settings: a step costs about three passes of a reader on every fold."""
        work = self.hops * extent.steps + extent.entries
        return 9.0 * (outer.alone + outer.steps) * max(folds, 1) * outer.dim * work

    def bearable(self, reader: str, width: int) -> bool:
        """Say whether a reader may be asked: plain always, others if the epochs they need at least can be paid."""
        settings = self.recipe(reader, self.seed, width).settings
        return reader == "plain" or width * settings.passes * settings.epochs <= 1.5 * _WORK

    def recipe(self, reader: str, seed: int, width: int = 0) -> Recipe:
        """Return a recipe with the settings that were given.

        `width` is the number of `products` in a pass: large graphs get fewer epochs.
        """
        names = ("passes", "node_drop", "feature_drop", "hidden_drop", "consistency", "temperature", "weight_decay")
        given = {name: getattr(self, name) for name in names} | {"rate": self.learning_rate, "epochs": self.rounds}
        told = {name: value for name, value in given.items() if value is not None}
        recipe = READERS[reader]
        settings = replace(recipe.settings, **told, patience=self.patience, seed=seed)
        if self.rounds is None:
            affordable = int(_WORK / max(width * settings.passes, 1))
            settings = replace(settings, epochs=min(settings.epochs, max(affordable, _FEWEST_EPOCHS)))
        judged, share = recipe.judged_after, settings.epochs / recipe.settings.epochs
        if self.consistency:  # a plain reader that is told to agree needs time for it
            judged = max(judged, READERS["deep"].judged_after)
        if share < 1:  # all comes earlier
            alone, ramp, patience = (int(share * one) for one in (settings.alone, settings.ramp, settings.patience))
            settings = replace(settings, alone=alone, ramp=ramp)
            judged = max(int(share * judged), 1)
            if self.rounds is None:
                settings = replace(settings, patience=max(patience, _FEWEST_EPOCHS // 2))
        return replace(recipe, judged_after=judged, settings=settings)


def make_reader(reader: str, data: PathData, dim: int, classes: int, seed: int) -> Reader:
    """Return an untrained reader of what the nodes of a graph carry."""
    payload = data.payload(READERS[reader].rows)
    with seeded(seed, "reader"):
        if READERS[reader].scores:
            return SparseReader(*data.feature_scale(), classes)
        return DeepReader(int(payload.shape[1]), dim, classes)
