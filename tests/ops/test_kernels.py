"""The GPU kernels against plain PyTorch: on a GPU where there is one, else in Triton's interpreter
where Triton is installed.
"""

from __future__ import annotations

import os

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cases import generator
from graphlatent.ops.sparse import SparseMatrix

GPU = torch.cuda.is_available()
if not GPU:
    os.environ.setdefault("TRITON_INTERPRET", "1")
pytest.importorskip("triton", reason="needs Triton, which comes with PyTorch's CUDA builds")
DEVICE = torch.device("cuda" if GPU else "cpu")

from graphlatent.ops.kernels import try_out  # noqa: E402
from graphlatent.ops.kernels.norm import activate_norm, activate_norm_backward  # noqa: E402
from graphlatent.ops.kernels.spmm import spmm  # noqa: E402


def test_trying_out():
    assert try_out(DEVICE)


@pytest.mark.parametrize("slope", [None, 0.25])
def test_what_is_not_a_number_stays_so(slope):
    z = torch.tensor([[float("nan"), 1.0], [2.0, -1.0]], device=DEVICE)
    out, _, _ = activate_norm(
        z,
        None if slope is None else torch.tensor([slope], device=DEVICE),
        None,
        None,
        eps=0.0,
        limit=None,
    )
    assert bool(torch.isnan(out[0, 0])) and not bool(torch.isnan(out[:, 1]).any())


def random_matrix(
    rows: int, columns: int, *, density: float, seed: int
) -> tuple[SparseMatrix, Tensor]:
    gen = generator(seed)
    dense = torch.randn(rows, columns, generator=gen) * (
        torch.rand(rows, columns, generator=gen) < density
    )
    row, col = torch.nonzero(dense, as_tuple=True)
    return SparseMatrix.from_coo(row, col, dense[row, col], (rows, columns)).to(DEVICE), dense.to(
        DEVICE
    )


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
    ours = spmm(
        matrix.crow,
        matrix.col,
        matrix.value,
        other,
        num_rows=rows,
        base=added,
        alpha=-1.0,
        order=order,
    )
    exact = dense.double() @ other.double()
    exact = exact if added is None else added.double() - exact
    assert ours.dtype == dtype
    torch.testing.assert_close(
        ours.double(),
        exact,
        rtol=1e-2 if dtype == torch.bfloat16 else 1e-5,
        atol=5e-2 if dtype == torch.bfloat16 else 1e-4,
    )


@settings(max_examples=25 if not GPU else 200, deadline=None)
@given(
    nodes=st.integers(2, 40),
    width=st.integers(1, 80),
    share=st.floats(0.05, 1),
    seed=st.integers(0, 999),
)
def test_some_rows_and_some_columns(nodes, width, share, seed):
    matrix, dense = random_matrix(nodes, nodes, density=0.3, seed=seed)
    gen = generator(seed)
    picked = torch.sort(
        torch.randperm(nodes, generator=gen)[: max(1, int(share * nodes))]
    ).values.to(DEVICE)
    whole, part = (torch.randn(n, width, generator=gen).to(DEVICE) for n in (nodes, picked.numel()))
    args = (matrix.crow, matrix.col, matrix.value)
    torch.testing.assert_close(
        spmm(*args, whole, num_rows=picked.numel(), rows=picked),
        dense[picked] @ whole,
        rtol=1e-4,
        atol=1e-4,
    )
    place = torch.full((nodes,), -1, dtype=torch.int32, device=DEVICE)
    place[picked] = torch.arange(picked.numel(), dtype=torch.int32, device=DEVICE)
    spread = spmm(*args, part, num_rows=nodes, place=place, base=whole)
    torch.testing.assert_close(spread, whole + dense[:, picked] @ part, rtol=1e-4, atol=1e-4)


def test_rows_moved_elsewhere():
    """A block-diagonal matrix whose blocks are put into another order, and one row that is
    empty.
    """
    blocks = [torch.randn(n, n, generator=generator(n)) for n in (3, 1, 5)]
    row, col = torch.nonzero(torch.block_diag(*blocks), as_tuple=True)
    whole = torch.block_diag(*blocks)
    matrix = SparseMatrix.from_coo(row, col, whole[row, col], (9, 9)).to(DEVICE)
    crow = torch.cat([matrix.crow, matrix.crow[-1:]])  # row 9 is empty
    nodes = torch.tensor([4, 5, 6, 7, 8, 0, 1, 2, 9], device=DEVICE)  # block 2, block 0, padding
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
    cut=st.booleans(),
    offset=st.sampled_from([0.0, 100.0]),
    seed=st.integers(0, 999),
)
def test_activation_and_norm(rows, width, slope, norm, cut, offset, seed):
    gen = generator(seed)
    z = torch.randn(rows, width, generator=gen) + offset
    z, grad = z.to(DEVICE), torch.randn(rows, width, generator=gen).to(DEVICE)
    limit = torch.tensor(max(1, rows // 2), device=DEVICE) if cut else None
    real = max(1, rows // 2) if cut else rows
    a = None if slope is None else torch.tensor([slope], device=DEVICE)
    gamma, beta = (
        (torch.randn(width, generator=gen).to(DEVICE), torch.randn(width, generator=gen).to(DEVICE))
        if norm
        else (None, None)
    )
    out, mean, rstd = activate_norm(z, a, gamma, beta, eps=1e-5, limit=limit)
    got = activate_norm_backward(grad, z, a, gamma, mean, rstd, limit=limit)

    leaves = [None if t is None else t.double().requires_grad_() for t in (z, a, gamma, beta)]
    exact = leaves[0][:real]
    exact = torch.relu(exact) if slope is None else torch.where(exact > 0, exact, exact * leaves[1])
    if norm:
        exact = (exact - exact.mean(0)) / torch.sqrt(exact.var(0, unbiased=False) + 1e-5) * leaves[
            2
        ] + leaves[3]
    torch.testing.assert_close(
        out[:real].double(), exact.detach(), rtol=1e-3, atol=2e-3 + 1e-4 * offset
    )
    assert bool((out[real:] == 0).all())
    wanted = torch.autograd.grad(
        (exact * grad[:real].double()).sum(), [t for t in leaves if t is not None]
    )
    for one, other in zip([t for t in got if t is not None], wanted, strict=True):
        scale = max(1.0, float(other.abs().max()))
        torch.testing.assert_close(
            one.double() / scale, other / scale, rtol=1e-2, atol=2e-3 + 1e-4 * offset
        )
    assert bool((got[0][real:] == 0).all())
