"""All methods by name: the product, the paper's models, and what they are compared with."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from cge.errors import InputError
from cge.estimators.settings import settings_of

__all__ = ["LINK_METHODS", "METHODS", "Method", "make", "settings_from_text"]


@dataclass(frozen=True)
class Method:
    """An estimator with the settings that make it this method."""

    estimator: str
    about: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def kind(self) -> Any:
        """Return the estimator's class."""
        module, _, name = self.estimator.partition(":")
        return getattr(import_module(f"cge.estimators.{module}"), name)


def _walks(vectors: str, features: bool) -> Method:
    about = f"logistic regression on the vectors of {vectors}" + (" and the features" if features else "")
    return Method("baselines:WalkClassifier", about, {"vectors": vectors, "features": features})


def _paper(encoder: str, weighting: str) -> Method:
    about = f"the paper's CGE-{'T' if encoder == 'table' else 'I'}, paths weighed by {weighting}"
    return Method("cge:CGE", about, {"encoder": encoder, "weighting": weighting})


METHODS: dict[str, Method] = {
    "features": Method("baselines:FeatureClassifier", "logistic regression on the features of a node"),
    "label-propagation": Method("baselines:LabelPropagation", "labels spread along edges"),
    "label-propagation-mass": Method(
        "baselines:LabelPropagation", "the same, scaled to the classes' shares", {"class_mass": True}
    ),
    "deepwalk": _walks("deepwalk", features=False),
    "deepwalk+features": _walks("deepwalk", features=True),
    "node2vec": _walks("node2vec", features=False),
    "node2vec+features": _walks("node2vec", features=True),
    "planetoid-t": Method("cge:CGE", "Planetoid, transductive: A ≡ 1", {"encoder": "table", "weighting": "uniform"}),
    "planetoid-i": Method("cge:CGE", "Planetoid, inductive: A ≡ 1", {"encoder": "features", "weighting": "uniform"}),
    **{f"cge-t-{kind}": _paper("table", kind) for kind in ("average", "cnn", "lstm")},
    **{f"cge-i-{kind}": _paper("features", kind) for kind in ("average", "cnn", "lstm")},
    "sgc": Method("baselines:SGC", "logistic regression on smoothed features"),
    "gcn": Method("graph_networks:GCN", "the graph convolutional network of Kipf and Welling"),
    "appnp": Method("graph_networks:APPNP", "predictions spread by personalized PageRank"),
    "gcn+cge": Method("graph_networks:GCN", "GCN with the chances of cge among its features", {"append": "cge"}),
    "cge": Method("cge:CGE", "the defaults of this package"),
    "cge-uniform": Method("cge:CGE", "the same with A ≡ 1", {"weighting": "uniform"}),
}

# What has vectors of nodes, or scores of pairs, can tell which nodes are linked.
LINK_METHODS: dict[str, Method] = {
    "common-neighbors": Method(
        "common_neighbors:CommonNeighbors", "neighbors that two nodes share, plain or Adamic-Adar"
    ),
    "deepwalk": Method("embeddings:DeepWalk", "vectors of deepwalk, which no label has seen"),
    "node2vec": Method("embeddings:Node2Vec", "vectors of node2vec, which no label has seen", {"q": 0.5}),
    **{name: method for name, method in METHODS.items() if method.estimator == "cge:CGE"},
}


_DEFINING = ("append", "class_mass", "encoder", "features", "vectors", "weighting")  # what makes a method this one


def make(
    name: str,
    seed: int,
    n_jobs: int | None = None,
    methods: Mapping[str, Method] = METHODS,
    /,
    **settings: Any,
) -> Any:
    """Return an untrained estimator; `settings` go before those of the method and before `n_jobs`."""
    if name not in methods:
        raise InputError(f"there is no method {name!r}; choose one of {', '.join(methods)}")
    method = methods[name]
    kind = method.kind()
    known = settings_of(kind)
    strange = [one for one in settings if one not in known or one == "random_state"]
    if strange:
        format_list = ", ".join(one for one in known if one != "random_state") or "uniform"
        raise InputError(f"{name} has no setting {strange[0]!r}; it has {format_list}")
    for one, value in settings.items():
        if one in _DEFINING and one in method.settings and value != method.settings[one]:
            raise InputError(
                f"{one}={value} would not be {name}, which has {one}={method.settings[one]}; choose another method"
            )
    given: dict[str, Any] = {"random_state": seed, "n_jobs": n_jobs}
    given = {what: value for what, value in given.items() if what in known} | dict(method.settings)
    for one, value in settings.items():  # text and TOML have one word for None and for the choice "uniform"
        given[one] = "uniform" if value is None and "uniform" in known[one][1].choices else value
    return kind(**given)


def settings_from_text(pairs: list[str]) -> dict[str, Any]:
    """Return settings that came as `name=value`; values are TOML, and what is none is text.

    >>> settings_from_text(["dim=64", "classifier=deep", "refit=false", "n_augmentations=none"])
    {'dim': 64, 'reader': 'deep', 'refit': False, 'passes': None}
    """
    found = {}
    for pair in pairs:
        name, mark, text = pair.partition("=")
        if not mark or not name:
            raise InputError(f"--set takes name=value, found {pair!r}")
        found[name] = _value(text)
    return found


def _value(text: str) -> Any:
    if text.lower() == "uniform":
        return None
    try:
        return tomllib.loads(f"it = {text}")["it"]
    except (ValueError, RecursionError):  # no TOML, numbers of thousands of digits, lists in lists in lists
        return text
