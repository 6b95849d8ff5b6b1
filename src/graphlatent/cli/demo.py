"""`graphlatent demo`: the main job on an embedded default, at both levels, with scores and
pictures.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from graphlatent.cli.output import Debug, Json, Output, Overwrite, Quiet, speaking
from graphlatent.data.graph import GraphData
from graphlatent.data.splits import Split, fold_splits, random_splits
from graphlatent.data.synthetic import (
    FAMILIES,
    LatentGraph,
    LatentGraphSet,
    latent_graph,
    latent_graph_set,
)
from graphlatent.estimator import Estimator
from graphlatent.io.atomic import refuse_existing, write_json
from graphlatent.io.runfolder import RunFolder
from graphlatent.methods.lagraph.estimators import GraphLaGraph, NodeLaGraph
from graphlatent.probes.linear import linear_probe
from graphlatent.probes.results import ProbeResult
from graphlatent.report.plots import plot_history, plot_map
from graphlatent.representations import propagated_features, raw_features
from graphlatent.training.progress import training_bar

Rows = dict[str, ProbeResult]


def demo(
    out: Annotated[
        Path, typer.Option("--out", help="Folder for runs, embeddings, scores and pictures.")
    ] = Path("demo"),
    seed: Annotated[
        int, typer.Option("--seed", help="Seed of the synthetic graphs and of training.", min=0)
    ] = 0,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Learn from synthetic latent graphs, where the truth is known; no downloads, about a
    minute.
    """
    with speaking(quiet=quiet, as_json=as_json, debug=debug) as output:
        refuse_existing(out, overwrite=overwrite)
        began = time.monotonic()
        bar = not quiet and not as_json
        nodes, denoised = _nodes(out / "node", seed, output, bar)
        graphs = _graphs(out / "graph", seed, output, bar)
        result: dict[str, Any] = {
            "node": {name: _numbers(probe) for name, probe in nodes.items()},
            "graph": {name: _numbers(probe) for name, probe in graphs.items()},
            "distance_to_latent_features": denoised,
        }
        seconds = round(time.monotonic() - began, 1)
        write_json(out / "results.json", {**result, "seconds": seconds})
        _report(output, nodes, graphs, denoised, out, seconds)
        output.result({**result, "seconds": seconds})


def _nodes(out: Path, seed: int, output: Output, bar: bool) -> tuple[Rows, dict[str, float]]:
    made = latent_graph(seed=seed)
    output.note(
        f"nodes: a graph of {made.graph.num_nodes:,} nodes in {len(np.unique(made.labels))}"
        f" communities, noise sigma {made.sigma:g}"
    )
    splits = random_splits(made.graph.num_nodes, num_splits=10, seed=seed, stratify=made.labels)
    estimator = NodeLaGraph(
        hidden_dim=128, epochs=200, alpha=theory_alpha(made), random_state=seed, progress=bar
    )
    rows = _rows(estimator, made.graph, made.labels, splits, out)
    _pictures(estimator, made.graph, made.labels, out, "Nodes of the synthetic graph, by community")
    return rows, _denoising(estimator, made)


def _graphs(out: Path, seed: int, output: Output, bar: bool) -> Rows:
    made = latent_graph_set(seed=seed)
    output.note(
        f"graphs: {made.graph.num_graphs:,} small graphs of {len(np.unique(made.labels))}"
        f" topologies, noise sigma {made.sigma:g}"
    )
    estimator = GraphLaGraph(
        hidden_dim=32,
        epochs=100,
        lr=1e-3,
        alpha=theory_alpha(made),
        random_state=seed,
        progress=bar,
    )
    rows = _rows(
        estimator, made.graph, made.labels, fold_splits(made.labels, val_ratio=0.25, seed=seed), out
    )
    _pictures(
        estimator,
        made.graph,
        np.array(list(FAMILIES))[made.labels],
        out,
        "Synthetic graphs, by topology",
    )
    return rows


def theory_alpha(made: LatentGraph | LatentGraphSet) -> float:
    """2 sigma sqrt(d): the weight of the invariance term in Theorem 1, with the sqrt(d) it lacks in
    print.

    On real data sigma is not known; here it is, so nothing has to be tried.
    """
    return 2 * made.sigma * math.sqrt(made.latent.shape[1])


def _rows(
    estimator: Estimator, graph: GraphData, labels: Any, splits: tuple[Split, ...], out: Path
) -> Rows:
    """The same probe, on the same splits, of three baselines and of LaGraph; fits the estimator on
    the way.
    """
    level: Any = estimator.level
    untrained = type(estimator)(**{**estimator.get_params(), "epochs": 0, "progress": False})
    run = RunFolder(out, replace=True)
    with training_bar(estimator) as hooks:
        estimator.fit(graph, run=run, hooks=hooks)
    embeddings = estimator.embed(graph)
    embeddings.save(out / "embeddings.parquet", overwrite=True)
    representations = {
        "raw features": raw_features(graph, level=level),
        "propagated features": propagated_features(graph, level=level),
        "random-initialised encoder": untrained.fit_transform(graph),
        "LaGraph": embeddings.values,
    }
    refit = estimator.level == "graph"  # folds: fitted once more on all but the test fold
    return {
        name: linear_probe(rows, labels, splits=splits, refit=refit)
        for name, rows in representations.items()
    }


def _denoising(estimator: NodeLaGraph, made: LatentGraph) -> dict[str, float]:
    """Mean squared distance of a node to its latent features: as observed, and as LaGraph predicts
    it.
    """
    observed = made.graph.x
    assert isinstance(observed, torch.Tensor)
    predicted = torch.from_numpy(estimator.reconstruct(made.graph))
    return {
        "observed": round(float((observed - made.latent).square().sum(1).mean()), 3),
        "predicted": round(float((predicted - made.latent).square().sum(1).mean()), 3),
    }


def _pictures(estimator: Estimator, graph: GraphData, labels: Any, out: Path, title: str) -> None:
    plot_history(estimator.history_.columns(), out / "loss.png")
    plot_map(estimator.transform(graph), out / "map.png", labels=labels, title=title)


def _numbers(probe: ProbeResult) -> dict[str, Any]:
    return {
        "mean": probe.mean,
        "std": probe.std,
        "scores": list(probe.scores),
        "selection": probe.selection,
    }


def _report(
    output: Output, nodes: Rows, graphs: Rows, denoised: dict[str, float], out: Path, seconds: float
) -> None:
    table = [
        [name, *(f"{100 * p.mean:.1f} ± {100 * p.std:.1f}" for p in (nodes[name], graphs[name]))]
        for name in nodes
    ]
    output.table(
        "linear probe, test accuracy in % (mean ± spread over splits)",
        ["representation", "nodes", "graphs"],
        table,
    )
    output.say(f"How it was selected, nodes: {nodes['LaGraph'].selection}")
    output.say(f"How it was selected, graphs: {graphs['LaGraph'].selection}")
    output.say(
        f"Distance to the hidden features F: observed {denoised['observed']:.1f}, predicted by"
        f" LaGraph {denoised['predicted']:.1f}"
    )
    output.say(
        f"Embeddings: {out / 'node' / 'embeddings.parquet'}, {out / 'graph' / 'embeddings.parquet'}"
    )
    output.say(
        f"Pictures: {out / 'node' / 'map.png'}, {out / 'graph' / 'map.png'} and loss.png beside"
        " them"
    )
    output.say(f"Done in {seconds:.0f} s. Next: graphlatent train YOUR_EDGES.csv --out my-run")
