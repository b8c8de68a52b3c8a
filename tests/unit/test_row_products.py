"""Products with the random-walk matrix: the same bits for any blocks, and the values of an independent form."""

import numpy as np
import pytest
import scipy.sparse as sp

from cge.models.row_products import BlockSizes, FileArray, add_product, fit_blocks, horner, mean_product, walk_matrix

SIZES = [BlockSizes(16), BlockSizes(16, 97, 1000), BlockSizes(16, 500, 41), BlockSizes(16, 1, 7)]


@pytest.fixture(params=[(False, False), (True, False), (True, True), (False, True)], ids=str)
def graph(request):
    """A random graph, weighted or not, with self-loops of its own or not."""
    weighted, self_loops = request.param
    random = np.random.default_rng(1)
    dense = np.triu(random.random((500, 500)) < 0.03, 0 if self_loops else 1)
    values = dense * (random.random((500, 500)) + 0.1 if weighted else 1)
    rows = sp.csr_array(np.maximum(values, values.T))
    rows.sort_indices()
    return rows, weighted, self_loops


def dense_form(rows):
    matrix = rows.toarray()
    loop = rows.data.mean() if rows.nnz else 1.0
    return matrix + np.diag(np.where(np.diag(matrix) == 0, loop, 0.0))


@pytest.mark.parametrize("b", [0.0, 0.5, 1.0])
def test_powers_with_any_exponent_are_products_with_the_walk_matrix(graph, b):
    rows, weighted, self_loops = graph
    matrix = walk_matrix(rows.indptr, rows.indices, rows.data if weighted else None, self_loops)
    g = dense_form(rows)
    degree = g.sum(axis=1)
    assert np.allclose(matrix.degree, degree)
    m = np.diag(degree ** (b - 1)) @ g @ np.diag(degree**-b)
    x, hops = np.random.default_rng(2).standard_normal((500, 16)), [0.5, 0.0, 0.25, 0.25]
    expected = sum(weight * np.linalg.matrix_power(m, k) @ x for k, weight in enumerate(hops))
    u = (x * degree[:, None] ** -b).astype(np.float32)
    arrays = np.empty_like(u), np.empty_like(u)
    product = horner(matrix, u, hops, arrays, BlockSizes(16), 2) * degree[:, None] ** b
    assert np.abs(product - expected).max() < 2e-6 * np.abs(expected).max()


def test_bits_do_not_depend_on_blocks_threads_and_files(graph, tmp_path):
    rows, weighted, self_loops = graph
    weights = rows.data if weighted else None
    x = np.random.default_rng(2).standard_normal((500, 16)).astype(np.float32)
    expected = np.empty_like(x)
    mean_product(walk_matrix(rows.indptr, rows.indices, weights, self_loops), x, expected, SIZES[0], 1)
    parts = {"indptr": rows.indptr, "indices": rows.indices} | ({"weights": weights} if weighted else {})
    for name, part in (parts | {"x": x}).items():
        np.save(tmp_path / f"{name}.npy", part)
    stored = {name: FileArray(tmp_path / f"{name}.npy") for name in parts} | ({} if weighted else {"weights": None})
    for sizes in SIZES:
        matrix = walk_matrix(**stored, self_loops=self_loops, block=sizes.rows)
        out = FileArray.create(tmp_path / "out.npy", x.shape, np.float32)
        mean_product(matrix, FileArray(tmp_path / "x.npy"), out, sizes, 2)
        assert np.array_equal(out[:], expected)
        narrow = np.empty((500, 4), np.float32)
        mean_product(matrix, x[:, 4:8].copy(), narrow, sizes, 2)
        assert np.array_equal(narrow, expected[:, 4:8])
    nodes = np.array([0, 3, 77, 499])
    assert np.array_equal(out.take(nodes), expected[nodes])


def test_products_with_a_matrix_do_not_depend_on_the_rows():
    random = np.random.default_rng(0)
    x, w = random.standard_normal((301, 37)).astype(np.float32), random.standard_normal((37, 9)).astype(np.float32)
    whole, parts = np.zeros((301, 9), np.float32), np.zeros((301, 9), np.float32)
    add_product(x, w, whole)
    for first in range(0, 301, 17):
        add_product(x[first : first + 17], w, parts[first : first + 17])
    assert np.array_equal(whole, parts)
    assert np.abs(whole - x.astype(np.float64) @ w).max() < 1e-5


def test_blocks_shrink_with_memory():
    problem = {"num_nodes": 10**7, "num_entries": 2 * 10**8, "row_bytes": 9 * 10**8, "width": 16}
    sizes = [fit_blocks(memory << 20, **problem) for memory in (8000, 3200, 2400, 1500, 800)]
    assert [size.width for size in sizes[:3]] == [16, 8, 4]
    assert [size.in_memory for size in sizes] == [True, True, True, False, False]
    assert sizes[4].rows < sizes[3].rows
    assert 4 * sizes[4].columns * 16 < 100 << 20
