"""Sparse matrices against their dense equivalents."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphlatent.ops.feature_views import PatchedRows, replace_rows
from graphlatent.ops.sparse import SparseMatrix, matmul, row_normalized, take_rows, to_dense


def random_sparse(rows, cols, density=0.4, seed=0):
    rng = np.random.default_rng(seed)
    dense = rng.normal(size=(rows, cols)) * (rng.random((rows, cols)) < density)
    matrix = SparseMatrix.from_scipy(sp.csr_matrix(dense), dtype=torch.float64)
    return matrix, torch.from_numpy(dense)


def test_from_coo_by_hand():
    matrix = SparseMatrix.from_coo(
        torch.tensor([1, 0, 1]), torch.tensor([2, 1, 0]), torch.tensor([3.0, 1.0, 2.0]), (3, 3)
    )
    assert matrix.crow.tolist() == [0, 1, 3, 3]
    assert matrix.col.tolist() == [1, 0, 2]
    assert matrix.value.tolist() == [1.0, 2.0, 3.0]
    assert matrix.to_dense().tolist() == [[0, 1, 0], [2, 0, 3], [0, 0, 0]]
    assert matrix.nnz == 3
    assert matrix.row.tolist() == [0, 1, 1]


def test_from_scipy_sums_duplicates_and_drops_zeros():
    coo = sp.coo_matrix(([1.0, 2.0, 0.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    matrix = SparseMatrix.from_scipy(coo)
    assert matrix.nnz == 1
    assert matrix.dtype == torch.float32
    assert matrix.to_dense().tolist() == [[0, 3], [0, 0]]


def test_from_scipy_sorts_columns_and_does_not_change_its_input():
    given_matrix = sp.csr_matrix(
        (np.array([1.0, 2.0]), np.array([2, 0]), np.array([0, 2])), shape=(1, 3)
    )
    assert SparseMatrix.from_scipy(given_matrix).col.tolist() == [0, 2]
    assert given_matrix.indices.tolist() == [2, 0]


def test_scipy_round_trip():
    matrix, dense = random_sparse(5, 7)
    assert np.array_equal(matrix.to_scipy().toarray(), dense.numpy())


@settings(max_examples=30, deadline=None)
@given(
    rows=st.integers(0, 6), cols=st.integers(0, 6), width=st.integers(0, 4), seed=st.integers(0, 99)
)
def test_products_equal_the_dense_ones(rows, cols, width, seed):
    matrix, dense = random_sparse(rows, cols, seed=seed)
    factor = torch.randn(
        cols, width, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    )
    assert torch.allclose(matrix.matmul(factor), dense @ factor)
    assert torch.equal(matrix.to_dense(), dense)
    assert torch.equal(matrix.transpose.to_dense(), dense.T)


def test_first_and_second_gradients_equal_the_dense_ones():
    matrix, dense = random_sparse(4, 3)
    factor = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(matrix.matmul, (factor,))
    assert torch.autograd.gradgradcheck(matrix.matmul, (factor,))
    (ours,) = torch.autograd.grad(matrix.matmul(factor).square().sum(), factor)
    (theirs,) = torch.autograd.grad((dense @ factor).square().sum(), factor)
    assert torch.allclose(ours, theirs)


def test_gradient_of_an_empty_matrix():
    matrix = SparseMatrix.from_scipy(sp.csr_matrix((3, 2)), dtype=torch.float64)
    factor = torch.randn(2, 2, dtype=torch.float64, requires_grad=True)
    matrix.matmul(factor).sum().backward()
    assert torch.equal(factor.grad, torch.zeros(2, 2, dtype=torch.float64))


def test_no_gradient_is_computed_where_none_is_needed():
    matrix, _ = random_sparse(4, 3)
    assert not matrix.matmul(torch.randn(3, 2, dtype=torch.float64)).requires_grad
    assert matrix._transpose is None


def test_transpose_is_cached_and_refers_back():
    matrix, _ = random_sparse(4, 3)
    assert matrix.transpose is matrix.transpose
    assert matrix.transpose.transpose is matrix


def test_symmetric_matrix_is_its_own_transpose():
    matrix = SparseMatrix.from_coo(
        torch.tensor([0, 1]), torch.tensor([1, 0]), torch.ones(2), (2, 2), symmetric=True
    )
    assert matrix.transpose is matrix


@settings(max_examples=20, deadline=None)
@given(index=st.lists(st.integers(0, 4), max_size=8), seed=st.integers(0, 20))
def test_rows_in_any_order_and_repeated(index, seed):
    matrix, dense = random_sparse(5, 3, seed=seed)
    picked = matrix.rows(torch.tensor(index, dtype=torch.int64))
    assert picked.shape == (len(index), 3)
    assert torch.equal(picked.to_dense(), dense[index])


def test_to_changes_the_dtype_and_returns_self_where_nothing_changes():
    matrix, dense = random_sparse(3, 3)
    assert matrix.to("cpu", torch.float64) is matrix
    assert matrix.to(dtype=torch.float32).dtype == torch.float32
    assert torch.allclose(matrix.to(dtype=torch.float32).to_dense().double(), dense, atol=1e-6)


def test_patched_rows_equal_the_dense_replacement():
    matrix, dense = random_sparse(5, 3)
    index, values = torch.tensor([3, 0]), torch.randn(2, 3, dtype=torch.float64)
    patched = replace_rows(matrix, index, values)
    assert isinstance(patched, PatchedRows)
    expected = dense.clone()
    expected[index] = values
    factor = torch.randn(3, 4, dtype=torch.float64)
    assert patched.shape == (5, 3)
    assert torch.equal(patched.to_dense(), expected)
    assert torch.allclose(patched.matmul(factor), expected @ factor)


def test_patched_rows_gradient_in_values_and_factor():
    matrix, _ = random_sparse(4, 3)
    index = torch.tensor([2])
    values = torch.randn(1, 3, dtype=torch.float64, requires_grad=True)
    factor = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda v, f: PatchedRows(matrix, index, v).matmul(f), (values, factor)
    )


@pytest.mark.parametrize("sparse", [True, False])
def test_helpers_work_on_dense_and_sparse_features(sparse):
    matrix, dense = random_sparse(4, 3)
    x = matrix if sparse else dense
    factor = torch.randn(3, 2, dtype=torch.float64)
    index = torch.tensor([1, 3])
    assert torch.allclose(matmul(x, factor), dense @ factor)
    assert torch.equal(to_dense(x), dense)
    assert torch.equal(to_dense(take_rows(x, index)), dense[index])
    replaced = replace_rows(x, index, torch.zeros(2, 3, dtype=torch.float64))
    assert to_dense(replaced)[index].abs().sum() == 0
    # The input is not changed.
    assert torch.equal(to_dense(x), dense)


@pytest.mark.parametrize("sparse", [True, False])
def test_row_normalized(sparse):
    dense = torch.tensor([[1.0, -3.0], [0.0, 0.0], [0.0, 5.0]])
    matrix = SparseMatrix.from_scipy(sp.csr_matrix(dense.numpy()))
    found = to_dense(row_normalized(matrix if sparse else dense))
    assert found.tolist() == [[0.25, -0.75], [0.0, 0.0], [0.0, 1.0]]
