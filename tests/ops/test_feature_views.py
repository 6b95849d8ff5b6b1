"""Products with feature views equal products with the dense matrices."""

from __future__ import annotations

import pytest
import torch

from cases import as_sparse, generator, random_graph
from graphlatent.ops.feature_views import MaskedColumns, PermutedRows
from graphlatent.ops.sparse import to_dense

GRAPH = random_graph([6], num_features=5, one_hot=True)


@pytest.mark.parametrize("sparse", [True, False])
def test_products_equal_the_dense_ones(sparse):
    x = (as_sparse(GRAPH) if sparse else GRAPH).x
    dense = to_dense(x)
    order = torch.randperm(6, generator=generator(0))
    keep = torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0])
    weight = torch.randn(5, 3, generator=generator(1))
    for view, expected in (
        (PermutedRows(x, order), dense[order]),
        (MaskedColumns(x, keep), dense * keep),
    ):
        assert view.shape == (6, 5)
        torch.testing.assert_close(view.to_dense(), expected)
        torch.testing.assert_close(view.matmul(weight), expected @ weight)
