"""Link prediction by embeddings, an untrained encoder and raw features, on the same splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sklearn.base import clone

from graphlatent.data.graph import GraphData
from graphlatent.errors import ConfigError
from graphlatent.estimator import Estimator
from graphlatent.probes.evaluation.comparison import (
    EMBEDDINGS,
    RAW_FEATURES,
    UNTRAINED,
    ProbeComparison,
)
from graphlatent.probes.links import LinkResult, LinkSplit, hold_out_edges, link_probe
from graphlatent.probes.results import ProbeResult
from graphlatent.representations import REPRESENTATIONS
from graphlatent.training.progress import series_of_trainings

COMPARED = {EMBEDDINGS: "trained", UNTRAINED: "random", RAW_FEATURES: "raw"}
"""Names of the compared representations in `REPRESENTATIONS`."""


@dataclass(frozen=True, eq=False)
class LinkPlan:
    """Which edges are held out.

    Args:
        val_ratio: share of the edges to choose the scorer of pairs on.
        test_ratio: share of the edges to measure on.
        seeds: each holds out other edges and trains another model.

    Raises:
        ConfigError: where a ratio is not above 0, or both make up all edges.
    """

    val_ratio: float = 0.05
    test_ratio: float = 0.1
    seeds: Sequence[int] = (0, 1, 2)

    def __post_init__(self) -> None:
        val, test = self.val_ratio, self.test_ratio
        if not (0 < val < 1 and 0 < test < 1 and val + test < 1):
            raise ConfigError(
                "'val' and 'test' are shares of the edges: both must be above 0 and their sum below"
                f" 1. Got {val} and {test}."
            )

    def splits(self, graph: GraphData) -> dict[int, LinkSplit]:
        """The graph without the held-out edges, and those edges, by seed."""
        return {
            seed: hold_out_edges(
                graph, val_ratio=self.val_ratio, test_ratio=self.test_ratio, seed=seed
            )
            for seed in self.seeds
        }


def evaluate_links(estimator: Estimator, splits: dict[int, LinkSplit]) -> ProbeComparison:
    """AUC and average precision of the held-out edges, one score per seed.

    Args:
        estimator: fitted with the seed as `random_state` on the edges that each split keeps.
        splits: by seed.
    """
    with series_of_trainings(len(splits)):
        found = [_representations(estimator, split, seed) for seed, split in splits.items()]
    return ProbeComparison({name: _by_metric([each[name] for each in found]) for name in found[0]})


def _representations(estimator: Estimator, split: LinkSplit, seed: int) -> dict[str, LinkResult]:
    """The result of every representation, all computed from the edges that the split keeps."""
    seeded: Estimator = clone(estimator).set_params(random_state=seed)
    return {
        name: link_probe(REPRESENTATIONS[key].rows(split.graph, seeded), split, seed=seed)
        for name, key in COMPARED.items()
    }


def _by_metric(results: list[LinkResult]) -> dict[str, list[ProbeResult]]:
    scores = {"AUC": [result.auc for result in results], "AP": [result.ap for result in results]}
    return {
        metric: [
            ProbeResult((value,), (result.choice,), result.selection, metric)
            for value, result in zip(values, results, strict=True)
        ]
        for metric, values in scores.items()
    }
