"""Fused activation and batch norm on a GPU, forward and backward.

    y = act(z),   out = (y - mean) * rstd * gamma + beta,   z: [N, H]

y is never stored: it is recomputed from z wherever it is needed. Rows are divided into chunks of
tiles. The statistics of tiles and chunks are merged with the formulas of Chan, Golub and LeVeque
(1979), which are stable where means are large and variances small. Rows from `limit` on are
padding: they are left out of the statistics, and their output is 0.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from graphlatent.ops.kernels import on_tensor_device

# A tile of a program.
_ROWS, _COLUMNS = 32, 64


@triton.jit
def _load(z, row, columns, slope, limit, width, HAS_SLOPE: tl.constexpr):
    """z, act(z) and which entries are valid, of a tile."""
    valid = (row < limit)[:, None] & (columns < width)[None, :]
    offset = row[:, None] * width + columns[None, :]
    value = tl.load(z + offset, mask=valid, other=0.0).to(tl.float32)
    if HAS_SLOPE:
        act = tl.where(value > 0, value, value * slope)
    else:
        act = tl.where(value < 0, 0.0, value)
    return value, act, valid


@triton.jit
def _load_columns(vector, columns, inside):
    """The entries `columns` of a vector in float32; 0 outside."""
    return tl.load(vector + columns, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _limit(limit, num_rows, HAS_LIMIT: tl.constexpr):
    if HAS_LIMIT:
        return tl.load(limit).to(tl.int32)
    return num_rows


@triton.jit
def _statistics(
    z, slope, limit, mean, m2, num_rows, width, tiles,
    HAS_SLOPE: tl.constexpr, HAS_LIMIT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Mean and sum of squared deviations of a chunk of rows."""
    last = _limit(limit, num_rows, HAS_LIMIT)
    a = tl.load(slope).to(tl.float32) if HAS_SLOPE else 0.0
    chunk = tl.program_id(0)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    count = 0.0
    chunk_mean = tl.zeros([COLUMNS], dtype=tl.float32)
    chunk_m2 = tl.zeros([COLUMNS], dtype=tl.float32)
    for tile in range(tiles):
        row = (chunk * tiles + tile).to(tl.int64) * ROWS + tl.arange(0, ROWS)
        _, act, valid = _load(z, row, columns, a, last, width, HAS_SLOPE)
        tile_count = tl.sum((row < last).to(tl.float32), axis=0)
        if tile_count > 0:
            act = tl.where(valid, act, 0.0)
            tile_mean = tl.sum(act, axis=0) / tile_count
            deviation = tl.where(valid, act - tile_mean[None, :], 0.0)
            total = count + tile_count
            delta = tile_mean - chunk_mean
            tile_m2 = tl.sum(deviation * deviation, axis=0)
            chunk_m2 += tile_m2 + delta * delta * (count * tile_count / total)
            chunk_mean += delta * (tile_count / total)
            count = total
    offset = chunk * width + columns
    tl.store(mean + offset, chunk_mean, mask=columns < width)
    tl.store(m2 + offset, chunk_m2, mask=columns < width)


