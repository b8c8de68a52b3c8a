"""The registry of path weightings: everything that other modules need to know about a weighting, in one table.

A weighting is one of four kinds:

- *closed form*: nothing is learned; an `EdgeWeighting` made from the names of edge inputs and the number of hops;
- *learned edges*: an `EdgeWeighting` trained from the best closed-form one, with or without hop weights and b;
- *metapaths*: a `MetapathWeighting`, in a heterogeneous graph (node or edge types), with learned or equal weights;
- *network*: a `PathWeighting` over whole paths, which multiplies the weights of the best closed-form weighting.

A weighting is *fixed* if nothing is learned: closed forms and equal weights of metapaths.

Legal values and help of the parameter `weighting`, the candidates of the model search and its dry run are derived from
this table. To add a weighting, add an entry here, or call `register_weighting` from your own code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from cge.errors import InputError
from cge.models.edge_weighting import EdgeWeighting

if TYPE_CHECKING:
    from cge.models.path_networks import PathWeighting

ClosedForm = Callable[[Sequence[str], int], EdgeWeighting]  # names of edge inputs, hops
Network = Callable[[int], "PathWeighting"]  # takes the dimension of the vectors along a path
_STEPS = "edge inputs, degrees and features of a path"  # what networks of `CGE` read


@dataclass(frozen=True)
class SearchRole:
    """When and how the model search compares a weighting.

    `group` is one of "simple" (uniform and degree; if one of them is the reference, the other is compared whatever it
    costs), "closed form", "hop profile", "metapaths" (the same weight for all) and "learned"; they are compared in this
    order. With `mlp_only` it is a candidate only if the classifier `mlp` is best or ties with the best, without label
    propagation: then neighbors often have other classes (heterophily), and it matters which hops are used.
    """

    group: str = "closed form"
    mlp_only: bool = False


@dataclass(frozen=True)
class WeightingSpec:
    """A path weighting: `closed_form`, `network`, `metapaths` or, if none is set, learned coefficients of edge inputs.

    `search` None leaves it out of the model search; `selectable` False leaves it out of the parameter `weighting`.
    `min_hops` is the smallest `hops` with which it can be used; `train_hops` trains hop weights and normalization too.
    `by_relation` normalizes by relation, `metapaths` learns weights of metapaths; both need several relations. With
    `equal_metapaths`, (largest number of edges or None, b), metapaths have equal weights, and nothing is learned.
    `paper_description` describes a network in `PaperCGE`, where it reads the node vectors of a path ("them").
    """

    name: str
    description: str
    closed_form: ClosedForm | None = None
    network: Network | None = None
    train_hops: bool = True
    needs_features: bool = False
    min_hops: int = 0
    search: SearchRole | None = None
    selectable: bool = True
    by_relation: bool = False
    metapaths: bool = False
    equal_metapaths: tuple[int | None, float] | None = None
    paper_description: str = ""

    @property
    def learned(self) -> bool:
        """Whether it is trained on labels."""
        return self.closed_form is None and self.equal_metapaths is None

    @property
    def kind(self) -> str:
        """One of "closed form", "network", "metapaths" and "learned edges"."""
        if self.closed_form is not None:
            return "closed form"
        if self.metapaths:
            return "metapaths"
        return "learned edges" if self.network is None else "network"

    def applies(self, hops: int, features: bool, relations: bool = False) -> bool:
        """Return whether it can be used with paths of up to `hops` hops, with node features and several relations."""
        needs_relations = self.by_relation or self.metapaths
        requirements_met = (features or not self.needs_features) and (relations or not needs_relations)
        return self.min_hops <= hops and requirements_met


WEIGHTINGS: dict[str, WeightingSpec] = {}


def register_weighting(spec: WeightingSpec) -> WeightingSpec:
    """Add a weighting to the registry, so that `CGE(weighting=name)` accepts it; return it.

    Examples
    --------
    >>> import cge
    >>> def two_hops(edge_inputs, hops):  # only paths of two hops
    ...     return cge.EdgeWeighting([0.0] * len(edge_inputs), 0.0, 0.5, [0.0, 0.0, 1.0] + [0.0] * (hops - 2))
    >>> spec = cge.WeightingSpec("two-hops", "only paths of two hops", closed_form=two_hops, min_hops=2)
    >>> cge.register_weighting(spec).kind
    'closed form'
    >>> del cge.models.weightings.WEIGHTINGS["two-hops"]
    """
    if spec.name in ("auto", *WEIGHTINGS):
        raise InputError(f"there is a weighting {spec.name!r} already; give yours another name")
    if spec.closed_form is not None and spec.network is not None:
        raise InputError(f"the weighting {spec.name!r} has either a closed form or a network, not both")
    WEIGHTINGS[spec.name] = spec
    return spec


def weighting_descriptions() -> dict[str, str]:
    """Return the descriptions of the weightings that `CGE` accepts by name."""
    return {name: spec.description for name, spec in WEIGHTINGS.items() if spec.selectable}


def network_descriptions() -> dict[str, str]:
    """Return the descriptions of the networks, which `PaperCGE` accepts by name; there they read node vectors."""
    networks = {name: spec for name, spec in WEIGHTINGS.items() if spec.network is not None}
    return {name: spec.paper_description or spec.description for name, spec in networks.items()}


def is_learned(weighting: str | Network) -> bool:
    """Return whether a weighting is trained on labels, by its name or as a callable; "auto" is not, by itself."""
    if not isinstance(weighting, str):
        return True
    return weighting != "auto" and (weighting not in WEIGHTINGS or WEIGHTINGS[weighting].learned)


def is_hop_profile(name: str) -> bool:
    """Return whether a weighting uses only some hops."""
    role = WEIGHTINGS[name].search if name in WEIGHTINGS else None
    return role is not None and role.group == "hop profile"


def closed_form(name: str, edge_inputs: Sequence[str], hops: int) -> EdgeWeighting:
    """Return a closed-form weighting for edge inputs of these names and paths of up to `hops` hops."""
    spec = WEIGHTINGS.get(name)
    if spec is None or spec.closed_form is None:
        raise InputError(f"{name!r} is not a registered closed-form weighting; call cge.register_weighting first")
    return spec.closed_form(edge_inputs, hops)


def make_network(weighting: str | Network, dim: int) -> PathWeighting | None:
    """Return the network of that name, or None for "uniform"; a callable gets `dim` and returns its own network."""
    if weighting == "uniform":
        return None
    from torch import nn

    from cge.models.path_networks import PathWeighting

    if isinstance(weighting, nn.Module):
        expected = f"the class {type(weighting).__name__}, not an instance"
        raise InputError(parameter="weighting", expected=expected, found=weighting)
    factory = weighting
    if isinstance(factory, str):
        spec = WEIGHTINGS.get(factory)
        if spec is None or spec.network is None:
            choices = ", ".join(repr(name) for name in ["uniform", *network_descriptions()])
            expected = f"one of {choices} or a callable that returns a cge.PathWeighting"
            raise InputError(parameter="weighting", expected=expected, found=factory)
        factory = spec.network
    network = factory(dim)
    if not isinstance(network, PathWeighting):
        raise InputError(f"{factory!r} must return a cge.PathWeighting, found a {type(network).__name__}")
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise InputError(f"{type(network).__name__} has no trainable parameters")
    return network


def equal_metapath_forms(hops: int) -> list[WeightingSpec]:
    """Return the weightings with equal weights of metapaths that paths of up to `hops` hops allow."""
    return [spec for spec in WEIGHTINGS.values() if spec.equal_metapaths is not None and spec.min_hops <= hops]


def is_by_relation(name: str) -> bool:
    """Return whether a weighting is normalized by relation."""
    return name in WEIGHTINGS and WEIGHTINGS[name].by_relation


def _hop_profile(
    shape: Sequence[float], b: float, edge_inputs: Sequence[str], hops: int, *, by_relation: bool = False
) -> EdgeWeighting:
    """Return a weighting with these hop weights, 0 for further hops; without a shape all hops have the same weight."""
    profile = [*shape, *[0.0] * (hops + 1 - len(shape))] if shape else [1.0] * (hops + 1)
    return EdgeWeighting([0.0] * len(edge_inputs), 0.0, b, profile, by_relation=by_relation)


def _cosine(edge_inputs: Sequence[str], hops: int) -> EdgeWeighting:
    coefficients = [1.0 if name == "cosine" else 0.0 for name in edge_inputs]
    return EdgeWeighting(coefficients, 1.0, 0.5, [1.0] * (hops + 1))


def _network(name: str, dim: int) -> PathWeighting:
    from cge.models import path_networks

    network: PathWeighting = getattr(path_networks, name)(dim)
    return network


def _register_all() -> None:
    simple, learned = SearchRole("simple"), SearchRole("learned")
    uniform, degree = partial(_hop_profile, (), 0.0), partial(_hop_profile, (), 0.5)
    text = "the probabilities of a random walk"
    register_weighting(WeightingSpec("uniform", text, uniform, search=simple))
    register_weighting(WeightingSpec("degree", "symmetric normalization, as in GCN", degree, search=simple))
    text = "symmetric normalization, more weight for edges between nodes of similar features"
    register_weighting(WeightingSpec("cosine", text, _cosine, needs_features=True, search=SearchRole("closed form")))
    by_relation: dict[str, Any] = {"by_relation": True, "search": SearchRole("closed form")}
    for b, name, normalization in ((0.0, "uniform", "row"), (0.5, "degree", "symmetric")):
        make = partial(_hop_profile, (), b, by_relation=True)
        relation = "relation (source type, edge type, target type)" if b == 0 else "relation"
        text = f"{normalization} normalization within each {relation}"
        register_weighting(WeightingSpec(f"relation-{name}", text, make, **by_relation))
    text = "learned weights of metapaths (sequences of relations)"
    register_weighting(WeightingSpec("metapaths", text, metapaths=True, search=learned))
    for (edges, length_text), b in product(
        ((1, " of 1 relation"), (2, " of up to 2 relations"), (None, "")), (0.0, 0.5)
    ):
        text = (
            f"the same weight for the node itself and all metapaths{length_text}, with normalization exponent b = {b:g}"
        )
        equal: dict[str, Any] = {"metapaths": True, "equal_metapaths": (edges, b), "selectable": False}
        name = f"equal weights of metapaths{length_text} (b={b:g})"
        register_weighting(WeightingSpec(name, text, search=SearchRole("metapaths"), min_hops=edges or 0, **equal))
    text = "learned weights of relations and of edge inputs, normalized within each relation"
    register_weighting(WeightingSpec("relations", text, train_hops=False, by_relation=True, search=learned))
    text = "learned coefficients of edge inputs (similarity, degrees, types)"
    register_weighting(WeightingSpec("edges", text, train_hops=False, search=learned))
    text = "learned coefficients of edge inputs, hop weights and normalization exponent"
    register_weighting(WeightingSpec("edges+hops", text, search=replace(learned, mlp_only=True)))
    average, cnn, lstm = (partial(_network, f"{name}Weighting") for name in ("Average", "Cnn", "Lstm"))
    for name, text, of_vectors, network in (
        ("average", f"linear layer on the mean of {_STEPS}", "linear layer on their mean", average),
        ("cnn", f"CNN over {_STEPS}", "CNN over them", cnn),
        ("lstm", f"LSTM over {_STEPS}", "LSTM over them", lstm),
    ):
        text = f"neural network: {text}"
        register_weighting(WeightingSpec(name, text, network=network, paper_description=of_vectors))
    # Closed forms that use only some hops, most with several normalization exponents b.
    role = SearchRole("hop profile", mlp_only=True)
    text, make = "only paths of 0 hops: the inputs of the node itself", partial(_hop_profile, (1.0,), 0.5)
    register_weighting(WeightingSpec("0 hops", text, make, search=role, selectable=False))
    shapes = {"1 hop": (0.0, 1.0), "2 hops": (0.0, 0.0, 1.0), "0+2 hops": (1.0, 0.0, 1.0)}
    for (name, shape), b in product(shapes.items(), (0.0, 0.5, 1.0)):
        hops_text = name.replace("+", " or ")
        text, make = f"only paths of {hops_text}, normalization exponent b = {b:g}", partial(_hop_profile, shape, b)
        spec = WeightingSpec(f"{name} (b={b:g})", text, make, search=role, selectable=False)
        register_weighting(replace(spec, min_hops=len(shape) - 1))


_register_all()
