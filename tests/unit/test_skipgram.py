"""The skip-gram kernel against its loss, and against itself on any number of threads."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from torch.nn import functional

import cge
from cge.sampling import NegativeSampler, Walker, subpaths
from cge.training.skipgram import train_pairs, train_walks
from cge.training.walk_partitions import Parts, in_waves, make_parts, parts_for

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


def test_a_node_met_again_counts_again() -> None:
    """Walk 0 1 0 2 1, window 3 to both sides: repeated contexts, and a center that is its own context."""
    nodes = [0, 1, 0, 2, 1]
    sources, targets = tables(4)
    start, rate = (sources.copy(), targets.copy()), 1e-3
    parts = one_negative(4, 3)
    count = train_walks(np.array([nodes], np.int32), 0, sources, targets, parts, back=3, ahead=3, rates=(rate, rate))
    met = [(nodes[i], nodes[j]) for i in range(5) for j in range(5) if 0 < abs(i - j) <= 3]
    assert count == len(met)
    w, e = (torch.from_numpy(one).double().requires_grad_() for one in start)
    loss = sum(functional.softplus(-(w[i] @ e[j])) + 5 * functional.softplus(w[i] @ e[3]) for i, j in met)
    to_w, to_e = torch.autograd.grad(loss, [w, e])
    assert np.allclose(sources - start[0], -rate * to_w.numpy(), rtol=0.05, atol=1e-4)
    assert np.allclose(targets - start[1], -rate * to_e.numpy(), rtol=0.05, atol=1e-4)


def test_nodes_that_share_a_row_are_trained_as_one() -> None:
    """Walk 0 1 2 with nodes 1 and 2 in one row: pairs 0→1, 0→2 and 1→2 all pull at that row."""
    walks, row_of, rate = np.array([[0, 1, 2]], np.int32), np.array([0, 1, 1, 2]), 1e-3
    sources, targets = tables(4)
    targets = targets[:3].copy()
    start = sources.copy(), targets.copy()
    options = {"back": 0, "ahead": 2, "rates": (rate, rate), "row_of": row_of}
    assert train_walks(walks, 0, sources, targets, one_negative(4, 3), **options) == 3
    w, e = (torch.from_numpy(one).double().requires_grad_() for one in start)
    loss = sum(functional.softplus(-(w[i] @ e[1])) + 5 * functional.softplus(w[i] @ e[2]) for i in (0, 0, 1))
    to_w, to_e = torch.autograd.grad(loss, [w, e])
    assert np.allclose(sources - start[0], -rate * to_w.numpy(), rtol=0.02, atol=2e-5)
    assert np.allclose(targets - start[1], -rate * to_e.numpy(), rtol=0.02, atol=2e-5)


@pytest.mark.parametrize("count", [1, 2])
def test_negatives_keep_their_law_as_they_glide_along(count: int) -> None:
    """With zero targets every guess is one half, so what goes to a row tells how often it was drawn."""
    graph = cge.Graph.from_edges(np.random.default_rng(4).integers(0, 20, (60, 2)))
    walks = Walker(graph, 30, 200).sample(0, 200 * graph.num_nodes)
    probability = NegativeSampler(graph).probability
    sources, targets = np.ones((graph.num_nodes, 1), np.float32), np.zeros((graph.num_nodes, 1), np.float32)
    into, parts = np.zeros_like(targets), make_parts(probability, count, 0)
    settings = {"back": 4, "ahead": 4, "rates": (0.0, 0.0), "written": into, "target_rate": 1.0}
    pairs = train_walks(walks, 0, sources, targets, parts, **settings)
    contexts = np.zeros(graph.num_nodes)
    for distance in range(1, 5):
        for ends in (walks[:, distance:], walks[:, :-distance]):
            contexts += np.bincount(ends.ravel(), minlength=graph.num_nodes)
    drawn = 0.5 * contexts - into[:, 0]
    assert drawn.sum() == pytest.approx(0.5 * 5 * pairs, rel=1e-3)
    by_part = [drawn[parts.part == part] / drawn[parts.part == part].sum() for part in range(count)]
    expected = [probability[parts.part == part] / probability[parts.part == part].sum() for part in range(count)]
    for found, wanted in zip(by_part, expected, strict=True):
        assert np.allclose(found, wanted, rtol=0.08)


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
    for n_jobs in (1, 2, 3, 4):
        sources, targets = tables(graph.num_nodes)
        settings = {"back": 5, "ahead": 5, "rates": (0.05, 0.01), "chunk": 100, "n_jobs": n_jobs}
        train_walks(walks, 0, sources, targets, parts, **settings)
        found.add(sources.tobytes() + targets.tobytes())
    assert len(found) == 1
    sources, targets = tables(graph.num_nodes)
    train_walks(walks, 0, sources, targets, parts, back=5, ahead=5, rates=(0.05, 0.01), chunk=100, stream=1)
    assert sources.tobytes() + targets.tobytes() not in found


@pytest.mark.parametrize("n_jobs", [1, 2, 4])
def test_blocks_wait_for_those_that_wrote_their_rows(n_jobs: int) -> None:
    """The order of the blocks that touch a part of either table is the same for any number of threads."""
    parts, steps = 4, 40
    classifiers: dict[str, list[tuple[int, int]]] = {f"{table}{i}": [] for table in "st" for i in range(parts)}
    open_parts: set[str] = set()

    def work(step: int, i: int) -> None:
        own = {f"s{i}", f"t{(i + step) % parts}"}
        assert not own & open_parts
        open_parts.update(own)
        for name in own:
            classifiers[name].append((step, i))
        time.sleep(1e-4 * ((7 * step + i) % 3))
        open_parts.difference_update(own)

    in_waves(work, steps, parts, n_jobs)
    for name, met in classifiers.items():
        assert [step for step, _ in met] == list(range(steps)), name


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_in_a_block_is_raised(n_jobs: int) -> None:
    def work(step: int, i: int) -> None:
        if (step, i) == (3, 1):
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        in_waves(work, 100, 4, n_jobs)


def test_parts_weigh_the_same() -> None:
    probability = np.random.default_rng(5).pareto(1.5, 1001) + 0.01
    parts = make_parts(probability, 4, 0)
    assert np.ptp(np.bincount(parts.part)) <= 1
    assert np.ptp(np.bincount(parts.part, probability)) <= probability.max()
    alike = np.full(1000, 0.1)
    assert not np.array_equal(make_parts(alike, 4, 0).part, make_parts(alike, 4, 1).part)


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
        np.add.at(mass, nodes, parts.threshold[span] / 2**32)
        np.add.at(mass, parts.alias[span], 1 - parts.threshold[span] / 2**32)
        assert np.allclose(mass[nodes] / len(nodes), probability[nodes] / probability[nodes].sum(), atol=1e-6)
    assert make_parts(np.array([1.0, 1.0]), 4, 0).count == 1
    assert [parts_for(k) for k in (2, 10, 20, 40)] == [2, 2, 4, 8]


def test_pairs_alone_draw_their_nodes_together() -> None:
    sources, targets = tables(6, scale=0.1)
    pairs = np.tile(np.array([[0, 1], [2, 3]], np.int32), (400, 1))
    train_pairs(pairs, sources, targets, make_parts(np.ones(6), 1, 0), rates=(0.1, 0.1))
    scores = sources @ targets.T
    assert scores[0, 1] > scores[0, [2, 3, 4, 5]].max() + 1
    assert scores[2, 3] > scores[2, [0, 1, 4, 5]].max() + 1
