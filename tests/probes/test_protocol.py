"""The lock on the test labels: what selection can see, and when the labels are read."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from graphlatent.data.splits import Split
from graphlatent.errors import ConfigError, InputError, ProtocolError
from graphlatent.probes.metrics import METRICS
from graphlatent.probes.protocol import Protocol, ReleasedProtocol, SplitPrediction
from graphlatent.probes.results import Choice

NOTHING = Choice("", {}, float("nan"))


def part(*rows):
    return np.array(rows, dtype=np.int64)


# --- what selection sees ---


@pytest.mark.parametrize(
    "labels",
    [np.arange(10) % 3, np.eye(10, 4, dtype=np.int64), np.array(list("abcdeabcde"), dtype=object)],
)
def test_visible_holds_copies_of_training_and_validation_labels_only(labels):
    split = Split(part(1, 2, 5), part(0, 3), part(4, 6, 7, 8, 9))
    protocol = Protocol(labels, [split])
    (seen,) = protocol.visible()
    np.testing.assert_array_equal(seen.train_labels, labels[[1, 2, 5]])
    np.testing.assert_array_equal(seen.val_labels, labels[[0, 3]])
    assert set(vars(seen)) == {"number", "train", "train_labels", "val", "val_labels", "test"}
    inside = protocol._Protocol__labels
    for array in (seen.train_labels, seen.val_labels, seen.train, seen.val, seen.test):
        assert array.base is None
        assert not any(
            np.shares_memory(array, other)
            for other in (inside, labels, split.train, split.val, split.test)
        )


def test_writing_into_what_is_visible_does_not_reach_the_protocol():
    labels = np.array([0, 0, 1, 1])
    protocol = Protocol(labels, [Split(part(0), part(1), part(2, 3))])
    (seen,) = protocol.visible()
    for array in (seen.train, seen.train_labels, seen.val, seen.val_labels, seen.test):
        array[:] = 1
    labels[:] = 7  # nor does writing into what the user gave
    (again,) = protocol.visible()
    assert [
        again.train.tolist(),
        again.train_labels.tolist(),
        again.val.tolist(),
        again.test.tolist(),
    ] == [[0], [0], [1], [2, 3]]
    assert protocol.final([SplitPrediction(NOTHING, np.array([1, 1]))], selection="").scores == (
        1.0,
    )


def test_selection_is_asked_split_by_split():
    splits = [Split(part(0, 1), part(2), part(3)), Split(part(3), part(), part(0, 1))]
    protocol = Protocol([5, 6, 7, 8], splits)
    seen = []
    answers = protocol.choose(
        lambda visible: seen.append(visible) or SplitPrediction(NOTHING, visible.test)
    )
    assert [v.number for v in seen] == [0, 1]
    assert [v.train_labels.tolist() for v in seen] == [[5, 6], [8]]
    assert [v.val_labels.tolist() for v in seen] == [[7], []]
    assert [a.predicted.tolist() for a in answers] == [[3], [0, 1]]
    assert not protocol.opened


# --- opening ---


def test_scores_by_hand():
    protocol = Protocol(
        list("aabb"), [Split(part(0), part(), part(1, 2, 3)), Split(part(3), part(), part(0, 1))]
    )
    choices = (Choice("x", {"k": 1}, 0.5), Choice("y", {"k": 2}, 0.7))
    answers = [
        SplitPrediction(choices[0], np.array(list("aba"))),
        SplitPrediction(choices[1], np.array(list("bb"))),
    ]
    result = protocol.final(answers, selection="by hand")
    assert result.scores == pytest.approx((2 / 3, 0.0))
    assert (result.choices, result.selection, result.metric, result.others) == (
        choices,
        "by hand",
        "accuracy",
        {},
    )
    assert result.splits == protocol.fingerprint


def test_scores_of_a_table_by_hand():
    table = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 1]])
    given_answer = SplitPrediction(NOTHING, np.array([[1, 0, 0], [0, 0, 0]]))
    splits = [Split(part(0), part(), part(1, 2))]
    result = Protocol(torch.from_numpy(table), splits, metric="micro-F1").final(
        [given_answer], selection=""
    )
    assert result.scores == pytest.approx((2 / 4,))  # 1 right, none false, 2 missed
    assert result.others == {"accuracy": pytest.approx((4 / 6,))}
    assert Protocol(table, splits).final([given_answer], selection="").others == {
        "micro-F1": pytest.approx((0.5,))
    }


@pytest.mark.parametrize("first", ["final", "best_on_test"])
@pytest.mark.parametrize("second", ["final", "best_on_test"])
def test_a_second_opening_is_refused(first, second):
    protocol = ReleasedProtocol([0, 1], [Split(part(0), part(), part(1))])
    answers = [SplitPrediction(NOTHING, np.array([1]))]
    ways = {
        "final": lambda: protocol.final(answers, selection=""),
        "best_on_test": lambda: protocol.best_on_test({"a": answers}, selection=""),
    }
    ways[first]()
    with pytest.raises(ProtocolError) as caught:
        ways[second]()
    assert (
        str(caught.value)
        == "The test labels of this protocol were opened already, and choices made since would not"
        " be blind. Start a new Protocol for a new question, and report every result you"
        " looked at."
    )


def test_answers_that_do_not_fit_are_refused():
    splits = [Split(part(0), part(), part(1, 2))]
    with pytest.raises(ProtocolError) as caught:
        Protocol([0, 1, 1], splits).final([], selection="")
    assert str(caught.value) == "final() needs one prediction per split, 1. Got 0."
    with pytest.raises(ProtocolError) as caught:
        Protocol([0, 1, 1], splits).final([SplitPrediction(NOTHING, np.array([1]))], selection="")
    assert (
        str(caught.value) == "A prediction must have the shape of the test labels, (2,). Got (1,)."
    )


def test_released_protocol_picks_the_best_mean_on_the_test_and_says_so():
    splits = [Split(part(0), part(), part(1, 2, 3, 4)), Split(part(1), part(), part(2, 3, 4, 5))]

    def answers(*rights, val):
        """Answers with so many right entries: all labels are 1."""
        return [
            SplitPrediction(Choice("", {}, val), (np.arange(4) < right).astype(int))
            for right in rights
        ]

    given_answers = {
        "one": answers(4, 0, val=0.9),
        "two": answers(3, 3, val=0.1),
        "three": answers(2, 4, val=0.5),
    }
    result = ReleasedProtocol(np.ones(6, dtype=int), splits).best_on_test(
        given_answers, selection="the epoch"
    )
    assert result.scores == (0.75, 0.75)  # as "three" has on average: the first of equals
    assert result.choices[0].val_score == 0.1
    assert (
        result.selection
        == "Chosen on the TEST labels: the epoch with the highest mean test score over the splits,"
        " as in the released scripts."
    )


# --- the fingerprint ---


def test_fingerprint_knows_rows_and_parts():
    base = Split(part(0, 1), part(2), part(3, 4))
    same = Split(part(0, 1), part(2), part(3, 4))
    prints = [
        Protocol(range(6), [base]).fingerprint,
        Protocol(range(7), [base]).fingerprint,
        Protocol(range(6), [base, base]).fingerprint,
        Protocol(range(6), [Split(part(0), part(1, 2), part(3, 4))]).fingerprint,
        Protocol(range(6), [Split(part(0, 1), part(2), part(3, 5))]).fingerprint,
    ]
    assert len(set(prints)) == 5
    assert Protocol(range(10, 16), [same]).fingerprint == prints[0]  # labels are not in it


# --- bad input ---


@pytest.mark.parametrize(
    ("labels", "splits", "message"),
    [
        (
            [0, 1],
            [],
            "There are no splits to probe on. Make some with random_splits or fold_splits.",
        ),
        (
            np.zeros((2, 2, 2)),
            None,
            "Labels must be one class per row [M], or a 0/1 table [M, K]. Got shape (2, 2, 2).",
        ),
        ([], None, "Labels must be one class per row [M], or a 0/1 table [M, K]. Got shape (0,)."),
        ([[0, 2], [1, 0]], None, "A table of labels must hold 0 and 1 only, one column per label."),
        (
            [0.0, np.nan],
            None,
            (
                "The labels hold NaN or infinite values. Leave out rows without a label, or give"
                " them a class of their own."
            ),
        ),
        (
            [0, 1],
            [Split(part(0), part(), part(2))],
            "Split 0: 'test' must hold one or more row numbers from 0 to 1.",
        ),
        (
            [0, 1],
            [Split(part(), part(), part(1))],
            "Split 0: 'train' must hold one or more row numbers from 0 to 1.",
        ),
        (
            [0, 1],
            [Split(part(0), part(-1), part(1))],
            "Split 0: 'val' must hold one or more row numbers from 0 to 1.",
        ),
        (
            [0, 1],
            [Split(part(0), part(), part(1)), Split(part(0), part(0), part(1))],
            "Split 1: its parts share rows. A row may be in one of train, val and test, once.",
        ),
        (
            [0, 1],
            [Split(part(0, 0), part(), part(1))],
            "Split 0: its parts share rows. A row may be in one of train, val and test, once.",
        ),
    ],
)
def test_bad_input(labels, splits, message):
    with pytest.raises(InputError) as caught:
        Protocol(labels, [Split(part(0), part(), part(1))] if splits is None else splits)
    assert str(caught.value) == message


def test_unknown_metric():
    with pytest.raises(ConfigError) as caught:
        Protocol([0, 1], [Split(part(0), part(), part(1))], metric="auc")
    assert (
        str(caught.value)
        == f"The 'metric' parameter of Protocol must be one of {tuple(METRICS)}. Got 'auc' instead."
    )
