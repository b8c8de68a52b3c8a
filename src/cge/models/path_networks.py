"""Networks that give a path its weight A(p) in (0, 1).

Every network reads the vectors of a path's nodes and returns one number, which a sigmoid turns into the weight. The
first layer of each is linear in the node vectors, so it is applied to every *node* once and gathered per path:
`score(project(vectors)[paths])` is the network, at a fraction of its cost.

The network sees the node vectors and does not train them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cge.errors import InputError
from cge.models.path_tree import PathTree, lstm_scores

__all__ = ["WEIGHTINGS", "AverageWeighting", "CnnWeighting", "LstmWeighting", "PathWeighting", "make_weighting"]

Array = npt.NDArray[Any]

_WEIGHED_AT_ONCE = 65_536  # paths


class PathWeighting(nn.Module):
    """A network that weighs paths. Subclass it to bring your own.

    Write `score`, and `project` if part of the work can be done once per node. Both must be differentiable in the
    network's parameters. `dim` is the size of the node vectors the network will see.

    Examples
    --------
    A weight that depends on the last node alone:

    >>> class LastNode(PathWeighting):
    ...     def __init__(self, dim):
    ...         super().__init__()
    ...         self.layer = nn.Linear(dim, 1)
    ...
    ...     def score(self, projected, length):
    ...         last = projected[torch.arange(len(length)), length - 1]
    ...         return self.layer(last).squeeze(-1)
    >>> network = LastNode(4)
    >>> network(torch.zeros(3, 4), torch.tensor([[0, 1, -1]]), torch.tensor([2])).shape
    torch.Size([1])
    """

    def project(self, vectors: Tensor) -> Tensor:
        """Map node vectors `(n, dim)` to what `score` reads of a node, `(n, k)`; by default the vectors themselves."""
        return vectors

    def score(self, projected: Tensor, length: Tensor) -> Tensor:  # noqa: ARG002 - for subclasses
        """Map paths `(b, window, k)`, zero beyond `length (b,)`, to real numbers `(b,)`."""
        raise InputError(f"{type(self).__name__} must define score(projected, length)")

    def init_uniform(self) -> None:
        """Make all paths weigh ½, as a start of learning, where the network knows how; own networks start as made."""

    def forward(self, vectors: Tensor, nodes: Tensor, length: Tensor) -> Tensor:
        """Weigh paths: node vectors `(n, dim)`, `nodes (b, window)` filled up with −1, `length (b,)` → `(b,)`."""
        vectors = vectors.detach()
        if nodes.numel() < len(vectors):  # look only at nodes that occur
            used, nodes = torch.unique(nodes.clamp(min=0), return_inverse=True)
            vectors = vectors[used]
        projected = self.project(vectors)
        present = torch.arange(nodes.shape[1], device=nodes.device) < length[:, None]  # (b, window)
        gathered = projected[nodes.clamp(min=0)] * present[:, :, None].to(projected.dtype)  # (b, window, k)
        return torch.sigmoid(self._scores(gathered, length))

    def _scores(self, gathered: Tensor, length: Tensor) -> Tensor:
        """Return what `score` returns, or say what is wrong with it."""
        found = self.score(gathered, length)
        if not isinstance(found, Tensor) or found.shape != length.shape:
            shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise InputError(
                f"{type(self).__name__}.score must return one number for each of {len(length)} paths, "
                f"shape {tuple(length.shape)}, found {shape}"
            )
        return found

    @torch.no_grad()
    def weigh(self, vectors: Tensor, tree: PathTree, n_jobs: int | None = None) -> Array:  # noqa: ARG002 - for subclasses
        """Weigh all paths of a tree without recording gradients, `(b,)` float32."""
        projected, made = self.project(vectors.detach()), np.empty(len(tree), np.float32)
        for begin in range(0, len(tree), _WEIGHED_AT_ONCE):
            piece = slice(begin, begin + _WEIGHED_AT_ONCE)
            nodes, length = torch.tensor(tree.nodes[piece]), torch.tensor(tree.length[piece])
            gathered = projected[nodes.clamp(min=0).flatten()].view(*nodes.shape, -1) * (nodes >= 0)[:, :, None]
            made[piece] = torch.sigmoid(self._scores(gathered, length)).numpy()
        return made


class AverageWeighting(PathWeighting):
    """The mean of the node vectors, one feed-forward layer, a sigmoid (the paper's CGE-Average)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.layer = nn.Linear(dim, 1)

    def init_uniform(self) -> None:
        """Forget the layer."""
        _forget(self.layer)

    def project(self, vectors: Tensor) -> Tensor:
        """Apply the layer without its bias: the mean of projections is the projection of the mean."""
        return vectors @ self.layer.weight.T

    def score(self, projected: Tensor, length: Tensor) -> Tensor:
        """Average over the nodes that are there."""
        return projected.sum(1).squeeze(-1) / length + self.layer.bias


class CnnWeighting(PathWeighting):
    """Two convolutions of filter size 3 with one filter each, a sigmoid (Eq. 1).

    The first runs along the path with one 3-tap kernel for all dimensions, so its result is a vector of the embedding's
    size; paths of fewer than 3 nodes are filled up with zeros, and of longer ones the positions are averaged. The
    second turns that vector into a number: a filter over one position with `dim` input channels (deviation D2).
    """

    taps = 3

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.along = nn.Parameter(torch.full((self.taps,), 1.0 / self.taps) + 0.1 * torch.randn(self.taps))  # w¹
        self.along_bias = nn.Parameter(torch.zeros(()))
        self.across = nn.Linear(dim, 1)  # w²

    def init_uniform(self) -> None:
        """Forget the second convolution."""
        _forget(self.across)

    def project(self, vectors: Tensor) -> Tensor:
        """Both convolutions are linear, so the second one can go first."""
        return vectors @ self.across.weight.T

    def score(self, projected: Tensor, length: Tensor) -> Tensor:
        """Slide the taps along the path and average over the positions that hold three nodes."""
        values = projected.squeeze(-1)  # (b, window)
        if values.shape[1] < self.taps:
            values = nn.functional.pad(values, (0, self.taps - values.shape[1]))
        slid = values.unfold(1, self.taps, 1) @ self.along  # (b, window - 2)
        positions = (length - self.taps + 1).clamp(min=1)
        valid = torch.arange(slid.shape[1], device=slid.device) < positions[:, None]
        mean = (slid * valid.to(slid.dtype)).sum(1) / positions
        return mean + self.along_bias * self.across.weight.sum() + self.across.bias


class LstmWeighting(PathWeighting):
    """An LSTM along the path; its last hidden state, a linear layer, a sigmoid (Eq. 2)."""

    def __init__(self, dim: int, hidden: int = 16) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(dim, hidden)
        self.linear = nn.Linear(hidden, 1)

    def init_uniform(self) -> None:
        """Forget the last layer."""
        _forget(self.linear)

    def project(self, vectors: Tensor) -> Tensor:
        """Return the input half of the gates, `(n, 4 · hidden)`."""
        return vectors @ self.cell.weight_ih.T

    def score(self, projected: Tensor, length: Tensor) -> Tensor:
        """Step along the path; a path that has ended keeps its state."""
        hidden = projected.new_zeros(len(projected), self.cell.hidden_size)
        memory = hidden
        bias = self.cell.bias_ih + self.cell.bias_hh
        for step in range(projected.shape[1]):
            gates = projected[:, step] + bias + hidden @ self.cell.weight_hh.T
            enter, forget, fresh, leave = gates.chunk(4, dim=1)  # the order of torch.nn.LSTMCell
            grown = torch.sigmoid(forget) * memory + torch.sigmoid(enter) * torch.tanh(fresh)
            going = (length > step)[:, None]
            memory = torch.where(going, grown, memory)
            hidden = torch.where(going, torch.sigmoid(leave) * torch.tanh(grown), hidden)
        score: Tensor = self.linear(hidden).squeeze(-1)
        return score

    @torch.no_grad()
    def weigh(self, vectors: Tensor, tree: PathTree, n_jobs: int | None = None) -> Array:
        """Weigh all paths of a tree, one step of the cell for each."""
        projected = self.project(vectors.detach()).float().numpy()
        bias = (self.cell.bias_ih + self.cell.bias_hh).float().numpy()
        recurrent, last = self.cell.weight_hh.float().numpy(), self.linear.weight[0].float().numpy()
        scores = torch.from_numpy(lstm_scores(tree, projected, bias, recurrent, last, n_jobs))
        weights: Array = torch.sigmoid(scores + self.linear.bias.float()).numpy()
        return weights


def _forget(layer: nn.Linear) -> None:
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)


