"""The better of two SVMs by inner folds: by hand, from records, and what it may look at."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphlatent.bench.better_svm import (
    BETTER_SELECTION,
    better_predictions,
    better_result,
    with_better_svm,
)
from graphlatent.bench.ledger import Record, append_record, compact, ledger_file, read_ledger
from graphlatent.probes.protocol import SplitPrediction
from graphlatent.probes.results import Choice, ProbeResult
from ledgers import table, text

BETTER_LINE = "raw features, linear or RBF chosen in inner folds"


def result(scores, val_scores, *, name="C", splits="same", metric="accuracy") -> ProbeResult:
    choices = tuple(Choice("X", {name: k}, v) for k, v in enumerate(val_scores))
    return ProbeResult(tuple(scores), choices, "In some way.", metric, {}, splits)


LINEAR = result([0.1, 0.2, 0.3], [0.5, 0.9, 0.7], name="strength")
RBF = result([0.6, 0.7, 0.8], [0.6, 0.8, 0.7])
# The second is better in the first fold, worse in the next, equal in the last.
BOTH = (0.6, 0.2, 0.3)


def test_by_hand():
    found = better_result(LINEAR, RBF)
    assert found is not None and found.scores == BOTH
    assert [c.settings for c in found.choices] == [
        {"C": 0, "kernel": "rbf"},
        {"strength": 1, "kernel": "linear"},
        {"strength": 2, "kernel": "linear"},
    ]
    assert [c.val_score for c in found.choices] == [0.6, 0.9, 0.7]
    assert (found.selection, found.splits) == (BETTER_SELECTION, "same")


def test_predictions_by_hand():
    first, second = (
        [SplitPrediction(choice, np.array([of])) for choice in each.choices]
        for of, each in enumerate((LINEAR, RBF))
    )
    found = better_predictions(first, second)
    assert [int(each.predicted[0]) for each in found] == [1, 0, 0]
    assert [each.choice.settings["kernel"] for each in found] == ["rbf", "linear", "linear"]


def test_the_last_digits_of_a_mean_do_not_decide():
    """The linear SVM's scores are rounded to 12 digits, the RBF SVM's are not."""
    mean = (1 / 3 + 2 / 3 + 5 / 6) / 3
    assert round(mean, 12) < mean
    found = better_result(result([0.1], [round(mean, 12)]), result([0.2], [mean]))
    assert found is not None and found.scores == (0.1,)


scores = st.lists(st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 1.0]), min_size=4, max_size=4)


@given(scores, scores, scores, scores)
def test_against_a_slow_rewrite_that_never_sees_test_scores(one, other, val_one, val_other):
    kernels = [
        "rbf" if math.floor(1e6 * b + 0.5) > math.floor(1e6 * a + 0.5) else "linear"
        for a, b in zip(val_one, val_other, strict=True)
    ]
    found = better_result(result(one, val_one), result(other, val_other))
    assert found is not None
    assert [c.settings["kernel"] for c in found.choices] == kernels
    assert list(found.scores) == [
        b if kernel == "rbf" else a for a, b, kernel in zip(one, other, kernels, strict=True)
    ]


@pytest.mark.parametrize(
    "other",
    [
        result([0.6, 0.7, 0.8], [0.6, 0.8, 0.7], splits="others"),
        result([0.6, 0.7, 0.8], [0.6, 0.8, 0.7], metric="micro-F1"),
        result([0.6, 0.7], [0.6, 0.8]),
        result([0.6, 0.7, 0.8], [0.6, math.nan, 0.7]),
    ],
    ids=["splits", "metric", "folds", "no score"],
)
def test_results_that_cannot_be_compared(other):
    assert better_result(LINEAR, other) is None
    assert list(with_better_svm({"linear/fixed": LINEAR, "rbf/fixed": other})) == [
        "linear/fixed",
        "rbf/fixed",
    ]


def test_only_of_the_same_selection_and_only_where_it_is_missing():
    given = {"linear/fixed": LINEAR, "rbf/validation": RBF}
    assert with_better_svm(given) == given
    given = {"linear/a": LINEAR, "rbf/a": RBF, "linear/b": LINEAR, "rbf/b": RBF, "svm/a": RBF}
    found = with_better_svm(given)
    assert set(found) - set(given) == {"svm/b"} and found["svm/a"] is RBF
    assert given.keys() == {"linear/a", "rbf/a", "linear/b", "rbf/b", "svm/a"}


class TestRecords:
    def old(self, root, **results):
        """A record as it was written before rows had the better of both."""
        given = {"linear/validation": LINEAR, "rbf/validation": RBF, **results}
        append_record(root, Record("table1/NCI1", "raw", 0, given, {}))

    def test_an_old_record_is_not_measured_again(self, tmp_path):
        self.old(tmp_path)
        path = ledger_file(tmp_path, "table1/NCI1")
        assert "svm/validation" not in json.loads(path.read_text())["results"]
        (record,) = read_ledger(tmp_path)
        assert record.results["svm/validation"].scores == BOTH
        made = table(tmp_path, "1")
        assert text(made, BETTER_LINE, "NCI1", 2) == "36.7 ± 20.8"
        # The file stays as it is
        compact(tmp_path)
        assert "svm/validation" not in json.loads(path.read_text())["results"]

    def test_a_record_without_scores_of_inner_folds(self, tmp_path):
        unknown = [dataclasses.replace(c, val_score=math.nan) for c in RBF.choices]
        self.old(tmp_path, **{"rbf/validation": dataclasses.replace(RBF, choices=tuple(unknown))})
        made = table(tmp_path, "1")
        assert text(made, BETTER_LINE, "NCI1", 2) == "not measured"
        assert text(made, "raw features", "NCI1", 1) == "70.0 ± 10.0"

    def test_one_that_has_it_keeps_it(self, tmp_path):
        self.old(tmp_path, **{"svm/validation": RBF})
        (record,) = read_ledger(tmp_path)
        assert record.results["svm/validation"] == RBF
