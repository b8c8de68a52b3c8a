"""Groups of settings: how the networks are trained, and how the outer problem is solved.

An estimator takes such a group as an object, or as a dict with some of its fields:

    CGE(training=TrainingConfig(max_epochs=200))
    CGE(training={"max_epochs": 200})

The command line and `cge tune` have one flat list of names instead; `flat_settings` and `make_estimator` translate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any, NamedTuple, TypeVar

from cge.errors import InputError, format_list
from cge.estimators.settings import Setting, documented, settings_of

Config = TypeVar("Config")

Patience = Annotated[int, Setting("epochs without a better validation accuracy after which training stops", low=1)]

_BY_CLASSIFIER = "the default of the classifier"


def _probability(help_text: str) -> Setting:
    return Setting(help_text, low=0, high=0.95, optional=True, none=_BY_CLASSIFIER)


@documented
@dataclass(frozen=True)
class TrainingConfig:
    """How the classifiers of `CGE` are trained; None in a field uses the default of the classifier."""

    learning_rate: Annotated[
        float | None, Setting("learning rate of Adam", above=0, high=10, optional=True, none=_BY_CLASSIFIER)
    ] = None
    weight_decay: Annotated[
        float | None, Setting("weight decay", low=0, high=10, optional=True, none=_BY_CLASSIFIER)
    ] = None
    max_epochs: Annotated[
        int | None, Setting("largest number of epochs", low=1, optional=True, none=_BY_CLASSIFIER)
    ] = None
    patience: Annotated[
        int, Setting("epochs without a better validation accuracy after which training stops", low=1)
    ] = 100
    n_augmentations: Annotated[
        int | None,
        Setting("augmented forward passes per epoch", low=1, high=100, optional=True, none=_BY_CLASSIFIER),
    ] = None
    drop_node: Annotated[
        float | None, _probability("probability that an augmentation drops all inputs of a node (DropNode)")
    ] = None
    drop_feature: Annotated[float | None, _probability("probability that an augmentation drops a single feature")] = (
        None
    )
    dropout: Annotated[float | None, _probability("dropout probability of hidden units")] = None
    consistency_weight: Annotated[
        float | None,
        Setting(
            "weight of the consistency loss between augmentations", low=0, high=100, optional=True, none=_BY_CLASSIFIER
        ),
    ] = None
    sharpening: Annotated[
        float | None,
        Setting(
            "temperature that sharpens the mean prediction in the consistency loss, lower is sharper",
            low=0.01,
            high=1,
            optional=True,
            none=_BY_CLASSIFIER,
        ),
    ] = None


@documented
@dataclass(frozen=True)
class OuterConfig:
    """How `CGE` learns a weighting: the outer problem, on held-out folds of the training labels."""

    n_folds: Annotated[
        int,
        Setting(
            "folds of the training labels; each fold in turn is held out for the loss of the weighting", low=2, high=100
        ),
    ] = 3
    outer_steps: Annotated[int, Setting("gradient steps of the weighting", low=1, high=100_000)] = 150
    warmup_steps: Annotated[
        int, Setting("steps that train the fold classifiers before the weighting is updated", low=1, high=100_000)
    ] = 30
    weighting_lr: Annotated[float, Setting("learning rate of the weighting", above=0, high=10)] = 0.03
    prior_penalty: Annotated[
        float, Setting("penalty on the squared distance from the closed-form weighting it starts from", low=0, high=1e6)
    ] = 1.0


@documented
@dataclass(frozen=True)
class PaperTrainingConfig:
    """How `PaperCGE` trains vectors and classifier: the inner problem (Algorithm 1, lines 3 and 4)."""

    pretrain: Annotated[int, Setting("pre-training epochs, in which labels do not change the vectors", low=0)] = 2
    max_epochs: Annotated[int, Setting("largest number of epochs after pre-training, each over all walks", low=1)] = 4
    patience: Annotated[
        int, Setting("epochs without a better validation accuracy after which training stops", low=1)
    ] = 3
    optimizer: Annotated[
        str,
        Setting(
            "'sgd' (as in the paper), 'adam' or 'adagrad'; 'auto' is sgd for embedding tables and adam for networks",
            choices=("auto", "sgd", "adam", "adagrad"),
        ),
    ] = "auto"
    learning_rate: Annotated[
        float | None,
        Setting(
            "initial learning rate of the vectors, which falls linearly",
            above=0,
            high=10,
            optional=True,
            none="the default of the optimizer",
        ),
    ] = None
    supervised_strength: Annotated[
        float, Setting("step size of the supervised gradient of the vectors in each epoch", low=0, high=100)
    ] = 0.0
    head_steps: Annotated[int, Setting("gradient steps of the classification head per epoch", low=1)] = 20
    head_lr: Annotated[
        float, Setting("learning rate of the classification head and of the feature encoder", above=0, high=10)
    ] = 0.01
    weight_decay: Annotated[float, Setting("weight decay of the classification head", low=0, high=10)] = 5e-4


@documented
@dataclass(frozen=True)
class PaperOuterConfig:
    """How `PaperCGE` trains the weighting network: the outer problem (Algorithm 1, line 5)."""

    virtual_lr: Annotated[
        float, Setting("ξ: step size of the unrolled step; 0 gives the first-order approximation", low=0, high=1e6)
    ] = 1.0
    weighting_lr: Annotated[float, Setting("learning rate of the weighting network", above=0, high=10)] = 0.01
    outer_steps: Annotated[int, Setting("gradient steps of the weighting network per epoch", low=1)] = 6
    outer_paths: Annotated[int, Setting("paths sampled per outer step", low=1)] = 2048


def as_config(kind: type[Config], value: Config | Mapping[str, Any] | None) -> Config:
    """Return a group of settings from an object of that class, a dict with some of its fields, or None."""
    if value is None:
        return kind()
    return value if isinstance(value, kind) else kind(**value)  # type: ignore[arg-type]


class FlatSetting(NamedTuple):
    """A setting by its flat name: `kind` is the name of its type, `group` the parameter that holds it, or None."""

    kind: str
    setting: Setting
    default: Any
    group: str | None


def flat_settings(estimator: type) -> dict[str, FlatSetting]:
    """Return all settings of an estimator class by name, with those of its groups in the place of the groups.

    >>> from cge.estimators.cge import CGE
    >>> flat_settings(CGE)["max_epochs"].group
    'training'
    """
    flat: dict[str, FlatSetting] = {}
    for name, (kind, setting, default) in settings_of(estimator).items():
        if setting.config is None:
            flat[name] = FlatSetting(kind, setting, default, None)
        else:
            inner = settings_of(setting.config)
            flat |= {field: FlatSetting(*spec, name) for field, spec in inner.items()}
    return flat


def flat_params(model: Any) -> dict[str, Any]:
    """Return the settings of an estimator by their flat names."""
    params: dict[str, Any] = {}
    for name, (_, setting, _) in settings_of(type(model)).items():
        value = getattr(model, name)
        params |= {name: value} if setting.config is None else asdict(as_config(setting.config, value))
    return params


def make_estimator(estimator: type, settings: Mapping[str, Any]) -> Any:
    """Return an untrained estimator from settings by their flat names.

    >>> from cge.estimators.cge import CGE
    >>> make_estimator(CGE, {"hops": 2, "max_epochs": 10}).training.max_epochs
    10
    """
    known = flat_settings(estimator)
    unknown = [name for name in settings if name not in known]
    if unknown:
        raise InputError(f"{estimator.__name__} has no setting {unknown[0]!r}; it has {format_list(sorted(known))}")
    params = {name: value for name, value in settings.items() if known[name].group is None}
    for name, (_, setting, _) in settings_of(estimator).items():
        if setting.config is not None:
            inner = {field.name: settings[field.name] for field in fields(setting.config) if field.name in settings}
            config = setting.config(**inner)
            if config != setting.config():
                params[name] = config
    return estimator(**params)
