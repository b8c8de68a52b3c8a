"""Groups of settings: how the networks are trained, and how the outer problem is solved.

An estimator takes such a group as an object, or as a dict with some of its fields: `CGE(training={"max_epochs": 200})`.
The command line, TOML files and `cge tune` have one flat list of names instead; `flat_settings` and `make_estimator`
translate.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from cge.errors import FileFormatError, InputError, Message, format_list, format_value
from cge.estimators.settings import Setting, documented, param, settings_of

Config = TypeVar("Config")

_PATIENCE = "epochs without a better validation score (accuracy, then loss) after which training stops"


def _optional(text: str, owner: str = "classifier, see docs/concepts.md", **bounds: float) -> Any:
    return param(None, text, optional=True, none=f"depends on the {owner}", **bounds)


@documented
@dataclass(frozen=True)
class TrainingConfig:
    """How the classifiers of `CGE` are trained; None in a field uses the default of the classifier."""

    learning_rate: float | None = _optional("learning rate of Adam", above=0, high=10)
    weight_decay: float | None = _optional("weight decay", low=0, high=10)
    max_epochs: int | None = _optional("maximum number of epochs", low=1)
    patience: int = param(100, _PATIENCE, low=1)
    n_augmentations: int | None = _optional("augmented forward passes per epoch", low=1, high=100)
    drop_node: float | None = _optional(
        "probability that an augmentation drops all inputs of a node (DropNode)", low=0, high=0.95
    )
    drop_feature: float | None = _optional(
        "probability that an augmentation sets an entry of the inputs to zero (of the propagated ones, if they are "
        "dense and drop_node is 0)",
        low=0,
        high=0.95,
    )
    dropout: float | None = _optional("dropout probability of hidden units", low=0, high=0.95)
    consistency_weight: float | None = _optional(
        "weight of the consistency loss; for 'distilled', of the distillation loss", low=0, high=100
    )
    sharpening: float | None = _optional(
        "temperature that sharpens the mean prediction in the consistency loss, lower is sharper", low=0.01, high=1
    )


@documented
@dataclass(frozen=True)
class OuterConfig:
    """How `CGE` learns a weighting: the outer problem, on held-out folds of the training labels.

    'metapaths', learned on the held-out loss of a ridge regression, uses only `n_folds`. On large graphs `outer_steps`
    and `warmup_steps` are reduced, at most to a third.
    """

    n_folds: int = param(
        3, "folds of the training labels; each fold in turn is held out for the loss of the weighting", low=2, high=100
    )
    outer_steps: int = param(150, "gradient steps of the weighting", low=1, high=100_000)
    warmup_steps: int = param(
        30, "steps that train the fold classifiers before the weighting is updated", low=1, high=100_000
    )
    weighting_lr: float = param(0.03, "learning rate of the weighting", above=0, high=10)
    init_penalty: float = param(1.0, "penalty on the squared distance from the initial weighting", low=0, high=1e6)


@documented
@dataclass(frozen=True)
class PaperTrainingConfig:
    """How `PaperCGE` trains vectors and classifier: the inner problem (Algorithm 1, lines 3 and 4)."""

    pretrain: int = param(2, "pre-training epochs, in which labels do not change the vectors", low=0)
    max_epochs: int = param(4, "maximum number of epochs after pre-training, each over all walks", low=1)
    patience: int = param(3, _PATIENCE, low=1)
    optimizer: str = param(
        "auto",
        "optimizer of the vectors ('auto': sgd, as in the paper, for embedding tables, adam for networks)",
        choices=("auto", "sgd", "adam", "adagrad"),
    )
    learning_rate: float | None = _optional(
        "initial learning rate of the vectors, which falls linearly", "optimizer", above=0, high=10
    )
    supervised_strength: float = param(
        1.0,
        "weight of the supervised gradient of the vectors, in every step after pre-training; 1 is the paper's",
        low=0,
        high=1000,
    )
    head_steps: int = param(20, "gradient steps of the classification head per epoch", low=1)
    head_lr: float | None = _optional(
        "learning rate of the classification head and of the feature encoder", "optimizer", above=0, high=1000
    )
    weight_decay: float = param(5e-4, "weight decay of the classification head", low=0, high=10)


@documented
@dataclass(frozen=True)
class PaperOuterConfig:
    """How `PaperCGE` trains the weighting network: the outer problem (Algorithm 1, line 5)."""

    virtual_lr: float = param(
        1.0, "ξ: step size of the unrolled step; 0 gives the first-order approximation", low=0, high=1e6
    )
    weighting_lr: float | None = _optional("learning rate of the weighting network", "optimizer", above=0, high=1000)
    outer_steps: int | None = param(
        None,
        "gradient steps of the weighting network per epoch",
        low=1,
        optional=True,
        none="one after each batch of walks",
    )
    outer_paths: int = param(2048, "paths sampled per outer step", low=1)


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
    """Return all settings of an estimator class by name, with those of its groups in the place of the groups."""
    flat: dict[str, FlatSetting] = {}
    for name, spec in settings_of(estimator).items():
        config = spec[1].config
        inner = {name: spec} if config is None else settings_of(config)
        flat |= {field: FlatSetting(*inner[field], None if config is None else name) for field in inner}
    return flat


def flat_params(model: Any) -> dict[str, Any]:
    """Return the settings of an estimator by their flat names."""
    params: dict[str, Any] = {}
    for name, (_, spec, _) in settings_of(type(model)).items():
        value = getattr(model, name)
        params |= {name: value} if spec.config is None else asdict(as_config(spec.config, value))
    return params


def make_estimator(estimator: type, settings: Mapping[str, Any]) -> Any:
    """Return an untrained estimator from settings by their flat names."""
    known = flat_settings(estimator)
    unknown = [name for name in settings if name not in known]
    if unknown:
        raise InputError(f"{estimator.__name__} has no setting {unknown[0]!r}; it has {format_list(sorted(known))}")
    params = {name: value for name, value in settings.items() if known[name].group is None}
    for name, (_, spec, _) in settings_of(estimator).items():
        if spec.config is not None:
            inner = {field.name: settings[field.name] for field in fields(spec.config) if field.name in settings}
            config = spec.config(**inner)
            if config != spec.config():
                params[name] = config
    return estimator(**params)


def read_settings(
    file: str | Path, known: Mapping[str, tuple[Any, ...]] | None = None, options: Collection[str] = ()
) -> dict[str, Any]:
    """Return the settings in a TOML file; "none" stands for None.

    Names other than `known` and `options`, and illegal values of `known` (from `flat_settings`), are refused.
    """
    path = Path(file)
    text, content = read_toml(path)
    table = next((name for name, value in content.items() if isinstance(value, dict)), None)
    if table is not None:
        raise FileFormatError(path, f"found the table [{table}]", hint="write all settings at the top level")
    settings = {name: None if value == "none" else value for name, value in content.items()}
    if known is None:
        return settings
    for name, value in settings.items():
        if name in options:
            continue
        if name not in known:
            close = get_close_matches(name, [*known, *options], n=1, cutoff=0.0)
            hint = f"the closest name is {close[0]!r}" if close else "there are none"
            raise FileFormatError(path, f"there is no setting {name!r}", _line(text, name), hint=hint)
        kind, setting = known[name][:2]
        if not setting.allows(kind, value):
            problem = Message(f"{name} must be ", setting.expected(kind, value), f", found {format_value(value)}")
            raise FileFormatError(path, problem, _line(text, name), parameter=name)
    return settings


def read_toml(file: str | Path) -> tuple[str, dict[str, Any]]:
    """Return the text of a TOML file and its content."""
    path = Path(file)
    try:
        text = path.read_text(encoding="utf-8")
        return text, tomllib.loads(text)
    except FileNotFoundError:
        raise FileFormatError(path, "there is no such file") from None
    except OSError as error:
        raise FileFormatError(path, f"the file cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise FileFormatError(path, f"the file is not valid TOML: {error}") from None


def _line(text: str, name: str) -> int | None:
    """Return the line that sets a name."""
    assignment = re.compile(rf"""\s*(["']?){re.escape(name)}\1\s*=""")
    return next((number for number, line in enumerate(text.splitlines(), 1) if assignment.match(line)), None)
