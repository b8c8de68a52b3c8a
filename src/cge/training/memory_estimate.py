"""How much memory a fit needs at most, estimated before it starts.

There is no estimate of seconds: which candidates win and when patience ends decides how long a fit takes, and no
estimate was within a factor of two on CORA, PUBMED, NELL, Debian and a graph of 100,000 nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cge.models.weightings import WEIGHTINGS
from cge.training.candidates import SELECTED, Candidate
from cge.training.encoder_settings import Work

_BASE = 560e6  # bytes of Python, PyTorch and compiled kernels
_MARGIN = 1.3  # for what is alive at once besides what is counted
_BYTES_PER_PATH = 120  # of the table of distinct paths


def encoder_memory(candidates: Sequence[Candidate], work: Work, *, nodes: int, entries: int, columns: int) -> float:
    """Return about how many bytes a fit of the path encoder needs; `entries` and `columns` are those of the inputs.

    The trainings of the first weighting and those of a candidate that is compared with it are alive at once.
    """
    settings, size = work.settings, work.size
    first = {(each.classifier, each.label_propagation) for each in candidates if each.stage != "weighting"}
    named = [classifier for classifier, _ in first if classifier != SELECTED]
    compares = any(each.stage == "weighting" for each in candidates)
    widest = max((work.spec(name).settings.n_augmentations * work.propagated_dim(name) for name in named), default=0)
    alive = _total_dim(work, named) + (_total_dim(work, set(named)) if compares else 0)
    sampled = settings.walks_per_node * (settings.hops + 1) if _uses_network(candidates) else 0
    counted = (
        200 * size.transitions
        + 60 * entries
        + 4 * nodes * (6 * widest + 8 * size.classes)
        + 20 * columns * alive  # parameters, their gradient, two moments, the best epoch
        + 60 * nodes * sampled
    )
    return _BASE + _MARGIN * counted


def _total_dim(work: Work, classifiers: Iterable[str]) -> int:
    return sum(work.propagated_dim(classifier) for classifier in classifiers)


def _uses_network(candidates: Sequence[Candidate]) -> bool:
    name = candidates[-1].weighting
    return name != SELECTED and (name not in WEIGHTINGS or WEIGHTINGS[name].network is not None)


@dataclass(frozen=True)
class PaperSize:
    """The sizes that the memory of the paper's algorithm depends on."""

    nodes: int
    entries: int
    dim: int
    walks_per_node: int
    walk_length: int
    window: int

    @property
    def pairs(self) -> int:
        """Pairs of path ends in an epoch."""
        gaps = range(1, min(self.window, self.walk_length))
        return self.nodes * self.walks_per_node * sum(self.walk_length - gap for gap in gaps)


def paper_memory(size: PaperSize, weighting: str) -> float:
    """Return about how many bytes a fit of the paper's algorithm needs."""
    paths = 0 if weighting == "uniform" else _BYTES_PER_PATH * size.pairs
    return _BASE + 1.1 * (paths + 12 * size.nodes * size.dim + 24 * size.entries)
