"""Every method that can be named in `cge evaluate`, `cge tune` and the studies, in one table.

Code outside of this package calls `register_method`, or names a class of its own: `--method my_module:MyClassifier`.
"""

from __future__ import annotations

import inspect
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from cge.errors import InputError, Message, Spelling, did_you_mean
from cge.estimators.configs import flat_settings, make_estimator
from cge.estimators.settings import Setting


@dataclass(frozen=True)
class Range:
    """Numbers between two bounds, integers if both bounds are; with `log`, drawn on a logarithmic scale."""

    low: float
    high: float
    log: bool = False


Space = Mapping[str, Range | Sequence[Any]]  # a sequence lists the choices; an empty one stands for all legal ones


@dataclass(frozen=True)
class Method:
    """An estimator class with the settings that make it this method.

    Parameters
    ----------
    name : str
        How users name it; unique within a task.
    estimator : class, or "module:Class" to import it when it is first used
        For nodes, a class with `fit(graph, y, validation)`, `predict_proba(nodes)` and `classes_`; for links, one with
        `fit(graph)` and `embedding_` or `link_scores(pairs)`.
    description : str
    settings : dict
        Settings that define the method and cannot be changed.
    defaults : dict
        Defaults that differ from those of the class; users may change them.
    tasks : tuple of "nodes" and "links"
        Whether it classifies nodes, predicts links, or both.
    space : dict
        The settings that `cge tune` searches, each with its range or choices.
    """

    name: str
    estimator: str | type
    description: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    tasks: tuple[str, ...] = ("nodes",)
    space: Space = field(default_factory=dict)

    def estimator_class(self) -> type:
        """Return the estimator's class."""
        return self.estimator if isinstance(self.estimator, type) else _import_class(self.estimator)

    def declared_settings(self) -> dict[str, tuple[str, Setting, Any]] | None:
        """Return the settings as `settings_of` does; None for a class that does not declare its legal values."""
        try:
            return {name: setting[:3] for name, setting in flat_settings(self.estimator_class()).items()}
        except (AttributeError, KeyError):
            return None

    def parameters(self) -> list[str]:
        """Return the names of all settings."""
        return list(self.declared_settings() or inspect.signature(self.estimator_class()).parameters)


_DIM: Space = {"dim": (32, 64, 128, 256)}
_NODE2VEC: Space = {**_DIM, "p": Range(0.25, 4.0, log=True), "q": Range(0.25, 4.0, log=True)}
_NETWORK: Space = {
    "hidden": (8, 16, 32, 64, 128),
    "dropout": Range(0.0, 0.9),
    "learning_rate": Range(1e-3, 0.1, log=True),
    "weight_decay": Range(1e-5, 0.1, log=True),
}
_APPNP: Space = {**_NETWORK, "hops": Range(2, 20), "alpha": Range(0.02, 0.5, log=True)}
_UNIFORM_PAPER: Space = {
    "dim": (50, 64, 128, 256),
    "window": Range(2, 10),
    "walks_per_node": Range(2, 20),
    "learning_rate": Range(0.005, 0.5, log=True),
    "unsup_weight": Range(0.1, 10.0, log=True),
    "label_pairs": Range(0.001, 0.5, log=True),
    "supervised_strength": Range(0.0, 10.0),
    "pretrain": Range(0, 4),
    "max_epochs": Range(2, 12),
    "hidden": (16, 32, 64, 128),
    "head_lr": Range(1e-3, 0.1, log=True),
    "weight_decay": Range(1e-5, 0.1, log=True),
}
_PAPER: Space = {
    **_UNIFORM_PAPER,
    "virtual_lr": Range(0.1, 10.0, log=True),
    "weighting_lr": Range(1e-3, 0.1, log=True),
}
_CGE: Space = {
    "hops": Range(1, 10),
    "dim": (16, 32, 64, 128),
    "classifier": (),
    **dict.fromkeys(("drop_node", "drop_feature", "dropout"), Range(0.0, 0.8)),
    "consistency_weight": Range(0.1, 3.0, log=True),
    "sharpening": Range(0.05, 0.5, log=True),
    "learning_rate": Range(1e-3, 0.1, log=True),
    "weight_decay": Range(1e-5, 0.1, log=True),
}

