"""How the path weighting of a trained model compares with uniform weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cge.arrays import Array
from cge.errors import counted
from cge.explain.explainer import Explainer
from cge.graph import Graph
from cge.sampling import Walker
from cge.targets import SingleLabel, Target, TargetTexts

_WALKS = 2000  # whose prefixes are weighed
_NODES = 200  # whose contributions are averaged
_NEARLY_UNIFORM = 0.05  # standard deviation of log-weights
_COLLAPSED = 0.02  # effective fraction of the paths, and mean weight where weights are from 0 to 1


@dataclass(frozen=True)
class Gain:
    """The accuracy of a model above that of uniform weights on `n_labels` labels, with its 95 % confidence interval.

    The interval is that of Agresti and Min, `cge.targets.score_intervals.accuracy_difference_interval`; in a multilabel
    task, the F1 of a node's classes is used. In regression the gain is the difference of R², and its interval that of a
    normal distribution.

    `selected` says that this weighting was selected among others on the same labels, so the gain is optimistic;
    `early`, that both were compared after the first epochs of training.
    """

    mean: float
    low: float
    high: float
    n_labels: int
    selected: bool = False
    early: bool = False
    texts: TargetTexts = field(default=SingleLabel.texts, repr=False)

    @classmethod
    def from_mean(cls, mean: float, error: float, n_labels: int, target: Target, **flags: bool) -> Gain | None:
        """Return the gain of that mean and standard error over nodes; None where there is none."""
        if n_labels < 2 or not np.isfinite(error):
            return None
        low, high = target.difference_interval(mean, error, n_labels)
        return cls(mean, low, high, n_labels, **flags, texts=target.texts)

    @classmethod
    def between(cls, correct: Array, baseline: Array, target: Target, **flags: bool) -> Gain | None:
        """Return the gain over a baseline from `target.node_correct` of both, `(k,)`."""
        difference = np.asarray(correct, float) - np.asarray(baseline, float)
        n_labels = len(difference)
        error = float(difference.std(ddof=1) / np.sqrt(n_labels)) if n_labels > 1 else np.inf
        return cls.from_mean(float(difference.mean()) if n_labels else 0.0, error, n_labels, target, **flags)

    def describe(self, kind: str = "") -> str:
        """Return the gain in words; `kind` is the kind of labels, such as "validation"."""
        texts = self.texts
        side = texts.better_than if self.mean > 0 else texts.worse_than if self.mean < 0 else texts.equal_to
        points = "" if self.mean == 0 else f"{texts.number(abs(self.mean))}{texts.difference_unit} "
        excludes_zero = self.mean == 0 or self.low > 0 or self.high < 0
        low, high = (texts.number(bound, "+") for bound in (self.low, self.high))
        interval = f"95 % confidence interval of the difference: {low} to {high}{texts.difference_unit}"
        interval += "" if excludes_zero else ", which includes 0"
        labels = f"{kind} labels" if kind else "labels"
        return f"{points}{side} uniform weights on {self.n_labels:,} {labels} ({interval})"

    def __str__(self) -> str:
        return self.describe()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {name: value for name, value in vars(self).items() if name != "texts"}

    @property
    def caveat(self) -> str:
        """A sentence about what biases the comparison; empty if nothing does."""
        early = " in the model search, before training was complete" if self.early else ""
        if self.selected:
            optimistic = ", so the gain is optimistic" if self.mean > 0 else ""
            comma = "," if early else ""
            return f"Compared{early}{comma} on the labels on which the weighting was selected{optimistic}."
        return f"Compared{early}." if early else ""


@dataclass(frozen=True)
class WeightingComparison:
    """How a path weighting compares with uniform weights; `print` shows it in words.

    Attributes
    ----------
    weighting : str
        The path weighting.
    gain : Gain or None
        Over uniform weights on the validation labels; None where the two were not compared.
    effective_fraction : float
        The effective sample size (Σ|a|)² / Σa² as a fraction of the n sampled paths, for their relative weights a
        (`PaperCGE`: A): 1 for uniform weights.
    weight_by_hop : tuple of float
        The mean of |a| over the sampled paths of 0, 1, … hops.
    contribution_by_hop : tuple of float
        The contribution of paths of 0, 1, … hops to the score of the predicted class, in a single-label task minus
        their mean contribution to all classes; or to the predicted value. A mean over some nodes.
    nearly_uniform, collapsed : bool
        Whether paths with the same number of hops have about the same relative weight; whether almost all weight is on
        a few paths, or all weights are nearly zero.
    exact : bool
        Whether scores are sums over paths: True for `CGE`, False for `PaperCGE`.
    centered : bool
        Whether `contribution_by_hop` is relative to the mean over classes: True in a single-label task.
    """

    weighting: str
    gain: Gain | None
    effective_fraction: float
    weight_by_hop: tuple[float, ...]
    contribution_by_hop: tuple[float, ...]
    nearly_uniform: bool
    collapsed: bool
    exact: bool = True
    centered: bool = True
    texts: TargetTexts = field(default=SingleLabel.texts, repr=False)

    @property
    def strongest_hop(self) -> int:
        """The number of hops with the largest contribution."""
        return max(self._used_hops, key=lambda hop: self.contribution_by_hop[hop])

    @property
    def weakest_hop(self) -> int:
        """The number of hops with the smallest contribution."""
        return min(self._used_hops, key=lambda hop: self.contribution_by_hop[hop])

    @property
    def _used_hops(self) -> list[int]:
        """The numbers of hops with any contribution."""
        return [hop for hop, contribution in enumerate(self.contribution_by_hop) if contribution] or [0]

    def sentences(self, label: str = "Weighting: ") -> list[str]:
        """Return the comparison in words; `label` precedes the name of the weighting."""
        weight, symbol = "weight", "A"
        if self.exact:
            weight, symbol = "relative weight (path weight divided by that in a random walk)", "a"
        if self.weighting == "uniform" and not self.exact:
            sentences = [f"{label}uniform. There is no network: A(p) = 1 for every path."]
        elif self.weighting == "uniform":
            sentences = ["Uniform weights: those of a random walk; every path has relative weight 1."]
        elif self.gain is None:
            sentences = [f"{label}{self.weighting}. It was not compared with uniform weights in training."]
        else:
            sentences = [f"{label}{self.weighting}, {self.gain.describe('validation')}."]
            sentences += [self.gain.caveat] if self.gain.caveat else []
        if self.collapsed:
            sentences.append(
                "The weights have collapsed: almost all weight is on a few paths, or all weights are nearly zero."
            )
        elif self.nearly_uniform and self.weighting != "uniform":
            sentences.append(
                f"The weights are nearly uniform: paths with the same number of hops have about the same {weight}."
            )
        elif not self.nearly_uniform:
            share = f"{100 * self.effective_fraction:.0f} % of the paths of random walks"
            ratio = f"(Σ|{symbol}|)²/(n Σ{symbol}²), where {symbol} is the {weight} of each of the n paths"
            sentences.append(
                f"The effective sample size of the path weights is {share} (100 % for uniform weights): {ratio}."
            )
        if len(self._used_hops) > 1:
            numbers = [f"{value:+.2f}".replace("-", "−") for value in self.contribution_by_hop]
            extremes = self.strongest_hop, self.weakest_hop
            most, least = (f"{counted(hop, 'hop')} ({numbers[hop]})" for hop in extremes)
            ranked = f"Paths of {most} contribute most to the predictions, those of {least} least"
            sentences.append(f"{ranked} ({self.texts.contribution}, averaged over nodes).")
        return sentences

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        plain = {name: value for name, value in vars(self).items() if name != "texts"}
        plain["gain"] = None if self.gain is None else self.gain.to_dict()
        return plain | {"strongest_hop": self.strongest_hop, "weakest_hop": self.weakest_hop}


def weighting_comparison(
    weighting: str,
    weigh: Callable[[list[Array]], Array],
    graph: Graph,
    explainer: Explainer,
    gain: Gain | None,
    seed: int,
) -> WeightingComparison:
    """Return how the weighting of a model compares; `weigh` returns what `path_weights` does, for node numbers."""
    longest = explainer.paths.hops + 1
    stream = ("worth",)  # key of the random stream; a new name would change results
    walker = Walker(graph, longest, max(_WALKS // max(len(graph), 1), 1), seed=seed, stream=stream)
    rows = np.linspace(0, walker.num_walks - 1, min(_WALKS, walker.num_walks)).astype(np.int64)
    walks = walker.sample(0, walker.num_walks)[rows].astype(np.int64)
    by_hop = []
    for length in range(1, longest + 1):
        prefixes = walks[(walks[:, :length] >= 0).all(axis=1), :length]
        if len(prefixes):
            by_hop.append(np.abs(weigh(list(prefixes)).astype(np.float64)))
    weights = np.concatenate(by_hop)
    spread = [float(np.log(values[values > 0]).std()) if (values > 0).any() else 0.0 for values in by_hop]
    effective = float(weights.sum() ** 2 / max(len(weights) * (weights**2).sum(), 1e-300))
    # Where scores are a sum over paths, only the ratios of weights matter.
    vanished = not explainer.paths.exact and weighting != "uniform" and float(weights.mean()) < _COLLAPSED
    nodes = np.linspace(0, len(graph) - 1, min(_NODES, len(graph))).astype(np.int64)
    contributions = tuple(explainer.mean_contributions(nodes).tolist())
    means = effective, tuple(float(values.mean()) for values in by_hop), contributions
    nearly_uniform, collapsed = max(spread) < _NEARLY_UNIFORM, vanished or effective < _COLLAPSED
    target = explainer.labels.target
    flags = nearly_uniform, collapsed, explainer.paths.exact, target.exclusive_classes
    return WeightingComparison(weighting, gain, *means, *flags, target.texts)
