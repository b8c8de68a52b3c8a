"""Encoders and heads of the paper against the equations as printed, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from cge.estimators.paper_model import normalized_features
from cge.models.paper_networks import FeatureEncoder, InductiveHead, TableEncoder, TransductiveHead
from tests.fixtures import directional_derivative

DIM = 5


def test_feature_encoder_and_its_tangent() -> None:
    torch.manual_seed(2)
    encoder, x = FeatureEncoder(4, DIM).double(), torch.randn(6, 4, dtype=torch.float64)
    torch.testing.assert_close(encoder(x), torch.tanh(x @ encoder.weight + encoder.bias))
    direction = {name: torch.randn_like(value) for name, value in encoder.named_parameters()}
    derivative = directional_derivative(encoder(x), list(encoder.parameters()), list(direction.values()))
    torch.testing.assert_close(encoder.tangent(x, direction), derivative)
    table = TableEncoder(6, DIM)
    assert table().shape == (6, DIM)


def test_rows_of_sparse_features_have_unit_length_also_where_squares_overflow() -> None:
    rows = np.array([[3, 4, 0], [0, 0, 0], [1e30, 0, 1e30]], np.float32)
    inputs: Any = normalized_features(sp.csr_array(rows))
    np.testing.assert_allclose(inputs.csr.toarray(), [[0.6, 0.8, 0], [0, 0, 0], [0.5**0.5, 0, 0.5**0.5]], rtol=1e-6)


def test_transductive_head_is_eq_8() -> None:
    """f of the concatenation of h^k(x) and h^l(e), written as the paper writes it."""
    torch.manual_seed(3)
    head = TransductiveHead(4, DIM, 3, hidden=6).double()
    x, e = torch.randn(7, 4, dtype=torch.float64), torch.randn(7, DIM, dtype=torch.float64)
    joint = torch.cat([torch.relu(head.from_x(x)), torch.relu(head.from_e(e / e.norm(dim=1, keepdim=True)))], dim=1)
    weight = torch.cat([head.score_x.weight, head.score_e.weight], dim=1)
    torch.testing.assert_close(head(x, e), joint @ weight.T + head.score_e.bias)
    torch.testing.assert_close(torch.stack(head.branches(x, e)).sum(0), head(x, e))
    without = TransductiveHead(0, DIM, 3, hidden=6).double()
    assert without(None, e).shape == (7, 3)
    assert len(without.branches(None, e)) == 1


def test_inductive_head_is_eq_10() -> None:
    torch.manual_seed(4)
    head = InductiveHead(4, DIM, 3).double()
    x, e = torch.randn(7, 4, dtype=torch.float64), torch.randn(7, DIM, dtype=torch.float64)
    weight = torch.cat([head.from_x.weight, head.from_e.weight], dim=1)
    unit = e / e.norm(dim=1, keepdim=True)
    torch.testing.assert_close(head(x, e), torch.cat([x, unit], dim=1) @ weight.T + head.from_e.bias)
