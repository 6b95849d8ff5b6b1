"""The same probe on the same splits of several representations."""

from __future__ import annotations

import json

import numpy as np
import pytest

from graphlatent.data.splits import random_splits
from graphlatent.probes.clustering import cluster_probe
from graphlatent.probes.communities import community_probe
from graphlatent.probes.evaluation.comparison import (
    ALL_ZEROS,
    EMBEDDINGS,
    MAJORITY,
    RAW_FEATURES,
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
        "1 class(es) have fewer members than the 5 folds, so some folds do not test them: rare (3)"
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
