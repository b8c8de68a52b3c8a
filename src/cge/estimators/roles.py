"""Which labels train, which weigh paths, and which choose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.data.splits import folds as stratified_folds

__all__ = ["Progress", "folds_of", "hold_out"]

Array = npt.NDArray[Any]
Progress = Callable[[Any], None] | None


def hold_out(codes: Array, nodes: Array, share: float, seed: int) -> tuple[Array, Array]:
    """Return the nodes that stay for training and those whose labels choose; no class loses its last label."""
    nothing = np.empty(0, np.int64)
    exact = Fraction(share).limit_denominator(10)  # so many of so many equal parts
    parts = exact.denominator
    if not 0 < exact < 1 or parts > len(nodes):
        return nodes, nothing
    held = np.concatenate(stratified_folds(nodes, codes, parts, seed)[: exact.numerator])
    kept = np.setdiff1d(nodes, held)
    if len(kept) < 2:
        return nodes, nothing
    if codes.ndim == 1:
        alone = ~np.isin(codes[held], codes[kept])
    else:
        alone = (codes[held] > codes[kept].any(axis=0)).any(axis=1)
    return np.sort(np.concatenate([kept, held[alone]])), held[~alone]


def folds_of(codes: Array, nodes: Array, count: int, seed: int) -> Sequence[Array]:
    """Return nodes in `count` parts, fewer where there are fewer nodes, classes spread evenly."""
    return stratified_folds(nodes, codes, min(count, len(nodes)), seed)
