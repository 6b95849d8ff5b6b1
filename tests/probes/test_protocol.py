"""The lock on the test labels: what selection can see, when scores are read, and that cheating
fails for every probe.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import graphlatent.probes.svm as svm
from graphlatent.data.splits import Split, random_splits
from graphlatent.errors import ConfigError, InputError, ProtocolError
from graphlatent.probes.linear import checked_settings, linear_answers, linear_probe
from graphlatent.probes.protocol import Answer, Protocol, ReleasedProtocol
from graphlatent.probes.results import Choice
from graphlatent.probes.svm import svm_probe

NOTHING = Choice("", {}, float("nan"))
PROBES = ("linear", "linear, refitted", "svm", "rbf")
QUICK = {"l2": (1e-3, 1e-1), "preprocessing": ("none", "standard")}


def part(*rows):
    return np.array(rows, dtype=np.int64)


def blobs(num_rows=60, num_columns=4, *, noise=2.0, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(num_rows) % 3
    return (
        rng.normal(size=(3, num_columns))[labels]
        + noise * rng.normal(size=(num_rows, num_columns)),
        labels,
    )


def candidates(seed=0):
    """Three representations of the same rows, of which splits choose different ones."""
    rows, labels = blobs(seed=seed)
    noise = np.random.default_rng(seed + 1).normal(size=rows.shape)
    return {"early": rows + 0.5 * noise, "middle": rows, "late": np.tanh(rows)}, labels


@pytest.fixture
def answers_of(monkeypatch):
    """A function: what a probe answered, split by split, before the test labels were opened."""

    def answers(probe, representation, labels, splits):
        seen = []
        final = Protocol.final

        def recorded(self, given_answers, *, selection):
            assert not self.opened
            seen.extend(given_answers)
            return final(self, given_answers, selection=selection)

        with monkeypatch.context() as patch:
            patch.setattr(Protocol, "final", recorded)
            patch.setattr(svm, "folds_protocol", lambda labels, **_: Protocol(labels, splits))
            if probe.startswith("linear"):
                linear_probe(
                    representation, labels, splits=splits, refit="refitted" in probe, **QUICK
                )
            else:
                kernel = "rbf" if probe == "rbf" else "linear"
                svm_probe(
                    representation,
                    labels,
                    kernel=kernel,
                    num_folds=len(splits),
                    inner_folds=2,
                    C=(0.1, 10.0),
                    **QUICK,
                )
        return seen

    return answers


def splits_for(probe, labels):
    if probe.startswith("linear"):
        return random_splits(len(labels), num_splits=3, train_ratio=0.3, val_ratio=0.3)
    return svm.folds_splits(labels, num_folds=3)


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
    assert protocol.final([Answer(NOTHING, np.array([1, 1]))], selection="").scores == (1.0,)


def test_selection_is_asked_split_by_split():
    splits = [Split(part(0, 1), part(2), part(3)), Split(part(3), part(), part(0, 1))]
    protocol = Protocol([5, 6, 7, 8], splits)
    seen = []
    answers = protocol.choose(lambda visible: seen.append(visible) or Answer(NOTHING, visible.test))
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
    answers = [Answer(choices[0], np.array(list("aba"))), Answer(choices[1], np.array(list("bb")))]
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
    given_answer = Answer(NOTHING, np.array([[1, 0, 0], [0, 0, 0]]))
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
    answers = [Answer(NOTHING, np.array([1]))]
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
    assert str(caught.value) == "final() needs one answer per split, 1. Got 0."
    with pytest.raises(ProtocolError) as caught:
        Protocol([0, 1, 1], splits).final([Answer(NOTHING, np.array([1]))], selection="")
    assert str(caught.value) == "An answer must have the shape of the test labels, (2,). Got (1,)."


def test_released_protocol_picks_the_best_mean_on_the_test_and_says_so():
    splits = [Split(part(0), part(), part(1, 2, 3, 4)), Split(part(1), part(), part(2, 3, 4, 5))]

    def answers(*rights, val):
        """Answers with so many right entries: all labels are 1."""
        return [Answer(Choice("", {}, val), (np.arange(4) < right).astype(int)) for right in rights]

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


# --- cheating fails ---


@pytest.mark.parametrize("probe", PROBES)
def test_test_labels_of_a_split_change_none_of_its_choices_and_answers(probe, answers_of):
    representations, labels = candidates()
    splits = splits_for(probe, labels)
    honest = answers_of(probe, representations, labels, splits)
    assert len({answer.choice.candidate for answer in honest}) > 1  # there is something to choose
    for k, split in enumerate(splits):
        cheated = labels.copy()
        cheated[split.test] = (
            99 if k == 0 else np.random.default_rng(k).permutation(labels[split.test])
        )
        assert not np.array_equal(cheated, labels)
        again = answers_of(probe, representations, cheated, splits)[k]
        assert again.choice == honest[k].choice
        assert again.predicted.tobytes() == honest[k].predicted.tobytes()


@pytest.mark.parametrize("probe", PROBES)
def test_training_labels_do_change_them(probe, answers_of):
    representations, labels = candidates()
    splits = splits_for(probe, labels)
    changed = labels.copy()
    changed[splits[0].train] = np.random.default_rng(0).permutation(labels[splits[0].train])
    before, after = (answers_of(probe, representations, y, splits)[0] for y in (labels, changed))
    assert before.choice != after.choice
    assert before.predicted.tolist() != after.predicted.tolist()


@pytest.mark.parametrize("change", [lambda row: 3 * row - 1, lambda row: 1e9 * row])
@pytest.mark.parametrize("probe", PROBES)
def test_a_test_row_changes_no_choice_and_no_other_answer(probe, change, answers_of):
    rows, labels = blobs()
    splits = splits_for(probe, labels)[:1]
    before = answers_of(probe, {"rows": rows}, labels, splits)[0]
    moved = rows.copy()
    moved[splits[0].test[0]] = change(moved[splits[0].test[0]])
    after = answers_of(probe, {"rows": moved}, labels, splits)[0]
    assert after.choice == before.choice
    np.testing.assert_array_equal(after.predicted[1:], before.predicted[1:])


def test_selection_is_per_split_and_never_pooled():
    """On validation, split 0 prefers "a" by a little, split 1 "b" by far: pooled over splits "b"
    would win everywhere.
    """
    labels = np.arange(60) % 2
    splits = [
        Split(np.arange(10), np.arange(10, 20), np.arange(40, 60)),
        Split(np.arange(20, 30), np.arange(30, 40), np.arange(40, 60)),
    ]
    good = 2.0 * labels[:, None] - 1
    a, b = good.copy(), good.copy()
    b[10] *= -1  # one of ten wrong in the validation rows of split 0
    a[30:36] *= -1  # six of ten in those of split 1
    protocol = Protocol(labels, splits)
    found = linear_answers(
        {"a": a, "b": b}, protocol, settings=checked_settings([1e-2], ["none"], owner="test")
    )
    scores = {
        name: [answer.choice.val_score for answer in answers] for name, answers in found.items()
    }
    assert scores == {"a": pytest.approx([1.0, 0.4]), "b": pytest.approx([0.9, 1.0])}
    assert sum(scores["b"]) > sum(scores["a"])
    result = linear_probe(
        {"a": a, "b": b}, labels, splits=splits, l2=[1e-2], preprocessing=["none"]
    )
    assert [choice.candidate for choice in result.choices] == ["a", "b"]


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 1000))
def test_other_splits_change_nothing(seed):
    rows, labels = blobs(seed=seed)
    splits = random_splits(60, num_splits=3, train_ratio=0.3, val_ratio=0.3, seed=seed)
    together = linear_probe(rows, labels, splits=splits, **QUICK)
    alone = [linear_probe(rows, labels, splits=[split], **QUICK) for split in splits]
    assert together.choices == tuple(result.choices[0] for result in alone)
    assert together.scores == tuple(result.scores[0] for result in alone)


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
        == "The 'metric' parameter of Protocol must be one of ('accuracy', 'micro-F1'). Got 'auc'"
        " instead."
    )
