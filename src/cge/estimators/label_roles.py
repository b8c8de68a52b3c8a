"""Which labels train, which weigh paths, and which choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from cge.data.splits import folds as stratified_folds
from cge.errors import InputError

__all__ = ["Progress", "ValidationLabels", "folds_of", "hold_out", "known_from", "membership", "taught_in_vain"]

Array = npt.NDArray[Any]
Progress = Callable[[Any], None] | None


@dataclass(frozen=True, eq=False)
class ValidationLabels:
    """The labels that chose: `nodes (k,)`, their classes `matrix (k, c)`, and the `probabilities (k, c)` given to them.

    Chances are those of the training that they chose, which had not seen them.
    """

    nodes: Array
    matrix: Array
    probabilities: Array

    def arrays(self) -> dict[str, Array]:
        """Return it as arrays by name."""
        found = self.nodes.astype(np.int64), self.matrix.astype(np.int8), self.probabilities.astype(np.float32)
        return dict(zip(("selection.nodes", "selection.classes", "selection.chances"), found, strict=True))

    @classmethod
    def restored(cls, arrays: Mapping[str, Array], nodes: int, classes: int) -> ValidationLabels:
        """Return what `arrays` tell; nothing, of a model that kept none."""
        known, matrix = known_from(arrays, "selection", nodes, classes)
        probabilities = np.array(arrays.get("selection.chances", matrix), np.float32)
        if probabilities.shape != matrix.shape:
            raise InputError("the selection labels and their chances do not agree")
        return cls(known, matrix, probabilities)


def known_from(arrays: Mapping[str, Array], name: str, nodes: int, classes: int) -> tuple[Array, Array]:
    """Return nodes with labels, and their classes as zeros and ones, that were stored under a name, if any were."""
    if f"{name}.nodes" not in arrays:
        return np.empty(0, np.int64), np.empty((0, classes), np.int64)
    known, matrix = np.array(arrays[f"{name}.nodes"]), np.array(arrays[f"{name}.classes"], np.int64)
    inside = known.dtype == np.int64 and (not len(known) or 0 <= known.min() <= known.max() < nodes)
    if matrix.shape != (len(known), classes) or not inside:
        raise InputError("the known labels do not belong to this graph")
    return known, matrix


def membership(codes: Array, nodes: Array, classes: int) -> Array:
    """Return the classes of some nodes as zeros and ones, `(k, c)`."""
    some = codes[nodes]
    return np.eye(classes, dtype=np.int64)[some] if codes.ndim == 1 else some


def hold_out(codes: Array, nodes: Array, share: float, seed: int) -> tuple[Array, Array]:
    """Return the nodes that stay for training and those whose labels choose; no class loses its last label."""
    nothing = np.empty(0, np.int64)
    exact = Fraction(share).limit_denominator(100)  # so many of so many equal parts
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


def taught_in_vain(model: Any) -> bool:
    """Say whether labels taught a trained `CGE` weights that it does not use: with "auto" others may win."""
    tried = model.encoder == "paths" and model.weighting == "auto" and model.labels_seen_["outer"] > 0
    return bool(tried and model.weighting_ not in ("edges", "edges+hops"))


def folds_of(codes: Array, nodes: Array, count: int, seed: int) -> Sequence[Array]:
    """Return nodes in `count` parts, fewer where there are fewer nodes, classes spread evenly."""
    return stratified_folds(nodes, codes, min(count, len(nodes)), seed)
