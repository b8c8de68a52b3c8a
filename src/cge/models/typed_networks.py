"""Graph neural networks for heterogeneous graphs, for comparison: R-GCN, and a network over metapaths as in SeHGNN."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from cge.arrays import Array
from cge.models.autograd import NodeFeatures, feature_product, sparse_matmul
from cge.models.backends import row_sums
from cge.models.edge_weighting import EdgeInputs
from cge.models.metapath_weighting import MetapathWeighting, list_metapaths
from cge.models.propagation import TransitionMatrix
from cge.models.relation_groups import RelationGroups
from cge.models.sparse_products import SparseFeatures


class Rgcn(nn.Module):
    """Two layers h_v' = Σ_r Σ_u w_vu / d_vr · h_u W_r + h_v W_0 + b over the edges of each relation r.

    W_r = Σ_k a_rk V_k with `n_bases` matrices V_k that the relations share (Schlichtkrull et al. 2018, Eqs. 2 and 3),
    and d_vr is the sum of the weights of the edges of r at v. The sum over relations is one sparse product for each
    basis: Σ_k M_k h V_k, where an edge of relation r has the entry a_rk w_vu / d_vr of M_k.
    """

    def __init__(
        self,
        transitions: TransitionMatrix,
        relations: RelationGroups,
        weights: Array,
        sizes: tuple[int, int, int],
        n_bases: int,
    ) -> None:
        super().__init__()
        self.transitions, codes = transitions, relations.codes
        group, count = relations.by_source
        shares = weights / row_sums(group, weights, count)[group]
        self.shares = torch.from_numpy(np.where(codes < len(relations), shares, 0).astype(np.float32))
        self.codes = torch.from_numpy(np.minimum(codes, len(relations) - 1))  # self-loops have a share of zero
        features, hidden, classes = sizes
        self.first, self.last = (
            nn.Parameter(nn.init.xavier_uniform_(torch.empty(wide, (n_bases + 1) * narrow)))  # V_1 … V_B and W_0
            for wide, narrow in ((features, hidden), (hidden, classes))
        )
        self.coefficients = nn.Parameter(nn.init.xavier_uniform_(torch.empty(2, len(relations), n_bases)))
        self.first_bias, self.last_bias = nn.Parameter(torch.zeros(hidden)), nn.Parameter(torch.zeros(classes))

    def parameter_groups(self, weight_decay: float) -> Sequence[tuple[Sequence[Tensor], float]]:
        """Return groups of parameters, each with its weight decay: only the first layer has any."""
        others = [self.coefficients, self.first_bias, self.last, self.last_bias]
        return [([self.first], weight_decay), (others, 0.0)]

    def forward(self, features: NodeFeatures, dropout: Callable[[Tensor], Tensor]) -> Tensor:
        """Return class scores, `(n, c)`; `dropout` is applied to the hidden layer."""
        hidden = torch.relu(self._layer(feature_product(features, self.first), 0) + self.first_bias)
        return self._layer(dropout(hidden) @ self.last, 1) + self.last_bias

    def _layer(self, projected: Tensor, layer: int) -> Tensor:
        """Return the sum over relations, `(n, d)`, of the nodes' inputs times V_1 … V_B and W_0, `(n, (B + 1) d)`."""
        *bases, own = projected.chunk(self.coefficients.shape[2] + 1, dim=1)
        for basis, coefficients in zip(bases, self.coefficients[layer].T, strict=True):
            own = own + sparse_matmul(self.transitions, self.shares * coefficients[self.codes], basis.contiguous())
        return own


class MetapathNetwork(nn.Module):
    """Inputs propagated along each metapath, with a projection for each and attention between them.

    As in SeHGNN (Yang et al. 2023, arXiv 2207.02547): h_m = x_m W_m + b_m, then h' = h + β softmax(h Q (h K)ᵀ / √d) h V
    with β of 0 at first, and one linear layer on the concatenated ReLU(h'_m). The features are those of
    `metapath_features`, with `widths[m]` columns for metapath m.
    """

    def __init__(self, widths: Sequence[int], hidden: int, classes: int) -> None:
        super().__init__()
        metapaths = len(widths)
        self.first = nn.Parameter(torch.cat([_xavier(width, hidden) for width in widths]))
        self.first_bias = nn.Parameter(torch.zeros(metapaths, hidden))
        self.query, self.key, self.value = (nn.Parameter(_xavier(hidden, hidden)) for _ in range(3))
        self.attention_weight = nn.Parameter(torch.zeros(()))
        self.last = nn.Parameter(_xavier(metapaths * hidden, classes))
        self.last_bias = nn.Parameter(torch.zeros(classes))

    def parameter_groups(self, weight_decay: float) -> Sequence[tuple[Sequence[Tensor], float]]:
        """Return groups of parameters, each with its weight decay: only the first layer has any."""
        others = [value for name, value in self.named_parameters() if name != "first"]
        return [([self.first], weight_decay), (others, 0.0)]

    def forward(self, features: NodeFeatures, dropout: Callable[[Tensor], Tensor]) -> Tensor:
        """Return class scores, `(k, c)`; `dropout` is applied to the hidden layer."""
        metapaths, dim = self.first_bias.shape
        h = feature_product(features, self.first).view(metapaths, -1, dim).transpose(0, 1) + self.first_bias
        attention = torch.softmax(h @ self.query @ (h @ self.key).transpose(1, 2) / dim**0.5, dim=2)  # (k, C, C)
        h = h + self.attention_weight * attention @ h @ self.value
        return dropout(torch.relu(h).flatten(1)) @ self.last + self.last_bias


def _xavier(rows: int, columns: int) -> Tensor:
    return nn.init.xavier_uniform_(torch.empty(rows, columns))


def metapath_features(
    edge_inputs: EdgeInputs, inputs: Any, nodes: Array, starts: Array, hops: int
) -> tuple[SparseFeatures, list[int]]:
    """Return the inputs of `nodes (k,)` propagated along each metapath from `starts`, and their numbers of columns.

    The mean over the edges of each relation, with rows of unit length. They are the blocks of a block-diagonal matrix,
    `(C k, sum of columns)` for C metapaths, so that one product projects each with weights of its own. Columns in which
    all of the nodes have zero are left out: of one-hot node ids, most are.
    """
    metapaths = list_metapaths(edge_inputs, starts, hops)
    weighting, relations = MetapathWeighting(metapaths, [1.0] * len(metapaths), 0.0), edge_inputs.relations
    assert relations is not None  # noqa: S101 - for the type checker
    values, place = weighting.edge_weights(edge_inputs), {name: code for code, name in enumerate(relations.names)}
    sparse = inputs.csr if isinstance(inputs, SparseFeatures) else sp.csr_array(inputs)
    propagated: dict[tuple[str, ...], Any] = {(): sparse}

    def along(metapath: tuple[str, ...]) -> Any:
        if metapath not in propagated:
            propagated[metapath] = relations.matrix(values, place[metapath[0]]) @ along(metapath[1:])
        return propagated[metapath]

    blocks = []
    for metapath in metapaths:
        block = sp.csr_array(along(metapath)[nodes])
        block = block[:, np.unique(block.indices[block.data != 0])]
        lengths = np.sqrt(np.asarray(block.multiply(block).sum(axis=1)).ravel())
        blocks.append(sp.diags_array(1 / np.where(lengths > 0, lengths, 1)) @ block)
    rows = sp.csr_array(sp.block_diag(blocks, format="csr"), dtype=np.float32)
    return SparseFeatures(rows, getattr(inputs, "n_jobs", None)), [int(block.shape[1]) for block in blocks]
