"""Vectors in closed form: the logarithm of how often walks lead from one node to another, factorized.

Skip-gram on walks factorizes log(vol / T · Σ_{r ≤ T} (D⁻¹A)^r D⁻¹) without ever writing it down (Qiu et al. 2018,
"Network Embedding as Matrix Factorization"). Here the sum over all paths is exact on the leading eigenvectors of the
graph, and entries below 1 count as 1. The matrix is made a block of rows at a time: memory grows with the nodes, time
with their square.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor

from cge.graph import Graph
from cge.models.sparse_products import sparse_product
from cge.randomness import generator
from cge.training.torch_state import one_thread

__all__ = ["MAX_FACTORIZED_NODES", "factorize_walks"]

Array = npt.NDArray[Any]

MAX_FACTORIZED_NODES = 20_000  # nodes; beyond, the square of their number takes minutes
_RANK = 256  # eigenvectors of the graph
_MORE = 32  # directions that are followed besides, so that the last ones wanted are good
_BLOCK = 1_000  # rows of the matrix at once


def factorize_walks(graph: Graph, dim: int, window: int = 10, seed: int = 0, n_jobs: int | None = None) -> Array:
    """Return vectors `(n, dim)` float32 whose products are log max(1, vol / T · Σ_{r ≤ T} (D⁻¹A)^r D⁻¹), T = `window`.

    Of a directed graph both directions of an edge count. A node without edges has a vector of zeros.
    """
    with one_thread():
        return _factors(graph, dim, window, seed, n_jobs)


def _factors(graph: Graph, dim: int, window: int, seed: int, n_jobs: int | None) -> Array:
    matrix = sp.csr_array(graph.to_scipy(), dtype=np.float64)
    matrix = sp.csr_array(matrix + matrix.T) if graph.directed else matrix
    degrees = np.asarray(matrix.sum(axis=1)).ravel()
    by_degree = np.where(degrees > 0, 1 / np.sqrt(np.maximum(degrees, 1e-300)), 0.0)
    walk = sp.csr_array(sp.diags_array(by_degree) @ matrix @ sp.diags_array(by_degree))
    count = len(graph)

    def half(x: Tensor) -> Tensor:
        """Follow (I + N) / 2, whose largest eigenvalues are the largest of N, not the largest in size."""
        return torch.from_numpy(sparse_product(walk, x.numpy(), n_jobs, factor=0.5, base=x.numpy(), base_factor=0.5))

    random = generator(seed, "factors")
    values, vectors = _leading(half, count, min(_RANK, count), 30, random)
    values = 2 * values - 1
    spread = sum((values**power for power in range(1, window + 1)), torch.zeros_like(values)) / window
    scaled = torch.from_numpy(by_degree)[:, None] * vectors * torch.sqrt(spread.clamp(min=0) * degrees.sum())
    rows = scaled.float()

    def logarithms(x: Tensor) -> Tensor:
        parts = [(block @ rows.T).clamp_(min=1).log_() @ x.float() for block in torch.split(rows, _BLOCK)]
        return torch.cat(parts).double()

    values, vectors = _leading(logarithms, count, min(dim, count), 3, random)
    found = np.zeros((count, dim), np.float32)
    found[:, : vectors.shape[1]] = (vectors * torch.sqrt(values.clamp(min=0))).numpy()
    return found


def _leading(
    product: Callable[[Tensor], Tensor], size: int, wanted: int, times: int, random: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """Return the largest eigenvalues `(k,)`, descending, and eigenvectors `(size, k)` of a symmetric matrix.

    Random directions are followed through the matrix so many times, and the matrix is solved among them (Halko et al.
    2011, "Finding structure with randomness").
    """
    basis = torch.from_numpy(random.standard_normal((size, min(wanted + _MORE, size))))
    for _ in range(times):
        basis, _ = torch.linalg.qr(product(basis))
    small = basis.T @ product(basis)
    values, turned = torch.linalg.eigh((small + small.T) / 2)
    order = torch.arange(len(values) - 1, len(values) - 1 - wanted, -1)
    return values[order], basis @ turned[:, order]
