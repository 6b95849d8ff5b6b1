"""Which probe is run, on which splits and with how many seeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from graphlatent.data.splits import Split, fold_splits, random_splits
from graphlatent.display import counted
from graphlatent.errors import ConfigError, bad_argument
from graphlatent.probes.evaluation.labels import ProbeLabels

ProbeKind: TypeAlias = Literal["linear", "svm", "rbf", "knn", "clusters", "spectral", "communities"]
KINDS: tuple[ProbeKind, ...] = get_args(ProbeKind)
# Kinds that search for groups without labels, and what the search is called.
SEARCHES = {
    "clusters": "k-means",
    "spectral": "spectral clustering",
    "communities": "overlapping k-means",
}
# Kinds that draw folds of their own and choose settings in inner folds.
NESTED_KINDS = ("svm", "rbf")
_MULTILABEL = ("linear", "knn", "communities")
METRIC_NAMES = ("accuracy", "balanced", "f1", "auc", "ap", "r2", "mae")
"""What `metric` may be."""
_OF_CLASSES = {
    "accuracy": "accuracy",
    "balanced": "balanced accuracy",
    "f1": "macro-F1",
    "auc": "AUC",
    "ap": "AP",
}
_OF_MATRICES = {"f1": "micro-F1", "accuracy": "accuracy", "auc": "AUC", "ap": "AP"}
_OF_NUMBERS = {"r2": "R2", "mae": "MAE"}
# Shown in addition where one of two classes is rare.
RANKING = ("AUC", "AP")


@dataclass(frozen=True)
class EvaluationPlan:
    """Which probe is run, on which splits and with how many seeds.

    Args:
        kind: of the probe.
        num_splits: random splits, where `num_folds` is None.
        train_ratio: share of the rows to train on in a random split.
        val_ratio: share of the rows to choose settings on.
        num_folds: stratified folds instead of random splits; None for random splits.
        num_seeds: of splits, or of searches.
        metric: one of `METRIC_NAMES`; None for those that suit the labels.
    """

    kind: ProbeKind = "linear"
    num_splits: int = 20
    train_ratio: float = 0.1
    val_ratio: float = 0.1
    num_folds: int | None = None
    num_seeds: int = 1
    metric: str | None = None

    @property
    def is_search(self) -> bool:
        """Whether groups are searched for without labels, on all rows."""
        return self.kind in SEARCHES

    @property
    def description(self) -> str:
        """Which rows are measured on."""
        if self.is_search:
            seeds = counted(self.num_seeds, "seed")
            return f"{seeds} of {SEARCHES[self.kind]} on all rows with a label"
        seeds = "" if self.num_seeds == 1 else f", with {self.num_seeds} seeds"
        if self.num_folds is not None:
            return f"{self.num_folds} shuffled folds{seeds}"
        test_ratio = 1 - self.train_ratio - self.val_ratio
        return (
            f"{self.num_splits} random splits: {self.train_ratio:.0%} training,"
            f" {self.val_ratio:.0%} validation, {test_ratio:.0%} test{seeds}"
        )

    def splits(self, labels: ProbeLabels) -> list[tuple[Split, ...]]:
        """The splits of every seed; () where the probe draws folds of its own or needs none.

        Raises:
            ConfigError: where the kind of probe does not fit the labels, or a ratio is out of
                range.
            InputError: where there are too few rows.
        """
        self._check(labels)
        if self.kind not in ("linear", "knn"):
            return [()] * self.num_seeds
        num_rows, seeds = len(labels.values), range(self.num_seeds)
        if self.num_folds is not None:
            alike = labels.multilabel or labels.task == "regression"
            strata = np.zeros(num_rows) if alike else labels.values
            return [
                fold_splits(strata, num_folds=self.num_folds, val_ratio=self.val_ratio, seed=seed)
                for seed in seeds
            ]
        return [
            random_splits(
                num_rows,
                num_splits=self.num_splits,
                train_ratio=self.train_ratio,
                val_ratio=self.val_ratio,
                seed=seed,
            )
            for seed in seeds
        ]

    def metrics(self, labels: ProbeLabels) -> tuple[str, ...]:
        """The scores of a probe with a test part, the main one first.

        Accuracy, with AUC and AP beside it where one of two classes is rare; micro-F1 of a matrix
        of labels; R2 and MAE of numbers.

        Raises:
            ConfigError: where `metric` does not fit the labels.
        """
        usual: tuple[str, ...]
        if labels.task == "regression":
            allowed, usual, called = _OF_NUMBERS, ("R2", "MAE"), "numbers"
        elif labels.multilabel:
            allowed, usual, called = _OF_MATRICES, ("micro-F1",), "several labels per row"
        else:
            rare = RANKING if labels.is_imbalanced else ()
            allowed, usual, called = _OF_CLASSES, ("accuracy", *rare), "classes"
        if self.metric is None:
            return usual
        if self.metric not in allowed:
            raise ConfigError(
                f"metric='{self.metric}' does not go with labels that are {called}. Use one of"
                f" {', '.join(allowed)}."
            )
        chosen = allowed[self.metric]
        others = usual if labels.task == "regression" else ()
        return (chosen, *(name for name in others if name != chosen))

    def _check(self, labels: ProbeLabels) -> None:
        if not self.is_search:
            self.metrics(labels)
        if labels.task == "regression" and self.kind != "linear":
            raise ConfigError(
                f"kind='{self.kind}' needs classes, and '{labels.names[0]}' holds numbers. Use"
                " linear, which is ridge regression there, or give the option 'task' as"
                " 'classification'."
            )
        if labels.multilabel and self.kind not in _MULTILABEL:
            raise ConfigError(
                f"kind='{self.kind}' needs one class per row, and there are {len(labels.names)}"
                " label columns. Use linear, knn or communities."
            )
        if self.kind == "communities" and not labels.multilabel:
            raise ConfigError(
                "kind='communities' needs a column of 0 and 1 for each community: name several"
                " label columns, or give an array [M, K]. For one class per row use clusters."
            )


def evaluation_plan(
    kind: str = "linear",
    *,
    splits: int | None = None,
    train: float | None = None,
    val: float | None = None,
    folds: int | None = None,
    seeds: int | None = None,
    metric: str | None = None,
) -> EvaluationPlan:
    """The plan of a kind of probe, with the defaults of that kind.

    Args:
        kind: of the probe: linear, svm, rbf, knn, clusters, spectral or communities.
        splits: random splits (20).
        train: share of the rows to train on (0.1).
        val: share of the rows to choose settings on (0.1).
        folds: stratified folds instead of random splits; svm and rbf always use folds (10).
        seeds: of splits (1), or of clusters and communities (5).
        metric: what decides and is reported: accuracy, balanced, f1, auc, ap, r2 or mae.

    Raises:
        ConfigError: where the kind is unknown, or an argument means nothing for it.
    """
    if kind not in KINDS:
        raise bad_argument("kind", owner="probe", allowed=f"one of {', '.join(KINDS)}", got=kind)
    if metric is not None and metric not in METRIC_NAMES:
        allowed = f"one of {', '.join(METRIC_NAMES)}"
        raise bad_argument("metric", owner="probe", allowed=allowed, got=metric)
    if metric is not None and kind in SEARCHES:
        raise ConfigError(f"Leave out 'metric': kind='{kind}' has scores of its own.")
    given = {"splits": splits, "train": train, "val": val, "folds": folds}
    meaningless: tuple[str, ...] = ()
    reason = ""
    if kind in SEARCHES:
        meaningless, reason = tuple(given), "there are no training rows"
    elif kind in NESTED_KINDS:
        meaningless, reason = ("splits", "train", "val"), "settings are chosen in inner folds"
    elif folds is not None:
        meaningless, reason = ("splits", "train"), "every row is tested once and trains otherwise"
    wrong = [f"'{name}'" for name in meaningless if given[name] is not None]
    if wrong:
        folded = " and 'folds'" if folds is not None and "'folds'" not in wrong else ""
        raise ConfigError(f"Leave out {' and '.join(wrong)}: with kind='{kind}'{folded}, {reason}.")
    return EvaluationPlan(
        kind=kind,
        num_splits=splits or 20,
        train_ratio=0.1 if train is None else train,
        val_ratio=0.1 if val is None else val,
        num_folds=10 if kind in NESTED_KINDS and folds is None else folds,
        num_seeds=seeds or (5 if kind in SEARCHES else 1),
        metric=metric,
    )
