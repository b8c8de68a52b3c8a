"""Node vectors in closed form: a factorization of the log co-occurrence of nodes on random walks.

Skip-gram on walks implicitly factorizes log(vol / T · Σ_{r ≤ T} (D⁻¹A)^r D⁻¹) (Qiu et al. 2018, "Network Embedding as
Matrix Factorization"). Here the sum is computed on the leading eigenvectors of the graph, and entries below 1 are
replaced by 1. The matrix is computed in blocks of rows: memory grows with the number of nodes, time with its square.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from cge.arrays import Array
from cge.graph import Graph
from cge.models.sparse_products import sparse_product
from cge.randomness import generator
from cge.training.torch_state import one_thread

MAX_FACTORIZED_NODES = 20_000  # above, the quadratic time is minutes
_RANK = 256  # eigenvectors of the graph
_OVERSAMPLING = 32  # additional random directions, for the accuracy of the last eigenvectors
_BLOCK = 1_000  # rows of the matrix at once


def factorize_walks(graph: Graph, dim: int, window: int = 10, seed: int = 0, n_jobs: int | None = None) -> Array:
    """Return vectors `(n, dim)` float32 whose products are log max(1, vol / T · Σ_{r ≤ T} (D⁻¹A)^r D⁻¹), T = `window`.

    Edges of a directed graph count in both directions. A node without edges has a vector of zeros.
    """
    with one_thread():
        return _factorize(graph, dim, window, seed, n_jobs)


def _factorize(graph: Graph, dim: int, window: int, seed: int, n_jobs: int | None) -> Array:
    adjacency = sp.csr_array(graph.to_scipy(), dtype=np.float64)
    adjacency = sp.csr_array(adjacency + adjacency.T) if graph.directed else adjacency
    degrees = np.asarray(adjacency.sum(axis=1)).ravel()
    inverse_root = np.where(degrees > 0, 1 / np.sqrt(np.maximum(degrees, 1e-300)), 0.0)
    normalized = sp.csr_array(sp.diags_array(inverse_root) @ adjacency @ sp.diags_array(inverse_root))  # N
    count = len(graph)

    def lazy_product(x: Tensor) -> Tensor:
        """Return (I + N) / 2 · x: the largest eigenvalues are those of N, not the largest in absolute value."""
        base = x.numpy()
        return torch.from_numpy(sparse_product(normalized, base, n_jobs, factor=0.5, base=base, base_factor=0.5))

    random = generator(seed, "factors")
    values, vectors = _leading_eigenvectors(lazy_product, count, min(_RANK, count), 30, random)
    values = 2 * values - 1
    spectrum = sum((values**power for power in range(1, window + 1)), torch.zeros_like(values)) / window
    scaled = torch.from_numpy(inverse_root)[:, None] * vectors * torch.sqrt(spectrum.clamp(min=0) * degrees.sum())
    rows = scaled.float()

    def log_product(x: Tensor) -> Tensor:
        blocks = [(block @ rows.T).clamp_(min=1).log_() @ x.float() for block in torch.split(rows, _BLOCK)]
        return torch.cat(blocks).double()

    values, vectors = _leading_eigenvectors(log_product, count, min(dim, count), 3, random)
    embedding = np.zeros((count, dim), np.float32)
    embedding[:, : vectors.shape[1]] = (vectors * torch.sqrt(values.clamp(min=0))).numpy()
    return embedding


def _leading_eigenvectors(
    product: Callable[[Tensor], Tensor], size: int, count: int, iterations: int, random: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """Return the `count` largest eigenvalues, descending, and eigenvectors `(size, count)` of a symmetric matrix.

    Randomized subspace iteration (Halko et al. 2011, "Finding structure with randomness").
    """
    basis = torch.from_numpy(random.standard_normal((size, min(count + _OVERSAMPLING, size))))
    for _ in range(iterations):
        basis, _ = torch.linalg.qr(product(basis))
    small = basis.T @ product(basis)
    values, rotation = torch.linalg.eigh((small + small.T) / 2)
    order = torch.arange(len(values) - 1, len(values) - 1 - count, -1)
    return values[order], basis @ rotation[:, order]
