"""Splits of the training labels: validation labels, and folds of the outer problem."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from cge.arrays import Array
from cge.data.splits import folds as stratified_folds


def hold_out(codes: Array, nodes: Array, fraction: float, seed: int) -> tuple[Array, Array]:
    """Return the nodes that remain for training and those held out for validation; no class loses its last label."""
    none = np.empty(0, np.int64)
    exact = Fraction(fraction).limit_denominator(100)
    parts = exact.denominator
    if not 0 < exact < 1 or parts > len(nodes):
        return nodes, none
    held_out_idx = np.concatenate(stratified_folds(nodes, codes, parts, seed)[: exact.numerator])
    remaining = np.setdiff1d(nodes, held_out_idx)
    if len(remaining) < 2:
        return nodes, none
    if codes.ndim == 1:
        last_of_class = ~np.isin(codes[held_out_idx], codes[remaining])
    else:
        last_of_class = (codes[held_out_idx] > codes[remaining].any(axis=0)).any(axis=1)
    return np.sort(np.concatenate([remaining, held_out_idx[last_of_class]])), held_out_idx[~last_of_class]


def folds_of(codes: Array, nodes: Array, count: int, seed: int) -> Sequence[Array]:
    """Return nodes in `count` folds, fewer where there are fewer nodes, stratified by class."""
    return stratified_folds(nodes, codes, min(count, len(nodes)), seed)
