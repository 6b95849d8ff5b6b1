"""`evaluate`: the same probe, on the same splits, of several representations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from graphlatent.data.splits import Split
from graphlatent.probes.clustering import cluster_probe
from graphlatent.probes.communities import community_probe
from graphlatent.probes.evaluation.comparison import (
    ALL_ZEROS,
    MAJORITY,
    MetricResults,
    ProbeComparison,
    by_metric,
)
from graphlatent.probes.evaluation.labels import ProbeLabels
from graphlatent.probes.evaluation.plan import NESTED_KINDS, SEARCHES, EvaluationPlan
from graphlatent.probes.knn import knn_probe
from graphlatent.probes.linear import linear_probe
from graphlatent.probes.protocol import Protocol, SplitPrediction, VisibleSplit
from graphlatent.probes.results import Choice, ProbeResult
from graphlatent.probes.svm import outer_fold_protocol, svm_probe

Array: TypeAlias = np.ndarray[Any, Any]
# Classes that a note lists before "...".
_LISTED = 5


def evaluate(
    representations: Mapping[str, Any],
    labels: ProbeLabels,
    plan: EvaluationPlan,
    *,
    splits: Sequence[tuple[Split, ...]] | None = None,
    constant: bool = True,
) -> ProbeComparison:
    """The plan's probe of every representation, all on the same splits.

    Args:
        representations: rows by name, each [labelled rows, D], dense or sparse.
        labels: of those rows.
        plan: which probe, on which splits.
        splits: of every seed; None draws those of the plan.
        constant: also measure predictions that look at no row: the majority class of the training
            rows, or with a matrix of labels no label at all.

    Raises:
        ConfigError: where the plan does not fit the labels.
        InputError: where rows and labels do not fit together.
    """
    splits = plan.splits(labels) if splits is None else splits
    if plan.is_search:
        return ProbeComparison(
            {name: _search(rows, labels.values, plan) for name, rows in representations.items()}
        )
    results: dict[str, MetricResults] = {
        name: by_metric(
            [_probe(rows, labels.values, plan, each, seed) for seed, each in enumerate(splits)]
        )
        for name, rows in representations.items()
    }
    if constant:
        name = ALL_ZEROS if labels.multilabel else MAJORITY
        results[name] = by_metric(
            [_constant(labels.values, plan, each, seed) for seed, each in enumerate(splits)]
        )
    return ProbeComparison(results)


def split_notes(
    labels: ProbeLabels, plan: EvaluationPlan, splits: Sequence[tuple[Split, ...]]
) -> list[str]:
    """What a reader of the scores should know about classes that are too small for the splits."""
    notes = []
    if plan.kind == "communities":
        empty = [name for name, count in labels.counts.items() if count == 0]
        notes += [f"left out, since they have no member: {', '.join(empty)}"] if empty else []
    if labels.multilabel:
        return notes
    small = {name: n for name, n in labels.counts.items() if n < (plan.num_folds or 0)}
    if small:
        listed = ", ".join(f"{name} ({n})" for name, n in list(small.items())[:_LISTED])
        notes.append(
            f"{len(small)} class(es) have fewer members than the {plan.num_folds} folds, so some"
            f" folds do not test them: {listed}{', ...' if len(small) > _LISTED else ''}"
        )
    every = [split for of_seed in splits for split in of_seed]
    num_classes = len(labels.counts)
    lacking = sum(len(np.unique(labels.values[split.train])) < num_classes for split in every)
    if lacking:
        notes.append(
            f"in {lacking} of {len(every)} splits a class has no training row, so its test rows"
            " cannot be predicted; more rows or a larger training share would help"
        )
    return notes


def _probe(
    rows: Any, labels: Array, plan: EvaluationPlan, splits: tuple[Split, ...], seed: int
) -> ProbeResult:
    """The result of one seed."""
    if plan.kind in NESTED_KINDS:
        kernel = "rbf" if plan.kind == "rbf" else "linear"
        return svm_probe(rows, labels, kernel=kernel, num_folds=plan.num_folds or 10, seed=seed)
    # As cross-validation does: fitted once more on all but the test fold.
    refit = plan.num_folds is not None
    if plan.kind == "knn":
        score = "micro-F1" if labels.ndim == 2 else "accuracy"
        return knn_probe(rows, labels, splits=splits, metric=score, refit=refit)
    if plan.kind == "linear":
        return linear_probe(rows, labels, splits=splits, refit=refit)
    raise ValueError(f"there is no probe of kind {plan.kind!r} that scores labels")


def _constant(
    labels: Array, plan: EvaluationPlan, splits: tuple[Split, ...], seed: int
) -> ProbeResult:
    """The result of predicting the majority class of the training rows, or no label at all."""
    if plan.kind in NESTED_KINDS:
        protocol = outer_fold_protocol(labels, num_folds=plan.num_folds or 10, seed=seed)
    else:
        metric = "micro-F1" if labels.ndim == 2 else "accuracy"
        protocol = Protocol(labels, splits, metric=metric)
    words = "0" if labels.ndim == 2 else "the majority class of the training rows"
    return protocol.final(
        protocol.choose(_constant_prediction),
        selection=f"Nothing was chosen: every prediction is {words}.",
    )


def _constant_prediction(part: VisibleSplit) -> SplitPrediction:
    shape = (len(part.test), *part.train_labels.shape[1:])
    if len(shape) == 2:
        return SplitPrediction(Choice("", {}, math.nan), np.zeros(shape, dtype=np.int64))
    classes, counts = np.unique(part.train_labels, return_counts=True)
    return SplitPrediction(Choice("", {}, math.nan), np.full(shape, classes[counts.argmax()]))


def _search(rows: Any, labels: Array, plan: EvaluationPlan) -> MetricResults:
    """How well clusters or communities that were found without labels agree with them."""
    seeds = range(plan.num_seeds)
    scores: dict[str, tuple[float, ...]]
    if plan.kind == "communities":
        communities = community_probe(rows, labels, seeds=seeds)
        scores = {"NMI": communities.nmi, "F1": communities.f1, "omega": communities.omega}
        selection = communities.selection
    else:
        clusters = cluster_probe(
            rows, labels, method="spectral" if plan.kind == "spectral" else "kmeans", seeds=seeds
        )
        scores = {"NMI": clusters.nmi, "ARI": clusters.ari, "ACC": clusters.acc}
        selection = clusters.selection
    choice = Choice("", {"method": SEARCHES[plan.kind]}, math.nan)
    return {
        name: [ProbeResult((value,), (choice,), selection, name) for value in values]
        for name, values in scores.items()
    }
