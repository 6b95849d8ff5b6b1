"""`evaluate`: the same probe, on the same splits, of several representations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from graphlatent.data.splits import Split
from graphlatent.display import counted
from graphlatent.ops.collective import shared_work
from graphlatent.probes.clustering import cluster_probe
from graphlatent.probes.communities import community_probe
from graphlatent.probes.evaluation.comparison import (
    ALL_ZEROS,
    MAJORITY,
    TRAINING_MEAN,
    MetricResults,
    ProbeComparison,
    by_metric,
)
from graphlatent.probes.evaluation.labels import ProbeLabels
from graphlatent.probes.evaluation.plan import NESTED_KINDS, RANKING, SEARCHES, EvaluationPlan
from graphlatent.probes.knn import knn_probe
from graphlatent.probes.linear import linear_probes
from graphlatent.probes.metrics import METRICS, ClassScores
from graphlatent.probes.protocol import Protocol, SplitPrediction, VisibleSplit
from graphlatent.probes.results import Choice, ProbeResult
from graphlatent.probes.svm import outer_fold_splits, svm_probe

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
    progress: Callable[[str], object] | None = None,
) -> ProbeComparison:
    """The plan's probe of every representation, all on the same splits.

    Args:
        representations: rows by name, each [labelled rows, D], dense or sparse.
        labels: of those rows.
        plan: which probe, on which splits.
        splits: of every seed; None draws those of the plan.
        constant: also measure predictions that look at no row: the majority class or the mean of
            the training rows, or with a matrix of labels no label at all.
        progress: is called with a few words before each representation.

    Raises:
        ConfigError: where the plan does not fit the labels.
        InputError: where rows and labels do not fit together.
    """
    splits = plan.splits(labels) if splits is None else splits
    told = progress or (lambda words: None)
    names = list(representations)
    if plan.is_search:

        def searched(name: str) -> Any:
            told(f"{name} ({names.index(name) + 1} of {len(names)})")
            found = _search(representations[name], labels.values, plan)
            return {metric: [r.to_dict() for r in each] for metric, each in found.items()}

        return ProbeComparison(
            {
                name: {metric: [*map(ProbeResult.from_dict, each)] for metric, each in of.items()}
                for name, of in zip(names, shared_work(names, searched), strict=True)
            }
        )
    metrics, _ = _defined_metrics(labels, plan, splits)
    values = labels.coded_values

    def probed(part: tuple[str, int]) -> Any:
        name, seed = part
        told(f"{name} ({names.index(name) + 1} of {len(names)})")
        of_seed = _probe(representations[name], values, plan, splits[seed], seed, metrics)
        return {metric: result.to_dict() for metric, result in of_seed.items()}

    # Several processes share the representations and the seeds.
    parts = [(name, seed) for name in names for seed in range(len(splits))]
    every: dict[str, list[dict[str, ProbeResult]]] = {name: [] for name in names}
    for (name, _), of_seed in zip(parts, shared_work(parts, probed), strict=True):
        every[name].append({m: ProbeResult.from_dict(each) for m, each in of_seed.items()})
    results: dict[str, MetricResults] = {name: by_metric(each) for name, each in every.items()}
    if constant:
        name = ALL_ZEROS if labels.multilabel else MAJORITY
        name = TRAINING_MEAN if labels.task == "regression" else name
        results[name] = by_metric(
            [_constant(values, plan, each, seed, metrics) for seed, each in enumerate(splits)]
        )
    return ProbeComparison(results)


def _defined_metrics(
    labels: ProbeLabels, plan: EvaluationPlan, splits: Sequence[tuple[Split, ...]]
) -> tuple[tuple[str, ...], list[str]]:
    """The metrics to show, and a note where those added by us are not defined for a test part."""
    metrics = plan.metrics(labels)
    if plan.metric is not None or len(metrics) == 1 or labels.task == "regression":
        return metrics, []
    values = labels.coded_values
    every = [
        split
        for seed, of_seed in enumerate(splits)
        for split in (of_seed or _outer_folds(values, plan, seed))
    ]
    alike = sum(len(np.unique(values[split.test])) < 2 for split in every)
    if not alike:
        return metrics, []
    note = (
        f"no AUC and AP: in {alike} of {len(every)} splits all test rows are of one class. Folds or"
        " larger test parts would help"
    )
    return tuple(name for name in metrics if name not in RANKING), [note]


def _outer_folds(labels: Array, plan: EvaluationPlan, seed: int) -> tuple[Split, ...]:
    return outer_fold_splits(labels, num_folds=plan.num_folds or 10, seed=seed)


def split_notes(
    labels: ProbeLabels, plan: EvaluationPlan, splits: Sequence[tuple[Split, ...]]
) -> list[str]:
    """What a reader of the scores should know about classes that are too small for the splits."""
    notes = []
    if plan.kind == "communities":
        empty = [name for name, count in labels.counts.items() if count == 0]
        notes += [f"left out, since they have no member: {', '.join(empty)}"] if empty else []
    if labels.multilabel or labels.task == "regression":
        return notes
    if not plan.is_search:
        notes += _notes_of_ranking(labels, plan, splits)
    small = {name: n for name, n in labels.counts.items() if n < (plan.num_folds or 0)}
    if small:
        listed = ", ".join(f"{name} ({n})" for name, n in list(small.items())[:_LISTED])
        notes.append(
            f"{counted(len(small), 'class has', 'classes have')} fewer members than the"
            f" {plan.num_folds} folds, so some folds do not test them:"
            f" {listed}{', ...' if len(small) > _LISTED else ''}"
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


def _notes_of_ranking(
    labels: ProbeLabels, plan: EvaluationPlan, splits: Sequence[tuple[Split, ...]]
) -> list[str]:
    metrics, notes = _defined_metrics(labels, plan, splits)
    if "AP" in metrics and labels.positive is not None:
        share = labels.counts[labels.positive] / len(labels.values)
        notes.append(
            f"AP is of the class '{labels.positive}', {share:.1%} of the rows: what guessing gives"
        )
    if set(metrics) & set(RANKING):
        every = [split for of_seed in splits for split in of_seed]
        blind = sum(len(np.unique(labels.values[split.val])) < 2 for split in every)
        if blind:
            notes.append(
                f"in {blind} of {len(every)} splits all validation rows are of one class, so AUC"
                " and AP choose nothing there and the first setting is taken"
            )
    return notes


def _probe(
    rows: Any,
    labels: Array,
    plan: EvaluationPlan,
    splits: tuple[Split, ...],
    seed: int,
    metrics: Sequence[str],
) -> dict[str, ProbeResult]:
    """The result of one seed for each metric, which chose the settings itself."""
    if plan.kind in NESTED_KINDS:
        kernel, folds = "rbf" if plan.kind == "rbf" else "linear", plan.num_folds or 10
        return {
            metric: svm_probe(
                rows, labels, kernel=kernel, num_folds=folds, seed=seed, metric=metric
            )
            for metric in metrics
        }
    # As cross-validation does: fitted once more on all but the test fold.
    refit = plan.num_folds is not None
    if plan.kind == "knn":
        return {
            metric: knn_probe(rows, labels, splits=splits, metric=metric, refit=refit)
            for metric in metrics
        }
    if plan.kind == "linear":
        return linear_probes(rows, labels, splits=splits, metrics=metrics, refit=refit)
    raise ValueError(f"there is no probe of kind {plan.kind!r} that scores labels")


def _constant(
    labels: Array,
    plan: EvaluationPlan,
    splits: tuple[Split, ...],
    seed: int,
    metrics: Sequence[str],
) -> dict[str, ProbeResult]:
    """The result of predictions that look at no row, for each metric."""
    found = {}
    for metric in metrics:
        of_seed = splits or _outer_folds(labels, plan, seed)
        protocol = Protocol(labels, of_seed, metric=metric)
        of_numbers = METRICS[metric].of_numbers
        words = "0" if labels.ndim == 2 else "the majority class of the training rows"
        words = "the mean of the training rows" if of_numbers else words
        found[metric] = protocol.final(
            protocol.choose(partial(_constant_prediction, of_numbers=of_numbers)),
            selection=f"Nothing was chosen: every prediction is {words}.",
        )
    return found


def _constant_prediction(part: VisibleSplit, *, of_numbers: bool) -> SplitPrediction:
    choice, shape = Choice("", {}, math.nan), (len(part.test), *part.train_labels.shape[1:])
    if of_numbers:
        return SplitPrediction(choice, np.full(shape, part.train_labels.mean()))
    if len(shape) == 2:
        alike = ClassScores(np.zeros(shape), np.arange(shape[1]))
        return SplitPrediction(choice, np.zeros(shape, dtype=np.int64), alike)
    classes, counts = np.unique(part.train_labels, return_counts=True)
    alike = ClassScores(np.zeros((len(part.test), len(classes))), classes)
    return SplitPrediction(choice, np.full(shape, classes[counts.argmax()]), alike)


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
