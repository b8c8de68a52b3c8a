"""Class scores of a hidden layer with dropout, and their gradient, each in one compiled pass.

    s_c = Σ_d V_cd m_d ReLU(z_d + o_d) + b_c,   m_d = 0 with the probability of dropout, otherwise 1 / (1 − probability)

The mask m is a function of a key and a position, so it is not stored.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cge.arrays import Array
from cge.parallel import float_kernel, run_blocks
from cge.randomness import STEP, mix

MAX_CLASSES = 24  # with more, products of a library of linear algebra are faster
_BLOCK = 2048  # rows whose gradients are summed apart, whatever the number of threads
_DRAWN = 4  # numbers that 64 random bits decide for
_BITS, _LOW = np.uint64(16), np.uint64(2**16 - 1)


def hidden_scores(
    vectors: Tensor,
    offset: Tensor,
    layer: tuple[Tensor, Tensor],
    dropout: float,
    key: np.uint64,
    n_jobs: int | None = 1,
) -> Tensor:
    """Return the class scores of `vectors (…, d)`, `(…, c)`; `layer` is V `(c, d)` and b `(c,)`."""
    scores: Tensor = _Hidden.apply(vectors, offset, *layer, dropout, key, n_jobs)  # type: ignore[no-untyped-call]
    return scores


class _Hidden(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any,
        vectors: Tensor,
        offset: Tensor,
        weight: Tensor,
        bias: Tensor,
        dropout: float,
        key: np.uint64,
        n_jobs: int | None,
    ) -> Tensor:
        rows = np.ascontiguousarray(vectors.detach().numpy()).reshape(-1, vectors.shape[-1])
        parts = [np.ascontiguousarray(each.detach().numpy()) for each in (offset, weight, bias)]
        limit, factor = np.uint64(round(dropout * 2.0**16)), rows.dtype.type(1 / (1 - dropout))
        out = np.empty((len(rows), len(parts[1])), rows.dtype)
        context.n_jobs, context.operands = n_jobs, (rows, *parts, (key, limit, factor))
        run_blocks(lambda first, stop: _scores(*context.operands, first, stop, out), _blocks(len(rows)), n_jobs)
        return torch.from_numpy(out).reshape(*vectors.shape[:-1], -1)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, offset, weight, bias, drop = context.operands
        upstream = np.ascontiguousarray(gradient.detach().numpy()).reshape(-1, len(bias))
        blocks = _blocks(len(rows))
        of_rows, shape = np.empty_like(rows), (*gradient.shape[:-1], rows.shape[1])
        parts = [np.zeros((len(blocks), *each.shape), rows.dtype) for each in (offset, weight, bias)]

        def work(first: int, stop: int) -> None:
            sums = parts[0][first // _BLOCK], parts[1][first // _BLOCK], parts[2][first // _BLOCK]
            _gradients(rows, offset, weight, upstream, drop, first, stop, of_rows, sums)

        run_blocks(work, blocks, context.n_jobs)
        sums = (torch.from_numpy(part.sum(axis=0)) for part in parts)
        return torch.from_numpy(of_rows).reshape(shape), *sums, None, None, None


def _blocks(count: int) -> list[tuple[int, int]]:
    return list(pairwise([*range(0, count, _BLOCK), count]))


@float_kernel
def _keep(values: Array, row: int, drop: Any) -> None:
    """Multiply the hidden units of a row by their mask."""
    key, limit, factor = drop
    dim = len(values)
    groups = -(-dim // _DRAWN)
    for group in range(groups):
        bits = mix(key + np.uint64(row * groups + group) * STEP)
        for place in range(_DRAWN * group, min(_DRAWN * (group + 1), dim)):
            values[place] *= factor * (bits & _LOW >= limit)
            bits >>= _BITS


@float_kernel
def _scores(
    rows: Array, offset: Array, weight: Array, bias: Array, drop: Any, first: int, stop: int, out: Array
) -> None:
    dim = rows.shape[1]
    hidden = np.empty(dim, rows.dtype)
    for row in range(first, stop):
        for k in range(dim):
            hidden[k] = max(rows[row, k] + offset[k], 0)
        if drop[1] > 0:
            _keep(hidden, row, drop)
        for c in range(len(bias)):
            total = bias[c]
            for k in range(dim):
                total += weight[c, k] * hidden[k]
            out[row, c] = total


@float_kernel
def _gradients(
    rows: Array,
    offset: Array,
    weight: Array,
    upstream: Array,
    drop: Any,
    first: int,
    stop: int,
    of_rows: Array,
    sums: Any,
) -> None:
    """Write the gradients of rows, and add to those of the parameters."""
    of_offset, of_weight, of_bias = sums
    dim = rows.shape[1]
    hidden, mask = np.empty(dim, rows.dtype), np.empty(dim, rows.dtype)
    for row in range(first, stop):
        mask[:] = 1
        if drop[1] > 0:
            _keep(mask, row, drop)
        line = of_rows[row]
        line[:] = 0
        for k in range(dim):
            value = rows[row, k] + offset[k]
            mask[k] = mask[k] if value > 0 else 0
            hidden[k] = mask[k] * value
        for c in range(len(of_bias)):
            gradient = upstream[row, c]
            of_bias[c] += gradient
            for k in range(dim):
                of_weight[c, k] += gradient * hidden[k]
                line[k] += gradient * weight[c, k]
        for k in range(dim):
            line[k] *= mask[k]
            of_offset[k] += line[k]
