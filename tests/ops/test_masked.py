"""Rows and columns of a matrix seen from some nodes, against the dense products."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import generator
from graphlatent.ops import masked
from graphlatent.ops.masked import MaskedOperator
from graphlatent.ops.sparse import SparseMatrix


def matrix(
    rows: int, columns: int, seed: int, *, symmetric: bool = False
) -> tuple[SparseMatrix, torch.Tensor]:
    gen = generator(seed)
    dense = torch.randn(rows, columns, generator=gen, dtype=torch.float64) * (
        torch.rand(rows, columns, generator=gen) < 0.4
    )
    dense = dense + dense.T if symmetric else dense
    row, col = torch.nonzero(dense, as_tuple=True)
    return (
        SparseMatrix.from_coo(row, col, dense[row, col], (rows, columns), symmetric=symmetric),
        dense,
    )


@settings(max_examples=50, deadline=None)
@given(
    nodes=st.integers(1, 12),
    share=st.floats(0.01, 1),
    symmetric=st.booleans(),
    small=st.booleans(),
    seed=st.integers(0, 999),
)
def test_gather_and_scatter(nodes, share, symmetric, small, seed):
    limit, masked._SMALL = masked._SMALL, 10**9 if small else 0  # both ways on a CPU
    try:
        a, dense = matrix(nodes, nodes, seed, symmetric=symmetric)
        gen = generator(seed)
        picked = torch.sort(
            torch.randperm(nodes, generator=gen)[: max(1, int(share * nodes))]
        ).values
        part = MaskedOperator(a, picked)
        whole, some = (
            torch.randn(n, 3, generator=gen, dtype=torch.float64, requires_grad=True)
            for n in (nodes, picked.numel())
        )
        torch.testing.assert_close(part.gather(whole), dense[picked] @ whole)
        torch.testing.assert_close(part.scatter(some, whole), whole + dense[:, picked] @ some)
        assert torch.autograd.gradcheck(part.gather, (whole,))
        assert torch.autograd.gradcheck(part.scatter, (some, whole))
    finally:
        masked._SMALL = limit


@pytest.mark.parametrize("small", [True, False])
def test_rows_of_features(small, monkeypatch):
    """A matrix that is not square: rows are nodes, columns are not."""
    monkeypatch.setattr(masked, "_SMALL", 10**9 if small else 0)
    x, dense = matrix(8, 5, 0)
    picked = torch.tensor([1, 4, 7])
    weight = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(MaskedOperator(x, picked).gather(weight), dense[picked] @ weight)
    assert torch.autograd.gradcheck(MaskedOperator(x, picked).gather, (weight,))
