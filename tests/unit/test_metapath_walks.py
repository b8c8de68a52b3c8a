"""Walks along metapaths: every step follows the types, with the probabilities of the edges that do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cge
from cge.errors import InputError
from cge.sampling import Walker
from tests.unit.test_relation_weights import random_graph

METAPATH = ("author", "paper", "venue", "paper", "author")


def types_of(graph: cge.Graph, walks: np.ndarray) -> list[list[str]]:
    return [[graph.node_type_names[graph.node_types[node]] for node in walk if node >= 0] for walk in walks]  # type: ignore[index]


def test_walks_follow_the_metapath_along_edges() -> None:
    graph = random_graph()
    walker = Walker(graph, 11, 4, metapath=METAPATH, seed=1)
    walks = walker.sample(0, walker.num_walks)
    assert walks.shape == (4 * 6, 11)
    cycle = [*METAPATH[:-1]] * 3
    assert types_of(graph, walks) == [cycle[:11]] * len(walks)
    adjacency = graph.to_scipy().toarray()
    assert (adjacency[walks[:, :-1], walks[:, 1:]] > 0).all()
    once = Walker(graph, 11, 1, metapath=("venue", "paper", "author")).sample(0, 3)
    assert (once[:, 3:] == -1).all()
    assert types_of(graph, once) == [["venue", "paper", "author"]] * 3


def test_steps_are_in_proportion_to_weights_and_do_not_depend_on_threads() -> None:
    graph = random_graph()
    walker = Walker(graph, 2, 20_000, metapath=("paper", "author", "paper"), starts=["p0"])
    walks = walker.sample(0, walker.num_walks)
    row = graph.to_scipy().toarray()[0] * (np.array([name[0] for name in graph.node_ids]) == "a")
    assert np.bincount(walks[:, 1], minlength=21) / len(walks) == pytest.approx(row / row.sum(), abs=0.02)
    other = Walker(graph, 2, 20_000, metapath=("paper", "author", "paper"), starts=["p0"], n_jobs=3)
    assert np.array_equal(other.sample(0, walker.num_walks), walks)


def test_vectors_of_a_metapath(tmp_path: Path) -> None:
    graph = random_graph()
    model = cge.DeepWalk(dim=4, walks_per_node=2, walk_length=5, metapath=("paper", "author", "paper")).fit(graph)
    is_venue = np.array([name[0] == "v" for name in graph.node_ids])
    assert not model.embedding_[is_venue].any()
    assert model.embedding_[~is_venue].any(axis=1).all()
    model.save(tmp_path / "model")
    assert tuple(cge.load(tmp_path / "model").metapath) == ("paper", "author", "paper")


@pytest.mark.parametrize(
    ("metapath", "message"),
    [
        (("paper", "editor"), "metapath has the node type 'editor'; the types are 'paper', 'author', 'venue'"),
        (("author", "venue"), "no edge of the graph follows metapath"),
        (("paper",), "metapath must be at least two node types, found ('paper',)"),
    ],
)
def test_bad_metapaths(metapath: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError) as error:
        Walker(random_graph(), metapath=metapath)
    assert str(error.value) == message
    with pytest.raises(InputError, match="metapath needs node types, and the graph has none"):
        Walker(cge.Graph.from_edges([(0, 1)]), metapath=("a", "b"))
    with pytest.raises(InputError, match="p and q must be 1 where walks follow metapath"):
        Walker(random_graph(), metapath=("paper", "author", "paper"), q=2.0)