@triton.jit
def _merge(
    mean, m2, limit, out_mean, out_rstd, num_rows, width, chunks, rows_per_chunk, eps,
    HAS_LIMIT: tl.constexpr, CHUNKS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Mean and 1 / standard deviation of all rows, from the statistics of the chunks."""
    last = _limit(limit, num_rows, HAS_LIMIT)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    chunk = tl.arange(0, CHUNKS)
    valid = (chunk < chunks)[:, None] & (columns < width)[None, :]
    offset = chunk[:, None] * width + columns[None, :]
    chunk_mean = tl.load(mean + offset, mask=valid, other=0.0)
    chunk_m2 = tl.load(m2 + offset, mask=valid, other=0.0)
    rows = tl.minimum(tl.maximum(last - chunk * rows_per_chunk, 0), rows_per_chunk)
    count = rows.to(tl.float32)[:, None]
    total = tl.maximum(last, 1).to(tl.float32)
    overall = tl.sum(chunk_mean * count, axis=0) / total
    delta = tl.where(valid, chunk_mean - overall[None, :], 0.0)
    variance = tl.sum(chunk_m2 + delta * delta * count, axis=0) / total
    tl.store(out_mean + columns, overall, mask=columns < width)
    tl.store(out_rstd + columns, 1.0 / tl.sqrt(variance + eps), mask=columns < width)


@triton.jit
def _apply(
    z, slope, limit, mean, rstd, gamma, beta, out, num_rows, width,
    HAS_SLOPE: tl.constexpr, HAS_LIMIT: tl.constexpr, HAS_NORM: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    last = _limit(limit, num_rows, HAS_LIMIT)
    a = tl.load(slope).to(tl.float32) if HAS_SLOPE else 0.0
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < width
    _, act, valid = _load(z, row, columns, a, last, width, HAS_SLOPE)
    if HAS_NORM:
        scale = _load_columns(rstd, columns, inside) * _load_columns(gamma, columns, inside)
        center = _load_columns(mean, columns, inside)
        shift = _load_columns(beta, columns, inside)
        act = (act - center[None, :]) * scale[None, :] + shift[None, :]
    act = tl.where(valid, act, 0.0)
    offset = row[:, None] * width + columns[None, :]
    tl.store(out + offset, act, mask=(row < num_rows)[:, None] & inside[None, :])


@triton.jit
def _column_sums(
    grad, z, slope, limit, mean, rstd, d_beta, d_gamma, num_rows, width, tiles,
    HAS_SLOPE: tl.constexpr, HAS_LIMIT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The sums of grad and of grad * (y - mean) * rstd over a chunk of rows."""
    last = _limit(limit, num_rows, HAS_LIMIT)
    a = tl.load(slope).to(tl.float32) if HAS_SLOPE else 0.0
    chunk = tl.program_id(0)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < width
    center = _load_columns(mean, columns, inside)
    scale = _load_columns(rstd, columns, inside)
    grad_sum = tl.zeros([COLUMNS], dtype=tl.float32)
    product_sum = tl.zeros([COLUMNS], dtype=tl.float32)
    for tile in range(tiles):
        row = (chunk * tiles + tile).to(tl.int64) * ROWS + tl.arange(0, ROWS)
        _, act, valid = _load(z, row, columns, a, last, width, HAS_SLOPE)
        offset = row[:, None] * width + columns[None, :]
        g = tl.load(grad + offset, mask=valid, other=0.0).to(tl.float32)
        grad_sum += tl.sum(g, axis=0)
        product_sum += tl.sum(g * (act - center[None, :]), axis=0)
    tl.store(d_beta + chunk * width + columns, grad_sum, mask=inside)
    tl.store(d_gamma + chunk * width + columns, product_sum * scale, mask=inside)


@triton.jit
def _backward(
    grad, z, slope, limit, mean, rstd, gamma, d_beta, d_gamma, d_z, d_slope, num_rows, width,
    HAS_SLOPE: tl.constexpr, HAS_LIMIT: tl.constexpr, HAS_NORM: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    last = _limit(limit, num_rows, HAS_LIMIT)
    a = tl.load(slope).to(tl.float32) if HAS_SLOPE else 0.0
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < width
    value, act, valid = _load(z, row, columns, a, last, width, HAS_SLOPE)
    offset = row[:, None] * width + columns[None, :]
    g = tl.load(grad + offset, mask=valid, other=0.0).to(tl.float32)
    if HAS_NORM:
        total = tl.maximum(last, 1).to(tl.float32)
        center = _load_columns(mean, columns, inside)
        scale = _load_columns(rstd, columns, inside)
        mean_beta = _load_columns(d_beta, columns, inside) / total
        mean_gamma = _load_columns(d_gamma, columns, inside) / total
        factor = scale * _load_columns(gamma, columns, inside)
        normalized = (act - center[None, :]) * scale[None, :]
        g = factor[None, :] * (g - mean_beta[None, :] - normalized * mean_gamma[None, :])
        g = tl.where(valid, g, 0.0)
    if HAS_SLOPE:
        tile_sum = tl.sum(tl.sum(g * tl.minimum(value, 0.0), axis=1), axis=0)
        tl.store(d_slope + tl.program_id(0) * tl.num_programs(1) + tl.program_id(1), tile_sum)
    g = tl.where(value > 0, g, g * a)
    tl.store(d_z + offset, g, mask=(row < num_rows)[:, None] & inside[None, :])


@on_tensor_device
def activate_norm(
    z: Tensor,
    slope: Tensor | None,
    gamma: Tensor | None,
    beta: Tensor | None,
    *,
    eps: float,
    limit: Tensor | None,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """(out [N, H], mean [H], rstd [H]) of the activation and, where `gamma` is given, batch norm.

    The activation is PReLU, or ReLU where `slope` is None.
    """
    num_rows, width = z.shape
    blocks = triton.cdiv(width, _COLUMNS)
    flags = _flags(slope, limit)
    mean = rstd = None
    if gamma is not None:
        chunks, tiles = _chunks(num_rows)
        parts = torch.empty(2, chunks, width, dtype=torch.float32, device=z.device)
        mean, rstd = torch.empty(2, width, dtype=torch.float32, device=z.device)
        _statistics[(chunks, blocks)](
            z, slope, limit, parts[0], parts[1], num_rows, width, tiles, **flags
        )
        rows_per_chunk = tiles * _ROWS
        _merge[(triton.cdiv(width, 16),)](
            parts[0], parts[1], limit, mean, rstd, num_rows, width, chunks, rows_per_chunk, eps,
            HAS_LIMIT=limit is not None, CHUNKS=triton.next_power_of_2(chunks), COLUMNS=16,
        )  # fmt: skip
    out = torch.empty_like(z)
    grid = (triton.cdiv(num_rows, _ROWS), blocks)
    _apply[grid](
        z, slope, limit, mean, rstd, gamma, beta, out, num_rows, width,
        HAS_NORM=gamma is not None, **flags,
    )  # fmt: skip
    return out, mean, rstd


@on_tensor_device
def activate_norm_backward(
    grad: Tensor,
    z: Tensor,
    slope: Tensor | None,
    gamma: Tensor | None,
    mean: Tensor | None,
    rstd: Tensor | None,
    *,
    limit: Tensor | None,
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """The gradients of z, slope, gamma and beta."""
    grad = grad.contiguous()
    num_rows, width = z.shape
    blocks = triton.cdiv(width, _COLUMNS)
    flags = _flags(slope, limit)
    d_gamma = d_beta = None
    if gamma is not None:
        chunks, tiles = _chunks(num_rows)
        parts = torch.empty(2, chunks, width, dtype=torch.float32, device=z.device)
        _column_sums[(chunks, blocks)](
            grad, z, slope, limit, mean, rstd, parts[0], parts[1], num_rows, width, tiles, **flags
        )
        d_beta, d_gamma = parts.sum(1)
    d_z = torch.empty_like(z)
    grid = (triton.cdiv(num_rows, _ROWS), blocks)
    d_slope = torch.empty(grid if slope is not None else (0,), dtype=torch.float32, device=z.device)
    _backward[grid](
        grad, z, slope, limit, mean, rstd, gamma, d_beta, d_gamma, d_z, d_slope, num_rows, width,
        HAS_NORM=gamma is not None, **flags,
    )  # fmt: skip
    return d_z, d_slope.sum().reshape(slope.shape) if slope is not None else None, d_gamma, d_beta


def _flags(slope: Tensor | None, limit: Tensor | None) -> dict[str, Any]:
    """The compile-time arguments that most kernels share."""
    given = {"HAS_SLOPE": slope is not None, "HAS_LIMIT": limit is not None}
    return {**given, "ROWS": _ROWS, "COLUMNS": _COLUMNS}


def _chunks(num_rows: int) -> tuple[int, int]:
    """(number of chunks, tiles in each); at most 128 chunks."""
    tiles = max(1, triton.cdiv(num_rows, 128 * _ROWS))
    return triton.cdiv(num_rows, tiles * _ROWS), tiles