_BASELINES = "cge.estimators.baselines"
_NETWORKS = "cge.estimators.graph_networks"
_EMBEDDINGS, _TYPED = "cge.estimators.embeddings", "cge.estimators.typed_baselines"
_PROPAGATION, _CLASS_MASS = f"{_BASELINES}:LabelPropagation", {"class_mass": True}
_CGE_CLASS, _PAPER_CLASS = "cge.estimators.cge:CGE", "cge.estimators.paper_cge:PaperCGE"
_COMMON_NEIGHBORS = "the number of common neighbors, or their Adamic-Adar index"
_LINK_PREDICTOR = "logistic regression on neighbors, paths and cosines of pairs, trained on held-out edges"
_GCN_CGE = "GCN with the class probabilities of {} as further features"
_LINKS, _BOTH = ("links",), ("nodes", "links")


def _walks(name: str, vectors: str, features: bool, space: Space) -> Method:
    description = f"logistic regression on {vectors} vectors" + (" and the node features" if features else "")
    settings = {"vectors": vectors, "features": features}
    return Method(name, f"{_BASELINES}:WalkClassifier", description, settings, space=space)


def _paper(name: str, setting: str, weighting: str, description: str) -> Method:
    space = _UNIFORM_PAPER if weighting == "uniform" else _PAPER
    settings = {"setting": setting, "weighting": weighting}
    return Method(name, _PAPER_CLASS, description, settings, tasks=_BOTH, space=space)


_TABLE = [
    Method("features", f"{_BASELINES}:FeatureClassifier", "logistic regression on the node features"),
    Method("label-propagation", _PROPAGATION, "labels propagated along edges"),
    Method("label-propagation-mass", _PROPAGATION, "label propagation with class mass normalization", _CLASS_MASS),
    _walks("deepwalk", "deepwalk", features=False, space=_DIM),
    _walks("deepwalk+features", "deepwalk", features=True, space=_DIM),
    _walks("node2vec", "node2vec", features=False, space=_NODE2VEC),
    _walks("node2vec+features", "node2vec", features=True, space=_NODE2VEC),
    Method("link-predictor", "cge.estimators.link_predictor:LinkPredictor", _LINK_PREDICTOR, tasks=_LINKS),
    Method("common-neighbors", f"{_BASELINES}:CommonNeighbors", _COMMON_NEIGHBORS, tasks=_LINKS),
    Method("deepwalk", f"{_EMBEDDINGS}:DeepWalk", "DeepWalk vectors, trained without labels", tasks=_LINKS),
    Method("node2vec", f"{_EMBEDDINGS}:Node2Vec", "node2vec vectors, trained without labels", {}, {"q": 0.5}, _LINKS),
    Method("propagated", f"{_BASELINES}:PropagatedFeatures", "features propagated along edges", tasks=_LINKS),
    _paper("planetoid-t", "transductive", "uniform", "Planetoid, transductive: uniform weights"),
    _paper("planetoid-i", "inductive", "uniform", "Planetoid, inductive: uniform weights"),
    *(
        _paper(f"cge-{letter}-{kind}", setting, kind, f"the paper's CGE-{letter.upper()}: paths weighted by {network}")
        for letter, setting in (("t", "transductive"), ("i", "inductive"))
        for kind, network in (("average", "the average of their vectors"), ("cnn", "a CNN"), ("lstm", "an LSTM"))
    ),
    Method("sgc", f"{_BASELINES}:SGC", "logistic regression on propagated features (SGC)", space={"hops": Range(1, 8)}),
    Method("gcn", f"{_NETWORKS}:GCN", "the graph convolutional network of Kipf and Welling", space=_NETWORK),
    Method("appnp", f"{_NETWORKS}:APPNP", "predictions propagated by personalized PageRank", space=_APPNP),
    Method("rgcn", f"{_TYPED}:RGCN", "the relational GCN, with weights for each relation", space=_NETWORK),
    Method("sehgnn", f"{_TYPED}:SeHGNN", "features propagated along metapaths, and attention (SeHGNN)", space=_NETWORK),
    Method("metapath2vec", f"{_TYPED}:Metapath2Vec", "logistic regression on metapath2vec vectors", space=_DIM),
    *(
        Method(f"gcn+{name}", f"{_NETWORKS}:GCN", _GCN_CGE.format(model), {"append": name}, space=_NETWORK)
        for name, model in (
            ("cge", "cge"),
            ("cge-t", "the paper's CGE-T (LSTM)"),
            ("cge-i", "the paper's CGE-I (LSTM)"),
        )
    ),
    Method("cge", _CGE_CLASS, "CGE with default parameters", tasks=_BOTH, space=_CGE),
    Method("cge-uniform", _CGE_CLASS, "cge with uniform weights", {"weighting": "uniform"}, tasks=_BOTH, space=_CGE),
]


