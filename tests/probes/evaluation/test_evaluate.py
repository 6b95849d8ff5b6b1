"""The same probe on the same splits of several representations."""

from __future__ import annotations

import json

import numpy as np
import pytest

from graphlatent.data.splits import random_splits
from graphlatent.errors import ConfigError
from graphlatent.probes.clustering import cluster_probe
from graphlatent.probes.communities import community_probe
from graphlatent.probes.evaluation.comparison import (
    ALL_ZEROS,
    EMBEDDINGS,
    MAJORITY,
    RAW_FEATURES,
    TRAINING_MEAN,
    UNTRAINED,
    ProbeComparison,
)
from graphlatent.probes.evaluation.evaluate import evaluate, split_notes
from graphlatent.probes.evaluation.labels import ProbeLabels
from graphlatent.probes.evaluation.plan import evaluation_plan
from graphlatent.probes.knn import knn_probe
from graphlatent.probes.linear import linear_probe
from graphlatent.probes.results import paired, summarize
from graphlatent.probes.svm import svm_probe

KINDS = np.array(["ant", "bee", "cat"])[np.arange(60) % 3]
CLASSES = ProbeLabels(KINDS, np.arange(60), ("kind",))
TABLE = np.column_stack([np.arange(60) % 2, np.arange(60) % 5 == 0]).astype(int)
MATRIX = ProbeLabels(TABLE, np.arange(60), ("a", "b"))


@pytest.fixture
def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    return (rng.normal(size=(3, 4))[np.arange(60) % 3] + rng.normal(size=(60, 4))).astype(
        np.float32
    )


def scores(comparison, metric="accuracy", who=EMBEDDINGS):
    """Seed by seed."""
    return [result.scores for result in comparison.results[who][metric]]


@pytest.mark.parametrize("kind", ["linear", "knn", "svm", "rbf"])
def test_scores_are_those_of_the_probe_for_every_seed(rows, kind):
    plan = evaluation_plan(kind, folds=4, seeds=2)
    found = evaluate({EMBEDDINGS: rows}, CLASSES, plan)
    for seed, splits in enumerate(evaluation_plan(folds=4, seeds=2).splits(CLASSES)):
        if kind in ("svm", "rbf"):
            kernel = "rbf" if kind == "rbf" else "linear"
            expected = svm_probe(rows, KINDS, kernel=kernel, num_folds=4, seed=seed)
        else:
            probe = knn_probe if kind == "knn" else linear_probe
            expected = probe(rows, KINDS, splits=splits, refit=True)
        assert scores(found)[seed] == expected.scores
    assert (found.metric, found.selection) == ("accuracy", expected.selection)


@pytest.mark.parametrize(("kind", "method"), [("clusters", "kmeans"), ("spectral", "spectral")])
def test_clusters(rows, kind, method):
    found = evaluate({EMBEDDINGS: rows}, CLASSES, evaluation_plan(kind, seeds=2))
    direct = cluster_probe(rows, KINDS, method=method, seeds=range(2))
    for metric, values in (("NMI", direct.nmi), ("ARI", direct.ari), ("ACC", direct.acc)):
        assert scores(found, metric) == [(value,) for value in values]
    assert found.selection == direct.selection


def test_communities(rows):
    found = evaluate({EMBEDDINGS: rows}, MATRIX, evaluation_plan("communities", seeds=2))
    direct = community_probe(rows, TABLE, seeds=range(2))
    for metric, values in (("NMI", direct.nmi), ("F1", direct.f1), ("omega", direct.omega)):
        assert scores(found, metric) == [(value,) for value in values]
    assert found.selection == direct.selection and set(found.results) == {EMBEDDINGS}


@pytest.mark.parametrize("kind", ["linear", "knn"])
@pytest.mark.parametrize("folds", [None, 3])
def test_several_labels_have_micro_f1_accuracy_and_the_all_zero_baseline(rows, kind, folds):
    drawn = {"folds": 3} if folds else {"splits": 3, "train": 0.3, "val": 0.3}
    plan = evaluation_plan(kind, **drawn)
    (splits,) = plan.splits(MATRIX)
    found = evaluate({EMBEDDINGS: rows}, MATRIX, plan)
    probe, named = (knn_probe, {"metric": "micro-F1"}) if kind == "knn" else (linear_probe, {})
    direct = probe(rows, TABLE, splits=splits, refit=folds is not None, **named)
    assert found.metric == "micro-F1"
    assert scores(found, "micro-F1") == [direct.scores]
    assert scores(found) == [pytest.approx(direct.others["accuracy"])]
    assert scores(found, "micro-F1", ALL_ZEROS) == [(0.0,) * 3]
    assert scores(found, "accuracy", ALL_ZEROS) == [
        pytest.approx(tuple(1 - TABLE[split.test].mean() for split in splits))
    ]


