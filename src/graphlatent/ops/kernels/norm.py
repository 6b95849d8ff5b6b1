"""Activation and batch norm in one go, forwards and backwards, on a GPU.

The activation is never stored: it is made again from its input wherever it is needed. Rows are cut
    into chunks; a chunk's statistics
are merged with Chan's formulas, so that large means do not eat up small variances. Rows from
`limit` on are padding: they take no part. Legend: z input [N, H], y = act(z), out = (y - mean) *
rstd * gamma + beta.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from graphlatent.ops.kernels import on_its_device

_ROWS, _COLUMNS = 32, 64


@triton.jit
def _load(z, row, columns, slope, limit, width, HAS_SLOPE: tl.constexpr):
    """z, act(z) and which entries there are, of a tile."""
    there = (row < limit)[:, None] & (columns < width)[None, :]
    value = tl.load(z + row[:, None] * width + columns[None, :], mask=there, other=0.0).to(
        tl.float32
    )
    act = (
        tl.where(value > 0, value, value * slope) if HAS_SLOPE else tl.where(value < 0, 0.0, value)
    )
    return value, act, there


@triton.jit
def _limit(limit, num_rows, HAS_LIMIT: tl.constexpr):
    if HAS_LIMIT:
        return tl.load(limit).to(tl.int32)
    return num_rows


@triton.jit
def _statistics(
    z, slope, limit, mean, spread, num_rows, width, tiles,
    HAS_SLOPE: tl.constexpr, HAS_LIMIT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Mean and sum of squared deviations of a chunk of rows."""
    last = _limit(limit, num_rows, HAS_LIMIT)
    a = tl.load(slope).to(tl.float32) if HAS_SLOPE else 0.0
    chunk = tl.program_id(0)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    count = 0.0
    average = tl.zeros([COLUMNS], dtype=tl.float32)
    squares = tl.zeros([COLUMNS], dtype=tl.float32)
    for tile in range(tiles):
        row = (chunk * tiles + tile).to(tl.int64) * ROWS + tl.arange(0, ROWS)
        _, act, there = _load(z, row, columns, a, last, width, HAS_SLOPE)
        new = tl.sum((row < last).to(tl.float32), axis=0)
        if new > 0:
            act = tl.where(there, act, 0.0)
            own = tl.sum(act, axis=0) / new
            off = tl.where(there, act - own[None, :], 0.0)
            both = count + new
            gap = own - average
            squares += tl.sum(off * off, axis=0) + gap * gap * (count * new / both)
            average += gap * (new / both)
            count = both
    place = chunk * width + columns
    tl.store(mean + place, average, mask=columns < width)
    tl.store(spread + place, squares, mask=columns < width)


