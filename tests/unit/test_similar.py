"""Similar nodes: the exact search against brute force in float64, ties, odd vectors; the index with a stand-in."""

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
from cge.estimators import nearest
from cge.estimators.nearest import inner_products, lengths, nearest_rows
from cge.estimators.similar import Similar, SimilarNodes, similar_nodes


def brute(vectors: np.ndarray, query: int, top: int, cosine: bool) -> tuple[list[int], list[float]]:
    """Score every pair on its own, and sort by score, then by place."""
    wide = [row.astype(np.float64) for row in vectors]
    size = [np.sqrt((row * row).sum()) for row in wide]
    scores = {}
    for other, row in enumerate(wide):
        if other != query:
            product = (row * wide[query]).sum()
            scores[other] = product / max(size[other] * size[query], np.finfo(float).tiny) if cosine else product
    order = sorted(scores, key=lambda other: (-scores[other], other))[:top]
    return order, [scores[other] for other in order]


@pytest.mark.parametrize("cosine", [True, False])
def test_blocks_find_what_brute_force_finds(cosine: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    vectors = draw.normal(size=(150, 7)).astype(np.float32)
    vectors[100:] = vectors[draw.integers(0, 100, 50)]  # ties
    vectors[[3, 120]] = 0
    everyone, sizes = np.arange(150), lengths(vectors)
    found = nearest_rows(vectors, everyone, 12, sizes, cosine=cosine)
    for query in everyone.tolist():
        order, scores = brute(vectors, query, 12, cosine)
        assert found[0][query].tolist() == order
        assert found[1][query].tolist() == scores
    for rows, queries in ((16, 7), (13, 200), (1, 3)):
        monkeypatch.setattr(nearest, "_ROWS", rows)
        monkeypatch.setattr(nearest, "_QUERIES", queries)
        again = nearest_rows(vectors, everyone, 12, sizes, cosine=cosine)
        assert all(np.array_equal(one, other) for one, other in zip(found, again, strict=True))


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
        patch.setattr(nearest, "_ROWS", rows)
        places, scores = nearest_rows(vectors, np.arange(len(vectors)), top, lengths(vectors), cosine=cosine)
    for query in range(len(vectors)):
        order, expected = brute(vectors, query, top, cosine)
        assert scores[query].tolist() == expected
        assert places[query].tolist() == order


@pytest.mark.parametrize("cosine", [True, False])
def test_what_float32_cannot_tell_apart(cosine: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest, "_ROWS", 100)
    draw = np.random.default_rng(7)
    vectors = (1 + draw.normal(size=96) + 1e-7 * draw.normal(size=(600, 96))).astype(np.float32)
    found = nearest_rows(vectors, np.arange(3), 5, lengths(vectors), cosine=cosine)
    for query in range(3):
        assert found[0][query].tolist() == brute(vectors, query, 5, cosine)[0]


def test_scores_do_not_depend_on_where_a_vector_stands() -> None:
    vectors = np.tile(np.random.default_rng(1).normal(size=33).astype(np.float32), (5000, 1))
    sizes = lengths(vectors)
    assert len(np.unique(sizes)) == 1
    assert len(np.unique(inner_products(vectors, 7, np.arange(5000), sizes))) == 1
    places, _ = nearest_rows(vectors, np.array([2, 4999]), 4, sizes)
    assert places.tolist() == [[0, 1, 3, 4], [0, 1, 2, 3]]


def test_memory_is_that_of_a_block() -> None:
    vectors = np.random.default_rng(2).normal(size=(60_000, 4)).astype(np.float32)
    sizes, queries = lengths(vectors), np.arange(300)
    tracemalloc.start()
    nearest_rows(vectors, queries, 5, sizes)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6  # all scores at once would take 72 MB in float32


# ---------------------------------------------------------------------- nodes


def model(vectors: Any, ids: Any = None) -> Any:
    vectors = np.asarray(vectors, np.float32)
    names = np.array(list("abcdefgh")[: len(vectors)], object) if ids is None else np.asarray(ids)
    return SimpleNamespace(node_ids_=names, embedding_=vectors)


def test_one_node() -> None:
    found = similar_nodes(model([[1, 0], [0, 1], [2, 0], [-1, 0], [3, 3]]), "a", top=3)
    assert [one.node for one in found] == ["c", "e", "b"]
    assert [round(one.score, 6) for one in found] == [1, 0.707107, 0]
    assert isinstance(found[0], Similar)
    assert type(found[0].score) is float
    assert [one.node for one in similar_nodes(model([[1, 0], [0, 1], [2, 0], [3, 3]]), "a", 2, "dot")] == ["d", "c"]


def test_ids_keep_their_kind_and_fewer_nodes_give_fewer() -> None:
    found = similar_nodes(model([[1, 0], [0, 1], [2, 0]], [30, 10, 20]), 30, top=99)
    assert [(type(one.node), one.node) for one in found] == [(int, 20), (int, 10)]
    alone = SimilarNodes(np.array([5]), np.ones((1, 3)))
    assert alone.of(5) == []
    assert [part.shape for part in alone.among()] == [(1, 0), (1, 0)]
    assert [part.shape for part in alone.among([])] == [(0, 0), (0, 0)]


def test_what_is_refused() -> None:
    one = model([[1, 0], [0, 0], [np.nan, 1]])
    with pytest.raises(InputError, match="the vector of 'c' holds numbers that are not finite"):
        similar_nodes(one, "a")
    one = model([[1, 0], [0, 0]])
    with pytest.raises(UnknownNodeError, match="'zoe'"):
        similar_nodes(one, "zoe")
    with pytest.raises(InputError, match="the vector of 'b' is zero, so nothing is similar to it"):
        similar_nodes(one, "b")
    with pytest.raises(InputError, match="top must be a whole number of at least 1, found 0"):
        similar_nodes(one, "a", top=0)
    with pytest.raises(InputError, match="metric must be one of 'cosine', 'dot', found 'l2'"):
        similar_nodes(one, "a", metric="l2")
    with pytest.raises(InputError, match="method must be one of 'auto', 'exact', 'approximate', found 'fast'"):
        similar_nodes(one, "a", method="fast")
    with pytest.raises(InputError, match=r"a vector for each of 2 ids, found shape \(3, 1\)"):
        SimilarNodes(np.arange(2), np.ones((3, 1)))
    with pytest.raises(InputError, match="the single id 'a'"):
        SimilarNodes(one.node_ids_, one.embedding_).among("a")


# ---------------------------------------------------------------------- the index


class StandIn:
    """An index with usearch's manners: exact, but it loses every node whose number ends in 7."""

    built = 0

    def __init__(self, ndim: int, metric: str, dtype: str) -> None:
        assert (metric, dtype) == ("ip", "f32")
        self.ndim = ndim

    def add(self, keys: np.ndarray, vectors: np.ndarray, threads: int) -> None:
        assert vectors.shape == (len(keys), self.ndim)
        assert vectors.dtype == np.float32
        assert threads == 1
        StandIn.built += 1
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
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("usearch.index")
    module.Index = StandIn  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "usearch", ModuleType("usearch"))
    monkeypatch.setitem(sys.modules, "usearch.index", module)
    StandIn.built = 0


