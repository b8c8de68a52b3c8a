"""The registry of classifiers: everything that other modules need to know about a classifier, in one table.

Legal values and help of the parameter `classifier`, the candidates of the model search and its dry run are derived from
this table. To add a classifier, add an entry here, or call `register_classifier` from your own code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from cge.errors import InputError

if TYPE_CHECKING:
    from cge.models.classifiers import PathClassifier
    from cge.training.encoder_data import EncoderData

C_VALUES = (0.125, 0.5, 2.0, 8.0, 32.0, 128.0, 512.0, 2048.0)  # for inputs of mean squared length 1
DEFAULT_CLASSIFIER = "mlp"  # used where nothing can be compared, however large the graph is


@dataclass(frozen=True)
class ClassifierSettings:
    """Settings of `ClassifierTrainer`; `drop_node`, `drop_feature` and `dropout` are shares between 0 and 1.

    λ, the weight of the consistency loss, is 0 for `warmup_epochs` and grows to `consistency_weight` in the next
    `rampup_epochs`. In each epoch this loss is that of at most `max_consistency_nodes` nodes. With `distilled` it is
    the distillation loss, whose targets are the propagated labels.
    """

    n_augmentations: int = 4
    drop_node: float = 0.5
    drop_feature: float = 0.5
    dropout: float = 0.5
    consistency_weight: float = 1.5
    sharpening: float = 0.1
    learning_rate: float = 0.01
    weight_decay: float = 5e-4
    warmup_epochs: int = 50
    rampup_epochs: int = 100
    max_epochs: int = 500
    patience: int = 100
    max_consistency_nodes: int = 5_000
    distilled: bool = False
    seed: int = 0

    @property
    def first_full_epoch(self) -> int:
        """The number of the first epoch (from 0) with full λ."""
        return self.warmup_epochs + self.rampup_epochs if self.consistency_weight > 0 else 0


def _mlp(data: EncoderData, dim: int, classes: int) -> PathClassifier:
    from cge.models.classifiers import MLPClassifier

    return MLPClassifier(data.input_dim, dim, classes)


def _sparse(data: EncoderData, dim: int, classes: int) -> PathClassifier:  # noqa: ARG001 - has no vectors
    from cge.models.classifiers import SparseClassifier

    return SparseClassifier(*data.input_statistics(), classes)


def _logistic(data: EncoderData, dim: int, classes: int) -> PathClassifier:  # noqa: ARG001 - has no vectors
    from cge.models.classifiers import LogisticClassifier

    return LogisticClassifier(data.input_dim, classes)


@dataclass(frozen=True)
class ClassifierSpec:
    """A classifier and how it is trained and searched.

    Parameters
    ----------
    name, description : str
        As they are shown in help texts: `'name': description`.
    make : callable
        Takes the data of a graph, the dimension of vectors and the number of classes; returns a `PathClassifier`.
    settings : ClassifierSettings
        The default training settings.
    row_norm : {"l1", "l2"}
        The norm in which sparse input rows have unit length.
    evaluate_after : int
        Epochs after which it can be compared with others.
    linear : bool
        Whether it propagates class scores instead of vectors of `dim` numbers.
    convex : bool
        Whether it is trained by L-BFGS for a sequence of values of C (`LogisticTrainer`), linear, not augmented.
    unit_rows : bool
        Whether the propagated inputs of each node are scaled to unit length; only for convex classifiers.
    search : bool
        Whether the model search compares it.
    alternative_to_label_propagation : bool
        With `classifier="auto"` and `label_propagation="auto"`, the search compares this classifier, without label
        propagation, with classifiers that use label propagation, and never combines the two. If you name this
        classifier, it is combined with label propagation if `mlp` gains from label propagation.
    refines : str, optional
        Another classifier, of which it is a variant: the model search tries it only where that one is the best.
    """

    name: str
    description: str
    make: Callable[[EncoderData, int, int], PathClassifier] = _mlp
    settings: ClassifierSettings = field(default_factory=ClassifierSettings)
    row_norm: str = "l2"
    evaluate_after: int = 100
    linear: bool = False
    convex: bool = False
    unit_rows: bool = False
    search: bool = True
    alternative_to_label_propagation: bool = False
    refines: str | None = None

    @property
    def requires_label_propagation(self) -> bool:
        """Whether it is trained on propagated labels."""
        return self.settings.distilled

    def unused_settings(self, consistency_weight: float | None = None) -> set[str]:
        """Return the settings of `CGE` that do not change its training; `consistency_weight` None is the default."""
        if self.convex:
            return {"dim", *(each.name for each in fields(ClassifierSettings))}
        unused = {"dim", "dropout"} if self.linear else set()
        weight = self.settings.consistency_weight if consistency_weight is None else consistency_weight
        return unused | {"sharpening"} if self.settings.distilled or not weight else unused


CLASSIFIERS: dict[str, ClassifierSpec] = {}


def register_classifier(spec: ClassifierSpec) -> ClassifierSpec:
    """Add a classifier to the registry, so that `CGE(classifier=name)` accepts it; return it.

    Examples
    --------
    >>> import cge
    >>> settings = ClassifierSettings(n_augmentations=2, drop_node=0.3)
    >>> spec = cge.ClassifierSpec("two-views", "an MLP with a consistency loss", settings=settings)
    >>> cge.register_classifier(spec).requires_label_propagation
    False
    >>> del CLASSIFIERS["two-views"]
    """
    if spec.name in ("auto", *CLASSIFIERS):
        raise InputError(f"there is a classifier {spec.name!r} already; give yours another name")
    if spec.refines is not None and spec.refines not in CLASSIFIERS:
        raise InputError(f"the classifier {spec.name!r} depends on {spec.refines!r}, which does not exist")
    CLASSIFIERS[spec.name] = spec
    return spec


def classifier_descriptions() -> dict[str, str]:
    """Return the descriptions of all classifiers, by name."""
    return {name: spec.description for name, spec in CLASSIFIERS.items()}


def make_classifier(name: str, data: EncoderData, dim: int, classes: int, seed: int) -> PathClassifier:
    """Return an untrained classifier for the inputs of a graph's nodes."""
    from cge.training.torch_state import seeded

    with seeded(seed, "reader"):  # key of the random stream; a new name would change results
        return CLASSIFIERS[name].make(data, dim, classes)


