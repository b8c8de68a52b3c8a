"""Networks that compute the weight A(p) of a path, a number between 0 and 1.

Every network maps the vectors of a path's nodes to one number, and a sigmoid turns it into the weight. The first layer
is linear in the node vectors, so it is applied once per *node* and gathered per path: `score(project(vectors)[paths])`
is the network at a fraction of its cost. Gradients do not flow into the node vectors.

`cge.models.weightings` has their names. A class, or any callable that takes the size of vectors, can also be passed as
`weighting` without a name.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from cge.arrays import Array
from cge.errors import InputError
from cge.models.path_tree import PathTree, lstm_scores

_BATCH = 65_536  # paths


class PathWeighting(nn.Module):
    """A network that computes path weights. Subclass it for a custom one.

    Implement `score`, and `project` if part of the work can be done once per node. Both must be differentiable in the
    network's parameters. The constructor takes `dim`, the size of the node vectors.

    Attributes
    ----------
    summary : str
        What the weight is computed from, for help texts.
    last_layer : str
        Name of the layer that is zero at the start of training, so that all paths have the weight ½.

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

    summary: ClassVar[str] = "a custom network"
    last_layer: ClassVar[str] = ""

    def project(self, vectors: Tensor) -> Tensor:
        """Map node vectors `(n, dim)` to the inputs of `score`, `(n, k)`; by default the vectors themselves."""
        return vectors

    def score(self, projected: Tensor, length: Tensor) -> Tensor:  # noqa: ARG002 - for subclasses
        """Map paths `(b, window, k)`, zero from `length (b,)` on, to real numbers `(b,)`."""
        raise InputError(f"{type(self).__name__} must define score(projected, length)")

    def init_uniform(self) -> None:
        """Give all paths the weight ½ at the start of training, if the network names its `last_layer`."""
        if self.last_layer:
            for parameter in getattr(self, self.last_layer).parameters():
                nn.init.zeros_(parameter)

    def forward(self, vectors: Tensor, nodes: Tensor, length: Tensor) -> Tensor:
        """Return path weights: vectors `(n, dim)`, `nodes (b, window)` padded with −1, `length (b,)` → `(b,)`."""
        vectors = vectors.detach()
        if nodes.numel() < len(vectors):  # project only nodes that occur
            used, nodes = torch.unique(nodes.clamp(min=0), return_inverse=True)
            vectors = vectors[used]
        return self._weights(self.project(vectors), nodes, length)

    def _weights(self, projected: Tensor, nodes: Tensor, length: Tensor) -> Tensor:
        present = torch.arange(nodes.shape[1], device=nodes.device) < length[:, None]  # (b, window)
        gathered = projected[nodes.clamp(min=0)] * present[:, :, None].to(projected.dtype)  # (b, window, k)
        scores = self.score(gathered, length)
        if not isinstance(scores, Tensor) or scores.shape != length.shape:
            shape = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
            raise InputError(
                f"{type(self).__name__}.score must return one number for each of {len(length)} paths, "
                f"shape {tuple(length.shape)}, found {shape}"
            )
        return torch.sigmoid(scores)

    @torch.no_grad()
    def weigh(self, vectors: Tensor, tree: PathTree, n_jobs: int | None = None) -> Array:  # noqa: ARG002 - for subclasses
        """Return the weights of all paths of a tree without gradients, `(b,)` float32."""
        projected, weights = self.project(vectors.detach()), np.empty(len(tree), np.float32)
        for start in range(0, len(tree), _BATCH):
            batch = slice(start, start + _BATCH)
            nodes, length = torch.tensor(tree.nodes[batch]), torch.tensor(tree.length[batch])
            weights[batch] = self._weights(projected, nodes, length).numpy()
        return weights


