"""Inconsistent sparse matrices are refused before SciPy or torch write outside their memory."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from graphlatent import read_graphs
from graphlatent.data.sparse_input import consistent_coo, consistent_csr
from graphlatent.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")

EDGES = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
# Below the start, just beyond the end, and where no memory is.
OUTSIDE = (-1, 3, 10**8)


def damaged(form: str, part: str, value: int):
    """A unit matrix with one wrong position."""
    matrix = sp.eye(3, format=form)
    getattr(matrix, part)[1] = value
    return matrix


def damaged_tensor(layout: str, value: int) -> torch.Tensor:
    ones, size = torch.ones(3), (3, 3)
    whole, wrong = torch.arange(3), torch.tensor([0, value, 2])
    if layout == "coo":
        parts = torch.stack([wrong, whole])
        return torch.sparse_coo_tensor(parts, ones, size, check_invariants=False)
    compressed = getattr(torch, f"sparse_{layout}_tensor")
    return compressed(torch.arange(4), wrong, ones, size, check_invariants=False)


SCIPY = [("coo", "row"), ("coo", "col"), ("csr", "indices"), ("csc", "indices"), ("csr", "indptr")]


@pytest.mark.parametrize("value", OUTSIDE)
@pytest.mark.parametrize(("form", "part"), SCIPY)
def test_scipy(form, part, value):
    with pytest.raises(InputError, match="graph: the adjacency is inconsistent"):
        read_graphs(damaged(form, part, value))
    with pytest.raises(InputError, match="graph: the sparse features are inconsistent"):
        read_graphs((EDGES, damaged(form, part, value)))


@pytest.mark.parametrize("value", OUTSIDE)
@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_torch(layout, value):
    with pytest.raises(InputError, match="graph: the sparse tensor cannot be read"):
        read_graphs(damaged_tensor(layout, value))
    with pytest.raises(InputError, match="graph: the sparse features are inconsistent"):
        read_graphs((EDGES, damaged_tensor(layout, value)))


@pytest.mark.parametrize("form", ["coo", "csr", "csc", "bsr", "dia", "lil", "dok"])
def test_consistent_ones_are_converted(form):
    dense = np.array([[0.0, 2, 0, 0], [0, 0, 0, 3], [5, 0, 0, 0], [0, 0, 7, 0]])
    matrix = sp.csr_matrix(dense).asformat(form)
    np.testing.assert_array_equal(consistent_csr(matrix).toarray(), dense)


@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr", "bsc"])
def test_consistent_tensors_are_converted(layout):
    dense = torch.tensor([[0.0, 2, 0, 0], [0, 0, 0, 3], [5, 0, 0, 0], [0, 0, 7, 0]])
    sizes = {"blocksize": (2, 2)} if layout.startswith("b") else {}
    tensor = dense.to_sparse(layout=getattr(torch, f"sparse_{layout}"), **sizes)
    assert torch.equal(consistent_coo(tensor).to_dense(), dense)
