"""The GPU kernels against plain PyTorch.

They run on a GPU where there is one, and otherwise in Triton's interpreter (see conftest.py).
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cases import generator
from graphlatent.ops.sparse import SparseMatrix

GPU = torch.cuda.is_available()
pytest.importorskip("triton", reason="needs Triton, which comes with PyTorch's CUDA builds")
DEVICE = torch.device("cuda" if GPU else "cpu")

from graphlatent.ops.kernels import self_test  # noqa: E402
from graphlatent.ops.kernels.norm import activate_norm, activate_norm_backward  # noqa: E402
from graphlatent.ops.kernels.spmm import spmm  # noqa: E402


def test_self_test_passes():
    assert self_test(DEVICE)


@pytest.mark.parametrize("slope", [None, 0.25])
def test_nan_stays_nan(slope):
    z = torch.tensor([[float("nan"), 1.0], [2.0, -1.0]], device=DEVICE)
    prelu = None if slope is None else torch.tensor([slope], device=DEVICE)
    out, _, _ = activate_norm(z, prelu, None, None, eps=0.0, limit=None)
    assert bool(torch.isnan(out[0, 0])) and not bool(torch.isnan(out[:, 1]).any())


def random_matrix(
    rows: int, columns: int, *, density: float, seed: int
) -> tuple[SparseMatrix, Tensor]:
    gen = generator(seed)
    values = torch.randn(rows, columns, generator=gen)
    dense = values * (torch.rand(rows, columns, generator=gen) < density)
    row, col = torch.nonzero(dense, as_tuple=True)
    matrix = SparseMatrix.from_coo(row, col, dense[row, col], (rows, columns))
    return matrix.to(DEVICE), dense.to(DEVICE)


@settings(max_examples=25 if not GPU else 200, deadline=None)
@given(
    rows=st.integers(1, 40),
    columns=st.integers(1, 40),
    width=st.integers(1, 150),
    density=st.floats(0, 1),
    base=st.sampled_from([None, "rows", "one"]),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
    seed=st.integers(0, 999),
)
def test_product(rows, columns, width, density, base, dtype, seed):
    matrix, dense = random_matrix(rows, columns, density=density, seed=seed)
    gen = generator(seed)
    other = torch.randn(columns, width, generator=gen).to(DEVICE, dtype)
    added = {
        None: None,
        "rows": torch.randn(rows, width, generator=gen),
        "one": torch.randn(width, generator=gen),
    }[base]
    added = None if added is None else added.to(DEVICE, dtype)
    order = torch.randperm(rows, generator=gen).to(DEVICE, torch.int32) if seed % 2 else None
    csr = (matrix.crow, matrix.col, matrix.value)
    ours = spmm(*csr, other, num_rows=rows, base=added, alpha=-1.0, order=order)
    exact = dense.double() @ other.double()
    exact = exact if added is None else added.double() - exact
    assert ours.dtype == dtype
    rtol, atol = (1e-2, 5e-2) if dtype == torch.bfloat16 else (1e-5, 1e-4)
    torch.testing.assert_close(ours.double(), exact, rtol=rtol, atol=atol)


@settings(max_examples=25 if not GPU else 200, deadline=None)
@given(
    nodes=st.integers(2, 40),
    width=st.integers(1, 80),
    share=st.floats(0.05, 1),
    seed=st.integers(0, 999),
)
def test_products_with_selected_rows_and_columns(nodes, width, share, seed):
    matrix, dense = random_matrix(nodes, nodes, density=0.3, seed=seed)
    gen = generator(seed)
    order = torch.randperm(nodes, generator=gen)
    selected = torch.sort(order[: max(1, int(share * nodes))]).values.to(DEVICE)
    num_selected = selected.numel()
    whole = torch.randn(nodes, width, generator=gen).to(DEVICE)
    part = torch.randn(num_selected, width, generator=gen).to(DEVICE)
    csr = (matrix.crow, matrix.col, matrix.value)
    gathered = spmm(*csr, whole, num_rows=num_selected, rows=selected)
    torch.testing.assert_close(gathered, dense[selected] @ whole, rtol=1e-4, atol=1e-4)
    position = torch.full((nodes,), -1, dtype=torch.int32, device=DEVICE)
    position[selected] = torch.arange(num_selected, dtype=torch.int32, device=DEVICE)
    scattered = spmm(*csr, part, num_rows=nodes, position=position, base=whole)
    exact = whole + dense[:, selected] @ part
    torch.testing.assert_close(scattered, exact, rtol=1e-4, atol=1e-4)


def test_rows_and_columns_are_renumbered():
    """The blocks of a block-diagonal matrix in another order, and an empty row."""
    blocks = [torch.randn(n, n, generator=generator(n)) for n in (3, 1, 5)]
    row, col = torch.nonzero(torch.block_diag(*blocks), as_tuple=True)
    whole = torch.block_diag(*blocks)
    matrix = SparseMatrix.from_coo(row, col, whole[row, col], (9, 9)).to(DEVICE)
    # Row 9 is empty.
    crow = torch.cat([matrix.crow, matrix.crow[-1:]])
    # Block 2, block 0, padding.
    nodes = torch.tensor([4, 5, 6, 7, 8, 0, 1, 2, 9], device=DEVICE)
    shift = torch.tensor([-4] * 5 + [5] * 3 + [0], device=DEVICE)
    other = torch.randn(9, 6, generator=generator(0)).to(DEVICE)
    ours = spmm(crow, matrix.col, matrix.value, other, num_rows=9, rows=nodes, shift=shift)
    exact = torch.block_diag(blocks[2], blocks[0], torch.zeros(1, 1)).to(DEVICE) @ other
    torch.testing.assert_close(ours, exact, rtol=1e-4, atol=1e-4)


@settings(max_examples=20 if not GPU else 200, deadline=None)
@given(
    rows=st.sampled_from([1, 2, 31, 33, 200]),
    width=st.sampled_from([1, 5, 64, 70]),
    slope=st.sampled_from([None, 0.25, -0.5]),
    norm=st.booleans(),
    padded=st.booleans(),
    offset=st.sampled_from([0.0, 100.0]),
    seed=st.integers(0, 999),
)
def test_activation_and_norm(rows, width, slope, norm, padded, offset, seed):
    gen = generator(seed)
    z = torch.randn(rows, width, generator=gen) + offset
    z, grad = z.to(DEVICE), torch.randn(rows, width, generator=gen).to(DEVICE)
    real = max(1, rows // 2) if padded else rows
    limit = torch.tensor(real, device=DEVICE) if padded else None
    a = None if slope is None else torch.tensor([slope], device=DEVICE)
    gamma = torch.randn(width, generator=gen).to(DEVICE) if norm else None
    beta = torch.randn(width, generator=gen).to(DEVICE) if norm else None
    out, mean, rstd = activate_norm(z, a, gamma, beta, eps=1e-5, limit=limit)
    got = activate_norm_backward(grad, z, a, gamma, mean, rstd, limit=limit)

    leaves = [None if t is None else t.double().requires_grad_() for t in (z, a, gamma, beta)]
    exact = leaves[0][:real]
    exact = torch.relu(exact) if slope is None else torch.where(exact > 0, exact, exact * leaves[1])
    if norm:
        std = torch.sqrt(exact.var(0, unbiased=False) + 1e-5)
        exact = (exact - exact.mean(0)) / std * leaves[2] + leaves[3]
    atol = 2e-3 + 1e-4 * offset
    torch.testing.assert_close(out[:real].double(), exact.detach(), rtol=1e-3, atol=atol)
    assert bool((out[real:] == 0).all())
    loss = (exact * grad[:real].double()).sum()
    expected = torch.autograd.grad(loss, [t for t in leaves if t is not None])
    for ours, theirs in zip([t for t in got if t is not None], expected, strict=True):
        scale = max(1.0, float(theirs.abs().max()))
        torch.testing.assert_close(ours.double() / scale, theirs / scale, rtol=1e-2, atol=atol)
    assert bool((got[0][real:] == 0).all())