class AverageWeighting(PathWeighting):
    """The mean of the node vectors, one feed-forward layer, a sigmoid (the paper's CGE-Average)."""

    summary, last_layer = "is a linear layer on the mean of the node vectors", "layer"

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.layer = nn.Linear(dim, 1)

    def project(self, vectors: Tensor) -> Tensor:
        """Apply the layer without its bias: the mean of projections is the projection of the mean."""
        return vectors @ self.layer.weight.T

    def score(self, projected: Tensor, length: Tensor) -> Tensor:
        """Average over the nodes of each path."""
        return projected.sum(1).squeeze(-1) / length + self.layer.bias


class CnnWeighting(PathWeighting):
    """Two convolutions of filter size 3 with one filter each, a sigmoid (Eq. 1).

    The first slides along the path with one kernel of size 3 for all dimensions, so its result is a vector of size
    `dim`; paths of fewer than 3 nodes are padded with zeros, and over longer ones the positions are averaged. The
    second maps that vector to a number: a filter over one position with `dim` input channels (deviation D2).
    """

    summary, last_layer = "is a CNN along the path", "across"
    taps = 3

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.along = nn.Parameter(torch.full((self.taps,), 1.0 / self.taps) + 0.1 * torch.randn(self.taps))  # w¹
        self.along_bias = nn.Parameter(torch.zeros(()))
        self.across = nn.Linear(dim, 1)  # w²

    def project(self, vectors: Tensor) -> Tensor:
        """Apply the second convolution first: both are linear."""
        return vectors @ self.across.weight.T

    def score(self, projected: Tensor, length: Tensor) -> Tensor:
        """Slide the kernel along the path and average over the positions with three nodes."""
        values = projected.squeeze(-1)  # (b, window)
        if values.shape[1] < self.taps:
            values = nn.functional.pad(values, (0, self.taps - values.shape[1]))
        convolved = values.unfold(1, self.taps, 1) @ self.along  # (b, window - 2)
        positions = (length - self.taps + 1).clamp(min=1)
        valid = torch.arange(convolved.shape[1], device=convolved.device) < positions[:, None]
        mean = (convolved * valid.to(convolved.dtype)).sum(1) / positions
        return mean + self.along_bias * self.across.weight.sum() + self.across.bias


class LstmWeighting(PathWeighting):
    """An LSTM along the path; its last hidden state, a linear layer, a sigmoid (Eq. 2)."""

    summary, last_layer = "is an LSTM along the path", "linear"

    def __init__(self, dim: int, hidden: int = 16) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(dim, hidden)
        self.linear = nn.Linear(hidden, 1)

    def project(self, vectors: Tensor) -> Tensor:
        """Return the input part of the gates, `(n, 4 · hidden)`."""
        return vectors @ self.cell.weight_ih.T

    def score(self, projected: Tensor, length: Tensor) -> Tensor:
        """Run the cell along the path; the state stays the same after the end of a path."""
        hidden = projected.new_zeros(len(projected), self.cell.hidden_size)
        cell_state = hidden
        bias = self.cell.bias_ih + self.cell.bias_hh
        for step in range(projected.shape[1]):
            gates = projected[:, step] + bias + hidden @ self.cell.weight_hh.T
            i, f, g, o = gates.chunk(4, dim=1)  # the order of torch.nn.LSTMCell
            updated = torch.sigmoid(f) * cell_state + torch.sigmoid(i) * torch.tanh(g)
            within = (length > step)[:, None]
            cell_state = torch.where(within, updated, cell_state)
            hidden = torch.where(within, torch.sigmoid(o) * torch.tanh(updated), hidden)
        score: Tensor = self.linear(hidden).squeeze(-1)
        return score

    @torch.no_grad()
    def weigh(self, vectors: Tensor, tree: PathTree, n_jobs: int | None = None) -> Array:
        """Return the weights of all paths of a tree, with one step of the cell per path."""
        projected = self.project(vectors.detach()).float().numpy()
        bias = (self.cell.bias_ih + self.cell.bias_hh).float().numpy()
        recurrent, last = self.cell.weight_hh.float().numpy(), self.linear.weight[0].float().numpy()
        scores = torch.from_numpy(lstm_scores(tree, projected, bias, recurrent, last, n_jobs))
        weights: Array = torch.sigmoid(scores + self.linear.bias.float()).numpy()
        return weights
