"""Accuracy and micro-F1: by hand, against scikit-learn, and what they have in common."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score

from graphlatent.probes.metrics import accuracy, micro_f1

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
