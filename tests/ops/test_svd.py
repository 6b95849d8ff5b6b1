"""Leading right singular vectors against a dense decomposition in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import generator
from graphlatent.ops import svd
from graphlatent.ops.sparse import SparseMatrix
from graphlatent.ops.svd import right_singular_vectors


def decaying(num_rows, width, *, seed=0, rate=0.9):
    """A random matrix whose singular values fall by the factor `rate`."""
    rng = np.random.default_rng(seed)
    rank = min(num_rows, width)
    left = np.linalg.qr(rng.normal(size=(num_rows, rank)))[0]
    right = np.linalg.qr(rng.normal(size=(width, rank)))[0]
    return torch.from_numpy((left * rate ** np.arange(rank)) @ right.T).float()


def sparse(x):
    row, col = torch.nonzero(x, as_tuple=True)
    return SparseMatrix.from_coo(row, col, x[row, col], tuple(x.shape))


@pytest.fixture(params=["exact", "randomised"])
def path(request, monkeypatch):
    """Both ways to compute: the Gram matrix, and subspace iteration."""
    if request.param == "randomised":
        monkeypatch.setattr(svd, "EXACT_WIDTH", 0)
    return request.param


def test_by_hand(path):
    x = torch.tensor([[0.0, -3.0, 0.0], [2.0, 0.0, 0.0]])
    found = right_singular_vectors(x, 3, generator=generator(0))
    # Singular values 3, 2 and 0.
    expected = torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("form", [lambda x: x, sparse], ids=["dense", "sparse"])
@pytest.mark.parametrize("shape", [(300, 90), (60, 200), (200, 200)], ids=str)
def test_the_vectors_of_a_dense_decomposition(path, form, shape):
    x = decaying(*shape)
    found = right_singular_vectors(form(x), 20, generator=generator(0)).double()
    expected = torch.linalg.svd(x.double()).Vh[:20].T
    # Cosines of the angles between corresponding vectors, up to sign.
    cosines = (found * expected).sum(0).abs()
    assert cosines.min() > 1 - 1e-4
    assert found.gather(0, found.abs().argmax(0, keepdim=True)).min() > 0


def test_a_flat_spectrum_keeps_almost_all_that_can_be_kept(monkeypatch):
    monkeypatch.setattr(svd, "EXACT_WIDTH", 0)
    x = torch.randn(500, 400, generator=generator(1))
    found = right_singular_vectors(x, 50, generator=generator(0))
    kept = (x @ found).square().sum()
    best = torch.linalg.svdvals(x.double())[:50].square().sum()
    assert 0.99 * best < kept < 1.00001 * best


@settings(max_examples=40, deadline=None)
@given(
    num_rows=st.integers(1, 12),
    width=st.integers(1, 12),
    rank=st.integers(0, 12),
    exact=st.booleans(),
    seed=st.integers(0, 99),
)
def test_orthonormal_up_to_the_rank_and_zero_beyond(num_rows, width, rank, exact, seed):
    gen = generator(seed)
    x = torch.randn(num_rows, rank, generator=gen) @ torch.randn(rank, width, generator=gen)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(svd, "EXACT_WIDTH", 100 if exact else 0)
        found = right_singular_vectors(x, width, generator=generator(seed))
    # A product of float32 matrices has its rank up to rounding errors.
    values = torch.linalg.svdvals(x.double())
    sure = int((values > 1e-3 * values[0]).sum()) if float(values[0]) else 0
    least, most = sure, min(num_rows, width, rank)
    assert found.shape == (width, width)
    nonzero = int(found.abs().sum(0).count_nonzero())
    assert least <= nonzero <= most
    gram = found.T @ found
    torch.testing.assert_close(gram[:sure, :sure], torch.eye(sure), atol=1e-4, rtol=0)
    torch.testing.assert_close(x @ found[:, :sure] @ found[:, :sure].T, x, atol=0.1, rtol=0.05)


def test_same_generator_same_bits(path):
    x = decaying(80, 50)
    first, second = (right_singular_vectors(x, 9, generator=generator(4)) for _ in range(2))
    assert torch.equal(first, second)


def test_blocks_of_rows_add_up(monkeypatch):
    x = decaying(70, 30)
    whole = right_singular_vectors(x, 5, generator=generator(0))
    monkeypatch.setattr(svd, "_BLOCK", 200)
    for form in (x, sparse(x)):
        parts = right_singular_vectors(form, 5, generator=generator(0))
        torch.testing.assert_close(parts, whole, atol=1e-6, rtol=0)


def test_k_may_exceed_the_number_of_rows(path):
    x = decaying(3, 40)
    found = right_singular_vectors(x, 10, generator=generator(0))
    assert found[:, 3:].abs().max() == 0
    torch.testing.assert_close(x @ found @ found.T, x, atol=1e-5, rtol=0)


def test_a_matrix_of_zeros_has_no_vectors(path):
    assert right_singular_vectors(torch.zeros(4, 3), 2, generator=generator(0)).abs().max() == 0
