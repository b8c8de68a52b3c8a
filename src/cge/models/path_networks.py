"""Networks that weight whole paths by a number between 0 and 1: A(p) of `PaperCGE`, the factor r(p) of A(p) in `CGE`.

Every network maps the vectors along a path to one number, and a sigmoid turns it into the weight. The vectors are those
of the nodes in `PaperCGE`, the step vectors of transitions in `CGE`. The first layer is linear in them, so it is
applied once per *vector* and gathered per path: `score(project(vectors)[paths])` is the network at a fraction of its
cost. Gradients do not flow into the vectors.

An LSTM takes one step for each distinct path: a path extends another one (its *parent*) by one node. Paths with the
same first node form a tree, and the LSTM state of a path is one step from that of its parent.

`cge.models.weightings` has their names. A class, or any callable that takes the size of vectors, can also be passed as
`weighting` without a name.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from cge.arrays import Array
from cge.errors import InputError
from cge.parallel import float_kernel, run_blocks

_BATCH = 65_536  # paths
_BLOCK = 16_384  # approximate number of paths per block of a thread
_SPECIALIZED = 16  # hidden units from which a kernel of its own is worth the seconds of compiling it


@dataclass(frozen=True, eq=False)
class PathTree:
    """Distinct paths, grouped by first node, each after its parent.

    `order (b,)` are the indices of paths by group; `parent (b,)` is the position *in that order* of the path without
    its last node, −1 if it is not in the tree; `indptr (g+1,)` are the positions at which the groups start.
    """

    nodes: Array
    length: Array
    order: Array
    parent: Array
    indptr: Array

    @classmethod
    def grow(cls, nodes: Array, length: Array, parents: Array) -> PathTree:
        """Group paths; `parents (b,)` are indices of paths or −1, and a path has a larger index than its parent."""
        order = np.argsort(nodes[:, 0], kind="stable")
        position = np.empty(len(order), np.int64)
        position[order] = np.arange(len(order))
        parent = np.where(parents[order] < 0, -1, position[parents[order]])
        indptr = np.append(np.unique(nodes[order, 0], return_index=True)[1], len(order))
        return cls(nodes, length, order, parent, indptr)

    def __len__(self) -> int:
        return len(self.order)


class PathWeighting(nn.Module):
    """A network that computes path weights. Subclass it for a custom one.

    Implement `score`, and `project` if part of the work can be done once per vector: per node in `PaperCGE`, per
    transition (edge in one direction) in `CGE`. Both must be differentiable in the network's parameters. The
    constructor takes `dim`, the dimension of the vectors along a path (`CGE`: step vectors, see docs/concepts.md).

    Attributes
    ----------
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

    last_layer: ClassVar[str] = ""

    def project(self, vectors: Tensor) -> Tensor:
        """Map vectors `(n, dim)` to the inputs of `score`, `(n, k)`; by default the vectors themselves."""
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

    last_layer = "layer"

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

    last_layer = "across"
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

    last_layer = "linear"

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
        return nn.functional.linear(hidden, self.linear.weight, self.linear.bias).squeeze(-1)

    @torch.no_grad()
    def weigh(self, vectors: Tensor, tree: PathTree, n_jobs: int | None = None) -> Array:
        """Return the weights of all paths of a tree, with one step of the cell per path."""
        bias, recurrent = self.cell.bias_ih + self.cell.bias_hh, self.cell.weight_hh.T.contiguous()
        cell = self.project(vectors.detach()), bias, recurrent, self.linear.weight[0]
        scores = torch.from_numpy(lstm_scores(tree, tuple(part.float().numpy() for part in cell), n_jobs))
        return np.asarray(torch.sigmoid(scores + self.linear.bias.float()))


