"""Feature matrices from Python that cannot be used are refused by name."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from graphlatent import NodeLaGraph, read_graphs
from graphlatent.errors import InputError
from graphlatent.ops.sparse import SparseMatrix, to_dense

EDGES = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
X = np.array([[1.0, 2.0], [0.0, 3.0], [4.0, 5.0]])


def with_value(value) -> np.ndarray:
    x = X.copy()
    x[1, 1] = value
    return x


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e39, -1e308])
@pytest.mark.parametrize(
    "form", [np.asarray, np.ndarray.tolist, torch.from_numpy, sp.csr_matrix, sp.coo_array]
)
def test_a_value_that_is_not_finite_is_refused_with_its_place(value, form):
    message = r"graph: features hold 1 NaN or infinite value, .* at row 1, column 1\. \(Numbers"
    with pytest.raises(InputError, match=message):
        NodeLaGraph(epochs=1).fit((EDGES, form(with_value(value))))


@pytest.mark.parametrize(
    "x",
    [
        X.astype(complex),
        torch.tensor(X, dtype=torch.complex64),
        torch.tensor(X, dtype=torch.complex64).to_sparse(),
        sp.csr_matrix(X.astype(complex)),
        SparseMatrix.from_scipy(sp.csr_matrix(X.astype(complex)), dtype=torch.complex64),
        X.astype(object),
        np.where(X > 2, None, X),
        X.astype(str),
        np.full((3, 2), np.datetime64("2020-01-01")),
        [[1, 2], [3, 4], [5, "a"]],
        [[10**400, 2], [3, 4], [5, 6]],
    ],
    ids=[
        *("complex", "tensor", "sparse tensor", "scipy", "SparseMatrix", "object", "none", "text"),
        *("dates", "mixed", "long integers"),
    ],
)
def test_what_is_not_a_matrix_of_real_numbers_is_refused(x):
    with pytest.raises(InputError, match=r"graph: features must be (real )?numbers\. Got"):
        NodeLaGraph(epochs=1).fit((EDGES, x))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (X[:, 0], "must be a 2-D array"),
        (X[:, :, None], "must be a 2-D array"),
        (X[:, :0], "features have no columns"),
        (X[:2], r"ids from 0 to 1, since there are 2 nodes\. Got 2\."),
    ],
)
def test_another_shape_is_refused(x, message):
    with pytest.raises(InputError, match=message):
        NodeLaGraph(epochs=1).fit((EDGES, x))


def test_a_ragged_matrix_beside_an_adjacency_is_refused():
    adjacency = sp.csr_matrix((np.ones(4), EDGES), shape=(3, 3))
    with pytest.raises(InputError, match="features must be a regular array of numbers"):
        NodeLaGraph(epochs=1).fit((adjacency, [[1, 2], [3], [4, 5]]))


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.uint64, np.float64, np.longdouble])
def test_sparse_matrices_of_every_type_are_read_without_overflow(dtype):
    twice = (np.array([100, 100, 3]).astype(dtype), ([0, 0, 2], [1, 1, 0]))
    graph = read_graphs((EDGES, sp.coo_matrix(twice, shape=(3, 2))))
    expected = [[0, 1], [0, 0], [1, 0]] if dtype is bool else [[0, 200], [0, 0], [3, 0]]
    assert to_dense(graph.x).tolist() == expected
