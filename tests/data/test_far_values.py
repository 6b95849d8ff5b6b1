"""Columns in another unit, and columns that outliers standardise."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from feature_graphs import with_columns
from graphlatent.data.column_fitting import fit_column, fit_columns
from graphlatent.data.column_spec import ColumnSpec
from graphlatent.data.columns import encode_columns
from graphlatent.data.describe_columns import column_facts
from graphlatent.data.far_values import median_and_spread
from graphlatent.errors import GraphLatentWarning

TURNOVER = np.random.default_rng(0).lognormal(5.5, 0.7, size=400)
WITH_OUTLIERS = np.concatenate([TURNOVER, [5e6, 9e6]])


def fitted(values) -> ColumnSpec:
    return fit_column("turnover", np.asarray(values), standardize=True)


def encode(spec: ColumnSpec, values) -> None:
    encode_columns([spec], {spec.name: np.asarray(values)})


def quiet(function, *arguments) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        function(*arguments)


def test_median_and_quartiles_by_hand():
    spec = fitted(np.arange(41.0))
    assert (spec.median, spec.spread) == (20, 20)
    assert ColumnSpec.from_dict(spec.to_dict()).spread == 20
    assert median_and_spread(np.arange(19.0)) == {}
    # Quartiles that are equal, or equal up to rounding errors
    assert median_and_spread(np.array([0.0] * 30 + [1.0, 2.0])) == {}
    assert median_and_spread(np.where(np.arange(40) % 2, 0.3, 0.1 + 0.2)) == {}


@pytest.mark.parametrize("factor", [1000, 100, -100])
def test_another_unit_is_noticed_in_spite_of_outliers(factor):
    spec = fitted(WITH_OUTLIERS)
    with pytest.warns(GraphLatentWarning) as caught:
        encode(spec, TURNOVER * factor)
    (message,) = [str(each.message) for each in caught]
    assert message.startswith(
        f"The median of column 'turnover' is {np.median(TURNOVER * factor):g}, but"
        f" {np.median(WITH_OUTLIERS):g} when the model was fitted: "
    )
    assert message.endswith("Check the unit of the column, or fit a new model.")


def test_what_is_not_another_unit_is_told_nothing():
    spec = fitted(WITH_OUTLIERS)
    for values in (WITH_OUTLIERS, TURNOVER * 2, TURNOVER + 500, TURNOVER[:19] * 1000):
        quiet(encode, spec, values)


def test_a_model_that_does_not_know_the_median_is_used_as_before():
    stored = fitted(WITH_OUTLIERS).to_dict()
    del stored["median"], stored["spread"]
    spec = ColumnSpec.from_dict(stored)
    assert spec == fitted(WITH_OUTLIERS)
    quiet(encode, spec, TURNOVER * 1000)


def test_dates_go_on():
    days = np.arange("2020-01-01", "2020-02-10", dtype="M8[D]")
    spec = fitted(days)
    assert spec.kind == "date"
    quiet(encode, spec, days + 3650)


def test_far_values_are_told_once():
    spec = fitted(TURNOVER)
    with pytest.warns(GraphLatentWarning, match="standard deviations from the mean") as caught:
        encode(spec, TURNOVER * 1e9)
    assert len(caught) == 1


def test_outliers_that_standardise_a_column_are_named():
    note = "Column 'turnover' has outliers: half of its values are within"
    with pytest.warns(GraphLatentWarning, match=note):
        fit_columns({"turnover": WITH_OUTLIERS}, standardize=True)
    quiet(lambda: fit_columns({"turnover": TURNOVER}, standardize=True))
    quiet(lambda: fit_columns({"turnover": WITH_OUTLIERS}, standardize=False))
    for values, is_noted in ((WITH_OUTLIERS, True), (TURNOVER, False)):
        (fact,) = column_facts(with_columns(turnover=values))
        assert (note in fact.becomes) == is_noted and not fact.problem
