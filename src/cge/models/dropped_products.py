"""Products of node features and a matrix in which random features and whole nodes are dropped, with gradients.

An *augmentation* sets a share of the features and all features of a share of the nodes to zero and scales the others
up. Several augmentations are computed side by side. Which numbers are dropped is a function of a key and a position, so
results do not depend on the number of threads. With sparse features no mask of features is stored, and dropped numbers
cost no multiplication; dense features are copied for each augmentation.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cge.arrays import Array
from cge.models.sparse_products import SparseFeatures, row_blocks
from cge.parallel import float_kernel, kernel, run_blocks, split_blocks
from cge.randomness import STEP, STEP32, mix, mix32

_RUN, _RUNS = 256, 2048  # numbers that are drawn from one key, and how often a thread does that at once
_MAX_PARTS, _PART_WORK = 8, 4_000_000  # parts of a gradient, and multiplications that are worth one
_HALF = np.uint64(32)


@dataclass(frozen=True, eq=False)
class Augmentations:
    """R augmentations, determined by `keys (R, 2)`, one for features and one for nodes; shares are between 0 and 1."""

    keys: Array
    drop_feature: float = 0.0
    drop_node: float = 0.0

    @classmethod
    def draw(
        cls, random: np.random.Generator, count: int, drop_feature: float, drop_node: float = 0.0
    ) -> Augmentations:
        """Return `count` augmentations with keys drawn from a generator."""
        return cls(random.integers(2**64, size=(count, 2), dtype=np.uint64), drop_feature, drop_node)

    def __len__(self) -> int:
        return len(self.keys)

    def kept_nodes(self, count: int) -> Array:
        """Return whether each node is kept in each augmentation, `(count, R)`."""
        kept = np.ones((count, len(self)), bool)
        if self.drop_node:
            _keep(self.keys[:, 1].copy(), drop_limit(self.drop_node), kept)
        return kept


def dropped_product(
    x: Tensor | SparseFeatures, weight: Tensor, augmentations: Augmentations, n_jobs: int | None = 1
) -> Tensor:
    """Return the products of `x (n, f)` and `weight (f, d)` in R augmentations side by side, `(n, R, d)`."""
    if isinstance(x, SparseFeatures):
        product: Tensor = _DroppedProduct.apply(x, weight, augmentations)  # type: ignore[no-untyped-call]
        return product.reshape(len(product), len(augmentations), -1)
    share, keys = augmentations.drop_feature, augmentations.keys[:, 0]
    dropped = (keyed_dropout(x, share, key, n_jobs) if share else x for key in keys)
    products = torch.stack([each @ weight for each in dropped], dim=1)
    if not augmentations.drop_node:
        return products
    kept = torch.from_numpy(augmentations.kept_nodes(len(x)))[:, :, None]
    return products * (kept.to(products.dtype) / (1 - augmentations.drop_node))


class _DroppedProduct(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: SparseFeatures, weight: Tensor, augmentations: Augmentations) -> Tensor:
        dense, dim = np.ascontiguousarray(weight.detach().numpy()), weight.shape[1]
        context.x, context.drop, context.dim = x, _drop_arguments(x, augmentations), dim
        out = np.empty((x.shape[0], len(augmentations) * dim), np.result_type(x.csr.dtype, dense.dtype))
        matrix = x.csr.indptr, x.csr.indices, x.csr.data
        blocks = row_blocks(x.csr.indptr, out.shape[1], x.n_jobs)
        run_blocks(lambda first, stop: _multiply(matrix, dense, context.drop, first, stop, out), blocks, x.n_jobs)
        return torch.from_numpy(out)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[None, Tensor, None]:
        x, upstream = context.x, np.ascontiguousarray(gradient.detach().numpy())
        matrix, blocks = (x.csr.indptr, x.csr.indices, x.csr.data), _gradient_blocks(x, upstream.shape[1])
        parts = np.empty((len(blocks), x.shape[1], context.dim), upstream.dtype)

        def work(first: int, stop: int) -> None:
            for number in range(first, stop):
                _multiply_transposed(matrix, upstream, context.drop, *blocks[number], parts[number])

        run_blocks(work, [(number, number + 1) for number in range(len(blocks))], x.n_jobs)
        return None, torch.from_numpy(parts[0] if len(parts) == 1 else parts.sum(axis=0)), None


def _gradient_blocks(x: SparseFeatures, width: int) -> list[tuple[int, int]]:
    """Return blocks of rows whose gradients are summed apart, whatever the number of threads.

    Their sums take no more memory than the gradient of the product.
    """
    pieces = min(_MAX_PARTS, int(x.csr.nnz) * width // _PART_WORK, x.shape[0] // max(x.shape[1], 1))
    borders = np.searchsorted(x.csr.indptr, np.linspace(0, x.csr.nnz, max(pieces, 1) + 1)[1:-1])
    return list(pairwise(np.unique(np.r_[0, borders, x.shape[0]]).tolist()))


def drop_limit(share: float) -> np.uint32:
    """Return the number below which 32 random bits drop a number."""
    return np.uint32(min(round(share * 2.0**32), 2**32 - 1))


def _drop_arguments(x: SparseFeatures, augmentations: Augmentations) -> tuple[Any, ...]:
    factor = 1 / ((1 - augmentations.drop_feature) * (1 - augmentations.drop_node))
    kept = augmentations.kept_nodes(x.shape[0])
    return augmentations.keys[:, 0].copy(), drop_limit(augmentations.drop_feature), kept, x.csr.dtype.type(factor)


@kernel
def _keep(keys: Array, limit: np.uint32, kept: Array) -> None:
    for node in range(kept.shape[0]):
        for r in range(kept.shape[1]):
            kept[node, r] = mix(keys[r] + np.uint64(node) * STEP) >> _HALF >= limit


@float_kernel
def _multiply(matrix: Any, dense: Array, drop: Any, first: int, stop: int, out: Array) -> None:
    indptr, indices, values = matrix
    keys, limit, kept, factor = drop
    dim, longest = dense.shape[1], 0
    for node in range(first, stop):
        longest = max(longest, indptr[node + 1] - indptr[node])
    entries = np.empty(longest + 1, np.int64)
    for node in range(first, stop):
        for r in range(len(keys)):
            line = out[node, r * dim : (r + 1) * dim]
            line[:] = 0
            if not kept[node, r]:
                continue
            count = 0
            for entry in range(indptr[node], indptr[node + 1]):  # random branches would be slow
                entries[count] = entry
                count += mix(keys[r] + np.uint64(entry) * STEP) >> _HALF >= limit
            for place in range(count):
                value, weights = factor * values[entries[place]], dense[indices[entries[place]]]
                for k in range(dim):
                    line[k] += value * weights[k]


@float_kernel
def _multiply_transposed(matrix: Any, upstream: Array, drop: Any, first: int, stop: int, out: Array) -> None:
    indptr, indices, values = matrix
    keys, limit, kept, factor = drop
    dim, longest = out.shape[1], 0
    for node in range(first, stop):
        longest = max(longest, indptr[node + 1] - indptr[node])
    entries = np.empty(longest + 1, np.int64)
    out[:] = 0
    for node in range(first, stop):
        for r in range(len(keys)):
            if not kept[node, r]:
                continue
            gradient, count = upstream[node, r * dim : (r + 1) * dim], 0
            for entry in range(indptr[node], indptr[node + 1]):  # random branches would be slow
                entries[count] = entry
                count += mix(keys[r] + np.uint64(entry) * STEP) >> _HALF >= limit
            for place in range(count):
                value, line = factor * values[entries[place]], out[indices[entries[place]]]
                for k in range(dim):
                    line[k] += value * gradient[k]


def dropout_mask(shape: tuple[int, ...], share: float, random: np.random.Generator) -> Tensor | None:
    """Return factors that set a share of numbers to zero and scale the others up; None where the share is 0."""
    if not share:
        return None
    return keyed_dropout(torch.ones(shape), share, random.integers(2**64, dtype=np.uint64))


def keyed_dropout(values: Tensor, share: float, key: np.uint64, n_jobs: int | None = 1) -> Tensor:
    """Return dense numbers with a share of them set to zero and the others scaled up; the key determines which."""
    source = values.contiguous().numpy().reshape(-1)
    out = np.empty_like(source)
    limit, factor = drop_limit(share), source.dtype.type(1 / (1 - share))
    work = split_blocks(-(-len(source) // _RUN), _RUNS)
    run_blocks(lambda first, stop: _drop(source, key, limit, factor, first, stop, out), work, n_jobs)
    return torch.from_numpy(out).reshape(values.shape)


@float_kernel
def _drop(source: Array, key: np.uint64, limit: np.uint32, factor: Any, first: int, stop: int, out: Array) -> None:
    zero = factor - factor
    for run in range(first, stop):
        start, place = np.uint32(mix(key + np.uint64(run) * STEP)), run * _RUN
        for k in range(min(_RUN, len(source) - place)):
            keep = mix32(np.uint32(start + np.uint32(np.uint32(k) * STEP32))) >= limit
            value = factor * source[place + k]
            out[place + k] = value if keep else zero