def test_small_classes_are_noted():
    few = ProbeLabels(np.where(np.arange(60) < 3, "rare", KINDS), np.arange(60), ("kind",))
    plan = evaluation_plan("svm", folds=5)
    assert split_notes(few, plan, plan.splits(few)) == [
        "1 class has fewer members than the 5 folds, so some folds do not test them: rare (3)"
    ]
    plan = evaluation_plan()
    lacking = sum(
        len(np.unique(few.values[split.train])) < 4 for split in random_splits(60, num_splits=20)
    )
    assert lacking > 0
    assert split_notes(few, plan, plan.splits(few)) == [
        f"in {lacking} of 20 splits a class has no training row, so its test rows cannot be"
        " predicted; more rows or a larger training share would help"
    ]
    plan = evaluation_plan(train=0.5)
    assert split_notes(CLASSES, plan, plan.splits(CLASSES)) == []


def test_communities_without_members_are_noted():
    labels = ProbeLabels(
        np.column_stack([TABLE, np.zeros(60, int)]), np.arange(60), ("a", "b", "c")
    )
    plan = evaluation_plan("communities")
    assert split_notes(labels, plan, plan.splits(labels)) == [
        "left out, since they have no member: c"
    ]


def test_summaries_and_paired_differences(rows):
    plan = evaluation_plan(splits=3, train=0.3, val=0.3, seeds=2)
    raw = rows[:, :1]
    found = evaluate({EMBEDDINGS: rows, RAW_FEATURES: raw}, CLASSES, plan)
    ours, theirs = (
        [linear_probe(x, KINDS, splits=splits) for splits in plan.splits(CLASSES)]
        for x in (rows, raw)
    )
    summaries = found.summaries()
    assert summaries[EMBEDDINGS]["accuracy"] == summarize(ours)
    assert summaries[f"minus {RAW_FEATURES}"]["accuracy"] == paired(ours, theirs)
    both = ProbeComparison({**found.results, UNTRAINED: found.results[RAW_FEATURES]}).summaries()
    assert [name for name in both if name.startswith("minus")] == [
        f"minus {name}" for name in (RAW_FEATURES, MAJORITY, UNTRAINED)
    ]


def test_plain_values_have_no_nan(rows):
    found = evaluate({EMBEDDINGS: rows}, CLASSES, evaluation_plan("clusters"))
    value = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert value["results"][EMBEDDINGS]["NMI"][0]["choices"][0]["val_score"] is None
    assert value["summary"][EMBEDDINGS]["NMI"]["n"] == 5


# --- metrics, and baselines that look at no row ---

RARE = ProbeLabels(np.array(["ok", "fraud"])[(np.arange(60) % 6 == 0) * 1], np.arange(60), ("y",))
NUMBERS = ProbeLabels(np.arange(60) % 7 / 7, np.arange(60), ("price",), "regression")
DRAWN = {"splits": 3, "train": 0.4, "val": 0.3}


def rare_rows(rows):
    return rows + 2 * (RARE.values == "fraud")[:, None]


@pytest.mark.parametrize("kind", ["linear", "knn", "svm", "rbf"])
def test_rare_classes_have_auc_and_ap_as_if_these_had_been_asked_for(rows, kind):
    drawn = {"folds": 3} if kind in ("svm", "rbf") else DRAWN
    found = evaluate({EMBEDDINGS: rare_rows(rows)}, RARE, evaluation_plan(kind, **drawn))
    assert list(found.results[EMBEDDINGS]) == ["accuracy", "AUC", "AP"]
    for name, metric in (("accuracy", "accuracy"), ("auc", "AUC"), ("ap", "AP")):
        plan = evaluation_plan(kind, metric=name, **drawn)
        alone = evaluate({EMBEDDINGS: rare_rows(rows)}, RARE, plan)
        assert list(alone.results[EMBEDDINGS]) == [metric]
        assert scores(alone, metric) == scores(found, metric)
    if kind in ("linear", "knn"):
        (splits,) = plan.splits(RARE)
        shares = [np.mean(RARE.values[split.test] == "fraud") for split in splits]
        assert scores(found, "AUC", MAJORITY) == [(0.5,) * 3]
        assert scores(found, "AP", MAJORITY) == [pytest.approx(tuple(shares))]


