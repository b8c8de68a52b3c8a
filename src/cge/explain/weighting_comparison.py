"""Was it worth it? What the weights of a trained model came to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from cge.explain.explainer import Explainer
from cge.graph import Graph
from cge.sampling import Walker

__all__ = ["Gain", "WeightingComparison", "weighting_comparison"]

Array = npt.NDArray[Any]

_WALKS = 2000  # whose beginnings are looked at
_NODES = 200  # whose paths are looked at
_FLAT = 0.05  # spread of log-weights below which all paths weigh alike
_COLLAPSED = 0.02  # share of the paths that all the weight rests on, and mean weight where weights are from 0 to 1


@dataclass(frozen=True)
class Gain:
    """How much more often weights are right than A ≡ 1 on some `labels`, with the 95 % interval of that.

    The interval is that of Agresti and Min (2005, https://doi.org/10.1002/sim.1781) for shares of the same nodes: to
    each of the four counts, of nodes that both, one, the other or neither has right, a half is added. So it has a width
    even where both are right on the same nodes. With several labels per node, what counts as right is the F1 of a
    node's classes.

    `chose` says that the labels also chose these weights among others, which flatters the gain; `early`, that both were
    judged after the first epochs of training.
    """

    mean: float
    low: float
    high: float
    labels: int
    chose: bool = False
    early: bool = False

    @classmethod
    def of(cls, mean: float, error: float, labels: int, **told: bool) -> Gain | None:
        """Return the gain of that mean and standard error over nodes; None where there is none."""
        if labels < 2 or not np.isfinite(error):
            return None
        # Differences are 1, −1 and 0. The halves add nothing to their sum, 1 to the sum of squares, 2 to the nodes.
        total, squares, nodes = labels * mean, labels * (labels - 1) * error**2 + labels * mean**2 + 1, labels + 2
        half = float(stats.norm.ppf(0.975)) * np.sqrt(max(squares - total**2 / nodes, 0.0)) / nodes
        low, high = max(total / nodes - half, -1.0), min(total / nodes + half, 1.0)
        return cls(mean, float(low), float(high), labels, **told)

    @classmethod
    def between(cls, one: Array, other: Array, **told: bool) -> Gain | None:
        """Return the gain of one over the other, node by node: `(k,)`, how right each is."""
        apart = np.asarray(one, float) - np.asarray(other, float)
        error = float(apart.std(ddof=1) / np.sqrt(len(apart))) if len(apart) > 1 else np.inf
        return cls.of(float(apart.mean()) if len(apart) else 0.0, error, len(apart), **told)

    def __str__(self) -> str:
        side = "ahead of" if self.mean > 0 else "behind" if self.mean < 0 else "level with"
        points = "" if self.mean == 0 else f"{100 * abs(self.mean):.1f} points "
        doubt = "" if self.mean == 0 or self.low > 0 or self.high < 0 else ", so it may be chance"
        low, high = (f"{100 * one:+.1f}".replace("-", "−") for one in (self.low, self.high))
        return f"{points}{side} A ≡ 1 on {self.labels:,} labels (95 % interval {low} to {high}{doubt})"

    @property
    def caveat(self) -> str:
        """What to keep in mind, in a sentence; nothing where there is nothing."""
        if self.chose:
            early = "; both were judged after their first epochs" if self.early else ""
            return f"These labels also chose the weights, which flatters the gain{early}."
        return "Both were judged after their first epochs." if self.early else ""


@dataclass(frozen=True)
class WeightingComparison:
    """What weights came to; `print` says it in words.

    Attributes
    ----------
    weights : str
        What weighs paths.
    gain : Gain or None
        Against A ≡ 1 on the selection labels; None where nobody compared the two.
    effective : float
        (ΣA)² / ΣA² as a share of the paths that were sampled: 1 where all weigh alike.
    by_length : tuple of float
        The mean weight of paths with 0, 1, … steps.
    by_hop : tuple of float
        What paths of 0, 1, … steps bring to the score of the predicted class, above what they bring to classes on
        average; a mean over some nodes.
    flat, collapsed : bool
        Whether all paths of a length weigh about the same; whether almost all weight rests on few paths, or is gone.
    """

    weights: str
    gain: Gain | None
    effective: float
    by_length: tuple[float, ...]
    by_hop: tuple[float, ...]
    flat: bool
    collapsed: bool

    @property
    def most(self) -> int:
        """Number of steps of the paths that bring most."""
        return max(self._used, key=lambda hop: self.by_hop[hop])

    @property
    def least(self) -> int:
        """Number of steps of the paths that bring least."""
        return min(self._used, key=lambda hop: self.by_hop[hop])

    @property
    def _used(self) -> list[int]:
        """The numbers of steps of which there are paths that bring anything."""
        return [hop for hop, brings in enumerate(self.by_hop) if brings] or [0]

    def sentences(self) -> list[str]:
        """Say it in words."""
        if self.weights == "uniform":
            told = ["All paths weigh alike (A ≡ 1)."]
        elif self.gain is None:
            told = [f"The weights are {self.weights}; training did not compare them with A ≡ 1."]
        else:
            told = [f"The weights are {self.weights}: {self.gain}.", *([self.gain.caveat] if self.gain.caveat else [])]
        if self.collapsed:
            told.append("They have collapsed: almost no path has any weight.")
        elif self.flat and self.weights != "uniform":
            told.append("They are flat: paths of the same length weigh about the same.")
        elif not self.flat:
            told.append(f"They weigh as {100 * self.effective:.0f} % of the paths would, if these counted alike.")
        if len(self._used) > 1:
            brings = [f"{one:+.2f}".replace("-", "−") for one in self.by_hop]
            words = [f"{k} step{'' if k == 1 else 's'} ({brings[k]})" for k in (self.most, self.least)]
            told.append(f"Paths of {words[0]} bring most to the predicted classes, those of {words[1]} least.")
        return told

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def facts(self) -> dict[str, Any]:
        """Return all of it as plain values, for JSON."""
        return asdict(self) | {"most": self.most, "least": self.least}


def weighting_comparison(
    weights: str,
    weigh: Callable[[list[Array]], Array],
    graph: Graph,
    explainer: Explainer,
    gain: Gain | None,
    seed: int,
) -> WeightingComparison:
    """Return what the weights of a model came to; `weigh` gives A of paths of node numbers."""
    longest = explainer.paths.hops + 1
    walker = Walker(graph, longest, max(_WALKS // max(len(graph), 1), 1), seed=seed, stream=("worth",))
    chosen = np.linspace(0, walker.num_walks - 1, min(_WALKS, walker.num_walks)).astype(np.int64)
    walks = walker.sample(0, walker.num_walks)[chosen].astype(np.int64)
    found = []
    for length in range(1, longest + 1):
        some = walks[(walks[:, :length] >= 0).all(axis=1), :length]
        if len(some):
            found.append(np.abs(weigh(list(some)).astype(np.float64)))
    every = np.concatenate(found)
    spread = [float(np.log(one[one > 0]).std()) if (one > 0).any() else 0.0 for one in found]
    effective = float(every.sum() ** 2 / max(len(every) * (every**2).sum(), 1e-300))
    # Where scores are a sum over paths, only what weights are relative to each other matters.
    gone = not explainer.paths.exact and weights != "uniform" and float(every.mean()) < _COLLAPSED
    return WeightingComparison(
        weights,
        gain,
        effective,
        tuple(float(one.mean()) for one in found),
        tuple(explainer.useful(np.linspace(0, len(graph) - 1, min(_NODES, len(graph))).astype(np.int64)).tolist()),
        flat=max(spread) < _FLAT,
        collapsed=gone or effective < _COLLAPSED,
    )