@triton.jit
def _merge(
    mean, spread, limit, out_mean, out_rstd, num_rows, width, chunks, rows_per_chunk, eps,
    HAS_LIMIT: tl.constexpr, CHUNKS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Mean and 1 / standard deviation of all rows out of the chunks'."""
    last = _limit(limit, num_rows, HAS_LIMIT)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    chunk = tl.arange(0, CHUNKS)
    there = (chunk < chunks)[:, None] & (columns < width)[None, :]
    place = chunk[:, None] * width + columns[None, :]
    each, squares = (
        tl.load(mean + place, mask=there, other=0.0),
        tl.load(spread + place, mask=there, other=0.0),
    )
    count = tl.minimum(tl.maximum(last - chunk * rows_per_chunk, 0), rows_per_chunk).to(tl.float32)[
        :, None
    ]
    total = tl.maximum(last, 1).to(tl.float32)
    average = tl.sum(each * count, axis=0) / total
    gap = tl.where(there, each - average[None, :], 0.0)
    variance = tl.sum(squares + gap * gap * count, axis=0) / total
    tl.store(out_mean + columns, average, mask=columns < width)
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
    _, act, there = _load(z, row, columns, a, last, width, HAS_SLOPE)
    if HAS_NORM:
        scale = tl.load(rstd + columns, mask=inside, other=0.0) * tl.load(
            gamma + columns, mask=inside, other=0.0
        ).to(tl.float32)
        centre = tl.load(mean + columns, mask=inside, other=0.0)
        act = (act - centre[None, :]) * scale[None, :] + tl.load(
            beta + columns, mask=inside, other=0.0
        ).to(tl.float32)[None, :]
    act = tl.where(there, act, 0.0)
    tl.store(
        out + row[:, None] * width + columns[None, :],
        act,
        mask=(row < num_rows)[:, None] & inside[None, :],
    )


@triton.jit
def _column_sums(
    grad, z, slope, limit, mean, rstd, d_beta, d_gamma, num_rows, width, tiles,
    HAS_SLOPE: tl.constexpr, HAS_LIMIT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """A chunk's sums of grad and of grad * (y - mean) * rstd."""
    last = _limit(limit, num_rows, HAS_LIMIT)
    a = tl.load(slope).to(tl.float32) if HAS_SLOPE else 0.0
    chunk = tl.program_id(0)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < width
    centre, scale = (
        tl.load(mean + columns, mask=inside, other=0.0),
        tl.load(rstd + columns, mask=inside, other=0.0),
    )
    plain = tl.zeros([COLUMNS], dtype=tl.float32)
    scaled = tl.zeros([COLUMNS], dtype=tl.float32)
    for tile in range(tiles):
        row = (chunk * tiles + tile).to(tl.int64) * ROWS + tl.arange(0, ROWS)
        _, act, there = _load(z, row, columns, a, last, width, HAS_SLOPE)
        g = tl.load(grad + row[:, None] * width + columns[None, :], mask=there, other=0.0).to(
            tl.float32
        )
        plain += tl.sum(g, axis=0)
        scaled += tl.sum(g * (act - centre[None, :]), axis=0)
    tl.store(d_beta + chunk * width + columns, plain, mask=inside)
    tl.store(d_gamma + chunk * width + columns, scaled * scale, mask=inside)


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
    value, act, there = _load(z, row, columns, a, last, width, HAS_SLOPE)
    place = row[:, None] * width + columns[None, :]
    g = tl.load(grad + place, mask=there, other=0.0).to(tl.float32)
    if HAS_NORM:
        total = tl.maximum(last, 1).to(tl.float32)
        centre, scale = (
            tl.load(mean + columns, mask=inside, other=0.0),
            tl.load(rstd + columns, mask=inside, other=0.0),
        )
        shared, along = (
            tl.load(d_beta + columns, mask=inside, other=0.0) / total,
            tl.load(d_gamma + columns, mask=inside, other=0.0) / total,
        )
        factor = scale * tl.load(gamma + columns, mask=inside, other=0.0).to(tl.float32)
        g = factor[None, :] * (
            g - shared[None, :] - (act - centre[None, :]) * scale[None, :] * along[None, :]
        )
        g = tl.where(there, g, 0.0)
    if HAS_SLOPE:
        part = tl.sum(tl.sum(g * tl.minimum(value, 0.0), axis=1), axis=0)
        tl.store(d_slope + tl.program_id(0) * tl.num_programs(1) + tl.program_id(1), part)
    g = tl.where(value > 0, g, g * a)
    tl.store(d_z + place, g, mask=(row < num_rows)[:, None] & inside[None, :])


@on_its_device
def activate_norm(
    z: Tensor,
    slope: Tensor | None,
    gamma: Tensor | None,
    beta: Tensor | None,
    *,
    eps: float,
    limit: Tensor | None,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """act(z), batch-normed where `gamma` is given: (out [N, H], mean [H], rstd [H]). No slope:
    ReLU.
    """
    num_rows, width = z.shape
    blocks = triton.cdiv(width, _COLUMNS)
    flags: dict[str, Any] = {
        "HAS_SLOPE": slope is not None,
        "HAS_LIMIT": limit is not None,
        "ROWS": _ROWS,
        "COLUMNS": _COLUMNS,
    }
    mean = rstd = None
    if gamma is not None:
        chunks, tiles = _chunks(num_rows)
        parts = torch.empty(2, chunks, width, dtype=torch.float32, device=z.device)
        mean, rstd = torch.empty(2, width, dtype=torch.float32, device=z.device)
        _statistics[(chunks, blocks)](
            z, slope, limit, parts[0], parts[1], num_rows, width, tiles, **flags
        )
        merging = {
            "HAS_LIMIT": limit is not None,
            "CHUNKS": triton.next_power_of_2(chunks),
            "COLUMNS": 16,
        }
        _merge[(triton.cdiv(width, 16),)](
            parts[0],
            parts[1],
            limit,
            mean,
            rstd,
            num_rows,
            width,
            chunks,
            tiles * _ROWS,
            eps,
            **merging,
        )
    out = torch.empty_like(z)
    grid = (triton.cdiv(num_rows, _ROWS), blocks)
    _apply[grid](
        z,
        slope,
        limit,
        mean,
        rstd,
        gamma,
        beta,
        out,
        num_rows,
        width,
        HAS_NORM=gamma is not None,
        **flags,
    )
    return out, mean, rstd


@on_its_device
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
    """Gradients of z, slope, gamma and beta."""
    grad = grad.contiguous()
    num_rows, width = z.shape
    blocks = triton.cdiv(width, _COLUMNS)
    flags = {
        "HAS_SLOPE": slope is not None,
        "HAS_LIMIT": limit is not None,
        "ROWS": _ROWS,
        "COLUMNS": _COLUMNS,
    }
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
        grad,
        z,
        slope,
        limit,
        mean,
        rstd,
        gamma,
        d_beta,
        d_gamma,
        d_z,
        d_slope,
        num_rows,
        width,
        HAS_NORM=gamma is not None,
        **flags,
    )
    return d_z, d_slope.sum().reshape(slope.shape) if slope is not None else None, d_gamma, d_beta


def _chunks(num_rows: int) -> tuple[int, int]:
    """(number of chunks of rows, tiles in each): at most 128 chunks."""
    tiles = max(1, triton.cdiv(num_rows, 128 * _ROWS))
    return triton.cdiv(num_rows, tiles * _ROWS), tiles
