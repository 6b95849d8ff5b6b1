"""Results of several representations, metric by metric and seed by seed, and their summaries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

from graphlatent.probes.results import ProbeResult, Summary, paired, summarize

MetricResults: TypeAlias = Mapping[str, Sequence[ProbeResult]]
"""By the name of the metric, one result per seed."""

EMBEDDINGS = "embeddings"
RAW_FEATURES, PROPAGATED_FEATURES = "raw features", "propagated features"
UNTRAINED, APPENDED = "untrained encoder", "raw features appended"
MAJORITY, ALL_ZEROS, TRAINING_MEAN = "majority class", "all zeros", "training mean"
CONSTANTS = (MAJORITY, ALL_ZEROS, TRAINING_MEAN)
"""Predictions that look at no row."""


@dataclass(frozen=True, eq=False)
class ProbeComparison:
    """Results of embeddings and of the baselines beside them.

    Args:
        results: by the name of the representation; `EMBEDDINGS` comes first.
    """

    results: Mapping[str, MetricResults]

    @property
    def selection(self) -> str:
        """How the settings of the embeddings' probe were chosen, in words."""
        return next(iter(self.results[EMBEDDINGS].values()))[0].selection

    @property
    def metric(self) -> str:
        """The main metric."""
        return next(iter(self.results[EMBEDDINGS]))

    def summaries(self) -> dict[str, dict[str, Summary]]:
        """Summaries by representation and metric.

        Paired differences between the embeddings and each of the others come last, as "minus" and
        the other's name.
        """
        found = {
            name: {metric: summarize(results) for metric, results in metrics.items()}
            for name, metrics in self.results.items()
        }
        return found | {f"minus {name}": each for name, each in self.differences().items()}

    def differences(self) -> dict[str, dict[str, Summary]]:
        """Paired differences, the embeddings minus each of the others, by its name and metric."""
        ours = self.results[EMBEDDINGS]
        return {
            name: {metric: paired(ours[metric], theirs[metric]) for metric in ours}
            for name, theirs in self.results.items()
            if name != EMBEDDINGS
        }

    def to_dict(self) -> dict[str, Any]:
        """Summaries and results in plain values, for JSON; None in the place of NaN."""
        summaries = {
            name: {metric: {**asdict(s), "n": s.n} for metric, s in metrics.items()}
            for name, metrics in self.summaries().items()
        }
        results = {
            name: {metric: [r.to_dict() for r in each] for metric, each in metrics.items()}
            for name, metrics in self.results.items()
        }
        value: dict[str, Any] = _without_nan({"summary": summaries, "results": results})
        return value


def by_metric(results: Sequence[Mapping[str, ProbeResult]]) -> dict[str, list[ProbeResult]]:
    """The results of each seed by metric: those that chose their own settings first.

    Then the same predictions as the main ones under their other metrics.
    """
    found = {metric: [of_seed[metric] for of_seed in results] for metric in results[0]}
    main = next(iter(found.values()))
    for name in main[0].others:
        if name not in found:
            found[name] = [
                replace(result, scores=result.others[name], metric=name, others={})
                for result in main
            ]
    return found


def _without_nan(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