def methods_for(task: str = "nodes") -> dict[str, Method]:
    """Return the methods of a task, "nodes" or "links", by name."""
    return {method.name: method for method in _TABLE if task in method.tasks}


def stored_kinds() -> tuple[str, ...]:
    """Return the names of the estimator classes of all methods, of which folders may hold models."""
    return tuple(dict.fromkeys(map(_class_name, _TABLE)))


def stored_class(name: str) -> Any:
    """Return an estimator class by its name; only its own module is imported."""
    return next(method for method in _TABLE if _class_name(method) == name).estimator_class()


def _class_name(method: Method) -> str:
    return method.estimator.__name__ if isinstance(method.estimator, type) else method.estimator.partition(":")[2]


def register_method(method: Method) -> None:
    """Add a method to the table, so that it can be named in `cge evaluate` and `cge tune` from this process on."""
    taken = [task for task in method.tasks if methods_for(task).get(method.name) not in (None, method)]
    if taken:
        raise InputError(f"there is already another method {method.name!r} for {taken[0]}; choose another name")
    if method not in _TABLE:
        _TABLE.append(method)


def find_method(name: str, task: str = "nodes") -> Method:
    """Return a method of a task by its name; "module:Class" stands for an estimator class of one's own."""
    methods = methods_for(task)
    if name in methods:
        return methods[name]
    if ":" in name:
        return Method(name, name, f"the class {name}", tasks=(task,))
    raise InputError(f"there is no method {name!r}; {did_you_mean(name, methods)}choose one of {', '.join(methods)}")


def make(name: str, seed: int, n_jobs: int | None = None, task: str = "nodes", /, **settings: Any) -> Any:
    """Return an untrained estimator; `settings` override the defaults of the method and `n_jobs`."""
    method = find_method(name, task)
    known = method.parameters()
    unknown = [parameter for parameter in settings if parameter not in known or parameter == "random_state"]
    if unknown:
        legal = [parameter for parameter in known if parameter != "random_state"]
        others = ", ".join(legal)
        hint = f"{did_you_mean(unknown[0], legal)}it has {others or 'none'}"
        raise InputError(f"{name} has no setting {unknown[0]!r}", hint=hint)
    for parameter, value in method.settings.items():
        if settings.get(parameter, value) != value:
            problem = f"{parameter}={settings[parameter]} would not be {name}, which has {parameter}={value}"
            raise InputError(f"{problem}; choose another method")
    common = {key: value for key, value in {"random_state": seed, "n_jobs": n_jobs}.items() if key in known}
    values = common | dict(method.defaults) | settings | dict(method.settings)
    kind = method.estimator_class()
    return kind(**values) if method.declared_settings() is None else make_estimator(kind, values)


def _import_class(reference: str) -> type:
    """Return the class that "module:Class" names; modules of the working directory are found, too."""
    module, _, name = reference.partition(":")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    try:
        estimator = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"{reference} cannot be imported: {error}") from None
    if not isinstance(estimator, type):
        raise InputError(f"{reference} is not a class")
    return estimator


def settings_from_text(pairs: list[str]) -> dict[str, Any]:
    """Return settings given as `name=value`; values are TOML, yes, no and none; everything else is text.

    >>> settings_from_text(["dim=64", "classifier=mlp", "refit=no", "n_jobs=none"])
    {'dim': 64, 'classifier': 'mlp', 'refit': False, 'n_jobs': None}
    """
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise InputError(Message(Spelling("a setting", "--set"), f" takes the form name=value, found {pair!r}"))
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except (ValueError, RecursionError):  # not TOML: words, but also numbers with thousands of digits
            value = text
        settings[name] = {"none": None, "yes": True, "no": False}.get(text.lower(), value)
    return settings
