"""A hidden layer with dropout, and its gradient, each in one compiled pass.

    h = m ReLU(z),   z = a + o,   m = 0 with the probability of dropout, otherwise 1 / (1 − probability)

a are the sums over paths and o the bias of a classifier, as in `docs/concepts.md`.

The mask m is a function of a key and a position. It is not stored: the gradient passes where h is positive.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from cge.arrays import Array
from cge.models.dropped_products import drop_limit
from cge.parallel import float_kernel, run_blocks, split_blocks
from cge.randomness import STEP, STEP32, mix, mix32

_BLOCK, _NUMBERS = 4096, 1 << 18  # rows, and numbers, that a thread computes at once


def hidden_units(vectors: Tensor, offset: Tensor, dropout: float, key: np.uint64, n_jobs: int | None = 1) -> Tensor:
    """Return h of `vectors (…, d)`, a, and `offset (d,)`, o; in the shape of `vectors`."""
    hidden: Tensor = _Hidden.apply(vectors, offset, dropout, key, n_jobs)  # type: ignore[no-untyped-call]
    return hidden


class _Hidden(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, vectors: Tensor, offset: Tensor, dropout: float, key: np.uint64, n_jobs: int | None
    ) -> Tensor:
        rows = np.ascontiguousarray(vectors.detach().numpy()).reshape(-1, vectors.shape[-1])
        constant, out = np.ascontiguousarray(offset.detach().numpy()), np.empty_like(rows)
        context.factor, context.n_jobs = rows.dtype.type(1 / (1 - dropout)), n_jobs
        drop = key, drop_limit(dropout), context.factor
        blocks = split_blocks(len(rows), _BLOCK)
        run_blocks(lambda first, stop: _forward(rows, constant, drop, first, stop, out), blocks, n_jobs)
        hidden = torch.from_numpy(out).reshape(vectors.shape)
        context.save_for_backward(hidden)
        return hidden

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (hidden,) = context.saved_tensors
        rows, upstream = hidden.numpy(), np.ascontiguousarray(gradient.detach().numpy())
        flat = rows.reshape(-1), upstream.reshape(-1)
        out, blocks = np.empty_like(flat[0]), split_blocks(rows.size, _NUMBERS)
        run_blocks(lambda first, stop: _backward(*flat, context.factor, first, stop, out), blocks, context.n_jobs)
        of_vectors = torch.from_numpy(out).reshape(hidden.shape)
        return of_vectors, of_vectors.flatten(0, -2).sum(0), None, None, None


@float_kernel
def _forward(rows: Array, offset: Array, drop: Any, first: int, stop: int, out: Array) -> None:
    key, limit, factor = drop
    zero = factor - factor
    for row in range(first, stop):
        line, hidden, start = rows[row], out[row], np.uint32(mix(key + np.uint64(row) * STEP))
        for k in range(rows.shape[1]):
            dropped = mix32(np.uint32(start + np.uint32(np.uint32(k) * STEP32))) < limit
            value = line[k] + offset[k]
            hidden[k] = zero if (value <= zero) | dropped else factor * value  # NaN stays, so that it is noticed


@float_kernel
def _backward(hidden: Array, gradient: Array, factor: Any, first: int, stop: int, out: Array) -> None:
    zero = factor - factor
    for k in range(first, stop):
        value = factor * gradient[k]  # computed in any case, since random branches would be slow
        out[k] = value if hidden[k] > zero else zero
