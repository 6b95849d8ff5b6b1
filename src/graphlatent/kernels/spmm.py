"""Products of a CSR matrix, or of some of its rows or columns, with a dense matrix, on a GPU.

One program makes one block of columns of one output row. It walks along the stored values of its row some at a time, so that several
rows of the dense factor are on their way at once, and adds in float32 (float64 for float64). Nothing is sliced or copied, so shapes
never depend on what is stored: a step can be captured as a CUDA graph. Sums run in a fixed order: results are the same every time.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _kernel(
    crow,
    col,
    value,
    dense,
    out,
    base,
    order,
    rows,
    shift,
    place,
    alpha,
    width,
    base_stride,
    HAS_VALUE: tl.constexpr,
    HAS_BASE: tl.constexpr,
    HAS_ORDER: tl.constexpr,
    HAS_ROWS: tl.constexpr,
    HAS_SHIFT: tl.constexpr,
    HAS_PLACE: tl.constexpr,
    DOUBLE: tl.constexpr,
    AT_ONCE: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    kind = tl.float64 if DOUBLE else tl.float32
    i = tl.program_id(0)
    if HAS_ORDER:
        i = tl.load(order + i)
    i = i.to(tl.int64)
    row = i
    if HAS_ROWS:
        row = tl.load(rows + i).to(tl.int64)
    begin = tl.load(crow + row).to(tl.int64)
    end = tl.load(crow + row + 1).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < width
    total = tl.zeros([COLUMNS], dtype=kind)
    for start in range(begin, end, AT_ONCE):
        entry = start + tl.arange(0, AT_ONCE)
        there = entry < end
        source = tl.load(col + entry, mask=there, other=0).to(tl.int64)
        if HAS_SHIFT:
            source += tl.load(shift + i)
        if HAS_PLACE:
            source = tl.load(place + source, mask=there, other=-1).to(tl.int64)
            there = there & (source >= 0)
        tile = tl.load(dense + source[:, None] * width + columns[None, :], mask=there[:, None] & inside[None, :], other=0.0).to(kind)
        if HAS_VALUE:
            tile *= tl.load(value + entry, mask=there, other=0.0).to(kind)[:, None]
        total += tl.sum(tile, axis=0)
    if HAS_BASE:
        total = alpha * total + tl.load(base + i * base_stride + columns, mask=inside, other=0.0).to(kind)
    tl.store(out + i * width + columns, total, mask=inside)


def spmm(
    crow: Tensor,
    col: Tensor,
    value: Tensor | None,
    dense: Tensor,
    *,
    num_rows: int,
    base: Tensor | None = None,
    alpha: float = 1.0,
    order: Tensor | None = None,
    rows: Tensor | None = None,
    shift: Tensor | None = None,
    place: Tensor | None = None,
) -> Tensor:
    """`base + alpha * A @ dense`, [num_rows, width], with A the matrix (crow, col, value) or what is made of it.

    Args:
        crow: row pointers, [M + 1].
        col: columns, [nnz].
        value: values, [nnz]; None means that all are 1.
        dense: [K, width].
        num_rows: rows of the result.
        base: what is added, [num_rows, width], or one row [width] for all.
        alpha: factor of the product; used only with `base`.
        order: rows in the order in which they are started: long ones first keeps the GPU busy to the end.
        rows: take these rows of the matrix, [num_rows].
        shift: what is added to the columns of each row of the result, [num_rows].
        place: row of `dense` that stands for each column, [K']; columns with -1 are left out.
    """
    dense = dense.contiguous()
    width = dense.shape[1]
    out = torch.empty(num_rows, width, dtype=dense.dtype, device=dense.device)
    if out.numel() == 0:
        return out
    columns = min(triton.next_power_of_2(width), 128 if place is None else 512)
    at_once = 32 if place is not None else 16
    grid = (num_rows, triton.cdiv(width, columns))
    _kernel[grid](
        crow,
        col,
        value,
        dense,
        out,
        base if base is None else base.contiguous(),
        order,
        rows,
        shift,
        place,
        alpha,
        width,
        0 if base is None or base.ndim == 1 else width,
        HAS_VALUE=value is not None,
        HAS_BASE=base is not None,
        HAS_ORDER=order is not None,
        HAS_ROWS=rows is not None,
        HAS_SHIFT=shift is not None,
        HAS_PLACE=place is not None,
        DOUBLE=dense.dtype == torch.float64,
        AT_ONCE=at_once,
        COLUMNS=columns,
        num_warps=4,
    )
    return out
