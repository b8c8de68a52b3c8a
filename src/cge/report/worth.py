"""Was it worth it? What the weights of a trained model came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.sampling import Walker

__all__ = ["Worth", "worth_of"]

Array = npt.NDArray[Any]

_WALKS = 2000  # paths that are looked at
_FLAT = 0.05  # spread of log-weights below which all paths weigh alike
_COLLAPSED = 0.02  # share of paths that all the weight rests on


@dataclass(frozen=True)
class Worth:
    """What weights came to.

    `gain` and `error` are points of accuracy on the selection labels that the weights in use are ahead of A ≡ 1, with
    the standard error of the difference; None where the two were not compared. `effective` is (Σa)² / Σa² as a share of
    sampled paths of all lengths: 1 where all weigh alike. `by_length` is the mean weight of paths with so many steps.
    """

    weights: str
    gain: float | None
    error: float | None
    effective: float
    by_length: tuple[float, ...]
    flat: bool
    collapsed: bool

    def sentences(self) -> list[str]:
        """Say it in words."""
        told = []
        if self.weights == "none":
            told.append("All paths weigh alike (A ≡ 1): no other weights were better on the selection labels.")
        elif self.gain is None:
            told.append(f"The weights are {self.weights}, as asked for; they were not compared with A ≡ 1.")
        else:
            sign = "ahead of" if self.gain > 0 else "level with" if self.gain == 0 else "behind"
            told.append(
                f"The weights are {self.weights}: {100 * abs(self.gain):.1f} ± {100 * (self.error or 0):.1f} points "
                f"{sign} A ≡ 1 on the selection labels (± is one standard error)."
            )
        if self.collapsed:
            told.append("The weights have collapsed: almost all weight rests on a few paths.")
        elif self.flat:
            told.append("The weights are flat: all paths of a length weigh about the same.")
        else:
            told.append(f"They make {100 * self.effective:.0f} % of the paths count, in effect.")
        if len(self.by_length) > 1:
            order = np.argsort(self.by_length)
            told.append(f"Paths of {order[-1]} steps weigh most, those of {order[0]} least.")
        return told


def worth_of(model: Any, seed: int = 0) -> Worth:
    """Return what the weights of a trained `CGE` came to."""
    fitted = model._fitted
    longest = len(fitted.plan.weights.steps.hops) if hasattr(fitted, "plan") else int(model.window)
    graph = model.graph_
    passes = max(_WALKS // max(len(graph), 1), 1)
    walker = Walker(graph, longest, passes, seed=seed, stream=("worth",))
    chosen = np.linspace(0, walker.num_walks - 1, min(_WALKS, walker.num_walks)).astype(np.int64)
    walks = walker.sample(0, walker.num_walks)[chosen]
    weights, by_length, spread = [], [], []
    for length in range(1, longest + 1):
        some = walks[(walks[:, :length] >= 0).all(axis=1), :length].astype(np.int64)
        if not len(some):
            break
        found = np.abs(fitted.path_weights(list(some)).astype(np.float64))
        weights.append(found)
        by_length.append(float(found.mean()))
        positive = found[found > 0]
        spread.append(float(np.log(positive).std()) if len(positive) else 0.0)
    every = np.concatenate(weights)
    effective = float(every.sum() ** 2 / max(len(every) * (every**2).sum(), 1e-300))
    gain, error = _gain(model)
    return Worth(
        str(model.weights_),
        gain,
        error,
        effective,
        tuple(by_length),
        flat=max(spread) < _FLAT,
        collapsed=effective < _COLLAPSED,
    )


def _gain(model: Any) -> tuple[float | None, float | None]:
    """Return by how much the weights in use are ahead of A ≡ 1, where both were judged by the same reader."""
    best = {}
    for one in model.compared_:
        key = one["weights"], one["reader"]
        best[key] = one["accuracy"]
    readers = {reader for weights, reader in best if weights == "none"}
    mine = [(reader, value) for (weights, reader), value in best.items() if weights == model.weights_]
    both = [(value - best["none", reader]) for reader, value in mine if reader in readers]
    if model.weights_ == "none" or not both:
        return None, None
    errors = [one["error"] for one in model.compared_ if one["weights"] in ("none", model.weights_) and one["error"]]
    return max(both), max(errors) if errors else None
