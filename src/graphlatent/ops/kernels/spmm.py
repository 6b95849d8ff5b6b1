"""Products of a CSR matrix, or of some of its rows or columns, with a dense matrix, on a GPU.

One program, of one warp, computes one block of columns of one output row. It reads several stored
values of its row at a time, so that several rows of the dense factor are loaded concurrently, and
accumulates in float32 (in float64 for float64). Nothing is sliced or copied, so no shape depends on
the stored values and a step can be captured as a CUDA graph. Sums are taken in a fixed order, so
results are reproducible.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from graphlatent.ops.kernels import on_tensor_device

# Bytes of a dense factor that fit into the GPU's L2 cache (50 MiB on an H200).
_CACHE_BYTES = 40 << 20


@triton.jit
def _all_columns(
    crow, col, value, dense, out, base, order, rows, shift, alpha, width, base_stride,
    HAS_BASE: tl.constexpr, HAS_ORDER: tl.constexpr, HAS_ROWS: tl.constexpr,
    HAS_SHIFT: tl.constexpr,
    DOUBLE: tl.constexpr, ENTRIES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Products with all columns of the matrix: each stored value reads a row of `dense`."""
    dtype = tl.float64 if DOUBLE else tl.float32
    i = tl.program_id(0)
    if HAS_ORDER:
        i = tl.load(order + i)
    i = i.to(tl.int64)
    row = tl.load(rows + i).to(tl.int64) if HAS_ROWS else i
    begin, end = tl.load(crow + row).to(tl.int64), tl.load(crow + row + 1).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < width
    total = tl.zeros([COLUMNS], dtype=dtype)
    for start in range(begin, end, ENTRIES):
        entry = start + tl.arange(0, ENTRIES)
        valid = entry < end
        source = tl.load(col + entry, mask=valid, other=0).to(tl.int64)
        if HAS_SHIFT:
            source += tl.load(shift + i)
        factor = tl.load(value + entry, mask=valid, other=0.0).to(dtype)
        offset = source[:, None] * width + columns[None, :]
        tile = tl.load(dense + offset, mask=valid[:, None] & inside[None, :], other=0.0).to(dtype)
        total += tl.sum(tile * factor[:, None], axis=0)
    if HAS_BASE:
        added = tl.load(base + i * base_stride + columns, mask=inside, other=0.0).to(dtype)
        total = alpha * total + added
    tl.store(out + i * width + columns, total, mask=inside)


@triton.jit
def _selected_columns(
    crow, col, value, dense, out, base, order, rows, shift, position, width,
    HAS_BASE: tl.constexpr, HAS_ORDER: tl.constexpr, HAS_ROWS: tl.constexpr,
    HAS_SHIFT: tl.constexpr,
    DOUBLE: tl.constexpr, ENTRIES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Products with a few columns of the matrix.

    Stored values are tested in blocks, and those in a selected column are multiplied one by one.
    """
    dtype = tl.float64 if DOUBLE else tl.float32
    i = tl.program_id(0)
    if HAS_ORDER:
        i = tl.load(order + i)
    i = i.to(tl.int64)
    row = tl.load(rows + i).to(tl.int64) if HAS_ROWS else i
    begin, end = tl.load(crow + row).to(tl.int64), tl.load(crow + row + 1).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < width
    total = tl.zeros([COLUMNS], dtype=dtype)
    if HAS_BASE:
        total = tl.load(base + i * width + columns, mask=inside, other=0.0).to(dtype)
    for start in range(begin, end, ENTRIES):
        entry = start + tl.arange(0, ENTRIES)
        valid = entry < end
        source = tl.load(col + entry, mask=valid, other=0).to(tl.int64)
        if HAS_SHIFT:
            source += tl.load(shift + i)
        source = tl.load(position + source, mask=valid, other=-1)
        selected = source >= 0
        factor = tl.load(value + entry, mask=selected, other=0.0).to(dtype)
        rank = tl.cumsum(selected.to(tl.int32), axis=0)
        for k in range(1, tl.sum(selected.to(tl.int32), axis=0) + 1):
            kth = selected & (rank == k)
            kth_source = tl.sum(tl.where(kth, source, 0), axis=0).to(tl.int64)
            kth_factor = tl.sum(tl.where(kth, factor, 0.0), axis=0)
            offset = kth_source * width + columns
            total += kth_factor * tl.load(dense + offset, mask=inside, other=0.0).to(dtype)
    tl.store(out + i * width + columns, total, mask=inside)


@on_tensor_device
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
    position: Tensor | None = None,
) -> Tensor:
    """`base + alpha * A @ dense`, [num_rows, width].

    A is the CSR matrix (crow, col, value), or the part of it that `rows`, `shift` and `position`
    select.

    Args:
        crow: row pointers, [M + 1].
        col: columns, [nnz].
        value: values, [nnz].
        dense: [K, width].
        num_rows: rows of the result.
        base: added matrix, [num_rows, width], or (not with `position`) one row [width] for all.
        alpha: factor of the product; used only with `base`, and not with `position`.
        order: the order in which rows are started: longest first keeps all of the GPU busy.
        rows: the rows of the matrix that are used, [num_rows].
        shift: number added to the column indices of each row of the result, [num_rows].
        position: row of `dense` that each column is multiplied with, [K']; columns with -1 are
            left out.
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
    if position is not None:
        columns = min(triton.next_power_of_2(width), 512)
        grid = (num_rows, triton.cdiv(width, columns))
        tile = {"ENTRIES": 128, "COLUMNS": columns, "num_warps": 1}
        _selected_columns[grid](
            crow, col, value, dense, out, base, order, rows, shift, position, width,
            **flags, **tile,
        )  # fmt: skip
        return out
    columns, entries = _tile_size(dense, mean_row_length=col.numel() / (crow.numel() - 1))
    base_stride = width if base is not None and base.ndim == 2 else 0
    tile = {"ENTRIES": entries, "COLUMNS": columns, "num_warps": 1}
    _all_columns[(num_rows, triton.cdiv(width, columns))](
        crow, col, value, dense, out, base, order, rows, shift, alpha, width, base_stride,
        **flags, **tile,
    )  # fmt: skip
    return out


def _tile_size(dense: Tensor, *, mean_row_length: float) -> tuple[int, int]:
    """(columns per program, stored values read at a time), as measured on an H200.

    A dense factor larger than the L2 cache is processed in stripes of columns that fit into it,
    one after the other, where rows are long enough to read many values at a time. The measurements
    are in benchmarks/README.md.
    """
    bytes_per_value = dense.element_size()
    in_cache = dense.numel() * bytes_per_value <= _CACHE_BYTES or mean_row_length < 32
    if bytes_per_value == 2:
        most_columns, tile_values = (256 if in_cache else 128), 2048
    else:
        most_columns, tile_values = (128 if in_cache else 32), 1024
    columns = min(triton.next_power_of_2(dense.shape[1]), most_columns)
    return columns, max(4, min(32, tile_values // columns))
