"""Functions of NumPy arrays or PyTorch tensors: training needs gradients, predictions need no PyTorch.

A formula that is written with them is the same in training and in prediction; the two differ by rounding only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from cge.arrays import Array

if TYPE_CHECKING:
    from torch import Tensor

Values = TypeVar("Values", Array, "Tensor")


def exp(values: Values) -> Values:
    """Return the exponential of each value."""
    return np.exp(values) if isinstance(values, np.ndarray) else values.exp()


def log(values: Values) -> Values:
    """Return the natural logarithm of each value."""
    return np.log(values) if isinstance(values, np.ndarray) else values.log()


def row_sums(rows: Array, values: Values, count: int) -> Values:
    """Return the sum of the values of each row, `(count,)`; `rows (m,)` are those of `values (m,)`."""
    if isinstance(values, np.ndarray):
        return np.bincount(rows, values, minlength=count).astype(values.dtype)
    import torch

    return torch.zeros(count, dtype=values.dtype).index_add(0, torch.from_numpy(rows), values)


def concatenate(parts: Sequence[Values]) -> Values:
    """Return flat parts one after the other."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    import torch

    return torch.cat(list(parts))


def row_dots(matrix: Values, vector: Values) -> Values:
    """Return the inner product of each row with a vector, `(m,)`; that of arrays does not depend on threads."""
    return np.asarray(np.einsum("ij,j->i", matrix, vector)) if isinstance(matrix, np.ndarray) else matrix @ vector


def softmax(scores: Values) -> Values:
    """Return the softmax of each row of scores `(k, c)`."""
    if not isinstance(scores, np.ndarray):
        return scores.softmax(1)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True, initial=-np.inf))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def sigmoid(scores: Values) -> Values:
    """Return the logistic function of each score."""
    if not isinstance(scores, np.ndarray):
        return scores.sigmoid()
    small = np.exp(-np.abs(scores))  # does not overflow
    return np.asarray(np.where(scores >= 0, 1, small) / (1 + small))