def test_the_positive_class(rows):
    """The rarer one, 1 and the like, or what was named; AP is of it, AUC of both."""
    assert RARE.positive == "fraud"
    mostly = ProbeLabels((np.arange(60) % 6 > 0) * 1, np.arange(60), ("y",))
    assert mostly.positive == "1" and mostly.is_imbalanced
    other = ProbeLabels(RARE.values, RARE.rows, RARE.names, positive_class="ok")
    plan = evaluation_plan(metric="ap", **DRAWN)
    ours, theirs = (evaluate({EMBEDDINGS: rows}, each, plan) for each in (RARE, other))
    assert np.mean(scores(ours, "AP", MAJORITY)) < 0.3 < np.mean(scores(theirs, "AP", MAJORITY))
    notes = split_notes(RARE, plan, plan.splits(RARE))
    assert notes[0] == "AP is of the class 'fraud', 16.7% of the rows: what guessing gives"
    half = ProbeLabels(np.arange(60) % 2, np.arange(60), ("y",))
    assert not half.is_imbalanced
    assert evaluation_plan().metrics(half) == ("accuracy",)


def test_auc_that_is_not_defined_is_left_out_with_a_note(rows):
    few = ProbeLabels((np.arange(60) < 2) * 1, np.arange(60), ("y",))
    plan = evaluation_plan(splits=5, train=0.4, val=0.4)
    found = evaluate({EMBEDDINGS: rows}, few, plan)
    assert list(found.results[EMBEDDINGS]) == ["accuracy"]
    (note, *_) = split_notes(few, plan, plan.splits(few))
    lacking = sum(not few.values[s.test].any() for s in plan.splits(few)[0])
    assert note.startswith(f"no AUC and AP: in {lacking} of 5 splits all test rows are of one cla")


def test_numbers(rows):
    plan = evaluation_plan(**DRAWN)
    found = evaluate({EMBEDDINGS: rows}, NUMBERS, plan)
    assert list(found.results[EMBEDDINGS]) == ["R2", "MAE"] and found.metric == "R2"
    (splits,) = plan.splits(NUMBERS)
    for metric in ("R2", "MAE"):
        direct = linear_probe(rows, NUMBERS.values, splits=splits, metric=metric)
        assert scores(found, metric) == [direct.scores]
    mean = [np.abs(NUMBERS.values[s.test] - NUMBERS.values[s.train].mean()).mean() for s in splits]
    assert scores(found, "MAE", TRAINING_MEAN)[0] == pytest.approx(mean)
    folds = evaluation_plan(folds=3, metric="mae")
    assert folds.metrics(NUMBERS) == ("MAE", "R2")
    (splits,) = folds.splits(NUMBERS)
    direct = linear_probe(rows, NUMBERS.values, splits=splits, metric="MAE", refit=True)
    assert scores(evaluate({EMBEDDINGS: rows}, NUMBERS, folds), "MAE") == [direct.scores]


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        (
            CLASSES,
            {"metric": "r2"},
            "metric='r2' does not go with labels that are classes. Use one",
        ),
        (NUMBERS, {"metric": "auc"}, "metric='auc' does not go with labels that are numbers. Use "),
        (MATRIX, {"metric": "balanced"}, "metric='balanced' does not go with labels that are seve"),
        (NUMBERS, {"kind": "svm"}, "kind='svm' needs classes, and 'price' holds numbers. Use line"),
        (CLASSES, {"metric": "gini"}, "The 'metric' parameter of probe must be one of accuracy, b"),
        (CLASSES, {"kind": "clusters", "metric": "auc"}, "Leave out 'metric': kind='clusters' has"),
    ],
)
def test_metrics_that_cannot_be(rows, labels, options, message):
    with pytest.raises(ConfigError) as caught:
        evaluate({EMBEDDINGS: rows}, labels, evaluation_plan(**options))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("metric", ["auc", "ap"])
def test_ranking_of_several_labels(rows, metric):
    plan = evaluation_plan(metric=metric, **DRAWN)
    found = evaluate({EMBEDDINGS: rows}, MATRIX, plan)
    assert list(found.results[EMBEDDINGS]) == [metric.upper(), "accuracy", "micro-F1"]
    assert 0 < np.mean(scores(found, metric.upper())) < 1


@pytest.mark.parametrize("kind", ["knn", "clusters"])
def test_progress_names_each_representation(rows, kind):
    told = []
    plan = evaluation_plan(kind, seeds=1)
    both = {EMBEDDINGS: rows, RAW_FEATURES: rows}
    evaluate(both, CLASSES, plan, progress=told.append)
    assert told == ["embeddings (1 of 2)", "raw features (2 of 2)"]
