"""How well latent features are predicted: the weight of the invariance, and `predict_latent`.

    python benchmarks/latent.py alpha --json benchmarks/results/latent.json
    python benchmarks/latent.py features --sets synthetic,Photo,PPI-small --data ROOT
        --json benchmarks/results/latent.json

alpha: on synthetic graphs, the squared error of F over the sum of squares of F, for several weights
of the invariance. features: features with added noise, or with a share of their entries removed;
the squared error over the variance of the features, on all entries or on those that were removed.
Features of real graphs count as latent: their own noise is part of what is to be predicted.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphlatent import GraphData, GraphLatentWarning, NodeLaGraph, load_dataset
from graphlatent.data.synthetic import latent_graph
from graphlatent.ops.sparse import to_dense
from graphlatent.theory import theory_alpha

SEEDS = (0, 1)
PAPER = {"preset": "paper", "hidden_dim": 64}


def share_of(predicted: Any, truth: Tensor, chosen: Tensor, centre: Tensor | float = 0.0) -> float:
    """The squared error over the squares of the truth about a centre, on the chosen entries."""
    error = (torch.as_tensor(predicted) - truth)[chosen].square().sum()
    return float(error / (truth - centre)[chosen].square().sum())


def weights(sigma: float, width: int) -> dict[str, dict[str, Any]]:
    """Settings by name."""
    printed, corrected = (theory_alpha(sigma, width, form=f) for f in ("printed", "corrected"))
    output = {"objective": "mse-output"}
    return {
        "embedding, alpha = 2 (the paper's default)": {},
        "output, alpha = 0": {**output, "alpha": 0.0},
        "output, alpha = 2 sigma (Theorem 1 as printed)": {**output, "alpha": printed},
        "output, alpha = 2 sigma sqrt(d) (corrected)": {**output, "alpha": corrected},
        "output, 10 times that": {**output, "alpha": 10 * corrected},
        "output, 1000 times that": {**output, "alpha": 1000 * corrected},
        "denoising autoencoder": {"objective": "denoise"},
    }


def measure_alpha() -> Iterator[dict[str, Any]]:
    """One entry for each noise, setting and seed."""
    for sigma in (0.5, 1.0, 1.5):
        for seed in SEEDS:
            made = latent_graph(sigma=sigma, seed=seed)
            latent, every = made.latent, torch.ones_like(made.latent, dtype=torch.bool)
            for name, settings in weights(sigma, latent.shape[1]).items():
                estimator = NodeLaGraph(**PAPER, **settings, random_state=seed).fit(made.graph)
                yield {
                    "part": "alpha",
                    "sigma": sigma,
                    "setting": name,
                    "seed": seed,
                    "decoder": share_of(estimator.reconstruct(made.graph), latent, every),
                    "predict_latent": share_of(
                        estimator.predict_latent(made.graph, sigma=sigma), latent, every
                    ),
                }


def neighbour_means(graph: GraphData, x: Tensor, known: Tensor, steps: int) -> Tensor:
    """Means of the known entries of each node and its neighbours, repeated."""
    source, target = graph.edge_index
    for _ in range(steps):
        total = (x * known).index_add(0, target, (x * known)[source])
        count = known.index_add(0, target, known[source])
        mean = (x * known).sum(0) / known.sum(0).clamp(min=1)
        x, known = torch.where(count > 0, total / count.clamp(min=1), mean), torch.ones_like(known)
    return x


def feature_propagation(graph: GraphData, x: Tensor, known: Tensor) -> Tensor:
    """Missing entries by 40 steps of averaging, observed ones put back after each step."""
    now = x
    for _ in range(40):
        now = torch.where(known > 0, x, neighbour_means(graph, now, torch.ones_like(x), 1))
    return now


def baselines(graph: GraphData, x: Tensor, known: Tensor, noise: float) -> dict[str, Tensor]:
    """Predictions without training."""
    found = {
        "neighbourhood average, 1 step": neighbour_means(graph, x, known, 1),
        "neighbourhood average, 2 steps": neighbour_means(graph, x, known, 2),
    }
    if noise > 0:
        mean, variance = x.mean(0), x.var(0)
        own = (1 - noise**2 / variance.clamp(min=1e-12)).clamp(min=0)
        return {
            "raw": x,
            "towards the mean, noise given": mean + own * (x - mean),
            **found,
        }
    return {
        "mean of the column": x,
        **found,
        "feature propagation": feature_propagation(graph, x, known),
    }


MODELS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper": {"preset": "paper"},
    "denoise": {"preset": "paper", "objective": "denoise", "mask_ratio": 0.25},
}


def measure_features(names: list[str], root: Path | None, small: bool) -> Iterator[dict[str, Any]]:
    """One entry for each set, damage, method and seed."""
    for name in names:
        for seed in SEEDS if name == "synthetic" else SEEDS[:1]:
            graph = (
                latent_graph(sigma=0.0, seed=seed).graph
                if name == "synthetic"
                else load_dataset(name, root=root).graph
            )
            assert graph.x is not None
            truth = to_dense(graph.x).to(torch.float32)
            spread = float((truth - truth.mean(0)).square().mean().sqrt())
            damages = [(1.0 * spread, 0.0), (0.0, 0.3)]
            if name == "synthetic":
                damages = [(0.5 * spread, 0.0), (1.5 * spread, 0.0), (0.0, 0.3), (0.0, 0.8)]
            for noise, removed in damages:
                damage = f"noise {noise / spread:g} sd" if noise else f"{removed:.0%} removed"
                for method, error in _errors(graph, truth, noise, removed, seed, small):
                    yield {
                        "part": "features",
                        "set": name,
                        "damage": damage,
                        "method": method,
                        "seed": seed,
                        "error": error,
                    }


def _errors(
    graph: GraphData, truth: Tensor, noise: float, removed: float, seed: int, small: bool
) -> Iterator[tuple[str, float]]:
    generator = torch.Generator().manual_seed(seed)
    x = truth + noise * torch.randn(truth.shape, generator=generator)
    known = (torch.rand(truth.shape, generator=generator) >= removed).float()
    mean = (x * known).sum(0) / known.sum(0).clamp(min=1)
    x = torch.where(known > 0, x, mean)
    chosen = known == 0 if removed else known > 0

    def error(predicted: Any) -> float:
        return share_of(predicted, truth, chosen, truth.mean(0))

    for method, predicted in baselines(graph, x, known, noise).items():
        yield method, error(predicted)
    damaged = graph.with_features(x)
    for name, settings in MODELS.items():
        size = {"hidden_dim": 128, "epochs": 60} if small else {}
        estimator = NodeLaGraph(**settings, **size, random_state=seed).fit(damaged)
        kinds: dict[str, dict[str, Any]] = {"": {"sigma": 0.0, "missing": known.numpy() == 0}}
        if noise:
            kinds = {", noise given": {"sigma": noise}, ", noise estimated": {}}
        for kind, options in kinds.items():
            predicted = estimator.predict_latent(damaged, **options)
            yield f"predict_latent, {name}{kind}", error(predicted)


def table(found: list[dict[str, Any]], row: str, columns: list[str], value: str) -> str:
    """Means over the seeds, as Markdown."""
    rows = list(dict.fromkeys(each[row] for each in found))
    heads = list(dict.fromkeys(tuple(each[c] for c in columns) for each in found))
    lines = [f"| | {' | '.join(', '.join(str(c) for c in head) for head in heads)} |"]
    lines.append("|" + "---|" * (len(heads) + 1))
    for name in rows:
        cells = []
        for head in heads:
            values = [
                each[value]
                for each in found
                if each[row] == name and tuple(each[c] for c in columns) == head
            ]
            cells.append(f"{np.mean(values):.3f}" if values else "-")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print and write the record."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("part", choices=["alpha", "features"])
    options.add_argument("--sets", default="synthetic")
    options.add_argument("--small", action="store_true", help="128 wide, 60 epochs")
    options.add_argument("--data", type=Path, default=None)
    options.add_argument("--json", type=Path, default=None, help="appended to where it is there")
    args = options.parse_args()
    warnings.simplefilter("ignore", GraphLatentWarning)
    names = args.sets.split(",")
    runs = (
        measure_alpha() if args.part == "alpha" else measure_features(names, args.data, args.small)
    )
    found = []
    for each in runs:
        print(each, flush=True)
        found.append(each)
    if args.part == "alpha":
        for value in ("decoder", "predict_latent"):
            print(f"\n{value}\n{table(found, 'setting', ['sigma'], value)}")
    else:
        print(table(found, "method", ["set", "damage"], "error"))
    if args.json:
        about = {
            "command": f"python benchmarks/latent.py {args.part} --sets {args.sets}"
            + (" --small" if args.small else "")
            + " --data ROOT",
            "hardware": f"{os.cpu_count()} CPU cores ({platform.machine()})",
            "versions": {"torch": torch.__version__},
            "date": datetime.date.today().isoformat(),
        }
        before = json.loads(args.json.read_text()) if args.json.exists() else []
        args.json.write_text(json.dumps([*before, {**about, "runs": found}], indent=1) + "\n")


if __name__ == "__main__":
    main()
