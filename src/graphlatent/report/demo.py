"""The demo: training on synthetic latent graphs at both levels, with scores and pictures.

On synthetic graphs the latent features are known, so that the distance of a prediction to them can
be measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from graphlatent.data.graph import GraphData
from graphlatent.data.splits import Split, fold_splits, random_splits
from graphlatent.data.synthetic import (
    FAMILIES,
    LatentGraph,
    latent_graph,
    latent_graph_set,
)
from graphlatent.estimator import Estimator
from graphlatent.io.runfolder import RunFolder
from graphlatent.methods.lagraph.estimators import GraphLaGraph, NodeLaGraph
from graphlatent.ops.threads import threads_for
from graphlatent.probes.linear import linear_probe
from graphlatent.probes.results import ProbeResult
from graphlatent.report.maps import plot_map
from graphlatent.report.plots import plot_history
from graphlatent.representations import REPRESENTATIONS
from graphlatent.theory.bounds import theory_alpha
from graphlatent.training.progress import training_bar


@dataclass(frozen=True, eq=False)
class DemoResult:
    """Scores at both levels, and how well the latent features are predicted.

    Args:
        node: the probe's result by representation, at node level.
        graph: the same at graph level.
        observed_distance: mean squared distance of the observed features to the latent ones.
        predicted_distance: that of the predictions of LaGraph as in the paper.
    """

    node: Mapping[str, ProbeResult]
    graph: Mapping[str, ProbeResult]
    observed_distance: float
    predicted_distance: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "node": {name: _plain(result) for name, result in self.node.items()},
            "graph": {name: _plain(result) for name, result in self.graph.items()},
            "distance_to_latent_features": {
                "observed": self.observed_distance,
                "predicted": self.predicted_distance,
            },
        }


def run_demo(
    out: Path,
    *,
    seed: int = 0,
    progress: bool = False,
    maps: bool = True,
    note: Callable[[str], object],
) -> DemoResult:
    """Train, probe and draw, at node level in `out`/node and at graph level in `out`/graph.

    Args:
        out: the folder.
        seed: of the synthetic graphs and of training.
        progress: show a progress bar.
        maps: whether to draw maps.
        note: is called with a sentence on each of the synthetic data sets.
    """
    # Its graphs are small throughout.
    with threads_for(0):
        return _run(out, seed=seed, progress=progress, maps=maps, note=note)


def _run(
    out: Path, *, seed: int, progress: bool, maps: bool, note: Callable[[str], object]
) -> DemoResult:
    made = latent_graph(seed=seed)
    note(
        f"nodes: a graph of {made.graph.num_nodes:,} nodes in {len(np.unique(made.labels))}"
        f" communities, noise sigma {made.sigma:g}"
    )
    nodes = NodeLaGraph(size="small", random_state=seed, progress=progress)
    splits = random_splits(made.graph.num_nodes, num_splits=10, seed=seed, stratify=made.labels)
    node_results = _results(nodes, made.graph, made.labels, splits, out / "node")
    title = "Nodes of the synthetic graph, by community"
    _draw(nodes, made.graph, made.labels, out / "node", title, maps=maps)

    several = latent_graph_set(seed=seed)
    note(
        f"graphs: {several.graph.num_graphs:,} small graphs of {len(np.unique(several.labels))}"
        f" topologies, noise sigma {several.sigma:g}"
    )
    graphs = GraphLaGraph(
        preset="paper",
        hidden_dim=32,
        epochs=100,
        lr=1e-3,
        alpha=theory_alpha(several.sigma, several.latent.shape[1]),
        # The demo takes no settings, and its scores show what training is worth.
        on_collapse="ignore",
        random_state=seed,
        progress=progress,
    )
    splits = fold_splits(several.labels, val_ratio=0.25, seed=seed)
    graph_results = _results(graphs, several.graph, several.labels, splits, out / "graph")
    names = np.array(list(FAMILIES))[several.labels]
    title = "Synthetic graphs, by topology"
    _draw(graphs, several.graph, names, out / "graph", title, maps=maps)
    # Theorem 1, which says how close the prediction is to the latent features, is about the
    # paper's objective.
    denoising = NodeLaGraph(
        preset="paper",
        hidden_dim=128,
        epochs=200,
        alpha=theory_alpha(made.sigma, made.latent.shape[1]),
        on_collapse="ignore",
        random_state=seed,
    )
    return DemoResult(node_results, graph_results, *_distances(denoising.fit(made.graph), made))


def _results(
    estimator: Estimator, graph: GraphData, labels: Any, splits: tuple[Split, ...], out: Path
) -> dict[str, ProbeResult]:
    """The same probe, on the same splits, of three baselines and of the estimator.

    The estimator is fitted into the run folder `out`.
    """
    with training_bar(estimator) as hooks:
        estimator.fit(graph, run=RunFolder(out, replace=True), hooks=hooks)
    embeddings = estimator.embed(graph)
    embeddings.save(out / "embeddings.parquet", overwrite=True)
    rows: dict[str, Any] = {
        REPRESENTATIONS[name].title: REPRESENTATIONS[name].rows(graph, estimator)
        for name in ("raw", "propagated", "random")
    }
    rows["LaGraph"] = embeddings.values
    # With folds: fitted once more on all but the test fold.
    refit = estimator.level == "graph"
    return {
        name: linear_probe(each, labels, splits=splits, refit=refit) for name, each in rows.items()
    }


def _distances(estimator: NodeLaGraph, made: LatentGraph) -> tuple[float, float]:
    """Mean squared distance of a node to its latent features: as observed, and as predicted."""
    observed = made.graph.x
    assert isinstance(observed, torch.Tensor)
    predicted = torch.from_numpy(estimator.reconstruct(made.graph))
    return (
        round(float((observed - made.latent).square().sum(1).mean()), 3),
        round(float((predicted - made.latent).square().sum(1).mean()), 3),
    )


def _draw(
    estimator: Estimator, graph: GraphData, labels: Any, out: Path, title: str, *, maps: bool
) -> None:
    plot_history(estimator.history_, out / "loss.png")
    if maps:
        rows = estimator.transform(graph)
        plot_map(rows, out / "map.png", labels=labels, title=title, method="tsne")


def _plain(result: ProbeResult) -> dict[str, Any]:
    return {
        "mean": result.mean,
        "std": result.std,
        "scores": list(result.scores),
        "selection": result.selection,
    }
