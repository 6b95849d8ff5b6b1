"""Test labels reach no choice and no prediction, whatever the probe."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphlatent.probes.svm as svm
from graphlatent.data.splits import Split, random_splits
from graphlatent.probes.linear import checked_settings, linear_predictions, linear_probe
from graphlatent.probes.protocol import Protocol
from graphlatent.probes.svm import svm_probe

PROBES = ("linear", "linear, refitted", "svm", "rbf")
QUICK = {"l2": (1e-3, 1e-1), "preprocessing": ("none", "standard")}


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
            patch.setattr(svm, "outer_fold_protocol", lambda labels, **_: Protocol(labels, splits))
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
    return svm.outer_fold_splits(labels, num_folds=3)


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
    """On validation, split 0 prefers "a" slightly, split 1 "b" clearly: pooled, "b" would win."""
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
    found = linear_predictions(
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
