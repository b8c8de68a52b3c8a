"""How long a fit takes and how much memory it needs, before it is begun: a rough sum of what its parts cost.

An epoch of a reader with R passes that carries d numbers along K hops of S steps, over E entries of what nodes carry:

    seconds = 0.0033 + K S (2R + 1) (7.3e-10 d + 1.5e-8) + 2e-8 E R

Where what paths bring is summed before, K S (7.3e-10 f + 1.5e-8) once for f columns, and 0.0033 + 2e-9 r f R in an
epoch that looks at r nodes.

The constants were fitted to readers on CORA, PUBMED, NELL and a random graph of a million edges, with and without
features, on a core of a common server; single epochs are met within a factor of 1.5. What a fit really takes depends on
which candidates win and when patience ends, so a whole one is met within a factor of three or so. A second thread saves
little on graphs of up to a million edges, so threads are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cge.models.path_networks import NETWORKS, PathWeighting
from cge.training.named_weighting import LABEL_PROPAGATION_HOPS

__all__ = ["Cost", "PairSize", "PathSize", "Training", "label_propagation_seconds", "pair_cost", "path_cost"]

_BASE = 560e6  # bytes of Python, PyTorch and compiled kernels
_MARGIN = 1.3  # what is alive at once besides what is counted
_OUTER_DIM = 16  # of `OuterSettings`
_BYTES_PER_PATH = 120  # of the table of distinct paths
_PAIR_SECONDS = {
    "transductive": 4.5e-7,
    "inductive": 1.4e-6,
}  # of a pair at 128 numbers and 5 negatives, on two threads
_UNIFORM_COST = 0.65  # of uniform weights, relative to the network "average"


@dataclass(frozen=True)
class Cost:
    """About how many seconds, and how many bytes at the worst moment."""

    seconds: float
    peak_bytes: float


@dataclass(frozen=True)
class PathSize:
    """A graph and its labels as the cost of the path encoder goes by them.

    `entries` and `columns` are those of what nodes carry; `steps` counts both directions and a step of each node to
    itself.
    """

    nodes: int
    steps: int
    entries: int
    columns: int
    classes: int
    train: int
    hops: int


@dataclass(frozen=True)
class Training:
    """A training that is to be expected: how many passes, numbers carried and epochs.

    `rows` are the nodes that an epoch looks at, where what paths bring is summed before; 0 where it is not.
    """

    n_augmentations: int
    carried: int
    epochs: float
    rows: int = 0

    def seconds(self, size: PathSize) -> float:
        """Return about how long it takes."""

        def propagation(carried: int) -> float:
            return size.hops * size.steps * (7.3e-10 * carried + 1.5e-8)

        if self.rows:
            return propagation(size.columns) + self.epochs * (
                0.0033 + 2e-9 * self.rows * size.columns * self.n_augmentations
            )
        propagated = (2 * self.n_augmentations + 1) * propagation(self.carried)
        return self.epochs * (0.0033 + propagated + 2e-8 * size.entries * self.n_augmentations)


def label_propagation_seconds(size: PathSize) -> float:
    """Return about how long the votes of known labels take, own ones excluded."""
    return 2e-9 * LABEL_PROPAGATION_HOPS * size.steps * (size.train + size.classes)


def path_cost(
    size: PathSize, trainings: Iterable[Training], outer_steps: int, folds: int, votes: int, sampled: int = 0
) -> Cost:
    """Return the cost of a fit of the path encoder.

    Weightings are taught in `outer_steps` in all, on `folds`; `votes` are counted along so many weightings; networks
    look at `sampled` paths of each node.
    """
    several = list(trainings)
    teach = 2 * Training(folds, _OUTER_DIM, outer_steps).seconds(size) * (3 if sampled else 1)
    seconds = sum(one.seconds(size) for one in several) + teach + votes * label_propagation_seconds(size)
    widest = max((one.n_augmentations * one.carried for one in several), default=0)
    kept = sum(one.carried for one in several)  # parameters, their gradient, two moments, the best epoch
    more = (
        200 * size.steps
        + 60 * size.entries
        + 4 * size.nodes * (6 * widest + 8 * size.classes)
        + 20 * size.columns * kept
        + 60 * size.nodes * sampled
    )
    return Cost(1 + seconds, _BASE + _MARGIN * more)


@dataclass(frozen=True)
class PairSize:
    """What the cost of the paper's encoders goes by."""

    nodes: int
    entries: int
    dim: int
    walks_per_node: int
    walk_length: int
    window: int
    negatives: int
    softmax: bool

    @property
    def pairs(self) -> int:
        """Pairs of path ends in a round."""
        gaps = range(1, min(self.window, self.walk_length))
        return self.nodes * self.walks_per_node * sum(self.walk_length - gap for gap in gaps)


def pair_cost(size: PairSize, encoder: str, weighting: str, max_epochs: int) -> Cost:
    """Return the cost of a fit of the paper's encoders."""
    each = _PAIR_SECONDS[encoder] * size.dim / 128 * (1 + size.negatives) / 6
    if encoder == "transductive":
        network = NETWORKS.get(weighting, PathWeighting)
        each *= _UNIFORM_COST if weighting == "uniform" else getattr(network, "cost", PathWeighting.cost)
    if size.softmax:
        each += 3e-10 * size.nodes * size.dim
    paths = 0 if weighting == "uniform" else _BYTES_PER_PATH * size.pairs
    more = paths + 12 * size.nodes * size.dim + 24 * size.entries
    return Cost(1 + max_epochs * (0.1 + each * size.pairs), _BASE + 1.1 * more)