WEIGHTINGS: dict[str, Callable[[int], PathWeighting]] = {
    "average": AverageWeighting,
    "cnn": CnnWeighting,
    "lstm": LstmWeighting,
}


def make_weighting(kind: str | Callable[[int], PathWeighting], dim: int) -> PathWeighting | None:
    """Return the network called `kind`, or None for "uniform"; a callable gets `dim` and returns its own network."""
    if kind == "uniform":
        return None
    if isinstance(kind, nn.Module):
        raise InputError(
            parameter="weighting", expected=f"the class {type(kind).__name__}, not an instance", found=kind
        )
    if callable(kind):
        made = kind(dim)
        if not isinstance(made, PathWeighting):
            raise InputError(f"a weighting must make a cge.PathWeighting, but {kind!r} made a {type(made).__name__}")
        if not any(parameter.requires_grad for parameter in made.parameters()):
            raise InputError(f"{type(made).__name__} has no parameters, so there is nothing to learn")
        return made
    if kind not in WEIGHTINGS:
        choices = ", ".join(repr(name) for name in ["uniform", *WEIGHTINGS])
        legal = f"one of {choices} or a callable that returns a cge.PathWeighting"
        raise InputError(parameter="weighting", expected=legal, found=kind)
    return WEIGHTINGS[kind](dim)
