"""Design matrices: by hand, against scikit-learn's preprocessing, and their map back."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from fitting_cases import PREPROCESSING, case, matrix_of, prepared
from graphlatent.ops.sparse import SparseMatrix
from graphlatent.probes.design import Design, checked_matrix, unit_rows
from graphlatent.probes.fitting import PreprocessedMatrix


def test_prepared_rows_by_hand():
    table = torch.tensor(
        [[0.0, 5.0, 1.0], [2.0, 5.0, 7.0], [100.0, 9.0, 100.0]], dtype=torch.float64
    )
    plain, standard = (
        Design.of(table, [np.array([0, 1])], preprocessing)
        for preprocessing in ("none", "standard")
    )
    # columns less their means: -1, 0, -3 and 1, 0, 3, squared norm 10; divided by their deviations:
    # -1, 0, -1 and 1, 0, 1, squared norm 2
    np.testing.assert_allclose(plain.basis[0][0] * 10**0.5, [[-1, 0, -3], [1, 0, 3]])
    np.testing.assert_allclose(standard.basis[0][0] * 2**0.5, [[-1, 0, -1], [1, 0, 1]])
    assert plain.rows.weight.tolist() == [[0.5, 0.5]]
    np.testing.assert_allclose(plain.shift[0], [1, 5, 4])
    np.testing.assert_allclose(
        unit_rows(torch.tensor([[3.0, 4.0], [0.0, 0.0]])), [[0.6, 0.8], [0.0, 0.0]]
    )


@pytest.mark.parametrize("preprocessing", PREPROCESSING)
@pytest.mark.parametrize("kind", ["narrow", "constant", "sparse"])
def test_prepared_rows_are_scikit_learns(kind, preprocessing):
    rows, _ = case(kind)
    index = [np.arange(0, 60, 2), np.arange(17), np.arange(200, 290)]
    found = Design.of(
        matrix_of(rows, sparse=kind == "sparse").under(preprocessing), index, preprocessing
    )
    assert found.basis is None
    for f, train in enumerate(index):
        n = len(train)
        values = found.rows.values[f].numpy()
        np.testing.assert_allclose(
            values[:n, :-1], prepared(rows, train, preprocessing)[train], atol=1e-12
        )
        assert (values[:n, -1] == 1).all()
        np.testing.assert_allclose(found.rows.weight[f], (np.arange(90) < n) / n)
        assert not values[n:].any()  # rows that only fill up
        assert (values[:n, :-1] ** 2).sum(1).mean() == pytest.approx(1.0)


@pytest.mark.parametrize("preprocessing", PREPROCESSING)
@pytest.mark.parametrize("kind", ["narrow", "wide", "copies", "sparse"])
def test_classifiers_of_prepared_rows_and_of_the_table_agree(kind, preprocessing):
    rows, _ = case(kind)
    index = [np.arange(40), np.arange(100, 123)]
    table = matrix_of(rows, sparse=kind == "sparse").under(preprocessing)
    found = Design.of(table, index, preprocessing)
    weights = torch.randn(
        2,
        3,
        found.rows.values.shape[2],
        generator=torch.Generator().manual_seed(0),
        dtype=torch.float64,
    )
    # The minimum lies in the span of the rows; what fills up is not in it
    if found.basis is not None:
        weights[:, :, :-1] = (
            weights[:, :, :40] @ found.rows.values[:, :, :-1] * (found.rows.weight > 0)[:, None]
        )
    inside = found.rows.logits(weights[:, None])[:, 0].mT
    for f, logits in enumerate(found.to_models(weights).logits(table, index)):
        torch.testing.assert_close(logits, inside[f, : len(index[f])], atol=1e-4, rtol=1e-4)


def test_rows_outside_a_fit_do_not_reach_it():
    rows, _ = case("narrow")
    changed = rows.copy()
    changed[50:] = 1e6 * changed[50:] + 3
    before, after = (
        Design.of(torch.from_numpy(x), [np.arange(50)], "standard") for x in (rows, changed)
    )
    for a, b in (
        (before.rows.values, after.rows.values),
        (before.shift, after.shift),
        (before.scale, after.scale),
    ):
        assert torch.equal(a, b)


def test_sparse_tables_stay_sparse():
    table = SparseMatrix.from_scipy(sp.csr_matrix([[3.0, 4.0], [0.0, 0.0]]))
    matrix = PreprocessedMatrix(table, "cpu")
    unit = matrix.under("row")
    assert isinstance(unit, SparseMatrix) and unit is matrix.under("row")  # made once
    np.testing.assert_allclose(unit.to_scipy().toarray(), [[0.6, 0.8], [0.0, 0.0]])
    assert matrix.under("none") is matrix.under("standard")


@pytest.mark.parametrize("sparse", [False, True])
def test_short_rows_have_unit_length_too(sparse):
    rows = np.array([[3.0, 4.0], [0.0, 0.0], [1.0, 0.0]]) * 1e-20
    found = unit_rows(checked_matrix(sp.csr_matrix(rows) if sparse else rows))
    np.testing.assert_allclose(found.to_dense(), [[0.6, 0.8], [0.0, 0.0], [1.0, 0.0]])
