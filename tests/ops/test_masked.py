"""Products with selected rows and columns of a matrix, against the dense products."""

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
    values = torch.randn(rows, columns, generator=gen, dtype=torch.float64)
    dense = values * (torch.rand(rows, columns, generator=gen) < 0.4)
    dense = dense + dense.T if symmetric else dense
    row, col = torch.nonzero(dense, as_tuple=True)
    shape = (rows, columns)
    return SparseMatrix.from_coo(row, col, dense[row, col], shape, symmetric=symmetric), dense


@settings(max_examples=50, deadline=None)
@given(
    nodes=st.integers(1, 12),
    share=st.floats(0.01, 1),
    symmetric=st.booleans(),
    small=st.booleans(),
    seed=st.integers(0, 999),
)
def test_gather_and_scatter(nodes, share, symmetric, small, seed):
    # Both implementations for a CPU.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(masked, "_SMALL_PRODUCT", 10**9 if small else 0)
        a, dense = matrix(nodes, nodes, seed, symmetric=symmetric)
        gen = generator(seed)
        order = torch.randperm(nodes, generator=gen)
        selected = torch.sort(order[: max(1, int(share * nodes))]).values
        operator = MaskedOperator(a, selected)
        base, values = (
            torch.randn(n, 3, generator=gen, dtype=torch.float64, requires_grad=True)
            for n in (nodes, selected.numel())
        )
        torch.testing.assert_close(operator.gather(base), dense[selected] @ base)
        scattered = base + dense[:, selected] @ values
        torch.testing.assert_close(operator.scatter(values, base), scattered)
        assert torch.autograd.gradcheck(operator.gather, (base,))
        assert torch.autograd.gradcheck(operator.scatter, (values, base))


@pytest.mark.parametrize("small", [True, False])
def test_gather_rows_of_a_feature_matrix(small, monkeypatch):
    """A matrix that is not square: its rows are nodes and its columns are features."""
    monkeypatch.setattr(masked, "_SMALL_PRODUCT", 10**9 if small else 0)
    x, dense = matrix(8, 5, 0)
    selected = torch.tensor([1, 4, 7])
    weight = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    operator = MaskedOperator(x, selected)
    torch.testing.assert_close(operator.gather(weight), dense[selected] @ weight)
    assert torch.autograd.gradcheck(operator.gather, (weight,))
