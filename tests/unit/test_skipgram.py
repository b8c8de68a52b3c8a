"""The skip-gram kernel against its loss, and against itself on any number of threads."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from torch.nn import functional

import cge
from cge.sampling import NegativeSampler, Walker, subpaths
from cge.training.skipgram import train_walks
from cge.training.walk_partitions import NodePartition, partition_count, partition_nodes, run_in_waves

DIM = 8


def tables(nodes: int, seed: int = 0, scale: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    sources, targets = (scale * random.normal(size=(2, nodes, DIM))).astype(np.float32)
    return sources.copy(), targets.copy()


def constant_negative(nodes: int, negative: int) -> NodePartition:
    """Return a partition whose negatives are always the same node, so that the expected change can be written down."""
    probability = np.zeros(nodes)
    probability[negative] = 1
    return partition_nodes(probability, 1, 0)


@pytest.mark.parametrize("weights", [None, [0.5, 2.0, 3.0]], ids=["unweighted", "weighted"])
def test_a_small_step_descends_the_loss(weights: list[float] | None) -> None:
    """Walk 0 1 2, window ahead 2: pairs 0→1, 0→2, 1→2, five negatives each, all of them node 3."""
    walks = np.array([[0, 1, 2]], np.int32)
    sources, targets = tables(4)
    start, rate = (sources.copy(), targets.copy()), 1e-3
    # Sub-paths of two and three nodes come as 01, 12, 012.
    options = {} if weights is None else {"weights": np.array(weights, np.float32), "base": np.zeros(1, np.int64)}
    count = train_walks(
        walks, 0, sources, targets, constant_negative(4, 3), back=0, ahead=2, learning_rates=(rate, rate), **options
    )
    assert count == 3
    w, e = (torch.from_numpy(table).double().requires_grad_() for table in start)
    by_pair = dict(zip([(0, 1), (1, 2), (0, 2)], weights or [1.0] * 3, strict=True))
    loss = sum(
        a * (functional.softplus(-(w[i] @ e[j])) + 5 * functional.softplus(w[i] @ e[3]))
        for (i, j), a in by_pair.items()
    )
    to_w, to_e = torch.autograd.grad(loss, [w, e])
    assert np.allclose(sources - start[0], -rate * to_w.numpy(), rtol=0.02, atol=2e-5)
    assert np.allclose(targets - start[1], -rate * to_e.numpy(), rtol=0.02, atol=2e-5)


def test_repeated_contexts_count_repeatedly() -> None:
    """Walk 0 1 0 2 1, window 3 to both sides: repeated contexts, and a center that is its own context."""
    nodes = [0, 1, 0, 2, 1]
    sources, targets = tables(4)
    start, rate = (sources.copy(), targets.copy()), 1e-3
    parts = constant_negative(4, 3)
    count = train_walks(
        np.array([nodes], np.int32), 0, sources, targets, parts, back=3, ahead=3, learning_rates=(rate, rate)
    )
    pairs = [(nodes[i], nodes[j]) for i in range(5) for j in range(5) if 0 < abs(i - j) <= 3]
    assert count == len(pairs)
    w, e = (torch.from_numpy(table).double().requires_grad_() for table in start)
    loss = sum(functional.softplus(-(w[i] @ e[j])) + 5 * functional.softplus(w[i] @ e[3]) for i, j in pairs)
    to_w, to_e = torch.autograd.grad(loss, [w, e])
    assert np.allclose(sources - start[0], -rate * to_w.numpy(), rtol=0.05, atol=1e-4)
    assert np.allclose(targets - start[1], -rate * to_e.numpy(), rtol=0.05, atol=1e-4)


def test_nodes_that_share_a_row_are_trained_as_one() -> None:
    """Walk 0 1 2 with nodes 1 and 2 in one row: pairs 0→1, 0→2 and 1→2 all update that row."""
    walks, row_of, rate = np.array([[0, 1, 2]], np.int32), np.array([0, 1, 1, 2]), 1e-3
    sources, targets = tables(4)
    targets = targets[:3].copy()
    start = sources.copy(), targets.copy()
    options = {"back": 0, "ahead": 2, "learning_rates": (rate, rate), "row_of": row_of}
    assert train_walks(walks, 0, sources, targets, constant_negative(4, 3), **options) == 3
    w, e = (torch.from_numpy(table).double().requires_grad_() for table in start)
    loss = sum(functional.softplus(-(w[i] @ e[1])) + 5 * functional.softplus(w[i] @ e[2]) for i in (0, 0, 1))
    to_w, to_e = torch.autograd.grad(loss, [w, e])
    assert np.allclose(sources - start[0], -rate * to_w.numpy(), rtol=0.02, atol=2e-5)
    assert np.allclose(targets - start[1], -rate * to_e.numpy(), rtol=0.02, atol=2e-5)


@pytest.mark.parametrize("count", [1, 2])
def test_shared_negatives_keep_their_distribution(count: int) -> None:
    """With zero targets every probability is one half, so the gradient of a row counts how often it was drawn."""
    graph = cge.Graph.from_edges(np.random.default_rng(4).integers(0, 20, (60, 2)))
    walks = Walker(graph, 30, 200).sample(0, 200 * graph.num_nodes)
    probability = NegativeSampler(graph).probability
    sources, targets = np.ones((graph.num_nodes, 1), np.float32), np.zeros((graph.num_nodes, 1), np.float32)
    gradient, parts = np.zeros_like(targets), partition_nodes(probability, count, 0)
    settings = {"back": 4, "ahead": 4, "learning_rates": (0.0, 0.0), "target_gradient": gradient, "target_rate": 1.0}
    pairs = train_walks(walks, 0, sources, targets, parts, **settings)
    contexts = np.zeros(graph.num_nodes)
    for distance in range(1, 5):
        for others in (walks[:, distance:], walks[:, :-distance]):
            contexts += np.bincount(others.ravel(), minlength=graph.num_nodes)
    drawn = 0.5 * contexts - gradient[:, 0]
    assert drawn.sum() == pytest.approx(0.5 * 5 * pairs, rel=1e-3)
    by_part = [drawn[parts.part_of == part] / drawn[parts.part_of == part].sum() for part in range(count)]
    expected = [probability[parts.part_of == part] / probability[parts.part_of == part].sum() for part in range(count)]
    for drawn_shares, probabilities in zip(by_part, expected, strict=True):
        assert np.allclose(drawn_shares, probabilities, rtol=0.08)


def test_target_gradients_are_written_instead_of_targets() -> None:
    walks = np.array([[0, 1, 2]], np.int32)
    sources, targets = tables(4)
    reference_sources, reference = sources.copy(), targets.copy()
    train_walks(
        walks, 0, reference_sources, reference, constant_negative(4, 3), back=0, ahead=1, learning_rates=(1e-3, 1e-3)
    )
    before, gradient = targets.copy(), np.zeros_like(targets)
    train_walks(
        walks,
        0,
        sources,
        targets,
        constant_negative(4, 3),
        back=0,
        ahead=1,
        learning_rates=(1e-3, 1e-3),
        target_gradient=gradient,
        target_rate=1.0,
    )
    assert np.array_equal(targets, before)
    assert np.allclose(1e-3 * gradient, reference - before, rtol=1e-2, atol=1e-5)


def test_paths_with_weight_zero_change_nothing() -> None:
    graph = cge.Graph.from_edges([(0, 1), (1, 2), (2, 3)])
    walks = Walker(graph, 6, 3).sample(0, 12)
    sources, targets = tables(4)
    start = (sources.copy(), targets.copy())
    count = len(subpaths(walks, 3, shortest=2))
    base = np.arange(12, dtype=np.int64) * (5 + 4)
    parts = partition_nodes(NegativeSampler(graph).probability, 2, 0)
    pairs = train_walks(
        walks,
        0,
        sources,
        targets,
        parts,
        back=0,
        ahead=2,
        learning_rates=(0.1, 0.1),
        weights=np.zeros(count, np.float32),
        base=base,
    )
    assert pairs == count
    assert np.array_equal(sources, start[0])
    assert np.array_equal(targets, start[1])


@pytest.mark.parametrize(("back", "ahead"), [(3, 3), (0, 2)])
def test_every_pair_is_trained_once(back: int, ahead: int) -> None:
    graph = cge.Graph.from_edges(np.random.default_rng(1).integers(0, 30, (60, 2)), num_nodes=31)
    walks = Walker(graph, 7, 2).sample(0, 62)
    expected = sum(
        min(position + ahead, size - 1) - max(position - back, 0)
        for size in np.count_nonzero(walks >= 0, axis=1).tolist()
        for position in range(size)
    )
    for count in (1, 2, 4):
        sources, targets = tables(31)
        parts = partition_nodes(NegativeSampler(graph).probability, count, 0)
        assert (
            train_walks(walks, 0, sources, targets, parts, back=back, ahead=ahead, learning_rates=(0.1, 0.1))
            == expected
        )


def test_same_bytes_for_any_number_of_threads() -> None:
    graph = cge.Graph.from_edges(np.random.default_rng(2).integers(0, 200, (600, 2)))
    walks = Walker(graph, 20, 5).sample(0, 5 * graph.num_nodes)
    parts = partition_nodes(NegativeSampler(graph).probability, 4, 0)
    results = set()
    for n_jobs in (1, 2, 3, 4):
        sources, targets = tables(graph.num_nodes)
        settings = {"back": 5, "ahead": 5, "learning_rates": (0.05, 0.01), "chunk": 100, "n_jobs": n_jobs}
        train_walks(walks, 0, sources, targets, parts, **settings)
        results.add(sources.tobytes() + targets.tobytes())
    assert len(results) == 1
    sources, targets = tables(graph.num_nodes)
    train_walks(walks, 0, sources, targets, parts, back=5, ahead=5, learning_rates=(0.05, 0.01), chunk=100, stream=1)
    assert sources.tobytes() + targets.tobytes() not in results


@pytest.mark.parametrize("n_jobs", [1, 2, 4])
def test_blocks_wait_for_those_that_wrote_their_rows(n_jobs: int) -> None:
    """The order of the blocks that touch a part of either table is the same for any number of threads."""
    parts, steps = 4, 40
    visits: dict[str, list[tuple[int, int]]] = {f"{table}{i}": [] for table in "st" for i in range(parts)}
    open_parts: set[str] = set()

    def work(step: int, i: int) -> None:
        own = {f"s{i}", f"t{(i + step) % parts}"}
        assert not own & open_parts
        open_parts.update(own)
        for name in own:
            visits[name].append((step, i))
        time.sleep(1e-4 * ((7 * step + i) % 3))
        open_parts.difference_update(own)

    run_in_waves(work, steps, parts, n_jobs)
    for name, visited in visits.items():
        assert [step for step, _ in visited] == list(range(steps)), name


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_in_a_block_is_raised(n_jobs: int) -> None:
    def work(step: int, i: int) -> None:
        if (step, i) == (3, 1):
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        run_in_waves(work, 100, 4, n_jobs)


def test_parts_have_equal_size_and_probability() -> None:
    probability = np.random.default_rng(5).pareto(1.5, 1001) + 0.01
    parts = partition_nodes(probability, 4, 0)
    assert np.ptp(np.bincount(parts.part_of)) <= 1
    assert np.ptp(np.bincount(parts.part_of, probability)) <= probability.max()
    uniform = np.full(1000, 0.1)
    assert not np.array_equal(partition_nodes(uniform, 4, 0).part_of, partition_nodes(uniform, 4, 1).part_of)


def test_negatives_of_a_part_have_its_share_of_the_distribution() -> None:
    probability = np.random.default_rng(3).random(40)
    probability[::5] = 0
    parts = partition_nodes(probability, 4, 0)
    assert np.bincount(parts.part_of).tolist() == [10] * 4
    for part in range(4):
        span = slice(parts.indptr[part], parts.indptr[part + 1])
        nodes = parts.nodes[span]
        assert np.all(parts.part_of[nodes] == part)
        assert np.all(probability[nodes] > 0)
        total = np.zeros(40)
        np.add.at(total, nodes, parts.threshold[span] / 2**32)
        np.add.at(total, parts.alias[span], 1 - parts.threshold[span] / 2**32)
        assert np.allclose(total[nodes] / len(nodes), probability[nodes] / probability[nodes].sum(), atol=1e-6)
    assert partition_nodes(np.array([1.0, 1.0]), 4, 0).count == 1
    assert [partition_count(k) for k in (2, 10, 20, 40)] == [2, 2, 4, 8]


def test_pairs_are_walks_of_two_nodes() -> None:
    sources, targets = tables(6, scale=0.1)
    pairs = np.tile(np.array([[0, 1], [2, 3]], np.int32), (400, 1))
    parts = partition_nodes(np.ones(6), 1, 0)
    train_walks(pairs, 0, sources, targets, parts, back=0, ahead=1, learning_rates=(0.1, 0.1))
    scores = sources @ targets.T
    assert scores[0, 1] > scores[0, [2, 3, 4, 5]].max() + 1
    assert scores[2, 3] > scores[2, [0, 1, 4, 5]].max() + 1
