"""Scores of predictions: by hand, against scikit-learn, and what they have in common."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    balanced_accuracy_score,
    f1_score,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
)

from graphlatent.probes.metrics import METRICS, ClassScores, accuracy, mean_defined, micro_f1

tables = st.tuples(st.integers(1, 12), st.integers(1, 5), st.integers(0, 10_000))


def pair(shape, seed):
    """A 0/1 table and answers to it, from mostly zeros to mostly ones."""
    rng = np.random.default_rng(seed)
    return ((rng.random(shape) < rng.random()).astype(int) for _ in range(2))


def test_accuracy_by_hand():
    assert accuracy(np.array(["a", "b", "b", "c"]), np.array(["a", "b", "c", "a"])) == 0.5
    assert accuracy(np.array([[1, 0], [0, 0]]), np.array([[1, 1], [0, 0]])) == 0.75  # of the cells


def test_micro_f1_by_hand():
    truth, answer = np.array([[1, 1, 0], [0, 1, 0]]), np.array([[1, 0, 1], [0, 1, 0]])
    # 2 right, 1 false, 1 missed
    assert micro_f1(truth, answer) == pytest.approx(2 * 2 / (2 * 2 + 1 + 1))
    # One class per row: the accuracy
    assert micro_f1(np.array([0, 1, 2]), np.array([0, 1, 1])) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("truth", "answer", "score"), [(0, 0, 0.0), (0, 1, 0.0), (1, 0, 0.0), (1, 1, 1.0)]
)
def test_tables_that_are_all_alike(truth, answer, score):
    assert micro_f1(np.full((3, 2), truth), np.full((3, 2), answer)) == score


@settings(max_examples=25, deadline=None)
@given(tables)
def test_scores_are_scikit_learns(drawn):
    num_rows, num_labels, seed = drawn
    truth, answer = pair((num_rows, num_labels), seed)
    cells = truth.ravel(), answer.ravel()
    assert micro_f1(truth, answer) == pytest.approx(
        f1_score(*cells, average="binary", zero_division=0.0)
    )
    assert accuracy(truth, answer) == pytest.approx(accuracy_score(*cells))
    if num_labels > 1:
        assert micro_f1(truth, answer) == pytest.approx(
            f1_score(truth, answer, average="micro", zero_division=0.0)
        )
    # what the docstring warns of: flattened, zeros count as a class, and the micro-average is the
    # accuracy of the cells
    assert accuracy(truth, answer) == pytest.approx(f1_score(*cells, average="micro"))


@settings(max_examples=25, deadline=None)
@given(tables)
def test_scores_do_not_depend_on_order_and_are_symmetric(drawn):
    num_rows, num_labels, seed = drawn
    truth, answer = pair((num_rows, num_labels), seed)
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(num_rows), rng.permutation(num_labels)
    for score in (accuracy, micro_f1):
        value = score(truth, answer)
        assert 0 <= value <= 1
        assert score(truth[rows][:, columns], answer[rows][:, columns]) == value
        assert score(answer, truth) == value
        assert score(truth, truth) == (1.0 if score is accuracy or truth.any() else 0.0)


# --- other metrics ---


def drawn_scores(num_rows, num_classes, seed):
    """Classes, predicted classes and class scores with many ties."""
    rng = np.random.default_rng(seed)
    truth, predicted = rng.integers(0, num_classes, (2, num_rows))
    values = rng.integers(0, 4, (num_rows, num_classes)) / 4
    return truth, predicted, ClassScores(values, np.arange(num_classes))


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 40), st.integers(2, 4), st.integers(0, 10_000))
def test_metrics_of_classes_are_scikit_learns(num_rows, num_classes, seed):
    truth, predicted, scores = drawn_scores(num_rows, num_classes, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of predicted classes that no row has
        expected = balanced_accuracy_score(truth, predicted)
    assert METRICS["balanced accuracy"](truth, predicted) == pytest.approx(expected)
    assert METRICS["macro-F1"](truth, predicted) == pytest.approx(
        f1_score(truth, predicted, average="macro", zero_division=0.0)
    )
    classes = np.unique(truth)
    if len(classes) < 2:
        assert np.isnan(METRICS["AUC"](truth, predicted, scores))
        return
    for name, theirs in (("AUC", roc_auc_score), ("AP", average_precision_score)):
        each = [theirs(truth == k, scores.values[:, k]) for k in classes]
        expected = each[-1] if num_classes == 2 else np.mean(each)
        assert METRICS[name](truth, predicted, scores) == pytest.approx(expected)


@settings(max_examples=25, deadline=None)
@given(tables)
def test_ranking_metrics_of_tables_are_scikit_learns(drawn):
    num_rows, num_labels, seed = drawn
    truth, answer = pair((num_rows, num_labels), seed)
    values = np.random.default_rng(seed).integers(0, 5, truth.shape) / 5
    mixed = [k for k in range(num_labels) if 0 < truth[:, k].sum() < num_rows]
    for name, theirs in (("AUC", roc_auc_score), ("AP", average_precision_score)):
        found = METRICS[name](truth, answer, ClassScores(values, np.arange(num_labels)))
        if not mixed:
            assert np.isnan(found)
        else:
            expected = theirs(truth[:, mixed], values[:, mixed], average="macro")
            assert found == pytest.approx(expected)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 30), st.integers(0, 10_000))
def test_metrics_of_numbers_are_scikit_learns(num_rows, seed):
    truth, predicted = np.random.default_rng(seed).normal(size=(2, num_rows))
    assert METRICS["R2"](truth, predicted) == pytest.approx(r2_score(truth, predicted))
    assert METRICS["MAE"](truth, predicted) == pytest.approx(mean_absolute_error(truth, predicted))


def test_ranking_by_hand():
    truth, scores = np.array([0, 1, 0, 1]), np.array([0.1, 0.4, 0.4, 0.8])
    of_one = ClassScores(np.stack([-scores, scores], axis=1), np.array([0, 1]))
    # Of the four pairs three are in order and one is a tie.
    assert METRICS["AUC"](truth, truth, of_one) == pytest.approx(3.5 / 4)
    # Half of the positives with precision 1, the other half with precision 2 of 3.
    assert METRICS["AP"](truth, truth, of_one) == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)


def test_a_class_that_the_model_does_not_know_ranks_as_by_guessing():
    truth = np.array(["a", "b", "c", "c"])
    scores = ClassScores(np.array([[1.0, 0.0], [0.0, 1.0], [0, 0], [0, 0]]), np.array(["a", "b"]))
    assert METRICS["AUC"](truth, truth, scores) == pytest.approx((1 + 1 + 0.5) / 3)
    assert METRICS["AP"](truth, truth, scores) == pytest.approx((1 + 1 + 0.5) / 3)


def test_undefined_scores():
    assert np.isnan(METRICS["R2"](np.ones(3), np.zeros(3)))
    assert METRICS["AUC"].utility(float("nan")) == -np.inf
    assert (METRICS["MAE"].utility(2.0), METRICS["R2"].utility(2.0)) == (-2.0, 2.0)
    scores = np.array([[0.5, np.nan], [0.7, np.nan], [np.nan, np.nan]])
    np.testing.assert_allclose(mean_defined(scores, axis=0), [0.6, np.nan])
    with pytest.raises(ValueError, match="this metric needs class scores"):
        METRICS["AP"](np.array([0, 1]), np.array([0, 1]))
