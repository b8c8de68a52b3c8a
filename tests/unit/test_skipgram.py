"""The skip-gram kernel against its loss, and against itself on any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

import cge
from cge.sampling import NegativeSampler, Walker, subpaths
from cge.training.skipgram import Parts, make_parts, parts_for, train_pairs, train_walks

DIM = 8


def tables(nodes: int, seed: int = 0, scale: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    made = [(scale * random.normal(size=(nodes, DIM))).astype(np.float32) for _ in range(2)]
    return made[0], made[1]


def one_negative(nodes: int, negative: int) -> Parts:
    """Parts whose negatives are always the same node, so that the expected change can be written down."""
    probability = np.zeros(nodes)
    probability[negative] = 1
    return make_parts(probability, 1, 0)


@pytest.mark.parametrize("weights", [None, [0.5, 2.0, 3.0]], ids=["alike", "weighted"])
def test_a_small_step_descends_the_loss(weights: list[float] | None) -> None:
    """Walk 0 1 2, window ahead 2: pairs 0→1, 0→2, 1→2, five negatives each, all of them node 3."""
    walks = np.array([[0, 1, 2]], np.int32)
    sources, targets = tables(4)
    start, rate = (sources.copy(), targets.copy()), 1e-3
    # Sub-paths of two and three nodes come as 01, 12, 012.
    options = {} if weights is None else {"weights": np.array(weights, np.float32), "base": np.zeros(1, np.int64)}
    count = train_walks(walks, 0, sources, targets, one_negative(4, 3), back=0, ahead=2, rates=(rate, rate), **options)
    assert count == 3
    w, e = (torch.from_numpy(one).double().requires_grad_() for one in start)
    by_pair = dict(zip([(0, 1), (1, 2), (0, 2)], weights or [1.0] * 3, strict=True))
    loss = sum(
        a * (functional.softplus(-(w[i] @ e[j])) + 5 * functional.softplus(w[i] @ e[3]))
        for (i, j), a in by_pair.items()
    )
    to_w, to_e = torch.autograd.grad(loss, [w, e])
    assert np.allclose(sources - start[0], -rate * to_w.numpy(), rtol=0.02, atol=2e-5)
    assert np.allclose(targets - start[1], -rate * to_e.numpy(), rtol=0.02, atol=2e-5)


def test_gradients_can_go_elsewhere() -> None:
    walks = np.array([[0, 1, 2]], np.int32)
    sources, targets = tables(4)
    reference_sources, reference = sources.copy(), targets.copy()
    train_walks(walks, 0, reference_sources, reference, one_negative(4, 3), back=0, ahead=1, rates=(1e-3, 1e-3))
    kept, into = targets.copy(), np.zeros_like(targets)
    train_walks(
        walks,
        0,
        sources,
        targets,
        one_negative(4, 3),
        back=0,
        ahead=1,
        rates=(1e-3, 1e-3),
        written=into,
        target_rate=1.0,
    )
    assert np.array_equal(targets, kept)
    assert np.allclose(1e-3 * into, reference - kept, rtol=1e-2, atol=1e-5)


def test_paths_of_no_weight_teach_nothing() -> None:
    graph = cge.Graph.from_edges([(0, 1), (1, 2), (2, 3)])
    walks = Walker(graph, 6, 3).sample(0, 12)
    sources, targets = tables(4)
    start = (sources.copy(), targets.copy())
    count = len(subpaths(walks, 3, shortest=2))
    base = np.arange(12, dtype=np.int64) * (5 + 4)
    parts = make_parts(NegativeSampler(graph).probability, 2, 0)
    pairs = train_walks(
        walks,
        0,
        sources,
        targets,
        parts,
        back=0,
        ahead=2,
        rates=(0.1, 0.1),
        weights=np.zeros(count, np.float32),
        base=base,
    )
    assert pairs == count
    assert np.array_equal(sources, start[0])
    assert np.array_equal(targets, start[1])


@pytest.mark.parametrize(("back", "ahead"), [(3, 3), (0, 2)])
def test_every_pair_is_met_once(back: int, ahead: int) -> None:
    graph = cge.Graph.from_edges(np.random.default_rng(1).integers(0, 30, (60, 2)), num_nodes=31)
    walks = Walker(graph, 7, 2).sample(0, 62)
    expected = sum(
        min(place + ahead, size - 1) - max(place - back, 0)
        for size in np.count_nonzero(walks >= 0, axis=1).tolist()
        for place in range(size)
    )
    for count in (1, 2, 4):
        sources, targets = tables(31)
        parts = make_parts(NegativeSampler(graph).probability, count, 0)
        assert train_walks(walks, 0, sources, targets, parts, back=back, ahead=ahead, rates=(0.1, 0.1)) == expected


def test_same_bytes_for_any_number_of_threads() -> None:
    graph = cge.Graph.from_edges(np.random.default_rng(2).integers(0, 200, (600, 2)))
    walks = Walker(graph, 20, 5).sample(0, 5 * graph.num_nodes)
    parts = make_parts(NegativeSampler(graph).probability, 4, 0)
    found = set()
    for threads in (1, 2, 4):
        sources, targets = tables(graph.num_nodes)
        train_walks(walks, 0, sources, targets, parts, back=5, ahead=5, rates=(0.05, 0.01), threads=threads)
        found.add(sources.tobytes() + targets.tobytes())
    assert len(found) == 1
    sources, targets = tables(graph.num_nodes)
    train_walks(walks, 0, sources, targets, parts, back=5, ahead=5, rates=(0.05, 0.01), stream=1)
    assert sources.tobytes() + targets.tobytes() not in found


def test_parts_divide_the_nodes_and_keep_the_law_of_negatives() -> None:
    probability = np.random.default_rng(3).random(40)
    probability[::5] = 0
    parts = make_parts(probability, 4, 0)
    assert np.bincount(parts.part).tolist() == [10] * 4
    for part in range(4):
        span = slice(parts.pointer[part], parts.pointer[part + 1])
        nodes = parts.nodes[span]
        assert np.all(parts.part[nodes] == part)
        assert np.all(probability[nodes] > 0)
        mass = np.zeros(40)
        np.add.at(mass, nodes, parts.chance[span] / 2**32)
        np.add.at(mass, parts.alias[span], 1 - parts.chance[span] / 2**32)
        assert np.allclose(mass[nodes] / len(nodes), probability[nodes] / probability[nodes].sum(), atol=1e-6)
    assert make_parts(np.array([1.0, 1.0]), 4, 0).count == 1
    assert [parts_for(k) for k in (2, 10, 20, 40)] == [2, 4, 4, 8]


def test_pairs_alone_draw_their_nodes_together() -> None:
    sources, targets = tables(6, scale=0.1)
    pairs = np.tile(np.array([[0, 1], [2, 3]], np.int32), (400, 1))
    train_pairs(pairs, sources, targets, make_parts(np.ones(6), 1, 0), rates=(0.1, 0.1))
    scores = sources @ targets.T
    assert scores[0, 1] > scores[0, [2, 3, 4, 5]].max() + 1
    assert scores[2, 3] > scores[2, [0, 1, 4, 5]].max() + 1