_MLP = ClassifierSettings(n_augmentations=1, drop_node=0.0, consistency_weight=0.0, max_epochs=300)
_SPARSE = ClassifierSettings(
    n_augmentations=2, drop_feature=0.2, dropout=0.0, consistency_weight=1.0, weight_decay=0.03, max_epochs=600
)
_LIGHT = replace(_SPARSE, consistency_weight=0.2)
_DISTILLED = replace(_MLP, dropout=0.2, consistency_weight=3.0, learning_rate=0.03, weight_decay=5e-5)
_DISTILLED = replace(_DISTILLED, warmup_epochs=0, rampup_epochs=0, distilled=True)
_LINEAR: dict[str, Any] = {"make": _sparse, "evaluate_after": 200, "linear": True}
_CONVEX = replace(_MLP, drop_feature=0.0, dropout=0.0, max_epochs=len(C_VALUES))
_LOGISTIC: dict[str, Any] = {"make": _logistic, "settings": _CONVEX, "evaluate_after": len(C_VALUES)}
_LOGISTIC |= {"linear": True, "convex": True}
_ALTERNATIVE_TO_LABEL_PROPAGATION: dict[str, Any] = {"evaluate_after": 200, "alternative_to_label_propagation": True}

for _spec in (
    ClassifierSpec("mlp", "an MLP, trained on labeled nodes only", settings=_MLP),
    ClassifierSpec(
        "consistency",
        "an MLP, with a consistency loss on labeled and unlabeled nodes",
        row_norm="l1",
        **_ALTERNATIVE_TO_LABEL_PROPAGATION,
    ),
    ClassifierSpec(
        "sparse",
        "linear, with a group lasso that removes uninformative features, and a consistency loss",
        settings=_SPARSE,
        **(_LINEAR | _ALTERNATIVE_TO_LABEL_PROPAGATION),
    ),
    ClassifierSpec(
        "sparse-light",
        "like 'sparse' (linear, group lasso), with a weaker consistency loss",
        settings=_LIGHT,
        refines="sparse",
        **_LINEAR,
    ),
    ClassifierSpec("logistic", "logistic regression (ridge regression if task='regression')", **_LOGISTIC),
    ClassifierSpec(
        "logistic-unit", "logistic regression on propagated inputs of unit length", unit_rows=True, **_LOGISTIC
    ),
    ClassifierSpec("distilled", "an MLP, also trained on propagated labels as soft targets", settings=_DISTILLED),
):
    register_classifier(_spec)