def lstm_scores(tree: PathTree, cell: tuple[Array, ...], n_jobs: int | None) -> Array:
    """Return the score of each path by an LSTM and a linear layer, `(b,)` float32.

    `cell` is the input part of the gates for each node, `(n, 4h)`, their bias, `(4h,)`, and recurrent weights, `(h,
    4h)`, in the order of `torch.nn.LSTMCell`, and the weights of the layer, `(h,)` (the caller adds its bias).
    """
    hidden = len(cell[-1])
    scores, run = np.empty(len(tree), np.float32), _kernel(hidden if hidden >= _SPECIALIZED else 0)
    paths = (
        *(_read_only(part.astype(np.int32, copy=False)) for part in (tree.nodes, tree.length)),
        tree.order,
        tree.parent,
    )
    # Blocks of whole groups with about _BLOCK paths each.
    cuts = np.searchsorted(tree.indptr, np.arange(0, len(tree) + _BLOCK, _BLOCK))
    cuts = np.unique(np.minimum(cuts, len(tree.indptr) - 1))

    def block(first: int, stop: int) -> None:
        run(paths, tree.indptr[first : stop + 1], cell, scores)

    run_blocks(block, list(pairwise(cuts.tolist())), n_jobs)
    return scores


@float_kernel
def _tanh(x: Any) -> Any:
    """Return tanh x within 2e-7: a continued fraction at x/4, then tanh 2y = 2 tanh y / (1 + tanh² y) twice."""
    y = min(max(x, np.float32(-10)), np.float32(10)) * np.float32(0.25)
    s = y * y
    numerator = y * (np.float32(135135) + s * (np.float32(17325) + s * (np.float32(378) + s)))
    denominator = np.float32(135135) + s * (np.float32(62370) + s * (np.float32(3150) + s * np.float32(28)))
    t = numerator / denominator
    t = np.float32(2) * t / (np.float32(1) + t * t)
    return np.float32(2) * t / (np.float32(1) + t * t)


def _read_only(array: Array) -> Array:
    """Return a view that cannot be written, so that the kernel is compiled for one type of arrays."""
    view = array.view()
    view.flags.writeable = False
    return view


@cache
def _kernel(known_hidden: int) -> Any:
    """Compile the kernel of a block for a cell with `known_hidden` units, or any number of them if it is 0."""

    @float_kernel
    def run(paths: tuple[Array, ...], indptr: Array, cell: tuple[Array, ...], scores: Array) -> None:
        nodes, length, order, parent = paths
        projected, bias, recurrent, last = cell
        hidden = known_hidden if known_hidden > 0 else len(last)
        widest = np.diff(indptr).max()
        states, cell_states = np.empty((widest, hidden), np.float32), np.empty((widest, hidden), np.float32)
        gates = np.empty(4 * hidden, np.float32)
        half = np.float32(0.5)
        for group in range(len(indptr) - 1):
            start = indptr[group]
            for position in range(start, indptr[group + 1]):
                path = order[position]
                state, cell_state = states[position - start], cell_states[position - start]
                prefix = parent[position]
                first = length[path] - 1 if prefix >= 0 else 0
                for k in range(hidden):
                    state[k] = states[prefix - start, k] if prefix >= 0 else np.float32(0)
                    cell_state[k] = cell_states[prefix - start, k] if prefix >= 0 else np.float32(0)
                for step in range(first, length[path]):
                    row = projected[nodes[path, step]]
                    for j in range(4 * hidden):
                        gates[j] = row[j] + bias[j]
                    for k in range(hidden):
                        factor = state[k]
                        column = recurrent[k]
                        for j in range(4 * hidden):
                            gates[j] += factor * column[j]
                    # The sigmoid of the input, forget and output gates is (1 + tanh x/2) / 2.
                    for k in range(hidden):
                        input_gate = half + half * _tanh(half * gates[k])
                        forget_gate = half + half * _tanh(half * gates[hidden + k])
                        cell_state[k] = forget_gate * cell_state[k] + input_gate * _tanh(gates[2 * hidden + k])
                    for k in range(hidden):
                        output_gate = half * (np.float32(1) + _tanh(half * gates[3 * hidden + k]))
                        state[k] = output_gate * _tanh(cell_state[k])
                total = np.float32(0)
                for k in range(hidden):
                    total += last[k] * state[k]
                scores[path] = total

    return run
