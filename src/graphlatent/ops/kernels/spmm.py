"""Products of a CSR matrix, or of some of its rows or columns, with a dense matrix, on a GPU.

One program, of one warp, makes one block of columns of one output row. It walks along the stored
values of its row some at a time, so that several rows of the dense factor are on their way at once,
and adds in float32 (float64 for float64). Nothing is sliced or copied, so shapes never depend on
what is stored: a step can be captured as a CUDA graph. Sums run in a fixed order: results are the
same every time.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from graphlatent.ops.kernels import on_its_device

_CACHE = 40 << 20  # bytes of a dense factor that stay in the GPU's cache (H200: 50 MiB)


@triton.jit
def _rows(
    crow, col, value, dense, out, base, order, rows, shift, alpha, width, base_stride,
    HAS_BASE: tl.constexpr, HAS_ORDER: tl.constexpr, HAS_ROWS: tl.constexpr,
    HAS_SHIFT: tl.constexpr,
    DOUBLE: tl.constexpr, AT_ONCE: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """All columns of the matrix: every stored value fetches a row of `dense`."""
    kind = tl.float64 if DOUBLE else tl.float32
    i = tl.program_id(0)
    if HAS_ORDER:
        i = tl.load(order + i)
    i = i.to(tl.int64)
    row = tl.load(rows + i).to(tl.int64) if HAS_ROWS else i
    begin, end = tl.load(crow + row).to(tl.int64), tl.load(crow + row + 1).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < width
    total = tl.zeros([COLUMNS], dtype=kind)
    for start in range(begin, end, AT_ONCE):
        entry = start + tl.arange(0, AT_ONCE)
        there = entry < end
        source = tl.load(col + entry, mask=there, other=0).to(tl.int64)
        if HAS_SHIFT:
            source += tl.load(shift + i)
        factor = tl.load(value + entry, mask=there, other=0.0).to(kind)
        tile = tl.load(
            dense + source[:, None] * width + columns[None, :],
            mask=there[:, None] & inside[None, :],
            other=0.0,
        ).to(kind)
        total += tl.sum(tile * factor[:, None], axis=0)
    if HAS_BASE:
        total = alpha * total + tl.load(
            base + i * base_stride + columns, mask=inside, other=0.0
        ).to(kind)
    tl.store(out + i * width + columns, total, mask=inside)


@triton.jit
def _placed(
    crow, col, value, dense, out, base, order, rows, shift, place, width,
    HAS_BASE: tl.constexpr, HAS_ORDER: tl.constexpr, HAS_ROWS: tl.constexpr,
    HAS_SHIFT: tl.constexpr,
    DOUBLE: tl.constexpr, AT_ONCE: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """A few columns of the matrix: many stored values are looked at together, the few that count
    are fetched one by one.
    """
    kind = tl.float64 if DOUBLE else tl.float32
    i = tl.program_id(0)
    if HAS_ORDER:
        i = tl.load(order + i)
    i = i.to(tl.int64)
    row = tl.load(rows + i).to(tl.int64) if HAS_ROWS else i
    begin, end = tl.load(crow + row).to(tl.int64), tl.load(crow + row + 1).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < width
    total = tl.zeros([COLUMNS], dtype=kind)
    if HAS_BASE:
        total = tl.load(base + i * width + columns, mask=inside, other=0.0).to(kind)
    for start in range(begin, end, AT_ONCE):
        entry = start + tl.arange(0, AT_ONCE)
        there = entry < end
        source = tl.load(col + entry, mask=there, other=0).to(tl.int64)
        if HAS_SHIFT:
            source += tl.load(shift + i)
        source = tl.load(place + source, mask=there, other=-1)
        hit = source >= 0
        factor = tl.load(value + entry, mask=hit, other=0.0).to(kind)
        rank = tl.cumsum(hit.to(tl.int32), axis=0)
        for k in range(1, tl.sum(hit.to(tl.int32), axis=0) + 1):
            this = hit & (rank == k)
            at = tl.sum(tl.where(this, source, 0), axis=0).to(tl.int64)
            times = tl.sum(tl.where(this, factor, 0.0), axis=0)
            total += times * tl.load(dense + at * width + columns, mask=inside, other=0.0).to(kind)
    tl.store(out + i * width + columns, total, mask=inside)


@on_its_device
def spmm(
    crow: Tensor,
    col: Tensor,
    value: Tensor,
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
    """`base + alpha * A @ dense`, [num_rows, width], with A the matrix (crow, col, value) or what
    is made of it.

    Args:
        crow: row pointers, [M + 1].
        col: columns, [nnz].
        value: values, [nnz].
        dense: [K, width].
        num_rows: rows of the result.
        base: what is added, [num_rows, width], or (not with `place`) one row [width] for all.
        alpha: factor of the product; used only with `base`, and not with `place`.
        order: rows in the order in which they are started: long ones first keeps the GPU busy to
            the end.
        rows: take these rows of the matrix, [num_rows].
        shift: what is added to the columns of each row of the result, [num_rows].
        place: row of `dense` that stands for each column, [K']; columns with -1 are left out.
    """
    dense = dense.contiguous()
    width = dense.shape[1]
    out = torch.empty(num_rows, width, dtype=dense.dtype, device=dense.device)
    if out.numel() == 0:
        return out
    base = None if base is None else base.contiguous()
    flags = {
        "HAS_BASE": base is not None,
        "HAS_ORDER": order is not None,
        "HAS_ROWS": rows is not None,
        "HAS_SHIFT": shift is not None,
    }
    flags["DOUBLE"] = dense.dtype == torch.float64
    wide = triton.next_power_of_2(width)
    if place is not None:
        columns = min(wide, 512)
        grid = (num_rows, triton.cdiv(width, columns))
        tile = {"AT_ONCE": 128, "COLUMNS": columns, "num_warps": 1}
        _placed[grid](
            crow, col, value, dense, out, base, order, rows, shift, place, width, **flags, **tile
        )
        return out
    columns, at_once = _tile(wide, dense, col.numel() / (crow.numel() - 1))
    stride = width if base is not None and base.ndim == 2 else 0
    tile = {"AT_ONCE": at_once, "COLUMNS": columns, "num_warps": 1}
    _rows[(num_rows, triton.cdiv(width, columns))](
        crow,
        col,
        value,
        dense,
        out,
        base,
        order,
        rows,
        shift,
        alpha,
        width,
        stride,
        **flags,
        **tile,
    )
    return out


def _tile(wide: int, dense: Tensor, length: float) -> tuple[int, int]:
    """(columns of a program, stored values it fetches at once), as measured on an H200
    (benchmarks/README.md).

    A dense factor that the cache cannot hold is walked through in narrow stripes, one after the
    other, which it can; that pays where rows are long enough (`length` on average) to fetch many
    values at once.
    """
    fits = dense.numel() * dense.element_size() <= _CACHE or length < 32
    low = dense.element_size() == 2
    columns = min(wide, (256 if fits else 128) if low else (128 if fits else 32))
    return columns, max(4, min(32, (2048 if low else 1024) // columns))
