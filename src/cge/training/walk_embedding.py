"""Unsupervised node vectors: skip-gram on random walks, or a factorization of their log co-occurrence or of edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from cge.arrays import Array
from cge.graph import Graph
from cge.models.sparse_products import sparse_product
from cge.randomness import generator
from cge.sampling import NegativeSampler, Walker
from cge.training.skipgram import train_walks
from cge.training.torch_state import one_thread
from cge.training.walk_partitions import partition_count, partition_nodes

_CHUNK = 4096  # walks that all parts of the graph see before any sees the next; chosen on validation nodes
_BATCH = 4 * _CHUNK  # walks in memory at once
LEARNING_RATE = 0.05
_LAST_RATE = 1e-4  # final learning rate, relative to the first
_CACHE_LINE = 64  # bytes: rows aligned with cache lines are read and written faster
_RANK = 256  # eigenvectors of the graph
_OVERSAMPLING = 32  # additional random directions, for the accuracy of the last eigenvectors
_NEGATIVE_EXPONENT = 0.75  # of the frequency of a node, as in skip-gram
_ITERATIONS = 3  # of the factorization of edges
_EQUAL_VALUES = 1e-4  # difference of eigenvalues, relative to the largest, up to which rounding may mix eigenvectors
_ZERO_VALUE = 1e-5  # eigenvalues relative to the largest, up to which they are rounding
_BLOCK = 1_000  # rows of the matrix at once


def embed_walks(
    walker: Walker,
    *,
    dim: int,
    window: int,
    negatives: int,
    epochs: int = 1,
    learning_rate: float = LEARNING_RATE,
    seed: int = 0,
    n_jobs: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> tuple[Array, int]:
    """Train vectors on all walks of `epochs` epochs; return `(n, dim)` float32 and the number of pairs.

    `window` counts steps to both sides of a node, as in word2vec (not nodes of a path, as in the paper). The learning
    rate decays linearly. `progress` is called with the fraction of the walks that is done.
    """
    nodes = walker.graph.num_nodes
    sources, targets = _aligned_zeros(nodes, dim), _aligned_zeros(nodes, dim)
    generator(seed, "vectors").random(out=sources, dtype=np.float32)
    sources -= np.float32(0.5)
    sources /= np.float32(dim)
    if not len(walker.graph.indices):
        return sources, 0
    partition = partition_nodes(NegativeSampler(walker.graph).probability, partition_count(2 * window), seed)
    options: dict[str, Any] = {"back": window, "ahead": window, "negatives": negatives, "chunk": _CHUNK}
    options |= {"seed": seed, "n_jobs": n_jobs}
    total, done, pairs = walker.num_walks * epochs, 0, 0
    for epoch in range(epochs):
        for batch, walks in enumerate(walker.batches(_BATCH, epoch=epoch)):
            progress_range = done / total, (done + len(walks)) / total
            first_rate, last_rate = (learning_rate * max(1 - fraction, _LAST_RATE) for fraction in progress_range)
            arguments = (walks, batch * _BATCH, sources, targets, partition)
            pairs += train_walks(*arguments, learning_rates=(first_rate, last_rate), stream=epoch, **options)
            done += len(walks)
            if progress is not None:
                progress(done / total)
    return sources, pairs


def _aligned_zeros(rows: int, columns: int) -> Array:
    """Return a float32 table of zeros whose first row is aligned with a cache line."""
    buffer = np.zeros(rows * columns + _CACHE_LINE // 4, np.float32)
    start = -buffer.ctypes.data % _CACHE_LINE // 4
    return buffer[start : start + rows * columns].reshape(rows, columns)


@one_thread()
def factorize_walks(graph: Graph, dim: int, window: int = 10, seed: int = 0, n_jobs: int | None = None) -> Array:
    """Return vectors `(n, dim)` float32 whose products are log max(1, vol / T · Σ_{r ≤ T} (D⁻¹A)^r D⁻¹), T = `window`.

    Skip-gram on walks implicitly factorizes this logarithm (Qiu et al. 2018, "Network Embedding as Matrix
    Factorization"). The sum is computed on the leading eigenvectors of the graph, the matrix in blocks of rows. Edges
    of a directed graph count in both directions. A node without edges has a vector of zeros.
    """
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
    values, vectors = leading_eigenvectors(lazy_product, count, min(_RANK, count), 30, random)
    values = 2 * values - 1
    spectrum = sum((values**power for power in range(1, window + 1)), torch.zeros_like(values)) / window
    scaled = torch.from_numpy(inverse_root)[:, None] * vectors * torch.sqrt(spectrum.clamp(min=0) * degrees.sum())
    rows = scaled.float()

    def log_product(x: Tensor) -> Tensor:
        blocks = [(block @ rows.T).clamp_(min=1).log_() @ x.float() for block in torch.split(rows, _BLOCK)]
        return torch.cat(blocks).double()

    values, vectors = leading_eigenvectors(log_product, count, min(dim, count), 3, random)
    embedding = np.zeros((count, dim), np.float32)
    embedding[:, : vectors.shape[1]] = (vectors * _positive(values) ** 0.5).numpy()
    return embedding


@one_thread()
def factorize_edges(graph: Graph, dim: int, seed: int = 0, n_jobs: int | None = None) -> Array:
    """Return vectors `(n, dim)` float32: left singular vectors of the sparse matrix log max(1, P / q), times √σ.

    P = D⁻¹A are the steps of a walk, and q_v ∝ (Σ_u P_uv)^¾ is how often skip-gram draws a node as a negative: the case
    of one step of `factorize_walks`, in linear time (Zhang et al. 2019, "ProNE", Eq. 3, without propagation). Edges of
    a directed graph count in both directions. A node without edges has a vector of zeros.
    """
    adjacency = sp.csr_array(graph.to_scipy(), dtype=np.float64)
    adjacency = sp.csr_array(adjacency + adjacency.T) if graph.directed else adjacency
    degrees = np.asarray(adjacency.sum(axis=1)).ravel()
    steps = sp.csr_array(sp.diags_array(1 / np.where(degrees > 0, degrees, 1)) @ adjacency)  # P
    frequency = np.asarray(steps.sum(axis=0)).ravel() ** _NEGATIVE_EXPONENT
    frequency /= max(frequency.sum(), 1e-300)
    values = np.log(np.maximum(steps.data / frequency[steps.indices], 1.0))
    matrix = sp.csr_array((values.astype(np.float32), steps.indices, steps.indptr), shape=steps.shape)
    transposed = sp.csr_array(matrix.T)

    def product(x: Tensor) -> Tensor:
        return torch.from_numpy(sparse_product(matrix, sparse_product(transposed, x.numpy(), n_jobs), n_jobs))

    count = min(dim, len(graph))
    random = generator(seed, "edges")
    squares, vectors = leading_eigenvectors(product, len(graph), count, _ITERATIONS, random, torch.float32)
    embedding = np.zeros((len(graph), dim), np.float32)
    embedding[:, :count] = (vectors * _positive(squares) ** 0.25).numpy()  # √σ
    return embedding


def _positive(values: Tensor) -> Tensor:
    """Return eigenvalues without negative ones and those that are rounding of zero."""
    return torch.where(values > _ZERO_VALUE * values[0], values, 0).clamp(min=0)


def leading_eigenvectors(
    product: Callable[[Tensor], Tensor],
    size: int,
    count: int,
    iterations: int,
    random: np.random.Generator,
    dtype: torch.dtype = torch.float64,
) -> tuple[Tensor, Tensor]:
    """Return the `count` largest eigenvalues, descending, and eigenvectors: subspace iteration (Halko et al. 2011).

    Signs, and directions among equal eigenvalues, do not depend on the rounding of the processor.
    """
    basis = torch.from_numpy(random.standard_normal((size, min(count + _OVERSAMPLING, size)))).to(dtype)
    for _ in range(iterations):
        basis, _ = torch.linalg.qr(product(basis))
    small = basis.T @ product(basis)
    values, rotation = torch.linalg.eigh((small + small.T) / 2)
    order = torch.arange(len(values) - 1, len(values) - 1 - count, -1)
    values, vectors = values[order], basis @ rotation[:, order]
    directions = torch.from_numpy(random.standard_normal((size, count))).to(dtype)
    first = 0
    for end in range(1, count + 1):
        if end == count or values[end - 1] - values[end] > _EQUAL_VALUES * values[0].abs():
            vectors[:, first:end] = _nearest_basis(vectors[:, first:end], directions[:, first:end])
            first = end
    return values, vectors


def _nearest_basis(vectors: Tensor, directions: Tensor) -> Tensor:
    """Return the orthonormal basis of the space of `vectors` nearest to `directions` (orthogonal Procrustes)."""
    u, _, vh = torch.linalg.svd(vectors.T @ directions)
    basis: Tensor = vectors @ u @ vh
    return basis
