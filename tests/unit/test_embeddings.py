"""DeepWalk and Node2Vec as estimators."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

import cge
from cge.estimators.settings import settings_of

SMALL = {"dim": 16, "walk_length": 10, "walks_per_node": 20, "window": 3}


def two_cliques() -> cge.Graph:
    """Two cliques of eight with one edge between them, and an isolated node."""
    clique = [(i, j) for i in range(8) for j in range(i)]
    edges = [*clique, *((i + 8, j + 8) for i, j in clique), (0, 8)]
    return cge.Graph.from_edges([(f"n{i}", f"n{j}") for i, j in edges], node_ids=[f"n{i}" for i in range(17)])


@pytest.mark.parametrize("kind", [cge.DeepWalk, cge.Node2Vec])
def test_vectors_separate_the_cliques(kind: type) -> None:
    model = kind(**SMALL).fit(two_cliques())
    unit = model.embedding_ / np.linalg.norm(model.embedding_, axis=1, keepdims=True)
    cosines = unit[:16] @ unit[:16].T
    within = (cosines[:8, :8].mean() + cosines[8:, 8:].mean()) / 2
    assert within > cosines[:8, 8:].mean() + 0.3
    assert np.isfinite(model.embedding_).all()


def test_the_same_bytes_for_any_number_of_threads() -> None:
    results = {
        cge.Node2Vec(**SMALL, q=0.5, n_jobs=n_jobs, random_state=3).fit(two_cliques()).embedding_.tobytes()
        for n_jobs in (1, 2, 4)
    }
    assert len(results) == 1
    assert cge.Node2Vec(**SMALL, q=0.5, random_state=4).fit(two_cliques()).embedding_.tobytes() not in results


def test_the_contract_of_scikit_learn() -> None:
    model = cge.Node2Vec(q=0.5)
    assert clone(model).get_params() == model.get_params()
    assert set(model.get_params()) == set(settings_of(cge.Node2Vec))
    assert model.set_params(dim=32).dim == 32
    with pytest.raises(NotFittedError, match="this Node2Vec has no vectors yet; call fit first"):
        model.transform()
    assert repr(cge.DeepWalk(dim=7)) == "DeepWalk(dim=7)"


def test_vectors_by_id_and_progress() -> None:
    progress: list[float] = []
    model = cge.DeepWalk(**SMALL).fit(two_cliques(), progress=progress.append)
    assert np.array_equal(model.transform(["n3", "n0"]), model.embedding_[[3, 0]])
    assert model.node_ids_.tolist()[:2] == ["n0", "n1"]
    assert progress == sorted(progress)
    assert progress[-1] == 1
    with pytest.raises(cge.CgeError, match="node 'x' is not in the graph"):
        model.transform(["x"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dim": 0}, "dim must be an integer from 1 to 4096, found 0"),
        ({"dim": 2.5}, "dim must be an integer from 1 to 4096, found 2.5"),
        ({"window": True}, "window must be an integer from 1 to 1000, found True"),
        ({"learning_rate": 0}, "learning_rate must be a number above 0, at most 10, found 0"),
        ({"learning_rate": float("nan")}, "learning_rate must be a number above 0, at most 10, found nan"),
        ({"q": 0}, "q must be a number from 1e-09 to 1e+09, found 0"),
        ({"random_state": None}, "random_state must be an integer of at least 0, found None"),
        ({"n_jobs": 0}, "n_jobs must be an integer of at least 1, -1 or None, found 0"),
    ],
)
def test_settings_are_checked_by_fit(settings: dict[str, object], message: str) -> None:
    model = cge.Node2Vec(**settings)  # type: ignore[arg-type]
    with pytest.raises(cge.CgeError) as caught:
        model.fit(two_cliques())
    assert str(caught.value) == message


def test_graphs_that_cannot_be_embedded() -> None:
    with pytest.raises(cge.CgeError, match="the graph has no nodes"):
        cge.DeepWalk().fit(cge.Graph.from_edges([]))
    with pytest.raises(cge.CgeError, match=r"fit takes a cge.Graph, found a list"):
        cge.DeepWalk().fit([(0, 1)])  # type: ignore[arg-type]
    assert cge.DeepWalk(dim=4).fit(cge.Graph.from_edges([], num_nodes=3)).embedding_.shape == (3, 4)
    with pytest.raises(cge.CgeError, match="training overflowed with learning_rate=10; try a tenth of it"):
        cge.DeepWalk(**SMALL, learning_rate=10, epochs=20).fit(two_cliques())


@pytest.mark.slow
def test_vectors_of_cora_predict_its_classes() -> None:
    """Without features; peers reach 0.70 on validation and 0.715 on test nodes."""
    data = cge.load_dataset("cora")
    assert data.split is not None
    vectors = cge.DeepWalk(random_state=1).fit(data.graph).embedding_
    model = LogisticRegression(C=10, max_iter=2000).fit(vectors[data.split.train], data.labels[data.split.train])
    assert model.score(vectors[data.split.test], data.labels[data.split.test]) > 0.68
