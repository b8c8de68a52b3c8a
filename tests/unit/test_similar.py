"""Similar nodes: the exact search against brute force in float64, ties, odd vectors; the index of usearch."""

from __future__ import annotations

import sys
import tracemalloc
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from cge.errors import InputError, MissingDataError, UnknownNodeError
from cge.estimators import similar
from cge.estimators.similar import Similar, SimilarNodes, inner_products, nearest_rows, row_norms, similar_nodes


def brute_force(vectors: np.ndarray, query: int, top: int, cosine: bool) -> tuple[list[int], list[float]]:
    """Score every pair on its own, and sort by score, then by row number."""
    rows = [row.astype(np.float64) for row in vectors]
    norm = [np.sqrt((row * row).sum()) for row in rows]
    scores = {}
    for other, row in enumerate(rows):
        if other != query:
            product = (row * rows[query]).sum()
            scores[other] = product / max(norm[other] * norm[query], np.finfo(float).tiny) if cosine else product
    order = sorted(scores, key=lambda other: (-scores[other], other))[:top]
    return order, [scores[other] for other in order]


@pytest.mark.parametrize("cosine", [True, False])
def test_any_block_size_gives_the_result_of_brute_force(cosine: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    vectors = random.normal(size=(150, 7)).astype(np.float32)
    vectors[100:] = vectors[random.integers(0, 100, 50)]  # ties
    vectors[[3, 120]] = 0
    queries, norms = np.arange(150), row_norms(vectors)
    rows, scores = nearest_rows(vectors, queries, 12, norms, cosine=cosine)
    for query in queries.tolist():
        assert (rows[query].tolist(), scores[query].tolist()) == brute_force(vectors, query, 12, cosine)
    for block in ((16, 7), (13, 200), (1, 3)):
        monkeypatch.setattr(similar, "_ROWS", block[0])
        monkeypatch.setattr(similar, "_QUERIES", block[1])
        again = nearest_rows(vectors, queries, 12, norms, cosine=cosine)
        assert np.array_equal(again[0], rows)
        assert np.array_equal(again[1], scores)


WHOLE = arrays.arrays(
    np.float32, st.tuples(st.integers(2, 12), st.integers(1, 3)), elements=st.integers(-2, 2).map(float)
)
ANY = arrays.arrays(
    np.float32,
    st.tuples(st.integers(2, 8), st.integers(1, 5)),
    elements=st.floats(width=32, allow_nan=False, allow_infinity=False),
)


@given(WHOLE | ANY, st.booleans(), st.integers(1, 11), st.integers(1, 5))
def test_any_vectors(vectors: np.ndarray, cosine: bool, top: int, rows: int) -> None:
    """Also those so large that float32 overflows in a product, so small that it underflows, and full of ties."""
    top = min(top, len(vectors) - 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(similar, "_ROWS", rows)
        nearest_idx, scores = nearest_rows(vectors, np.arange(len(vectors)), top, row_norms(vectors), cosine=cosine)
    for query in range(len(vectors)):
        order, expected = brute_force(vectors, query, top, cosine)
        assert scores[query].tolist() == expected
        assert nearest_idx[query].tolist() == order


@pytest.mark.parametrize("cosine", [True, False])
def test_scores_that_are_equal_in_float32(cosine: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similar, "_ROWS", 100)
    random = np.random.default_rng(7)
    vectors = (1 + random.normal(size=96) + 1e-7 * random.normal(size=(600, 96))).astype(np.float32)
    rows, _ = nearest_rows(vectors, np.arange(3), 5, row_norms(vectors), cosine=cosine)
    for query in range(3):
        assert rows[query].tolist() == brute_force(vectors, query, 5, cosine)[0]


def test_scores_do_not_depend_on_the_row_of_a_vector() -> None:
    vectors = np.tile(np.random.default_rng(1).normal(size=33).astype(np.float32), (5000, 1))
    norms = row_norms(vectors)
    assert len(np.unique(norms)) == 1
    assert len(np.unique(inner_products(vectors, 7, np.arange(5000), norms))) == 1
    rows, _ = nearest_rows(vectors, np.array([2, 4999]), 4, norms)
    assert rows.tolist() == [[0, 1, 3, 4], [0, 1, 2, 3]]


def test_only_a_block_is_in_memory() -> None:
    vectors = np.random.default_rng(2).normal(size=(60_000, 4)).astype(np.float32)
    norms, queries = row_norms(vectors), np.arange(300)
    tracemalloc.start()
    nearest_rows(vectors, queries, 5, norms)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6  # all scores at once would take 72 MB in float32


# ---------------------------------------------------------------------- nodes


def model(vectors: Any, ids: Any = None) -> Any:
    vectors = np.asarray(vectors, np.float32)
    names = np.array(list("abcdefgh")[: len(vectors)], object) if ids is None else np.asarray(ids)
    return SimpleNamespace(node_ids_=names, embedding_=vectors)


def test_a_single_node() -> None:
    similar = similar_nodes(model([[1, 0], [0, 1], [2, 0], [-1, 0], [3, 3]]), "a", top=3)
    assert [match.node for match in similar] == ["c", "e", "b"]
    assert [round(match.score, 6) for match in similar] == [1, 0.707107, 0]
    assert isinstance(similar[0], Similar)
    assert type(similar[0].score) is float
    by_product = similar_nodes(model([[1, 0], [0, 1], [2, 0], [3, 3]]), "a", 2, "dot")
    assert [match.node for match in by_product] == ["d", "c"]


def test_ids_keep_their_type_and_a_small_graph_has_fewer_similar_nodes() -> None:
    similar = similar_nodes(model([[1, 0], [0, 1], [2, 0]], [30, 10, 20]), 30, top=99)
    assert [(type(match.node), match.node) for match in similar] == [(int, 20), (int, 10)]
    alone = SimilarNodes(np.array([5]), np.ones((1, 3)))
    assert alone.of(5) == []
    assert [part.shape for part in alone.nearest()] == [(1, 0), (1, 0)]
    assert [part.shape for part in alone.nearest([])] == [(0, 0), (0, 0)]


def test_illegal_arguments() -> None:
    with pytest.raises(InputError, match="the vector of 'c' contains numbers that are not finite"):
        similar_nodes(model([[1, 0], [0, 0], [np.nan, 1]]), "a")
    two = model([[1, 0], [0, 0]])
    with pytest.raises(UnknownNodeError, match="'zoe'"):
        similar_nodes(two, "zoe")
    with pytest.raises(InputError, match="the vector of 'b' is zero, so nothing is similar to it"):
        similar_nodes(two, "b")
    with pytest.raises(InputError, match="top must be an integer of at least 1, found 0"):
        similar_nodes(two, "a", top=0)
    with pytest.raises(InputError, match="metric must be one of 'cosine', 'dot', found 'l2'"):
        similar_nodes(two, "a", metric="l2")
    with pytest.raises(InputError, match="method must be one of 'auto', 'exact', 'approximate', found 'fast'"):
        similar_nodes(two, "a", method="fast")
    with pytest.raises(InputError, match=r"a vector for each of 2 ids, found shape \(3, 1\)"):
        SimilarNodes(np.arange(2), np.ones((3, 1)))
    with pytest.raises(InputError, match="the single id 'a'"):
        SimilarNodes(two.node_ids_, two.embedding_).nearest("a")


# ---------------------------------------------------------------------- the index


class FakeIndex:
    """An index with the interface of usearch: exact, but it misses every node whose number ends in 7."""

    built = 0

    def __init__(self, ndim: int, metric: str, dtype: str) -> None:
        assert (metric, dtype) == ("ip", "f32")
        self.ndim = ndim

    def add(self, keys: np.ndarray, vectors: np.ndarray, threads: int) -> None:
        assert vectors.shape == (len(keys), self.ndim)
        assert vectors.dtype == np.float32
        assert threads == 1
        FakeIndex.built += 1
        self.vectors = vectors

    def search(self, queries: np.ndarray, count: int) -> Any:
        scores = queries @ self.vectors.T
        scores[:, 7::10] = -np.inf
        order = np.argsort(-scores, axis=1)[:, :count].astype(np.uint64)
        counts = np.minimum(np.isfinite(scores).sum(axis=1), count)
        return (
            SimpleNamespace(keys=order[0, : counts[0]])
            if len(queries) == 1
            else SimpleNamespace(keys=order, counts=counts)
        )


@pytest.fixture
def fake_usearch(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("usearch.index")
    module.Index = FakeIndex  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "usearch", ModuleType("usearch"))
    monkeypatch.setitem(sys.modules, "usearch.index", module)
    FakeIndex.built = 0


@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_candidates_of_the_index_have_exact_scores(fake_usearch: None, metric: str) -> None:
    vectors = np.random.default_rng(3).normal(size=(200, 5)).astype(np.float32)
    vectors[9] = 0
    exact = SimilarNodes(np.arange(200), vectors, metric, method="exact")
    search = SimilarNodes(np.arange(200), vectors, metric, method="approximate")
    for queries in ([4], list(range(200))):
        rows, scores = search.nearest(queries, 3)
        exact_rows, exact_scores = exact.nearest(queries, 20)
        for number in range(len(queries)):
            indexed = exact_rows[number] % 10 != 7
            assert rows[number].tolist() == exact_rows[number][indexed][:3].tolist()
            assert scores[number].tolist() == exact_scores[number][indexed][:3].tolist()
    assert FakeIndex.built == 1
    assert search.method_for(1) == "approximate"


def test_the_search_is_exact_where_the_index_returns_too_few(fake_usearch: None) -> None:
    vectors = np.random.default_rng(4).normal(size=(20, 3)).astype(np.float32)
    for top in (17, 19):
        approximate, exact = (
            SimilarNodes(np.arange(20), vectors, method=method).nearest(top=top) for method in ("approximate", "exact")
        )
        same = [np.array_equal(*parts) for parts in zip(approximate, exact, strict=True)]
        assert same == [top == 19] * 2  # the index has 18 of the 20


def test_an_index_is_built_only_for_many_queries(fake_usearch: None, monkeypatch: pytest.MonkeyPatch) -> None:
    search = SimilarNodes(np.arange(30), np.random.default_rng(5).normal(size=(30, 3)))
    assert (search.method_for(1), search.method_for(99_999), search.method_for(100_000)) == (
        "exact",
        "exact",
        "approximate",
    )
    search.nearest(top=2)
    assert FakeIndex.built == 0
    monkeypatch.setattr("cge.estimators.similar._MANY", 10)
    search.nearest(top=2)
    assert FakeIndex.built == 1


def test_without_usearch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "usearch", None)
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    with pytest.raises(MissingDataError) as caught:
        similar_nodes(model([[1, 0], [0, 1]]), "a", method="approximate")
    assert str(caught.value) == (
        "the approximate search needs the package usearch, which is not installed; run 'pip install usearch', or use "
        "method='exact'"
    )
    assert SimilarNodes(np.arange(2), np.eye(2)).method_for(10**6) == "exact"


@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_usearch_itself(metric: str) -> None:
    random = np.random.default_rng(6)
    centers = 3 * random.normal(size=(10, 16))
    noise = random.normal(size=(2000, 16))
    vectors = (noise + centers[random.integers(0, 10, 2000)]).astype(np.float32)
    vectors[:5] = 0
    vectors[10:60] = vectors[10]
    exact = SimilarNodes(np.arange(2000), vectors, metric, method="exact").nearest(top=10)
    search = SimilarNodes(np.arange(2000), vectors, metric, method="approximate")
    rows, scores = search.nearest(top=10)
    shared = [len(np.intersect1d(*pair)) for pair in zip(rows[5:], exact[0][5:], strict=True)]
    assert np.mean(shared) > 9
    assert np.isfinite(scores).all()
    assert (np.diff(scores, axis=1) <= 0).all()
    assert (rows != np.arange(2000)[:, None]).all()
    again = SimilarNodes(np.arange(2000), vectors, metric, method="approximate").nearest(top=10)
    assert np.array_equal(again[0], rows)
    assert len(search.of(77)) == 10
