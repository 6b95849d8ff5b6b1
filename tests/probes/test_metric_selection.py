"""What each metric chooses and reports: its own settings, from training and validation labels only,
and scikit-learn's score of what was predicted.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as theirs
from sklearn.linear_model import LogisticRegression, Ridge

import graphlatent.probes.svm as svm
from graphlatent.data.splits import Split, random_splits
from graphlatent.errors import ConfigError, InputError
from graphlatent.probes.knn import knn_probe
from graphlatent.probes.linear import linear_probe, linear_probes
from graphlatent.probes.protocol import Protocol
from graphlatent.probes.svm import svm_probe

OF_CLASSES = ("accuracy", "balanced accuracy", "macro-F1", "AUC", "AP")
PROBES = ("linear", "linear, refitted", "knn", "svm", "rbf")


def blobs(num_classes=2, *, num_rows=90, seed=0):
    rng = np.random.default_rng(seed)
    labels = (rng.random(num_rows) < 0.3).astype(int)
    if num_classes > 2:
        labels = rng.integers(0, num_classes, num_rows)
    centres = rng.normal(size=(num_classes, 5))
    return centres[labels] + 1.5 * rng.normal(size=(num_rows, 5)), labels


def numbers(*, num_rows=90, num_columns=6, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(num_rows, num_columns)) * np.arange(1, num_columns + 1) + 3
    return rows, 100 + 7 * rows[:, 0] - rows[:, 1] ** 2 + 5 * rng.normal(size=num_rows)


def splits_of(labels):
    return random_splits(len(labels), num_splits=3, train_ratio=0.3, val_ratio=0.3)


@pytest.fixture
def predicted(monkeypatch):
    """A function: the predictions of a probe before the test labels were opened, and its result."""

    def run(probe, rows, labels, metric):
        seen, final = [], Protocol.final

        def recorded(self, predictions, *, selection):
            assert not self.opened
            seen.extend(predictions)
            return final(self, predictions, selection=selection)

        splits = splits_of(labels)
        outer = [Split(np.sort(np.r_[s.train, s.val]), s.val[:0], s.test) for s in splits]
        with monkeypatch.context() as patch:
            patch.setattr(Protocol, "final", recorded)
            patch.setattr(svm, "outer_fold_splits", lambda *_, **__: outer)
            if probe.startswith("linear"):
                result = linear_probe(
                    rows, labels, splits=splits, metric=metric, refit="refitted" in probe
                )
            elif probe == "knn":
                result = knn_probe(rows, labels, splits=splits, metric=metric)
            else:
                kernel = "rbf" if probe == "rbf" else "linear"
                result = svm_probe(
                    rows, labels, kernel=kernel, num_folds=3, C=(0.1, 10.0), metric=metric
                )
        return seen, result, splits

    return run


@pytest.mark.parametrize("metric", OF_CLASSES)
@pytest.mark.parametrize("num_classes", [2, 3])
@pytest.mark.parametrize("probe", PROBES)
def test_the_score_is_scikit_learns_of_what_was_predicted(probe, num_classes, metric, predicted):
    rows, labels = blobs(num_classes)
    seen, result, splits = predicted(probe, rows, labels, metric)
    assert result.metric == metric and f" {metric}" in result.selection
    for score, each, split in zip(result.scores, seen, splits, strict=True):
        assert score == pytest.approx(_score(metric, labels[split.test], each))


def _score(metric, truth, prediction):
    if metric in ("AUC", "AP"):
        score = theirs.roc_auc_score if metric == "AUC" else theirs.average_precision_score
        scores = prediction.scores
        each = [score(truth == k, scores.values[:, i]) for i, k in enumerate(scores.classes)]
        return each[-1] if len(each) == 2 else np.mean(each)
    score = {
        "accuracy": theirs.accuracy_score,
        "balanced accuracy": theirs.balanced_accuracy_score,
        "macro-F1": lambda a, b: theirs.f1_score(a, b, average="macro"),
    }[metric]
    return score(truth, prediction.predicted)


@pytest.mark.parametrize(
    ("probe", "metric"),
    [(probe, metric) for probe in PROBES for metric in ("macro-F1", "AUC", "AP")]
    + [("linear", "R2"), ("linear", "MAE"), ("linear, refitted", "MAE")],
)
def test_test_labels_change_no_choice_and_no_prediction(probe, metric, predicted):
    rows, labels = numbers() if metric in ("R2", "MAE") else blobs()
    honest, _, splits = predicted(probe, rows, labels, metric)
    for k, split in enumerate(splits):
        changed = labels.copy()
        order = np.random.default_rng(k).permutation(split.test)
        changed[split.test] = labels[order] if labels.dtype.kind == "i" else -3 * labels[order]
        assert not np.array_equal(changed, labels)
        again = predicted(probe, rows, changed, metric)[0][k]
        assert again.choice == honest[k].choice
        if labels.dtype.kind == "i":
            assert again.predicted.tobytes() == honest[k].predicted.tobytes()
        else:
            # Fits of other splits, solved in the same batch, may round the last bit otherwise.
            np.testing.assert_allclose(again.predicted, honest[k].predicted, rtol=1e-12)
        if honest[k].scores is not None:
            found, expected = again.scores.values, honest[k].scores.values
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("metric", ["AUC", "R2"])
def test_training_and_validation_labels_do_change_them(metric, predicted):
    rows, labels = numbers() if metric == "R2" else blobs()
    before, _, splits = predicted("linear", rows, labels, metric)
    for part in (splits[0].train, splits[0].val):
        changed = labels.copy()
        changed[part] = labels[part][::-1]
        after = predicted("linear", rows, changed, metric)[0][0]
        assert after.choice != before[0].choice


def test_the_choice_is_the_best_on_validation(predicted):
    """By hand: every setting with scikit-learn, scored on the validation rows."""
    rows, labels = blobs()
    _, result, splits = predicted("linear", rows, labels, "AUC")
    for choice, split in zip(result.choices, splits, strict=True):
        best = 0.0
        for l2 in (1e-6, 1e-5, 1e-4, 1e-3, 1e-2):
            for scaled in _preprocessed(rows, split.train):
                C = 2 / (len(split.train) * l2)
                model = LogisticRegression(C=C, tol=1e-8, max_iter=5000)
                model.fit(scaled[split.train], labels[split.train])
                outputs = model.decision_function(scaled[split.val])
                best = max(best, theirs.roc_auc_score(labels[split.val], outputs))
        assert choice.val_score == pytest.approx(best, abs=1e-3)


@pytest.mark.parametrize(
    ("metric", "score", "best"),
    [("R2", theirs.r2_score, max), ("MAE", theirs.mean_absolute_error, min)],
)
def test_the_choice_of_ridge_is_the_best_on_validation(metric, score, best):
    rows, labels = numbers()
    splits = splits_of(labels)
    result = linear_probe(rows, labels, splits=splits, metric=metric)
    for choice, split in zip(result.choices, splits, strict=True):
        found = []
        for l2 in (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0):
            for scaled in _preprocessed(rows, split.train):
                model = Ridge(alpha=len(split.train) * l2)
                model.fit(scaled[split.train], labels[split.train])
                found.append(score(labels[split.val], model.predict(scaled[split.val])))
        assert choice.val_score == pytest.approx(best(found))
        assert max(found) > min(found)


def _preprocessed(rows, train):
    """As the probe prepares rows: as they are, of unit norm, standardised; of mean norm 1."""
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    for each in (rows, unit, rows / rows[train].std(0)):
        centred = each - each[train].mean(0)
        yield centred / np.sqrt(np.square(centred[train]).sum(1).mean())


@pytest.mark.parametrize("num_columns", [6, 60])
@pytest.mark.parametrize("l2", [1e-4, 1e-1])
@pytest.mark.parametrize(("number", "preprocessing"), [*enumerate(["none", "row", "standard"])])
def test_ridge_is_scikit_learns(number, preprocessing, l2, num_columns, predicted):
    rows, labels = numbers(num_columns=num_columns)
    splits = splits_of(labels)
    result = linear_probe(
        rows, labels, splits=splits, metric="R2", l2=[l2], preprocessing=[preprocessing]
    )
    for score, split in zip(result.scores, splits, strict=True):
        scaled = [*_preprocessed(rows, split.train)][number]
        model = Ridge(alpha=len(split.train) * l2).fit(scaled[split.train], labels[split.train])
        found = model.predict(scaled[split.test])
        assert score == pytest.approx(theirs.r2_score(labels[split.test], found), abs=1e-6)


def test_units_of_the_label_change_nothing_but_the_error():
    rows, labels = numbers()
    splits = splits_of(labels)
    metrics = ["R2", "MAE"]
    plain = linear_probes(rows, labels, splits=splits, metrics=metrics)
    scaled = linear_probes(rows, 1000 * labels - 5, splits=splits, metrics=metrics)
    assert scaled["R2"].scores == pytest.approx(plain["R2"].scores)
    assert scaled["MAE"].scores == pytest.approx([1000 * each for each in plain["MAE"].scores])
    assert scaled["MAE"].choices[0].settings == plain["MAE"].choices[0].settings
    assert "lowest validation MAE" in plain["MAE"].selection


def test_several_metrics_at_once_are_each_alone():
    rows, labels = blobs()
    splits = splits_of(labels)
    together = linear_probes(rows, labels, splits=splits, metrics=OF_CLASSES, refit=True)
    for metric, result in together.items():
        assert result == linear_probe(rows, labels, splits=splits, metric=metric, refit=True)


def test_among_representations_of_an_error_the_lowest_is_chosen():
    rows, labels = numbers()
    noise = np.random.default_rng(1).normal(size=rows.shape)
    both = {"noise": noise, "rows": rows}
    result = linear_probe(both, labels, splits=splits_of(labels), metric="MAE")
    assert {choice.candidate for choice in result.choices} == {"rows"}


def test_what_is_not_defined():
    rows, labels = blobs()
    one = Split(np.flatnonzero(labels >= 0)[:40], np.arange(40, 60), np.flatnonzero(labels)[-1:])
    with pytest.raises(InputError) as caught:
        linear_probe(rows, labels, splits=[one], metric="AUC")
    assert str(caught.value) == (
        "AUC cannot be computed for split 0, since its test part, 1 row, holds one class only. Use"
        " folds, larger test parts or another metric."
    )
    # Validation rows of one class choose nothing: the first setting.
    zeros = np.flatnonzero(labels == 0)
    rest = np.setdiff1d(np.arange(90), zeros[:10])
    blind = Split(rest[:40], zeros[:10], rest[40:])
    (choice,) = linear_probe(rows, labels, splits=[blind], metric="AUC").choices
    assert np.isnan(choice.val_score)
    assert choice.settings == {"preprocessing": "none", "strength": 1e-2}
    with pytest.raises(InputError, match="R2 is of labels that are numbers, one per row"):
        linear_probe(rows, np.array(["a", "b"])[labels], splits=[blind], metric="R2")
    for probe in (svm_probe, lambda *a, **k: knn_probe(*a, splits=[blind], **k)):
        with pytest.raises(ConfigError, match=r"'metric' parameter of .*_probe must be one of"):
            probe(rows, labels, metric="MAE")
