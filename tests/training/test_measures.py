"""Measures of an embedding: values by hand, NumPy's SVD and regression, properties, tiny cases."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphlatent.training.measures import (
    alignment,
    column_std,
    dead_units,
    effective_rank,
    recovery,
)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def rank_by_numpy(rows: torch.Tensor) -> float:
    """RankMe of centred rows by a singular value decomposition."""
    values = rows.double().numpy()
    share = np.linalg.svd(values - values.mean(0), compute_uv=False)
    share = share[share > 1e-7 * share[0]] / share.sum()
    return float(np.exp(-np.sum(share * np.log(share))))


class TestEffectiveRank:
    def test_by_hand(self):
        # Singular values 2, 2: two equal shares. 3 and 1: shares of 3/4 and 1/4.
        square = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
        assert effective_rank(square + 5) == pytest.approx(2)
        entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
        uneven = effective_rank(square * torch.tensor([3.0, 1.0]))
        assert uneven == pytest.approx(math.exp(entropy)) == pytest.approx(1.7548, abs=1e-4)

    @pytest.mark.parametrize("shape", [(50, 8), (20, 60), (30, 30)])
    def test_against_numpy(self, shape):
        rows = normal(*shape) @ torch.diag(torch.logspace(0, -3, shape[1], dtype=torch.float64))
        assert effective_rank(rows) == pytest.approx(rank_by_numpy(rows), rel=1e-6)
        assert effective_rank(rows.float()) == pytest.approx(rank_by_numpy(rows), rel=1e-4)

    @settings(max_examples=30, deadline=None)
    @given(
        rows=st.integers(2, 12),
        columns=st.integers(1, 12),
        seed=st.integers(0, 99),
        scale=st.sampled_from([1e-30, 1e-3, 1.0, 1e15]),
    )
    def test_bounds_and_invariances(self, rows, columns, seed, scale):
        values = normal(rows, columns, seed=seed)
        rank = effective_rank(values)
        assert 1 - 1e-9 <= rank <= min(rows - 1, columns) + 1e-6
        assert effective_rank(scale * values) == pytest.approx(rank, rel=1e-5)
        turned = values @ torch.linalg.qr(normal(columns, columns, seed=seed + 1)).Q
        assert effective_rank(turned + 2) == pytest.approx(rank, rel=1e-4)

    @pytest.mark.parametrize("rows", [torch.zeros(0, 3), torch.zeros(4, 3), torch.ones(1, 3)])
    def test_nothing_to_measure_is_0(self, rows):
        assert effective_rank(rows) == 0
        assert effective_rank(rows + 7.3) == 0


def test_column_std_and_dead_units():
    rows = torch.tensor([[0.0, 5.0, 1.0], [2.0, 5.0, 1.0], [4.0, 5.0, 1.0 + 1e-9]])
    assert column_std(rows) == pytest.approx(math.sqrt(8 / 3) / 3)
    assert dead_units(rows) == pytest.approx(2 / 3)
    assert (dead_units(normal(9, 4)), dead_units(torch.zeros(3, 4))) == (0.0, 1.0)
    rows = normal(40, 6)
    assert column_std(rows) == pytest.approx(float(np.mean(rows.numpy().std(0))))
    assert column_std(3 * rows - 1) == pytest.approx(3 * column_std(rows))


class TestAlignment:
    def test_by_hand(self):
        first = torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0], [0.0, 0.0], [3.0, 0.0]])
        second = torch.tensor([[5.0, 0.0], [7.0, 0.0], [0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
        # Parallel 0, orthogonal 2, both zero 0, one zero 2, opposite 4.
        assert alignment(first, second) == pytest.approx((0 + 2 + 0 + 2 + 4) / 5)
        # Nothing is masked.
        assert alignment(first[:0], second[:0]) == 0

    @settings(max_examples=20, deadline=None)
    @given(seed=st.integers(0, 99), scale=st.floats(1e-3, 1e3))
    def test_against_distances_of_unit_rows(self, seed, scale):
        a, b = normal(7, 4, seed=seed), normal(7, 4, seed=seed + 100)
        units = [rows / rows.norm(dim=1, keepdim=True) for rows in (a, b)]
        expected = float((units[0] - units[1]).square().sum(1).mean())
        assert alignment(scale * a, b) == pytest.approx(expected)
        assert alignment(a, scale * a) == pytest.approx(0, abs=1e-12)


class TestRecovery:
    def test_a_linear_map_loses_nothing_and_noise_everything(self):
        start = normal(3000, 5)
        assert recovery(start, start @ normal(5, 9, seed=1) + 3) > 0.99
        assert recovery(start, normal(3000, 5, seed=2)) < 0.05
        # Two of five directions are left.
        assert recovery(start, start[:, :2]) == pytest.approx(0.4, abs=0.05)

    def test_against_ridge_regression_by_numpy(self):
        start, rows = normal(120, 4), normal(120, 4) + 0.8 * normal(120, 4, seed=3)
        target, source = (
            np.clip((v - v[:60].mean(0)) / v[:60].std(0), -5, 5)
            for v in (start.numpy(), rows.numpy())
        )
        fitted, held_out = source[:60], source[60:]
        # The primal solution; the ridge is a thousandth of the mean squared norm of a row.
        ridge = 1e-3 * np.square(fitted).sum() / 60
        weight = np.linalg.solve(fitted.T @ fitted + ridge * np.eye(4), fitted.T @ target[:60])
        error = np.square(target[60:] - held_out @ weight).sum()
        expected = 1 - error / np.square(target[60:]).sum()
        assert recovery(start, rows) == pytest.approx(expected, abs=1e-9)

    def test_tiny_and_constant_rows(self):
        start, equal = normal(100, 3), torch.ones(100, 3)
        assert recovery(equal, start) == 1.0
        assert recovery(start, equal) == 0.0
        # Too few rows to tell.
        assert recovery(start[:99], equal[:99]) == recovery(start[:0], equal[:0]) == 1.0