@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_an_index_finds_candidates_and_scores_stay_exact(stand_in: None, metric: str) -> None:
    vectors = np.random.default_rng(3).normal(size=(200, 5)).astype(np.float32)
    vectors[9] = 0
    exact = SimilarNodes(np.arange(200), vectors, metric, method="exact")
    search = SimilarNodes(np.arange(200), vectors, metric, method="approximate")
    for queries in ([4], list(range(200))):
        places, scores = search.among(queries, 3)
        expected = exact.among(queries, 20)
        for row in range(len(queries)):
            kept = [
                (p, s) for p, s in zip(expected[0][row].tolist(), expected[1][row].tolist(), strict=True) if p % 10 != 7
            ]
            assert list(zip(places[row].tolist(), scores[row].tolist(), strict=True)) == kept[:3]
    assert StandIn.built == 1
    assert search.used(1) == "approximate"


def test_where_an_index_finds_too_few_the_search_is_exact(stand_in: None) -> None:
    vectors = np.random.default_rng(4).normal(size=(20, 3)).astype(np.float32)
    for top in (17, 19):
        found = SimilarNodes(np.arange(20), vectors, method="approximate").among(top=top)
        expected = SimilarNodes(np.arange(20), vectors, method="exact").among(top=top)
        same = [np.array_equal(one, other) for one, other in zip(found, expected, strict=True)]
        assert same == [top == 19] * 2  # 18 of the 20 are left


def test_an_index_is_built_only_for_many(stand_in: None, monkeypatch: pytest.MonkeyPatch) -> None:
    search = SimilarNodes(np.arange(30), np.random.default_rng(5).normal(size=(30, 3)))
    assert (search.used(1), search.used(99_999), search.used(100_000)) == ("exact", "exact", "approximate")
    search.among(top=2)
    assert StandIn.built == 0
    monkeypatch.setattr("cge.estimators.similar._MANY", 10)
    search.among(top=2)
    assert StandIn.built == 1


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "usearch", None)
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    with pytest.raises(MissingDataError) as caught:
        similar_nodes(model([[1, 0], [0, 1]]), "a", method="approximate")
    assert str(caught.value) == (
        "the approximate search needs the package usearch, which is not installed; run 'pip install usearch', or use "
        "method='exact'"
    )
    assert SimilarNodes(np.arange(2), np.eye(2)).used(10**6) == "exact"


@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_the_library_itself(metric: str) -> None:
    draw = np.random.default_rng(6)
    vectors = (draw.normal(size=(2000, 16)) + 3 * draw.normal(size=(10, 16))[draw.integers(0, 10, 2000)]).astype(
        np.float32
    )
    vectors[:5] = 0
    vectors[10:60] = vectors[10]  # as many as the index looks at
    exact = SimilarNodes(np.arange(2000), vectors, metric, method="exact").among(top=10)
    search = SimilarNodes(np.arange(2000), vectors, metric, method="approximate")
    places, scores = search.among(top=10)
    shared = [len(set(one) & set(other)) for one, other in zip(places[5:].tolist(), exact[0][5:].tolist(), strict=True)]
    assert np.mean(shared) > 9
    assert np.isfinite(scores).all()
    assert (np.diff(scores, axis=1) <= 0).all()
    assert (places != np.arange(2000)[:, None]).all()
    again = SimilarNodes(np.arange(2000), vectors, metric, method="approximate").among(top=10)
    assert np.array_equal(again[0], places)
    assert len(search.of(77)) == 10
