"""Outliers: distances against all pairs, and planted strange rows."""

from __future__ import annotations

import numpy as np
import pytest

import graphlatent.explore.outliers as outliers
from graphlatent import Embeddings
from graphlatent.errors import ConfigError, InputError


def planted():
    """Rows of three directions, of which rows 3 and 50 point elsewhere."""
    rng = np.random.default_rng(0)
    values = np.eye(6)[np.arange(90) % 3] + 0.05 * rng.normal(size=(90, 6))
    values[3], values[50] = [0, 0, 0, 2, 0, 0], [0, 0, 0, 0, -1, 1]
    return Embeddings(values.astype(np.float32), np.arange(90) + 100)


def test_distances_are_means_over_the_nearest():
    made = planted()
    found = made.outliers(neighbours=4)
    v = made.values.astype(np.float64)
    unit = v / np.linalg.norm(v, axis=1, keepdims=True)
    apart = 1 - unit @ unit.T
    np.fill_diagonal(apart, np.inf)
    expected = np.sort(apart, axis=1)[:, :4].mean(1)
    by_id = found.set_index("id")["distance"]
    np.testing.assert_allclose(by_id.loc[made.ids], expected, atol=1e-6)
    assert found["distance"].is_monotonic_decreasing
    assert set(found["id"][:2]) == {103, 150}


def test_cells_find_the_same_strange_rows(monkeypatch):
    exact = planted().outliers()
    monkeypatch.setattr(outliers, "EXACT", 10)
    monkeypatch.setattr("graphlatent.ops.nearest._CELL_SIZE", 15)
    found = planted().outliers()
    assert found["id"][:2].tolist() == exact["id"][:2].tolist()


def test_the_order_may_be_that_of_the_error():
    made, error = planted(), np.linspace(0, 1, 90)
    error[7] = np.nan
    found = made.outliers(error=error, by="error")
    assert found["id"].tolist()[:3] == [189, 188, 187] and found["id"].tolist()[-1] == 107
    kept = made.outliers(error=error)
    assert list(kept.columns) == ["id", "distance", "reconstruction_error"]
    assert kept["id"].tolist() == made.outliers()["id"].tolist()


def test_copies_are_no_outliers_and_keep_their_order():
    found = Embeddings(np.ones((5, 2), dtype=np.float32), np.arange(5)).outliers(neighbours=99)
    assert found["distance"].tolist() == [0] * 5 and found["id"].tolist() == list(range(5))


def test_what_cannot_be_asked():
    made = planted()
    with pytest.raises(ConfigError, match="'by' parameter of outliers must be 'distance', or with"):
        made.outliers(by="error")
    with pytest.raises(InputError, match="'error' must be one number for each of the 90 rows"):
        made.outliers(error=[1.0])
    with pytest.raises(ConfigError, match="'neighbours' parameter of outliers must be an int"):
        made.outliers(neighbours=0)
    with pytest.raises(InputError, match="one embedding only"):
        Embeddings(np.ones((1, 2), dtype=np.float32), np.arange(1)).outliers()
